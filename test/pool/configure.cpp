#include "support/watch.hpp"
#include "support/workshop.hpp"

#include <boost/test/unit_test.hpp>

#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

using namespace support;
using weir::errc;
using kind = workshop::kind;

namespace {

std::vector<order> ask(thing_pool& pool, int times, weir::patience wait = {}) {
    std::vector<order> orders;
    for (int i = 0; i != times; ++i)
        orders.emplace_back(pool, wait);
    return orders;
}

// The number of orders that were served, which are the first in the queue.
int served(std::vector<order> const& orders) {
    int n = 0;
    for (auto const& one : orders) {
        if (one.number() == 0)
            break;
        ++n;
    }
    for (auto i = static_cast<std::size_t>(n); i != orders.size(); ++i)
        BOOST_TEST_REQUIRE(orders[i].waiting());
    return n;
}

auto maximum(weir::amount max) {
    return [max](weir::pool_options& o) { o.max = max; };
}

}  // namespace

BOOST_AUTO_TEST_SUITE(pool_configure)

BOOST_AUTO_TEST_CASE(a_higher_max_serves_waiting_requests_at_once) {
    asio::io_context ctx;
    workshop shop;
    thing_pool pool(ctx, shop.maker(), {.max = 1});
    auto const orders = ask(pool, 4);
    settle(ctx);
    BOOST_TEST(served(orders) == 1);
    pool.configure(maximum(3));
    settle(ctx);
    BOOST_TEST(served(orders) == 3);
    BOOST_TEST(shop.all->alive == 3);
    BOOST_TEST(pool.options().max == 3);
    pool.configure({.max = 5});
    settle(ctx);
    BOOST_TEST(served(orders) == 4);
    BOOST_TEST(shop.all->begun == 4);
}

BOOST_AUTO_TEST_CASE(a_higher_min_creates_objects_without_a_request) {
    asio::io_context ctx;
    workshop shop;
    thing_pool pool(ctx, shop.maker(), {.max = 3});
    settle(ctx);
    BOOST_TEST(shop.all->alive == 0);
    pool.configure([](weir::pool_options& o) { o.min = 2; });
    settle(ctx);
    BOOST_TEST(pool.stats().idle == 2);
    pool.try_checkout().discard();
    settle(ctx);
    BOOST_TEST(pool.stats().idle == 2);
    pool.configure([](weir::pool_options& o) { o.min = 0; });
    pool.try_checkout().discard();
    settle(ctx);
    BOOST_TEST(pool.stats().idle == 1);
}

BOOST_AUTO_TEST_CASE(a_lower_max_destroys_returned_objects_and_keeps_the_queue) {
    asio::io_context ctx;
    workshop shop;
    thing_pool pool(ctx, shop.maker(), {.max = 3});
    auto const orders = ask(pool, 5);
    settle(ctx);
    BOOST_TEST(served(orders) == 3);
    pool.configure(maximum(1));
    settle(ctx);
    BOOST_TEST(shop.all->alive == 3);
    for (int const left : {2, 1}) {
        orders[static_cast<std::size_t>(left)].given().checkin();
        BOOST_TEST(shop.all->alive == left);
        BOOST_TEST(pool.stats().in_use == left);
        BOOST_TEST(pool.stats().retired == static_cast<std::uint64_t>(3 - left));
        settle(ctx);
        BOOST_TEST(orders[3].waiting());
    }
    auto const kept = orders[0].number();
    orders[0].given().checkin();
    settle(ctx);
    BOOST_TEST(orders[3].number() == kept);
    BOOST_TEST(orders[4].waiting());
    orders[3].given().discard();
    settle(ctx);
    BOOST_TEST(orders[4].number() == 4);
    BOOST_TEST(shop.all->alive == 1);
}

