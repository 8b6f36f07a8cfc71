#pragma once

#include "admin/state.hpp"
#include "net/asio.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace proxy {

/// Counts durations, on any thread. Each thread uses one of `parts` sets of counters, which few or no other threads
/// share.
class latency_counter {
public:
    void count(net::clock::duration took) noexcept {
        auto const range =
            std::ranges::lower_bound(admin::latency::ends, took) - admin::latency::ends.begin();
        auto& mine = parts_[part_of_this_thread()];
        mine.counts[static_cast<std::size_t>(range)].fetch_add(1, std::memory_order_relaxed);
        mine.total.fetch_add(std::chrono::nanoseconds(took).count(), std::memory_order_relaxed);
    }

    [[nodiscard]] admin::latency sum() const noexcept {
        admin::latency all;
        for (auto const& one : parts_) {
            for (std::size_t i = 0; i != all.counts.size(); ++i)
                all.counts[i] += one.counts[i].load(std::memory_order_relaxed);
            all.total += std::chrono::nanoseconds(one.total.load(std::memory_order_relaxed));
        }
        return all;
    }

private:
    struct alignas(64) part {
        std::array<std::atomic<std::uint64_t>, admin::latency::ranges> counts{};
        std::atomic<std::int64_t> total = 0;  // ns
    };

    static std::size_t part_of_this_thread() noexcept {
        static std::atomic<std::size_t> threads = 0;
        thread_local std::size_t const mine = threads++;
        return mine % parts;
    }

    static constexpr std::size_t parts = 8;
    std::array<part, parts> parts_{};
};

}  // namespace proxy
