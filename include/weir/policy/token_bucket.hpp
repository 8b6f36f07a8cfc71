#pragma once

#include <weir/policy/bucket.hpp>
#include <weir/policy/carry_over.hpp>
#include <weir/policy/rule.hpp>
#include <weir/rate.hpp>
#include <weir/saved_numbers.hpp>

#include <bit>
#include <cstdint>
#include <optional>

namespace weir::inline v0_2 {

/// The way in which a bucket is refilled.
enum class refill : std::uint8_t {
    continuous,  ///< evenly: at 100 per second, one permit every 10 ms
    interval,    ///< at the end of each period: at 100 per second, 100 permits every second
};

/// The options of `token_bucket`.
struct token_bucket_options {
    /// The rate at which the bucket is refilled. With 0 permits it never is: its permits can be taken, and then nothing
    /// until the rate changes. A request that finds too few permits waits for that change, until its patience ends.
    weir::rate rate{1, std::chrono::seconds(1)};

    /// The number of permits that the bucket holds, and so the most that can be granted at once after a pause: 1 to
    /// `max_amount`. By default it is the number of permits in `rate`, but at least 1.
    ///
    /// A small burst reduces throughput: a full bucket loses its refill, and no timer is as fine as a high rate. If
    /// requests always wait and the burst is 1, the limiter reaches 93 % of a rate of 1,000 per second, and 30 % of
    /// 100,000 per second. A burst loses nothing if it covers the lateness of a timer: the permits of some
    /// milliseconds.
    std::optional<amount> burst = {};

    /// The number of permits in a new bucket, 0 to the burst; by default it is full.
    std::optional<amount> initial = {};

    /// The way in which the bucket is refilled. A change drops the accrued part of the next permit or period: after a
    /// change to `interval` the next refill comes a whole period later, and after a change to `continuous` the next permit
    /// comes a whole permit's time later.
    weir::refill refill = refill::continuous;

    /// The treatment of the permits in the bucket when the options change.
    weir::carry_over carry_over = carry_over::as_is;
};

namespace policy {

/// A limit of the average rate, with bursts: a bucket of `burst` permits is refilled at `rate`, and permits are granted
/// from it.
///
/// Guarantee: at most `burst` permits are granted at once, and in any time interval d at most
/// `burst + rate * (d + 1 ns)`, not counting as many as were refunded in it. With `refill::interval` it is at most
/// `burst` and the refills of the periods that end in d. Callers that always wait get exactly the rate while the
/// limiter exists: 1/3 per second is a billion permits in three billion seconds. A late timer loses no permits that fit
/// into the bucket.
///
/// Formula: `tokens = min(burst, tokens + rate * elapsed)`, in whole numbers and without rounding.
///
/// Start: a bucket that is not full at first, or is refilled by intervals, starts to fill when the limiter is
/// constructed. A bucket that is full at first counts as full since ever.
///
/// A refund returns to the bucket as far as it fits. Debt, which only `charge` and `settle` cause, is paid from the
/// refill before any request is granted.
///
/// Memory: constant; 16 bytes of state.
///
/// Source: the token bucket, the mirror image of the leaky bucket of Turner (1986), in the form of the generic cell
/// rate algorithm of ITU-T I.371.
class token_bucket_rule {
public:
    using options_type = token_bucket_options;
    using drops = policy::drops;
    /// The state of one of the two kinds of bucket.
    struct state_type {
        drops of_either;
    };

    explicit token_bucket_rule(options_type const& options);

    [[nodiscard]] state_type begin(time_point now) const noexcept;
    /// Continues from `before`. Debt remains, except after `reset`. An interval continues if its length is unchanged,
    /// and starts again otherwise.
    void take_over(state_type& s, token_bucket_rule const& old, state_type const& before,
                   time_point now) const noexcept;
    [[nodiscard]] bool are_alike(state_type const& a, state_type const& b,
                                 time_point now) const noexcept;

    [[nodiscard]] options_type const& options() const noexcept { return options_; }
    [[nodiscard]] amount capacity() const noexcept { return even_.capacity(); }
    [[nodiscard]] bool timed() const noexcept { return true; }
    [[nodiscard]] weir::tickets tickets() const noexcept { return tickets::none; }
    [[nodiscard]] bool catches_up() const noexcept { return true; }
    static constexpr auto schedule = weir::schedule::by_sum;
    [[nodiscard]] amount remaining(state_type const& s, time_point now) const noexcept {
        return by_intervals_ ? beats_.room(beat_of(s), now) : even_.room({s.of_either}, now);
    }
    [[nodiscard]] amount debt(state_type const& s, time_point now) const noexcept {
        return by_intervals_ ? beats_.debt(beat_of(s), now) : even_.debt({s.of_either}, now);
    }
    /// Returns when `n` permits can be granted after `ahead` others. It is exact for any `ahead`, unless one refill is
    /// more than the bucket has room for.
    [[nodiscard]] time_point ready_at(state_type const& s, amount n, amount ahead,
                                      time_point now) const noexcept {
        return by_intervals_ ? beats_.ready_at(beat_of(s), n, ahead, now)
                             : even_.ready_at({s.of_either}, n, ahead, now);
    }

    ticket take(state_type& s, amount n, time_point now) const noexcept {
        change(s, [&](auto const& bucket, auto& own) { bucket.take(own, n, now); });
        return 0;
    }
    static constexpr bool ignores_leave = true;
    bool leave(state_type&, amount, ticket) const noexcept { return false; }
    bool refund(state_type& s, amount n, ticket, time_point now) const noexcept {
        bool made_room = false;
        change(s, [&](auto const& bucket, auto& own) { made_room = bucket.put_back(own, n, now); });
        return made_room;
    }
    ticket merge(state_type&, ticket a, ticket, amount) const noexcept { return a; }
    void save(state_type const& s, number_writer& to, time_point now) const {
        if (by_intervals_)
            interval_bucket::save(beat_of(s), to, now);
        else
            even_.save({s.of_either}, to, now);
    }
    [[nodiscard]] bool load(state_type& s, number_reader& from, time_point then) const noexcept {
        bool is_read = false;
        change(s, [&](auto const& bucket, auto& own) { is_read = bucket.load(own, from, then); });
        return is_read;
    }

private:
    [[nodiscard]] static interval_bucket::state beat_of(state_type const& s) noexcept {
        return std::bit_cast<interval_bucket::state>(s.of_either);
    }
    template <class Change>
    void change(state_type& s, Change change) const noexcept {
        if (by_intervals_) {
            auto own = beat_of(s);
            change(beats_, own);
            s.of_either = std::bit_cast<drops>(own);
        } else {
            bucket::state own{s.of_either};
            change(even_, own);
            s.of_either = own.empty;
        }
    }
    [[nodiscard]] bucket_measure measure() const noexcept {
        return by_intervals_ ? beats_.measure() : even_.measure();
    }
    [[nodiscard]] drops level(state_type const& s, time_point now) const noexcept {
        return by_intervals_ ? beats_.at(beat_of(s), now).level : even_.level({s.of_either}, now);
    }
    /// Returns a bucket with this level. `beat` is the start of the current period, if there are periods.
    [[nodiscard]] state_type filled(drops level, time_point beat, time_point now) const noexcept;

    options_type options_;
    bucket even_;
    interval_bucket beats_;
    bool by_intervals_;
};

/// The policy of `weir::token_bucket`: a limit of the average rate, with bursts.
using token_bucket = ruled<token_bucket_rule>;

}  // namespace policy
}  // namespace weir::inline v0_2
