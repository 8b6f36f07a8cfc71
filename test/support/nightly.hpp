#pragma once

#include <cstdlib>

namespace support {

/// Whether `test/run --nightly` runs the test. Tests of many random schedules, or of hours of virtual time, do a part of
/// their work otherwise: a change breaks them soon, and the nightly seeds find the rest.
[[nodiscard]] inline bool is_nightly() {
    return std::getenv("WEIR_NIGHTLY") != nullptr;
}

}  // namespace support
