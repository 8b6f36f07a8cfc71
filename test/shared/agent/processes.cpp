#include <weir/shared/limiter.hpp>

#include "shared/agent/place.hpp"
#include "shared/crowd.hpp"
#include "shared/workers.hpp"
#include "support/printing.hpp"
#include "support/rethrow.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/test/unit_test.hpp>

#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

// Real processes at an agent, some of which are killed.

namespace {

namespace asio = boost::asio;
using namespace std::chrono_literals;

constexpr std::int64_t permits = 2'000;  // per second
constexpr std::int64_t burst = 100;
constexpr auto time_limit = 500ms;

}  // namespace

BOOST_AUTO_TEST_SUITE(worker, *boost::unit_test::disabled())

// Takes permits, and reports when each was used.
BOOST_AUTO_TEST_CASE(takes_permits) {
    asio::io_context ctx;
    weir::shared_options const options{
        .rate = {permits, 1s}, .burst = burst, .timeout = time_limit};
    weir::agent::token_bucket calls(
        ctx, support::agent_place::at(ctx, support::worker::told("WEIR_ADDRESS")), "calls",
        options);
    auto const until = std::chrono::steady_clock::now() + support::time_of_crowd();
    auto const take = [&]() -> asio::awaitable<void> {
        while (std::chrono::steady_clock::now() < until) {
            auto const [ec, call] = co_await calls.async_enter(10s, asio::as_tuple(asio::deferred));
            if (ec)
                continue;
            support::worker::tell(std::chrono::duration_cast<std::chrono::microseconds>(
                                      std::chrono::steady_clock::now().time_since_epoch())
                                      .count());
        }
    };
    for (int i = 0; i != 4; ++i)
        asio::co_spawn(ctx, take(), support::rethrow);
    ctx.run();
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_FIXTURE_TEST_SUITE(agent_and_processes, support::agent_process)

// Oracle: in a time d, at most burst + rate (d + lease + the time limits of the agent and of the process).
BOOST_AUTO_TEST_CASE(processes_of_which_some_are_killed_keep_the_limit_together) {
    support::worker::variables const address{{"WEIR_ADDRESS", path()}};
    std::vector<support::worker> all;
    for (int i = 0; i != 8; ++i)
        all.emplace_back("worker/takes_permits", address);
    for (auto const& one : all)
        static_cast<void>(one.first_number());
    for (int i = 0; i != 4; ++i) {
        std::this_thread::sleep_for(100ms);
        all[static_cast<std::size_t>(i)].send(SIGKILL);
    }
    support::crowd crowd;
    for (std::size_t i = 0; i != all.size(); ++i) {
        auto numbers = all[i].numbers(i < 4);
        crowd.granted.insert(crowd.granted.end(), numbers.begin(), numbers.end());
        crowd.of_each.push_back(std::move(numbers));
    }
    std::ranges::sort(crowd.granted);
    auto const late = std::chrono::milliseconds(100) + 2 * time_limit;
    crowd.check_bucket(permits, burst + permits * late.count() / 1000);
    BOOST_TEST(crowd.granted.size() >= 1'000u);
    BOOST_TEST(store().questions < crowd.granted.size());
    while (agent().stats().connections != 0)
        std::this_thread::sleep_for(1ms);
    // The permits of the killed processes count as used; the rest returns to the store.
    BOOST_TEST(static_cast<std::size_t>(store().granted) >= crowd.granted.size());
}

BOOST_AUTO_TEST_SUITE_END()
