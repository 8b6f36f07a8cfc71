#include <weir/policy/limiter_config.hpp>

#include "../duration_text.hpp"
#include "../option_text.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace weir::inline v0_2 {

template <>
inline constexpr std::array<std::string_view, 3> detail::names_of<carry_over>{
    "as_is", "proportional", "reset"};
template <>
inline constexpr std::array<std::string_view, 2> detail::names_of<refill>{"continuous", "interval"};
template <>
inline constexpr std::array<std::string_view, 2> detail::names_of<window_alignment>{
    "first_use", "epoch"};
template <>
inline constexpr std::array<std::string_view, 3> detail::names_of<calendar_unit>{
    "day", "week", "month"};

namespace {

using detail::field;
using detail::reader;
using detail::to_text;

// ---- The syntax of each kind.

// The beginning of a text: a number, or a number per time or per unit of the calendar.
enum class per { nothing, time, unit };
template <class Options>
struct count {
    amount Options::* permits;
    static constexpr auto what = per::nothing;
};
template <class Options>
struct count_per_time {
    amount Options::* permits;
    duration Options::* period;
    static constexpr auto what = per::time;
};
template <class Options>
struct count_per_unit {
    amount Options::* permits;
    calendar_unit Options::* unit;
    static constexpr auto what = per::unit;
};
template <class Options>
struct steady_rate {
    weir::rate Options::* rate;
    static constexpr auto what = per::time;
};

// Whether the word for the kind is optional: with `goes_plainly` it is optional if no word follows, or if the first of
// the options follows. With `is_absent` the beginning selects the kind. With `needs_option` another kind has the same
// word, and the first of the options must follow it.
enum class word { is_needed, goes_plainly, is_absent, needs_option };

template <class Options, class Head, class... Values>
struct form {
    using options_type = Options;

    constexpr form(Head h, std::string_view n, word w, field<Options, Values>... f)
        : head(h), name(n), how(w), fields(f...) {}
    constexpr form(Head h, std::string_view n, field<Options, Values>... f)
        : form(h, n, word::is_needed, f...) {}

    [[nodiscard]] constexpr std::string_view first_option() const {
        if constexpr (sizeof...(Values) != 0)
            return std::get<0>(fields).name;
        else
            return {};
    }
    // The first option if it must be there.
    [[nodiscard]] std::string needed_option(Options const& options) const {
        std::string text;
        if constexpr (sizeof...(Values) != 0) {
            auto const& f = std::get<0>(fields);
            if (how == word::needs_option)
                text.append(" ").append(f.name).append(" ").append(to_text(options.*f.member));
        }
        return text;
    }
    // The option that identifies the kind without its word, if there is one.
    [[nodiscard]] constexpr std::string_view stand_in() const {
        return how == word::goes_plainly ? first_option() : std::string_view();
    }
    // Whether the beginning alone is enough.
    [[nodiscard]] constexpr bool needs_nothing() const {
        return how == word::goes_plainly && sizeof...(Values) == 0;
    }

