#include <weir/mysql/engine.hpp>
#include <weir/shared/limiter.hpp>

#include "shared/crowd.hpp"
#include "shared/mysql/engine_fixture.hpp"
#include "shared/mysql/server.hpp"
#include "shared/mysql/sql.hpp"
#include "shared/under_fire.hpp"
#include "shared/workers.hpp"
#include "support/printing.hpp"
#include "support/two_endpoints.hpp"
#include "support/visit.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/test/tree/decorator.hpp>
#include <boost/test/unit_test.hpp>

#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace {

namespace asio = boost::asio;
namespace ut = boost::unit_test;
using namespace std::chrono_literals;
using support::login;
using support::rethrow;
using support::server;
using support::sql_session;
using support::visit;
using support::worker;
using weir::errc;

struct fixture : support::engine_fixture {
    using engine_fixture::run;

    // So much that a loaded machine is not taken for a server that does not answer.
    weir::shared_options patient{.rate = {10, 1s}, .burst = 5, .deadline = 10s};

    // Until it is over.
    void run(visit const& v) {
        ctx.restart();
        while (v.waiting() && ctx.run_one() != 0) {}
        BOOST_TEST_REQUIRE(v.over());
    }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(mysql_engine, fixture, *ut::precondition(support::if_mariadb_is_here))

BOOST_AUTO_TEST_CASE(table_is_made_once) {
    asio::co_spawn(ctx, engine->install(), rethrow);
    run();
    BOOST_TEST(session.number("select count(*) from information_schema.tables where "
                              "table_schema = 'weir' and table_name = 'weir_bucket'") == 1);
}

BOOST_AUTO_TEST_CASE(permits_are_granted_by_the_server_and_its_row_makes_itself) {
    weir::mysql::token_bucket calls(ctx, engine, "first", patient);
    visit const guest(calls, 2);
    run(guest);
    BOOST_TEST(guest.granted());
    auto const now =
        session.number("select timestampdiff(microsecond, '1970-01-01', utc_timestamp(6))");
    auto const rows = session.query("select at, level, permit from weir_bucket where k = 'first'");
    BOOST_TEST_REQUIRE(rows.size() == 1u);
    BOOST_TEST(rows[0][0] == std::to_string(guest.seat().id()));  // the time of the grant
    BOOST_TEST(rows[0][1] == "200000");
    BOOST_TEST(rows[0][2] == "100000");
    BOOST_TEST(static_cast<std::int64_t>(guest.seat().id()) <= now);
}

BOOST_AUTO_TEST_CASE(two_limiters_share_a_bucket_and_are_told_when_to_come_back) {
    weir::shared_options const slow{.rate = {1, 24h}, .burst = 5, .deadline = 10s};
    weir::mysql::token_bucket here(ctx, engine, "both", slow);
    auto const elsewhere = std::make_shared<weir::mysql::engine>(ctx, login());
    weir::mysql::token_bucket there(ctx, elsewhere, "both", slow);
    visit const three(here, 3);
    run(three);
    visit const two(there, 2);
    run(two);
    visit const one(there, 1, 60s);
    run(one);
    BOOST_TEST(three.granted());
    BOOST_TEST(two.granted());
    BOOST_TEST(one.refused(errc::deadline_unreachable));
    auto const retry = one.seat().retry_after();
    BOOST_TEST_REQUIRE(retry.has_value());
    BOOST_TEST(*retry > 23h);
    BOOST_TEST(*retry <= 24h);

    // What was not used is there for everybody, but for what has drained since.
    three.seat().refund();
    run();
    visit const again(there, 2);
    run(again);
    BOOST_TEST(again.granted());
    BOOST_TEST(there.shared_stats().denied == 1u);
}

BOOST_AUTO_TEST_CASE(log_is_kept_for_all_that_share_it) {
    weir::shared_options const few{.rate = {5, 24h}, .deadline = 10s};
    weir::mysql::sliding_log here(ctx, engine, "both", few);
    weir::mysql::sliding_log there(
        ctx, std::make_shared<weir::mysql::engine>(ctx, login()), "both", few);
    visit const three(here, 3);
    run(three);
    visit const two(there, 2);
    run(two);
    visit const one(there, 1, 60s);
    run(one);
    BOOST_TEST(three.granted());
    BOOST_TEST(two.granted());
    BOOST_TEST(one.refused(errc::deadline_unreachable));
    three.seat().refund();
    run();
    visit const again(there, 3);
    run(again);
    BOOST_TEST(again.granted());
    BOOST_TEST(session.number("select length(grants) from weir_log where k = 'both'") == 40);
}

BOOST_AUTO_TEST_CASE(requests_are_served_in_order) {
    weir::mysql::token_bucket calls(ctx, engine, "order", patient);
    std::vector<int> served;
    for (int i = 0; i != 9; ++i)
        calls.async_enter(1 + i % 2, [&served, i](weir::error_code ec, weir::permit) {
            if (!ec)
                served.push_back(i);
        });
    run();
    BOOST_TEST((served == std::vector{0, 1, 2, 3, 4, 5, 6, 7, 8}));
}

BOOST_AUTO_TEST_CASE(request_is_cancelled_while_the_server_is_asked) {
    weir::mysql::token_bucket calls(ctx, engine, "cancelled", patient);
    asio::cancellation_signal signal;
    visit const guest;
    calls.async_enter(asio::bind_cancellation_slot(signal.slot(), guest.callback()));
    signal.emit(asio::cancellation_type::terminal);
    run();
    BOOST_TEST(guest.refused(asio::error::operation_aborted));
    BOOST_TEST(calls.shared_stats().granted == 1);
    BOOST_TEST(calls.shared_stats().returned == 1);
    BOOST_TEST(session.number("select level < permit from weir_bucket where k = 'cancelled'") == 1);
}

BOOST_AUTO_TEST_CASE(names_are_bytes) {
    std::string const odd("a\0'\xff\\%", 6);
    weir::mysql::token_bucket calls(ctx, engine, odd, patient);
    visit const guest(calls, 1);
    run(guest);
    BOOST_TEST(guest.granted());
    BOOST_TEST(session.number("select count(*) from weir_bucket where k = x'610027ff5c25'") == 1);
}

BOOST_AUTO_TEST_CASE(nobody_is_granted_anything_after_the_deadline_of_a_lock_wait) {
    weir::shared_options const options{.rate = {10, 1s}, .burst = 5, .deadline = 50ms};
    weir::mysql::token_bucket calls(ctx, engine, "locked", options);
    visit const first(calls, 1, 30s);
    run(first);
    auto const before = session.value_of("select at from weir_bucket where k = 'locked'");
    session.query("start transaction");
    session.query("select * from weir_bucket where k = 'locked' for update");
    visit const hasty(calls, 1, 20ms);
    run(hasty);
    BOOST_TEST(hasty.refused(errc::timed_out));
    run();                                     // until the question has come to its end
    support::wait_for_lock_waits(session, 0);  // the server has given it up
    session.query("rollback");
    BOOST_TEST(session.value_of("select at from weir_bucket where k = 'locked'") == before);
    visit const next(calls, 1, 30s);
    run(next);
    BOOST_TEST(next.granted());
}

BOOST_AUTO_TEST_CASE(connection_that_was_killed_is_replaced) {
    weir::mysql::token_bucket calls(ctx, engine, "killed", patient);
    visit const first(calls, 1, 30s);
    run(first);
    support::kill_others(session, "connection");
    visit const next(calls, 1, 30s);
    run(next);
    BOOST_TEST(next.granted());
    // It is not known of the question on the dead connection whether the server has heard it.
    BOOST_TEST(calls.shared_stats().unknown + calls.shared_stats().failed == 1u);
}

BOOST_AUTO_TEST_CASE(server_without_the_table_is_unavailable_and_the_error_says_why) {
    session.query("create database if not exists empty");
    auto other = login();
    other.database = "empty";
    auto const bare = std::make_shared<weir::mysql::engine>(ctx, other);
    weir::mysql::token_bucket calls(ctx, bare, "x", patient);
    visit const guest(calls, 1);
    run(guest);
    BOOST_TEST(guest.refused(errc::unavailable));
    BOOST_TEST(calls.shared_stats().failed == 5u);  // for sure, nothing was granted
    BOOST_TEST(calls.last_failure().message() == "er_no_such_table");
}

BOOST_AUTO_TEST_CASE(server_that_only_reads_is_unavailable_until_it_writes_again) {
    auto other = login();
    session.query("create user if not exists reader@localhost");
    session.query("grant select, insert, update on weir.* to reader@localhost");
    other.user = "reader";
    auto const mortal = std::make_shared<weir::mysql::engine>(ctx, other);
    weir::mysql::token_bucket calls(ctx, mortal, "read_only", patient);
    session.query("set global read_only = 1");
    visit const guest(calls, 1);
    run(guest);
    BOOST_TEST(guest.refused(errc::unavailable));
    session.query("set global read_only = 0");
    asio::steady_timer pause(ctx, guest.seat().retry_after().value());
    pause.async_wait([](auto) {});
    run();
    visit const next(calls, 1);
    run(next);
    BOOST_TEST(next.granted());
}

BOOST_AUTO_TEST_CASE(server_over_tcp_with_a_password) {
    session.query("create user if not exists somebody@'127.0.0.1' identified by 'secret'");
    session.query("grant select, insert, update on weir.* to somebody@'127.0.0.1'");
    for (bool const is_right : {true, false}) {
        weir::mysql::options const there{
            .port = server().port(),
            .user = "somebody",
            .password = is_right ? "secret" : "wrong",
            .database = "weir"};
        auto const remote = std::make_shared<weir::mysql::engine>(ctx, there);
        weir::mysql::token_bucket calls(ctx, remote, "tcp", patient);
        visit const guest(calls, 1, 3s);
        run(guest);
        BOOST_TEST(guest.granted() == is_right);
        if (!is_right)
            BOOST_TEST(guest.refused(errc::timed_out));
    }
}

BOOST_AUTO_TEST_CASE(address_that_does_not_answer_leaves_time_for_the_next_one) {
    support::black_hole const hole(ctx, support::first_of_two, server().port());
    session.query("create user if not exists remote@'127.0.0.1' identified by 'secret'");
    session.query("grant create, select, insert, update on weir.* to remote@'127.0.0.1'");
    weir::mysql::options const there{
        .host = support::host_of_two,
        .port = server().port(),
        .user = "remote",
        .password = "secret",
        .database = "weir",
        .connect_within = 1s};
    auto const remote = std::make_shared<weir::mysql::engine>(ctx, there);
    asio::co_spawn(ctx, remote->install(), rethrow);
    run();
    weir::mysql::token_bucket calls(ctx, remote, "second", patient);
    visit const guest(calls, 1, 10s);
    run(guest);
    BOOST_TEST(guest.granted());
}

BOOST_AUTO_TEST_CASE(more_limiters_than_connections_wait_for_one) {
    auto few = login();
    few.connections = 2;
    auto const narrow = std::make_shared<weir::mysql::engine>(ctx, few);
    std::vector<std::unique_ptr<weir::mysql::token_bucket>> limiters;
    std::vector<visit> guests;
    for (int i = 0; i != 20; ++i) {
        limiters.push_back(std::make_unique<weir::mysql::token_bucket>(
            ctx, narrow, "narrow" + std::to_string(i), patient));
        guests.emplace_back(*limiters.back(), 1);
    }
    run();
    for (auto const& g : guests)
        BOOST_TEST(g.granted());
}

BOOST_AUTO_TEST_CASE(engine_may_go_before_its_limiter_and_the_context_before_both) {
    auto own = std::make_unique<asio::io_context>();
    auto brief = std::make_shared<weir::mysql::engine>(*own, login());
    weir::mysql::token_bucket calls(
        *own, brief, "brief", {.rate = {1, 1h}, .burst = 1, .deadline = 10s});
    brief.reset();
    visit const guest(calls, 1);
    while (guest.waiting() && own->run_one() != 0) {}
    BOOST_TEST(guest.granted());
    visit const dropped(calls, 1);
    own->poll();
    own.reset();
    BOOST_TEST(dropped.dropped());
    guest.seat().refund();
}

BOOST_AUTO_TEST_SUITE_END()

// ---- Several connections, and several processes

namespace {

struct watched : fixture {
    std::string const before = deadlocks();

