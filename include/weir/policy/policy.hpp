#pragma once

#include <weir/amount.hpp>
#include <weir/outcome.hpp>
#include <weir/time.hpp>

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <optional>
#include <type_traits>

namespace weir {

/// What a policy notes about a grant and is handed back when the permit comes home. What it means is
/// the policy's business alone: the number of a log entry, a place in a table, a start time.
using ticket = std::uint64_t;

/// A rule of limiting: the callback module to the limiter's behaviour.
///
/// A policy is a pure state machine. It knows no clock, no queue and no thread: it is told the time,
/// which never goes back, and asked about amounts; the limiter calls it under its lock, except for the
/// constructor and the destructor. Asking for `n` permits means 1 <= n <= capacity(). None of these may
/// throw unless it says so.
///
/// | expression                         | what it must do                                           |
/// |------------------------------------|-----------------------------------------------------------|
/// | `P(options)`                       | check the options, or throw `std::invalid_argument`; set  |
/// |                                    | memory aside, or throw `std::bad_alloc`                   |
/// | `p.begin(now)`                     | the time of the policy begins. Called once, before all    |
/// |                                    | that follows, unless `take_over` is                       |
/// | `p.take_over(before, now)`         | `p` has just been made of new options: settle `before` at |
/// |                                    | the old ones up to `now`, and go on from its state.       |
/// |                                    | Memory may be swapped with `before`, which is only        |
/// |                                    | destroyed afterwards. May throw `std::bad_alloc` if what  |
/// |                                    | is carried over needs more memory than the new options    |
/// |                                    | do, and `std::invalid_argument` if `before` is of another |
/// |                                    | kind; then `before` has not changed                       |
/// | `p.options()`                      | the options in force                                      |
/// | `p.capacity()`                     | the most that one request can ever be granted             |
/// | `p.timed()`                        | whether the policy needs the time. If not, `now` below    |
/// |                                    | may be any time at all, and no clock is read for it       |
/// | `p.remaining(now)`                 | how many could be taken at once, at least 0               |
/// | `p.ready_at(n, ahead, now)`        | when `n` will fit, once `ahead` permits have been taken   |
/// |                                    | before: `now` or earlier if that is now, `unknown` if     |
/// |                                    | time alone will not make room, `never` if it will later   |
/// |                                    | than can be said. Exact for ahead == 0; otherwise never   |
/// |                                    | later than the truth if nobody ahead gives up             |
/// | `p.take(n, now)`                   | take `n` at `now` and return a ticket. Must not throw nor |
/// |                                    | allocate if `ready_at(n, 0, now) <= now`. If it does not  |
/// |                                    | fit, go into debt; that may throw, changing nothing       |
/// | `p.leave(n, ticket)`               | `n` of the permits taken under `ticket` have been used    |
/// |                                    | and come home; true if that may have made room. A policy  |
/// |                                    | that needs the time has `p.leave(n, ticket, now)` instead |
/// | `p.refund(n, ticket, now)`         | `n` of them have not been used: undo that much of `take`; |
/// |                                    | true if that may have made room                           |
/// | `p.merge(a, b, n)`                 | the `n` permits of ticket `b` go over to `a`; returns the |
/// |                                    | ticket for all of them                                    |
/// | `p.catches_up()`                   | may be left out: whether grants that are made late are    |
/// |                                    | made up for, as long as there is room to save. A bucket   |
/// |                                    | does; a policy that only stamps a grant with its time,    |
/// |                                    | loses what a late timer misses                            |
/// | `p.tickets()`                      | may be left out: what its tickets are, one of `tickets`.  |
/// |                                    | Never changes. Saves memory in `policy::all`              |
/// | `P::is_scheduled`                  | may be left out: a constant, true if `ready_at` is exact  |
/// |                                    | for any `ahead`, if those ahead are granted at their time |
/// | `p.times_leave()`                  | may be left out: whether `p.leave(n, ticket, now)` needs  |
/// |                                    | the time in truth                                         |
/// | `p.report(ticket, outcome)`        | may be left out: how it went for the holder of `ticket`,  |
/// |                                    | which comes home later; returns the ticket to be used     |
/// |                                    | from then on                                              |
/// | `p.capacity_now()`                 | may be left out: how many permits there are at the        |
/// |                                    | moment, if that changes by itself                         |
/// | `p.debt(now)`                      | may be left out where there is none: how many permits are |
/// |                                    | owed because more was taken than there was, at least 0.   |
/// |                                    | While any are owed nothing is granted                     |
// clang-format off
template <class P>
concept limiting_policy =
    std::movable<P> && std::is_nothrow_move_constructible_v<P> && std::is_nothrow_swappable_v<P> &&
    std::copyable<typename P::options_type> &&
    std::constructible_from<P, typename P::options_type const&> &&
    requires(P p, P const& c, amount n, ticket t, time_point now) {
        { p.begin(now) } noexcept;
        { p.take_over(p, now) };
        { c.options() } -> std::convertible_to<typename P::options_type>;
        { c.capacity() } noexcept -> std::same_as<amount>;
        { c.timed() } noexcept -> std::same_as<bool>;
        { c.remaining(now) } noexcept -> std::same_as<amount>;
        { c.ready_at(n, n, now) } noexcept -> std::same_as<time_point>;
        { p.take(n, now) } -> std::same_as<ticket>;
        { p.refund(n, t, now) } noexcept -> std::same_as<bool>;
        { p.merge(t, t, n) } noexcept -> std::same_as<ticket>;
    } &&
    (requires(P p, amount n, ticket t) {
        { p.leave(n, t) } noexcept -> std::same_as<bool>;
    } || requires(P p, amount n, ticket t, time_point now) {
        { p.leave(n, t, now) } noexcept -> std::same_as<bool>;
    });
// clang-format on

/// Whether `p` says that it makes up for late grants.
template <class P>
[[nodiscard]] constexpr bool catches_up(P const& p) noexcept {
    if constexpr (requires { p.catches_up(); })
        return p.catches_up();
    else
        return false;
}

/// What the tickets of a policy are.
enum class tickets : std::uint8_t {
    none,  ///< 0, and whatever is handed back is ignored
    time,  ///< the time of the grant, in nanoseconds since the epoch
    own,   ///< anything else
};

/// What `p` says that its tickets are; `own` if it says nothing.
template <class P>
[[nodiscard]] constexpr tickets tickets_of(P const& p) noexcept {
    if constexpr (requires { p.tickets(); })
        return p.tickets();
    else
        return tickets::own;
}

/// Whether `p` must be told the time when a permit comes home.
template <class P>
[[nodiscard]] constexpr bool times_leave(P const& p) noexcept {
    if constexpr (requires { p.times_leave(); })
        return p.times_leave();
    else
        return requires(P q, amount n, ticket t, time_point now) { q.leave(n, t, now); };
}

/// Tells `p` that a permit comes home.
template <class P>
[[nodiscard]] bool leave(P& p, amount n, ticket t, time_point now) noexcept {
    if constexpr (requires { p.leave(n, t, now); })
        return p.leave(n, t, now);
    else
        return p.leave(n, t);
}

/// A policy that can tell each request in a line when its turn comes.
// clang-format off
template <class P>
concept scheduled_policy = limiting_policy<P> && requires { requires P::is_scheduled; };
// clang-format on

/// A policy that wants to be told how it went for the holders of its permits.
template <class P>
concept hears_reports = requires(P p, ticket t, outcome o) {
    { p.report(t, o) } noexcept -> std::same_as<ticket>;
};

/// How many permits a policy is owed.
template <limiting_policy P>
[[nodiscard]] amount debt_of(P const& p, time_point now) noexcept {
    if constexpr (requires { p.debt(now); })
        return p.debt(now);
    else
        return 0;
}

/// How many permits there are at the moment.
template <limiting_policy P>
[[nodiscard]] amount capacity_now_of(P const& p) noexcept {
    if constexpr (requires { p.capacity_now(); })
        return p.capacity_now();
    else
        return p.capacity();
}

/// How long from `now` until a policy, or a rule with a state of it, could grant at once the most that one request
/// may ask for, if it grants nothing else meanwhile; `forever` if no time can be named.
template <class P, class... State>
[[nodiscard]] duration reset_after(P const& p, time_point now, State const&... state) noexcept {
    auto const at = p.ready_at(state..., p.capacity(), 0, now);
    return at >= never ? forever : std::max(at - now, duration::zero());
}

/// A permit that has been held for longer than it should.
struct overdue {
    /// The permit: the number that `permit::id()` gives.
    ticket id = 0;
    /// How many permits it holds.
    amount count = 0;
    /// Since when, and for how long by now.
    time_point since{};
    duration held{};
};

/// A policy that also watches how long its permits are held, and wants to be asked about it when
/// the time has come.
///
/// | expression           | what it must do                                                       |
/// |----------------------|-----------------------------------------------------------------------|
/// | `p.next_overdue()`   | when to ask next, `never` if there is nothing to wait for             |
/// | `p.pop_overdue(now)` | the next permit that is overdue at `now`, each of them once           |
// clang-format off
template <class P>
concept watchful_policy = limiting_policy<P> && requires(P p, P const& c, time_point now) {
    { c.next_overdue() } noexcept -> std::same_as<time_point>;
    { p.pop_overdue(now) } noexcept -> std::same_as<std::optional<overdue>>;
};
// clang-format on

/// A policy to which something happens that its user wants to be told of: one event after the other, each
/// once.
///
/// | expression      | what it must do                                                   |
/// |-----------------|-------------------------------------------------------------------|
/// | `P::event_type` | what has happened                                                 |
/// | `p.has_event()` | whether there is one of which nobody has been told                |
/// | `p.pop_event()` | the first of them, if there is one                                |
// clang-format off
template <class P>
concept eventful_policy = limiting_policy<P> && requires(P p, P const& c) {
    typename P::event_type;
    { c.has_event() } noexcept -> std::same_as<bool>;
    { p.pop_event() } noexcept -> std::same_as<std::optional<typename P::event_type>>;
};
// clang-format on

/// What those who wait ask for.
struct demand {
    amount head = 0;           ///< the first in line; 0 if nobody waits
    amount all = 0;            ///< all together
    time_point until = never;  ///< how long the first one waits
};

/// A policy whose permits come from elsewhere, such as from a server. What is to be asked there is an order: the
/// limiter takes it from the policy, and has it carried out outside its lock. It asks for orders after
/// whatever may have changed the answer, so the policy need not say when.
///
/// | expression                | what it must do                                                        |
/// |---------------------------|------------------------------------------------------------------------|
/// | `P::order_type`           | an order                                                               |
/// | `p.next_order(d, now)`    | when there is one to be taken, or time alone changes something: `now`  |
/// |                           | or earlier if that is now, `never` if nothing of the kind will be      |
/// | `p.pop_order(d, now)`     | the next order, if there is one now                                    |
/// | `p.elapse(now)`           | note what time alone has changed; true if requests that wait may have  |
/// |                           | to be rejected                                                          |
/// | `p.barred(now)`           | until when a request is rejected with `errc::unavailable`, if so, unless |
/// |                           | `ready_at` can tell its turn                                           |
/// | `p.must_go_on()`          | whether it needs the time although nobody waits: then the context is   |
/// |                           | kept running                                                           |
///
/// Of such a policy `ready_at` may be later than the truth where others give permits back.
// clang-format off
template <class P>
concept fed_policy = limiting_policy<P> && requires(P p, P const& c, demand d, time_point now) {
    typename P::order_type;
    { c.next_order(d, now) } noexcept -> std::same_as<time_point>;
    { p.pop_order(d, now) } noexcept -> std::same_as<std::optional<typename P::order_type>>;
    { p.elapse(now) } noexcept -> std::same_as<bool>;
    { c.barred(now) } noexcept -> std::same_as<std::optional<time_point>>;
    { c.must_go_on() } noexcept -> std::same_as<bool>;
};
// clang-format on

/// A policy whose permits are on loan: while they are out they have to be renewed, and they may be lost.
///
/// | expression             | what it must do                                                           |
/// |------------------------|---------------------------------------------------------------------------|
/// | `p.is_lost(t, now)`    | whether permits of the ticket `t` have been lost; for ever, once it is so |
/// | `p.is_held(t)`         | whether they may still be: of one ticket at a time                        |
// clang-format off
template <class P>
concept lending_policy = fed_policy<P> && requires(P const& c, ticket t, time_point now) {
    { c.is_lost(t, now) } noexcept -> std::same_as<bool>;
    { c.is_held(t) } noexcept -> std::same_as<bool>;
};
// clang-format on

}  // namespace weir
