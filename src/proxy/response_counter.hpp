#pragma once

#include "admin/state.hpp"
#include "by_thread.hpp"
#include "latency_counter.hpp"
#include "net/asio.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

namespace proxy {

/// Counts the responses to the requests of a route by status, and their times, on any thread.
class response_counter {
public:
    void count_status(unsigned status) noexcept {
        statuses_.mine()[cell_of(status)].fetch_add(1, std::memory_order_relaxed);
    }
    void count_time(net::clock::duration took) noexcept { times_.count(took); }

    [[nodiscard]] admin::route_state sum(std::string name) const;

private:
    // The registered statuses of each class, from N00 on, have a cell each; the further statuses of a class share one.
    static constexpr std::array<unsigned, 5> registered{4, 9, 9, 52, 12};
    static constexpr std::size_t cells = 4 + 9 + 9 + 52 + 12 + registered.size() + 1;

    static constexpr std::size_t cell_of(unsigned status) noexcept {
        std::size_t first = 0;
        for (unsigned i = 0; i != registered.size(); ++i) {
            if (status / 100 == i + 1)
                return first + std::min(status % 100, registered[i]);
            first += registered[i] + 1;
        }
        return first;
    }

    by_thread<std::array<std::atomic<std::uint64_t>, cells>> statuses_;
    latency_counter times_;
};

}  // namespace proxy
