#include <weir/policy/calendar_window.hpp>

#include "support/compare_policy.hpp"
#include "support/random.hpp"
#include "support/renew.hpp"
#include "support/wall_clock.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
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
using support::begun;
using support::europe;
using support::expect;
using support::fits;
using support::random_source;
using support::wall;
using weir::amount;
using weir::calendar_unit;
using weir::duration;
using weir::ticket;
using weir::time_point;
using weir::policy::calendar_window;

BOOST_AUTO_TEST_SUITE(the_calendar_window_with_any_wall_clock)

namespace {

// The last Sunday of a month.
sys_days last_sunday(year y, int m) {
    auto d = sys_days(y / m / std::chrono::last);
    while (std::chrono::weekday(d) != std::chrono::Sunday)
        d -= days(1);
    return d;
}

// The law of the European Union for a zone one hour east of Greenwich.
seconds offset_in_europe(sys_seconds t) {
    auto const y = std::chrono::year_month_day(floor<days>(t)).year();
    bool const is_summer = t >= last_sunday(y, 3) + 1h && t < last_sunday(y, 10) + 1h;
    return is_summer ? 2h : 1h;
}

// The definition of the windows, by the date that a clock shows.
struct calendar {
    calendar_unit unit;
    bool is_in_europe;

    sys_days date(sys_seconds t) const {
        return floor<days>(t + (is_in_europe ? offset_in_europe(t) : 0s));
    }
    bool begins_on(sys_days d) const {
        if (unit == calendar_unit::week)
            return std::chrono::weekday(d) == std::chrono::Monday;
        return unit == calendar_unit::day ||
               std::chrono::year_month_day(d).day() == std::chrono::day(1);
    }
    // In Europe a clock changes at 2 or 3 o'clock, so a day begins at an hour of UTC.
    sys_seconds begin(sys_seconds t) const {
        auto d = date(t);
        while (!begins_on(d))
            d -= days(1);
        sys_seconds first = d - 2h;
        while (date(first) < d)
            first += 1h;
        return first;
    }
    sys_seconds end(sys_seconds t) const {
        auto next = date(t) + days(1);
        while (!begins_on(next))
            next += days(1);
        sys_seconds first = next - 2h;
        while (date(first) < next)
            first += 1h;
        return first;
    }
};

// The words of the documentation on the wall clock, with the whole history.
class windows {
public:
    windows(calendar c, amount limit, time_point now) : calendar_(c), limit_(limit) { look(now); }

    void look(time_point now) {
        if (has_read_ && now - read_at_ < 1min && now < end_)
            return;
        auto const t = floor<seconds>(weir::wall_time(wall::is));
        auto const begin = has_read_ ? calendar_.begin(inside_) : sys_seconds();
        auto const end = has_read_ ? calendar_.end(inside_) : sys_seconds();
        bool const is_later = t >= end;
        bool const is_much_earlier = t < begin && begin - t > end - begin;
        if (!has_read_ || is_later || is_much_earlier) {
            pass(has_read_ && is_later ? passed_between(inside_, t) : 1);
            inside_ = t;
        }
        has_read_ = true;
        read_at_ = now;
        end_ = now + (calendar_.end(inside_).time_since_epoch() - wall::is);
    }

    amount remaining() const { return std::max<amount>(limit_ - used_.back() - owed(), 0); }
    amount debt() const { return std::max<amount>(owed() + used_.back() - limit_, 0); }
    time_point ready(amount n, amount ahead, time_point now) const {
        auto more = n + ahead + used_.back() + owed() - limit_;
        if (more <= 0)
            return now;
        auto last = inside_;
        for (; more > limit_; more -= limit_)
            last = calendar_.end(last);
        return end_ + (calendar_.end(last) - calendar_.end(inside_));
    }
    std::size_t take(amount n) {
        used_.back() += n;
        grants_.push_back(used_.size());
        return grants_.size() - 1;
    }
    void refund(std::size_t i, amount n) {
        if (grants_[i] == used_.size())
            used_.back() -= n;
    }

private:
    std::int64_t passed_between(sys_seconds a, sys_seconds b) const {
        std::int64_t n = 0;
        for (auto t = calendar_.end(a); t <= b; t = calendar_.end(t))
            ++n;
        return n;
    }
    void pass(std::int64_t n) { used_.resize(used_.size() + static_cast<std::size_t>(n)); }
    // The debt of all windows before this one.
    amount owed() const {
        amount debt = 0;
        for (std::size_t i = 0; i + 1 < used_.size(); ++i)
            debt = std::max<amount>(debt + used_[i] - limit_, 0);
        return debt;
    }

    calendar calendar_;
    amount limit_;
    bool has_read_ = false;
    time_point read_at_{};
    time_point end_{};
    sys_seconds inside_{};
    std::vector<amount> used_;         // in each window that passed
    std::vector<std::size_t> grants_;  // how many windows had passed
};

// Some step of a clock: from a second to 400 days, in either direction.
duration some_step(random_source& random) {
    auto const most = random.one_of<duration>({2min, 2h, 50h, 400 * 24h});
    return seconds(random.between(-most / 1s, most / 1s));
}

}  // namespace

