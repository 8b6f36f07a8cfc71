#include "protocol.hpp"

#include <charconv>
#include <cstdint>
#include <limits>
#include <system_error>

namespace weir::inline v0_2::redis::detail {
namespace {

constexpr std::string_view line_end = "\r\n";

enum class found : std::uint8_t { whole, part, invalid };

// Reads one reply from the front of a text.
class parser {
public:
    explicit parser(std::string_view text) noexcept : rest_(text) {}

    [[nodiscard]] std::string_view rest() const noexcept { return rest_; }

    // Adds what a list contains directly to `to`; a reply that is not a list becomes `to`.
    found read(reply& to, int depth = 0) {
        std::string_view line;
        if (auto const f = read_line(line); f != found::whole)
            return f;
        if (line.empty())
            return found::invalid;
        auto const mark = line.front();
        line.remove_prefix(1);
        switch (mark) {
            case '+':
                return keep_text(to, depth, line);
            case '-':
                return keep_error(to, depth, line);
            case ':':
                return read_integer(to, depth, line);
            case '$':
                return read_bulk(to, depth, line);
            case '*':
                return read_list(to, depth, line);
            default:
                return found::invalid;
        }
    }

private:
    found read_line(std::string_view& line) {
        auto const end = rest_.find('\r');
        if (end == rest_.npos || end + 1 == rest_.size())
            return rest_.find('\n') == rest_.npos ? found::part : found::invalid;
        if (rest_[end + 1] != '\n')
            return found::invalid;
        line = rest_.substr(0, end);
        rest_.remove_prefix(end + line_end.size());
        return line.find('\n') == line.npos ? found::whole : found::invalid;
    }

    // Returns whether the whole text is a number.
    static bool is_number(std::string_view text, std::int64_t& n) noexcept {
        auto const* const end = text.data() + text.size();
        auto const [stop, failed] = std::from_chars(text.data(), end, n);
        return failed == std::errc() && stop == end;
    }

    static found keep_text(reply& to, int depth, std::string_view text) {
        if (depth == 0)
            to.text.assign(text);
        else if (depth == 1)
            to.texts.emplace_back(text);
        return found::whole;
    }

    static found keep_error(reply& to, int depth, std::string_view text) {
        if (depth != 0)
            return found::whole;
        to.text.assign(text);
        to.error = error_of(to.text);
        to.kind = kind_of(to.error, to.text);
        to.text += advice_on(to.text);
        return found::whole;
    }

    static found read_integer(reply& to, int depth, std::string_view line) {
        std::int64_t n = 0;
        if (!is_number(line, n))
            return found::invalid;
        if (depth <= 1)
            to.numbers.push_back(n);
        return found::whole;
    }

    // Reads a length, of -1 (nothing) or more.
    static bool is_length(std::string_view line, std::int64_t& n) noexcept {
        return is_number(line, n) && n >= -1 &&
               n <= static_cast<std::int64_t>(reply_reader::max_size);
    }

    found read_bulk(reply& to, int depth, std::string_view line) {
        std::int64_t n = 0;
        if (!is_length(line, n))
            return found::invalid;
        if (n == -1)
            return found::whole;
        auto const size = static_cast<std::size_t>(n);
        if (rest_.size() < size + line_end.size())
            return found::part;
        if (rest_.substr(size, line_end.size()) != line_end)
            return found::invalid;
        auto const text = rest_.substr(0, size);
        rest_.remove_prefix(size + line_end.size());
        return keep_text(to, depth, text);
    }

    found read_list(reply& to, int depth, std::string_view line) {
        std::int64_t n = 0;
        if (!is_length(line, n) || depth == reply_reader::max_depth)
            return found::invalid;
        for (; n > 0; --n) {
            if (auto const f = read(to, depth + 1); f != found::whole)
                return f;
        }
        return found::whole;
    }

    std::string_view rest_;
};

void append_line(std::string& to, char mark, std::size_t n) {
    to += mark;
    to += std::to_string(n);
    to += line_end;
}

}  // namespace

void append_command(std::string& to, std::vector<std::string_view> const& words) {
    constexpr std::size_t head = 1 + std::numeric_limits<std::size_t>::digits10 + 1 + 2;
    std::size_t size = head;
    for (auto const& w : words)
        size += head + w.size() + line_end.size();
    to.reserve(
        to.size() + size);  // after this, nothing fails: the digits of a number need no memory
    append_line(to, '*', words.size());
    for (auto const& w : words) {
        append_line(to, '$', w.size());
        to += w;
        to += line_end;
    }
}

std::optional<reply> reply_reader::next() {
    if (is_empty() || is_invalid_)
        return std::nullopt;
    auto const unread = std::string_view(bytes_).substr(read_);
    reply one;
    parser p(unread);
    auto const f = p.read(one);
    auto const size = unread.size() - (f == found::whole ? p.rest().size() : 0);
    is_invalid_ = f == found::invalid || size > max_size;
    if (f != found::whole || is_invalid_)
        return std::nullopt;
    read_ += size;
    return one;
}

}  // namespace weir::inline v0_2::redis::detail
