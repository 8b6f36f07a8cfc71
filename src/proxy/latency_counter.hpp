#pragma once

#include "admin/state.hpp"
#include "by_thread.hpp"
#include "net/asio.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace proxy {

/// Counts durations, on any thread.
class latency_counter {
public:
    void count(net::clock::duration took) noexcept {
        auto const range =
            std::ranges::lower_bound(admin::latency::ends, took) - admin::latency::ends.begin();
        auto& mine = parts_.mine();
        mine.counts[static_cast<std::size_t>(range)].fetch_add(1, std::memory_order_relaxed);
        mine.total.fetch_add(std::chrono::nanoseconds(took).count(), std::memory_order_relaxed);
    }

    [[nodiscard]] admin::latency sum() const noexcept {
        admin::latency all;
        parts_.for_each([&all](part const& one) {
            for (std::size_t i = 0; i != all.counts.size(); ++i)
                all.counts[i] += one.counts[i].load(std::memory_order_relaxed);
            all.total += std::chrono::nanoseconds(one.total.load(std::memory_order_relaxed));
        });
        return all;
    }

private:
    struct part {
        std::array<std::atomic<std::uint64_t>, admin::latency::ranges> counts{};
        std::atomic<std::int64_t> total = 0;  // ns
    };

    by_thread<part> parts_;
};

}  // namespace proxy
