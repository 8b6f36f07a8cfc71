#include <weir/policy/any.hpp>

#include "support/allocations.hpp"
#include "support/printing.hpp"
#include "support/random.hpp"
#include "support/renew.hpp"
#include "support/says.hpp"
#include "support/wall_clock.hpp"

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <stdexcept>
#include <type_traits>
#include <vector>

using namespace std::chrono_literals;
using support::allocation_count;
using support::random_source;
using support::renew;
using support::says;
using weir::amount;
using weir::limiter_config;
using weir::outcome;
using weir::ticket;
using weir::time_point;
using weir::policy::any;

BOOST_AUTO_TEST_SUITE(any_of_the_policies)

namespace {

constexpr time_point noon{12h};

static_assert(weir::watchful_policy<any>);
static_assert(std::is_nothrow_move_constructible_v<any>);

limiter_config parsed(char const* text) {
    return limiter_config::parse(text);
}

}  // namespace

BOOST_AUTO_TEST_CASE(is_the_kind_of_its_options) {
    any seats(parsed("3 seats"));
    BOOST_TEST(!seats.timed());
    BOOST_TEST(seats.capacity() == 3);
    BOOST_TEST(to_string(seats.options()) == "3 seats");
    auto const t = seats.take(2, noon);
    BOOST_TEST(seats.remaining(noon) == 1);
    BOOST_TEST(seats.ready_at(2, 0, noon) == weir::unknown);
    BOOST_TEST(seats.leave(2, t, noon));
    BOOST_TEST(seats.remaining(noon) == 3);

    any log(parsed("2/10s exact"));
    BOOST_TEST(log.timed());
    auto const first = log.take(1, noon);
    auto const second = log.take(1, noon + 1s);
    BOOST_TEST(!log.leave(1, first, noon));
    BOOST_TEST(log.ready_at(1, 0, noon + 1s) == noon + 10s);
    BOOST_TEST(log.refund(2, log.merge(first, second, 1), noon + 1s));
    BOOST_TEST(log.remaining(noon + 1s) == 2);
}

BOOST_AUTO_TEST_CASE(watches_how_long_seats_are_held) {
    any seats(parsed("3 seats max_hold 30s"));
    BOOST_TEST(seats.timed());
    BOOST_TEST(seats.next_overdue() == weir::never);
    seats.take(1, noon);
    BOOST_TEST(seats.next_overdue() == noon + 30s);
    auto const found = seats.pop_overdue(noon + 30s);
    BOOST_TEST_REQUIRE(found.has_value());
    BOOST_TEST(found->held == 30s);

    any log(parsed("1/10s exact"));
    log.take(1, noon);
    BOOST_TEST(log.next_overdue() == weir::never);
    BOOST_TEST(!log.pop_overdue(noon + 1h).has_value());
}

BOOST_AUTO_TEST_CASE(changes_its_options_but_not_its_kind) {
    any seats(parsed("3 seats"));
    auto const t = seats.take(3, noon);
    renew(seats, parsed("5 seats"), noon);
    BOOST_TEST(seats.remaining(noon) == 2);
    BOOST_CHECK_EXCEPTION(
        renew(seats, parsed("10/60s exact"), noon), std::invalid_argument,
        says("weir::any_limiter: cannot change `5 seats` to `10/1min`: the kind of limiter is "
             "fixed"));
    BOOST_CHECK_EXCEPTION(renew(seats, parsed("0 seats"), noon), std::invalid_argument,
                          says("weir::seats: seats is 0, but must be from 1 to 1000000000000000"));
    BOOST_TEST(to_string(seats.options()) == "5 seats");
    seats.leave(3, t, noon);
    BOOST_TEST(seats.remaining(noon) == 5);
}

BOOST_AUTO_TEST_CASE(rejects_invalid_options_like_the_policy) {
    BOOST_CHECK_EXCEPTION(any(parsed("0/1s exact")), std::invalid_argument,
                          says("weir::sliding_log: limit is 0, but must be from 1 to 67108864"));
    BOOST_CHECK_EXCEPTION(any(parsed("99999999999/1s")), std::invalid_argument,
                          says("weir::sliding_log: limit is 99999999999, but must be from 1 to "
                               "67108864; sliding_window and token_bucket have no such bound"));
}

