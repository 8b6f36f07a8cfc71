#include <weir/policy/token_bucket.hpp>

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
using support::begun;
using support::bucket_history;
using support::expect;
using support::fits;
using support::random_source;
using support::renew;
using support::says;
using support::tick;
using weir::amount;
using weir::carry_over;
using weir::duration;
using weir::max_amount;
using weir::rate;
using weir::refill;
using weir::time_point;
using weir::token_bucket_options;
using weir::policy::token_bucket;

BOOST_AUTO_TEST_SUITE(the_token_bucket)

namespace {

constexpr time_point noon{12h};

// The definition: the missing permits are the level of a leaking bucket.
class tokens {
public:
    using policy_type = token_bucket;

    explicit tokens(token_bucket_options const& options)
        : options_(options), missing_(history(options)) {}

    static token_bucket_options some_options(random_source& random) {
        token_bucket_options o{.rate = support::some_rate(random),
                               .refill = random.one_in(2) ? refill::continuous : refill::interval,
                               .carry_over = support::some_carry_over(random)};
        if (!random.one_in(6))
            o.burst = support::some_capacity(random);
        if (random.one_in(2))
            o.initial = random.one_in(3) ? 0 : random.between(0, burst_of(o));
        return o;
    }
    static token_bucket_options some_options(random_source& random,
                                             token_bucket_options const& before) {
        auto options = some_options(random);
        if (random.one_in(2))
            options.refill = before.refill;
        if (random.one_in(3))
            options.rate = before.rate;
        else if (random.one_in(2))
            options.rate = {options.rate.permits(), before.rate.period()};
        if (options.initial)
            options.initial = std::min(*options.initial, burst_of(options));
        return options;
    }
    static duration scale(token_bucket_options const& options) { return options.rate.period(); }

    [[nodiscard]] bool exact_behind_any() const { return missing_.is_fine_grained(); }
    [[nodiscard]] bool stands_still() const { return missing_.stands_still(); }
    void begin(time_point now) { missing_.begin(now, initial(), now); }
    [[nodiscard]] amount used_up_at(time_point t) const { return missing_.permits_at(t); }
    void take(amount n, time_point now) { missing_.add(n, now); }
    void refund(std::size_t, amount n, time_point now) { missing_.take_out(n, now); }
    [[nodiscard]] bool is_lawful() const { return missing_.is_lawful(); }

    void configure(token_bucket_options const& options, time_point now) {
        auto const before = missing_;
        bool const same_beat =
            options_.refill == refill::interval && options.refill == refill::interval &&
            options.rate.period() == options_.rate.period();
        options_ = options;
        missing_ = history(options);
        auto level = initial();
        auto origin = now;
        if (options.carry_over != carry_over::reset) {
            bucket_history::number stored =
                before.full() - std::max<bucket_history::number>(before.level(now), 0);
            bool const in_proportion = options.carry_over == carry_over::proportional && stored > 0;
            stored = in_proportion
                         ? bucket_history::scaled(stored, missing_.full(), before.full())
                         : bucket_history::scaled(stored, missing_.permit(), before.permit());
            level = missing_.full() - std::min(stored, missing_.full());
            if (same_beat)
                origin = before.beat(now);
        }
        missing_.begin(origin, level, now);
    }

private:
    // By default it is the number of permits in the rate.
    static amount burst_of(token_bucket_options const& o) {
        return o.burst ? *o.burst : o.rate.permits() == 0 ? 1 : o.rate.permits();
    }
    static bucket_history history(token_bucket_options const& o) {
        return {o.rate, burst_of(o), o.refill == refill::interval};
    }
    [[nodiscard]] bucket_history::number initial() const {
        auto const burst = burst_of(options_);
        return (burst - options_.initial.value_or(burst)) * missing_.permit();
    }

    token_bucket_options options_;
    bucket_history missing_;
};

}  // namespace

// Seen in other libraries: boinkor-net/governor#107, #249: one cell too many.
BOOST_AUTO_TEST_CASE(grants_its_burst_at_once_and_then_at_the_rate) {
    auto bucket = begun<token_bucket>({.rate = {10, 1s}, .burst = 5}, noon);
    BOOST_TEST(bucket.remaining(noon) == 5);
    bucket.take(5, noon);
    BOOST_TEST(bucket.ready_at(1, 0, noon) == noon + 100ms);
    BOOST_TEST(bucket.ready_at(5, 0, noon) == noon + 500ms);
    BOOST_TEST(bucket.ready_at(5, 20, noon) == noon + 2500ms);
    BOOST_TEST(!fits(bucket, 1, noon + 100ms - tick));
    BOOST_TEST(fits(bucket, 1, noon + 100ms));
    BOOST_TEST(bucket.remaining(noon + 1h) == 5);
}

