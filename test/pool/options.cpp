#include "support/watch.hpp"
#include "support/workshop.hpp"

#include <boost/test/unit_test.hpp>

#include <vector>

using namespace support;
using weir::errc;
using kind = workshop::kind;

BOOST_AUTO_TEST_SUITE(pool_options)

BOOST_AUTO_TEST_CASE(most_recent_first) {
    asio::io_context ctx;
    workshop shop;
    thing_pool pool(ctx, shop.maker());
    fill(pool, ctx, 3);
    BOOST_TEST(next_number(pool) == 3);
    BOOST_TEST(next_number(pool) == 3);
    auto const held = pool.try_checkout();
    BOOST_TEST(next_number(pool) == 2);
}

BOOST_AUTO_TEST_CASE(least_recent_first) {
    asio::io_context ctx;
    workshop shop;
    thing_pool pool(ctx, shop.maker(), {.order = weir::reuse::least_recent});
    fill(pool, ctx, 3);
    for (int const expected : {1, 2, 3, 1, 2})
        BOOST_TEST(next_number(pool) == expected);
}

BOOST_AUTO_TEST_CASE(min_is_created_without_a_request_and_maintained) {
    asio::io_context ctx;
    workshop shop({.takes = 1s});
    thing_pool pool(ctx, shop.maker(), {.min = 2, .max = 3});
    settle(ctx);
    BOOST_TEST(pool.stats().being_created == 2);
    run_for(ctx, 1s);
    BOOST_TEST(pool.stats().idle == 2);
    pool.try_checkout().discard();
    run_for(ctx, 1s);
    BOOST_TEST(pool.stats().idle == 2);
    BOOST_TEST(shop.all->begun == 3);
}

BOOST_AUTO_TEST_CASE(min_is_retried_when_the_pool_is_used) {
    asio::io_context ctx;
    workshop shop({.what = kind::fails});
    thing_pool pool(ctx, shop.maker(), {.min = 3, .retry = {.initial = 1s, .jitter = 0}});
    run_for(ctx, 1h);
    BOOST_TEST(shop.all->begun == 1);
    BOOST_TEST(pool.stats().failed == 1U);
    shop.making = {};
    order one(pool);
    settle(ctx);
    BOOST_TEST(one.number() != 0);
    BOOST_TEST(pool.stats().idle == 2);
}

BOOST_AUTO_TEST_CASE(min_is_retried_when_an_object_is_returned) {
    asio::io_context ctx;
    workshop shop;
    thing_pool pool(ctx, shop.maker(), {.min = 2, .retry = {.initial = 1s, .jitter = 0}});
    settle(ctx);
    shop.making = {.what = kind::fails};
    pool.try_checkout().discard();
    settle(ctx);
    BOOST_TEST(pool.stats().failed == 1U);
    run_for(ctx, 999ms);
    pool.try_checkout().checkin();
    settle(ctx);
    BOOST_TEST(pool.stats().failed == 1U);
    run_for(ctx, 1ms);
    shop.making = {};
    pool.try_checkout().checkin();
    settle(ctx);
    BOOST_TEST(pool.stats().idle == 2);
    pool.try_checkout().checkin();
    BOOST_TEST(settle(ctx) == 0U);
}

BOOST_AUTO_TEST_CASE(max_age_ends_an_object_on_its_return_or_before_its_next_use) {
    asio::io_context ctx;
    workshop shop;
    thing_pool pool(ctx, shop.maker(), {.max_age = 10s});
    order one(pool);
    settle(ctx);
    run_for(ctx, 9s);
    one.given().checkin();
    BOOST_TEST(next_number(pool) == 1);
    order again(pool);
    settle(ctx);
    BOOST_TEST(again.number() == 1);
    run_for(ctx, 1s);
    again.given().checkin();
    BOOST_TEST(shop.all->alive == 0);
    BOOST_TEST(pool.stats().retired == 1U);

    order two(pool);
    settle(ctx);
    two.given().checkin();
    run_for(ctx, 10s);
    BOOST_TEST(shop.all->alive == 1);
    BOOST_TEST(!pool.try_checkout());
    order three(pool);
    settle(ctx);
    BOOST_TEST(three.number() == 3);
    BOOST_TEST(shop.all->alive == 1);
    BOOST_TEST(pool.stats().retired == 2U);
}

