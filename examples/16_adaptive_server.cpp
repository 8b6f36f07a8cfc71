// A server whose capacity the limiter does not know. The server has 8 workers, each of which takes 5 ms for a request,
// and a queue without a bound. A crowd of 64 clients sends requests as fast as it can. The adaptive seats lower their
// number while fewer requests at a time get as many responses, so that requests do not wait inside the server.
//     g++ -std=c++20 16_adaptive_server.cpp -o 16_adaptive_server $(pkg-config --cflags --libs weir)

#include <weir/format.hpp>
#include <weir/weir.hpp>

#include <boost/asio.hpp>

#include <fmt/format.h>

using namespace std::chrono_literals;
namespace asio = boost::asio;

struct server {
    weir::seats workers;
    weir::adaptive_seats door;
    int responses = 0;
    bool is_open = true;
};

asio::awaitable<void> sleep(std::chrono::milliseconds length) {
    asio::steady_timer timer(co_await asio::this_coro::executor, length);
    co_await timer.async_wait(asio::use_awaitable);
}

asio::awaitable<void> client(server& s) {
    while (s.is_open) {
        if (auto const seat =
                s.door.try_enter()) {  // the limiter measures how long the seat is held
            auto const worker = co_await s.workers.enter();
            co_await sleep(5ms);
            ++s.responses;
        } else {
            co_await sleep(5ms);  // a rejection: 503 with Retry-After
        }
    }
}

asio::awaitable<void> watch(server& s) {
    for (int i = 0; i != 4; ++i) {
        s.responses = 0;
        co_await sleep(500ms);
        fmt::print("{} seats, {} responses per second\n", s.door.stats().capacity, 2 * s.responses);
    }
    s.is_open = false;
}

int main() {
    asio::io_context context;
    server s{weir::seats{context, {.seats = 8}, {.max_waiting = 1'000'000}},
             weir::adaptive_seats{context, weir::knee_options{.max = 400}, {.max_waiting = 0}}};
    for (int i = 0; i != 64; ++i)
        co_spawn(context, client(s), asio::detached);
    co_spawn(context, watch(s), asio::detached);
    context.run();
    auto const stats = s.door.stats();
    return stats.live == 0 && stats.granted > 100 && stats.capacity < 400 ? 0 : 1;
}
