#include <weir/redis/store.hpp>
#include <weir/shared/limiter.hpp>

#include "shared/redis/place.hpp"
#include "shared/redis/server.hpp"
#include "support/printing.hpp"
#include "support/reserved_port.hpp"
#include "support/rethrow.hpp"
#include "support/visit.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/test/tree/decorator.hpp>
#include <boost/test/unit_test.hpp>

#include <dlfcn.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <memory>
#include <string>
#include <vector>

namespace {

namespace asio = boost::asio;
namespace ut = boost::unit_test;
using namespace std::chrono_literals;
using support::rethrow;
using support::server;
using support::visit;
using weir::errc;

struct fixture : support::redis_place {
    using support::redis_place::run;

    support::redis_session session{server()};

    std::shared_ptr<weir::redis::store> make(std::string url) { return at(ctx, std::move(url)); }
    // Returns the error of `check`; empty if it succeeds.
    std::string complaint(std::shared_ptr<weir::redis::store> const& of,
                          std::string const& name = {}) {
        std::string what;
        asio::co_spawn(ctx, of->check(name), [&](std::exception_ptr failure) {
            try {
                rethrow(failure);
            } catch (std::exception const& e) {
                what = e.what();
            }
        });
        run();
        return what;
    }
    // 0 without one: the key of a full bucket expires.
    std::int64_t level(std::string const& name) {
        bool const is_there = session.say({"EXISTS", "{weir:" + name + "}"}) == "1";
        return is_there ? session.numbers({"GET", "{weir:" + name + "}"}).at(1) : 0;
    }
};

using place = support::redis_place;

}  // namespace

#include "shared/process_tests.hpp"
#include "shared/store_tests.hpp"

BOOST_FIXTURE_TEST_SUITE(redis_store, fixture, *ut::precondition(support::if_redis_is_here))

