#include <weir/policy/sliding_log.hpp>

#include "support/allocations.hpp"
#include "support/printing.hpp"
#include "support/random.hpp"
#include "support/renew.hpp"
#include "support/says.hpp"

#include <boost/test/unit_test.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <new>
#include <numeric>
#include <stdexcept>
#include <vector>

using namespace std::chrono_literals;
using support::allocation_count;
using support::begun;
using support::random_source;
using support::renew;
using support::says;
using weir::amount;
using weir::duration;
using weir::never;
using weir::sliding_log_options;
using weir::ticket;
using weir::time_point;
using weir::policy::sliding_log;

BOOST_AUTO_TEST_SUITE(the_sliding_log)

namespace {

constexpr duration tick{1};
constexpr time_point last_moment = never - tick;
constexpr time_point noon{12h};

bool fits(sliding_log const& log, amount n, time_point now) {
    return log.ready_at(n, 0, now) <= now;
}

// The reference of the policy: it remembers every grant, and implements only the definition: at most `limit` permits in
// any half-open window.
class history {
public:
    struct grant {
        time_point at;
        amount units;         // without refunded units
        bool settled{false};  // had expired when the options were changed
    };

    history(amount limit, duration window) : limit_(limit), window_(window) {}

    [[nodiscard]] amount limit() const { return limit_; }
    [[nodiscard]] duration window() const { return window_; }
    [[nodiscard]] std::vector<grant> const& grants() const { return grants_; }

    /// Returns how many permits the window that ends with `t`, and includes it, contains.
    [[nodiscard]] amount used(time_point t) const {
        amount sum = 0;
        for (auto const& g : grants_) {
            if (counts(g, t))
                sum += g.units;
        }
        return sum;
    }
    [[nodiscard]] amount remaining(time_point t) const {
        return std::max<amount>(limit_ - used(t), 0);
    }
    [[nodiscard]] bool fits(amount n, time_point t) const { return used(t) + n <= limit_; }

    /// Returns the first time from `now` on at which `n` permits fit: only the end of a window frees permits.
    [[nodiscard]] time_point earliest(amount n, time_point now) const {
        if (fits(n, now))
            return now;
        for (auto const& g : grants_) {
            auto const leaves = weir::later(g.at, window_);
            if (leaves == never)
                break;
            if (leaves > now && fits(n, leaves))
                return leaves;
        }
        return never;
    }

    /// Returns that time after the grants of all of `ahead`, in order and each as early as possible.
    [[nodiscard]] time_point earliest_behind(std::vector<amount> const& ahead, amount n,
                                             time_point now) const {
        auto future = *this;
        for (auto const units : ahead) {
            now = future.earliest(units, now);
            if (now == never)
                return never;
            future.take(units, now);
        }
        return future.earliest(n, now);
    }

    void take(amount n, time_point now) { grants_.push_back({now, n}); }
    void undo(std::size_t i, amount n) { grants_[i].units -= n; }
    [[nodiscard]] bool is_cooling(std::size_t i, time_point now) const {
        return counts(grants_[i], now);
    }

    void configure(amount limit, duration window, time_point now) {
        for (auto& g : grants_)
            g.settled = !counts(g, now);
        limit_ = limit;
        window_ = window;
    }

    /// Checks the definition for the whole history, in the windows that begin with a grant: no other window can contain
    /// more.
    [[nodiscard]] bool is_lawful() const {
        for (auto first = grants_.begin(); first != grants_.end(); ++first) {
            amount sum = 0;
            for (auto g = first; g != grants_.end() && g->at - first->at < window_; ++g)
                sum += g->units;
            if (sum > limit_)
                return false;
        }
        return true;
    }

private:
    [[nodiscard]] bool counts(grant const& g, time_point t) const {
        return !g.settled && t - g.at < window_;
    }

