#pragma once

#include <weir/amount.hpp>
#include <weir/limiter_name.hpp>
#include <weir/partitions.hpp>
#include <weir/time.hpp>
#include <weir/time_zone.hpp>

#include "duration_text.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <vector>

/// Writes and parses options as text: `name value name value`.
namespace weir::inline v0_2::detail {

/// An option and its name in a text.
template <class Options, class Value>
struct field {
    std::string_view name;
    Value Options::* member;
};
template <class Options, class Value>
field(char const*, Value Options::*) -> field<Options, Value>;

/// The names of the enumerators of `Enum`, from value 0: a `std::array`.
template <class Enum>
inline constexpr auto names_of = nullptr;
template <>
inline constexpr std::array<std::string_view, 2> names_of<bool>{"false", "true"};

/// An enumeration with `names_of`, or `bool`.
template <class T>
concept has_names = std::is_enum_v<T> || std::is_same_v<T, bool>;

[[nodiscard]] std::string to_text(amount n);
[[nodiscard]] std::string to_text(double x);
[[nodiscard]] std::string to_text(partitions const& all);
[[nodiscard]] inline std::string to_text(limiter_name const& name) {
    return std::string(name.view());
}
[[nodiscard]] inline std::string to_text(time_zone zone) {
    return std::string(zone.name());
}
[[nodiscard]] inline std::string to_text(patience p) {
    return to_text(p.length_or(forever));
}
template <has_names Enum>
[[nodiscard]] std::string to_text(Enum value) {
    auto const i = static_cast<std::size_t>(value);
    return i < names_of<Enum>.size() ? std::string(names_of<Enum>[i]) : std::to_string(i);
}
template <class T>
[[nodiscard]] std::string to_text(std::optional<T> const& value) {
    return value ? to_text(*value) : std::string();
}

/// Returns whether the name of a partition or a limiter may contain `c`.
[[nodiscard]] constexpr bool is_of_a_name(char c) noexcept {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '.';
}

/// Parses a text from left to right. An error throws `std::invalid_argument`, which quotes the text and names the
/// column, the expected input and the input found.
class reader {
public:
    /// Parses the text from `begin` to `end`. `what` names the type that the text describes, such as
    /// `weir::queue_options`. Columns count from the beginning of the whole text.
    reader(std::string_view what, std::string_view text, std::size_t begin, std::size_t end);
    reader(std::string_view what, std::string_view text) : reader(what, text, 0, text.size()) {}

    [[nodiscard]] bool at_end() const noexcept { return at_ == end_; }
    /// Returns the text up to the next space.
    [[nodiscard]] std::string_view peek() const noexcept;
    void skip_word() noexcept;
    [[nodiscard]] bool skip(char c) noexcept;
    /// Throws unless a word ends here.
    void end_word(std::string const& otherwise_expected);

    [[noreturn]] void expected(std::string const& what) const;
    /// "a, b or c"
    [[noreturn]] void expected_one_of(std::vector<std::string_view> const& names) const;

    [[nodiscard]] amount read_amount(amount least, amount most);
    [[nodiscard]] duration read_duration(duration least);

    /// Parses a value up to the end of the word.
    void read(amount& value);
    void read(double& value);
    void read(duration& value);
    void read(patience& value);
    void read(partitions& value);
    void read(limiter_name& value);
    void read(time_zone& value);
    template <has_names Enum>
    void read(Enum& value) {
        constexpr auto& names = names_of<Enum>;
        auto const found = std::ranges::find(names, peek());
        if (found == names.end())
            expected_one_of({names.begin(), names.end()});
        value = static_cast<Enum>(found - names.begin());
        skip_word();
    }
    template <class T>
    void read(std::optional<T>& value) {
        read(value.emplace());
    }

private:
    // Throws an error at this column.
    [[noreturn]] void fail(std::string const& why) const;
    template <class Number>
    [[nodiscard]] Number number(std::string const& otherwise_expected, Number least, Number most);
    // Returns the name that begins here.
    [[nodiscard]] std::string_view read_name(std::size_t longest);
    void skip_spaces() noexcept;

    std::string_view what_;
    std::string_view text_;
    std::size_t at_;
    std::size_t end_;
};

/// Appends all options that differ from their defaults.
template <class Options, class... Values>
void write_options(std::string& text, Options const& options,
                   std::tuple<field<Options, Values>...> const& fields) {
    auto const write = [&](auto const& f) {
        auto value = to_text(options.*f.member);
        if (value != to_text(Options{}.*f.member))
            text.append(text.empty() ? "" : " ").append(f.name).append(" ").append(value);
    };
    std::apply([&](auto const&... f) { (write(f), ...); }, fields);
}

/// Parses options up to the end: each at most once, in any order. An error at the first option also names `others`.
template <class Options, class... Values>
void read_options(reader& in, Options& options, std::tuple<field<Options, Values>...> const& fields,
                  std::vector<std::string_view> const& others = {}) {
    std::vector<std::string_view> given;
    while (!in.at_end()) {
        auto const name = in.peek();
        bool found = false;
        std::vector<std::string_view> left;
        auto const read = [&](auto const& f) {
            if (std::ranges::count(given, f.name) != 0)
                return;
            left.push_back(f.name);
            if (found || f.name != name)
                return;
            found = true;
            given.push_back(f.name);
            in.skip_word();
            in.read(options.*f.member);
        };
        std::apply([&](auto const&... f) { (read(f), ...); }, fields);
        if (!found) {
            if (given.empty())
                left.insert(left.end(), others.begin(), others.end());
            left.push_back("the end of the text");
            in.expected_one_of(left);
        }
    }
}

}  // namespace weir::inline v0_2::detail
