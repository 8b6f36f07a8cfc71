#include "support/virtual_limiters.hpp"
#include "support/visit.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/use_future.hpp>
#include <boost/test/unit_test.hpp>

#include <memory>
#include <optional>
#include <vector>

using namespace support;
using weir::errc;
using weir::error_code;
using weir::permit;

namespace {

// The result of one `async_drain`.
struct drained {
    std::optional<error_code> result;
    [[nodiscard]] auto callback() {
        return [this](error_code ec) {
            BOOST_TEST(!result);
            result = ec;
        };
    }
    [[nodiscard]] bool waiting() const { return !result; }
    [[nodiscard]] bool ok() const { return result && !*result; }
    [[nodiscard]] bool aborted() const { return result == asio::error::operation_aborted; }
    [[nodiscard]] bool closed() const { return result == errc::closed; }
};

}  // namespace

BOOST_AUTO_TEST_SUITE(limiter_close)

BOOST_AUTO_TEST_CASE(rejects_waiting_requests_and_newcomers) {
    asio::io_context ctx;
    seats kitchen{ctx, {.seats = 1}};
    auto seat = kitchen.try_enter();
    visit queued{kitchen};
    settle(ctx);
    visit arriving{kitchen, 1h};
    kitchen.close();
    visit newcomer{kitchen};
    BOOST_TEST(queued.waiting());  // close() calls no handler
    settle(ctx);
    BOOST_TEST(queued.rejected(errc::closed));
    BOOST_TEST(arriving.rejected(errc::closed));
    BOOST_TEST(newcomer.rejected(errc::closed));
    error_code ec;
    BOOST_TEST(!kitchen.try_enter(1, ec));
    BOOST_TEST(ec == errc::closed);
    BOOST_TEST(!kitchen.charge(1));
    BOOST_TEST(kitchen.stats().closed == 4U);
    BOOST_TEST(ctx.stopped());
    BOOST_TEST((error_code(errc::closed) == boost::system::errc::broken_pipe));
}

BOOST_AUTO_TEST_CASE(leaves_granted_permits_valid) {
    asio::io_context ctx;
    seats kitchen{ctx, {.seats = 2}};
    auto seat = kitchen.try_enter();
    kitchen.close();
    kitchen.close();
    settle(ctx);
    BOOST_TEST(bool(seat));
    BOOST_TEST(seat.remaining() == 1);
    seat.leave();
    BOOST_TEST(kitchen.stats().remaining == 2);
    BOOST_TEST(!kitchen.try_enter());
}

BOOST_AUTO_TEST_CASE(during_a_grant_either_grants_or_closes) {
    asio::io_context ctx;
    seats kitchen{ctx, {.seats = 1}};
    auto seat = kitchen.try_enter();
    visit before{kitchen};
    settle(ctx);
    seat.leave();  // passes the seat to the head at once
    kitchen.close();
    settle(ctx);
    BOOST_TEST(before.granted());
    BOOST_TEST(kitchen.stats().live == 1U);
    BOOST_TEST(kitchen.stats().closed == 0U);

    seats cafe{ctx, {.seats = 2}};
    auto both = cafe.try_enter(2);
    cafe.async_enter([&](error_code ec, permit) {
        BOOST_TEST(!ec);
        cafe.close();
    });
    visit granted_with_it{cafe};
    visit behind{cafe};
    settle(ctx);
    both.leave();
    settle(ctx);
    BOOST_TEST(granted_with_it.granted());
    BOOST_TEST(behind.rejected(errc::closed));
}

BOOST_AUTO_TEST_CASE(stays_closed_after_a_later_shutdown) {
    asio::io_context ctx;
    seats kitchen{ctx, {.seats = 1}, {.max_waiting = 100}};
    auto seat = kitchen.try_enter();
    std::vector<visit> guests;
    for (int i = 0; i != 40; ++i)  // more than one call of close() completes
        guests.emplace_back(kitchen);
    settle(ctx);
    kitchen.close();
    kitchen.shutdown();
    seat.leave();
    settle(ctx);
    for (auto const& guest : guests)
        BOOST_TEST(guest.rejected(errc::closed));
    BOOST_TEST(kitchen.stats().remaining == 1);
}

BOOST_AUTO_TEST_CASE(cancel_during_a_grant_either_grants_or_cancels) {
    asio::io_context ctx;
    seats cafe{ctx, {.seats = 2}};
    auto both = cafe.try_enter(2);
    cafe.async_enter([&](error_code ec, permit) {
        BOOST_TEST(!ec);
        cafe.cancel();
    });
    visit granted_with_it{cafe};
    visit behind{cafe};
    settle(ctx);
    both.leave();
    settle(ctx);
    BOOST_TEST(granted_with_it.granted());
    BOOST_TEST(behind.rejected(asio::error::operation_aborted));
}

