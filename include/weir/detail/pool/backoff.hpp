#pragma once

#include <weir/policy/stock.hpp>
#include <weir/time.hpp>

#include <cstdint>

namespace weir::detail {

/// When to try again after failures: from the options of a pool, with jitter.
class backoff {
public:
    explicit backoff(pool_options const& options) noexcept
        : first_(options.retry_first), most_(options.retry_most), jitter_(options.retry_jitter) {}

    [[nodiscard]] std::uint32_t failures() const noexcept { return failures_; }
    [[nodiscard]] time_point retry_at() const noexcept { return retry_at_; }

    /// An attempt has failed that was begun when there were `seen` failures: attempts that fail together
    /// count as one.
    void failed(std::uint32_t seen, time_point now) noexcept;
    void succeeded() noexcept {
        failures_ = 0;
        retry_at_ = time_point::min();
    }

private:
    duration first_;
    duration most_;
    double jitter_;
    std::uint32_t failures_ = 0;
    time_point retry_at_ = time_point::min();
};

}  // namespace weir::detail
