#pragma once

#include <weir/amount.hpp>
#include <weir/policy/backoff.hpp>
#include <weir/policy/policy.hpp>
#include <weir/policy/token_bucket.hpp>
#include <weir/rate.hpp>
#include <weir/time.hpp>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <variant>

namespace weir {

/// While the store does not answer, requests wait; in an outage they are rejected with `errc::unavailable`. An outage
/// begins with the fifth question in a row that has failed, or when none was answered for a second.
struct fail_closed {};
/// From the first question that fails until one is answered, everything is granted: no limit holds.
struct fail_open {};
/// From the first question that fails until one is answered, this process grants by itself: so much of the rate and of
/// the burst, from a millionth to 1, and a burst of 1 at least. N processes together grant at most
/// `N * share * (burst + rate * outage)` besides what the store has granted; with a share of 1/N, that is the
/// limit itself. What the process was granted before counts.
struct fail_local {
    double share = 1;
};

/// A rate that many processes share, and what becomes of requests while the store cannot be asked.
struct shared_options {
    /// How many permits come back, and in what time: at least 1 in a time. All who share it must state the same.
    weir::rate rate{1, std::chrono::seconds(1)};

    /// How many can be granted at once after a pause, all processes together: 1 to 500,000,000. Unset, it is the
    /// number of permits in `rate`.
    std::optional<amount> burst = {};

    /// How far ahead a grant may be booked, 0 to 60 s. While more is asked for than there is, the store is not
    /// polled: the first in line has a turn booked, and waits for it. Less than the shortest pause between two
    /// grants makes distant processes starve.
    duration reach = std::chrono::seconds(1);

    /// How long an answer is waited for, 1 us to 60 s. Afterwards what was asked for counts as used, since nobody
    /// knows whether it was granted; and it is asked for anew.
    duration timeout = std::chrono::milliseconds(50);

    /// Up to how many permits are taken ahead of requests, to be granted here without a question: 0 to 500,000,000.
    /// With 0 each grant is the answer to a question. Otherwise it is adapted to demand: from none on, twice as many
    /// each time when permits were used up within a tenth of `prefetch_time`; half as many when some lapse,
    /// or when there are not enough for all who share the limit. It is never more than half of the burst.
    amount prefetch = 0;

    /// How long permits that were taken ahead can be used, 1 ms to 60 s. Then those that are left lapse: the store
    /// takes back as many of them as have not come back there meanwhile. Until then they keep the context of the limiter
    /// running. Unset, it is 100 ms, or the time of four permits if that is longer. Without a prefetch it is of no account.
    std::optional<duration> prefetch_time = {};

    /// What becomes of requests when questions fail. The store is asked again all the same.
    std::variant<fail_closed, fail_open, fail_local> on_failure = {};

    /// How long the store is left alone that cannot be asked.
    backoff_options retry = {.max = std::chrono::seconds(5)};
};

/// Throws `std::invalid_argument`, naming the option, the value and the bound, if one is nonsense.
void validate(shared_options const& options);

/// What decides about the requests of a shared limiter.
enum class shared_mode : std::uint8_t {
    store,   ///< the store does
    closed,  ///< in an outage, `fail_closed` rejects all
    open,    ///< `fail_open` grants all
    local,   ///< `fail_local`: this process does, by its share
};

/// Another mode than before.
struct mode_change {
    shared_mode before = shared_mode::store;
    shared_mode after = shared_mode::store;
    /// By the clock of the limiter.
    time_point at{};
    /// Which change it is, from 1 on. A number that is left out is of a change that nobody was told of.
    std::uint64_t number = 0;
};

/// What has come of the orders of a shared limiter since it was made.
struct shared_stats {
    /// Questions that were put to the store, and permits that it has granted.
    std::uint64_t questions = 0;
    amount granted = 0;
    /// Questions that were answered with a turn to come, and with a rejection.
    std::uint64_t booked = 0;
    std::uint64_t denied = 0;
    /// Questions without an answer: nothing has happened, or nobody knows. In the second case what was asked
    /// for may have been used up.
    std::uint64_t failed = 0;
    std::uint64_t unknown = 0;
    /// Of those, answers that came in the end, but too late.
    std::uint64_t late = 0;
    /// Questions that were answered in time, and how many have failed since the last one that was.
    std::uint64_t answered = 0;
    std::uint32_t failing = 0;
    /// Permits that were given back to the store: not used by whom they were granted to, or granted too late.
    amount returned = 0;
    /// Permits that were granted and that nobody has used in time.
    amount lapsed = 0;
    /// How many permits are taken ahead now.
    amount prefetch = 0;
    /// Permits that were granted without the store, as `fail_open` and `fail_local` do.
    amount bypassed_permits = 0;
    /// Whether the store cannot be asked now, and how often that has begun.
    bool unavailable = false;
    std::uint64_t outages = 0;
    /// What decides now, since when, and how often that has changed.
    shared_mode mode = shared_mode::store;
    time_point mode_since{};
    std::uint64_t mode_changes = 0;
    /// How often the clock of the store was set, as far as its grants show: it has gone on by 100 ms more or less
    /// than the clock of this process, or by a thousandth of the time between two grants, if that is more. A step
    /// forward grants what comes back in it, at most a burst and what is booked then. A step back grants nothing, and a
    /// sliding log does not show it.
    std::uint64_t steps_forward = 0;
    std::uint64_t steps_back = 0;
    /// How long the last question took to be answered.
    duration round_trip{};

