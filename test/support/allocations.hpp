#pragma once

#include <atomic>
#include <cstddef>

// Counts allocations and bytes, and can make an allocation fail: allocations.cpp replaces the global operators.

namespace support {

extern std::atomic<std::size_t> allocations_so_far;
// the number that still succeeds; none fails if it is negative
extern int allocations_until_failure;

/// The number of allocations since its construction.
class allocation_count {
public:
    [[nodiscard]] std::size_t operator()() const noexcept { return allocations_so_far - before_; }

private:
    std::size_t before_ = allocations_so_far;
};

/// The bytes of all memory that is allocated, with what malloc takes for itself.
extern std::atomic<std::ptrdiff_t> bytes_in_use;

/// The most that malloc adds to a block of a multiple of 16 bytes: its own 8 bytes, the alignment, and at times a rest of
/// 16 bytes that is too small for another block.
inline constexpr std::ptrdiff_t added_by_malloc = 32;

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
