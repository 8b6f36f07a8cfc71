#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace replay {

/// Sorts things that arrive roughly in time order into seconds. It releases a second when a thing arrives that is more
/// than `slack` later.
template <class T>
class by_second {
public:
    explicit by_second(std::chrono::seconds slack)
        : slack_(slack.count()), seconds_(static_cast<std::size_t>(slack_) + 1) {}

    /// Whether the second of `at` was released; a thing of that second cannot be added.
    [[nodiscard]] bool is_past(std::chrono::nanoseconds at) const noexcept {
        return has_begun_ && second_of(at) < oldest_;
    }

    /// Adds a thing and calls `release(second, things)` for each second that is due, in time order. The things of one
    /// second keep the order in which they were added.
    template <class Release>
    void add(std::chrono::nanoseconds at, T const& thing, Release release) {
        auto const second = second_of(at);
        if (!has_begun_) {
            has_begun_ = true;
            newest_ = second;
            oldest_ = second - slack_;
        }
        if (second > newest_) {
            release_before(second - slack_, release);
            newest_ = second;
        }
        bucket(second).push_back(thing);
    }

    /// Releases all remaining seconds.
    template <class Release>
    void flush(Release release) {
        if (has_begun_)
            release_before(newest_ + 1, release);
    }

private:
    [[nodiscard]] static std::int64_t second_of(std::chrono::nanoseconds at) noexcept {
        return std::chrono::floor<std::chrono::seconds>(at).count();
    }
    [[nodiscard]] std::vector<T>& bucket(std::int64_t second) noexcept {
        constexpr std::int64_t far = std::int64_t{1} << 40;  // makes all indices positive
        return seconds_[static_cast<std::size_t>(second + far) % seconds_.size()];
    }
    template <class Release>
    void release_before(std::int64_t end, Release release) {
        for (; oldest_ < end && oldest_ <= newest_; ++oldest_) {
            auto& things = bucket(oldest_);
            if (things.empty())
                continue;
            release(oldest_, things);
            things.clear();
        }
        oldest_ = std::max(oldest_, end);
    }

    std::int64_t slack_;
    std::vector<std::vector<T>> seconds_;
    bool has_begun_ = false;
    std::int64_t oldest_ = 0;
    std::int64_t newest_ = 0;
};

}  // namespace replay
