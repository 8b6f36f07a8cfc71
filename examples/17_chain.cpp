// Three limits at once: two workers, 50 calls per second for all clients, and two calls per second for each client.
// Each call needs a permit of all three. A chain acquires all permits or none: while Ann's second call waits for her
// own rate, it holds no worker, and Bob is served.
//     g++ -std=c++20 17_chain.cpp -o 17_chain $(pkg-config --cflags --libs weir)

#include <weir/format.hpp>
#include <weir/weir.hpp>

#include <boost/asio.hpp>

#include <fmt/format.h>

#include <array>
#include <string>

using namespace std::chrono_literals;
namespace asio = boost::asio;

using client_limit = weir::keyed<std::string, weir::policy::token_bucket>;

struct service {
    weir::seats workers;
    client_limit per_client;
    weir::token_bucket calls;
    int granted = 0;
    int rejected = 0;
};

asio::awaitable<void> call(service& s, std::string client, weir::patience wait) {
    weir::chain all{s.workers, s.per_client.with(client), s.calls};
    auto const [error, permits] = co_await all.async_enter(wait, asio::as_tuple(asio::deferred));
    if (error) {
        constexpr std::array limits{"the workers", "the client's rate", "the total rate"};
        fmt::print("{}: rejected by {}, retry in {}\n", client,
                   limits.at(permits.rejected_by().value()),
                   weir::readable(permits.retry_after().value_or(weir::duration::zero())));
        ++s.rejected;
        co_return;
    }
    ++s.granted;
    fmt::print("{}: granted after {}\n", client, weir::readable(permits.waited()));
    asio::steady_timer work(co_await asio::this_coro::executor, 20ms);
    co_await work.async_wait(asio::use_awaitable);
}

int main() {
    asio::io_context context;
    service s{weir::seats{context, {.seats = 2}},
              client_limit{context, {.rate = {2, 1s}, .burst = 1}},
              weir::token_bucket{context, {.rate = {50, 1s}, .burst = 5}}};
    for (int i = 0; i != 3; ++i)
        co_spawn(context, call(s, "ann", 1min), asio::detached);
    co_spawn(context, call(s, "bob", 1min), asio::detached);
    co_spawn(context, call(s, "bob", 0s), asio::detached);  // does not wait
    context.run();
    bool const all_or_none = s.calls.stats().granted == 4 && s.workers.stats().granted == 4;
    return s.granted == 4 && s.rejected == 1 && all_or_none ? 0 : 1;
}