// Compared with the policy itself after each step.
BOOST_AUTO_TEST_CASE(decides_like_the_policy) {
    auto const compare = [](auto plain, random_source& random) {
        any policy(limiter_config(plain.options()));
        auto now = noon;
        std::vector<std::pair<ticket, amount>> held;
        for (int i = 0; i != 60; ++i) {
            now += std::chrono::nanoseconds(random.of_any_size(2'000'000'000));
            auto const n = random.between(1, 3);
            auto const ahead = random.between(0, 3);
            BOOST_TEST_REQUIRE(policy.ready_at(n, ahead, now) == plain.ready_at(n, ahead, now));
            BOOST_TEST_REQUIRE(policy.remaining(now) == plain.remaining(now));
            if (policy.ready_at(n, 0, now) <= now) {
                allocation_count const allocations;
                auto const t = policy.take(n, now);
                auto const allocated = allocations();
                BOOST_TEST_REQUIRE(allocated == 0U);
                BOOST_TEST_REQUIRE(t == plain.take(n, now));
                held.emplace_back(t, n);
            } else if (!held.empty()) {
                auto [t, m] = held.back();
                held.pop_back();
                if constexpr (weir::uses_reports<decltype(plain)>) {
                    auto const how = random.one_of({outcome::success, outcome::dropped});
                    auto const reported = policy.report(t, how);
                    BOOST_TEST_REQUIRE(reported == plain.report(t, how));
                    t = reported;
                }
                if (random.one_in(2))
                    BOOST_TEST_REQUIRE(policy.leave(m, t, now) == weir::leave(plain, m, t, now));
                else
                    BOOST_TEST_REQUIRE(policy.refund(m, t, now) == plain.refund(m, t, now));
            }
        }
    };
    support::for_each_seed(1'000'000, 50, [&](random_source& random) {
        compare(weir::policy::seats({.seats = 7}), random);
        compare(weir::policy::seats({.seats = 7, .max_hold = 1s}), random);
        compare(weir::policy::resting_seats({.seats = 7, .rest = 2s}), random);
        compare(weir::policy::penalty({.offences = 2, .first = 1s}), random);
        compare(weir::policy::sliding_log({.limit = 5, .window = 3s}), random);
        compare(weir::policy::sliding_window({.limit = 5, .window = 3s, .slices = 6}), random);
        compare(weir::policy::fixed_window({.limit = 5, .window = 3s}), random);
        compare(weir::policy::calendar_window({.limit = 5, .clock = support::wall::read}), random);
        compare(weir::policy::token_bucket({.rate = {3, 1s}, .burst = 4}), random);
        compare(weir::policy::leaky_bucket({.rate = {3, 1s}, .capacity = 4}), random);
        compare(weir::policy::smooth_bursty({.rate = {3, 1s}}), random);
        compare(weir::policy::smooth_warming_up({.rate = {3, 1s}}), random);
    });
}

BOOST_AUTO_TEST_CASE(gets_the_time_and_the_outcome_if_it_needs_them) {
    any seats(limiter_config::parse("10 aimd min 1 max 20 slow_start 0 samples 1"));
    seats.begin(noon);
    BOOST_TEST(seats.times_leave());
    BOOST_TEST(seats.capacity() == 20);
    BOOST_TEST(seats.capacity_now() == 10);
    auto const t = seats.report(seats.take(10, noon), weir::outcome::dropped);
    seats.leave(10, t, noon + 1s);
    BOOST_TEST(seats.capacity_now() == 9);

    any plain(limiter_config::parse("10 seats"));
    BOOST_TEST(!plain.times_leave());
    BOOST_TEST(plain.capacity_now() == 10);
    BOOST_TEST(plain.report(7, weir::outcome::dropped) == 7U);
}

BOOST_AUTO_TEST_SUITE_END()
