#pragma once

#include <weir/policy/policy.hpp>
#include <weir/time.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace weir::inline v0_2::policy {

/// The greatest level of a bucket in drops, so that no product of a store overflows.
inline constexpr std::int64_t most_level = std::int64_t{1} << 61;

/// The ticket of permits granted without the store, and of debt. The times of a store never have this value.
inline constexpr ticket without_store = ticket{1} << 63;
inline constexpr ticket in_debt = 0;

/// Returns the ticket of permits with two tickets.
[[nodiscard]] inline ticket merge_tickets(ticket a, ticket b) noexcept {
    auto const [least, most] = std::minmax(a, b);
    return most == without_store && least != in_debt ? without_store : least;
}

/// Returns `n` microseconds. The result may exceed the range of nanoseconds.
[[nodiscard]] inline duration of_microseconds(std::int64_t n) noexcept {
    return times(std::chrono::microseconds(1), std::max<std::int64_t>(n, 0));
}

}  // namespace weir::inline v0_2::policy
