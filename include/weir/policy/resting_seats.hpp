#pragma once

#include <weir/policy/rule.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace weir::inline v0_2 {

/// The options of `resting_seats`.
struct resting_seats_options {
    /// The number of seats, 1 to 1,048,576.
    amount seats = 1;

    /// The time for which a seat rests after its release, at least 1 ns.
    duration rest{};
};

namespace policy {

/// A concurrency limit whose seats rest: at most `seats` permits are in use at a time, and a released permit is free
/// only `rest` later.
///
/// Guarantee: unless `seats` is lowered, the permits in use and those released less than `rest` ago are never more than
/// `seats`. With one seat, each use begins at least `rest` after the end of the one before. A refunded permit was not
/// used, and is free immediately.
///
/// If the options change, a seat that rests at that time rests for the new `rest` after its release. Of permits that
/// were charged beyond the seats, at most `seats` rest.
///
/// Memory: 48 bytes of state, and 8 bytes for each seat if there are several, allocated at once. A key is forgotten
/// when it has no permits in use and none that rest.
///
/// Time: a decision takes O(log seats), and the release of n permits O(n).
///
/// `seats` needs neither a clock nor memory for the ends of permits, and is faster.
///
/// Source: the delay between requests of web crawlers, such as the politeness of Mercator and the `Crawl-delay` of
/// robots.txt.
class resting_seats_rule {
public:
    using options_type = resting_seats_options;

    class state_type {
        friend resting_seats_rule;

        // The ring of the latest ends has places from 0 to its size.
        [[nodiscard]] std::size_t size() const noexcept {
            return several.empty() ? 1 : several.size();
        }
        [[nodiscard]] time_point& at(std::size_t i) noexcept {
            return several.empty() ? one : several[i];
        }
        [[nodiscard]] time_point at(std::size_t i) const noexcept {
            return several.empty() ? one : several[i];
        }

        amount in_use = 0;
        time_point one;                   // the ring of one seat
        std::vector<time_point> several;  // the ring of more
        std::uint32_t first = 0;          // the oldest end
        std::uint32_t number = 0;         // of ends
    };

    explicit resting_seats_rule(options_type const& options);

    [[nodiscard]] state_type begin(time_point now) const;
    void restart(state_type& s, time_point now) const noexcept;
    void take_over(state_type& s, resting_seats_rule const& old, state_type& before,
                   time_point now) const;
    [[nodiscard]] bool are_alike(state_type const& a, state_type const& b,
                                 time_point now) const noexcept {
        return is_unused(a, now) && is_unused(b, now);
    }

    [[nodiscard]] options_type const& options() const noexcept { return options_; }
    [[nodiscard]] amount capacity() const noexcept { return options_.seats; }
    [[nodiscard]] bool timed() const noexcept { return true; }
    [[nodiscard]] weir::tickets tickets() const noexcept { return tickets::none; }
    [[nodiscard]] amount remaining(state_type const& s, time_point now) const noexcept {
        return std::max<amount>(free(s, now), 0);
    }
    [[nodiscard]] amount debt(state_type const& s, time_point now) const noexcept {
        return std::max<amount>(-free(s, now), 0);
    }
    /// Returns the end of the rest that makes enough seats free; `unknown` if a permit must be released before.
    [[nodiscard]] time_point ready_at(state_type const& s, amount n, amount ahead,
                                      time_point now) const noexcept;
    [[nodiscard]] static std::size_t heap_bytes(state_type const& s) noexcept {
        return s.several.capacity() * sizeof(time_point);
    }

    ticket take(state_type& s, amount n, time_point) const noexcept {
        s.in_use += n;
        return 0;
    }
    [[nodiscard]] bool times_leave() const noexcept { return true; }
    bool leave(state_type& s, amount n, ticket, time_point now) const noexcept;
    bool refund(state_type& s, amount n, ticket, time_point) const noexcept {
        s.in_use -= n;
        return true;
    }
    ticket merge(state_type&, ticket a, ticket, amount) const noexcept { return a; }

private:
    // End number `i`, from the oldest.
    [[nodiscard]] static time_point end(state_type const& s, amount i) noexcept {
        auto const at = s.first + static_cast<std::size_t>(i);
        return s.at(at < s.size() ? at : at - s.size());
    }
    [[nodiscard]] amount resting(state_type const& s, time_point now) const noexcept;
    [[nodiscard]] amount free(state_type const& s, time_point now) const noexcept {
        return options_.seats - s.in_use - resting(s, now);
    }
    [[nodiscard]] bool is_unused(state_type const& s, time_point now) const noexcept {
        return s.in_use == 0 && resting(s, now) == 0;
    }

    options_type options_;
};

/// The policy of `weir::resting_seats`.
using resting_seats = ruled<resting_seats_rule>;

}  // namespace policy
}  // namespace weir::inline v0_2
