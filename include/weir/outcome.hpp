#pragma once

#include <cstdint>

namespace weir::inline v0_2 {

/// The outcome of the work that a permit allowed, for `permit::report` and adaptive limiters.
enum class outcome : std::uint8_t {
    success,  ///< the work was done, and its duration counts
    dropped,  ///< the service rejected it or took too long because it is overloaded: there are too many seats
    ignored,  ///< no information about the capacity: the work was cancelled, or failed before it started
};

}  // namespace weir::inline v0_2
