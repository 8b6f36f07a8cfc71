// Processes that share a limit at a server, and faults of the server: see shared/place.hpp. There is no `#pragma once`,
// because this is a part of the file that includes it.

#include <weir/shared/limiter.hpp>

#include "shared/crowd.hpp"
#include "shared/relay.hpp"
#include "shared/under_fire.hpp"
#include "shared/workers.hpp"
#include "support/printing.hpp"
#include "support/quiet.hpp"
#include "support/rethrow.hpp"
#include "support/visit.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/test/tree/decorator.hpp>
#include <boost/test/unit_test.hpp>

#include <dlfcn.h>
#include <signal.h>
#include <time.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

// The time by which the clocks of a process are ahead.
static std::chrono::seconds const ahead_of_others{
    std::getenv("WEIR_AHEAD") ? std::atoll(std::getenv("WEIR_AHEAD")) : 0};

extern "C" int clock_gettime(clockid_t which, timespec* time) {
    using function = int(clockid_t, timespec*);
    static auto* const of_system = reinterpret_cast<function*>(::dlsym(RTLD_NEXT, "clock_gettime"));
    int const failed = of_system(which, time);
    time->tv_sec += ahead_of_others.count();
    return failed;
}

BOOST_AUTO_TEST_SUITE(worker, *boost::unit_test::disabled())

namespace {

// Takes permits, one after the other in each of several coroutines, and reports when each was granted on the clock of
// the server.
template <class Limiter>
void take_permits() {
    using namespace std::chrono_literals;
    using support::worker;
    boost::asio::io_context ctx;
    auto const store = place::at(ctx, worker::told("WEIR_ADDRESS"));
    weir::shared_options const options{.rate = {std::stoll(worker::told("WEIR_PERMITS")), 1s},
                                       .burst = std::stoll(worker::told("WEIR_BURST")),
                                       .timeout = 1s};
    Limiter calls(ctx, store, worker::told("WEIR_NAME"), options);
    auto const until = std::chrono::steady_clock::now() + support::time_of_crowd();
    // On a busy machine even the start of a connection may take so long that it is an outage.
    auto const take = [&]() -> boost::asio::awaitable<void> {
        boost::asio::steady_timer pause(ctx);
        while (std::chrono::steady_clock::now() < until) {
            auto const [ec, call] =
                co_await calls.async_enter(10s, boost::asio::as_tuple(boost::asio::deferred));
            if (!ec) {
                worker::tell(static_cast<std::int64_t>(call.id()));
                continue;
            }
            BOOST_TEST_REQUIRE((ec == weir::errc::unavailable || ec == weir::errc::timed_out));
            pause.expires_after(10ms);
            co_await pause.async_wait(boost::asio::deferred);
        }
    };
    for (int i = 0; i != 4; ++i)
        boost::asio::co_spawn(ctx, take(), support::rethrow);
    ctx.run();
}

}  // namespace

BOOST_AUTO_TEST_CASE(takes_permits) {
    take_permits<weir::shared_token_bucket>();
}

