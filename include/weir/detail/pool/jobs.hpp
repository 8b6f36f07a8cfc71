#pragma once

#include <weir/detail/context_user.hpp>
#include <weir/detail/executor_until_end.hpp>
#include <weir/detail/list.hpp>
#include <weir/detail/pool/attempts.hpp>
#include <weir/detail/pool/job.hpp>
#include <weir/detail/wakeup.hpp>
#include <weir/detail/word_lock.hpp>
#include <weir/lease.hpp>
#include <weir/policy/backoff.hpp>
#include <weir/time.hpp>

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

namespace weir::inline v0_2::detail {

/// The running jobs of a pool, and the decisions which of them may begin. One lock protects them, the executor on which
/// they run, and the wake-up that posts the steps of the supplier. Each function is one critical section, which calls
/// `execute` of the executor at most.
template <class Executor>
class jobs {
    using job_type = job<Executor>;

public:
    jobs(Executor const& ex, backoff_options const& retry) : executor_(ex), attempts_(retry) {}

    /// Causes a call of `user->context_ends()` at the end of the context. Call it once, before any other function.
    void attach(std::weak_ptr<context_user> user) { executor_.attach(std::move(user)); }

    // The steps of the supplier.

    /// Calls `post(executor)`, which posts a step, unless one is posted already. If it throws, the next call retries.
    template <class Post>
    void wake(Post post) noexcept {
        std::lock_guard lock(mutex_);
        if (executor_.has_ended() || !wakeup_.update({.due = true}))
            return;
        try {
            post(*executor_);
        } catch (...) {
            wakeup_.post_failed();
        }
    }
    void step_arrived() noexcept {
        std::lock_guard lock(mutex_);
        wakeup_.step_arrived();
    }

    // The end.

    /// Makes objects only for requests that wait, from now on.
    void shut_down() noexcept {
        std::lock_guard lock(mutex_);
        is_shut_down_ = true;
    }
    [[nodiscard]] bool is_shut_down() const noexcept {
        std::lock_guard lock(mutex_);
        return is_shut_down_;
    }
    /// Begins no more jobs, and cancels the running jobs.
    void stop() noexcept {
        std::lock_guard lock(mutex_);
        if (executor_.end())
            each([](job_type& j) { j.cancel(); });
    }
    /// Begins no more jobs. The context destroys the running jobs.
    void context_ends() noexcept {
        std::lock_guard lock(mutex_);
        executor_.end();
    }
    [[nodiscard]] bool are_stopped() const noexcept {
        std::lock_guard lock(mutex_);
        return executor_.has_ended();
    }

    // The begin of a job.

    /// The decisions about a job that begins now.
    struct outlook {
        Executor executor;
        bool may_make;  // an object for a request that waits
        bool may_fill;  // the pool up to its minimum
    };
    /// Returns what a job that begins now may do; nothing if none may begin.
    [[nodiscard]] std::optional<outlook> next(time_point now) const noexcept {
        std::lock_guard lock(mutex_);
        if (executor_.has_ended())
            return std::nullopt;
        return outlook{*executor_, attempts_.may_begin(),
                       !is_shut_down_ && attempts_.may_begin_unasked(now)};
    }
    /// Returns whether an object is still made if a request waits for it, or if the pool is below its minimum.
    [[nodiscard]] bool go_on(bool is_wanted, bool is_low) const noexcept {
        std::lock_guard lock(mutex_);
        return !executor_.has_ended() && (is_wanted || (is_low && !is_shut_down_));
    }

    // A job.

    /// Records that a job runs. Returns whether it may: the jobs were not stopped.
    [[nodiscard]] bool begin(job_type& j) noexcept {
        std::lock_guard lock(mutex_);
        running_.push_back(j);
        return !executor_.has_ended();
    }
    /// Records the end of a job. Returns whether it had begun.
    [[nodiscard]] bool end(job_type& j) noexcept {
        std::lock_guard lock(mutex_);
        attempts_.end(j);
        if (!j.is_linked())
            return false;
        j.unlink();
        return true;
    }
    /// Returns whether the job may try to make an object: while attempts fail, only one job tries.
    [[nodiscard]] bool claim_attempt(job_type& j) noexcept {
        std::lock_guard lock(mutex_);
        return attempts_.claim(j);
    }
    /// Records the begin or the end of a job's pause before a retry.
    void back_off(job_type& j, bool begins) noexcept {
        std::lock_guard lock(mutex_);
        attempts_.back_off(j, begins);
    }
    /// Returns whether a job pauses before a retry. Takes no lock.
    [[nodiscard]] bool is_any_backing_off() const noexcept {
        return attempts_.is_any_backing_off();
    }
    /// Ends the pauses of all jobs before their retries.
    void cancel_retries() noexcept {
        std::lock_guard lock(mutex_);
        if (executor_.has_ended())
            return;
        each([](job_type& j) {
            if (j.is_backing_off)
                j.cancel_backing_off();
        });
    }

    // The results of attempts to make objects.

    [[nodiscard]] time_point retry_at() const noexcept {
        std::lock_guard lock(mutex_);
        return attempts_.retry_at();
    }
    /// Returns the number of failures in a row.
    [[nodiscard]] std::uint32_t failures() const noexcept {
        std::lock_guard lock(mutex_);
        return attempts_.failures();
    }
    /// Returns the error of the last attempt; null if it succeeded.
    [[nodiscard]] shared_failure failure() const noexcept {
        std::lock_guard lock(mutex_);
        return attempts_.failure();
    }
    void succeeded() noexcept {
        shared_failure last;  // destroyed outside the lock
        std::lock_guard lock(mutex_);
        last = attempts_.succeeded();
    }
    /// `seen` is the number of failures at the begin of the attempt.
    void failed(shared_failure why, backoff_options const& retry, std::uint32_t seen,
                time_point now) noexcept {
        std::lock_guard lock(mutex_);  // released before `why` is destroyed
        why = attempts_.failed(std::move(why), retry, seen, now);
    }

private:
    template <class F>
    void each(F f) noexcept {
        for (auto* j = running_.empty() ? nullptr : &running_.front(); j; j = running_.after(*j))
            f(*j);
    }

    word_lock mutable mutex_;
    executor_until_end<Executor> executor_;
    wakeup wakeup_;
    bool is_shut_down_ = false;
    list<job_type, in_supplier> running_;
    attempts attempts_;
};

}  // namespace weir::inline v0_2::detail
