#include <weir/any_limiter.hpp>
#include <weir/chain.hpp>
#include <weir/fixed_window.hpp>
#include <weir/format.hpp>
#include <weir/keyed.hpp>
#include <weir/leaky_bucket.hpp>
#include <weir/reservation.hpp>
#include <weir/shared/limiter.hpp>
#include <weir/shared/memory_store.hpp>
#include <weir/smooth_warming_up.hpp>
#include <weir/token_bucket.hpp>

#include "support/printing.hpp"
#include "support/random.hpp"
#include "support/virtual_limiters.hpp"
#include "support/visit.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <limits>
#include <memory>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

// Pauses: `pause_until`, `pause_for` and `resume`.

using namespace support;
using weir::errc;
using weir::error_code;
using weir::permit;

namespace {

using clients_by_number = weir::testing::keyed<int, weir::token_bucket>;

// Random calls of a limiter, and what the documentation promises: nothing is granted during a pause; after each instant
// no request waits that could be granted; requests of one key are granted in the order of their arrival; each is
// answered once, at the end of its patience at the latest.
template <class Limiter>
class random_pauses {
public:
    random_pauses(random_source& random, asio::io_context& ctx, Limiter& limiter)
        : random_(random), ctx_(ctx), limiter_(limiter) {}

    void run() {
        for (int i = 0; i != 120; ++i) {
            act();
            run_for(ctx_, random_.one_in(4) ? random_.between(0, 3'000) * 1ms : 0ms);
            check();
        }
        resume();
        held_.clear();
        run_for(ctx_, 10min);
        for (auto const& r : requests_)
            BOOST_TEST(r.answers == 1);
    }

private:
    static constexpr bool is_keyed = requires { typename Limiter::key_type; };
    static constexpr int keys = is_keyed ? 3 : 1;

    struct request {
        int key = 0;
        clock::time_point deadline;
        int answers = 0;
    };

    void act() {
        auto const key = static_cast<int>(random_.between(0, keys - 1));
        switch (random_.between(0, 7)) {
            case 0:
            case 1:
            case 2:
                return enter(key);
            case 3:
                return try_enter(key);
            case 4:
                return leave();
            case 5:
                return pause();
            case 6:
                return random_.one_in(3) ? resume() : enter(key);
            default:
                limiter_.configure([most = random_.between(1, 3)](auto& o) {
                    if constexpr (requires { o.seats; })
                        o.seats = most;
                    else
                        o.burst = most;
                });
        }
    }

    void leave() {
        if (!held_.empty())
            held_.erase(held_.begin() + static_cast<std::ptrdiff_t>(random_.index_in(held_)));
    }
    void pause() {
        auto const length = random_.between(0, 4'000) * 1ms;
        limiter_.pause_for(length);
        end_ = std::max(end_, clock::now() + length);
    }
    void resume() {
        limiter_.resume();
        end_ = clock::time_point::min();
    }

    void enter(int key) {
        auto const wait = random_.between(1, 10'000) * 1ms;
        auto const number = requests_.size();
        requests_.push_back({.key = key, .deadline = clock::now() + wait});
        auto const told = [this, number](error_code ec, permit p) {
            auto& r = requests_[number];
            ++r.answers;
            auto const late = clock::now() - r.deadline;
            BOOST_TEST((late <= (ec ? weir::queue_options().tolerance : 0ns)));
            if (ec)
                return;
            BOOST_TEST((clock::now() >= end_));
            for (std::size_t i = 0; i != number; ++i)
                BOOST_TEST((requests_[i].key != r.key || requests_[i].answers == 1));
            held_.push_back(std::move(p));
        };
        if constexpr (is_keyed)
            limiter_.async_enter(key, wait, told);
        else
            limiter_.async_enter(wait, told);
    }
    void try_enter(int key) {
        permit p;
        if constexpr (is_keyed)
            p = limiter_.try_enter(key);
        else
            p = limiter_.try_enter();
        if (clock::now() < end_) {
            BOOST_TEST(!p);
            if (auto const after = p.retry_after())
                BOOST_TEST((clock::now() + *after >= end_));
        }
        if (p)
            held_.push_back(std::move(p));
    }
    [[nodiscard]] auto stats_of([[maybe_unused]] int key) const {
        if constexpr (is_keyed)
            return limiter_.stats(key);
        else
            return limiter_.stats();
    }
    void check() {
        for (int key = 0; key != keys; ++key) {
            auto const s = stats_of(key);
            BOOST_TEST((s.waiting == 0 || s.remaining == 0));
            BOOST_TEST((s.paused_for == std::max(end_, clock::now()) - clock::now()));
        }
    }

    random_source& random_;
    asio::io_context& ctx_;
    Limiter& limiter_;
    std::vector<request> requests_;
    std::vector<permit> held_;
    clock::time_point end_ = clock::time_point::min();
};

}  // namespace

BOOST_AUTO_TEST_SUITE(limiter_pause)

BOOST_AUTO_TEST_CASE(grants_nothing_until_its_end_and_then_in_the_old_order) {
    asio::io_context ctx;
    seats kitchen{ctx, {.seats = 2}};
    auto const end = clock::now() + 10s;
    kitchen.pause_until(end);
    error_code ec;
    auto const rejected = kitchen.try_enter(1, ec);
    BOOST_TEST(ec == errc::no_permit);
    BOOST_TEST(rejected.retry_after().value() == 10s);
    visit first{kitchen};
    visit second{kitchen};
    visit third{kitchen};
    run_for(ctx, 10s - 1ns);
    BOOST_TEST(first.waiting());
    BOOST_TEST(kitchen.stats().remaining == 0);
    run_for(ctx, 1ns);
    BOOST_TEST(first.granted());
    BOOST_TEST(second.granted());
    BOOST_TEST(third.waiting());
    BOOST_TEST((clock::now() == end));
}

BOOST_AUTO_TEST_CASE(requests_that_waited_before_keep_their_places) {
    asio::io_context ctx;
    seats kitchen{ctx, {.seats = 1}};
    auto seat = kitchen.try_enter();
    visit before{kitchen};
    settle(ctx);
    kitchen.pause_for(5s);
    visit after{kitchen};
    seat.leave();
    run_for(ctx, 4s);
    BOOST_TEST(before.waiting());
    run_for(ctx, 1s);
    BOOST_TEST(before.granted());
    BOOST_TEST(after.waiting());
}

BOOST_AUTO_TEST_CASE(a_permit_that_is_released_in_a_pause_wakes_nobody) {
    asio::io_context ctx;
    seats kitchen{ctx, {.seats = 1}};
    auto seat = kitchen.try_enter();
    kitchen.pause_for(5s);
    seat.leave();
    BOOST_TEST(!kitchen.try_enter());
    BOOST_TEST(kitchen.stats().in_use == 0);
    run_for(ctx, 5s);
    BOOST_TEST(!!kitchen.try_enter());
}

BOOST_AUTO_TEST_CASE(the_later_of_two_ends_applies_and_resume_ends_it) {
    asio::io_context ctx;
    seats kitchen{ctx, {.seats = 1}};
    kitchen.pause_for(10s);
    kitchen.pause_for(5s);
    run_for(ctx, 5s);
    BOOST_TEST(!kitchen.try_enter());
    kitchen.pause_for(10s);
    visit guest{kitchen};
    run_for(ctx, 9s);
    BOOST_TEST(guest.waiting());
    BOOST_TEST(kitchen.stats().paused_for == 1s);
    kitchen.resume();
    settle(ctx);
    BOOST_TEST(guest.granted());
    BOOST_TEST(kitchen.stats().paused_for == 0s);
}

BOOST_AUTO_TEST_CASE(an_end_that_has_passed_and_a_negative_length_have_no_effect) {
    asio::io_context ctx;
    seats kitchen{ctx, {.seats = 1}};
    kitchen.pause_until(clock::now());
    kitchen.pause_until(clock::time_point::min());
    kitchen.pause_for(-1s);
    kitchen.pause_for(0s);
    BOOST_TEST(!!kitchen.try_enter());
    BOOST_CHECK_THROW(
        kitchen.pause_for(std::chrono::duration<double>(std::numeric_limits<double>::quiet_NaN())),
        std::invalid_argument);
    BOOST_TEST(!!kitchen.try_enter());
}

BOOST_AUTO_TEST_CASE(a_pause_can_last_forever) {
    asio::io_context ctx;
    token_bucket calls{ctx, {.rate = {10, 1s}, .burst = 5}};
    calls.pause_until(clock::time_point::max());
    auto const rejected = calls.try_enter();
    BOOST_TEST(!rejected);
    BOOST_TEST(!rejected.retry_after().has_value());
    visit patient{calls};
    visit impatient{calls, 1, 1h};
    run_for(ctx, 24h);
    BOOST_TEST(patient.waiting());
    BOOST_TEST(impatient.rejected(errc::deadline_unreachable));
    calls.resume();
    settle(ctx);
    BOOST_TEST(patient.granted());
}

BOOST_AUTO_TEST_CASE(requests_that_cannot_be_granted_in_time_are_rejected_at_once) {
    asio::io_context ctx;
    token_bucket calls{ctx, {.rate = {1, 1s}, .burst = 1, .initial = 0}};
    visit soon{calls, 1, 3s};
    visit late{calls, 1, 1min};
    settle(ctx);
    calls.pause_for(10s);
    settle(ctx);
    BOOST_TEST(soon.rejected(errc::deadline_unreachable));
    BOOST_TEST(late.waiting());
    visit exact{calls, 1, 11s};
    visit too_short{calls, 1, 11s};
    settle(ctx);
    BOOST_TEST(exact.waiting());
    BOOST_TEST(too_short.rejected(errc::deadline_unreachable));
    run_for(ctx, 10s);
    BOOST_TEST(late.granted());
    run_for(ctx, 1s);
    BOOST_TEST(exact.granted());
}

// The bucket is full at the end of the pause, however long that is.
BOOST_AUTO_TEST_CASE(a_bucket_fills_during_the_pause_and_its_forecasts_include_that) {
    asio::io_context ctx;
    token_bucket calls{ctx, {.rate = {1, 1s}, .burst = 3, .initial = 0}};
    auto const begin = clock::now();
    calls.pause_for(10s);
    std::vector<token_bucket::reservation> all;
    std::vector<std::chrono::seconds> at;
    for (int i = 0; i != 5; ++i) {
        all.push_back(calls.reserve());
        at.push_back(std::chrono::duration_cast<std::chrono::seconds>(*all.back().at() - begin));
    }
    std::vector<std::chrono::seconds> const expected{10s, 10s, 10s, 11s, 12s};
    BOOST_TEST(at == expected, boost::test_tools::per_element());
    run_for(ctx, 10s - 1ns);
    BOOST_TEST(!all.front().try_enter());
    run_for(ctx, 1ns);
    for (int i = 0; i != 5; ++i) {
        if (i > 2)
            run_for(ctx, 1s);
        BOOST_TEST(!!all[static_cast<std::size_t>(i)].try_enter());
    }
}

BOOST_AUTO_TEST_CASE(permits_in_use_zero_permits_and_charges_are_not_paused) {
    asio::io_context ctx;
    token_bucket calls{ctx, {.rate = {1, 1s}, .burst = 5}};
    auto held = calls.try_enter(2);
    calls.pause_for(10s);
    BOOST_TEST(held.count() == 2);
    BOOST_TEST(held.remaining() == 0);
    BOOST_TEST(held.reset_after().value() == 10s);
    held.refund();
    BOOST_TEST(!!calls.try_enter(0));
    BOOST_TEST(calls.charge(2).count() == 2);
    calls.close();
    error_code ec;
    BOOST_TEST(!calls.try_enter(1, ec));
    BOOST_TEST(ec == errc::closed);
}

BOOST_AUTO_TEST_CASE(statistics_and_their_text_tell_of_the_pause) {
    asio::io_context ctx;
    seats kitchen{ctx, {.seats = 1}};
    BOOST_TEST(fmt::format("{}", kitchen.stats()).find("paused") == std::string::npos);
    kitchen.pause_for(90s);
    BOOST_TEST(fmt::format("{}", kitchen.stats()).ends_with("0 remaining, paused for 90s"),
               fmt::format("{}", kitchen.stats()));
}

BOOST_AUTO_TEST_CASE(a_pause_without_waiting_requests_keeps_no_context_running) {
    asio::io_context ctx;
    seats kitchen{ctx, {.seats = 1}};
    kitchen.pause_for(1h);
    settle(ctx);
    BOOST_TEST(ctx.stopped());
}

BOOST_AUTO_TEST_CASE(cancel_and_close_end_waits_in_a_pause) {
    asio::io_context ctx;
    seats kitchen{ctx, {.seats = 1}};
    kitchen.pause_for(1h);
    visit one{kitchen};
    settle(ctx);
    kitchen.cancel();
    visit other{kitchen};
    settle(ctx);
    BOOST_TEST(one.rejected(asio::error::operation_aborted));
    kitchen.close();
    settle(ctx);
    BOOST_TEST(other.rejected(errc::closed));
}

BOOST_AUTO_TEST_CASE(other_options_do_not_end_a_pause) {
    asio::io_context ctx;
    seats kitchen{ctx, {.seats = 1}};
    kitchen.pause_for(10s);
    visit guest{kitchen};
    settle(ctx);
    kitchen.configure({.seats = 5});
    run_for(ctx, 9s);
    BOOST_TEST(guest.waiting());
    run_for(ctx, 1s);
    BOOST_TEST(guest.granted());
}

// After a late timer a bucket catches up, but not into the pause.
BOOST_AUTO_TEST_CASE(a_tolerance_grants_nothing_early) {
    asio::io_context ctx;
    token_bucket calls{ctx, {.rate = {1'000, 1s}, .burst = 100, .initial = 0}, {.tolerance = 50ms}};
    visit guest{calls};
    settle(ctx);
    calls.pause_for(1s);
    run_for(ctx, 1s - 1ns);
    BOOST_TEST(guest.waiting());
    run_for(ctx, 50ms + 1ns);
    BOOST_TEST(guest.granted());
}

BOOST_AUTO_TEST_CASE(a_chain_waits_at_the_paused_limiter_and_holds_no_permit) {
    asio::io_context ctx;
    seats kitchen{ctx, {.seats = 1}};
    leaky_bucket pace{ctx, {.rate = {1, 1s}}};
    pace.pause_for(10s);
    weir::chain both{kitchen, pace};
    error_code ec;
    auto const rejected = both.try_enter(ec);
    BOOST_TEST(ec == errc::no_permit);
    BOOST_TEST(rejected.rejected_by() == 1U);
    BOOST_TEST(rejected.retry_after().value() == 10s);
    std::optional<clock::time_point> at;
    auto const begin = clock::now();
    both.async_enter(1min, [&](error_code e, auto) {
        if (!e)
            at = clock::now();
    });
    settle(ctx);
    BOOST_TEST(!!kitchen.try_enter());
    run_for(ctx, 10s);
    BOOST_TEST((at == begin + 10s));
}

BOOST_AUTO_TEST_CASE(all_keys_pause_with_and_without_waiting_requests) {
    asio::io_context ctx;
    clients_by_number calls{ctx, {.rate = {1, 1s}, .burst = 2}};
    std::vector<int> granted;
    auto const enter = [&](int key, weir::patience wait) {
        calls.async_enter(key, wait, [&granted, key](error_code ec, permit) {
            if (!ec)
                granted.push_back(key);
            else
                granted.push_back(ec == errc::deadline_unreachable ? -key : 0);
        });
    };
    static_cast<void>(calls.try_enter(1, 2));
    enter(1, 1h);
    enter(1, 3s);
    settle(ctx);
    calls.pause_for(10s);
    settle(ctx);
    BOOST_TEST(granted == std::vector<int>{-1}, boost::test_tools::per_element());
    error_code ec;
    BOOST_TEST(calls.try_enter(2, 1, ec).retry_after().value() == 10s);
    BOOST_TEST(ec == errc::no_permit);
    BOOST_TEST(calls.stats(2).remaining == 0);
    BOOST_TEST(calls.stats(2).paused_for == 10s);
    enter(2, 1h);
    enter(3, 5s);
    run_for(ctx, 10s - 1ns);
    BOOST_TEST((granted == std::vector<int>{-1, -3}));
    run_for(ctx, 1ns);
    BOOST_TEST(granted.size() == 4U);
    BOOST_TEST(!!calls.try_enter(4));
    BOOST_TEST(calls.stats(2).remaining == 1);

    calls.pause_for(1h);
    enter(5, 2h);
    settle(ctx);
    BOOST_TEST(granted.size() == 4U);
    calls.resume();
    settle(ctx);
    BOOST_TEST(granted.size() == 5U);
}

BOOST_AUTO_TEST_CASE(keys_that_share_one_state_pause_too) {
    asio::io_context ctx;
    clients_by_number calls{ctx,
                            {.rate = {1, 1s}, .burst = 1},
                            {.max_keys = 1, .no_place = weir::when_no_place::share, .shards = 1}};
    static_cast<void>(calls.try_enter(1));
    calls.pause_for(10s);
    BOOST_TEST(calls.try_enter(2).retry_after().value() == 10s);
    run_for(ctx, 10s);
    BOOST_TEST(!!calls.try_enter(2));
}

// During a pause the limiter takes no permits from the store, which other processes could use.
BOOST_AUTO_TEST_CASE(a_shared_limiter_asks_its_store_after_the_pause) {
    asio::io_context ctx;
    auto const server = std::make_shared<weir::basic_memory_store<weir::testing::timer>>(ctx);
    weir::basic_shared_token_bucket<asio::any_io_executor, weir::testing::timer> here{
        ctx, server, "calls", {.rate = {1, 1h}, .burst = 5}};
    here.pause_for(10s);
    visit guest{here};
    run_for(ctx, 10s - 1ns);
    BOOST_TEST(guest.waiting());
    BOOST_TEST(here.shared_stats().questions == 0U);
    run_for(ctx, 1s);
    BOOST_TEST(guest.granted());
}

template <class Limiter, class Options>
void pause_at_random(Options const& options) {
    for_each_seed(1, 100, [&](random_source& random) {
        asio::io_context ctx;
        Limiter limiter(ctx, options);
        random_pauses<Limiter>(random, ctx, limiter).run();
    });
}

BOOST_AUTO_TEST_CASE(random_pauses_of_seats) {
    pause_at_random<seats>(weir::seats_options{.seats = 2});
}
BOOST_AUTO_TEST_CASE(random_pauses_of_a_bucket) {
    pause_at_random<token_bucket>(weir::token_bucket_options{.rate = {1, 1s}, .burst = 2});
}
BOOST_AUTO_TEST_CASE(random_pauses_of_keys) {
    pause_at_random<clients_by_number>(weir::token_bucket_options{.rate = {1, 1s}, .burst = 2});
}
BOOST_AUTO_TEST_CASE(random_pauses_of_keys_with_seats) {
    pause_at_random<weir::testing::keyed<int, weir::seats>>(weir::seats_options{.seats = 2});
}

BOOST_AUTO_TEST_SUITE_END()
