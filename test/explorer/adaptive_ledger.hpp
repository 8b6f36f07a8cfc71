#pragma once

#include <weir/outcome.hpp>
#include <weir/policy/adaptive_rate.hpp>

#include "invariant.hpp"
#include "ledger.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <utility>

namespace explorer {

/// The state of an `adaptive_ledger` besides the permits.
struct adaptive_state {
    __extension__ using parts = __int128;
    using real = long double;

    bool has_rate_ = false;
    bool has_bucket_ = false;
    real rate_ = 0;    // permits per second
    real before_ = 0;  // the rate before the latest fall
    time_point fell_{};
    time_point first_fall_{};

    std::int64_t half_ = 0;  // the half second since which permits are counted
    amount released_ = 0;
    real measured_ = 0;

    parts by_nanosecond_ = 0;
    parts full_ = 0;
    parts room_ = 0;
    time_point since_{};
    parts at_change_ = 0;   // the room at the latest change of the rate
    bool changes_ = false;  // since the policy told its rate last
};

/// A rate that follows the rejections of a service, by the words of `policy::adaptive_rate`, between one in each `time` and
/// `limit` per second. The AWS SDKs define the measured rate: when a permit is released in a later half second of the
/// clock, the permits since the last such time count as four fifths, and the measured rate before as one fifth.
///
/// The formulas are evaluated with more digits than the policy has, so its rate may differ from theirs, by 1e-9 of it.
/// From its rate on, everything is exact: the rate is a whole number of thousandths of a permit per second, and permits are
/// counted in parts, of which a nanosecond at this rate adds a whole number. A change of the rate keeps the permits, as far
/// as they accumulate in a second. A full bucket also has a fraction of a nanosecond's worth, and less than a permit.
class adaptive_ledger final : public ledger, adaptive_state {
public:
    adaptive_ledger(rule in_force, time_point now) : ledger(in_force) { half_ = half_of(now); }

    bool fits(amount n, time_point now) const override {
        return !has_rate_ || room(now) >= needs(n);
    }
    amount capacity() const noexcept override { return weir::max_amount; }
    amount remaining(time_point now) const override {
        return has_rate_ ? static_cast<amount>(std::max<parts>(room(now), 0) / permit)
                         : weir::max_amount;
    }

    void took(amount n, ticket t, time_point now) override {
        if (!forecasts_)
            permits_[t] = {.granted = now};
        if (has_rate_)
            set(all_room(now) - n * permit, now);
    }
    void reported(ticket t, ticket after, weir::outcome o) override {
        permits_[after] = {.granted = permits_.at(t).granted, .how = o};
    }
    // The earlier grant counts. Permits without a report take the outcome of the others. Otherwise all are dropped if some
    // were, and ignored only if all were.
    void merged(ticket a, ticket b, ticket both, amount) override {
        auto const one = permits_.at(a);
        auto const other = permits_.at(b);
        auto const a_or_b = [&](weir::outcome o) { return one.how == o || other.how == o; };
        auto how = one.how ? one.how : other.how;
        if (one.how && other.how)
            how = a_or_b(weir::outcome::dropped)   ? weir::outcome::dropped
                  : a_or_b(weir::outcome::success) ? weir::outcome::success
                                                   : weir::outcome::ignored;
        permits_[both] = {.granted = std::min(one.granted, other.granted), .how = how};
    }
    void refunded(amount n, ticket t, time_point now) override {
        if (has_rate_ && permits_.at(t).granted >= first_fall_)
            set(all_room(now) + n * permit, now);
    }
    void came_home(amount n, ticket t, time_point now) override {
        auto const p = permits_.at(t);
        auto const how = p.how.value_or(weir::outcome::success);
        if (how == weir::outcome::ignored)
            return;
        measure(n, now);
        if (how == weir::outcome::success) {
            if (has_rate_)
                change_rate(std::min(cubic(now), 2 * measured_), now);
        } else if (!has_rate_ || p.granted >= fell_) {
            before_ = has_rate_ ? std::min(measured_, rate_) : measured_;
            fell_ = now;
            if (!has_rate_) {
                first_fall_ = since_ = now;
                has_rate_ = true;
            }
            change_rate(decrease * before_, now);
        }
    }
    void configured(rule next, time_point now) override {
        rule_ = next;
        if (has_rate_)
            change_rate(rate_, now);
    }
    void follows(bool has_rate, double per_second, time_point now) override {
        if (has_rate != has_rate_)
            violated(invariant::verdict, "a rate exists that should not, or the reverse");
        if (!std::exchange(changes_, false))
            return;
        auto const right = static_cast<double>(rate_);
        if (std::abs(right - per_second) > 1e-9 * right)
            violated(invariant::verdict,
                     fmt::format("the rate is {}, and it should be {}", per_second, right));
        use_rate(per_second, now);
    }

private:
    // A rate of a thousandth of a permit per second adds one part in a nanosecond.
    static constexpr parts permit = 1'000'000'000'000;
    static constexpr real decrease = weir::adaptive_rate_options().decrease;
    static constexpr real growth = weir::adaptive_rate_options().growth;

