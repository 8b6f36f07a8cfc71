#pragma once

#include "support/sanitizer.hpp"

namespace support {

/// The factor by which a stress test on real threads is larger without ThreadSanitizer.
inline constexpr int scale = thread_sanitizer ? 1 : 5;

}  // namespace support
