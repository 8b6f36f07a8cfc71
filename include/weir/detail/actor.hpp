#pragma once

#include <weir/detail/chain/operation.hpp>
#include <weir/detail/chain/protocol.hpp>
#include <weir/detail/context_user.hpp>
#include <weir/detail/errand.hpp>
#include <weir/detail/lifetime.hpp>
#include <weir/detail/operation.hpp>
#include <weir/detail/orders.hpp>
#include <weir/detail/wakeup.hpp>
#include <weir/time.hpp>

#include <boost/assert.hpp>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>

namespace weir::detail {

/// A room as an actor: it decides which thread does what, and when. It joins parts that know nothing of each other
/// under one lock: the room, when a step is needed (`wakeup`), what still needs the actor (`lifetime`). What is to
/// be done outside the lock is an `errand`, with the `Host`, which knows executors and timers.
///
/// Whoever changes anything does that by a `visit`, on whatever thread, and also does what has become due by
/// it, in bounded portions: serves the head, removes what has expired. What is left is done by the
/// actor: `step()`, which runs on the limiter's executor, never two at a time. It alone arms the timer
/// and keeps the context running.
///
/// What must hold for nobody to be overlooked, and for the order to be kept (test/model checks it):
/// - Rejection at the gate and the place in line are one critical section, and so is the decision that
///   the gate is open again: it is open iff nobody waits.
/// - Room that comes back and its handing over, or the message that does it, are one critical section:
///   each section that changes anything ends by asking `wakeup`, and the message is posted under the
///   lock.
/// - No handler runs and nothing of a user is destroyed under the lock: handlers, permits, operations
///   and policies are completed and destroyed outside. Only `execute` of the limiter's executor is
///   called under it.
/// - The timer and the work guard are touched outside the lock, by the one step that is arranging.
/// - A thread that works outside the lock counts as a worker: the host, and so the execution context,
///   outlives it, and the context is kept running.
///
/// `Host` is what the limiter runs on:
///
/// | expression                | what it must do                                                    |
/// |---------------------------|--------------------------------------------------------------------|
/// | `Host::mutex_type`        | a lock                                                             |
/// | `Host::event_type`        | `wait()` returns once another thread has called `set()`            |
/// | `Host::now()`             | the time                                                           |
/// | `h.attach(weak)`          | see to it that `context_ends()` is called when the context ends    |
/// | `h.post(shared)`          | have `step()` called later on the executor; throws if it cannot    |
/// | `h.arm(weak, at, epoch)`  | have `timer_expired(epoch)` called at `at`, and forget any earlier |
/// | `h.disarm()`              | forget it                                                          |
/// | `h.hold(bool)`            | keep the executor's context running, or no longer                  |
template <class Room, class Host>
class actor : public context_user, public std::enable_shared_from_this<actor<Room, Host>> {
public:
    actor(actor const&) = delete;
    actor& operator=(actor const&) = delete;

    // On the limiter's executor.

    /// The message that was posted has arrived.
    void step() noexcept {
        errand e;
        {
            std::lock_guard lock(mutex_);
            wakeup_.step_arrived();
            plan_step(e);
        }
        carry_out(e);
    }

    void timer_expired(std::uint64_t epoch) noexcept {
        errand e;
        {
            std::lock_guard lock(mutex_);
            wakeup_.timer_fired(epoch);
            plan_step(e);
        }
        carry_out(e);
    }

    /// The context is ending: nothing is called any more, all that wait are destroyed. Permits that come
    /// home later only do arithmetic.
    void context_ends() noexcept override {
        errand last;
        typename Host::event_type nobody_works;
        bool wait = false;
        {
            std::lock_guard lock(mutex_);
            room_.clear_out();
            last.completions.append(room_.outbox());  // and there they are destroyed
            room_.take_calls(last.calls);
            wakeup_.stop();
            wait = life_.context_ends(what_is_left(), nobody_works);
        }
        make_all_claims(last.calls);
        if (wait)
            nobody_works.wait();
        {
            std::lock_guard lock(mutex_);
            life_.context_has_ended(what_is_left(), last.remains);
            last.memory = room_.take_spare_memory();
        }
    }

protected:
    using orders_type = orders<Room>;

