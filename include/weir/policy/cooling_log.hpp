#pragma once

#include <weir/policy/policy.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>

namespace weir::policy {

/// Grants that are remembered until they have cooled for a window: what `sliding_log` and
/// `sliding_window` have in common.
///
/// Those of one slice are one entry, which cools from the last of them. A slice begins with the first
/// grant that comes after the slice before.
class cooling_log {
public:
    struct rule {
        amount limit;
        duration window;
        duration slice;       // 1 ns: only what is granted at the same time is kept together
        std::size_t entries;  // so many slices can be cooling at a time
    };

    explicit cooling_log(rule const& r);

    /// Goes on from what `before` has logged, in the larger of the two rings. Allocates, and so throws
    /// `std::bad_alloc`, only if what still cools needs more entries than either has; then nothing has
    /// changed.
    void take_over(cooling_log& before, time_point now);
    [[nodiscard]] amount remaining(time_point now) const noexcept;
    /// With unequal requests ahead this may be too early: it counts permits, and does not know which
    /// of them must go together.
    [[nodiscard]] time_point ready_at(amount n, amount ahead, time_point now) const noexcept;
    /// The ticket is the time. Allocates only for debt.
    ticket take(amount n, time_point now);
    bool refund(amount n, ticket t, time_point now) noexcept;

private:
    // Permits are numbered in the order of their grants, and the numbers wrap; an entry stands for
    // those up to `last` that came after the entry before it, and cools from `at`.
    using number = std::uint64_t;
    struct entry {
        time_point at;
        number last;
    };

    [[nodiscard]] entry& nth(std::size_t i) noexcept;
    [[nodiscard]] entry const& nth(std::size_t i) const noexcept;
    template <class Predicate>
    [[nodiscard]] std::size_t first_where(Predicate holds) const noexcept;
    [[nodiscard]] bool cooled(entry const& e, time_point now) const noexcept;
    [[nodiscard]] amount up_to(number last) const noexcept;
    [[nodiscard]] number granted() const noexcept;
    void forget(std::size_t entries) noexcept;
    [[nodiscard]] std::size_t needed(std::size_t old_entries) const noexcept;
    void move_to(std::unique_ptr<entry[]> ring, std::size_t places) noexcept;

    rule rule_;
    std::size_t places_;  // of the ring
    std::unique_ptr<entry[]> ring_;
    std::size_t begin_ = 0;
    std::size_t size_ = 0;
    number forgotten_ = 0;  // the number of the last permit whose entry has been dropped
    time_point forgotten_until_ = time_point::min();  // and the time of its grant
    time_point slice_began_ = time_point::min();
};

}  // namespace weir::policy
