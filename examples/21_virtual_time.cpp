// Virtual time in your tests: a day of calls at ten per minute takes milliseconds, with the same result each time.
// The code under test has the type of its limiter as a parameter; the program uses the default.
//     g++ -std=c++20 21_virtual_time.cpp -o 21_virtual_time $(pkg-config --cflags --libs weir)

#include <weir/testing.hpp>
#include <weir/weir.hpp>

#include <boost/asio.hpp>

#include <fmt/format.h>

#include <chrono>

using namespace std::chrono_literals;
namespace asio = boost::asio;

template <class Calls = weir::sliding_log>
class client {
public:
    explicit client(asio::io_context& context) : calls_(context, {.limit = 10, .window = 60s}) {}

    asio::awaitable<void> work() {
        for (;; ++done)
            auto const call = co_await calls_.enter();
    }

    int done = 0;

private:
    Calls calls_;
};

int main() {
    asio::io_context context;
    client<weir::testing::limiter<weir::sliding_log>> tested(context);
    co_spawn(context, tested.work(), asio::detached);

    weir::testing::run_for(context, 59s);
    if (tested.done != 10)
        return 1;
    weir::testing::run_for(context, 24h - 59s - 1ns);
    fmt::print("{} calls in a day\n", tested.done);
    return tested.done == 10 * 24 * 60 ? 0 : 1;
}