BOOST_AUTO_TEST_CASE(a_lower_max_destroys_the_objects_that_were_idle_longest) {
    asio::io_context ctx;
    workshop shop;
    thing_pool pool(ctx, shop.maker(), {.min = 4, .max = 4});
    fill(pool, ctx, 4);
    auto held = pool.try_checkout();
    BOOST_TEST(held->number() == 4);
    pool.configure({.min = 1, .max = 2});
    BOOST_TEST(shop.all->alive == 2);
    BOOST_TEST(pool.stats().idle == 1);
    BOOST_TEST(pool.stats().retired == 2U);
    BOOST_TEST(next_number(pool) == 3);
    held.checkin();
    settle(ctx);
    BOOST_TEST(pool.stats().idle == 2);
    BOOST_TEST(shop.all->begun == 4);
}

BOOST_AUTO_TEST_CASE(objects_are_destroyed_under_no_lock) {
    asio::io_context ctx;
    workshop shop;
    thing_pool pool(ctx, shop.maker(), {.max = 4});
    fill(pool, ctx, 4);
    std::vector<weir::amount> existing;
    shop.all->on_death = [&](int) {
        auto const s = pool.stats();
        existing.push_back(s.idle + s.in_use);
        BOOST_TEST(pool.options().max == 2);
    };
    auto held = pool.try_checkout();
    auto other = pool.try_checkout();
    pool.configure(maximum(2));
    other.checkin();
    held.checkin();
    shop.all->on_death = nullptr;
    BOOST_TEST(existing == std::vector<weir::amount>({3, 2}), boost::test_tools::per_element());
    BOOST_TEST(pool.stats().idle == 2);
}

BOOST_AUTO_TEST_CASE(a_destructor_can_configure_and_destroy_the_pool) {
    asio::io_context ctx;
    workshop shop;
    std::optional<thing_pool> pool(std::in_place, ctx, shop.maker(), weir::pool_options{.max = 4});
    fill(*pool, ctx, 4);
    shop.all->on_death = [&](int) {
        auto const once = std::exchange(shop.all->on_death, nullptr);
        pool->configure(maximum(2));
    };
    pool->configure(maximum(3));
    BOOST_TEST(pool->stats().idle == 2);
    BOOST_TEST(pool->options().max == 2);
    shop.all->on_death = [&](int) {
        auto const once = std::exchange(shop.all->on_death, nullptr);
        pool.reset();
    };
    pool->configure(maximum(1));
    BOOST_TEST(!pool);
    BOOST_TEST(shop.all->alive == 0);
}

BOOST_AUTO_TEST_CASE(objects_that_are_created_above_max_are_destroyed) {
    asio::io_context ctx;
    workshop shop({.takes = 1s});
    thing_pool pool(ctx, shop.maker(), {.max = 3});
    auto const orders = ask(pool, 3);
    settle(ctx);
    BOOST_TEST(shop.all->begun == 3);
    pool.configure(maximum(1));
    settle(ctx);
    BOOST_TEST(pool.stats().being_created == 3);
    run_for(ctx, 1s);
    BOOST_TEST(served(orders) == 1);
    BOOST_TEST(shop.all->alive == 1);
    BOOST_TEST(pool.stats().created == 3U);
    BOOST_TEST(pool.stats().retired == 2U);
    auto const kept = orders[0].number();
    orders[0].given().checkin();
    settle(ctx);
    BOOST_TEST(orders[1].number() == kept);
    BOOST_TEST(shop.all->begun == 3);
}

BOOST_AUTO_TEST_CASE(an_attempt_that_has_not_begun_is_not_made_above_max) {
    asio::io_context ctx;
    workshop shop;
    thing_pool pool(ctx, shop.maker(), {.max = 3});
    auto const orders = ask(pool, 3);
    while (pool.stats().being_created != 3)
        ctx.poll_one();
    BOOST_TEST_REQUIRE(shop.all->begun == 0);
    pool.configure(maximum(1));
    settle(ctx);
    BOOST_TEST(served(orders) == 1);
    BOOST_TEST(shop.all->max == 1);
    pool.configure(maximum(3));
    settle(ctx);
    BOOST_TEST(served(orders) == 3);
}

