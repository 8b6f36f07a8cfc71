#pragma once

#include <weir/amount.hpp>
#include <weir/detail/chain/member.hpp>
#include <weir/detail/chain/protocol.hpp>
#include <weir/detail/context_user.hpp>
#include <weir/detail/errand.hpp>
#include <weir/detail/lifetime.hpp>
#include <weir/detail/operation.hpp>
#include <weir/detail/waiting_room.hpp>
#include <weir/detail/wakeup.hpp>
#include <weir/error.hpp>
#include <weir/permit.hpp>
#include <weir/queue_options.hpp>
#include <weir/stats.hpp>
#include <weir/time.hpp>

#include <boost/assert.hpp>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

namespace weir::detail {

/// What is pending of the orders of a room's policy, and who carries them out: nothing, unless it is fed.
template <class Room, bool is_fed>
struct orders {
    using pending = no_order;
    struct runner_type {};
};
template <class Room>
struct orders<Room, true> {
    using pending = std::optional<typename Room::policy_type::order_type>;
    using runner_type = std::shared_ptr<typename Room::policy_type::runner>;
};

/// A limiter as an actor. It joins parts that know nothing of each other under one lock: which request goes
/// and which one waits (`waiting_room`), when a step is needed (`wakeup`), what still needs the core
/// (`lifetime`). What is to be done outside the lock is an `errand`, with the `Host`, which knows executors
/// and timers.
///
/// While nobody waits, a caller on any thread is granted under the lock, and that is all. Otherwise the
/// caller gets in line. Whoever changes anything, on whatever thread, also does what has become due by
/// that, in bounded portions: serves the head, removes what has expired. What is left is done by the
/// actor: `step()`, which runs on the limiter's executor, never two at a time. It alone arms the timer
/// and keeps the context running.
///
/// What must hold for nobody to be overlooked, and for the order to be kept (test/model checks it):
/// - Refusal at the gate and the place in line are one critical section, and so is the decision that
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
class core final : public chain_core,
                   public context_user,
                   public std::enable_shared_from_this<core<Room, Host>> {
public:
    using options_type = typename Room::options_type;

    /// Whether the policy has orders, which a runner carries out.
    static constexpr bool is_fed = requires { requires Room::is_fed; };

    template <class... HostArgs>
    [[nodiscard]] static std::shared_ptr<core> create(
        options_type const& options, queue_options const& queueing, HostArgs&&... host) {
        Room::check(queueing);
        auto self = std::make_shared<core>(options, queueing);
        self->host_.emplace(std::forward<HostArgs>(host)...);
        self->host_->attach(std::weak_ptr<context_user>(self));
        self->room_.begin(self->time());
        self->self_ = self;
        return self;
    }

    core(options_type const& options, queue_options const& queueing)
        : room_(*this, options, queueing) {}

    core(core const&) = delete;
    core& operator=(core const&) = delete;

    ~core() { BOOST_ASSERT(room_.live() == 0 && room_.is_empty()); }

    // Requests: from any thread.

    // `key` is what the room asks for to tell its clients apart; a room for all together asks for none.

    /// Grants at once what `r` asks for, or says why not.
    template <class... Key>
    [[nodiscard]] permit try_enter(request const& r, error_code& ec, Key const&... key) noexcept {
        visit const here(*this);
        expect(key...);
        return room_.try_enter(r, time_if(room_.needs_time_to_ask()), ec, key...);
    }

    /// The same for as many as there are, from 1 up to what `r` asks for.
    [[nodiscard]] permit try_enter_up_to(request const& r, error_code& ec) noexcept {
        visit const here(*this);
        return room_.try_enter_up_to(r, time_if(room_.needs_time_to_ask()), ec);
    }

    /// As `try_enter`, but if waiting could help there is no error: then the permit is empty and `ec` clear.
    template <class... Key>
    [[nodiscard]] permit enter_at_once(request const& r, error_code& ec,
                                       Key const&... key) noexcept {
        if (room_.perhaps_waiting())
            return {};  // no use asking twice; `enter` decides
        visit const here(*this);
        expect(key...);
        return room_.enter_at_once(r, time_if(room_.needs_time_to_ask()), ec, key...);
    }

    /// Either decides at once, and leaves the outcome in `op`, or lets `op` wait: true, and it is the
    /// core's from then on. If this throws, nothing has happened to `op`.
    template <class... Key>
    [[nodiscard]] bool enter(operation& op, wait_limit const& limit, Key const&... key) {
        visit const here(*this);
        bool const timed = room_.needs_time_to_ask();
        if (room_.decide(op, time_if(timed), key...))
            return false;
        auto const now = time_if(!timed);
        if (room_.cannot_wait(op, limit, now))
            return false;
        room_.join(op, now);
        send_for_step_or([&] { room_.withdraw(op); });
        if (room_.evict(op, now))
            settle(now);
        return true;
    }

    /// Completes `op` when nothing is out and nobody waits: true if that is later.
    [[nodiscard]] bool drain(operation& op) {
        visit const here(*this);
        if (room_.decide_drain(op))
            return false;
        room_.join_drain(op);
        send_for_step_or([&] { room_.withdraw_other(op); });
        return true;
    }

    /// Completes `op` when the policy has something to tell: true if that is later.
    template <class Found>
    [[nodiscard]] bool watch(watch_operation<Found>& op) {
        visit const here(*this);
        if (room_.decide_watch(op, time()))
            return false;
        room_.join_watch(op);
        send_for_step_or([&] { room_.withdraw_other(op); });
        return true;
    }

    /// Takes `n` whatever the state of the policy; an empty permit if the limiter is closed.
    template <class... Key>
    [[nodiscard]] permit charge(amount n, Key const&... key) {
        if (n > max_amount)
            throw std::invalid_argument(
                "weir: a charge of " + std::to_string(n) + " permits; it must be at most " +
                std::to_string(max_amount));
        visit const here(*this);
        return room_.charge(n, time_if(room_.needs_time_to_ask()), key...);
    }

    // The limiter as a whole: from any thread.

    /// Goes on with the options that `change` makes of those in force. `change` is called outside the
    /// lock, and again if another thread has changed the options meanwhile.
    template <class Change>
    void configure(Change change) {
        for (bool done = false; !done;) {
            std::uint64_t seen = 0;
            auto wanted = options(&seen);
            change(wanted);
            typename Room::policy_type next(wanted);  // allocates, and takes the old memory along
            if constexpr (is_fed) {
                if (runner_)
                    runner_->validate(next);
            }
            visit const here(*this);
            if (seen != configured_)
                continue;
            auto const now = time();
            next.take_over(room_.policy(), now);
            std::ranges::swap(next, room_.policy());
            ++configured_;
            room_.reprice();
            settle(now);
            done = true;
        }
    }

    [[nodiscard]] options_type options(std::uint64_t* version = nullptr) const {
        std::lock_guard lock(mutex_);
        if (version)
            *version = configured_;
        return room_.policy().options();
    }

    /// The same for the options of the queue.
    template <class Change>
    void configure_queue(Change change) {
        for (bool done = false; !done;) {
            std::uint64_t seen = 0;
            auto wanted = queueing(&seen);
            change(wanted);
            Room::check(wanted);
            visit const here(*this);
            if (seen != configured_)
                continue;
            room_.set_queueing(wanted);
            ++configured_;
            done = true;
        }
    }

    [[nodiscard]] queue_options queueing(std::uint64_t* version = nullptr) const {
        std::lock_guard lock(mutex_);
        if (version)
            *version = configured_;
        return room_.queueing();
    }

    void shut_down() noexcept {
        visit const here(*this);
        room_.shut_down();
    }

    void close() noexcept {
        visit const here(*this);
        room_.close();
        settle(time());
    }

    /// Cancels all operations that wait now.
    void cancel() noexcept {
        visit const here(*this);
        room_.cancel_all();
        settle(time());
    }

    /// Cancels the operation at the other end of the link, unless it is no longer waiting.
    void cancel(cancel_link& link) noexcept {
        visit here(*this);
        if (!link.target)
            return here.changes_nothing();
        auto const now = time();
        room_.cancel(*link.target, now);
        settle(now);
    }

    /// Has `change(room)` do something under the lock: true if that may have made room.
    template <class Change>
    void tell(Change change) noexcept {
        visit here(*this);
        if (change(room_))
            settle(time());
        else
            here.changes_nothing();
    }

    /// The same at a time: `change(room, now)`, which may throw. Whether orders that come of it are carried out.
    template <class Change>
    bool tell_at(time_point at, Change change) {
        visit const here(*this);
        now_ = std::max(now_, at);
        change(room_, now_);
        settle(now_);
        return !life_.is_dead();
    }

    /// What carries out the orders of the policy from now on. To be called before all else. Throws what the runner
    /// throws if it cannot.
    template <class Runner>
    void fed_by(std::shared_ptr<Runner> runner)
        requires(is_fed)
    {
        runner->validate(room_.policy());
        runner_ = std::move(runner);
    }

    /// Outside of the lock.
    template <class Order>
    void carry_out_order(Order const& order) noexcept {
        if (runner_)
            runner_->carry_out(order);
    }

    void connect(cancel_link& link, operation& op) noexcept {
        std::lock_guard lock(mutex_);
        link.target = &op;
        op.canceller = &link;
    }

    /// For a link that goes before its operation.
    void disconnect(cancel_link& link) noexcept {
        std::lock_guard lock(mutex_);
        if (link.target)
            link.target->canceller = nullptr;
    }

    /// For an operation that goes before its link without having been queued.
    void disconnect(operation& op) noexcept {
        std::lock_guard lock(mutex_);
        room_.detach(op);
    }

    [[nodiscard]] limiter_stats stats() const {
        std::lock_guard lock(mutex_);
        return room_.stats(time());
    }

    /// What `f(room, now)` finds.
    template <class F>
    [[nodiscard]] auto ask(F f) const {
        std::lock_guard lock(mutex_);
        return f(room_, time());
    }

    /// The limiter object has gone: all that wait are refused, and the core lets go of the host as soon
    /// as nothing is left to do.
    void abandon() noexcept {
        visit const here(*this);
        life_.abandon();
        room_.abandon();
        settle(time());
    }

    // Permits: from any thread, at any time.

    void leave(amount n, permit_origin from) noexcept override {
        visit here(*this);
        if (room_.leave(n, from, time_if(room_.needs_time_to_leave())))
            settle(now_);
        else
            here.changes_nothing();
    }

    void leave_unused(amount n, permit_origin from) noexcept override {
        visit here(*this);
        if (room_.leave_unused(n, from, time_if(room_.needs_time_to_ask())))
            settle(now_);
        else
            here.changes_nothing();
    }

    void refund(amount n, permit_origin from) noexcept override {
        visit here(*this);
        if (room_.refund(n, from, time_if(room_.needs_time_to_ask())))
            settle(now_);
        else
            here.changes_nothing();
    }

    ticket overdraw(amount n, amount held, permit_origin from) override {
        visit const here(*this);
        return room_.overdraw(n, held, from, time_if(room_.needs_time_to_ask()));
    }

    void split(permit_origin from) noexcept override {
        std::lock_guard lock(mutex_);
        room_.split(from);
    }

    ticket merge(permit_origin into, permit_origin from, amount n) noexcept override {
        std::lock_guard lock(mutex_);
        return room_.merge(into, from, n);
    }

    ticket report(permit_origin from, outcome o) noexcept override {
        if constexpr (requires { room_.report(from, o); }) {
            std::lock_guard lock(mutex_);
            return room_.report(from, o);
        } else {
            return from.ticket;
        }
    }

    [[nodiscard]] amount remaining(permit_origin from) const noexcept override {
        std::lock_guard lock(mutex_);
        return room_.remaining(from, time_if(room_.needs_time_to_tell()));
    }

    [[nodiscard]] bool is_lost(permit_origin from) const noexcept override {
        if constexpr (requires { room_.is_lost(from, now_); }) {
            std::lock_guard lock(mutex_);
            return room_.is_lost(from, time());
        } else {
            return permit_issuer::is_lost(from);
        }
    }

    // Chains. All but `lock` and `attend` under the lock, which the caller has.

    void lock() noexcept override { mutex_.lock(); }
    [[nodiscard]] bool unlock() noexcept override {
        bool const must_be_attended = !is_quiet() || has_order();
        if (must_be_attended)
            life_.work_begins();
        mutex_.unlock();
        return must_be_attended;
    }
    void attend() noexcept override {
        visit const here(*this);
        life_.work_ends();
    }
    [[nodiscard]] bool take_back(amount n, permit_origin from, bool used) noexcept override {
        return used ? room_.leave(n, from, time_if(room_.needs_time_to_leave()))
                    : room_.leave_unused(n, from, time_if(room_.needs_time_to_ask()));
    }
    void serve() noexcept override {
        if (!room_.nobody_waits())
            settle(time());
    }
    void take_calls(call_list& to) noexcept override { room_.take_calls(to); }

    /// What `f(room, now)` finds or does, at the time of the last look at the clock, if `look` is false.
    template <class F>
    auto within(bool look, F f) {
        return f(room_, time_if(look));
    }
    [[nodiscard]] bool needs_time_to_ask() const noexcept { return room_.needs_time_to_ask(); }
    void summon() { send_for_step(wants()); }

    // The actor: on the limiter's executor.

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
            die();
            wait = life_.is_at_work() || !room_.is_empty();
            if (wait)
                nobody_works_ = &nobody_works;
        }
        make_all_claims(last.calls);
        if (wait)
            nobody_works.wait();
        {
            std::lock_guard lock(mutex_);
            nobody_works_ = nullptr;
            last.host.swap(host_);
            last.memory = room_.take_spare_memory();
            if (room_.live() == 0)
                last.self = std::move(self_);
        }
    }

