#include <weir/redis/store.hpp>

#include "shared/redis/server.hpp"
#include "support/reserved_port.hpp"
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

#include <chrono>
#include <csignal>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

// A primary, a replica and three Sentinels, all real.

namespace {

namespace asio = boost::asio;
namespace ut = boost::unit_test;
using namespace std::chrono_literals;
using support::visit;
using support::wait_until;
using steady = std::chrono::steady_clock;
using why = weir::redis::errc;

bool has(std::string const& text, std::string const& part) {
    return text.find(part) != text.npos;
}

struct fixture {
    std::vector<std::string> more;  // options of all servers and Sentinels
    support::redis_server first{{"--repl-diskless-sync-delay", "0"}};
    support::redis_server second{{"--repl-diskless-sync-delay", "0"}};
    std::deque<support::redis_sentinel> sentinels;
    asio::io_context ctx;

    fixture() {
        support::redis_session(second).say({"REPLICAOF", "127.0.0.1", port_of(first)});
        wait_until("the replica follows", [&] { return follows(second); });
        for (int i = 0; i != 3; ++i)
            sentinels.emplace_back("main", first.port());
        for (auto const& one : sentinels)
            wait_until("the Sentinels know each other and the replica", [&] {
                auto const said = support::redis_session(one).say({"SENTINEL", "MASTER", "main"});
                return has(said, "num-other-sentinels 2") && has(said, "num-slaves 1");
            });
    }

    static std::string port_of(support::redis_server const& one) {
        return std::to_string(one.port());
    }
    static bool follows(support::redis_server const& one) {
        try {
            return has(support::redis_session(one).say({"INFO", "replication"}),
                       "master_link_status:up");
        } catch (support::redis_error const&) {
            return false;  // Sentinel closes the connections of a former primary
        }
    }
    // Returns whether all Sentinels name this server.
    [[nodiscard]] bool is_named(support::redis_server const& one) const {
        for (auto const& s : sentinels)
            if (support::redis_session(s).say({"SENTINEL", "GET-MASTER-ADDR-BY-NAME", "main"}) !=
                "127.0.0.1 " + port_of(one))
                return false;
        return true;
    }

    [[nodiscard]] std::string url(std::string const& name = "main") const {
        std::string places;
        for (auto const& s : sentinels)
            places += (places.empty() ? "" : ",") + s.place();
        return "redis+sentinel://" + places + "/" + name;
    }
    std::shared_ptr<weir::redis::store> connect(std::string url, weir::redis::options options = {
                                                                     .connect_timeout = 10s}) {
        options.url = std::move(url);
        return std::make_shared<weir::redis::store>(ctx, options);
    }
    template <class Condition>
    void run_until(Condition met) {
        ctx.restart();
        while (!met() && ctx.run_one() != 0) {}
        BOOST_TEST_REQUIRE(met());
    }
    // Returns the error of `check`; empty if it succeeds.
    std::string complaint(std::string const& at) {
        std::optional<std::string> what;
        auto const store = connect(at);
        asio::co_spawn(ctx, store->check(), [&](std::exception_ptr failure) {
            try {
                support::rethrow(failure);
                what = "";
            } catch (std::exception const& e) {
                what = e.what();
            }
        });
        run_until([&] { return what.has_value(); });
        return *what;
    }

