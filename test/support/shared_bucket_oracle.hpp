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

// Compares the replies of a store with their definition, on random questions.

namespace support {

using weir::policy::fed;

/// A store that gets the time as an argument, in microseconds.
struct told_store {
    std::function<fed::answer(fed::question const&, std::int64_t now)> take;
    std::function<void(fed::give_back const&, std::int64_t now)> give_back;
    /// Uses buckets of other names from now on.
    std::function<void()> forget;
};

/// The definition of a store's bucket: `bucket_history`, with microseconds in place of nanoseconds.
class shared_oracle {
public:
    explicit shared_oracle(weir::shared_options const& o)
        : history_(weir::rate(o.rate.permits(), weir::duration(o.rate.period().count() / 1000)),
                   o.burst.value_or(o.rate.permits()), false) {}

    /// Applies `q` at `now`, and returns the right reply.
    fed::answer take(fed::question const& q, std::int64_t now) {
        auto const t = at(now);
        if (is_new_)
            history_.begin(t, 0, t);
        is_new_ = false;
        auto const room = history_.full() - history_.level(t);
        auto const fits = room < 0 ? 0 : static_cast<weir::amount>(room / history_.permit());
        if (auto const n = std::min(q.max, fits); n >= q.min) {
            history_.add(n, t);
            return {.granted = n, .since = now};
        }
        // The first microsecond at which the permits are available.
        auto const lacking = q.min * history_.permit() - room;
        auto const rate = history_.level_lost_by_tick();
        auto const wait = static_cast<std::int64_t>((lacking + rate - 1) / rate);
        if (wait > q.ahead.count())
            return {.wait = std::chrono::microseconds(wait)};
        history_.add(q.min, t);
        return {.granted = q.min, .wait = std::chrono::microseconds(wait), .since = now + wait};
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
            .min = least,
            .max = most,
            .ahead = std::chrono::microseconds(ahead)};
}

/// The time of a permit in microseconds, at least 1.
[[nodiscard]] inline std::int64_t scale_of(weir::shared_options const& o) {
    return std::max<std::int64_t>(weir::policy::shared_bucket::of(o).time_of(1), 1);
}

/// Asks `questions` questions of several buckets, and compares each reply with the definition.
inline void compare_with_definition(told_store const& store, int questions, random_source& random,
                                    std::int64_t& now) {
    while (questions > 0) {
        auto const options = some_shared_options(random);
        auto const scale = scale_of(options);
        shared_oracle oracle(options);
        store.forget();
        for (int i = 0; i != 50 && questions > 0; ++i, --questions) {
            now += random.one_in(4) ? 0 : random.between(0, 2 * scale);
            auto const q = some_question(random, options, scale);
            auto const said = store.take(q, now);
            auto const expected = oracle.take(q, now);
            BOOST_TEST_REQUIRE(
                (said.granted == expected.granted && said.wait == expected.wait &&
                 (said.granted == 0 || said.since == expected.since)),
                "rate " << to_string(options.rate) << ", burst " << *options.burst << ", question "
                        << i << " for " << q.min << " to " << q.max << " within " << q.ahead.count()
                        << " us: said " << said.granted << " in " << said.wait.count() << ", not "
                        << expected.granted << " in " << expected.wait.count());
        }
    }
}

/// Asks questions with released permits and a clock that is set back: the permits that are used, and not returned,
/// must keep to the rate.
inline void check_lawfulness(told_store const& store, int questions, random_source& random,
                             std::int64_t& now) {
    struct use {
        std::int64_t since;
        weir::amount count;
    };
    while (questions > 0) {
        auto const options = some_shared_options(random);
        auto const bucket = weir::policy::shared_bucket::of(options);
        auto const scale = scale_of(options);
        store.forget();
        std::vector<use> used;
        for (int i = 0; i != 60 && questions > 0; ++i, --questions) {
            now += random.one_in(4) ? 0 : random.between(0, 2 * scale);
            auto const q = some_question(random, options, scale);
            auto const said = store.take(q, now);
            if (said.granted == 0)
                continue;
            BOOST_TEST_REQUIRE((q.min <= said.granted && said.granted <= q.max));
            used.push_back({said.since, said.granted});
            if (random.one_in(3)) {
                auto& one = used[static_cast<std::size_t>(
                    random.between(0, static_cast<std::int64_t>(used.size()) - 1))];
                auto const n = random.between(0, one.count);
                if (n != 0)
                    store.give_back({bucket, n, one.since}, now);
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

// ---- Sliding logs

/// A log of at most 8 permits in up to a second.
[[nodiscard]] inline weir::policy::shared_bucket some_log(random_source& random) {
    using namespace std::chrono_literals;
    return weir::policy::shared_bucket::log_of(
        {.rate = {random.between(1, 8), random.one_of<weir::duration>({1us, 10us, 1ms, 1s})}});
}

[[nodiscard]] inline fed::question some_question(random_source& random,
                                                 weir::policy::shared_bucket const& log) {
    auto const least = random.between(1, log.burst);
    auto const most = random.between(least, log.burst);
    auto const ahead = random.one_in(2) ? 0 : random.between(0, 3 * log.window);
    return {.bucket = log, .min = least, .max = most, .ahead = std::chrono::microseconds(ahead)};
}

/// The definition of a sliding log: a grant time is not before an earlier one, and with it no half-open window
/// contains more permits than the limit.
class log_oracle {
public:
    explicit log_oracle(weir::policy::shared_bucket const& log) : log_(log) {}

    /// The first grant time for `n` at `now` or later.
    [[nodiscard]] std::int64_t turn(weir::amount n, std::int64_t now) const {
        auto at = std::max(now, granted_.empty() ? now : granted_.back());
        auto const in_window = [&] {
            return std::ranges::count_if(granted_, [&](std::int64_t g) {
                return g > at - log_.window && g <= at;
            });
        };
        for (auto const g : granted_) {
            if (in_window() + n > log_.burst)
                at = std::max(at, g + log_.window);
        }
        return at;
    }
    void grant(weir::amount n, std::int64_t at) {
        granted_.insert(granted_.end(), static_cast<std::size_t>(n), at);
    }

private:
    weir::policy::shared_bucket log_;
    std::vector<std::int64_t> granted_;
};

/// Asks `questions` questions of several logs, and compares each reply with the definition.
inline void compare_with_log(told_store const& store, int questions, random_source& random,
                             std::int64_t& now) {
    while (questions > 0) {
        auto const log = some_log(random);
        log_oracle oracle(log);
        store.forget();
        for (int i = 0; i != 50 && questions > 0; ++i, --questions) {
            now += random.one_in(3) ? 0 : random.between(0, log.window);
            auto const q = some_question(random, log);
            auto const said = store.take(q, now);
            auto const least = oracle.turn(q.min, now);
            auto const wait = least - now;
            bool const is_granted = wait <= q.ahead.count() || wait == 0;
            bool const is_right =
                said.wait.count() == wait &&
                (!is_granted ? said.granted == 0
                 : wait != 0 ? said.granted == q.min && said.since == least
                             : q.min <= said.granted && said.granted <= q.max &&
                                   oracle.turn(said.granted, now) == now && said.since == now &&
                                   (said.granted == q.max || oracle.turn(q.max, now) != now));
            BOOST_TEST_REQUIRE(
                is_right, "limit " << log.burst << " in " << log.window << " us, question " << i
                                   << " for " << q.min << " to " << q.max << " within "
                                   << q.ahead.count() << " us: said " << said.granted << " in "
                                   << said.wait.count() << ", not in " << wait);
            if (said.granted != 0)
                oracle.grant(said.granted, least);
        }
    }
}

/// Asks questions with returned permits and a clock that is set back: in no window of real time are more permits used
/// than the limit.
inline void check_lawfulness_of_log(told_store const& store, int questions, random_source& random,
                                    std::int64_t& now) {
    struct use {
        std::int64_t at;     // in real time
        std::int64_t since;  // by the store
        weir::amount count;
    };
    while (questions > 0) {
        auto const log = some_log(random);
        store.forget();
        std::vector<use> used;
        std::int64_t behind = 0;
        for (int i = 0; i != 60 && questions > 0; ++i, --questions) {
            now += random.one_in(3) ? 0 : random.between(0, log.window);
            if (random.one_in(10))
                behind += random.between(1, 3 * log.window);
            auto const q = some_question(random, log);
            auto const said = store.take(q, now - behind);
            if (said.granted == 0)
                continue;
            used.push_back({now + said.wait.count(), said.since, said.granted});
            if (random.one_in(3)) {
                auto& one = used[static_cast<std::size_t>(
                    random.between(0, static_cast<std::int64_t>(used.size()) - 1))];
                auto const n = random.between(0, one.count);
                if (n != 0)
                    store.give_back({log, n, one.since}, now - behind);
                one.count -= n;
            }
        }
        std::ranges::sort(used, {}, &use::at);
        for (auto first = used.begin(); first != used.end(); ++first) {
            weir::amount sum = 0;
            for (auto last = first; last != used.end() && last->at < first->at + log.window; ++last)
                sum += last->count;
            BOOST_TEST_REQUIRE(sum <= log.burst);
        }
        now += behind;
    }
}

/// Unused permits leave the log after any time; unknown permits do not.
inline void check_refunds_of_log(told_store const& store, std::int64_t now) {
    using namespace std::chrono_literals;
    auto const log = weir::policy::shared_bucket::log_of({.rate = {3, 1s}});
    auto const wait = [&](std::int64_t at) { return store.take({log, 1, 1}, at).wait.count(); };
    store.forget();
    store.give_back({log, 1, now}, now);  // there is none
    BOOST_TEST(store.take({log, 3, 3}, now).granted == 3);
    store.give_back({log, 2, now}, now + 900'000);
    BOOST_TEST(store.take({log, 2, 2}, now + 900'000).granted == 2);
    BOOST_TEST(wait(now + 900'000) == 100'000);
    // More permits than were granted then, and permits that were granted at another time, are unknown.
    store.give_back({log, 2, now}, now + 900'000);
    store.give_back({log, 1, now + 1}, now + 900'000);
    BOOST_TEST(wait(now + 900'000) == 100'000);

    // A grant in the future is not returned either.
    BOOST_TEST(store.take({log, 1, 1, 1s}, now + 900'000).wait.count() == 100'000);
    store.give_back({log, 1, now + 1'000'000}, now + 999'999);
    BOOST_TEST(wait(now + 999'999) == 900'001);
    store.give_back({log, 1, now + 1'000'000}, now + 1'000'000);
    BOOST_TEST(store.take({log, 1, 1}, now + 1'000'000).granted == 1);
}

/// A booked grant comes before all later ones, even if returned permits are available before it.
inline void check_order_of_log(told_store const& store, std::int64_t now) {
    using namespace std::chrono_literals;
    auto const log = weir::policy::shared_bucket::log_of({.rate = {2, 1s}});
    store.forget();
    BOOST_TEST(store.take({log, 2, 2}, now).granted == 2);
    BOOST_TEST(store.take({log, 1, 1, 1s}, now + 900'000).wait.count() == 100'000);
    store.give_back({log, 1, now}, now + 900'000);
    BOOST_TEST(store.take({log, 1, 1}, now + 900'000).wait.count() == 100'000);
}

/// The clock is set back: nothing is granted early, and no request waits longer than a window.
inline void check_log_set_back(told_store const& store, std::int64_t now) {
    using namespace std::chrono_literals;
    auto const log = weir::policy::shared_bucket::log_of({.rate = {3, 1s}});
    store.forget();
    store.take({log, 2, 2}, now);
    store.take({log, 1, 1}, now + 300'000);
    now -= 3'600'000'000;
    // The last grant is now, and the others were 0.3 s before it.
    BOOST_TEST(store.take({log, 1, 1}, now).wait.count() == 700'000);
    BOOST_TEST(store.take({log, 1, 1}, now + 699'999).granted == 0);
    BOOST_TEST(store.take({log, 2, 2}, now + 700'000).granted == 2);
    BOOST_TEST(store.take({log, 1, 1}, now + 999'999).granted == 0);
    BOOST_TEST(store.take({log, 1, 1}, now + 1'000'000).granted == 1);
}

/// The longest possible log.
inline void check_longest_log(told_store const& store, std::int64_t now) {
    using namespace std::chrono_literals;
    auto const log = weir::policy::shared_bucket::log_of({.rate = {4096, 1s}});
    store.forget();
    BOOST_TEST(store.take({log, 1, 4096}, now).granted == 4096);
    BOOST_TEST(store.take({log, 1, 4096}, now + 999'999).wait.count() == 1);
    BOOST_TEST(store.take({log, 1, 4096}, now + 1'000'000).granted == 4096);
    store.give_back({log, 1000, now + 1'000'000}, now + 1'500'000);
    BOOST_TEST(store.take({log, 1000, 1000}, now + 1'500'000).granted == 1000);
    BOOST_TEST(store.take({log, 1, 4096}, now + 1'999'999).wait.count() == 1);
}

}  // namespace support