    std::string deadlocks() {
        return session.query("show global status like 'Innodb_deadlocks'").at(0).at(1);
    }
    ~watched() { BOOST_TEST(deadlocks() == before); }

    std::shared_ptr<weir::mysql::engine> with_connections(weir::amount n) {
        auto where = login();
        where.connections = n;
        return std::make_shared<weir::mysql::engine>(ctx, where);
    }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(mysql_crowd, fixture, *ut::precondition(support::if_mariadb_is_here))

BOOST_FIXTURE_TEST_CASE(connections_at_one_row_never_deadlock, watched) {
    for (int const connections : {1, 8, 32}) {
        auto const many = with_connections(connections);
        auto const name = "row of " + std::to_string(connections);
        weir::shared_options const wide{
            .rate = {1'000'000, 1s}, .burst = 1'000'000, .deadline = 10s};
        std::vector<std::unique_ptr<weir::mysql::token_bucket>> limiters;
        int granted = 0;
        auto const take = [&](weir::mysql::token_bucket& calls) -> asio::awaitable<void> {
            for (int i = 0; i != 50; ++i) {
                auto const call = co_await calls.async_enter(30s);
                ++granted;
            }
        };
        for (int i = 0; i != connections; ++i) {
            limiters.push_back(std::make_unique<weir::mysql::token_bucket>(ctx, many, name, wide));
            asio::co_spawn(ctx, take(*limiters.back()), rethrow);
        }
        run();
        BOOST_TEST(granted == 50 * connections);
    }
}

BOOST_FIXTURE_TEST_CASE(racers_for_fresh_keys_get_one_grant_a_key_and_no_deadlock, watched) {
    auto const many = with_connections(16);
    weir::shared_options const once{.rate = {1, 24h}, .burst = 1, .deadline = 10s};
    for (int key = 0; key != 120; ++key) {
        std::vector<std::unique_ptr<weir::mysql::token_bucket>> racers;
        std::vector<visit> guests;
        for (int i = 0; i != 16; ++i) {
            racers.push_back(std::make_unique<weir::mysql::token_bucket>(
                ctx, many, "fresh " + std::to_string(key), once));
            guests.emplace_back(*racers.back(), 1, 30s);
        }
        run();
        BOOST_TEST_REQUIRE(std::ranges::count_if(guests, &visit::granted) == 1);
        for (auto const& g : guests)
            BOOST_TEST((g.granted() || g.refused(errc::deadline_unreachable)));
        for (auto const& r : racers)
            BOOST_TEST(r->shared_stats().failed + r->shared_stats().unknown == 0u);
    }
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(mysql_worker, *ut::disabled())

// Takes permits of a limiter, one after the other in each of some coroutines, and tells of each when it was granted by
// the clock of the server.
BOOST_AUTO_TEST_CASE(takes_permits) {
    asio::io_context ctx;
    weir::mysql::options const where{
        .socket = worker::told("WEIR_SOCKET"), .user = "root", .database = "weir"};
    auto const engine = std::make_shared<weir::mysql::engine>(ctx, where);
    weir::shared_options const options{.rate = {std::stoll(worker::told("WEIR_PERMITS")), 1s},
                                       .burst = std::stoll(worker::told("WEIR_BURST")),
                                       .deadline = 1s};
    weir::mysql::token_bucket calls(ctx, engine, worker::told("WEIR_NAME"), options);
    auto const until = std::chrono::steady_clock::now() + support::time_of_crowd();
    auto const take = [&]() -> asio::awaitable<void> {
        while (std::chrono::steady_clock::now() < until) {
            auto const call = co_await calls.async_enter(10s);
            worker::tell(static_cast<std::int64_t>(call.id()));
        }
    };
    for (int i = 0; i != 4; ++i)
        asio::co_spawn(ctx, take(), rethrow);
    ctx.run();
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_FIXTURE_TEST_SUITE(mysql_processes, watched, *ut::precondition(support::if_mariadb_is_here))

namespace {

worker::variables at_limit(std::string const& name, int permits, int burst) {
    return {{"WEIR_SOCKET", server().socket()},
            {"WEIR_NAME", name},
            {"WEIR_PERMITS", std::to_string(permits)},
            {"WEIR_BURST", std::to_string(burst)}};
}

}  // namespace

BOOST_AUTO_TEST_CASE(bucket_is_kept_by_all_together_and_nobody_starves) {
    for (int const processes : {2, 4, 16}) {
        auto const name = "bucket of " + std::to_string(processes);
        std::vector const all(static_cast<std::size_t>(processes), at_limit(name, 400, 20));
        auto const crowd = support::let_loose("mysql_worker/takes_permits", all);
        crowd.check_bucket(400, 20);
        auto const [least, sum, longest, time] = crowd.shares();
        BOOST_TEST(least * static_cast<std::size_t>(processes) >= sum / 2);
        BOOST_TEST(static_cast<std::int64_t>(sum) >= time * 400 / 1'000'000 / 2);
    }
}

BOOST_AUTO_TEST_CASE(interval_is_kept_by_all_together) {
    std::vector const four(4, at_limit("one per 20 ms", 50, 1));
    auto const crowd = support::let_loose("mysql_worker/takes_permits", four);
    crowd.check_log(1, 20'000);
    auto const [least, sum, longest, time] = crowd.shares();
    BOOST_TEST(least * 8 >= sum);
    BOOST_TEST(static_cast<std::int64_t>(sum) >= time / 20'000 / 2);
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(mysql_faults, *ut::precondition(support::if_mariadb_is_here))

BOOST_AUTO_TEST_CASE(server_that_was_killed_is_found_again_and_has_forgotten_nothing) {
    support::mariadb_server mortal;
    asio::io_context ctx;
    weir::mysql::options const where{.socket = mortal.socket(), .user = "root", .database = "weir"};
    auto const engine = std::make_shared<weir::mysql::engine>(ctx, where);
    asio::co_spawn(ctx, engine->install(), rethrow);
    ctx.run();
    weir::shared_options const slow{.rate = {1, 24h}, .burst = 2, .deadline = 1s};
    weir::mysql::token_bucket calls(ctx, engine, "calls", slow);
    auto const ask = [&](weir::duration patience) {
        visit guest(calls, 1, patience);
        ctx.restart();
        while (guest.waiting() && ctx.run_one() != 0) {}
        return guest;
    };
    BOOST_TEST(ask(30s).granted());
    mortal.send(SIGKILL);
    BOOST_TEST(ask(30s).refused(errc::unavailable));
    mortal.restart();

    // The one that was granted before is not granted again; what was lost on the way, perhaps.
    int granted = 0;
    for (;;) {
        auto const guest = ask(30s);
        if (guest.granted())
            ++granted;
        else if (guest.refused(errc::deadline_unreachable))
            break;
    }
    BOOST_TEST(granted <= 1);
    BOOST_TEST(calls.shared_stats().outages >= 1u);
}

BOOST_AUTO_TEST_CASE(nobody_waits_for_a_server_that_is_stopped) {
    support::mariadb_server stopped;
    asio::io_context ctx;
    weir::mysql::options const where{
        .socket = stopped.socket(), .user = "root", .database = "weir"};
    auto const engine = std::make_shared<weir::mysql::engine>(ctx, where);
    asio::co_spawn(ctx, engine->install(), rethrow);
    ctx.run();
    weir::shared_options const options{.rate = {10, 1s}, .burst = 5, .deadline = 2s};
    weir::mysql::token_bucket calls(ctx, engine, "calls", options);
    stopped.send(SIGSTOP);
    visit const guest(calls, 1, 20ms);
    ctx.restart();
    ctx.run();
    BOOST_TEST(guest.refused(errc::timed_out));
    BOOST_TEST(calls.shared_stats().granted == 0);
    stopped.send(SIGCONT);
    visit const next(calls, 1, 30s);
    ctx.restart();
    ctx.run();
    BOOST_TEST(next.granted());
}

namespace {

// A server of its own, with a user who has no privileges but those that are needed.
struct own_server {
    support::mariadb_server server;
    sql_session session;
    asio::io_context ctx;
    std::shared_ptr<weir::mysql::engine> engine;

    explicit own_server(std::vector<std::string> options = {})
        : server(std::move(options)), session(server.socket()) {
        for (auto const* const text :
             {"create user app@localhost",
              "grant create, select, insert, update on weir.* to app@localhost"})
            session.query(text);
        engine = std::make_shared<weir::mysql::engine>(
            ctx,
            weir::mysql::options{.socket = server.socket(), .user = "app", .database = "weir"});
        asio::co_spawn(ctx, engine->install(), rethrow);
        ctx.run();
    }
    visit ask(weir::mysql::token_bucket& calls, weir::duration patience) {
        visit guest(calls, 1, patience);
        ctx.restart();
        while (guest.waiting() && ctx.run_one() != 0) {}
        return guest;
    }
    // How many connections the engine has.
    std::int64_t connections() {
        return session.number(
            "select count(*) from information_schema.processlist where user = 'app'");
    }
};

}  // namespace

BOOST_FIXTURE_TEST_CASE(server_that_takes_no_more_connections_is_unavailable_until_it_does,
                        own_server) {
    session.query("set global max_connections = 10");
    while (connections() != 0) {}
    weir::shared_options const options{.rate = {10, 1s}, .burst = 5, .deadline = 100ms};
    weir::mysql::token_bucket calls(ctx, engine, "calls", options);
    {
        std::vector<sql_session> others;
        for (int i = 0; i != 10; ++i)  // root has one more
            others.emplace_back(server.socket());
        BOOST_TEST(ask(calls, 30s).refused(errc::unavailable));
        ctx.restart();
        ctx.run();  // until the last question has come to its end
        BOOST_TEST(calls.last_failure().message() == "er_con_count_error");
        BOOST_TEST(calls.shared_stats().unknown == 0u);
    }
    for (;;) {
        auto const guest = ask(calls, 30s);
        if (guest.granted())
            break;
        BOOST_TEST_REQUIRE(guest.refused(errc::unavailable));
    }
}

BOOST_FIXTURE_TEST_CASE(connection_that_the_server_has_closed_since_it_was_idle_is_replaced,
                        own_server) {
    session.query("set global wait_timeout = 1");
    weir::shared_options const options{.rate = {10, 1s}, .burst = 5, .deadline = 10s};
    weir::mysql::token_bucket calls(ctx, engine, "calls", options);
    BOOST_TEST(ask(calls, 30s).granted());
    BOOST_TEST(connections() == 1);
    while (connections() != 0) {}
    BOOST_TEST(ask(calls, 30s).granted());
}

BOOST_FIXTURE_TEST_CASE(connections_that_are_killed_in_the_middle_grant_nothing_twice, own_server) {
    weir::shared_options const slow{.rate = {1, 1h}, .burst = 10'000, .deadline = 1s};
    auto const [granted, unknown] = support::take_under_fire(
        ctx, 1000,
        [&] { return std::make_unique<weir::mysql::token_bucket>(ctx, engine, "calls", slow); },
        [&](std::stop_token stop) {
            sql_session own(server.socket());
            while (!stop.stop_requested()) {
                for (int i = 0; i != 200; ++i)
                    own.query("select 1");
                support::kill_others(own, "connection", "user = 'app'");
            }
        });
    auto const taken =
        session.number("select ceiling(level / permit) from weir_bucket where k = 'calls'");
    BOOST_TEST(taken >= granted);
    BOOST_TEST(taken <= granted + unknown);
}

BOOST_AUTO_TEST_CASE(server_that_knows_only_when_a_statement_began_is_refused) {
    support::mariadb_server wrong({"--sysdate-is-now"});
    asio::io_context ctx;
    weir::mysql::options const where{.socket = wrong.socket(), .user = "root", .database = "weir"};
    auto const engine = std::make_shared<weir::mysql::engine>(ctx, where);
    std::string what;
    asio::co_spawn(ctx, engine->install(), [&](std::exception_ptr failure) {
        try {
            rethrow(failure);
        } catch (std::exception const& e) {
            what = e.what();
        }
    });
    ctx.run();
    BOOST_TEST(what.find("sysdate-is-now") != what.npos);
}

BOOST_AUTO_TEST_SUITE_END()
