#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

namespace weir::inline v0_2::policy {

/// A queue with random access whose memory follows its size. No operation copies more than a block and the addresses of
/// the blocks.
///
/// Up to a block of values is a ring, which grows by doubling and shrinks when it is empty. More values are in blocks, of
/// which at most two are not full, and a ring has their addresses.
///
/// Preconditions: the default constructor of `T` does not throw, and there are less than 2^31 blocks.
template <class T>
class block_queue {
    static_assert(std::is_trivially_copyable_v<T>);

public:
    static constexpr std::size_t block_size = 256;

    /// An empty queue without memory.
    block_queue() = default;
    /// An empty queue with memory for `n` values, at most a block.
    explicit block_queue(std::size_t n)
        : places_(static_cast<std::uint32_t>(
              std::bit_ceil(std::clamp<std::size_t>(n, 1, block_size)))) {
        ring_ = new T[places_];
    }
    block_queue(block_queue&& other) noexcept { swap(other); }
    block_queue(block_queue const& other) : block_queue(other.size()) {
        for (std::size_t i = 0; i != other.size(); ++i) {
            if (!try_push_back(other[i]))
                throw std::bad_alloc();  // the first constructor has ended, so the destructor runs
        }
    }
    block_queue& operator=(block_queue other) noexcept {
        swap(other);
        return *this;
    }
    ~block_queue() {
        if (!is_in_blocks())
            delete[] ring_;
        else
            free_all_blocks();
    }
    void swap(block_queue& other) noexcept {
        std::swap(ring_, other.ring_);
        std::swap(size_, other.size_);
        std::swap(first_, other.first_);
        std::swap(places_, other.places_);
        std::swap(front_, other.front_);
        std::swap(blocks_, other.blocks_);
    }

    [[nodiscard]] std::size_t size() const noexcept { return size_; }
    [[nodiscard]] bool empty() const noexcept { return size_ == 0; }
    /// The size of the heap memory.
    [[nodiscard]] std::size_t heap_bytes() const noexcept {
        return is_in_blocks() ? blocks_ * block_size * sizeof(T) + places_ * sizeof(T*)
                              : places_ * sizeof(T);
    }

    [[nodiscard]] T& operator[](std::size_t i) noexcept { return at(i); }
    [[nodiscard]] T const& operator[](std::size_t i) const noexcept { return at(i); }
    [[nodiscard]] T& back() noexcept { return at(size_ - 1); }
    [[nodiscard]] T const& back() const noexcept { return at(size_ - 1); }

    /// Appends a value. Returns false, without an effect, if memory is lacking.
    [[nodiscard]] bool try_push_back(T const& value) noexcept {
        if (is_full() && !try_grow())
            return false;
        at(size_++) = value;
        return true;
    }

    /// Removes the first `n` values. An empty queue keeps memory for at least one.
    void pop_front(std::size_t n) noexcept {
        size_ -= n;
        auto const begin = first_ + n;
        if (is_in_blocks() && begin < block_size) [[likely]] {
            first_ = static_cast<std::uint32_t>(begin);
            return;
        }
        if (!is_in_blocks()) {
            first_ = static_cast<std::uint32_t>(begin & (places_ - 1));
            if (size_ == 0 && places_ > least_places)
                shrink_ring();
            return;
        }
        first_ = static_cast<std::uint32_t>(begin % block_size);
        for (auto passed = begin / block_size; passed != 0; --passed) {
            if (blocks_ == 1)
                break;
            delete[] std::exchange(block(0), nullptr);
            front_ = (front_ + 1) & (places_ - 1);
            --blocks_;
        }
        become_ring_if_possible();
    }

    /// Removes all but the first `n` values.
    void truncate(std::size_t n) noexcept {
        size_ = n;
        if (!is_in_blocks())
            return;
        auto const used = std::max<std::size_t>((first_ + size_ + block_size - 1) / block_size, 1);
        while (blocks_ > used)
            delete[] std::exchange(block(--blocks_), nullptr);
        become_ring_if_possible();
    }

private:
    static constexpr std::uint32_t least_places = 8;
    static constexpr std::uint32_t least_addresses = 4;

    [[nodiscard]] bool is_in_blocks() const noexcept { return blocks_ != 0; }
    [[nodiscard]] bool is_full() const noexcept {
        return is_in_blocks() ? first_ + size_ == blocks_ * block_size : size_ == places_;
    }
    [[nodiscard]] T*& block(std::size_t i) const noexcept {
        return addresses_[(front_ + i) & (places_ - 1)];
    }
    [[nodiscard, gnu::always_inline]] T& at(std::size_t i) const noexcept {
        auto const place = first_ + i;
        return is_in_blocks() ? block(place / block_size)[place % block_size]
                              : ring_[place & (places_ - 1)];
    }

    [[nodiscard]] bool try_grow() noexcept {
        if (!is_in_blocks() && places_ < block_size)
            return try_double_ring();
        if (!is_in_blocks() && !try_become_blocks())
            return false;
        if (blocks_ == places_ && !try_double_addresses())
            return false;
        auto* const next = new (std::nothrow) T[block_size];
        if (next)
            block(blocks_++) = next;
        else
            become_ring_if_possible();
        return next != nullptr;
    }
    [[nodiscard]] bool try_double_ring() noexcept {
        auto const places = std::max(2 * places_, least_places);
        auto* const larger = new (std::nothrow) T[places];
        if (!larger)
            return false;
        for (std::size_t i = 0; i != size_; ++i)
            larger[i] = at(i);
        delete[] std::exchange(ring_, larger);
        places_ = places;
        first_ = 0;
        return true;
    }
    void shrink_ring() noexcept {
        if (auto* const smaller = new (std::nothrow) T[least_places]) {
            delete[] std::exchange(ring_, smaller);
            places_ = least_places;
            first_ = 0;
        }
    }
    // The ring becomes the first block.
    [[nodiscard]] bool try_become_blocks() noexcept {
        auto** const addresses = new (std::nothrow) T*[least_addresses];
        if (!addresses)
            return false;
        std::rotate(ring_, ring_ + first_, ring_ + block_size);
        addresses[0] = ring_;
        addresses_ = addresses;
        places_ = least_addresses;
        blocks_ = 1;
        first_ = front_ = 0;
        return true;
    }
    [[nodiscard]] bool try_double_addresses() noexcept {
        auto** const more = new (std::nothrow) T*[std::size_t{2} * places_];
        if (!more)
            return false;
        for (std::size_t i = 0; i != blocks_; ++i)
            more[i] = block(i);
        delete[] std::exchange(addresses_, more);
        places_ *= 2;
        front_ = 0;
        return true;
    }
    // One block is a ring.
    void become_ring_if_possible() noexcept {
        if (blocks_ != 1)
            return;
        auto* const only = block(0);
        delete[] addresses_;
        ring_ = only;
        places_ = block_size;
        blocks_ = 0;
    }
    void free_all_blocks() noexcept {
        for (std::size_t i = 0; i != blocks_; ++i)
            delete[] block(i);
        delete[] addresses_;
    }

    union {
        T* ring_ = nullptr;
        T** addresses_;  // of the blocks
    };
    std::size_t size_ = 0;
    std::uint32_t first_ = 0;   // the place of the first value, in the ring or in the first block
    std::uint32_t places_ = 0;  // of the ring, or for addresses: a power of two
    std::uint32_t front_ = 0;   // the place of the address of the first block
    std::uint32_t blocks_ = 0;  // 0 for a ring
};

}  // namespace weir::inline v0_2::policy
