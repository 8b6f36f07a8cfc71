#include "support/virtual_limiters.hpp"
#include "support/visit.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/test/unit_test.hpp>

#include <cstdint>
#include <limits>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

using namespace support;
using weir::errc;
using weir::error_code;
using weir::permit;

BOOST_AUTO_TEST_SUITE(limiter_enter)

BOOST_AUTO_TEST_CASE(grants_free_permits_at_once_and_posts_nothing) {
    asio::io_context ctx;
    seats kitchen{ctx, {.seats = 3}};
    auto guest = [&]() -> asio::awaitable<void> {
        auto one = co_await kitchen.enter();
        auto two = co_await kitchen.enter(2);
        BOOST_TEST(one.count() == 1);
        BOOST_TEST(two.count() == 2);
        BOOST_TEST(one.waited() == 0s);
        BOOST_TEST(!one.retry_after());
        BOOST_TEST(kitchen.stats().remaining == 0);
    };
    auto passer_by = []() -> asio::awaitable<void> { co_return; };
    co_spawn(ctx, passer_by(), rethrow);
    auto const handlers = settle(ctx);
    co_spawn(ctx, guest(), rethrow);
    BOOST_TEST(settle(ctx) == handlers);
    BOOST_TEST(kitchen.stats().remaining == 3);
}

BOOST_AUTO_TEST_CASE(waits_for_a_release) {
    asio::io_context ctx;
    seats kitchen{ctx, {.seats = 1}};
    auto first = kitchen.try_enter();
    bool seated = false;
    auto guest = [&]() -> asio::awaitable<void> {
        auto const seat = co_await kitchen.enter();
        seated = true;
        BOOST_TEST(bool(seat));
        BOOST_TEST(seat.waited() == 3s);
        BOOST_TEST(seat.remaining() == 0);
    };
    co_spawn(ctx, guest(), rethrow);
    run_for(ctx, 3s);
    BOOST_TEST(!seated);

    first.leave();
    settle(ctx);
    BOOST_TEST(seated);
    BOOST_TEST(kitchen.stats().remaining == 1);
}

BOOST_AUTO_TEST_CASE(takes_a_count_a_patience_or_both) {
    asio::io_context ctx;
    seats kitchen{ctx, {.seats = 4}};
    auto guest = [&]() -> asio::awaitable<void> {
        std::vector<weir::permit> held;
        held.push_back(co_await kitchen.enter());
        held.push_back(co_await kitchen.enter(std::uint8_t{1}));
        held.push_back(co_await kitchen.enter(1s));
        held.push_back(co_await kitchen.enter(1U, 1min));
        BOOST_TEST(kitchen.stats().remaining == 0);
        held.clear();
        held.push_back(co_await kitchen.async_enter());
        held.push_back(co_await kitchen.async_enter(1));
        held.push_back(co_await kitchen.async_enter(0.5s));
        held.push_back(co_await kitchen.async_enter(1LL, 1ms));
        BOOST_TEST(kitchen.stats().remaining == 0);
    };
    co_spawn(ctx, guest(), rethrow);
    settle(ctx);
    BOOST_TEST(kitchen.stats().granted == 8U);
}

BOOST_AUTO_TEST_CASE(throws_a_rejection_with_its_reason_and_retry_after) {
    asio::io_context ctx;
    sliding_log printer{ctx, {.limit = 1, .window = 10s}};
    auto first = printer.try_enter();
    int rejected = 0;
    auto guest = [&]() -> asio::awaitable<void> {
        try {
            auto const never = co_await printer.enter(4s);
        } catch (weir::rejection const& why) {
            BOOST_TEST(why.code() == errc::deadline_unreachable);
            BOOST_TEST(why.retry_after() == 10s);
            ++rejected;
        }
        try {
            auto const never = co_await printer.enter(2);
        } catch (boost::system::system_error const& why) {
            BOOST_TEST(why.code() == errc::exceeds_capacity);
            ++rejected;
        }
        auto const seat = co_await printer.enter(10s);
        BOOST_TEST(seat.waited() == 10s);
    };
    co_spawn(ctx, guest(), rethrow);
    run_for(ctx, 10s);
    BOOST_TEST(rejected == 2);
    BOOST_TEST(printer.stats().granted == 2U);
}