BOOST_AUTO_TEST_CASE(completes_a_great_many_requests) {
    asio::io_context ctx;
    seats kitchen{ctx, {.seats = 1}, {.max_waiting = 3000}};
    auto const seat = kitchen.try_enter();
    std::vector<visit> guests;
    for (int i = 0; i != 3000; ++i)
        guests.emplace_back(kitchen, 1h);
    settle(ctx);
    kitchen.close();
    settle(ctx);
    BOOST_TEST(std::ranges::all_of(guests, [](auto const& g) { return g.rejected(errc::closed); }));
    BOOST_TEST(ctx.stopped());
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(limiter_shutdown)

BOOST_AUTO_TEST_CASE(rejects_newcomers_and_serves_the_rest_of_the_queue) {
    asio::io_context ctx;
    seats kitchen{ctx, {.seats = 1}};
    auto seat = kitchen.try_enter();
    visit first{kitchen};
    visit impatient{kitchen, 1s};
    visit last{kitchen};
    settle(ctx);
    kitchen.shutdown();
    kitchen.shutdown();
    visit newcomer{kitchen};
    visit for_nothing{kitchen, 0};
    error_code ec;
    BOOST_TEST(!kitchen.try_enter(1, ec));
    BOOST_TEST(ec == errc::closed);
    BOOST_TEST(!kitchen.charge(1));
    bool rejected = false;
    auto const guest = [&]() -> asio::awaitable<void> {
        try {
            permit const none = co_await kitchen.enter();
        } catch (weir::rejection const& why) {
            rejected = why.code() == errc::closed && !why.retry_after();
        }
    };
    co_spawn(ctx, guest(), rethrow);
    drained all;
    kitchen.async_drain(all.callback());
    run_for(ctx, 2s);
    BOOST_TEST(newcomer.rejected(errc::closed));
    BOOST_TEST(for_nothing.rejected(errc::closed));
    BOOST_TEST(rejected);
    BOOST_TEST(impatient.rejected(errc::timed_out));
    BOOST_TEST(first.waiting());
    BOOST_TEST(last.waiting());
    seat.leave();
    settle(ctx);
    BOOST_TEST(first.granted());
    BOOST_TEST(last.waiting());
    first.leave();
    settle(ctx);
    BOOST_TEST(last.granted());
    BOOST_TEST(all.waiting());
    last.leave();
    settle(ctx);
    BOOST_TEST(all.ok());
    BOOST_TEST(kitchen.stats().closed == 4U);
    BOOST_TEST(ctx.stopped());
}

BOOST_AUTO_TEST_CASE(can_be_followed_by_a_close_that_rejects_the_queue) {
    asio::io_context ctx;
    seats kitchen{ctx, {.seats = 1}};
    auto seat = kitchen.try_enter();
    visit guest{kitchen};
    settle(ctx);
    kitchen.shutdown();
    settle(ctx);
    BOOST_TEST(guest.waiting());
    kitchen.close();
    settle(ctx);
    BOOST_TEST(guest.rejected(errc::closed));
}

BOOST_AUTO_TEST_CASE(allows_changes_of_options_and_releases) {
    asio::io_context ctx;
    seats kitchen{ctx, {.seats = 1}};
    auto seat = kitchen.try_enter();
    visit pair{kitchen, 1};
    settle(ctx);
    kitchen.shutdown();
    kitchen.configure({.seats = 2});
    settle(ctx);
    BOOST_TEST(pair.granted());
    seat.leave();
    BOOST_TEST(kitchen.stats().remaining == 1);
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(limiter_drain)

BOOST_AUTO_TEST_CASE(completes_when_no_permit_is_in_use_and_no_request_waits) {
    asio::io_context ctx;
    seats kitchen{ctx, {.seats = 1}};
    drained nobody_there;
    kitchen.async_drain(nobody_there.callback());
    BOOST_TEST(nobody_there.waiting());
    settle(ctx);
    BOOST_TEST(nobody_there.ok());

    auto seat = kitchen.try_enter();
    drained one;
    drained other;
    kitchen.async_drain(one.callback());
    visit guest{kitchen};
    kitchen.async_drain(other.callback());
    settle(ctx);
    seat.leave();
    settle(ctx);
    BOOST_TEST(guest.granted());
    BOOST_TEST(one.waiting());
    guest.leave();
    settle(ctx);
    BOOST_TEST(one.ok());
    BOOST_TEST(other.ok());
    BOOST_TEST(ctx.stopped());
}

BOOST_AUTO_TEST_CASE(counts_a_grant_of_0_permits_as_in_use) {
    asio::io_context ctx;
    seats kitchen{ctx, {.seats = 1}};
    auto nothing = kitchen.try_enter(0);
    drained all;
    kitchen.async_drain(all.callback());
    settle(ctx);
    BOOST_TEST(all.waiting());
    nothing.leave();
    settle(ctx);
    BOOST_TEST(all.ok());
}

BOOST_AUTO_TEST_CASE(waits_for_each_part_of_a_permit) {
    asio::io_context ctx;
    seats kitchen{ctx, {.seats = 3}};
    auto whole = kitchen.try_enter(3);
    auto part = whole.split(2);
    auto rest = part.split(1);
    drained all;
    kitchen.async_drain(all.callback());
    settle(ctx);
    part.merge(std::move(rest));
    whole.leave();
    settle(ctx);
    BOOST_TEST(all.waiting());
    part.leave();
    settle(ctx);
    BOOST_TEST(all.ok());
}

BOOST_AUTO_TEST_CASE(ends_a_limiter_after_close) {
    asio::io_context ctx;
    seats kitchen{ctx, {.seats = 1}};
    auto seat = kitchen.try_enter();
    visit guest{kitchen};
    settle(ctx);
    bool ended = false;
    auto owner = [&]() -> asio::awaitable<void> {
        kitchen.close();
        co_await kitchen.async_drain();
        ended = true;
    };
    co_spawn(ctx, owner(), rethrow);
    settle(ctx);
    BOOST_TEST(guest.rejected(errc::closed));
    BOOST_TEST(!ended);
    seat.leave();
    settle(ctx);
    BOOST_TEST(ended);
}

BOOST_AUTO_TEST_CASE(is_aborted_by_cancel_and_closed_by_the_destructor) {
    asio::io_context ctx;
    std::optional<seats> kitchen(std::in_place, ctx, weir::seats_options{.seats = 1});
    auto const seat = kitchen->try_enter();
    drained cancelled;
    kitchen->async_drain(cancelled.callback());
    kitchen->cancel();
    drained destroyed;
    kitchen->async_drain(destroyed.callback());
    settle(ctx);
    BOOST_TEST(cancelled.aborted());
    BOOST_TEST(destroyed.waiting());
    kitchen.reset();
    settle(ctx);
    BOOST_TEST(destroyed.closed());
    BOOST_TEST(ctx.stopped());
}

BOOST_AUTO_TEST_CASE(is_destroyed_with_its_context) {
    auto const alive = std::make_shared<int>();
    permit seat;
    {
        asio::io_context ctx;
        seats kitchen{ctx, {.seats = 1}};
        seat = kitchen.try_enter();
        kitchen.async_drain([alive](error_code) { BOOST_ERROR("was called"); });
        settle(ctx);
        BOOST_TEST(alive.use_count() == 2);
    }
    BOOST_TEST(alive.use_count() == 1);
}

BOOST_AUTO_TEST_CASE(takes_every_token) {
    asio::io_context ctx;
    seats kitchen{ctx, {.seats = 1}};
    auto seat = kitchen.try_enter();
    auto later = kitchen.async_drain(asio::use_future);
    auto when_called = kitchen.async_drain(asio::deferred);
    drained called;
    std::move(when_called)(called.callback());
    int resumed = 0;
    auto waits = [&]() -> asio::awaitable<void> {
        auto const [ec] = co_await kitchen.async_drain(asio::as_tuple(asio::deferred));
        BOOST_TEST(!ec);
        co_await kitchen.async_drain();
        ++resumed;
    };
    co_spawn(ctx, waits(), rethrow);
    settle(ctx);
    seat.leave();
    settle(ctx);
    later.get();
    BOOST_TEST(called.ok());
    BOOST_TEST(resumed == 1);
}

BOOST_AUTO_TEST_CASE(keeps_run_from_returning) {
    asio::io_context ctx;
    seats kitchen{ctx, {.seats = 1}};
    auto seat = kitchen.try_enter();
    drained all;
    kitchen.async_drain(all.callback());
    ctx.poll();
    BOOST_TEST(!ctx.stopped());
    seat.leave();
    ctx.run();
    BOOST_TEST(all.ok());
}

BOOST_AUTO_TEST_SUITE_END()
