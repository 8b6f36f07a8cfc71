#pragma once

#include <weir/policy/bucket.hpp>
#include <weir/policy/carry_over.hpp>
#include <weir/policy/rule.hpp>
#include <weir/rate.hpp>

namespace weir {

struct leaky_bucket_options {
    /// How many permits leak out of the bucket, and in what time. With 0 permits it has no leak, and
    /// once it is full nothing is granted until the rate is changed.
    weir::rate rate{1, std::chrono::seconds(1)};

    /// How many permits the bucket holds, 1 to `max_amount`. 1 spaces grants evenly; with more, as many
    /// are granted at once while the bucket fills.
    ///
    /// Even spacing costs throughput: what a late timer misses is only made up for as far as the bucket
    /// holds more than 1. With callers always waiting and a capacity of 1, 93 % of a rate of 1,000 a
    /// second is reached, and 30 % of 100,000 a second.
    amount capacity = 1;

    /// What becomes of the level when options change.
    weir::carry_over carry_over = carry_over::as_is;
};

namespace policy {

/// Even spacing: what is granted is poured into a bucket that leaks at `rate`, and nothing is granted
/// that would make it overflow.
///
/// When the bucket is full, newcomers wait with `enter` (the tap is shut), in a line that
/// `queue_options` bounds, and are rejected with `try_enter` or a queue of 0 (it overflows).
/// With the default capacity of 1, grants are 1/rate apart at least, to the nanosecond, whatever was
/// idle before and however late a timer is; one for n at a time needs a capacity of n. A larger capacity
/// is for what comes in bunches, and makes up for late timers.
/// It is the mirror image of `token_bucket`, whose tokens are this one's room: use that to save up for
/// bursts, and this where a pace is wanted.
/// Guarantee: at most `capacity` permits are granted at once, and in any stretch of time d at most
/// `capacity + rate * (d + 1 ns)`, not counting as many as were given back unused in it; each is granted
/// as soon as it fits. Callers that always wait get the rate to the unit.
/// Formula: `level = max(0, level - rate * elapsed)`; n is granted if `level + n <= capacity`. In whole
/// numbers, never rounded. `remaining` is the room; the level, rounded up, is the capacity less that.
/// Memory: constant; 16 bytes of state.
/// Source: the leaky bucket as a meter of Turner (1986), in the form of the generic cell rate algorithm
/// of ITU-T I.371.
class leaky_bucket_rule {
public:
    using options_type = leaky_bucket_options;
    using state_type = bucket::state;

    explicit leaky_bucket_rule(options_type const& options);

    [[nodiscard]] state_type begin(time_point now) const noexcept { return bucket_.filled(0, now); }
    /// `as_is` keeps the level, even above a lower capacity: what is too much must leak out first.
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
    static constexpr bool is_scheduled = true;
    [[nodiscard]] amount remaining(state_type const& s, time_point now) const noexcept {
        return bucket_.room(s, now);
    }
    [[nodiscard]] amount debt(state_type const& s, time_point now) const noexcept {
        return bucket_.debt(s, now);
    }
    /// How full the bucket is, rounded up to whole permits; above the capacity where `charge` or
    /// `settle` has filled it further.
    [[nodiscard]] amount level(state_type const& s, time_point now) const noexcept {
        auto const permit = bucket_.measure().permit;
        return static_cast<amount>((bucket_.level(s, now) + permit - 1) / permit);
    }
    /// Exact behind others as well, unless more leaks out in a nanosecond than is in the bucket.
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

private:
    options_type options_;
    bucket bucket_;
};

using leaky_bucket = ruled<leaky_bucket_rule>;

}  // namespace policy
}  // namespace weir
