#pragma once

namespace support {

#ifndef __has_feature
#define __has_feature(x) 0  // clang's; g++ defines __SANITIZE_THREAD__
#endif
/// By how much a storm on real threads is larger than under a sanitizer of threads.
#if defined(__SANITIZE_THREAD__) || __has_feature(thread_sanitizer)
inline constexpr int scale = 1;
#else
inline constexpr int scale = 5;
#endif

}  // namespace support
