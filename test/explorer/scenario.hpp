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
    sliding_log,
    sliding_window,
    fixed_window,
    token_bucket,
    leaky_bucket,
    smooth_bursty,
    smooth_warming_up,
    any,
};
inline constexpr std::array all_policies{
    policy::seats,         policy::sliding_log,       policy::sliding_window,
    policy::fixed_window,  policy::token_bucket,      policy::leaky_bucket,
    policy::smooth_bursty, policy::smooth_warming_up, policy::any};

[[nodiscard]] std::string_view name_of(policy p);

/// What a policy goes by: `limit` seats that may each be held for `time`, or `limit` in any `time`, or
/// one in each `time`: into a bucket for `limit`, or with up to `limit` saved.
struct rule {
    amount limit = 1;
    duration time = weir::forever;
    friend bool operator==(rule const&, rule const&) = default;
};

/// What one caller does next.
struct action {
    enum class kind : std::uint8_t {
        enter,        // `n`, with patience `time`; goes on when it is completed
        reserve,      // a place for `n`, with patience `time`; instead of the one that it has
        use,          // waits in that place
        take_up,      // the permit of that place, if it is there
        give_back,    // that place
        try_enter,    // `n`
        charge,       // `n`
        hold,         // sleeps for `time`
        leave,        // with the permit that it has had longest
        refund,       // the same, unused
        settle,       // the permit that it has had longest, at `n`
        split,        // the permit that it has had longest, in two
        merge,        // all its permits into one
        cancel,       // what caller `whom` waits for
        unlink,       // its own cancellation: it can no longer be cancelled
        cancel_all,   //
        shut_down,    // rejects newcomers
        close,        //
        drain,        // goes on when it is completed
        watch,        // for a permit that is overdue; goes on when it is completed
        configure,    // `change`
        look,         // at statistics and options
        abandon,      // destroys the limiter object
        end_context,  // destroys the execution context, once its threads have left it
    };
    /// Where the handler of an operation lives.
    enum class abode : std::uint8_t {
        home,       // on the limiter's executor
        beside,     // on another executor of the same context
        elsewhere,  // in another context
    };
    static constexpr duration unset = duration::min();

    kind what = kind::hold;
    amount n = 1;
    amount more = 0;     // of an enter, reserve or try_enter: if they are there
    weir::standing how;  // of an enter or try_enter
    duration time = unset;
    int whom = 0;
    rule change;

    // If there are keys.
    int key = 0;
    bool of_all = true;   // a cancel_all or configure that is not of one key
    bool resets = false;  // a key gets the options of all again

    // Of an operation.
    bool cancellable = true;   // there is a cancellation slot
    bool tries_first = false;  // as a coroutine does
    abode lives = abode::home;
    bool posts = false;   // if it is over at once, it is completed by a post
    bool drops = false;   // the handler drops the permit
    bool throws = false;  // the handler throws
    int allocation = 0;   // if not 0, this allocation in the call fails
};

/// What happens in a run, but for the order in which it does.
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
};

/// A scenario by chance, with so many callers at most. For `any` chance has chosen what is inside.
[[nodiscard]] scenario make_scenario(policy which, std::uint64_t seed, int max_callers);

/// The same, but that some callers reserve places.
[[nodiscard]] scenario with_places(scenario s);

/// The same, but that seats may be shared out among partitions: for limiters without keys.
[[nodiscard]] scenario with_shares(scenario s);

/// The same, but that some requests take more than they need.
[[nodiscard]] scenario with_ranges(scenario s);

/// The same in an order that asks for nothing but when a request came.
[[nodiscard]] scenario without_groups(scenario s);

/// The same for a limiter with so many keys, and without what keys do not have: permits that are watched,
/// and the outcome of an allocation that fails, which differs.
[[nodiscard]] scenario with_keys(scenario s, int keys);

/// What an action asks for.
[[nodiscard]] inline weir::request asked_by(amount n, amount more, weir::standing const& how) {
    return more == 0 ? weir::request(n, how) : weir::request(n, n + more, how.priority);
}

/// An action of the scenario.
[[nodiscard]] std::string to_string(action const& a, scenario const& s);
[[nodiscard]] std::string to_string(scenario const& s);

}  // namespace explorer
