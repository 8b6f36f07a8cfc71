#pragma once

#include <weir/amount.hpp>
#include <weir/detail/actor.hpp>
#include <weir/detail/chain/member.hpp>
#include <weir/detail/operation.hpp>
#include <weir/detail/option_changes.hpp>
#include <weir/detail/wait_limit.hpp>
#include <weir/error.hpp>
#include <weir/permit.hpp>
#include <weir/queue_options.hpp>
#include <weir/stats.hpp>
#include <weir/time.hpp>

#include <algorithm>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

namespace weir::detail {

/// A limiter, to those who use it: callers, permits, and chains. Each call is one critical section, in which it asks
/// the room, or tells it what has happened; what comes of that is the business of the `actor`.
///
/// While nobody waits, a caller on any thread is granted under the lock, and that is all. Otherwise the
/// caller gets in line.
template <class Room, class Host>
class core final : public chain_core, public actor<Room, Host> {
    using base = actor<Room, Host>;
    using visit = typename base::visit;
    using base::look;
    using base::room;
    using base::settle;
    using base::time;
    using base::time_if;

public:
    using options_type = typename Room::options_type;

    /// Whether the policy has orders, which a runner carries out.
    static constexpr bool is_fed = requires { requires Room::is_fed; };

    template <class... HostArgs>
    [[nodiscard]] static std::shared_ptr<core> create(
        options_type const& options, queue_options const& queueing, HostArgs&&... host) {
        Room::check(queueing);
        auto self = std::make_shared<core>(options, queueing);
        self->begin(std::forward<HostArgs>(host)...);
        return self;
    }

    core(options_type const& options, queue_options const& queueing)
        : base(*this, options, queueing) {}

    [[nodiscard]] std::shared_ptr<core> share() {
        return std::static_pointer_cast<core>(this->shared_from_this());
    }

    // Requests: from any thread.

    // `key` is what the room asks for to tell its clients apart; a room for all together asks for none.

    /// Grants at once what `r` asks for, or says why not.
    template <class... Key>
    [[nodiscard]] permit try_enter(request const& r, error_code& ec, Key const&... key) noexcept {
        visit const here(*this);
        expect(key...);
        return room().try_enter(r, time_if(room().needs_time_to_ask()), ec, key...);
    }

    /// As `try_enter`, but if waiting could help there is no error: then the permit is empty and `ec` clear.
    template <class... Key>
    [[nodiscard]] permit enter_at_once(request const& r, error_code& ec,
                                       Key const&... key) noexcept {
        if (room().perhaps_waiting())
            return {};  // no use asking twice; `enter` decides
        visit const here(*this);
        expect(key...);
        return room().enter_at_once(r, time_if(room().needs_time_to_ask()), ec, key...);
    }

    /// Either decides at once, and leaves the outcome in `op`, or lets `op` wait: true, and it is the
    /// core's from then on. If this throws, nothing has happened to `op`.
    template <class... Key>
    [[nodiscard]] bool enter(operation& op, wait_limit const& limit, Key const&... key) {
        visit const here(*this);
        return enter_here(op, limit, key...);
    }

    /// Completes `op` when nothing is out and nobody waits: true if that is later.
    [[nodiscard]] bool drain(operation& op) {
        return drain_unless(op, [] { return false; });
    }
    /// The same, but if `is_cancelled()`, which is asked under the lock, `op` is cancelled.
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

    /// Completes `op` when the policy has something to tell: true if that is later.
    template <class Found>
    [[nodiscard]] bool watch(watch_operation<Found>& op) {
        visit const here(*this);
        if (room().decide_watch(op, time()))
            return false;
        room().join_watch(op);
        summon_or([&] { room().withdraw_other(op); });
        return true;
    }

    /// Takes `n` whatever the state of the policy; an empty permit if the limiter is closed.
    template <class... Key>
    [[nodiscard]] permit charge(amount n, Key const&... key) {
        if (n > max_amount)
            throw std::invalid_argument(
                "weir: a charge of " + std::to_string(n) + " permits; the maximum is " +
                std::to_string(max_amount));
        visit const here(*this);
        return room().charge(n, time_if(room().needs_time_to_ask()), key...);
    }

    // Places in line: requests without a handler, from any thread. Such an operation is over when it is in no line; then it
    // has its outcome, which is left to be taken.

    /// As `enter`. `turn` is when the turn of `op` comes if all before it are granted at theirs; `unknown` if that cannot
    /// be told.
    template <class... Key>
    [[nodiscard]] bool reserve(operation& op, wait_limit const& limit, time_point& turn,
                               Key const&... key) {
        visit const here(*this);
        bool const waits = enter_here(op, limit, key...);
        turn = is_over(op) ? time_if(false) : room().turn_of_last(op, time_if(false));
        return waits;
    }

