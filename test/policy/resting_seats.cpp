#include <weir/chain.hpp>
#include <weir/keyed.hpp>
#include <weir/policy/any.hpp>
#include <weir/policy/resting_seats.hpp>
#include <weir/resting_seats.hpp>
#include <weir/seats.hpp>

#include "support/allocations.hpp"
#include "support/printing.hpp"
#include "support/random.hpp"
#include "support/renew.hpp"
#include "support/says.hpp"
#include "support/virtual_limiters.hpp"
#include "support/visit.hpp"

#include <boost/asio/detached.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

using namespace std::chrono_literals;
using support::begun;
using support::random_source;
using support::renew;
using support::says;
using support::visit;
using weir::amount;
using weir::duration;
using weir::resting_seats_options;
using weir::time_point;
using weir::policy::resting_seats;
using weir::policy::resting_seats_rule;

BOOST_AUTO_TEST_SUITE(seats_that_rest)

namespace {

constexpr time_point noon{12h};
constexpr duration tick{1};

// The words, over all permits: those in use, and those released less than the rest ago. Permits that were charged
// beyond the seats are counted alone.
class history {
public:
    explicit history(resting_seats_options const& options) : options_(options) {}

    void take(amount n) { in_use_ += n; }
    void refund(amount n) { in_use_ -= n; }
    void leave(amount n, time_point now) {
        in_use_ -= n;
        for (amount i = 0; i != n; ++i)
            ends_.push_back(now);
    }
    void configure(resting_seats_options const& options, time_point now) {
        std::erase_if(ends_, [&](time_point end) { return now - end >= options_.rest; });
        options_ = options;
    }
    [[nodiscard]] amount in_use() const { return in_use_; }
    [[nodiscard]] amount free(time_point t) const {
        amount free = options_.seats - in_use_;
        for (auto const end : ends_)
            free -= t - end < options_.rest ? 1 : 0;
        return free;
    }
    // Looks at every instant until all rests are over.
    [[nodiscard]] time_point ready_at(amount n, time_point now) const {
        for (auto t = now; t <= now + options_.rest; t += tick)
            if (free(t) >= n)
                return t;
        return weir::unknown;
    }

private:
    resting_seats_options options_;
    amount in_use_ = 0;
    std::vector<time_point> ends_;
};

resting_seats_options some_options(random_source& random) {
    return {.seats = random.between(1, 6), .rest = duration(random.between(1, 20))};
}

void require_as_told(resting_seats const& rule, history const& words, random_source& random,
                     time_point now) {
    auto const free = words.free(now);
    BOOST_TEST_REQUIRE(rule.remaining(now) == std::max<amount>(free, 0));
    BOOST_TEST_REQUIRE(rule.debt(now) == std::max<amount>(-free, 0));
    auto const n = random.between(1, rule.capacity());
    auto const ahead = random.one_in(2) ? 0 : random.between(0, 6);
    auto const ready = words.ready_at(n + ahead, now);
    BOOST_TEST_REQUIRE(rule.ready_at(n, ahead, now) == ready);
}

}  // namespace

