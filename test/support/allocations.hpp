#pragma once

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

// Counts allocations, by replacing the global operators: for one source file of a program.

namespace support {

inline std::atomic<std::size_t> allocations_so_far = 0;

/// How many allocations there have been since this was made.
class allocation_count {
public:
    [[nodiscard]] std::size_t operator()() const noexcept { return allocations_so_far - before_; }

private:
    std::size_t before_ = allocations_so_far;
};

}  // namespace support

// Not inline, or g++ takes the malloc in one and the free in the other for a mismatch.
[[gnu::noinline]] void* operator new(std::size_t size) {
    support::allocations_so_far.fetch_add(1, std::memory_order_relaxed);
    if (void* const memory = std::malloc(size == 0 ? 1 : size))
        return memory;
    throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept {
    std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept {
    std::free(memory);
}
