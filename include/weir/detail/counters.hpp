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

    /// Adds the counts of another object.
    void add(limiter_stats const& done) noexcept;

    /// The counts of past events. The fields that describe the present are not set here.
    [[nodiscard]] limiter_stats const& done() const noexcept { return done_; }

private:
    [[nodiscard]] std::uint64_t* counter_of(error_code ec) noexcept {
        // The value alone is unique, and comparing categories would double the cost of a rejection.
        static_assert(boost::asio::error::operation_aborted > static_cast<int>(errc::lost));
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
                return &done_.unavailable;
            case errc::lost:  // not the result of a request
                break;
        }
        return nullptr;
    }

    limiter_stats done_;
};

inline void counters::add(limiter_stats const& done) noexcept {
    done_.granted += done.granted;
    done_.granted_immediately += done.granted_immediately;
    done_.permits_granted += done.permits_granted;
    done_.no_permit += done.no_permit;
    done_.timed_out += done.timed_out;
    done_.deadline_unreachable += done.deadline_unreachable;
    done_.queue_full += done.queue_full;
    done_.shed += done.shed;
    done_.exceeds_capacity += done.exceeds_capacity;
    done_.closed += done.closed;
    done_.too_many_keys += done.too_many_keys;
    done_.unavailable += done.unavailable;
    done_.cancelled += done.cancelled;
    done_.overdue += done.overdue;
    done_.waited_total += done.waited_total;
    done_.waited_max = std::max(done_.waited_max, done.waited_max);
    done_.rejected_waited_total += done.rejected_waited_total;
    done_.rejected_waited_max = std::max(done_.rejected_waited_max, done.rejected_waited_max);
}

/// The sum of the counts and the present state of all parts of a keyed limiter.
class keyed_sum {
public:
    void add(keyed_stats const& part) noexcept {
        done_.add(part.total);
        sum_.total.name = part.total.name;
        sum_.total.live += part.total.live;
        sum_.total.in_use += part.total.in_use;
        sum_.total.waiting += part.total.waiting;
        sum_.total.waiting_for += part.total.waiting_for;
        sum_.keys += part.keys;
    }
    [[nodiscard]] keyed_stats result() const noexcept {
        auto all = sum_;
        all.total = done_.done();
        all.total.name = sum_.total.name;
        all.total.live = sum_.total.live;
        all.total.in_use = sum_.total.in_use;
        all.total.waiting = sum_.total.waiting;
        all.total.waiting_for = sum_.total.waiting_for;
        return all;
    }

private:
    counters done_;
    keyed_stats sum_;
};

}  // namespace weir::inline v0_2::detail
