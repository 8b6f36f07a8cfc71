#pragma once

#include <weir/amount.hpp>
#include <weir/policy/policy.hpp>
#include <weir/time.hpp>

#include "support/allocations.hpp"
#include "support/random.hpp"
#include "support/renew.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

/// Compares policies with their definitions, on random schedules.
///
/// An oracle is the definition of a policy, with the whole history and without regard for speed:
///
/// | expression                    | meaning                                                         |
/// |-------------------------------|-----------------------------------------------------------------|
/// | `O::policy_type`              | the policy that it defines                                      |
/// | `O::some_options(random)`     | random options, extremes among them                             |
/// | `O::scale(options)`           | a duration in which the state changes                           |
/// | `O(options)`                  | the initial state                                               |
/// | `o.begin(now)`                | the first question is asked                                     |
/// | `o.used_up_at(t)`             | the number of permits above the limit for one more at `t`: `n`  |
/// |                               | fit if `n - 1 + used_up_at(t) < capacity`; never rises in time  |
/// | `o.stands_still()`            | whether time alone frees no permits                             |
/// | `o.take(n, now)`              | granted, as number 0, 1, 2...                                   |
/// | `o.refund(i, n, now)`         | `n` permits of grant `i` were not used                          |
/// | `o.configure(options, now)`   | other options                                                   |
/// | `o.is_lawful()`               | whether all grants together keep the guarantee                  |
/// | `O::memory_grows`             | optional: `take` may allocate                                   |
/// | `o.exact_behind_any()`        | whether `ready_at` is exact behind unequal requests, too        |
namespace support {

using weir::amount;
using weir::duration;
using weir::ticket;
using weir::time_point;

inline constexpr duration tick{1};
inline constexpr time_point last_moment = weir::never - tick;

inline void expect(bool condition, char const* what) {
    if (!condition) [[unlikely]]
        BOOST_FAIL(what);
}

template <class Policy>
[[nodiscard]] bool fits(Policy const& policy, amount n, time_point now) {
    return policy.ready_at(n, 0, now) <= now;
}

/// The events of a schedule besides requests.
struct happenings {
    bool refunds = false;
    bool changes = false;  // of the options
    bool debts = false;
};

template <class Oracle>
class comparison {
    using policy_type = typename Oracle::policy_type;
    using options_type = typename policy_type::options_type;

public:
    comparison(random_source& random, happenings what)
        : random_(random),
          what_(what),
          options_(Oracle::some_options(random)),
          policy_(options_),
          unused_(options_),
          oracle_(options_),
          now_(some_start()) {
        policy_.begin(now_);
        unused_.begin(now_);
        oracle_.begin(now_);
        compare_remaining();
    }

    void run() {
        for (auto steps = random_.between(5, 60); steps != 0; --steps) {
            now_ = some_time();
            if (what_.refunds && random_.one_in(4))
                refund();
            else if (what_.changes && random_.one_in(10))
                configure();
            else if (what_.debts && random_.one_in(6))
                charge();
            else
                ask();
            compare_remaining();
            if (random_.one_in(8))
                ask_with_others_ahead();
            // Then it makes no difference to forget the state; the oracle forgets nothing.
            if (policy_.is_alike(unused_, now_) && random_.one_in(2))
                policy_ = unused_;
        }
        if (!what_.changes && !what_.debts && !what_.refunds)
            expect(oracle_.is_lawful(), "the guarantee holds");
    }

private:
    [[nodiscard]] amount capacity() const { return policy_.capacity(); }
    [[nodiscard]] bool lawful(Oracle const& oracle, amount n, time_point t) const {
        return oracle.used_up_at(t) <= capacity() - n;
    }

    void compare_remaining() {
        auto const left = std::max<amount>(capacity() - oracle_.used_up_at(now_), 0);
        expect(policy_.remaining(now_) == left, "the remaining permits");
    }

