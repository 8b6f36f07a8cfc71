#pragma once

#include <weir/amount.hpp>
#include <weir/chain_options.hpp>
#include <weir/detail/list.hpp>
#include <weir/detail/operation.hpp>
#include <weir/detail/rejected.hpp>
#include <weir/permit.hpp>
#include <weir/time.hpp>

#include <boost/intrusive/set_hook.hpp>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>

namespace weir::inline v0_2::detail {

class chain_core;
class chain_member;
class chain_operation;
struct in_register;
struct in_calls;
struct among_queued;
struct among_grouped;
struct among_overdue;

/// The type of a hook of an ordered set. Its color is a bit of a pointer, since each chain has several hooks.
template <class Tag>
using chain_set_hook =
    boost::intrusive::set_base_hook<boost::intrusive::tag<Tag>,
                                    boost::intrusive::link_mode<boost::intrusive::normal_link>,
                                    boost::intrusive::optimize_size<true>>;

/// The request of a chain to one of its limiters, and its position there. It may be read under the lock of that
/// limiter, and changes only under the locks of all.
///
/// Its arrival time and number are those at this limiter; the number is 0 before the arrival.
struct chain_entry
    : queued_request,
      list_hook<in_register>,
      chain_set_hook<among_queued>,
      chain_set_hook<among_grouped>,
      chain_set_hook<among_overdue> {
    chain_entry() noexcept { at = place::chained; }

    void ask_for(request const& r) noexcept {
        count = r.count();
        how = {.priority = r.priority(), .flow = r.flow(), .weight = r.weight()};
        take_standing(r);
    }

    /// Exchanges the requests of two entries that do not wait.
    void swap_requests(chain_entry& other) noexcept {
        auto const mine = asked_for();
        ask_for(other.asked_for());
        other.ask_for(mine);
        std::swap(core, other.core);
        std::swap(member, other.member);
        std::swap(index, other.index);
    }

    chain_core* core = nullptr;
    chain_member* member = nullptr;
    standing how;
    std::size_t index = 0;  // in the order in which the chain names its limiters

    [[nodiscard]] request asked_for() const noexcept { return {count, how}; }

    // These are valid while it waits.
    chain_operation* op = nullptr;
    time_point queued_at{};    // the last time at which it entered the queue of this limiter
    duration queued{};         // the time in that queue, until it left it last
    void* line = nullptr;      // where it waits
    std::uint64_t among = 0;   // the group in which it stands: see `chain_groups`
    bool is_prepared = false;  // the line has memory for it
    bool in_queue = false;     // in the queue of this limiter
    bool ready = false;        // this limiter allowed the chain in the last claim

    permit granted;
};

/// The data of a rejected chain.
struct chain_rejected {
    std::optional<std::size_t> by;  // the index of the limiter
    rejected what;
};

/// A chain that waits. The first limiter that it names is its home: the home keeps its deadline and its cancellation,
/// and completes it through its outbox.
class chain_operation : public operation, public list_hook<in_calls> {
public:
    std::span<chain_entry> entries;  // in the order of the locks
    chain_entry* at_home = nullptr;
    std::size_t named = 0;  // the number of limiters; a limiter that is named twice counts twice
    chain_options options;

    /// Makes the first limiter that it names its home.
    void find_home() noexcept {
        if (!entries.empty())
            at_home = &*std::ranges::min_element(entries, {}, &chain_entry::index);
    }

    /// Set under the lock of any limiter of the chain, by a thread that owes a claim from then on. Cleared under the
    /// locks of all.
    std::atomic<bool> called = false;

    time_point gives_up = never;  // `deadline` is when the home examines it next
    time_point reserves_until{};
    int passed = 0;  // the number of lost turns
    bool is_overdue = false;
    bool reserves = false;

    chain_rejected rejected;
    duration waited{};  // if it was granted

protected:
    chain_operation() = default;
    ~chain_operation() = default;
};

/// Chains that a thread has called, and owes a claim.
using call_list = list<chain_operation, in_calls>;

}  // namespace weir::inline v0_2::detail
