// A rate: at most ten calls in any minute. Not ten in each minute of the clock, which would allow twenty calls within
// two seconds. A permit counts for a minute, also after its release. The eleventh call is rejected with the time to
// wait; the twelfth is rejected at once, because the time to wait exceeds its patience.
//     g++ -std=c++20 02_ten_per_minute.cpp -o 02_ten_per_minute $(pkg-config --cflags --libs weir)

#include <weir/format.hpp>
#include <weir/weir.hpp>

#include <boost/asio.hpp>

#include <fmt/format.h>

using namespace std::chrono_literals;
namespace asio = boost::asio;

asio::awaitable<void> make_calls(weir::sliding_log& calls) {
    for (int number = 1; number <= 10; ++number) {
        auto const call = co_await calls.enter();
        fmt::print("call {}: {}\n", number, call);
    }
    auto const now = calls.try_enter();
    fmt::print("call 11: {}\n", now);

    auto const [error, none] = co_await calls.async_enter(5s, asio::as_tuple(asio::deferred));
    fmt::print("call 12: {}, {}\n", error.message(), none);
}

int main() {
    asio::io_context context;
    weir::sliding_log calls{context, {.limit = 10, .window = 60s}};
    co_spawn(context, make_calls(calls), asio::detached);
    context.run();

    auto const stats = calls.stats();
    fmt::print("{}\n", stats);
    return stats.granted == 10 && stats.no_permit == 1 && stats.deadline_unreachable == 1 ? 0 : 1;
}