BOOST_AUTO_TEST_CASE(takes_permits_of_a_log) {
    take_permits<weir::shared_sliding_log>();
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_FIXTURE_TEST_SUITE(processes, place, *boost::unit_test::precondition(place::if_here))

namespace {

using variables = support::worker::variables;

variables at_limit(place const& where, std::string const& name, int permits, int burst) {
    return {{"WEIR_ADDRESS", where.address()},
            {"WEIR_NAME", name},
            {"WEIR_PERMITS", std::to_string(permits)},
            {"WEIR_BURST", std::to_string(burst)}};
}

}  // namespace

BOOST_AUTO_TEST_CASE(all_processes_keep_the_bucket_together_and_none_starves) {
    for (int const many : {2, 4, 16}) {
        auto const name = "bucket of " + std::to_string(many);
        std::vector const all(static_cast<std::size_t>(many), at_limit(*this, name, 400, 20));
        auto const crowd = support::let_loose("worker/takes_permits", all);
        crowd.check_bucket(400, 20);
        crowd.check_shares(400);
    }
}

BOOST_AUTO_TEST_CASE(all_processes_keep_the_interval_together) {
    std::vector const four(4, at_limit(*this, "one per 20 ms", 50, 1));
    auto const crowd = support::let_loose("worker/takes_permits", four);
    crowd.check_log(1, 20'000);
    crowd.check_shares(50);
}

BOOST_AUTO_TEST_CASE(all_processes_keep_the_log_together) {
    std::vector const four(4, at_limit(*this, "200 in any second", 200, 200));
    auto const crowd = support::let_loose("worker/takes_permits_of_a_log", four);
    crowd.check_log(200, 1'000'000);
    BOOST_TEST(crowd.granted.size() >= 300u);
}

BOOST_AUTO_TEST_CASE(clocks_of_processes_do_not_matter) {
    auto ahead = at_limit(*this, "clocks", 400, 20);
    auto const on_time = ahead;
    ahead.emplace_back("WEIR_AHEAD", "3600");
    auto const crowd = support::let_loose("worker/takes_permits", {ahead, on_time});
    crowd.check_bucket(400, 20);
    crowd.check_shares(400);
}

BOOST_AUTO_TEST_CASE(processes_with_ten_times_the_latency_get_their_share) {
    support::slow_way const slow(home.socket(), std::chrono::microseconds(900));
    auto const near = at_limit(*this, "far", 1000, 1);
    auto far = near;
    far.front().second = address_of(slow.socket());
    std::vector<variables> all(8, near);
    all.insert(all.end(), 8, far);
    auto const crowd = support::let_loose("worker/takes_permits", all);
    crowd.check_bucket(1000, 1);
    auto const [least, sum, longest, time] = crowd.shares();
    if (!support::quiet_machine()) {
        if (sum >= 20 * all.size())
            BOOST_TEST(2 * least * all.size() >= sum);
        return;
    }
    BOOST_TEST(static_cast<double>(least) * 16 >= 0.9 * static_cast<double>(sum));
    BOOST_TEST(longest <= 100'000);
    BOOST_TEST(static_cast<double>(sum) >= 0.98 * static_cast<double>(time) / 1000);
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(faults, *boost::unit_test::precondition(place::if_here))

BOOST_AUTO_TEST_CASE(
    server_that_was_killed_is_found_again_and_has_forgotten_nothing_that_it_saved) {
    using namespace std::chrono_literals;
    place::server_type mortal(place::saves());
    place there(mortal);
    weir::shared_options const slow{.rate = {1, 24h}, .burst = 2, .timeout = 1s};
    weir::shared_token_bucket calls(there.ctx, there.store, "calls", slow);
    auto const ask = [&] {
        support::visit guest(calls, 1, 30s);
        there.run(guest);
        return guest;
    };
    BOOST_TEST(ask().granted());
    mortal.send(SIGKILL);
    BOOST_TEST(ask().rejected(weir::errc::unavailable));
    mortal.restart();

    // The permit that was granted before is not granted again; lost permits may be.
    int granted = 0;
    for (;;) {
        auto const guest = ask();
        if (guest.rejected(weir::errc::deadline_unreachable))
            break;
        granted += guest.granted();
    }
    BOOST_TEST(granted <= 1);
    BOOST_TEST(calls.shared_stats().outages >= 1u);
}

BOOST_AUTO_TEST_CASE(connections_killed_during_a_question_grant_nothing_twice) {
    using namespace std::chrono_literals;
    place::server_type own;
    place there(own);
    weir::shared_options const slow{.rate = {1, 1h}, .burst = 10'000, .timeout = 1s};
    auto const [granted, unknown] = support::take_under_fire(
        there.ctx, 1000,
        [&] {
            return std::make_unique<weir::shared_token_bucket>(
                there.ctx, there.store, "calls", slow);
        },
        [&] { there.kill_connections(); });
    auto const used = there.used("calls");
    BOOST_TEST(used >= granted);
    BOOST_TEST(used <= granted + unknown);
}

BOOST_AUTO_TEST_SUITE_END()
