#pragma once

#include <weir/amount.hpp>
#include <weir/policy/outage.hpp>
#include <weir/policy/shared_options.hpp>
#include <weir/policy/token_bucket.hpp>
#include <weir/time.hpp>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace weir::inline v0_2::policy {

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

/// A request to a store for at least `min` permits and at most `max`, which may be booked for up to `ahead` from now.
struct store_question {
    shared_bucket bucket;
    amount min = 1;
    amount max = 1;
    std::chrono::microseconds ahead{};
    std::uint64_t number = 0;
    duration timeout{};  ///< the time limit for the reply
};

/// A command to give back permits that could be used since `since`, on the clock of the store.
struct store_give_back {
    shared_bucket bucket;
    amount count = 0;
    std::int64_t since = 0;
    duration timeout{};  ///< the time limit for the attempt
};

/// The reply of a store to a question.
struct store_answer {
    /// The number of permits granted, 0 if none.
    amount granted = 0;
    /// With permits: the time until they may be used. Without: the time until `min` permits are free, unless permits
    /// are given back earlier. With an error: the time until the next attempt of the store to reach the server; 0 if it
    /// does not pause.
    std::chrono::microseconds wait{};
    /// With permits: the store's own time from which they may be used, in microseconds; never 0.
    std::int64_t since = 0;
    /// With permits: whether the store had no state of this name before. So it is a new name, or one that was idle until
    /// it had all its permits again; or the store lost its data.
    bool is_new = false;
    /// With an error instead of a reply: whether the store may have granted permits nevertheless.
    bool lost = false;
    /// With an error: how the question failed. It counts as `no_reply` if it is lost.
    failure_kind kind = failure_kind::refused;
    /// With an error: the message of the server, or where the attempt failed.
    std::string text = {};
};

/// Throws as `validate`, and if the options are not the options of a sliding log.
void validate_log(shared_options const& options);

/// Returns the options of the limit that `fail_local` applies in this process; none without it.
[[nodiscard]] std::optional<token_bucket_options> local_share_of(shared_options const& options);

}  // namespace weir::inline v0_2::policy
