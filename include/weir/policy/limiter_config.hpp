#pragma once

#include <weir/policy/adaptive.hpp>
#include <weir/policy/fixed_window.hpp>
#include <weir/policy/leaky_bucket.hpp>
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

namespace weir {
namespace detail {

template <class... Policies>
struct policy_list {
    template <class... More>
    using policies = std::variant<Policies..., More...>;
    template <class... More>
    using options = std::variant<typename Policies::options_type..., More...>;
};

/// The policies that can be chosen at run time. How the options of each are written is in
/// limiter_config.cpp.
using chosen_at_run_time = policy_list<  //
    policy::seats,                       //
    policy::sliding_log,                 //
    policy::sliding_window,              //
    policy::fixed_window,                //
    policy::token_bucket,                //
    policy::leaky_bucket,                //
    policy::smooth_bursty,               //
    policy::smooth_warming_up,           //
    policy::adaptive>;

}  // namespace detail

class limiter_config;

/// Several limits, all of which are kept.
class all_options {
public:
    all_options() noexcept;
    explicit all_options(std::vector<limiter_config> limits) noexcept;

    /// At least one.
    std::vector<limiter_config> parts;
};

/// Which limiter, with which options: what `any_limiter` is made of. It can be written as text, such as
/// a line of a configuration file holds.
///
///     weir::limiter_config::parse("3 seats max_hold 30s")
///
/// | text                | limiter             | further options                                |
/// |---------------------|---------------------|------------------------------------------------|
/// | `3 seats`           | `seats`             | `max_hold 30s`                                 |
/// | `20 vegas`          | `adaptive_seats`    | `min 1`, `max 1000` and all others          |
/// | `20 gradient2`      | the same            | `min 20`, `max 200` and all others          |
/// | `20 aimd`           | the same            | `min 20`, `max 200` and all others          |
/// | `10/60s`            | `sliding_log`       |                                                |
/// | `10/60s sliding`    | `sliding_window`    | `slices 6`                                     |
/// | `10/60s fixed`      | `fixed_window`      | `alignment epoch`                              |
/// | `100/1s burst 20`   | `token_bucket`      | `initial 0`, `refill interval`                 |
/// | `100/1s bucket`     | `token_bucket`      | the same, and `burst 20` anywhere              |
/// | `100/1s leaky`      | `leaky_bucket`      | `capacity 20`                                  |
/// | `100/1s bursty`     | `smooth_bursty`     | `max_burst 2s`, `initial forever`              |
/// | `100/1s warming`    | `smooth_warming_up` | `warm_up 4s`, `cold_factor 3`                  |
/// | `10/1s & 100/1min`  | all of these        |                                                |
///
/// Buckets and the two smooth limits also have `carry_over`: `as_is`, `proportional` or `reset`.
///
/// First how many permits, and if they are per time, in what time; then the kind of limiter; then any of
/// its options, each once and in any order, under the name that it has in C++ and with the value after
/// it. What is not named has its default. A rate alone means at most so many in any such time: it is a
/// `sliding_log`, which may also be called `exact`. A time is a whole number and its unit, without a
/// space: `h`, `min`, `s`, `ms`, `us` or `ns`; or `forever`.
class limiter_config {
public:
    using options_type = detail::chosen_at_run_time::options<all_options>;

    limiter_config() = default;
    template <class Options>
        requires(!std::same_as<Options, limiter_config> &&
                 std::constructible_from<options_type, Options const&>)
    limiter_config(Options const& chosen) : options(chosen) {}

    /// Throws `std::invalid_argument` that quotes the text, and says at which column what was expected and
    /// what was found. Whether the values make sense is for the limiter to say that is made of them.
    [[nodiscard]] static limiter_config parse(std::string_view text);

    options_type options;
};

/// The text from which `limiter_config::parse` makes the same: options that have their defaults are left
/// out.
[[nodiscard]] std::string to_string(limiter_config const& config);

}  // namespace weir
