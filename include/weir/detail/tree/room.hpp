#pragma once

#include <weir/detail/room.hpp>
#include <weir/detail/tree/path.hpp>
#include <weir/detail/tree/slots.hpp>
#include <weir/policy/rate_tree.hpp>
#include <weir/time.hpp>

#include <cstddef>
#include <optional>
#include <string_view>

namespace weir::inline v0_2::detail {

/// The room of a limiter by a tree of rates, with the functions that concern the tree.
class tree_room : public room<tree_slots> {
    using base = room<tree_slots>;
    using base::slots;

public:
    using base::base;

    /// Changes the options. Throws `std::invalid_argument` and `std::bad_alloc`, without an effect.
    void configure(rate_tree_options const& options, time_point now) {
        slots().configure(options, now);
        base::reprice();
    }
    [[nodiscard]] rate_tree_options const& options() const noexcept {
        return slots().tree().options();
    }
    /// Calls `f(slots)`.
    template <class F>
    void see_slots(F f) const {
        f(slots());
    }
    /// Continues from the states of another tree, which had the options `rule`. Throws `std::invalid_argument` if the
    /// options cannot be changed to the present ones, and `std::bad_alloc`, without an effect.
    [[nodiscard]] tree_slots::resumed restore(tree_slots& before, std::string_view rule,
                                              time_point now) {
        if (to_string(options()) != rule)
            before.configure(options(), now);
        auto const result = slots().resume(before, now);
        base::reprice();
        return result;
    }
    [[nodiscard]] std::size_t keys() const noexcept { return slots().size(); }
    /// Returns nothing if the tree has no such node now.
    [[nodiscard]] std::optional<rate_tree_stats> stats_of(tree_lookup const& who,
                                                          time_point now) noexcept {
        return slots().stats(who, now);
    }
    /// Cancels all requests that wait in a leaf.
    void cancel_leaf(tree_lookup const& who, time_point now) noexcept {
        this->cancel_line(this->find(who).line(), now);
    }
};

}  // namespace weir::inline v0_2::detail
