#include "support/workshop.hpp"

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/test/unit_test.hpp>

#include <optional>
#include <string>
#include <thread>
#include <vector>

using namespace support;
using weir::errc;
using kind = workshop::kind;

BOOST_AUTO_TEST_SUITE(pool_checkout)

BOOST_AUTO_TEST_CASE(creates_an_object_on_demand_and_reuses_it) {
    asio::io_context ctx;
    workshop shop({.takes = 1s});
    thing_pool pool(ctx, shop.maker());
    auto const start = clock::now();
    settle(ctx);
    BOOST_TEST(shop.all->begun == 0);

    order first(pool);
    BOOST_TEST(first.waiting());
    settle(ctx);
    BOOST_TEST(pool.stats().being_created == 1);
    run_for(ctx, 1s);
    BOOST_TEST(first.number() == 1);
    BOOST_TEST((first.at() == start + 1s));
    BOOST_TEST((first.given().waited() == 1s));
    BOOST_TEST(pool.stats().in_use == 1);

    first.given().checkin();
    BOOST_TEST(pool.stats().idle == 1);
    order second(pool);
    settle(ctx);
    BOOST_TEST(second.number() == 1);
    BOOST_TEST((second.given().waited() == 0s));
    BOOST_TEST(pool.stats().created == 1U);
}

BOOST_AUTO_TEST_CASE(awaited_returns_a_lease_or_throws) {
    asio::io_context ctx;
    workshop shop({.takes = 1s});
    thing_pool pool(ctx, shop.maker(), {.max = 1});
    int done = 0;
    auto works = [&]() -> asio::awaitable<void> {
        {
            auto lease = co_await pool.checkout(5s);
            BOOST_TEST(lease->number() == 1);
            BOOST_TEST((*lease).number() == 1);
            BOOST_CHECK_THROW(static_cast<void>(co_await pool.checkout(1s)), weir::rejection);
            BOOST_CHECK_THROW(static_cast<void>(co_await pool.checkout_until(clock::now() + 1s)),
                              weir::rejection);
            BOOST_CHECK_THROW(static_cast<void>(co_await pool.checkout(0s)), weir::rejection);
        }
        auto again = co_await pool.checkout(0s);
        again.checkin();
        again = co_await pool.async_checkout(1s, asio::use_awaitable);
        again.checkin();
        again = co_await pool.async_checkout_until(clock::now(), asio::use_awaitable);
        BOOST_TEST(again->number() == 1);
        again.checkin();
        again = co_await pool.async_checkout();
        ++done;
    };
    co_spawn(ctx, works(), rethrow);
    run_for(ctx, 10s);
    BOOST_TEST(done == 1);
    BOOST_TEST(pool.stats().requests.timed_out == 3U);
}

BOOST_AUTO_TEST_CASE(serves_waiting_requests_in_order_with_the_first_available_object) {
    asio::io_context ctx;
    workshop shop;
    thing_pool pool(ctx, shop.maker(), {.max = 2});
    order early(pool);
    settle(ctx);
    BOOST_TEST(early.number() == 1);

    shop.making = {.takes = 10s};
    order first(pool);
    order second(pool);
    settle(ctx);
    BOOST_TEST(pool.stats().being_created == 1);
    run_for(ctx, 1s);
    early.given().checkin();
    settle(ctx);
    BOOST_TEST(first.number() == 1);
    BOOST_TEST(second.waiting());
    run_for(ctx, 9s);
    BOOST_TEST(second.number() == 2);

    auto const all = pool.snapshot();
    BOOST_TEST(all.stats.created == 2U);
    BOOST_TEST(all.waits.count() == 3U);
    BOOST_TEST((all.waits.quantile(1) >= 10s && all.waits.quantile(1) <= 11250ms));
    BOOST_TEST((all.waits.quantile(0.5) >= 1s && all.waits.quantile(0.5) <= 1125ms));
}

