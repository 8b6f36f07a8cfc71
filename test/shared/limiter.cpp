#include <weir/shared/limiter.hpp>
#include <weir/shared/memory_store.hpp>
#include <weir/testing.hpp>

#include "support/printing.hpp"
#include "support/virtual_limiters.hpp"
#include "support/visit.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace std::chrono_literals;
using support::clock;
using support::run_for;
using support::settle;
using support::visit;
using weir::errc;
namespace asio = boost::asio;

using store = weir::basic_memory_store<weir::testing::timer>;
using bucket = weir::basic_shared_token_bucket<asio::any_io_executor, weir::testing::timer>;
using interval = weir::basic_shared_interval<asio::any_io_executor, weir::testing::timer>;
using fate = weir::store_conduct::fate;

// Two processes at one store, a millisecond away: ten per second, five at once.
struct fixture {
    asio::io_context ctx;
    std::shared_ptr<store> server = std::make_shared<store>(ctx);
    bucket here{ctx, server, "calls", options()};
    bucket there{ctx, server, "calls", options()};

    fixture() { is_as_far_as(1ms); }

    static weir::shared_options options() {
        return {.rate = {10, 1s},
                .burst = 5,
                .timeout = 50ms,
                .retry = {.initial = 50ms, .max = 500ms, .jitter = 0}};
    }
    void is_as_far_as(weir::duration way, fate f = fate::answered) const {
        server->behave({.there = way / 2, .back = way / 2, .what = f});
    }
    // All permits of the bucket.
    void empty_bucket() {
        visit const all(there, 5);
        run_for(ctx, 1ms);
        BOOST_TEST_REQUIRE(all.granted());
    }
};

BOOST_FIXTURE_TEST_SUITE(shared_limiter, fixture)

BOOST_AUTO_TEST_CASE(permit_comes_after_a_round_trip) {
    visit const guest(here, 2, 1s);
    run_for(ctx, 1ms - 1ns);
    BOOST_TEST(guest.waiting());
    run_for(ctx, 1ns);
    BOOST_TEST(guest.granted());
    BOOST_TEST(guest.seat().count() == 2);
    BOOST_TEST(guest.seat().waited() == 1ms);
    BOOST_TEST(here.shared_stats().granted == 2);
    BOOST_TEST(here.shared_stats().round_trip == 1ms);
}

BOOST_AUTO_TEST_CASE(single_process_without_fetched_permits_grants_nothing_at_once) {
    BOOST_TEST(!here.try_enter());
    visit const hasty(here, 1, 0s);
    settle(ctx);
    BOOST_TEST(hasty.rejected(errc::timed_out));
    visit const greedy(here, 6);
    settle(ctx);
    BOOST_TEST(greedy.rejected(errc::exceeds_capacity));
    BOOST_TEST(here.shared_stats().questions == 0u);
}

BOOST_AUTO_TEST_CASE(many_requests_are_served_in_order_by_two_questions) {
    std::vector<visit> crowd;
    for (int i = 0; i != 5; ++i)
        crowd.emplace_back(here, 1);
    run_for(ctx, 1ms);
    BOOST_TEST(crowd[0].granted());  // the first question was sent when no other request waited
    BOOST_TEST(crowd[1].waiting());
    run_for(ctx, 1ms);
    for (auto const& v : crowd)
        BOOST_TEST(v.granted());
    BOOST_TEST(here.shared_stats().questions == 2u);
}

BOOST_AUTO_TEST_CASE(two_processes_share_one_bucket) {
    visit const three(here, 3);
    visit const two(there, 2);
    visit const late(there, 1);
    run_for(ctx, 2ms);
    BOOST_TEST(three.granted());
    BOOST_TEST(two.granted());
    BOOST_TEST(late.waiting());
    run_for(ctx, 200ms);
    BOOST_TEST(late.granted());
    // A permit was free 100 ms after the five that were granted at 0.5 ms. The reply reports it at 2 ms, when it is
    // half a millisecond old.
    BOOST_TEST((late.at() - clock::time_point() >= 100ms));
}