BOOST_AUTO_TEST_CASE(throws_the_same_rejection_however_it_is_awaited) {
    asio::io_context ctx;
    sliding_log printer{ctx, {.limit = 1, .window = 10s}};
    std::vector<std::pair<error_code, std::optional<clock::duration>>> rejections;
    auto const awaits = [&](auto ask) -> asio::awaitable<void> {
        try {
            permit const none = co_await ask();
            BOOST_ERROR("granted");
        } catch (weir::rejection const& why) {
            rejections.emplace_back(why.code(), why.retry_after());
        }
    };
    auto const enter = [&] { return printer.enter(3s); };
    auto const async_enter = [&] { return printer.async_enter(3s); };
    auto const enter_until = [&] { return printer.enter_until(clock::now() + 3s); };
    auto const async_enter_until = [&] { return printer.async_enter_until(clock::now() + 3s); };
    auto const all = [&]() -> asio::awaitable<void> {
        co_await awaits(enter);
        co_await awaits(async_enter);
        co_await awaits(enter_until);
        co_await awaits(async_enter_until);
    };
    auto const page = printer.try_enter();
    run_for(ctx, 1s);
    co_spawn(ctx, all(), rethrow);
    settle(ctx);
    BOOST_TEST(rejections.size() == 4U);
    for (auto const& [why, when] : rejections) {
        BOOST_TEST(why == errc::deadline_unreachable);
        BOOST_TEST(when == 9s);
    }

    // After a wait, and after close().
    rejections.clear();
    visit ahead{printer};
    co_spawn(ctx, all(), rethrow);
    settle(ctx);
    BOOST_TEST(rejections.size() == 4U);
    printer.close();
    co_spawn(ctx, all(), rethrow);
    settle(ctx);
    BOOST_TEST(rejections.size() == 8U);
    for (std::size_t i = 0; i != rejections.size(); ++i) {
        BOOST_TEST(rejections[i].first == (i < 4 ? errc::deadline_unreachable : errc::closed));
        BOOST_TEST(
            (rejections[i].second == (i < 4 ? std::optional<clock::duration>(19s) : std::nullopt)));
    }
}

BOOST_AUTO_TEST_CASE(waits_until_a_deadline_or_for_a_duration) {
    asio::io_context ctx;
    seats kitchen{ctx, {.seats = 1}, {.tolerance = 0ns}};
    auto seat = kitchen.try_enter();
    auto const start = clock::now();
    visit in_time;
    visit late;
    visit too_late;
    visit past;
    visit endless;
    kitchen.async_enter_until(start + 2s, in_time.callback());
    kitchen.async_enter_until(1, start + 1s, late.callback());
    kitchen.async_enter_until(start, too_late.callback());
    kitchen.async_enter_until(1, start - 1h, past.callback());
    kitchen.async_enter_until(clock::time_point::max(), endless.callback());
    settle(ctx);
    BOOST_TEST(too_late.rejected(errc::timed_out));
    BOOST_TEST(past.rejected(errc::timed_out));
    run_for(ctx, 1s + 1ns);
    BOOST_TEST(late.rejected(errc::timed_out));
    BOOST_TEST(late.at() == start + 1s + 1ns);
    run_for(ctx, 1s - 1ns);
    seat.leave();  // a deadline equal to the present is met
    settle(ctx);
    BOOST_TEST(in_time.granted());
    run_for(ctx, 24h * 365);
    BOOST_TEST(endless.waiting());
    in_time.leave();
    settle(ctx);
    BOOST_TEST(endless.granted());

    // Free permits are granted, even if the deadline is past.
    endless.leave();
    visit first;
    kitchen.async_enter_until(start, first.callback());
    settle(ctx);
    BOOST_TEST(first.granted());
}

BOOST_AUTO_TEST_CASE(can_return_the_error_as_a_value) {
    asio::io_context ctx;
    sliding_log printer{ctx, {.limit = 1, .window = 10s}};
    auto guest = [&]() -> asio::awaitable<void> {
        auto [ec, seat] = co_await printer.async_enter(asio::as_tuple(asio::deferred));
        BOOST_TEST(!ec);
        auto [why, none] = co_await printer.async_enter(1, 9s, asio::as_tuple(asio::deferred));
        BOOST_TEST(why == errc::deadline_unreachable);
        BOOST_TEST(!none);
        BOOST_TEST(none.retry_after() == 10s);
    };
    co_spawn(ctx, guest(), rethrow);
    settle(ctx);
    BOOST_TEST(printer.stats().deadline_unreachable == 1U);
}