BOOST_AUTO_TEST_CASE(an_object_serves_while_an_attempt_above_max_hangs) {
    asio::io_context ctx;
    workshop shop;
    thing_pool pool(ctx, shop.maker(), {.max = 3, .create_timeout = weir::forever});
    auto const held = ask(pool, 2);
    settle(ctx);
    shop.making = {.what = kind::hangs};
    auto const orders = ask(pool, 2);
    settle(ctx);
    BOOST_TEST(pool.stats().being_created == 1);
    pool.configure(maximum(1));
    held[0].given().checkin();
    settle(ctx);
    BOOST_TEST(served(orders) == 0);
    auto const kept = held[1].number();
    held[1].given().checkin();
    settle(ctx);
    BOOST_TEST(orders[0].number() == kept);
    run_for(ctx, 2h);
    BOOST_TEST(shop.all->alive == 1);
    BOOST_TEST(served(orders) == 1);
}

BOOST_AUTO_TEST_CASE(objects_that_are_checked_above_max_are_destroyed) {
    for (auto const what : {kind::works, kind::fails}) {
        asio::io_context ctx;
        workshop shop({}, {.what = what, .takes = 1s});
        thing_pool pool(ctx, shop.maker(), shop.checker(), {.max = 2, .check_after = 0s});
        fill(pool, ctx, 2);
        auto const orders = ask(pool, 2);
        settle(ctx);
        BOOST_TEST(pool.stats().being_checked == 2);
        pool.configure(maximum(1));
        run_for(ctx, 1s);
        BOOST_TEST(served(orders) == 1);
        BOOST_TEST(shop.all->alive == 1);
        BOOST_TEST(shop.all->begun == (what == kind::works ? 2 : 3));
        orders[0].given().discard();
        settle(ctx);
        BOOST_TEST(orders[1].number() != 0);
    }
}

BOOST_AUTO_TEST_CASE(all_objects_above_max_and_max_again_at_once) {
    asio::io_context ctx;
    workshop shop;
    thing_pool pool(ctx, shop.maker(), {.max = 2});
    auto orders = ask(pool, 3);
    settle(ctx);
    pool.configure(maximum(1));
    pool.configure(maximum(2));
    orders[0].given().checkin();
    settle(ctx);
    BOOST_TEST(shop.all->begun == 2);
    BOOST_TEST(orders[2].number() != 0);
}

BOOST_AUTO_TEST_CASE(invalid_options_change_nothing) {
    asio::io_context ctx;
    workshop shop;
    thing_pool pool(ctx, shop.maker(), {.min = 2, .max = 3, .max_idle = 1h});
    settle(ctx);
    auto const wrong = [&](auto change) -> std::string {
        try {
            pool.configure(change);
        } catch (std::invalid_argument const& e) {
            return e.what();
        }
        return "";
    };
    BOOST_TEST(wrong(maximum(0)) == "weir::pool: max is 0, but must be from 1 to 1000000000000000");
    BOOST_TEST(wrong(maximum(1)) == "weir::pool: min is 2, but must be from 0 to 1");
    BOOST_TEST(wrong([](weir::pool_options& o) {
                   o = {.max = 1, .check_after = -1ns};
               }).starts_with("weir::pool: check_after is"));
    BOOST_CHECK_THROW(pool.configure([](weir::pool_options& o) {
        o.max = 1;
        throw std::runtime_error("no more");
    }),
                      std::runtime_error);
    BOOST_TEST(pool.options().min == 2);
    BOOST_TEST(pool.options().max == 3);
    BOOST_TEST((pool.options().max_idle == 1h));
    BOOST_TEST(pool.stats().idle == 2);
    BOOST_TEST(settle(ctx) == 0U);
}

BOOST_AUTO_TEST_CASE(a_change_starts_again_after_another_change) {
    asio::io_context ctx;
    workshop shop;
    thing_pool pool(ctx, shop.maker());
    int calls = 0;
    pool.configure([&](weir::pool_options& o) {
        if (calls++ == 0)
            pool.configure(maximum(7));
        o.min = 2;
    });
    BOOST_TEST(calls == 2);
    BOOST_TEST(pool.options().max == 7);
    BOOST_TEST(pool.options().min == 2);
}

