#pragma once

#include <weir/detail/chain/member.hpp>
#include <weir/detail/chain/operation.hpp>
#include <weir/error.hpp>
#include <weir/permit.hpp>

#include <cstddef>
#include <span>

namespace weir::detail {

struct wait_limit;

/// How several limiters let a request go together: all of them, or none.
///
/// A chain that waits stands in the line of one limiter at a time: one that has rejected it. There it is like any
/// other request, in the place that its arrival gives it. With its other limiters it is only registered, so
/// that they can tell it when they close. When its turn comes there, the limiter does not grant: it calls the
/// chain, and its line pauses. The thread that has called it lets go of the lock and makes the claim: it takes
/// the locks of all limiters and decides. Either all let the chain go, and all grant in that section; or one
/// rejects, and in that section the chain goes to stand in the line of that one, and the line that it has left
/// is served.
///
/// What must hold for no chain to be overlooked, and for the order to be kept (test/model checks it):
/// - A chain changes under the locks of all its limiters, by a claim, and in no other way. Whatever else concerns
///   it (a cancellation, a deadline, a limiter that closes) is noted under one lock, and calls it.
/// - A thread that sets `called`, under the lock of any one limiter, owes the claim; a thread that finds it set
///   owes nothing. So one thread at a time has a chain in hand, which cannot go meanwhile.
/// - A claim begins without any lock. It takes each lock once, in the order of their addresses.
/// - A line whose first is called is not served: the claim does that, for each line of the chain.
/// - A chain that waits and is not called stands in a line of a limiter that rejects it, for want of room or since
///   another request is before it.
///
/// Two limiters may never have room at the same instant. So a chain that has lost its turn too often is overdue,
/// and the oldest that is overdue at all its limiters reserves them: it stands in all their lines at once, where
/// it is not passed. It takes nothing in advance, and after a time it goes back to one line.
///
/// Chains that are called in a claim whose locks are theirs, too, are claimed in the same section: so a crowd of
/// chains over the same limiters does not take the locks for each of them.
///
/// A claim serves lines, which may call further chains. After `most_claims_in_a_turn` a thread serves none any more: a
/// limiter whose first could go sends for its actor, which goes on. So a thread that brings permits home makes so many
/// claims, and one for each chain that had been called by then or waits for the end of a reservation, which room for that
/// chain bounds.

/// How many limiters a chain can have.
inline constexpr std::size_t most_chained = 16;

/// How many chains are claimed under the same locks.
inline constexpr int most_claimed_together = 32;

/// After how many claims a thread serves no further lines.
inline constexpr int most_claims_in_a_turn = 16;

/// What became of a request that does not wait. If it is neither granted nor rejected, waiting might help.
struct chain_answer {
    bool granted = false;  // the permits are in the entries
    error_code error = {};
    chain_rejected rejected = {};
};

/// Makes entries of the members of a chain, in the order of the locks. What is asked of a limiter that is named
/// more than once is added up. `entries` has a place for each; returned are those that were needed.
[[nodiscard]] std::span<chain_entry> fill(std::span<chain_entry> entries,
                                          std::span<chain_member* const> members) noexcept;

/// Lets the entries go now or not at all. `errc::no_permit` if waiting might help.
[[nodiscard]] chain_answer try_chain(std::span<chain_entry> entries) noexcept;
/// The same, but neither granted nor rejected if waiting might help.
[[nodiscard]] chain_answer enter_chain_at_once(std::span<chain_entry> entries) noexcept;

/// Either decides at once, and leaves the outcome in `c`, or lets `c` wait: true. If this throws, nothing has
/// happened to `c`. The limiters must be kept by the caller.
[[nodiscard]] bool enter_chain(chain_operation& c, wait_limit const& limit);

/// Outside of all locks: makes the claims that are owed. If this thread makes others already, these follow.
void make_claims(call_list& calls) noexcept;
/// The same, with all that this thread owes, before it returns.
void make_all_claims(call_list& calls) noexcept;

/// The chains that this thread owes a claim, while it makes claims; otherwise null.
extern thread_local constinit call_list* owed_by_this_thread;

/// Has permits of several limiters come home in one section, used or not; then they are empty.
void leave_together(std::span<permit> parts, bool used) noexcept;

}  // namespace weir::detail
