#pragma once

#include <weir/amount.hpp>
#include <weir/error.hpp>
#include <weir/stats.hpp>
#include <weir/time.hpp>

#include <boost/asio/error.hpp>

#include <algorithm>
#include <cstdint>

namespace weir::inline v0_2::detail {

/// Counts the decisions of a limiter.
class counters {
public:
    void grant_at_once(amount n) noexcept {
        ++done_.granted;
        ++done_.granted_immediately;
        done_.permits_granted += n;
    }

    /// Counts immediate grants of one permit each.
    void grant_ones(std::uint64_t many) noexcept {
        done_.granted += many;
        done_.granted_immediately += many;
        done_.permits_granted += static_cast<amount>(many);
    }

    void grant(amount n, duration waited) noexcept {
        ++done_.granted;
        done_.permits_granted += n;
        done_.waited_total += waited;
        done_.waited_max = std::max(done_.waited_max, waited);
    }

    void overdue() noexcept { ++done_.overdue; }

    // Count requests that pass in a dry run.
    void would_reject() noexcept { ++done_.would_reject; }
    void would_wait() noexcept { ++done_.would_wait; }

    /// Counts a rejection without a wait.
    void reject(error_code ec) noexcept {
        if (auto* const reason = counter_of(ec))
            ++*reason;
    }

    /// Counts a rejection after a wait.
    void reject(error_code ec, duration waited) noexcept {
        reject(ec);
        done_.rejected_waited_total += waited;
        done_.rejected_waited_max = std::max(done_.rejected_waited_max, waited);
    }

    /// The counts of past events. The fields that describe the present are not set here.
    [[nodiscard]] limiter_stats const& done() const noexcept { return done_; }

private:
    [[nodiscard]] std::uint64_t* counter_of(error_code ec) noexcept {
        // The value alone is unique, and comparing categories would double the cost of a rejection.
        static_assert(
            boost::asio::error::operation_aborted > static_cast<int>(errc::misconfigured));
        if (ec.value() == boost::asio::error::operation_aborted)
            return &done_.cancelled;
        switch (static_cast<errc>(ec.value())) {
            case errc::no_permit:
                return &done_.no_permit;
            case errc::timed_out:
                return &done_.timed_out;
            case errc::deadline_unreachable:
                return &done_.deadline_unreachable;
            case errc::queue_full:
                return &done_.queue_full;
            case errc::shed:
                return &done_.shed;
            case errc::exceeds_capacity:
                return &done_.exceeds_capacity;
            case errc::closed:
                return &done_.closed;
            case errc::too_many_keys:
                return &done_.too_many_keys;
            case errc::unavailable:
            case errc::misconfigured:
                return &done_.unavailable;
            case errc::lost:  // not the result of a request
                break;
        }
        return nullptr;
    }

    limiter_stats done_;
};

}  // namespace weir::inline v0_2::detail