// The clock runs evenly for the first 400 seeds, and makes steps for the others.
BOOST_AUTO_TEST_CASE(follows_the_definition) {
    support::for_each_seed(1, 2'400, [&, n = 0](random_source& random) mutable {
        bool const has_steps = ++n > 400;
        calendar const c{
            .unit = random.one_of({calendar_unit::day, calendar_unit::week, calendar_unit::month}),
            .is_in_europe = random.one_in(2)};
        auto const limit = random.between(1, 5);
        wall::set(at(2015, 1, 1) + seconds(random.between(0, 40 * 365 * 86'400LL)));
        if (random.one_in(3))
            wall::is += duration(random.between(0, 999'999'999));
        auto policy = begun<calendar_window>(
            {.limit = limit,
             .unit = c.unit,
             .zone = c.is_in_europe ? europe() : weir::time_zone(),
             .clock = wall::read},
            time_point{});
        auto now = time_point(duration(random.of_any_size(1'000'000'000'000'000)));
        (void)policy.remaining(now);
        windows oracle(c, limit, now);
        std::vector<std::pair<ticket, amount>> grants;
        auto const pass = [&](duration d) {
            now += d;
            wall::is += d;
        };
        for (auto steps = random.between(10, 60); steps != 0; --steps) {
            if (has_steps && random.one_in(4))
                wall::is += some_step(random);
            switch (random.between(0, 5)) {
                case 0:
                    pass(duration(random.of_any_size(60 * 24 * 3'600 * 1'000'000'000LL)));
                    break;
                case 1:
                    pass(seconds(random.between(0, 90)));
                    break;
                case 2: {  // a boundary, or a nanosecond beside it
                    auto copy = policy;
                    auto const end = copy.ready_at(limit, limit - 1, now);
                    pass(std::max<duration>(end - now + duration(random.between(-1, 1)), 0ns));
                    break;
                }
                default:
                    break;
            }
            oracle.look(now);
            expect(policy.remaining(now) == oracle.remaining(), "the remaining permits");
            expect(policy.debt(now) == oracle.debt(), "the debt");
            auto const n_asked = random.between(1, limit);
            auto const ahead = random.between(0, 3) * random.between(0, 20);
            expect(policy.ready_at(n_asked, ahead, now) == oracle.ready(n_asked, ahead, now),
                   "the grant time");
            if (random.one_in(12)) {
                auto const n_charged = random.between(1, 3 * limit);
                grants.emplace_back(policy.take(n_charged, now), n_charged);
                oracle.take(n_charged);
            } else if (fits(policy, n_asked, now)) {
                grants.emplace_back(policy.take(n_asked, now), n_asked);
                oracle.take(n_asked);
            }
            if (!grants.empty() && random.one_in(4)) {
                auto const i = random.one_in(2) ? grants.size() - 1 : random.index_in(grants);
                auto const undone = random.between(0, grants[i].second);
                if (undone != 0)
                    (void)policy.refund(undone, grants[i].first, now);
                grants[i].second -= undone;
                oracle.refund(i, undone);
            }
        }
    });
    BOOST_TEST(true);  // none has failed
}

// A client that takes all it can gets the quota of one window at the start, of each window that the clock enters, and of
// one for each step of the clock.
BOOST_AUTO_TEST_CASE(begins_at_most_one_more_window_for_each_step_of_the_clock) {
    support::for_each_seed(1, 500, [](random_source& random) {
        calendar const c{calendar_unit::day, random.one_in(2)};
        wall::set(at(2024, 1, 1) + seconds(random.between(0, 365 * 86'400)));
        auto policy = begun<calendar_window>(
            {.limit = 3,
             .zone = c.is_in_europe ? europe() : weir::time_zone(),
             .clock = wall::read},
            time_point{});
        auto now = time_point{};
        amount allowed = 3;
        amount granted = 0;
        for (auto steps = random.between(10, 200); steps != 0; --steps) {
            if (random.one_in(8)) {
                wall::is += some_step(random);
                allowed += 3;
            }
            auto const before = floor<seconds>(weir::wall_time(wall::is));
            auto const d = duration(random.of_any_size(24 * 3'600 * 1'000'000'000LL));
            now += d;
            wall::is += d;
            auto const after = floor<seconds>(weir::wall_time(wall::is));
            for (auto t = c.end(before); t <= after; t = c.end(t))
                allowed += 3;
            if (auto const n = policy.remaining(now); n != 0) {
                policy.take(n, now);
                granted += n;
            }
            expect(granted <= allowed, "windows, one, and one for each step");
        }
    });
    BOOST_TEST(true);  // none has failed
}

BOOST_AUTO_TEST_SUITE_END()
