// Tests that are the same for all stores, for the store of `place`: see shared/place.hpp. There is no `#pragma once`,
// because this is a part of the file that includes it.

#include <weir/shared/keyed.hpp>
#include <weir/shared/limiter.hpp>

#include "support/printing.hpp"
#include "support/rethrow.hpp"
#include "support/visit.hpp"

#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/test/tree/decorator.hpp>
#include <boost/test/unit_test.hpp>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

BOOST_FIXTURE_TEST_SUITE(any_store, place, *boost::unit_test::precondition(place::if_here))

namespace {

namespace asio = boost::asio;
using namespace std::chrono_literals;
using support::visit;
using weir::errc;

// So slow that nothing is refilled.
weir::shared_options slow(weir::amount burst) {
    return {.rate = {1, 24h}, .burst = burst, .timeout = 10s};
}

}  // namespace

BOOST_AUTO_TEST_CASE(two_limiters_share_a_bucket_and_get_the_time_to_retry) {
    weir::shared_token_bucket here(ctx, store, "both", slow(5));
    weir::shared_token_bucket there(ctx, connect(ctx), "both", slow(5));
    visit const three(here, 3);
    run(three);
    visit const two(there, 2);
    run(two);
    visit const one(there, 1, 60s);
    run(one);
    BOOST_TEST(three.granted());
    BOOST_TEST(two.granted());
    BOOST_TEST(one.rejected(errc::deadline_unreachable));
    auto const retry = one.seat().retry_after();
    BOOST_TEST_REQUIRE(retry.has_value());
    BOOST_TEST(*retry > 23h);
    BOOST_TEST(*retry <= 24h);

    // Unused permits are available to all limiters, less the refill since then.
    three.seat().refund();
    run();
    visit const again(there, 2);
    run(again);
    BOOST_TEST(again.granted());
    BOOST_TEST(there.shared_stats().denied == 1u);
}

BOOST_AUTO_TEST_CASE(log_counts_for_all_limiters_that_share_it) {
    weir::shared_options const few{.rate = {5, 24h}, .timeout = 10s};
    weir::shared_sliding_log here(ctx, store, "both", few);
    weir::shared_sliding_log there(ctx, connect(ctx), "both", few);
    visit const three(here, 3);
    run(three);
    visit const two(there, 2);
    run(two);
    visit const one(there, 1, 60s);
    run(one);
    BOOST_TEST(three.granted());
    BOOST_TEST(two.granted());
    BOOST_TEST(one.rejected(errc::deadline_unreachable));
    three.seat().refund();
    run();
    visit const again(there, 3);
    run(again);
    BOOST_TEST(again.granted());
    visit const more(here, 1, 60s);
    run(more);
    BOOST_TEST(more.rejected(errc::deadline_unreachable));
}

BOOST_AUTO_TEST_CASE(limiters_by_key_share_a_bucket_for_each_key) {
    weir::shared_keyed<std::string> here(ctx, store, "users", slow(1));
    weir::shared_keyed<std::string> there(ctx, connect(ctx), "users", slow(1));
    auto const enter = [this](auto& at, std::string const& key) {
        weir::error_code result = asio::error::would_block;
        at.async_enter(key, 60s, [&](weir::error_code ec, weir::permit const&) { result = ec; });
        run();
        return result;
    };
    BOOST_TEST(!enter(here, "ann"));
    BOOST_TEST(enter(there, "ann") == errc::deadline_unreachable);
    BOOST_TEST(!enter(there, "bob"));
    BOOST_TEST(enter(here, "bob") == errc::deadline_unreachable);
    BOOST_TEST(!enter(here, std::string(300, 'x')));
    BOOST_TEST(enter(there, std::string(300, 'x')) == errc::deadline_unreachable);
    weir::shared_keyed<std::string, weir::shared_sliding_log> log(
        ctx, store, "logged", {.rate = {1, 24h}, .timeout = 10s});
    BOOST_TEST(!enter(log, "ann"));
    BOOST_TEST(enter(log, "ann") == errc::deadline_unreachable);
    BOOST_TEST(!enter(log, "bob"));
}

BOOST_AUTO_TEST_CASE(requests_are_served_in_order) {
    weir::shared_token_bucket calls(ctx, store, "order", patient);
    std::vector<int> served;
    for (int i = 0; i != 9; ++i)
        calls.async_enter(1 + i % 2, [&served, i](weir::error_code ec, weir::permit) {
            if (!ec)
                served.push_back(i);
        });
    run();
    BOOST_TEST((served == std::vector{0, 1, 2, 3, 4, 5, 6, 7, 8}));
}

BOOST_AUTO_TEST_CASE(many_requests_share_a_question) {
    weir::shared_options const wide{.rate = {1000, 1s}, .burst = 200, .timeout = 10s};
    weir::shared_token_bucket calls(ctx, store, "crowd", wide);
    std::vector<visit> guests;
    for (int i = 0; i != 200; ++i)
        guests.emplace_back(calls, 1);
    run();
    for (auto const& g : guests)
        BOOST_TEST(g.granted());
    BOOST_TEST(calls.shared_stats().questions == 2u);  // the first request was alone
}