    struct granted_permit {
        time_point granted{};
        std::optional<weir::outcome> how = {};
    };

    static std::int64_t half_of(time_point t) {
        return t.time_since_epoch() / std::chrono::milliseconds(500);
    }
    void measure(amount n, time_point now) {
        released_ += n;
        if (half_of(now) == half_)
            return;
        auto const seconds = static_cast<real>(half_of(now) - half_) / 2;
        measured_ = measured_ / 5 + 4 * (static_cast<real>(released_) / seconds) / 5;
        released_ = 0;
        half_ = half_of(now);
    }
    [[nodiscard]] real cubic(time_point now) const {
        auto const t = std::chrono::duration<real>(now - fell_).count();
        auto const back = std::cbrt(before_ * (1 - decrease) / growth);
        return growth * std::pow(t - back, real(3)) + before_;
    }
    void change_rate(real per_second, time_point now) {
        auto const least = 1 / std::chrono::duration<real>(rule_.time).count();
        rate_ = std::clamp(per_second, least, std::max(static_cast<real>(rule_.limit), least));
        at_change_ = has_bucket_ ? room(now) : 0;
        has_bucket_ = changes_ = true;
        use_rate(static_cast<double>(rate_), now);
    }
    // Begins the present rate with the permits that were there.
    void use_rate(double per_second, time_point now) {
        rate_ = per_second;
        by_nanosecond_ = std::llround(per_second * 1000);  // of a double, as the policy rounds it
        full_ = std::max<parts>(std::llround(std::ceil(per_second)), 1) * permit;
        set(at_change_ < full_ ? at_change_ : full_ + spare(), now);
    }

    [[nodiscard]] parts spare() const { return std::min(by_nanosecond_, permit) - 1; }
    [[nodiscard]] parts all_room(time_point now) const {
        return std::min(room_ + (now - since_).count() * by_nanosecond_, full_ + spare());
    }
    [[nodiscard]] parts room(time_point now) const { return std::min(all_room(now), full_); }
    void set(parts room, time_point now) {
        room_ = room;
        since_ = now;
    }
    // A request for more than accumulates waits for all of that.
    [[nodiscard]] parts needs(amount n) const { return std::min(n * permit, full_); }

    std::unique_ptr<ledger> copy() const override {
        auto twin = std::make_unique<adaptive_ledger>(rule_, time_point());
        static_cast<adaptive_state&>(*twin) = *this;
        twin->forecasts_ = true;
        return twin;
    }
    time_point alone(amount n, time_point now) const override {
        if (fits(n, now))
            return now;
        auto const lacking = needs(n) - all_room(now);
        return now + duration(static_cast<duration::rep>((lacking - 1) / by_nanosecond_ + 1));
    }

    std::map<ticket, granted_permit> permits_;
    bool forecasts_ = false;  // a copy: the policy does not know its tickets
};

}  // namespace explorer
