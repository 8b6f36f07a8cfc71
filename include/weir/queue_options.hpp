#pragma once

#include <weir/amount.hpp>
#include <weir/limiter_name.hpp>
#include <weir/partitions.hpp>
#include <weir/time.hpp>

#include <cstdint>
#include <string>
#include <string_view>

namespace weir::inline v0_2 {

/// The handling of a request that must wait while the queue is full.
enum class when_full : std::uint8_t {
    /// The new request is rejected with `errc::queue_full`.
    reject_newest,
    /// The limiter drops the request that waits longest with `errc::shed`, and the new one waits. If the new request
    /// asks for more permits than the dropped one, the limiter drops up to 16 requests; if that is not enough, it
    /// rejects the new request with `errc::queue_full` and drops none. The orders `priority`, `fair` and `shares`
    /// define the class, flow or partition of the dropped request.
    evict_oldest,
};

/// The rule that selects the next waiting request.
///
/// A request has a class, a flow and a weight, its `standing`. `priority` uses only the class, `shares` only the flow, and
/// `fair` all three. In debug builds an assertion fails if a request names what one of these orders ignores. Orders that
/// depend on the arrival ignore all three, so that a program can select one of them by configuration.
///
/// No other waiting request overtakes the next one, however large it is: they wait until it is granted or leaves the
/// queue. Each order defines which requests a new request may overtake.
enum class queue_order : std::uint8_t {
    /// The oldest request is next. `try_enter` fails while a request waits.
    fifo,

    /// The newest request is next: under overload some requests are served immediately, instead of all of them too
    /// late.
    ///
    /// So a new request may overtake all waiting requests, and does so whenever it can be granted; `try_enter` may,
    /// too. A request without a patience may wait forever. The grant time is unknown.
    lifo,

    /// Like `fifo`, until the queue was non-empty for longer than `queue_options::interval` without a break; then like
    /// `lifo`, until no request waits.
    ///
    /// Source: Maurer, "Fail at Scale", ACM Queue 13(8), 2015.
    adaptive_lifo,

    /// Like `fifo`, but it drops requests from a persistent queue.
    ///
    /// The queue is persistent if it was not empty during a whole `queue_options::interval`, and each request granted
    /// in that time, if any, had waited longer than `queue_options::target`. Then, in the next interval or until no
    /// request waits, each request that has waited longer than twice the target is dropped with `errc::shed`. A request
    /// that can be granted is never dropped.
    ///
    /// Source: Nichols and Jacobson, "Controlling Queue Delay", ACM Queue 10(5), 2012, in the form of "Fail at Scale".
    codel,

    /// By class, `standing::priority`, and within a class the oldest request is next. Each `queue_options::ageing` of
    /// wait counts as much as one class.
    ///
    /// So a request of class 5 precedes one of class 2 that arrived at least three times `ageing` later. No request
    /// waits forever: after 7 times `ageing`, no new request precedes it.
    ///
    /// A new request, and so `try_enter`, may overtake requests of higher classes that have not aged so far, the next
    /// one included. It does so immediately if it can be granted.
    ///
    /// `evict_oldest` drops the oldest request of the highest waiting class, then the next one, and then requests of
    /// the class before. It drops none of a lower class than the new request; if no other is left, it rejects the new
    /// request.
    ///
    /// `max_expected_wait` counts the permits of waiting requests of the same and lower classes, and of the first
    /// request of each higher class that has aged so far. The real wait can be longer than this prediction.
    priority,

