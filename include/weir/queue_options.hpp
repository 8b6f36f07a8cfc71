#pragma once

#include <weir/amount.hpp>
#include <weir/partitions.hpp>
#include <weir/time.hpp>

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

namespace weir {

/// What becomes of a request that must wait when the queue is full.
enum class when_full : std::uint8_t {
    /// The new request is rejected with `errc::queue_full`.
    reject_newest,
    /// The request that has waited longest is dropped with `errc::shed`, and the new one waits. For one that
    /// asks for more permits, up to 16 are dropped; if that is not enough, the new one is rejected. The orders
    /// `priority` and `fair` say of which class or key it is.
    evict_oldest,
};

/// Which of the requests that wait is granted next. The next one is not overtaken by those that wait, however
/// big it is: they wait until it can be granted, or leaves. Each order says what a newcomer may do.
enum class queue_order : std::uint8_t {
    /// The one that came first. `try_enter` fails while a request waits.
    fifo,

    /// The one that came last: under overload some are served at once, and not all of them too late. So a
    /// request may overtake all that wait, and does so whenever it can be granted; `try_enter` may, too. A
    /// request may wait for ever, unless it has a patience; when its turn comes cannot be told.
    lifo,

    /// As `fifo`, until for longer than `queue_options::interval` there was always one that waits: then as
    /// `lifo`, until none waits. Maurer, "Fail at Scale", ACM Queue 13(8), 2015.
    adaptive_lifo,

    /// As `fifo`, but a queue that stands is cut short: if throughout a `queue_options::interval` there was
    /// a request that waited, and none was granted that had waited for at most `queue_options::target`,
    /// then in the next interval, or until none waits, each request that has waited for more than twice the
    /// target is dropped with `errc::shed`. A request that can be granted is never dropped. Nichols and Jacobson, "Controlling
    /// Queue Delay", ACM Queue 10(5), 2012, in the form of "Fail at Scale".
    codel,

    /// By class, `standing::priority`, and in a class the one that came first; but each `queue_options::ageing`
    /// that a request has waited counts as much as a class. So a request of class 5 goes before one of class 2
    /// that has come more than three times `ageing` later, or just so much, and none waits for ever: after
    /// 7 times `ageing`, no newcomer goes before it.
    ///
    /// A newcomer, and so `try_enter`, may overtake those of higher classes that have not aged so far, the
    /// next one included, and does so at once if it can be granted.
    /// `evict_oldest` drops the oldest of the highest class that waits, then the one after it, and then goes on
    /// with the class before; but none of a lower class than the newcomer has: then that is rejected.
    /// `max_expected_wait` counts what requests of the same and lower classes ask for, and the first of each higher class
    /// that has aged so far, so that a turn may come later than was foreseen.
    priority,

    /// Each flow in turn, `standing::flow`, in the order in which they began to wait; of a key, the one that came
    /// first. Permits count, not requests: a key whose requests ask for more has fewer of them granted. Over
    /// any time throughout which two keys have a request that waits, the permits that they are granted differ
    /// by at most four times the largest request; by eight times, where requests leave that were not granted.
    /// Shreedhar and Varghese, "Efficient Fair Queueing using Deficit Round Robin", SIGCOMM 1995.
    ///
    /// A key has a turn only while it waits, and takes some 110 bytes then; one that has come to an end begins
    /// anew. A newcomer overtakes none of its own key, but those of other keys that have more than one turn to
    /// wait. `try_enter` fails while a request waits.
    /// `evict_oldest` drops the oldest of a key that asks for the most permits, to within a factor of 2, so that
    /// no key can fill the queue for the others; if that is not enough, more of the same key.
    /// `max_expected_wait` counts what the requests of the same key ask for, or, if none of them waits, the first one
    /// of each other key, so that a turn may come later than was foreseen.
    fair,