    template <class... RoomArgs>
    explicit actor(RoomArgs&&... args) : room_(std::forward<RoomArgs>(args)...) {}
    ~actor() { BOOST_ASSERT(room_.live() == 0 && room_.is_empty()); }

    /// Must follow the constructor.
    template <class... HostArgs>
    void begin(HostArgs&&... host) {
        auto self = this->shared_from_this();
        life_.make_host(std::forward<HostArgs>(host)...);
        life_.host().attach(std::weak_ptr<context_user>(self));
        room_.begin(time());
        life_.begin(std::move(self));
    }

    /// A call that may change something: holds the lock, and in the end does what has come of it. Inline
    /// as far as it is on the way of a grant, since it would be put on the stack otherwise.
    class visit {
    public:
        explicit visit(actor& a) noexcept : actor_(a) { actor_.mutex_.lock(); }
        visit(visit const&) = delete;
        visit& operator=(visit const&) = delete;
        [[gnu::always_inline]] ~visit() {
            if ((actor_.is_quiet() || (changes_nothing_ && actor_.can_wait())) &&
                !actor_.has_order()) [[likely]]
                actor_.mutex_.unlock();
            else
                end(actor_);
        }

        /// Nobody else is concerned.
        void changes_nothing() noexcept { changes_nothing_ = true; }

    private:
        [[gnu::noinline]] static void end(actor& a) noexcept {
            errand e;
            a.plan(e);
            a.mutex_.unlock();
            a.carry_out(e);
        }

        actor& actor_;
        bool changes_nothing_ = false;
    };

    /// Holds the lock for a call of which nothing comes for others.
    [[nodiscard]] auto look() const noexcept { return std::lock_guard(mutex_); }

    // A section of several actors, whose locks are held together.

    void begin_joint_section() noexcept { mutex_.lock(); }
    /// Whether `attend_to_joint_section` must follow: until then the actor and its context are kept.
    [[nodiscard]] bool end_joint_section() noexcept {
        bool const must_be_attended = !is_quiet() || has_order();
        if (must_be_attended)
            life_.work_begins();
        mutex_.unlock();
        return must_be_attended;
    }
    void attend_to_joint_section() noexcept {
        visit const here(*this);
        life_.work_ends();
    }

    // Under the lock.

    [[nodiscard]] Room& room() noexcept { return room_; }
    [[nodiscard]] Room const& room() const noexcept { return room_; }

    /// It never goes back.
    [[nodiscard]] time_point time() const noexcept { return time_at(Host::now()); }
    [[nodiscard]] time_point time_at(time_point read) const noexcept {
        now_ = std::max(now_, read);
        return now_;
    }
    /// The time of the last look at the clock, if none is needed.
    [[nodiscard]] time_point time_if(bool needed) const noexcept { return needed ? time() : now_; }

    /// Does what has become due by an event.
    void settle(time_point now) noexcept {
        int budget = visit_budget;
        room_.settle(now, budget);
    }

    /// Sends for the actor if it is needed now. May throw.
    void summon() { send_for_step(wants()); }

    /// The limiter object has gone.
    void abandon() noexcept {
        life_.abandon();
        room_.abandon();
    }
    [[nodiscard]] bool is_dead() const noexcept { return life_.is_dead(); }

    /// What carries out the orders of the policy. It is changed before all else.
    [[nodiscard]] orders_type& policy_orders() noexcept { return orders_; }

private:
    using life = lifetime<actor, Host>;
    using memory = decltype(std::declval<Room&>().take_spare_memory());
    using errand = detail::errand<actor, Host, memory, orders_type>;

    // How many operations are touched under one lock: by the actor, and by anybody else.
    static constexpr int step_budget = 256;
    static constexpr int visit_budget = 16;

    // All below but `carry_out`: under the lock.

    [[nodiscard]] bool is_quiet() const noexcept {
        return room_.is_done() && wakeup_.is_at_rest() && life_.is_in_use();
    }
    [[nodiscard]] bool can_wait() const noexcept {
        return !wakeup_.is_step_missing() && life_.is_in_use();
    }

