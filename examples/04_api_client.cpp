// A client of an API that allows 20 calls in any 100 ms, and that is overloaded once: it responds with 429 and
// `Retry-After`. Then all workers wait for that time, and the rejected call is repeated. Four workers make 60 calls as
// fast as allowed. In front of a real API, replace `call_api`.
//     g++ -std=c++20 04_api_client.cpp -o 04_api_client $(pkg-config --cflags --libs weir)

#include <weir/format.hpp>
#include <weir/weir.hpp>

#include <boost/asio.hpp>

#include <fmt/format.h>

#include <optional>

using namespace std::chrono_literals;
namespace asio = boost::asio;

struct response {
    int status = 200;
    std::optional<std::chrono::milliseconds> retry_after;
};

// Stands for a request by HTTP. The response to the 30th is 429.
asio::awaitable<response> call_api() {
    static int received = 0;
    bool const is_overloaded = ++received == 30;
    asio::steady_timer network(co_await asio::this_coro::executor, 5ms);
    co_await network.async_wait(asio::use_awaitable);
    co_return is_overloaded ? response{429, 200ms} : response{};
}

struct job {
    weir::sliding_log quota;
    int started = 0;
    int done = 0;
    int repeated = 0;
};

asio::awaitable<void> worker(job& all) {
    while (all.started < 60) {
        auto const number = ++all.started;
        for (;;) {
            auto const call = co_await all.quota.enter();
            auto const got = co_await call_api();
            if (got.status != 429)
                break;
            auto const wait = got.retry_after.value_or(1s);
            fmt::print("call {}: 429, Retry-After: {}\n", number, weir::readable(wait));
            all.quota.pause_for(wait);  // no worker calls before that
            ++all.repeated;
        }
        ++all.done;
    }
}

int main() {
    asio::io_context context;
    job all{weir::sliding_log{context, {.limit = 20, .window = 100ms}}};
    for (int i = 0; i != 4; ++i)
        co_spawn(context, worker(all), asio::detached);
    auto const start = weir::sliding_log::clock_type::now();
    context.run();
    auto const took = weir::sliding_log::clock_type::now() - start;

    fmt::print("{} calls, {} repeated, {}\n", all.done, all.repeated, all.quota.stats());
    return all.done == 60 && all.repeated == 1 && took >= 300ms ? 0 : 1;
}
