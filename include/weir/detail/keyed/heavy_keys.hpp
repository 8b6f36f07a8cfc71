#pragma once

#include <weir/detail/key_handle.hpp>
#include <weir/heavy_hitters.hpp>

#include <cstdint>
#include <utility>

namespace weir::inline v0_2::detail {

/// The most frequent keys of a limiter, with the number of their rejections.
template <class Key>
class heavy_keys {
    using handle = key_handle<Key>;

    // A handle that releases its reference on destruction.
    class kept {
    public:
        kept() = default;
        explicit kept(handle h) noexcept : word_(h.word()), is_held_(true) {}
        kept(kept&& other) noexcept
            : rejected(other.rejected),
              word_(other.word_),
              is_held_(std::exchange(other.is_held_, false)) {}
        kept& operator=(kept&& other) noexcept {
            std::swap(word_, other.word_);
            std::swap(is_held_, other.is_held_);
            rejected = other.rejected;
            return *this;
        }
        ~kept() {
            if (is_held_)
                key().release();
        }

        [[nodiscard]] handle key() const noexcept { return handle::from(word_); }

        std::uint64_t rejected = 0;

    private:
        std::uint64_t word_ = 0;
        bool is_held_ = false;
    };

public:
    struct found {
        handle key;
        std::uint64_t hash;
        std::uint64_t count;
        std::uint64_t error;
        std::uint64_t rejected;
    };

    /// Without counters it counts nothing. Throws `std::bad_alloc`.
    explicit heavy_keys(std::uint32_t counters) : counted_(counters) {}

    [[nodiscard]] bool is_on() const noexcept { return counted_.is_on(); }

    /// Counts a request of `key`, and its rejection if `rejected`. `keep()` returns a handle of it, whose reference
    /// is released at the end. If `keep()` throws, the event is not counted.
    template <class Like, class Keep>
    void count(Like const& key, std::uint64_t hash, bool rejected, Keep keep) noexcept {
        auto const is_key = [&](kept const& k) { return k.key().key() == key; };
        try {
            counted_.count(hash, is_key, [&] { return kept(keep()); }).rejected += rejected;
        } catch (...) {}
    }
    /// Counts the rejection of requests that were counted on arrival.
    void reject(handle key, std::uint64_t hash, std::uint64_t times) noexcept {
        auto const is_key = [&](kept const& k) { return k.key().key() == key.key(); };
        if (auto* const k = counted_.find(hash, is_key))
            k->rejected += times;
    }

    /// The maximum number of requests of a key without a counter.
    [[nodiscard]] std::uint64_t count_without_counter() const noexcept {
        return counted_.count_without_counter();
    }
    /// Calls `f(found)` for each key that has a counter, in no order.
    template <class F>
    void for_each(F f) const {
        counted_.for_each([&](auto const& c) {
            f(found{c.key.key(), c.hash, c.count, c.error, c.key.rejected});
        });
    }

private:
    heavy_hitters<kept> counted_;
};

}  // namespace weir::inline v0_2::detail
