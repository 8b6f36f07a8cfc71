#pragma once

#include <weir/policy/policy.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace weir::inline v0_2::policy {

/// Measures how long permits have been held, for `seats` with `max_hold`.
///
/// Memory: 32 bytes per permit, for a number of permits that is rounded up to a power of two. It is allocated at once,
/// and an entry is not touched before its first use.
class hold_watch {
public:
    hold_watch() = default;
    /// Allocates room for `permits` permits, which then need no allocation.
    explicit hold_watch(std::size_t permits);

    hold_watch(hold_watch&&) noexcept = default;
    hold_watch& operator=(hold_watch&&) noexcept = default;
    hold_watch(hold_watch const& other);
    hold_watch& operator=(hold_watch const& other) { return *this = hold_watch(other); }
    ~hold_watch() = default;

    /// Continues from the entries of `before`, with the room of both. Takes microseconds, independent of the number of
    /// permits in use and of the size of the tables.
    void take_over(hold_watch& before) noexcept;

    /// Adds a permit; the times of grants must not decrease. Allocates only beyond the reserved room. If that fails,
    /// the ticket is 0, and the permit is not watched.
    [[nodiscard]] ticket take(amount n, time_point now) noexcept;
    void leave(amount n, ticket t) noexcept;
    [[nodiscard]] ticket merge(ticket a, ticket b, amount n) noexcept;

    /// Returns when the first unreported permit will have been held for `max_hold`; `never` if there is none.
    [[nodiscard]] time_point next_overdue(duration max_hold) const noexcept;
    /// Reports the first unreported permit. There must be one.
    [[nodiscard]] overdue pop_overdue(time_point now) noexcept;

private:
    // The entries form a table. Entries in use are a ring in the order of their grants, entries that were used before
    // are a free list, and entries from `untouched_` on were never used. Entry 0 anchors the ring.
    struct place {
        amount held;
        time_point since;
        std::uint32_t turn;  // distinguishes the permits that have used this entry
        std::uint32_t next;
        std::uint32_t previous;
    };
    // Each chunk has as many entries as all chunks before it, so that entries never move.
    using chunk = std::unique_ptr<place[]>;
    static constexpr std::uint32_t first_chunk = 16;

    [[nodiscard]] static std::uint32_t places_in(std::size_t chunks) noexcept {
        return chunks == 0 ? 0 : first_chunk << (chunks - 1);
    }
    [[nodiscard]] place& at(std::uint32_t index) const noexcept;
    void add_chunk();

    std::vector<chunk> chunks_;
    std::uint32_t untouched_ = 0;
    std::uint32_t unused_ = 0;      // the first of the free list, 0 if there is none
    std::uint32_t unreported_ = 0;  // the first unreported one in the ring, or 0
};

}  // namespace weir::inline v0_2::policy
