#pragma once

#include <weir/amount.hpp>
#include <weir/detail/actor.hpp>
#include <weir/detail/chain/member.hpp>
#include <weir/detail/function_ref.hpp>
#include <weir/detail/operation.hpp>
#include <weir/detail/option_changes.hpp>
#include <weir/detail/rejected.hpp>
#include <weir/detail/wait_limit.hpp>
#include <weir/error.hpp>
#include <weir/observer.hpp>
#include <weir/partitions.hpp>
#include <weir/permit.hpp>
#include <weir/queue_options.hpp>
#include <weir/stats.hpp>
#include <weir/time.hpp>

#include <boost/container/static_vector.hpp>

#include <memory>
#include <optional>
#include <utility>

namespace weir::inline v0_2::detail {

/// The interface of a limiter for callers, permits, and chains. Each call is one critical section, in which it
/// queries the room or reports an event to it; the `actor` does the work that results.
///
/// A request that no waiting request precedes is granted in its call, if permits are available. Otherwise it joins a
/// queue.
template <class Room, class Host>
class core final : public chain_core, public actor<Room, Host> {
    using base = actor<Room, Host>;
    using visit = typename base::visit;
    using base::can_wait;
    using base::do_due_work;
    using base::locked;
    using base::room;
    using base::time;
    using base::time_if;

public:
    using host_type = Host;
    using options_type = typename Room::options_type;

    /// Whether the policy has commands, which a runner carries out.
    static constexpr bool is_fed = requires { requires Room::is_fed; };

    using share_list = boost::container::static_vector<share_stats, partitions::max_size>;

    template <class... HostArgs>
    [[nodiscard]] static std::shared_ptr<core> create(
        options_type const& options, queue_options const& queueing, HostArgs&&... host);

    core(options_type const& options, queue_options const& queueing)
        : base(*this, options, queueing) {}

    [[nodiscard]] std::shared_ptr<core> share() {
        return std::static_pointer_cast<core>(this->shared_from_this());
    }

    [[nodiscard]] time_point read_clock() const noexcept override { return Host::now(); }

    // Requests: call these on any thread.

    // `key` is the argument by which the room distinguishes its clients; a room without keys takes none.

    /// Returns the core that must decide on a request which ended here with `ec`; null if this core has decided. The
    /// request has left no trace here.
    [[nodiscard]] core* next_after(error_code ec) const noexcept {
        return static_cast<core*>(room().sends_on(ec));
    }

    /// Grants the request `r` immediately, or sets `ec` to the reason of the rejection.
    template <class... Key>
    [[nodiscard]] permit try_enter(request const& r, error_code& ec, Key const&... key) noexcept {
        bool const counts = is_countable(r);
        if (counts && this->try_take()) [[likely]]
            return counted_permit(ec);
        return try_under_lock(counts, r, ec, key...);
    }

    /// Grants the request `r` immediately, or rejects it. If waiting could help, the permit is empty and `ec` is
    /// clear.
    template <class... Key>
    [[nodiscard]] permit enter_at_once(request const& r, error_code& ec,
                                       Key const&... key) noexcept {
        if (is_countable(r) && this->try_take()) [[likely]]
            return counted_permit(ec);
        if (room().perhaps_waiting()) {
            ec = {};
            return {};  // `enter` decides: asking twice is useless
        }
        return ask_under_lock(r, ec, key...);
    }

    /// Decides immediately and stores the outcome in `op`, or lets `op` wait. Returns true if `op` waits; then the
    /// core owns it. If this throws, `op` is unchanged.
    template <class... Key>
    [[nodiscard]] bool enter(operation& op, wait_limit const& limit, Key const&... key);

    /// Completes `op` when all permits are released and no request waits. Returns true if that is later.
    [[nodiscard]] bool drain(operation& op);
    /// Starts a drain like `drain`, but cancels `op` if `is_cancelled()`, which is called under the lock.
    template <class F>
    [[nodiscard]] bool drain_unless(operation& op, F is_cancelled) {
        visit const here(*this);
        op.cancelled = op.cancelled || is_cancelled();
        if (room().decide_drain(op))
            return false;
        room().join_drain(op);
        summon_or([&] { room().withdraw_other(op); });
        return true;
    }