    [[nodiscard]] amount some_amount() {
        auto const left = policy_.remaining(now_);
        return std::clamp<amount>(
            random_.one_in(3) ? left + random_.between(-1, 1) : 1 + random_.of_any_size(8), 1,
            capacity());
    }

    void ask() {
        auto const n = some_amount();
        auto const ready = policy_.ready_at(n, 0, now_);
        expect((ready <= now_) == lawful(oracle_, n, now_), "granted iff the definition allows it");
        if (ready > now_) {
            auto const last_rejection = ready - tick;
            expect(!fits(policy_, n, last_rejection), "rejected a nanosecond before");
            expect(!lawful(oracle_, n, last_rejection), "rightly");
            expect((ready == weir::unknown) == oracle_.stands_still(), "whether time makes room");
            if (ready < weir::never) {
                expect(fits(policy_, n, ready), "granted then");
                expect(lawful(oracle_, n, ready), "rightly");
            }
            return;
        }
        allocation_count const allocations;
        auto const t = policy_.take(n, now_);
        auto const allocated = allocations();
        expect(
            allocated == 0 || requires { Oracle::memory_grows; },
            "a request that fits needs no allocation");
        note(n, t);
        expect(!weir::leave(policy_, n, t, now_), "a release makes no permits available");
    }

    void note(amount n, ticket t) {
        oracle_.take(n, now_);
        grants_.push_back({t, n});
    }

    void ask_with_others_ahead() {
        std::vector<amount> ahead(static_cast<std::size_t>(random_.between(1, 5)));
        bool const ones = random_.one_in(2);
        for (auto& units : ahead)
            units = ones ? 1 : std::min(1 + random_.of_any_size(8), capacity());
        auto const n = ones ? 1 : std::min(1 + random_.of_any_size(8), capacity());
        auto const sum = std::accumulate(ahead.begin(), ahead.end(), amount{0});
        auto const said = std::max(policy_.ready_at(n, sum, now_), now_);

        auto future = oracle_;
        ahead.push_back(n);
        auto t = now_;
        for (auto const units : ahead) {
            t = earliest(future, units, t);
            if (t == weir::never)
                break;
            future.take(units, t);
        }
        if (oracle_.stands_still() && t == weir::never)
            t = weir::unknown;
        expect(said <= t, "never later than the truth");
        if (oracle_.exact_behind_any())
            expect(said == t, "exact behind any requests");
    }

    [[nodiscard]] time_point earliest(Oracle const& oracle, amount n, time_point now) const {
        if (lawful(oracle, n, now))
            return now;
        if (!lawful(oracle, n, last_moment))
            return weir::never;
        auto too_early = now;
        auto late_enough = last_moment;
        while (late_enough - too_early > tick) {
            auto const middle = too_early + (late_enough - too_early) / 2;
            (lawful(oracle, n, middle) ? late_enough : too_early) = middle;
        }
        return late_enough;
    }

    void charge() {
        auto const n = 1 + random_.of_any_size(2 * capacity());
        note(n, policy_.take(n, now_));
    }

    void refund() {
        if (grants_.empty())
            return;
        auto const i = random_.one_in(2) ? grants_.size() - 1 : random_.index_in(grants_);
        auto& [t, held] = grants_[i];
        if (held == 0)
            return;
        auto const n = random_.one_in(2) ? held : random_.between(1, held);
        auto const before = policy_.ready_at(1, 0, now_);
        auto const made_room = policy_.refund(n, t, now_);
        expect(made_room || before == policy_.ready_at(1, 0, now_), "unreported permits");
        oracle_.refund(i, n, now_);
        held -= n;
    }

    void configure() {
        options_ = Oracle::some_options(random_, options_);
        renew(policy_, options_, now_);
        renew(unused_, options_, now_);
        oracle_.configure(options_, now_);
    }