BOOST_AUTO_TEST_CASE(request_is_cancelled_during_a_question) {
    weir::shared_token_bucket calls(ctx, store, "cancelled", slow(5));
    asio::cancellation_signal signal;
    visit const guest;
    calls.async_enter(2, asio::bind_cancellation_slot(signal.slot(), guest.callback()));
    signal.emit(asio::cancellation_type::terminal);
    run();
    BOOST_TEST(guest.rejected(asio::error::operation_aborted));
    BOOST_TEST(calls.shared_stats().granted == 2);
    BOOST_TEST(calls.shared_stats().returned == 2);
    visit const all(calls, 5, 60s);
    run(all);
    BOOST_TEST(all.granted());
}

BOOST_AUTO_TEST_CASE(names_are_bytes) {
    for (auto const* const last : {"a", "b"}) {
        auto const odd = std::string("a\0'\xff\\%} {\r\n", 11) + last;
        weir::shared_token_bucket calls(ctx, store, odd, slow(1));
        visit const guest(calls, 1);
        run(guest);
        BOOST_TEST(guest.granted());
        BOOST_TEST(has(odd));
    }
}

BOOST_AUTO_TEST_CASE(store_may_end_before_its_limiter_and_the_context_before_both) {
    auto own = std::make_unique<asio::io_context>();
    auto brief = connect(*own);
    weir::shared_token_bucket calls(*own, brief, "brief", slow(1));
    brief.reset();
    visit const guest(calls, 1);
    while (guest.waiting() && own->run_one() != 0) {}
    BOOST_TEST(guest.granted());
    visit const dropped(calls, 1);
    own->run_one();
    own.reset();
    BOOST_TEST(dropped.dropped());
    guest.seat().refund();
}

BOOST_AUTO_TEST_CASE(context_of_the_store_may_end_before_the_context_of_its_limiters) {
    auto own = std::make_unique<asio::io_context>();
    weir::shared_token_bucket calls(ctx, connect(*own), "elsewhere", slow(2));
    visit const guest(calls, 1);
    while (guest.waiting()) {
        own->poll();
        own->restart();
        ctx.poll();
        ctx.restart();
    }
    BOOST_TEST(guest.granted());
    own.reset();
    guest.seat().refund();
    visit const late(calls, 1, 100ms);
    run(late);
    BOOST_TEST(late.rejected(errc::timed_out));
}

BOOST_AUTO_TEST_CASE(context_ends_at_any_moment_of_a_question) {
    // One step more each time, from before it connects until it has ended.
    int steps = 0;
    for (bool over = false; !over; ++steps) {
        auto own = std::make_unique<asio::io_context>();
        auto const brief = connect(*own);
        weir::shared_token_bucket calls(*own, brief, "steps", patient);
        visit const guest(calls, 1);
        for (int i = 0; i != steps && guest.waiting(); ++i)
            own->run_one();
        over = guest.over();
        own.reset();
        BOOST_TEST((guest.dropped() || guest.over()));
    }
    BOOST_TEST(steps > 2);
}

BOOST_AUTO_TEST_CASE(handler_may_destroy_the_store) {
    auto own = connect(ctx);
    weir::store::question const q{
        .bucket = weir::policy::shared_bucket::of(patient), .timeout = 10s};
    int told = 0;
    for (int i = 0; i != 3; ++i)
        own->async_take("destroyer", q, [&](weir::error_code ec, weir::store::answer const& a) {
            BOOST_TEST(!ec);
            BOOST_TEST(a.granted == 1);
            ++told;
            own.reset();
        });
    run();
    BOOST_TEST(told == 3);  // operations in progress are finished
}

BOOST_AUTO_TEST_CASE(threads_may_ask_at_the_same_time) {
    asio::io_context threads;
    auto const shared = connect(threads);
    weir::shared_options const wide{.rate = {1'000'000, 1s}, .burst = 1000, .timeout = 10s};
    std::vector<std::unique_ptr<weir::shared_token_bucket>> limiters;
    for (int i = 0; i != 8; ++i)
        limiters.push_back(std::make_unique<weir::shared_token_bucket>(
            threads, shared, "threads" + std::to_string(i % 4), wide));
    std::atomic<int> granted = 0;
    auto const take = [&](weir::shared_token_bucket& calls) -> asio::awaitable<void> {
        for (int i = 0; i != 200; ++i) {
            auto const call = co_await calls.async_enter(30s);
            ++granted;
        }
    };
    for (auto& one : limiters) {
        asio::co_spawn(threads, take(*one), support::rethrow);
        asio::co_spawn(threads, take(*one), support::rethrow);
    }
    {
        std::vector<std::jthread> runners;
        for (int i = 0; i != 4; ++i)
            runners.emplace_back([&] { threads.run(); });
    }
    BOOST_TEST(granted == 16 * 200);
}

BOOST_AUTO_TEST_SUITE_END()
