#include <weir/policy/calendar_window.hpp>

#include "support/compare_policy.hpp"
#include "support/printing.hpp"
#include "support/random.hpp"
#include "support/renew.hpp"
#include "support/says.hpp"
#include "support/wall_clock.hpp"

#include <boost/test/unit_test.hpp>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

using namespace std::chrono_literals;
using std::chrono::days;
using std::chrono::floor;
using std::chrono::seconds;
using std::chrono::sys_days;
using std::chrono::sys_seconds;
using std::chrono::year;
using support::at;
using support::europe;
using support::renew;
using support::says;
using support::wall;
using weir::amount;
using weir::calendar_unit;
using weir::calendar_window_options;
using weir::duration;
using weir::time_point;
using weir::policy::calendar_window;

BOOST_AUTO_TEST_SUITE(the_calendar_window)

namespace {

// A policy whose limiter's clock begins at 0 at the instant `start` of the wall clock, and runs with it.
class limited {
public:
    limited(sys_seconds start, calendar_window_options o) : policy(with_clock(o)), start_(start) {
        wall::set(start);
        policy.begin({});
    }

    static calendar_window_options with_clock(calendar_window_options o) {
        o.clock = wall::read;
        return o;
    }
    // The time of the limiter's clock at an instant of an exact wall clock. Sets the wall clock.
    time_point when(sys_seconds t) const {
        wall::set(t);
        return time_point(t - start_);
    }

    calendar_window policy;

private:
    sys_seconds start_;
};

}  // namespace

BOOST_AUTO_TEST_CASE(grants_the_limit_each_day) {
    limited l(at(2024, 2, 28, 12h), {.limit = 3});
    auto& p = l.policy;
    p.take(3, l.when(at(2024, 2, 28, 13h)));
    BOOST_TEST(p.remaining(l.when(at(2024, 2, 28, 23h + 59min))) == 0);
    BOOST_TEST(p.ready_at(1, 0, l.when(at(2024, 2, 28, 14h))) == l.when(at(2024, 2, 29)));
    BOOST_TEST(p.remaining(l.when(at(2024, 2, 29))) == 3);
    p.take(1, l.when(at(2024, 2, 29)));
    BOOST_TEST(p.ready_at(3, 0, l.when(at(2024, 2, 29, 5h))) == l.when(at(2024, 3, 1)));
    BOOST_TEST(p.ready_at(3, 3, l.when(at(2024, 2, 29, 5h))) == l.when(at(2024, 3, 2)));
}

BOOST_AUTO_TEST_CASE(begins_weeks_on_monday) {
    limited l(at(2024, 5, 5, 12h), {.limit = 3, .unit = calendar_unit::week});  // a Sunday
    l.policy.take(3, l.when(at(2024, 5, 5, 23h)));
    BOOST_TEST(l.policy.ready_at(1, 0, l.when(at(2024, 5, 5, 23h))) == l.when(at(2024, 5, 6)));
    l.policy.take(3, l.when(at(2024, 5, 6)));
    BOOST_TEST(l.policy.ready_at(1, 0, l.when(at(2024, 5, 6))) == l.when(at(2024, 5, 13)));
}

BOOST_AUTO_TEST_CASE(begins_months_on_the_first) {
    limited l(at(2023, 12, 31, 12h), {.limit = 3, .unit = calendar_unit::month});
    l.policy.take(3, l.when(at(2023, 12, 31, 13h)));
    BOOST_TEST(l.policy.ready_at(1, 0, l.when(at(2023, 12, 31, 13h))) == l.when(at(2024, 1, 1)));
    l.policy.take(3, l.when(at(2024, 2, 10)));
    BOOST_TEST(l.policy.ready_at(1, 0, l.when(at(2024, 2, 10))) == l.when(at(2024, 3, 1)));
    BOOST_TEST(l.policy.ready_at(1, 3 * 120, l.when(at(2024, 2, 10))) == l.when(at(2034, 3, 1)));
}