    amount limit_;
    duration window_;
    std::vector<grant> grants_;
};

template <std::equality_comparable T>
void expect_equal(T const& is, T const& should_be, char const* what) {
    if (is != should_be) [[unlikely]]
        BOOST_FAIL(what);
}

void expect(bool condition, char const* what) {
    if (!condition) [[unlikely]]
        BOOST_FAIL(what);
}

sliding_log_options some_options(random_source& random) {
    auto const limit = random.one_in(8) ? random.between(1, 200) : random.between(1, 8);
    auto const window =
        random.one_in(3)
            ? duration(1 + random.of_any_size(weir::forever.count() - 1))
            : random.one_of<duration>({1ns, 2ns, 3ns, 10ns, 1us, 1s, 1h, 24h * 365, weir::forever});
    return {.limit = limit, .window = window};
}

time_point some_start(random_source& random, duration window) {
    auto const most = last_moment.time_since_epoch().count();
    switch (random.between(0, 3)) {
        case 0:
            return {};
        case 1:
            return time_point(duration(random.of_any_size(most)));
        case 2:
            return last_moment - std::min(window * (window < 24h * 365 ? 5 : 1), duration(most));
        default:
            return last_moment - duration(random.between(0, 20));
    }
}

// Returns a time from `now` on: at a change, or a nanosecond before or after it.
time_point some_time(random_source& random, history const& past, time_point now) {
    auto const after = [&](duration d) { return std::min(weir::later(now, d), last_moment); };
    switch (random.between(0, 11)) {
        case 0:
        case 1:
        case 2:
            return now;
        case 3:
            return after(tick);
        case 4:
        case 5:
        case 6:
        case 7: {
            if (past.grants().empty())
                return now;
            auto const recent = std::min<std::size_t>(past.grants().size(), 12);
            auto const i =
                past.grants().size() - 1 -
                static_cast<std::size_t>(random.between(0, static_cast<std::int64_t>(recent) - 1));
            auto const edge = weir::later(past.grants()[i].at, past.window() - tick);
            return std::clamp(weir::later(edge, duration(random.between(0, 2))), now, last_moment);
        }
        case 8:
        case 9:
            return after(duration(random.of_any_size(past.window().count())));
        case 10:
            return after(weir::times(past.window(), random.between(1, 3)));
        default:
            return random.one_in(4) ? after(24h * 365 * random.between(1, 50)) : after(tick);
    }
}

struct traits {
    bool refunds = false;
    bool changes = false;  // of the options
    bool debts = false;
};

// Runs a policy and the oracle on one schedule, and compares them after each step.
class comparison {
public:
    comparison(random_source& random, traits what)
        : random_(random),
          what_(what),
          options_(some_options(random)),
          log_(options_),
          past_(options_.limit, options_.window),
          now_(some_start(random, options_.window)) {
        log_.begin(now_);
    }

    void run() {
        auto const steps = random_.between(5, 60);
        for (std::int64_t i = 0; i != steps; ++i) {
            now_ = some_time(random_, past_, now_);
            if (what_.refunds && random_.one_in(4))
                refund();
            else if (what_.changes && random_.one_in(10))
                configure();
            else if (what_.debts && random_.one_in(6))
                charge();
            else
                ask();
            expect_equal(log_.remaining(now_), past_.remaining(now_), "the remaining permits");
            if (random_.one_in(4))
                ask_with_others_ahead();
            // The state can be dropped as soon as all grants have expired.
            bool const fresh = log_.rule().are_alike(log_.state(), log_.rule().begin(now_), now_);
            expect_equal(fresh, past_.used(now_) == 0, "fresh iff nothing counts");
            if (fresh && random_.one_in(2))
                log_ = begun<sliding_log>(options_, now_);
        }
        if (!what_.changes && !what_.debts)
            expect(past_.is_lawful(), "no window contains more than the limit");
    }

private:
    void ask() {
        auto const left = past_.remaining(now_);
        auto const n = std::clamp<amount>(
            random_.one_in(3) ? left + random_.between(-1, 1) : 1 + random_.of_any_size(8), 1,
            past_.limit());
        auto const ready = log_.ready_at(n, 0, now_);
        expect_equal(ready <= now_, past_.fits(n, now_), "granted iff the definition allows it");
        expect_equal(std::max(ready, now_), past_.earliest(n, now_), "ready exactly then");
        if (ready > now_) {
            if (ready != never) {
                expect(!fits(log_, n, ready - tick), "rejected a nanosecond before");
                expect(fits(log_, n, ready), "granted then");
            }
            return;
        }
        auto const t = log_.take(n, now_);
        past_.take(n, now_);
        tickets_.push_back(t);
        expect(!log_.leave(n, t), "a release frees nothing");
    }

