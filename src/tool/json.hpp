#pragma once

#include <fmt/format.h>

#include <concepts>
#include <cstddef>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>

namespace tool {

/// Quotes a text for JSON and TOML: `"a \"b\""`. A text that is not UTF-8 is read as Latin-1, so that the result is
/// UTF-8.
[[nodiscard]] std::string quoted(std::string_view text);
/// Appends a text to `out`, quoted as by `quoted`.
void append_quoted(std::string& out, std::string_view text);

/// Writes JSON, member by member. Each `begin` needs an `end`.
class json {
public:
    enum class layout {
        compact,  // no spaces
        spaced,   // a space after each comma and colon
    };

    explicit json(layout how = layout::compact) noexcept
        : comma_(how == layout::spaced ? ", " : ","), colon_(how == layout::spaced ? ": " : ":") {}

    /// Reserves memory for a text of `length` bytes.
    void reserve(std::size_t length) { out_.reserve(length); }

    json& begin(char bracket = '{') {
        separate();
        out_ += bracket;
        is_first_ = true;
        return *this;
    }
    json& end(char bracket = '}') {
        out_ += bracket;
        is_first_ = false;
        return *this;
    }
    json& name(std::string_view text) {
        separate();
        append_quoted(out_, text);
        out_ += colon_;
        is_first_ = true;
        return *this;
    }

    template <std::same_as<bool> Bool>
    json& value(Bool b) {
        return raw(b ? "true" : "false");
    }
    template <std::integral Integer>
        requires(!std::same_as<Integer, bool>)
    json& value(Integer n) {
        fmt::format_int const digits(n);
        return raw({digits.data(), digits.size()});
    }
    /// Writes a finite number.
    json& value(double x) {
        separate();
        fmt::format_to(std::back_inserter(out_), "{}", x);
        return *this;
    }
    json& value(std::string_view text) {
        separate();
        append_quoted(out_, text);
        return *this;
    }
    json& null() { return raw("null"); }
    /// Writes a text that is already JSON.
    json& raw(std::string_view text) {
        separate();
        out_ += text;
        return *this;
    }

    template <class T>
    json& member(std::string_view key, T const& what) {
        return name(key).value(what);
    }

    [[nodiscard]] std::string text() && { return std::move(out_); }

private:
    // Writes the comma between two values.
    void separate() {
        if (!is_first_)
            out_ += comma_;
        is_first_ = false;
    }

    std::string out_;
    std::string_view comma_;
    std::string_view colon_;
    bool is_first_ = true;  // at the start of a value, object or array
};

}  // namespace tool
