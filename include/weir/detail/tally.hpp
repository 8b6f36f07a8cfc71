#pragma once

#include <weir/error.hpp>
#include <weir/stats.hpp>
#include <weir/time.hpp>

#include <boost/asio/error.hpp>

#include <algorithm>

namespace weir::detail {

/// Counts what a limiter has done.
class tally {
public:
    void grant_at_once() noexcept {
        ++done_.granted;
        ++done_.granted_at_once;
    }

    void grant(duration waited) noexcept {
        ++done_.granted;
        done_.waited_total += waited;
        done_.waited_max = std::max(done_.waited_max, waited);
    }

    void overdue() noexcept { ++done_.overdue; }

    void refuse(error_code ec) noexcept {
        if (ec == boost::asio::error::operation_aborted) {
            ++done_.cancelled;
            return;
        }
        switch (static_cast<errc>(ec.value())) {
            case errc::limited:
                ++done_.limited;
                break;
            case errc::timed_out:
                ++done_.timed_out;
                break;
            case errc::deadline_unreachable:
                ++done_.deadline_unreachable;
                break;
            case errc::queue_full:
                ++done_.queue_full;
                break;
            case errc::shed:
                ++done_.shed;
                break;
            case errc::exceeds_capacity:
                ++done_.exceeds_capacity;
                break;
            case errc::closed:
                ++done_.closed;
                break;
        }
    }

    /// What has been done; what is so now is left to others.
    [[nodiscard]] stats const& done() const noexcept { return done_; }

private:
    stats done_;
};

}  // namespace weir::detail