BOOST_AUTO_TEST_CASE(has_days_of_23_and_25_hours) {
    limited l(at(2024, 3, 30, 12h), {.limit = 3, .zone = europe()});
    l.policy.take(3, l.when(at(2024, 3, 30, 22h)));
    BOOST_TEST(l.policy.ready_at(1, 0, l.when(at(2024, 3, 30, 22h))) ==
               l.when(at(2024, 3, 30, 23h)));
    l.policy.take(3, l.when(at(2024, 3, 30, 23h)));
    BOOST_TEST(l.policy.ready_at(1, 0, l.when(at(2024, 3, 30, 23h))) ==
               l.when(at(2024, 3, 31, 22h)));
    l.policy.take(3, l.when(at(2024, 10, 26, 22h)));
    BOOST_TEST(l.policy.ready_at(1, 0, l.when(at(2024, 10, 26, 22h))) ==
               l.when(at(2024, 10, 27, 23h)));
}

// As St John's until 2011: at one minute past midnight the clock goes back an hour, and shows the day before again.
BOOST_AUTO_TEST_CASE(begins_a_day_when_its_date_is_first_shown) {
    support::zone_folder const folder;
    auto const zone =
        folder.add("Test/Newfoundland",
                   {.offsets = {-9'000, -12'600},
                    .changes = {{at(2010, 11, 7, 2h + 31min).time_since_epoch() / 1s, 1}}});
    auto const first = at(2010, 11, 7, 2h + 30min);
    for (auto const t : {first, first + 1min, first + 30min, first + 61min, first + 25h - 1s}) {
        auto const span = weir::policy::span_at(calendar_unit::day, zone, t);
        BOOST_TEST(span.begin == first);
        BOOST_TEST(span.end == first + 25h);
    }
    BOOST_TEST(weir::policy::span_at(calendar_unit::day, zone, first - 1s).end == first);
}

// As Apia in 2011: at the end of 29 December it is 31 December, a Saturday.
BOOST_AUTO_TEST_CASE(has_no_window_for_a_day_that_the_zone_skips) {
    support::zone_folder const folder;
    auto const change = at(2011, 12, 30, 10h);
    auto const zone = folder.add("Test/Apia", {.offsets = {-10 * 3'600, 14 * 3'600},
                                               .changes = {{change.time_since_epoch() / 1s, 1}}});
    using weir::policy::span_at;
    BOOST_TEST(span_at(calendar_unit::day, zone, change - 1s).begin == change - 24h);
    BOOST_TEST(span_at(calendar_unit::day, zone, change - 1s).end == change);
    BOOST_TEST(span_at(calendar_unit::day, zone, change).begin == change);
    BOOST_TEST(span_at(calendar_unit::day, zone, change).end == change + 24h);

    limited l(change - 1h, {.limit = 3, .zone = zone});
    l.policy.take(7, l.when(change - 1h));  // the skipped day pays, too
    BOOST_TEST(l.policy.ready_at(1, 0, l.when(change - 1h)) == l.when(change));
    BOOST_TEST(l.policy.remaining(l.when(change)) == 2);
}

