#pragma once

#include <weir/amount.hpp>
#include <weir/error.hpp>

#include "config/bandwidth.hpp"
#include "selection.hpp"

#include <algorithm>

/// The portions in which transfers take the bytes of a limit.
namespace limiting {

inline constexpr weir::amount least_portion = 1'460;  // a segment of TCP
inline constexpr weir::amount most_of_portion = 65'536;

/// Returns the most bytes that a transfer may take at once of a limit with this rate, of which `transfers` want bytes
/// now: as many as the rate allows in 20 ms, divided by these transfers, from 1,460 to 65,536, and at most the burst.
/// So all of them get the same, whatever each of them has to send.
[[nodiscard]] inline weir::amount portion_of(config::byte_rate const& r,
                                             weir::amount transfers) noexcept {
    constexpr weir::amount turns_per_second = 50;
    auto const fair = r.per_second / turns_per_second / std::max<weir::amount>(transfers, 1);
    return std::min(std::clamp(fair, least_portion, most_of_portion), r.burst);
}

/// Takes permits for `n` bytes that pass a dry run, as many as the limit has now. Returns the number of the other
/// bytes, which would have waited, and take nothing. `burst` is the burst of the limiter `at`.
template <class Limit, class RequestInfo>
[[nodiscard]] weir::amount take_or_count(Limit& l, RequestInfo const& who, selected at,
                                         weir::amount n, weir::amount burst) {
    for (auto size = std::min(n, burst); size > 0;) {
        at.cost = size;
        weir::error_code ec;
        if (l.try_enter(who, at, ec)) {
            n -= size;
            size = std::min(size, n);
        } else {
            size /= 2;
        }
    }
    return n;
}

}  // namespace limiting