private:
    using memory = decltype(std::declval<Room&>().take_spare_memory());
    using orders = detail::orders<Room, is_fed>;
    using errand = detail::errand<core, Host, memory, typename orders::pending>;

    // How many operations are touched under one lock: by the actor, and by anybody else.
    static constexpr int step_budget = 256;
    static constexpr int visit_budget = 16;

    /// A call that may change something: holds the lock, and in the end does what has come of it. Inline
    /// as far as it is on the way of a grant, since it would be put on the stack otherwise.
    class visit {
    public:
        explicit visit(core& c) noexcept : core_(c) { core_.mutex_.lock(); }
        visit(visit const&) = delete;
        visit& operator=(visit const&) = delete;
        [[gnu::always_inline]] ~visit() {
            if ((core_.is_quiet() || (changes_nothing_ && core_.can_wait())) && !core_.has_order())
                [[likely]]
                core_.mutex_.unlock();
            else
                end(core_);
        }

        /// Nobody else is concerned.
        void changes_nothing() noexcept { changes_nothing_ = true; }

    private:
        [[gnu::noinline]] static void end(core& c) noexcept {
            errand e;
            c.plan(e);
            c.mutex_.unlock();
            c.carry_out(e);
        }

        core& core_;
        bool changes_nothing_ = false;
    };

    // All below but `carry_out`: under the lock.

    // What the room needs for `key` comes from memory while the clock is read.
    template <class... Key>
    void expect(Key const&... key) const noexcept {
        if constexpr (requires { room_.expect(key...); })
            room_.expect(key...);
    }

    [[nodiscard]] time_point time() const noexcept {
        now_ = std::max(now_, Host::now());
        return now_;
    }
    [[nodiscard]] time_point time_if(bool needed) const noexcept { return needed ? time() : now_; }

    void settle(time_point now) noexcept {
        int budget = visit_budget;
        room_.settle(now, budget);
    }

    [[nodiscard]] bool is_quiet() const noexcept {
        return room_.is_done() && wakeup_.is_at_rest() && life_.is_in_use();
    }
    [[nodiscard]] bool can_wait() const noexcept {
        return !wakeup_.is_step_missing() && life_.is_in_use();
    }

    [[nodiscard]] bool has_order() noexcept {
        if constexpr (is_fed)
            return !life_.is_dead() && room_.has_order(now_);
        else
            return false;
    }
    void take_order(errand& e) noexcept {
        if constexpr (is_fed) {
            if (!life_.is_dead())
                e.order = room_.pop_order(time());
        }
    }

    [[nodiscard]] needs wants() noexcept {
        auto n = room_.wants(now_, wakeup_.last_alarm());
        n.waiting = n.waiting || life_.is_at_work();
        return n;
    }

    /// Posts the step message if one is needed and not on its way.
    void send_for_step(needs const& n) {
        if (!wakeup_.hear(n))
            return;
        try {
            host_->post(this->shared_from_this());
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

    template <class Undo>
    void send_for_step_or(Undo undo) {
        try {
            send_for_step(wants());
        } catch (...) {
            undo();
            throw;
        }
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
        if (life_.is_at_work())
            return;
        if (life_.is_abandoned() && room_.is_done()) {
            die();
            e.host.swap(host_);
            e.memory = room_.take_spare_memory();
            life_.work_begins();
        } else if (life_.is_dead() && room_.is_empty()) {
            if (nobody_works_)
                nobody_works_->set();
            else if (room_.live() == 0 && !host_)
                e.self = std::move(self_);
        }
    }

    void die() noexcept {
        life_.die();
        wakeup_.stop();
    }

    /// Does what was planned, and what comes of that.
    void carry_out(errand& e) noexcept {
        while (e.is_work()) {
            e.run(*this, host_);
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
        if constexpr (is_fed) {   // there may be more than one order
            take_order(e);
            if (e.is_work())
                return life_.work_begins();
        }
        plan_end(e);
    }

    typename Host::mutex_type mutable mutex_;
    lifetime life_;
    wakeup wakeup_;
    mutable time_point now_{};
    Room room_;

    std::shared_ptr<core> self_;  // until dead, and while permits are out
    std::optional<Host> host_;
    std::uint64_t configured_ = 0;
    typename Host::event_type* nobody_works_ = nullptr;  // the end of the context waits for it
    [[no_unique_address]] typename orders::runner_type runner_{};
};

}  // namespace weir::detail
