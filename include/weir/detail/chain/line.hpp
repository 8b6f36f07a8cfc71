#pragma once

#include <weir/amount.hpp>
#include <weir/detail/chain/operation.hpp>
#include <weir/detail/list.hpp>

#include <boost/intrusive/set.hpp>

#include <atomic>
#include <cstdint>
#include <utility>

namespace weir::inline v0_2::detail {

/// The type of an ordered set of the entries of chains.
template <class Tag, class Key>
using chain_set =
    boost::intrusive::set<chain_entry, boost::intrusive::base_hook<chain_set_hook<Tag>>,
                          boost::intrusive::key_of_value<Key>,
                          boost::intrusive::constant_time_size<false>>;

/// Chains in the queue of an order that groups requests: each group has its chains in order of arrival.
class chain_groups {
public:
    [[nodiscard]] bool empty() const noexcept { return all_.empty(); }
    void insert(chain_entry& e, std::uint64_t group) noexcept;
    void erase(chain_entry& e) noexcept;
    /// Returns the first chain of a group, or null.
    [[nodiscard]] chain_entry* first(std::uint64_t group) const noexcept;

private:
    struct by_group {
        using type = std::pair<std::uint64_t, std::uint64_t>;
        type operator()(chain_entry const& e) const noexcept { return {e.among, e.number}; }
    };

    chain_set<among_grouped, by_group> all_;
};

/// The waiting chains of a limiter: all chains that name it, and the chains in its queue.
class chain_line {
public:
    /// Adds the chains that are called here to `calls`: the thread that takes them owes each of them a claim.
    explicit chain_line(call_list& calls) noexcept : calls_(calls) {}

    // All waiting chains that name this limiter, in order of arrival, in any queue.

    [[nodiscard]] bool empty() const noexcept { return registered_.empty(); }
    void register_entry(chain_entry& e) noexcept { registered_.push_back(e); }
    void unregister_entry(chain_entry& e) noexcept {
        if (sweep_ == &e)
            sweep_ = registered_.after(e);
        static_cast<list_hook<in_register>&>(e).unlink();
    }

    /// Makes `step_sweep` begin with the first chain.
    void begin_sweep() noexcept { sweep_ = empty() ? nullptr : &registered_.front(); }
    /// Returns the next chain of the sweep, or null at its end.
    [[nodiscard]] chain_entry* step_sweep() noexcept {
        chain_entry* const e = sweep_;
        if (e)
            sweep_ = registered_.after(*e);
        return e;
    }
    [[nodiscard]] bool is_swept() const noexcept { return !sweep_; }

    // The chains in the queue of this limiter, in order of arrival.

    void enter_queue(chain_entry& e) noexcept;
    void leave_queue(chain_entry& e) noexcept;
    [[nodiscard]] chain_entry* first() const noexcept { return first_of(queued_); }
    [[nodiscard]] amount asked() const noexcept { return asked_; }

    // The overdue chains, and the chain that reserves this limiter.

    void add_overdue(chain_entry& e) noexcept;
    void remove_overdue(chain_entry& e) noexcept;
    [[nodiscard]] chain_entry* first_overdue() const noexcept { return first_of(overdue_); }
    chain_entry* reserver = nullptr;

    // Calls.

    void call(chain_operation& op) noexcept {
        if (!op.called.exchange(true, std::memory_order_relaxed))
            calls_.push_back(op);
    }

private:
    struct by_arrival {
        using type = std::uint64_t;
        type operator()(chain_entry const& e) const noexcept { return e.number; }
    };
    template <class Set>
    [[nodiscard]] static chain_entry* first_of(Set const& set) noexcept {
        return set.empty() ? nullptr : const_cast<chain_entry*>(&*set.begin());
    }

    list<chain_entry, in_register> registered_;
    chain_entry* sweep_ = nullptr;
    chain_set<among_queued, by_arrival> queued_;
    amount asked_ = 0;
    chain_set<among_overdue, by_arrival> overdue_;
    call_list& calls_;
};

}  // namespace weir::inline v0_2::detail
