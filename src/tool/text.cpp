#include "text.hpp"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cstddef>
#include <utility>

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

std::string quoted(std::string_view text, beyond_ascii how) {
    std::string out = "\"";
    for (char const c : text) {
        auto const byte = static_cast<unsigned char>(c);
        if (c == '"' || c == '\\')
            out.append(1, '\\').append(1, c);
        else if (byte < ' ' || byte == 127 || (byte > 127 && how == beyond_ascii::as_latin_1))
            out += fmt::format("\\u{:04x}", byte);
        else
            out += c;
    }
    return out + '"';
}

}  // namespace tool
