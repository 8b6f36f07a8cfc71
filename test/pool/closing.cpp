#include "support/workshop.hpp"

#include <boost/asio/executor_work_guard.hpp>
#include <boost/test/unit_test.hpp>

#include <optional>
#include <vector>

using namespace support;
using weir::errc;
using kind = workshop::kind;

BOOST_AUTO_TEST_SUITE(pool_closing)

BOOST_AUTO_TEST_CASE(close_rejects_requests_and_destroys_idle_and_returned_objects) {
    asio::io_context ctx;
    workshop shop;
    thing_pool pool(ctx, shop.maker(), {.max = 3});
    order out(pool);
    order idle(pool);
    settle(ctx);
    idle.given().checkin();
    shop.making = {.what = kind::hangs};
    auto const held = pool.try_checkout();
    order waiting(pool);
    settle(ctx);
    BOOST_TEST(shop.all->alive == 3);

    pool.close();
    settle(ctx);
    BOOST_TEST(waiting.rejected(errc::closed));
    BOOST_TEST(shop.all->alive == 2);  // the attempt to create an object was cancelled
    BOOST_TEST(pool.stats().being_created == 0);
    order late(pool);
    settle(ctx);
    BOOST_TEST(late.rejected(errc::closed));
    weir::error_code ec;
    BOOST_TEST(!pool.try_checkout(ec));
    BOOST_TEST(ec == errc::closed);
    BOOST_TEST(out.number() == 1);
    out.given().checkin();
    BOOST_TEST(shop.all->alive == 1);
    BOOST_TEST(pool.stats().retired == 1U);
    BOOST_TEST(pool.stats().failed == 0U);
    BOOST_TEST(ctx.stopped());
}

BOOST_AUTO_TEST_CASE(close_destroys_idle_objects_before_it_returns) {
    asio::io_context ctx;
    workshop shop;
    thing_pool pool(ctx, shop.maker(), {.min = 3});
    settle(ctx);
    BOOST_TEST(pool.stats().idle == 3);
    pool.close();
    BOOST_TEST(shop.all->alive == 0);
    BOOST_TEST(pool.stats().idle == 0);
    pool.close();
    settle(ctx);
    BOOST_TEST(shop.all->begun == 3);
}

BOOST_AUTO_TEST_CASE(an_object_created_despite_a_cancellation_is_destroyed) {
    asio::io_context ctx;
    workshop shop({.what = kind::hangs_deaf});
    thing_pool pool(ctx, shop.maker());
    order one(pool);
    settle(ctx);
    pool.close();
    settle(ctx);
    BOOST_TEST(one.rejected(errc::closed));
    BOOST_TEST(shop.all->alive == 1);
    run_for(ctx, 2h);
    BOOST_TEST(shop.all->alive == 0);
    BOOST_TEST(pool.stats().idle == 0);
}

BOOST_AUTO_TEST_CASE(shutdown_serves_waiting_requests) {
    asio::io_context ctx;
    workshop shop({.takes = 1s});
    thing_pool pool(ctx, shop.maker(), {.max = 1});
    order first(pool);
    order second(pool);
    pool.shutdown();
    order late(pool);
    bool drained = false;
    pool.async_drain([&](weir::error_code ec) { drained = !ec; });
    run_for(ctx, 1s);
    BOOST_TEST(late.rejected(errc::closed));
    BOOST_TEST(first.number() == 1);
    first.given().discard();
    run_for(ctx, 1s);
    BOOST_TEST(second.number() == 2);
    BOOST_TEST(!drained);
    second.given().checkin();
    settle(ctx);
    BOOST_TEST(drained);
}

BOOST_AUTO_TEST_CASE(shutdown_stops_filling_up_to_min) {
    asio::io_context ctx;
    workshop shop;
    thing_pool pool(ctx, shop.maker(), {.min = 1});
    order one(pool);
    settle(ctx);
    pool.shutdown();
    one.given().discard();
    settle(ctx);
    BOOST_TEST(shop.all->alive == 0);
}

BOOST_AUTO_TEST_CASE(cancel_ends_all_waits_and_keeps_objects_under_creation) {
    asio::io_context ctx;
    workshop shop({.takes = 1s});
    thing_pool pool(ctx, shop.maker());
    order one(pool);
    weir::error_code drain;
    weir::error_code watch;
    settle(ctx);
    pool.async_drain([&](weir::error_code ec) { drain = ec; });
    pool.async_wait_overdue([&](weir::error_code ec, weir::overdue const&) { watch = ec; });
    pool.cancel();
    settle(ctx);
    BOOST_TEST(one.rejected(asio::error::operation_aborted));
    BOOST_TEST(drain == asio::error::operation_aborted);
    BOOST_TEST(watch == asio::error::operation_aborted);
    run_for(ctx, 1s);
    BOOST_TEST(pool.stats().idle == 1);
    order next(pool);
    settle(ctx);
    BOOST_TEST(next.number() == 1);
}

