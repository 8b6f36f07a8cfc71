#include <weir/shared/keyed.hpp>
#include <weir/shared/limiter.hpp>
#include <weir/shared/seats.hpp>

#include "shared/agent/place.hpp"
#include "support/printing.hpp"
#include "support/rethrow.hpp"
#include "support/visit.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/system/errc.hpp>
#include <boost/system/system_error.hpp>
#include <boost/test/unit_test.hpp>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

using place = support::agent_place;

}  // namespace

#include "shared/store_tests.hpp"

namespace {

namespace asio = boost::asio;
using namespace std::chrono_literals;
using std::chrono::steady_clock;
using support::agent_process;
using support::visit;
using weir::errc;

// The requests of one process, and their results.
struct process {
    asio::io_context& ctx;
    weir::agent::token_bucket calls;
    int granted = 0;
    int others = 0;

    process(asio::io_context& c, std::string const& path, weir::shared_options const& options,
            std::string const& name = "calls")
        : ctx(c), calls(c, place::at(c, path), name, options) {}

    // Several callers, each of which calls again at once.
    void call_until(steady_clock::time_point end, int callers) {
        for (; callers != 0; --callers)
            asio::co_spawn(ctx, call(end), support::rethrow);
    }

private:
    asio::awaitable<void> call(steady_clock::time_point end) {
        while (steady_clock::now() < end) {
            auto const [ec, p] = co_await calls.async_enter(10s, asio::as_tuple(asio::deferred));
            ++(ec ? others : granted);
        }
    }
};

struct own_agent {
    agent_process home;
    asio::io_context ctx;

    explicit own_agent(weir::agent::server_options const& options = {}) : home(options) {}

