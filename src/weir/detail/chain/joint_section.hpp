#pragma once

#include <weir/detail/chain/member.hpp>
#include <weir/detail/chain/operation.hpp>
#include <weir/detail/chain/protocol.hpp>

#include <boost/container/static_vector.hpp>

#include <algorithm>
#include <utility>

namespace weir::inline v0_2::detail {

/// One object for each limiter of a chain.
template <class T>
using for_each_limiter = boost::container::static_vector<T, most_chained>;

/// Inserts `x` into a sorted list, which is short.
template <class T>
void insert_in_order(for_each_limiter<T>& all, T const& x) {
    all.push_back(x);
    for (auto i = all.size() - 1; i != 0 && all[i] < all[i - 1]; --i)
        std::swap(all[i], all[i - 1]);
}

/// The locks of several limiters, each taken once. The resulting work is done when all locks are free.
class joint_section {
public:
    // `used` has a `core` in each element, in the order of the locks.
    template <class Used>
    explicit joint_section(Used const& used) {
        for (auto const& each : used) {
            if (!cores_.empty() && cores_.back() == each.core)
                continue;
            cores_.push_back(each.core);
            each.core->lock();
        }
    }
    joint_section(joint_section const&) = delete;
    joint_section& operator=(joint_section const&) = delete;
    ~joint_section() {
        for_each_limiter<chain_core*> unattended;
        for (auto* const core : cores_) {
            if (core->unlock(counts_))
                unattended.push_back(core);
        }
        for (auto* const core : unattended)
            core->attend();
    }

    /// Lets the locks count permits from the end of the section on.
    void lets_count() noexcept { counts_ = true; }

    [[nodiscard]] for_each_limiter<chain_core*> const& cores() const noexcept { return cores_; }
    [[nodiscard]] section_time& time() const noexcept { return time_; }
    [[nodiscard]] bool covers(chain_operation const& c) const noexcept {
        return std::ranges::all_of(c.entries, [&](chain_entry const& e) {
            return std::ranges::find(cores_, e.core) != cores_.end();
        });
    }

private:
    for_each_limiter<chain_core*> cores_;
    section_time mutable time_;
    bool counts_ = false;
};

}  // namespace weir::inline v0_2::detail
