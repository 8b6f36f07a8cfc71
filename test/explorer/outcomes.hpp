#pragma once

#include <weir/stats.hpp>

#include <cstdint>

namespace explorer {

/// The outcomes of all requests.
struct outcomes : weir::limiter_stats {
    std::uint64_t chains_by_counting = 0;  // granted without the rooms
};

}  // namespace explorer
