#pragma once

#include <weir/amount.hpp>
#include <weir/policy/policy.hpp>
#include <weir/policy/shared_bucket.hpp>
#include <weir/policy/shared_options.hpp>
#include <weir/policy/store_contact.hpp>
#include <weir/time.hpp>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>

namespace weir::inline v0_2::policy {

/// The `store_contact` of all keys of a shared limiter: an outage concerns the store, so what one key finds out holds
/// for all.
///
/// Questions of different keys are in progress together. After a failure only one question at a time is asked, until
/// the store replies. Questions that were sent before a failure was noticed, and fail later, count as the same failure.
/// Silence begins with the first question that was sent after the last reply.
///
/// Any thread may call all members.
class keys_contact {
public:
    explicit keys_contact(shared_options const& options, time_point now);

    /// Applies other options.
    void use(shared_options const& options, time_point now) noexcept;

    // The state, as each key uses it. It may be out of date by a moment.

    /// Returns whether this process decides without the store.
    [[nodiscard]] bool decides_itself() const noexcept {
        auto const m = mode();
        return m == shared_mode::open || m == shared_mode::local;
    }
    [[nodiscard]] bool is_misconfigured() const noexcept {
        return mode() == shared_mode::misconfigured;
    }
    /// Returns whether a question has failed since the last reply.
    [[nodiscard]] bool is_failing() const noexcept {
        return failing_.load(std::memory_order_relaxed);
    }
    /// Returns until when requests are rejected, if they are.
    [[nodiscard]] std::optional<time_point> unavailable_until(time_point now) const noexcept;
    /// Returns whether a question may be asked now.
    [[nodiscard]] bool may_ask(time_point now) const noexcept { return now >= ask_from(); }
    /// Returns when a question may be asked, unless the state changes before.
    [[nodiscard]] time_point ask_from() const noexcept {
        return ask_from_.load(std::memory_order_relaxed);
    }
    /// Returns when time alone may change the state.
    [[nodiscard]] time_point next_change() const noexcept {
        return next_change_.load(std::memory_order_relaxed);
    }
    /// Returns the number of changes that concern waiting requests.
    [[nodiscard]] std::uint64_t changes() const noexcept {
        return changes_.load(std::memory_order_acquire);
    }

    // Questions.

    /// The number of a question, and the time limit for its reply.
    struct asked {
        std::uint64_t number;
        duration timeout;
    };
    /// Records a question; none if it must not be asked now.
    [[nodiscard]] std::optional<asked> ask(time_point now) noexcept;
    /// Records the reply to a question that was sent at `sent`; late if the key no longer awaits it.
    void answered(std::uint64_t number, store_answer const& a, time_point sent, bool is_late,
                  time_point now) noexcept;
    /// Records that a question failed.
    void failed(std::uint64_t number, store_answer const& a, time_point now) noexcept;
    /// Applies the changes that time alone made.
    void elapse(time_point now) noexcept;

    // Counts.

    void bypassed(amount n) noexcept { bypassed_.fetch_add(n, std::memory_order_relaxed); }
    void returned(amount n) noexcept { returned_.fetch_add(n, std::memory_order_relaxed); }
    void lapsed(amount n) noexcept { lapsed_.fetch_add(n, std::memory_order_relaxed); }
    [[nodiscard]] shared_stats stats() const;

    // The unreported changes of the mode, as of a policy with events.

    using event_type = mode_change;
    [[nodiscard]] bool has_event() const noexcept {
        return has_event_.load(std::memory_order_relaxed);
    }
    [[nodiscard]] std::optional<mode_change> pop_event() noexcept;

private:
    [[nodiscard]] shared_mode mode() const noexcept {
        return mode_.load(std::memory_order_relaxed);
    }
    void publish(bool changes = false) noexcept;

    std::mutex mutable mutex_;
    store_contact contact_;
    bool is_awaiting_ = false;    // a reply
    time_point awaited_since_{};  // the silence, while it awaits a reply
    std::uint64_t last_number_ = 0;
    std::uint64_t last_failed_ = 0;  // the last question at the time of the last failure

    std::atomic<shared_mode> mode_ = shared_mode::store;
    std::atomic<bool> failing_ = false;
    std::atomic<bool> has_event_ = false;
    std::atomic<time_point> ask_from_ = time_point::min();
    std::atomic<time_point> retry_at_ = time_point::min();
    std::atomic<time_point> next_change_ = never;
    std::atomic<std::uint64_t> changes_ = 0;
    std::atomic<amount> bypassed_ = 0;
    std::atomic<amount> returned_ = 0;
    std::atomic<amount> lapsed_ = 0;
};

}  // namespace weir::inline v0_2::policy