BOOST_AUTO_TEST_CASE(max_age_makes_room_for_a_new_object_at_max) {
    asio::io_context ctx;
    workshop shop;
    thing_pool pool(ctx, shop.maker(), {.max = 1, .max_age = 10s});
    fill(pool, ctx, 1);
    run_for(ctx, 10s);
    order one(pool);
    settle(ctx);
    BOOST_TEST(one.number() == 2);
    BOOST_TEST(shop.all->max == 1);
}

BOOST_AUTO_TEST_CASE(max_age_can_end_objects_below_min_which_are_replaced) {
    asio::io_context ctx;
    workshop shop;
    thing_pool pool(ctx, shop.maker(), {.min = 2, .max_age = 10s});
    settle(ctx);
    run_for(ctx, 10s);
    pool.trim();
    BOOST_TEST(shop.all->alive == 0);
    settle(ctx);
    BOOST_TEST(pool.stats().idle == 2);
    BOOST_TEST(shop.all->begun == 4);
}

BOOST_AUTO_TEST_CASE(max_idle_trims_down_to_min) {
    asio::io_context ctx;
    workshop shop;
    thing_pool pool(ctx, shop.maker(), {.min = 1, .max_idle = 10s});
    settle(ctx);
    fill(pool, ctx, 3);
    run_for(ctx, 10s - 1ns);
    pool.trim();
    BOOST_TEST(pool.stats().idle == 3);
    run_for(ctx, 1ns);
    BOOST_TEST(pool.stats().idle == 3);  // no request uses it
    pool.trim();
    BOOST_TEST(pool.stats().idle == 1);
    BOOST_TEST(pool.stats().retired == 2U);
    BOOST_TEST(next_number(pool) == 3);
}

BOOST_AUTO_TEST_CASE(max_idle_trims_when_the_pool_is_used) {
    asio::io_context ctx;
    workshop shop;
    thing_pool pool(ctx, shop.maker(), {.max_idle = 10s});
    fill(pool, ctx, 3);
    for (int second = 0; second != 10; ++second) {
        BOOST_TEST(next_number(pool) == 3);
        BOOST_TEST(settle(ctx) == 0U);
        run_for(ctx, 1s);
    }
    BOOST_TEST(next_number(pool) == 3);
    settle(ctx);
    BOOST_TEST(pool.stats().idle == 1);
    BOOST_TEST(next_number(pool) == 3);
    BOOST_TEST(settle(ctx) == 0U);
}

BOOST_AUTO_TEST_CASE(max_idle_trims_again_when_the_next_object_is_due) {
    asio::io_context ctx;
    workshop shop;
    thing_pool pool(ctx, shop.maker(), {.max_idle = 10s});
    fill(pool, ctx, 3);
    run_for(ctx, 5s);
    {
        auto const last = pool.try_checkout();
        BOOST_TEST(next_number(pool) == 2);
    }
    run_for(ctx, 5s);
    BOOST_TEST(next_number(pool) == 3);
    settle(ctx);
    BOOST_TEST(pool.stats().idle == 2);
    run_for(ctx, 1s);
    BOOST_TEST(next_number(pool) == 3);
    run_for(ctx, 4s);
    BOOST_TEST(next_number(pool) == 3);
    settle(ctx);
    BOOST_TEST(pool.stats().idle == 1);
}

BOOST_AUTO_TEST_CASE(an_object_is_checked_after_an_idle_time) {
    asio::io_context ctx;
    workshop shop({}, {.takes = 1s});
    thing_pool pool(ctx, shop.maker(), shop.checker(), {.check_after = 10s});
    fill(pool, ctx, 2);
    run_for(ctx, 10s - 1ns);
    BOOST_TEST(next_number(pool) == 2);
    run_for(ctx, 1ns);
    BOOST_TEST(next_number(pool) == 2);
    BOOST_TEST(shop.checks == 0);
    run_for(ctx, 10s);
    BOOST_TEST(!pool.try_checkout());
    order one(pool);
    settle(ctx);
    BOOST_TEST(pool.stats().being_checked == 1);
    BOOST_TEST(one.waiting());
    run_for(ctx, 1s);
    BOOST_TEST(one.number() == 2);
    BOOST_TEST(shop.checks == 1);
    BOOST_TEST(shop.all->begun == 2);
}