BOOST_AUTO_TEST_CASE(for_0_permits_is_granted_and_takes_none) {
    asio::io_context ctx;
    seats kitchen{ctx, {.seats = 1}};
    auto seat = kitchen.try_enter();
    visit waits{kitchen};
    visit nothing{kitchen, 0};
    settle(ctx);
    BOOST_TEST(waits.waiting());
    BOOST_TEST(nothing.granted());
    BOOST_TEST(bool(nothing.seat()));
    BOOST_TEST(nothing.seat().count() == 0);

    auto const now = kitchen.try_enter(0);
    BOOST_TEST(bool(now));
    auto guest = [&]() -> asio::awaitable<void> {
        auto const zero = co_await kitchen.enter(0, 0s);
        BOOST_TEST(bool(zero));
    };
    co_spawn(ctx, guest(), rethrow);
    settle(ctx);

    nothing.leave();
    BOOST_TEST(waits.waiting());
    kitchen.close();
    weir::error_code ec;
    BOOST_TEST(!kitchen.try_enter(0, ec));
    BOOST_TEST(ec == errc::closed);
    visit late{kitchen, 0};
    settle(ctx);
    BOOST_TEST(late.rejected(errc::closed));
}

BOOST_AUTO_TEST_CASE(for_a_negative_number_throws_in_the_caller) {
    asio::io_context ctx;
    seats kitchen{ctx, {.seats = 1}};
    visit guest;
    BOOST_CHECK_THROW(kitchen.async_enter(-1, guest.callback()), std::invalid_argument);
    BOOST_CHECK_THROW(static_cast<void>(kitchen.enter(-1)), std::invalid_argument);
    BOOST_CHECK_THROW(static_cast<void>(kitchen.try_enter(-1)), std::invalid_argument);
    BOOST_CHECK_THROW(static_cast<void>(kitchen.charge(std::numeric_limits<long long>::min())),
                      std::invalid_argument);
    BOOST_CHECK_EXCEPTION(
        static_cast<void>(kitchen.enter(-7, 1s)), std::invalid_argument,
        [](auto const& e) { return std::string_view(e.what()).find("-7") != std::string::npos; });
    BOOST_TEST(kitchen.stats().remaining == 1);
}

BOOST_AUTO_TEST_CASE(for_more_than_the_capacity_is_rejected_at_once) {
    asio::io_context ctx;
    seats kitchen{ctx, {.seats = 3}};
    auto seat = kitchen.try_enter(3);
    visit one_more{kitchen, 4};
    visit absurd{kitchen, std::numeric_limits<std::uint64_t>::max()};
    weir::error_code ec;
    BOOST_TEST(!kitchen.try_enter(4, ec));
    BOOST_TEST(ec == errc::exceeds_capacity);
    settle(ctx);
    BOOST_TEST(one_more.rejected(errc::exceeds_capacity));
    BOOST_TEST(!one_more.seat().retry_after());
    BOOST_TEST(absurd.rejected(errc::exceeds_capacity));
    BOOST_TEST(kitchen.stats().exceeds_capacity == 3U);
    BOOST_TEST(kitchen.stats().waiting == 0U);
}

