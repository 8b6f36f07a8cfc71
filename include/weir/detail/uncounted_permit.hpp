#pragma once

#include <weir/amount.hpp>
#include <weir/permit.hpp>

namespace weir::inline v0_2::detail {

/// Returns a permit of `n` that no limiter counts: nothing that is done with it has an effect on a limiter.
[[nodiscard]] permit uncounted_permit(amount n) noexcept;

}  // namespace weir::inline v0_2::detail
