#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace weir::inline v0_2::detail {

[[nodiscard]] constexpr bool is_digit(char c) noexcept {
    return c >= '0' && c <= '9';
}

/// Reads a text from left to right. Each function consumes what it accepts, or nothing.
class scanner {
public:
    explicit scanner(std::string_view text) noexcept : rest_(text) {}

    [[nodiscard]] bool is_at_end() const noexcept { return rest_.empty(); }
    [[nodiscard]] std::string_view rest() const noexcept { return rest_; }
    /// Returns the next character; NUL at the end.
    [[nodiscard]] char peek() const noexcept { return rest_.empty() ? '\0' : rest_.front(); }

    bool accept(char c) noexcept { return !rest_.empty() && rest_.front() == c && skip(1); }
    bool accept(std::string_view text) noexcept {
        return rest_.starts_with(text) && skip(text.size());
    }
    /// Consumes all characters of the set that come next, and returns them.
    std::string_view run_of(std::string_view set) noexcept {
        auto const length = std::min(rest_.find_first_not_of(set), rest_.size());
        auto const run = rest_.substr(0, length);
        rest_.remove_prefix(length);
        return run;
    }
    /// Consumes a number of `least` to `most` digits, at most 18.
    std::optional<std::int64_t> number(std::size_t least, std::size_t most) noexcept {
        auto const digits = scanner(*this).run_of("0123456789");
        if (digits.size() < least || digits.size() > most)
            return std::nullopt;
        std::int64_t value = 0;
        for (char const c : digits)
            value = value * 10 + (c - '0');
        skip(digits.size());
        return value;
    }
    /// Consumes a number of exactly `digits` digits.
    std::optional<int> number(std::size_t digits) noexcept {
        auto const value = number(digits, digits);
        return value ? std::optional(static_cast<int>(*value)) : std::nullopt;
    }

private:
    bool skip(std::size_t n) noexcept {
        rest_.remove_prefix(n);
        return true;
    }

    std::string_view rest_;
};

}  // namespace weir::inline v0_2::detail