    /// By partition, which is named by `standing::flow` as `partition_flow` has it: for what needs seats of its own.
    /// Of the seats that there are at the moment, `stats().capacity`, each of `queue_options::partitions` has its
    /// per cent, rounded down: its share. A request fits into the share of its partition if the partition holds no
    /// more than its share with what the request asks for. Those that fit go first, and among them the one that
    /// came first. If none fits, the one that came first of all is next: it borrows what others do not use.
    ///
    /// So nothing is kept free for a partition that does not ask, and more than there is is never granted. A
    /// partition that asks for its share again gets each borrowed seat that comes back, before all that borrow.
    /// Of one partition, requests go in the order in which they came. One for more than the whole share can only
    /// borrow, and so may wait for as long as others use theirs; it holds up those of its partition behind it.
    /// What rounding leaves over, and what is left of 100 per cent, is borrowed by whoever comes first. Requests of
    /// no partition can only borrow. A `chain` belongs to none either, but goes before all that came after it.
    ///
    /// A newcomer, and so `try_enter`, may overtake those that can only borrow, if it fits into its share and none
    /// that does waits; of its own partition it overtakes none.
    /// `evict_oldest` drops the oldest of the partition that is furthest beyond its share with what it holds and
    /// what it asks for, the newcomer included; if that one has none that waits, the newcomer is rejected. If several
    /// are equally far, it is the newcomer's own, if that is one of them. So no
    /// partition can fill the queue for the others; with `reject_newest` it can.
    /// `max_expected_wait` counts what requests of the same partition ask for, so that a turn may come later than was
    /// foreseen.
    ///
    /// Permits count for their partition until they come home. So a limiter has this order from its beginning or
    /// never; a change throws `std::invalid_argument`. Partitions can be changed: a name that stays keeps what it
    /// holds. Limits by key and limits of a server cannot have this order. Netflix concurrency-limits, Abstract-
    /// PartitionedLimiter, has such partitions, but goes beyond the limit instead of waiting for what was lent.
    shares,
};

/// How a limiter keeps requests that wait.
///
/// Options can be written as text, each once and in any order, with those left out that have their
/// defaults: `max_waiting 100 full evict_oldest tolerance 1ms patience 2s`. A time is a whole number and its
/// unit, without a space, as in `limiter_config`; or `forever`.
struct queue_options {
    /// Throws `std::invalid_argument` that quotes the text, and says at which column what was expected.
    /// Whether the values make sense is for `validate` to say.
    [[nodiscard]] static queue_options parse(std::string_view text);

    /// How many requests may wait at a time, 0 to 1,000,000,000; 0 means that none ever waits.
    std::int64_t max_waiting = 1024;

    when_full full = when_full::reject_newest;

    /// How many permits the requests that wait may ask for together, at least 1; `full` says what becomes
    /// of a request that asks for too many.
    amount max_waiting_permits = std::numeric_limits<amount>::max();

    /// A request is rejected with `errc::queue_full`, and told when to come back, if its turn would come
    /// later than after this time. Where it cannot be told when a turn comes, as for `seats`,
    /// every request waits.
    weir::patience max_expected_wait = forever;

    /// A change from or to `priority` or `fair` takes effect when no request waits; any other at once, but there is
    /// none from or to `shares`.
    queue_order order = queue_order::fifo;

    /// Of `queue_order::codel`: a wait that is short enough. 1 ns to an hour.
    duration target = std::chrono::milliseconds(5);

    /// Of `queue_order::adaptive_lifo` and `codel`: how long an overload must last before it counts as one.
    /// 1 ns to an hour.
    duration interval = std::chrono::milliseconds(100);

    /// Of `queue_order::priority`: how long a request waits until it counts as one of the class before. 1 ns to
    /// an hour.
    duration ageing = std::chrono::seconds(1);

    /// Of `queue_order::shares`: names and per cents of the seats, together 100 at most. Names are of letters,
    /// digits, `_`, `-` and `.`. As text it is `partitions live:70,batch:30`.
    weir::partitions partitions{};

    /// How late a deadline may be noticed, 0 to an hour, so that many share one wake-up of the timer. It is
    /// never noticed early, and no request is granted past its deadline. 0 is exact, at the price of a
    /// wake-up for each.
    ///
    /// For `token_bucket` and `leaky_bucket` with room to save, the timer comes at most once in a tolerance,
    /// too. At a higher rate than that, what has become due meanwhile is granted together; the rate is
    /// kept, since what comes back meanwhile still fits.
    duration tolerance = std::chrono::milliseconds(1);

    /// `retry_after` is later by up to this much, evenly by chance, 0 to an hour: never earlier than it would be
    /// without. Callers that are rejected together do not come back together then, of which but a few could be
    /// granted. The time that it takes to grant them all is a good choice: for 300 callers of `10/1s`, 30 s.
    duration jitter{};

    /// How long a request waits that names no patience of its own.
    weir::patience patience = forever;
};

/// Throws `std::invalid_argument`, naming the option, the value and the bound, if one is nonsense.
void validate(queue_options const& options);

namespace detail {
/// Throws `std::invalid_argument` if `options` name another order than the one that a limiter has by its type.
/// The default goes with every type.
void check_order(queue_options const& options, queue_order of_type);
/// Throws `std::invalid_argument` if a limiter cannot change its order like that.
void check_change(queue_order before, queue_order after);
}  // namespace detail

/// The text from which `queue_options::parse` makes the same; empty if all have their defaults.
[[nodiscard]] std::string to_string(queue_options const& options);

}  // namespace weir