    /// Has `by` wait in the place of `op`, with which nothing will happen any more: true. If one of them is over, or
    /// cancelled, both are, with the outcome in `by`.
    [[nodiscard]] bool hand_over(operation& op, operation& by) noexcept {
        visit const here(*this);
        auto const now = time();
        if (by.cancelled)
            leave_line(op, now);
        settle(now);
        if (!is_over(op)) {
            room().replace(op, by);
            return true;
        }
        by.granted = outcome_of(op, by.error);
        by.detach();
        return false;
    }

    /// The permit of `op`, or why there is none: `errc::no_permit` as long as it waits.
    [[nodiscard]] permit take_up(operation& op, error_code& ec) noexcept {
        visit const here(*this);
        settle(time());
        ec = errc::no_permit;
        return is_over(op) ? outcome_of(op, ec) : permit();
    }

    /// The permit of `op`, if it has got one; otherwise it leaves the line.
    [[nodiscard]] permit give_up(operation& op) noexcept {
        visit const here(*this);
        auto const now = time();
        leave_line(op, now);
        settle(now);
        return std::move(op.granted);
    }

    // The limiter as a whole: from any thread.

    /// Goes on with the options that `change` makes of those in force. `change` is called outside the
    /// lock, and again if another thread has changed the options meanwhile.
    template <class Change>
    void configure(Change change) {
        using policy = typename Room::policy_type;
        changes_.make([this] { return look(); }, [this] { return room().policy().options(); },
                      [&](options_type wanted) {
                          change(wanted);
                          policy next(wanted);  // allocates, and takes the old memory along
                          this->policy_orders().validate(next);
                          return next;
                      },
                      [this] { return visit(*this); },
                      [this](policy& next) {
                          auto const now = time();
                          next.take_over(room().policy(), now);
                          std::ranges::swap(next, room().policy());
                          room().reprice();
                          settle(now);
                      });
    }

    [[nodiscard]] options_type options() const {
        auto const here = look();
        return room().policy().options();
    }

    /// The same for the options of the queue.
    template <class Change>
    void configure_queue(Change change) {
        changes_.make([this] { return look(); }, [this] { return room().queueing(); },
                      [&](queue_options wanted) {
                          auto const before = wanted;
                          change(wanted);
                          Room::check_change(before, wanted);
                          return wanted;
                      },
                      [this] { return visit(*this); },
                      [this](queue_options const& next) { room().set_queueing(next); });
    }

    [[nodiscard]] queue_options queueing() const {
        auto const here = look();
        return room().queueing();
    }

    void shut_down() noexcept {
        visit const here(*this);
        room().shut_down();
    }

    void close() noexcept {
        visit const here(*this);
        room().close();
        settle(time());
    }

    /// Cancels all operations that wait now.
    void cancel() noexcept {
        visit const here(*this);
        room().cancel_all();
        settle(time());
    }

    /// Cancels the operation at the other end of the link, unless it is no longer waiting.
    void cancel(cancel_link& link) noexcept override {
        visit here(*this);
        if (!link.target)
            return here.changes_nothing();
        auto const now = time();
        room().cancel(*link.target, now);
        settle(now);
    }

    /// Has `change(room)` do something under the lock: true if that may have made room.
    template <class Change>
    void tell(Change change) noexcept {
        visit here(*this);
        if (change(room()))
            settle(time());
        else
            here.changes_nothing();
    }

    /// The same at a time: `change(room, now)`, which may throw. Whether orders that come of it are carried out.
    template <class Change>
    bool tell_at(time_point at, Change change) {
        visit const here(*this);
        auto const now = this->time_at(at);
        change(room(), now);
        settle(now);
        return !this->is_dead();
    }

    /// What carries out the orders of the policy from now on. To be called before all else. Throws what the runner
    /// throws if it cannot.
    template <class Runner>
    void fed_by(std::shared_ptr<Runner> runner)
        requires(is_fed)
    {
        this->policy_orders().carried_out_by(std::move(runner), room().policy());
    }

    void connect(cancel_link& link, operation& op) noexcept override {
        auto const here = look();
        link.target = &op;
        op.canceller = &link;
    }

    /// For a link that goes before its operation.
    void disconnect(cancel_link& link) noexcept override {
        auto const here = look();
        if (link.target)
            link.target->canceller = nullptr;
    }

    /// For an operation that goes before its link without having been queued.
    void disconnect(operation& op) noexcept override {
        auto const here = look();
        op.detach();
    }

    [[nodiscard]] limiter_stats stats() const {
        auto const here = look();
        return room().stats(time());
    }

