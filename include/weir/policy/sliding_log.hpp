#pragma once

#include <weir/policy/policy.hpp>

#include <cstddef>
#include <vector>

namespace weir {

struct sliding_log_options {
    /// How many permits any window may see, 1 to 67,108,864.
    amount limit = 1;

    /// The length of the window, at least a nanosecond.
    duration window = std::chrono::seconds(1);
};

namespace policy {

/// The exact rate limit: every grant is remembered until it has cooled for `window`.
///
/// Guarantee: at most `limit` permits are granted in any half-open window of that length, wherever
/// it starts; a permit granted at `g` is free again at `g + window` sharp. It cools from the grant,
/// not from when it is used or comes home. Permits that were merged, or settled upwards, are given back
/// as long as the oldest of them has not cooled.
/// Formula: permit number u may be granted once number u - limit has been cooling for `window`.
/// Memory: 16 bytes for each grant that still cools, `limit` of them at most, set aside at once.
/// Source: the sliding-window log; here it descends from an Erlang server that hands out tokens and
/// lets each cool before it goes back into the bag.
class sliding_log {
public:
    using options_type = sliding_log_options;

    explicit sliding_log(options_type const& options);

    [[nodiscard]] options_type const& options() const noexcept { return options_; }
    void configure(options_type const& options, time_point now);

    [[nodiscard]] amount capacity() const noexcept { return options_.limit; }
    [[nodiscard]] bool timed() const noexcept { return true; }
    [[nodiscard]] amount remaining(time_point now) const noexcept;
    /// With unequal requests ahead this may be too early: it counts permits, and does not know which
    /// of them must go together.
    [[nodiscard]] time_point ready_at(amount n, amount ahead, time_point now) const noexcept;

    ticket take(amount n, time_point now);
    bool leave(amount, ticket, time_point) noexcept { return false; }
    bool refund(amount n, ticket t, time_point now) noexcept;
    ticket merge(ticket a, ticket b, amount) noexcept { return a < b ? a : b; }

private:
    // Permits are numbered from 1 in the order of their grants; an entry stands for those up to
    // `last` that came after the entry before it, all granted at the same time. The ticket of a
    // grant is its time.
    struct entry {
        time_point at;
        amount last;
    };

    [[nodiscard]] entry& nth(std::size_t i) noexcept;
    [[nodiscard]] entry const& nth(std::size_t i) const noexcept;
    template <class Predicate>
    [[nodiscard]] std::size_t first_where(Predicate holds) const noexcept;
    [[nodiscard]] bool cooled(entry const& e, time_point now) const noexcept;
    [[nodiscard]] amount granted() const noexcept;
    void forget_first() noexcept;
    void reserve(std::size_t entries);

    options_type options_;
    std::vector<entry> ring_;
    std::size_t begin_ = 0;
    std::size_t size_ = 0;
    amount forgotten_ = 0;  // the number of the last permit whose entry has been dropped
    time_point forgotten_until_ = time_point::min();  // and the time of its grant
};

}  // namespace policy
}  // namespace weir
