#include <weir/weir.hpp>

#include "support/virtual_limiters.hpp"

#include <boost/test/unit_test.hpp>

#include <functional>
#include <string>
#include <vector>

using namespace support;
using weir::amount;
using weir::refill;
using weir::window_alignment;

namespace {

// The number of permits granted in the hour that begins with the first grant, its last instant included, to four
// callers. Each always has a request of `n` permits waiting.
template <class Limiter>
amount granted_in_an_hour(typename Limiter::options_type const& options, amount n = 1) {
    clock::advance_to(clock::time_point((clock::now().time_since_epoch() / 1h + 1) * 1h));
    asio::io_context ctx;
    weir::testing::limiter<Limiter> limiter{ctx, options};
    amount granted = 0;
    auto const caller = [&]() -> asio::awaitable<void> {
        for (;;) {
            auto const permit = co_await limiter.enter(n);
            granted += permit.count();
            co_await asio::post(asio::deferred);
        }
    };
    for (int i = 0; i != 4; ++i)
        co_spawn(ctx, caller(), rethrow);
    run_for(ctx, 1h);
    return granted;
}

struct row {
    std::string what;
    std::function<amount()> granted;
    amount allowed;
};

constexpr amount seconds = 3600;

std::vector<row> const table{
    {"sliding_log: 10 in any second",
     [] { return granted_in_an_hour<weir::sliding_log>({.limit = 10, .window = 1s}); },
     10 * (seconds + 1)},
    {"sliding_window: 10 in any second, by thirtieths",
     [] {
         return granted_in_an_hour<weir::sliding_window>({.limit = 10, .window = 1s, .slices = 30});
     },
     10 * (seconds + 1)},
    {"sliding_window: 60 in any minute, undivided, two at a time",
     [] {
         return granted_in_an_hour<weir::sliding_window>(
             {.limit = 60, .window = 1min, .slices = 1}, 2);
     },
     60 * (60 + 1)},
    {"fixed_window: 10 in each second",
     [] { return granted_in_an_hour<weir::fixed_window>({.limit = 10, .window = 1s}); },
     10 * (seconds + 1)},
    {"fixed_window: 10 in each second of the clock",
     [] {
         return granted_in_an_hour<weir::fixed_window>(
             {.limit = 10, .window = 1s, .alignment = window_alignment::epoch});
     },
     10 * (seconds + 1)},
    {"token_bucket: 7 a second, with a fractional number of nanoseconds between them",
     [] { return granted_in_an_hour<weir::token_bucket>({.rate = {7, 1s}}); }, 7 * seconds + 7},
    {"token_bucket: one each three seconds, five at first",
     [] { return granted_in_an_hour<weir::token_bucket>({.rate = {1, 3s}, .burst = 5}); },
     seconds / 3 + 5},
    {"token_bucket: 7 a second, empty at first, three at a time",
     [] {
         return granted_in_an_hour<weir::token_bucket>(
             {.rate = {7, 1s}, .burst = 4, .initial = 0}, 3);
     },
     7 * seconds},
    {"token_bucket: 10 at the end of each second, 25 at first",
     [] {
         return granted_in_an_hour<weir::token_bucket>(
             {.rate = {10, 1s}, .burst = 25, .refill = refill::interval});
     },
     10 * seconds + 25},
    {"leaky_bucket: 7 a second",
     [] { return granted_in_an_hour<weir::leaky_bucket>({.rate = {7, 1s}}); }, 7 * seconds + 1},
    {"leaky_bucket: a third of a second apart, up to four at once",
     [] { return granted_in_an_hour<weir::leaky_bucket>({.rate = {3, 1s}, .capacity = 4}); },
     3 * seconds + 4},
    {"smooth_bursty: 7 a second, ten seconds of them at first",
     [] {
         return granted_in_an_hour<weir::smooth_bursty>(
             {.rate = {7, 1s}, .max_burst = 10s, .initial = 10s});
     },
     7 * (seconds + 10) + 1},
    {"smooth_warming_up: 2 a second, and the first four in four seconds",
     [] { return granted_in_an_hour<weir::smooth_warming_up>({.rate = {2, 1s}, .warm_up = 4s}); },
     4 + 2 * (seconds - 4) + 1},
};

}  // namespace

BOOST_AUTO_TEST_SUITE(limiter_throughput)

BOOST_AUTO_TEST_CASE(callers_that_always_wait_get_exactly_the_allowed_number) {
    for (auto const& [what, granted, allowed] : table)
        BOOST_TEST(granted() == allowed, what << ": " << granted() << ", not " << allowed);
}

BOOST_AUTO_TEST_SUITE_END()