    void ask_with_others_ahead() {
        std::vector<amount> ahead(static_cast<std::size_t>(random_.between(1, 12)));
        bool const ones = random_.one_in(2);
        for (auto& units : ahead)
            units = ones ? 1 : std::min(1 + random_.of_any_size(8), past_.limit());
        auto const n = std::min(1 + random_.of_any_size(8), past_.limit());
        auto const sum = std::accumulate(ahead.begin(), ahead.end(), amount{0});
        auto const ready = std::max(log_.ready_at(n, sum, now_), now_);
        auto const truth = past_.earliest_behind(ahead, n, now_);
        if (ones)
            expect_equal(ready, truth, "exact behind requests for one");
        else
            expect(ready <= truth, "never later than the truth");
    }

    void charge() {
        auto const n = 1 + random_.of_any_size(2 * past_.limit());
        tickets_.push_back(log_.take(n, now_));
        past_.take(n, now_);
    }

    void refund() {
        if (tickets_.empty())
            return;
        auto const i = random_.one_in(2) ? tickets_.size() - 1 : random_.index_in(tickets_);
        auto const held = past_.grants()[i].units;
        if (held == 0)
            return;
        auto const n = random_.one_in(2) ? held : random_.between(1, held);
        auto const made_room = log_.refund(n, tickets_[i], now_);
        expect_equal(made_room, past_.is_cooling(i, now_), "room iff it was still cooling");
        past_.undo(i, n);
    }

    void configure() {
        auto options = some_options(random_);
        if (random_.one_in(3))
            options.window = options_.window;
        else if (random_.one_in(3))
            options.limit = options_.limit;
        options_ = options;
        renew(log_, options, now_);
        past_.configure(options.limit, options.window, now_);
        expect_equal(log_.capacity(), options.limit, "capacity");
    }

    random_source& random_;
    traits what_;
    sliding_log_options options_;
    sliding_log log_;
    history past_;
    time_point now_;
    std::vector<ticket> tickets_;
};

void compare(std::uint64_t first_seed, std::uint64_t count, traits what) {
    support::for_each_seed(first_seed, count, [&](random_source& random) {
        comparison(random, what).run();
    });
    BOOST_TEST(true);  // no check above failed
}

}  // namespace

BOOST_AUTO_TEST_CASE(grants_the_limit_and_then_one_for_each_that_expired) {
    sliding_log log({.limit = 3, .window = 10s});
    log.take(1, noon);
    log.take(1, noon + 1s);
    log.take(1, noon + 2s);
    BOOST_TEST(log.remaining(noon + 2s) == 0);
    BOOST_TEST(log.ready_at(1, 0, noon + 2s) == noon + 10s);
    BOOST_TEST(log.ready_at(2, 0, noon + 2s) == noon + 11s);
    BOOST_TEST(log.ready_at(3, 0, noon + 2s) == noon + 12s);

    BOOST_TEST(!fits(log, 1, noon + 10s - tick));
    BOOST_TEST(fits(log, 1, noon + 10s));
    BOOST_TEST(log.remaining(noon + 10s - tick) == 0);
    BOOST_TEST(log.remaining(noon + 10s) == 1);
    log.take(1, noon + 10s);
    BOOST_TEST(log.ready_at(1, 0, noon + 10s) == noon + 11s);
}

