#include "times.hpp"

#include "scanner.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

namespace weir::inline v0_2::detail {
namespace {

using namespace std::chrono;
using namespace std::chrono_literals;

constexpr std::array<std::string_view, 7> weekdays{
    "Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"};
constexpr std::array<std::string_view, 12> months{
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};

// Consumes the name of a weekday, either the whole name or its first three letters.
std::optional<weekday> read_weekday(scanner& text, bool is_short) noexcept {
    for (unsigned i = 0; i != weekdays.size(); ++i)
        if (text.accept(is_short ? weekdays[i].substr(0, 3) : weekdays[i]))
            return weekday(i);
    return std::nullopt;
}

std::optional<month> read_month(scanner& text) noexcept {
    for (unsigned i = 0; i != months.size(); ++i)
        if (text.accept(months[i]))
            return month(i + 1);
    return std::nullopt;
}

// Consumes `hh:mm:ss`. Second 60 is a leap second.
std::optional<seconds> read_time_of_day(scanner& text) noexcept {
    auto const h = text.number(2);
    if (!h || *h > 23 || !text.accept(':'))
        return std::nullopt;
    auto const m = text.number(2);
    if (!m || *m > 59 || !text.accept(':'))
        return std::nullopt;
    auto const s = text.number(2);
    if (!s || *s > 60)
        return std::nullopt;
    return hours(*h) + minutes(*m) + seconds(*s);
}

// Consumes the digits behind a point, if there is one, and returns them as a part of `unit`, rounded up.
std::optional<nanoseconds> read_fraction(scanner& text, nanoseconds unit) noexcept {
    if (!text.accept('.'))
        return 0ns;
    auto const digits = text.run_of("0123456789");
    if (digits.empty())
        return std::nullopt;
    nanoseconds sum = 0ns;
    auto part = unit;
    bool is_more = false;
    for (char const c : digits) {
        is_more = is_more || part % 10 != 0ns;
        part /= 10;
        sum += part * (c - '0');
        is_more = is_more || (part == 0ns && c != '0');
    }
    return sum + (is_more ? 1ns : 0ns);
}

std::optional<wall_time> at(std::optional<year_month_day> date, std::optional<weekday> day,
                            std::optional<seconds> time) noexcept {
    if (!date || !date->ok() || !time || (day && weekday(sys_days(*date)) != *day))
        return std::nullopt;
    return sys_days(*date) + *time;
}

// Sun, 06 Nov 1994 08:49:37 GMT
std::optional<wall_time> read_imf_date(scanner text) noexcept {
    auto const name = read_weekday(text, true);
    if (!name || !text.accept(", "))
        return std::nullopt;
    auto const d = text.number(2);
    if (!d || !text.accept(' '))
        return std::nullopt;
    auto const m = read_month(text);
    if (!m || !text.accept(' '))
        return std::nullopt;
    auto const y = text.number(4);
    if (!y || !text.accept(' '))
        return std::nullopt;
    auto const time = read_time_of_day(text);
    if (!text.accept(" GMT") || !text.is_at_end())
        return std::nullopt;
    return at(year(*y) / *m / *d, name, time);
}

// Sunday, 06-Nov-94 08:49:37 GMT
std::optional<wall_time> read_rfc850_date(scanner text, wall_time now) noexcept {
    auto const name = read_weekday(text, false);
    if (!name || !text.accept(", "))
        return std::nullopt;
    auto const d = text.number(2);
    if (!d || !text.accept('-'))
        return std::nullopt;
    auto const m = read_month(text);
    if (!m || !text.accept('-'))
        return std::nullopt;
    auto const two_digits = text.number(2);
    if (!two_digits || !text.accept(' '))
        return std::nullopt;
    auto const time = read_time_of_day(text);
    if (!text.accept(" GMT") || !text.is_at_end())
        return std::nullopt;
    auto const this_year = static_cast<int>(year_month_day(floor<days>(now)).year());
    auto y = this_year - this_year % 100 + *two_digits;
    if (y > this_year + 50)
        y -= 100;
    else if (y <= this_year - 50)
        y += 100;
    return at(year(y) / *m / *d, name, time);
}

// Sun Nov  6 08:49:37 1994
std::optional<wall_time> read_asctime_date(scanner text) noexcept {
    auto const name = read_weekday(text, true);
    if (!name || !text.accept(' '))
        return std::nullopt;
    auto const m = read_month(text);
    if (!m || !text.accept(' '))
        return std::nullopt;
    auto const d = text.accept(' ') ? text.number(1) : text.number(2);
    if (!d || !text.accept(' '))
        return std::nullopt;
    auto const time = read_time_of_day(text);
    if (!time || !text.accept(' '))
        return std::nullopt;
    auto const y = text.number(4);
    if (!y || !text.is_at_end())
        return std::nullopt;
    return at(year(*y) / *m / *d, name, time);
}

// Consumes `Z` or an offset such as `+01:00`.
std::optional<minutes> read_offset(scanner& text) noexcept {
    if (text.accept('Z'))
        return 0min;
    bool const is_east = text.accept('+');
    if (!is_east && !text.accept('-'))
        return std::nullopt;
    auto const h = text.number(2);
    if (!h || *h > 23 || !text.accept(':'))
        return std::nullopt;
    auto const m = text.number(2);
    if (!m || *m > 59)
        return std::nullopt;
    auto const offset = hours(*h) + minutes(*m);
    return is_east ? offset : -offset;
}

}  // namespace

std::optional<wall_time> read_http_date(std::string_view text, wall_time now) noexcept {
    auto date = read_imf_date(scanner(text));
    if (!date)
        date = read_rfc850_date(scanner(text), now);
    return date ? date : read_asctime_date(scanner(text));
}

std::optional<wall_time> read_iso_time(std::string_view text) noexcept {
    scanner in(text);
    auto const y = in.number(4);
    if (!y || !in.accept('-'))
        return std::nullopt;
    auto const m = in.number(2);
    if (!m || !in.accept('-'))
        return std::nullopt;
    auto const d = in.number(2);
    if (!d || !in.accept('T'))
        return std::nullopt;
    auto const time = read_time_of_day(in);
    auto const fraction = read_fraction(in, 1s);
    auto const offset = read_offset(in);
    if (!fraction || !offset || !in.is_at_end())
        return std::nullopt;
    auto const whole = at(year(*y) / month(static_cast<unsigned>(*m)) / *d, std::nullopt, time);
    return whole ? std::optional(*whole + ceil<milliseconds>(*fraction) - *offset) : std::nullopt;
}

std::optional<milliseconds> read_go_duration(std::string_view text) noexcept {
    struct unit {
        std::string_view name;
        nanoseconds length;
    };
    // `ms` comes before `m`, which is a part of it. A duration has its units in descending order.
    static constexpr std::array<unit, 7> units{
        {{"h", 1h}, {"ms", 1ms}, {"m", 1min}, {"s", 1s}, {"us", 1us}, {"µs", 1us}, {"ns", 1ns}}};
    constexpr auto longest = 366 * 24h;
    scanner in(text);
    auto sum = 0ns;
    auto before = nanoseconds::max();
    do {
        auto const whole = in.number(1, 15);
        scanner behind_fraction = in;
        if (!whole || (in.accept('.') && in.run_of("0123456789").empty()))
            return std::nullopt;
        auto const of =
            std::ranges::find_if(units, [&](unit const& u) { return in.accept(u.name); });
        if (of == units.end() || of->length >= before || *whole > longest / of->length)
            return std::nullopt;
        sum += *whole * of->length + *read_fraction(behind_fraction, of->length);
        before = of->length;
    } while (!in.is_at_end());
    return ceil<milliseconds>(sum);
}

std::optional<milliseconds> read_seconds(std::string_view text) noexcept {
    scanner in(text);
    auto const whole = in.number(1, 15);
    auto const fraction = whole ? read_fraction(in, 1s) : std::nullopt;
    if (!fraction || !in.is_at_end())
        return std::nullopt;
    return seconds(*whole) + ceil<milliseconds>(*fraction);
}

}  // namespace weir::inline v0_2::detail