    /// By class and, within a class, by flow: `standing::flow`. The flows of a class take turns, and within a flow the
    /// oldest request is next. Among the next requests of the classes, the class and the wait decide as in `priority`.
    /// Without classes only the turns decide; with one flow the order is `priority`.
    ///
    /// Turns count permits, not requests, in proportion to `standing::weight`. Over any time in which two flows of a
    /// class always have a waiting request, let each have the permits granted to it, divided by its weight. The
    /// difference is at most the sum of the largest request of each, divided by its weight. Other flows and requests
    /// that leave do not change this. A flow that waits in several classes has separate turns. Source: Golestani, "A
    /// self-clocked fair queueing scheme for broadband applications", INFOCOM 1994.
    ///
    /// A flow has turns only while it waits, and takes about 120 bytes then. It gains nothing by leaving and coming back.
    /// A class takes 1 KiB from its first wait on. A grant takes a time that is logarithmic in the number of flows.
    ///
    /// No request waits forever if all requests have one size and one weight, and none leaves the queue: after it has been
    /// the first of its flow for 7 times `queue_options::ageing`, no new request precedes it. In its class, at most one
    /// request of each other flow does.
    ///
    /// A new request overtakes no request of the same flow and class. It may overtake requests of other flows, the next
    /// one included, if it asks for fewer permits or has a greater weight. It overtakes requests of higher classes as
    /// in `priority`. `try_enter` fails while a request of the same class waits.
    ///
    /// `evict_oldest` drops the oldest request of a flow of the highest waiting class: of the flow that asks for the
    /// most permits, divided by its weight, to within a factor of 2. So no flow can fill the queue for the others of its
    /// class. If that is not enough, it drops more of the same flow. It drops none of a lower class than the new request.
    ///
    /// `max_expected_wait` counts the permits of waiting requests of the same flow and class. If none of them waits, it
    /// counts the first request of each other flow of the class that precedes the new request, of up to 64 flows or all.
    /// The real wait can be longer than this prediction.
    fair,

    /// By partition: each partition has a share of the seats, for requests that need separate seats.
    /// `standing::flow` names the partition, as `partition_flow` computes it.
    ///
    /// The share of each of `queue_options::partitions` is its percentage of the current seats (`stats().capacity`),
    /// rounded down. A request fits if the seats of its partition in use, together with the request, do not exceed the
    /// share. Requests that fit are next, the oldest of them first. If none fits, the oldest request of all is next: it
    /// borrows unused seats of other partitions.
    ///
    /// - No seat is kept free for a partition without requests, and the limiter never grants more seats than exist.
    /// - If a partition asks for its share again, it gets each borrowed seat on its release, before all requests that
    ///   borrow.
    /// - Within a partition, requests are granted in arrival order.
    /// - A request for more than the whole share can only borrow, so it may wait as long as other partitions use their
    ///   seats. It blocks the later requests of its partition.
    /// - Seats left over by rounding, and the rest of 100 %, are lent in arrival order.
    /// - Requests without a partition can only borrow. A `chain` waits in no partition, but precedes all requests that
    ///   arrived after it. Its seats count for the partition that `with` names.
    ///
    /// A new request, and so `try_enter`, may overtake requests that can only borrow, if it fits its share and no
    /// waiting request fits. It overtakes no request of the same partition.
    ///
    /// `evict_oldest` compares the partitions with waiting requests and the partition of the new request. It drops the
    /// oldest request of the partition that exceeds its share most, counting seats in use and asked for, the new
    /// request included. Among equal partitions it selects the partition of the new request, if it is one of them. If
    /// the selected partition has no waiting request, the new request is rejected. So no partition can fill the queue
    /// for the others; with `reject_newest` it can.
    ///
    /// `max_expected_wait` counts the permits of waiting requests of the same partition. The real wait can be longer
    /// than this prediction.
    ///
    /// Permits count for their partition until they are released. So a limiter has this order from its construction or
    /// never; a change throws `std::invalid_argument`. Partitions can be changed: a name that remains keeps its seats
    /// in use and its waiting requests. The seats and requests of a removed name have no partition until the name is
    /// added again. If more than 8 names have seats in use or waiting requests, an added name takes over the seats and
    /// requests of a removed name. Limits by key and shared limits do not support this order.
    ///
    /// Source: Netflix concurrency-limits, AbstractPartitionedLimiter, has such partitions, but exceeds the limit
    /// instead of waiting for lent seats.
    shares,
};

/// The options of a queue of waiting requests.
///
/// They can be written as text, each option at most once and in any order; an omitted option has its default:
/// `name api max_waiting 100 full evict_oldest tolerance 1ms patience 2s`. A time is `forever`, or a whole number and its unit
/// without a space, as in `limiter_config`. `max_waiting unlimited` has no bound.
struct queue_options {
    /// Parses options from text. It does not check the bounds of values; `validate` does.
    ///
    /// @throws std::invalid_argument that quotes the text and names the column and the expected input
    [[nodiscard]] static queue_options parse(std::string_view text);

    /// The name of the limiter in `rejection::what()`, `limiter_stats` and what `weir/format.hpp` prints: up to 15 letters,
    /// digits, `_`, `-` and `.`. It has no other effect.
    limiter_name name{};

