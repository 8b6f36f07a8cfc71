#include <weir/mysql/strict_interval.hpp>

#include "shared/mysql/place.hpp"
#include "shared/mysql/server.hpp"
#include "shared/mysql/sql.hpp"
#include "shared/under_fire.hpp"
#include "shared/workers.hpp"
#include "support/printing.hpp"

#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/test/tree/decorator.hpp>
#include <boost/test/unit_test.hpp>

#include <signal.h>

#include <chrono>
#include <cstdint>
#include <exception>
#include <future>
#include <memory>
#include <optional>
#include <string>
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
using support::worker;
using weir::errc;

// The time of a row is the server's, by a default or by the statement; and the statement may take long.
constexpr auto insert_default = "insert into events(name, what) values(?, ?)";
constexpr auto insert_slowly =
    "insert into events(name, what, at) select ?, ?, sysdate(6) from (select sleep(0.03)) late";

constexpr auto interval_of_the_killed = 3s;

struct fixture : support::mysql_place {
    fixture() {
        session.query("create table if not exists events(id bigint auto_increment primary key, "
                      "name varchar(30), what varchar(30) unique, "
                      "at datetime(6) not null default current_timestamp(6)) engine=innodb");
    }
    // The result of an insertion.
    std::exception_ptr outcome(asio::awaitable<void> work) {
        std::exception_ptr result;
        asio::co_spawn(ctx, std::move(work), [&](std::exception_ptr e) { result = std::move(e); });
        run();
        return result;
    }
    static weir::error_code code_of(std::exception_ptr const& e) {
        try {
            rethrow(e);
        } catch (boost::system::system_error const& failure) {
            return failure.code();
        }
        return {};
    }
    std::int64_t rows_of(std::string const& name) {
        return session.number("select count(*) from events where name = '" + name + "'");
    }
    // Acts as a process in the middle of its transaction, until the test executes `rollback`.
    void hold_lock_of(std::string const& name) {
        session.query("start transaction");
        session.query("select at from weir_bucket where k = '" + name + "' for update");
    }
    // Whether the statement of a transaction sleeps. A connection sleeps, too, when it begins.
    bool an_insertion_sleeps() {
        return session.number("select count(*) from information_schema.processlist where "
                              "state = 'User sleep' and info like 'insert %'") != 0;
    }
    // The shortest time between two of them, in microseconds.
    std::int64_t least_gap(std::string const& name) {
        return session.number(
            "select min(gap) from (select timestampdiff(microsecond, lag(at) over (order by at), "
            "at) gap from events where name = '" +
            name + "') gaps");
    }
};

}  // namespace

BOOST_AUTO_TEST_SUITE(mysql_strict_worker, *ut::disabled())

BOOST_AUTO_TEST_CASE(inserts) {
    asio::io_context ctx;
    weir::mysql::options const where{
        .socket = worker::told("WEIR_SOCKET"), .user = "root", .database = "weir"};
    auto const store = std::make_shared<weir::mysql::store>(ctx, where);
    auto const name = worker::told("WEIR_NAME");
    weir::mysql::strict_interval rows(ctx, store, name, 50ms);
    auto const until = std::chrono::steady_clock::now() + 3s;
    auto const work = [&](std::string sql) -> asio::awaitable<void> {
        while (std::chrono::steady_clock::now() < until) {
            std::vector<weir::mysql::value> values{name, nullptr};
            co_await rows.insert_at_most(sql, std::move(values));
            worker::tell(1);
        }
    };
    asio::co_spawn(ctx, work(insert_default), rethrow);
    asio::co_spawn(ctx, work(insert_slowly), rethrow);
    ctx.run();
}