    void run() {
        ctx.restart();
        ctx.run();
    }
    visit ask(weir::shared_token_bucket& calls, weir::amount n = 1, weir::duration patience = 10s) {
        visit guest(calls, n, patience);
        ctx.restart();
        while (guest.waiting() && ctx.run_one() != 0) {}
        return guest;
    }
    // Runs until the condition holds.
    template <class F>
    void run_until(F condition) {
        auto const end = steady_clock::now() + 60s;
        while (!condition() && steady_clock::now() < end) {
            ctx.restart();
            ctx.run_for(1ms);
        }
        BOOST_TEST_REQUIRE(condition());
    }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(agent, own_agent)

// Oracle: with a rate r, a burst b and a lease L, at most b + r (d + L + timeouts) permits are used in a time d.
BOOST_AUTO_TEST_CASE(processes_take_turns_and_keep_the_limit_together_with_few_questions) {
    weir::shared_options const options{.rate = {2'000, 1s}, .burst = 100};
    std::vector<std::unique_ptr<process>> all;
    for (int i = 0; i != 16; ++i)
        all.push_back(std::make_unique<process>(ctx, home.path(), options));
    auto const begin = steady_clock::now();
    for (auto& one : all)
        one->call_until(begin + 2s, 8);
    run();
    std::chrono::duration<double> const time = steady_clock::now() - begin;
    int sum = 0;
    double squares = 0;
    for (auto const& one : all) {
        sum += one->granted;
        squares += static_cast<double>(one->granted) * one->granted;
        BOOST_TEST(one->others == 0);
        BOOST_TEST(one->calls.shared_stats().outages == 0u);
    }
    BOOST_TEST(sum <= 100 + 2'000 * (time.count() + 0.1 + 0.5 + 0.5));
    BOOST_TEST(sum >= 2'000);
    BOOST_TEST(static_cast<double>(sum) * sum / 16 / squares >= 0.95);
    auto const stats = home.agent().stats();
    BOOST_TEST(stats.connections == 16);
    BOOST_TEST(stats.limits == 1);
    BOOST_TEST(stats.grants <= stats.questions);
    // 16 processes that ask the store themselves need a question for each grant.
    BOOST_TEST(home.store().questions < static_cast<std::uint64_t>(sum) * 8 / 10);
}

BOOST_AUTO_TEST_CASE(permits_fetched_ahead_serve_all_processes) {
    weir::shared_options const options{.rate = {100'000, 1s}, .burst = 10'000};
    weir::agent::token_bucket here(ctx, place::at(ctx, home.path()), "calls", options);
    weir::agent::token_bucket there(ctx, place::at(ctx, home.path()), "calls", options);
    for (int i = 0; i != 500; ++i) {
        BOOST_TEST_REQUIRE(ask(here).granted());
        BOOST_TEST_REQUIRE(ask(there).granted());
    }
    BOOST_TEST(home.agent().stats().grants == 1'000u);
    BOOST_TEST(home.store().questions <= 100u);
}

BOOST_AUTO_TEST_CASE(store_decides_about_slow_limits) {
    weir::shared_options const slow{.rate = {39, 1s}, .burst = 100};
    weir::agent::token_bucket calls(ctx, place::at(ctx, home.path()), "calls", slow);
    for (int i = 0; i != 20; ++i)
        BOOST_TEST_REQUIRE(ask(calls).granted());
    BOOST_TEST(home.store().granted == 20);
    BOOST_TEST(home.store().questions == 20u);
    BOOST_TEST(home.agent().stats().limits == 0);
    home.store().memory->restart_empty();
    BOOST_TEST_REQUIRE(ask(calls).granted());
    BOOST_TEST(calls.shared_stats().losses == 1u);
    BOOST_TEST_REQUIRE(ask(calls, 90).granted());
    BOOST_TEST_REQUIRE(ask(calls, 50).granted());
    BOOST_TEST(calls.shared_stats().booked == 1u);
}

BOOST_AUTO_TEST_CASE(question_keeps_its_place_in_the_line_when_its_process_asks_again) {
    // The agent holds a question for 50 ms. The last process waits for 200 ms.
    weir::shared_options const options{.rate = {40, 1s}, .burst = 2, .timeout = 100ms};
    std::vector<std::unique_ptr<process>> all;
    for (int i = 0; i != 8; ++i)
        all.push_back(std::make_unique<process>(ctx, home.path(), options));
    BOOST_TEST_REQUIRE(ask(all[0]->calls, 2).granted());
    std::vector<int> order;
    for (int i = 0; i != 8; ++i) {
        all[static_cast<std::size_t>(i)]->calls.async_enter(
            30s, [&order, i](weir::error_code ec, weir::permit const&) {
                if (!ec)
                    order.push_back(i);
            });
        run_until([&] {
            return home.agent().stats().questions >= static_cast<std::uint64_t>(i) + 2;
        });
        // They ask again one after the other, too, while permits arrive.
        ctx.restart();
        ctx.run_for(5ms);
    }
    run();
    BOOST_TEST((order == std::vector{0, 1, 2, 3, 4, 5, 6, 7}));
    BOOST_TEST(home.agent().stats().questions > 9u);
    BOOST_TEST(all[7]->calls.shared_stats().outages == 0u);
}

BOOST_AUTO_TEST_CASE(permits_that_no_process_comes_for_are_given_back) {
    weir::shared_options const options{.rate = {40, 1s}, .burst = 4, .timeout = 100ms};
    auto const store = place::at(ctx, home.path());
    weir::agent::token_bucket calls(ctx, store, "calls", options);
    BOOST_TEST_REQUIRE(ask(calls, 4).granted());
    {
        weir::agent::token_bucket doomed(ctx, store, "calls", options);
        visit const dropped(doomed, 4, 10s);
        ctx.restart();
        ctx.run_for(1ms);
    }
    auto& there = home.store();
    run_until([&] { return there.granted >= 5 && there.granted - there.returned == 4; });
}

BOOST_AUTO_TEST_CASE(a_part_of_the_permits_can_be_given_back) {
    for (auto const& rate : {weir::rate(40, 1s), weir::rate(1, 24h)}) {  // fetched ahead, and not
        weir::shared_options const options{.rate = rate, .burst = 10'000, .timeout = 10s};
        weir::agent::token_bucket calls(
            ctx, place::at(ctx, home.path()), "at " + to_string(rate), options);
        auto const guest = ask(calls, 10'000);
        BOOST_TEST_REQUIRE(guest.granted());
        guest.seat().settle(2'000);
        BOOST_TEST(ask(calls, 8'000).granted());  // otherwise in 200 s
        BOOST_TEST(ask(calls, 8'000).rejected(errc::deadline_unreachable));
    }
}

// Oracle: the store grants at most 200 in 2 s. The agent may use them a lease and its own timeout later.
BOOST_AUTO_TEST_CASE(log_grants_no_more_than_its_permits_in_its_window) {
    weir::agent::sliding_log log(
        ctx, place::at(ctx, home.path()), "calls", {.rate = {200, 2s}, .timeout = 10s});
    int granted = 0;
    auto const begin = steady_clock::now();
    for (int i = 0; i != 400; ++i)
        log.async_enter(1s, [&](weir::error_code ec, weir::permit const&) { granted += !ec; });
    run();
    if (steady_clock::now() - begin < 1500ms)
        BOOST_TEST(granted == 200);
    BOOST_TEST(granted >= 200);
    // A bucket of the same name is another limit.
    weir::agent::token_bucket bucket(
        ctx, place::at(ctx, home.path()), "calls", {.rate = {100, 2s}, .timeout = 10s});
    BOOST_TEST(ask(bucket, 100).granted());
    BOOST_TEST(home.agent().stats().limits == 2);
}

BOOST_AUTO_TEST_CASE(rate_follows_the_last_process_that_asks) {
    weir::shared_options options{.rate = {1, 24h}, .burst = 1, .timeout = 10s};
    weir::agent::token_bucket before(ctx, place::at(ctx, home.path()), "calls", options);
    BOOST_TEST(ask(before).granted());
    BOOST_TEST(ask(before).rejected(errc::deadline_unreachable));
    options.burst = 5;
    options.rate = {1000, 1s};
    weir::agent::token_bucket after(ctx, place::at(ctx, home.path()), "calls", options);
    BOOST_TEST(ask(after, 5).granted());
}

BOOST_AUTO_TEST_CASE(every_rate_reaches_the_store_exactly) {
    for (auto const& rate :
         {weir::rate(7, 3s), weir::rate(1, 1ns), weir::rate(1000, 999ns),
          weir::rate(7, 24h * 3650 - 1ns), weir::rate(999'983, 1s), weir::rate(3, 24h * 365)}) {
        weir::shared_options const options{.rate = rate, .burst = 3, .timeout = 10s};
        weir::agent::token_bucket calls(
            ctx, place::at(ctx, home.path()), "at " + to_string(rate), options);
        auto const guest = ask(calls);
        BOOST_TEST(guest.granted(), to_string(rate) << ": " << calls.last_failure().text);
    }
}

// ---- Failures

BOOST_AUTO_TEST_CASE(end_of_the_agent_is_an_outage_until_its_return) {
    weir::shared_options const options{
        .rate = {1000, 1s}, .burst = 100, .on_failure = weir::fail_open()};
    weir::agent::token_bucket calls(ctx, place::at(ctx, home.path()), "calls", options);
    for (int i = 0; i != 2; ++i) {
        BOOST_TEST(ask(calls).granted());
        BOOST_TEST((calls.shared_stats().mode == weir::shared_mode::store));
        home.stop();
        BOOST_TEST(!std::filesystem::exists(home.path()));
        run_until([&] {
            BOOST_TEST_REQUIRE(ask(calls).granted());
            return calls.shared_stats().mode == weir::shared_mode::open;
        });
        BOOST_TEST(calls.last_failure().text.starts_with(home.path() + ": "));
        home.start();
        run_until([&] {
            BOOST_TEST_REQUIRE(ask(calls).granted());
            return calls.shared_stats().mode == weir::shared_mode::store;
        });
    }
    BOOST_TEST(calls.shared_stats().outages == 2u);
}

BOOST_AUTO_TEST_CASE(agent_that_restarts_between_two_questions_is_not_noticed) {
    weir::shared_options const options{.rate = {1000, 1s}, .burst = 100};
    weir::agent::token_bucket calls(ctx, place::at(ctx, home.path()), "calls", options);
    for (int i = 0; i != 5; ++i) {
        BOOST_TEST(ask(calls).granted());
        home.stop();
        home.start();
    }
    BOOST_TEST(calls.shared_stats().failed == 0u);
    BOOST_TEST(calls.shared_stats().unknown == 0u);
}

BOOST_AUTO_TEST_CASE(outage_of_the_store_is_an_outage_of_the_agent) {
    weir::shared_options const options{.rate = {1000, 1s}, .burst = 100};
    weir::agent::token_bucket calls(ctx, place::at(ctx, home.path()), "calls", options);
    BOOST_TEST(ask(calls).granted());
    home.store().fail_with(weir::failure_kind::refused, "the disk is full");
    run_until([&] { return ask(calls, 1, 100ms).rejected(errc::unavailable); });
    BOOST_TEST(calls.last_failure().text == "the disk is full");
    home.store().fail_with({});
    run_until([&] { return ask(calls, 1, 100ms).granted(); });
}

BOOST_AUTO_TEST_CASE(misconfigured_store_is_reported_at_once_with_its_message) {
    weir::shared_options const options{
        .rate = {1000, 1s}, .burst = 100, .on_failure = weir::fail_open()};
    weir::agent::token_bucket calls(ctx, place::at(ctx, home.path()), "calls", options);
    home.store().fail_with(weir::failure_kind::misconfigured, "wrong password");
    BOOST_TEST(ask(calls).rejected(errc::misconfigured));
    BOOST_TEST(calls.last_failure().text == "wrong password");
    home.store().fail_with({});
    run_until([&] { return ask(calls, 1, 100ms).granted(); });

    weir::agent::token_bucket unlucky(
        ctx, place::at(ctx, home.path()), "unlucky", {.rate = {1000, 1s}, .burst = 13});
    BOOST_TEST(ask(unlucky).rejected(errc::misconfigured));
    BOOST_TEST(unlucky.last_failure().text == "no burst of 13");
}

BOOST_AUTO_TEST_CASE(missing_agent_and_forbidden_socket_are_reported) {
    weir::agent::token_bucket nowhere(
        ctx, place::at(ctx, home.path() + ".none"), "calls", {.rate = {1000, 1s}});
    BOOST_TEST(ask(nowhere, 1, 100ms).rejected(errc::timed_out));
    BOOST_TEST(nowhere.last_failure().text == home.path() + ".none: No such file or directory");

    asio::any_io_executor const ex = ctx.get_executor();
    BOOST_CHECK_THROW(weir::agent::store(ex, ""), std::invalid_argument);
    BOOST_CHECK_THROW(weir::agent::store(ex, std::string(108, 'x')), std::invalid_argument);
    BOOST_CHECK_THROW(weir::agent::store(ex, std::string("a\0b", 3)), std::invalid_argument);
}

BOOST_AUTO_TEST_CASE(check_connects_or_reports_why_it_cannot) {
    auto const here = place::at(ctx, home.path());
    here->check();
    here->check();
    run_until([&] { return home.agent().stats().connections == 1; });
    home.stop();
    auto const names_the_path = [&](boost::system::system_error const& e) {
        return e.code() == boost::system::errc::no_such_file_or_directory &&
               std::string(e.what()).starts_with(home.path() + ": ");
    };
    BOOST_CHECK_EXCEPTION(place::at(ctx, home.path())->check(), boost::system::system_error,
                          names_the_path);
    home.start();
    weir::agent::token_bucket calls(ctx, here, "calls", {.rate = {1000, 1s}, .burst = 100});
    BOOST_TEST(ask(calls).granted());
}

BOOST_AUTO_TEST_CASE(seats_are_refused_at_their_construction) {
    BOOST_CHECK_THROW(weir::shared_seats(ctx, place::at(ctx, home.path()), "seats", {.seats = 3}),
                      std::invalid_argument);
}

// ---- Ends

BOOST_AUTO_TEST_CASE(idle_store_keeps_no_context_running) {
    weir::agent::token_bucket calls(
        ctx, place::at(ctx, home.path()), "calls", {.rate = {1000, 1s}});
    BOOST_TEST(ask(calls).granted());
    auto const begin = steady_clock::now();
    run();
    BOOST_TEST((steady_clock::now() - begin < 5s));
}

BOOST_AUTO_TEST_CASE(store_that_is_dropped_ends_its_connection) {
    {
        weir::agent::token_bucket calls(
            ctx, place::at(ctx, home.path()), "calls", {.rate = {1000, 1s}});
        BOOST_TEST(ask(calls).granted());
        BOOST_TEST(home.agent().stats().connections == 1);
    }
    run_until([&] { return home.agent().stats().connections == 0; });
}

BOOST_AUTO_TEST_SUITE_END()
