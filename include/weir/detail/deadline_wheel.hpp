#pragma once

#include <weir/detail/list.hpp>
#include <weir/time.hpp>

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace weir::detail {

struct in_wheel;

/// The base of an element of a `deadline_wheel`.
struct wheel_hook : list_hook<in_wheel> {
    time_point deadline = never;
};

/// Deadlines in a hierarchy of wheels. Inserting, removing and expiring one takes constant time, independent of their
/// number and distribution.
///
/// Time runs in ticks of a power of two nanoseconds, the longest that is within the tolerance. A deadline expires at
/// the first tick that is wholly past it: never early, and late by a tick at most. Level k holds the deadlines whose
/// tick first differs from the current one in digit k, to the base of 16. When the time of a slot above the lowest
/// level comes, its deadlines move to lower levels, so each deadline moves a few times in its life.
///
/// Memory: 4 KiB; the part that no deadline needs is never touched.
/// Source: Varghese and Lauck, "Hashed and Hierarchical Timing Wheels" (1987). The digits are the digits of a radix
/// heap, so ticks at which nothing is due cost nothing.
template <class T>
class deadline_wheel {
public:
    deadline_wheel(time_point now, duration tolerance) noexcept
        : shift_(shift_for(tolerance)), now_(tick(now)) {}

    ~deadline_wheel() {}
    deadline_wheel(deadline_wheel const&) = delete;
    deadline_wheel& operator=(deadline_wheel const&) = delete;

    [[nodiscard]] static int shift_for(duration tolerance) noexcept {
        auto const length = static_cast<std::uint64_t>(tolerance.count());
        return length <= 1 ? 0 : static_cast<int>(std::bit_width(length)) - 1;
    }

    /// Inserts `element`, which is due after `deadline`.
    void insert(T& element, time_point deadline) noexcept {
        wheel_hook& hook = element;
        hook.deadline = deadline;
        place(element);
    }

    static void erase(T& element) noexcept {
        if (wheel_hook& hook = element; hook.is_linked())
            hook.unlink();
    }

    /// Puts `by` in the position of `element`.
    static void replace(T& element, T& by) noexcept {
        wheel_hook& hook = element;
        wheel_hook& next = by;
        next.deadline = hook.deadline;
        if (hook.is_linked())
            static_cast<list_hook<in_wheel>&>(hook).replace(next);
    }

    /// Returns when to call `advance` next: nothing is due before, though perhaps nothing is due then either. Returns
    /// `never` if no element will become due.
    [[nodiscard]] time_point next() noexcept {
        auto const level = lowest_level();
        if (level == levels)
            return never;
        auto const start = slot_start(level, std::countr_zero(used_[level]));
        return start > (max_tick >> shift_)
                   ? never
                   : time_point(duration(static_cast<std::int64_t>(start << shift_)));
    }

    /// Removes due elements and passes each to `take`, until `budget` elements were touched. More may be due after
    /// that: `next()` returns when.
    template <class Take>
    void advance(time_point now, int& budget, Take take) {
        auto const until = tick(now);
        while (budget > 0) {
            auto const level = lowest_level();
            if (level == levels)
                break;
            auto const slot = std::countr_zero(used_[level]);
            auto const start = slot_start(level, slot);
            if (start > until)
                break;
            now_ = start > now_ ? start : now_;
            auto& here = slot_at(level, static_cast<std::size_t>(slot));
            dealing_ = level;
            for (; budget > 0 && !here.empty(); --budget) {
                T& element = here.pop_front();
                if (level == 0)
                    take(element);
                else
                    place(element);
            }
        }
        if (budget > 0 && until > now_)
            now_ = until;
    }

private:
    static constexpr int digit = 4;
    static constexpr std::size_t base = std::size_t{1} << digit;
    static constexpr std::size_t levels = 16;                             // for 64 bits
    static constexpr std::size_t slots = (levels - 1) * base + base / 2;  // the highest bit is 0
    static constexpr auto max_tick = static_cast<std::uint64_t>(never.time_since_epoch().count());

    [[nodiscard]] std::uint64_t tick(time_point t) const noexcept {
        auto const n = t.time_since_epoch().count();
        return n < 0 ? 0 : static_cast<std::uint64_t>(n) >> shift_;
    }

    [[nodiscard]] static std::size_t digit_of(std::uint64_t tick, std::size_t level) noexcept {
        return static_cast<std::size_t>((tick >> (level * digit)) % base);
    }

    [[nodiscard]] list<T, in_wheel>& slot_at(std::size_t level, std::size_t slot) noexcept {
        return slots_[level * base + slot];
    }

    void place(T& element) noexcept {
        wheel_hook& hook = element;
        auto const noticed = tick(hook.deadline) + 1;
        auto const due = noticed > now_ ? noticed : now_;
        auto const differs = due ^ now_;
        auto const level =
            differs == 0 ? 0U : static_cast<unsigned>(std::bit_width(differs) - 1) / digit;
        auto const slot = digit_of(due, level);
        auto const bit = 1U << slot;
        if ((used_[level] & bit) == 0) {
            used_[level] = static_cast<std::uint16_t>(used_[level] | bit);
            std::construct_at(&slot_at(level, slot));
        }
        slot_at(level, slot).push_back(element);
    }

    // Returns the lowest level that holds an element, after making its first used slot non-empty; `levels` if there
    // is none. A slot that was partly dealt out takes precedence: its remaining elements may be due before the
    // elements that moved to lower levels.
    [[nodiscard]] std::size_t lowest_level() noexcept {
        if (dealing_ != 0) {
            if (!slot_at(dealing_, digit_of(now_, dealing_)).empty())
                return dealing_;
            dealing_ = 0;
        }
        for (std::size_t level = 0; level != levels; ++level) {
            while (used_[level] != 0) {
                auto const slot = static_cast<std::size_t>(std::countr_zero(used_[level]));
                if (!slot_at(level, slot).empty())
                    return level;
                used_[level] = static_cast<std::uint16_t>(
                    used_[level] & (used_[level] - 1U));  // emptied by removals
            }
        }
        return levels;
    }

    [[nodiscard]] std::uint64_t slot_start(std::size_t level, int slot) const noexcept {
        auto const low = static_cast<unsigned>(level) * digit;
        auto const high = low + digit;
        auto const prefix = high >= 64 ? 0 : (now_ >> high) << high;
        return prefix | (static_cast<std::uint64_t>(slot) << low);
    }

    int shift_;
    std::uint64_t now_;
    std::size_t dealing_ = 0;  // the level of the slot that is being dealt out, if not 0
    std::array<std::uint16_t, levels> used_{};
    // A slot is constructed when its bit is first set: most slots are never used.
    union {
        list<T, in_wheel> slots_[slots];
    };
};

}  // namespace weir::detail