    Head head;
    std::string_view name;
    word how;
    std::tuple<field<Options, Values>...> fields;
};
template <template <class> class Head, class Options, class... Values>
form(Head<Options>, char const*, field<Options, Values>...)
    -> form<Options, Head<Options>, Values...>;
template <template <class> class Head, class Options, class... Values>
form(Head<Options>, char const*, word, field<Options, Values>...)
    -> form<Options, Head<Options>, Values...>;

constexpr std::tuple forms{
    form{count{&resting_seats_options::seats}, "seats", word::needs_option,
         field{"rest", &resting_seats_options::rest}},
    form{count{&seats_options::seats}, "seats", field{"max_hold", &seats_options::max_hold}},
    form{count{&knee_options::seats}, "knee", field{"min", &knee_options::min},
         field{"max", &knee_options::max}, field{"headroom", &knee_options::headroom},
         field{"probing", &knee_options::probing}},
    form{count{&gradient2_options::seats}, "gradient2", field{"min", &gradient2_options::min},
         field{"max", &gradient2_options::max}, field{"slow_start", &gradient2_options::slow_start},
         field{"tolerance", &gradient2_options::tolerance},
         field{"queue", &gradient2_options::queue},
         field{"smoothing", &gradient2_options::smoothing},
         field{"backoff", &gradient2_options::backoff},
         field{"long_window", &gradient2_options::long_window},
         field{"probe", &gradient2_options::probe},
         field{"no_load_min", &gradient2_options::no_load_min},
         field{"no_load_max", &gradient2_options::no_load_max},
         field{"window", &gradient2_options::window}, field{"samples", &gradient2_options::samples},
         field{"ignore_below", &gradient2_options::ignore_below}},
    form{count{&vegas_options::seats}, "vegas", field{"min", &vegas_options::min},
         field{"max", &vegas_options::max}, field{"slow_start", &vegas_options::slow_start},
         field{"backoff", &vegas_options::backoff}, field{"smoothing", &vegas_options::smoothing},
         field{"probe", &vegas_options::probe}, field{"no_load_min", &vegas_options::no_load_min},
         field{"no_load_max", &vegas_options::no_load_max}, field{"window", &vegas_options::window},
         field{"samples", &vegas_options::samples}},
    form{count{&aimd_options::seats}, "aimd", field{"min", &aimd_options::min},
         field{"max", &aimd_options::max}, field{"slow_start", &aimd_options::slow_start},
         field{"backoff", &aimd_options::backoff}, field{"timeout", &aimd_options::timeout},
         field{"window", &aimd_options::window}, field{"samples", &aimd_options::samples}},
    form{count_per_time{&sliding_log_options::limit, &sliding_log_options::window}, "exact",
         word::goes_plainly},
    form{count_per_time{&sliding_window_options::limit, &sliding_window_options::window}, "sliding",
         field{"slices", &sliding_window_options::slices}},
    form{count_per_time{&fixed_window_options::limit, &fixed_window_options::window}, "fixed",
         field{"alignment", &fixed_window_options::alignment}},
    form{count_per_unit{&calendar_window_options::limit, &calendar_window_options::unit}, "",
         word::is_absent, field{"zone", &calendar_window_options::zone}},
    form{steady_rate{&token_bucket_options::rate}, "bucket", word::goes_plainly,
         field{"burst", &token_bucket_options::burst},
         field{"initial", &token_bucket_options::initial},
         field{"refill", &token_bucket_options::refill},
         field{"carry_over", &token_bucket_options::carry_over}},
    form{steady_rate{&leaky_bucket_options::rate}, "leaky",
         field{"capacity", &leaky_bucket_options::capacity},
         field{"carry_over", &leaky_bucket_options::carry_over}},
    form{steady_rate{&smooth_bursty_options::rate}, "bursty",
         field{"max_burst", &smooth_bursty_options::max_burst},
         field{"initial", &smooth_bursty_options::initial},
         field{"carry_over", &smooth_bursty_options::carry_over}},
    form{steady_rate{&smooth_warming_up_options::rate}, "warming",
         field{"warm_up", &smooth_warming_up_options::warm_up},
         field{"cold_factor", &smooth_warming_up_options::cold_factor},
         field{"carry_over", &smooth_warming_up_options::carry_over}},
    form{count_per_time{&penalty_options::offences, &penalty_options::window}, "penalty",
         field{"first", &penalty_options::first}, field{"longest", &penalty_options::longest},
         field{"memory", &penalty_options::memory}},
};
static_assert(std::tuple_size_v<decltype(forms)> + 1 ==
              std::variant_size_v<detail::chosen_at_run_time::options<>> +
                  std::variant_size_v<adaptive_options>);

// ---- Writing.

template <class Options>
std::string head_of(Options const& o, count<Options> head) {
    return to_text(o.*head.permits);
}
template <class Options>
std::string head_of(Options const& o, count_per_time<Options> head) {
    return to_text(o.*head.permits) + '/' + to_text(o.*head.period);
}
template <class Options>
std::string head_of(Options const& o, count_per_unit<Options> head) {
    return to_text(o.*head.permits) + '/' + to_text(o.*head.unit);
}
template <class Options>
std::string head_of(Options const& o, steady_rate<Options> head) {
    return to_string(o.*head.rate);
}

std::string written(all_options const& options) {
    std::string text;
    for (auto const& part : options.parts)
        text.append(text.empty() ? "" : " & ").append(to_string(part));
    return text;
}

template <class Options>
std::string written(Options const& options);

std::string written(adaptive_options const& options) {
    return std::visit([](auto const& o) { return written(o); }, options);
}

template <class Options>
std::string written(Options const& options) {
    std::string text;
    auto const write = [&](auto const& f) {
        if constexpr (std::is_same_v<typename std::decay_t<decltype(f)>::options_type, Options>) {
            std::string rest;
            detail::write_options(rest, options, f.fields);
            text = head_of(options, f.head);
            auto const stand_in = f.stand_in();
            bool const goes_without = f.how == word::is_absent || f.needs_nothing() ||
                                      (!stand_in.empty() && rest.starts_with(stand_in));
            if (!goes_without)
                text.append(" ").append(f.name);
            if (!rest.empty())
                text.append(" ").append(rest);
            else
                text.append(f.needed_option(options));
        }
    };
    std::apply([&](auto const&... each) { (write(each), ...); }, forms);
    return text;
}

// ---- Reading.

struct head {
    amount permits;
    std::optional<duration> period;
    std::optional<calendar_unit> unit;

