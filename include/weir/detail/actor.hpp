#pragma once

#include <weir/detail/chain/operation.hpp>
#include <weir/detail/chain/protocol.hpp>
#include <weir/detail/context_user.hpp>
#include <weir/detail/deferred_work.hpp>
#include <weir/detail/lifetime.hpp>
#include <weir/detail/observed_events.hpp>
#include <weir/detail/operation.hpp>
#include <weir/detail/policy_commands.hpp>
#include <weir/detail/room_lock.hpp>
#include <weir/detail/wakeup.hpp>
#include <weir/time.hpp>

#include <boost/assert.hpp>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>

namespace weir::inline v0_2::detail {

/// Runs a room as an actor: it decides which thread does what, and when. One lock joins three independent parts: the
/// room, the wake-up protocol, which decides when a step is needed (`wakeup`), and the users that keep the actor alive
/// (`lifetime`). Work outside the lock is `deferred_work`; it uses the `Host`, which knows executors and timers.
///
/// Each change is made by a `visit`, on any thread. A visit also does the work that its change makes due, in bounded
/// portions: it serves the head and removes expired requests. The actor does the rest in `step()`, which runs on the
/// limiter's executor, never two at a time. Only `step()` arms the timer and keeps the context running.
///
/// These invariants guarantee that no request is overlooked, and that the order is kept (test/model checks them):
/// - The decision that a request must wait, and its entry into the queue, happen in one critical section.
/// - The release of permits and their grant, or the message that causes the grant, happen in one critical section. Each
///   section that changes anything ends with a call of `wakeup`, and posts the message under the lock.
/// - No handler or observer runs and no user's object is destroyed under the lock: handlers, permits, operations and
///   policies are completed and destroyed outside. Only `execute` of the limiter's executor is called under it.
/// - Permits that are taken and put back without the lock are known to the room under the lock: see `room_lock`.
/// - The timer and the work guard are used outside the lock, by the one step that is arranging.
/// - A thread that works outside the lock counts as a worker: the host, and so the execution context, outlives it, and
///   the context is kept running.
///
/// `Host` is the environment of the limiter:
///
/// | expression                | required effect                                                    |
/// |---------------------------|--------------------------------------------------------------------|
/// | `Host::mutex_type`        | a lock                                                             |
/// | `Host::counting_mutex_type` | optional: a lock that also counts permits, like `counting_lock`  |
/// | `Host::event_type`        | `wait()` returns once another thread has called `set()`            |
/// | `Host::now()`             | the time                                                           |
/// | `Host::clock_type`        | the clock of `now()`, for a limiter in a chain                     |
/// | `h.attach(weak)`          | cause a call of `context_ends()` when the context ends             |
/// | `h.post(shared)`          | cause a later call of `step()` on the executor; throws if it cannot |
/// | `h.arm(weak, at, epoch)`  | cause a call of `timer_expired(epoch)` at `at`; replaces any earlier alarm |
/// | `h.disarm()`              | cancel the alarm                                                   |
/// | `h.hold(bool)`            | keep the executor's context running (true), or stop doing so       |
template <class Room, class Host>
class actor : public context_user, public std::enable_shared_from_this<actor<Room, Host>> {
public:
    actor(actor const&) = delete;
    actor& operator=(actor const&) = delete;

    /// Handles the arrival of the step message, on the limiter's executor.
    void step() noexcept {
        deferred_work e;
        {
            std::lock_guard lock(mutex_);
            wakeup_.step_arrived();
            plan_step(e);
        }
        carry_out(e);
    }

    /// Handles a callback of the timer, on the limiter's executor.
    void timer_expired(std::uint64_t epoch) noexcept {
        deferred_work e;
        {
            std::lock_guard lock(mutex_);
            wakeup_.timer_fired(epoch);
            plan_step(e);
        }
        carry_out(e);
    }

    /// Handles the end of the context: no function is called any more, and all waiting operations are destroyed.
    /// Permits that are released later only do arithmetic.
    void context_ends() noexcept override {
        deferred_work last;
        typename Host::event_type nobody_works;
        bool wait = false;
        {
            std::lock_guard lock(mutex_);
            room_.clear_out();
            last.completions.append(room_.outbox());  // destroyed there
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
            last.observed = take_observer();
            last.memory = room_.take_spare_memory();
        }
    }

protected:
    using commands_type = policy_commands<Room>;

