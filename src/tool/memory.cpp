#include "memory.hpp"

#include <sys/mman.h>

#ifdef __linux__
#include <malloc.h>
#include <unistd.h>
#endif

#include <cstdint>
#include <new>

#ifndef __has_feature
#define __has_feature(x) 0  // for clang; g++ defines __SANITIZE_...__
#endif

namespace tool {

void give_pages_back([[maybe_unused]] std::span<char> unused) noexcept {
#ifdef __linux__
    static auto const page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
    auto const begin = (reinterpret_cast<std::uintptr_t>(unused.data()) + page - 1) / page * page;
    auto const end = reinterpret_cast<std::uintptr_t>(unused.data() + unused.size()) / page * page;
    if (begin < end)
        ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
#endif
}

// A sanitizer replaces glibc's allocator, whose arenas then do not exist, so malloc_trim must not be called.
void give_memory_back() noexcept {
#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) &&       \
    !__has_feature(address_sanitizer) && !__has_feature(thread_sanitizer)
    malloc_trim(0);
#endif
}

pages::pages(std::size_t bytes) {
    void* const at =
        ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        throw std::bad_alloc();
    bytes_ = {static_cast<char*>(at), bytes};
}

pages::~pages() {
    ::munmap(bytes_.data(), bytes_.size());
}

}  // namespace tool