BOOST_AUTO_TEST_CASE(is_rejected_before_the_sum_of_waiting_permits_overflows) {
    asio::io_context ctx;
    seats kitchen{ctx, {.seats = weir::max_amount}, {.max_waiting = 100'000}};
    auto seat = kitchen.try_enter();
    auto const fit = std::numeric_limits<weir::amount>::max() / weir::max_amount;
    for (weir::amount i = 0; i != fit; ++i)
        kitchen.async_enter(weir::max_amount, [](weir::error_code ec, weir::permit) {
            BOOST_TEST(ec == asio::error::operation_aborted);
        });
    visit one_too_many{kitchen, weir::max_amount};
    settle(ctx);
    BOOST_TEST(one_too_many.rejected(errc::queue_full));
    BOOST_TEST(kitchen.stats().waiting_for == fit * weir::max_amount);
    kitchen.cancel();
    settle(ctx);
    BOOST_TEST(kitchen.stats().waiting_for == 0);
}

BOOST_AUTO_TEST_CASE(checks_closed_then_zero_then_capacity_then_free_permits) {
    asio::io_context ctx;
    seats kitchen{ctx, {.seats = 1}};
    kitchen.close();
    for (int const n : {0, 1, 2}) {
        visit guest{kitchen, n, 0s};
        settle(ctx);
        BOOST_TEST(guest.rejected(errc::closed), n);
    }

    sliding_log printer{ctx, {.limit = 1, .window = 10s}, {.max_waiting = 0}};
    visit too_many{printer, 2, 0s};  // before free permits
    visit fits{printer, 1, 0s};      // before patience and queue
    visit too_late{printer, 1, 9s};  // before the bound of the queue
    visit no_place{printer, 1, 10s};
    settle(ctx);
    BOOST_TEST(too_many.rejected(errc::exceeds_capacity));
    BOOST_TEST(fits.granted());
    BOOST_TEST(too_late.rejected(errc::deadline_unreachable));
    BOOST_TEST(no_place.rejected(errc::queue_full));
    BOOST_TEST(no_place.seat().retry_after() == 10s);

    seats cafe{ctx, {.seats = 1}, {.max_waiting = 0}};
    auto const seat = cafe.try_enter();
    visit impatient{cafe, 0s};  // timed_out comes before queue_full
    settle(ctx);
    BOOST_TEST(impatient.rejected(errc::timed_out));
}

BOOST_AUTO_TEST_CASE(never_completes_before_the_initiating_function_returns) {
    asio::io_context ctx;
    seats kitchen{ctx, {.seats = 1}};
    auto initiate = [&] {
        visit granted{kitchen};
        BOOST_TEST(granted.waiting());
        visit rejected{kitchen, 2};
        BOOST_TEST(rejected.waiting());
        visit impatient{kitchen, 0s};
        BOOST_TEST(impatient.waiting());
        settle(ctx);
        BOOST_TEST(granted.granted());
        BOOST_TEST(rejected.over());
        BOOST_TEST(impatient.over());
    };
    initiate();
    BOOST_TEST(kitchen.stats().live == 0U);
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(limiter_order)

// Found elsewhere: pelikan-io/rustcommon#129, apache/cassandra#1045, clipperhouse/rate#30.
BOOST_AUTO_TEST_CASE(no_request_overtakes_a_waiting_one) {
    asio::io_context ctx;
    seats kitchen{ctx, {.seats = 2}};
    auto first = kitchen.try_enter(2);
    visit pair{kitchen, 2};
    settle(ctx);

    auto one = first.split(1);
    one.leave();  // one permit is free, but the head needs two
    weir::error_code ec;
    BOOST_TEST(!kitchen.try_enter(1, ec));
    BOOST_TEST(ec == errc::no_permit);
    visit behind{kitchen};
    settle(ctx);
    BOOST_TEST(pair.waiting());
    BOOST_TEST(behind.waiting());
    BOOST_TEST(kitchen.stats().remaining == 1);

    first.leave();
    settle(ctx);
    BOOST_TEST(pair.granted());
    BOOST_TEST(behind.waiting());
    pair.leave();
    settle(ctx);
    BOOST_TEST(behind.granted());
}

// Found elsewhere: vectorize-io/hindsight#4157.
BOOST_AUTO_TEST_CASE(no_request_overtakes_between_the_release_and_the_grant) {
    asio::io_context ctx;
    seats kitchen{ctx, {.seats = 1}};
    auto seat = kitchen.try_enter();
    visit waits{kitchen};
    settle(ctx);
    seat.leave();
    BOOST_TEST(!kitchen.try_enter());  // the step has not run yet
    visit later{kitchen};
    settle(ctx);
    BOOST_TEST(waits.granted());
    BOOST_TEST(later.waiting());
}

BOOST_AUTO_TEST_CASE(grants_in_arrival_order) {
    asio::io_context ctx;
    seats kitchen{ctx, {.seats = 1}};
    std::vector<int> order;
    auto guest = [&](int number) -> asio::awaitable<void> {
        auto const seat = co_await kitchen.enter();
        order.push_back(number);
        weir::testing::timer meal{ctx, 1s};
        co_await meal.async_wait(asio::deferred);
    };
    std::vector<int> expected;
    for (int i = 0; i != 700; ++i) {  // more than one step grants
        co_spawn(ctx, guest(i), rethrow);
        expected.push_back(i);
    }
    run_for(ctx, 700s);
    BOOST_TEST(order == expected, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(grants_a_great_many_at_one_instant) {
    asio::io_context ctx;
    seats kitchen{ctx, {.seats = 5000}, {.max_waiting = 5000}};
    auto all = kitchen.try_enter(5000);
    std::vector<visit> guests;
    for (int i = 0; i != 5000; ++i)
        guests.emplace_back(kitchen);
    settle(ctx);
    BOOST_TEST(kitchen.stats().waiting == 5000U);
    all.leave();
    settle(ctx);
    BOOST_TEST(std::ranges::all_of(guests, &visit::granted));
    BOOST_TEST(kitchen.stats().remaining == 0);
}

BOOST_AUTO_TEST_CASE(grants_at_once_again_after_the_queue_empties) {
    asio::io_context ctx;
    seats kitchen{ctx, {.seats = 2}};
    auto first = kitchen.try_enter();
    visit pair{kitchen, 2, 1s};
    settle(ctx);
    BOOST_TEST(!kitchen.try_enter());
    run_for(ctx, 2s);
    BOOST_TEST(pair.rejected(errc::timed_out));
    BOOST_TEST(bool(kitchen.try_enter()));
}

BOOST_AUTO_TEST_SUITE_END()
