#pragma once

#include <weir/policy/bucket.hpp>
#include <weir/policy/carry_over.hpp>
#include <weir/policy/policy.hpp>
#include <weir/rate.hpp>

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
/// `refill::interval`, at most `burst` and what the periods give that end in it. Who always waits gets
/// the rate to the unit for as long as it lasts: 1/3 a second is a billion in three billion seconds. A
/// late timer loses nothing that the bucket can hold.
/// Formula: `tokens = min(burst, tokens + rate * elapsed)`, in whole numbers and never rounded.
/// A bucket that is not full at first, or is refilled by intervals, begins to fill when the limiter is
/// made.
/// A refund goes back into the bucket as far as it fits. Debt, which only `charge` and `settle` can make,
/// is paid from what comes back, before anybody else is served.
/// Memory: constant.
/// Source: the token bucket, which is the leaky bucket of Turner (1986) seen from above, in the form of
/// the generic cell rate algorithm of ITU-T I.371.
class token_bucket {
public:
    using options_type = token_bucket_options;

    explicit token_bucket(options_type const& options);

    [[nodiscard]] options_type const& options() const noexcept { return options_; }
    /// Debt stays, unless all is reset. An interval goes on if its length is the same, and begins anew
    /// otherwise.
    void take_over(token_bucket& before, time_point now) noexcept;
    void begin(time_point now) noexcept;

    [[nodiscard]] amount capacity() const noexcept { return bucket_.capacity(); }
    [[nodiscard]] bool timed() const noexcept { return true; }
    [[nodiscard]] bool catches_up() const noexcept { return true; }
    [[nodiscard]] amount remaining(time_point now) const noexcept { return bucket_.room(now); }
    /// Exact behind others as well, unless more comes back at a time than the bucket has room for.
    [[nodiscard]] time_point ready_at(amount n, amount ahead, time_point now) const noexcept {
        return bucket_.ready_at(n, ahead, now);
    }

    ticket take(amount n, time_point now) noexcept {
        bucket_.take(n, now);
        return 0;
    }
    bool leave(amount, ticket) noexcept { return false; }
    bool refund(amount n, ticket, time_point now) noexcept { return bucket_.put_back(n, now); }
    ticket merge(ticket a, ticket, amount) noexcept { return a; }

private:
    options_type options_;
    bucket bucket_;
};

}  // namespace policy
}  // namespace weir
