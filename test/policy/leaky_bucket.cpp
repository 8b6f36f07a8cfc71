#include <weir/policy/leaky_bucket.hpp>

#include "support/bucket_oracle.hpp"
#include "support/compare_policy.hpp"
#include "support/printing.hpp"
#include "support/random.hpp"
#include "support/renew.hpp"
#include "support/says.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <stdexcept>

using namespace std::chrono_literals;
using support::bucket_history;
using support::fits;
using support::random_source;
using support::renew;
using support::says;
using support::tick;
using weir::amount;
using weir::carry_over;
using weir::duration;
using weir::leaky_bucket_options;
using weir::time_point;
using weir::policy::leaky_bucket;

BOOST_AUTO_TEST_SUITE(the_leaky_bucket)

namespace {

constexpr time_point noon{12h};

class water {
public:
    using policy_type = leaky_bucket;

    explicit water(leaky_bucket_options const& options)
        : options_(options), water_(history(options)) {}

    static leaky_bucket_options some_options(random_source& random) {
        return {.rate = support::some_rate(random),
                .capacity = support::some_capacity(random),
                .carry_over = support::some_carry_over(random)};
    }
    static leaky_bucket_options some_options(random_source& random,
                                             leaky_bucket_options const& before) {
        auto options = some_options(random);
        if (random.one_in(2))
            options.rate = {options.rate.permits(), before.rate.period()};
        if (random.one_in(3))
            options.capacity = before.capacity;
        return options;
    }
    static duration scale(leaky_bucket_options const& options) { return options.rate.period(); }

    [[nodiscard]] bool exact_behind_any() const { return water_.is_fine_grained(); }
    [[nodiscard]] bool stands_still() const { return water_.stands_still(); }
    void begin(time_point now) { water_.begin(now, -water_.owed(), now); }
    [[nodiscard]] amount used_up_at(time_point t) const { return water_.permits_at(t); }
    void take(amount n, time_point now) { water_.add(n, now); }
    void refund(std::size_t, amount n, time_point now) { water_.take_out(n, now); }
    [[nodiscard]] bool is_lawful() const { return water_.is_lawful(); }

    void configure(leaky_bucket_options const& options, time_point now) {
        auto const before = water_;
        options_ = options;
        water_ = history(options);
        using number = bucket_history::number;
        auto const was = std::max<number>(before.level(now), 0);
        number level = 0;
        // The level is rounded up.
        if (options.carry_over == carry_over::as_is ||
            (options.carry_over == carry_over::proportional && was >= before.full()))
            level = -bucket_history::scaled(-was, water_.permit(), before.permit());
        else if (options.carry_over == carry_over::proportional)
            level = -bucket_history::scaled(-was, water_.full(), before.full());
        // The debt beyond the capacity keeps its amount.
        if (options.carry_over == carry_over::proportional && was >= before.full())
            level += water_.full() -
                     bucket_history::scaled(before.full(), water_.permit(), before.permit());
        water_.begin(now, level, now);
    }

private:
    static bucket_history history(leaky_bucket_options const& o) {
        return {o.rate, o.capacity, false};
    }

    leaky_bucket_options options_;
    bucket_history water_;
};

}  // namespace

BOOST_AUTO_TEST_CASE(spaces_grants_evenly_after_any_idle_time) {
    leaky_bucket bucket({.rate = {10, 1s}});
    auto now = noon;
    for (int i = 0; i != 10; ++i) {
        BOOST_TEST(bucket.ready_at(1, 0, now) <= now);
        bucket.take(1, now);
        BOOST_TEST(bucket.ready_at(1, 0, now) == now + 100ms);
        now += i % 3 == 0 ? 1h : 100ms;
    }
    BOOST_TEST(bucket.ready_at(1, 5, now) == now + 500ms);
}

BOOST_AUTO_TEST_CASE(does_not_catch_up_after_a_late_timer) {
    leaky_bucket bucket({.rate = {10, 1s}});
    bucket.take(1, noon);
    bucket.take(1, noon + 170ms);
    BOOST_TEST(bucket.ready_at(1, 0, noon + 170ms) == noon + 270ms);
}

