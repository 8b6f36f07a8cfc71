#pragma once

#include "support/sanitizer.hpp"

namespace support {

/// By how much a storm on real threads is larger than under a sanitizer of threads.
inline constexpr int scale = thread_sanitizer ? 1 : 5;

}  // namespace support