BOOST_AUTO_TEST_CASE(order_of_reuse) {
    asio::io_context ctx;
    workshop shop;
    thing_pool pool(ctx, shop.maker());
    fill(pool, ctx, 3);
    pool.configure({.order = weir::reuse::least_recent});
    BOOST_TEST(next_number(pool) == 1);
    BOOST_TEST(next_number(pool) == 2);
}

BOOST_AUTO_TEST_CASE(max_age_applies_to_all_objects_at_once) {
    asio::io_context ctx;
    workshop shop;
    thing_pool pool(ctx, shop.maker(), {.max = 3});
    fill(pool, ctx, 2);
    auto held = pool.try_checkout();
    run_for(ctx, 10s);
    order one(pool);
    order two(pool);
    settle(ctx);
    one.given().checkin();
    two.given().checkin();
    BOOST_TEST(shop.all->alive == 3);
    pool.configure([](weir::pool_options& o) { o.max_age = 10s; });
    BOOST_TEST(shop.all->alive == 2);
    held.checkin();
    BOOST_TEST(shop.all->alive == 1);
    BOOST_TEST(next_number(pool) == 3);
    pool.configure([](weir::pool_options& o) { o.max_age = weir::forever; });
    run_for(ctx, 1h);
    BOOST_TEST(next_number(pool) == 3);
}

BOOST_AUTO_TEST_CASE(idle_times_that_were_not_measured_begin_with_the_change) {
    asio::io_context ctx;
    workshop shop;
    thing_pool pool(ctx, shop.maker());
    fill(pool, ctx, 2);
    run_for(ctx, 1h);
    pool.configure([](weir::pool_options& o) { o.max_idle = 10s; });
    BOOST_TEST(pool.stats().idle == 2);
    run_for(ctx, 9s);
    pool.trim();
    BOOST_TEST(pool.stats().idle == 2);
    pool.configure([](weir::pool_options& o) { o.max_idle = 9s; });
    BOOST_TEST(pool.stats().idle == 0);
}

BOOST_AUTO_TEST_CASE(max_idle_trims_at_the_next_use_after_the_change) {
    asio::io_context ctx;
    workshop shop;
    thing_pool pool(ctx, shop.maker(), {.max_idle = 1h});
    fill(pool, ctx, 2);
    pool.configure([](weir::pool_options& o) { o.max_idle = 10s; });
    run_for(ctx, 10s);
    BOOST_TEST(next_number(pool) == 2);
    settle(ctx);
    BOOST_TEST(pool.stats().idle == 1);
}

BOOST_AUTO_TEST_CASE(check_after_applies_to_all_objects_at_once) {
    asio::io_context ctx;
    workshop shop;
    thing_pool pool(ctx, shop.maker(), shop.checker(), {.check_after = 0s});
    fill(pool, ctx, 1);
    run_for(ctx, 5s);
    BOOST_TEST(next_number(pool) == 0);
    pool.configure({.check_after = 6s});
    BOOST_TEST(next_number(pool) == 1);
    run_for(ctx, 5s);
    pool.configure({.check_after = 5s});
    BOOST_TEST(next_number(pool) == 0);
    auto const orders = ask(pool, 1);
    settle(ctx);
    BOOST_TEST(served(orders) == 1);
    BOOST_TEST(shop.checks == 1);
}

BOOST_AUTO_TEST_CASE(a_longer_check_after_serves_a_request_whose_check_hangs) {
    asio::io_context ctx;
    workshop shop({.what = kind::works}, {.what = kind::hangs});
    thing_pool pool(ctx, shop.maker(), shop.checker(),
                    {.max = 2, .check_after = 1s, .check_timeout = weir::forever});
    fill(pool, ctx, 2);
    run_for(ctx, 1s);
    auto const orders = ask(pool, 1);
    settle(ctx);
    BOOST_TEST(pool.stats().being_checked == 1);
    BOOST_TEST(served(orders) == 0);
    pool.configure([](weir::pool_options& o) { o.check_after = 1h; });
    settle(ctx);
    BOOST_TEST(served(orders) == 1);
}