BOOST_AUTO_TEST_CASE(grants_its_capacity_and_then_only_at_its_rate) {
    leaky_bucket bucket({.rate = {1, 1s}, .capacity = 3});
    BOOST_TEST(bucket.rule().level(bucket.state(), noon) == 0);
    bucket.take(3, noon);
    BOOST_TEST(bucket.rule().level(bucket.state(), noon) == 3);
    BOOST_TEST(bucket.remaining(noon) == 0);
    BOOST_TEST(!fits(bucket, 1, noon + 1s - tick));
    BOOST_TEST(bucket.rule().level(bucket.state(), noon + 1s - tick) == 3);
    BOOST_TEST(bucket.rule().level(bucket.state(), noon + 1s) == 2);
    BOOST_TEST(fits(bucket, 1, noon + 1s));
    BOOST_TEST(bucket.ready_at(3, 0, noon + 1s) == noon + 3s);
}

BOOST_AUTO_TEST_CASE(exceeds_its_capacity_only_by_charge_and_settle) {
    leaky_bucket bucket({.rate = {1, 1s}, .capacity = 3});
    bucket.take(7, noon);
    BOOST_TEST(bucket.rule().level(bucket.state(), noon) == 7);
    BOOST_TEST(bucket.remaining(noon) == 0);
    BOOST_TEST(bucket.ready_at(1, 0, noon) == noon + 5s);
    BOOST_TEST(bucket.refund(5, 0, noon));
    BOOST_TEST(bucket.rule().level(bucket.state(), noon) == 2);
    BOOST_TEST(!bucket.refund(1, 0, noon + 10s));
    BOOST_TEST(bucket.rule().level(bucket.state(), noon + 10s) == 0);
}

BOOST_AUTO_TEST_CASE(keeps_its_level_by_carry_over_when_options_change) {
    auto const changed = [](carry_over how, amount capacity) {
        leaky_bucket bucket({.rate = {1, 1s}, .capacity = 10});
        bucket.take(6, noon);
        renew(bucket, {.rate = {2, 3s}, .capacity = capacity, .carry_over = how}, noon);
        return bucket.rule().level(bucket.state(), noon);
    };
    BOOST_TEST(changed(carry_over::as_is, 20) == 6);
    BOOST_TEST(changed(carry_over::as_is, 4) == 6);
    BOOST_TEST(changed(carry_over::proportional, 20) == 12);
    BOOST_TEST(changed(carry_over::proportional, 5) == 3);
    BOOST_TEST(changed(carry_over::reset, 20) == 0);
}

BOOST_AUTO_TEST_CASE(has_no_leak_at_a_rate_of_0) {
    leaky_bucket bucket({.rate = {0, 1s}, .capacity = 2});
    bucket.take(2, noon);
    BOOST_TEST(bucket.ready_at(1, 0, noon) == weir::unknown);
    BOOST_TEST(bucket.rule().level(bucket.state(), noon + 24h * 365 * 100) == 2);
}

BOOST_AUTO_TEST_CASE(rejects_invalid_options_by_name) {
    using nonsense = std::invalid_argument;
    BOOST_CHECK_EXCEPTION(
        leaky_bucket({.capacity = 0}), nonsense,
        says("weir::leaky_bucket: capacity is 0, but must be from 1 to 1000000000000000"));
    BOOST_CHECK_EXCEPTION(leaky_bucket({.carry_over = static_cast<carry_over>(3)}), nonsense,
                          says("weir::leaky_bucket: carry_over is 3, but must be from 0 to 2"));
}

BOOST_AUTO_TEST_CASE(implements_the_definition) {
    support::compare_in_every_way<water>(40'000'000, 2'000);
}

BOOST_AUTO_TEST_CASE(keeps_no_trace_of_a_rejected_request) {
    support::compare_asked_with_left_alone<water>(49'000'000, 1'000);
}

BOOST_AUTO_TEST_SUITE_END()
