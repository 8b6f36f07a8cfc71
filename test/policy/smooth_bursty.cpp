#include <weir/policy/smooth_bursty.hpp>

#include "support/printing.hpp"
#include "support/random.hpp"
#include "support/renew.hpp"
#include "support/says.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <stdexcept>
#include <vector>

using namespace std::chrono_literals;
using support::begun;
using support::random_source;
using support::renew;
using support::says;
using weir::amount;
using weir::carry_over;
using weir::duration;
using weir::rate;
using weir::smooth_bursty_options;
using weir::time_point;
using weir::policy::smooth_bursty;

BOOST_AUTO_TEST_SUITE(the_smooth_bursty_limit)

namespace {

constexpr duration tick{1};
constexpr time_point noon{12h};

// Returns how many of `callers` simultaneous callers are granted in time, if each waits at most for `patience`.
int in_time(smooth_bursty bucket, int callers, duration patience) {
    int served = 0;
    for (int i = 0; i != callers; ++i) {
        if (bucket.ready_at(1, 0, noon) > noon + patience)
            continue;
        bucket.take(1, noon);
        ++served;
    }
    return served;
}

// The reference of the policy: it remembers every grant, and implements only the guarantee. No grant comes before all
// grants since any earlier one are paid for, at the steady rate and less the permits that may have been saved by then.
class history {
public:
    explicit history(smooth_bursty_options const& o) : options_(o) {}

    void take(amount n, time_point now) { grants_.push_back({now, n}); }

    /// Returns the time of the next grant, exactly: in nanoseconds divided by the permits of the rate.
    __extension__ using wide = __int128;
    [[nodiscard]] wide free() const {
        wide free = 0;
        wide owed = 0;
        for (auto g = grants_.rbegin(); g != grants_.rend(); ++g) {
            owed += wide{g->n} * options_.rate.period().count();
            bool const first = g + 1 == grants_.rend();
            auto const saved =
                first ? std::min(options_.initial, options_.max_burst) : options_.max_burst;
            free = std::max(
                free,
                wide{(g->at - saved).time_since_epoch().count()} * options_.rate.permits() + owed);
        }
        return free;
    }
    [[nodiscard]] time_point ready(time_point now) const {
        auto const permits = options_.rate.permits();
        auto const ns = (free() + permits - 1) / permits;
        return std::max(now, time_point(duration(static_cast<std::int64_t>(ns))));
    }

private:
    struct grant {
        time_point at;
        amount n;
    };
    smooth_bursty_options options_;
    std::vector<grant> grants_;
};

}  // namespace

BOOST_AUTO_TEST_CASE(grants_now_and_lets_the_next_request_wait) {
    auto bucket = begun<smooth_bursty>({.rate = {1, 1s}}, noon);
    BOOST_TEST(bucket.ready_at(5, 0, noon) == noon);
    bucket.take(5, noon);
    BOOST_TEST(bucket.ready_at(1, 0, noon) == noon + 5s);
    BOOST_TEST(bucket.remaining(noon) == 0);
    BOOST_TEST(bucket.ready_at(1, 0, noon + 5s - tick) == noon + 5s);
    BOOST_TEST(bucket.ready_at(1'000'000, 0, noon + 5s) == noon + 5s);
}

BOOST_AUTO_TEST_CASE(saves_idle_time_up_to_the_maximum) {
    auto bucket = begun<smooth_bursty>({.rate = {10, 1s}, .max_burst = 2s}, noon);
    bucket.take(1, noon);
    BOOST_TEST(bucket.remaining(noon + 100ms) == 1);
    BOOST_TEST(bucket.remaining(noon + 199ms) == 1);
    BOOST_TEST(bucket.remaining(noon + 200ms) == 2);
    BOOST_TEST(bucket.remaining(noon + 2100ms) == 21);
    BOOST_TEST(bucket.remaining(noon + 24h * 365 * 200) == 21);
    bucket.take(20, noon + 1h);
    BOOST_TEST(bucket.ready_at(1, 0, noon + 1h) == noon + 1h);
    bucket.take(1, noon + 1h);
    BOOST_TEST(bucket.ready_at(1, 0, noon + 1h) == noon + 1h + 100ms);
}