BOOST_AUTO_TEST_CASE(keeps_objects_whose_requests_ended) {
    asio::io_context ctx;
    workshop shop({.takes = 10s});
    thing_pool pool(ctx, shop.maker());
    asio::cancellation_signal signal;
    order impatient(pool, 1s);
    order cancelled;
    pool.async_checkout(asio::bind_cancellation_slot(signal.slot(), cancelled.callback()));
    run_for(ctx, 2s);
    BOOST_TEST(impatient.rejected(errc::timed_out));
    BOOST_TEST(!impatient.given().failure());
    signal.emit(asio::cancellation_type::terminal);
    settle(ctx);
    BOOST_TEST(cancelled.rejected(asio::error::operation_aborted));
    BOOST_TEST(pool.stats().being_created == 2);
    run_for(ctx, 8s);
    BOOST_TEST(pool.stats().idle == 2);
    BOOST_TEST(shop.all->alive == 2);
    BOOST_TEST(bool(pool.try_checkout()));
}

BOOST_AUTO_TEST_CASE(never_creates_more_than_max) {
    asio::io_context ctx;
    workshop shop({.takes = 1s});
    thing_pool pool(ctx, shop.maker(), {.max = 3});
    std::vector<order> orders;
    for (int i = 0; i != 10; ++i)
        orders.emplace_back(pool);
    for (auto& one : orders) {
        run_for(ctx, 1s);
        BOOST_TEST(one.number() != 0);
        if (one.number() % 2 == 0)
            one.given().checkin();
        else
            one.given().discard();
    }
    BOOST_TEST(shop.all->max == 3);
    auto const stats = pool.stats();
    BOOST_TEST(stats.created == static_cast<std::uint64_t>(shop.all->begun.load()));
    BOOST_TEST(stats.idle == shop.all->alive);
}

BOOST_AUTO_TEST_CASE(without_patience_creates_no_object) {
    asio::io_context ctx;
    workshop shop;
    thing_pool pool(ctx, shop.maker());
    weir::error_code ec;
    BOOST_TEST(!pool.try_checkout(ec));
    BOOST_TEST(ec == errc::no_permit);
    order nobody(pool, 0s);
    settle(ctx);
    BOOST_TEST(nobody.rejected(errc::timed_out));
    BOOST_TEST(shop.all->begun == 0);
    order first(pool);
    settle(ctx);
    BOOST_TEST(!pool.try_checkout());
    first.given().checkin();
    auto const lease = pool.try_checkout(ec);
    BOOST_TEST(lease->number() == 1);
    BOOST_TEST(!ec);
}

BOOST_AUTO_TEST_CASE(retries_with_back_off_while_a_request_waits) {
    asio::io_context ctx;
    workshop shop({.what = kind::fails});
    thing_pool pool(ctx, shop.maker(), {.retry = {.initial = 1s, .max = 4s, .jitter = 0}});
    order one(pool, 1h);
    std::vector<int> begun;
    for (int second = 0; second != 17; ++second) {
        settle(ctx);
        begun.push_back(shop.all->begun);
        run_for(ctx, 1s);
    }
    // At 0, 1, 3, 7, 11, 15 s.
    std::vector const expected{1, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 6, 6};
    BOOST_TEST(begun == expected, boost::test_tools::per_element());
    BOOST_TEST(pool.stats().failed == 6U);
    BOOST_TEST(one.waiting());

    shop.making = {};
    run_for(ctx, 2s);
    BOOST_TEST(one.number() == 7);
    one.given().discard();
    shop.making = {.what = kind::fails};
    auto const start = clock::now();
    order next(pool, 1500ms);  // the back-off started again
    run_for(ctx, 10s);
    BOOST_TEST(shop.all->begun == 9);
    BOOST_TEST(next.rejected(errc::timed_out));
    BOOST_TEST((next.at() >= start + 1500ms));
    BOOST_TEST(next.failure() == workshop::failure);
}

BOOST_AUTO_TEST_CASE(adds_up_to_the_jitter_to_the_back_off) {
    for (int i = 0; i != 20; ++i) {
        asio::io_context ctx;
        workshop shop({.what = kind::fails});
        thing_pool pool(ctx, shop.maker(), {.retry = {.initial = 10s, .max = 10s, .jitter = 0.5}});
        order one(pool);
        run_for(ctx, 10s - 1ns);
        BOOST_TEST_REQUIRE(shop.all->begun == 1);
        run_for(ctx, 5s + 1ns);
        BOOST_TEST_REQUIRE(shop.all->begun == 2);
    }
}

