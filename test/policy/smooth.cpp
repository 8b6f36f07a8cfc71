#include <weir/policy/smooth.hpp>
#include <weir/policy/smooth_bursty.hpp>
#include <weir/policy/smooth_warming_up.hpp>

#include "support/allocations.hpp"
#include "support/guava.hpp"
#include "support/printing.hpp"
#include "support/random.hpp"
#include "support/renew.hpp"

#include <boost/mp11/list.hpp>
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

using namespace std::chrono_literals;
using support::allocation_count;
using support::begun;
using support::guava_curve;
using support::random_source;
using support::real;
using support::renew;
using support::to_real;
using weir::amount;
using weir::carry_over;
using weir::duration;
using weir::max_amount;
using weir::never;
using weir::rate;
using weir::time_point;
using weir::policy::smooth;
using weir::policy::smooth_bursty;
using weir::policy::smooth_warming_up;

BOOST_AUTO_TEST_SUITE(smooth_limits)

namespace {

constexpr duration tick{1};
constexpr time_point noon{12h};

// A custom curve: below the steady rate at first, above it when much is saved; it saves three permits for every two.
struct own_options {
    weir::rate rate = weir::rate(1, 1s);
    weir::carry_over carry_over = weir::carry_over::proportional;
    duration full_after = 10s;
};
class own_curve {
public:
    using options_type = own_options;