    /// Completes `op` when the policy has an event to report. Returns true if that is later.
    template <class Found>
    [[nodiscard]] bool watch(watch_operation<Found>& op) {
        visit const here(*this);
        if (room().decide_watch(op, time()))
            return false;
        room().join_watch(op);
        summon_or([&] { room().withdraw_other(op); });
        return true;
    }

    /// Takes `n` permits in any state of the policy. Returns an empty permit if the limiter is closed or shut
    /// down. Throws `std::invalid_argument` if `n` is above `max_amount`.
    template <class... Key>
    [[nodiscard]] permit charge(amount n, Key const&... key);

    // Reservations: requests without a handler. Call these on any thread. Such an operation is over when it is in no
    // queue; then it holds its outcome until a call takes it.

    /// Starts a request like `enter`. `grant_time` is the grant time of `op` if all requests before it are granted at
    /// theirs; `unknown` if it cannot be predicted.
    template <class... Key>
    [[nodiscard]] bool reserve(operation& op, wait_limit const& limit, time_point& grant_time,
                               Key const&... key);

    /// Makes `by` wait in the position of `op`, and returns true. No event affects `op` from then on. If one of them is
    /// over or cancelled, both end, with the outcome in `by`, and the result is false.
    [[nodiscard]] bool hand_over(operation& op, operation& by) noexcept;

    /// Returns the permit of `op`, or sets `ec` to the reason why there is none: `errc::no_permit` as long as it
    /// waits.
    [[nodiscard]] permit take_up(operation& op, error_code& ec) noexcept;

    /// Returns the permit of `op` if it was granted; otherwise removes `op` from the queue.
    [[nodiscard]] permit give_up(operation& op) noexcept;

    // Operations on the whole limiter: call these on any thread.

    /// Applies `change` to the options in force. The core calls `change` outside the lock, and calls it again if
    /// another thread has changed the options meanwhile.
    void configure(function_ref<void(options_type&)> change)
        requires(Room::slots_type::is_one);

    [[nodiscard]] options_type options() const
        requires(Room::slots_type::is_one);

    /// Applies `change` to the options of the queue, in the same way as `configure`.
    void configure_queue(function_ref<void(queue_options&)> change)
        requires(Room::slots_type::is_one);

    [[nodiscard]] queue_options queueing() const;

    /// Reports rejections and waits to `who` from now on; null ends that.
    void observe(std::shared_ptr<observer const> who) noexcept;

    void shut_down() noexcept;

    /// Grants nothing until `end`, or until a later time that was set before.
    void pause_until(time_point end) noexcept;
    /// Ends the pause.
    void resume() noexcept;

    void close() noexcept;

    /// Cancels all operations that are waiting now.
    void cancel() noexcept;

    /// Cancels the operation at the other end of the link, unless it no longer waits.
    void cancel(cancel_link& link) noexcept override;

    /// Calls `change(room)` under the lock. `change` returns true if it may have made permits available.
    template <class Change>
    void modify(Change change) noexcept {
        visit here(*this);
        if (change(room()))
            do_due_work(time());
        else
            here.changes_nothing();
    }

    /// Calls `change(room, now)` under the lock, at the time `at`; `change` may throw. Returns whether the resulting
    /// commands are carried out.
    template <class Change>
    bool modify_at(time_point at, Change change) {
        visit const here(*this);
        auto const now = this->time_at(at);
        change(room(), now);
        do_due_work(now);
        return !this->is_dead();
    }

    /// Makes `runner` carry out the commands of the policy from now on. Call it before any other function. Throws the
    /// exception of the runner if the runner cannot carry them out.
    template <class Runner>
    void fed_by(std::shared_ptr<Runner> runner)
        requires(is_fed)
    {
        if constexpr (Room::slots_type::is_one)
            this->commands().carried_out_by(std::move(runner), room().policy());
        else
            this->commands().carried_out_by(std::move(runner));
    }

