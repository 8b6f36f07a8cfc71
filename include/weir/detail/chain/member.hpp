#pragma once

#include <weir/amount.hpp>
#include <weir/detail/chain/line.hpp>
#include <weir/detail/chain/operation.hpp>
#include <weir/error.hpp>
#include <weir/permit.hpp>
#include <weir/time.hpp>

#include <algorithm>
#include <memory>

namespace weir::detail {

/// The core of a limiter, for a section that takes the locks of several. All from `unlock` to `take_calls` but
/// `attend` are called under its lock.
class chain_core : public permit_issuer {
public:
    // The cancellation of an operation that is at home here: see `core`.
    virtual void connect(cancel_link& link, operation& op) noexcept = 0;
    virtual void disconnect(cancel_link& link) noexcept = 0;
    virtual void disconnect(operation& op) noexcept = 0;
    virtual void cancel(cancel_link& link) noexcept = 0;

    virtual void lock() noexcept = 0;
    /// Whether `attend` must follow: until then the core and its context are kept.
    [[nodiscard]] virtual bool unlock() noexcept = 0;
    /// Does what has come of the section.
    virtual void attend() noexcept = 0;

    /// `n` permits come home, used or not: whether `serve` must follow.
    [[nodiscard]] virtual bool take_back(amount n, permit_origin from, bool used) noexcept = 0;
    /// Serves the line.
    virtual void serve() noexcept = 0;
    /// Hands over the chains that have been called there.
    virtual void take_calls(call_list& to) noexcept = 0;

protected:
    ~chain_core() = default;
};

/// What a limiter says to a chain that asks whether it may go.
struct chain_turn {
    bool lets = false;
    error_code rejected = {};  // for good
    duration ready_in =
        forever;  // if it must wait: until when at least; `forever` if that is unknown

    /// That its turn is at `ready`.
    [[nodiscard]] static chain_turn at(bool lets, time_point ready, time_point now) noexcept {
        if (ready == unknown)
            return {};
        return {.lets = lets,
                .ready_in = ready == never ? forever - duration(1)
                                           : std::max(ready - now, duration::zero())};
    }
};

/// A limiter, or a limiter's key, as a chain knows it. All below the first are called under the lock of its
/// core.
class chain_member {
public:
    [[nodiscard]] virtual std::shared_ptr<chain_core> share() const noexcept = 0;
    [[nodiscard]] virtual chain_core& core() const noexcept = 0;
    [[nodiscard]] virtual amount count() const noexcept = 0;
    /// Whether `other`, which has the same core, is the same.
    [[nodiscard]] virtual bool is(chain_member const& other) const noexcept = 0;

    [[nodiscard]] virtual time_point now() const noexcept = 0;
    [[nodiscard]] virtual duration patience() const noexcept = 0;
    [[nodiscard]] virtual chain_turn consider(chain_entry const& e) noexcept = 0;
    /// Grants, after `consider` lets it go. False if there is no longer a place for its key, which cannot be if
    /// it waits.
    [[nodiscard]] virtual bool admit(chain_entry& e) noexcept = 0;
    /// Counts a rejection, and says when to come back.
    virtual duration reject(chain_entry const& e, error_code ec, duration ready_in) noexcept = 0;

    /// Sets aside what `enroll` and `stand` need; false as for `admit`. May throw. If `enroll` does not follow,
    /// `strike` must.
    [[nodiscard]] virtual bool prepare(chain_entry& e) = 0;
    /// Whether the queue has a place for one more.
    [[nodiscard]] virtual bool has_place(chain_entry const& e) noexcept = 0;
    /// Drops the requests for which `e` waits here.
    virtual void evict(chain_entry const& e) noexcept = 0;
    /// Lets it wait, without standing in line; and no longer.
    virtual void enroll(chain_entry& e) noexcept = 0;
    virtual void strike(chain_entry& e) noexcept = 0;
    virtual void stand(chain_entry& e) noexcept = 0;
    virtual void step_out(chain_entry& e) noexcept = 0;
    /// A claim has looked at it and leaves it waiting: it may have to be woken up at another time.
    virtual void look_again(chain_entry const& e) noexcept = 0;
    [[nodiscard]] virtual chain_line& chains(chain_entry const& e) noexcept = 0;
    /// Sends for the limiter's actor if it is needed. May throw.
    virtual void summon() = 0;

    // Of the home only.

    /// Has the chain called when `at` has passed.
    virtual void set_alarm(chain_operation& op, time_point at) noexcept = 0;
    /// It is over, with the outcome in it. Before `strike`.
    virtual void complete(chain_operation& op) noexcept = 0;

protected:
    ~chain_member() = default;
};

}  // namespace weir::detail
