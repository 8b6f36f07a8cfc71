#pragma once

#include <weir/error.hpp>
#include <weir/wait_histogram.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace replay {

using std::chrono::nanoseconds;

/// Totals of an interval.
struct point {
    std::uint64_t asked = 0;
    std::uint64_t granted = 0;
    std::uint64_t rejected = 0;
    std::uint64_t waiting = 0;  // largest number at any time

    void add(point const& p) noexcept {
        asked += p.asked;
        granted += p.granted;
        rejected += p.rejected;
        waiting = std::max(waiting, p.waiting);
    }
};

/// Totals over time, in intervals of equal length. Above `most_points` intervals, neighbouring ones are merged in
/// pairs.
class series {
public:
    static constexpr std::size_t most_points = 600;

    /// Returns the interval that contains `t`, which must not be earlier than the interval of the first call.
    [[nodiscard]] point& at(nanoseconds t) {
        if (points_.empty()) {
            begin_ = std::chrono::floor<std::chrono::seconds>(t);
            points_.resize(1);
        }
        if (t < end_ && t >= end_ - width_)
            return points_[last_];
        auto i = static_cast<std::size_t>((t - begin_) / width_);
        while (i >= most_points) {
            halve();
            i = static_cast<std::size_t>((t - begin_) / width_);
        }
        if (i >= points_.size())
            points_.resize(i + 1);
        last_ = i;
        end_ = begin_ + width_ * static_cast<std::int64_t>(i + 1);
        return points_[i];
    }

    [[nodiscard]] nanoseconds begin() const noexcept { return begin_; }
    [[nodiscard]] nanoseconds width() const noexcept { return width_; }
    [[nodiscard]] std::vector<point> const& points() const noexcept { return points_; }

private:
    void halve() {
        for (std::size_t i = 0; i != points_.size(); ++i) {
            auto const p = std::exchange(points_[i], {});
            points_[i / 2].add(p);
        }
        points_.resize((points_.size() + 1) / 2);
        width_ *= 2;
    }

    nanoseconds begin_{};
    nanoseconds width_ = std::chrono::seconds(1);
    std::vector<point> points_;
    std::size_t last_ = 0;  // index of the interval of the last call
    nanoseconds end_{};     // end of that interval
};

/// The number of rejections for each reason, indexed by `errc`.
using reasons = std::array<std::uint64_t, static_cast<std::size_t>(weir::errc::lost) + 1>;

struct rule_outcome {
    std::string text;
    bool dry_run = false;  // `rejected` counts requests that the rule would have rejected
    reasons rejected{};
};

/// A key and what it transferred.
struct key_bytes {
    std::string key;
    std::uint64_t bytes = 0;
    std::uint64_t busiest_second = 0;
    nanoseconds waited{};  // the sum of the waits of its transfers
};

/// The effect of one direction of a limit of bytes.
struct byte_outcome {
    std::string text;
    bool is_up = false;
    bool dry_run = false;
    std::uint64_t transfers = 0;
    std::uint64_t bytes = 0;
    std::uint64_t busiest_second = 0;  // bytes of all keys in the second with the most
    std::uint64_t late = 0;            // bytes that a dry run would have delayed
    nanoseconds waited{};              // the sum of the waits of transfers
    std::uint64_t keys = 0;            // with bytes
    std::vector<key_bytes> top_keys = {};
};

/// A key with rejected requests.
struct rejected_key {
    std::string what;  // kind of key, such as `client`
    std::string key;
    std::uint64_t asked = 0;
    std::uint64_t rejected = 0;
};

/// The effect of a plan on the requests of a log. Each request counts in one of the first six numbers.
struct outcome {
    std::string name;
    std::uint64_t at_once = 0;   // granted immediately
    std::uint64_t waited = 0;    // granted after a wait
    std::uint64_t later = 0;     // granted after retries
    std::uint64_t rejected = 0;  // rejected, after all retries
    std::uint64_t answered = 0;  // answered by a route, or without a matching route
    std::uint64_t open = 0;      // not decided when the replay was interrupted

    [[nodiscard]] std::uint64_t asked() const noexcept {
        return at_once + waited + later + rejected + answered + open;
    }
    [[nodiscard]] double rejected_share() const noexcept {
        return asked() == 0 ? 0 : static_cast<double>(rejected) / static_cast<double>(asked());
    }

    std::vector<rule_outcome> rules;  // in the order of the plan
    std::uint64_t came_back = 0;      // number of retries

    weir::wait_histogram waits;  // waits of requests that were granted after a wait
    nanoseconds longest_wait{};

    std::vector<byte_outcome> bandwidths;  // in the order of the plan
    weir::wait_histogram slowed;           // how much later responses ended than in the log
    nanoseconds longest_slowed{};

    bool holds = false;             // the plan has seats
    std::uint64_t peak_in_use = 0;  // largest number of concurrent requests
    std::uint64_t longest_queue = 0;

    std::vector<rejected_key> top_rejected;
    series over_time;
};

/// Returns the wait that the part `q` of all granted requests did not exceed. A request that was granted immediately
/// waited for 0.
[[nodiscard]] nanoseconds wait_of_granted(outcome const& o, double q) noexcept;

/// Returns the text of a reason, such as `queue full`.
[[nodiscard]] char const* text_of(weir::errc why) noexcept;

}  // namespace replay