BOOST_AUTO_TEST_CASE(an_object_that_needs_no_check_is_used_first) {
    asio::io_context ctx;
    workshop shop({}, {.takes = 1s});
    thing_pool pool(ctx, shop.maker(), shop.checker(),
                    {.order = weir::reuse::least_recent, .check_after = 10s});
    fill(pool, ctx, 2);
    run_for(ctx, 5s);
    BOOST_TEST(next_number(pool) == 1);
    run_for(ctx, 5s);
    BOOST_TEST(next_number(pool) == 1);
    BOOST_TEST(shop.checks == 0);
}

BOOST_AUTO_TEST_CASE(an_object_can_be_checked_before_each_use) {
    asio::io_context ctx;
    workshop shop;
    thing_pool pool(ctx, shop.maker(), shop.checker(), {.max = 1, .check_after = 0s});
    order one(pool);
    settle(ctx);
    BOOST_TEST(shop.checks == 0);  // it is new
    order two(pool);
    settle(ctx);
    one.given().checkin();
    settle(ctx);
    BOOST_TEST(two.number() == 1);
    BOOST_TEST(shop.checks == 1);
    two.given().checkin();
    BOOST_TEST(!pool.try_checkout());
    order three(pool);
    settle(ctx);
    BOOST_TEST(three.number() == 1);
    BOOST_TEST(shop.checks == 2);
}

BOOST_AUTO_TEST_CASE(a_check_for_a_request_that_timed_out_is_repeated_for_the_next) {
    asio::io_context ctx;
    workshop shop({}, {.takes = 2s});
    thing_pool pool(ctx, shop.maker(), shop.checker(), {.max = 1, .check_after = 0s});
    fill(pool, ctx, 1);
    order one(pool, 1s);
    run_for(ctx, 3s);
    BOOST_TEST(one.rejected(errc::timed_out));
    BOOST_TEST(pool.stats().idle == 1);
    order two(pool, 5s);
    run_for(ctx, 2s);
    BOOST_TEST(two.number() == 1);
    BOOST_TEST(shop.checks == 2);
}

BOOST_AUTO_TEST_CASE(an_object_returned_during_a_check_is_used_at_once) {
    asio::io_context ctx;
    workshop shop({}, {.takes = 4s});
    thing_pool pool(ctx, shop.maker(), shop.checker(), {.max = 2, .check_after = 10s});
    fill(pool, ctx, 2);
    auto held = pool.try_checkout();
    run_for(ctx, 10s);
    order one(pool);
    run_for(ctx, 1s);
    held.checkin();
    settle(ctx);
    BOOST_TEST(one.number() == 2);
    run_for(ctx, 4s);
    BOOST_TEST(pool.stats().idle == 1);
}

BOOST_AUTO_TEST_CASE(a_returned_object_is_checked_while_another_is_created) {
    for (behaviour const making : {behaviour{kind::works, 10s}, behaviour{kind::fails, 0s}}) {
        asio::io_context ctx;
        workshop shop({}, {.takes = 1s});
        thing_pool pool(ctx, shop.maker(), shop.checker(),
                        {.max = 3, .check_after = 0s, .retry = {.initial = 1min, .max = 1min}});
        order held(pool);
        order other(pool);
        settle(ctx);
        shop.making = making;
        order one(pool);
        order two(pool);
        settle(ctx);
        BOOST_TEST(pool.stats().being_created == 1);
        held.given().checkin();
        other.given().checkin();
        settle(ctx);
        BOOST_TEST(pool.stats().being_checked == 2);
        run_for(ctx, 1s);
        BOOST_TEST(one.number() != 0);
        BOOST_TEST(two.number() != 0);
    }
}

BOOST_AUTO_TEST_CASE(an_object_that_fails_its_check_is_replaced) {
    for (behaviour const bad : {behaviour{kind::fails, 1s}, behaviour{kind::fails, 0s},
                                behaviour{kind::throws_at_once, 0s}, behaviour{kind::hangs, 0s},
                                behaviour{kind::hangs_deaf, 0s}}) {
        asio::io_context ctx;
        workshop shop({}, bad);
        thing_pool pool(ctx, shop.maker(), shop.checker(),
                        {.max = 1, .check_after = 0s, .check_timeout = 3s});
        fill(pool, ctx, 1);
        order one(pool);
        run_for(ctx, bad.what == kind::hangs_deaf ? 1h : 3s);
        BOOST_TEST(one.number() == 2);
        BOOST_TEST(shop.all->max == 1);
        BOOST_TEST(pool.stats().unhealthy == 1U);
        BOOST_TEST(pool.stats().failed == 0U);
    }
}

