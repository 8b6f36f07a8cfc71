#pragma once

#include <boost/asio/recycling_allocator.hpp>

#include <cstddef>

namespace weir::inline v0_2::detail {

/// Memory inside a coroutine's frame for the one operation that the coroutine awaits. `frame_memory_for` has the bytes.
class alignas(std::max_align_t) frame_memory {
public:
    frame_memory(frame_memory const&) = delete;
    frame_memory& operator=(frame_memory const&) = delete;

protected:
    explicit frame_memory(std::size_t size) noexcept : size_(size) {}
    ~frame_memory() = default;

private:
    template <class T>
    friend class frame_allocator;

    // A computed address, not a stored one: with that, g++ would warn of a `free` of memory in a frame.
    [[nodiscard]] void* bytes() noexcept { return this + 1; }

    std::size_t size_;
    bool taken_ = false;
};

/// A `frame_memory` for an object of the type `T`, or for no object if `T` is too large.
template <class T>
class frame_memory_for : public frame_memory {
public:
    /// The largest size: a coroutine's frame has such memory for each `co_await` of the coroutine.
    static constexpr std::size_t most = 512;

    /// Whether it has space for a `T`.
    static constexpr bool fits = sizeof(T) <= most && alignof(T) <= alignof(std::max_align_t);

    frame_memory_for() noexcept : frame_memory(fits ? sizeof(T) : 0) {
        static_assert(sizeof(frame_memory_for) == sizeof(frame_memory) + sizeof(bytes_));
    }

private:
    static constexpr std::size_t step = alignof(std::max_align_t);

    alignas(std::max_align_t) std::byte bytes_[fits ? (sizeof(T) + step - 1) / step * step : step];
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
            if (!memory_->taken_ && n <= memory_->size_ / sizeof(T)) {
                memory_->taken_ = true;
                return static_cast<T*>(memory_->bytes());
            }
        }
        return boost::asio::recycling_allocator<T>().allocate(n);
    }

    void deallocate(T* p, std::size_t n) noexcept {
        if (p == memory_->bytes())
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

}  // namespace weir::inline v0_2::detail
