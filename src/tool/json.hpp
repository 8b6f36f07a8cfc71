#pragma once

#include <fmt/format.h>

#include <concepts>
#include <cstddef>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>

namespace tool {

/// As JSON and TOML quote it: `"a \"b\""`. A text that is not UTF-8 is taken for Latin-1, so that the result is UTF-8.
[[nodiscard]] std::string quoted(std::string_view text);
/// Appends the same to `out`.
void append_quoted(std::string& out, std::string_view text);

/// Writes JSON, member by member. What is opened must be closed.
class json {
public:
    enum class layout {
        compact,  // no blanks
        spaced,   // one behind each comma and colon
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
    /// A finite one.
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
    /// Writes a text that is JSON already.
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
    // Between two values there is a comma.
    void separate() {
        if (!is_first_)
            out_ += comma_;
        is_first_ = false;
    }

    std::string out_;
    std::string_view comma_;
    std::string_view colon_;
    bool is_first_ = true;  // nothing of this value, object or array has been written
};

}  // namespace tool