    explicit own_curve(own_options const& o) : full_after_(o.full_after) {}
    [[nodiscard]] duration full_after() const noexcept { return full_after_; }
    [[nodiscard]] duration idle_at_start() const noexcept { return 1s; }
    [[nodiscard]] double saving() const noexcept { return 1.5; }
    [[nodiscard]] double cost(double saved) const noexcept {
        return 0.25 * saved + 2 * saved * saved / (saved + 50);
    }

private:
    duration full_after_;
};

guava_curve curve_of(own_options const& o) {
    auto const stable = support::interval_of(o.rate);
    return {.stable = stable,
            .max = to_real(o.full_after) / stable * 1.5L,
            .cooling = stable / 1.5L,
            .at_start = to_real(std::min<duration>(o.full_after, 1s)) / stable * 1.5L,
            .price = [=](real saved) {
                return stable * (0.25L + 2 * saved * (saved + 100) / ((saved + 50) * (saved + 50)));
            }};
}
using support::curve_of;

static_assert(weir::policy::smooth_curve<own_curve>);
static_assert(weir::limiting_policy<smooth<own_curve>>);
static_assert(weir::limiting_policy<smooth_bursty>);
static_assert(weir::limiting_policy<smooth_warming_up>);
static_assert(!weir::watchful_policy<smooth_bursty>);
static_assert(std::is_nothrow_move_constructible_v<smooth_bursty>);
static_assert(std::is_trivially_destructible_v<weir::smooth_bursty_options>);
static_assert(std::is_trivially_destructible_v<weir::smooth_warming_up_options>);

using policies = boost::mp11::mp_list<smooth_bursty, smooth_warming_up, smooth<own_curve>>;

duration some_length(random_source& random, duration most) {
    return random.one_in(4) ? random.one_of<duration>({0ns, 1ns, most, most / 2})
                            : duration(random.of_any_size(most.count()));
}

rate any_rate(random_source& random) {
    switch (random.between(0, 5)) {
        case 0:
            return {1, 24h * 365};
        case 1:
            return {1, 1ns};
        case 2:
            return {random.between(1, 1000), 1s};
        case 3:
            return {random.between(1, 20), random.one_of<duration>({3s, 7ms, 1min, 11ns})};
        default:
            return {1 + random.of_any_size(1'000'000'000),
                    duration(1 + random.of_any_size(duration(1h).count()))};
    }
}

template <class Options>
Options some_options(random_source& random);
template <>
weir::smooth_bursty_options some_options(random_source& random) {
    return {.rate = any_rate(random),
            .max_burst = some_length(random, 1h),
            .initial = random.one_in(2) ? 0ns : some_length(random, 1h),
            .carry_over = static_cast<carry_over>(random.between(0, 2))};
}
template <>
weir::smooth_warming_up_options some_options(random_source& random) {
    return {.rate = any_rate(random),
            .warm_up = some_length(random, 1h),
            .cold_factor = random.one_of<double>({1, 1.5, 3, 3, 10, 200}),
            .carry_over = static_cast<carry_over>(random.between(0, 2))};
}
template <>
own_options some_options(random_source& random) {
    return {.rate = any_rate(random),
            .carry_over = static_cast<carry_over>(random.between(0, 2)),
            .full_after = some_length(random, 1h)};
}

void expect(bool condition, char const* what) {
    if (!condition) [[unlikely]]
        BOOST_FAIL(what);
}

template <class Policy>
time_point ready(Policy const& policy, time_point now) {
    return std::max(policy.ready_at(1, 0, now), now);
}

// Returns a time at which something may change: the edge, a nanosecond before or after it, or any later time.
template <class Policy>
time_point some_time(random_source& random, Policy const& policy, time_point now) {
    auto const edge = ready(policy, now);
    if (edge > noon + 24h * 365 * 100)  // rarely so far away
        return now + duration(random.of_any_size(duration(24h).count()));
    switch (random.between(0, 6)) {
        case 0:
            return now;
        case 1:
            return edge;
        case 2:
            return edge + tick;
        case 3:
            return std::max(edge - tick, now);
        case 4:
            return edge + duration(random.of_any_size(duration(2h).count()));
        case 5:
            return now +
                   duration(random.of_any_size(std::max<std::int64_t>((edge - now).count(), 1)));
        default:
            return random.one_in(8) ? edge + 24h * 365 * random.between(1, 3) : edge;
    }
}

amount some_amount(random_source& random, rate const& r) {
    // So that no single request takes more than hours.
    auto const most = std::clamp<real>(3.6e12L / support::interval_of(r), 3, 1e9L);
    return 1 + random.of_any_size(static_cast<amount>(most));
}

// Runs a policy and the definition on one schedule, and compares them after each step.
template <class Policy>
void compare(std::uint64_t first_seed, std::uint64_t count, bool changes) {
    using options_type = typename Policy::options_type;
    support::for_each_seed(first_seed, count, [&](random_source& random) {
        auto options = some_options<options_type>(random);
        auto curve = curve_of(options);
        auto policy = begun<Policy>(options, noon);
        support::guava_limiter truth(curve);
        // The price of a permit if `more` than the definition's permits are saved.
        auto const price = [&](real more = 0) {
            auto const saved = std::min(truth.saved() + more, curve.max);
            return std::max(curve.stable, curve.price(saved));
        };
        auto const error_of_a_request = [&] {
            return 0.01L + 1e-3L * price() / curve.stable + 4e-16L * truth.saved() * price();
        };
        // The largest difference of the two, in nanoseconds: from rounding of grants and of floats.
        real slack = 1 + error_of_a_request();
        auto now = noon;
        policy.take(1, now);
        truth.take(1, 0);

        for (auto steps = random.between(3, 25); steps != 0; --steps) {
            now = some_time(random, policy, now);
            // A float cannot decide whether this was a nanosecond of idleness.
            auto const doubt = 0.01L + 1e-3L * curve.price(curve.max) / curve.stable;
            if (std::fabs(to_real(now - noon) - truth.free() - 1) < doubt)
                now += tick;
            auto const t = to_real(now - noon);
            bool const idle = t > truth.free();
            truth.settle(t);
            // A request that comes earlier has saved more by that time, and pays for it.
            if (idle)
                slack *= price(slack / curve.cooling) / curve.stable;
            slack += error_of_a_request();
            if (changes && random.one_in(6)) {
                auto const before = curve;
                options = some_options<options_type>(random);
                curve = curve_of(options);
                renew(policy, options, now);
                truth.configure(curve, options.carry_over, t);
                // The value of a nanosecond's savings now.
                slack *= std::max<real>(1, curve.stable / before.stable) *
                         (before.max > 0 ? std::max<real>(1, curve.max / before.max) : 1) *
                         std::max<real>(1, curve.price(curve.max) / curve.stable);
                slack += 0.01L * curve.price(curve.max) / curve.stable;
            } else {
                auto const n = some_amount(random, options.rate);
                allocation_count const allocations;
                policy.take(n, now);
                expect(allocations() == 0, "nothing is allocated");
                truth.take(n, t);
            }
            auto const is = to_real(ready(policy, now)) - to_real(noon);
            auto const should_be = std::max(truth.free(), t);
            if (std::fabs(is - should_be) > slack + 1e-15L * should_be)
                BOOST_FAIL("ready at " << is << " instead of " << should_be << " ns, " << slack
                                       << " apart are allowed");
        }
    });
    BOOST_TEST(true);  // no check above failed
}

}  // namespace

BOOST_AUTO_TEST_CASE_TEMPLATE(implement_the_definition, Policy, policies) {
    compare<Policy>(1'000'000, 3'000, false);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(implement_the_definition_with_new_options, Policy, policies) {
    compare<Policy>(1'500'000, 3'000, true);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(three_at_a_time_cost_what_three_times_one_cost, Policy, policies) {
    support::for_each_seed(2'000'000, 3'000, [](random_source& random) {
        auto at_once = begun<Policy>(some_options<typename Policy::options_type>(random), noon);
        auto now = noon;
        for (auto steps = random.between(0, 4); steps != 0; --steps) {
            at_once.take(random.between(1, 5), now);
            now = some_time(random, at_once, now);
        }
        // Exactly, for any state and any division.
        auto one_by_one = at_once;
        auto const n = random.between(2, 40);
        at_once.take(n, now);
        for (amount left = n; left != 0;) {
            auto const part = random.one_in(2) ? 1 : random.between(1, left);
            one_by_one.take(part, now);
            left -= part;
        }
        for (auto const gap : {0ns, 1ns, 7ns}) {
            expect(ready(at_once, now) == ready(one_by_one, now), "the same debt");
            now = ready(at_once, now) + gap;
            expect(at_once.remaining(now) == one_by_one.remaining(now), "the same saved");
            at_once.take(1, now);
            one_by_one.take(1, now);
        }

        // Also if each waits until it is served.
        auto waiting = at_once;
        auto in_line = at_once;
        auto when = now;
        for (amount i = 0; i != n; ++i) {
            when = ready(in_line, when);
            in_line.take(1, when);
        }
        when = ready(waiting, now);
        waiting.take(n, when);
        expect(ready(waiting, when) == ready(in_line, when), "the same end");
    });
    BOOST_TEST(true);  // no check above failed
}

BOOST_AUTO_TEST_CASE_TEMPLATE(return_the_exact_grant_time_of_each_waiting_request, Policy,
                              policies) {
    support::for_each_seed(3'000'000, 2'000, [](random_source& random) {
        auto const options = some_options<typename Policy::options_type>(random);
        auto policy = begun<Policy>(options, noon);
        auto now = noon;
        for (auto steps = random.between(0, 6); steps != 0; --steps) {
            policy.take(some_amount(random, options.rate), now);
            now = some_time(random, policy, now);
        }
        auto future = policy;
        auto when = now;
        amount ahead = 0;
        for (auto callers = random.between(1, 20); callers != 0; --callers) {
            auto const n = some_amount(random, options.rate);
            auto const promised = std::max(policy.ready_at(n, ahead, now), now);
            when = ready(future, when);
            expect(promised == when, "as promised");
            if (when == never)
                break;
            if (when > now) {
                expect(future.ready_at(n, 0, when - tick) > when - tick, "not before");
                expect(future.remaining(when - tick) == 0, "nothing before");
            }
            expect(future.remaining(when) >= 1, "one at least");
            future.take(n, when);
            ahead += n;
        }
    });
    BOOST_TEST(true);  // no check above failed
}

BOOST_AUTO_TEST_CASE_TEMPLATE(grant_the_remaining_permits_one_after_the_other, Policy, policies) {
    support::for_each_seed(4'000'000, 2'000, [](random_source& random) {
        auto const options = some_options<typename Policy::options_type>(random);
        auto policy = begun<Policy>(options, noon);
        auto now = noon;
        for (auto steps = random.between(0, 4); steps != 0; --steps) {
            policy.take(some_amount(random, options.rate), now);
            now = some_time(random, policy, now);
        }
        auto const said = policy.remaining(now);
        amount granted = 0;
        for (; granted != 300 && policy.ready_at(1, 0, now) <= now; ++granted)
            policy.take(1, now);
        expect(granted == std::min<amount>(said, 300), "as many as remain");
    });
    BOOST_TEST(true);  // no check above failed
}