    void connect(cancel_link& link, operation& op) noexcept override;

    /// Disconnects a link that is destroyed before its operation.
    void disconnect(cancel_link& link) noexcept override;

    /// Disconnects an operation that is destroyed before its link and was never queued.
    void disconnect(operation& op) noexcept override;

    [[nodiscard]] limiter_stats stats() const;
    /// Returns `stats()` with the wait times.
    [[nodiscard]] weir::snapshot<limiter_stats> snapshot() const;
    [[nodiscard]] share_list shares() const;

    /// Returns the result of `f(room, now)`.
    template <class F>
    [[nodiscard]] auto ask(F f) const {
        auto const here = locked();
        return f(room(), time());
    }

    /// Records that the limiter object was destroyed: all waiting requests are rejected, and the core destroys the
    /// host as soon as nothing is left to do.
    void abandon() noexcept;

    // Permits: call these on any thread, at any time.

    void leave(amount n, permit_origin from) noexcept override {
        if (is_countable(n, from) && this->try_put_back())
            return;
        visit here(*this);
        if (room().leave(n, from, time_if(room().needs_time_to_leave())))
            do_due_work(time_if(false));
        else
            here.changes_nothing();
    }

    void leave_unused(amount n, permit_origin from) noexcept override {
        if (is_countable(n, from) && this->try_put_back()) [[likely]]
            return;
        visit here(*this);
        if (room().leave_unused(n, from, time_if(room().needs_time_to_ask())))
            do_due_work(time_if(false));
        else
            here.changes_nothing();
    }

    void refund(amount n, permit_origin from) noexcept override {
        visit here(*this);
        if (room().refund(n, from, time_if(room().needs_time_to_ask())))
            do_due_work(time_if(false));
        else
            here.changes_nothing();
    }

    ticket overdraw(amount n, amount held, permit_origin from) override {
        visit const here(*this);
        return room().overdraw(n, held, from, time_if(room().needs_time_to_ask()));
    }

    void split(permit_origin from) noexcept override {
        auto const here = locked();
        room().split(from);
    }

    ticket merge(permit_origin into, permit_origin from, amount n) noexcept override {
        auto const here = locked();
        return room().merge(into, from, n);
    }

    ticket report(permit_origin from, outcome o) noexcept override {
        if constexpr (requires { room().report(from, o); }) {
            auto const here = locked();
            return room().report(from, o);
        } else {
            return from.ticket;
        }
    }

    [[nodiscard]] amount remaining(permit_origin from) const noexcept override {
        auto const here = locked();
        return room().remaining(from, time_if(room().needs_time_to_tell()));
    }

    [[nodiscard]] duration reset_after(permit_origin from) const noexcept override {
        auto const here = locked();
        return room().reset_after(from, time_if(room().needs_time_to_tell()));
    }

    [[nodiscard]] bool is_lost(permit_origin from) const noexcept override {
        if constexpr (requires { room().is_lost(from, time()); }) {
            auto const here = locked();
            return room().is_lost(from, time());
        } else {
            return permit_issuer::is_lost(from);
        }
    }

    // Chains that only count.

    [[nodiscard]] bool hold_to_put_back(amount n, permit_origin from) noexcept override {
        return is_countable(n, from) && this->try_to_hold(counting::put_back);
    }
    void end_hold(counting what) noexcept override { this->end_of_hold(what); }
    [[nodiscard]] bool hold_to_take(request const& r) noexcept {
        return is_countable(r) && this->try_to_hold(counting::take);
    }

    // Chains. Call all but `lock` and `attend` under the lock.

    void lock() noexcept override { this->begin_joint_section(); }
    [[nodiscard]] bool unlock(bool counts) noexcept override {
        return this->end_joint_section(counts);
    }
    void attend() noexcept override { this->attend_to_joint_section(); }
    [[nodiscard]] bool take_back(amount n, permit_origin from, bool used,
                                 section_time& t) noexcept override {
        if (used)
            return room().leave(n, from, time_in(room().needs_time_to_leave() ? &t : nullptr));
        return room().leave_unused(n, from, time_in(room().needs_time_to_ask() ? &t : nullptr));
    }
    bool serve(section_time& t) noexcept override {
        bool const waits = !room().nobody_waits();
        if (waits)
            do_due_work(time_in(&t));
        return waits;
    }
    void take_calls(call_list& to) noexcept override { room().take_calls(to); }

