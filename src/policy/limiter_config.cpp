#include <weir/policy/limiter_config.hpp>

#include "../duration_text.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <system_error>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace weir {
namespace {

// ---- How each kind is written.

template <class Options, class Value>
struct field {
    std::string_view name;
    Value Options::* member;
};
template <class Options, class Value>
field(char const*, Value Options::*) -> field<Options, Value>;

// What a text begins with: a number, or a number per time.
template <class Options>
struct count {
    amount Options::* permits;
    static constexpr bool per_time = false;
};
template <class Options>
struct count_per_time {
    amount Options::* permits;
    duration Options::* period;
    static constexpr bool per_time = true;
};
template <class Options>
struct steady_rate {
    weir::rate Options::* rate;
    static constexpr bool per_time = true;
};

template <class Options, class Head, class... Values>
struct form {
    using options_type = Options;

    constexpr form(Head h, std::string_view w, field<Options, Values>... f)
        : head(h), word(w), fields(f...) {}

    Head head;
    std::string_view word;
    std::tuple<field<Options, Values>...> fields;
};
template <template <class> class Head, class Options, class... Values>
form(Head<Options>, char const*, field<Options, Values>...)
    -> form<Options, Head<Options>, Values...>;

constexpr std::tuple forms{
    form{count{&seats_options::seats}, "seats", field{"max_hold", &seats_options::max_hold}},
    form{count_per_time{&sliding_log_options::limit, &sliding_log_options::window}, "exact"},
    form{steady_rate{&smooth_bursty_options::rate}, "bursty",
         field{"max_burst", &smooth_bursty_options::max_burst},
         field{"initial", &smooth_bursty_options::initial},
         field{"carry_over", &smooth_bursty_options::carry_over}},
    form{steady_rate{&smooth_warming_up_options::rate}, "warming",
         field{"warm_up", &smooth_warming_up_options::warm_up},
         field{"cold_factor", &smooth_warming_up_options::cold_factor},
         field{"carry_over", &smooth_warming_up_options::carry_over}},
    form{count_per_time{&sliding_window_options::limit, &sliding_window_options::window}, "sliding",
         field{"slices", &sliding_window_options::slices}},
    form{count_per_time{&fixed_window_options::limit, &fixed_window_options::window}, "fixed",
         field{"alignment", &fixed_window_options::alignment}},
    form{steady_rate{&leaky_bucket_options::rate}, "leaky",
         field{"capacity", &leaky_bucket_options::capacity},
         field{"carry_over", &leaky_bucket_options::carry_over}},
    // The last, since it goes without a word.
    form{steady_rate{&token_bucket_options::rate}, "", field{"burst", &token_bucket_options::burst},
         field{"initial", &token_bucket_options::initial},
         field{"refill", &token_bucket_options::refill},
         field{"carry_over", &token_bucket_options::carry_over}},
};
static_assert(std::tuple_size_v<decltype(forms)> ==
              std::variant_size_v<limiter_config::options_type>);

constexpr std::array<std::string_view, 3> names_of(carry_over) {
    return {"as_is", "proportional", "reset"};
}
constexpr std::array<std::string_view, 2> names_of(refill) {
    return {"continuous", "interval"};
}
constexpr std::array<std::string_view, 2> names_of(window_alignment) {
    return {"first_use", "epoch"};
}

// ---- Writing.

std::string to_text(duration d) {
    return d == forever ? "forever" : detail::to_text(d);
}
std::string to_text(amount n) {
    return std::to_string(n);
}
std::string to_text(double x) {
    std::array<char, 32> digits{};
    auto const end = std::to_chars(digits.data(), digits.data() + digits.size(), x).ptr;
    return {digits.data(), end};
}
template <class Enum>
    requires std::is_enum_v<Enum>
std::string to_text(Enum value) {
    auto const names = names_of(value);
    auto const i = static_cast<std::size_t>(value);
    return i < names.size() ? std::string(names[i]) : std::to_string(i);
}
template <class T>
std::string to_text(std::optional<T> const& value) {
    return value ? to_text(*value) : std::string();
}

template <class Options>
std::string head_of(Options const& o, count<Options> head) {
    return to_text(o.*head.permits);
}
template <class Options>
std::string head_of(Options const& o, count_per_time<Options> head) {
    return to_text(o.*head.permits) + '/' + to_text(o.*head.period);
}
template <class Options>
std::string head_of(Options const& o, steady_rate<Options> head) {
    auto const& rate = o.*head.rate;
    return to_text(rate.permits()) + '/' + to_text(rate.period());
}

template <class Options>
std::string written(Options const& options) {
    return std::apply(
        [&](auto const&... each) {
            std::string text;
            auto const write = [&](auto const& f) {
                if constexpr (std::is_same_v<typename std::decay_t<decltype(f)>::options_type,
                                             Options>) {
                    text = head_of(options, f.head);
                    if (!f.word.empty())
                        text.append(" ").append(f.word);
                    auto const write_option = [&](auto const& option) {
                        auto const& value = options.*option.member;
                        if (value != Options{}.*option.member)
                            text.append(" ").append(option.name).append(" ").append(to_text(value));
                    };
                    std::apply([&](auto const&... option) { (write_option(option), ...); },
                               f.fields);
                }
            };
            (write(each), ...);
            return text;
        },
        forms);
}

// ---- Reading.

class reader {
public:
    explicit reader(std::string_view text) noexcept : text_(text) { skip_spaces(); }

