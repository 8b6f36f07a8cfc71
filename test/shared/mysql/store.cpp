#include <weir/mysql/store.hpp>
#include <weir/shared/limiter.hpp>

#include "shared/mysql/place.hpp"
#include "shared/mysql/server.hpp"
#include "shared/mysql/sql.hpp"
#include "support/printing.hpp"
#include "support/two_endpoints.hpp"
#include "support/visit.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
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
#include <stdexcept>
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
using weir::errc;

using place = support::mysql_place;

struct fixture : place {
    // Returns the error of an operation; empty if it succeeds.
    std::string complaint(asio::awaitable<void> what) {
        std::string text;
        asio::co_spawn(ctx, std::move(what), [&](std::exception_ptr failure) {
            try {
                rethrow(failure);
            } catch (std::exception const& e) {
                text = e.what();
            }
        });
        run();
        return text;
    }
};

}  // namespace

#include "shared/process_tests.hpp"
#include "shared/store_tests.hpp"

BOOST_FIXTURE_TEST_SUITE(mysql_store, fixture, *ut::precondition(support::if_mariadb_is_here))

BOOST_AUTO_TEST_CASE(table_is_created_once) {
    asio::co_spawn(ctx, store->install(), rethrow);
    run();
    BOOST_TEST(session.number("select count(*) from information_schema.tables where "
                              "table_schema = 'weir' and table_name = 'weir_bucket'") == 1);
}

BOOST_AUTO_TEST_CASE(existing_tables_need_no_right_to_create_them) {
    session.query("create user if not exists user@localhost");
    session.query("grant select, insert, update on weir.* to user@localhost");
    auto other = login();
    other.user = "user";
    auto const plain = std::make_shared<weir::mysql::store>(ctx, other);
    asio::co_spawn(ctx, plain->install(), rethrow);
    run();

    // Missing tables need a user with the right to create them.
    session.query("create database if not exists bare");
    session.query("grant select, insert, update on bare.* to user@localhost");
    other.database = "bare";
    auto const bare = std::make_shared<weir::mysql::store>(ctx, other);
    asio::co_spawn(ctx, bare->install(), rethrow);
    BOOST_CHECK_EXCEPTION(run(), boost::system::system_error, [](auto const& e) {
        return std::string(e.what()).find("CREATE") != std::string::npos;
    });
}

BOOST_AUTO_TEST_CASE(table_of_another_version_is_found_when_it_is_installed_and_checked) {
    session.query("create database if not exists old");
    session.query("create table if not exists old.weir_bucket(k varbinary(255) primary key, at "
                  "bigint not null, level bigint not null) engine=innodb");
    auto other = login();
    other.database = "old";
    auto const old = std::make_shared<weir::mysql::store>(ctx, other);
    for (auto const& why : {complaint(old->install()), complaint(old->check())}) {
        BOOST_TEST(why.find("the table weir_bucket is of another version") != why.npos, why);
        BOOST_TEST(why.find("Unknown column 'permit'") != why.npos, why);
        BOOST_TEST(why.find(server().socket()) != why.npos, why);
        BOOST_TEST(why.find("MariaDB") != why.npos, why);
    }
}

BOOST_AUTO_TEST_CASE(check_detects_what_a_limiter_would_lack) {
    BOOST_TEST(complaint(store->check("x")) == "");
    session.query("create user if not exists looker@localhost");
    session.query("grant select, insert on weir.* to looker@localhost");
    auto other = login();
    other.user = "looker";
    auto const looker = std::make_shared<weir::mysql::store>(ctx, other);
    auto const why = complaint(looker->check());
    BOOST_TEST(why.find("UPDATE command denied") != why.npos, why);
    session.query("insert into weir_seats values('strange', 0, 'something')");
    auto const strange = complaint(store->check("strange"));
    BOOST_TEST(strange.find("the row strange of weir_seats holds no seats") != strange.npos,
               strange);
}