BOOST_AUTO_TEST_CASE(retries_with_one_attempt_at_a_time_while_the_factory_fails) {
    asio::io_context ctx;
    workshop shop({.what = kind::fails, .takes = 1s});
    thing_pool pool(ctx, shop.maker(), {.retry = {.initial = 1s, .jitter = 0}});
    std::vector<order> orders;
    for (int i = 0; i != 4; ++i)
        orders.emplace_back(pool);
    run_for(ctx, 1s);
    BOOST_TEST(pool.stats().failed == 4U);
    run_for(ctx, 1s);
    BOOST_TEST(shop.all->begun == 5);  // together they counted as one failure
    BOOST_TEST(pool.stats().being_created == 1);
    shop.making = {};
    run_for(ctx, 3s);
    for (auto const& one : orders)
        BOOST_TEST(one.number() != 0);
}

BOOST_AUTO_TEST_CASE(retries_while_another_attempt_hangs) {
    asio::io_context ctx;
    workshop shop({.what = kind::hangs});
    thing_pool pool(ctx, shop.maker(),
                    {.create_timeout = weir::forever, .retry = {.initial = 1s, .jitter = 0}});
    order one(pool);
    settle(ctx);
    shop.making = {.what = kind::fails};
    order two(pool);
    settle(ctx);
    BOOST_TEST(pool.stats().failed == 1U);
    shop.making = {};
    run_for(ctx, 1s);
    BOOST_TEST(one.number() == 3);
}

BOOST_AUTO_TEST_CASE(reports_the_error_of_the_factory) {
    asio::io_context ctx;
    workshop shop({.what = kind::throws_at_once});
    thing_pool pool(ctx, shop.maker());
    auto asks = [&]() -> asio::awaitable<void> {
        std::string what;
        try {
            static_cast<void>(co_await pool.checkout(1s));
        } catch (weir::checkout_rejection const& rejected) {
            BOOST_TEST(rejected.code() == errc::timed_out);
            BOOST_TEST(bool(rejected.failure()));
            what = rejected.what();
        }
        BOOST_TEST(what.find("cannot create an object: ") != std::string::npos);
        BOOST_TEST(what.find(make_error_code(workshop::failure).message()) != std::string::npos);
    };
    co_spawn(ctx, asks(), rethrow);
    run_for(ctx, 2s);
    BOOST_TEST(pool.stats().requests.timed_out == 1U);

    shop.making = {};
    order good(pool);
    run_for(ctx, 20s);
    BOOST_TEST(good.number() == 1);
    pool.close();
    order late(pool);
    settle(ctx);
    BOOST_TEST(late.rejected(errc::closed));
    BOOST_TEST(!late.given().failure());
}

BOOST_AUTO_TEST_CASE(cancels_an_attempt_that_exceeds_create_timeout) {
    for (auto const what : {kind::hangs, kind::hangs_deaf}) {
        asio::io_context ctx;
        workshop shop({.what = what});
        thing_pool pool(ctx, shop.maker(), {.max = 1, .create_timeout = 2s});
        order one(pool, 3s);
        run_for(ctx, 5s);
        BOOST_TEST(one.rejected(errc::timed_out));
        bool const deaf = what == kind::hangs_deaf;
        BOOST_TEST(
            (one.failure() == (deaf ? weir::error_code() : make_error_code(errc::timed_out))));
        shop.making = {};
        order two(pool);
        run_for(ctx, 30min);
        BOOST_TEST(two.waiting() == deaf);
        run_for(ctx, 30min);
        BOOST_TEST(two.number() == (deaf ? 1 : two.number()));
        BOOST_TEST(two.number() != 0);
        BOOST_TEST(shop.all->max == 1);
    }
}

BOOST_AUTO_TEST_CASE(replaces_discarded_objects) {
    asio::io_context ctx;
    workshop shop;
    thing_pool pool(ctx, shop.maker(), {.max = 1});
    order first(pool);
    settle(ctx);
    order second(pool);
    settle(ctx);
    BOOST_TEST(second.waiting());
    first.given().discard();
    BOOST_TEST(!first.given());
    BOOST_TEST(shop.all->alive == 0);
    settle(ctx);
    BOOST_TEST(second.number() == 2);
    BOOST_TEST(pool.stats().discarded == 1U);

    order third(pool);
    std::thread([&] { second.given().discard(); }).join();
    settle(ctx);
    BOOST_TEST(third.number() == 3);
    std::thread([lease = std::move(third.given())]() mutable { lease.checkin(); }).join();
    BOOST_TEST(pool.stats().idle == 1);
}