    [[nodiscard]] bool at_end() const noexcept { return at_ == text_.size(); }
    [[nodiscard]] bool skip(char c) noexcept {
        if (at_end() || text_[at_] != c)
            return false;
        ++at_;
        return true;
    }

    /// What is there up to the next space.
    [[nodiscard]] std::string_view peek() const noexcept {
        auto const rest = text_.substr(at_);
        return rest.substr(0, rest.find_first_of(" \t"));
    }
    void skip_word() noexcept {
        at_ += peek().size();
        skip_spaces();
    }

    [[noreturn]] void expected(std::string const& what) const {
        std::string shown(text_);
        std::ranges::replace_if(shown, [](char c) { return c >= 0 && c < ' '; }, '?');
        throw std::invalid_argument("weir::limiter_config: `" + shown + "`, column " +
                                    std::to_string(at_ + 1) + ": expected " + what);
    }

    template <class Number>
    [[nodiscard]] Number number(std::string const& what) {
        Number value{};
        auto const* const begin = text_.data() + at_;
        auto const [end, error] = std::from_chars(begin, text_.data() + text_.size(), value);
        if (error != std::errc())
            expected(what);
        at_ += static_cast<std::size_t>(end - begin);
        return value;
    }

    /// What was read must end here.
    void end_word(std::string const& what) {
        if (!at_end() && !is_space(text_[at_]))
            expected(what);
        skip_spaces();
    }

    [[nodiscard]] amount read_amount(amount least) {
        auto const start = at_;
        auto const n = number<amount>(whole_number);
        if (n < least || n > max_amount) {
            at_ = start;
            expected("a number from " + std::to_string(least) + " to " +
                     std::to_string(max_amount));
        }
        return n;
    }

    [[nodiscard]] duration read_duration() {
        if (peek() == "forever") {
            at_ += peek().size();
            return forever;
        }
        auto const start = at_;
        auto const n = number<std::int64_t>("a time, such as 500ms");
        auto const unit = std::ranges::find(detail::time_units, peek(), &detail::time_unit::name);
        if (unit == detail::time_units.end())
            expected("a unit of time: h, min, s, ms, us or ns");
        auto const most = forever.count() / unit->nanoseconds;
        if (n > most || n < -most) {
            at_ = start;
            expected("a time of at most " + std::to_string(most) + std::string(unit->name));
        }
        at_ += unit->name.size();
        return duration(n * unit->nanoseconds);
    }