BOOST_AUTO_TEST_CASE(without_a_burst_spaces_grants_evenly) {
    auto bucket = begun<smooth_bursty>({.rate = {10, 1s}, .max_burst = 0s}, noon);
    auto now = noon;
    for (int i = 0; i != 10; ++i) {
        BOOST_TEST(bucket.remaining(now) == 1);
        bucket.take(1, now);
        BOOST_TEST(bucket.ready_at(1, 0, now) == now + 100ms);
        now += i % 2 == 0 ? 100ms : 1h;
    }
}

// Twenty callers at 100 per second, each with a patience of 100 ms: with nothing saved at the start only the callers of
// the first 100 ms are served.
BOOST_AUTO_TEST_CASE(rejects_half_of_the_first_callers_if_it_starts_empty) {
    BOOST_TEST(in_time(begun<smooth_bursty>({.rate = {100, 1s}}, noon), 20, 100ms) == 11);
    BOOST_TEST(in_time(begun<smooth_bursty>({.rate = {100, 1s}, .initial = 0s}, noon), 20, 100ms) ==
               11);
}

BOOST_AUTO_TEST_CASE(grants_all_first_callers_if_it_starts_full) {
    auto full = begun<smooth_bursty>({.rate = {100, 1s}, .initial = weir::forever}, noon);
    BOOST_TEST(full.remaining(noon) == 101);
    BOOST_TEST(in_time(full, 20, 100ms) == 20);
    BOOST_TEST(in_time(full, 20, 0ms) == 20);
    BOOST_TEST(in_time(full, 1000, 0ms) == 101);
    BOOST_TEST(
        in_time(begun<smooth_bursty>({.rate = {100, 1s}, .initial = 100ms}, noon), 20, 0ms) == 11);
}

BOOST_AUTO_TEST_CASE(carries_over_saved_permits_by_carry_over) {
    auto bucket = begun<smooth_bursty>({.rate = {10, 1s}, .initial = 500ms}, noon);
    bucket.take(1, noon);
    BOOST_TEST(bucket.remaining(noon) == 5);  // four are saved
    auto const saved_at = [&](smooth_bursty_options const& options) {
        auto copy = bucket;
        renew(copy, options, noon);
        return copy.remaining(noon) - 1;
    };
    using enum carry_over;
    BOOST_TEST(saved_at({.rate = {20, 1s}, .carry_over = as_is}) == 4);
    BOOST_TEST(saved_at({.rate = {20, 1s}, .carry_over = proportional}) == 8);
    BOOST_TEST(saved_at({.rate = {20, 1s}, .carry_over = reset}) == 0);
    BOOST_TEST(saved_at({.rate = {20, 1s}, .initial = 1s, .carry_over = reset}) == 20);
    BOOST_TEST(saved_at({.rate = {2, 1s}, .carry_over = as_is}) == 2);  // no more fit
    BOOST_TEST(saved_at({.rate = {5, 1s}, .carry_over = proportional}) == 2);
    BOOST_TEST(saved_at({.rate = {10, 1s}, .max_burst = 500ms, .carry_over = proportional}) == 2);
    BOOST_TEST(saved_at({.rate = {10, 1s}, .max_burst = 0s, .carry_over = as_is}) == 0);
}

BOOST_AUTO_TEST_CASE(has_no_saved_permits_if_nothing_could_be_saved) {
    using enum carry_over;
    for (auto const how : {as_is, proportional, reset}) {
        auto bucket = begun<smooth_bursty>({.rate = {10, 1s}, .max_burst = 0s}, noon);
        renew(bucket, {.rate = {10, 1s}, .initial = weir::forever, .carry_over = how}, noon + 1h);
        BOOST_TEST(bucket.remaining(noon + 1h) == (how == reset ? 11 : 1));
    }
}

BOOST_AUTO_TEST_CASE(applies_the_old_rate_up_to_the_change) {
    auto bucket = begun<smooth_bursty>(
        {.rate = {1, 1s}, .max_burst = 10s, .carry_over = carry_over::as_is}, noon);
    bucket.take(1, noon);
    renew(bucket, {.rate = {100, 1s}, .max_burst = 10s, .carry_over = carry_over::as_is},
          noon + 4s);
    BOOST_TEST(bucket.remaining(noon + 4s) == 4);
    BOOST_TEST(bucket.remaining(noon + 5s) == 104);
}

