#include "item_list.hpp"

#include "scanner.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace weir::inline v0_2::detail {
namespace {

constexpr std::string_view blanks = " \t";
constexpr std::string_view lower = "abcdefghijklmnopqrstuvwxyz";
constexpr std::string_view letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
constexpr std::string_view in_key = "abcdefghijklmnopqrstuvwxyz0123456789_-.*";
constexpr std::string_view in_token =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789!#$%&'*+-.^_`|~:/";
constexpr std::string_view in_bytes =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+/=";

// A bare item; empty if it is neither a string nor an integer.
struct bare_item {
    std::optional<std::string> string;
    std::optional<std::int64_t> integer;
};

std::optional<bare_item> read_string(scanner& in) {
    std::string text;
    while (!in.is_at_end()) {
        if (in.accept('"'))
            return bare_item{std::move(text), std::nullopt};
        bool const is_escaped = in.accept('\\');
        char const c = in.peek();
        if (c < ' ' || c > '~' || (is_escaped && c != '"' && c != '\\'))
            return std::nullopt;
        in.accept(c);
        text += c;
    }
    return std::nullopt;
}

std::optional<bare_item> read_display_string(scanner& in) {
    constexpr std::string_view hex = "0123456789abcdef";
    while (!in.is_at_end() && !in.accept('"')) {
        char const c = in.peek();
        in.accept(c);
        auto const octet = in.rest().substr(0, 2);
        bool const is_octet =
            octet.size() == 2 && octet.find_first_not_of(hex) == std::string_view::npos;
        if (c < ' ' || c > '~' || (c == '%' && !is_octet))
            return std::nullopt;
        if (in.is_at_end())
            return std::nullopt;
    }
    return bare_item{};
}

// Reads an integer of up to 15 digits or a decimal of up to 12 and 3.
std::optional<bare_item> read_number(scanner& in) {
    bool const is_negative = in.accept('-');
    auto const before = in.rest().size();
    auto const whole = in.number(1, 15);
    if (!whole)
        return std::nullopt;
    auto const digits = before - in.rest().size();
    if (!in.accept('.'))
        return bare_item{std::nullopt, is_negative ? -*whole : *whole};
    if (digits > 12 || !in.number(1, 3))
        return std::nullopt;
    return bare_item{};
}

std::optional<bare_item> read_bare_item(scanner& in) {
    char const first = in.peek();
    if (in.accept('"'))
        return read_string(in);
    if (first == '-' || is_digit(first))
        return read_number(in);
    if (in.accept(':')) {  // a byte sequence
        in.run_of(in_bytes);
        return in.accept(':') ? std::optional(bare_item{}) : std::nullopt;
    }
    if (in.accept('?'))  // a boolean
        return in.accept('0') || in.accept('1') ? std::optional(bare_item{}) : std::nullopt;
    if (in.accept('@')) {  // a date
        auto const date = read_number(in);
        return date && date->integer ? std::optional(bare_item{}) : std::nullopt;
    }
    if (in.accept("%\""))
        return read_display_string(in);
    if (first == '*' || letters.find(first) != std::string_view::npos) {
        in.run_of(in_token);
        return bare_item{};
    }
    return std::nullopt;
}

// Consumes the parameters behind an item. Returns false if they are not valid.
bool read_parameters(scanner& in, quota_item& of) {
    while (in.accept(';')) {
        in.run_of(" ");
        if (in.peek() != '*' && lower.find(in.peek()) == std::string_view::npos)
            return false;
        auto const key = in.run_of(in_key);
        bare_item value;
        if (in.accept('=')) {
            auto read = read_bare_item(in);
            if (!read)
                return false;
            value = *std::move(read);
        }
        if (value.integer && *value.integer < 0)
            value.integer.reset();
        if (key == "r")
            of.r = value.integer;
        else if (key == "t")
            of.t = value.integer;
        else if (key == "q")
            of.q = value.integer;
    }
    return true;
}

// Consumes an item with its parameters. Returns false if it is not valid.
bool read_item(scanner& in, quota_item& item, bool& is_string) {
    auto bare = read_bare_item(in);
    if (!bare)
        return false;
    is_string = bare->string.has_value();
    item.name = std::move(bare->string).value_or("");
    return read_parameters(in, item);
}

// Consumes an inner list behind its opening bracket. Returns false if it is not valid.
bool skip_inner_list(scanner& in) {
    for (;;) {
        in.run_of(" ");
        quota_item ignored;
        bool is_string = false;
        if (in.accept(')'))
            return read_parameters(in, ignored);
        if (!read_item(in, ignored, is_string) || (in.peek() != ' ' && in.peek() != ')'))
            return false;
    }
}

}  // namespace

std::vector<quota_item> read_item_list(std::string_view text) {
    std::vector<quota_item> found;
    scanner in(text);
    in.run_of(" ");
    while (!in.is_at_end()) {
        quota_item item;
        bool is_string = false;
        if (!(in.accept('(') ? skip_inner_list(in) : read_item(in, item, is_string)))
            return {};
        if (is_string)
            found.push_back(std::move(item));
        in.run_of(blanks);
        if (in.is_at_end())
            return found;
        if (!in.accept(','))
            return {};
        in.run_of(blanks);
        if (in.is_at_end())  // a comma must be followed by an item
            return {};
    }
    return found;
}

}  // namespace weir::inline v0_2::detail
