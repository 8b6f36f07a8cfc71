#pragma once

#include <weir/amount.hpp>
#include <weir/policy/backoff.hpp>
#include <weir/policy/outage.hpp>
#include <weir/policy/policy.hpp>
#include <weir/policy/store_distance.hpp>
#include <weir/policy/token_bucket.hpp>
#include <weir/rate.hpp>
#include <weir/time.hpp>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>

namespace weir::inline v0_2 {

/// Rejects requests with `errc::unavailable` in an outage.
///
/// An outage begins with a second of silence, or with the fifth question in a row that the server rejects; see
/// `policy::outage`. Until then requests wait. Every reply ends it.
struct fail_closed {};
/// Grants everything in an outage, as `fail_closed` describes it: no limit applies. Each grant then completes through an
/// executor, so that a loop of requests lets other work run.
struct fail_open {};
/// Grants a share of the limit in this process in an outage, as `fail_closed` describes it.
///
/// The share, from a millionth to 1, applies to the rate and to the burst; the burst is at least 1. N processes
/// together grant at most `N * share * (burst + rate * outage)` besides the grants of the store; with a share of 1/N,
/// that is the limit itself. Earlier grants to the process count.
struct fail_local {
    /// The share of the rate and of the burst, from a millionth to 1.
    double share = 1;
};

/// A rate that many processes share, and the handling of requests while the store is unavailable.
struct shared_options {
    /// The rate, at least 1 permit per period. All processes that share it must use the same rate.
    weir::rate rate{1, std::chrono::seconds(1)};

    /// The most permits that all processes together can be granted at once after a pause: 1 to 500,000,000. By default
    /// it is the number of permits in `rate`.
    std::optional<amount> burst = {};

    /// The longest time by which a grant may be booked ahead, 0 to 60 s. While the demand exceeds the rate, the limiter
    /// does not poll the store: the request at the head of the queue has a booked grant, and waits for it. A value
    /// below the shortest pause between two grants makes distant processes starve.
    duration reach = std::chrono::seconds(1);

    /// The time limit for a reply, 1 us to 60 s. Afterwards the permits of the question count as used, because the
    /// store may have granted them, and the limiter asks again. By default it follows the store: three times the last
    /// round trip, from 50 ms to `most_timeout`; `most_timeout` before the first reply, and twice as long after each
    /// reply that is late.
    std::optional<duration> timeout = {};

    /// The longest time limit for a reply by default.
    static constexpr duration most_timeout = std::chrono::milliseconds(500);

    /// The most permits that are fetched ahead of requests, to be granted here without a question: 0 to 500,000,000.
    /// With 0 each grant needs a reply. Otherwise the number follows the demand, starting at 0. It doubles each time
    /// permits were used up within a tenth of `prefetch_time`. It is halved when some lapse, or when there are not
    /// enough for all processes that share the limit. It is never more than half of the burst.
    amount prefetch = 0;

    /// The time for which permits fetched ahead can be used, 1 ms to 60 s. The rest then lapses: the store takes back
    /// as many of them as were not refilled meanwhile. Until then they keep the context of the limiter running. By
    /// default it is 100 ms, or the time of four permits if that is longer. It has no effect without a prefetch.
    std::optional<duration> prefetch_time = {};

    /// The handling of requests in an outage. The limiter keeps asking the store. It does not apply to a misconfigured
    /// store: then requests are rejected with `errc::misconfigured`.
    std::variant<fail_closed, fail_open, fail_local> on_failure = {};