BOOST_AUTO_TEST_CASE(server_grants_permits_and_creates_the_key) {
    weir::redis::token_bucket calls(ctx, store, "first", patient);
    visit const guest(calls, 2);
    run(guest);
    BOOST_TEST(guest.granted());
    auto const stored = session.numbers({"GET", "{weir:first}"});
    BOOST_TEST_REQUIRE(stored.size() == 3u);
    BOOST_TEST(stored[0] == static_cast<std::int64_t>(guest.seat().id()));  // the time of the grant
    BOOST_TEST(stored[1] == 200'000);
    BOOST_TEST(stored[2] == 100'000);
    auto const clock = session.numbers({"TIME"});
    BOOST_TEST(stored[0] <= clock[0] * 1'000'000 + clock[1]);
}

BOOST_AUTO_TEST_CASE(many_limiters_share_one_connection) {
    auto const clients = [this] {
        auto const all = session.say({"CLIENT", "LIST", "TYPE", "normal"});
        return std::ranges::count(all, '\n');
    };
    auto const before = clients();
    std::vector<std::unique_ptr<weir::redis::token_bucket>> limiters;
    std::vector<visit> guests;
    for (int i = 0; i != 50; ++i) {
        limiters.push_back(std::make_unique<weir::redis::token_bucket>(
            ctx, store, "many" + std::to_string(i), patient));
        guests.emplace_back(*limiters.back(), 1);
    }
    run();
    for (auto const& g : guests)
        BOOST_TEST(g.granted());
    BOOST_TEST(clients() == before + 1);
}

BOOST_AUTO_TEST_CASE(idle_limiter_lets_run_return_and_finds_its_connection_closed) {
    weir::redis::token_bucket calls(ctx, store, "idle", patient);
    visit const first(calls, 1);
    run();  // it returns
    BOOST_TEST(first.granted());
    session.say({"CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"});
    visit const next(calls, 1);
    run();
    BOOST_TEST(next.granted());
    // This was detected before the question was sent.
    BOOST_TEST(calls.shared_stats().unknown + calls.shared_stats().failed == 0u);
}

BOOST_AUTO_TEST_CASE(server_over_tcp_with_a_user_and_a_database) {
    session.say({"ACL", "SETUSER", "guest", "on", ">se@cret", "~{weir:*", "+@all"});
    auto const port = std::to_string(server().port());
    for (std::string const host : {"127.0.0.1", "localhost"}) {
        auto const remote = make("redis://guest:se%40cret@" + host + ":" + port + "/3");
        BOOST_TEST(complaint(remote) == "");
        weir::redis::token_bucket calls(ctx, remote, "tcp " + host, patient);
        visit const guest(calls, 1);
        run(guest);
        BOOST_TEST(guest.granted());
        session.say({"SELECT", "3"});
        BOOST_TEST(session.say({"EXISTS", "{weir:tcp " + host + "}"}) == "1");
        session.say({"SELECT", "0"});
    }
}

BOOST_AUTO_TEST_CASE(wrong_password_is_misconfigured_and_the_error_names_the_reason) {
    auto const port = std::to_string(server().port());
    auto const wrong = make("redis://:wrong@127.0.0.1:" + port);
    session.say({"ACL", "SETUSER", "default", ">right"});
    weir::redis::token_bucket calls(ctx, wrong, "wrong", patient);
    visit const guest(calls, 1, 5s);
    run(guest);
    // A second limiter receives the same error, although the store does not connect again yet.
    weir::redis::token_bucket others(ctx, wrong, "wrong", patient);
    visit const other(others, 1, 5s);
    run(other);
    BOOST_TEST(other.rejected(errc::misconfigured));
    auto const why = complaint(wrong);
    auto const none = complaint(make("redis://127.0.0.1:" + port));
    session.say({"ACL", "SETUSER", "default", "nopass"});
    BOOST_TEST(guest.rejected(errc::misconfigured));
    BOOST_TEST(calls.last_failure().error == make_error_code(weir::redis::errc::wrong_password));
    BOOST_TEST(calls.shared_stats().unknown == 0u);
    BOOST_TEST(calls.shared_stats().failed == 1u);
    BOOST_TEST(calls.shared_stats().outages == 0u);
    BOOST_TEST(why.starts_with("weir::redis: AUTH"), why);
    BOOST_TEST(none.starts_with("weir::redis: NOAUTH"), none);
}

BOOST_AUTO_TEST_CASE(scripts_are_sent_in_full_without_the_permission_to_load_them) {
    session.say({"ACL", "SETUSER", "humble", "on", "nopass", "~{weir:*", "-@all", "+eval", "+time",
                 "+get", "+set"});
    auto const humble = make("redis://humble:any@127.0.0.1:" + std::to_string(server().port()));
    weir::redis::token_bucket calls(ctx, humble, "humble", patient);
    visit const guest(calls, 1);
    run(guest);
    BOOST_TEST(guest.granted());
}

BOOST_AUTO_TEST_CASE(user_needs_only_the_documented_commands) {
    session.say({"ACL", "SETUSER", "app", "on", ">password", "~{weir:*", "-@all", "+eval",
                 "+evalsha", "+script|load", "+time", "+get", "+set", "+select"});
    auto const app =
        make("redis://app:password@127.0.0.1:" + std::to_string(server().port()) + "/2");
    weir::redis::token_bucket calls(ctx, app, "app", patient);
    visit const guest(calls, 1);
    run(guest);
    BOOST_TEST(guest.granted());
    guest.seat().refund();
    run();
    BOOST_TEST(calls.shared_stats().failed == 0u);
    session.say({"SELECT", "2"});
    BOOST_TEST(level("app") < 100'000);
}

BOOST_AUTO_TEST_CASE(missing_permission_for_the_key_is_reported) {
    session.say({"ACL", "SETUSER", "other", "on", "nopass", "~other:*", "+@all"});
    auto const other = make("redis://other:any@127.0.0.1:" + std::to_string(server().port()));
    weir::redis::token_bucket calls(ctx, other, "forbidden", patient);
    visit const guest(calls, 1);
    run(guest);
    BOOST_TEST(guest.rejected(errc::misconfigured));
    BOOST_TEST(calls.last_failure().error == make_error_code(weir::redis::errc::forbidden));
    BOOST_TEST(calls.last_failure().text.starts_with("NOPERM"), calls.last_failure().text);
}

BOOST_AUTO_TEST_CASE(key_of_another_type_is_misconfigured_and_opens_no_limit) {
    session.say({"LPUSH", "{weir:strange}", "1"});
    auto open = patient;
    open.on_failure = weir::fail_open();
    weir::redis::token_bucket calls(ctx, store, "strange", open);
    visit const guest(calls, 1);
    run(guest);
    BOOST_TEST(guest.rejected(errc::misconfigured));
    BOOST_TEST(calls.shared_stats().questions == 1u);
    BOOST_TEST(calls.last_failure().error == make_error_code(weir::redis::errc::wrong_kind));
    BOOST_TEST(calls.last_failure().text.starts_with("WRONGTYPE"), calls.last_failure().text);
}

BOOST_AUTO_TEST_CASE(missing_database_is_an_error) {
    auto const port = std::to_string(server().port());
    auto const why = complaint(make("redis://127.0.0.1:" + port + "/99"));
    BOOST_TEST(why.find("DB index is out of range") != why.npos, why);
}

BOOST_AUTO_TEST_CASE(check_detects_a_server_that_would_grant_nothing) {
    support::redis_server own;
    support::redis_session at(own);
    BOOST_TEST(complaint(make(own.url())) == "");
    at.say({"CONFIG", "SET", "maxmemory", "1"});
    auto const full = complaint(make(own.url()));
    BOOST_TEST(full.starts_with("weir::redis: OOM"), full);
    at.say({"CONFIG", "SET", "maxmemory", "0"});
    support::reserved_port const nowhere;
    at.say({"REPLICAOF", "127.0.0.1", std::to_string(nowhere.number())});
    auto const replica = complaint(make(own.url()));
    BOOST_TEST(replica.starts_with("weir::redis: READONLY"), replica);
}

BOOST_AUTO_TEST_CASE(check_detects_a_server_that_evicts_keys) {
    support::redis_server own;
    support::redis_session at(own);
    at.say({"CONFIG", "SET", "maxmemory-policy", "allkeys-lru"});
    BOOST_TEST(complaint(make(own.url())) == "");  // there is no limit of memory
    at.say({"CONFIG", "SET", "maxmemory", "100mb"});
    auto const why = complaint(make(own.url()));
    BOOST_TEST(why.starts_with("weir::redis: EVICTS maxmemory-policy is allkeys-lru"), why);
    at.say({"ACL", "SETUSER", "humble", "on", "nopass", "~{weir:*", "-@all", "+eval", "+time",
            "+get", "+set"});
    BOOST_TEST(complaint(make("redis://humble:any@127.0.0.1:" + std::to_string(own.port()))) ==
               "");  // it may not ask
    at.say({"CONFIG", "SET", "maxmemory-policy", "noeviction"});
    BOOST_TEST(complaint(make(own.url())) == "");
}

BOOST_AUTO_TEST_CASE(check_detects_a_key_that_holds_something_else) {
    session.say({"SET", "{weir:text}", "hello"});
    session.say({"LPUSH", "{weir:list}:log", "1"});
    session.say({"SET", "{weir:bytes}:seats", "5"});
    for (auto const& [name, what] : {std::pair{"text", "the key {weir:text} holds no bucket"},
                                     {"list", "the key {weir:list}:log holds no log"},
                                     {"bytes", "the key {weir:bytes}:seats holds no seats"}}) {
        auto const why = complaint(store, name);
        BOOST_TEST(why.find(what) != why.npos, why);
    }
    weir::redis::token_bucket calls(ctx, store, "used", patient);
    visit const guest(calls, 1);
    run(guest);
    weir::redis::sliding_log log(ctx, store, "used", {.rate = {10, 1s}, .timeout = 10s});
    visit const other(log, 1);
    run(other);
    BOOST_TEST(complaint(store, "used") == "");
}

BOOST_AUTO_TEST_CASE(limiter_that_cannot_be_counted_is_rejected_on_construction_and_configure) {
    weir::shared_options const fine{.rate = {999'999'937, 24h}, .burst = 1'000'000};
    auto const is_named = [](std::invalid_argument const& e) {
        return std::string_view(e.what()) ==
               "weir::redis: burst, at this rate, is 1000000, but must be from 1 to 26062";
    };
    BOOST_CHECK_EXCEPTION(weir::redis::token_bucket(ctx, store, "fine", fine),
                          std::invalid_argument, is_named);
    weir::redis::token_bucket calls(ctx, store, "fine", patient);
    BOOST_CHECK_EXCEPTION(calls.configure(fine), std::invalid_argument, is_named);
    visit const guest(calls, 1);  // nothing has changed
    run(guest);
    BOOST_TEST(guest.granted());
    BOOST_TEST(calls.options().burst.value() == 5);
}

BOOST_AUTO_TEST_CASE(invalid_options_are_rejected) {
    BOOST_CHECK_THROW(make("http://localhost"), std::invalid_argument);
    weir::redis::options const hasty{.connect_timeout = 0ns};
    BOOST_CHECK_THROW(weir::redis::store(ctx, hasty), std::invalid_argument);
    weir::redis::options const odd{.retry = {.initial = 2s, .max = 1s}};
    BOOST_CHECK_THROW(weir::redis::store(ctx, odd), std::invalid_argument);
}

BOOST_AUTO_TEST_CASE(lost_scripts_are_sent_again) {
    weir::redis::token_bucket calls(ctx, store, "flushed", patient);
    visit const first(calls, 1);
    run(first);
    session.say({"SCRIPT", "FLUSH"});
    // Several in one pipeline.
    weir::redis::token_bucket others(ctx, store, "flushed too", patient);
    visit const next(calls, 1);
    visit const other(others, 1);
    run();
    BOOST_TEST(next.granted());
    BOOST_TEST(other.granted());
    BOOST_TEST(calls.shared_stats().questions == 2u);
    BOOST_TEST(level("flushed") > 100'000);
}

BOOST_AUTO_TEST_CASE(deleted_key_is_a_full_bucket) {
    weir::shared_options const slow{.rate = {1, 24h}, .burst = 2, .timeout = 10s};
    weir::redis::token_bucket calls(ctx, store, "deleted", slow);
    visit const two(calls, 2);
    run(two);
    session.say({"FLUSHALL"});
    visit const again(calls, 2);
    run(again);
    BOOST_TEST(two.granted());
    BOOST_TEST(again.granted());
    BOOST_TEST(calls.shared_stats().losses == 1u);
}

BOOST_AUTO_TEST_SUITE_END()
