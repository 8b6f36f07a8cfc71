#pragma once

#include <weir/detail/chain/protocol.hpp>
#include <weir/detail/lifetime.hpp>
#include <weir/detail/operation.hpp>
#include <weir/detail/wakeup.hpp>
#include <weir/time.hpp>

#include <optional>
#include <utility>

namespace weir::detail {

/// Destroys the operations in `doomed`. Their destructors may bring further ones here: the outermost
/// call destroys those, so that the stack does not grow.
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

/// Posts the operations in `outgoing`, in order. Those that cannot be posted stay in it; those that
/// their executors drop go to `dropped`.
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

/// What a thread has to do for an actor outside its lock: it posts completions, makes the claims of chains that
/// were called, arranges a step's wishes with the host, has an order of the policy carried out, and destroys
/// what has come to its end. `Memory` is a pointer to memory that is no longer needed; `Orders` says what an order
/// is.
template <class Actor, class Host, class Memory, class Orders>
struct errand {
    using life = lifetime<Actor, Host>;

    typename life::remains remains;  // first, so that it goes last
    operation_list completions;      // those that cannot be posted stay here
    operation_list dropped;          // by their executors, or too late: to be destroyed
    call_list calls;
    std::optional<wakeup::arrangement> arrangement;
    bool held = true;   // whether the guard could be arranged,
    bool armed = true;  // and the timer
    Memory memory{};
    bool goes_on = false;  // there is more, and no message could be posted for it
    [[no_unique_address]] typename Orders::pending order{};

    [[nodiscard]] bool is_work() const noexcept {
        return !completions.empty() || !dropped.empty() || !calls.empty() || arrangement ||
               remains.host || goes_on || order;
    }

    /// Does it.
    void run(Actor& actor, life& of_actor, Orders const& orders) noexcept {
        post_each(completions, dropped);
        make_claims(calls);
        destroy_one_by_one(dropped);
        orders.carry_out(std::exchange(order, {}));
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

}  // namespace weir::detail