    /// The pauses between questions after rejections by the server, and in an outage. A store that pauses between its
    /// own attempts names the time of the next one, which replaces this pause.
    backoff_options retry = {
        .initial = std::chrono::milliseconds(50), .max = std::chrono::milliseconds(500)};
};

/// Throws `std::invalid_argument` if an option is invalid; its text names the option, the value and the bound.
void validate(shared_options const& options);

/// The part that decides about the requests of a shared limiter.
enum class shared_mode : std::uint8_t {
    store,          ///< the store
    closed,         ///< `fail_closed`, which rejects all requests in an outage
    open,           ///< `fail_open`, which grants all requests
    local,          ///< `fail_local`, which grants the share of this process
    misconfigured,  ///< the limiter, which rejects all requests, because the store is misconfigured
};

/// A change of the mode of a shared limiter.
struct mode_change {
    /// The mode before the change.
    shared_mode before = shared_mode::store;
    /// The mode after the change.
    shared_mode after = shared_mode::store;
    /// The time of the change, on the clock of the limiter.
    time_point at{};
    /// The number of the change, from 1 on. A gap means that changes were not reported.
    std::uint64_t number = 0;
};

/// Counts of the questions of a shared limiter since its construction, and its current state.
struct shared_stats {
    /// Questions to the store.
    std::uint64_t questions = 0;
    /// Permits that the store granted.
    amount granted = 0;
    /// Questions whose reply was a booked grant.
    std::uint64_t booked = 0;
    /// Questions whose reply was a rejection.
    std::uint64_t denied = 0;
    /// Questions that the server rejected, or that did not reach it.
    std::uint64_t failed = 0;
    /// Questions that the store did not send, because it waits for the server, or before the next attempt to connect.
    std::uint64_t unsent = 0;
    /// Questions without a valid reply in time, for which the store may have granted permits. These count as used.
    std::uint64_t unknown = 0;
    /// Replies that arrived too late, to `unknown` questions.
    std::uint64_t late = 0;
    /// Questions with a reply in time.
    std::uint64_t answered = 0;
    /// Questions since the last reply that are `failed`, `unsent` or `unknown`.
    std::uint32_t failing = 0;
    /// Permits that were given back to the store: unused, or granted too late.
    amount returned = 0;
    /// Permits that were granted, but not used in time.
    amount lapsed = 0;
    /// The number of permits that are fetched ahead now.
    amount prefetch = 0;
    /// Permits that `fail_open` and `fail_local` granted without the store.
    amount bypassed_permits = 0;
    /// Whether there is an outage now.
    bool unavailable = false;
    /// The number of outages.
    std::uint64_t outages = 0;
    /// The current mode.
    shared_mode mode = shared_mode::store;
    /// The time at which the current mode began.
    time_point mode_since{};
    /// The number of changes of the mode.
    std::uint64_t mode_changes = 0;
    /// How often the clock of the store was set forward, as its grants show: it advanced by 100 ms more than the clock
    /// of this process, or by a thousandth of the time between two grants, if that is more. A step forward grants the
    /// refill of its length, at most a burst and the grants booked then.
    std::uint64_t steps_forward = 0;
    /// How often the clock of the store was set back, as its grants show: it advanced by 100 ms less than the clock of
    /// this process, or by a thousandth of the time between two grants, if that is more. A step back grants nothing,
    /// and a sliding log does not show it.
    std::uint64_t steps_back = 0;
    /// How often the server lost the state of this limiter, as the replies show: it had none, although an earlier grant
    /// to this process was not refilled yet. Each loss grants up to a burst, and the permits that were booked, again.
    std::uint64_t losses = 0;
    /// The time from the last question with a reply in time to that reply.
    duration round_trip{};
    /// The time limit for the next reply.
    duration timeout{};

    /// Returns whether a question is in progress.
    [[nodiscard]] bool is_asking() const noexcept {
        return questions != answered + failed + unsent + unknown;
    }
};

namespace policy {

/// A bucket, or a sliding log, as a store keeps it.
///
/// A bucket is counted in drops, a unit so small that each microsecond drains a whole number of drops, as in `bucket`.
///
/// A sliding log has a window. It keeps each grant with its time in microseconds, and never has more than `burst`
/// permits in any time interval of that length. A booked grant counts at its future time; grants are in the order of
/// their times. So one rule enforces the limit: the last of any `burst + 1` consecutive permits, booked or not, comes
/// at least a window after the first.
struct shared_bucket {
    std::int64_t drained = 1;  ///< drops that drain per microsecond
    std::int64_t permit = 1;   ///< drops per permit
    amount burst = 1;          ///< capacity in permits
    std::int64_t window = 0;   ///< length of a log's window in microseconds; 0 for a bucket

    /// Makes a bucket for the rate of `options`, which must be valid.
    [[nodiscard]] static shared_bucket of(shared_options const& options) noexcept;
    /// Makes a sliding log for the rate of `options`, which must be valid.
    [[nodiscard]] static shared_bucket log_of(shared_options const& options) noexcept;

