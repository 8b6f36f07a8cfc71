#pragma once

#include <weir/policy/block_queue.hpp>
#include <weir/policy/rule.hpp>
#include <weir/saved_numbers.hpp>

#include <cstddef>
#include <cstdint>

namespace weir::inline v0_2::policy {

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
        friend cooling_log;

        block_queue<entry> log;
        number forgotten = 0;        // the last permit of the entries that were dropped
        time_point forgotten_until;  // grants up to this time are not in the log
        time_point slice_began = time_point::min();

        template <class Predicate>
        [[nodiscard]] std::size_t first_where(Predicate holds) const noexcept;
        [[nodiscard]] amount up_to(number last) const noexcept;
        [[nodiscard]] number granted() const noexcept;
        void forget(std::size_t entries) noexcept;
    };

    static constexpr auto schedule = weir::schedule::by_turns;

    /// A log that grants ahead of time. It reads the entries of the log that it was made from, and stores only its own
    /// grants, 16 bytes each.
    class forecast_type {
    public:
        forecast_type(cooling_log const& rule, state_type const& s);

        [[nodiscard]] amount remaining(time_point now) const noexcept;
        [[nodiscard]] time_point ready_at(amount n, amount, time_point now) const noexcept;
        ticket take(amount n, time_point now);

    private:
        template <class Predicate>
        [[nodiscard]] std::size_t first_where(Predicate holds) const noexcept;
        [[nodiscard]] std::size_t size() const noexcept { return kept_ + next_.size(); }
        [[nodiscard]] entry const& at(std::size_t i) const noexcept {
            return i < kept_ ? (*log_)[i] : next_[i - kept_];
        }
        [[nodiscard]] number granted() const noexcept {
            return next_.empty() ? cooled_ : next_.back().last;
        }
        [[nodiscard]] std::size_t first_cooling(time_point now) const noexcept;
        [[nodiscard]] number last_cooled(std::size_t first) const noexcept {
            return first == first_ ? cooled_ : at(first - 1).last;
        }

        cooling_log const* rule_;
        block_queue<entry> const* log_;
        std::size_t kept_;  // entries of the log that are not copied: its last slice may continue
        block_queue<entry> next_;  // the entries after them
        std::size_t first_ = 0;    // the entries before it have expired
        number cooled_;            // the last permit of these
        time_point slice_began_;
    };

    /// With a slice of 1 ns only grants of the same time share an entry.
    cooling_log(amount limit, duration window, duration slice) noexcept
        : limit_(limit), window_(window), slice_(slice) {}

    [[nodiscard]] state_type begin(time_point now) const;
    void restart(state_type& s, time_point now) const noexcept;
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
    [[nodiscard]] forecast_type forecast(state_type const& s) const { return {*this, s}; }
    /// Takes `n` permits; the ticket is the time. Allocates as the log grows. If memory is lacking, a grant shares the
    /// entry of the grant before it, which then expires with it; a grant that goes into debt throws `std::bad_alloc`.
    ticket take(state_type& s, amount n, time_point now) const;
    [[nodiscard]] static std::size_t heap_bytes(state_type const& s) noexcept {
        return s.log.heap_bytes();
    }
    static constexpr bool ignores_leave = true;
    bool leave(state_type&, amount, ticket) const noexcept { return false; }
    bool refund(state_type& s, amount n, ticket t, time_point now) const noexcept;
    ticket merge(state_type&, ticket a, ticket b, amount) const noexcept { return a < b ? a : b; }
    void save(state_type const& s, number_writer& to, time_point now) const;
    [[nodiscard]] bool load(state_type& s, number_reader& from, time_point then) const;

private:
    [[nodiscard]] amount cooling(state_type const& s, time_point now) const noexcept;
    [[nodiscard]] bool has_cooled(state_type const& s, time_point now) const noexcept;
    [[nodiscard]] bool cooled(entry const& e, time_point now) const noexcept {
        return later(e.at, window_) <= now;
    }
    amount limit_;
    duration window_;
    duration slice_;
};

}  // namespace weir::inline v0_2::policy