BOOST_AUTO_TEST_CASE(expires_from_the_grant_and_not_from_the_release) {
    sliding_log log({.limit = 1, .window = 10s});
    auto const t = log.take(1, noon);
    BOOST_TEST(!log.leave(1, t));
    BOOST_TEST(log.ready_at(1, 0, noon + 7s) == noon + 10s);
}

BOOST_AUTO_TEST_CASE(needs_the_time) {
    BOOST_TEST(sliding_log({}).timed());
}

BOOST_AUTO_TEST_CASE(returns_now_if_a_request_fits) {
    sliding_log log({.limit = 2, .window = 1s});
    BOOST_TEST(log.ready_at(2, 0, noon) <= noon);
    log.take(1, noon);
    BOOST_TEST(log.ready_at(1, 0, noon) <= noon);
}

BOOST_AUTO_TEST_CASE(waits_a_window_for_each_limit_ahead) {
    sliding_log log({.limit = 2, .window = 10s});
    BOOST_TEST(log.ready_at(1, 1, noon) <= noon);
    BOOST_TEST(log.ready_at(1, 2, noon) == noon + 10s);
    BOOST_TEST(log.ready_at(1, 3, noon) == noon + 10s);
    BOOST_TEST(log.ready_at(1, 4, noon) == noon + 20s);
    log.take(1, noon);
    BOOST_TEST(log.ready_at(1, 1, noon + 3s) == noon + 10s);
    BOOST_TEST(log.ready_at(1, 2, noon + 3s) == noon + 13s);
    BOOST_TEST(log.ready_at(1, 3, noon + 3s) == noon + 20s);
    BOOST_TEST(log.ready_at(1, 4, noon + 3s) == noon + 23s);
}

BOOST_AUTO_TEST_CASE(frees_a_refund_at_once_and_only_that) {
    sliding_log log({.limit = 4, .window = 10s});
    auto const first = log.take(2, noon);
    auto const second = log.take(2, noon + 1s);
    BOOST_TEST(log.refund(1, second, noon + 2s));
    BOOST_TEST(log.remaining(noon + 2s) == 1);
    BOOST_TEST(log.ready_at(3, 0, noon + 2s) == noon + 10s);
    BOOST_TEST(log.ready_at(4, 0, noon + 2s) == noon + 11s);
    BOOST_TEST(log.refund(2, first, noon + 2s));
    BOOST_TEST(log.remaining(noon + 2s) == 3);
    BOOST_TEST(log.ready_at(4, 0, noon + 2s) == noon + 11s);
}

BOOST_AUTO_TEST_CASE(frees_nothing_for_a_refund_after_the_window) {
    sliding_log log({.limit = 1, .window = 10s});
    auto const first = log.take(1, noon);
    log.take(1, noon + 10s);
    BOOST_TEST(!log.refund(1, first, noon + 10s));
    BOOST_TEST(log.remaining(noon + 10s) == 0);
}

BOOST_AUTO_TEST_CASE(refunds_no_other_grant_after_the_window_was_made_longer) {
    sliding_log log({.limit = 1, .window = 1s});
    auto const first = log.take(1, noon);
    renew(log, {.limit = 1, .window = 1h}, noon + 2s);  // the first grant stays expired
    log.take(1, noon + 3s);
    BOOST_TEST(!log.refund(1, first, noon + 4s));
    BOOST_TEST(!fits(log, 1, noon + 4s));
    BOOST_TEST(log.ready_at(1, 0, noon + 4s) == noon + 3s + 1h);
}

