// Seats: at most three jobs run at a time. The first three of nine jobs start immediately, the next three when those
// are done. The last three wait for longer than their patience, and are rejected without ever having held a seat.
//     g++ -std=c++20 01_seats.cpp -o 01_seats $(pkg-config --cflags --libs weir)

#include <weir/format.hpp>
#include <weir/weir.hpp>

#include <boost/asio.hpp>

#include <fmt/format.h>

using namespace std::chrono_literals;
namespace asio = boost::asio;

asio::awaitable<void> job(weir::seats& workers, int number) {
    try {
        auto const seat = co_await workers.enter(150ms);  // released at the end of this block
        fmt::print("job {} starts, after {} in the queue\n", number, weir::readable(seat.waited()));
        asio::steady_timer work(co_await asio::this_coro::executor, 100ms);
        co_await work.async_wait(asio::use_awaitable);
        fmt::print("job {} is done\n", number);
    } catch (weir::rejection const& rejection) {
        fmt::print("job {} is rejected: {}\n", number, rejection);
    }
}

int main() {
    asio::io_context context;
    weir::seats workers{context, {.seats = 3}};
    for (int number = 1; number <= 9; ++number)
        co_spawn(context, job(workers, number), asio::detached);
    context.run();

    auto const stats = workers.stats();
    fmt::print("{}\n", stats);
    return stats.granted + stats.timed_out == 9 && stats.granted_immediately >= 3 ? 0 : 1;
}