    /// Calls `f(room, now)` and returns its result; `now` is the time of the section `t`, or of the last reading if `t` is
    /// null.
    template <class F>
    auto within(section_time* t, F f) {
        return f(room(), time_in(t));
    }
    [[nodiscard]] bool needs_time_to_ask() const noexcept { return room().needs_time_to_ask(); }
    using base::record;
    using base::summon;

private:
    // Return whether the lock may grant a request, and take a permit back, by counting.
    [[nodiscard]] static bool is_countable(request const& r) noexcept {
        return base::can_count && r == request();
    }
    [[nodiscard]] static bool is_countable(amount n, permit_origin from) noexcept {
        return base::can_count && n == 1 && from == permit_origin();
    }

    [[nodiscard]] time_point time_in(section_time* t) const noexcept {
        return t ? this->time_at(t->of(&Host::now)) : time_if(false);
    }

    // Prefetches the memory that the room needs for `key`, so that it loads while the clock is read.
    template <class... Key>
    void expect(Key const&... key) const noexcept {
        if constexpr (requires { room().expect(key...); })
            room().expect(key...);
    }

    [[nodiscard]] permit counted_permit(error_code& ec) noexcept {
        ec = {};
        return permit_issuer::grant(*this, 1, {}, duration::zero());
    }

    // These do the work of `try_enter` and of `enter_at_once`. They are separate functions so that the permit is made
    // in its place: a function with several returns would copy it.
    template <class... Key>
    [[nodiscard, gnu::noinline]] permit try_under_lock(bool counts, request const& r,
                                                       error_code& ec, Key const&... key) noexcept;
    template <class... Key>
    [[nodiscard, gnu::noinline]] permit ask_under_lock(request const& r, error_code& ec,
                                                       Key const&... key) noexcept;

    // Does the work of `enter`, under the lock.
    template <bool is_reservation = false, class... Key>
    [[nodiscard]] bool enter_here(visit& here, operation& op, wait_limit const& limit,
                                  Key const&... key) {
        bool const waits = waits_here<is_reservation>(op, limit, key...);
        if (op.error) [[unlikely]] {
            if (!next_after(op.error))
                here.rejects(op);
        } else if (waits && room().has_nothing_to_send()) {
            here.changes_nothing();  // `summon` has posted the step for it
        }
        return waits;
    }
    template <bool is_reservation, class... Key>
    [[nodiscard]] bool waits_here(operation& op, wait_limit const& limit, Key const&... key) {
        bool const timed = room().needs_time_to_ask();
        if (room().decide(op, time_if(timed), key...))
            return false;
        auto const now = time_if(!timed);
        if (room().template cannot_wait<is_reservation>(op, limit, now))
            return false;
        room().join(op, now);
        if (!can_wait() || room().may_need_more(op))
            summon_or([&] { room().withdraw(op); });
        if (room().evict(op, now))
            do_due_work(now);
        return true;
    }

    [[nodiscard]] static bool is_over(operation const& op) noexcept {
        return op.at == operation::place::nowhere;
    }
    void leave_line(operation& op, time_point now) noexcept {
        if (!is_over(op))
            room().cancel(op, now);
    }
    // An operation that was removed at the end of its context has no outcome.
    [[nodiscard]] static permit outcome_of(operation& op, error_code& ec) noexcept {
        ec = op.error || op.granted ? op.error : make_error_code(errc::closed);
        return std::move(op.granted);
    }

    // Posts a step for an operation that waits from now on. If that throws, `undo` ends the wait.
    template <class Undo>
    void summon_or(Undo undo) {
        try {
            summon();
        } catch (...) {
            undo();
            throw;
        }
    }

    option_changes changes_;
};

}  // namespace weir::inline v0_2::detail
