#pragma once

#include <weir/outcome.hpp>
#include <weir/time.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <limits>

namespace weir::inline v0_2 {

/// The options of `retry_budget`, in tokens: 0 to 1,000,000 each, rounded to thousandths.
struct retry_budget_options {
    /// The most tokens, and those at the start; at least 0.001.
    double most = 500;
    /// The tokens that a retry must leave.
    double reserve = 0;
    /// The tokens that a retry takes.
    double cost = 5;
    /// The tokens that the success of a first attempt adds.
    double success = 1;
    /// The tokens that the success of a retry adds.
    double retry_success = 5;
    /// The tokens that an attempt takes whose outcome is `outcome::dropped`.
    double failure = 0;
    /// The tokens that each second adds.
    double per_second = 0;

    /// Returns the options of gRPC's retry throttling: a failure takes a token and a success adds `ratio`; retries are
    /// allowed while more than half of `tokens` are left.
    ///
    /// Source: gRFC A6, "gRPC Retry Design".
    [[nodiscard]] static retry_budget_options grpc(double tokens = 10,
                                                   double ratio = 0.1) noexcept {
        return {.most = tokens,
                .reserve =
                    (std::floor(tokens * 500) + 1) / 1'000,  // the first thousandth above the half
                .cost = 0,
                .success = ratio,
                .retry_success = ratio,
                .failure = 1};
    }
    /// Returns the options of the standard retry mode of the AWS SDKs, which are the default: a retry takes 5 of 500
    /// tokens, its success returns them, and the success of a first attempt adds one.
    [[nodiscard]] static retry_budget_options aws() noexcept { return {}; }
    /// Returns options that allow a retry for each `1 / share` successful first attempts, and `per_second` besides. At most
    /// `10 * per_second` retries are saved, but at least 10.
    ///
    /// The budgets of Finagle and Linkerd are similar. They count all first attempts, and each expires after 10 s.
    [[nodiscard]] static retry_budget_options share(double share = 0.2,
                                                    double per_second = 10) noexcept {
        return {.most = std::clamp(10 * per_second, 10.0, 1e6),
                .cost = 1,
                .success = share,
                .retry_success = 0,
                .per_second = per_second};
    }
};

namespace detail {

/// The options of a retry budget in thousandths of a token.
struct retry_numbers {
    /// @throws std::invalid_argument if an option is out of range
    explicit retry_numbers(retry_budget_options const& options);

    std::int64_t most;
    std::int64_t reserve;
    std::int64_t cost;
    std::int64_t success;
    std::int64_t retry_success;
    std::int64_t failure;
    std::int64_t per_second;
};

}  // namespace detail

/// The counters of a `retry_budget` since construction, and its tokens.
struct retry_budget_stats {
    double tokens = 0;           ///< the current number of tokens
    std::uint64_t allowed = 0;   ///< the allowed retries
    std::uint64_t rejected = 0;  ///< the retries that were not allowed
};

/// A budget for the retries of a client: it stops retries while a service fails, so that they do not multiply the load.
///
///     weir::retry_budget budget{weir::retry_budget_options::grpc()};
///     for (unsigned attempt = 0;; ++attempt) {
///         auto const result = co_await call();
///         budget.report(result.failed ? weir::outcome::dropped : weir::outcome::success, attempt > 0 ? 1 : 0);
///         if (!result.failed || !budget.try_retry())
///             co_return result;
///     }
///
/// A new budget is full, and no retry waits for a token. A budget stops retries only; for first attempts see
/// `adaptive_throttle` and the limiters.
///
/// Thread-safe, by atomic operations. Memory: 144 bytes. Only `per_second` uses the clock.
template <class Clock = std::chrono::steady_clock>
class basic_retry_budget {
public:
    /// Creates a full budget.
    ///
    /// @throws std::invalid_argument if an option is out of range
    explicit basic_retry_budget(retry_budget_options const& options = {})
        : options_(options), numbers_(options), start_(Clock::now()), tokens_(numbers_.most) {}

    /// Takes the tokens of `n` retries and returns true, or returns false and takes none if they would not leave the
    /// reserve. Some clients count a retry after a timeout twice.
    [[nodiscard]] bool try_retry(unsigned n = 1) noexcept {
        bool const is_allowed = change(-(n * numbers_.cost), numbers_.reserve);
        (is_allowed ? allowed_ : rejected_).fetch_add(1, std::memory_order_relaxed);
        return is_allowed;
    }

    /// Records the outcome of an attempt, which was a retry of `try_retry(retry)`, or a first attempt if that is 0.
    /// `outcome::ignored` has no effect.
    void report(outcome o, unsigned retry = 0) noexcept {
        if (o == outcome::success)
            change(retry == 0 ? numbers_.success : retry * numbers_.retry_success, any);
        else if (o == outcome::dropped)
            change(-numbers_.failure, any);
    }

    /// Returns the options.
    [[nodiscard]] retry_budget_options const& options() const noexcept { return options_; }

    /// Returns the counters and the tokens. They need not be of one instant.
    [[nodiscard]] retry_budget_stats stats() const noexcept {
        auto const tokens =
            std::min(tokens_.load(std::memory_order_relaxed) + accrued(), numbers_.most);
        return {static_cast<double>(tokens) / 1'000, allowed_.load(std::memory_order_relaxed),
                rejected_.load(std::memory_order_relaxed)};
    }

private:
    using time = typename Clock::time_point;

    // Returns what time alone has added since the start.
    [[nodiscard]] std::int64_t accrued() const noexcept {
        if (numbers_.per_second == 0)
            return 0;
        auto const ms =
            std::chrono::floor<std::chrono::milliseconds>(Clock::now() - start_).count();
        return numbers_.per_second / 1'000 * ms + numbers_.per_second % 1'000 * ms / 1'000;
    }

    // Adds `n` tokens, within 0 and the most. Returns false, without a change, if fewer than `least` would be left.
    bool change(std::int64_t n, std::int64_t least) noexcept {
        auto before = tokens_.load(std::memory_order_relaxed);
        for (;;) {
            auto const by_time = accrued();
            auto const next = std::min(before + by_time, numbers_.most) + n;
            if (next < least)
                return false;
            auto const after = std::clamp<std::int64_t>(next, 0, numbers_.most) - by_time;
            if (tokens_.compare_exchange_weak(before, after, std::memory_order_relaxed))
                return true;
        }
    }

    static constexpr auto any = std::numeric_limits<std::int64_t>::min();

    retry_budget_options options_;
    detail::retry_numbers numbers_;
    time start_;
    std::atomic<std::int64_t> tokens_;  // without the tokens that time has added
    std::atomic<std::uint64_t> allowed_{0};
    std::atomic<std::uint64_t> rejected_{0};
};

/// A budget for the retries of a client; see `basic_retry_budget`.
using retry_budget = basic_retry_budget<>;

}  // namespace weir::inline v0_2
