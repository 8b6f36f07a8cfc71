#include <weir/redis/store.hpp>

#include "shared/redis/place.hpp"
#include "support/rethrow.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/system/system_error.hpp>
#include <boost/test/tree/decorator.hpp>
#include <boost/test/unit_test.hpp>

#include <chrono>
#include <csignal>
#include <memory>
#include <string>
#include <vector>

namespace asio = boost::asio;
using namespace std::chrono_literals;
using steady = std::chrono::steady_clock;

namespace {

std::string place_of(std::uint16_t port) {
    return "127.0.0.1:" + std::to_string(port);
}

}  // namespace

// A primary and its replica.
struct two_servers {
    support::redis_server primary{{"--repl-diskless-sync-delay", "0"}};
    support::redis_server replica{{"--repl-diskless-sync-delay", "0"}};
    asio::io_context ctx;

    two_servers() { follow(replica, primary); }

    static void follow(support::redis_server const& one, support::redis_server const& other) {
        support::redis_session(one).say({"REPLICAOF", "127.0.0.1", std::to_string(other.port())});
        support::redis_session at(other);
        at.say({"SET", "followed", "yes"});
        at.say({"WAIT", "1", "0"});  // for one replica that has the key, without a time limit
    }
    void promote() const { support::redis_session(replica).say({"REPLICAOF", "NO", "ONE"}); }

    std::shared_ptr<weir::redis::store> connect(std::vector<std::uint16_t> const& ports,
                                                weir::redis::options options = {}) {
        options.url = "redis://";
        for (auto const port : ports)
            options.url += (options.url.ends_with('/') ? "" : ",") + place_of(port);
        return std::make_shared<weir::redis::store>(ctx, options);
    }

    // Requests permits until `over`.
    struct caller {
        int granted = 0;
        int rejected = 0;
        bool over = false;
        steady::time_point last_grant{};

        asio::awaitable<void> run(weir::redis::token_bucket& calls) {
            while (!over) {
                auto [ec, permit] = co_await calls.async_enter(30s, asio::as_tuple(asio::deferred));
                ++(ec ? rejected : granted);
                if (!ec)
                    last_grant = steady::now();
                asio::steady_timer timer(co_await asio::this_coro::executor, 5ms);
                co_await timer.async_wait(asio::deferred);
            }
        }
        // Waits for a grant after `since`.
        asio::awaitable<steady::duration> next(steady::time_point since) {
            asio::steady_timer timer(co_await asio::this_coro::executor);
            while (last_grant <= since && steady::now() < since + 60s) {
                timer.expires_after(5ms);
                co_await timer.async_wait(asio::deferred);
            }
            BOOST_TEST((last_grant > since));
            co_return last_grant - since;
        }
    };

    template <class F>
    void run_beside(weir::redis::token_bucket& calls, caller& one, F f) {
        asio::co_spawn(ctx, one.run(calls), support::rethrow);
        auto events = [](F what, bool& ends) -> asio::awaitable<void> {
            auto all = what();
            co_await std::move(all);
            ends = true;
        };
        asio::co_spawn(ctx, events(std::move(f), one.over), support::rethrow);
        ctx.run();
        ctx.restart();
    }
    static asio::awaitable<void> pass(weir::duration time) {
        asio::steady_timer timer(co_await asio::this_coro::executor, time);
        co_await timer.async_wait(asio::deferred);
    }
};

BOOST_FIXTURE_TEST_SUITE(failover, two_servers,
                         *boost::unit_test::precondition(support::if_redis_is_here))