BOOST_AUTO_TEST_CASE(holds_the_permits_of_its_rate_by_default) {
    BOOST_TEST(token_bucket({.rate = {100, 1s}}).capacity() == 100);
    BOOST_TEST(token_bucket({.rate = {1, 3s}}).capacity() == 1);
    BOOST_TEST(token_bucket({.rate = {0, 1s}}).capacity() == 1);
    BOOST_TEST(token_bucket({.rate = {100, 1s}, .initial = 100}).remaining(noon) == 100);
    auto bucket = begun<token_bucket>({.rate = {100, 1s}}, noon);
    bucket.take(100, noon);
    BOOST_TEST(bucket.remaining(noon + 500ms) == 50);
    renew(bucket, {.rate = {200, 1s}}, noon + 1h);
    BOOST_TEST(bucket.capacity() == 200);
}

BOOST_AUTO_TEST_CASE(does_not_drift_by_a_nanosecond_in_a_billion_grants) {
    // A third of a second is not a whole number of nanoseconds; neither is 3 ns for 7 permits, in another way.
    for (auto const& r : {rate{3, 1s}, rate{7, 3ns}, rate{1, 3s}, rate{999'999'937, 1h}}) {
        auto bucket = begun<token_bucket>({.rate = r, .burst = 1'000'000}, noon);
        bucket.take(1'000'000, noon);
        auto now = noon;
        for (int i = 0; i != 2'000; ++i) {
            auto const ready = bucket.ready_at(500'000, 0, now);
            expect(ready > now, "empty until then");
            now = ready;
            bucket.take(500'000, now);
        }
        __extension__ using wide = __int128;
        // Less the refill of a nanosecond, or less than a permit: a full bucket has that much.
        auto const spare = std::min<amount>(r.permits(), r.period().count()) - 1;
        auto const nanoseconds =
            (wide(1'000'000'000) * r.period().count() - spare - 1) / r.permits() + 1;
        BOOST_TEST((now - noon).count() == static_cast<duration::rep>(nanoseconds));
    }
    // One by one.
    auto bucket = begun<token_bucket>({.rate = {3, 1us}, .burst = 1}, noon);
    auto now = noon;
    constexpr int seconds = support::sanitizer ? 1 : 10;
    for (int i = 0; i != seconds * 3'000'000; ++i) {
        now = bucket.ready_at(1, 0, now);
        bucket.take(1, now);
    }
    BOOST_TEST((bucket.ready_at(1, 0, now) - noon) == 1s * seconds);
}

// Seen in another library: ska-sa/spead2#114.
BOOST_AUTO_TEST_CASE(catches_up_after_a_late_timer_up_to_the_burst) {
    auto bucket = begun<token_bucket>({.rate = {1, 1ms}, .burst = 10}, noon);
    bucket.take(10, noon);
    BOOST_TEST(bucket.remaining(noon + 7ms + tick) == 7);
    bucket.take(7, noon + 7ms + 900us);
    BOOST_TEST(fits(bucket, 1, noon + 8ms));
    BOOST_TEST(bucket.remaining(noon + 1min) == 10);
}

BOOST_AUTO_TEST_CASE(can_begin_with_less_than_it_holds) {
    auto bucket = begun<token_bucket>({.rate = {1, 1s}, .burst = 5, .initial = 2}, noon);
    BOOST_TEST(bucket.remaining(noon) == 2);
    BOOST_TEST(bucket.ready_at(5, 0, noon) == noon + 3s);
    BOOST_TEST(bucket.ready_at(5, 0, noon + 1s) == noon + 3s);  // it fills from the start
    auto empty = begun<token_bucket>({.rate = {1, 1s}, .burst = 5, .initial = 0}, noon);
    BOOST_TEST(empty.ready_at(1, 0, noon) == noon + 1s);
    BOOST_TEST(fits(empty, 1, noon + 1s));
}

BOOST_AUTO_TEST_CASE(can_be_refilled_at_the_end_of_each_interval) {
    auto bucket =
        begun<token_bucket>({.rate = {3, 10s}, .burst = 5, .refill = refill::interval}, noon);
    BOOST_TEST(bucket.remaining(noon) == 5);
    bucket.take(5, noon + 4s);
    BOOST_TEST(bucket.ready_at(1, 0, noon + 4s) == noon + 10s);
    BOOST_TEST(bucket.ready_at(3, 0, noon + 4s) == noon + 10s);
    BOOST_TEST(bucket.ready_at(4, 0, noon + 4s) == noon + 20s);
    BOOST_TEST(bucket.remaining(noon + 10s - tick) == 0);
    BOOST_TEST(bucket.remaining(noon + 10s) == 3);
    bucket.take(3, noon + 19s);
    BOOST_TEST(bucket.ready_at(1, 0, noon + 19s) == noon + 20s);
    BOOST_TEST(bucket.remaining(noon + 39s) == 5);
}

BOOST_AUTO_TEST_CASE(goes_into_debt_only_by_charge_and_settle_and_pays_it_first) {
    auto bucket = begun<token_bucket>({.rate = {1, 1s}, .burst = 5}, noon);
    bucket.take(12, noon);
    BOOST_TEST(bucket.remaining(noon) == 0);
    BOOST_TEST(bucket.ready_at(1, 0, noon) == noon + 8s);
    BOOST_TEST(bucket.refund(4, 0, noon + 1s));
    BOOST_TEST(bucket.ready_at(1, 0, noon + 1s) == noon + 4s);
}

BOOST_AUTO_TEST_CASE(holds_no_more_than_its_burst_after_a_refund) {
    auto bucket = begun<token_bucket>({.rate = {1, 1s}, .burst = 5}, noon);
    auto const t = bucket.take(5, noon);
    BOOST_TEST(bucket.refund(4, t, noon + 3s));
    BOOST_TEST(bucket.remaining(noon + 3s) == 5);
    BOOST_TEST(!bucket.refund(1, t, noon + 3s));
    BOOST_TEST(bucket.remaining(noon + 3s) == 5);
    BOOST_TEST(bucket.remaining(noon + 1h) == 5);
}

BOOST_AUTO_TEST_CASE(grants_nothing_beyond_its_burst_at_a_rate_of_0) {
    for (auto const how : {refill::continuous, refill::interval}) {
        auto bucket = begun<token_bucket>({.rate = {0, 1s}, .burst = 2, .refill = how}, noon);
        bucket.take(2, noon);
        BOOST_TEST(bucket.ready_at(1, 0, noon) == weir::unknown);
        BOOST_TEST(!fits(bucket, 1, noon + 24h * 365 * 100));
        renew(bucket, {.rate = {1, 1s}, .burst = 2, .refill = how}, noon + 1min);
        BOOST_TEST(bucket.ready_at(1, 0, noon + 1min) == noon + 1min + 1s);
    }
}

BOOST_AUTO_TEST_CASE(carries_over_its_permits_by_carry_over) {
    auto const changed = [](carry_over how, amount burst) {
        auto bucket = begun<token_bucket>({.rate = {1, 1s}, .burst = 10}, noon);
        bucket.take(4, noon);
        renew(bucket, {.rate = {2, 1s}, .burst = burst, .initial = 1, .carry_over = how}, noon);
        return bucket.remaining(noon);
    };
    BOOST_TEST(changed(carry_over::as_is, 20) == 6);
    BOOST_TEST(changed(carry_over::as_is, 5) == 5);
    BOOST_TEST(changed(carry_over::proportional, 20) == 12);
    BOOST_TEST(changed(carry_over::proportional, 5) == 3);
    BOOST_TEST(changed(carry_over::reset, 20) == 1);
}

BOOST_AUTO_TEST_CASE(keeps_the_refilled_fraction_when_the_rate_changes) {
    auto bucket = begun<token_bucket>({.rate = {1, 1s}, .burst = 10}, noon);
    bucket.take(10, noon);
    renew(bucket, {.rate = {1, 10s}, .burst = 10}, noon + 300ms);
    BOOST_TEST(bucket.ready_at(1, 0, noon + 300ms) == noon + 300ms + 7s);
}

BOOST_AUTO_TEST_CASE(keeps_its_period_when_the_interval_stays_the_same) {
    auto bucket =
        begun<token_bucket>({.rate = {3, 10s}, .burst = 9, .refill = refill::interval}, noon);
    bucket.take(9, noon);
    renew(bucket, {.rate = {5, 10s}, .burst = 9, .refill = refill::interval}, noon + 14s);
    BOOST_TEST(bucket.remaining(noon + 14s) == 3);
    BOOST_TEST(bucket.ready_at(4, 0, noon + 14s) == noon + 20s);
    renew(bucket, {.rate = {5, 4s}, .burst = 9, .refill = refill::interval}, noon + 14s);
    BOOST_TEST(bucket.ready_at(4, 0, noon + 14s) == noon + 18s);
}

BOOST_AUTO_TEST_CASE(keeps_debt_when_options_change_unless_all_is_reset) {
    for (auto const how : {carry_over::as_is, carry_over::proportional, carry_over::reset}) {
        auto bucket = begun<token_bucket>({.rate = {1, 1s}, .burst = 2}, noon);
        bucket.take(10, noon);
        renew(bucket, {.rate = {1, 1s}, .burst = 100, .carry_over = how}, noon);
        BOOST_TEST((bucket.ready_at(1, 0, noon) - noon == (how == carry_over::reset ? 0s : 9s)));
    }
}

// Seen in other libraries: golang/go#71154, bucket4j#51.
BOOST_AUTO_TEST_CASE(is_exact_at_the_ends_of_its_ranges) {
    auto once_in_a_year = begun<token_bucket>({.rate = {1, 24h * 365}, .burst = 1}, noon);
    once_in_a_year.take(1, noon);
    BOOST_TEST(once_in_a_year.ready_at(1, 0, noon) == noon + 24h * 365);
    BOOST_TEST(once_in_a_year.ready_at(1, 99, noon) == noon + 24h * 365 * 100);
    BOOST_TEST(once_in_a_year.ready_at(1, 1'000, noon) == weir::never);

    auto all_at_once = begun<token_bucket>({.rate = {max_amount, 1ns}, .burst = max_amount}, noon);
    all_at_once.take(max_amount, noon);
    BOOST_TEST(!fits(all_at_once, 1, noon));
    BOOST_TEST(fits(all_at_once, max_amount, noon + tick));

    auto slowest = begun<token_bucket>({.rate = {1, weir::forever}, .burst = max_amount}, noon);
    for (int i = 0; i != 100'000; ++i)
        slowest.take(max_amount, noon);
    BOOST_TEST(slowest.remaining(noon) == 0);
    constexpr auto all = std::numeric_limits<amount>::max();
    BOOST_TEST(slowest.ready_at(max_amount, all, noon) == weir::never);
    renew(slowest, {.rate = {max_amount, 1ns}, .burst = max_amount}, noon);
    BOOST_TEST(!fits(slowest, 1, noon + 1us));
    BOOST_TEST(fits(slowest, 1, noon + 1ms));
}

BOOST_AUTO_TEST_CASE(rejects_invalid_options_by_name) {
    using nonsense = std::invalid_argument;
    BOOST_CHECK_EXCEPTION(
        token_bucket({.burst = 0}), nonsense,
        says("weir::token_bucket: burst is 0, but must be from 1 to 1000000000000000"));
    BOOST_CHECK_EXCEPTION(token_bucket({.burst = 3, .initial = 4}), nonsense,
                          says("weir::token_bucket: initial is 4, but must be from 0 to 3"));
    BOOST_CHECK_EXCEPTION(token_bucket({.refill = static_cast<refill>(2)}), nonsense,
                          says("weir::token_bucket: refill is 2, but must be from 0 to 1"));
    BOOST_CHECK_EXCEPTION(token_bucket({.carry_over = static_cast<carry_over>(3)}), nonsense,
                          says("weir::token_bucket: carry_over is 3, but must be from 0 to 2"));
}

BOOST_AUTO_TEST_CASE(implements_the_definition) {
    support::compare_in_every_way<tokens>(30'000'000, 2'000);
}

BOOST_AUTO_TEST_CASE(keeps_no_trace_of_a_rejected_request) {
    support::compare_asked_with_left_alone<tokens>(39'000'000, 1'000);
}

// As documented: a change of the way of refilling drops the accrued part.
BOOST_AUTO_TEST_CASE(drops_the_accrued_part_when_the_way_of_refilling_changes) {
    token_bucket_options const evenly{.rate = {10, 1h}, .initial = 0};
    token_bucket_options const by_intervals{
        .rate = {10, 1h}, .initial = 0, .refill = refill::interval};

    auto bucket = begun<token_bucket>(evenly, noon);
    renew(bucket, by_intervals, noon + 5min);  // a permit is due a minute later
    BOOST_TEST(bucket.remaining(noon + 65min - tick) == 0);
    BOOST_TEST(bucket.remaining(noon + 65min) == 10);

    auto beats = begun<token_bucket>(by_intervals, noon);
    renew(beats, evenly, noon + 59min);  // ten permits are due a minute later
    BOOST_TEST(beats.remaining(noon + 65min - tick) == 0);
    BOOST_TEST(beats.remaining(noon + 65min) == 1);
}

BOOST_AUTO_TEST_SUITE_END()