    [[nodiscard]] time_point some_start() {
        auto const most = last_moment.time_since_epoch();
        switch (random_.between(0, 3)) {
            case 0:
                return {};
            case 1:
                return time_point(duration(random_.of_any_size(most.count())));
            case 2:
                return last_moment - std::min(weir::times(Oracle::scale(options_), 5), most);
            default:
                return last_moment - duration(random_.between(0, 20));
        }
    }

    // A time from `now` on: an instant of a change, or a nanosecond before or after it.
    [[nodiscard]] time_point some_time() {
        auto const after = [&](duration d) { return std::min(weir::later(now_, d), last_moment); };
        auto const scale = Oracle::scale(options_);
        switch (random_.between(0, 11)) {
            case 0:
            case 1:
            case 2:
                return now_;
            case 3:
                return after(tick);
            case 4:
            case 5:
            case 6:
            case 7: {
                auto const edge = policy_.ready_at(some_amount(), 0, now_);
                return std::clamp(weir::later(edge - tick, duration(random_.between(0, 2))), now_,
                                  last_moment);
            }
            case 8:
            case 9:
                return after(duration(random_.of_any_size(scale.count())));
            case 10:
                return after(weir::later(time_point(weir::times(scale, random_.between(1, 3))),
                                         duration(random_.between(0, 2)))
                                 .time_since_epoch() -
                             tick);
            default:
                return random_.one_in(4)
                           ? after(std::chrono::hours(24 * 365) * random_.between(1, 50))
                           : after(tick);
        }
    }

    random_source& random_;
    happenings what_;
    options_type options_;
    policy_type policy_;
    policy_type unused_;  // never used
    Oracle oracle_;
    time_point now_;
    // with the permits of each that were not refunded
    std::vector<std::pair<ticket, amount>> grants_;
};

/// Plays `count` schedules, from the seed `first_seed` on.
template <class Oracle>
void compare_with(std::uint64_t first_seed, std::uint64_t count, happenings what) {
    for_each_seed(first_seed, count,
                  [&](random_source& random) { comparison<Oracle>(random, what).run(); });
    BOOST_TEST(true);  // none has failed
}

/// Plays schedules with and without each of refunds, changes of options and debts.
template <class Oracle>
void compare_in_every_way(std::uint64_t first_seed, std::uint64_t count) {
    for (int way = 0; way != 8; ++way) {
        compare_with<Oracle>(
            first_seed + static_cast<std::uint64_t>(way) * 1'000'000, count,
            {.refunds = (way & 1) != 0, .changes = (way & 2) != 0, .debts = (way & 4) != 0});
    }
}

/// Checks that a rejected request and a question have no effect.
template <class Oracle>
void compare_asked_with_left_alone(std::uint64_t first_seed, std::uint64_t count) {
    for_each_seed(first_seed, count, [](random_source& random) {
        auto const options = Oracle::some_options(random);
        using policy_type = typename Oracle::policy_type;
        time_point now(duration(random.of_any_size(last_moment.time_since_epoch().count() / 2)));
        auto asked = begun<policy_type>(options, now);
        auto left_alone = begun<policy_type>(options, now);
        expect(asked.remaining(now) == left_alone.remaining(now), "the same at first");
        for (auto steps = random.between(5, 40); steps != 0; --steps) {
            now = std::min(weir::later(now, duration(random.of_any_size(
                                                weir::times(Oracle::scale(options), 2).count()))),
                           last_moment);
            auto const n = random.between(1, std::min<amount>(asked.capacity(), 8));
            for (auto questions = random.between(0, 5); questions != 0; --questions) {
                (void)asked.ready_at(n, random.one_in(2) ? random.of_any_size(1'000'000) : 0, now);
                (void)asked.remaining(now);
            }
            expect(asked.ready_at(n, 0, now) == left_alone.ready_at(n, 0, now), "the same");
            if (fits(asked, n, now)) {
                (void)asked.take(n, now);
                (void)left_alone.take(n, now);
            }
        }
    });
    BOOST_TEST(true);  // none has failed
}

}  // namespace support
