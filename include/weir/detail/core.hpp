#pragma once

#include <weir/amount.hpp>
#include <weir/detail/fifo.hpp>
#include <weir/detail/mortal.hpp>
#include <weir/detail/operation.hpp>
#include <weir/detail/tally.hpp>
#include <weir/detail/waiting_line.hpp>
#include <weir/error.hpp>
#include <weir/permit.hpp>
#include <weir/policy/policy.hpp>
#include <weir/queue_options.hpp>
#include <weir/stats.hpp>
#include <weir/time.hpp>

#include <boost/asio/error.hpp>
#include <boost/assert.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

namespace weir::detail {

/// A limiter: the gate at which callers ask, and the waiting room behind it. It knows the contract of
/// a policy and of a queue, and no rule of either.
///
/// The gate is open while nobody waits: then a caller on any thread is granted under the lock, and
/// that is all. Otherwise the caller gets in line, and grants go down the line in order. They are made
/// by `step()`, the waiting room's actor, which runs on the limiter's executor, sent for by
/// `signal()` and by the timer; it alone expires and completes those who wait, arms the timer, and
/// keeps the context running. Two things do not wait for the actor: a permit that comes home is handed
/// to the head of the line at once if that saves a hop between threads, and whoever is cancelled or
/// evicted is out of the line at once.
///
/// What must hold for nobody to be overlooked, and for the order to be kept (test/model checks it):
/// - Refusal at the gate and the place in line are one critical section, and so is the decision that
///   the gate is open again: it is open iff nobody waits.
/// - Room that comes back and its handing over, or the message that does it, are one critical section.
/// - A step message is on its way iff `woken_`, which the step clears as it begins, in the section in
///   which it serves. It is posted under the lock.
/// - Nobody's code runs and nothing of theirs is destroyed under the lock: handlers, permits and
///   operations are completed and destroyed outside.
/// - The timer is touched outside the lock, by the one step that is `busy_`; a step that comes
///   meanwhile leaves word with `again_`. User code runs after that, when the next step may already
///   be running elsewhere.
///
/// `Host` is what the limiter runs on:
///
/// | expression                | what it must do                                                    |
/// |---------------------------|--------------------------------------------------------------------|
/// | `Host::mutex_type`        | a lock                                                             |
/// | `Host::now()`             | the time                                                           |
/// | `h.attach(weak)`          | see to it that `shutdown()` is called when the context ends        |
/// | `h.post(shared)`          | have `step()` called later on the executor; throws if it cannot    |
/// | `h.arm(weak, at, epoch)`  | have `timer_expired(epoch)` called at `at`, and forget any earlier |
/// | `h.disarm()`              | forget it                                                          |
/// | `h.hold(bool)`            | keep the executor's context running, or no longer                  |
template <limiting_policy Policy, class Host, class Queue = fifo>
class core final : public permit_home,
                   public mortal,
                   public std::enable_shared_from_this<core<Policy, Host, Queue>> {
public:
    using options_type = typename Policy::options_type;
    using overdue_handler = std::function<void(overdue const&)>;

    template <class... HostArgs>
    [[nodiscard]] static std::shared_ptr<core> create(
        options_type const& options, queue_options const& queueing, HostArgs&&... host) {
        auto self = std::make_shared<core>(options, queueing);
        self->host_.emplace(std::forward<HostArgs>(host)...);
        self->host_->attach(std::weak_ptr<mortal>(self));
        self->policy_.begin(self->time());
        self->self_ = self;
        return self;
    }

    core(options_type const& options, queue_options const& queueing)
        : policy_(options), queueing_(queueing) {
        validate(queueing_);
    }

    core(core const&) = delete;
    core& operator=(core const&) = delete;

    ~core() { BOOST_ASSERT(live_ == 0 && line_.empty()); }

    // The gate: from any thread.

    /// Grants `n` at once or says why not.
    [[nodiscard]] permit try_enter(amount n, error_code& ec) noexcept {
        std::lock_guard lock(mutex_);
        pay_debt();
        auto const now = time_for_policy();
        auto const asked = ask(n, now);
        if (asked.granted) {
            ec = {};
            return grant_at_once(n, now);
        }
        ec = asked.refused ? *asked.refused : errc::limited;
        tally_.refuse(ec);
        return refused(asked.ready, now);
    }

    /// The same, but if waiting could help there is no error: then the permit is empty and `ec` clear.
    [[nodiscard]] permit enter_at_once(amount n, error_code& ec) noexcept {
        if (line_.hint())
            return {};  // no use asking twice; `enter` decides
        std::lock_guard lock(mutex_);
        pay_debt();
        auto const now = time_for_policy();
        auto const asked = ask(n, now);
        ec = {};
        if (asked.granted)
            return grant_at_once(n, now);
        if (asked.refused) {
            ec = *asked.refused;
            tally_.refuse(ec);
        }
        return {};
    }

    /// Either decides at once, and leaves the outcome in `op`, or lets `op` wait: true, and it is the
    /// core's from then on. If this throws, nothing has happened.
    [[nodiscard]] bool enter(operation& op, patience patience) {
        std::lock_guard lock(mutex_);
        pay_debt();
        auto const n = op.count;
        auto now = time_for_policy();
        auto const refuse = [&](error_code ec, time_point ready) {
            tally_.refuse(ec);
            op.error = ec;
            op.granted = refused(ready, now);
            detach(op);
            return false;
        };

        if (op.cancelled)
            return refuse(boost::asio::error::operation_aborted, unknown);
        auto const asked = ask(n, now);
        if (asked.granted) {
            op.granted = grant_at_once(n, now);
            detach(op);
            return false;
        }
        if (asked.refused)
            return refuse(*asked.refused, unknown);

        auto const length = patience.length_or(queueing_.patience.length_or(forever));
        now = time();
        auto const deadline = length == forever ? never : later(now, length);
        if (asked.ready != unknown && asked.ready > deadline)
            return refuse(errc::deadline_unreachable, asked.ready);
        if (length == duration::zero())
            return refuse(errc::timed_out, asked.ready);
        if (!line_.can_ask(n))
            return refuse(errc::queue_full, unknown);

        operation* victim = nullptr;
        if (line_.size() >= static_cast<std::uint64_t>(queueing_.limit)) {
            if (queueing_.full == when_full::evict_oldest)
                victim = line_.oldest();
            if (!victim)
                return refuse(errc::queue_full, asked.ready);
        }

        if (deadline != never)
            line_.prepare_deadlines(now, queueing_.tolerance);
        // The actor must know if its timer is armed too late for this one, or if its context would not
        // be kept running: this is the last that may throw.
        if (victim || !held_ || deadline < armed_ || (line_.empty() && asked.ready < armed_))
            signal();
        op.deadline = deadline;
        op.since = now;
        op.number = next_number_++;
        op.at = operation::place::queue;
        line_.push(op);
        if (victim)
            remove(*victim, errc::shed, now);
        return true;
    }

    /// Completes `op` when nothing is out and nobody waits: true if that is later.
    [[nodiscard]] bool drain(operation& op) {
        std::lock_guard lock(mutex_);
        pay_debt();
        if (op.cancelled || dead_ || idle()) {
            if (op.cancelled || dead_)
                op.error = boost::asio::error::operation_aborted;
            detach(op);
            return false;
        }
        signal();
        op.number = next_number_++;
        op.at = operation::place::draining;
        draining_.push_back(op);
        return true;
    }

    /// Takes `n` whatever the state of the policy; an empty permit if the limiter is closed.
    [[nodiscard]] permit charge(amount n) {
        if (n > max_amount)
            throw std::invalid_argument(
                "weir: a charge of " + std::to_string(n) + " permits; it must be at most " +
                std::to_string(max_amount));
        std::lock_guard lock(mutex_);
        pay_debt();
        if (closed_)
            return refused(unknown, {});
        return grant_at_once(n, time_for_policy());
    }

    /// Applies what `change` makes of the options. It is called outside the lock, and again if
    /// somebody else changed the options meanwhile.
    template <class Change>
    void configure(Change change) {
        for (;;) {
            std::uint64_t seen = 0;
            auto wanted = options(&seen);
            change(wanted);
            Policy next(wanted);  // checked and allocated, and what was before destroyed, unlocked
            std::lock_guard lock(mutex_);
            if (seen != configured_)
                continue;
            next.take_over(policy_, time());
            std::ranges::swap(policy_, next);
            ++configured_;
            reprice_ = !line_.empty();
            pay_debt();
            wake();
            return;
        }
    }

    [[nodiscard]] options_type options(std::uint64_t* version = nullptr) const {
        std::lock_guard lock(mutex_);
        if (version)
            *version = configured_;
        return policy_.options();
    }

    void close() noexcept {
        std::lock_guard lock(mutex_);
        closed_ = true;
        wake();
    }

    /// Cancels all who wait now.
    void cancel() noexcept {
        std::lock_guard lock(mutex_);
        cancel_before_ = next_number_;
        wake();
    }

    /// Cancels the operation at the other end of the link, unless it is no longer waiting.
    void cancel(cancel_link& link) noexcept {
        std::lock_guard lock(mutex_);
        auto* const op = link.target;
        if (!op)
            return;
        if (op->at == operation::place::nowhere) {
            op->cancelled = true;
            return;
        }
        remove(*op, boost::asio::error::operation_aborted, now_);
        wake();
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
        detach(op);
    }

    void on_overdue(overdue_handler handler) {
        auto shared =
            handler ? std::make_shared<overdue_handler const>(std::move(handler)) : nullptr;
        std::lock_guard lock(mutex_);
        on_overdue_.swap(shared);
    }

    [[nodiscard]] struct stats stats() const {
        std::lock_guard lock(mutex_);
        auto const now = time();
        auto result = tally_.done();
        result.waiting = line_.size();
        result.waiting_for = line_.asked();
        result.live = live_;
        result.remaining = policy_.remaining(now);
        if (auto const* const first = line_.oldest())
            result.oldest_wait = now - first->since;
        return result;
    }

    /// The limiter object has gone: closes, and lets go of the executor as soon as nobody needs it.
    void abandon() noexcept {
        relics gone;
        std::unique_lock lock(mutex_);
        closed_ = true;
        abandoned_ = true;
        if (dead_)
            return;
        cancel_before_ = next_number_;
        if (!busy_ && nobody_is_here())
            die(gone, lock);
        else
            wake();
    }

    // Permits coming home: from any thread, at any time.

    void leave(amount n, std::uint64_t t) noexcept override {
        come_home(1, [&] {
            if (n == 0)
                return false;
            if constexpr (requires(time_point now) { policy_.leave(n, t, now); })
                return policy_.leave(n, t, time_for_policy());
            else
                return policy_.leave(n, t);
        });
    }

    void refund(amount n, std::uint64_t t) noexcept override {
        come_home(0, [&] { return policy_.refund(n, t, time_for_policy()); });
    }

    std::uint64_t overdraw(amount n, amount held, std::uint64_t t) override {
        std::lock_guard lock(mutex_);
        auto const extra = take(n, time_for_policy());
        return held == 0 ? extra : policy_.merge(t, extra, n);
    }

    void split() noexcept override {
        std::lock_guard lock(mutex_);
        ++live_;
    }

    std::uint64_t merge(std::uint64_t into, std::uint64_t from, amount n) noexcept override {
        std::lock_guard lock(mutex_);
        --live_;
        return n == 0 ? into : policy_.merge(into, from, n);
    }

    [[nodiscard]] amount remaining() const noexcept override {
        std::lock_guard lock(mutex_);
        return policy_.remaining(time_for_policy());
    }

    // The waiting room: on the limiter's executor.

    /// The message that `signal()` has posted has arrived.
    void step() {
        std::unique_lock lock(mutex_);
        woken_ = false;
        step(lock);
    }

    void timer_expired(std::uint64_t epoch) {
        std::unique_lock lock(mutex_);
        if (epoch == epoch_)
            armed_ = never;
        step(lock);
    }

    /// The context is ending: nothing is called any more, all who wait are destroyed. Permits that
    /// come home later only do arithmetic.
    void shutdown() noexcept override {
        relics gone;
        std::unique_lock lock(mutex_);
        if (!dead_)
            clear_out(gone);
        die(gone, lock);
    }

    /// The executor, unless its context has ended.
    [[nodiscard]] Host const* host() const noexcept { return host_ ? &*host_ : nullptr; }

private:
    // How many may be taken out of the line under one lock: by a step, and by a permit that comes home.
    static constexpr int removals_at_a_time = 256;
    static constexpr int handovers_at_a_time = 16;

    // What has to be destroyed outside the lock: declare it before the lock.
    struct relics {
        std::shared_ptr<core> self;
        std::optional<Host> host;
        std::unique_ptr<typename waiting_line<Queue>::wheel> deadlines;
        operation_line waiters;
    };

    struct answer {
        bool granted;
        std::optional<errc> refused;  // if neither, waiting may help
        time_point ready;             // when it would be this request's turn
    };

    // All below: under the lock.

    [[nodiscard]] time_point time() const noexcept {
        now_ = std::max(now_, Host::now());
        return now_;
    }

    [[nodiscard]] time_point time_for_policy() const noexcept {
        return policy_.timed() ? time() : now_;
    }

    [[nodiscard]] answer ask(amount n, time_point now) const noexcept {
        if (closed_)
            return {false, errc::closed, unknown};
        if (n == 0)
            return {true, {}, now};
        if (n > policy_.capacity())
            return {false, errc::exceeds_capacity, unknown};
        bool const barred = line_.bars(n);
        if (barred && reprice_)  // some of those ahead will have to go
            return {false, {}, unknown};
        auto const ready = policy_.ready_at(n, barred ? line_.asked() : 0, now);
        return {!barred && ready <= now, {}, ready};
    }

    [[nodiscard]] permit grant_at_once(amount n, time_point now) {
        auto const t = n == 0 ? 0 : take(n, now);
        ++live_;
        tally_.grant_at_once();
        return permit_home::grant(*this, n, t, duration::zero());
    }

    [[nodiscard]] ticket take(amount n, time_point now) {
        auto const t = policy_.take(n, now);
        if constexpr (watchful_policy<Policy>) {
            if (policy_.next_overdue() < armed_)
                wake();
        }
        return t;
    }

    [[nodiscard]] static permit refused(time_point ready, time_point now) noexcept {
        return permit_home::refuse(
            ready >= never ? forever : std::max(ready - now, duration::zero()));
    }

    /// Takes back what `give_back` takes back, and sees to it that those who wait get it.
    template <class GiveBack>
    void come_home(std::uint64_t permits, GiveBack give_back) noexcept {
        std::shared_ptr<core> self;
        operation_line served;
        operation_line dropped;
        std::unique_lock lock(mutex_);
        bool const room = give_back();
        live_ -= permits;
        if (room && !line_.empty())
            hand_over(served);
        if (debt_ || needs_step())
            wake();
        if (live_ == 0 && dead_)
            self = std::move(self_);
        if (served.empty())
            return;
        auto const alive = this->shared_from_this();  // who is posted may be the last to need it
        handing_over_.fetch_add(1, std::memory_order_relaxed);
        lock.unlock();
        static_cast<void>(post(served, dropped));
        handing_over_.fetch_sub(1, std::memory_order_release);
        destroy_one_by_one(dropped);
    }

    /// Whoever brings the room serves the head of the line, if the handler lives elsewhere: to let the
    /// actor do that would take one more hop between threads. A handler that lives on the limiter's
    /// executor is called by a step, without being posted.
    void hand_over(operation_line& served) noexcept {
        bool const orderly = !closed_ && cancel_before_ == 0 && !reprice_;
        auto const* const head = line_.next(now_);
        if (!orderly || !head || head->runs_in_step())
            return wake();
        int budget = handovers_at_a_time;
        serve(time(), budget, served);
        if (budget <= 0 || next_event() < armed_)
            wake();
    }

    /// Whether there is something for the actor to do that it may not know of.
    [[nodiscard]] bool needs_step() const noexcept {
        bool const drains = !draining_.empty();
        bool needed = !leaving_.empty() || (live_ == 0 && drains) ||
                      (line_.empty() && (drains ? armed_ != never : held_));
        if constexpr (watchful_policy<Policy>)  // nobody left to watch
            needed = needed || (armed_ != never && live_ == 0 && line_.empty());
        return needed;
    }

    /// Sends for a step, unless one is on its way.
    void signal() {
        if (woken_ || dead_)
            return;
        host_->post(this->shared_from_this());
        woken_ = true;
    }

    /// The same for those who must not throw: if it fails, whoever comes next to the gate tries again.
    void wake() noexcept {
        try {
            signal();
            debt_ = false;
        } catch (...) {
            debt_ = true;
        }
    }

    void pay_debt() noexcept {
        if (debt_) [[unlikely]]
            wake();
    }

    static void detach(operation& op) noexcept {
        if (op.canceller)
            std::exchange(op.canceller, nullptr)->target = nullptr;
    }

    /// Takes `op` out of the line and puts it with those who are to be completed.
    void take_out(operation& op, operation_line& leaving) noexcept {
        if (op.at == operation::place::queue)
            line_.erase(op);
        else
            static_cast<list_hook<in_line>&>(op).unlink();
        detach(op);
        op.at = operation::place::nowhere;
        leaving.push_back(op);
    }

    void remove(operation& op, error_code ec, time_point now) noexcept {
        bool const entering = op.at != operation::place::draining;
        take_out(op, leaving_);
        op.error = ec;
        if (!entering)
            return;
        tally_.refuse(ec);
        bool const may_return =
            ec == errc::timed_out || ec == errc::shed || ec == errc::deadline_unreachable;
        op.granted =
            refused(may_return ? policy_.ready_at(op.count, line_.asked(), now) : unknown, now);
    }

    /// Serves those whose turn it is, into `served`.
    void serve(time_point now, int& budget, operation_line& served) {
        for (; budget > 0; --budget) {
            operation* const op = line_.next(now);
            if (!op)
                break;
            if (op->deadline < now)
                remove(*op, errc::timed_out, now);
            else if (policy_.ready_at(op->count, 0, now) <= now)
                grant(*op, now, served);
            else
                break;
        }
    }

    void grant(operation& op, time_point now, operation_line& served) {
        auto const t = policy_.take(op.count, now);
        auto const waited = now - op.since;
        // By the time that `served` are posted, nothing else may keep the limiter's context running.
        take_out(op, op.runs_in_step() ? leaving_ : served);
        ++live_;
        tally_.grant(waited);
        op.granted = permit_home::grant(*this, op.count, t, waited);
    }

    [[nodiscard]] bool idle() const noexcept { return live_ == 0 && line_.empty(); }

    [[nodiscard]] bool nobody_is_here() const noexcept {
        return line_.empty() && draining_.empty() && leaving_.empty();
    }

    void step(std::unique_lock<typename Host::mutex_type>& lock) {
        if (dead_)
            return;
        if (busy_) {
            again_ = true;
            return;
        }
        debt_ = false;
        overdue_batch late;
        relics gone;
        operation_line dropped;
        bool unfinished = false;
        do {
            unfinished = work(time(), late);
            if (unfinished)
                wake();
        } while (see_to_host(lock, gone) || (unfinished && debt_ && !late.is_full()));
        report(late, lock);
        if (abandoned_ && !busy_ && !dead_ && nobody_is_here())
            die(gone, lock);
        else
            complete(lock, dropped);
        if (lock.owns_lock())
            lock.unlock();  // before `gone` goes
        destroy_one_by_one(dropped);
    }

    struct overdue_batch {
        std::array<overdue, 16> reports;
        std::size_t size = 0;
        [[nodiscard]] bool is_full() const noexcept { return size == reports.size(); }
    };

    /// Does what there is to do, in bounded portions; whether there is more.
    [[nodiscard]] bool work(time_point now, overdue_batch& late) {
        int budget = removals_at_a_time;
        if (closed_)
            remove_if(budget, errc::closed, now, [](operation&) { return true; });
        if (cancel_before_ != 0)
            cancel_marked(budget, now);
        if (reprice_)
            reprice(budget, now);
        line_.expire(now, budget, [&](operation& op) { remove(op, errc::timed_out, now); });
        serve(now, budget, leaving_);
        if (idle()) {
            while (!draining_.empty())
                take_out(draining_.front(), leaving_);
        }
        if constexpr (watchful_policy<Policy>) {
            while (!late.is_full()) {
                auto const found = policy_.pop_overdue(now);
                if (!found)
                    break;
                late.reports[late.size++] = *found;
                tally_.overdue();
            }
        }
        return budget <= 0 || late.is_full();
    }

    template <class Predicate>
    void remove_if(int& budget, error_code ec, time_point now, Predicate doomed) {
        line_.for_each([&](operation& op) {
            if (budget <= 0)
                return false;
            if (doomed(op)) {
                remove(op, ec, now);
                --budget;
            }
            return true;
        });
    }

    void cancel_marked(int& budget, time_point now) {
        constexpr auto aborted = boost::asio::error::operation_aborted;
        auto const marked = [&](operation& op) { return op.number < cancel_before_; };
        remove_if(budget, aborted, now, marked);
        for (; budget > 0 && !draining_.empty() && marked(draining_.front()); --budget)
            remove(draining_.front(), aborted, now);
        if (budget > 0)
            cancel_before_ = 0;
    }

    /// After a change of options: those go whose turn can no longer come, or not in time.
    void reprice(int& budget, time_point now) {
        amount ahead = 0;
        line_.for_each([&](operation& op) {
            if (budget <= 0)
                return false;
            auto const ready =
                op.count > policy_.capacity() ? unknown : policy_.ready_at(op.count, ahead, now);
            if (op.count > policy_.capacity()) {
                remove(op, errc::exceeds_capacity, now);
                --budget;
            } else if (ready != unknown && ready > op.deadline) {
                remove(op, errc::deadline_unreachable, now);
                --budget;
            } else {
                ahead += op.count;
            }
            return true;
        });
        if (budget > 0)
            reprice_ = false;
    }

    /// When there will be something to do, as far as that is known.
    [[nodiscard]] time_point next_event() noexcept {
        auto at = never;
        if (auto const* const op = line_.next(now_))
            at = std::min(at, policy_.ready_at(op->count, 0, now_));
        at = std::min(at, line_.next_deadline());
        if constexpr (watchful_policy<Policy>) {
            if (!abandoned_)
                at = std::min(at, policy_.next_overdue());
        }
        return at;
    }

    /// Arms the timer and holds the context as is needed now. Lets go of the lock for that; whether
    /// another step has come by meanwhile, and must be made up for.
    [[nodiscard]] bool see_to_host(std::unique_lock<typename Host::mutex_type>& lock,
                                   relics& gone) {
        if (line_.empty())
            gone.deadlines = line_.take_deadlines();
        bool const hold = !line_.empty() || !draining_.empty();
        // A timer that would fire too early is let be: it does no harm, and to move it costs.
        auto const at = next_event();
        bool const move_timer = at < armed_ || (at == never && armed_ != never);
        if (hold == held_ && !move_timer)
            return false;

        // What others go by, who come meanwhile, is what will be; the timer may even fire meanwhile.
        busy_ = true;
        bool const was_held = std::exchange(held_, hold);
        if (move_timer) {
            armed_ = at;
            ++epoch_;
        }
        auto const epoch = epoch_;
        lock.unlock();
        bool const holds = hold == was_held || succeeds([&] { host_->hold(hold); });
        bool const moved = !move_timer || succeeds([&] {
            if (at == never)
                host_->disarm();
            else
                host_->arm(this->weak_from_this(), at, epoch);
        });
        lock.lock();
        busy_ = false;
        if (!holds)
            held_ = was_held;
        if (!moved)
            armed_ = never;
        if (!holds || !moved)
            wake();
        return std::exchange(again_, false);
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

    /// Takes out all who are here, to be destroyed.
    void clear_out(relics& gone) noexcept {
        closed_ = true;
        gone.waiters.append(leaving_);
        while (!draining_.empty())
            take_out(draining_.front(), gone.waiters);
        line_.for_each([&](operation& op) {
            take_out(op, gone.waiters);
            return true;
        });
    }

    /// Lets go of the executor for good, but not before those who were served have been posted: the
    /// context may end as soon as it need not wait for this limiter.
    void die(relics& gone, std::unique_lock<typename Host::mutex_type>& lock) noexcept {
        if (!dead_) {
            dead_ = true;
            gone.host.swap(host_);
            gone.deadlines = line_.take_deadlines();
            if (live_ == 0)
                gone.self = std::move(self_);
        }
        while (handing_over_.load(std::memory_order_acquire) != 0) {
            lock.unlock();
            lock.lock();
        }
    }

    /// Completes those who have left the line, outside the lock. Handlers that live on the limiter's
    /// executor are called from here, one by one; but a further step is sent for first, so that they
    /// need not wait for each other where several threads run the context, and so that no exception
    /// of one of them is the end of the others.
    /// Returns without the lock, perhaps.
    void complete(std::unique_lock<typename Host::mutex_type>& lock, operation_line& dropped) {
        operation_line one;
        for (int i = 0; i != removals_at_a_time && !leaving_.empty(); ++i) {
            operation& op = leaving_.pop_front();
            bool const last = leaving_.empty();
            if (!last || abandoned_)
                wake();
            bool const here = op.runs_in_step();
            lock.unlock();
            if (here) {
                op.run();
            } else {
                one.push_back(op);
                if (!post(one, dropped))
                    return;
            }
            if (last)
                return;
            lock.lock();
        }
    }

    /// Completes those who were served, outside the lock. Whom their executors drop go to `dropped`.
    /// If one cannot be posted, it and those behind it are left to the next step: then this is false.
    [[nodiscard]] bool post(operation_line& served, operation_line& dropped) noexcept {
        while (!served.empty()) {
            operation& op = served.pop_front();
            try {
                if (!op.post())
                    dropped.push_back(op);
            } catch (...) {
                std::lock_guard lock(mutex_);
                if (dead_) {  // there will be no step
                    dropped.push_back(op);
                    continue;
                }
                served.push_front(op);
                served.append(leaving_);
                leaving_.append(served);
                wake();
                return false;
            }
        }
        return true;
    }

    void report(overdue_batch const& late, std::unique_lock<typename Host::mutex_type>& lock) {
        auto const handler = on_overdue_;
        if (late.size == 0 || !handler)
            return;
        if (!leaving_.empty())
            wake();
        lock.unlock();
        for (std::size_t i = 0; i != late.size; ++i)
            (*handler)(late.reports[i]);
        lock.lock();
    }

    typename Host::mutex_type mutable mutex_;
    bool closed_ = false;
    bool abandoned_ = false;  // the limiter object has gone
    bool dead_ = false;       // the executor has gone, or is no longer needed
    bool woken_ = false;      // a step message is on its way
    bool debt_ = false;       // a step is needed but could not be sent for
    bool busy_ = false;       // a step is seeing to the host, outside the lock
    bool again_ = false;      // ... and another one is needed after it
    bool reprice_ = false;
    Policy policy_;
    std::atomic<int> handing_over_ = 0;  // threads that post those whom they have served
    waiting_line<Queue> line_;
    std::uint64_t live_ = 0;
    mutable time_point now_{};
    tally tally_;
    time_point armed_ = never;

    std::shared_ptr<core> self_;  // until dead, and while permits are out
    queue_options queueing_;
    std::optional<Host> host_;
    operation_line draining_;
    operation_line leaving_;  // out of the line, to be completed by the next step
    std::uint64_t next_number_ = 1;
    std::uint64_t cancel_before_ = 0;
    std::uint64_t configured_ = 0;
    std::uint64_t epoch_ = 0;
    bool held_ = false;
    std::shared_ptr<overdue_handler const> on_overdue_;
};

}  // namespace weir::detail