// It is killed during the statement.
BOOST_AUTO_TEST_CASE(takes_too_long) {
    asio::io_context ctx;
    weir::mysql::options const where{
        .socket = worker::told("WEIR_SOCKET"), .user = "root", .database = "weir"};
    auto const store = std::make_shared<weir::mysql::store>(ctx, where);
    weir::mysql::strict_interval rows(ctx, store, "killed", interval_of_the_killed);
    asio::co_spawn(ctx,
                   rows.insert_at_most(
                       "insert into events(name) select 'killed' from (select sleep(60)) late"),
                   rethrow);
    ctx.run();
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_FIXTURE_TEST_SUITE(mysql_strict_interval, fixture,
                         *ut::precondition(support::if_mariadb_is_here))

BOOST_AUTO_TEST_CASE(rows_of_several_processes_keep_the_interval_in_the_table) {
    std::vector<worker> workers;
    for (int i = 0; i != 3; ++i)
        workers.emplace_back(
            "mysql_strict_worker/inserts",
            worker::variables{{"WEIR_SOCKET", server().socket()}, {"WEIR_NAME", "many"}});
    std::size_t told = 0;
    for (auto& w : workers) {
        auto const mine = w.numbers().size();
        BOOST_TEST(mine > 0u);
        told += mine;
    }
    BOOST_TEST(rows_of("many") == static_cast<std::int64_t>(told));
    BOOST_TEST(told >= 10u);
    BOOST_TEST(least_gap("many") >= 50'000);
}

BOOST_AUTO_TEST_CASE(many_waiting_processes_cost_no_more_statements_per_row) {
    auto const statements = [&] {
        return std::stoll(session.query("show global status like 'Questions'").at(0).at(1));
    };
    constexpr auto every =
        150ms;  // a busy machine makes a process miss a shorter turn, and ask again
    constexpr int counted = 30;  // rows
    std::vector<std::shared_ptr<weir::mysql::store>> stores;
    std::vector<std::unique_ptr<weir::mysql::strict_interval>> processes;
    for (int i = 0; i != 32; ++i) {
        stores.push_back(at(ctx, address()));
        processes.push_back(
            std::make_unique<weir::mysql::strict_interval>(ctx, stores.back(), "crowd", every));
    }
    bool over = false;
    std::int64_t first = 0;
    std::int64_t rows = 0;
    std::int64_t used = 0;
    auto const work = [&](weir::mysql::strict_interval& of) -> asio::awaitable<void> {
        while (!over) {
            co_await of.insert_at_most("insert into events(name) values('crowd')", 30s);
            if (++rows == 40)
                first = statements();  // all are connected
            if (rows == 40 + counted && !std::exchange(over, true))
                used = statements() - first;
        }
    };
    for (auto& one : processes)
        asio::co_spawn(ctx, work(*one), rethrow);
    run();
    BOOST_TEST_MESSAGE("statements per row: " << static_cast<double>(used) / counted);
    BOOST_TEST(used <= counted * 12);
    BOOST_TEST(rows_of("crowd") == rows);
    BOOST_TEST(least_gap("crowd") >= 150'000);
}

BOOST_AUTO_TEST_CASE(connection_that_ended_meanwhile_is_replaced) {
    weir::mysql::strict_interval rows(ctx, store, "idle", 1ms);
    auto const insert = "insert into events(name) values('idle')";
    BOOST_TEST((outcome(rows.insert_at_most(insert, 10s)) == nullptr));
    support::kill_others(session, "connection", "user = 'app'");
    BOOST_TEST((outcome(rows.insert_at_most(insert, 10s)) == nullptr));
    BOOST_TEST(rows_of("idle") == 2);
}

BOOST_AUTO_TEST_CASE(whatever_breaks_before_the_commit_is_tried_again) {
    weir::mysql::strict_interval rows(ctx, store, "fire", 1ms);
    int told = 0;
    int unknown = 0;
    int others = 0;
    {
        support::attacker fire([this] { kill_connections(); });
        auto const work = [&]() -> asio::awaitable<void> {
            for (int i = 0; i != 200; ++i) {
                try {
                    co_await rows.insert_at_most("insert into events(name) values('fire')", 30s);
                    ++told;
                    fire.step();
                } catch (boost::system::system_error const& e) {
                    bool const is_commit =
                        std::string(e.what()).find("the commit failed") != std::string::npos;
                    ++(is_commit ? unknown : others);
                    BOOST_TEST_INFO(e.what());
                    BOOST_TEST(is_commit);
                }
            }
        };
        asio::co_spawn(ctx, work(), rethrow);
        run();
    }
    BOOST_TEST(others == 0);
    BOOST_TEST(rows_of("fire") >= told);
    BOOST_TEST(rows_of("fire") <= told + unknown);
    BOOST_TEST(least_gap("fire") >= 1'000);
}

BOOST_AUTO_TEST_CASE(turn_of_a_request_that_left_is_given_back) {
    weir::mysql::strict_interval rows(ctx, store, "left", 1h);
    session.query("insert into weir_bucket values('left', 0, 0, 1)");
    hold_lock_of("left");
    auto const insert = "insert into events(name) values('left')";
    BOOST_TEST((code_of(outcome(rows.insert_at_most(insert, 200ms))) == errc::timed_out));
    session.query("commit");
    BOOST_TEST((outcome(rows.insert_at_most(insert, 10s)) == nullptr));
    BOOST_TEST(rows_of("left") == 1);
}

// Its turn is lost, which delays the next row by the interval.
BOOST_AUTO_TEST_CASE(killed_process_leaves_nothing_and_blocks_no_other) {
    worker victim("mysql_strict_worker/takes_too_long",
                  worker::variables{{"WEIR_SOCKET", server().socket()}});
    while (!an_insertion_sleeps()) {}
    victim.send(SIGKILL);
    BOOST_TEST(victim.numbers(true).empty());
    // The server does not detect its end at once.
    support::kill_others(session, "query", "state = 'User sleep'");
    weir::mysql::strict_interval rows(ctx, store, "killed", interval_of_the_killed);
    BOOST_TEST((outcome(rows.insert_at_most("insert into events(name) values('killed')", 30s)) ==
                nullptr));
    BOOST_TEST(rows_of("killed") == 1);
}

BOOST_AUTO_TEST_CASE(early_request_is_rejected_with_the_time_to_retry) {
    weir::mysql::strict_interval rows(ctx, store, "early", 1h);
    BOOST_TEST(
        (outcome(rows.insert_at_most("insert into events(name) values('early')")) == nullptr));
    auto const second =
        outcome(rows.insert_at_most("insert into events(name) values('early')", 10s));
    BOOST_TEST((code_of(second) == errc::deadline_unreachable));
    try {
        rethrow(second);
    } catch (weir::rejection const& rejection) {
        BOOST_TEST_REQUIRE(rejection.retry_after().has_value());
        BOOST_TEST(*rejection.retry_after() > 50min);
        BOOST_TEST(*rejection.retry_after() <= 1h);
    }
    BOOST_TEST(rows_of("early") == 1);
}

BOOST_AUTO_TEST_CASE(failed_statement_takes_nothing) {
    weir::mysql::strict_interval rows(ctx, store, "failed", 1h);
    session.query("insert into events(name, what) values('before', 'twice')");
    std::vector<weir::mysql::value> values{"failed", "twice"};
    auto const failed = outcome(rows.insert_at_most(insert_default, values, 10s));
    BOOST_TEST(code_of(failed).message() == "er_dup_entry");
    BOOST_TEST(code_of(outcome(rows.insert_at_most("nonsense", 10s))).message() ==
               "er_parse_error");
    values[1] = "once";
    BOOST_TEST((outcome(rows.insert_at_most(insert_default, values, 10s)) == nullptr));
    BOOST_TEST(rows_of("failed") == 1);
}

BOOST_AUTO_TEST_CASE(values_are_bound) {
    session.query("create table if not exists kinds(a bigint, b double, c varchar(30), d bigint)");
    weir::mysql::strict_interval rows(ctx, store, "values", 1h);
    std::vector<weir::mysql::value> values{std::int64_t{-7}, 0.5, "it's", nullptr};
    BOOST_TEST(
        (outcome(rows.insert_at_most("insert into kinds values(?, ?, ?, ?)", values)) == nullptr));
    auto const row = session.query("select * from kinds").at(0);
    BOOST_TEST(row[0] == "-7");
    BOOST_TEST(row[1] == "0.5");
    BOOST_TEST(row[2] == "it's");
    BOOST_TEST(row[3] == "NULL");
}

BOOST_AUTO_TEST_CASE(requests_of_a_process_are_served_in_order) {
    weir::mysql::strict_interval rows(ctx, store, "order", 10ms);
    std::vector<int> served;
    for (int i = 0; i != 5; ++i)
        asio::co_spawn(ctx, rows.insert_at_most("insert into events(name) values('order')"),
                       [&served, i](std::exception_ptr e) {
                           rethrow(e);
                           served.push_back(i);
                       });
    run();
    BOOST_TEST((served == std::vector{0, 1, 2, 3, 4}));
    BOOST_TEST(least_gap("order") >= 10'000);
}

BOOST_AUTO_TEST_CASE(request_cancelled_in_its_transaction_leaves_nothing) {
    weir::mysql::strict_interval rows(ctx, store, "cancelled", 1h);
    asio::cancellation_signal signal;
    std::exception_ptr result;
    auto const finished = [&](std::exception_ptr e) { result = std::move(e); };
    asio::co_spawn(ctx,
                   rows.insert_at_most(
                       "insert into events(name) select 'cancelled' from (select sleep(0.2)) late"),
                   asio::bind_cancellation_slot(signal.slot(), finished));
    ctx.restart();
    while (!an_insertion_sleeps())
        ctx.poll_one();
    signal.emit(asio::cancellation_type::terminal);
    run();
    BOOST_TEST((code_of(result) == asio::error::operation_aborted));
    BOOST_TEST((outcome(rows.insert_at_most("insert into events(name) values('cancelled')", 30s)) ==
                nullptr));
    BOOST_TEST(rows_of("cancelled") == 1);
}

BOOST_AUTO_TEST_CASE(patience_that_ends_is_a_rejection_and_nothing_is_inserted) {
    // Another process has the lock.
    weir::mysql::strict_interval rows(ctx, store, "locked", 1us);
    auto const insert = "insert into events(name) values('locked')";
    BOOST_TEST((outcome(rows.insert_at_most(insert)) == nullptr));
    hold_lock_of("locked");
    auto const barred = outcome(rows.insert_at_most(insert, 200ms));
    BOOST_TEST((code_of(barred) == errc::timed_out));
    BOOST_CHECK_THROW(rethrow(barred), weir::rejection);
    session.query("rollback");
    BOOST_TEST((outcome(rows.insert_at_most(insert, 30s)) == nullptr));
    BOOST_TEST(rows_of("locked") == 2);

    // The statement itself takes too long.
    weir::mysql::strict_interval slow(ctx, store, "slow", 1us);
    auto const late = outcome(slow.insert_at_most(
        "insert into events(name) select 'slow' from (select sleep(60)) late", 300ms));
    BOOST_TEST((code_of(late) == errc::timed_out));
    BOOST_CHECK_THROW(rethrow(late), weir::rejection);
    support::kill_others(session, "query", "state = 'User sleep'");
    BOOST_TEST(
        (outcome(slow.insert_at_most("insert into events(name) values('slow')", 30s)) == nullptr));
    BOOST_TEST(rows_of("slow") == 1);

    // And with a patience of 0, before there is a connection.
    auto const fresh = at(ctx, address());
    weir::mysql::strict_interval hasty(ctx, fresh, "hasty", 1us);
    for (weir::duration const none :
         {weir::duration(0), weir::duration(-1s), weir::duration::min()}) {
        auto const rejected =
            outcome(hasty.insert_at_most("insert into events(name) values('hasty')", none));
        BOOST_TEST((code_of(rejected) == errc::timed_out));
        BOOST_CHECK_THROW(rethrow(rejected), weir::rejection);
    }
    BOOST_TEST(rows_of("hasty") == 0);
}

BOOST_AUTO_TEST_CASE(how_the_server_completes_transactions_does_not_matter) {
    for (std::string const completion : {"CHAIN", "RELEASE"}) {
        session.query("set global completion_type = '" + completion + "'");
        auto const other = at(ctx, address());
        weir::mysql::strict_interval rows(ctx, other, completion, 1us);
        weir::mysql::token_bucket calls(
            ctx, other, "behind " + completion, {.rate = {10, 1s}, .burst = 5, .timeout = 10s});
        BOOST_TEST(
            (outcome(rows.insert_at_most("insert into events(name) values('x')")) == nullptr));
        support::visit const guest(calls, 1, 30s);
        run(guest);
        BOOST_TEST(guest.granted());
        BOOST_TEST(has("behind " + completion));  // visible to others
        BOOST_TEST(calls.shared_stats().questions == 1u);
        session.query("set global completion_type = default");
    }
}

BOOST_AUTO_TEST_CASE(request_that_waits_for_a_lock_is_cancelled_at_once) {
    weir::mysql::strict_interval rows(ctx, store, "patient", 1us);
    auto const insert = "insert into events(name) values('patient')";
    BOOST_TEST((outcome(rows.insert_at_most(insert)) == nullptr));
    hold_lock_of("patient");
    asio::cancellation_signal signal;
    std::exception_ptr result;
    auto const finished = [&](std::exception_ptr e) { result = std::move(e); };
    asio::co_spawn(ctx, rows.insert_at_most(insert),
                   asio::bind_cancellation_slot(signal.slot(), finished));
    ctx.restart();
    while (support::lock_waits(session) == 0)
        ctx.poll_one();
    signal.emit(asio::cancellation_type::terminal);
    ctx.run_for(10s);
    BOOST_TEST_REQUIRE((result != nullptr));
    BOOST_TEST((code_of(result) == asio::error::operation_aborted));
    session.query("rollback");
    BOOST_TEST((outcome(rows.insert_at_most(insert, 30s)) == nullptr));
    BOOST_TEST(rows_of("patient") == 2);
}

BOOST_AUTO_TEST_CASE(short_lock_wait_limit_of_the_server_shortens_no_patience) {
    session.query("set global innodb_lock_wait_timeout = 1");
    auto const other = at(ctx, address());
    weir::mysql::strict_interval rows(ctx, other, "short", 1us);
    auto const insert = "insert into events(name) values('short')";
    BOOST_TEST((outcome(rows.insert_at_most(insert)) == nullptr));
    hold_lock_of("short");
    auto held = session.start("select sleep(2.5)");
    std::optional<std::exception_ptr> result;
    asio::co_spawn(ctx, rows.insert_at_most(insert, 60s),
                   [&](std::exception_ptr e) { result = std::move(e); });
    ctx.restart();
    while (held.wait_for(0s) != std::future_status::ready)
        ctx.run_one_for(10ms);
    session.query("rollback");
    while (!result && ctx.run_one() != 0) {}
    BOOST_TEST_REQUIRE(result.has_value());
    BOOST_TEST((*result == nullptr));
    BOOST_TEST(rows_of("short") == 2);
    session.query("set global innodb_lock_wait_timeout = 1000");
}

BOOST_AUTO_TEST_CASE(clock_set_back_delays_no_request_longer) {
    session.query("replace into weir_bucket values('back', 4000000000000000, 0, 1)");
    weir::mysql::strict_interval rows(ctx, store, "back", 100ms);
    BOOST_TEST(
        (outcome(rows.insert_at_most("insert into events(name) values('back')", 30s)) == nullptr));
    BOOST_TEST(rows_of("back") == 1);
}

BOOST_AUTO_TEST_SUITE_END()
