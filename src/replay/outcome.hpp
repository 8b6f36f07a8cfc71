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

/// What happened in a piece of time.
struct point {
    std::uint64_t asked = 0;
    std::uint64_t granted = 0;
    std::uint64_t rejected = 0;
    std::uint64_t waiting = 0;  // the most at a time

    void add(point const& p) noexcept {
        asked += p.asked;
        granted += p.granted;
        rejected += p.rejected;
        waiting = std::max(waiting, p.waiting);
    }
};

/// What happened, over time. Whenever there are too many pieces, two and two become one.
class series {
public:
    static constexpr std::size_t most_points = 600;

    /// The piece of time at `t`, which is not before that of the first call.
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
    std::size_t last_ = 0;  // of the last call
    nanoseconds end_{};     // of that piece
};

/// How many rejections there were for each reason, an `errc`.
using reasons = std::array<std::uint64_t, static_cast<std::size_t>(weir::errc::lost) + 1>;

struct rule_outcome {
    std::string text;
    bool dry_run = false;  // it would have rejected so many, and has rejected none
    reasons rejected{};
};

/// A key of which requests were rejected.
struct rejected_key {
    std::string what;  // such as `client`
    std::string key;
    std::uint64_t asked = 0;
    std::uint64_t rejected = 0;
};

/// What would have become of the requests of a log. Each of them is one of the first six.
struct outcome {
    std::string name;
    std::uint64_t at_once = 0;
    std::uint64_t waited = 0;
    std::uint64_t later = 0;     // granted when it came back
    std::uint64_t rejected = 0;  // for good
    std::uint64_t answered = 0;  // by a route itself, or without any
    std::uint64_t open = 0;      // waiting when the replay was broken off

    [[nodiscard]] std::uint64_t asked() const noexcept {
        return at_once + waited + later + rejected + answered + open;
    }
    [[nodiscard]] double rejected_share() const noexcept {
        return asked() == 0 ? 0 : static_cast<double>(rejected) / static_cast<double>(asked());
    }

    std::vector<rule_outcome> rules;  // in their order
    std::uint64_t came_back = 0;      // how often, after a rejection

    weir::wait_histogram waits;  // of those that were granted after a wait
    nanoseconds longest_wait{};

    bool holds = false;             // whether something is in use: seats
    std::uint64_t peak_in_use = 0;  // requests at a time
    std::uint64_t longest_queue = 0;

    std::vector<rejected_key> top_rejected;
    series over_time;
};

/// As text: `queue full`.
[[nodiscard]] char const* text_of(weir::errc why) noexcept;

}  // namespace replay