    template <class... RoomArgs>
    explicit actor(RoomArgs&&... args) : room_(std::forward<RoomArgs>(args)...), mutex_(room_) {}
    ~actor() { BOOST_ASSERT(room_.live() == 0 && room_.is_empty()); }

    /// Completes the construction. Call it once, after the constructor.
    template <class... HostArgs>
    void begin(HostArgs&&... host) {
        auto self = this->shared_from_this();
        life_.make_host(std::forward<HostArgs>(host)...);
        life_.host().attach(std::weak_ptr<context_user>(self));
        room_.begin(time());
        life_.begin(std::move(self));
    }

    // Permits that are taken and put back one by one without the lock. The `try_` functions return false if it is needed.

    static constexpr bool can_count = has_counting_lock<Room, Host>;
    [[nodiscard]] bool try_take() noexcept { return mutex_.try_take(); }
    [[nodiscard]] bool try_put_back() noexcept { return mutex_.try_put_back(); }
    [[nodiscard]] bool try_to_hold(counting what) noexcept { return mutex_.try_hold(what); }
    void end_of_hold(counting what) noexcept { mutex_.end_hold(what); }

    /// A call that may change something: it holds the lock, and its destructor does the work that results. The path of
    /// a grant is forced inline; otherwise the object would be put on the stack.
    class visit {
    public:
        [[gnu::always_inline]] explicit visit(actor& a) noexcept : actor_(a) {
            actor_.mutex_.lock();
        }
        visit(visit const&) = delete;
        visit& operator=(visit const&) = delete;
        [[gnu::always_inline]] ~visit() {
            bool const ends_here = !has_event_ && !actor_.has_command();
            if (ends_here && actor_.is_quiet()) [[likely]]
                counts_ ? actor_.mutex_.unlock_and_count() : actor_.mutex_.unlock();
            else if (ends_here && changes_nothing_ && actor_.can_wait())
                actor_.mutex_.unlock();
            else
                end(actor_);
        }

        /// Lets the lock count permits from the end of this visit on.
        void lets_count() noexcept { counts_ = true; }

        /// Declares that this visit concerns no other request.
        void changes_nothing() noexcept { changes_nothing_ = true; }

        /// Records a rejection without a wait, if there is an observer.
        void rejects(request const& r, error_code ec, permit const& rejected) noexcept {
            if (actor_.observed_.has_observer()) [[unlikely]]
                has_event_ = record(actor_, r, ec, rejected);
        }
        void rejects(operation const& op) noexcept {
            if (actor_.observed_.has_observer()) [[unlikely]]
                has_event_ = record(actor_, op.asked_in_full(), op.error, op.granted);
        }
        /// Declares that the recorded events, if there are any, are reported at the end of this visit.
        void reports_events() noexcept { has_event_ = !actor_.observed_.empty(); }

    private:
        [[gnu::noinline]] static bool record(actor& a, request const& r, error_code ec,
                                             permit const& rejected) noexcept {
            a.observed_.add({.asked = r, .error = ec, .retry_after = rejected.retry_after()});
            return true;
        }
        [[gnu::noinline]] static void end(actor& a) noexcept {
            deferred_work e;
            a.plan(e);
            a.mutex_.unlock();
            a.carry_out(e);
        }

        actor& actor_;
        bool counts_ = false;
        bool changes_nothing_ = false;
        bool has_event_ = false;
    };

    /// Holds the lock for a call without consequences for other requests.
    [[nodiscard]] auto locked() const noexcept { return std::lock_guard(mutex_); }

    // A section of several actors, whose locks are held together.

    void begin_joint_section() noexcept { mutex_.lock(); }
    /// If `counts`, the lock counts permits from then on. Returns whether `attend_to_joint_section` must follow: until
    /// then the actor and its context are kept.
    [[nodiscard]] bool end_joint_section(bool counts) noexcept {
        bool const must_be_attended = !ends_without_work();
        if (must_be_attended)
            life_.work_begins();
        if (counts && is_quiet())
            mutex_.unlock_and_count();
        else
            mutex_.unlock();
        return must_be_attended;
    }
    void attend_to_joint_section() noexcept {
        visit here(*this);
        here.reports_events();
        life_.work_ends();
    }

