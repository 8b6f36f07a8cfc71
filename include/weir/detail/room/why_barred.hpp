#pragma once

#include <weir/error.hpp>
#include <weir/policy/policy.hpp>

namespace weir::inline v0_2::detail {

/// Returns the error of requests that `p.barred` rejects.
template <fed_policy P>
[[nodiscard]] errc why_barred(P const& p) noexcept {
    return p.is_misconfigured() ? errc::misconfigured : errc::unavailable;
}

}  // namespace weir::inline v0_2::detail
