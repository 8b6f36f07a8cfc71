#pragma once

#include <weir/policy/adaptive.hpp>
#include <weir/policy/calendar_window.hpp>
#include <weir/policy/fixed_window.hpp>
#include <weir/policy/leaky_bucket.hpp>
#include <weir/policy/penalty.hpp>
#include <weir/policy/resting_seats.hpp>
#include <weir/policy/seats.hpp>
#include <weir/policy/sliding_log.hpp>
#include <weir/policy/sliding_window.hpp>
#include <weir/policy/smooth_bursty.hpp>
#include <weir/policy/smooth_warming_up.hpp>
#include <weir/policy/token_bucket.hpp>

#include <concepts>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace weir::inline v0_2 {
namespace detail {

template <class... Policies>
struct policy_list {
    template <class... More>
    using policies = std::variant<Policies..., More...>;
    template <class... More>
    using options = std::variant<typename Policies::options_type..., More...>;
};

/// The policies that can be chosen at run time. limiter_config.cpp defines the syntax of their options.
using chosen_at_run_time = policy_list<  //
    policy::seats,                       //
    policy::resting_seats,               //
    policy::sliding_log,                 //
    policy::sliding_window,              //
    policy::fixed_window,                //
    policy::calendar_window,             //
    policy::token_bucket,                //
    policy::leaky_bucket,                //
    policy::smooth_bursty,               //
    policy::smooth_warming_up,           //
    policy::penalty,                     //
    policy::adaptive>;

}  // namespace detail

class limiter_config;

/// A list of limits that all apply.
class all_options {
public:
    /// An empty list, which no limiter accepts.
    all_options() noexcept;
    /// A list of these limits.
    explicit all_options(std::vector<limiter_config> limits) noexcept;

    /// The limits, at least one.
    std::vector<limiter_config> parts;
};

/// The kind and the options of a limiter, from which an `any_limiter` is made. It has a text form, for example for
/// configuration files.
///
///     weir::limiter_config::parse("3 seats max_hold 30s")
///
/// Texts, their limiters and further options:
/// - `3 seats`: `seats`; `max_hold 30s`
/// - `3 seats rest 2s`: `resting_seats`
/// - `4 knee`: `adaptive_seats`; `min 1`, `max 1000`, `headroom 0.25`, `probing 0.01`
/// - `20 vegas`: `adaptive_seats`; `min 1`, `max 1000` and all others
/// - `20 gradient2`: `adaptive_seats`; `min 20`, `max 200` and all others
/// - `20 aimd`: `adaptive_seats`; `min 20`, `max 200` and all others
/// - `10/60s`: `sliding_log`
/// - `10/60s sliding`: `sliding_window`; `slices 6`
/// - `10/60s fixed`: `fixed_window`; `alignment epoch`
/// - `1000/day`, `1000/week`, `1000/month`: `calendar_window`; `zone Europe/Berlin`
/// - `100/1s burst 20`: `token_bucket`; `initial 0`, `refill interval`
/// - `100/1s bucket`: `token_bucket`; `initial 0`, `refill interval`, and `burst 20` in any position
/// - `100/1s leaky`: `leaky_bucket`; `capacity 20`
/// - `100/1s bursty`: `smooth_bursty`; `max_burst 2s`, `initial forever`
/// - `100/1s warming`: `smooth_warming_up`; `warm_up 4s`, `cold_factor 3`
/// - `5/1min penalty`: `penalty` for 5 offences in a minute; `first 1min`, `longest 1h`, `memory 1h`
/// - `10/1s & 100/1min`: both of these limits
///
/// Buckets and the two smooth limits also have `carry_over`: `as_is`, `proportional` or `reset`.
///
/// A text begins with the number of permits and, for a rate, the period. The kind of limiter follows, except behind
/// `/day`, `/week` and `/month`, and then its options, each at most once and in any order, by their C++ names and
/// followed by the value. An omitted option has its default. A rate alone, at most N permits in any such period, is a `sliding_log`, which may also be named `exact`. A
/// time is a whole number and its unit, without a space: `h`, `min`, `s`, `ms`, `us` or `ns`; or it is `forever`.
class limiter_config {
public:
    /// A variant of the options of all limiters that can be selected at run time.
    using options_type = detail::chosen_at_run_time::options<all_options>;

    /// The configuration of one seat.
    limiter_config() = default;
    /// The configuration of the limiter that has these options, such as `seats_options`.
    template <class Options>
        requires(!std::same_as<Options, limiter_config> &&
                 std::constructible_from<options_type, Options const&>)
    limiter_config(Options const& chosen) : options(chosen) {}

    /// Parses the text form. Throws `std::invalid_argument` that quotes the text, and names the column, the expected
    /// and the found text. A time zone is read from its file; an error there is quoted. Only the limiter that is made of
    /// the result checks the other values.
    [[nodiscard]] static limiter_config parse(std::string_view text);

    /// The options of the limiter; their type is its kind.
    options_type options;
};

/// Returns the text from which `limiter_config::parse` makes the same configuration, without options that have their
/// defaults.
[[nodiscard]] std::string to_string(limiter_config const& config);

}  // namespace weir::inline v0_2