BOOST_AUTO_TEST_CASE(the_destructor_closes_the_pool) {
    asio::io_context ctx;
    workshop shop;
    std::optional<thing_pool> pool(std::in_place, ctx, shop.maker(), weir::pool_options{.max = 3});
    order out(*pool);
    order idle(*pool);
    settle(ctx);
    idle.given().checkin();
    auto kept = pool->try_checkout();
    shop.making = {.what = kind::hangs};
    order waiting(*pool);
    settle(ctx);
    kept.checkin();
    settle(ctx);
    BOOST_TEST(waiting.number() == 2);
    waiting.given().checkin();
    BOOST_TEST(shop.all->alive == 3);

    pool.reset();
    BOOST_TEST(shop.all->alive == 2);
    settle(ctx);
    BOOST_TEST(shop.all->alive == 1);
    BOOST_TEST(out.number() == 1);
    out.given().checkin();
    BOOST_TEST(shop.all->alive == 0);
    BOOST_TEST(settle(ctx) == 0U);
}

BOOST_AUTO_TEST_CASE(a_lease_outlives_pool_and_context) {
    workshop shop;
    for (bool const pool_first : {false, true}) {
        for (bool const broken : {false, true}) {
            auto ctx = std::make_unique<asio::io_context>();
            std::optional<thing_pool> pool(std::in_place, *ctx, shop.maker());
            order out(*pool);
            order idle(*pool);
            settle(*ctx);
            idle.given().checkin();
            order never_called(*pool);
            if (pool_first)
                pool.reset();
            ctx.reset();
            BOOST_TEST(never_called.dropped());
            BOOST_TEST(shop.all->alive == 1);  // while the pool can still exist
            BOOST_TEST(out.given()->number() != 0);
            broken ? out.given().discard() : out.given().checkin();
            BOOST_TEST(shop.all->alive == 0);
        }
    }
}

BOOST_AUTO_TEST_CASE(jobs_end_with_their_context) {
    workshop shop({}, {.what = kind::hangs});
    auto ctx = std::make_unique<asio::io_context>();
    thing_pool pool(*ctx, shop.maker(), shop.checker(), {.max = 3, .check_after = 0s});
    order one(pool);
    settle(*ctx);
    one.given().checkin();
    shop.making = {.what = kind::hangs};
    std::vector<order> orders;
    for (int i = 0; i != 3; ++i)
        orders.emplace_back(pool);
    settle(*ctx);
    BOOST_TEST(pool.stats().being_checked == 1);
    BOOST_TEST(pool.stats().being_created == 2);
    ctx.reset();
    BOOST_TEST(shop.all->alive == 0);
    BOOST_TEST(pool.stats().being_created == 0);
    BOOST_TEST(pool.stats().being_checked == 0);
}

BOOST_AUTO_TEST_CASE(only_requests_and_jobs_keep_the_context_running) {
    asio::io_context ctx;
    workshop shop({.takes = 1s});
    thing_pool pool(ctx, shop.maker(), shop.checker(),
                    {.min = 1, .max_age = 1h, .max_idle = 1min, .max_hold = 1s});
    run_for(ctx, 1s);
    BOOST_TEST(ctx.stopped());
    BOOST_TEST((weir::testing::next_expiry(ctx) == clock::time_point::max()));
    order one(pool);
    settle(ctx);
    BOOST_TEST(ctx.stopped());
    BOOST_TEST((weir::testing::next_expiry(ctx) == clock::time_point::max()));

    // While no request waits, the pool does not retry.
    shop.making = {.what = kind::fails};
    one.given().discard();
    run_for(ctx, 1h);
    BOOST_TEST(shop.all->begun == 2);
    BOOST_TEST(ctx.stopped());
    BOOST_TEST((weir::testing::next_expiry(ctx) == clock::time_point::max()));
    order two(pool, 50ms);
    settle(ctx);
    BOOST_TEST(shop.all->begun == 3);
    run_for(ctx, 52ms);
    BOOST_TEST(two.rejected(errc::timed_out));
    BOOST_TEST(ctx.stopped());
    BOOST_TEST((weir::testing::next_expiry(ctx) == clock::time_point::max()));
    BOOST_TEST(pool.stats().being_created == 0);
}

BOOST_AUTO_TEST_CASE(the_destructor_of_an_object_can_call_the_pool) {
    asio::io_context ctx;
    workshop shop;
    thing_pool pool(ctx, shop.maker(), {.max = 2, .max_idle = 1s});
    int deaths = 0;
    shop.all->on_death = [&](int) {
        ++deaths;
        BOOST_TEST(!pool.try_checkout());
        order const again(pool, 0s);
        static_cast<void>(pool.stats());
        pool.trim();
    };
    // After the test, the destructor must not call it.
    std::shared_ptr<void> const end(nullptr, [&](auto) { shop.all->on_death = nullptr; });
    order one(pool);
    settle(ctx);
    one.given().discard();
    BOOST_TEST(deaths == 1);
    order two(pool);
    settle(ctx);
    two.given().checkin();
    run_for(ctx, 2s);
    pool.trim();
    BOOST_TEST(deaths == 2);
    order three(pool);
    settle(ctx);
    three.given().checkin();
    pool.close();
    BOOST_TEST(deaths == 3);
    settle(ctx);
}

BOOST_AUTO_TEST_CASE(a_pool_can_be_moved) {
    asio::io_context ctx;
    workshop shop;
    thing_pool a(ctx, shop.maker());
    order one(a);
    settle(ctx);
    thing_pool b(std::move(a));
    one.given().checkin();
    BOOST_TEST(b.stats().idle == 1);
    a = thing_pool(ctx, shop.maker());
    b = std::move(a);
    settle(ctx);
    BOOST_TEST(shop.all->alive == 0);
    order two(b);
    settle(ctx);
    BOOST_TEST(two.number() == 2);
}

BOOST_AUTO_TEST_SUITE_END()