BOOST_AUTO_TEST_CASE(a_lease_can_be_moved_and_swapped) {
    asio::io_context ctx;
    workshop shop;
    thing_pool pool(ctx, shop.maker());
    order a(pool);
    order b(pool);
    settle(ctx);
    auto lease = std::move(a.given());
    BOOST_TEST(!a.given());
    lease.swap(b.given());
    BOOST_TEST(lease->number() == 2);
    lease = std::move(b.given());
    BOOST_TEST(lease->number() == 1);
    BOOST_TEST(pool.stats().idle == 1);
    auto& same = lease;
    lease = std::move(same);
    BOOST_TEST(lease->number() == 1);
    lease.checkin();
    lease.checkin();
    lease.discard();
    BOOST_TEST(pool.stats().idle == 2);
    BOOST_TEST(lease.id() == 0U);
}

BOOST_AUTO_TEST_CASE(the_factory_can_be_an_asio_operation) {
    asio::io_context ctx;
    auto make = [](asio::any_io_executor const& ex) {
        auto const seven = []() -> asio::awaitable<int> { co_return 7; };
        return co_spawn(ex, seven, asio::deferred);
    };
    int checks = 0;
    auto check = [&](long& n) { return ++checks != 0 && n == 7; };
    weir::pool<long> pool(ctx, make, check, {.check_after = 0s});
    long found = 0;
    auto takes = [&]() -> asio::awaitable<void> {
        for (int i = 0; i != 2; ++i) {
            auto const lease = co_await pool.checkout();
            found += *lease;
        }
    };
    co_spawn(ctx, takes(), rethrow);
    ctx.run();
    BOOST_TEST(found == 14);
    BOOST_TEST(checks == 1);
}

BOOST_AUTO_TEST_CASE(invalid_options_are_named) {
    asio::io_context ctx;
    workshop shop;
    auto const wrong = [&](weir::pool_options const& options) -> std::string {
        try {
            thing_pool pool(ctx, shop.maker(), options);
        } catch (std::invalid_argument const& e) {
            return e.what();
        }
        return "";
    };
    BOOST_TEST(wrong({.max = 0}) == "weir::pool: max is 0, but must be from 1 to 1000000000000000");
    BOOST_TEST(wrong({.min = 11}) == "weir::pool: min is 11, but must be from 0 to 10");
    BOOST_TEST(wrong({.min = -1}).starts_with("weir::pool: min is -1,"));
    BOOST_TEST(wrong({.max = 1 << 25, .max_hold = 1s})
                   .starts_with("weir::pool: max, with max_hold, is 33554432,"));
    BOOST_TEST(wrong({.order = weir::reuse(2)}).starts_with("weir::pool: order is 2,"));
    BOOST_TEST(wrong({.max_age = 0s}).starts_with("weir::pool: max_age is 0s,"));
    BOOST_TEST(wrong({.max_idle = 0s}).starts_with("weir::pool: max_idle is 0s,"));
    BOOST_TEST(wrong({.check_after = -1ns}).starts_with("weir::pool: check_after is"));
    BOOST_TEST(wrong({.check_timeout = 0s}).starts_with("weir::pool: check_timeout is"));
    BOOST_TEST(wrong({.create_timeout = 0s}).starts_with("weir::pool: create_timeout is"));
    BOOST_TEST(wrong({.retry = {.initial = 0s}}).starts_with("weir::pool: retry.initial is"));
    BOOST_TEST(wrong({.retry = {.initial = 2s, .max = 1s}})
                   .starts_with("weir::pool: retry.max is 1s, but must be at least 2s"));
    BOOST_TEST(wrong({.retry = {.jitter = 1.5}}).starts_with("weir::pool: retry.jitter is 1.5,"));
    BOOST_TEST(wrong({.max_hold = 0s}).starts_with("weir::pool: max_hold is 0s,"));
    BOOST_CHECK_THROW(thing_pool(ctx, shop.maker(), {}, {.max_waiting = -1}),
                      std::invalid_argument);
    BOOST_TEST(wrong({.min = 10, .check_after = 0s, .retry = {.jitter = 1}}) == "");
    settle(ctx);
}

BOOST_AUTO_TEST_SUITE_END()
