#include "stamp.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <system_error>

namespace logs {
namespace {

using namespace std::chrono;

constexpr std::array<std::string_view, 12> months{
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};

bool is_digit(char c) noexcept {
    return c >= '0' && c <= '9';
}

// Parses a text from its start. After an unexpected character `good` stays false.
class scanner {
public:
    explicit scanner(std::string_view text) noexcept : rest_(text) {}

    // A number of exactly `count` digits, from `least` to `most`.
    int digits(std::size_t count, int least, int most) noexcept {
        int n = 0;
        for (std::size_t i = 0; i != count; ++i) {
            if (i >= rest_.size() || !is_digit(rest_[i]))
                return fail();
            n = 10 * n + (rest_[i] - '0');
        }
        if (n < least || n > most)
            return fail();
        rest_.remove_prefix(count);
        return n;
    }
    int month() noexcept {
        for (std::size_t i = 0; i != months.size(); ++i)
            if (rest_.starts_with(months[i])) {
                rest_.remove_prefix(3);
                return static_cast<int>(i) + 1;
            }
        return fail();
    }
    bool has(char c) noexcept {
        if (rest_.empty() || rest_.front() != c)
            return false;
        rest_.remove_prefix(1);
        return true;
    }
    void expect(char c) noexcept {
        if (!has(c))
            fail();
    }
    // The fraction of a second after a point or a comma; ignores digits below a nanosecond.
    nanoseconds fraction() noexcept {
        std::int64_t n = 0;
        std::int64_t unit = 1'000'000'000;
        std::size_t i = 0;
        for (; i < rest_.size() && is_digit(rest_[i]); ++i)
            if (unit > 1) {
                unit /= 10;
                n += unit * (rest_[i] - '0');
            }
        if (i == 0)
            fail();
        rest_.remove_prefix(i);
        return nanoseconds(n);
    }
    // `Z`, `+02:00`, `-0400`, or nothing.
    seconds zone() noexcept {
        if (rest_.empty() || (has('Z') && rest_.empty()))
            return {};
        bool const west = rest_.front() == '-';
        if (!west && rest_.front() != '+')
            return seconds(fail());
        rest_.remove_prefix(1);
        int const h = digits(2, 0, 18);
        has(':');
        int const m = digits(2, 0, 59);
        if (!rest_.empty())
            fail();
        auto const offset = hours(h) + minutes(m);
        return west ? -offset : offset;
    }

    [[nodiscard]] bool good() const noexcept { return good_; }

private:
    int fail() noexcept {
        good_ = false;
        rest_ = {};
        return 1;
    }

    std::string_view rest_;
    bool good_ = true;
};

struct civil {
    int year = 1970, month = 1, day = 1, hour = 0, minute = 0, second = 0;
};

std::optional<stamp> joined(scanner& s, civil const& c, nanoseconds fraction, bool whole,
                            seconds zone) {
    auto const date = year(c.year) / c.month / c.day;
    if (!s.good() || !date.ok())
        return {};
    auto const at = sys_days(date).time_since_epoch() + hours(c.hour) + minutes(c.minute) +
                    seconds(c.second) - zone;
    return stamp{at + fraction, whole};
}

void read_clock(scanner& s, civil& c) {
    c.hour = s.digits(2, 0, 23);
    s.expect(':');
    c.minute = s.digits(2, 0, 59);
    s.expect(':');
    c.second = s.digits(2, 0, 60);
}

// `01/Aug/1995:02:00:00 -0400`
std::optional<stamp> common_stamp(std::string_view text) {
    scanner s(text);
    civil c;
    c.day = s.digits(2, 1, 31);
    s.expect('/');
    c.month = s.month();
    s.expect('/');
    c.year = s.digits(4, 1970, 2200);
    s.expect(':');
    read_clock(s, c);
    bool const whole = !s.has('.');
    auto const fraction = whole ? nanoseconds() : s.fraction();
    s.has(' ');
    auto const zone = s.zone();
    return joined(s, c, fraction, whole, zone);
}

// `1995-08-01T02:00:00.123Z`
std::optional<stamp> iso_stamp(std::string_view text) {
    scanner s(text);
    civil c;
    c.year = s.digits(4, 1970, 2200);
    s.expect('-');
    c.month = s.digits(2, 1, 12);
    s.expect('-');
    c.day = s.digits(2, 1, 31);
    if (!s.has('T'))
        s.expect(' ');
    read_clock(s, c);
    bool const whole = !s.has('.') && !s.has(',');
    auto const fraction = whole ? nanoseconds() : s.fraction();
    auto const zone = s.zone();
    return joined(s, c, fraction, whole, zone);
}

// `807256800.123`
std::optional<stamp> epoch_stamp(std::string_view text) {
    std::int64_t whole = 0;
    auto const [end, wrong] = std::from_chars(text.data(), text.data() + text.size(), whole);
    if (wrong != std::errc() || !is_digit(text.front()))
        return {};
    auto const i = static_cast<std::size_t>(end - text.data());
    std::int64_t unit = 1'000'000'000;  // nanoseconds
    for (std::int64_t const most : {100'000'000'000, 100'000'000'000'000, 100'000'000'000'000'000})
        if (whole > most)
            unit /= 1000;
    auto const last = std::int64_t{7'258'118'400} * (1'000'000'000 / unit);  // the year 2200
    if (whole > last)
        return {};
    stamp found{nanoseconds(whole * unit), unit == 1'000'000'000};
    if (i == text.size())
        return found;
    scanner s(text.substr(i));
    s.expect('.');
    auto const fraction = s.fraction();
    if (!s.good() || text.find_first_not_of("0123456789", i + 1) != text.npos)
        return {};
    return stamp{found.at + fraction * unit / 1'000'000'000, false};
}

}  // namespace

std::optional<stamp> stamp_of(std::string_view text) {
    if (text.size() > 4 && text[2] == '/')
        return common_stamp(text);
    if (text.size() > 4 && text[4] == '-')
        return iso_stamp(text);
    return epoch_stamp(text);
}

bool lacks_year(std::string_view text) noexcept {
    // `Feb  6 12:14:14`, possibly after a priority in angle brackets.
    if (text.starts_with('<'))
        text.remove_prefix(std::min(text.size(), text.find('>') + 1));
    if (text.size() < 15 || std::ranges::find(months, text.substr(0, 3)) == months.end())
        return false;
    return text[3] == ' ' && text[6] == ' ' && text[9] == ':' && text[12] == ':' &&
           is_digit(text[5]) && is_digit(text[7]);
}

}  // namespace logs
