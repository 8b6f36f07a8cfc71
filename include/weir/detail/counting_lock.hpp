#pragma once

#include <weir/amount.hpp>

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace weir::inline v0_2::detail {

/// What happens to one permit without the lock.
enum class counting : std::uint8_t { nothing, take, put_back };

/// The word of a `counting_lock`.
///
/// | bits  | meaning                                                                            |
/// |-------|------------------------------------------------------------------------------------|
/// | 0-1   | free, locked, or locked and awaited; unless it is free, all other bits are 0       |
/// | 2     | it counts: permits may be taken and put back                                       |
/// | 3-31  | the number of permits that are left                                                |
/// | 32-63 | the number of permits that were taken since the lock was released                  |
class counting_word {
public:
    using bits = std::uint64_t;

    enum : bits { free, locked, awaited };

    /// A free lock that does not count.
    constexpr counting_word() noexcept = default;
    constexpr explicit counting_word(bits b) noexcept : bits_(b) {}
    /// Returns a free lock that counts `left` permits, or as many as fit; without a count if `left` is negative.
    [[nodiscard]] static constexpr counting_word of(amount left) noexcept {
        return left < 0 ? counting_word()
                        : counting_word(does_count |
                                        std::min(static_cast<bits>(left), most_given) * one);
    }

    [[nodiscard]] constexpr bits get() const noexcept { return bits_; }
    [[nodiscard]] constexpr bool is_free() const noexcept { return (bits_ & state) == free; }
    [[nodiscard]] constexpr bool counts() const noexcept { return (bits_ & does_count) != 0; }
    [[nodiscard]] constexpr amount left() const noexcept {
        return static_cast<amount>((bits_ & permits) / one);
    }
    [[nodiscard]] constexpr std::uint64_t taken() const noexcept { return bits_ / one_taken; }

    /// Before the number of taken permits overflows, the lock is needed, which resets it.
    [[nodiscard]] constexpr bool can_take() const noexcept {
        return (bits_ & (state | does_count)) == does_count && (bits_ & permits) != 0 &&
               bits_ < full;
    }
    [[nodiscard]] constexpr counting_word after_take() const noexcept {
        return counting_word(bits_ - one + one_taken);
    }
    [[nodiscard]] constexpr bool can_put_back() const noexcept {
        return (bits_ & (state | does_count)) == does_count && (bits_ & permits) != permits;
    }
    [[nodiscard]] constexpr counting_word after_put_back() const noexcept {
        return counting_word(bits_ + one);
    }

    [[nodiscard]] constexpr bool can(counting what) const noexcept {
        return what == counting::take ? can_take() : can_put_back();
    }
    [[nodiscard]] constexpr counting_word after(counting what) const noexcept {
        switch (what) {
            case counting::take:
                return after_take();
            case counting::put_back:
                return after_put_back();
            case counting::nothing:
                break;
        }
        return *this;
    }

    friend constexpr bool operator==(counting_word, counting_word) noexcept = default;

private:
    static constexpr bits state = 3;
    static constexpr bits does_count = 4;
    static constexpr bits one = 8;
    static constexpr bits one_taken = bits(1) << 32;
    static constexpr bits permits = one_taken - one;
    static constexpr bits full = bits(1) << 63;
    // Half of the largest number, so that as many permits may be put back that were taken before.
    static constexpr bits most_given = permits / one / 2;

    bits bits_ = free;
};

/// A lock of one word, like `word_lock`, which also counts permits while it is free: any thread takes one of them, or
/// puts one back, by one atomic instruction and without the lock. A thread that locks it receives the count.
class counting_lock {
public:
    using word = counting_word;

    counting_lock() noexcept = default;
    counting_lock(counting_lock const&) = delete;
    counting_lock& operator=(counting_lock const&) = delete;

    /// Takes one permit. Returns false if the lock is needed for that.
    [[nodiscard]] bool try_take() noexcept {
        auto seen = word_.load(std::memory_order_relaxed);
        while (word(seen).can_take()) {
            if (word_.compare_exchange_weak(seen, word(seen).after_take().get(),
                                            std::memory_order_acquire, std::memory_order_relaxed))
                [[likely]]
                return true;
        }
        return false;
    }
    /// Puts one permit back. Returns false if the lock is needed for that.
    [[nodiscard]] bool try_put_back() noexcept {
        auto seen = word_.load(std::memory_order_relaxed);
        while (word(seen).can_put_back()) {
            if (word_.compare_exchange_weak(seen, word(seen).after_put_back().get(),
                                            std::memory_order_release, std::memory_order_relaxed))
                [[likely]]
                return true;
        }
        return false;
    }

    /// Locks it if a permit could be taken, or put back, without the lock. Returns the count of the free lock; otherwise a
    /// word that does not count. Never waits for another thread.
    [[nodiscard]] word try_lock_to(counting what) noexcept {
        auto seen = word_.load(std::memory_order_relaxed);
        while (word(seen).can(what)) {
            if (word_.compare_exchange_weak(seen, word::locked, std::memory_order_acquire,
                                            std::memory_order_relaxed)) [[likely]]
                return word(seen);
        }
        return {};
    }

    /// Returns the count of the free lock.
    [[nodiscard, gnu::always_inline]] word lock() noexcept {
        auto seen = word().get();
        // Without a load before it: for a lock that does not count this is as fast as `word_lock`.
        if (word_.compare_exchange_strong(seen, word::locked, std::memory_order_acquire,
                                          std::memory_order_relaxed)) [[likely]]
            return {};
        return lock_counting(seen);
    }
    /// `next` is a free lock.
    [[gnu::always_inline]] void unlock(word next) noexcept {
        if (word_.exchange(next.get(), std::memory_order_release) == word::awaited) [[unlikely]]
            word_.notify_one();
    }

private:
    // Not inline: these paths would only make the code of every caller larger.

    [[gnu::noinline, gnu::cold]] word lock_counting(word::bits seen) noexcept {
        while (word(seen).is_free()) {
            if (word_.compare_exchange_weak(seen, word::locked, std::memory_order_acquire,
                                            std::memory_order_relaxed)) [[likely]]
                return word(seen);
        }
        return wait();
    }
    [[gnu::noinline, gnu::cold]] word wait() noexcept {
        for (;;) {
            auto seen = word_.load(std::memory_order_relaxed);
            if (seen != word::awaited) {
                if (!word_.compare_exchange_strong(
                        seen, word::awaited, std::memory_order_acquire, std::memory_order_relaxed))
                    continue;
                if (word(seen).is_free())
                    return word(seen);
            }
            word_.wait(word::awaited, std::memory_order_relaxed);
        }
    }

    std::atomic<word::bits> word_ = word::free;
};

}  // namespace weir::inline v0_2::detail
