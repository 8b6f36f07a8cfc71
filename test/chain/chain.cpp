#include <weir/chain.hpp>
#include <weir/keyed.hpp>
#include <weir/token_bucket.hpp>

#include "support/printing.hpp"
#include "support/virtual_limiters.hpp"
#include "support/visit.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/strand.hpp>
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

// Chains on one thread, on schedules that were computed by hand.

using namespace support;
using weir::amount;
using weir::chain;
using weir::chain_permit;
using weir::errc;
using weir::error_code;
using weir::permit;

namespace {

using per_client = weir::testing::keyed<std::string, weir::token_bucket>;

// The completions of waiting chains, in their order.
struct ends {
    struct one {
        int number;
        error_code ec;
        std::optional<std::size_t> by;
        std::optional<weir::duration> retry_after;
    };
    std::vector<one> all;
    std::vector<chain_permit<2>> permits;

    auto note(int number) {
        return [this, number](error_code ec, chain_permit<2> p) {
            all.push_back({number, ec, p.rejected_by(), p.retry_after()});
            if (p)
                permits.push_back(std::move(p));
        };
    }
    // The granted chains, and the rejected ones.
    [[nodiscard]] std::vector<int> granted() const {
        std::vector<int> result;
        for (auto const& e : all) {
            if (!e.ec)
                result.push_back(e.number);
        }
        return result;
    }
    [[nodiscard]] one const& only() const {
        BOOST_TEST_REQUIRE(all.size() == 1U);
        return all.front();
    }
};

// Two limiters with one seat each.
struct two_seats {
    asio::io_context ctx;
    seats a{ctx, {.seats = 1}};
    seats b{ctx, {.seats = 1}};
    chain<weir::detail::link_of_t<seats>, weir::detail::link_of_t<seats>> both{a, b};
    ends end;
};

amount in_use(auto const& limiter) {
    return limiter.stats().in_use;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(chain_on_one_thread)

// Class and flow reach each limiter of a chain. They select the request that makes way for it, and the partition for which
// its seats count.
BOOST_AUTO_TEST_CASE(passes_class_and_flow_to_its_limiters) {
    asio::io_context ctx;
    seats urgent{ctx,
                 {.seats = 1},
                 {.max_waiting = 1,
                  .full = weir::when_full::evict_oldest,
                  .order = weir::queue_order::priority}};
    seats parted{ctx,
                 {.seats = 10},
                 {.order = weir::queue_order::shares, .partitions = {{"live", 50}, {"batch", 50}}}};
    auto const live = weir::partition_flow("live");
    auto const chain_of_class = [&](int priority) {
        return weir::chain(urgent.with({1, {.priority = priority}}),
                           parted.with({2, {.flow = live}}));
    };
    auto const in_use_live = [&] {
        auto const all = parted.shares();
        return std::ranges::find(all, "live", [](auto const& s) { return s.partition.name(); })
            ->in_use;
    };

    auto held = chain_of_class(5).try_enter();
    BOOST_TEST_REQUIRE(static_cast<bool>(held));
    BOOST_TEST(in_use_live() == 2);

    ends end;
    visit waits;
    urgent.async_enter({1, {.priority = 4}}, waits.callback());
    settle(ctx);
    auto later = chain_of_class(5);  // less urgent than the waiting request, so that it is rejected
    later.async_enter(end.note(1));
    settle(ctx);
    BOOST_TEST(waits.waiting());
    BOOST_TEST(end.only().ec == errc::queue_full);
    auto sooner = chain_of_class(2);
    sooner.async_enter(end.note(2));
    settle(ctx);
    BOOST_TEST(waits.rejected(errc::shed));
    held.leave();
    settle(ctx);
    BOOST_TEST((end.granted() == std::vector{2}));
    BOOST_TEST(in_use_live() == 2);
    end.permits.clear();
    BOOST_TEST(in_use_live() == 0);
}

BOOST_FIXTURE_TEST_CASE(takes_all_or_nothing, two_seats) {
    {
        error_code ec;
        auto turn = both.try_enter(ec);
        BOOST_TEST((turn && !ec));
        BOOST_TEST((in_use(a) == 1 && in_use(b) == 1));
        BOOST_TEST((!both.try_enter(ec) && ec == errc::no_permit));
    }
    BOOST_TEST((in_use(a) == 0 && in_use(b) == 0));

    auto const taken = b.try_enter();
    error_code ec;
    auto const rejected = both.try_enter(ec);
    BOOST_TEST((!rejected && ec == errc::no_permit));
    BOOST_TEST((rejected.rejected_by() == 1U));
    BOOST_TEST(in_use(a) == 0);
    BOOST_TEST(b.stats().no_permit == 1U);
    BOOST_TEST(a.stats().no_permit == 1U);
}

BOOST_AUTO_TEST_CASE(wait_is_counted_at_the_limiter_that_caused_it) {
    asio::io_context ctx;
    seats kitchen{ctx, {.seats = 1}};
    token_bucket global{ctx, {.rate = {1, 1s}, .burst = 5}};
    per_client clients{ctx, {.rate = {1, 1s}, .burst = 5}};
    chain door{global, clients.with("one"), kitchen};

    auto seat = kitchen.try_enter();
    bool granted = false;
    door.async_enter([&](error_code ec, chain_permit<3> const&) { granted = !ec; });
    run_for(ctx, 2s);
    BOOST_TEST(kitchen.snapshot().waits.count() == 0U);
    seat.leave();
    settle(ctx);
    BOOST_TEST(granted);
    auto const waits = kitchen.snapshot().waits;
    BOOST_TEST(waits.count() == 1U);
    BOOST_TEST((waits.quantile(1) >= 2s && waits.quantile(1) <= 2250ms));
    BOOST_TEST((global.snapshot().waits.count() == 0U && clients.snapshot().waits.count() == 0U));
    BOOST_TEST((global.stats().granted_immediately == 1U));
    BOOST_TEST((clients.stats().total.granted_immediately == 1U));
}

BOOST_AUTO_TEST_CASE(release_and_refund_reach_all_limiters) {
    asio::io_context ctx;
    token_bucket one{ctx, {.rate = {1, 1h}, .burst = 5}};
    token_bucket other{ctx, {.rate = {1, 1h}, .burst = 7}};
    chain both{one.with(2), other.with(3)};

    auto turn = both.try_enter();
    BOOST_TEST((turn[0].count() == 2 && turn[1].count() == 3));
    BOOST_TEST((one.stats().remaining == 3 && other.stats().remaining == 4));
    turn.refund();
    BOOST_TEST(!turn);
    BOOST_TEST((one.stats().remaining == 5 && other.stats().remaining == 7));

    turn = both.try_enter();
    turn.leave();
    BOOST_TEST((one.stats().remaining == 3 && other.stats().remaining == 4));
    BOOST_TEST((one.stats().live == 0U && other.stats().live == 0U));
}

BOOST_AUTO_TEST_CASE(takes_several_seats_of_one_limiter) {
    asio::io_context ctx;
    seats a{ctx, {.seats = 3}};
    seats b{ctx, {.seats = 2}};
    a.try_enter().leave();  // from now on their locks count
    b.try_enter().leave();
    chain both{a.with(2), b};
    auto turn = both.try_enter();
    BOOST_TEST((turn[0].count() == 2 && turn[1].count() == 1));
    BOOST_TEST((in_use(a) == 2 && in_use(b) == 1));
    BOOST_TEST(!both.try_enter());
    turn.leave();
    BOOST_TEST((in_use(a) == 0 && in_use(b) == 0));
}

BOOST_FIXTURE_TEST_CASE(parts_can_be_used_separately, two_seats) {
    {
        auto turn = both.try_enter();
        turn[0].leave();
        BOOST_TEST((in_use(a) == 0 && in_use(b) == 1));
        BOOST_TEST(static_cast<bool>(turn));
    }
    BOOST_TEST(in_use(b) == 0);

    auto one = both.try_enter();
    auto other = std::move(one);
    BOOST_TEST((!one && other));
    one = std::move(other);
    BOOST_TEST((in_use(a) == 1 && in_use(b) == 1));
}

BOOST_AUTO_TEST_CASE(a_limiter_that_is_named_twice_gets_a_request_for_the_sum) {
    asio::io_context ctx;
    seats a{ctx, {.seats = 3}};
    seats b{ctx, {.seats = 1}};
    chain all{a, b, a.with(2)};
    auto turn = all.try_enter();
    BOOST_TEST((turn && in_use(a) == 3 && in_use(b) == 1));
    BOOST_TEST((turn[0].count() == 3 && turn[1].count() == 1 && !turn[2]));
    turn.leave();
    BOOST_TEST((in_use(a) == 0 && in_use(b) == 0));
    error_code ec;
    BOOST_TEST((!chain{a.with(2), a.with(2)}.try_enter(ec) && ec == errc::exceeds_capacity));
}

BOOST_AUTO_TEST_CASE(checks_are_in_the_order_of_the_checks_of_a_limiter) {
    asio::io_context ctx;
    seats a{ctx, {.seats = 1}};
    seats b{ctx, {.seats = 1}};
    error_code ec;
    auto rejected = chain{a.with(2), b}.try_enter(ec);
    BOOST_TEST((ec == errc::exceeds_capacity && rejected.rejected_by() == 0U));
    BOOST_TEST(!rejected.retry_after());

    auto const nothing = chain{a.with(0), b.with(0)}.try_enter(ec);
    BOOST_TEST((nothing && !ec && in_use(a) == 0));

    b.close();
    rejected = chain{a.with(2), b}.try_enter(ec);
    BOOST_TEST((ec == errc::closed && rejected.rejected_by() == 1U));
    BOOST_TEST(b.stats().closed == 1U);
}

BOOST_AUTO_TEST_CASE(retry_after_is_the_largest_known_time) {
    asio::io_context ctx;
    token_bucket slow{ctx, {.rate = {1, 10s}, .burst = 1, .initial = 0}};
    token_bucket fast{ctx, {.rate = {1, 3s}, .burst = 1, .initial = 0}};
    seats kitchen{ctx, {.seats = 1}};
    auto const seat = kitchen.try_enter();

    auto rejected = chain{fast, slow}.try_enter();
    BOOST_TEST((rejected.retry_after() == 10s && rejected.rejected_by() == 1U));
    auto three = chain{kitchen, fast, slow}.try_enter();
    BOOST_TEST((three.retry_after() == 10s && three.rejected_by() == 2U));
    rejected = chain{kitchen, kitchen.with(0)}.try_enter();
    BOOST_TEST((!rejected.retry_after() && rejected.rejected_by() == 0U));
}

// Found in another project: grafana/dskit#1007.
BOOST_FIXTURE_TEST_CASE(holds_nothing_while_it_waits, two_seats) {
    auto at_b = b.try_enter();
    both.async_enter(end.note(1));
    settle(ctx);
    BOOST_TEST(in_use(a) == 0);

    auto at_a = a.try_enter();  // no request waits there
    BOOST_TEST(static_cast<bool>(at_a));
    at_b.leave();
    settle(ctx);
    BOOST_TEST((end.all.empty() && in_use(b) == 0));  // now it waits for a
    BOOST_TEST(static_cast<bool>(b.try_enter()));

    at_a.leave();
    settle(ctx);
    BOOST_TEST(end.granted() == std::vector{1});
    BOOST_TEST((in_use(a) == 1 && in_use(b) == 1));
    end.permits.clear();
    BOOST_TEST((in_use(a) == 0 && in_use(b) == 0));
}

// Arrivals: the chain, then p1 and p2 at b. It waits for a, so p1 is granted; when a has a free seat, it waits for b,
// before p2.
BOOST_FIXTURE_TEST_CASE(keeps_its_position_in_the_queues_that_it_is_not_in, two_seats) {
    auto at_a = a.try_enter();
    auto at_b = b.try_enter();
    both.async_enter(end.note(1));
    std::vector<int> plain;
    permit p1;
    permit p2;
    b.async_enter([&](error_code, permit p) {
        plain.push_back(1);
        p1 = std::move(p);
    });
    b.async_enter([&](error_code, permit p) {
        plain.push_back(2);
        p2 = std::move(p);
    });
    settle(ctx);
    BOOST_TEST((a.stats().waiting == 1U && b.stats().waiting == 2U));

    at_b.leave();
    settle(ctx);
    BOOST_TEST(plain == std::vector{1});
    at_a.leave();
    settle(ctx);
    BOOST_TEST((end.all.empty() && a.stats().waiting == 0U && b.stats().waiting == 2U));
    BOOST_TEST(static_cast<bool>(a.try_enter()));

    p1.leave();
    settle(ctx);
    BOOST_TEST(end.granted() == std::vector{1});
    BOOST_TEST(plain == std::vector{1});
    end.permits.clear();
    settle(ctx);
    BOOST_TEST(plain == (std::vector{1, 2}));
}

BOOST_FIXTURE_TEST_CASE(chains_over_the_same_limiters_are_granted_in_order_of_arrival, two_seats) {
    chain turned{b, a};
    auto at_a = a.try_enter();
    both.async_enter(end.note(1));
    turned.async_enter(end.note(2));
    both.async_enter(end.note(3));
    auto at_b = b.try_enter();
    BOOST_TEST(static_cast<bool>(at_b));
    for (int granted = 0; granted != 3; ++granted) {
        settle(ctx);
        at_a.leave();
        settle(ctx);
        at_b.leave();
        settle(ctx);
        BOOST_TEST(end.all.size() == static_cast<std::size_t>(granted + 1));
        end.permits.clear();
        settle(ctx);
    }
    BOOST_TEST(end.granted() == (std::vector{1, 2, 3}));
}

BOOST_FIXTURE_TEST_CASE(delays_requests_behind_it_in_its_queue, two_seats) {
    auto at_a = a.try_enter();
    both.async_enter(end.note(1));
    settle(ctx);
    BOOST_TEST(!a.try_enter());
    BOOST_TEST(a.stats().waiting_for == 1);
    bool entered = false;
    a.async_enter([&](error_code, permit const&) { entered = true; });
    at_a.leave();
    settle(ctx);
    BOOST_TEST((end.granted() == std::vector{1} && !entered));
    end.permits.clear();
    settle(ctx);
    BOOST_TEST(entered);
}

// Arrivals: an older request, the chain, and a later request of the first class or of another flow. Only `priority` and
// `fair` see the standing of a chain.
BOOST_AUTO_TEST_CASE(in_an_order_that_ignores_its_standing_it_precedes_all_later_requests) {
    using weir::queue_order;
    std::vector<std::string> const by_class{"younger", "elder", "chain"};
    std::vector<std::string> const by_flow{"elder", "younger", "chain"};
    std::vector<std::string> const by_arrival{"elder", "chain", "younger"};
    std::vector<std::string> const chain_first{"chain", "younger", "elder"};
    for (auto const order :
         {queue_order::fifo, queue_order::lifo, queue_order::adaptive_lifo, queue_order::codel,
          queue_order::priority, queue_order::fair, queue_order::shares}) {
        asio::io_context ctx;
        seats a{ctx, {.seats = 1}, {.order = order}};
        seats b{ctx, {.seats = 1}};
        auto at_a = a.try_enter();
        std::vector<std::string> seen;
        auto const note = [&](std::string who) {
            return [&seen, who](error_code ec, auto const&) {
                BOOST_TEST(!ec);
                seen.push_back(who);
            };
        };
        a.async_enter(note("elder"));
        chain{a, b}.async_enter(note("chain"));
        auto const urgent = order == queue_order::fair || order == queue_order::shares
                                ? weir::standing{.flow = 1}
                                : weir::standing{.priority = 0};
        a.async_enter({1, urgent}, note("younger"));
        settle(ctx);
        at_a.leave();
        settle(ctx);
        BOOST_TEST(seen == (order == queue_order::lifo       ? chain_first
                            : order == queue_order::priority ? by_class
                            : order == queue_order::fair     ? by_flow
                                                             : by_arrival));
    }
}

// The first limiter blocks for 4 s, the second until 10 s, the third never.
BOOST_AUTO_TEST_CASE(counts_a_wait_where_it_was_spent) {
    asio::io_context ctx;
    seats first{ctx, {.seats = 1}, {.name = "first"}};
    seats second{ctx, {.seats = 1}, {.name = "second"}};
    seats third{ctx, {.seats = 1}, {.name = "third"}};
    std::vector<std::string> events;
    auto const observe = [&](seats& s) {
        s.observe([&](weir::request_event const& e) {
            events.push_back(std::string(e.limiter.view()) + ' ' +
                             std::to_string(e.waited.value() / 1s) + (e.error ? " rejected" : ""));
        });
    };
    observe(first);
    observe(second);
    observe(third);
    auto at_first = first.try_enter();
    auto at_second = second.try_enter();
    chain_permit<3> all;
    chain both{first, second, third};
    both.async_enter([&](error_code ec, chain_permit<3> p) {
        BOOST_TEST(!ec);
        all = std::move(p);
    });
    run_for(ctx, 4s);
    at_first.leave();
    run_for(ctx, 6s);
    at_second.leave();
    settle(ctx);
    BOOST_TEST_REQUIRE(static_cast<bool>(all));
    BOOST_TEST(all.waited() == 10s);
    BOOST_TEST((all[0].waited() == 4s && all[1].waited() == 6s && all[2].waited() == 0s));
    std::ranges::sort(events);
    BOOST_TEST((events == std::vector<std::string>{"first 4", "second 6"}));

    // `try_enter` was granted immediately by two of them, and the chain by the third.
    BOOST_TEST((first.stats().waited_total == 4s && first.stats().granted_immediately == 1U));
    BOOST_TEST((second.stats().waited_total == 6s && second.stats().granted_immediately == 1U));
    BOOST_TEST((third.stats().waited_total == 0s && third.stats().granted_immediately == 1U));
    BOOST_TEST(first.snapshot().waits.count() == 1U);
    BOOST_TEST(third.snapshot().waits.count() == 0U);

    all.leave();
    BOOST_TEST(all.waited() == 0s);
}

BOOST_AUTO_TEST_CASE(waits_for_the_last_of_several_rates) {
    asio::io_context ctx;
    token_bucket fast{ctx, {.rate = {1, 3s}, .burst = 1, .initial = 0}};
    token_bucket slow{ctx, {.rate = {1, 10s}, .burst = 1, .initial = 0}};
    seats kitchen{ctx, {.seats = 1}};
    chain both{fast, slow};
    ends end;
    both.async_enter(end.note(1));
    run_for(ctx, 10s - 1ns);
    BOOST_TEST(end.all.empty());
    BOOST_TEST(fast.stats().remaining == 1);
    run_for(ctx, 1ns);
    BOOST_TEST(end.granted() == std::vector{1});
    BOOST_TEST(end.permits[0].waited() == 10s);

    // The seat is free after 4 s, the token at 20 s: the chain moves, and is granted then.
    auto seat = kitchen.try_enter();
    chain dine{kitchen, slow};
    dine.async_enter(end.note(2));
    run_for(ctx, 4s);
    seat.leave();
    settle(ctx);
    BOOST_TEST((kitchen.stats().waiting == 0U && slow.stats().waiting == 1U));
    run_for(ctx, 6s - 1ns);
    BOOST_TEST(end.all.size() == 1U);
    run_for(ctx, 1ns);
    BOOST_TEST(end.granted() == (std::vector{1, 2}));
}

BOOST_FIXTURE_TEST_CASE(patience_ends_without_side_effects, two_seats) {
    auto at_b = b.try_enter();
    both.async_enter(2s, end.note(1));
    run_for(ctx, 2s);
    BOOST_TEST(end.all.empty());
    run_for(ctx, 2ms);
    BOOST_TEST((end.only().ec == errc::timed_out && end.only().by == 1U));
    BOOST_TEST((b.stats().timed_out == 1U && b.stats().waiting == 0U));
    BOOST_TEST(ctx.stopped());
    at_b.leave();
    BOOST_TEST(static_cast<bool>(both.try_enter()));

    end.all.clear();
    auto const at_a = a.try_enter();
    both.async_enter(0s, end.note(2));
    settle(ctx);
    BOOST_TEST((end.only().ec == errc::timed_out && end.only().by == 0U));
}

BOOST_AUTO_TEST_CASE(a_grant_that_would_come_too_late_is_rejected_immediately) {
    asio::io_context ctx;
    token_bucket slow{ctx, {.rate = {1, 10s}, .burst = 1, .initial = 0}};
    seats kitchen{ctx, {.seats = 1}, {.max_waiting = 1}};
    auto seat = kitchen.try_enter();
    ends end;
    chain both{kitchen, slow};
    both.async_enter(9s, end.note(1));
    settle(ctx);
    BOOST_TEST((end.only().ec == errc::deadline_unreachable && end.only().by == 1U));
    BOOST_TEST((end.only().retry_after == 10s));

    end.all.clear();
    both.async_enter(end.note(2));
    both.async_enter(end.note(3));
    settle(ctx);
    BOOST_TEST((end.only().number == 3 && end.only().ec == errc::queue_full));
    BOOST_TEST((end.only().by == 0U && kitchen.stats().queue_full == 1U));
}

BOOST_FIXTURE_TEST_CASE(is_cancelled_by_its_slot, two_seats) {
    asio::cancellation_signal signal;
    auto const at_b = b.try_enter();
    both.async_enter(asio::bind_cancellation_slot(signal.slot(), end.note(1)));
    settle(ctx);
    signal.emit(asio::cancellation_type::terminal);
    settle(ctx);
    BOOST_TEST((end.only().ec == asio::error::operation_aborted));
    BOOST_TEST((a.stats().cancelled == 1U && b.stats().waiting == 0U && ctx.stopped()));
}

BOOST_FIXTURE_TEST_CASE(is_notified_by_each_of_its_limiters, two_seats) {
    auto const at_b = b.try_enter();
    both.async_enter(end.note(1));
    settle(ctx);
    a.cancel();  // it does not wait there
    settle(ctx);
    BOOST_TEST((end.only().ec == asio::error::operation_aborted && end.only().by == 0U));

    end.all.clear();
    both.async_enter(end.note(2));
    settle(ctx);
    a.configure({.seats = 2});
    settle(ctx);
    BOOST_TEST(end.all.empty());
    a.close();
    settle(ctx);
    BOOST_TEST((end.only().ec == errc::closed && end.only().by == 0U));
    BOOST_TEST(b.stats().waiting == 0U);
}

BOOST_AUTO_TEST_CASE(a_limit_lowered_below_its_request_rejects_it) {
    asio::io_context ctx;
    seats a{ctx, {.seats = 2}};
    seats b{ctx, {.seats = 1}};
    auto const at_b = b.try_enter();
    ends end;
    chain both{a.with(2), b};
    both.async_enter(end.note(1));
    settle(ctx);
    a.configure({.seats = 1});
    settle(ctx);
    BOOST_TEST((end.only().ec == errc::exceeds_capacity && end.only().by == 0U));
}

BOOST_AUTO_TEST_CASE(a_limiter_may_be_destroyed) {
    for (bool const home : {false, true}) {
        asio::io_context ctx;
        std::optional<seats> a{std::in_place, ctx, seats::options_type{.seats = 1}};
        std::optional<seats> b{std::in_place, ctx, seats::options_type{.seats = 1}};
        auto at_b = b->try_enter();
        ends end;
        chain{*a, *b}.async_enter(end.note(1));
        settle(ctx);
        (home ? a : b).reset();
        settle(ctx);
        BOOST_TEST(end.only().ec == errc::closed);
        BOOST_TEST((end.only().by == (home ? 0U : 1U)));
    }
}

BOOST_FIXTURE_TEST_CASE(waiting_chains_are_served_to_the_end_after_a_shutdown, two_seats) {
    auto at_b = b.try_enter();
    both.async_enter(end.note(1));
    bool drained = false;
    a.shutdown();
    b.shutdown();
    a.async_drain([&](error_code ec) { drained = !ec; });
    settle(ctx);
    BOOST_TEST(!drained);  // it waits in another queue
    at_b.leave();
    settle(ctx);
    BOOST_TEST((end.granted() == std::vector{1} && !drained));
    error_code ec;
    BOOST_TEST((!both.try_enter(ec) && ec == errc::closed));
    end.permits.clear();
    settle(ctx);
    BOOST_TEST(drained);
}

BOOST_AUTO_TEST_CASE(limiters_may_have_different_contexts) {
    asio::io_context one;
    asio::io_context other;
    seats a{one, {.seats = 1}};
    seats b{other, {.seats = 1}};
    auto at_b = b.try_enter();
    ends end;
    chain both{a, b};
    both.async_enter(1s, end.note(1));
    settle(one, other);
    BOOST_TEST((!one.stopped() && !other.stopped()));  // each is kept running
    at_b.leave();
    settle(other);
    BOOST_TEST(end.all.empty());
    settle(one);
    BOOST_TEST(end.granted() == std::vector{1});  // the home is the first
    end.permits.clear();
    settle(one, other);
    BOOST_TEST((one.stopped() && other.stopped()));
}

BOOST_AUTO_TEST_CASE(the_end_of_a_context_ends_the_chain) {
    for (bool const home : {false, true}) {
        auto one = std::make_unique<asio::io_context>();
        auto other = std::make_unique<asio::io_context>();
        seats a{*one, {.seats = 1}};
        seats b{*other, {.seats = 1}};
        auto at_b = b.try_enter();
        ends end;
        auto const alive = std::make_shared<int>();
        chain{a, b}.async_enter(
            [note = end.note(1), alive](error_code ec, chain_permit<2> p) mutable {
                note(ec, std::move(p));
            });
        settle(*one, *other);
        (home ? one : other).reset();
        if (one)
            settle(*one);
        BOOST_TEST(alive.use_count() == 1);
        if (home)
            BOOST_TEST(end.all.empty());
        else
            BOOST_TEST((end.only().ec == errc::closed && end.only().by == 1U));
        at_b.leave();
    }
}

BOOST_FIXTURE_TEST_CASE(coroutines_await_it, two_seats) {
    auto at_b = b.try_enter();
    std::vector<std::string> seen;
    auto const guest = [&]() -> asio::awaitable<void> {
        try {
            auto const turn = co_await both.enter(1s);
        } catch (weir::chain_rejection const& rejection) {
            BOOST_TEST((rejection.code() == errc::timed_out && rejection.rejected_by() == 1U));
            seen.emplace_back("rejected");
        }
        auto const turn = co_await both.async_enter(5s);
        seen.emplace_back("granted");
        auto const [ec, none] = co_await both.async_enter(0s, asio::as_tuple(asio::deferred));
        BOOST_TEST(ec == errc::timed_out);
    };
    co_spawn(ctx, guest, rethrow);
    run_for(ctx, 2s);
    at_b.leave();
    settle(ctx);
    BOOST_TEST(seen == (std::vector<std::string>{"rejected", "granted"}));
    auto const run = [&]() -> asio::awaitable<void> {
        auto const cook = [&] { return in_use(a) + in_use(b); };
        amount const used = co_await both.run(cook, 1s);
        BOOST_TEST(used == 2);
        seen.emplace_back("ran");
    };
    co_spawn(ctx, run, rethrow);
    settle(ctx);
    BOOST_TEST(seen.size() == 3U);
    BOOST_TEST((in_use(a) == 0 && in_use(b) == 0));
}

BOOST_AUTO_TEST_CASE(keys_are_members_like_any_limiter) {
    asio::io_context ctx;
    seats kitchen{ctx, {.seats = 1}};
    per_client clients{ctx, {.rate = {1, 10s}, .burst = 2}, {.shards = 1}};
    ends end;
    for (int i = 1; i <= 2; ++i) {
        auto turn = chain{clients.with("ann"), kitchen}.try_enter();
        BOOST_TEST(static_cast<bool>(turn));
    }
    auto rejected = chain{clients.with("ann"), kitchen}.try_enter();
    BOOST_TEST((rejected.rejected_by() == 0U && rejected.retry_after() == 10s));
    BOOST_TEST(in_use(kitchen) == 0);

    chain{clients.with("ann"), kitchen}.async_enter(end.note(1));
    settle(ctx);
    BOOST_TEST(clients.stats("ann").waiting == 1U);
    BOOST_TEST(
        // no chain waits for bob
        static_cast<bool>(chain{clients.with("bob"), kitchen}.try_enter()));
    run_for(ctx, 10s);
    BOOST_TEST(end.granted() == std::vector{1});

    // Two keys of one part, and the seat is still taken.
    chain{clients.with("bob"), clients.with("cat", 2)}.async_enter(end.note(2));
    settle(ctx);
    BOOST_TEST(end.granted() == (std::vector{1, 2}));
    chain{kitchen, clients.with("dan")}.async_enter(end.note(3));
    settle(ctx);
    BOOST_TEST((end.all.size() == 2U && kitchen.stats().waiting == 1U));
    BOOST_TEST(clients.stats("dan").waiting == 0U);
    end.permits.clear();
    settle(ctx);
    BOOST_TEST(end.granted() == (std::vector{1, 2, 3}));

    chain{clients.with("ann"), clients.with("ann")}.async_enter(30s, end.note(4));
    run_for(ctx, 20s - 1ns);
    BOOST_TEST(end.all.size() == 3U);
    clients.close();
    settle(ctx);
    BOOST_TEST(end.all.back().ec == errc::closed);
    end.permits.clear();
    settle(ctx);
    BOOST_TEST((ctx.stopped() && clients.stats().total.live == 0U));
}

// The key is not in its home part, and the claim changes nothing.
BOOST_AUTO_TEST_CASE(a_key_wakes_it_up_after_a_claim_that_did_not_move_it) {
    asio::io_context ctx;
    seats kitchen{ctx, {.seats = 1}};
    per_client clients{ctx, {.rate = {1, 1s}, .burst = 1}};
    auto const taken = clients.try_enter("alice");
    std::optional<error_code> ended;
    chain{kitchen, clients.with("alice")}.async_enter([&](error_code ec, chain_permit<2> const&) {
        ended = ec;
    });
    settle(ctx);
    clients.configure(std::string("alice"), {.rate = {2, 1s}, .burst = 1});
    settle(ctx);
    BOOST_TEST(!ended);
    run_for(ctx, 1s);
    BOOST_TEST((ended && !*ended));
}

BOOST_AUTO_TEST_CASE(invalid_options_are_named) {
    asio::io_context ctx;
    seats a{ctx, {.seats = 1}};
    BOOST_CHECK_THROW((chain{weir::chain_options{.passes = 0}, a}), std::invalid_argument);
    BOOST_CHECK_THROW((chain{weir::chain_options{.reserve_for = 0s}, a}), std::invalid_argument);
}

BOOST_AUTO_TEST_SUITE_END()