// As if the permits had never been taken, or fewer.
BOOST_AUTO_TEST_CASE_TEMPLATE(undo_refunded_grants, Policy, policies) {
    support::for_each_seed(5'000'000, 2'000, [](random_source& random) {
        auto const options = some_options<typename Policy::options_type>(random);
        auto policy = begun<Policy>(options, noon);
        auto now = noon;
        policy.take(1, now);
        for (auto steps = random.between(0, 4); steps != 0; --steps) {
            policy.take(some_amount(random, options.rate), now);
            now = some_time(random, policy, now);
        }
        auto untouched = policy;
        auto fewer = policy;
        auto const n = some_amount(random, options.rate);
        auto const unused = random.between(1, n);
        auto const t = policy.take(n, now);
        auto part = policy;
        expect(policy.refund(n, t, now), "room");
        // A ticket is a float.
        auto const curve = curve_of(options);
        auto const slack =
            2 + 4e-16L * static_cast<real>(n) * std::max(curve.stable, curve.price(curve.max));
        auto const apart = [](Policy const& a, Policy const& b, time_point when) {
            return std::fabs(to_real(ready(a, when) - ready(b, when)));
        };
        expect(apart(policy, untouched, now) <= slack, "as before");

        part.refund(unused, t, now);
        if (n != unused)
            fewer.take(n - unused, now);
        expect(apart(part, fewer, now) <= slack, "as if fewer had been taken");
    });
    BOOST_TEST(true);  // no check above failed
}

