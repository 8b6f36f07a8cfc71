#pragma once

#include <weir/time.hpp>

#include <chrono>

namespace weir::inline v0_2::detail {

/// Returns the present time of `Clock`, in nanoseconds since its epoch.
template <class Clock>
[[nodiscard]] time_point read_clock() noexcept {
    return time_point(std::chrono::duration_cast<duration>(Clock::now().time_since_epoch()));
}

}  // namespace weir::inline v0_2::detail
