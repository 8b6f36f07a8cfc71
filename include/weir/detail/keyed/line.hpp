#pragma once

#include <weir/detail/key_handle.hpp>
#include <weir/detail/line.hpp>
#include <weir/detail/list.hpp>
#include <weir/detail/operation.hpp>
#include <weir/policy/rule.hpp>
#include <weir/queue_options.hpp>
#include <weir/time.hpp>

#include <boost/intrusive/set_hook.hpp>

#include <memory>
#include <type_traits>
#include <utility>

namespace weir::inline v0_2::detail {

/// An operation that waits for permits of one key.
class keyed_operation : public operation {
public:
    void* line = nullptr;  // of the key

protected:
    keyed_operation() = default;
    ~keyed_operation() = default;
};

struct in_lines;
using due_hook =
    boost::intrusive::set_base_hook<boost::intrusive::link_mode<boost::intrusive::normal_link>>;

/// The line of one key, with the state of the key, and its rule.
template <class Key, limiting_rule Rule, class Queue>
struct keyed_line : line<Queue>, list_hook<in_lines>, due_hook {
    using state = typename Rule::state_type;
    using line<Queue>::next;  // not the members of the hooks
    using line<Queue>::replace;

    /// Throws `std::bad_alloc`; then nothing was moved from `s`.
    keyed_line(queue_options const& queueing, key_handle<Key> k, std::shared_ptr<Rule const> r,
               state&& s)
        : line<Queue>(queueing), key(k), rule(std::move(r)), state_of_key(std::move(s)) {}

    void begin(time_point now) noexcept {
        if constexpr (std::is_trivially_copyable_v<state>)
            state_of_key = rule->begin(now);
        else
            rule->restart(state_of_key, now);
    }

    key_handle<Key> key;
    bool stays = false;  // even if no request waits
    bool is_scheduled = false;
    time_point at{};  // when it has work, if it is scheduled
    std::shared_ptr<Rule const> rule;
    state state_of_key;

    friend bool operator<(keyed_line const& a, keyed_line const& b) noexcept { return a.at < b.at; }
};

}  // namespace weir::inline v0_2::detail
