#pragma once

#include <weir/policy/rule.hpp>
#include <weir/saved_numbers.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace weir::inline v0_2 {

/// The options of `penalty`.
struct penalty_options {
    /// The number of offences within `window` that are punished, 1 to `max_amount`.
    amount offences = 5;
    /// The time in which they must fall, from the first one on; at least 1 ns.
    duration window = std::chrono::minutes(1);
    /// The length of the first penalty, at least 1 ns.
    duration first = std::chrono::minutes(1);
    /// The length of the longest penalty, at least `first`. Each penalty is twice as long as the one before.
    duration longest = std::chrono::hours(1);
    /// The time after a penalty until it is forgotten: the next one is then as long as the first. At least 0.
    duration memory = std::chrono::hours(1);
};

namespace policy {

/// A penalty for offences: after `offences` permits that were reported as `outcome::dropped`, each within `window` of the
/// first one, nothing is granted for a time. This time doubles with each penalty, up to `longest`, until the last penalty
/// was over for `memory`. Other permits have no limit.
///
/// A permit counts when it is released. During a penalty none counts. A merged permit is an offence as a whole if a part of
/// it was reported as one. The window does not slide: it begins with the first offence after the end of the window before.
///
/// Memory: 40 bytes of state. A key is forgotten when it has no permits in use, no offences in the window, and no penalty in
/// its memory.
///
/// Source: the bans of fail2ban with `bantime.increment`.
class penalty_rule {
public:
    using options_type = penalty_options;

    struct state_type {
        amount in_use = 0;                     // so that a key with permits in use is not forgotten
        time_point since = time_point::min();  // the first offence of the window
        time_point until = time_point::min();  // the end of the latest penalty
        amount offences = 0;                   // in the window
        std::uint32_t penalties = 0;           // in a row
    };

    explicit penalty_rule(options_type const& options);

    [[nodiscard]] state_type begin(time_point) const noexcept { return {}; }
    /// Continues from `before`. The end of a present penalty does not change.
    void take_over(state_type& s, penalty_rule const&, state_type const& before,
                   time_point) const noexcept {
        s = before;
    }
    [[nodiscard]] bool are_alike(state_type const& a, state_type const& b,
                                 time_point now) const noexcept {
        return is_clean(a, now) && is_clean(b, now);
    }

    [[nodiscard]] options_type const& options() const noexcept { return options_; }
    [[nodiscard]] amount capacity() const noexcept { return max_amount; }
    [[nodiscard]] bool timed() const noexcept { return true; }
    [[nodiscard]] amount remaining(state_type const& s, time_point now) const noexcept {
        return now < s.until ? 0 : max_amount;
    }
    [[nodiscard]] time_point ready_at(state_type const& s, amount, amount,
                                      time_point now) const noexcept {
        return std::max(now, s.until);
    }

    // A ticket tells whether the permit is an offence.
    ticket take(state_type& s, amount n, time_point) const noexcept {
        s.in_use += n;
        return innocent;
    }
    [[nodiscard]] ticket report(state_type&, ticket, outcome o) const noexcept {
        return o == outcome::dropped ? offence : innocent;
    }
    [[nodiscard]] bool times_leave() const noexcept { return true; }
    bool leave(state_type& s, amount n, ticket t, time_point now) const noexcept {
        s.in_use -= n;
        if (t == offence)
            add(s, n, now);
        return false;
    }
    bool refund(state_type& s, amount n, ticket, time_point) const noexcept {
        s.in_use -= n;
        return false;
    }
    ticket merge(state_type&, ticket a, ticket b, amount) const noexcept { return std::max(a, b); }

    void save(state_type const& s, number_writer& to, time_point now) const;
    [[nodiscard]] bool load(state_type& s, number_reader& from, time_point then) const noexcept;
    void resume(state_type& s, penalty_rule const&, state_type const& before, time_point,
                bool) const noexcept {
        auto const in_use = s.in_use;
        s = before;
        s.in_use = in_use;
    }

private:
    static constexpr ticket innocent = 0;
    static constexpr ticket offence = 1;
    // 63 doublings exceed every duration.
    static constexpr std::uint32_t most_penalties = 63;

    [[nodiscard]] bool is_forgotten(state_type const& s, time_point now) const noexcept {
        return s.penalties == 0 || now >= later(s.until, options_.memory);
    }
    [[nodiscard]] bool is_in_window(state_type const& s, time_point now) const noexcept {
        return s.offences != 0 && now < later(s.since, options_.window);
    }
    [[nodiscard]] bool is_clean(state_type const& s, time_point now) const noexcept {
        return s.in_use == 0 && now >= s.until && is_forgotten(s, now) && !is_in_window(s, now);
    }
    void add(state_type& s, amount n, time_point now) const noexcept;

    options_type options_;
};

/// The policy of `weir::penalty`.
using penalty = ruled<penalty_rule>;

}  // namespace policy
}  // namespace weir::inline v0_2