BOOST_AUTO_TEST_CASE(deleted_row_that_still_mattered_is_counted) {
    weir::mysql::token_bucket calls(
        ctx, store, "deleted", {.rate = {1, 1h}, .burst = 2, .timeout = 10s});
    visit const one(calls, 1);
    run(one);
    session.query("delete from weir_bucket where k = 'deleted'");
    visit const other(calls, 1);
    run(other);
    BOOST_TEST(other.granted());
    BOOST_TEST(calls.shared_stats().losses == 1u);
}

BOOST_AUTO_TEST_CASE(server_grants_permits_and_inserts_the_row) {
    weir::mysql::token_bucket calls(ctx, store, "first", patient);
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

BOOST_AUTO_TEST_CASE(nothing_is_granted_after_the_timeout_of_a_lock_wait) {
    weir::shared_options const options{.rate = {10, 1s}, .burst = 5, .timeout = 50ms};
    weir::mysql::token_bucket calls(ctx, store, "locked", options);
    visit const first(calls, 1, 30s);
    run(first);
    auto const before = session.value_of("select at from weir_bucket where k = 'locked'");
    session.query("start transaction");
    session.query("select * from weir_bucket where k = 'locked' for update");
    visit const hasty(calls, 1, 20ms);
    run(hasty);
    BOOST_TEST(hasty.rejected(errc::timed_out));
    run();                                     // until the question has ended
    support::wait_for_lock_waits(session, 0);  // the server has given it up
    session.query("rollback");
    BOOST_TEST(session.value_of("select at from weir_bucket where k = 'locked'") == before);
    visit const next(calls, 1, 30s);
    run(next);
    BOOST_TEST(next.granted());
}

BOOST_AUTO_TEST_CASE(killed_connection_is_replaced) {
    weir::mysql::token_bucket calls(ctx, store, "killed", patient);
    visit const first(calls, 1, 30s);
    run(first);
    support::kill_others(session, "connection");
    visit const next(calls, 1, 30s);
    run(next);
    BOOST_TEST(next.granted());
    // It is unknown whether the server got the question on the dead connection.
    BOOST_TEST(calls.shared_stats().unknown + calls.shared_stats().failed == 1u);
}

BOOST_AUTO_TEST_CASE(server_without_the_table_is_misconfigured_and_the_error_names_the_reason) {
    session.query("create database if not exists empty");
    auto other = login();
    other.database = "empty";
    auto const bare = std::make_shared<weir::mysql::store>(ctx, other);
    weir::mysql::token_bucket calls(ctx, bare, "x", patient);
    visit const guest(calls, 1);
    run(guest);
    BOOST_TEST(guest.rejected(errc::misconfigured));
    BOOST_TEST(calls.shared_stats().failed == 1u);  // certainly nothing was granted
    BOOST_TEST(calls.last_failure().error.message() == "er_no_such_table");
    BOOST_TEST(calls.last_failure().text == "Table 'empty.weir_bucket' doesn't exist");
}

BOOST_AUTO_TEST_CASE(wrong_user_is_misconfigured_and_opens_no_limit) {
    auto other = login();
    other.user = "stranger";
    auto const foreign = std::make_shared<weir::mysql::store>(ctx, other);
    auto open = patient;
    open.on_failure = weir::fail_open();
    weir::mysql::token_bucket calls(ctx, foreign, "x", open);
    for (int i = 0; i != 2; ++i) {
        visit const guest(calls, 1);
        run(guest);
        BOOST_TEST(guest.rejected(errc::misconfigured));
    }
    BOOST_TEST(calls.shared_stats().questions == 1u);
    BOOST_TEST(calls.shared_stats().outages == 0u);
    auto const text = calls.last_failure().text;
    BOOST_TEST(text.find("Access denied for user 'stranger'") != text.npos, text);
    BOOST_TEST(text.find("boost") == text.npos, text);
}

BOOST_AUTO_TEST_CASE(read_only_server_is_unavailable_until_it_is_writable_again) {
    auto other = login();
    session.query("create user if not exists reader@localhost");
    session.query("grant select, insert, update on weir.* to reader@localhost");
    other.user = "reader";
    auto const mortal = std::make_shared<weir::mysql::store>(ctx, other);
    weir::mysql::token_bucket calls(ctx, mortal, "read_only", patient);
    session.query("set global read_only = 1");
    visit const guest(calls, 1);
    run(guest);
    BOOST_TEST(guest.rejected(errc::unavailable));
    session.query("set global read_only = 0");
    asio::steady_timer pause(ctx, guest.seat().retry_after().value());
    pause.async_wait([](auto) {});
    run();
    visit const next(calls, 1);
    run(next);
    BOOST_TEST(next.granted());
}

BOOST_AUTO_TEST_CASE(server_over_tcp_with_a_password) {
    session.query("create user if not exists guest@'127.0.0.1' identified by 'secret'");
    session.query("grant select, insert, update on weir.* to guest@'127.0.0.1'");
    for (bool const is_right : {true, false}) {
        weir::mysql::options const there{
            .port = server().port(),
            .user = "guest",
            .password = is_right ? "secret" : "wrong",
            .database = "weir"};
        auto const remote = std::make_shared<weir::mysql::store>(ctx, there);
        weir::mysql::token_bucket calls(ctx, remote, "tcp", patient);
        visit const guest(calls, 1, 3s);
        run(guest);
        BOOST_TEST(guest.granted() == is_right);
        if (!is_right)
            BOOST_TEST(guest.rejected(errc::misconfigured));
    }
}

BOOST_AUTO_TEST_CASE(silent_address_leaves_time_for_the_next_one) {
    support::black_hole const hole(ctx, support::first_of_two, server().port());
    session.query("create user if not exists remote@'127.0.0.1' identified by 'secret'");
    session.query("grant create, select, insert, update on weir.* to remote@'127.0.0.1'");
    weir::mysql::options there{
        .host = support::host_of_two,
        .port = server().port(),
        .user = "remote",
        .password = "secret",
        .database = "weir",
        .connect_timeout = 1s};
    std::shared_ptr<weir::mysql::store> remote;
    bool is_connected = false;
    for (; !is_connected && there.connect_timeout < 20s; there.connect_timeout *= 2) {
        remote = std::make_shared<weir::mysql::store>(ctx, there);
        // A busy machine needs longer.
        asio::co_spawn(ctx, remote->install(), [&](auto failed) { is_connected = !failed; });
        run();
    }
    BOOST_REQUIRE(is_connected);
    weir::mysql::token_bucket calls(ctx, remote, "second", patient);
    visit const guest(calls, 1, 10s);
    run(guest);
    BOOST_TEST(guest.granted());
}

BOOST_AUTO_TEST_CASE(more_limiters_than_connections_wait_for_one) {
    auto few = login();
    few.max_connections = 2;
    auto const narrow = std::make_shared<weir::mysql::store>(ctx, few);
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

BOOST_AUTO_TEST_SUITE_END()

// ---- Several connections, and several processes

namespace {

struct watched : place {
    std::string const before = deadlocks();

    std::string deadlocks() {
        return session.query("show global status like 'Innodb_deadlocks'").at(0).at(1);
    }
    ~watched() { BOOST_TEST(deadlocks() == before); }

    std::shared_ptr<weir::mysql::store> with_connections(weir::amount n) {
        auto where = login();
        where.max_connections = n;
        return std::make_shared<weir::mysql::store>(ctx, where);
    }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(mysql_crowd, place, *ut::precondition(support::if_mariadb_is_here))

BOOST_FIXTURE_TEST_CASE(connections_at_one_row_never_deadlock, watched) {
    for (int const connections : {1, 8, 32}) {
        auto const many = with_connections(connections);
        auto const name = "row of " + std::to_string(connections);
        weir::shared_options const wide{
            .rate = {1'000'000, 1s}, .burst = 1'000'000, .timeout = 10s};
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

BOOST_FIXTURE_TEST_CASE(concurrent_first_questions_get_one_grant_per_key_and_no_deadlock, watched) {
    auto const many = with_connections(16);
    weir::shared_options const once{.rate = {1, 24h}, .burst = 1, .timeout = 10s};
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
            BOOST_TEST((g.granted() || g.rejected(errc::deadline_unreachable)));
        for (auto const& r : racers)
            BOOST_TEST(r->shared_stats().failed + r->shared_stats().unknown == 0u);
    }
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(mysql_faults, *ut::precondition(support::if_mariadb_is_here))

BOOST_AUTO_TEST_CASE(no_request_waits_for_a_stopped_server) {
    support::mariadb_server stopped;
    asio::io_context ctx;
    weir::mysql::options const where{
        .socket = stopped.socket(), .user = "root", .database = "weir"};
    auto const store = std::make_shared<weir::mysql::store>(ctx, where);
    asio::co_spawn(ctx, store->install(), rethrow);
    ctx.run();
    weir::shared_options const options{.rate = {10, 1s}, .burst = 5, .timeout = 2s};
    weir::mysql::token_bucket calls(ctx, store, "calls", options);
    stopped.send(SIGSTOP);
    visit const guest(calls, 1, 20ms);
    ctx.restart();
    ctx.run();
    BOOST_TEST(guest.rejected(errc::timed_out));
    BOOST_TEST(calls.shared_stats().granted == 0);
    stopped.send(SIGCONT);
    visit const next(calls, 1, 30s);
    ctx.restart();
    ctx.run();
    BOOST_TEST(next.granted());
}

namespace {

// A place at a separate server.
struct own_server {
    support::mariadb_server server;
    place there{server};
    asio::io_context& ctx = there.ctx;
    sql_session& session = there.session;
    std::shared_ptr<weir::mysql::store>& store = there.store;

    visit ask(weir::mysql::token_bucket& calls, weir::duration patience) {
        visit guest(calls, 1, patience);
        ctx.restart();
        while (guest.waiting() && ctx.run_one() != 0) {}
        return guest;
    }
    // Returns how many connections the store has.
    std::int64_t connections() {
        return session.number(
            "select count(*) from information_schema.processlist where user = 'app'");
    }
};

}  // namespace

BOOST_FIXTURE_TEST_CASE(server_at_its_connection_limit_is_unavailable_until_it_accepts_again,
                        own_server) {
    session.query("set global max_connections = 10");
    while (connections() != 0) {}
    weir::shared_options const options{.rate = {10, 1s}, .burst = 5, .timeout = 100ms};
    weir::mysql::token_bucket calls(ctx, store, "calls", options);
    {
        std::vector<sql_session> others;
        for (int i = 0; i != 10; ++i)  // root has one more
            others.emplace_back(server.socket());
        BOOST_TEST(ask(calls, 30s).rejected(errc::unavailable));
        ctx.restart();
        ctx.run();  // until the last question has ended
        BOOST_TEST(calls.last_failure().error.message() == "er_con_count_error");
        BOOST_TEST(calls.shared_stats().unknown == 0u);
    }
    for (;;) {
        auto const guest = ask(calls, 30s);
        if (guest.granted())
            break;
        BOOST_TEST_REQUIRE(guest.rejected(errc::unavailable));
    }
}

BOOST_FIXTURE_TEST_CASE(idle_connection_closed_by_the_server_is_replaced, own_server) {
    session.query("set global wait_timeout = 1");
    weir::shared_options const options{.rate = {10, 1s}, .burst = 5, .timeout = 10s};
    weir::mysql::token_bucket calls(ctx, store, "calls", options);
    BOOST_TEST(ask(calls, 30s).granted());
    BOOST_TEST(connections() == 1);
    while (connections() != 0) {}
    BOOST_TEST(ask(calls, 30s).granted());
}

BOOST_AUTO_TEST_CASE(installing_at_a_silent_server_takes_no_longer_than_connecting) {
    asio::io_context ctx;
    asio::ip::tcp::acceptor const silent(
        ctx, asio::ip::tcp::endpoint(asio::ip::address_v4::loopback(), 0));
    weir::mysql::options const where{
        .port = silent.local_endpoint().port(),
        .user = "root",
        .database = "weir",
        .connect_timeout = 100ms};
    auto const store = std::make_shared<weir::mysql::store>(ctx, where);
    std::exception_ptr result;
    asio::co_spawn(ctx, store->install(),
                   [&](std::exception_ptr failure) { result = std::move(failure); });
    ctx.run_for(20s);
    BOOST_TEST_REQUIRE((result != nullptr));
    BOOST_CHECK_EXCEPTION(rethrow(result), boost::system::system_error, [](auto const& e) {
        return e.code() == asio::error::timed_out;
    });
}

BOOST_AUTO_TEST_CASE(invalid_options_are_named) {
    asio::io_context ctx;
    auto const complaint = [&](weir::mysql::options const& o) -> std::string {
        try {
            weir::mysql::store const store(ctx, o);
        } catch (std::invalid_argument const& e) {
            return e.what();
        }
        return {};
    };
    BOOST_TEST(complaint({.max_connections = 0}) ==
               "weir::mysql: max_connections is 0, but must be from 1 to 10000");
    BOOST_TEST(complaint({.max_connections = 10'001}) ==
               "weir::mysql: max_connections is 10001, but must be from 1 to 10000");
    BOOST_TEST(complaint({.connect_timeout = 0s})
                   .starts_with("weir::mysql: connect_timeout is 0s, but must be at least 1ns"));
    BOOST_TEST(complaint({.max_connections = 10'000, .connect_timeout = weir::forever}).empty());
}

BOOST_FIXTURE_TEST_CASE(default_modes_of_new_sessions_change_nothing, own_server) {
    for (std::string const mode :
         {"", "ORACLE", "ANSI", "EMPTY_STRING_IS_NULL", "EMPTY_STRING_IS_NULL,STRICT_ALL_TABLES",
          "TRADITIONAL", "SIMULTANEOUS_ASSIGNMENT", "PAD_CHAR_TO_FULL_LENGTH", "MSSQL"}) {
        BOOST_TEST_CONTEXT(mode) {
            session.query("set global sql_mode = '" + mode + "'");
            auto const another = place::at(ctx, server.socket());
            weir::shared_options const three{.rate = {3, 1h}, .timeout = 10s};
            weir::mysql::token_bucket calls(ctx, another, "calls " + mode, three);
            weir::mysql::sliding_log quota(ctx, another, "quota " + mode, three);
            weir::mysql::seats seats(ctx, another, "seats " + mode, {.seats = 3, .timeout = 1s});
            auto const ask = [&](auto& limiter) {
                std::vector<visit> guests(5);
                for (auto& guest : guests) {
                    limiter.async_enter(1, 1s, guest.callback());
                    ctx.restart();
                    while (guest.waiting() && ctx.run_one() != 0) {}
                }
                for (int i = 0; i != 3; ++i)
                    BOOST_TEST(guests[static_cast<std::size_t>(i)].granted());
                BOOST_TEST(!guests[3].granted());
                BOOST_TEST(!guests[4].granted());
                BOOST_TEST(limiter.shared_stats().failed + limiter.shared_stats().unknown == 0u);
            };
            ask(calls);
            ask(quota);
            ask(seats);
        }
    }
}

BOOST_AUTO_TEST_CASE(server_with_sysdate_is_now_is_rejected) {
    support::mariadb_server wrong({"--sysdate-is-now"});
    asio::io_context ctx;
    weir::mysql::options const where{.socket = wrong.socket(), .user = "root", .database = "weir"};
    auto const store = std::make_shared<weir::mysql::store>(ctx, where);
    std::string what;
    asio::co_spawn(ctx, store->install(), [&](std::exception_ptr failure) {
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
