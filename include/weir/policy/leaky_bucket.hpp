#pragma once

#include <weir/policy/bucket.hpp>
#include <weir/policy/carry_over.hpp>
#include <weir/policy/rule.hpp>
#include <weir/rate.hpp>
#include <weir/saved_numbers.hpp>

namespace weir::inline v0_2 {

/// The options of `leaky_bucket`.
struct leaky_bucket_options {
    /// The rate at which the bucket leaks. With 0 permits it never leaks, and once it is full nothing is granted until
    /// the rate changes. A request that finds too few permits waits for that change, until its patience ends.
    weir::rate rate{1, std::chrono::seconds(1)};

    /// The number of permits that the bucket holds, 1 to `max_amount`. 1 spaces grants evenly; with more, that many are
    /// granted at once while the bucket fills.
    ///
    /// Even spacing reduces throughput: the limiter makes up for a late timer only as far as the bucket holds more than
    /// one permit. If requests always wait and the capacity is 1, the limiter reaches 93 % of a rate of 1,000 per
    /// second, and 30 % of 100,000 per second.
    amount capacity = 1;

    /// The treatment of the level when the options change.
    weir::carry_over carry_over = carry_over::as_is;
};

namespace policy {

/// A rate limit with even spacing: each grant adds to a bucket that leaks at `rate`, and no grant may make it overflow.
///
/// While the bucket is full, `enter` waits in a queue, which `queue_options` bounds, and `try_enter` fails; so does
/// `enter` with a queue of 0.
///
/// With the default capacity of 1, grants are at least 1/rate apart, to the nanosecond, also after idleness and after a
/// late timer; a request for n permits needs a capacity of n. A larger capacity suits requests that come in bursts, and
/// makes up for late timers.
///
/// A leaky bucket is the mirror image of a `token_bucket`: its room corresponds to the tokens. Use `token_bucket` to
/// save permits for bursts, and `leaky_bucket` for a steady pace.
///
/// Guarantee: at most `capacity` permits are granted at once, and in any time interval d at most
/// `capacity + rate * (d + 1 ns)`, not counting as many as were refunded in it. Each request is granted as soon as it
/// fits. Callers that always wait get exactly the rate.
///
/// Formula: `level = max(0, level - rate * elapsed)`; n permits are granted if `level + n <= capacity`. The arithmetic
/// is in whole numbers, without rounding. `remaining` is the room. The level, rounded up, is the
/// capacity minus the room.
///
/// Memory: constant; 16 bytes of state.
///
/// Source: the leaky bucket as a meter of Turner (1986), in the form of the generic cell rate algorithm of ITU-T I.371.
class leaky_bucket_rule {
public:
    using options_type = leaky_bucket_options;
    using state_type = bucket::state;

    explicit leaky_bucket_rule(options_type const& options);

    [[nodiscard]] state_type begin(time_point now) const noexcept { return bucket_.filled(0, now); }
    /// Continues from `before`. `as_is` keeps the level, even above a lower capacity: the excess must leak out first.
    void take_over(state_type& s, leaky_bucket_rule const& old, state_type const& before,
                   time_point now) const noexcept;
    [[nodiscard]] bool are_alike(state_type const& a, state_type const& b,
                                 time_point now) const noexcept {
        return bucket_.are_equal(a, b, now);
    }

    [[nodiscard]] options_type const& options() const noexcept { return options_; }
    [[nodiscard]] amount capacity() const noexcept { return options_.capacity; }
    [[nodiscard]] bool timed() const noexcept { return true; }
    [[nodiscard]] weir::tickets tickets() const noexcept { return tickets::none; }
    [[nodiscard]] bool catches_up() const noexcept { return true; }
    static constexpr auto schedule = weir::schedule::by_sum;
    [[nodiscard]] amount remaining(state_type const& s, time_point now) const noexcept {
        return bucket_.room(s, now);
    }
    [[nodiscard]] amount debt(state_type const& s, time_point now) const noexcept {
        return bucket_.debt(s, now);
    }
    /// Returns the level of the bucket, rounded up to whole permits; above the capacity after `charge` or `settle` took
    /// more.
    [[nodiscard]] amount level(state_type const& s, time_point now) const noexcept {
        auto const permit = bucket_.measure().permit;
        return static_cast<amount>((bucket_.level(s, now) + permit - 1) / permit);
    }
    /// Returns when `n` permits can be granted after `ahead` others. It is exact for any `ahead`, unless more leaks in
    /// a nanosecond than is in the bucket.
    [[nodiscard]] time_point ready_at(state_type const& s, amount n, amount ahead,
                                      time_point now) const noexcept {
        return bucket_.ready_at(s, n, ahead, now);
    }

    ticket take(state_type& s, amount n, time_point now) const noexcept {
        bucket_.take(s, n, now);
        return 0;
    }
    static constexpr bool ignores_leave = true;
    bool leave(state_type&, amount, ticket) const noexcept { return false; }
    bool refund(state_type& s, amount n, ticket, time_point now) const noexcept {
        return bucket_.put_back(s, n, now);
    }
    ticket merge(state_type&, ticket a, ticket, amount) const noexcept { return a; }
    void save(state_type const& s, number_writer& to, time_point now) const {
        bucket_.save(s, to, now);
    }
    [[nodiscard]] bool load(state_type& s, number_reader& from, time_point then) const noexcept {
        return bucket_.load(s, from, then);
    }

private:
    options_type options_;
    bucket bucket_;
};

/// The policy of `weir::leaky_bucket`: a rate limit with even spacing.
using leaky_bucket = ruled<leaky_bucket_rule>;

}  // namespace policy
}  // namespace weir::inline v0_2