    /// Returns the capacity in drops.
    [[nodiscard]] std::int64_t full() const noexcept { return burst * permit; }
    /// Returns the largest part of a microsecond by which a late grant is credited to the next one, in drops.
    [[nodiscard]] std::int64_t owed() const noexcept {
        return (drained < permit ? drained : permit) - 1;
    }
    /// Returns the shortest time in which `n` permits are refilled, in microseconds, rounded down.
    [[nodiscard]] std::int64_t time_of(amount n) const noexcept;
};

/// The policy of a shared limiter: a rate that many processes share, and that a store keeps. It holds the permits that
/// the store granted, and decides when to ask for more.
///
/// Questions: one question at a time is in progress. It asks for at least the permits of the request at the head of the
/// queue, and at most for the permits of all waiting requests together. So many waiting requests need one question. The
/// permits go to the request at the head of the queue when the reply arrives; the limiter gives back permits for which
/// no request waits by then.
///
/// Rejections: after a rejection by the store, the limiter rejects a new request without a question if the request
/// needs at least as many permits, and its patience ends before they could be granted. It relies on a rejection until
/// the time that the rejection names, but for at most a second, because other processes may give permits back.
///
/// With a prefetch it asks for more than the waiting requests need. While it has permits, it grants requests without a
/// question. It sends the next question when less than a quarter is left. After `prefetch_time` the permits lapse.
///
/// Guarantee, for all limiters that share the bucket together: in any time interval d, at most
/// `burst + rate * (d + timeout)` permits are used, not counting as many as were given back unused in it; with a
/// prefetch, `burst + rate * (d + timeout + prefetch_time)`. The store grants at most `burst + rate * (d + 1 us)` in d.
/// Late or lost replies, the death of a process, and the clock of a process never cause excess grants; they cause
/// fewer. Each store documents what it grants in excess when it loses data or its own clock is set forward.
///
/// Unused permits: the grant of each lost reply; with a prefetch, also at most `prefetch` permits per process in a
/// `prefetch_time` in which it gets few requests, or dies.
///
/// Debt, which only `charge` and `settle` cause, is reported to the store, which grants no process anything until it is
/// paid; grants without the store do not wait for that.
///
/// A refund is sent to the store once, less the drops that have drained since the grant. With a prefetch it joins the
/// unused permits of the same grant instead, if there are any. It is lost, and counts as used, if too many refunds are
/// in progress, or if `charge` took the permit as debt that is already paid.
///
/// Memory: constant.
class fed {
public:
    using options_type = shared_options;

    /// A request for at least `min` permits and at most `max`, which may be booked for up to `ahead` from now.
    struct question {
        shared_bucket bucket;
        amount min = 1;
        amount max = 1;
        std::chrono::microseconds ahead{};
        std::uint64_t number = 0;
        duration timeout{};  ///< the time limit for the reply
    };
    /// A command to give back permits that could be used since `since`, on the clock of the store.
    struct give_back {
        shared_bucket bucket;
        amount count = 0;
        std::int64_t since = 0;
        duration timeout{};  ///< the time limit for the attempt
    };
    using command_type = std::variant<question, give_back>;

    /// The reply of a store to a question.
    struct answer {
        /// The number of permits granted, 0 if none.
        amount granted = 0;
        /// With permits: the time until they may be used. Without: the time until `min` permits are free, unless
        /// permits are given back earlier. With an error: the time until the next attempt of the store to reach the
        /// server; 0 if it does not pause.
        std::chrono::microseconds wait{};
        /// With permits: the store's own time from which they may be used, in microseconds; never 0.
        std::int64_t since = 0;
        /// With permits: whether the store had no state of this name before. So it is a new name, or one that was idle
        /// until it had all its permits again; or the store lost its data.
        bool is_new = false;
        /// With an error instead of a reply: whether the store may have granted permits nevertheless.
        bool lost = false;
        /// With an error: how the question failed. It counts as `no_reply` if it is lost.
        failure_kind kind = failure_kind::refused;
        /// With an error: the message of the server, or where the attempt failed.
        std::string text = {};
    };

    /// The interface that carries commands out.
    class runner {
    public:
        /// Throws unless it can carry out the commands of such a policy. Called from any thread, under no lock.
        virtual void validate(fed const& p) const = 0;

        /// Starts a command. Called from any thread, under no lock. It reports the result of a question once.
        virtual void carry_out(command_type const& command) noexcept = 0;

    protected:
        ~runner() = default;
    };

    explicit fed(options_type const& options);

    // The members of a policy.

    void begin(time_point now) noexcept;
    void take_over(fed& before, time_point now);
    [[nodiscard]] options_type const& options() const noexcept { return options_; }
    [[nodiscard]] amount capacity() const noexcept { return bucket_.burst; }
    [[nodiscard]] static bool timed() noexcept { return true; }
    [[nodiscard]] amount remaining(time_point now) const noexcept;
    [[nodiscard]] amount debt(time_point) const noexcept { return owed_; }
    [[nodiscard]] time_point ready_at(amount n, amount ahead, time_point now) const noexcept;
    ticket take(amount n, time_point now) noexcept;
    static bool leave(amount, ticket) noexcept { return false; }
    bool refund(amount n, ticket t, time_point now) noexcept;
    static ticket merge(ticket a, ticket b, amount n) noexcept;

    // The members of a policy whose permits come from elsewhere.

    [[nodiscard]] time_point next_command(demand const& d, time_point now) const noexcept;
    [[nodiscard]] std::optional<command_type> pop_command(demand const& d, time_point now) noexcept;
    bool elapse(time_point now) noexcept;
    [[nodiscard]] std::optional<time_point> barred(time_point now) const noexcept;
    [[nodiscard]] bool is_misconfigured() const noexcept {
        return outage_.current() == outage::state::misconfigured;
    }
    [[nodiscard]] bool is_unlimited() const noexcept { return decides_itself() && !local_; }
    [[nodiscard]] bool must_go_on() const noexcept { return next_lapse() != never; }