    /// Whether a question is under way.
    [[nodiscard]] bool is_asking() const noexcept {
        return questions != answered + failed + unknown;
    }
};

namespace policy {

/// A bucket as a store keeps it. All is counted in drops, so small that each microsecond drains a whole
/// number of them, as in `bucket`.
///
/// Or a sliding log, which has a window: each grant is kept, with its time in microseconds, and there are never more
/// than `burst` permits in any stretch of time so long. A turn that is booked is a grant of the time at which it is due;
/// grants are in the order of their times. So what keeps the limit is that the last of any `burst + 1` permits in a
/// row comes at least a window after the first, whether they were booked or not.
struct shared_bucket {
    std::int64_t drained = 1;  ///< drops that drain in a microsecond
    std::int64_t permit = 1;   ///< drops of a permit
    amount burst = 1;          ///< permits that it holds
    std::int64_t window = 0;   ///< microseconds, of a sliding log; 0 of a bucket

    /// Of the rate of `options`, which are valid.
    [[nodiscard]] static shared_bucket of(shared_options const& options) noexcept;
    [[nodiscard]] static shared_bucket log_of(shared_options const& options) noexcept;

    [[nodiscard]] std::int64_t full() const noexcept { return burst * permit; }
    /// The part of a microsecond that a grant comes too late by is kept for the next one, in drops.
    [[nodiscard]] std::int64_t owed() const noexcept {
        return (drained < permit ? drained : permit) - 1;
    }
    /// How long it takes at least until there are `n` permits more, in microseconds, rounded down.
    [[nodiscard]] std::int64_t time_of(amount n) const noexcept;
};

/// The rule of a limiter that is fed from elsewhere: of a rate that many processes share, and that a store
/// keeps. It holds the permits that the store has granted, and knows when it is worth asking for more.
///
/// One question is under way at a time: for at least what the first in line asks for, and at most what all ask for
/// together. So a crowd is one question. What is granted goes to whoever is first in line when the answer comes;
/// what nobody wants by then is given back. A rejection is believed, and those who come are rejected without a question,
/// until the time that it names, or for a second: others may give permits back.
///
/// With a prefetch, more is asked for than is waited for: while permits are in stock, requests are granted without a
/// question, and the next one goes out when less than a quarter is left. It is `prefetch_time` before they lapse.
///
/// Guarantee, of all limiters that share the bucket together: in any stretch of time d, at most
/// `burst + rate * (d + timeout)` permits are used, not counting as many as were given back unused in it; with a
/// prefetch, `burst + rate * (d + timeout + prefetch_time)`. What the store has granted in d is at most
/// `burst + rate * (d + 1 us)`. Nothing is granted too much when answers are late or lost, when a process dies, or by
/// the clock of a process: then less is granted. What the store loses or grants too much when its own clock is set
/// forward, it says itself.
///
/// Under-use: of each answer that is lost, what it grants; and with a prefetch, at most `prefetch` permits of each process in
/// a `prefetch_time` in which it asks for few, or dies.
///
/// Debt, which only `charge` and `settle` can make, is told to the store, which grants nobody anything before it
/// is paid; but what is granted without the store does not wait for that. A refund is given back to the store
/// once, less what has drained since the grant. It is lost, and counts as used, if too many are under way, or if
/// the permit was made by `charge`.
///
/// Memory: constant.
class fed {
public:
    using options_type = shared_options;

    /// Asks for at least `min` permits and at most `max`, which may be booked for `ahead` from now.
    struct question {
        shared_bucket bucket;
        amount min = 1;
        amount max = 1;
        std::chrono::microseconds ahead{};
        std::uint64_t number = 0;
        duration timeout{};  ///< how long the answer is waited for
    };
    /// Gives back permits that may be used since `since`, by the clock of the store.
    struct give_back {
        shared_bucket bucket;
        amount count = 0;
        std::int64_t since = 0;
        duration timeout{};  ///< how long it is tried
    };
    using order_type = std::variant<question, give_back>;

