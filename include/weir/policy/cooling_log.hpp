#pragma once

#include <weir/policy/rule.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>

namespace weir::policy {

/// The rule of a log in which each grant counts until a window after it: the common part of `sliding_log` and
/// `sliding_window`.
///
/// The grants of one slice share one entry, which expires a window after the last of them. A slice begins with the
/// first grant after the end of the slice before.
class cooling_log {
    // Permits are numbered in the order of their grants, and the numbers wrap. An entry counts the permits up to
    // `last` that follow the entry before it; its window starts at `at`.
    using number = std::uint64_t;
    struct entry {
        time_point at;
        number last;
    };

public:
    class state_type {
    public:
        state_type() = default;
        state_type(state_type&&) noexcept = default;
        state_type& operator=(state_type&&) noexcept = default;
        state_type(state_type const& other);
        state_type& operator=(state_type const& other) { return *this = state_type(other); }
        ~state_type() = default;

    private:
        friend cooling_log;

        std::unique_ptr<entry[]> ring;
        std::size_t places = 0;
        std::size_t begin = 0;
        std::size_t size = 0;
        number forgotten = 0;        // the last permit of the entries that were dropped
        time_point forgotten_until;  // grants up to this time are not in the log
        time_point slice_began = time_point::min();

        [[nodiscard]] entry& nth(std::size_t i) const noexcept {
            auto const at = begin + i;
            return ring[at < places ? at : at - places];
        }
        template <class Predicate>
        [[nodiscard]] std::size_t first_where(Predicate holds) const noexcept;
        [[nodiscard]] amount up_to(number last) const noexcept;
        [[nodiscard]] number granted() const noexcept;
        void forget(std::size_t entries) noexcept;
        void exchange_rings(std::unique_ptr<entry[]>& other, std::size_t& its_places) noexcept;
        void grow_to(std::size_t more) noexcept;
    };

    /// Keeps up to `entries` slices. With a slice of 1 ns only grants of the same time share an entry.
    cooling_log(amount limit, duration window, duration slice, std::size_t entries) noexcept
        : limit_(limit), window_(window), slice_(slice), entries_(entries) {}

    [[nodiscard]] state_type begin(time_point now) const;
    void restart(state_type& s, time_point now) const noexcept;
    /// Continues from `before` in the larger of the two rings. Allocates only if the unexpired entries need more room
    /// than either ring has. If that allocation fails, the oldest grants may expire later, together with younger ones.
    void take_over(state_type& s, cooling_log const& old, state_type& before,
                   time_point now) const noexcept;
    [[nodiscard]] bool are_alike(state_type const& a, state_type const& b,
                                 time_point now) const noexcept {
        return has_cooled(a, now) && has_cooled(b, now);
    }

    [[nodiscard]] amount capacity() const noexcept { return limit_; }
    [[nodiscard]] bool timed() const noexcept { return true; }
    [[nodiscard]] weir::tickets tickets() const noexcept { return tickets::time; }
    [[nodiscard]] amount remaining(state_type const& s, time_point now) const noexcept;
    [[nodiscard]] amount debt(state_type const& s, time_point now) const noexcept;
    /// Returns when `n` permits can be granted after `ahead` others. If the requests ahead ask for different amounts,
    /// the result may be too early: it counts permits, and ignores which of them must be granted together.
    [[nodiscard]] time_point ready_at(state_type const& s, amount n, amount ahead,
                                      time_point now) const noexcept;
    /// Takes `n` permits; the ticket is the time. Allocates, and throws `std::bad_alloc`, only if it goes into debt.
    ticket take(state_type& s, amount n, time_point now) const;
    static constexpr bool ignores_leave = true;
    bool leave(state_type&, amount, ticket) const noexcept { return false; }
    bool refund(state_type& s, amount n, ticket t, time_point now) const noexcept;
    ticket merge(state_type&, ticket a, ticket b, amount) const noexcept { return a < b ? a : b; }

private:
    [[nodiscard]] amount cooling(state_type const& s, time_point now) const noexcept;
    [[nodiscard]] bool has_cooled(state_type const& s, time_point now) const noexcept;
    [[nodiscard]] bool cooled(entry const& e, time_point now) const noexcept {
        return later(e.at, window_) <= now;
    }
    [[nodiscard]] std::size_t needed(std::size_t old_entries) const noexcept;

    amount limit_;
    duration window_;
    duration slice_;
    std::size_t entries_;
};

}  // namespace weir::policy
