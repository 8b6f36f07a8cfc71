#pragma once

#include <atomic>
#include <cstdint>

namespace weir::inline v0_2::detail {

/// A lock of one word: a thread that finds it taken sleeps until it is free. Locking and unlocking take one atomic
/// instruction each, without a call into the C library.
///
/// Source: the second mutex of Drepper, "Futexes Are Tricky" (2011).
class word_lock {
public:
    word_lock() noexcept = default;
    word_lock(word_lock const&) = delete;
    word_lock& operator=(word_lock const&) = delete;

    void lock() noexcept {
        auto seen = std::uint32_t{free};
        if (!word_.compare_exchange_strong(
                seen, taken, std::memory_order_acquire, std::memory_order_relaxed)) [[unlikely]]
            wait();
    }

    void unlock() noexcept {
        if (word_.exchange(free, std::memory_order_release) == awaited) [[unlikely]]
            word_.notify_one();
    }

private:
    enum : std::uint32_t { free, taken, awaited };

    // Not inline: this rare path would only make the code of every caller larger.
    [[gnu::noinline, gnu::cold]] void wait() noexcept {
        while (word_.exchange(awaited, std::memory_order_acquire) != free)
            word_.wait(awaited, std::memory_order_relaxed);
    }

    std::atomic<std::uint32_t> word_ = free;
};

}  // namespace weir::inline v0_2::detail
