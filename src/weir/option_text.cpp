#include "option_text.hpp"

#include <charconv>
#include <limits>
#include <stdexcept>
#include <system_error>

#ifndef __cpp_lib_to_chars
#include <cerrno>
#include <cstdlib>
#include <locale>  // declares strtod_l wherever libc++ is
#endif

namespace weir::inline v0_2::detail {
namespace {

constexpr char const* a_time = "a time such as 500ms";

[[nodiscard]] bool is_space(char c) noexcept {
    return c == ' ' || c == '\t';
}

std::string printable(std::string_view text) {
    std::string shown(text);
    std::ranges::replace_if(shown, [](char c) { return static_cast<unsigned char>(c) < ' '; }, '?');
    return shown;
}

// Without words for values.
std::string exact_text(amount n) {
    return std::to_string(n);
}
std::string exact_text(double x) {
    return to_text(x);
}

std::from_chars_result parse(char const* first, char const* last, amount& value) noexcept {
    return std::from_chars(first, last, value);
}

#ifdef __cpp_lib_to_chars
std::from_chars_result parse(char const* first, char const* last, double& value) noexcept {
    return std::from_chars(first, last, value);
}
#else
// libc++ has no `std::from_chars` for it before LLVM 20. `strtod_l` takes more: spaces, a plus, hexadecimal digits.
std::from_chars_result parse(char const* first, char const* last, double& value) {
    static ::locale_t const plain = ::newlocale(LC_ALL_MASK, "C", nullptr);
    auto const* const cut = std::find_if_not(first, last, [](char c) {
        return std::string_view("0123456789.eE+-infatyINFATY").find(c) != std::string_view::npos;
    });
    std::string const text(first, cut);
    char* end = nullptr;
    errno = 0;
    auto const found = ::strtod_l(text.c_str(), &end, plain);
    if (end == text.c_str() || text.front() == '+')
        return {first, std::errc::invalid_argument};
    auto const* const after = first + (end - text.c_str());
    if (errno == ERANGE)
        return {after, std::errc::result_out_of_range};
    value = found;
    return {after, std::errc()};
}
#endif

}  // namespace

std::string to_text(amount n) {
    return n == unlimited ? "unlimited" : std::to_string(n);
}

std::string to_text(double x) {
    std::array<char, 32> digits{};
    auto const end = std::to_chars(digits.data(), digits.data() + digits.size(), x).ptr;
    return {digits.data(), end};
}

std::string to_text(partitions const& all) {
    std::string text;
    for (auto const& one : all)
        text.append(text.empty() ? "" : ",")
            .append(one.name())
            .append(":")
            .append(std::to_string(one.percent()));
    return text;
}

reader::reader(std::string_view what, std::string_view text, std::size_t begin, std::size_t end)
    : what_(what), text_(text), at_(begin), end_(end) {
    skip_spaces();
}

std::string_view reader::peek() const noexcept {
    auto const rest = text_.substr(at_, end_ - at_);
    return rest.substr(0, rest.find_first_of(" \t"));
}

void reader::skip_word() noexcept {
    at_ += peek().size();
    skip_spaces();
}

bool reader::skip(char c) noexcept {
    if (at_end() || text_[at_] != c)
        return false;
    ++at_;
    return true;
}

void reader::end_word(std::string const& otherwise_expected) {
    if (!at_end() && !is_space(text_[at_]))
        expected(otherwise_expected);
    skip_spaces();
}

void reader::expected(std::string const& what) const {
    auto const word = at_end() || peek().empty() ? text_.substr(at_, 1) : peek();
    fail("expected " + what + ", found " +
         (word.empty() ? "the end of the text" : "`" + printable(word) + "`"));
}

void reader::fail(std::string const& why) const {
    throw std::invalid_argument(std::string(what_) + ": `" + printable(text_) + "`, column " +
                                std::to_string(at_ + 1) + ": " + why);
}

void reader::expected_one_of(std::vector<std::string_view> const& names) const {
    std::string list;
    for (std::size_t i = 0; i != names.size(); ++i)
        list.append(i == 0 ? "" : i + 1 == names.size() ? " or " : ", ").append(names[i]);
    expected(list);
}

template <class Number>
Number reader::number(std::string const& otherwise_expected, Number least, Number most) {
    Number value{};
    auto const* const begin = text_.data() + at_;
    auto const [end, error] = parse(begin, text_.data() + end_, value);
    if (error == std::errc::result_out_of_range ||
        (error == std::errc() && (value < least || value > most)))
        expected("a number from " + exact_text(least) + " to " + exact_text(most));
    if (error != std::errc())
        expected(otherwise_expected);
    at_ += static_cast<std::size_t>(end - begin);
    return value;
}

amount reader::read_amount(amount least, amount most) {
    return number("a whole number", least, most);
}

duration reader::read_duration(duration least) {
    if (peek() == "forever") {
        at_ += peek().size();
        return forever;
    }
    auto const start = at_;
    auto const word = peek();
    std::int64_t n = 0;
    auto const [end, error] = std::from_chars(word.data(), word.data() + word.size(), n);
    auto const unit = std::ranges::find(
        time_units, word.substr(static_cast<std::size_t>(end - word.data())), &time_unit::name);
    if (error == std::errc::invalid_argument && unit != time_units.end())
        expected("a number before the unit, as in 1" + std::string(unit->name));
    if (error == std::errc::invalid_argument)
        expected(a_time);
    if (unit == time_units.end())
        expected("a time in h, min, s, ms, us or ns");
    auto const most = forever.count() / unit->nanoseconds;
    if (error != std::errc() || n > most || n < -most)
        expected("a time of at most " + std::to_string(most) + std::string(unit->name));
    auto const d = duration(n * unit->nanoseconds);
    if (d < least)
        expected("a time above 0");
    at_ = start + word.size();
    return d;
}

void reader::read(amount& value) {
    if (peek() == "unlimited") {
        value = unlimited;
        return skip_word();
    }
    using all = std::numeric_limits<amount>;
    value = number("a whole number", all::min(), all::max());
    end_word("the end of the number");
}

void reader::read(double& value) {
    using all = std::numeric_limits<double>;
    value = number("a number", all::lowest(), all::max());
    end_word("the end of the number");
}

void reader::read(duration& value) {
    value = read_duration(-forever);
    skip_spaces();
}

void reader::read(patience& value) {
    duration d{};
    read(d);
    value = d;
}

void reader::read(partitions& value) {
    value = {};
    do {
        if (value.size() == partitions::max_size)
            expected("at most 8 partitions");
        auto const name = read_name(partition::max_name_length);
        if (!skip(':'))
            expected("a colon");
        value.add({name, static_cast<int>(read_amount(0, 100))});
    } while (skip(','));
    end_word("a comma or the end of the partitions");
}

void reader::read(limiter_name& value) {
    value = read_name(limiter_name::longest);
    end_word("a letter or a digit");
}

void reader::read(time_zone& value) {
    if (at_end())
        expected("a time zone such as Europe/Berlin");
    try {
        value = time_zone(peek());
    } catch (std::invalid_argument const& e) {
        fail(printable(e.what()));
    }
    skip_word();
}

std::string_view reader::read_name(std::size_t longest) {
    auto const rest = peek();
    auto const end = std::ranges::find_if_not(rest, is_of_a_name);
    auto const name = rest.substr(0, static_cast<std::size_t>(end - rest.begin()));
    if (name.empty() || name.size() > longest)
        expected("a name of 1 to " + std::to_string(longest) + " letters and digits");
    at_ += name.size();
    return name;
}

void reader::skip_spaces() noexcept {
    while (!at_end() && is_space(text_[at_]))
        ++at_;
}

}  // namespace weir::inline v0_2::detail