BOOST_AUTO_TEST_CASE(do_what_their_words_say) {
    std::size_t granted = 0, rested = 0;
    support::for_each_seed(1, 2'000, [&](random_source& random) {
        auto options = some_options(random);
        auto rule = begun<resting_seats>(options, noon);
        auto const unused = begun<resting_seats>(options, noon);
        history words(options);
        auto now = noon;
        for (int i = 0; i != 100; ++i) {
            now += duration(random.one_of({0, 0, 1, 1, 2, 5, 20}));
            if (random.one_in(30)) {
                options = some_options(random);
                renew(rule, options, now);
                words.configure(options, now);
            }
            require_as_told(rule, words, random, now);
            bool const is_new = words.in_use() == 0 && words.free(now) == options.seats;
            BOOST_TEST_REQUIRE(rule.is_alike(unused, now) == is_new);
            auto const n = random.between(1, options.seats);
            auto const used = words.in_use();
            if (words.free(now) >= n && random.one_in(2)) {
                BOOST_TEST_REQUIRE(rule.take(n, now) == 0U);
                words.take(n);
                ++granted;
            } else if (used > 0 && random.one_in(4)) {
                auto const back = random.between(1, used);
                BOOST_TEST_REQUIRE(rule.refund(back, 0, now));
                words.refund(back);
            } else if (used > 0) {
                auto const back = random.between(1, used);
                BOOST_TEST_REQUIRE(rule.leave(back, 0, now));
                words.leave(back, now);
                ++rested;
            }
        }
    });
    BOOST_TEST(granted > 1'000U);
    BOOST_TEST(rested > 1'000U);
}

// Of permits beyond the seats only the latest ones rest, which makes no difference to a grant.
BOOST_AUTO_TEST_CASE(grant_as_told_after_charges_beyond_the_seats) {
    support::for_each_seed(1, 500, [&](random_source& random) {
        auto const options = some_options(random);
        auto rule = begun<resting_seats>(options, noon);
        history words(options);
        auto now = noon;
        for (int i = 0; i != 60; ++i) {
            now += duration(random.one_of({0, 1, 2, 5, 20}));
            auto const n = random.between(1, 9);
            BOOST_TEST_REQUIRE(rule.remaining(now) == std::max<amount>(words.free(now), 0));
            auto const asked = random.between(1, options.seats);
            auto const ready = rule.ready_at(asked, 0, now);
            BOOST_TEST_REQUIRE(ready == words.ready_at(asked, now));
            if (random.one_in(2)) {
                rule.take(n, now);
                words.take(n);
            } else if (words.in_use() >= n) {
                rule.leave(n, 0, now);
                words.leave(n, now);
            }
        }
    });
}

BOOST_AUTO_TEST_CASE(reject_options_that_are_out_of_range) {
    BOOST_CHECK_EXCEPTION(resting_seats({.seats = 0, .rest = 1s}), std::invalid_argument,
                          says("weir::resting_seats: seats is 0, but must be from 1 to 1048576"));
    BOOST_CHECK_EXCEPTION(resting_seats({.seats = 1}), std::invalid_argument,
                          says("weir::resting_seats: rest is 0s, but must be at least 1ns"));
    BOOST_CHECK_THROW(resting_seats({.seats = (1 << 20) + 1, .rest = 1s}), std::invalid_argument);
}

BOOST_AUTO_TEST_CASE(never_overflow) {
    auto rule = begun<resting_seats>({.seats = 2, .rest = weir::forever}, noon);
    rule.take(weir::max_amount, noon);
    BOOST_TEST(rule.ready_at(2, weir::max_amount, noon) == weir::unknown);
    rule.leave(weir::max_amount, 0, noon);
    BOOST_TEST(rule.ready_at(1, 0, noon) == weir::never);
    BOOST_TEST(rule.debt(noon) == 0);
}

// A million ends: each release and each question takes the time of a few.
BOOST_AUTO_TEST_CASE(have_memory_for_all_ends_from_the_start) {
    static_assert(sizeof(resting_seats_rule::state_type) == 48);
    auto one = begun<resting_seats>({.seats = 1, .rest = 1s}, noon);
    BOOST_TEST(one.heap_bytes() == 0U);
    auto many = begun<resting_seats>({.seats = 1'000, .rest = 1s}, noon);
    BOOST_TEST(many.heap_bytes() == 8'000U);
    support::allocation_count const allocations;
    for (int i = 0; i != 5'000; ++i) {
        many.take(1, noon + i * 1ms);
        many.leave(1, 0, noon + i * 1ms);
    }
    BOOST_TEST(allocations() == 0U);
    BOOST_TEST(many.remaining(noon + 5'000ms) == 1);
}

using support::run_for;
using support::asio::io_context;
using seats_at_rest = weir::testing::limiter<weir::resting_seats>;

BOOST_AUTO_TEST_CASE(let_requests_wait_for_the_end_of_the_rest) {
    io_context ctx;
    seats_at_rest host(ctx, {.rest = 2s});
    auto first = host.try_enter();
    BOOST_TEST(bool(first));
    visit second(host), third(host);
    weir::error_code ec;
    BOOST_TEST((!host.try_enter(1, ec).retry_after()));
    run_for(ctx, 5s);
    BOOST_TEST(second.waiting());
    first.leave();
    BOOST_TEST(*host.stats().reset_after == 2s);
    run_for(ctx, 2s - 1ns);
    BOOST_TEST(second.waiting());
    run_for(ctx, 1ns);
    BOOST_TEST(second.granted());
    run_for(ctx, 10s);
    BOOST_TEST(third.waiting());
    second.seat().refund();  // it was not used, and need not rest
    second.seat().leave();
    run_for(ctx, 0s);
    BOOST_TEST(third.granted());
}

// A job arrives, waits for its permits, and holds them for a time.
struct job {
    duration at;
    amount n;
    duration held;
    bool refunds;
    duration granted = weir::forever;
};

support::asio::awaitable<void> run(seats_at_rest& host, job& j, weir::testing::timer timer) {
    auto const start = timer.expiry() - j.at;
    co_await timer.async_wait(support::asio::use_awaitable);
    auto permits = co_await host.enter(j.n);
    j.granted = weir::testing::clock::now() - start;
    timer.expires_after(j.held);
    co_await timer.async_wait(support::asio::use_awaitable);
    j.refunds ? permits.refund() : permits.leave();
}

// The words, millisecond by millisecond: permits are released, and then the first jobs in the queue get the free ones.
std::vector<duration> grant_times(resting_seats_options const& options, std::vector<job> jobs) {
    history words(options);
    std::size_t next = 0;
    for (duration t{}; next != jobs.size(); t += 1ms) {
        time_point const now(t);
        for (auto const& j : jobs) {
            if (j.granted == weir::forever || j.granted + j.held != t)
                continue;
            if (j.refunds)
                words.refund(j.n);
            else
                words.leave(j.n, now);
        }
        for (; next != jobs.size() && jobs[next].at <= t && words.free(now) >= jobs[next].n;
             ++next) {
            words.take(jobs[next].n);
            jobs[next].granted = t;
        }
    }
    std::vector<duration> times;
    for (auto const& j : jobs)
        times.push_back(j.granted);
    return times;
}

BOOST_AUTO_TEST_CASE(grant_waiting_requests_at_the_first_instant) {
    support::for_each_seed(1, 50, [](random_source& random) {
        resting_seats_options const options{
            .seats = random.between(1, 4), .rest = 1ms * random.between(1, 30)};
        std::vector<job> jobs(40);
        duration at{};
        for (auto& j : jobs) {
            at += 1ms * random.between(1, 13);
            j = {at, random.between(1, options.seats), 1ms * random.between(1, 25),
                 random.one_in(5)};
        }
        auto const expected = grant_times(options, jobs);
        io_context ctx;
        seats_at_rest host(ctx, options);
        for (auto& j : jobs)
            co_spawn(ctx, run(host, j, weir::testing::timer(ctx, j.at)), support::asio::detached);
        run_for(ctx, 1min);
        for (std::size_t i = 0; i != jobs.size(); ++i)
            BOOST_REQUIRE((jobs[i].granted == expected[i]));
    });
}

BOOST_AUTO_TEST_CASE(reject_with_the_rest_of_the_rest) {
    io_context ctx;
    seats_at_rest host(ctx, {.rest = 2s}, {.patience = 1s});
    host.try_enter().leave();
    run_for(ctx, 500ms);
    weir::error_code ec;
    auto const rejected = host.try_enter(1, ec);
    BOOST_TEST((ec == weir::errc::no_permit));
    BOOST_TEST(*rejected.retry_after() == 1500ms);
    visit hopeless(host);
    run_for(ctx, 0s);
    BOOST_TEST(hopeless.rejected(weir::errc::deadline_unreachable));
    run_for(ctx, 500ms);
    visit patient(host);
    run_for(ctx, 1s);
    BOOST_TEST(patient.granted());
}

BOOST_AUTO_TEST_CASE(rest_in_a_chain_too) {
    io_context ctx;
    seats_at_rest host(ctx, {.rest = 2s});
    support::seats all(ctx, {.seats = 1});
    weir::chain both{host, all};
    auto first = both.try_enter();
    BOOST_TEST(bool(first));
    first.leave();
    weir::error_code ec;
    BOOST_TEST(!both.try_enter(ec));
    BOOST_TEST(bool(all.try_enter()));
    run_for(ctx, 2s);
    BOOST_TEST(bool(both.try_enter(ec)));
}

BOOST_AUTO_TEST_CASE(rest_for_each_key_which_is_then_forgotten) {
    io_context ctx;
    weir::basic_keyed<std::string, resting_seats, support::asio::any_io_executor,
                      weir::testing::timer>
        hosts(ctx, {.rest = 2s}, {.max_keys = 2, .shards = 1});
    weir::error_code ec;
    auto a = hosts.try_enter("a", 1, ec);
    hosts.try_enter("b", 1, ec).leave();
    BOOST_TEST(!hosts.try_enter("b", 1, ec));
    BOOST_TEST(!hosts.try_enter("c", 1, ec));
    BOOST_TEST((ec == weir::errc::too_many_keys));
    run_for(ctx, 2s);
    BOOST_TEST(bool(hosts.try_enter("c", 1, ec)));
    a.leave();  // it was in use for longer than a rest
    BOOST_TEST(!hosts.try_enter("a", 1, ec));
    run_for(ctx, 2s);
    BOOST_TEST(bool(hosts.try_enter("a", 1, ec)));
}

BOOST_AUTO_TEST_CASE(can_be_chosen_by_their_text) {
    weir::policy::any rule(weir::limiter_config::parse("1 seats rest 2s"));
    rule.begin(noon);
    BOOST_TEST(rule.times_leave());
    rule.leave(1, rule.take(1, noon), noon);
    BOOST_TEST(rule.ready_at(1, 0, noon) == noon + 2s);
    BOOST_TEST(rule.ready_at(1, 0, noon + 2s) == noon + 2s);
}

BOOST_AUTO_TEST_SUITE_END()
