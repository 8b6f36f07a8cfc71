#pragma once

#include <weir/time.hpp>

#include <memory>
#include <optional>
#include <utility>

namespace weir::detail {

/// The order type of a policy without orders.
struct no_order {
    explicit constexpr operator bool() const noexcept { return false; }
};

/// The orders of a room's policy, and the runner that carries them out, outside the lock. Without a fed policy it is
/// empty.
template <class Room>
class orders {
public:
    using pending = no_order;
    static constexpr bool exist = false;

    [[nodiscard]] static bool is_due(Room&, time_point) noexcept { return false; }
    [[nodiscard]] static pending take(Room&, time_point) noexcept { return {}; }
    static void carry_out(pending) noexcept {}
    template <class Policy>
    static void validate(Policy const&) noexcept {}
};

template <class Room>
    requires Room::is_fed
class orders<Room> {
    using policy = typename Room::policy_type;
    using runner = typename policy::runner;

public:
    using pending = std::optional<typename policy::order_type>;
    static constexpr bool exist = true;

    /// Sets the runner. Throws its exception if it cannot carry out the orders of `p`.
    void carried_out_by(std::shared_ptr<runner> r, policy const& p) {
        r->validate(p);
        runner_ = std::move(r);
    }
    void validate(policy const& p) const {
        if (runner_)
            runner_->validate(p);
    }

    // Call these under the lock.
    [[nodiscard]] static bool is_due(Room& room, time_point now) noexcept {
        return room.has_order(now);
    }
    [[nodiscard]] static pending take(Room& room, time_point now) noexcept {
        return room.pop_order(now);
    }

    // Call this outside the lock.
    void carry_out(pending order) const noexcept {
        if (order && runner_)
            runner_->carry_out(*order);
    }

private:
    std::shared_ptr<runner> runner_;
};

}  // namespace weir::detail
