#pragma once

#include <boost/asio/recycling_allocator.hpp>

#include <cstddef>

namespace weir::detail {

/// Memory inside a coroutine's frame for the one operation that the coroutine awaits.
class frame_memory {
public:
    static constexpr std::size_t size = 256;

    frame_memory() noexcept {}
    frame_memory(frame_memory const&) = delete;
    frame_memory& operator=(frame_memory const&) = delete;

private:
    template <class T>
    friend class frame_allocator;

    alignas(std::max_align_t) std::byte bytes_[size];
    bool taken_ = false;
};

/// Allocates the first object that fits from a `frame_memory`, and all other objects from Asio's cache.
template <class T>
class frame_allocator {
public:
    using value_type = T;

    explicit frame_allocator(frame_memory& memory) noexcept : memory_(&memory) {}
    template <class U>
    frame_allocator(frame_allocator<U> const& other) noexcept : memory_(other.memory_) {}

    [[nodiscard]] T* allocate(std::size_t n) {
        if constexpr (alignof(T) <= alignof(std::max_align_t)) {
            if (!memory_->taken_ && n <= frame_memory::size / sizeof(T)) {
                memory_->taken_ = true;
                return static_cast<T*>(static_cast<void*>(memory_->bytes_));
            }
        }
        return boost::asio::recycling_allocator<T>().allocate(n);
    }

    void deallocate(T* p, std::size_t n) noexcept {
        if (static_cast<void*>(p) == memory_->bytes_)
            memory_->taken_ = false;
        else
            boost::asio::recycling_allocator<T>().deallocate(p, n);
    }

    template <class U>
    [[nodiscard]] bool operator==(frame_allocator<U> const& other) const noexcept {
        return memory_ == other.memory_;
    }

private:
    template <class U>
    friend class frame_allocator;

    frame_memory* memory_;
};

}  // namespace weir::detail
