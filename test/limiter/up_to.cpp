#include <weir/any_limiter.hpp>
#include <weir/seats.hpp>
#include <weir/sliding_log.hpp>
#include <weir/testing.hpp>
#include <weir/token_bucket.hpp>

#include "support/random.hpp"
#include "support/virtual_limiters.hpp"
#include "support/visit.hpp"

#include <boost/test/unit_test.hpp>

#include <string>
#include <vector>

using namespace support;
using weir::errc;
using weir::permit;

BOOST_AUTO_TEST_SUITE(limiter_try_enter_up_to)

BOOST_AUTO_TEST_CASE(grants_the_free_permits_at_once) {
    asio::io_context ctx;
    seats kitchen(ctx, {.seats = 5});
    weir::error_code ec;
    auto two = kitchen.try_enter_up_to(2, ec);
    BOOST_TEST(!ec);
    BOOST_TEST(two.count() == 2);
    auto three = kitchen.try_enter_up_to(10, ec);  // more than the limiter can ever grant
    BOOST_TEST(!ec);
    BOOST_TEST(three.count() == 3);
    auto const none = kitchen.try_enter_up_to(1, ec);
    BOOST_TEST(!none);
    BOOST_TEST(ec == errc::no_permit);
    auto const nothing = kitchen.try_enter_up_to(0, ec);
    BOOST_TEST(!ec);
    BOOST_TEST(bool(nothing));
    BOOST_TEST(nothing.count() == 0);
    BOOST_TEST(kitchen.stats().in_use == 5);
    kitchen.close();
    two.leave();
    BOOST_TEST(!kitchen.try_enter_up_to(1, ec));
    BOOST_TEST(ec == errc::closed);
}

BOOST_AUTO_TEST_CASE(returns_the_time_until_one_permit_is_free) {
    asio::io_context ctx;
    weir::testing::limiter<weir::token_bucket> bucket(ctx, {.rate = {1, 1s}, .burst = 3});
    BOOST_TEST(bucket.try_enter_up_to(100).count() == 3);
    auto const none = bucket.try_enter_up_to(2);
    BOOST_TEST(!none);
    BOOST_TEST((none.retry_after() == weir::duration(1s)));
    run_for(ctx, 2s);
    BOOST_TEST(bucket.try_enter_up_to(100).count() == 2);
}

BOOST_AUTO_TEST_CASE(overtakes_no_waiting_request) {
    asio::io_context ctx;
    seats kitchen(ctx, {.seats = 3});
    auto const one = kitchen.try_enter();
    visit big(kitchen, 3);
    settle(ctx);
    weir::error_code ec;
    BOOST_TEST(!kitchen.try_enter_up_to(2, ec));
    BOOST_TEST(ec == errc::no_permit);
    BOOST_TEST(big.waiting());
}

// For every rule: the granted number could be granted, and one more could not.
BOOST_AUTO_TEST_CASE(grants_all_free_permits) {
    for (std::string const text :
         {"5 seats", "5/1s", "5/1s sliding slices 5", "5/1s fixed", "5/day", "5/1s burst 5",
          "5/1s leaky capacity 5", "3 seats & 5/1s"}) {
        for_each_seed(1, 20, [&](random_source& random) {
            asio::io_context ctx;
            weir::testing::limiter<weir::any_limiter> one(ctx, weir::limiter_config::parse(text));
            weir::testing::limiter<weir::any_limiter> other(ctx, weir::limiter_config::parse(text));
            std::vector<permit> held, others;
            for (int step = 0; step != 30; ++step) {
                run_for(ctx, std::chrono::milliseconds(random.between(0, 300)));
                if (!held.empty() && random.one_in(2)) {
                    held.erase(held.begin());
                    others.erase(others.begin());
                }
                auto const most = random.between(1, 7);
                auto granted = one.try_enter_up_to(most);
                for (weir::amount n = 1; n <= most; ++n) {
                    auto probe = other.try_enter(n);
                    BOOST_REQUIRE(bool(probe) == (n <= granted.count()));
                    probe.refund();
                }
                if (granted) {
                    others.push_back(other.try_enter(granted.count()));
                    held.push_back(std::move(granted));
                }
            }
        });
    }
}

BOOST_AUTO_TEST_SUITE_END()
