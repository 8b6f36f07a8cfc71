#include "text.hpp"

#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <system_error>
#include <utility>
#ifndef __cpp_lib_to_chars
#include <locale>
#include <sstream>
#endif

namespace tool {

using namespace std::chrono_literals;
using std::chrono::nanoseconds;

std::optional<std::int64_t> number_of(std::string_view text) {
    std::int64_t n = 0;
    auto const* const last = text.data() + text.size();
    auto const [end, ec] = std::from_chars(text.data(), last, n);
    if (ec != std::errc() || end != last || n < 0)
        return {};
    return n;
}

std::optional<double> decimal_of(std::string_view text) {
    // Excludes `inf` and `0x1p4`, which some parsers of numbers accept.
    if (text.starts_with('+') || text.find_first_not_of("0123456789+-.eE") != text.npos)
        return {};
    double n = 0;
#ifdef __cpp_lib_to_chars
    auto const* const last = text.data() + text.size();
    auto const [end, ec] = std::from_chars(text.data(), last, n);
    if (ec != std::errc() || end != last)
        return {};
#else  // libc++ before 20 has from_chars for integers only
    std::istringstream in{std::string(text)};
    in.imbue(std::locale::classic());
    if (!(in >> n) || in.peek() != std::istringstream::traits_type::eof())
        return {};
#endif
    return n;
}

namespace {

constexpr std::array<std::pair<std::string_view, nanoseconds>, 6> units{
    {{"ns", 1ns}, {"us", 1us}, {"ms", 1ms}, {"s", 1s}, {"min", 1min}, {"h", 1h}}};

}  // namespace

std::optional<nanoseconds> time_of(std::string_view text) {
    for (auto const& [unit, length] : units)
        if (text.ends_with(unit))
            if (auto const n = number_of(text.substr(0, text.size() - unit.size())))
                return *n > nanoseconds::max() / length ? std::nullopt : std::optional(length * *n);
    return {};
}

std::string to_text(nanoseconds t) {
    std::size_t i = t == 0ns ? 3 : units.size() - 1;  // 0s
    while (t % units[i].second != 0ns)
        --i;
    return std::to_string(t / units[i].second).append(units[i].first);
}

// The access log calls this function for each line; a format string would take three times as long.
std::string to_text(std::chrono::system_clock::time_point t) {
    using namespace std::chrono;
    auto const day = floor<days>(t);
    year_month_day const date(day);
    hh_mm_ss const time(floor<milliseconds>(t - day));
    std::string out = "0000-00-00T00:00:00.000Z";
    auto const put = [&out](std::size_t end, auto n) {
        for (; n != 0; n /= 10)
            out[--end] = static_cast<char>('0' + n % 10);
    };
    put(4, static_cast<int>(date.year()));
    put(7, static_cast<unsigned>(date.month()));
    put(10, static_cast<unsigned>(date.day()));
    put(13, time.hours().count());
    put(16, time.minutes().count());
    put(19, time.seconds().count());
    put(23, time.subseconds().count());
    return out;
}

std::optional<host_and_port> address_of(std::string_view text) {
    auto const colon = text.rfind(':');
    if (colon == text.npos)
        return {};
    auto host = text.substr(0, colon);
    auto const port = text.substr(colon + 1);
    if (host.starts_with('[') && host.ends_with(']'))
        host = host.substr(1, host.size() - 2);
    else if (host.find(':') != host.npos)
        return {};
    auto const n = number_of(port);
    if (host.empty() || !n || *n > 65535)
        return {};
    return host_and_port{std::string(host), std::string(port)};
}

std::optional<std::string> unescaped(std::string_view text) {
    std::string plain;
    for (; !text.empty(); text.remove_prefix(1)) {
        if (text.front() != '%') {
            plain += text.front();
            continue;
        }
        auto const digits = text.substr(1, 2);
        auto const* const end = digits.data() + digits.size();
        unsigned char byte = 0;
        if (digits.size() != 2 || std::from_chars(digits.data(), end, byte, 16).ptr != end)
            return std::nullopt;
        plain += static_cast<char>(byte);
        text.remove_prefix(2);
    }
    return plain;
}

bool is_utf8(std::string_view text) noexcept {
    // The smallest code point that takes i bytes.
    constexpr std::array<std::uint32_t, 5> least{0, 0, 0x80, 0x800, 0x10000};
    while (!text.empty()) {
        std::uint32_t const first = static_cast<unsigned char>(text.front());
        std::size_t const size =
            first < 0x80         ? 1
            : first >> 5 == 0x06 ? 2
            : first >> 4 == 0x0e ? 3
            : first >> 3 == 0x1e ? 4
                                 : 0;
        if (size == 0 || text.size() < size)
            return false;
        auto code = size == 1 ? first : first & 0x7fU >> size;
        for (char const c : text.substr(1, size - 1)) {
            std::uint32_t const next = static_cast<unsigned char>(c);
            if (next >> 6 != 2)
                return false;
            code = code << 6 | (next & 0x3f);
        }
        bool const is_surrogate = code >= 0xd800 && code <= 0xdfff;
        if (code < least[size] || code > 0x10ffff || is_surrogate)
            return false;
        text.remove_prefix(size);
    }
    return true;
}

}  // namespace tool