// Over the night of the 31st, which has 23 hours, with debt. The wall clock is read for the present alone.
BOOST_AUTO_TEST_CASE(predicts_the_windows_after_a_pause) {
    limited l(at(2024, 3, 30, 12h), {.limit = 3, .zone = europe()});
    auto const& p = l.policy;
    l.policy.take(3, l.when(at(2024, 3, 30, 12h)));
    auto const first_midnight = l.when(at(2024, 3, 30, 23h));
    auto const on_31st = l.when(at(2024, 3, 31, 10h));
    auto const midnight = l.when(at(2024, 3, 31, 22h));
    auto const on_april_2nd = l.when(at(2024, 4, 2, 10h));
    auto const now = l.when(at(2024, 3, 30, 15h));
    wall::readings = 0;
    BOOST_TEST(p.ready_from(3, 0, now, now + 1h) == first_midnight);
    BOOST_TEST(p.ready_from(3, 0, now, on_31st) == on_31st);
    BOOST_TEST(p.ready_from(1, 3, now, on_31st) == midnight);
    BOOST_TEST(p.ready_from(1, 6, now, on_31st) == midnight + 24h);
    BOOST_TEST(p.ready_from(3, 0, now, midnight) == midnight);
    BOOST_TEST(p.ready_from(1, 3, now, midnight - 1ns) == midnight);
    BOOST_TEST(p.ready_from(1, 3, now, on_april_2nd) == midnight + 48h);
    BOOST_TEST(wall::readings == 1);
    l.policy.take(7, now);  // of this debt, the 31st pays 3 and the 1st of April pays 3, too
    BOOST_TEST(p.ready_from(1, 0, now, on_31st) == midnight + 24h);
    BOOST_TEST(p.ready_from(2, 0, now, on_april_2nd) == on_april_2nd);
    BOOST_TEST(p.ready_from(3, 0, now, on_april_2nd) == midnight + 48h);
    BOOST_TEST(p.ready_from(2, 0, now, midnight + 25h) == midnight + 25h);
    BOOST_TEST(p.ready_from(3, 0, now, midnight + 23h) == midnight + 48h);
    BOOST_TEST(p.ready_from(3, 0, now, weir::never - 1ns) == weir::never - 1ns);
}

BOOST_AUTO_TEST_CASE(reads_the_clock_once_a_minute_and_at_the_end) {
    limited l(at(2024, 5, 5, 23h + 58min), {.limit = 3});
    wall::readings = 0;
    for (auto const& [t, readings] :
         {std::pair(0s, 1),
          {1s, 1},
          {59s, 1},
          {60s, 2},
          {100s, 2},
          {119s, 2},
          {120s, 3},
          {121s, 3},
          {180s, 4}}) {
        (void)l.policy.remaining(l.when(at(2024, 5, 5, 23h + 58min) + t));
        BOOST_TEST(wall::readings == readings);
    }
    (void)l.policy.remaining(l.when(at(2024, 5, 8, 23h + 59min + 30s)));
    BOOST_TEST(wall::readings == 5);
    (void)l.policy.remaining(l.when(at(2024, 5, 9) - 1s));
    BOOST_TEST(wall::readings == 5);
    (void)l.policy.remaining(l.when(at(2024, 5, 9)));
    BOOST_TEST(wall::readings == 6);
}

// A machine without a battery for its clock starts in 1970.
BOOST_AUTO_TEST_CASE(follows_a_clock_that_is_set_after_the_start) {
    limited l(at(1970, 1, 1), {.limit = 3, .unit = calendar_unit::month});
    l.policy.take(3, time_point(10s));
    wall::set(at(2024, 5, 5, 12h));
    BOOST_TEST(l.policy.remaining(time_point(30s)) == 0);
    BOOST_TEST(l.policy.remaining(time_point(69s)) == 0);
    BOOST_TEST(l.policy.remaining(time_point(70s)) == 3);
    l.policy.take(3, time_point(70s));
    wall::set(at(2024, 5, 5, 12h + 1min));
    BOOST_TEST(l.policy.ready_at(1, 0, time_point(130s)) ==
               time_point(130s) + (at(2024, 6, 1) - at(2024, 5, 5, 12h + 1min)));
}

BOOST_AUTO_TEST_CASE(gives_no_second_quota_to_a_clock_that_is_set_back_after_midnight) {
    limited l(at(2024, 5, 5, 23h), {.limit = 3});
    auto const midnight = l.when(at(2024, 5, 6));
    (void)l.policy.remaining(midnight - 1h);
    l.policy.take(3, midnight);
    wall::set(at(2024, 5, 5, 23h + 50min));
    BOOST_TEST(l.policy.remaining(midnight + 1min) == 0);
    BOOST_TEST(l.policy.ready_at(1, 0, midnight + 1min) == midnight + 1min + 24h + 10min);
    wall::set(at(2024, 5, 6));
    BOOST_TEST(l.policy.remaining(midnight + 11min) == 0);
    // By a day exactly, the window continues; by more, it is another one.
    wall::set(at(2024, 5, 5));
    BOOST_TEST(l.policy.remaining(midnight + 12min) == 0);
    wall::set(at(2024, 5, 5) - 1s);
    BOOST_TEST(l.policy.remaining(midnight + 13min) == 3);
}

