#pragma once

#include <weir/policy/token_bucket.hpp>

#include <algorithm>
#include <cstdint>

namespace weir::inline v0_2 {

/// The options of `adaptive_rate`.
struct adaptive_rate_options {
    /// The lowest rate in permits per second, 0.001 to 1,000,000.
    double least = 0.5;
    /// The highest rate in permits per second, `least` to 1,000,000.
    double most = 1'000'000;
    /// The factor by which a rejection by the service lowers the rate, 0.01 to 0.99.
    double decrease = 0.7;
    /// The speed with which the rate grows again, in permits per second per cubic second, 0.001 to 1,000.
    double growth = 0.4;
};

namespace policy {

/// A rate that follows the rejections of a service: it falls with each permit that is reported as `outcome::dropped`, and
/// grows with each success, by CUBIC.
///
/// Until the first rejection there is no limit. A rejection of a request that was granted after the latest fall sets the rate to `decrease` times the present rate, or times
/// the measured rate of releases if that is lower. t seconds later a success sets it to
/// `growth * (t - k)^3 + w`, where w is the rate before the fall and k the time at which this formula returns to w; but at
/// most to twice the measured rate. So the rate returns fast, stays near w, and then searches further. A client that sends
/// less than its rate has a lower rate afterwards, which doubles every half second when it sends more.
///
/// Permits accumulate for a second. A request for more than these waits for all of them, and the rest is a debt.
///
/// `keyed` does not support it: what it has learned is never like the state of an unused key, so no key could be
/// forgotten. Make one for each service.
///
/// Memory: constant, about 250 bytes. Each call takes constant time.
///
/// Source: the adaptive retry mode of the AWS SDKs; CUBIC of RFC 9438.
class adaptive_rate {
public:
    using options_type = adaptive_rate_options;

    explicit adaptive_rate(options_type const& options);

    void begin(time_point now) noexcept { slot_ = slot_of(now); }
    /// Continues with the rate and the measurement of `before`.
    void take_over(adaptive_rate& before, time_point now) noexcept;

    [[nodiscard]] options_type const& options() const noexcept { return options_; }
    /// Returns whether there was a rejection, so that there is a rate.
    [[nodiscard]] bool has_rate() const noexcept { return has_rate_; }
    /// Returns the rate in permits per second.
    [[nodiscard]] double per_second() const noexcept { return per_second_; }
    [[nodiscard]] amount capacity() const noexcept { return max_amount; }
    [[nodiscard]] bool timed() const noexcept { return true; }
    [[nodiscard]] bool catches_up() const noexcept { return true; }
    [[nodiscard]] amount remaining(time_point now) const noexcept {
        return has_rate_ ? bucket_.remaining(now) : max_amount;
    }
    [[nodiscard]] amount debt(time_point now) const noexcept {
        return has_rate_ ? bucket_.debt(now) : 0;
    }
    [[nodiscard]] time_point ready_at(amount n, amount ahead, time_point now) const noexcept {
        return has_rate_ ? bucket_.ready_at(std::min(n, bucket_.capacity()), ahead, now) : now;
    }

    ticket take(amount n, time_point now) noexcept {
        if (has_rate_)
            bucket_.take(n, now);
        return static_cast<ticket>(now.time_since_epoch().count()) << 2;
    }
    [[nodiscard]] ticket report(ticket t, outcome o) noexcept {
        return (t & ~code_mask) | code_of(o);
    }
    [[nodiscard]] bool times_leave() const noexcept { return true; }
    bool leave(amount n, ticket t, time_point now) noexcept;
    bool refund(amount n, ticket t, time_point now) noexcept {
        return has_rate_ && granted_at(t) >= limited_since_ && bucket_.refund(n, 0, now);
    }
    /// Merges two tickets: the permits count from the earlier grant, as dropped if either was, and otherwise as a success if
    /// either was. One without a report takes the outcome of the other, as the permits do that `settle` adds.
    [[nodiscard]] ticket merge(ticket a, ticket b, amount) noexcept;

private:
    // A ticket is the time of the grant, without the two highest bits, and the outcome; 0 without a report, as after a success.
    static constexpr ticket code_mask = 3;
    [[nodiscard]] static ticket code_of(outcome o) noexcept { return static_cast<ticket>(o) + 1; }
    [[nodiscard]] static time_point granted_at(ticket t) noexcept {
        return time_point(duration(static_cast<duration::rep>(t & ~code_mask) >> 2));
    }

    // The release of permits is measured by slots of half a second.
    [[nodiscard]] static std::int64_t slot_of(time_point now) noexcept {
        return now.time_since_epoch() / std::chrono::milliseconds(500);
    }
    void measure(amount n, time_point now) noexcept;
    void fall(time_point now) noexcept;
    void grow(time_point now) noexcept;
    void set_rate(double per_second, time_point now) noexcept;

    options_type options_;
    bool has_rate_ = false;
    time_point limited_since_{};  // the first rejection
    token_bucket bucket_;
    double per_second_ = 0;
    double before_fall_ = 0;  // the rate before the latest rejection
    time_point fell_{};       // the time of it
    std::int64_t slot_ = 0;   // the slot that is counted
    amount count_ = 0;        // permits released in it
    double measured_ = 0;     // permits released per second, smoothed
};

}  // namespace policy
}  // namespace weir::inline v0_2
