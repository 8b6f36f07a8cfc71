#pragma once

#include "support/sanitizer.hpp"

#include <cstdlib>

namespace support {

/// True if WEIR_QUIET tells that nothing else uses the machine. Only then a test compares speeds and shares that depend
/// on the load with their aims; the nightly tests do so, one at a time. A sanitizer is a load.
inline bool quiet_machine() {
    return std::getenv("WEIR_QUIET") != nullptr && !sanitizer;
}

}  // namespace support