    /// The maximum number of waiting requests, 0 to `unlimited`; with 0 no request waits. The default protects a server
    /// from overload. A program that starts more requests at once, and wants all of them served, needs a larger number:
    /// otherwise the limiter rejects the excess with `errc::queue_full`.
    amount max_waiting = 1024;

    /// The handling of a request that must wait while the queue is full.
    when_full full = when_full::reject_newest;

    /// The maximum number of permits for which all waiting requests together ask, at least 1. `full` applies to a
    /// request that would exceed it.
    amount max_waiting_permits = unlimited;

    /// The longest expected wait: the limiter rejects a request with `errc::queue_full` and a `retry_after` if its
    /// grant time would be later. Where the grant time is unknown, as for `seats`, every request waits.
    weir::patience max_expected_wait = forever;

    /// The order of the queue. A change from or to `priority` or `fair` takes effect when no request waits, any other
    /// immediately. A change from or to `shares` is not possible.
    queue_order order = queue_order::fifo;

    /// For `queue_order::codel`: an acceptable wait, 1 ns to an hour.
    duration target = std::chrono::milliseconds(5);

    /// For `queue_order::adaptive_lifo` and `codel`: the time after which a queue counts as overloaded, 1 ns to an
    /// hour.
    duration interval = std::chrono::milliseconds(100);

    /// For `queue_order::priority` and `fair`: the wait that counts as much as one class, 1 ns to an hour.
    duration ageing = std::chrono::seconds(1);

    /// For `queue_order::shares`: names and percentages of the seats, at most 100 % together. Names consist of letters,
    /// digits, `_`, `-` and `.`. The text form is `partitions live:70,batch:30`.
    weir::partitions partitions{};

    /// The longest delay with which the limiter notices a deadline, 0 to an hour, so that several deadlines share one
    /// wake-up of the timer. A deadline is never noticed early, and no request is granted after its deadline. 0 is
    /// exact, but takes a wake-up for each deadline. A change applies to deadlines after a time without waiting
    /// requests.
    ///
    /// A `token_bucket` or `leaky_bucket` that can save permits also wakes up at most once per tolerance. At a higher
    /// rate the limiter grants together all requests that are due; the rate is kept, because the permits of
    /// that time still fit into the bucket.
    duration tolerance = std::chrono::milliseconds(1);

    /// `retry_after` is longer by a random time, uniform from 0 to this value, 0 to an hour; it is never shorter than
    /// without jitter. So requests that were rejected together do not retry together, when only a few could be granted.
    /// A good value is the time needed to grant them all: for 300 callers of `10/1s`, 30 s.
    duration jitter{};

    /// The patience of a request that names none.
    weir::patience patience = forever;

    /// A dry run: the limiter decides and counts, but every request passes at once. A request that it would reject
    /// counts in `limiter_stats::would_reject`, and one that would have to wait in `would_wait`. Such a request takes
    /// nothing: its permit has the count for which it asked, of a range the most, but its release, `refund` and
    /// `settle` have no effect, and a merge with another permit does not change the count of the other one. So later
    /// requests see more permits than if the request had waited for its grant. Another request is granted as usual.
    ///
    /// In a chain the limiter neither rejects nor delays. There every request without free permits counts in
    /// `would_wait`. One exception: a chain that waits for another limiter needs a place for its key in `keyed`.
    /// `enter_at_once` leaves a request that would have to wait to `enter`.
    ///
    /// A closed limiter still rejects, and a cancellation still cancels. A change applies to new requests; requests
    /// that wait are served as before. Shared limiters and pools do not support dry runs.
    bool dry_run = false;
};

/// Throws `std::invalid_argument` that names the option, its value and the bound, if an option is out of bounds.
void validate(queue_options const& options);

namespace detail {
/// Throws `std::invalid_argument` if `options` name another order than the type of the limiter. The default order fits
/// every type.
void check_order(queue_options const& options, queue_order of_type);
/// Throws `std::invalid_argument` if a limiter cannot change its order in this way.
void check_change(queue_order before, queue_order after);
}  // namespace detail

/// Returns a text from which `queue_options::parse` makes equal options; empty if all options have their defaults.
[[nodiscard]] std::string to_string(queue_options const& options);

}  // namespace weir::inline v0_2