    [[nodiscard]] per what() const noexcept {
        return period ? per::time : unit ? per::unit : per::nothing;
    }
};

std::string a_rate(amount permits, std::string_view unit) {
    return "a time, as in " + to_text(permits) + "/1" + std::string(unit);
}

// Rejects `100 per minute` with the form that is meant.
[[noreturn]] void reject_per(reader in, amount permits) {
    auto const at_per = in;
    in.skip_word();
    auto const word = in.peek();
    if (std::ranges::count(detail::names_of<calendar_unit>, word) != 0)
        at_per.expected("a slash, as in " + to_text(permits) + '/' + std::string(word));
    at_per.expected(a_rate(permits, word.starts_with("h")   ? "h"
                                    : word.starts_with("m") ? "min"
                                                            : "s"));
}

bool begins_as_a_time(std::string_view word) {
    return word.find_first_of("0123456789-") == 0 || word == detail::to_text(forever) ||
           std::ranges::count(detail::time_units, word, &detail::time_unit::name) != 0;
}

head read_head(reader& in) {
    head result{in.read_amount(0, max_amount), {}, {}};
    if (in.skip('/')) {
        auto const word = in.peek();
        if (std::ranges::count(detail::names_of<calendar_unit>, word) != 0)
            in.read(result.unit);
        else if (!begins_as_a_time(word))
            in.expected("a time such as 500ms, or day, week or month");
        else
            result.period = in.read_duration(duration(1));
    } else if (in.at_end())
        in.expected(a_rate(result.permits, "s") + ", or seats");
    if (result.unit)
        return result;
    in.end_word("a space or a slash");
    if (in.peek() == "per")
        reject_per(in, result.permits);
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
void set_head(Options& o, count_per_unit<Options> to, head const& from) {
    o.*to.permits = from.permits;
    o.*to.unit = *from.unit;
}
template <class Options>
void set_head(Options& o, steady_rate<Options> to, head const& from) {
    o.*to.rate = weir::rate(from.permits, *from.period);
}

limiter_config read_config(reader in) {
    auto const first = read_head(in);
    std::optional<limiter_config> result;
    auto const rate = a_rate(first.permits, "s");
    std::vector<std::string_view> words;
    std::vector<std::string_view> distinctions;  // of the kinds with the word of the text
    bool may_end = false;
    auto const try_form = [&](auto const& f) {
        if (result || f.head.what != first.what())
            return;
        if (f.how != word::needs_option)
            words.push_back(f.name);
        if (!f.stand_in().empty())
            words.push_back(f.stand_in());
        may_end = may_end || f.needs_nothing();
        auto const next = in.peek();
        if (next == f.name && f.how == word::needs_option) {
            auto after = in;
            after.skip_word();
            if (after.peek() != f.first_option()) {
                distinctions.push_back(f.first_option());
                return;
            }
        }
        if (next == f.name)
            in.skip_word();
        else if (f.how != word::is_absent &&
                 (in.at_end() ? !f.needs_nothing() : next != f.stand_in()))
            return;
        typename std::decay_t<decltype(f)>::options_type options;
        set_head(options, f.head, first);
        detail::read_options(in, options, f.fields, distinctions);
        result = options;
    };
    std::apply([&](auto const&... each) { (try_form(each), ...); }, forms);
    if (may_end)
        words.push_back("the end of the text");
    if (!result && first.what() == per::nothing)
        words.insert(words.begin(), rate);
    if (!result)
        in.expected_one_of(words);
    return *result;
}

}  // namespace

all_options::all_options() noexcept = default;
all_options::all_options(std::vector<limiter_config> limits) noexcept : parts(std::move(limits)) {}

limiter_config limiter_config::parse(std::string_view text) {
    std::vector<limiter_config> parts;
    for (std::size_t begin = 0; begin <= text.size();) {
        auto const end = std::min(text.find('&', begin), text.size());
        parts.push_back(read_config(reader("weir::limiter_config", text, begin, end)));
        begin = end + 1;
    }
    if (parts.size() == 1)
        return parts.front();
    return all_options(std::move(parts));
}

std::string to_string(limiter_config const& config) {
    return std::visit([](auto const& options) { return written(options); }, config.options);
}

}  // namespace weir::inline v0_2
