#pragma once

#include <weir/amount.hpp>
#include <weir/policy/carry_over.hpp>
#include <weir/rate.hpp>
#include <weir/time.hpp>

#include "support/random.hpp"

#include <boost/multiprecision/cpp_int.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <iterator>
#include <utility>
#include <vector>

namespace support {

/// A leaking bucket, by definition. It is unknown since when the bucket was never empty, so any event may have been
/// the first; the level is the maximum over all these cases. A bucket that begins empty has been empty for long. All
/// numbers are of a type that cannot overflow; a permit is `permit()`.
class bucket_history {
public:
    using number = boost::multiprecision::number<boost::multiprecision::int512_t::backend_type,
                                                 boost::multiprecision::et_off>;
    using time_point = weir::time_point;
    using amount = weir::amount;

    bucket_history(weir::rate const& rate, amount capacity, bool by_periods)
        : rate_(rate), capacity_(capacity), by_periods_(by_periods) {}

    [[nodiscard]] bool stands_still() const { return rate_.permits() == 0; }
    [[nodiscard]] number permit() const {
        return by_periods_ ? number(1) : number(rate_.period().count());
    }
    [[nodiscard]] number full() const { return capacity_ * permit(); }
    /// Nothing overflows while a request waits.
    [[nodiscard]] bool is_fine_grained() const {
        return !by_periods_ && rate_ <= weir::rate{1, weir::duration(1)};
    }
    /// The loss of a bucket that has been empty for long: its loss in less than a nanosecond, and less than a permit.
    [[nodiscard]] number owed() const {
        return std::max<number>(std::min<number>(rate_.permits(), permit()) - 1, 0);
    }
    [[nodiscard]] time_point beat(time_point now) const {
        return origin_ + (now - origin_) / rate_.period() * rate_.period();
    }

    /// The amount that leaks in a nanosecond.
    [[nodiscard]] number level_lost_by_tick() const { return rate_.permits(); }

    void begin(time_point origin, number level, time_point now) {
        origin_ = origin;
        events_ = {{now, level == 0 ? -owed() : std::move(level)}};
    }
    void add(amount n, time_point now) {
        events_.push_back({now, n * permit()});
        granted_.push_back({now, n});
    }
    void take_out(amount n, time_point now) { events_.push_back({now, -n * permit()}); }

    [[nodiscard]] number level(time_point t) const {
        auto const by_now = gone(t);
        number highest = -owed();
        number sum = 0;
        for (auto e = events_.rbegin(); e != events_.rend(); ++e) {
            sum += e->what;
            auto const before = std::next(e) == events_.rend() ? number(0) : owed();
            highest = std::max<number>(highest, sum - before - (by_now - gone(e->at)));
        }
        return highest;
    }
    [[nodiscard]] amount permits_at(time_point t) const {
        return static_cast<amount>((level(t) + permit() - 1) / permit());
    }

    /// Returns whether, between any two grants, at most the capacity and the leaked amount was granted.
    [[nodiscard]] bool is_lawful() const {
        for (auto first = granted_.begin(); first != granted_.end(); ++first) {
            number sum = 0;
            for (auto g = first; g != granted_.end(); ++g) {
                sum += g->what * permit();
                if (sum > full() + owed() + gone(g->at) - gone(first->at))
                    return false;
            }
        }
        return true;
    }

    /// a * m / d, rounded down.
    [[nodiscard]] static number scaled(number const& a, number const& m, number const& d) {
        number const product = a * m;
        return product < 0 ? -((-product + d - 1) / d) : product / d;
    }

private:
    struct event {
        time_point at;
        number what;
    };

    [[nodiscard]] number gone(time_point t) const {
        auto const passed = number((t - origin_).count());
        return by_periods_ ? passed / rate_.period().count() * rate_.permits()
                           : passed * rate_.permits();
    }

    weir::rate rate_;
    amount capacity_;
    bool by_periods_;
    time_point origin_{};
    std::vector<event> events_;
    std::vector<event> granted_;
};

/// From one per century to a quadrillion per nanosecond, and none at all.
[[nodiscard]] inline weir::rate some_rate(random_source& random) {
    using namespace std::chrono_literals;
    auto const period =
        random.one_in(3)
            ? weir::duration(1 + random.of_any_size(weir::forever.count() - 1))
            : random.one_of<weir::duration>(
                  {1ns, 2ns, 3ns, 7ns, 1us, 1s, 3s, 24h * 365, 24h * 36'525, weir::forever});
    auto const permits = random.one_in(4)   ? random.of_any_size(weir::max_amount)
                         : random.one_in(9) ? 0
                                            : random.between(1, 7);
    return {permits, period};
}

[[nodiscard]] inline weir::amount some_capacity(random_source& random) {
    return random.one_in(6) ? 1 + random.of_any_size(weir::max_amount - 1) : random.between(1, 8);
}

[[nodiscard]] inline weir::carry_over some_carry_over(random_source& random) {
    using enum weir::carry_over;
    return random.one_of({as_is, proportional, reset});
}

}  // namespace support