    void read(duration& value) {
        value = read_duration();
        end_word("the end of the time");
    }
    void read(amount& value) {
        value = number<amount>(whole_number);
        end_word("the end of the number");
    }
    void read(double& value) {
        value = number<double>("a number");
        end_word("the end of the number");
    }
    template <class Enum>
        requires std::is_enum_v<Enum>
    void read(Enum& value) {
        auto const names = names_of(value);
        auto const found = std::ranges::find(names, peek());
        if (found == names.end())
            expected(one_of({names.begin(), names.end()}));
        value = static_cast<Enum>(found - names.begin());
        skip_word();
    }
    template <class T>
    void read(std::optional<T>& value) {
        read(value.emplace());
    }

    /// "a, b or c"
    [[nodiscard]] static std::string one_of(std::vector<std::string_view> const& names) {
        std::string list;
        for (std::size_t i = 0; i != names.size(); ++i)
            list.append(i == 0 ? "" : i + 1 == names.size() ? " or " : ", ").append(names[i]);
        return list;
    }

private:
    static constexpr char const* whole_number = "a whole number";

    [[nodiscard]] static bool is_space(char c) noexcept { return c == ' ' || c == '\t'; }
    void skip_spaces() noexcept {
        while (!at_end() && is_space(text_[at_]))
            ++at_;
    }

    std::string_view text_;
    std::size_t at_ = 0;
};

struct head {
    amount permits;
    std::optional<duration> period;
};

head read_head(reader& in) {
    head result{in.read_amount(0), {}};
    if (in.skip('/')) {
        auto const before = in;
        result.period = in.read_duration();
        if (*result.period <= duration::zero())
            before.expected("a time above 0");
    }
    in.end_word("a space or a slash");
    return result;
}

template <class Options>
void set_head(Options& o, count<Options> to, head const& from) {
    o.*to.permits = from.permits;
}
template <class Options>
void set_head(Options& o, count_per_time<Options> to, head const& from) {
    o.*to.permits = from.permits;
    o.*to.period = *from.period;
}
template <class Options>
void set_head(Options& o, steady_rate<Options> to, head const& from) {
    o.*to.rate = weir::rate(from.permits, *from.period);
}

template <class Form>
typename Form::options_type read_rest(reader& in, Form const& f, head const& first) {
    typename Form::options_type options;
    set_head(options, f.head, first);
    std::vector<std::string_view> given;
    while (!in.at_end()) {
        auto const name = in.peek();
        bool found = false;
        std::vector<std::string_view> left;
        auto const read_option = [&](auto const& option) {
            if (std::ranges::count(given, option.name) != 0)
                return;
            left.push_back(option.name);
            if (found || option.name != name)
                return;
            found = true;
            given.push_back(option.name);
            in.skip_word();
            in.read(options.*option.member);
        };
        std::apply([&](auto const&... option) { (read_option(option), ...); }, f.fields);
        if (!found) {
            left.push_back("the end");
            in.expected(reader::one_of(left));
        }
    }
    return options;
}

}  // namespace

limiter_config limiter_config::parse(std::string_view text) {
    reader in(text);
    auto const first = read_head(in);
    std::optional<limiter_config> result;
    std::vector<std::string_view> words;
    auto const try_form = [&](auto const& f) {
        if (result || f.head.per_time != first.period.has_value())
            return;
        if (!f.word.empty()) {
            words.push_back(f.word);
            if (in.peek() != f.word)
                return;
            in.skip_word();
        } else if (!in.at_end()) {
            auto const before = words.size();
            std::apply([&](auto const&... option) { (words.push_back(option.name), ...); },
                       f.fields);
            if (std::ranges::find(words.begin() + static_cast<std::ptrdiff_t>(before), words.end(),
                                  in.peek()) == words.end())
                return;
        }
        result = read_rest(in, f, first);
    };
    std::apply([&](auto const&... each) { (try_form(each), ...); }, forms);
    if (!result)
        in.expected(reader::one_of(words));
    return *result;
}

std::string to_string(limiter_config const& config) {
    return std::visit([](auto const& options) { return written(options); }, config.options);
}

}  // namespace weir