    // Call these under the lock.

    [[nodiscard]] Room& room() noexcept { return room_; }
    [[nodiscard]] Room const& room() const noexcept { return room_; }

    /// Reads the clock. The result never decreases.
    [[nodiscard]] time_point time() const noexcept { return time_at(Host::now()); }
    [[nodiscard]] time_point time_at(time_point read) const noexcept {
        now_ = std::max(now_, read);
        return now_;
    }
    /// Reads the clock if `needed`; otherwise returns the time of the last reading.
    [[nodiscard]] time_point time_if(bool needed) const noexcept { return needed ? time() : now_; }

    /// Does the work that an event has made due.
    void do_due_work(time_point now) noexcept {
        int budget = visit_budget;
        room_.do_due_work(now, budget);
    }

    /// Records an event, if there is an observer: the end of this section reports it, or `attend_to_joint_section`.
    void record(request_event const& e) noexcept {
        if (observed_.has_observer())
            observed_.add(e);
    }
    /// Exchanges the observer, which must be destroyed outside the lock.
    void swap_observer(std::shared_ptr<observer const>& other) noexcept {
        observed_.swap_observer(other);
    }

    /// Returns whether the actor need not ask for the needs if they have not changed.
    [[nodiscard]] bool can_wait() const noexcept {
        return !wakeup_.is_step_missing() && life_.is_in_use();
    }
    /// Posts a step message if one is needed now. May throw.
    void summon() { send_for_step(wants()); }

    /// Records that the limiter object was destroyed.
    void abandon() noexcept {
        life_.abandon();
        room_.abandon();
    }
    [[nodiscard]] bool is_dead() const noexcept { return life_.is_dead(); }

    /// The object that carries out the commands of the policy. Change it only before the first use.
    [[nodiscard]] commands_type& commands() noexcept { return commands_; }

private:
    using life = lifetime<actor, Host>;
    using memory = decltype(std::declval<Room&>().take_spare_memory());
    using deferred_work = detail::deferred_work<actor, Host, memory, commands_type>;

    // The maximum number of operations touched under one lock: by a step, and by any other call.
    static constexpr int step_budget = 256;
    static constexpr int visit_budget = 16;

    // Call all functions below, except `carry_out`, under the lock.

    [[nodiscard, gnu::always_inline]] bool is_quiet() const noexcept {
        return room_.is_done() && wakeup_.is_at_rest() && life_.is_in_use();
    }
    /// Ends a section that leaves no work for the time after the lock: posts a step if one is needed. Returns false,
    /// without an effect, if it leaves work.
    [[nodiscard]] bool ends_without_work() noexcept {
        if (has_command() || !observed_.empty())
            return false;
        if (is_quiet())
            return true;
        if (!life_.is_in_use() || !room_.has_nothing_to_send())
            return false;
        try_to_send_for_step(wants());
        return true;
    }

    [[nodiscard]] bool has_command() noexcept {
        return !life_.is_dead() && commands_.is_due(room_, now_);
    }
    void take_command(deferred_work& e) noexcept {
        if (has_command())
            e.command = commands_.take(room_, time_if(commands_type::exist));
    }

    [[nodiscard]] needs wants() noexcept {
        auto n = room_.wants(now_, wakeup_.last_alarm());
        if (!n.waiting && life_.is_at_work()) {
            n.waiting = true;
            n.next = wakeup_.timer_at();  // a completed handler may make a new request at once
        }
        return n;
    }

    /// Posts the step message if one is needed and none is posted.
    void send_for_step(needs const& n) {
        if (!wakeup_.update(n))
            return;
        try {
            life_.host().post(this->shared_from_this());
        } catch (...) {
            wakeup_.post_failed();
            throw;
        }
    }

    /// Posts the step message like `send_for_step`, for events that must not throw. If it fails, the next visit
    /// retries.
    void try_to_send_for_step(needs const& n) noexcept {
        try {
            send_for_step(n);
        } catch (...) {}
    }

