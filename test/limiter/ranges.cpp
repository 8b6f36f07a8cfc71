// Requests for `min` to `max` permits: the amount is decided at the grant.

#include <weir/keyed.hpp>
#include <weir/seats.hpp>
#include <weir/testing.hpp>
#include <weir/token_bucket.hpp>

#include "support/random.hpp"
#include "support/virtual_limiters.hpp"
#include "support/visit.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <deque>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

using namespace support;
using weir::amount;
using weir::errc;
using weir::error_code;
using weir::permit;
using weir::request;

BOOST_AUTO_TEST_SUITE(a_request_for_a_range)

BOOST_AUTO_TEST_CASE(is_granted_as_many_as_are_free) {
    asio::io_context ctx;
    seats kitchen(ctx, {.seats = 10});
    BOOST_TEST(kitchen.try_enter(request::between(2, 4)).count() == 4);
    auto held = kitchen.try_enter(7);
    auto three = kitchen.try_enter(request::between(1, 100));  // the maximum is above the capacity
    BOOST_TEST(three.count() == 3);
    held.leave();
    error_code ec;
    auto const none = kitchen.try_enter(request::between(8, 9), ec);
    BOOST_TEST(!none);
    BOOST_TEST(ec == errc::no_permit);
    BOOST_TEST(kitchen.stats().in_use == 3);
}

// Found elsewhere: apache/gobblin#1726.
BOOST_AUTO_TEST_CASE(waits_for_its_minimum) {
    asio::io_context ctx;
    weir::testing::limiter<weir::token_bucket> bytes(
        ctx, {.rate = {10, 1s}, .burst = 100, .initial = 0});
    std::vector<std::pair<weir::duration, amount>> granted;
    auto const begin = clock::now();
    auto const note = [&](error_code ec, permit p) {
        BOOST_TEST(!ec);
        granted.emplace_back(clock::now() - begin, p.count());
    };
    bytes.async_enter(request::between(5, 20), note);
    bytes.async_enter(request::between(5, 20), note);
    run_for(ctx, 2s);
    bytes.async_enter(request::between(5, 20), note);  // 10 more permits are free by now
    run_for(ctx, 1s);
    using entry = std::pair<weir::duration, amount>;
    BOOST_TEST((granted == std::vector<entry>{{500ms, 5}, {1s, 5}, {2s, 10}}));
}

BOOST_AUTO_TEST_CASE(is_granted_the_permits_that_are_free_at_the_grant) {
    asio::io_context ctx;
    seats kitchen(ctx, {.seats = 5});
    auto five = kitchen.try_enter(5);
    std::array<permit, 2> got;
    for (auto& place : got)
        kitchen.async_enter(request::between(1, 3), [&](error_code, permit p) {
            place = std::move(p);
        });
    BOOST_TEST(kitchen.stats().waiting_for == 2);
    five.leave();
    settle(ctx);
    BOOST_TEST(got[0].count() == 3);
    BOOST_TEST(got[1].count() == 2);
    auto const stats = kitchen.stats();
    BOOST_TEST(stats.in_use == 5);
    BOOST_TEST(stats.permits_granted == 10);
    BOOST_TEST(stats.waiting_for == 0);
}

BOOST_AUTO_TEST_CASE(is_rejected_by_its_minimum) {
    asio::io_context ctx;
    weir::testing::limiter<weir::token_bucket> bytes(
        ctx, {.rate = {10, 1s}, .burst = 100, .initial = 0});
    error_code ec;
    BOOST_TEST(!bytes.try_enter(request::between(101, 200), ec));
    BOOST_TEST(ec == errc::exceeds_capacity);
    auto const later = bytes.try_enter(request::between(30, 90), ec);
    BOOST_TEST(ec == errc::no_permit);
    BOOST_TEST((later.retry_after() == weir::duration(3s)));
    int rejected = 0;
    bytes.async_enter(request::between(30, 90), 2s, [&](error_code why, permit p) {
        BOOST_TEST(why == errc::deadline_unreachable);
        BOOST_TEST((p.retry_after() == weir::duration(3s)));
        ++rejected;
    });
    settle(ctx);
    BOOST_TEST(rejected == 1);
}

