#pragma once

#include <cstddef>
#include <memory>
#include <new>

namespace support {

/// The record of a `counting_allocator`, and its instructions.
struct allocations {
    int made = 0;
    int live = 0;
    int until_failure = -1;  // the number that still succeeds; unlimited if negative
};

/// Counts the allocations of a handler, and can simulate a lack of memory.
template <class T = void>
class counting_allocator {
public:
    using value_type = T;

    explicit counting_allocator(allocations& counts) noexcept : counts_(&counts) {}
    template <class U>
    counting_allocator(counting_allocator<U> const& other) noexcept : counts_(other.counts_) {}

    [[nodiscard]] T* allocate(std::size_t n) {
        if (counts_->until_failure == 0)
            throw std::bad_alloc();
        --counts_->until_failure;
        ++counts_->made;
        ++counts_->live;
        return std::allocator<T>().allocate(n);
    }
    void deallocate(T* p, std::size_t n) noexcept {
        --counts_->live;
        std::allocator<T>().deallocate(p, n);
    }

    template <class U>
    friend bool operator==(counting_allocator const& a, counting_allocator<U> const& b) noexcept {
        return a.counts_ == b.counts_;
    }

private:
    template <class>
    friend class counting_allocator;

    allocations* counts_;
};

}  // namespace support
