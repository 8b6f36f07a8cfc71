#include <weir/keyed.hpp>
#include <weir/policy/seats.hpp>
#include <weir/policy/token_bucket.hpp>

#include "support/distracted_executor.hpp"
#include "support/virtual_limiters.hpp"
#include "support/visit.hpp"

#include <boost/asio/bind_executor.hpp>
#include <boost/test/unit_test.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <future>
#include <utility>
#include <vector>

// Changes of the options of all keys. A change rejects a waiting request, whose executor is called in the middle of the
// change.

using namespace support;
using weir::errc;

namespace {

// Keys on several pages, without free permits. One of them has a waiting request, which the next slower rate rejects.
struct keys_and_one_request {
    static constexpr int keys = 200;

    explicit keys_and_one_request(int key_that_waits) {
        for (int key = 0; key != keys; ++key)
            per_client.try_enter(key).leave();
        per_client.async_enter(
            key_that_waits, 1, 5s,
            asio::bind_executor(distracted_executor(other.get_executor(), in_the_middle),
                                waiting.callback()));
        settle(home);
    }
    void make_slower() { per_client.configure({.rate = {1, 1h}, .burst = 2}); }
    [[nodiscard]] int keys_with_burst(weir::amount n) const {
        int found = 0;
        for (int key = 0; key != keys; ++key)
            found += per_client.options(key).burst == n;
        return found;
    }

    asio::io_context home;
    asio::io_context other;
    weir::basic_keyed<int, weir::policy::token_bucket, asio::any_io_executor, weir::testing::timer>
        per_client{home, {.rate = {1, 1s}, .burst = 1}, {.shards = 1}};
    std::function<void()> in_the_middle;
    visit waiting;
};

}  // namespace

BOOST_AUTO_TEST_SUITE(keyed_change_of_all)

BOOST_AUTO_TEST_CASE(a_change_of_all_keys_blocks_no_other_thread) {
    keys_and_one_request it(7);
    auto& limiter = it.per_client;
    std::future<void> others;
    bool done = false;
    it.in_the_middle = [&] {
        others = std::async(std::launch::async, [&] {
            BOOST_TEST(limiter.options().burst == 2);
            BOOST_TEST(limiter.queueing().max_waiting == weir::queue_options().max_waiting);
            limiter.configure(1, {.rate = {1, 1s}, .burst = 4});
            limiter.reset(1);
            limiter.configure(2, {.rate = {1, 1s}, .burst = 5});
            limiter.configure_queue([](weir::queue_options& queue) { queue.max_waiting = 3; });
        });
        done = others.wait_for(1min) == std::future_status::ready;
    };
    it.make_slower();
    BOOST_TEST(done);
    others.get();
    BOOST_TEST(limiter.options(1).burst == 2);
    BOOST_TEST(limiter.options(2).burst == 5);
    BOOST_TEST(limiter.queueing().max_waiting == 3);
    settle(it.home, it.other);
    BOOST_TEST(it.waiting.rejected(errc::deadline_unreachable));
}

BOOST_AUTO_TEST_CASE(a_change_that_begins_during_another_applies_to_all_keys) {
    int mixed = 0;
    for (int key = 0; key != keys_and_one_request::keys; key += 10) {
        keys_and_one_request it(key);
        auto& limiter = it.per_client;
        it.in_the_middle = [&] {
            auto const changed = it.keys_with_burst(2);
            BOOST_TEST_REQUIRE(it.keys_with_burst(1) == it.keys - changed);
            mixed += changed > 0 && changed < it.keys;
            limiter.configure(key + 1, {.rate = {1, 1s}, .burst = 9});
            limiter.configure([](weir::token_bucket_options& o) { *o.burst += 5; });
            BOOST_TEST_REQUIRE(it.keys_with_burst(7) == it.keys - 1);
            limiter.reset(key + 1);
        };
        it.make_slower();
        BOOST_TEST_REQUIRE(!it.in_the_middle);
        BOOST_TEST_REQUIRE(it.keys_with_burst(7) == it.keys);
        BOOST_TEST_REQUIRE(limiter.options().burst == 7);
        for (int other = 1'000; other != 1'100; ++other) {
            BOOST_TEST_REQUIRE(limiter.options(other).burst == 7);
            BOOST_TEST_REQUIRE(limiter.stats(other).capacity == 7);
        }
    }
    BOOST_TEST(mixed > 0);
}

// A key that was never used has the state that it would have if it had been used long before the change.
BOOST_AUTO_TEST_CASE(a_new_key_begins_with_an_unused_state_during_changes) {
    for (int key = 0; key != keys_and_one_request::keys; key += 40) {
        keys_and_one_request it(key);
        auto& limiter = it.per_client;
        auto const check_new_keys = [&](int first) {
            for (int other = first; other != first + 100; ++other)
                BOOST_TEST_REQUIRE(limiter.stats(other).remaining == 1);
        };
        it.in_the_middle = [&] {
            check_new_keys(1'000);
            limiter.configure([](weir::token_bucket_options& o) { *o.burst += 5; });
            check_new_keys(2'000);
        };
        it.make_slower();
        check_new_keys(3'000);
    }
}

BOOST_AUTO_TEST_CASE(a_change_of_all_keys_includes_the_state_that_keys_share) {
    asio::io_context ctx;
    weir::basic_keyed<int, weir::policy::seats, asio::any_io_executor, weir::testing::timer> tables{
        ctx, {.seats = 1}, {.max_keys = 1, .no_place = weir::when_no_place::share}};
    auto const one = tables.try_enter(1);
    auto const two = tables.try_enter(2);
    visit three;
    tables.async_enter(3, three.callback());
    tables.configure({.seats = 1});
    settle(ctx);
    BOOST_TEST(three.waiting());
    tables.configure({.seats = 2});
    settle(ctx);
    BOOST_TEST(three.granted());
}

BOOST_AUTO_TEST_SUITE_END()