BOOST_AUTO_TEST_CASE(an_object_that_fails_its_check_is_replaced_with_back_off) {
    asio::io_context ctx;
    workshop shop({}, {.what = kind::fails});
    thing_pool pool(ctx, shop.maker(), shop.checker(),
                    {.max = 1, .check_after = 0s, .retry = {.initial = 1s, .jitter = 0}});
    fill(pool, ctx, 1);
    shop.making = {.what = kind::fails};
    order one(pool, 10s);
    settle(ctx);
    BOOST_TEST(shop.all->alive == 0);
    BOOST_TEST(pool.stats().failed == 1U);
    shop.making = {};
    run_for(ctx, 1s);
    BOOST_TEST(one.number() == 3);
}

BOOST_AUTO_TEST_CASE(an_object_that_fails_its_check_after_its_request_timed_out_is_not_replaced) {
    asio::io_context ctx;
    workshop shop({}, {.what = kind::fails, .takes = 2s});
    thing_pool pool(ctx, shop.maker(), shop.checker(), {.check_after = 0s});
    fill(pool, ctx, 1);
    order one(pool, 1s);
    run_for(ctx, 2s);
    BOOST_TEST(one.rejected(errc::timed_out));
    BOOST_TEST(pool.stats().unhealthy == 1U);
    BOOST_TEST(shop.all->begun == 1);
    BOOST_TEST(ctx.stopped());
}

BOOST_AUTO_TEST_CASE(after_a_failed_check_the_pool_does_not_retry_while_no_request_waits) {
    asio::io_context ctx;
    workshop shop({}, {.what = kind::fails, .takes = 2s});
    thing_pool pool(ctx, shop.maker(), shop.checker(),
                    {.max = 2, .check_after = 0s, .retry = {.initial = 1h, .max = 1h}});
    fill(pool, ctx, 1);
    shop.making = {.what = kind::fails};
    order one(pool, 1s);
    order two(pool, 1s);
    settle(ctx);
    BOOST_TEST(pool.stats().being_checked == 1);
    BOOST_TEST(pool.stats().failed == 1U);
    run_for(ctx, 2s);
    BOOST_TEST(two.rejected(errc::timed_out));
    BOOST_TEST(pool.stats().unhealthy == 1U);
    BOOST_TEST(pool.stats().being_created == 0);
    BOOST_TEST(ctx.stopped());
    BOOST_TEST((weir::testing::next_expiry(ctx) == clock::time_point::max()));
}

BOOST_AUTO_TEST_CASE(max_hold_reports_a_lease) {
    asio::io_context ctx;
    workshop shop;
    thing_pool pool(ctx, shop.maker(), {.max_hold = 10s});
    fill(pool, ctx, 2);
    watch const watched(pool);
    auto late = pool.try_checkout();
    auto const id = late.id();
    BOOST_TEST(id != 0U);
    auto soon = pool.try_checkout();
    run_for(ctx, 9s);
    soon.checkin();
    run_for(ctx, 1min);
    BOOST_TEST_REQUIRE(watched.reports().size() == 1U);
    BOOST_TEST(watched.reports().front().found.id == id);
    BOOST_TEST((watched.reports().front().found.held == 10s));
    BOOST_TEST(bool(late));
    late.checkin();
    BOOST_TEST(pool.stats().idle == 2);
    BOOST_TEST(pool.stats().requests.overdue == 1U);
    pool.cancel();
    settle(ctx);
}

BOOST_AUTO_TEST_CASE(the_queue_takes_its_options) {
    asio::io_context ctx;
    workshop shop({.takes = 10s});
    thing_pool pool(ctx, shop.maker(), {.max = 1}, {.max_waiting = 1, .patience = 3s});
    order one(pool);
    order two(pool);
    settle(ctx);
    BOOST_TEST(two.rejected(errc::queue_full));
    run_for(ctx, 4s);
    BOOST_TEST(one.rejected(errc::timed_out));
}

BOOST_AUTO_TEST_SUITE_END()
