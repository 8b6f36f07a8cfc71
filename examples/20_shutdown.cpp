// A server that shuts down. On SIGTERM it finishes active requests, and rejects new and waiting requests. It ends when
// all permits are released, but after two seconds at the latest. The program sends itself the signal.
//     g++ -std=c++20 20_shutdown.cpp -o 20_shutdown $(pkg-config --cflags --libs weir)

#include <weir/format.hpp>
#include <weir/weir.hpp>

#include <boost/asio.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>

#include <fmt/format.h>

#include <csignal>

using namespace std::chrono_literals;
using namespace boost::asio::experimental::awaitable_operators;
namespace asio = boost::asio;

asio::awaitable<void> sleep(std::chrono::milliseconds length) {
    asio::steady_timer timer(co_await asio::this_coro::executor, length);
    co_await timer.async_wait(asio::use_awaitable);
}

asio::awaitable<void> request(weir::seats& workers, int number) {
    auto const [error, seat] = co_await workers.async_enter(asio::as_tuple(asio::deferred));
    if (error) {
        fmt::print("request {}: {}\n", number, error.message());  // 503
        co_return;
    }
    co_await sleep(300ms);
    fmt::print("request {}: done\n", number);
}

asio::awaitable<void> serve(weir::seats& workers) {
    auto const executor = co_await asio::this_coro::executor;
    for (int number = 1; number <= 5; ++number)
        co_spawn(executor, request(workers, number), asio::detached);
    asio::signal_set signals(executor, SIGTERM, SIGINT);
    std::raise(SIGTERM);
    co_await signals.async_wait(asio::use_awaitable);

    workers.close();  // `shutdown` would also serve the requests that wait
    co_spawn(executor, request(workers, 6), asio::detached);
    auto const first = co_await (workers.async_drain(asio::use_awaitable) || sleep(2s));
    fmt::print("{}\n", first.index() == 0 ? "all requests are finished" : "the time is over");
}

int main() {
    asio::io_context context;
    weir::seats workers{context, {.seats = 2}};
    co_spawn(context, serve(workers), asio::detached);
    context.run();
    auto const stats = workers.stats();
    return stats.granted == 2 && stats.closed == 4 && stats.live == 0 ? 0 : 1;
}