BOOST_AUTO_TEST_CASE(other_names_are_other_buckets) {
    bucket other(ctx, server, "mails", options());
    visit const calls(here, 5);
    visit const mails(other, 5);
    run_for(ctx, 1ms);
    BOOST_TEST(calls.granted());
    BOOST_TEST(mails.granted());
}

BOOST_AUTO_TEST_CASE(booked_grant_comes_when_it_is_due) {
    empty_bucket();
    auto const emptied = clock::now() - 500us;
    visit const first(here, 1, 1s);
    visit const second(here, 1, 1s);
    run_for(ctx, 99ms);
    BOOST_TEST(first.waiting());
    run_for(ctx, 2ms);
    BOOST_TEST(first.granted());
    BOOST_TEST((first.at() >= emptied + 100ms));
    BOOST_TEST((first.at() <= emptied + 101ms));
    run_for(ctx, 98ms);
    BOOST_TEST(second.waiting());
    run_for(ctx, 3ms);
    BOOST_TEST(second.granted());
    BOOST_TEST(here.shared_stats().questions == 2u);
    BOOST_TEST(here.shared_stats().booked == 2u);
}

BOOST_AUTO_TEST_CASE(saturated_processes_use_the_whole_rate_with_one_question_each) {
    empty_bucket();
    int granted = 0;
    std::deque<visit> guests;
    for (auto const until = clock::now() + 10s; clock::now() < until;) {
        for (auto* const one : {&here, &there}) {
            if (one->stats().waiting < 3)
                guests.emplace_back(*one, 1);
        }
        run_for(ctx, 1ms);
    }
    for (auto const& g : guests)
        granted += g.granted();
    BOOST_TEST(granted >= 99);
    BOOST_TEST(granted <= 101);
    auto const questions = here.shared_stats().questions + there.shared_stats().questions;
    BOOST_TEST(questions <= 110u);
    auto const mine = here.shared_stats().granted;
    BOOST_TEST(mine >= 45);
    BOOST_TEST(mine <= 55);
}

BOOST_AUTO_TEST_CASE(permit_too_late_for_the_head_is_booked_for_the_requests_behind_it) {
    empty_bucket();
    visit const head(here, 1, 110ms);
    visit const hasty(here, 1, 150ms);
    visit const patient(here, 1, 1s);
    run_for(ctx, 105ms);
    BOOST_TEST(head.granted());
    run_for(ctx, 50ms);
    BOOST_TEST(hasty.rejected(errc::timed_out));
    run_for(ctx, 50ms);
    BOOST_TEST(patient.granted());
    BOOST_TEST(here.shared_stats().denied == 0u);
    BOOST_TEST(here.shared_stats().questions == 2u);
}

