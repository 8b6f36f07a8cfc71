#pragma once

#include <weir/amount.hpp>
#include <weir/error.hpp>
#include <weir/stats.hpp>
#include <weir/time.hpp>

#include <boost/asio/error.hpp>

#include <algorithm>

namespace weir::detail {

/// Counts what a limiter has done.
class counters {
public:
    void grant_at_once(amount n) noexcept {
        ++done_.granted;
        ++done_.granted_at_once;
        done_.permits_granted += n;
    }

    void grant(amount n, duration waited) noexcept {
        ++done_.granted;
        done_.permits_granted += n;
        done_.waited_total += waited;
        done_.waited_max = std::max(done_.waited_max, waited);
    }

    void overdue() noexcept { ++done_.overdue; }

    /// A request that has not waited.
    void refuse(error_code ec) noexcept {
        if (auto* const reason = counter_of(ec))
            ++*reason;
    }

    /// A request that has waited in vain.
    void refuse(error_code ec, duration waited) noexcept {
        refuse(ec);
        done_.refused_waited_total += waited;
        done_.refused_waited_max = std::max(done_.refused_waited_max, waited);
    }

    /// What has been done; the fields for the present are left to others.
    [[nodiscard]] limiter_stats const& done() const noexcept { return done_; }

private:
    [[nodiscard]] std::uint64_t* counter_of(error_code ec) noexcept {
        if (ec == boost::asio::error::operation_aborted)
            return &done_.cancelled;
        switch (static_cast<errc>(ec.value())) {
            case errc::limited:
                return &done_.limited;
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
        }
        return nullptr;
    }

    limiter_stats done_;
};

}  // namespace weir::detail
