#pragma once

#include <malloc.h>

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

// Counts allocations and bytes, and can make an allocation fail, by replacing the global operators: for one source file
// of a program.

namespace support {

inline std::atomic<std::size_t> allocations_so_far = 0;
// the number that still succeeds; none fails if it is negative
inline int allocations_until_failure = -1;

/// The number of allocations since its construction.
class allocation_count {
public:
    [[nodiscard]] std::size_t operator()() const noexcept { return allocations_so_far - before_; }

private:
    std::size_t before_ = allocations_so_far;
};

/// The bytes of all memory that is allocated, with what malloc takes for itself.
inline std::atomic<std::ptrdiff_t> bytes_in_use = 0;
inline std::ptrdiff_t bytes_of(void* memory) noexcept {
    return memory ? static_cast<std::ptrdiff_t>(malloc_usable_size(memory) + sizeof(std::size_t))
                  : 0;
}

/// Calls `f` and makes only its allocation number `k`, from 0, throw `std::bad_alloc`. Returns whether there was one.
/// Only for programs with one thread.
template <class F>
bool with_failing_allocation(int k, F f) {
    struct guard {
        ~guard() { allocations_until_failure = -1; }
    } const at_end;
    allocations_until_failure = k;
    f();
    return allocations_until_failure < 0;
}

}  // namespace support

// Not inline: g++ would report the malloc in one and the free in the other as a mismatch.
[[gnu::noinline]] void* operator new(std::size_t size) {
    support::allocations_so_far.fetch_add(1, std::memory_order_relaxed);
    auto& left = support::allocations_until_failure;
    if (left >= 0 && left-- == 0)
        throw std::bad_alloc();
    void* const memory = std::malloc(size == 0 ? 1 : size);
    if (!memory)
        throw std::bad_alloc();
    support::bytes_in_use.fetch_add(support::bytes_of(memory), std::memory_order_relaxed);
    return memory;
}
[[gnu::noinline]] void operator delete(void* memory) noexcept {
    support::bytes_in_use.fetch_sub(support::bytes_of(memory), std::memory_order_relaxed);
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
