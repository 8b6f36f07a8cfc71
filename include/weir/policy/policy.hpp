#pragma once

#include <weir/amount.hpp>
#include <weir/outcome.hpp>
#include <weir/saved_numbers.hpp>
#include <weir/time.hpp>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <type_traits>

namespace weir::inline v0_2 {

/// The note that a policy attaches to a grant, and that the limiter passes back when the permit is released. Only the
/// policy interprets it: as the number of a log entry, an index of a table, or a start time.
using ticket = std::uint64_t;

/// The rule of a limiter: the concept of a policy, which `basic_limiter` calls.
///
/// A policy is a pure state machine without a clock, a queue or a thread. The limiter passes it the time, which never
/// goes back, and amounts. It calls the policy under its lock, except for the constructor and the destructor. A request
/// for `n` permits has 1 <= n <= capacity(). A member may throw only where the list states it.
///
/// Required:
/// - `P(options)`: checks the options, or throws `std::invalid_argument`; allocates memory, or throws `std::bad_alloc`.
/// - `p.begin(now)`: starts the time of the policy. It is called once, before all members below, unless `take_over` is
///   called instead.
/// - `p.take_over(before, now)`: `p` was just constructed from new options. Advances `before` under its old options to
///   `now`, and continues from its state. It may swap memory with `before`, which is only destroyed afterwards. May
///   throw `std::bad_alloc` if the state needs more memory than the new options do, and `std::invalid_argument` if
///   `before` is of another kind; then `before` is unchanged.
/// - `p.options()`: returns the current options.
/// - `p.capacity()`: returns the most permits that one request can ever be granted.
/// - `p.timed()`: returns whether the policy needs the time. If not, `now` below may be any time, and the limiter does
///   not read its clock.
/// - `p.remaining(now)`: returns how many permits it could grant now, at least 0.
/// - `p.ready_at(n, ahead, now)`: returns when `n` permits can be taken after `ahead` other permits: `now` or earlier
///   if they can be taken now, `unknown` if time alone does not free them, `never` if the time is later than a
///   `time_point` can represent. The result is exact for ahead == 0. Otherwise it is never too late if all requests
///   ahead stay in the queue.
/// - `p.take(n, now)`: takes `n` permits at `now` and returns a ticket. It must not throw if
///   `ready_at(n, 0, now) <= now`, even without memory. If the permits are not free, it goes into debt; this may throw,
///   without any change.
/// - `p.leave(n, ticket)`, or `p.leave(n, ticket, now)` if the policy needs the time: releases `n` used permits of
///   `ticket`. Returns true if this may have freed permits.
/// - `p.refund(n, ticket, now)`: releases `n` unused permits and undoes that much of `take`. Returns true if this may
///   have freed permits.
/// - `p.merge(a, b, n)`: moves the `n` permits of ticket `b` to `a`, and returns the ticket of all of them.
///
/// Optional:
/// - `p.catches_up()`: returns whether the policy makes up for late grants as far as it can save permits. A bucket
///   does. A policy that only stores the time of a grant loses the permits that a late timer misses.
/// - `p.tickets()`: returns the kind of its tickets, one of `tickets`, always the same. Saves memory in `policy::all`.
/// - `P::schedule`: a constant, how the grant times of the requests in a queue can be computed, one of `schedule`.
/// - `p.forecast()`: for `schedule::by_turns`: returns an object with the members `ready_at(n, 0, now)`, `remaining(now)`
///   and `take(n, now)`, which work like the members of a copy of `p`. The time never goes back. The object may refer to
///   `p`, and is not used after a change of `p`. It and its `take` may throw `std::bad_alloc`.
/// - `p.times_leave()`: returns whether `p.leave(n, ticket, now)` uses the time.
/// - `p.report(ticket, outcome)`: records the outcome of the work under `ticket`, which is released later. Returns the
///   ticket to use from then on.
/// - `p.capacity_now()`: returns the current number of permits, if the policy changes it.
/// - `p.ready_from(n, ahead, now, from)`: returns `ready_at(n, ahead, ...)` of a limiter that grants nothing before
///   `from`, which is later than `now`. A policy whose `ready_at` uses more of the present than `now`, such as the wall
///   clock, must define it: without it the limiter calls `ready_at(n, ahead, from)`.
/// - `p.ask_again_at(n, now)`: while `ready_at(n, 0, now)` is `unknown`: returns a later time from which on it may be
///   `now` although no permit was released, or `never` if only a release can help. The limiter asks `ready_at` again at
///   that time, and predicts no grant by it.
/// - `p.countable()`: returns how many permits the limiter may grant one by one by counting alone, with ticket 0;
///   negative if none. It calls neither `take` nor `leave` for them. Before any other call, `p.counted(n)` adds the number
///   of permits that were granted, less the number of released permits. `P::countable_type` is `P`: so a class that
///   derives from such a policy, and perhaps replaces its `take`, is not countable.
/// - `p.heap_bytes()`: returns the size of the heap memory that it has allocated, without the allocator's own bytes.
/// - `p.debt(now)`: returns the permits taken beyond the free ones, at least 0. While there is debt, the limiter grants
///   nothing. A policy that never has debt leaves it out.
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

/// A policy whose permits can be granted and released by counting alone.
// clang-format off
template <class P>
concept countable_policy = limiting_policy<P> && requires(P p, P const& c, amount n) {
    requires std::same_as<typename P::countable_type, P>;
    { c.countable() } noexcept -> std::same_as<amount>;
    { p.counted(n) } noexcept;
};
// clang-format on

/// Returns whether `p` makes up for late grants; false if it does not define `catches_up`.
template <class P>
[[nodiscard]] constexpr bool catches_up(P const& p) noexcept {
    if constexpr (requires { p.catches_up(); })
        return p.catches_up();
    else
        return false;
}

/// The kind of the tickets of a policy.
enum class tickets : std::uint8_t {
    none,  ///< always 0; the policy ignores the tickets that it gets
    time,  ///< the time of the grant, in nanoseconds since the epoch
    own,   ///< anything else
};

/// Returns the kind of the tickets of `p`; `own` if it does not define `tickets`.
template <class P>
[[nodiscard]] constexpr tickets tickets_of(P const& p) noexcept {
    if constexpr (requires { p.tickets(); })
        return p.tickets();
    else
        return tickets::own;
}

/// How the grant times of the requests in a queue follow from the state of a policy. They assume that no request
/// leaves and that each request is granted at its time.
enum class schedule : std::uint8_t {
    none,    ///< they cannot be computed: they depend on when permits are released
    by_sum,  ///< `ready_at` is exact for any `ahead`: only the sum of the permits ahead counts
    by_turns,  ///< a copy of the policy must grant the requests ahead one by one, since their amounts count
};

/// Returns how grant times under the policy or rule `P` can be computed; `none` if it does not define `schedule`.
template <class P>
[[nodiscard]] constexpr schedule schedule_of() noexcept {
    if constexpr (requires { P::schedule; })
        return P::schedule;
    else
        return schedule::none;
}

/// Returns whether `p` needs the time when a permit is released.
template <class P>
[[nodiscard]] constexpr bool times_leave(P const& p) noexcept {
    if constexpr (requires { p.times_leave(); })
        return p.times_leave();
    else
        return requires(P q, amount n, ticket t, time_point now) { q.leave(n, t, now); };
}

/// Releases `n` used permits of ticket `t` in `p`.
template <class P>
[[nodiscard]] bool leave(P& p, amount n, ticket t, time_point now) noexcept {
    if constexpr (requires { p.leave(n, t, now); })
        return p.leave(n, t, now);
    else
        return p.leave(n, t);
}

/// A policy that can compute the grant time of each request in a queue.
// clang-format off
template <class P>
concept scheduled_policy = limiting_policy<P> && schedule_of<P>() != schedule::none;
// clang-format on

/// A policy that uses the reported outcomes of the work under its permits.
template <class P>
concept uses_reports = requires(P p, ticket t, outcome o) {
    { p.report(t, o) } noexcept -> std::same_as<ticket>;
};

/// Returns the debt of a policy in permits; 0 if the policy never has debt.
template <limiting_policy P>
[[nodiscard]] amount debt_of(P const& p, time_point now) noexcept {
    if constexpr (requires { p.debt(now); })
        return p.debt(now);
    else
        return 0;
}

/// Returns the current number of permits of a policy.
template <limiting_policy P>
[[nodiscard]] amount capacity_now_of(P const& p) noexcept {
    if constexpr (requires { p.capacity_now(); })
        return p.capacity_now();
    else
        return p.capacity();
}

/// Returns the size of the heap memory of `p`; 0 if it does not define `heap_bytes`.
template <class P>
[[nodiscard]] std::size_t heap_bytes_of(P const& p) noexcept {
    if constexpr (requires { p.heap_bytes(); })
        return p.heap_bytes();
    else
        return 0;
}

/// Returns when `n` permits can be taken from `p` after `ahead` others, if none is granted before `from`, which is later
/// than `now`. The result may be earlier than `from`.
template <class P>
[[nodiscard]] time_point ready_from(P const& p, amount n, amount ahead, time_point now,
                                    time_point from) noexcept {
    if constexpr (requires { p.ready_from(n, ahead, now, from); })
        return p.ready_from(n, ahead, now, from);
    else
        return p.ready_at(n, ahead, from);
}

/// Returns when to ask `p.ready_at(n, 0, ...)` again, which is `unknown` now; `never` if only a release can help.
template <class P>
[[nodiscard]] time_point ask_again_at(P const& p, amount n, time_point now) noexcept {
    if constexpr (requires { p.ask_again_at(n, now); })
        return p.ask_again_at(n, now);
    else
        return never;
}

/// A permit that has been held for longer than `max_hold`.
struct overdue {
    /// The permit, as `permit::id()` returns it.
    ticket id = 0;
    /// The number of permits that it holds.
    amount count = 0;
    /// The time of the grant.
    time_point since{};
    /// The time for which the permit has been held.
    duration held{};
};

/// A policy that also watches how long its permits are held, and reports overdue permits.
///
/// - `p.next_overdue()`: returns when to call `pop_overdue` next; `never` if no permit is watched.
/// - `p.pop_overdue(now)`: returns the next permit that is overdue at `now`, each permit once.
// clang-format off
template <class P>
concept watchful_policy = limiting_policy<P> && requires(P p, P const& c, time_point now) {
    { c.next_overdue() } noexcept -> std::same_as<time_point>;
    { p.pop_overdue(now) } noexcept -> std::same_as<std::optional<overdue>>;
};
// clang-format on

/// A policy whose state can be saved, and restored in another process.
///
/// - `p.save(to, now)`: appends the numbers of the state to `to`. They do not depend on the limiter's clock. Permits in
///   use are not saved. Throws `std::bad_alloc`, and nothing else.
/// - `p.load(from, then)`: `p` was just begun. Reads the numbers of a policy with the same options, as if they had been
///   saved at `then`. Returns false if they are not the numbers of such a policy; it must accept no other state, since
///   the file may be wrong. Throws `std::bad_alloc`.
/// - `p.resume(before, now, same)`: replaces the saved part of the state by that of `before`, which was loaded, has the
///   same kind, and has the same options if `same`. Permits in use stay. `before` is only destroyed afterwards. Throws
///   as `take_over`.
// clang-format off
template <class P>
concept savable_policy = limiting_policy<P> &&
    requires(P p, P const& c, number_writer& to, number_reader& from, time_point now) {
        { c.save(to, now) };
        { p.load(from, now) } -> std::same_as<bool>;
        { p.resume(p, now, true) };
    };
// clang-format on

/// A policy that reports events, each once and in order.
///
/// - `P::event_type`: the type of an event.
/// - `p.has_event()`: returns whether there is an unreported event.
/// - `p.pop_event()`: returns the first unreported event, if there is one.
// clang-format off
template <class P>
concept eventful_policy = requires(P p, P const& c) {
    typename P::event_type;
    { c.has_event() } noexcept -> std::same_as<bool>;
    { p.pop_event() } noexcept -> std::same_as<std::optional<typename P::event_type>>;
};
// clang-format on

/// The demand of the waiting requests.
struct demand {
    amount head = 0;  ///< permits of the request at the head of the queue; 0 if no request waits
    amount all = 0;   ///< permits of all waiting requests
    /// When the patience of the head of the queue or of the newest request ends, the later of both: permits that come
    /// too late for the head still serve the requests behind it.
    time_point until = never;
};

/// A policy whose permits come from elsewhere, such as from a server.
///
/// A request to that server is a command. The limiter takes it from the policy and has it carried out outside its
/// lock. It checks for commands after every call that may produce one, so the policy need not announce them.
///
/// - `P::command_type`: the type of a command.
/// - `p.next_command(d, now)`: returns when a command is due, or when time alone changes the state: `now` or earlier
///   if that is now, `never` if neither will happen.
/// - `p.pop_command(d, now)`: returns the next command, if one is due.
/// - `p.elapse(now)`: applies the changes that time alone made. Returns true if the limiter may have to reject waiting
///   requests.
/// - `p.unavailable_until(now)`: returns until when requests are rejected, if they are. It does not apply to a request
///   whose grant time `ready_at` can compute.
/// - `p.is_misconfigured()`: returns whether the error is then `errc::misconfigured`; otherwise it is
///   `errc::unavailable`.
/// - `p.is_unlimited()`: returns whether it grants every request now. Then each grant completes through an executor, so
///   that a loop of requests lets other work run.
/// - `p.must_go_on()`: returns whether the policy needs the time although no request waits. Then the limiter keeps the
///   context running.
///
/// In such a policy `ready_at` may be too late, because other processes may return permits.
// clang-format off
template <class P>
concept fed_policy = limiting_policy<P> && requires(P p, P const& c, demand d, time_point now) {
    typename P::command_type;
    { c.next_command(d, now) } noexcept -> std::same_as<time_point>;
    { p.pop_command(d, now) } noexcept -> std::same_as<std::optional<typename P::command_type>>;
    { p.elapse(now) } noexcept -> std::same_as<bool>;
    { c.unavailable_until(now) } noexcept -> std::same_as<std::optional<time_point>>;
    { c.is_misconfigured() } noexcept -> std::same_as<bool>;
    { c.is_unlimited() } noexcept -> std::same_as<bool>;
    { c.must_go_on() } noexcept -> std::same_as<bool>;
};
// clang-format on

/// A policy that leases its permits: they are renewed while they are in use, and may be lost.
///
/// - `p.is_lost(t, now)`: returns whether permits of the ticket `t` are lost; once true, it stays true.
/// - `p.is_held(t)`: returns whether permits of `t` may still be held; true for one ticket at a time.
// clang-format off
template <class P>
concept lending_policy = fed_policy<P> && requires(P const& c, ticket t, time_point now) {
    { c.is_lost(t, now) } noexcept -> std::same_as<bool>;
    { c.is_held(t) } noexcept -> std::same_as<bool>;
};
// clang-format on

}  // namespace weir::inline v0_2