    /// What `f(room, now)` finds.
    template <class F>
    [[nodiscard]] auto ask(F f) const {
        auto const here = look();
        return f(room(), time());
    }

    /// The limiter object has gone: all that wait are rejected, and the core lets go of the host as soon
    /// as nothing is left to do.
    void abandon() noexcept {
        visit const here(*this);
        base::abandon();
        settle(time());
    }

    // Permits: from any thread, at any time.

    void leave(amount n, permit_origin from) noexcept override {
        visit here(*this);
        if (room().leave(n, from, time_if(room().needs_time_to_leave())))
            settle(time_if(false));
        else
            here.changes_nothing();
    }

    void leave_unused(amount n, permit_origin from) noexcept override {
        visit here(*this);
        if (room().leave_unused(n, from, time_if(room().needs_time_to_ask())))
            settle(time_if(false));
        else
            here.changes_nothing();
    }

    void refund(amount n, permit_origin from) noexcept override {
        visit here(*this);
        if (room().refund(n, from, time_if(room().needs_time_to_ask())))
            settle(time_if(false));
        else
            here.changes_nothing();
    }

    ticket overdraw(amount n, amount held, permit_origin from) override {
        visit const here(*this);
        return room().overdraw(n, held, from, time_if(room().needs_time_to_ask()));
    }

    void split(permit_origin from) noexcept override {
        auto const here = look();
        room().split(from);
    }

    ticket merge(permit_origin into, permit_origin from, amount n) noexcept override {
        auto const here = look();
        return room().merge(into, from, n);
    }

    ticket report(permit_origin from, outcome o) noexcept override {
        if constexpr (requires { room().report(from, o); }) {
            auto const here = look();
            return room().report(from, o);
        } else {
            return from.ticket;
        }
    }

    [[nodiscard]] amount remaining(permit_origin from) const noexcept override {
        auto const here = look();
        return room().remaining(from, time_if(room().needs_time_to_tell()));
    }

    [[nodiscard]] duration reset_after(permit_origin from) const noexcept override {
        auto const here = look();
        return room().reset_after(from, time_if(room().needs_time_to_tell()));
    }

    [[nodiscard]] bool is_lost(permit_origin from) const noexcept override {
        if constexpr (requires { room().is_lost(from, time()); }) {
            auto const here = look();
            return room().is_lost(from, time());
        } else {
            return permit_issuer::is_lost(from);
        }
    }

    // Chains. All but `lock` and `attend` under the lock, which the caller has.

    void lock() noexcept override { this->begin_joint_section(); }
    [[nodiscard]] bool unlock() noexcept override { return this->end_joint_section(); }
    void attend() noexcept override { this->attend_to_joint_section(); }
    [[nodiscard]] bool take_back(amount n, permit_origin from, bool used) noexcept override {
        return used ? room().leave(n, from, time_if(room().needs_time_to_leave()))
                    : room().leave_unused(n, from, time_if(room().needs_time_to_ask()));
    }
    void serve() noexcept override {
        if (!room().nobody_waits())
            settle(time());
    }
    void take_calls(call_list& to) noexcept override { room().take_calls(to); }

    /// What `f(room, now)` finds or does, at the time of the last look at the clock, if `look_at_clock` is false.
    template <class F>
    auto within(bool look_at_clock, F f) {
        return f(room(), time_if(look_at_clock));
    }
    [[nodiscard]] bool needs_time_to_ask() const noexcept { return room().needs_time_to_ask(); }
    using base::summon;

private:
    // What the room needs for `key` comes from memory while the clock is read.
    template <class... Key>
    void expect(Key const&... key) const noexcept {
        if constexpr (requires { room().expect(key...); })
            room().expect(key...);
    }

    // As `enter`.
    template <class... Key>
    [[nodiscard]] bool enter_here(operation& op, wait_limit const& limit, Key const&... key) {
        bool const timed = room().needs_time_to_ask();
        if (room().decide(op, time_if(timed), key...))
            return false;
        auto const now = time_if(!timed);
        if (room().cannot_wait(op, limit, now))
            return false;
        room().join(op, now);
        summon_or([&] { room().withdraw(op); });
        if (room().evict(op, now))
            settle(now);
        return true;
    }

    [[nodiscard]] static bool is_over(operation const& op) noexcept {
        return op.at == operation::place::nowhere;
    }
    void leave_line(operation& op, time_point now) noexcept {
        if (!is_over(op))
            room().cancel(op, now);
    }
    // One that was taken out since its context has ended has none.
    [[nodiscard]] static permit outcome_of(operation& op, error_code& ec) noexcept {
        ec = op.error || op.granted ? op.error : make_error_code(errc::closed);
        return std::move(op.granted);
    }

    // For what waits from now on; if it cannot, it does not.
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

}  // namespace weir::detail
