#pragma once

#include <weir/lease.hpp>
#include <weir/policy/backoff.hpp>
#include <weir/time.hpp>

#include <atomic>
#include <cstdint>
#include <utility>

namespace weir::inline v0_2::detail {

/// The part of a job in the attempts to make objects.
struct attempt {
    bool is_retry = false;        // under the lock of the supplier
    bool is_backing_off = false;  // written on the job's strand and under the lock of the supplier
};

/// The attempts of a pool's jobs to make objects. While they fail, one job at a time tries, after a pause.
///
/// Call all functions but `is_any_backing_off` under the lock of the supplier.
class attempts {
public:
    explicit attempts(backoff_options const& retry) noexcept : backoff_(retry) {}

    [[nodiscard]] bool are_failing() const noexcept { return backoff_.failures() != 0; }
    /// Returns whether a job may begin to make an object for a request that waits.
    [[nodiscard]] bool may_begin() const noexcept { return !are_failing() || retrying_ == 0; }
    /// Returns whether a job may begin to make an object for which no request waits.
    [[nodiscard]] bool may_begin_unasked(time_point now) const noexcept {
        return !are_failing() || backoff_.retry_at() <= now;
    }

    /// Returns whether the job may try. If attempts fail, it is now the only one.
    [[nodiscard]] bool claim(attempt& a) noexcept {
        if (!are_failing() || a.is_retry)
            return true;
        if (retrying_ != 0)
            return false;
        ++retrying_;
        a.is_retry = true;
        return true;
    }
    /// Records the end of a job.
    void end(attempt& a) noexcept {
        back_off(a, false);
        retrying_ -= static_cast<int>(std::exchange(a.is_retry, false));
    }

    /// Records the begin or the end of a job's pause before a retry.
    void back_off(attempt& a, bool begins) noexcept {
        backing_off_ += static_cast<int>(begins) - static_cast<int>(a.is_backing_off);
        a.is_backing_off = begins;
    }
    [[nodiscard]] bool is_any_backing_off() const noexcept {
        return backing_off_.load(std::memory_order_relaxed) != 0;
    }

    [[nodiscard]] time_point retry_at() const noexcept { return backoff_.retry_at(); }
    /// The number of failures in a row.
    [[nodiscard]] std::uint32_t failures() const noexcept { return backoff_.failures(); }
    /// The error of the last attempt; null if it succeeded.
    [[nodiscard]] shared_failure const& failure() const noexcept { return failure_; }

    /// Records a success. Returns the last error, to be destroyed outside the lock.
    [[nodiscard]] shared_failure succeeded() noexcept {
        backoff_.succeeded();
        return std::exchange(failure_, nullptr);
    }
    /// Records a failure; `seen` is the number of failures at the begin of the attempt. Returns the error before, to be
    /// destroyed outside the lock.
    [[nodiscard]] shared_failure failed(shared_failure why, backoff_options const& retry,
                                        std::uint32_t seen, time_point now) noexcept {
        backoff_.use(retry);
        backoff_.failed(seen, now);
        return std::exchange(failure_, std::move(why));
    }

private:
    policy::backoff backoff_;
    int retrying_ = 0;  // jobs that retry
    std::atomic<int> backing_off_ = 0;
    shared_failure failure_;
};

}  // namespace weir::inline v0_2::detail