BOOST_AUTO_TEST_CASE(with_min_above_max_throws) {
    BOOST_CHECK_EXCEPTION(
        static_cast<void>(request::between(5, 4)), std::invalid_argument, [](auto const& e) {
            return std::string(e.what()).find("for 5 to 4 permits") != std::string::npos;
        });
    BOOST_CHECK_THROW(static_cast<void>(request::between(0, 4)), std::invalid_argument);
    BOOST_CHECK_THROW(static_cast<void>(request::between(-1, 4)), std::invalid_argument);
    BOOST_CHECK_THROW(static_cast<void>(request::between(1, 4, 8)), std::invalid_argument);
    request const r = request::between(2, weir::max_amount, 7);
    BOOST_TEST(r.count() == 2);
    BOOST_TEST(r.max() == weir::max_amount);
    BOOST_TEST(r.priority() == 7);
    BOOST_TEST(r.flow() == 0U);
    request const plain(2, {.priority = 1, .flow = 9});
    BOOST_TEST(plain.max() == 2);
    BOOST_TEST(plain.flow() == 9U);
}

BOOST_AUTO_TEST_CASE(can_be_for_a_key) {
    asio::io_context ctx;
    weir::basic_keyed<int, weir::policy::seats, asio::any_io_executor, weir::testing::timer> tables(
        ctx, {.seats = 3});
    auto two = tables.try_enter(1, 2);
    BOOST_TEST(tables.try_enter(2, request::between(2, 9)).count() == 3);
    BOOST_TEST(tables.try_enter(1, request::between(1, 9)).count() == 1);
    permit got;
    tables.async_enter(1, request::between(2, 9), 1s,
                       [&](error_code, permit p) { got = std::move(p); });
    settle(ctx);
    BOOST_TEST(!got);
    two.leave();
    settle(ctx);
    BOOST_TEST(got.count() == 3);
}

// Permits above the minimum count against its flow, too.
BOOST_AUTO_TEST_CASE(gets_only_its_share_in_the_order_fair) {
    asio::io_context ctx;
    weir::testing::limiter<weir::token_bucket> bytes(
        ctx, {.rate = {1000, 1s}, .burst = 40, .initial = 0}, {.order = weir::queue_order::fair});
    amount of_range = 0;
    amount of_key = 0;
    for (int i = 0; i < 400; ++i) {
        bytes.async_enter(request::between(1, 20), [&](error_code ec, permit p) {
            if (!ec)
                of_range += p.count();
        });
        bytes.async_enter({10, {.flow = 7}}, [&](error_code ec, permit p) {
            if (!ec)
                of_key += p.count();
        });
    }
    run_for(ctx, 300ms);
    BOOST_TEST(bytes.stats().waiting > 100U);
    BOOST_TEST(std::abs(of_range - of_key) <= 20 + 10);
}

// Compares with the documented rule: the head is granted when its minimum is free, and gets all free permits up to its
// maximum.
BOOST_AUTO_TEST_CASE(follows_the_documented_rule) {
    for_each_seed(1, 200, [](random_source& random) {
        asio::io_context ctx;
        auto const all = random.between(1, 12);
        seats kitchen(ctx, {.seats = all});

        struct caller {
            amount min, max;
            amount expected = 0;
            permit got;
        };
        std::deque<caller> callers;
        std::vector<std::size_t> line;
        auto free = all;
        auto const serve = [&] {
            while (!line.empty() && callers[line.front()].min <= free) {
                auto& first = callers[line.front()];
                first.expected = std::min(first.max, free);
                free -= first.expected;
                line.erase(line.begin());
            }
        };
        for (int step = 0; step < 60; ++step) {
            auto const in = static_cast<std::size_t>(random.between(0, 1'000));
            if (random.one_in(2) || callers.empty()) {
                auto const least = random.between(1, all);
                auto& c = callers.emplace_back(caller{least, least + random.between(0, 5), 0, {}});
                line.push_back(callers.size() - 1);
                kitchen.async_enter(request::between(c.min, c.max), [&c](error_code, permit p) {
                    c.got = std::move(p);
                });
            } else if (auto& c = callers[in % callers.size()]; c.got) {
                free += std::exchange(c.expected, 0);
                c.got.leave();
            }
            serve();
            settle(ctx);
            for (auto const& c : callers)
                BOOST_REQUIRE(c.got.count() == c.expected);
        }
        kitchen.close();
        settle(ctx);
    });
}

BOOST_AUTO_TEST_SUITE_END()
