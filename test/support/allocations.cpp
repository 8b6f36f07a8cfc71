#include "support/allocations.hpp"

#include <malloc.h>

#include <cstdlib>
#include <new>

namespace support {

std::atomic<std::size_t> allocations_so_far = 0;
int allocations_until_failure = -1;
std::atomic<std::ptrdiff_t> bytes_in_use = 0;

}  // namespace support

namespace {

std::ptrdiff_t bytes_of(void* memory) noexcept {
    return memory ? static_cast<std::ptrdiff_t>(malloc_usable_size(memory) + sizeof(std::size_t))
                  : 0;
}

}  // namespace

// Not inline: g++ would report the malloc in one and the free in the other as a mismatch.
[[gnu::noinline]] void* operator new(std::size_t size) {
    support::allocations_so_far.fetch_add(1, std::memory_order_relaxed);
    auto& left = support::allocations_until_failure;
    if (left >= 0 && left-- == 0)
        throw std::bad_alloc();
    void* const memory = std::malloc(size == 0 ? 1 : size);
    if (!memory)
        throw std::bad_alloc();
    support::bytes_in_use.fetch_add(bytes_of(memory), std::memory_order_relaxed);
    return memory;
}
[[gnu::noinline]] void operator delete(void* memory) noexcept {
    support::bytes_in_use.fetch_sub(bytes_of(memory), std::memory_order_relaxed);
    std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept {
    operator delete(memory);
}

// These call the functions above anyway: a sanitizer has its own versions.
[[gnu::noinline]] void* operator new(std::size_t size, std::nothrow_t const&) noexcept {
    try {
        return operator new(size);
    } catch (std::bad_alloc const&) {
        return nullptr;
    }
}
[[gnu::noinline]] void* operator new[](std::size_t size) {
    return operator new(size);
}
[[gnu::noinline]] void* operator new[](std::size_t size, std::nothrow_t const& tag) noexcept {
    return operator new(size, tag);
}
[[gnu::noinline]] void operator delete[](void* memory) noexcept {
    operator delete(memory);
}
[[gnu::noinline]] void operator delete[](void* memory, std::size_t) noexcept {
    operator delete(memory);
}
