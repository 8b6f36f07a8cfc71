#pragma once

#include <weir/error.hpp>
#include <weir/time.hpp>

namespace weir::inline v0_2::detail {

/// A policy that may reject all requests, because its permits come from elsewhere.
template <class P>
concept barring = requires(P const& p, time_point now) { p.barred(now); };

/// Returns the error of requests that `p.barred` rejects.
template <barring P>
[[nodiscard]] errc why_barred(P const& p) noexcept {
    return p.is_misconfigured() ? errc::misconfigured : errc::unavailable;
}

}  // namespace weir::inline v0_2::detail
