#include "zone_rules.hpp"

#include <algorithm>
#include <array>
#include <cstddef>

namespace weir::inline v0_2::detail {
namespace {

using std::chrono::days;
using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::months;
using std::chrono::seconds;
using std::chrono::sys_days;
using std::chrono::year;

bool is_digit(char c) noexcept {
    return c >= '0' && c <= '9';
}
bool is_letter(char c) noexcept {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

// Parses the text from left to right. Each function returns false if the text has another form.
class rule_reader {
public:
    explicit rule_reader(std::string_view text) noexcept : rest_(text) {}

    [[nodiscard]] bool at_end() const noexcept { return rest_.empty(); }
    [[nodiscard]] bool next_is(char c) const noexcept { return rest_.starts_with(c); }
    bool skip(char c) noexcept {
        bool const found = next_is(c);
        rest_.remove_prefix(found ? 1 : 0);
        return found;
    }

    // Three letters or more; or letters, digits and signs between < and >.
    bool name() noexcept {
        bool const is_quoted = skip('<');
        auto const end = std::ranges::find_if_not(rest_, [&](char c) {
            return is_letter(c) || (is_quoted && (is_digit(c) || c == '+' || c == '-'));
        });
        auto const length = static_cast<std::size_t>(end - rest_.begin());
        rest_.remove_prefix(length);
        return length >= 3 && (!is_quoted || skip('>'));
    }

    bool number(unsigned& n, unsigned least, unsigned most) noexcept {
        std::size_t digits = 0;
        for (n = 0; digits != rest_.size() && digits != 3 && is_digit(rest_[digits]); ++digits)
            n = n * 10 + static_cast<unsigned>(rest_[digits] - '0');
        rest_.remove_prefix(digits);
        return digits != 0 && n >= least && n <= most;
    }

    // A time with a sign, hours and, if they follow, minutes and seconds.
    bool time(seconds& t, unsigned most_hours) noexcept {
        bool const is_negative = skip('-');
        if (!is_negative)
            (void)skip('+');
        unsigned h = 0;
        unsigned m = 0;
        unsigned s = 0;
        if (!number(h, 0, most_hours) || (skip(':') && !number(m, 0, 59)) ||
            (skip(':') && !number(s, 0, 59)))
            return false;
        t = hours(h) + minutes(m) + seconds(s);
        t = is_negative ? -t : t;
        return true;
    }

    // An offset counts west of Greenwich.
    bool offset(seconds& t) noexcept {
        bool const found = time(t, 24);
        t = -t;
        return found;
    }

    bool change(yearly_change& c) noexcept {
        using enum yearly_change::kind;
        bool found = false;
        if (skip('M')) {
            c.what = weekday;
            found = number(c.month, 1, 12) && skip('.') && number(c.week, 1, 5) && skip('.') &&
                    number(c.day, 0, 6);
        } else if (skip('J')) {
            c.what = julian;
            found = number(c.day, 1, 365);
        } else {
            c.what = day_of_year;
            found = number(c.day, 0, 365);
        }
        c.time = hours(2);
        return found && (!skip('/') || time(c.time, 167));
    }

private:
    std::string_view rest_;
};

// The day of a change in a year.
sys_days day_of(yearly_change const& c, year y) noexcept {
    using namespace std::chrono;
    switch (c.what) {
        case yearly_change::kind::julian: {
            bool const counts_leap_day = c.day >= 60 && y.is_leap();
            return sys_days(y / January / 1) + days(c.day - 1 + (counts_leap_day ? 1 : 0));
        }
        case yearly_change::kind::day_of_year:
            return sys_days(y / January / 1) + days(c.day);
        case yearly_change::kind::weekday:
            break;
    }
    auto const of_month = y / month(c.month);
    if (c.week == 5)
        return sys_days(of_month / std::chrono::weekday(c.day)[last]);
    return sys_days(of_month / std::chrono::weekday(c.day)[c.week]);
}

}  // namespace

std::optional<yearly_rule> yearly_rule::parse(std::string_view text) noexcept {
    rule_reader in(text);
    yearly_rule rule;
    if (!in.name() || !in.offset(rule.offset))
        return std::nullopt;
    if (in.at_end())
        return rule;
    auto& summer = rule.summer.emplace();
    summer.offset = rule.offset + hours(1);
    bool const found =
        in.name() && (in.next_is(',') || in.offset(summer.offset)) && in.skip(',') &&
        in.change(summer.begin) && in.skip(',') && in.change(summer.end) && in.at_end();
    return found ? std::optional(rule) : std::nullopt;
}

time_zone::period yearly_rule::at(time_zone::instant t) const noexcept {
    using instant = time_zone::instant;
    if (!summer)
        return {instant::min(), instant::max(), offset};
    constexpr instant least = sys_days(year(-9999) / 1 / 1);
    constexpr instant most = sys_days(year(9999) / 12 / 31);
    struct event {
        instant at;
        seconds offset;
    };
    auto const earlier = [](event const& a, event const& b) { return a.at < b.at; };
    // A change can be a week before or after its year: two years on each side contain the two events around `t`.
    constexpr int around = 2;
    std::array<event, 2 * (2 * around + 1)> events{};
    auto end = events.begin();
    // Of two changes at one instant, the later one in the calendar applies, as in a zone with summer time all year.
    auto const insert = [&](event const& e) {
        *end = e;
        auto const place =
            std::upper_bound(events.begin(), end, e.at,
                             [](instant at, event const& other) { return at < other.at; });
        std::rotate(place, end, end + 1);
        ++end;
    };
    auto const here =
        std::chrono::year_month_day(std::chrono::floor<days>(std::clamp(t, least, most))).year();
    for (int i = -around; i <= around; ++i) {
        auto const y = here + std::chrono::years(i);
        event const begins{day_of(summer->begin, y) + summer->begin.time - offset, summer->offset};
        event const ends{day_of(summer->end, y) + summer->end.time - summer->offset, offset};
        insert(std::min(begins, ends, earlier));
        insert(std::max(begins, ends, earlier));
    }
    auto const next = std::ranges::upper_bound(events, t, {}, &event::at);
    if (next == events.begin())
        return {instant::min(), next->at, offset};
    auto const last = std::prev(next);
    return {last->at, next == events.end() ? instant::max() : next->at, last->offset};
}

}  // namespace weir::inline v0_2::detail
