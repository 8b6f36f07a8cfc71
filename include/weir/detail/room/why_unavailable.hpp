#pragma once

#include <weir/error.hpp>
#include <weir/time.hpp>

namespace weir::inline v0_2::detail {

/// A policy that may reject all requests, because its permits come from elsewhere.
template <class P>
concept may_be_unavailable = requires(P const& p, time_point now) { p.unavailable_until(now); };

/// Returns the error of requests that `p.unavailable_until` rejects.
template <may_be_unavailable P>
[[nodiscard]] errc why_unavailable(P const& p) noexcept {
    return p.is_misconfigured() ? errc::misconfigured : errc::unavailable;
}

}  // namespace weir::inline v0_2::detail