BOOST_AUTO_TEST_CASE(processes_with_a_prefetch_grant_locally_and_keep_the_rate_together) {
    weir::shared_options const leased{.rate = {20'000, 1s}, .burst = 2'000, .prefetch = 1'000};
    bucket one(ctx, server, "leased", leased);
    bucket two(ctx, server, "leased", leased);
    std::int64_t granted = 0;
    auto const begin = clock::now();
    for (auto const until = begin + 5s; clock::now() < until; run_for(ctx, 1ms)) {
        for (auto* const limiter : {&one, &two}) {
            for (int i = 0; i != 9; ++i)  // nine of the ten that exist
                limiter->async_enter([&](weir::error_code ec, weir::permit) { granted += !ec; });
        }
    }
    run_for(ctx, 1s);
    BOOST_TEST(granted == 5'000 * 18);
    auto const trips = one.shared_stats().questions + two.shared_stats().questions +
                       static_cast<std::uint64_t>(one.shared_stats().returned);
    BOOST_TEST(trips * 64 <= static_cast<std::uint64_t>(granted));
    auto const lapsed = one.shared_stats().lapsed + two.shared_stats().lapsed;
    BOOST_TEST(lapsed <= 2'000);
}

namespace {

// 10,000 per second, of which up to a hundred are fetched ahead, and are here now.
struct stocked {
    bucket limiter;

    stocked(asio::io_context& ctx, std::shared_ptr<store> const& server)
        : limiter(ctx, server, "stocked",
                  {.rate = {10'000, 1s},
                   .burst = 1'000,
                   .prefetch = 100,
                   .retry = {.initial = 1ms, .max = 1ms, .jitter = 0}}) {
        for (int i = 0; i != 12; ++i) {
            use(limiter.stats().remaining);
            visit const one(limiter, 1);
            run_for(ctx, 1ms);
            BOOST_TEST_REQUIRE(one.granted());
        }
        BOOST_TEST_REQUIRE(limiter.stats().remaining == 100);
    }
    void use(weir::amount n) {
        for (; n != 0; --n)
            BOOST_TEST_REQUIRE(static_cast<bool>(limiter.try_enter()));
    }
};

}  // namespace

BOOST_AUTO_TEST_CASE(fetched_permits_lapse_on_time_without_requests) {
    stocked one(ctx, server);
    run_for(ctx, 149ms);
    BOOST_TEST(one.limiter.stats().remaining == 100);
    BOOST_TEST(one.limiter.shared_stats().lapsed == 0);
    run_for(ctx, 1ms + 1ns);
    BOOST_TEST(one.limiter.shared_stats().lapsed == 100);
    BOOST_TEST(one.limiter.shared_stats().returned == 100);
    run_for(ctx, 1ms);
    BOOST_TEST((weir::testing::next_expiry(ctx) == clock::time_point::max()));
    ctx.restart();
    BOOST_TEST(ctx.poll() == 0u);
    BOOST_TEST(ctx.stopped());
}

BOOST_AUTO_TEST_CASE(fetched_permits_are_granted_in_an_outage) {
    stocked one(ctx, server);
    is_as_far_as(1ms, fate::unreachable);
    one.use(76);
    run_for(ctx, 4ms);  // five questions
    BOOST_TEST(one.limiter.shared_stats().unavailable);
    BOOST_TEST(one.limiter.stats().remaining == 24);
    visit const many(one.limiter, 25, 10s);
    settle(ctx);
    BOOST_TEST(many.rejected(errc::unavailable));
    visit const few(one.limiter, 4, 10s);
    settle(ctx);
    BOOST_TEST(few.granted());
    one.use(20);
    weir::error_code why;
    BOOST_TEST(!one.limiter.try_enter(1, why));
    BOOST_TEST((why == errc::unavailable));
}

BOOST_AUTO_TEST_CASE(two_processes_keep_the_limit_of_a_log_in_every_window) {
    using sliding_log = weir::basic_shared_sliding_log<asio::any_io_executor, weir::testing::timer>;
    sliding_log one(ctx, server, "log", {.rate = {7, 1s}});
    sliding_log two(ctx, server, "log", {.rate = {7, 1s}});
    std::vector<clock::time_point> granted;
    std::deque<visit> guests;
    for (auto const until = clock::now() + 20s; clock::now() < until; run_for(ctx, 1ms)) {
        for (auto* const limiter : {&one, &two}) {
            if (limiter->stats().waiting < 3)
                guests.emplace_back(*limiter, 1);
        }
    }
    for (auto const& g : guests) {
        if (g.granted())
            granted.push_back(g.at());
    }
    std::ranges::sort(granted);
    for (std::size_t i = 7; i < granted.size(); ++i)
        BOOST_TEST_REQUIRE((granted[i] - granted[i - 7] >= 1s - 50ms));
    BOOST_TEST(granted.size() >= 139u);
    BOOST_TEST(granted.size() <= 7u * 21);
    auto const questions = one.shared_stats().questions + two.shared_stats().questions;
    BOOST_TEST(questions <= granted.size() + 10);
}

BOOST_AUTO_TEST_CASE(store_without_logs_has_no_sliding_log) {
    struct plain final : weir::store {
        void async_take(std::string const&, question const&, answer_handler) override {}
        void async_give_back(std::string const&, give_back const&) override {}
    };
    BOOST_CHECK_THROW(weir::shared_sliding_log(ctx, std::make_shared<plain>(), "log"),
                      std::invalid_argument);
}

BOOST_AUTO_TEST_CASE(store_validates_a_limiter_on_construction_and_configure) {
    struct narrow final : weir::store {
        void async_take(std::string const&, question const&, answer_handler) override {}
        void async_give_back(std::string const&, give_back const&) override {}
        void validate(weir::policy::shared_bucket const& b) const override {
            if (b.burst > 5)
                throw std::invalid_argument("burst");
        }
    };
    auto wide = options();
    wide.burst = 6;
    auto const keeper = std::make_shared<narrow>();
    BOOST_CHECK_THROW(bucket(ctx, keeper, "wide", wide), std::invalid_argument);
    bucket calls(ctx, keeper, "calls", options());
    BOOST_CHECK_THROW(calls.configure(wide), std::invalid_argument);
    BOOST_CHECK_THROW(calls.configure([](auto& o) { o.burst = 7; }), std::invalid_argument);
    BOOST_TEST(calls.options().burst.value() == 5);
    BOOST_CHECK_NO_THROW(calls.configure([](auto& o) { o.burst = 4; }));
    BOOST_TEST(calls.options().burst.value() == 4);
}

BOOST_AUTO_TEST_CASE(no_request_waits_longer_than_its_patience) {
    is_as_far_as(40ms);
    visit const guest(here, 1, 10ms);
    run_for(ctx, 12ms);
    BOOST_TEST(guest.rejected(errc::timed_out));
    // Permits granted after it left are given back.
    run_for(ctx, 60ms);
    BOOST_TEST(here.shared_stats().granted == 1);
    BOOST_TEST(here.shared_stats().returned == 1);
}

BOOST_AUTO_TEST_CASE(reply_for_a_request_that_left_serves_the_next) {
    is_as_far_as(40ms);
    visit const hasty(here, 1, 10ms);
    run_for(ctx, 5ms);
    visit const patient(here, 1);
    run_for(ctx, 35ms);
    BOOST_TEST(hasty.rejected(errc::timed_out));
    BOOST_TEST(patient.granted());
    BOOST_TEST(here.shared_stats().questions == 1u);
}

BOOST_AUTO_TEST_CASE(request_that_cannot_be_served_in_time_is_rejected_at_once) {
    empty_bucket();
    visit const guest(here, 1, 50ms);
    run_for(ctx, 1ms);
    BOOST_TEST(guest.rejected(errc::deadline_unreachable));
    auto const retry = guest.seat().retry_after();
    BOOST_TEST_REQUIRE(retry.has_value());
    BOOST_TEST((*retry > 97ms && *retry <= 100ms));

    // And the next request is rejected without a question.
    visit const next(here, 1, 50ms);
    settle(ctx);
    BOOST_TEST(next.rejected(errc::deadline_unreachable));
    BOOST_TEST(here.shared_stats().questions == 1u);

    // For a request with more patience it asks.
    visit const patient(here, 1, 1s);
    run_for(ctx, 110ms);
    BOOST_TEST(patient.granted());
}

BOOST_AUTO_TEST_CASE(cancelled_request_leaves_its_permit_to_the_others) {
    asio::cancellation_signal signal;
    visit const guest;
    here.async_enter(asio::bind_cancellation_slot(signal.slot(), guest.callback()));
    run_for(ctx, 500us);
    signal.emit(asio::cancellation_type::total);
    settle(ctx);
    BOOST_TEST(guest.rejected(asio::error::operation_aborted));
    run_for(ctx, 2ms);
    visit const all(there, 5);
    run_for(ctx, 1ms);
    BOOST_TEST(all.granted());
}

BOOST_AUTO_TEST_CASE(refund_frees_permits_for_all_processes) {
    visit const five(here, 5);
    run_for(ctx, 1ms);
    five.seat().refund();
    run_for(ctx, 1ms);
    BOOST_TEST(here.shared_stats().returned == 5);
    visit const others(there, 4);  // the refill since the grant is not given back twice
    run_for(ctx, 1ms);
    BOOST_TEST(others.granted());
}

BOOST_AUTO_TEST_CASE(charge_is_sent_to_the_store) {
    auto const used = here.charge(7);
    BOOST_TEST(used.count() == 7);
    run_for(ctx, 2ms);
    BOOST_TEST(here.stats().debt == 0);
    visit const guest(there, 1, 10s);
    run_for(ctx, 290ms);
    BOOST_TEST(guest.waiting());
    run_for(ctx, 20ms);
    BOOST_TEST(guest.granted());
}

BOOST_AUTO_TEST_CASE(question_with_a_lost_reply_is_repeated_after_the_timeout) {
    is_as_far_as(1ms, fate::answer_lost);
    visit const guest(here, 1);
    run_for(ctx, 49ms);
    is_as_far_as(1ms);
    BOOST_TEST(guest.waiting());
    run_for(ctx, 2ms);
    BOOST_TEST(guest.granted());
    BOOST_TEST(here.shared_stats().unknown == 1u);
    visit const four(there, 4,
                     60ms);  // there are only three and a half: the lost one counts as used
    run_for(ctx, 1ms);
    BOOST_TEST(four.waiting());
    run_for(ctx, 60ms);
    BOOST_TEST(four.granted());
}

BOOST_AUTO_TEST_CASE(late_reply_is_given_back) {
    is_as_far_as(120ms);
    visit const guest(here, 1, 20ms);
    run_for(ctx, 21ms);
    BOOST_TEST(guest.rejected(errc::timed_out));
    visit const next(here, 1, 80ms);  // after the timeout of the first question
    run_for(ctx, 200ms);
    BOOST_TEST(next.rejected(errc::timed_out));
    BOOST_TEST(here.shared_stats().late >= 1u);
    BOOST_TEST(here.shared_stats().returned >= 1);
}

BOOST_AUTO_TEST_CASE(unreachable_store_rejects_all_requests_until_the_next_attempt) {
    is_as_far_as(1ms, fate::unreachable);
    visit const guest(here, 1, 10s);
    visit const other(here, 1, 10s);
    run_for(ctx, 750ms - 1ns);  // the pauses are 50, 100, 200 and 400 ms
    BOOST_TEST(guest.waiting());
    run_for(ctx, 1ns);
    BOOST_TEST(guest.rejected(errc::unavailable));
    BOOST_TEST(other.rejected(errc::unavailable));
    BOOST_TEST((guest.seat().retry_after() == 500ms));
    BOOST_TEST(here.shared_stats().failed == 5u);

    visit const early(here, 1, 10s);
    settle(ctx);
    BOOST_TEST(early.rejected(errc::unavailable));
    BOOST_TEST(here.stats().unavailable == 3u);
    weir::error_code why;
    BOOST_TEST(!here.try_enter(1, why));
    BOOST_TEST((why == errc::unavailable));

    // The first request after that is the probe, and the store is available again.
    is_as_far_as(1ms);
    run_for(ctx, 500ms);
    visit const probe(here, 1, 10s);
    visit const behind(here, 1, 10s);
    run_for(ctx, 2ms);
    BOOST_TEST(probe.granted());
    BOOST_TEST(behind.granted());
    BOOST_TEST(!here.shared_stats().unavailable);
}

BOOST_AUTO_TEST_CASE(new_timeout_applies_to_the_next_question) {
    struct noting_store final : weir::store {
        std::vector<weir::duration> deadlines;
        void async_take(std::string const&, question const& q, answer_handler handler) override {
            deadlines.push_back(q.timeout);
            asio::post(ctx, [handler = std::move(handler), now = ++microseconds]() mutable {
                std::move(handler)(weir::error_code(),
                                   answer{.granted = 1, .wait = 0us, .since = now});
            });
        }
        void async_give_back(std::string const&, give_back const& what) override {
            deadlines.push_back(what.timeout);
        }
        explicit noting_store(asio::io_context& c) : ctx(c) {}
        asio::io_context& ctx;
        std::int64_t microseconds = 0;
    };
    auto const noting = std::make_shared<noting_store>(ctx);
    bucket b{ctx, noting, "noted", options()};
    visit first(b, 1);
    settle(ctx);
    auto changed = options();
    changed.timeout = 7ms;
    b.configure(changed);
    visit const second(b, 1);
    settle(ctx);
    first.seat().refund();
    settle(ctx);
    std::vector<weir::duration> const expected{50ms, 7ms, 7ms};
    BOOST_TEST(noting->deadlines == expected);
}

BOOST_AUTO_TEST_CASE(change_of_mode_completes_a_wait_outside_the_lock) {
    std::vector<weir::mode_change> told;
    std::optional<weir::error_code> end;
    std::function<void()> const wait = [&] {
        here.async_wait_mode_change([&](weir::error_code ec, weir::mode_change const& change) {
            if (ec) {
                end = ec;
                return;
            }
            told.push_back(change);
            BOOST_TEST((here.shared_stats().mode == change.after));  // takes the lock
            wait();
        });
    };
    wait();
    is_as_far_as(1ms, fate::answer_lost);
    visit const guest(here, 1, 10s);
    run_for(ctx, 1s - 1ns);
    BOOST_TEST(told.empty());
    run_for(ctx, 1ns);
    BOOST_TEST_REQUIRE(told.size() == 1u);
    BOOST_TEST((told[0].after == weir::shared_mode::closed));
    BOOST_TEST((told[0].at.time_since_epoch() == clock::now().time_since_epoch()));

    is_as_far_as(1ms);
    run_for(ctx, 100ms);
    visit const probe(here, 1, 10s);
    run_for(ctx, 1ms);
    BOOST_TEST_REQUIRE(told.size() == 2u);
    BOOST_TEST((told[1].after == weir::shared_mode::store));
    here.cancel();
    settle(ctx);
    BOOST_TEST((end == asio::error::operation_aborted));
}

BOOST_AUTO_TEST_CASE(change_of_mode_is_detected_although_no_request_waits) {
    std::optional<weir::mode_change> told;
    here.async_wait_mode_change([&](weir::error_code ec, weir::mode_change const& change) {
        if (!ec)
            told = change;
    });
    here.configure([](auto& o) { o.on_failure = weir::fail_open(); });
    is_as_far_as(1ms, fate::answer_lost);
    visit const hasty(here, 1, 990ms);
    run_for(ctx, 1s - 1ns);
    BOOST_TEST(hasty.rejected(errc::timed_out));
    BOOST_TEST(!told.has_value());
    run_for(ctx, 1ns);
    BOOST_TEST_REQUIRE(told.has_value());
    BOOST_TEST((told->after == weir::shared_mode::open));
}

BOOST_AUTO_TEST_CASE(wait_for_a_change_of_mode_ends_with_the_limiter_and_with_the_context) {
    std::optional<weir::error_code> end;
    auto const note = [&](weir::error_code ec, weir::mode_change const&) { end = ec; };
    auto gone = std::make_unique<bucket>(ctx, server, "calls", options());
    gone->async_wait_mode_change(note);
    gone.reset();
    settle(ctx);
    BOOST_TEST((end == errc::closed));

    end.reset();
    auto own = std::make_unique<asio::io_context>();
    bucket limiter(*own, server, "calls", options());
    limiter.async_wait_mode_change(note);
    own.reset();
    settle(ctx);
    BOOST_TEST(!end);
}

BOOST_AUTO_TEST_CASE(step_forward_of_the_store_grants_one_burst_once_and_is_counted) {
    empty_bucket();
    visit const patient(here, 1, 10s);
    run_for(ctx, 101ms);
    BOOST_TEST(patient.granted());
    server->step_clock(1h);
    visit const five(here, 5, 10s);
    run_for(ctx, 2ms);
    BOOST_TEST(five.granted());
    visit const more(here, 1, 10s);
    run_for(ctx, 90ms);
    BOOST_TEST(more.waiting());
    run_for(ctx, 20ms);
    BOOST_TEST(here.shared_stats().steps_forward == 1u);
    server->step_clock(-1h);
    visit const last(here, 1, 10s);
    run_for(ctx, 210ms);  // the time of a permit, and of the booked permit
    BOOST_TEST(last.granted());
    BOOST_TEST(here.shared_stats().steps_back == 1u);
}

BOOST_AUTO_TEST_CASE(store_that_lost_its_data_is_counted_by_the_processes_that_needed_it) {
    empty_bucket();
    visit const refilled(here, 1, 1s);
    run_for(ctx, 200ms);
    BOOST_TEST(refilled.granted());
    server->restart_empty();
    visit const one(there, 1);
    run_for(ctx, 1ms);
    BOOST_TEST(one.granted());
    BOOST_TEST(there.shared_stats().losses == 1u);
    visit const two(here, 1);
    run_for(ctx, 1ms);
    BOOST_TEST(two.granted());
    BOOST_TEST(here.shared_stats().losses == 0u);  // the name is not new any more
}

BOOST_AUTO_TEST_CASE(silent_store_is_detected_and_no_request_waits_for_it) {
    is_as_far_as(1ms, fate::answer_lost);
    visit const guest(here, 1, 10s);
    visit const hasty(here, 1, 30ms);
    run_for(ctx, 32ms);
    BOOST_TEST(hasty.rejected(errc::timed_out));
    run_for(ctx, 960ms);
    BOOST_TEST(guest.waiting());
    run_for(ctx, 10ms);
    BOOST_TEST(guest.rejected(errc::unavailable));
    BOOST_TEST(here.shared_stats().unknown == 20u);
}

// Seen in other libraries: AspNetCoreRateLimit#439, kong-scalable-rate-limiter#14.
BOOST_AUTO_TEST_CASE(without_a_store_the_first_decision_comes_after_a_second) {
    for (auto const& [mode, at_once] :
         {std::pair<decltype(weir::shared_options::on_failure), int>{weir::fail_open(), 50},
          {weir::fail_local{0.4}, 2}}) {
        auto local = options();
        local.on_failure = mode;
        bucket alone(ctx, server, "alone", local);
        is_as_far_as(1ms, fate::answer_lost);
        std::deque<visit> guests;
        for (int i = 0; i != 50; ++i)
            guests.emplace_back(alone, 1, 10s);
        run_for(ctx, 1s - 1ns);
        for (auto const& g : guests)
            BOOST_TEST(g.waiting());
        run_for(ctx, 1ns);
        BOOST_TEST(std::ranges::count_if(guests, &visit::granted) == at_once);
        BOOST_TEST(alone.shared_stats().bypassed_permits == at_once);

        // It returns to the store automatically.
        is_as_far_as(1ms);
        alone.cancel();
        run_for(ctx, 10s);
        visit const last(alone, 1, 10s);  // granted here, and the store is asked again
        run_for(ctx, 1ms);
        BOOST_TEST(last.granted());
        BOOST_TEST(last.seat().waited() == 0ms);
        BOOST_TEST((alone.shared_stats().mode == weir::shared_mode::store));
        visit const next(alone, 1, 10s);
        run_for(ctx, 10ms);
        BOOST_TEST(next.granted());
        BOOST_TEST(next.seat().waited() == 1ms);
        BOOST_TEST(!alone.shared_stats().unavailable);
    }
}

#ifdef WEIR_HAS_OWN_AWAITERS
BOOST_AUTO_TEST_CASE(loop_of_requests_at_an_open_limit_lets_other_work_run) {
    auto open = options();
    open.on_failure = weir::fail_open();
    bucket calls(ctx, server, "open", open);
    is_as_far_as(1ms, fate::unreachable);
    visit const guest(calls, 1, 10s);
    run_for(ctx, 750ms);
    BOOST_TEST_REQUIRE(guest.granted());
    int grants = 0;
    bool has_other_work_run = false;
    auto loop = [&]() -> asio::awaitable<void> {
        for (; grants != 1000 && !has_other_work_run; ++grants)
            static_cast<void>(co_await calls.enter());
    };
    asio::co_spawn(ctx, loop(), asio::detached);
    asio::post(ctx, [&] { has_other_work_run = true; });
    settle(ctx);
    BOOST_TEST(has_other_work_run);
    BOOST_TEST(grants < 1000);
}
#endif

BOOST_AUTO_TEST_CASE(misconfigured_store_is_an_error_of_its_own_with_the_message_of_the_server) {
    struct strange_store final : weir::store {
        asio::io_context& ctx;
        explicit strange_store(asio::io_context& c) : ctx(c) {}
        void async_take(std::string const&, question const&, answer_handler handler) override {
            asio::post(ctx, [handler = std::move(handler)]() mutable {
                std::move(handler)(asio::error::no_permission,
                                   answer{.kind = weir::failure_kind::misconfigured,
                                          .text = "no such table: limits"});
            });
        }
        void async_give_back(std::string const&, give_back const&) override {}
    };
    auto open = options();
    open.on_failure = weir::fail_open();
    bucket calls(ctx, std::make_shared<strange_store>(ctx), "calls", open);
    visit const guest(calls, 1, 10s);
    settle(ctx);
    BOOST_TEST(guest.rejected(errc::misconfigured));
    BOOST_TEST((guest.seat().retry_after() == 5s));
    BOOST_TEST((calls.last_failure().error == asio::error::no_permission));
    BOOST_TEST(calls.last_failure().text == "no such table: limits");
    BOOST_TEST(calls.stats().unavailable == 1u);
    weir::error_code why;
    BOOST_TEST(!calls.try_enter(1, why));
    BOOST_TEST((why == errc::misconfigured));
}

BOOST_AUTO_TEST_CASE(limiter_destroyed_before_the_reply_gives_its_permits_back) {
    for (bool const with_permit_out : {false, true}) {
        run_for(ctx, 1s);
        auto gone = std::make_unique<bucket>(ctx, server, "calls", options());
        std::optional<visit> before;
        if (with_permit_out) {
            before.emplace(*gone, 1);
            run_for(ctx, 1ms);
        }
        visit const guest(*gone, with_permit_out ? 4 : 5);
        run_for(ctx, 500us);
        gone.reset();
        settle(ctx);
        BOOST_TEST(guest.rejected(errc::closed));
        run_for(ctx, 1ms);
        visit const next(there, 4);
        run_for(ctx, 1ms);
        BOOST_TEST(next.granted());
    }
}

BOOST_AUTO_TEST_CASE(closed_limiter_gives_back_later_grants) {
    visit const guest(here, 5);
    run_for(ctx, 500us);
    here.close();
    run_for(ctx, 2ms);
    BOOST_TEST(guest.rejected(errc::closed));
    BOOST_TEST(here.shared_stats().returned == 5);
}

BOOST_AUTO_TEST_CASE(nothing_is_left_to_run_without_waiting_requests) {
    visit const guest(here, 1);
    run_for(ctx, 1ms);
    BOOST_TEST(guest.granted());
    guest.leave();
    settle(ctx);
    BOOST_TEST((weir::testing::next_expiry(ctx) == clock::time_point::max()));
    ctx.restart();
    BOOST_TEST(ctx.poll() == 0u);
    BOOST_TEST(ctx.stopped());
}

BOOST_AUTO_TEST_CASE(context_may_end_at_any_time) {
    for (auto const when : {0us, 400us, 700us, 999us}) {
        auto own = std::make_unique<asio::io_context>();
        auto const far = std::make_shared<store>(ctx);
        far->behave({.there = 500us, .back = 500us});
        bucket limiter(*own, far, "calls", options());
        visit const guest(limiter, 3);
        run_for(ctx, when);
        own.reset();
        run_for(ctx, 5ms);
        BOOST_TEST(guest.dropped());

        // Undelivered grants were given back.
        bucket other(ctx, far, "calls", options());
        visit const all(other, 5);
        run_for(ctx, 1ms);
        BOOST_TEST(all.granted());
    }
}

BOOST_AUTO_TEST_CASE(store_set_back_neither_grants_early_nor_freezes) {
    interval tick(ctx, server, "tick", 3s);
    visit const first(tick);
    run_for(ctx, 1ms);
    BOOST_TEST(first.granted());
    server->step_clock(-1h);
    visit const second(tick);
    run_for(ctx, 2990ms);
    BOOST_TEST(second.waiting());
    run_for(ctx, 3s);
    BOOST_TEST(second.granted());
}

BOOST_AUTO_TEST_CASE(wrong_arguments_are_rejected) {
    BOOST_CHECK_THROW(bucket(ctx, nullptr, "calls"), std::invalid_argument);
    BOOST_CHECK_THROW(bucket(ctx, server, ""), std::invalid_argument);
    BOOST_CHECK_THROW(bucket(ctx, server, std::string(256, 'x')), std::invalid_argument);
    BOOST_CHECK_THROW(interval(ctx, server, "tick", 0s), std::invalid_argument);
    BOOST_CHECK_EXCEPTION(bucket(ctx, server, std::string(256, 'x')), std::invalid_argument,
                          [](std::invalid_argument const& e) {
                              return std::string(e.what()) ==
                                     "weir::shared limiter: length of name in bytes is 256, but "
                                     "must be from 1 to 255";
                          });
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
