#include "body.hpp"

#include "characters.hpp"

#include <algorithm>
#include <charconv>
#include <cstring>

namespace http {
namespace {

constexpr std::uint32_t max_overhead = 8 * 1024;

int hex_value(char c) noexcept {
    if (is_digit(c))
        return c - '0';
    c = static_cast<char>(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

}  // namespace

body_reader::body_reader(framing how, std::uint64_t length) noexcept : left_(length) {
    switch (how) {
        case framing::none:
            state_ = state::done;
            break;
        case framing::length:
            state_ = length > 0 ? state::counted : state::done;
            break;
        case framing::chunked:
            state_ = state::size_first;
            break;
        case framing::until_close:
            state_ = state::to_the_end;
            break;
    }
}

body_reader::piece body_reader::take(char* bytes, std::size_t n) noexcept {
    piece taken;
    while (taken.used < n && state_ != state::done && state_ != state::bad) {
        if (state_ == state::to_the_end)
            return {n, n};
        if (state_ != state::counted && state_ != state::data) {
            state_ = after(bytes[taken.used++]);
            continue;
        }
        auto const k = static_cast<std::size_t>(std::min<std::uint64_t>(left_, n - taken.used));
        if (taken.body != taken.used)
            std::memmove(bytes + taken.body, bytes + taken.used, k);
        taken.body += k;
        taken.used += k;
        left_ -= k;
        if (left_ == 0)
            state_ = state_ == state::data ? state::data_cr : state::done;
    }
    return taken;
}

void body_reader::end_of_input() noexcept {
    if (state_ != state::done)
        state_ = state_ == state::to_the_end ? state::done : state::bad;
}

bool body_reader::too_much_overhead() noexcept {
    return ++overhead_ > max_overhead;
}

// The chunked coding of RFC 9112, 7.1. It accepts blanks after a size, because some servers write them.
body_reader::state body_reader::after(char c) noexcept {
    switch (state_) {
        case state::size_first:
            left_ = 0;
            if (hex_value(c) < 0)
                return state::bad;
            [[fallthrough]];
        case state::size:
            if (auto const digit = hex_value(c); digit >= 0) {
                // Some readers use signed numbers, so 63 bits are the maximum.
                if (left_ >> 59 != 0 || too_much_overhead())
                    return state::bad;
                left_ = left_ * 16 + static_cast<std::uint64_t>(digit);
                return state::size;
            }
            [[fallthrough]];
        case state::blanks:
            if (is_blank(c))
                return too_much_overhead() ? state::bad : state::blanks;
            if (c != '\r' && c != ';')
                return state::bad;
            [[fallthrough]];
        case state::extension:
            if (c == '\r')
                return state::size_lf;
            return is_text(c) && !too_much_overhead() ? state::extension : state::bad;
        case state::size_lf:
            if (c != '\n')
                return state::bad;
            if (left_ > 0) {
                overhead_ = 0;
                return state::data;
            }
            return state::trailer_first;
        case state::data_cr:
            return c == '\r' ? state::data_lf : state::bad;
        case state::data_lf:
            return c == '\n' ? state::size_first : state::bad;
        case state::trailer_first:
            if (c == '\r')
                return state::last_lf;
            if (c == ' ' || c == '\t' || c == ':')
                return state::bad;
            [[fallthrough]];
        case state::trailer:
            if (c == '\r')
                return state::trailer_lf;
            return is_text(c) && !too_much_overhead() ? state::trailer : state::bad;
        case state::trailer_lf:
            return c == '\n' ? state::trailer_first : state::bad;
        case state::last_lf:
            return c == '\n' ? state::done : state::bad;
        default:
            return state::bad;
    }
}

void body_writer::put(gather& out, char const* bytes, std::size_t n, bool last) noexcept {
    if (!chunked_) {
        if (n > 0)
            out.emplace_back(bytes, n);
        return;
    }
    if (n > 0) {
        auto* const end = std::to_chars(size_.data(), size_.data() + size_.size() - 2, n, 16).ptr;
        end[0] = '\r';
        end[1] = '\n';
        out.emplace_back(size_.data(), static_cast<std::size_t>(end + 2 - size_.data()));
        out.emplace_back(bytes, n);
        if (!last)
            out.emplace_back("\r\n", 2);
    }
    if (last)
        out.emplace_back(n > 0 ? "\r\n0\r\n\r\n" : "0\r\n\r\n", n > 0 ? 7 : 5);
}

}  // namespace http