BOOST_AUTO_TEST_CASE(refunds_the_oldest_of_merged_permits_first) {
    for (bool const older_first : {true, false}) {
        sliding_log log({.limit = 2, .window = 10s});
        auto const first = log.take(1, noon);
        auto const second = log.take(1, noon + 1s);
        auto const both = older_first ? log.merge(first, second, 1) : log.merge(second, first, 1);
        BOOST_TEST(log.refund(1, both, noon + 2s));
        BOOST_TEST(log.ready_at(2, 0, noon + 2s) == noon + 11s);
        BOOST_TEST(log.refund(1, both, noon + 2s));
        BOOST_TEST(log.remaining(noon + 2s) == 2);
    }
}

BOOST_AUTO_TEST_CASE(refunds_all_of_a_permit_that_many_were_merged_into) {
    constexpr amount parts = 6;
    for (amount unused = 1; unused <= parts; ++unused) {
        sliding_log log({.limit = parts, .window = 10s});
        auto all = log.take(1, noon);
        for (amount i = 1; i != parts; ++i)
            all = log.merge(all, log.take(1, noon + i * 1s), 1);
        BOOST_TEST(log.refund(unused, all, noon + 6s));
        BOOST_TEST(log.remaining(noon + 6s) == unused);
        for (auto i = unused; i != parts; ++i)
            BOOST_TEST(log.ready_at(i + 1, 0, noon + 6s) == noon + 10s + i * 1s);
        for (auto i = unused; i != parts; ++i)
            BOOST_TEST(log.remaining(noon + 10s + i * 1s) == i + 1);
    }
}

