#include "memory.hpp"

#ifdef __linux__
#include <malloc.h>
#endif

#ifndef __has_feature
#define __has_feature(x) 0  // for clang; g++ defines __SANITIZE_...__
#endif

namespace tool {

// A sanitizer replaces glibc's allocator, whose arenas then do not exist, so malloc_trim must not be called.
void give_memory_back() noexcept {
#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) &&       \
    !__has_feature(address_sanitizer) && !__has_feature(thread_sanitizer)
    malloc_trim(0);
#endif
}

}  // namespace tool