BOOST_AUTO_TEST_CASE(rejects_invalid_options_by_name_and_is_unchanged) {
    using nonsense = std::invalid_argument;
    auto const no_rate =
        says("weir::smooth_bursty: permits of rate is 0, but must be from 1 to 1000000000000000");
    auto const negative_burst =
        says("weir::smooth_bursty: max_burst is -1ns, but must be at least 0s");
    BOOST_CHECK_EXCEPTION(smooth_bursty({.rate = {0, 1s}}), nonsense, no_rate);
    BOOST_CHECK_EXCEPTION(smooth_bursty({.max_burst = -1ns}), nonsense, negative_burst);
    BOOST_CHECK_EXCEPTION(smooth_bursty({.initial = -1ns}), nonsense,
                          says("weir::smooth_bursty: initial is -1ns, but must be at least 0s"));
    BOOST_CHECK_EXCEPTION(smooth_bursty({.carry_over = static_cast<carry_over>(3)}), nonsense,
                          says("weir::smooth_bursty: carry_over is 3, but must be from 0 to 2"));

    auto bucket = begun<smooth_bursty>({.rate = {1, 1s}}, noon);
    bucket.take(3, noon);
    BOOST_CHECK_EXCEPTION(renew(bucket, {.rate = {0, 1s}}, noon + 1s), nonsense, no_rate);
    BOOST_TEST(bucket.options().rate.permits() == 1);
    BOOST_TEST(bucket.ready_at(1, 0, noon) == noon + 3s);
}

BOOST_AUTO_TEST_CASE(keeps_its_guarantee_and_delays_no_request_longer) {
    support::for_each_seed(1'000'000, 10'000, [](random_source& random) {
        // Intervals of whole nanoseconds here, and others below.
        bool const whole = random.one_in(2);
        auto const permits = whole ? 1 : random.between(1, 1000);
        smooth_bursty_options const options{
            .rate = {permits, duration(1 + random.of_any_size(duration(10s).count()))},
            .max_burst = duration(random.of_any_size(duration(1h).count())),
            .initial = duration(random.of_any_size(duration(1h).count()))};
        auto bucket = begun<smooth_bursty>(options, noon);
        history past(options);
        auto now = noon;
        for (auto steps = random.between(5, 40); steps != 0; --steps) {
            auto const n = 1 + random.of_any_size(1000);
            bucket.take(n, now);
            past.take(n, now);
            auto const ready = bucket.ready_at(1, 0, now);
            auto const should_be = past.ready(now);
            // Less than a nanosecond of idleness is kept even if nothing more can be saved.
            auto const kept = whole ? 0ns : tick;
            if (ready > should_be || ready < should_be - kept) [[unlikely]]
                BOOST_FAIL("ready at the wrong time");
            now = random.one_of<time_point>(
                {now, ready, ready, ready + tick, std::max(now, ready - tick),
                 ready + duration(random.of_any_size(options.max_burst.count() + 10)),
                 ready + options.max_burst, ready + 24h * 365});
        }
    });
    BOOST_TEST(true);  // no check above failed
}

// A timer is always late; the lost time is saved, so the rate is reached nevertheless.
BOOST_AUTO_TEST_CASE(grants_in_an_hour_what_the_rate_allows_even_if_every_grant_is_late) {
    support::for_each_seed(2'000'000, 20, [](random_source& random) {
        auto bucket = begun<smooth_bursty>({.rate = {random.between(1, 100), 7s}}, noon);
        auto const r = bucket.options().rate;
        auto const start = noon;
        auto now = noon;
        amount granted = 0;
        while (now < start + 3598s) {
            bucket.take(1, now);
            ++granted;
            auto const ready = bucket.ready_at(1, 0, now);
            now = ready == now ? now : ready + duration(random.of_any_size(duration(50ms).count()));
        }
        // 514 periods, and the permit that is granted first.
        BOOST_TEST(granted <= 514 * r.permits() + 1);
        BOOST_TEST(granted >= 514 * r.permits());
    });
}

BOOST_AUTO_TEST_SUITE_END()
