#pragma once

#include <weir/detail/list.hpp>
#include <weir/time.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <memory>

namespace weir::inline v0_2::detail {

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
/// tick first differs from the current one in digit k, to the base of 4. When the time of a slot above the lowest
/// level comes, its deadlines move to lower levels: a deadline moves at most once for each digit of the ticks until it
/// expires, 5 or 6 times for a second in ticks of half a millisecond.
///
/// Memory: 1.6 KiB; the part that no deadline needs is never touched. A larger base has fewer moves and more slots: with
/// 16 it is 4 KiB.
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
        auto const first = first_slot();
        if (first == no_slot)
            return never;
        // An element that is alone in the first slot needs no wake-up for its moves.
        auto const& here = slots_[first];
        bool const is_alone = dealing_ == no_slot && &here.front() == &here.back();
        auto const at = is_alone ? due(here.front()) : start_of(first);
        return at > (max_tick >> shift_)
                   ? never
                   : time_point(duration(static_cast<std::int64_t>(at << shift_)));
    }

    /// Removes due elements and passes each to `take`, until `budget` elements were touched. More may be due after
    /// that: `next()` returns when.
    template <class Take>
    void advance(time_point now, int& budget, Take take) {
        auto const until = tick(now);
        while (budget > 0) {
            auto const first = first_slot();
            if (first == no_slot)
                break;
            auto const start = start_of(first);
            if (start > until)
                break;
            now_ = start > now_ ? start : now_;
            auto& here = slots_[first];
            dealing_ = is_lowest(first) ? no_slot : first;
            for (; budget > 0 && !here.empty(); --budget) {
                T& element = here.pop_front();
                if (is_lowest(first))
                    take(element);
                else
                    place(element);
            }
        }
        if (budget > 0 && until > now_)
            now_ = until;
    }

private:
    // Slot `level * (base - 1) + d` is for digit d of a level. Digit 0 has a slot only at the lowest level: a deadline
    // is not before the current tick, so at any other level its digit is larger than the digit of the current tick.
    static constexpr unsigned digit = 2;
    static constexpr unsigned base = 1U << digit;
    static constexpr unsigned levels = 64 / digit;
    static constexpr unsigned slots = levels * (base - 1);  // the highest digit is at most 2
    static constexpr unsigned no_slot = slots;
    static constexpr auto max_tick = static_cast<std::uint64_t>(never.time_since_epoch().count());

    [[nodiscard]] static bool is_lowest(unsigned slot) noexcept { return slot < base; }

    [[nodiscard]] std::uint64_t tick(time_point t) const noexcept {
        auto const n = t.time_since_epoch().count();
        return n < 0 ? 0 : static_cast<std::uint64_t>(n) >> shift_;
    }

    // The first tick at which the element has expired.
    [[nodiscard]] std::uint64_t due(T const& element) const noexcept {
        wheel_hook const& hook = element;
        return std::max(tick(hook.deadline) + 1, now_);
    }

    void place(T& element) noexcept {
        auto const at = due(element);
        auto const differs = at ^ now_;
        auto const level =
            differs == 0 ? 0U : static_cast<unsigned>(std::bit_width(differs) - 1) / digit;
        auto const slot =
            level * (base - 1) + static_cast<unsigned>((at >> (level * digit)) % base);
        auto& word = used_[slot / 64];
        auto const bit = std::uint64_t{1} << slot % 64;
        if ((word & bit) == 0) {
            word |= bit;
            std::construct_at(&slots_[slot]);
        }
        slots_[slot].push_back(element);
    }

    // Returns the first slot that holds an element, or `no_slot`. A slot that was partly dealt out takes precedence: its
    // remaining elements may be due before the elements that moved to lower levels.
    [[nodiscard]] unsigned first_slot() noexcept {
        if (dealing_ != no_slot) {
            if (!slots_[dealing_].empty())
                return dealing_;
            dealing_ = no_slot;
        }
        for (unsigned i = 0; i != used_.size(); ++i) {
            for (auto& word = used_[i]; word != 0; word &= word - 1) {  // emptied by removals
                auto const slot = i * 64 + static_cast<unsigned>(std::countr_zero(word));
                if (!slots_[slot].empty())
                    return slot;
            }
        }
        return no_slot;
    }

    // The first tick of a slot.
    [[nodiscard]] std::uint64_t start_of(unsigned slot) const noexcept {
        auto const level = is_lowest(slot) ? 0U : (slot - 1) / (base - 1);
        auto const low = level * digit;
        auto const high = low + digit;
        auto const prefix = high >= 64 ? 0 : (now_ >> high) << high;
        return prefix | (static_cast<std::uint64_t>(slot - level * (base - 1)) << low);
    }

    int shift_;
    unsigned dealing_ = no_slot;  // the slot that is being dealt out, above the lowest level
    std::uint64_t now_;
    std::array<std::uint64_t, (slots + 63) / 64> used_{};
    // A slot is constructed when its bit is first set: most slots are never used.
    union {
        list<T, in_wheel> slots_[slots];
    };
};

}  // namespace weir::inline v0_2::detail
