#pragma once

#include <weir/time.hpp>

#include <memory>
#include <optional>
#include <utility>

namespace weir::inline v0_2::detail {

/// The command type of a policy without commands.
struct no_command {
    explicit constexpr operator bool() const noexcept { return false; }
};

/// The commands of a room's policy, and the runner that carries them out, outside the lock. Without a fed policy it is
/// empty.
template <class Room>
class policy_commands {
public:
    using pending = no_command;
    static constexpr bool exist = false;

    [[nodiscard]] static bool is_due(Room&, time_point) noexcept { return false; }
    [[nodiscard]] static pending take(Room&, time_point) noexcept { return {}; }
    static void carry_out(pending) noexcept {}
    template <class Policy>
    static void validate(Policy const&) noexcept {}
};

template <class Room>
    requires Room::is_fed
class policy_commands<Room> {
    using policy = typename Room::slots_type::feed_type;
    using runner = typename policy::runner;

public:
    using pending = std::optional<typename policy::command_type>;
    static constexpr bool exist = true;

    /// Sets the runner.
    void carried_out_by(std::shared_ptr<runner> r) noexcept { runner_ = std::move(r); }
    /// Sets the runner. Throws its exception if it cannot carry out the commands of `p`.
    void carried_out_by(std::shared_ptr<runner> r, policy const& p) {
        r->validate(p);
        carried_out_by(std::move(r));
    }
    void validate(policy const& p) const {
        if (runner_)
            runner_->validate(p);
    }

    // Call these under the lock.
    [[nodiscard]] static bool is_due(Room& room, time_point now) noexcept {
        return room.has_command(now);
    }
    [[nodiscard]] static pending take(Room& room, time_point now) noexcept {
        return room.pop_command(now);
    }

    // Call this outside the lock.
    void carry_out(pending command) const noexcept {
        if (command && runner_)
            runner_->carry_out(*command);
    }

private:
    std::shared_ptr<runner> runner_;
};

}  // namespace weir::inline v0_2::detail