    /// Plans the work of a visit.
    void plan(deferred_work& e) noexcept {
        (life_.is_dead() ? e.dropped : e.completions).append(room_.outbox());
        room_.take_calls(e.calls);
        take_command(e);
        take_events(e);
        if (e.is_work())
            life_.work_begins();
        if (!life_.is_dead())
            try_to_send_for_step(wants());
        if (!e.is_work())
            plan_end(e);
    }

    /// Plans the work of a step.
    void plan_step(deferred_work& e) noexcept {
        if (life_.is_dead() || wakeup_.is_arranging())
            return;
        int budget = step_budget;
        room_.do_due_work(time(), budget);
        e.completions.append(room_.outbox());
        room_.take_calls(e.calls);
        take_command(e);
        take_events(e);
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

    void take_events(deferred_work& e) noexcept {
        if (observed_.has_observer()) [[unlikely]]
            e.observed = observed_.take(room_.queueing().name, now_);
    }
    [[nodiscard]] observed_events take_observer() noexcept { return std::exchange(observed_, {}); }

    /// Plans the end of the host and of this object, if it is due.
    void plan_end(deferred_work& e) noexcept {
        if (!life_.let_go(what_is_left(), e.remains))
            return;
        wakeup_.stop();
        e.observed = take_observer();
        e.memory = room_.take_spare_memory();
        life_.work_begins();
    }
    [[nodiscard]] typename life::rest what_is_left() const noexcept {
        return {.work = !room_.is_done(),
                .operations = !room_.is_empty(),
                .permits = room_.live() != 0};
    }

    /// Does the planned work, and the work that results from it.
    void carry_out(deferred_work& e) noexcept {
        while (e.is_work()) {
            e.run(*this, life_, commands_);
            std::lock_guard lock(mutex_);
            work_is_done(e);
        }
    }

    /// Records the results of deferred work, and plans more of it. Call under the lock, on the thread that ran `e`.
    ///
    /// Other threads may have changed anything while `e` ran without the lock. This function restores three invariants:
    /// - No completion is lost or reordered: completions that could not be posted return to the head of the outbox.
    /// - Whenever the room needs a step, one is posted, running, or recorded as missing.
    /// - The last worker of a dead actor hands over its remains.
    ///
    /// The order of the steps matters:
    /// 1. `work_ends` comes first: until then `wants` and `let_go` keep the context and the host alive for this thread.
    /// 2. `arranged` comes before `wants`, because it corrects the assumptions of `wakeup` about the timer and the
    ///    guard. While `e` was arranging, other steps returned at once. So ask again in any case, even after success.
    /// 3. A dead actor posts nothing: completions that failed to post are destroyed by more deferred work.
    /// 4. `goes_on`: a step used up its budget and could not post the next one, so this thread continues as that step.
    /// 5. Three events change the needs: a failed post (retry it), an arrangement (see 2), and the end of this work
    ///    without a waiting request (release the guard that `wants` held for the worker).
    /// 6. If posting fails after a successful arrangement, this thread runs the step itself, because no later event is
    ///    certain. After a failed arrangement it must not: a host that keeps failing would make it loop. The next visit
    ///    retries.
    /// 7. Deferred work carries out one command of the policy; `take_command` fetches the next.
    ///
    /// Each path ends in `work_begins` (the loop in `carry_out` continues) or `plan_end` (this may be the last worker).
    /// The exception is `plan_step` while another step is arranging: the thread of that step asks again afterwards.
    void work_is_done(deferred_work& e) noexcept {
        life_.work_ends();
        bool const arranged = e.arrangement.has_value();
        if (arranged)
            wakeup_.arranged(*e.arrangement, e.held, e.armed);
        e.arrangement.reset();
        bool const failed = !e.completions.empty();
        if (failed) {
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
            return plan_step(e);
        take_command(e);
        if (e.is_work())
            return life_.work_begins();
        plan_end(e);
    }

    life life_;
    wakeup wakeup_;
    mutable time_point now_{};
    Room room_;
    room_lock<Room, Host> mutable mutex_;  // of the room
    [[no_unique_address]] commands_type commands_{};
    observed_events observed_;
};

}  // namespace weir::inline v0_2::detail
