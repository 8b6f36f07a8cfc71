#pragma once

#include <weir/amount.hpp>
#include <weir/policy/seats.hpp>
#include <weir/policy/sliding_log.hpp>
#include <weir/time.hpp>

#include "support/random.hpp"

#include <algorithm>
#include <numeric>
#include <optional>
#include <vector>

// Rules that follow the documentation of their policies, with all grants, and without regard for speed: the oracle of
// a limiter uses them.

namespace support {

using weir::amount;
using weir::duration;
using weir::never;
using weir::time_point;

/// The rule of `seats`, by its documentation: at most `limit` permits are in use at a time.
class slow_seats {
public:
    using policy = weir::policy::seats;
    using options = weir::seats_options;
    static constexpr bool can_tell_when = false;

    static options any_options(random_source& random, bool watched) {
        return {.seats = random.between(1, 5),
                .max_hold = watched ? duration(random.between(5, 40)) : weir::forever};
    }

    explicit slow_seats(options const& o) : options_(o) {}
    void change(options const& o, time_point) { options_ = o; }

    [[nodiscard]] amount capacity() const { return options_.seats; }
    [[nodiscard]] duration max_hold() const { return options_.max_hold; }
    [[nodiscard]] amount remaining(time_point) const {
        return std::max<amount>(options_.seats - used_, 0);
    }
    [[nodiscard]] bool fits(amount n, time_point) const { return used_ + n <= options_.seats; }
    void take(amount n, time_point) { used_ += n; }
    void leave(amount n) { used_ -= n; }
    void refund(amount n, time_point) { used_ -= n; }

    /// Returns when `n` could be granted at the earliest after all of `ahead`, if no request ahead gives up.
    [[nodiscard]] std::optional<time_point> turn(std::vector<amount> const& ahead, amount n,
                                                 time_point now) const {
        auto const all = std::accumulate(ahead.begin(), ahead.end(), n);
        return fits(all, now) ? std::optional(now) : std::nullopt;
    }

private:
    options options_;
    amount used_ = 0;
};

/// The rule of `sliding_log`: at most `limit` grants in any half-open window; each expires one window after its
/// grant.
class slow_log {
public:
    using policy = weir::policy::sliding_log;
    using options = weir::sliding_log_options;
    static constexpr bool can_tell_when = true;

    static options any_options(random_source& random, bool) {
        return {.limit = random.between(1, 5), .window = duration(random.between(1, 30))};
    }

    explicit slow_log(options const& o) : options_(o) {}
    void change(options const& o, time_point now) {
        // Expired permits stay free.
        std::erase_if(grants_, [&](grant const& g) { return g.at + options_.window <= now; });
        options_ = o;
    }

    [[nodiscard]] amount capacity() const { return options_.limit; }
    [[nodiscard]] static duration max_hold() { return weir::forever; }
    [[nodiscard]] amount remaining(time_point now) const {
        return std::max<amount>(options_.limit - used(now), 0);
    }
    [[nodiscard]] bool fits(amount n, time_point now) const {
        return used(now) + n <= options_.limit;
    }
    void take(amount n, time_point now) { grants_.push_back({now, n}); }
    static void leave(amount) {}
    void refund(amount n, time_point granted) {
        for (auto& g : grants_) {
            auto const here = g.at == granted ? std::min(n, g.count) : 0;
            g.count -= here;
            n -= here;
        }
    }

    [[nodiscard]] std::optional<time_point> turn(std::vector<amount> const& ahead, amount n,
                                                 time_point now) const {
        auto later = *this;
        for (auto block : ahead) {
            for (amount part = 0; block > 0; block -= part) {
                part = std::min(block, capacity());  // more cannot be granted at once
                now = later.earliest(part, now);
                later.take(part, now);
            }
        }
        return later.earliest(n, now);
    }

private:
    struct grant {
        time_point at;
        amount count;
    };

    [[nodiscard]] amount used(time_point now) const {
        amount sum = 0;
        for (auto const& g : grants_)
            sum += g.at + options_.window > now ? g.count : 0;
        return sum;
    }

    [[nodiscard]] time_point earliest(amount n, time_point now) const {
        while (!fits(n, now)) {
            auto next = never;
            for (auto const& g : grants_) {
                if (g.count != 0 && g.at + options_.window > now)
                    next = std::min(next, g.at + options_.window);
            }
            now = next;
        }
        return now;
    }

    options options_;
    std::vector<grant> grants_;
};

}  // namespace support
