#pragma once

#include <weir/detail/chain/member.hpp>
#include <weir/detail/chain/operation.hpp>
#include <weir/error.hpp>
#include <weir/permit.hpp>

#include <cstddef>
#include <span>

namespace weir::inline v0_2::detail {

struct wait_limit;

/// The protocol by which several limiters grant a request together: all of them, or none.
///
/// A limiter allows a chain or blocks it. A waiting chain is in the queue of one limiter at a time, a limiter that
/// blocks it. There it is like any other request, in the position of its arrival: among all requests, or in an order
/// that obeys the standing of chains, among the requests of its class and flow. Its other limiters only register it, so
/// that they can notify it when they close. When its turn comes in the queue, the limiter does not grant: it calls the
/// chain, and its queue pauses. The calling thread releases the lock and makes the claim: it takes the
/// locks of all limiters and decides. If all allow the chain, all grant in that section. Otherwise the chain moves,
/// in that section, to the queue of a limiter that blocks it, and the queue that it has left is served.
///
/// These invariants guarantee that no chain is overlooked, and that the order is kept (test/model checks them):
/// - A chain changes only under the locks of all its limiters, by a claim. Any other event of a chain (a
///   cancellation, a deadline, the close of a limiter) is recorded under one lock, and calls the chain.
/// - A thread that sets `called`, under the lock of any one limiter, owes the claim; a thread that finds it set owes
///   nothing. So only one thread at a time handles a chain, and the chain exists meanwhile.
/// - A claim begins without any lock. It takes each lock once, in the order of their addresses.
/// - A queue whose first chain is called is not served: the claim serves it, like each queue of the chain.
/// - A chain that waits and is not called is in the queue of a limiter that blocks it, because of a lack of permits
///   or of another request before it. A called chain may have lost the head of its queue to a newcomer that goes first:
///   then the queue is served, and the claim finds the chain blocked.
///
/// Two limiters may never have permits at the same instant. So a chain that has lost too many turns is overdue. A
/// chain that is the oldest overdue chain at each of its limiters reserves them: it is in all their queues at once,
/// and no request that arrived later passes it there, whatever the order is. It takes nothing in advance, and after a
/// time it returns to one queue.
///
/// An order that obeys the standing of chains does not change these arguments:
/// - No deadlock: a chain in a queue holds nothing and takes no turn. If it is first in its queue and the permits are
///   free, it is called, and is granted or moves. So no queue waits for another one, whatever the positions of chains
///   are, unless a chain reserves it. A reservation ends after a time, and a limiter has at most one.
/// - No endless moves: chains that have their turns in different queues could block each other forever, each behind
///   another one. An overdue chain is blocked only by a lack of permits or by a request that arrived earlier. So without
///   a further grant each chain moves at most `passes` times before it is overdue; then the oldest chain moves once more
///   at most, and each other chain only after an older one has moved.
/// - No chain is overlooked: which request is first changes only when one joins, leaves or is granted in that queue. A
///   claim grants in the queues of all limiters of the chain, and serves all of them.
/// - A wait ends: in a queue a chain has the turns of a request of its flow. After `passes` of them it is overdue, and
///   then reserves. From then on only requests that arrived earlier go before it, which are finitely many. Positions by
///   arrival decide which chain reserves, and never a class or a tag.
/// - A chain that is first in one queue need not soon be first in another. In the order `fair` a flow that does not wait
///   in a queue begins its turns there at the end. So between two such queues with other flows a chain may lose its
///   turns until it is overdue.
///
/// If a claim calls other chains, and holds the locks of all their limiters, it claims these chains in the same
/// section. So many chains over the same limiters do not take the locks for each of them.
///
/// A claim serves queues, which may call further chains. After `most_claims_in_a_turn` claims a thread serves no more
/// queues: a limiter whose first request could be granted posts a step of its actor, which continues. So a thread
/// that releases permits makes at most this number of claims, and one more for each of these chains:
/// - chains that were called before that;
/// - overdue chains. When an overdue or reserving chain ends or stops reserving, it calls the next overdue chain, which
///   calls another one only when it ends itself. So these claims stop at a chain without enough free permits: the free
///   permits bound their number.
///
/// While no request waits at any limiter, a chain that asks each for one countable permit needs no claim: it holds the
/// locks of all, in any order and without a wait for any of them, and each lock counts one permit. A lock that is not
/// to be had ends the attempt without a change; then the chain decides under the locks as above. So no thread ever sees
/// a part of a chain. Permits are put back in the same way.

/// The maximum number of limiters of a chain.
inline constexpr std::size_t most_chained = 16;

/// The maximum number of chains that are claimed under the same locks.
inline constexpr int most_claimed_together = 32;

/// The number of claims after which a thread serves no further queues.
inline constexpr int most_claims_in_a_turn = 16;

/// The outcome of a request that does not wait. If it is neither granted nor rejected, waiting might help.
struct chain_answer {
    explicit chain_answer(bool is_granted) noexcept : granted(is_granted) {}
    chain_answer(error_code ec, chain_rejected const& what) noexcept : error(ec), rejected(what) {}

    bool granted = false;  // the permits are in the entries
    error_code error;
    chain_rejected rejected;
};

/// Makes entries of the members of a chain, in the order of the locks. The requests to a limiter that is named more
/// than once are added up. `entries` has space for each member; the function returns the entries that it needed.
[[nodiscard]] std::span<chain_entry> fill(std::span<chain_entry> entries,
                                          std::span<chain_member* const> members) noexcept;

/// Takes one permit of each member by counting, and stores them in `parts`, in the order of the members. Otherwise returns
/// false without a change: then `try_chain` decides.
[[nodiscard]] bool take_by_counting(std::span<chain_member* const> members,
                                    std::span<permit> parts) noexcept;

/// Grants all entries now, or none. Rejects with `errc::no_permit` if waiting might help.
[[nodiscard]] chain_answer try_chain(std::span<chain_entry> entries) noexcept;
/// Grants all entries now, or none. If waiting might help, the answer is neither granted nor rejected.
[[nodiscard]] chain_answer enter_chain_at_once(std::span<chain_entry> entries) noexcept;

/// Decides immediately and stores the outcome in `c`, or lets `c` wait and returns true. If this throws, `c` is
/// unchanged. The caller must keep the limiters alive.
[[nodiscard]] bool enter_chain(chain_operation& c, wait_limit const& limit);

/// Makes the claims that are owed. Call it outside all locks. If this thread is already making claims, these follow
/// later.
void make_claims(call_list& calls) noexcept;
/// Makes the claims that are owed, like `make_claims`, and all other claims that this thread owes, before it returns.
void make_all_claims(call_list& calls) noexcept;

/// The chains that this thread owes a claim, while it makes claims; otherwise null.
extern thread_local constinit call_list* owed_by_this_thread;

/// Releases permits of several limiters in one section, used or not; then they are empty.
void leave_together(std::span<permit> parts, bool used) noexcept;

}  // namespace weir::inline v0_2::detail