BOOST_AUTO_TEST_CASE(servers_that_cannot_grant_are_passed_over) {
    support::reserved_port const nobody;
    // A pause would be longer than the patience.
    auto const all = connect(
        {nobody.number(), replica.port(), primary.port()}, {.retry = {.initial = 60s, .max = 60s}});
    weir::redis::token_bucket calls(ctx, all, "order", {.rate = {10'000, 1s}, .burst = 100});
    auto ask = [&]() -> asio::awaitable<void> {
        for (int i = 0; i != 50; ++i)
            static_cast<void>(co_await calls.enter(10s));
        promote();
        follow(primary, replica);
        for (int i = 0; i != 50; ++i)
            static_cast<void>(co_await calls.enter(10s));
    };
    asio::co_spawn(ctx, ask(), support::rethrow);
    ctx.run();
    auto const s = calls.shared_stats();
    BOOST_TEST(s.outages == 0U);
    BOOST_TEST(s.failed == 0U);
}

BOOST_AUTO_TEST_CASE(the_error_of_the_last_server_is_reported) {
    auto const none = connect({replica.port(), replica.port()});
    auto check = [&]() -> asio::awaitable<void> { co_await none->check(); };
    asio::co_spawn(ctx, check(), support::rethrow);
    BOOST_CHECK_EXCEPTION(ctx.run(), boost::system::system_error, [&](auto const& e) {
        return e.code() == weir::redis::errc::read_only &&
               std::string(e.what()).find(place_of(replica.port())) != std::string::npos;
    });
}

BOOST_AUTO_TEST_CASE(replica_that_becomes_the_primary_grants) {
    auto const all = connect({primary.port(), replica.port()});
    weir::redis::token_bucket calls(ctx, all, "kill", {.rate = {1'000, 1s}, .burst = 10});
    caller one;
    run_beside(calls, one, [&]() -> asio::awaitable<void> {
        co_await one.next(steady::now());
        primary.send(SIGKILL);
        primary.wait_for_end();
        co_await pass(300ms);
        promote();
        auto const took = co_await one.next(steady::now());
        BOOST_TEST_MESSAGE("a grant " << took / 1ms << " ms after the promotion");
        BOOST_TEST((took < 5s));
        // The former primary returns as a replica.
        primary.start();
        follow(primary, replica);
        co_await one.next(steady::now());
        support::redis_session(primary).say({"REPLICAOF", "NO", "ONE"});
        follow(replica, primary);
        co_await one.next(steady::now());
    });
    BOOST_TEST(one.granted > 3);
}

BOOST_AUTO_TEST_CASE(silent_server_is_left) {
    auto const all =
        connect({primary.port(), replica.port()}, {.connect_timeout = 30s, .silent_for = 300ms});
    weir::redis::token_bucket calls(ctx, all, "stop", {.rate = {1'000, 1s}, .burst = 10});
    caller one;
    run_beside(calls, one, [&]() -> asio::awaitable<void> {
        co_await one.next(steady::now());
        primary.send(SIGSTOP);
        promote();
        auto const took = co_await one.next(steady::now() + 50ms);
        BOOST_TEST_MESSAGE("a grant " << took / 1ms << " ms after the promotion");
        BOOST_TEST((took < 5s));
        primary.send(SIGCONT);
    });
}

BOOST_AUTO_TEST_CASE(permits_are_granted_soon_after_one_of_all_servers_returns) {
    auto const all = connect({primary.port(), replica.port()});
    weir::redis::token_bucket calls(ctx, all, "all", {.rate = {1'000, 1s}, .burst = 10});
    caller one;
    run_beside(calls, one, [&]() -> asio::awaitable<void> {
        co_await one.next(steady::now());
        for (auto* const server : {&primary, &replica})
            server->send(SIGKILL);
        primary.wait_for_end();
        replica.wait_for_end();
        co_await pass(1500ms);
        replica.start();
        auto const took = co_await one.next(steady::now());
        BOOST_TEST_MESSAGE("a grant " << took / 1ms << " ms after the return");
        BOOST_TEST((took < 5s));
    });
    BOOST_TEST(calls.shared_stats().outages == 1U);
}

BOOST_AUTO_TEST_CASE(messages_for_waiting_seats_come_from_the_current_server) {
    auto const mine = connect({replica.port(), primary.port()});
    auto const theirs = connect({primary.port(), replica.port()});
    weir::shared_seats_options const one_seat{.seats = 1, .lease = 30s, .poll = 60s};
    weir::redis::seats a(ctx, mine, "seat", one_seat);
    weir::redis::seats b(ctx, theirs, "seat", one_seat);
    auto take_turns = [&]() -> asio::awaitable<void> {
        for (int i = 0; i != 3; ++i) {
            auto first = co_await a.enter(60s);
            auto second = [&]() -> asio::awaitable<void> {
                static_cast<void>(co_await b.enter(60s));
            };
            asio::co_spawn(ctx, second(), support::rethrow);
            co_await pass(100ms);
            auto const since = steady::now();
            first.leave();
            auto const again = co_await a.enter(60s);
            BOOST_TEST((steady::now() - since < 3s));  // without a message, after a tenth of `poll`
        }
        ctx.stop();  // which would keep the seat for `poll`
    };
    asio::co_spawn(ctx, take_turns(), support::rethrow);
    ctx.run();
}

BOOST_AUTO_TEST_SUITE_END()