BOOST_AUTO_TEST_CASE(accepts_any_clock) {
    constexpr duration year_of_days = 24h * 365;
    for (auto const t :
         {duration::min(), year_of_days * -290, year_of_days * -271, 0 * year_of_days,
          year_of_days * 231, year_of_days * 290, duration::max()}) {
        limited l({}, {.limit = 3, .unit = calendar_unit::month, .zone = europe()});
        wall::is = t;
        l.policy.take(3, time_point(1s));
        BOOST_TEST(l.policy.remaining(time_point(2s)) == 0);
        BOOST_TEST(l.policy.ready_at(1, 0, time_point(2s)) > time_point(2s));
        BOOST_TEST(l.policy.ready_at(1, 0, time_point(2s)) <= time_point(1s) + 31 * 24h);
    }
}

BOOST_AUTO_TEST_CASE(pays_debt_from_later_windows) {
    limited l(at(2024, 5, 5, 12h), {.limit = 3});
    auto& p = l.policy;
    p.take(11, l.when(at(2024, 5, 5, 12h)));
    BOOST_TEST(p.debt(l.when(at(2024, 5, 5, 12h))) == 8);
    BOOST_TEST(p.ready_at(1, 0, l.when(at(2024, 5, 5, 12h))) == l.when(at(2024, 5, 8)));
    BOOST_TEST(p.ready_at(2, 0, l.when(at(2024, 5, 5, 12h))) == l.when(at(2024, 5, 9)));
    BOOST_TEST(p.debt(l.when(at(2024, 5, 7))) == 2);
    BOOST_TEST(p.remaining(l.when(at(2024, 5, 8))) == 1);
    BOOST_TEST(p.debt(l.when(at(2024, 5, 8))) == 0);
    BOOST_TEST(p.remaining(l.when(at(2024, 5, 9))) == 3);

    p.take(weir::max_amount, l.when(at(2024, 5, 9)));
    BOOST_TEST(p.ready_at(1, 0, l.when(at(2024, 5, 9))) == weir::never);
}

BOOST_AUTO_TEST_CASE(undoes_only_grants_of_the_current_window) {
    limited l(at(2024, 5, 5, 12h), {.limit = 3});
    auto& p = l.policy;
    auto const early = p.take(3, l.when(at(2024, 5, 5, 12h)));
    BOOST_TEST(p.refund(1, early, l.when(at(2024, 5, 5, 23h))));
    BOOST_TEST(p.remaining(l.when(at(2024, 5, 5, 23h))) == 1);
    auto const late = p.take(5, l.when(at(2024, 5, 6, 12h)));
    BOOST_TEST(!p.refund(2, early, l.when(at(2024, 5, 6, 13h))));
    BOOST_TEST(p.refund(3, late, l.when(at(2024, 5, 6, 13h))));
    BOOST_TEST(p.debt(l.when(at(2024, 5, 6, 13h))) == 0);
    BOOST_TEST(p.remaining(l.when(at(2024, 5, 6, 13h))) == 1);
}

BOOST_AUTO_TEST_CASE(keeps_used_permits_when_options_change) {
    limited l(at(2024, 5, 5, 12h), {.limit = 3});
    auto& p = l.policy;
    auto const noon = l.when(at(2024, 5, 5, 12h));
    auto const change = [&](calendar_window_options const& o) {
        renew(p, limited::with_clock(o), noon);
    };
    p.take(2, noon);
    change({.limit = 5});
    BOOST_TEST(p.remaining(noon) == 3);
    change({.limit = 5, .unit = calendar_unit::month});
    BOOST_TEST(p.remaining(noon) == 3);
    BOOST_TEST(p.ready_at(5, 0, noon) == l.when(at(2024, 6, 1)));
    l.when(at(2024, 5, 5, 12h));
    change({.limit = 1, .zone = europe()});
    BOOST_TEST(p.remaining(noon) == 0);
    BOOST_TEST(p.debt(noon) == 0);
    BOOST_TEST(p.ready_at(1, 0, noon) == l.when(at(2024, 5, 5, 22h)));
    l.when(at(2024, 5, 5, 12h));
    change({.limit = 4});
    BOOST_TEST(p.remaining(noon) == 2);
    p.take(5, noon);
    change({.limit = 6});
    BOOST_TEST(p.debt(noon) == 1);
    change({.limit = 10});
    BOOST_TEST(p.remaining(noon) == 3);
}

