#pragma once

#include <weir/amount.hpp>
#include <weir/detail/chain/line.hpp>
#include <weir/detail/chain/operation.hpp>
#include <weir/detail/counting_lock.hpp>
#include <weir/detail/rejected.hpp>
#include <weir/error.hpp>
#include <weir/permit.hpp>
#include <weir/time.hpp>

#include <algorithm>
#include <memory>

namespace weir::inline v0_2::detail {

/// The time of a section that takes the locks of several limiters. The clock is read once, when a limiter needs the time
/// first; a limiter with another clock reads its own.
class section_time {
public:
    /// Returns the time of `clock` in this section.
    [[nodiscard]] time_point of(time_point (*clock)() noexcept) noexcept {
        if (clock_ != clock) {
            clock_ = clock;
            read_ = clock();
        }
        return read_;
    }

private:
    time_point (*clock_)() noexcept = nullptr;
    time_point read_{};
};

/// The core of a limiter, for a section that takes the locks of several. All functions from `unlock` to `take_calls`,
/// except `attend`, are called under its lock.
class chain_core : public permit_issuer {
public:
    /// Returns the time of the limiter's clock.
    [[nodiscard]] virtual time_point read_clock() const noexcept = 0;

    // The cancellation of an operation that belongs to this core: see `core`.
    virtual void connect(cancel_link& link, operation& op) noexcept = 0;
    virtual void disconnect(cancel_link& link) noexcept = 0;
    virtual void disconnect(operation& op) noexcept = 0;
    virtual void cancel(cancel_link& link) noexcept = 0;

    /// Takes the lock if these permits could be put back by counting alone. Otherwise returns false.
    [[nodiscard]] virtual bool hold_to_put_back(amount n, permit_origin from) noexcept = 0;
    /// Counts, and releases the lock that `hold_to_put_back`, or `chain_member::hold_to_take`, has taken.
    virtual void end_hold(counting what) noexcept = 0;

    virtual void lock() noexcept = 0;
    /// `counts` declares that requests which the lock can count are likely to follow. Returns whether `attend` must
    /// follow: until then the core and its context are kept.
    [[nodiscard]] virtual bool unlock(bool counts) noexcept = 0;
    /// Does the work that results from the section.
    virtual void attend() noexcept = 0;

    /// Takes back `n` released permits, used or not. Returns whether `serve` must follow.
    [[nodiscard]] virtual bool take_back(amount n, permit_origin from, bool used,
                                         section_time& t) noexcept = 0;
    /// Serves the queue. Returns false if no operation waits.
    virtual bool serve(section_time& t) noexcept = 0;
    /// Moves the chains that were called there to `to`.
    virtual void take_calls(call_list& to) noexcept = 0;

protected:
    ~chain_core() = default;
};

/// The reply of a limiter to a chain.
struct chain_reply {
    bool lets = false;
    error_code rejected = {};  // a final rejection
    // If the chain must wait: the minimum duration of the wait; `forever` if it is unknown.
    duration ready_in = forever;

    /// Returns the reply with the grant time `ready`.
    [[nodiscard]] static chain_reply at(bool lets, time_point ready, time_point now) noexcept {
        if (ready == unknown)
            return {};
        return {.lets = lets,
                .ready_in = ready == never ? forever - duration(1)
                                           : std::max(ready - now, duration::zero())};
    }
};

/// A limiter, or a key of a limiter, as seen by a chain. Its entry names the core that it asks: at first `core()`. All
/// functions that take an entry or a chain are called under the lock of that core, except `next_after`.
class chain_member {
public:
    [[nodiscard]] virtual std::shared_ptr<chain_core> share(chain_core& of) const noexcept = 0;
    /// Takes the lock of the core if it could grant the request by counting alone. Otherwise returns null.
    [[nodiscard]] virtual chain_core* hold_to_take() noexcept = 0;
    [[nodiscard]] virtual chain_core& core() const noexcept = 0;
    [[nodiscard]] virtual request asks_for() const noexcept = 0;
    /// Returns whether `other`, which has the same core, is the same member.
    [[nodiscard]] virtual bool is(chain_member const& other) const noexcept = 0;

    /// Returns the core that must decide on `e`, a newcomer that cannot be granted here because of `ec`; null if this one
    /// has decided.
    [[nodiscard]] virtual chain_core* next_after(chain_entry const& e,
                                                 error_code ec) const noexcept = 0;
    [[nodiscard]] virtual time_point now(chain_entry const& e, section_time& t) const noexcept = 0;
    [[nodiscard]] virtual duration patience(chain_entry const& e) const noexcept = 0;
    [[nodiscard]] virtual chain_reply consider(chain_entry const& e, section_time& t) noexcept = 0;
    /// Grants, after `consider` has allowed it. Returns false if there is no longer space for its key, which is
    /// impossible while the chain waits.
    [[nodiscard]] virtual bool admit(chain_entry& e) noexcept = 0;
    /// Counts a rejection, and returns what the limiter reports about it.
    virtual rejected reject(chain_entry const& e, error_code ec, duration ready_in) noexcept = 0;

    /// Reserves the memory that `register_entry` and `enter_queue` need; returns false as `admit` does. May throw. If `register_entry` does
    /// not follow, `unregister_entry` must.
    [[nodiscard]] virtual bool prepare(chain_entry& e, section_time& t) = 0;
    /// Returns whether the queue has space for one more.
    [[nodiscard]] virtual bool fits_in_queue(chain_entry const& e) noexcept = 0;
    /// Drops the requests that make way for `e` here.
    virtual void evict(chain_entry const& e) noexcept = 0;
    /// `register_entry` makes it wait, outside the queue; `unregister_entry` ends the wait.
    virtual void register_entry(chain_entry& e) noexcept = 0;
    virtual void unregister_entry(chain_entry& e) noexcept = 0;
    virtual void enter_queue(chain_entry& e) noexcept = 0;
    virtual void leave_queue(chain_entry& e) noexcept = 0;
    /// Records that a claim has examined it and leaves it waiting: its next wake-up may be at another time.
    virtual void reschedule(chain_entry const& e) noexcept = 0;
    [[nodiscard]] virtual chain_line& chains(chain_entry const& e) noexcept = 0;
    /// Posts a step of the limiter's actor if it is needed. May throw.
    virtual void summon(chain_entry const& e) = 0;

    // These functions are called only for the home, the first limiter of the chain.

    /// Makes the limiter call the chain when `at` has passed.
    virtual void set_alarm(chain_operation& op, time_point at) noexcept = 0;
    /// Completes the chain, which holds its outcome. Call it before `unregister_entry`.
    virtual void complete(chain_operation& op) noexcept = 0;

protected:
    ~chain_member() = default;
};

}  // namespace weir::inline v0_2::detail
