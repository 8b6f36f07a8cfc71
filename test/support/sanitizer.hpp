#pragma once

namespace support {

#ifndef __has_feature
#define __has_feature(x) 0  // of clang; g++ defines __SANITIZE_...__
#endif
#if defined(__SANITIZE_THREAD__) || __has_feature(thread_sanitizer)
inline constexpr bool thread_sanitizer = true;
#else
inline constexpr bool thread_sanitizer = false;
#endif
#if defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer) ||                           \
    __has_feature(undefined_behavior_sanitizer)
inline constexpr bool sanitizer = true;
#else
inline constexpr bool sanitizer = thread_sanitizer;
#endif

}  // namespace support
