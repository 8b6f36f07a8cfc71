#include <weir/chain.hpp>

#include "support/printing.hpp"
#include "support/virtual_limiters.hpp"

#include <boost/asio/detached.hpp>
#include <boost/test/unit_test.hpp>

#include <optional>
#include <utility>
#include <vector>

// Checks how long a chain waits for limiters that have permits at different times, and the cost for other requests.

using namespace support;
using weir::chain;
using weir::chain_permit;
using weir::errc;
using weir::error_code;
using weir::permit;

namespace {

constexpr auto hold = 10ms;

asio::awaitable<void> pause(clock::duration time) {
    weir::testing::timer timer{co_await asio::this_coro::executor, time};
    co_await timer.async_wait(asio::deferred);
}

// Enters forever, and keeps the seat for `hold` each time.
asio::awaitable<void> comes_again(seats& there, clock::duration first_after) {
    co_await pause(first_after);
    for (;;) {
        auto const seat = co_await there.enter();
        co_await pause(hold);
    }
}

// Two limiters with one seat each, which are released at different instants and are never both free.
struct never_free {
    asio::io_context ctx;
    seats a{ctx, {.seats = 1}};
    seats b{ctx, {.seats = 1}};

    never_free() {
        for (int i = 0; i != 2; ++i) {
            co_spawn(ctx, comes_again(a, 1ns), asio::detached);
            co_spawn(ctx, comes_again(b, 5ms), asio::detached);
        }
        run_for(ctx, 100ms);
    }

    // Returns how long a chain with these options waits, if it is granted within `most`.
    std::optional<clock::duration> wait(weir::chain_options const& options, clock::duration most) {
        auto const begin = clock::now();
        std::optional<clock::duration> waited;
        chain both{options, a, b};
        both.async_enter([&](error_code ec, chain_permit<2> const&) {
            if (!ec)
                waited = clock::now() - begin;
        });
        run_for(ctx, most);
        a.cancel();
        settle(ctx);
        return waited;
    }
};

}  // namespace

BOOST_AUTO_TEST_SUITE(chain_starvation)

// While no request behind the chain is granted, a limiter needs the present hold, and the hold of the request before
// it.
BOOST_AUTO_TEST_CASE(the_wait_is_bounded) {
    constexpr auto longest = 2 * hold;
    for (int passes = 1; passes <= 12; ++passes) {
        never_free busy;
        auto const reserve_for = 100ms;
        auto const waited = busy.wait({.passes = passes, .reserve_for = reserve_for}, 10s);
        BOOST_TEST_REQUIRE(waited.has_value());
        BOOST_TEST((*waited <= (passes + 1) * longest + reserve_for));
    }
}

BOOST_AUTO_TEST_CASE(without_a_reservation_the_wait_is_unbounded) {
    never_free busy;
    BOOST_TEST(!busy.wait({.passes = 1'000'000}, 10s).has_value());
}

// Each earlier chain over overlapping limiters adds the same time.
BOOST_AUTO_TEST_CASE(the_wait_behind_other_chains_is_bounded) {
    constexpr auto longest = 2 * hold;
    constexpr auto reserve_for = 100ms;
    never_free busy;
    seats c{busy.ctx, {.seats = 1}};
    for (int i = 0; i != 2; ++i)
        co_spawn(busy.ctx, comes_again(c, 2ms), asio::detached);
    run_for(busy.ctx, 50ms);

    weir::chain_options const options{.passes = 3, .reserve_for = reserve_for};
    std::vector<clock::duration> waited;
    auto const begin = clock::now();
    auto const note = [&](error_code ec, chain_permit<2> const&) {
        BOOST_TEST(!ec);
        waited.push_back(clock::now() - begin);
    };
    for (int i = 0; i != 3; ++i) {
        chain{options, busy.a, busy.b}.async_enter(note);
        chain{options, c, busy.b}.async_enter(note);
        chain{options, c, busy.a}.async_enter(note);
    }
    run_for(busy.ctx, 10s);
    BOOST_TEST_REQUIRE(waited.size() == 9U);
    for (int older = 0; older != 9; ++older)
        BOOST_TEST((waited[static_cast<std::size_t>(older)] <=
                    (older + 1) * ((options.passes + 1) * longest + reserve_for)));
}

// The seat at b is never released. The chain is overdue, and keeps other requests from a for as long as it may.
BOOST_AUTO_TEST_CASE(a_stuck_limiter_keeps_others_idle_for_the_configured_time) {
    asio::io_context ctx;
    seats a{ctx, {.seats = 1}};
    seats b{ctx, {.seats = 1}};
    chain both{weir::chain_options{.passes = 2, .reserve_for = 300ms}, a, b};
    std::optional<error_code> ended;
    auto at_a = a.try_enter();
    both.async_enter([&](error_code ec, chain_permit<2> const&) { ended = ec; });
    auto at_b = b.try_enter();
    settle(ctx);
    at_a.leave();  // the first lost turn
    settle(ctx);
    BOOST_TEST((!ended && b.stats().waiting == 1U));
    at_a = a.try_enter();
    at_b.leave();  // the second lost turn: it reserves
    settle(ctx);
    BOOST_TEST((!ended && a.stats().waiting == 1U && b.stats().waiting == 1U));
    BOOST_TEST(!b.try_enter());
    std::optional<permit> other;
    b.async_enter([&](error_code ec, permit p) {
        BOOST_TEST(!ec);
        other = std::move(p);
    });
    run_for(ctx, 300ms);
    BOOST_TEST((!other && b.stats().in_use == 0));
    run_for(ctx, 2ms);
    BOOST_TEST((other && !ended));
    BOOST_TEST((a.stats().waiting == 1U && b.stats().waiting == 0U));

    other->leave();
    at_a.leave();
    settle(ctx);
    BOOST_TEST((ended && !*ended));
}

BOOST_AUTO_TEST_SUITE_END()
