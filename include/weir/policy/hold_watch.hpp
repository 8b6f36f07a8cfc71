#pragma once

#include <weir/policy/policy.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace weir::policy {

/// Knows for how long permits have been held: what `seats` with `max_hold` keeps beside its count.
///
/// Memory: 32 bytes for each permit, for a number of permits that is rounded up to a power of two. It is
/// set aside at once, and a place is not touched before it is used.
class hold_watch {
public:
    hold_watch() = default;
    /// With room for so many permits, so that none of these allocates.
    explicit hold_watch(std::size_t permits);

    hold_watch(hold_watch&&) noexcept = default;
    hold_watch& operator=(hold_watch&&) noexcept = default;
    hold_watch(hold_watch const& other);
    hold_watch& operator=(hold_watch const& other) { return *this = hold_watch(other); }
    ~hold_watch() = default;

    /// Goes on from what `before` knows, with the room of both. Takes microseconds, however many permits
    /// are out and however large the tables are.
    void take_over(hold_watch& before) noexcept;

    /// Permits are taken in the order of their times. Allocates only beyond the room that there is; if
    /// memory fails, the ticket is 0, which stands for a permit that is not watched.
    [[nodiscard]] ticket take(amount n, time_point now) noexcept;
    void leave(amount n, ticket t) noexcept;
    [[nodiscard]] ticket merge(ticket a, ticket b, amount n) noexcept;

    /// When the first that has not been reported will have been held for so long; `never` if there is none.
    [[nodiscard]] time_point next_overdue(duration max_hold) const noexcept;
    /// Reports the first that has not been reported. There must be one.
    [[nodiscard]] overdue pop_overdue(time_point now) noexcept;

private:
    // Places form a table. Those in use are a ring in the order of their grants, those that have been
    // used are a chain, and from `untouched_` on none has ever been used. Place 0 anchors the ring.
    struct place {
        amount held;
        time_point since;
        std::uint32_t turn;  // tells apart the permits that have used this place
        std::uint32_t next;
        std::uint32_t previous;
    };
    // Each chunk has as many places as all before it together, so that places never move.
    using chunk = std::unique_ptr<place[]>;
    static constexpr std::uint32_t first_chunk = 16;

    [[nodiscard]] static std::uint32_t places_in(std::size_t chunks) noexcept {
        return chunks == 0 ? 0 : first_chunk << (chunks - 1);
    }
    [[nodiscard]] place& at(std::uint32_t index) const noexcept;
    void add_chunk();

    std::vector<chunk> chunks_;
    std::uint32_t untouched_ = 0;
    std::uint32_t unused_ = 0;      // the first of the chain, 0 if there is none
    std::uint32_t unreported_ = 0;  // the first in the ring that has not been reported, or 0
};

}  // namespace weir::policy