    // Requests permits until one is granted after `since`. Returns the time that this took.
    template <class Limiter>
    steady::duration next(Limiter& calls, steady::time_point since) {
        auto ask = [&]() -> asio::awaitable<void> {
            for (auto const end = since + 60s; steady::now() < end;) {
                auto [ec, permit] = co_await calls.async_enter(10s, asio::as_tuple(asio::deferred));
                if (!ec)
                    co_return;
                asio::steady_timer timer(ctx, 5ms);
                co_await timer.async_wait(asio::deferred);
            }
            BOOST_TEST(false, "no grant within a minute");
        };
        asio::co_spawn(ctx, ask(), support::rethrow);
        ctx.restart();
        ctx.run();
        auto const took = steady::now() - since;
        BOOST_TEST_MESSAGE("a grant after " << took / 1ms << " ms");
        return took;
    }
};

// A key that lives for 3.6 s after a grant.
weir::shared_options const usual{.rate = {1000, 1h}, .burst = 1000, .timeout = 1s};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(redis_sentinel, fixture, *ut::precondition(support::if_redis_is_here))

BOOST_AUTO_TEST_CASE(primary_is_found_through_any_sentinel) {
    weir::redis::token_bucket calls(ctx, connect(url()), "calls", usual);
    for (int i = 0; i != 3; ++i) {
        visit const guest(calls, 1, 60s);
        run_until([&] { return guest.over(); });
        BOOST_TEST(guest.granted());
    }
    BOOST_TEST(support::redis_session(first).say({"EXISTS", "{weir:calls}"}) == "1");

    // Two of them are gone: one that accepts nothing, one that is silent.
    sentinels[0].send(SIGKILL);
    sentinels[0].wait_for_end();
    sentinels[1].send(SIGSTOP);
    weir::redis::options const quick{.connect_timeout = 1s, .retry = {.initial = 60s, .max = 60s}};
    weir::redis::token_bucket others(
        ctx, connect(url(), quick), "others", {.rate = {1000, 1s}, .burst = 10, .timeout = 30s});
    visit const guest(others, 1, 60s);
    run_until([&] { return guest.over(); });
    BOOST_TEST(guest.granted());  // without a pause, which would take 60 s
    BOOST_TEST(others.shared_stats().failed == 0U);
    sentinels[1].send(SIGCONT);
}

BOOST_AUTO_TEST_CASE(unknown_name_is_a_misconfiguration) {
    weir::redis::token_bucket calls(ctx, connect(url("other")), "calls", usual);
    visit const guest(calls, 1, 60s);
    run_until([&] { return guest.over(); });
    BOOST_TEST(guest.rejected(weir::errc::misconfigured));
    auto const failure = calls.last_failure();
    BOOST_TEST(failure.error == make_error_code(why::unknown_primary));
    BOOST_TEST(has(failure.text, "other"), failure.text);
    BOOST_TEST(has(failure.text, "Sentinel " + sentinels[2].place()), failure.text);
}

BOOST_AUTO_TEST_CASE(server_at_the_place_of_a_sentinel_is_an_error) {
    auto const what = complaint("redis+sentinel://127.0.0.1:" + port_of(first) + "/main");
    BOOST_TEST(has(what, "unknown command"), what);
    BOOST_TEST(has(what, "Sentinel 127.0.0.1:" + port_of(first)), what);
    auto const other = complaint("redis://" + sentinels[0].place());
    BOOST_TEST(other != "");
}

BOOST_AUTO_TEST_CASE(planned_failover_is_followed) {
    weir::redis::token_bucket calls(ctx, connect(url()), "calls", usual);
    next(calls, steady::now());
    support::redis_session(sentinels[0]).say({"SENTINEL", "FAILOVER", "main"});
    wait_until("the Sentinels name the other", [&] { return is_named(second); });
    wait_until("the former primary follows", [&] { return follows(first); });
    support::redis_session(second).say({"DEL", "{weir:calls}"});
    next(calls, steady::now());
    BOOST_TEST(support::redis_session(second).say({"EXISTS", "{weir:calls}"}) == "1");
}

BOOST_AUTO_TEST_CASE(killed_primary_is_replaced) {
    weir::redis::token_bucket calls(ctx, connect(url()), "calls", usual);
    next(calls, steady::now());
    first.send(SIGKILL);
    first.wait_for_end();
    next(calls, steady::now());
    BOOST_TEST(support::redis_session(second).say({"EXISTS", "{weir:calls}"}) == "1");
    BOOST_TEST(has(support::redis_session(second).say({"INFO", "replication"}), "role:master"));
}

BOOST_AUTO_TEST_CASE(stopped_primary_is_replaced) {
    weir::redis::token_bucket calls(
        ctx, connect(url(), {.connect_timeout = 1s, .silent_for = 300ms}), "calls", usual);
    next(calls, steady::now());
    first.send(SIGSTOP);
    next(calls, steady::now());
    first.send(SIGCONT);
}

BOOST_AUTO_TEST_CASE(server_that_the_sentinels_name_must_be_a_primary) {
    // It accepts changes although it is a replica: only ROLE tells.
    support::redis_session(second).say({"CONFIG", "SET", "replica-read-only", "no"});
    support::redis_sentinel const lies("main", second.port());
    auto const what = complaint("redis+sentinel://" + lies.place() + "/main");
    BOOST_TEST(has(what, "read-only replica"), what);
    BOOST_TEST(has(what, "127.0.0.1:" + port_of(second)), what);

    // A user without permission for ROLE is not locked out.
    support::redis_session at(first);
    at.say({"ACL", "SETUSER", "app", "on", ">secret", "~{weir:*", "&weir:*", "-@all", "+eval",
            "+evalsha", "+script|load", "+time", "+get", "+set"});
    auto with_login = url();
    with_login.insert(std::string("redis+sentinel://").size(), "app:secret@");
    BOOST_TEST(complaint(with_login) == "");
    at.say({"ACL", "SETUSER", "app", "+role"});
    BOOST_TEST(complaint(with_login) == "");
    with_login.replace(with_login.find("secret"), 6, "wrong");
    BOOST_TEST(has(complaint(with_login), "AUTH failed (127.0.0.1:" + port_of(first) + ")"));
}

BOOST_AUTO_TEST_CASE(sentinels_have_a_login_of_their_own) {
    for (auto const& one : sentinels)
        support::redis_session(one).say({"ACL", "SETUSER", "default", "resetpass", ">secret"});
    auto const without = complaint(url());
    BOOST_TEST(has(without, "NOAUTH"), without);
    BOOST_TEST(has(without, "Sentinel"), without);
    BOOST_TEST(complaint(url() + "?sentinel_password=secret") == "");
    BOOST_TEST(complaint(url() + "?sentinel_user=default&sentinel_password=secret") == "");
    auto const wrong = complaint(url() + "?sentinel_password=mistake");
    BOOST_TEST(has(wrong, "AUTH failed (Sentinel"), wrong);
    BOOST_TEST(!has(wrong, "mistake"));
}

BOOST_AUTO_TEST_CASE(failover_to_an_older_state_grants_again_what_the_replica_lacks) {
    weir::redis::sliding_log calls(
        ctx, connect(url()), "calls", {.rate = {10, 1h}, .timeout = 10s});
    int granted = 0;
    auto take = [&](int many) {
        for (int i = 0; i != many; ++i) {
            visit const guest(calls, 1, 30s);
            run_until([&] { return guest.over(); });
            granted += guest.granted();
        }
    };
    take(4);
    wait_until("the replica has them", [&] {
        return support::redis_session(second).say({"STRLEN", "{weir:calls}:log"}) ==
               support::redis_session(first).say({"STRLEN", "{weir:calls}:log"});
    });
    second.send(SIGSTOP);
    support::redis_session(first).say({"CLIENT", "KILL", "TYPE", "replica"});
    take(3);
    BOOST_TEST(granted == 7);
    first.send(SIGKILL);
    first.wait_for_end();
    second.send(SIGCONT);
    next(calls, steady::now());
    ++granted;
    take(20);
    BOOST_TEST(granted == 7 + (10 - 4));
    BOOST_TEST(calls.shared_stats().losses == 0U);  // the key was there, in an older state
}

BOOST_AUTO_TEST_SUITE_END()