    [[nodiscard]] bool has_order() noexcept {
        return !life_.is_dead() && orders_.is_due(room_, now_);
    }
    void take_order(errand& e) noexcept {
        if (has_order())
            e.order = orders_.take(room_, time_if(orders_type::exist));
    }

    [[nodiscard]] needs wants() noexcept {
        auto n = room_.wants(now_, wakeup_.last_alarm());
        if (!n.waiting && life_.is_at_work()) {
            n.waiting = true;
            n.next = wakeup_.timer_at();  // whoever is completed may come again at once
        }
        return n;
    }

    /// Posts the step message if one is needed and not on its way.
    void send_for_step(needs const& n) {
        if (!wakeup_.hear(n))
            return;
        try {
            life_.host().post(this->shared_from_this());
        } catch (...) {
            wakeup_.post_failed();
            throw;
        }
    }

    /// The same for events that must not throw. If it fails, the next visitor tries again.
    void try_to_send_for_step(needs const& n) noexcept {
        try {
            send_for_step(n);
        } catch (...) {}
    }

    /// Plans what a visitor has to do.
    void plan(errand& e) noexcept {
        (life_.is_dead() ? e.dropped : e.completions).append(room_.outbox());
        room_.take_calls(e.calls);
        take_order(e);
        if (e.is_work())
            life_.work_begins();
        if (!life_.is_dead())
            try_to_send_for_step(wants());
        if (!e.is_work())
            plan_end(e);
    }

    /// Plans what a step has to do.
    void plan_step(errand& e) noexcept {
        if (life_.is_dead() || wakeup_.is_arranging())
            return;
        int budget = step_budget;
        room_.settle(time(), budget);
        e.completions.append(room_.outbox());
        room_.take_calls(e.calls);
        take_order(e);
        auto const n = wants();
        e.arrangement = wakeup_.arrange(n);
        e.memory = room_.take_spare_memory();
        try_to_send_for_step(n);
        e.goes_on = budget <= 0 && wakeup_.is_step_missing();
        if (e.is_work())
            life_.work_begins();
        else
            plan_end(e);
    }

    /// Plans the end, if it has come: of the host, and of this object.
    void plan_end(errand& e) noexcept {
        if (!life_.let_go(what_is_left(), e.remains))
            return;
        wakeup_.stop();
        e.memory = room_.take_spare_memory();
        life_.work_begins();
    }
    [[nodiscard]] typename life::rest what_is_left() const noexcept {
        return {.work = !room_.is_done(),
                .operations = !room_.is_empty(),
                .permits = room_.live() != 0};
    }

    /// Does what was planned, and what comes of that.
    void carry_out(errand& e) noexcept {
        while (e.is_work()) {
            e.run(*this, life_, orders_);
            std::lock_guard lock(mutex_);
            work_is_done(e);
        }
    }

    /// After an errand: plans the next one.
    void work_is_done(errand& e) noexcept {
        life_.work_ends();
        bool const arranged = e.arrangement.has_value();
        if (arranged)
            wakeup_.arranged(*e.arrangement, e.held, e.armed);
        e.arrangement.reset();
        bool const failed = !e.completions.empty();
        if (failed) {  // what could not be posted is left to a later step
            auto& back = life_.is_dead() ? e.dropped : room_.outbox();
            e.completions.append(back);
            back.append(e.completions);
        }
        bool const goes_on = std::exchange(e.goes_on, false);
        if (life_.is_dead())
            return e.dropped.empty() ? plan_end(e) : life_.work_begins();
        if (goes_on)
            return plan_step(e);
        if (failed || arranged || room_.nobody_waits())
            try_to_send_for_step(wants());
        if (arranged && e.held && e.armed && wakeup_.is_step_missing())
            return plan_step(e);  // the needs have changed meanwhile
        take_order(e);            // there may be more than one
        if (e.is_work())
            return life_.work_begins();
        plan_end(e);
    }

    typename Host::mutex_type mutable mutex_;
    life life_;
    wakeup wakeup_;
    mutable time_point now_{};
    Room room_;
    [[no_unique_address]] orders_type orders_{};
};

}  // namespace weir::detail
