#include "access_log.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <chrono>
#include <iterator>

namespace proxy {
namespace {

bool is_plain(char c) noexcept {
    return c >= 0x20 && c < 0x7f && c != '"' && c != '\\';
}

std::string escaped(std::string_view text) {
    std::string out;
    for (char const c : text)
        if (is_plain(c))
            out += c;
        else
            fmt::format_to(std::back_inserter(out), "\\x{:02X}", static_cast<unsigned char>(c));
    return out;
}

}  // namespace

std::string text_of(log_line const& l) {
    using namespace std::chrono;
    auto const now = system_clock::now();
    auto const ms = duration_cast<milliseconds>(now.time_since_epoch()).count() % 1000;
    return fmt::format(
        "{:%Y-%m-%dT%H:%M:%S}.{:03}Z {} \"{}\" {} {} {:.3f} {:.3f}\n",
        fmt::gmtime(system_clock::to_time_t(now)), ms, l.client, escaped(l.request), l.status,
        l.bytes, duration<double>(l.took).count(), duration<double>(l.waited).count());
}

}  // namespace proxy
