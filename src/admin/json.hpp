#pragma once

#include <fmt/format.h>

#include <concepts>
#include <cstddef>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>

namespace admin {

/// Writes JSON, member by member. What is opened must be closed.
class json {
public:
    json() = default;
    /// For a text that hardly becomes longer, in bytes.
    explicit json(std::size_t length) { out_.reserve(length); }

    json& begin(char bracket = '{') {
        separate();
        out_ += bracket;
        return *this;
    }
    json& end(char bracket = '}') {
        out_ += bracket;
        return *this;
    }
    json& name(std::string_view text) {
        separate();
        quote(text);
        out_ += ':';
        return *this;
    }

    template <std::same_as<bool> Bool>
    json& value(Bool b) {
        return raw(b ? "true" : "false");
    }
    template <std::integral Integer>
        requires(!std::same_as<Integer, bool>)
    json& value(Integer n) {
        separate();
        fmt::format_int const digits(n);
        out_.append(digits.data(), digits.size());
        return *this;
    }
    /// A finite one.
    json& value(double x) {
        separate();
        fmt::format_to(std::back_inserter(out_), "{}", x);
        return *this;
    }
    json& value(std::string_view text) {
        separate();
        quote(text);
        return *this;
    }
    json& null() { return raw("null"); }
    /// What is JSON already.
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
        if (!out_.empty() && out_.back() != '{' && out_.back() != '[' && out_.back() != ':')
            out_ += ',';
    }
    void quote(std::string_view text);

    std::string out_;
};

}  // namespace admin
