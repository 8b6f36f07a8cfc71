#pragma once

#include <weir/detail/chain/protocol.hpp>
#include <weir/detail/lifetime.hpp>
#include <weir/detail/observed_events.hpp>
#include <weir/detail/operation.hpp>
#include <weir/detail/wakeup.hpp>
#include <weir/time.hpp>

#include <optional>
#include <utility>

namespace weir::inline v0_2::detail {

/// Destroys the operations in `doomed`. Their destructors may call this function again: the outermost call destroys the
/// operations of all calls, so that the stack does not grow.
inline void destroy_one_by_one(operation_list& doomed) noexcept {
    static thread_local constinit operation_list* outermost = nullptr;
    if (outermost) {
        outermost->append(doomed);
        return;
    }
    outermost = &doomed;
    while (!doomed.empty())
        doomed.pop_front().destroy();
    outermost = nullptr;
}

/// Posts the operations in `outgoing`, in order. Operations that cannot be posted stay in it; operations that their
/// executors drop move to `dropped`.
inline void post_each(operation_list& outgoing, operation_list& dropped) noexcept {
    operation_list failed;
    while (!outgoing.empty()) {
        operation& op = outgoing.pop_front();
        try {
            if (!op.post())
                dropped.push_back(op);
        } catch (...) {
            failed.push_back(op);
        }
    }
    outgoing.append(failed);
}

/// The work of a thread for an actor outside its lock. It reports events to the observer, posts completions, makes the
/// claims of chains that were called, carries out a step's arrangement with the host and a command of the policy, and
/// destroys objects whose life has ended. `Memory` is a pointer to memory that is not needed; `Commands` defines the
/// type of a command.
template <class Actor, class Host, class Memory, class Commands>
struct deferred_work {
    using life = lifetime<Actor, Host>;

    typename life::remains remains;  // first, to be destroyed last
    observed_events observed;        // with the completions
    operation_list completions;      // operations that cannot be posted stay here
    operation_list dropped;          // by their executors, or too late: to be destroyed
    call_list calls;
    std::optional<wakeup::arrangement> arrangement;
    bool held = true;   // whether the guard was arranged,
    bool armed = true;  // and the timer
    Memory memory{};
    bool goes_on = false;  // more is due, and no message could be posted for it
    [[no_unique_address]] typename Commands::pending command{};

    [[nodiscard]] bool is_work() const noexcept {
        return !completions.empty() || !dropped.empty() || !calls.empty() || arrangement ||
               remains.host || goes_on || command || !observed.empty();
    }

    /// Does the work.
    void run(Actor& actor, life& of_actor, Commands const& commands) noexcept {
        if (observed.has_observer()) [[unlikely]]
            observed.report(completions);
        post_each(completions, dropped);
        make_claims(calls);
        destroy_one_by_one(dropped);
        commands.carry_out(std::exchange(command, {}));
        if (arrangement)
            arrange(actor, of_actor.host());
        memory.reset();
        remains.host.reset();
    }

private:
    void arrange(Actor& actor, Host& host) noexcept {
        auto const& [hold, timer, epoch] = *arrangement;
        held = !hold || succeeds([&] { host.hold(*hold); });
        armed = !timer || succeeds([&] {
            if (*timer == never)
                host.disarm();
            else
                host.arm(actor.weak_from_this(), *timer, epoch);
        });
    }

    template <class F>
    [[nodiscard]] static bool succeeds(F f) noexcept {
        try {
            f();
            return true;
        } catch (...) {
            return false;
        }
    }
};

}  // namespace weir::inline v0_2::detail
