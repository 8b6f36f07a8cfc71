#pragma once

#include <weir/amount.hpp>
#include <weir/policy/policy.hpp>
#include <weir/policy/shared_bucket.hpp>
#include <weir/policy/shared_options.hpp>
#include <weir/policy/store_contact.hpp>
#include <weir/policy/store_distance.hpp>
#include <weir/policy/token_bucket.hpp>
#include <weir/time.hpp>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <variant>

namespace weir::inline v0_2::policy {

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

    using question = store_question;
    using give_back = store_give_back;
    using answer = store_answer;
    using command_type = std::variant<question, give_back>;

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
    [[nodiscard]] std::optional<time_point> unavailable_until(time_point now) const noexcept;
    [[nodiscard]] bool is_misconfigured() const noexcept {
        return contact_.mode() == shared_mode::misconfigured;
    }
    [[nodiscard]] bool is_unlimited() const noexcept { return decides_itself() && !local_; }
    [[nodiscard]] bool must_go_on() const noexcept { return next_lapse() != never; }

    /// Announces requests for `more` permits: the next question asks for at least this number beyond the permits of the
    /// waiting requests. Without a prefetch it has no effect.
    void expect(amount more) noexcept { expected_ = more; }

    // The members of a policy with events: the last 8 unreported changes of the mode.

    using event_type = mode_change;
    [[nodiscard]] bool has_event() const noexcept { return contact_.has_event(); }
    [[nodiscard]] std::optional<mode_change> pop_event() noexcept { return contact_.pop_event(); }

    // The results of a question; they return true if the limiter may have to reject waiting requests.

    bool answered(std::uint64_t number, answer const& a, time_point now) noexcept;
    /// Records a question that failed as `a` describes.
    bool failed(std::uint64_t number, answer const& a, time_point now) noexcept;

    [[nodiscard]] shared_stats const& fed_stats() const noexcept { return contact_.stats(); }
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

    [[nodiscard]] bool decides_itself() const noexcept { return contact_.decides_itself(); }
    [[nodiscard]] bool is_leased() const noexcept { return prefetch_time_ != duration::zero(); }
    [[nodiscard]] time_point next_lapse() const noexcept;
    [[nodiscard]] amount most_ahead() const noexcept;
    [[nodiscard]] bool is_brisk(time_point now) const noexcept;
    [[nodiscard]] bool is_running_out(time_point now) const noexcept;
    [[nodiscard]] amount held(time_point now) const noexcept;
    [[nodiscard]] bool has_spare(demand const& d, time_point now) const noexcept;
    [[nodiscard]] time_point next_question(demand const& d, time_point now) const noexcept;
    [[nodiscard]] question make_question(demand const& d, time_point now) noexcept;
    [[nodiscard]] shared_stats& stats() noexcept { return contact_.stats(); }
    [[nodiscard]] shared_stats const& stats() const noexcept { return contact_.stats(); }
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
    amount expected_ = 0;  // beyond the permits of waiting requests
    bool scarce_ = false;  // the last grant was booked, or smaller than requested
    store_distance distance_;
    duration prefetch_time_{};             // 0 without a prefetch
    std::optional<time_point> deposited_;  // when permits for immediate use last arrived
    std::optional<token_bucket> local_;    // with `fail_local`: counts all grants
    bool probes_ = false;  // something was granted without the store since the last question
    store_contact contact_;
    std::int64_t kept_until_ =
        0;  // the store's time until which it needs its state, by the grants to this process
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

}  // namespace weir::inline v0_2::policy
