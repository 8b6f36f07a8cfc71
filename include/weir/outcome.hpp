#pragma once

#include <cstdint>

namespace weir {

/// How it went for the holder of a permit: what `permit::report` tells an adaptive limiter.
enum class outcome : std::uint8_t {
    success,  ///< it was served, and the time that it took counts
    dropped,  ///< it was rejected or took too long for want of capacity: there are too many seats
    ignored,  ///< says nothing about capacity: it was cancelled, or failed before it did any work
};

}  // namespace weir