    /// What a store says to a question.
    struct answer {
        /// How many were granted, 0 if none.
        amount granted = 0;
        /// If there were any: from when on they may be used. Otherwise: how long to wait at least until it is worth
        /// asking again.
        std::chrono::microseconds wait{};
        /// If there were any: the store's own time at which they may be used, in microseconds; never 0.
        std::int64_t since = 0;
        /// With an error instead of an answer: whether permits may have been granted all the same.
        bool lost = false;
    };

    /// Carries orders out.
    class runner {
    public:
        /// Throws, unless it can carry out orders of such a policy. From any thread, under no lock.
        virtual void validate(fed const& p) const = 0;

        /// From any thread, under no lock. What comes of a question is told once.
        virtual void carry_out(order_type const& order) noexcept = 0;

    protected:
        ~runner() = default;
    };

    explicit fed(options_type const& options);

    // As a policy.

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

    // As one that is fed.

    [[nodiscard]] time_point next_order(demand const& d, time_point now) const noexcept;
    [[nodiscard]] std::optional<order_type> pop_order(demand const& d, time_point now) noexcept;
    bool elapse(time_point now) noexcept;
    [[nodiscard]] std::optional<time_point> barred(time_point now) const noexcept;
    [[nodiscard]] bool must_go_on() const noexcept { return next_lapse() != never; }

    // As one to which something happens: the last 8 changes of the mode of which nobody was told.

    using event_type = mode_change;
    [[nodiscard]] bool has_event() const noexcept { return told_ != stats_.mode_changes; }
    [[nodiscard]] std::optional<mode_change> pop_event() noexcept;

    // What has come of a question: true if requests that wait may have to be rejected.

    bool answered(std::uint64_t number, answer const& a, time_point now) noexcept;
    /// Without an answer. `lost`: it may have been granted all the same.
    bool failed(std::uint64_t number, bool lost, time_point now) noexcept;

    [[nodiscard]] shared_stats const& fed_stats() const noexcept { return stats_; }
    [[nodiscard]] shared_bucket const& bucket() const noexcept { return bucket_; }

protected:
    /// By the rule that `bucket` says, which is that of `options`.
    fed(options_type const& options, shared_bucket const& bucket);

private:
    /// Permits that the store has granted, and that can be used from `from` to `until`.
    struct lot {
        amount left = 0;
        time_point from{};
        time_point until{};
        std::int64_t since = 0;
    };
    /// So many more than what is held will not be granted before, unless others give permits back. That is believed
    /// for a while.
    struct rejection {
        amount min = 0;
        time_point at = time_point::min();
        time_point believed_until = time_point::min();
    };
    static constexpr duration belief = std::chrono::seconds(1);
    struct under_way {
        std::uint64_t number = 0;  // 0 if there is none
        amount min = 0;
        amount max = 0;
        time_point sent{};
        bool pays_debt = false;
    };

    /// When the clock of the store was read last, and what it said.
    struct reading {
        time_point sent{};
        time_point received{};
        std::int64_t said = 0;  // 0 if it never was
    };
    static constexpr duration step_least = std::chrono::milliseconds(100);

    static constexpr std::uint32_t failures_of_outage = 5;
    static constexpr duration silence_of_outage = std::chrono::seconds(1);

    [[nodiscard]] bool decides_itself() const noexcept {
        return stats_.failing != 0 && !std::holds_alternative<fail_closed>(options_.on_failure);
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
    void note_mode(time_point now) noexcept;
    void read_clock(std::int64_t said, time_point sent, time_point now) noexcept;
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
    bool scarce_ = false;                  // the last grant was booked, or less than was asked for
    duration prefetch_time_{};             // 0 without a prefetch
    std::optional<time_point> deposited_;  // when permits last came that can be used at once
    std::optional<token_bucket> local_;    // with `fail_local`: all that was granted counts in it
    bool probes_ = false;  // something was granted without the store since it was last asked
    time_point failing_since_{};
    backoff backoff_;
    std::array<mode_change, 8> changes_{};  // each where its number says
    std::uint64_t told_ = 0;                // the number of the last one that was told, or left out
    reading clock_;
    shared_stats stats_;
};

/// The same by a sliding log: never more than the number of permits of `rate` in any stretch of its time, at most 4096
/// of them. There is no burst besides.
///
/// Guarantee, of all limiters that share the log together: in any stretch of time of `period - timeout`, with a prefetch
/// `period - timeout - prefetch_time`, at most that number is used. What the store has granted, by its own time, is at
/// most that in any stretch of a period, to the microsecond. With `fail_local` it is up to twice the share in
/// a period besides.
class fed_log : public fed {
public:
    explicit fed_log(options_type const& options);
};

}  // namespace policy
}  // namespace weir
