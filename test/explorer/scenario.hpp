#pragma once

#include <weir/amount.hpp>
#include <weir/queue_options.hpp>

#include "schedule.hpp"

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace explorer {

using weir::amount;

enum class policy : std::uint8_t {
    seats,
    resting_seats,
    sliding_log,
    sliding_window,
    fixed_window,
    token_bucket,
    leaky_bucket,
    smooth_bursty,
    smooth_warming_up,
    any,
    calendar_window,
    server_quota,
    adaptive_rate,
};
/// The first ones, up to `any`, may be inside an `any`.
inline constexpr std::array all_policies{
    policy::seats,
    policy::resting_seats,
    policy::sliding_log,
    policy::sliding_window,
    policy::fixed_window,
    policy::token_bucket,
    policy::leaky_bucket,
    policy::smooth_bursty,
    policy::smooth_warming_up,
    policy::any,
    policy::calendar_window,
    policy::server_quota,
    policy::adaptive_rate};

[[nodiscard]] std::string_view name_of(policy p);

/// The parameters of a policy: `limit` seats that may each be held for `time`, or that rest for `time`, or `limit` in
/// any `time`, or one in each `time`: into a bucket for `limit`, or with up to `limit` saved; or `limit` in each day, week
/// or month of the wall clock, for which `time` is one of the constants below; or `limit` at a time while a server's quota
/// is unknown; or at least one in each `time` and at most `limit` in a second.
struct rule {
    amount limit = 1;
    duration time = weir::forever;
    friend bool operator==(rule const&, rule const&) = default;
};

inline constexpr duration a_day = std::chrono::days(1);
inline constexpr duration a_week = std::chrono::weeks(1);
inline constexpr duration a_month = std::chrono::days(30);

/// One action of a caller.
struct action {
    enum class kind : std::uint8_t {
        enter,       // `n`, with patience `time`; continues when it is completed
        reserve,     // a reservation of `n`, with patience `time`; replaces the one that it has
        use,         // waits in that reservation
        take_up,     // the permit of that reservation, if it was granted
        give_back,   // that reservation
        try_enter,   // `n`
        charge,      // `n`
        hold,        // sleeps for `time`
        leave,       // with its oldest permit
        refund,      // its oldest permit, unused
        settle,      // its oldest permit, at `n`
        split,       // its oldest permit, in two
        merge,       // all its permits into one
        cancel,      // the operation for which caller `whom` waits
        unlink,      // its own cancellation: it can no longer be cancelled
        cancel_all,  //
        shut_down,   // rejects newcomers
        close,       //
        drain,       // continues when it is completed
        watch,       // for a permit that is overdue; continues when it is completed
        configure,   // `change`
        pause,       // all grants, for `time`
        resume,      // ends a pause
        report,  // the outcome of its oldest permit, or of its newest: dropped if `n` is 1, ignored if it is 2
        state,  // the quota of a server: `n` until `time` from now, with its oldest permit counted if `more` is not 0
        set_clock,    // the wall clock, forward by `time`, which may be negative
        look,         // at statistics and options
        abandon,      // destroys the limiter object
        end_context,  // destroys the execution context, after its threads have left it
    };
    /// The executor of an operation's handler.
    enum class abode : std::uint8_t {
        home,       // on the limiter's executor
        beside,     // on another executor of the same context
        elsewhere,  // in another context
    };
    static constexpr duration unset = duration::min();

    kind what = kind::hold;
    amount n = 1;
    amount more = 0;     // of an enter, reserve or try_enter: if they are available
    weir::standing how;  // of an enter or try_enter
    duration time = unset;
    int whom = 0;
    rule change;

    // If there are keys.
    int key = 0;
    bool of_all = true;   // a cancel_all or configure that is not for one key
    bool resets = false;  // a key gets the common options again

    // Fields of an operation.
    bool cancellable = true;   // there is a cancellation slot
    bool tries_first = false;  // as a coroutine does
    abode lives = abode::home;
    bool posts = false;   // if it ends immediately, it is completed by a post
    bool drops = false;   // the handler drops the permit
    bool throws = false;  // the handler throws
    int allocation = 0;   // if not 0, this allocation in the call fails
};

/// The actions of a run, without their order.
struct scenario {
    policy which = policy::seats;
    bool in_any = false;  // the limiter is an `any`, with `which` inside
    rule at_first;
    weir::queue_options queueing;
    int executors = 1;           // threads that run the context
    bool in_order = true;        // messages are delivered in the order in which they were posted
    unsigned post_failures = 0;  // of 256: how often a post throws, or an arming of the timer
    std::uint64_t failure_seed = 0;
    std::vector<std::vector<action>> callers;
    int keys = 1;
    duration wall_ahead{};  // the wall clock at first, less the limiter's time
};

/// Returns a random scenario, with at most `max_callers` callers. For `any` the policy inside is random.
[[nodiscard]] scenario make_scenario(policy which, std::uint64_t seed, int max_callers);

/// Returns the scenario with reservations by some callers.
[[nodiscard]] scenario with_places(scenario s);

/// Returns the scenario in which seats may be shared out among partitions: for limiters without keys.
[[nodiscard]] scenario with_shares(scenario s);

/// Returns the scenario with requests that take more than they need.
[[nodiscard]] scenario with_ranges(scenario s);

/// Returns the scenario with pauses: for limiters without chains.
[[nodiscard]] scenario with_pauses(scenario s);

/// Returns the scenario in which the policy may have a wall clock: in hours, or around a midnight, with steps of the clock.
[[nodiscard]] scenario with_wall_clock(scenario s);

/// Returns the scenario in which a server may state its quota, in parts of a second.
[[nodiscard]] scenario with_statements(scenario s);
/// Adds reports of outcomes, and requests for them.
[[nodiscard]] scenario with_reports(scenario s);

/// Returns the scenario with an order that depends only on the time of arrival.
[[nodiscard]] scenario without_groups(scenario s);

/// Returns the scenario for a limiter with `keys` keys. It omits watched permits, which keys do
/// not support. It also omits allocations that fail, since their outcome differs.
[[nodiscard]] scenario with_keys(scenario s, int keys);

/// Returns the request of an action.
[[nodiscard]] inline weir::request asked_by(amount n, amount more, weir::standing const& how) {
    return more == 0 ? weir::request(n, how) : weir::request::between(n, n + more, how.priority);
}

/// Describes an action of the scenario.
[[nodiscard]] std::string to_string(action const& a, scenario const& s);
[[nodiscard]] std::string to_string(scenario const& s);

}  // namespace explorer