BOOST_AUTO_TEST_CASE_TEMPLATE(do_not_drift, Policy, policies) {
    // Constant requests get exactly the rate: after the cold permits, permit k is granted at the first nanosecond after
    // k intervals.
    for (auto const& r : {rate(1, 1s), rate(3, 1s), rate(7, 10s), rate(997, 1s), rate(1, 7ns),
                          rate(999, 1000ns), rate(1, 24h * 365)}) {
        typename Policy::options_type options;
        options.rate = r;
        auto policy = begun<Policy>(options, noon);
        auto now = noon;
        policy.take(1 + r.permits() * (20s / r.period()), now);  // until nothing is saved
        now = ready(policy, now);
        BOOST_TEST_REQUIRE(policy.remaining(now) == 1);
        auto const start = now;
        auto const most =
            std::min<amount>(3'600'000'000'000 / r.period().count() * r.permits() + 1, 200'000);
        amount granted = 0;
        for (; granted != most; ++granted) {
            __extension__ using wide = __int128;
            auto const due = wide{granted} * r.period().count();
            auto const exact =
                start + duration(static_cast<std::int64_t>((due + r.permits() - 1) / r.permits()));
            auto const off = now - exact;
            BOOST_TEST_REQUIRE(off <= tick);
            BOOST_TEST_REQUIRE(off >= -tick);
            policy.take(1, now);
            now = ready(policy, now);
        }
        BOOST_TEST(granted == most);
    }
}

BOOST_AUTO_TEST_CASE_TEMPLATE(grant_in_an_hour_what_the_rate_allows_to_the_unit, Policy, policies) {
    typename Policy::options_type options;
    options.rate = rate(7, 3s);
    auto policy = begun<Policy>(options, noon);
    auto now = noon;
    for (int i = 0; i != 50; ++i) {
        policy.take(21, now);
        now = ready(policy, now);
    }
    auto const start = now;
    amount granted = 0;
    for (; now < start + 1h; ++granted) {
        policy.take(1, now);
        now = ready(policy, now);
    }
    BOOST_TEST(granted == 8'400);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(are_correct_at_the_ends_of_their_ranges, Policy, policies) {
    support::for_each_seed(6'000'000, 500, [](random_source& random) {
        auto options = some_options<typename Policy::options_type>(random);
        options.rate = random.one_of<rate>(
            {{1, 1ns},
             {max_amount, 1ns},
             {1, weir::forever},
             {max_amount, weir::forever},
             {max_amount - 1, weir::forever - tick}});
        auto policy = begun<Policy>(options, noon);
        auto now = random.one_of<time_point>({time_point{}, noon, never - 1h, never - tick});
        for (auto steps = random.between(1, 20); steps != 0; --steps) {
            auto const n = random.one_of<amount>({1, 2, max_amount - 1, max_amount});
            auto const before = ready(policy, now);
            expect(before >= now, "never in the past");
            auto const t = policy.take(n, now);
            expect(ready(policy, now) >= before, "never earlier by taking");
            expect(policy.ready_at(max_amount, 9'000 * max_amount, now) >= ready(policy, now),
                   "never earlier for those behind");
            expect(policy.remaining(now) >= 0 && policy.remaining(now) <= max_amount, "in range");
            if (random.one_in(4)) {
                policy.refund(n, t, now);
            }
            if (random.one_in(4))
                renew(policy, options, now);
            if (random.one_in(2))
                now =
                    std::min(weir::later(now, duration(random.of_any_size(weir::forever.count()))),
                             never - tick);
        }
    });
    BOOST_TEST(true);  // no check above failed
}

BOOST_AUTO_TEST_CASE_TEMPLATE(keep_prices_of_past_grants_when_the_rate_changes, Policy, policies) {
    typename Policy::options_type options;
    options.rate = rate(2, 1s);
    auto policy = begun<Policy>(options, noon);
    policy.take(100, noon);
    auto const due = ready(policy, noon);
    for (auto const what : {carry_over::as_is, carry_over::proportional, carry_over::reset}) {
        options.carry_over = what;
        for (auto const& r : {rate(1, 1h), rate(1000, 1s), rate(3, 7s), rate(2, 1s)}) {
            options.rate = r;
            renew(policy, options, noon + 1s);
            BOOST_TEST(ready(policy, noon + 1s) - due <= tick);
            BOOST_TEST(due - ready(policy, noon + 1s) <= tick);
        }
    }
}

BOOST_AUTO_TEST_CASE_TEMPLATE(need_the_time_and_have_no_bound, Policy, policies) {
    auto policy = begun<Policy>({}, noon);
    BOOST_TEST(policy.timed());
    BOOST_TEST(policy.capacity() == max_amount);
    BOOST_TEST((policy.ready_at(max_amount, 0, noon) <= noon));
    auto const t = policy.take(1, noon);
    BOOST_TEST(!policy.leave(1, t));
}

BOOST_AUTO_TEST_CASE_TEMPLATE(merge_permits_into_one, Policy, policies) {
    auto policy = begun<Policy>({}, noon);
    policy.take(1, noon);
    auto untouched = policy;
    auto const both = policy.merge(policy.take(3, noon), policy.take(4, noon), 4);
    policy.refund(7, both, noon);
    BOOST_TEST(ready(policy, noon) == ready(untouched, noon));
}

BOOST_AUTO_TEST_SUITE_END()
