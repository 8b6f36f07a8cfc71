#pragma once

#include <weir/amount.hpp>
#include <weir/policy/fed.hpp>
#include <weir/time.hpp>

#include "support/bucket_oracle.hpp"
#include "support/random.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <vector>

// What an engine says, against what it has to say by definition: on questions by chance.

namespace support {

using weir::policy::fed;

/// An engine whose clock is told, in microseconds.
struct told_engine {
    std::function<fed::answer(fed::question const&, std::int64_t now)> take;
    std::function<void(fed::give_back const&, std::int64_t now)> give_back;
    /// Buckets of other names from now on.
    std::function<void()> forget;
};

/// A bucket of an engine by definition: `bucket_history`, whose nanoseconds are microseconds here.
class shared_oracle {
public:
    explicit shared_oracle(weir::shared_options const& o)
        : history_(weir::rate(o.rate.permits(), weir::duration(o.rate.period().count() / 1000)),
                   o.burst.value_or(o.rate.permits()), false) {}

    /// What has to be said to `q` at `now`; it has happened then.
    fed::answer take(fed::question const& q, std::int64_t now) {
        auto const t = at(now);
        if (is_new_)
            history_.begin(t, 0, t);
        is_new_ = false;
        auto const room = history_.full() - history_.level(t);
        auto const fits = room < 0 ? 0 : static_cast<weir::amount>(room / history_.permit());
        if (auto const n = std::min(q.most, fits); n >= q.least) {
            history_.add(n, t);
            return {.granted = n, .since = now};
        }
        // The first microsecond at which there is room.
        auto const lacking = q.least * history_.permit() - room;
        auto const rate = history_.level_lost_by_tick();
        auto const wait = static_cast<std::int64_t>((lacking + rate - 1) / rate);
        if (wait > q.ahead.count())
            return {.wait = std::chrono::microseconds(wait)};
        history_.add(q.least, t);
        return {.granted = q.least, .wait = std::chrono::microseconds(wait), .since = now + wait};
    }

private:
    [[nodiscard]] static weir::time_point at(std::int64_t us) {
        return weir::time_point(weir::duration(us));
    }

    bucket_history history_;
    bool is_new_ = true;
};

[[nodiscard]] inline weir::shared_options some_shared_options(random_source& random) {
    using namespace std::chrono_literals;
    auto const period = random.one_of<weir::duration>({1ms, 7ms, 1s, 3s, 60s, 24h});
    auto const permits = random.one_of<weir::amount>({1, 1, 2, 3, 100, 999, 999'999'937});
    auto const burst = random.one_of<weir::amount>({1, 2, 3, 5, 20, 1000});
    return {.rate = {permits, period}, .burst = burst};
}

[[nodiscard]] inline fed::question some_question(
    random_source& random, weir::shared_options const& o, std::int64_t scale) {
    auto const burst = *o.burst;
    auto const least = random.one_in(3) ? 1 : random.between(1, std::min<weir::amount>(burst, 6));
    auto const most = random.one_in(3) ? least : random.between(least, burst);
    auto const ahead =
        random.one_in(2) ? 0 : random.between(0, std::min<std::int64_t>(3 * scale, 60'000'000));
    return {.bucket = weir::policy::shared_bucket::of(o),
            .least = least,
            .most = most,
            .ahead = std::chrono::microseconds(ahead)};
}

/// The time of a permit in microseconds, at least 1.
[[nodiscard]] inline std::int64_t scale_of(weir::shared_options const& o) {
    return std::max<std::int64_t>(weir::policy::shared_bucket::of(o).time_of(1), 1);
}

/// Asks `questions` questions of it, of several buckets, and holds each answer against the definition.
inline void compare_with_definition(told_engine const& engine, int questions, random_source& random,
                                    std::int64_t& now) {
    while (questions > 0) {
        auto const options = some_shared_options(random);
        auto const scale = scale_of(options);
        shared_oracle oracle(options);
        engine.forget();
        for (int i = 0; i != 50 && questions > 0; ++i, --questions) {
            now += random.one_in(4) ? 0 : random.between(0, 2 * scale);
            auto const q = some_question(random, options, scale);
            auto const said = engine.take(q, now);
            auto const expected = oracle.take(q, now);
            BOOST_TEST_REQUIRE(
                (said.granted == expected.granted && said.wait == expected.wait &&
                 (said.granted == 0 || said.since == expected.since)),
                "rate " << to_string(options.rate) << ", burst " << *options.burst << ", question "
                        << i << " for " << q.least << " to " << q.most << " within "
                        << q.ahead.count() << " us: said " << said.granted << " in "
                        << said.wait.count() << ", not " << expected.granted << " in "
                        << expected.wait.count());
        }
    }
}

/// The same with permits that are given back and a clock that is set back: whatever is used, and not given back,
/// keeps to the rate.
inline void check_lawfulness(told_engine const& engine, int questions, random_source& random,
                             std::int64_t& now) {
    struct use {
        std::int64_t since;
        weir::amount count;
    };
    while (questions > 0) {
        auto const options = some_shared_options(random);
        auto const bucket = weir::policy::shared_bucket::of(options);
        auto const scale = scale_of(options);
        engine.forget();
        std::vector<use> used;
        for (int i = 0; i != 60 && questions > 0; ++i, --questions) {
            now += random.one_in(4) ? 0 : random.between(0, 2 * scale);
            auto const q = some_question(random, options, scale);
            auto const said = engine.take(q, now);
            if (said.granted == 0)
                continue;
            BOOST_TEST_REQUIRE((q.least <= said.granted && said.granted <= q.most));
            used.push_back({said.since, said.granted});
            if (random.one_in(3)) {
                auto& one = used[static_cast<std::size_t>(
                    random.between(0, static_cast<std::int64_t>(used.size()) - 1))];
                auto const n = random.between(0, one.count);
                if (n != 0)
                    engine.give_back({bucket, n, one.since}, now);
                one.count -= n;
            }
        }
        std::ranges::sort(used, {}, &use::since);
        for (auto first = used.begin(); first != used.end(); ++first) {
            bucket_history::number sum = 0;
            for (auto last = first; last != used.end(); ++last) {
                sum += last->count;
                auto const passed = bucket_history::number(last->since - first->since + 1);
                auto const most = bucket.full() + passed * bucket.drained;
                BOOST_TEST_REQUIRE(
                    (sum * bucket.permit <= most),
                    "rate " << to_string(options.rate) << ", burst " << *options.burst << ": "
                            << sum << " within " << last->since - first->since << " us");
            }
        }
    }
}

}  // namespace support
