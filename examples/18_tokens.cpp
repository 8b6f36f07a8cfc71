// An API of a language model allows 10 requests and 10,000 tokens per second. The number of tokens of a response is
// known only at its end. So a request acquires the largest number that it may use, and settles it to the number used:
// the rest is free for other requests at once. Tokens above the acquired number become debt, for which later requests
// wait.
//     g++ -std=c++20 18_tokens.cpp -o 18_tokens $(pkg-config --cflags --libs weir)

#include <weir/format.hpp>
#include <weir/weir.hpp>

#include <boost/asio.hpp>

#include <fmt/format.h>

#include <algorithm>

using namespace std::chrono_literals;
namespace asio = boost::asio;

struct model {
    weir::token_bucket requests;
    weir::token_bucket tokens;
    weir::amount used = 0;
    weir::amount largest_debt = 0;
};

// Makes a request for at most `most` tokens, whose response takes `truth`.
asio::awaitable<void> ask(model& m, weir::amount most, weir::amount truth) {
    weir::chain both{m.requests, m.tokens.with(most)};
    auto permits = co_await both.enter();
    asio::steady_timer answer(co_await asio::this_coro::executor, 20ms);
    co_await answer.async_wait(asio::use_awaitable);
    permits[1].settle(truth);
    m.used += truth;
    m.largest_debt = std::max(m.largest_debt, m.tokens.stats().debt);
    fmt::print("acquired {} tokens, used {}; {}\n", most, truth, m.tokens.stats());
}

int main() {
    asio::io_context context;
    model m{weir::token_bucket{context, {.rate = {10, 1s}, .burst = 10}},
            weir::token_bucket{context, {.rate = {10'000, 1s}, .burst = 10'000}}};
    // Without settling, the last of these requests would wait for 1.3 s, because the burst has 10,000 of 23,000 tokens.
    for (int i = 0; i != 9; ++i)
        co_spawn(context, ask(m, 2'500, 1'000), asio::detached);
    co_spawn(context, ask(m, 500, 20'000), asio::detached);
    auto const start = weir::token_bucket::clock_type::now();
    context.run();
    auto const took = weir::token_bucket::clock_type::now() - start;
    fmt::print("{} tokens after {}\n", m.used, weir::readable(took));
    return m.used == 29'000 && m.largest_debt > 0 ? 0 : 1;
}