    // The members of a policy with events: the last 8 unreported changes of the mode.

    using event_type = mode_change;
    [[nodiscard]] bool has_event() const noexcept { return told_ != stats_.mode_changes; }
    [[nodiscard]] std::optional<mode_change> pop_event() noexcept;

    // The results of a question; they return true if the limiter may have to reject waiting requests.

    bool answered(std::uint64_t number, answer const& a, time_point now) noexcept;
    /// Records a question that failed as `a` describes.
    bool failed(std::uint64_t number, answer const& a, time_point now) noexcept;

    [[nodiscard]] shared_stats const& fed_stats() const noexcept { return stats_; }
    [[nodiscard]] shared_bucket const& bucket() const noexcept { return bucket_; }

protected:
    /// Uses the rule `bucket`, which must match `options`.
    fed(options_type const& options, shared_bucket const& bucket);

private:
    /// Permits that the store granted, and that can be used from `from` to `until`.
    struct lot {
        amount left = 0;
        time_point from{};
        time_point until{};
        std::int64_t since = 0;
    };
    /// The number of permits, beyond the ones held here, that will not be granted before a time unless other processes
    /// give permits back. The limiter relies on it for up to a second.
    struct rejection {
        amount min = 0;
        time_point at = time_point::min();
        time_point believed_until = time_point::min();
    };
    static constexpr duration belief = std::chrono::seconds(1);
    /// The question in progress.
    struct under_way {
        std::uint64_t number = 0;  // 0 if none
        amount min = 0;
        amount max = 0;
        time_point sent{};
        bool pays_debt = false;
    };

    /// The last reading of the clock of the store.
    struct reading {
        time_point sent{};
        time_point received{};
        std::int64_t said = 0;  // 0 if never read
    };
    static constexpr duration step_least = std::chrono::milliseconds(100);

    [[nodiscard]] bool decides_itself() const noexcept {
        return outage_.current() == outage::state::unavailable &&
               !std::holds_alternative<fail_closed>(options_.on_failure);
    }
    [[nodiscard]] bool is_leased() const noexcept { return prefetch_time_ != duration::zero(); }
    [[nodiscard]] time_point next_lapse() const noexcept;
    [[nodiscard]] amount most_ahead() const noexcept;
    [[nodiscard]] bool is_brisk(time_point now) const noexcept;
    [[nodiscard]] bool is_running_out(time_point now) const noexcept;
    [[nodiscard]] amount held(time_point now) const noexcept;
    [[nodiscard]] bool has_spare(demand const& d, time_point now) const noexcept;
    [[nodiscard]] time_point next_question(demand const& d, time_point now) const noexcept;
    [[nodiscard]] question make_question(demand const& d, time_point now) noexcept;
    void note_state(time_point now) noexcept;
    void note_mode(time_point now) noexcept;
    void read_clock(std::int64_t said, time_point sent, time_point now) noexcept;
    void watch_for_loss(answer const& a) noexcept;
    void reject_before(time_point at, amount least, time_point now) noexcept;
    void keep(lot const& l) noexcept;
    void tidy() noexcept;
    void put_back(amount n, std::int64_t since) noexcept;

    options_type options_;
    shared_bucket bucket_;
    std::array<lot, 4> lots_{};  // in the order of `from`
    std::size_t lot_count_ = 0;
    std::array<give_back, 8> returns_{};
    std::size_t return_count_ = 0;
    amount owed_ = 0;
    rejection rejected_;
    under_way asked_;
    std::uint64_t last_number_ = 0;
    bool scarce_ = false;  // the last grant was booked, or smaller than requested
    store_distance distance_;
    duration prefetch_time_{};             // 0 without a prefetch
    std::optional<time_point> deposited_;  // when permits for immediate use last arrived
    std::optional<token_bucket> local_;    // with `fail_local`: counts all grants
    bool probes_ = false;  // something was granted without the store since the last question
    outage outage_;
    std::array<mode_change, 8> changes_{};  // each at the index of its number modulo 8
    std::uint64_t told_ = 0;  // the number of the last change that was reported or skipped
    reading clock_;
    std::int64_t kept_until_ =
        0;  // the store's time until which it needs its state, by the grants to this process
    shared_stats stats_;
};

/// The policy of a shared sliding log: never more than the number of permits of `rate` in any time interval of its
/// period, at most 4096. There is no additional burst.
///
/// Guarantee, for all limiters that share the log together: in any time interval of `period - timeout`, with a prefetch
/// `period - timeout - prefetch_time`, at most that number is used. The store grants, on its own clock, at most that
/// number in any period, to the microsecond. `fail_local` adds up to twice the share per period.
class fed_log : public fed {
public:
    explicit fed_log(options_type const& options);
};

}  // namespace policy
}  // namespace weir::inline v0_2
