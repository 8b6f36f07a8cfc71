#pragma once

#include <weir/amount.hpp>
#include <weir/limiter_name.hpp>
#include <weir/time.hpp>

namespace weir::inline v0_2::detail {

/// The data of a rejection by one limiter, besides its error code.
struct rejected {
    duration retry_after = forever;  // if it is unknown
    limiter_name by{};

    /// With `errc::exceeds_capacity`: the permits of the request, or 0 if they are not stored.
    amount requested = 0;
    amount capacity = 0;
};

}  // namespace weir::inline v0_2::detail