BOOST_AUTO_TEST_CASE(keeps_grants_of_the_same_time_together) {
    sliding_log log({.limit = 3, .window = 10s});
    auto const first = log.take(1, noon);
    auto const second = log.take(2, noon);
    BOOST_TEST(log.ready_at(1, 0, noon) == noon + 10s);
    BOOST_TEST(log.ready_at(3, 0, noon) == noon + 10s);
    BOOST_TEST(log.refund(1, first, noon));
    BOOST_TEST(log.remaining(noon) == 1);
    BOOST_TEST(log.refund(2, second, noon));
    BOOST_TEST(log.remaining(noon) == 3);

    // Any number of them takes the room of one.
    allocation_count const allocations;
    for (int i = 0; i != 1'000; ++i)
        log.take(1, noon + 1s);
    auto const allocated = allocations();
    BOOST_TEST(allocated == 0U);
    BOOST_TEST(log.ready_at(1, 0, noon + 1s) == noon + 11s);
}

BOOST_AUTO_TEST_CASE(keeps_unexpired_grants_with_a_new_window) {
    sliding_log log({.limit = 2, .window = 10s});
    log.take(1, noon);
    log.take(1, noon + 5s);
    renew(log, {.limit = 2, .window = 20s}, noon + 12s);
    BOOST_TEST(log.remaining(noon + 12s) == 1);  // the first had expired
    BOOST_TEST(log.ready_at(2, 0, noon + 12s) == noon + 25s);

    renew(log, {.limit = 2, .window = 6s}, noon + 12s);
    BOOST_TEST(log.remaining(noon + 12s) == 2);
}

BOOST_AUTO_TEST_CASE(keeps_grants_with_a_new_limit) {
    sliding_log log({.limit = 4, .window = 10s});
    for (auto const s : {0s, 1s, 2s, 3s})
        log.take(1, noon + s);
    renew(log, {.limit = 2, .window = 10s}, noon + 3s);
    BOOST_TEST(log.capacity() == 2);
    BOOST_TEST(log.remaining(noon + 3s) == 0);
    BOOST_TEST(log.ready_at(1, 0, noon + 3s) == noon + 12s);
    BOOST_TEST(log.ready_at(2, 0, noon + 3s) == noon + 13s);

    renew(log, {.limit = 6, .window = 10s}, noon + 3s);
    BOOST_TEST(log.remaining(noon + 3s) == 2);
    BOOST_TEST(log.ready_at(6, 0, noon + 3s) == noon + 13s);
}

BOOST_AUTO_TEST_CASE(rejects_invalid_options_by_name_and_is_unchanged) {
    auto const limit_zero = says("weir::sliding_log: limit is 0, but must be from 1 to 67108864");
    auto const limit_large =
        says("weir::sliding_log: limit is 67108865, but must be from 1 to 67108864; "
             "sliding_window and token_bucket have no such bound");
    auto const window_zero = says("weir::sliding_log: window is 0s, but must be at least 1ns");
    auto const window_negative = says("weir::sliding_log: window is -1s, but must be at least 1ns");
    using nonsense = std::invalid_argument;
    BOOST_CHECK_EXCEPTION(sliding_log({.limit = 0}), nonsense, limit_zero);
    BOOST_CHECK_EXCEPTION(sliding_log({.limit = 67'108'865}), nonsense, limit_large);
    BOOST_CHECK_EXCEPTION(sliding_log({.window = 0s}), nonsense, window_zero);
    BOOST_CHECK_EXCEPTION(sliding_log({.window = -1s}), nonsense, window_negative);

    sliding_log log({.limit = 2, .window = 10s});
    log.take(1, noon);
    BOOST_CHECK_EXCEPTION(renew(log, {.limit = 0}, noon + 20s), nonsense, limit_zero);
    BOOST_CHECK_EXCEPTION(renew(log, {.limit = 9, .window = 0s}, noon + 20s), nonsense,
                          window_zero);
    BOOST_TEST(log.options().limit == 2);
    BOOST_TEST(log.options().window == 10s);
    BOOST_TEST(log.ready_at(2, 0, noon) == noon + 10s);
}

BOOST_AUTO_TEST_CASE(forgets_nothing_and_repeats_nothing_over_years_of_idling) {
    sliding_log log({.limit = 2, .window = 1s});
    auto now = noon;
    for (int year = 0; year != 200; ++year) {
        BOOST_TEST(log.remaining(now) == 2);
        log.take(2, now);
        BOOST_TEST(!fits(log, 1, now));
        now += 24h * 365;
    }
}

BOOST_AUTO_TEST_CASE(returns_never_for_times_after_the_end_of_time) {
    sliding_log log({.limit = 1, .window = 1s});
    log.take(1, never - 1s);
    BOOST_TEST(log.ready_at(1, 0, never - 1s) == weir::never);
    BOOST_TEST(!fits(log, 1, last_moment));

    sliding_log for_ever({.limit = 1, .window = weir::forever});
    for_ever.take(1, noon);
    BOOST_TEST(for_ever.ready_at(1, 0, noon) == weir::never);
    BOOST_TEST(for_ever.ready_at(1, 1'000'000, noon) == weir::never);
    BOOST_TEST(!fits(for_ever, 1, last_moment));
}

BOOST_AUTO_TEST_CASE(is_exact_with_a_limit_of_a_million) {
    constexpr amount limit = 1'000'000;
    constexpr auto window = limit * tick;
    sliding_log log({.limit = limit, .window = window});
    auto const bytes_at_first = support::bytes_in_use.load();
    amount rejected = 0;
    for (auto now = noon; now != noon + 3 * window; now += tick) {
        rejected += !fits(log, 1, now);
        log.take(1, now);
    }
    BOOST_TEST(support::bytes_in_use - bytes_at_first <= 17 * limit);
    BOOST_TEST(rejected == 0);

    auto const now = noon + 3 * window - tick;
    BOOST_TEST(log.remaining(now) == 0);
    for (amount const n : {amount{1}, amount{2}, limit / 2, limit})
        BOOST_TEST(log.ready_at(n, 0, now) == now + n * tick);
    BOOST_TEST(log.ready_at(1, 2 * limit, now) == now + 2 * window + tick);
}

BOOST_AUTO_TEST_CASE(its_memory_follows_the_grants) {
    auto const before = support::bytes_in_use.load();
    auto const bytes = [&] { return support::bytes_in_use - before; };
    sliding_log log({.limit = amount{1} << 26, .window = 1h});
    BOOST_TEST(bytes() <= 8 * 16 + support::added_by_malloc);
    auto const take = [&](int grants, time_point from) {
        for (int i = 0; i != grants; ++i)
            log.take(1, from + i * tick);
    };

    take(200, noon);
    BOOST_TEST(bytes() >= 200 * 16);
    take(1, noon + 2h);
    BOOST_TEST(bytes() <= 8 * 16 + support::added_by_malloc);

    take(10'000, noon + 3h);
    BOOST_TEST(bytes() >= 10'000 * 16);
    take(5'000, noon + 5h);  // each of them forgets two grants
    BOOST_TEST(bytes() <= 5'000 * 17 + 10'000);
    take(1, noon + 7h);
    BOOST_TEST(bytes() <= 5'000 * 17 + 10'000);  // no grant takes long
}

// A grant then expires later than it should, never earlier.
BOOST_AUTO_TEST_CASE(grants_share_an_entry_if_memory_is_lacking) {
    sliding_log log({.limit = 10, .window = 10s});
    for (int i = 0; i != 8; ++i)
        log.take(1, noon + i * tick);
    support::with_failing_allocation(0, [&] { log.take(1, noon + 8 * tick); });
    log.take(1, noon + 9 * tick);
    BOOST_TEST(log.remaining(noon + 1s) == 0);
    for (int i = 0; i != 7; ++i)
        BOOST_TEST(log.remaining(noon + 10s + i * tick) == i + 1);
    BOOST_TEST(log.remaining(noon + 10s + 7 * tick) == 7);
    BOOST_TEST(log.remaining(noon + 10s + 8 * tick) == 9);
    BOOST_TEST(log.remaining(noon + 10s + 9 * tick) == 10);
}

BOOST_AUTO_TEST_CASE(a_request_that_fits_needs_no_memory) {
    for (int k = 0; k != 10; ++k) {
        sliding_log log({.limit = 1'000, .window = 10s});
        for (int i = 0; i != 1'000; ++i)
            log.take(1, noon + i * tick);
        // The expired grants are still in the log.
        support::with_failing_allocation(k, [&] {
            for (int i = 0; i != 1'000; ++i)
                BOOST_REQUIRE_NO_THROW(log.take(1, noon + 1h + i * tick));
        });
        BOOST_TEST(log.remaining(noon + 1h + 1s) == 0);
        BOOST_TEST(log.remaining(noon + 1h + 11s) == 1'000);
    }
    // More permits than expired grants are forgotten, and no space for one more grant.
    sliding_log full({.limit = 1'024, .window = 10s});
    for (int i = 0; i != 1'024; ++i)
        full.take(1, noon + i * tick);
    support::with_failing_allocation(0, [&] { BOOST_CHECK_NO_THROW(full.take(1'000, noon + 1h)); });
    BOOST_TEST(full.remaining(noon + 1h) == 23);  // the last old grant expires with the new one
}

BOOST_AUTO_TEST_CASE(a_debt_needs_memory) {
    sliding_log log({.limit = 2, .window = 10s});
    for (int i = 0; i != 100; ++i)
        log.take(5, noon + i * tick);
    BOOST_TEST(log.remaining(noon + 1s) == 0);
    BOOST_TEST(log.ready_at(2, 0, noon + 1s) == noon + 10s + 99 * tick);
    auto taken = 0;
    support::with_failing_allocation(0, [&] {
        try {
            for (; taken != 1'000; ++taken)
                log.take(5, noon + 1s + taken * tick);
        } catch (std::bad_alloc const&) {}
    });
    BOOST_TEST(taken < 1'000);
    BOOST_TEST(log.ready_at(2, 0, noon + 2s) == noon + 11s + (taken - 1) * tick);
}

BOOST_AUTO_TEST_CASE(implements_the_definition) {
    compare(1'000'000, 20'000, {});
}

BOOST_AUTO_TEST_CASE(implements_the_definition_with_refunds) {
    compare(2'000'000, 20'000, {.refunds = true});
}

BOOST_AUTO_TEST_CASE(implements_the_definition_with_new_options) {
    compare(3'000'000, 10'000, {.changes = true});
}

BOOST_AUTO_TEST_CASE(implements_the_definition_with_everything_at_once) {
    compare(4'000'000, 20'000, {.refunds = true, .changes = true, .debts = true});
}

// It is unknown which part of a merged permit was unused: it counts as the oldest.
BOOST_AUTO_TEST_CASE(never_grants_one_too_many_when_permits_are_merged) {
    support::for_each_seed(5'000'000, 10'000, [](random_source& random) {
        struct merged_permit {
            ticket t;
            std::vector<std::size_t> parts;  // grants of the oracle, the oldest first
        };
        auto options = some_options(random);
        sliding_log log(options);
        history past(options.limit, options.window);
        auto now = some_start(random, options.window);
        std::vector<merged_permit> permits;

        for (auto steps = random.between(10, 60); steps != 0; --steps) {
            now = some_time(random, past, now);
            if (random.one_in(3) && permits.size() >= 2) {
                auto const i = random.index_in(permits);
                auto const from = std::move(permits[i]);
                permits.erase(permits.begin() + static_cast<std::ptrdiff_t>(i));
                auto& into = permits[random.index_in(permits)];
                into.t = log.merge(into.t, from.t, 1);
                into.parts.insert(into.parts.end(), from.parts.begin(), from.parts.end());
                std::ranges::sort(into.parts);
            } else if (random.one_in(3) && !permits.empty()) {
                auto const& p = permits[random.index_in(permits)];
                amount held = 0;
                for (auto const part : p.parts)
                    held += past.grants()[part].units;
                auto n = random.between(0, held);
                if (n != 0)
                    log.refund(n, p.t, now);
                for (auto const part : p.parts) {
                    auto const here = std::min(n, past.grants()[part].units);
                    past.undo(part, here);
                    n -= here;
                }
            } else if (random.one_in(12)) {
                options = some_options(random);
                renew(log, options, now);
                past.configure(options.limit, options.window, now);
            } else {
                auto const n = random.between(1, std::min<amount>(options.limit, 4));
                if (fits(log, n, now)) {
                    expect(past.fits(n, now), "one too many");
                    permits.push_back({log.take(n, now), {past.grants().size()}});
                    past.take(n, now);
                }
            }
            expect(log.remaining(now) <= past.remaining(now), "more than remains");
        }
    });
    BOOST_TEST(true);  // no check above failed
}

// Seen in another library: hammer, whose sliding window counts rejected requests.
BOOST_AUTO_TEST_CASE(keeps_no_trace_of_a_rejected_request) {
    support::for_each_seed(6'000'000, 1'000, [](random_source& random) {
        auto const options = some_options(random);
        sliding_log asked(options);
        sliding_log left_alone(options);
        history past(options.limit, options.window);
        auto now = some_start(random, options.window);

        for (auto steps = random.between(5, 40); steps != 0; --steps) {
            now = some_time(random, past, now);
            for (auto questions = random.between(0, 5); questions != 0; --questions) {
                (void)asked.ready_at(random.between(1, options.limit),
                                     random.one_in(2) ? random.of_any_size(1'000'000) : 0, now);
                (void)asked.remaining(now);
            }
            auto const n = random.between(1, options.limit);
            expect_equal(asked.ready_at(n, 0, now), left_alone.ready_at(n, 0, now), "the same");
            if (fits(asked, n, now)) {
                expect_equal(asked.take(n, now), left_alone.take(n, now), "the same ticket");
                past.take(n, now);
            }
            expect_equal(asked.remaining(now), left_alone.remaining(now), "the same remains");
        }
    });
    BOOST_TEST(true);  // no check above failed
}

BOOST_AUTO_TEST_SUITE_END()