BOOST_AUTO_TEST_CASE(time_limits_apply_to_the_next_calls) {
    asio::io_context ctx;
    workshop shop({.what = kind::hangs}, {.what = kind::hangs});
    thing_pool pool(ctx, shop.maker(), shop.checker(), {.max = 1, .create_timeout = 10s});
    order one(pool, 1h);
    settle(ctx);
    pool.configure({.max = 1,
                    .check_after = 0s,
                    .check_timeout = 1s,
                    .create_timeout = 2s,
                    .retry = {.initial = 5s, .jitter = 0}});
    run_for(ctx, 10s);
    BOOST_TEST(pool.stats().failed == 1U);
    run_for(ctx, 5s);  // the pause of the new options
    BOOST_TEST(shop.all->begun == 2);
    shop.making = {};
    run_for(ctx, 2s);
    BOOST_TEST(pool.stats().failed == 2U);
    run_for(ctx, 10s);
    BOOST_TEST(one.number() == 3);
    one.given().checkin();
    order two(pool);
    run_for(ctx, 1s);
    BOOST_TEST(two.number() == 4);
    BOOST_TEST(pool.stats().unhealthy == 1U);
}

BOOST_AUTO_TEST_CASE(max_hold_applies_to_leases_that_are_measured) {
    asio::io_context ctx;
    workshop shop;
    thing_pool pool(ctx, shop.maker());
    fill(pool, ctx, 3);
    watch const watched(pool);
    auto const before = pool.try_checkout();
    pool.configure([](weir::pool_options& o) { o.max_hold = 10s; });
    auto const after = pool.try_checkout();
    BOOST_TEST(before.id() == 0U);
    BOOST_TEST(after.id() != 0U);
    run_for(ctx, 5s);
    pool.configure([](weir::pool_options& o) { o.max_hold = 6s; });
    run_for(ctx, 1s);
    BOOST_TEST_REQUIRE(watched.reports().size() == 1U);
    BOOST_TEST(watched.reports().front().found.id == after.id());
    pool.configure([](weir::pool_options& o) { o.max_hold = weir::forever; });
    BOOST_TEST(pool.try_checkout().id() == 0U);
    pool.cancel();
    settle(ctx);
}

BOOST_AUTO_TEST_CASE(the_queue_can_be_configured) {
    asio::io_context ctx;
    workshop shop;
    thing_pool pool(ctx, shop.maker(), {.max = 1}, {.max_waiting = 1});
    fill(pool, ctx, 1);
    auto const orders = ask(pool, 2);
    settle(ctx);
    BOOST_TEST(served(orders) == 1);
    order rejected(pool);
    settle(ctx);
    BOOST_TEST(rejected.rejected(errc::queue_full));
    pool.configure_queue([](weir::queue_options& o) { o.max_waiting = 2; });
    BOOST_TEST(pool.queueing().max_waiting == 2);
    order waits(pool);
    settle(ctx);
    BOOST_TEST(waits.waiting());
    BOOST_CHECK_THROW(pool.configure_queue([](weir::queue_options& o) { o.max_waiting = -1; }),
                      std::invalid_argument);
    BOOST_TEST(pool.queueing().max_waiting == 2);
}

BOOST_AUTO_TEST_CASE(a_closed_pool_creates_nothing) {
    asio::io_context ctx;
    workshop shop;
    thing_pool pool(ctx, shop.maker(), {.max = 1});
    auto const orders = ask(pool, 1);
    settle(ctx);
    pool.close();
    pool.configure({.min = 3, .max = 3});
    settle(ctx);
    BOOST_TEST(pool.options().min == 3);
    BOOST_TEST(shop.all->begun == 1);
    orders[0].given().checkin();
    BOOST_TEST(shop.all->alive == 0);
}

BOOST_AUTO_TEST_CASE(after_shutdown_waiting_requests_use_a_higher_max) {
    asio::io_context ctx;
    workshop shop;
    thing_pool pool(ctx, shop.maker(), {.max = 1});
    auto const orders = ask(pool, 2);
    settle(ctx);
    pool.shutdown();
    pool.configure({.min = 2, .max = 3});
    settle(ctx);
    BOOST_TEST(served(orders) == 2);
    BOOST_TEST(shop.all->begun == 2);
}

BOOST_AUTO_TEST_SUITE_END()
