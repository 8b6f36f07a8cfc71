#pragma once

#include <weir/amount.hpp>
#include <weir/time.hpp>

#include <concepts>
#include <cstdint>
#include <optional>

namespace weir {

/// What a policy notes about a grant and is handed back when the permit comes home. What it means is
/// the policy's business alone: the number of a log entry, a place in a table, a start time.
using ticket = std::uint64_t;

/// A rule of limiting: the callback module to the limiter's behaviour.
///
/// A policy is a pure state machine. It knows no clock, no queue and no thread: it is told the time,
/// which never goes back, and asked about amounts; the limiter calls it under its lock. Asking for
/// `n` permits means 1 <= n <= capacity(). None of these may throw unless it says so.
///
/// | expression                         | what it must do                                           |
/// |------------------------------------|-----------------------------------------------------------|
/// | `P(options)`                       | check the options, or throw `std::invalid_argument`       |
/// | `p.options()`                      | the options in force                                      |
/// | `p.configure(options, now)`        | settle at the old options up to `now`, then go on at the  |
/// |                                    | new ones; throws like the constructor, changing nothing.  |
/// |                                    | Called once as the limiter is made, with the options that |
/// |                                    | the policy has: that is when its time begins              |
/// | `p.capacity()`                     | the most that one request can ever be granted             |
/// | `p.timed()`                        | whether the policy needs the time. If not, `now` below    |
/// |                                    | may be any time at all, and no clock is read for it       |
/// | `p.remaining(now)`                 | how many could be taken at once, at least 0               |
/// | `p.ready_at(n, ahead, now)`        | when `n` will fit, once `ahead` permits have been taken   |
/// |                                    | before: `now` or earlier if that is now, `unknown` if no  |
/// |                                    | time can be named. Exact for ahead == 0; otherwise never  |
/// |                                    | later than the truth if nobody ahead gives up             |
/// | `p.take(n, now)`                   | take `n` at `now` and return a ticket. Must not throw nor |
/// |                                    | allocate if `ready_at(n, 0, now) <= now`. If it does not  |
/// |                                    | fit, go into debt; that may throw, changing nothing       |
/// | `p.leave(n, ticket, now)`          | `n` of the permits taken under `ticket` have been used    |
/// |                                    | and come home; true if that may have made room            |
/// | `p.refund(n, ticket, now)`         | `n` of them have not been used: undo that much of `take`; |
/// |                                    | true if that may have made room                           |
/// | `p.merge(a, b, n)`                 | the `n` permits of ticket `b` go over to `a`; returns the |
/// |                                    | ticket for all of them                                    |
///
/// Late timers need no extra care: a grant is stamped with the time at which it is made.
// clang-format off
template <class P>
concept limiting_policy =
    std::copyable<P> && std::copyable<typename P::options_type> &&
    std::constructible_from<P, typename P::options_type const&> &&
    requires(P p, P const& c, typename P::options_type const& options, amount n, ticket t,
             time_point now) {
        { c.options() } -> std::convertible_to<typename P::options_type>;
        { p.configure(options, now) };
        { c.capacity() } noexcept -> std::same_as<amount>;
        { c.timed() } noexcept -> std::same_as<bool>;
        { c.remaining(now) } noexcept -> std::same_as<amount>;
        { c.ready_at(n, n, now) } noexcept -> std::same_as<time_point>;
        { p.take(n, now) } -> std::same_as<ticket>;
        { p.leave(n, t, now) } noexcept -> std::same_as<bool>;
        { p.refund(n, t, now) } noexcept -> std::same_as<bool>;
        { p.merge(t, t, n) } noexcept -> std::same_as<ticket>;
    };
// clang-format on

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

}  // namespace weir
