#pragma once

#include <weir/detail/key_handle.hpp>
#include <weir/detail/room/line_schedule.hpp>
#include <weir/policy/rule.hpp>
#include <weir/queue_options.hpp>
#include <weir/time.hpp>

#include <memory>
#include <type_traits>
#include <utility>

namespace weir::inline v0_2::detail {

/// The line of one key, with the state of the key, and its rule.
template <class Key, limiting_rule Rule, class Queue>
struct keyed_line : scheduled_line<Queue> {
    using state = typename Rule::state_type;

    /// Throws `std::bad_alloc`; then nothing was moved from `s`.
    keyed_line(queue_options const& queueing, key_handle<Key> k, std::shared_ptr<Rule const> r,
               state&& s)
        : scheduled_line<Queue>(queueing), key(k), rule(std::move(r)), state_of_key(std::move(s)) {}

    void begin(time_point now) noexcept {
        if constexpr (std::is_trivially_copyable_v<state>)
            state_of_key = rule->begin(now);
        else
            rule->restart(state_of_key, now);
    }

    key_handle<Key> key;
    bool stays = false;  // even if no request waits
    std::shared_ptr<Rule const> rule;
    state state_of_key;
};

}  // namespace weir::inline v0_2::detail
