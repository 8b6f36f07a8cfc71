#pragma once

#include <weir/policy/outage.hpp>
#include <weir/policy/shared_bucket.hpp>
#include <weir/policy/shared_options.hpp>
#include <weir/time.hpp>

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>

namespace weir::inline v0_2::policy {

/// The knowledge of a limiter about its store, from the results of its questions: whether the store is available, how
/// long a reply may take, and whether its clock was set. It counts the results.
///
/// Memory: constant.
class store_contact {
public:
    explicit store_contact(shared_options const& options) noexcept;

    void begin(time_point now) noexcept { stats_.mode_since = now; }
    /// Applies other options.
    void use(shared_options const& options, time_point now) noexcept;

    /// Records a question.
    void asks(time_point now) noexcept {
        outage_.asks(now);
        ++stats_.questions;
    }
    /// Records that the silence begins now, since the store replied to an earlier question only.
    void still_asks(time_point now) noexcept { outage_.asks(now); }
    /// Records any reply, even a late one: the store is available.
    void replied(time_point now) noexcept;
    /// Records the reply to a question that was sent at `sent`, in time.
    void answered(store_answer const& a, time_point sent, time_point now) noexcept;
    /// Records a reply that came too late.
    void answered_late(store_answer const& a) noexcept {
        ++stats_.late;
        stats_.granted += a.granted;
    }
    /// Counts a failed question.
    void count_failure(store_answer const& a) noexcept;
    /// Records that the question failed.
    void failed(store_answer const& a, time_point now) noexcept;
    /// Records that the store is misconfigured, by an earlier question.
    void misconfigured(duration again_in, time_point now) noexcept;
    /// Records that no reply came within the time limit. The next one gets twice as much time.
    void timed_out(time_point now) noexcept;
    /// Begins an outage if there was a second of silence. Returns whether it began.
    bool elapse(time_point now) noexcept;

    [[nodiscard]] shared_mode mode() const noexcept { return stats_.mode; }
    /// Returns whether this process decides without the store.
    [[nodiscard]] bool decides_itself() const noexcept {
        return stats_.mode == shared_mode::open || stats_.mode == shared_mode::local;
    }
    /// Returns the outage, which decides when to ask again.
    [[nodiscard]] policy::outage const& outage() const noexcept { return outage_; }

    // The last 8 unreported changes of the mode.

    [[nodiscard]] bool has_event() const noexcept { return told_ != stats_.mode_changes; }
    [[nodiscard]] std::optional<mode_change> pop_event() noexcept;

    [[nodiscard]] shared_stats& stats() noexcept { return stats_; }
    [[nodiscard]] shared_stats const& stats() const noexcept { return stats_; }

private:
    /// The last reading of the clock of the store.
    struct reading {
        time_point sent{};
        time_point received{};
        std::int64_t said = 0;  // 0 if never read
    };
    static constexpr duration step_least = std::chrono::milliseconds(100);
    static constexpr duration least_timeout = std::chrono::milliseconds(50);

    void note_state(time_point now) noexcept;
    void note_mode(time_point now) noexcept;
    void read_clock(std::int64_t said, time_point sent, time_point now) noexcept;

    std::optional<duration> timeout_;  // of the options
    shared_mode in_outage_;
    policy::outage outage_;
    std::array<mode_change, 8> changes_{};  // each at the index of its number modulo 8
    std::uint64_t told_ = 0;  // the number of the last change that was reported or skipped
    reading clock_;
    shared_stats stats_;
};

}  // namespace weir::inline v0_2::policy