BOOST_AUTO_TEST_CASE(stays_in_its_window_when_the_limit_changes) {
    limited l(at(2024, 5, 5, 23h), {.limit = 3});
    auto const midnight = l.when(at(2024, 5, 6));
    auto const t = l.policy.take(3, midnight);
    wall::set(at(2024, 5, 5, 23h + 50min));
    renew(l.policy, limited::with_clock({.limit = 4}), midnight + 1min);
    wall::set(at(2024, 5, 6));
    BOOST_TEST(l.policy.remaining(midnight + 11min) == 1);
    BOOST_TEST(l.policy.refund(1, t, midnight + 11min));
}

BOOST_AUTO_TEST_CASE(merges_permits_and_forgets_them_with_the_window) {
    using weir::policy::calendar_window_rule;
    static_assert(weir::limiting_policy<calendar_window>);
    static_assert(weir::limiting_rule<calendar_window_rule>);
    static_assert(sizeof(calendar_window_rule::state_type) == 16);
    wall::set(at(2024, 5, 5, 12h));
    calendar_window_rule const r({.limit = 3, .clock = wall::read});
    auto const unused = r.begin({});
    auto s = r.begin({});
    BOOST_TEST(r.are_alike(s, unused, {}));
    auto const a = r.take(s, 1, time_point(1s));
    auto const both = r.merge(s, a, r.take(s, 2, time_point(2s)), 2);
    BOOST_TEST(!r.are_alike(s, unused, time_point(2s)));
    BOOST_TEST(!r.are_alike(unused, s, time_point(2s)));
    auto other = s;
    BOOST_TEST(r.refund(other, 3, both, time_point(3s)));
    BOOST_TEST(r.are_alike(other, unused, time_point(3s)));
    wall::set(at(2024, 5, 6));
    BOOST_TEST(r.are_alike(s, unused, time_point(12h)));
}

BOOST_AUTO_TEST_CASE(checks_its_options) {
    BOOST_CHECK_EXCEPTION(
        calendar_window({.limit = 0}), std::invalid_argument,
        says("weir::calendar_window: limit is 0, but must be from 1 to 1000000000000000"));
    BOOST_CHECK_EXCEPTION(
        calendar_window({.unit = static_cast<calendar_unit>(3)}), std::invalid_argument,
        says("weir::calendar_window: unit is 3, but must be from 0 to 2"));
}

BOOST_AUTO_TEST_CASE(shares_its_window_between_threads) {
    using rule = weir::policy::calendar_window_rule;
    static std::atomic<int> hours = 0;
    rule const shared(
        {.limit = 3, .clock = []() noexcept { return weir::wall_time(1h * hours++); }});
    std::vector<amount> granted(4);
    std::vector<std::thread> threads;
    for (auto& n : granted)
        threads.emplace_back([&shared, &n] {
            auto s = shared.begin({});
            for (int minute = 0; minute != 20'000; ++minute) {
                time_point const now(minute * 1min);
                if (shared.ready_at(s, 1, 0, now) <= now) {
                    shared.take(s, 1, now);
                    ++n;
                }
            }
        });
    for (auto& t : threads)
        t.join();
    for (auto const n : granted) {
        BOOST_TEST(n <= 3 * (hours / 24 + 1));
        BOOST_TEST(n >= 3);
    }
}

BOOST_AUTO_TEST_SUITE_END()
