#pragma once

#include <weir/policy/bucket.hpp>
#include <weir/policy/carry_over.hpp>
#include <weir/policy/rule.hpp>
#include <weir/rate.hpp>

#include <bit>
#include <cstdint>
#include <optional>

namespace weir {

/// How permits come back into a bucket.
enum class refill : std::uint8_t {
    continuous,  ///< evenly: of 100 per second, one each 10 ms
    interval,    ///< all at once at the end of each period: of 100 per second, 100 each second
};

struct token_bucket_options {
    /// How many permits come back, and in what time. With 0 permits none do: what is in the bucket can
    /// be taken, and then nothing until the rate is changed.
    weir::rate rate{1, std::chrono::seconds(1)};

    /// How many permits the bucket holds, and so how many can be granted at once after a pause: 1 to
    /// `max_amount`. Unset, it is the number of permits in `rate`, but at least 1.
    ///
    /// A small burst costs throughput: what comes back while the bucket is full is lost, and no timer is
    /// as fine as a high rate. With callers always waiting and a burst of 1, 93 % of a rate of 1,000 a
    /// second is reached, and 30 % of 100,000 a second. The burst that loses nothing is what comes back
    /// while a timer is late: some milliseconds' worth.
    std::optional<amount> burst = {};

    /// How many are in it at first, 0 to the burst; unset, it is full.
    std::optional<amount> initial = {};

    weir::refill refill = refill::continuous;

    /// What becomes of the permits in the bucket when options change.
    weir::carry_over carry_over = carry_over::as_is;
};

namespace policy {

/// An average rate that allows for bursts: permits come back at `rate` into a bucket that holds
/// `burst`, and are granted from there.
///
/// Guarantee: at most `burst` permits are granted at once, and in any stretch of time d at most
/// `burst + rate * (d + 1 ns)`, not counting as many as were given back unused in it; with
/// `refill::interval`, at most `burst` and what the periods give that end in it. Callers that always wait
/// get the rate to the unit for as long as it lasts: 1/3 a second is a billion in three billion seconds. A
/// late timer loses nothing that the bucket can hold.
/// Formula: `tokens = min(burst, tokens + rate * elapsed)`, in whole numbers and never rounded.
/// A bucket that is not full at first, or is refilled by intervals, begins to fill when the limiter is
/// made. One that is full at first has always been full.
/// A refund goes back into the bucket as far as it fits. Debt, which only `charge` and `settle` can make,
/// is paid from what comes back, before anybody else is served.
/// Memory: constant; 16 bytes of state.
/// Source: the token bucket, which is the leaky bucket of Turner (1986) seen from above, in the form of
/// the generic cell rate algorithm of ITU-T I.371.
class token_bucket_rule {
public:
    using options_type = token_bucket_options;
    using drops = policy::drops;
    /// Of one of the two buckets.
    struct state_type {
        drops of_either;
    };

    explicit token_bucket_rule(options_type const& options);

    [[nodiscard]] state_type begin(time_point now) const noexcept;
    /// Debt stays, unless all is reset. An interval goes on if its length is the same, and begins anew
    /// otherwise.
    void take_over(state_type& s, token_bucket_rule const& old, state_type const& before,
                   time_point now) const noexcept;
    [[nodiscard]] bool are_alike(state_type const& a, state_type const& b,
                                 time_point now) const noexcept;

    [[nodiscard]] options_type const& options() const noexcept { return options_; }
    [[nodiscard]] amount capacity() const noexcept { return even_.capacity(); }
    [[nodiscard]] bool timed() const noexcept { return true; }
    [[nodiscard]] weir::tickets tickets() const noexcept { return tickets::none; }
    [[nodiscard]] bool catches_up() const noexcept { return true; }
    static constexpr bool is_scheduled = true;
    [[nodiscard]] amount remaining(state_type const& s, time_point now) const noexcept {
        return by_intervals_ ? beats_.room(beat_of(s), now) : even_.room({s.of_either}, now);
    }
    [[nodiscard]] amount debt(state_type const& s, time_point now) const noexcept {
        return by_intervals_ ? beats_.debt(beat_of(s), now) : even_.debt({s.of_either}, now);
    }
    /// Exact behind others as well, unless more comes back at a time than the bucket has room for.
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
    /// `beat` is when the period under way has begun, if there are any.
    [[nodiscard]] state_type filled(drops level, time_point beat, time_point now) const noexcept;

    options_type options_;
    bucket even_;
    interval_bucket beats_;
    bool by_intervals_;
};

using token_bucket = ruled<token_bucket_rule>;

}  // namespace policy
}  // namespace weir
