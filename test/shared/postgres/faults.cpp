#include <weir/postgres/store.hpp>
#include <weir/shared/limiter.hpp>

#include "shared/postgres/place.hpp"
#include "shared/postgres/server.hpp"
#include "support/printing.hpp"
#include "support/two_endpoints.hpp"
#include "support/visit.hpp"

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/test/tree/decorator.hpp>
#include <boost/test/unit_test.hpp>

#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <utility>
#include <vector>

// Errors of a PostgreSQL server, and what the store makes of them.

namespace {

namespace asio = boost::asio;
namespace ut = boost::unit_test;
using namespace std::chrono_literals;
using support::postgres_server;
using support::postgres_session;
using support::rethrow;
using support::visit;
using weir::errc;

bool contains(std::string const& text, std::string const& part) {
    return text.find(part) != text.npos;
}

struct fixture : support::postgres_place {
    using postgres_place::postgres_place;

    // Makes a database, and a role that may log in, if they do not exist.
    std::string database(std::string const& name) {
        if (session.query("select from pg_database where datname = '" + name + "'").empty())
            session.query("create database " + name);
        return name;
    }
    void role(std::string const& name, std::string const& rights) {
        if (session.query("select from pg_roles where rolname = '" + name + "'").empty())
            session.query("create role " + name + " login");
        session.query("grant " + rights + " on weir_bucket, weir_log, weir_seats to " + name);
    }
    std::string at_database(std::string const& name, std::string const& user = "postgres") const {
        auto url = home.url(user);
        return url.replace(url.find("/weir?"), 6, "/" + name + "?");
    }

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
    std::string complaint_of_check(std::string const& url) {
        auto const one = at(ctx, url);
        return complaint(one->check());
    }
    // Asks a store once, and expects that it is misconfigured. Returns the reason.
    std::string misconfigured(std::string const& url) {
        auto open = patient;
        open.on_failure = weir::fail_open();
        weir::postgres::token_bucket calls(ctx, at(ctx, url), "x", open);
        for (int i = 0; i != 2; ++i) {
            visit const guest(calls, 1);
            run(guest);
            BOOST_TEST(guest.rejected(errc::misconfigured));
        }
        BOOST_TEST(calls.shared_stats().outages == 0u);
        BOOST_TEST(calls.shared_stats().unknown == 0u);
        return calls.last_failure().text;
    }
};

// At a separate server.
struct own_server {
    postgres_server server;
    fixture there{server};
    asio::io_context& ctx = there.ctx;
    postgres_session& session = there.session;

    visit ask(weir::postgres::token_bucket& calls, weir::duration patience) {
        visit guest(calls, 1, patience);
        ctx.restart();
        while (guest.waiting() && ctx.run_one() != 0) {}
        return guest;
    }
    std::int64_t connections() {
        return session.number("select count(*) from pg_stat_activity where usename = 'app'");
    }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(postgres_store, fixture, *ut::precondition(support::if_postgres_is_here))

BOOST_AUTO_TEST_CASE(existing_tables_need_no_right_to_create_them) {
    role("plain", "select, insert, update");
    auto const plain = at(ctx, home.url("plain"));
    BOOST_TEST(complaint(plain->install()) == "");
    BOOST_TEST(complaint(plain->check("x")) == "");

    // Missing tables need a user with the right to create them.
    auto const bare = at(ctx, at_database(database("bare"), "plain"));
    auto const why = complaint(bare->install());
    BOOST_TEST(contains(why, "permission denied for schema public"), why);
}

BOOST_AUTO_TEST_CASE(table_of_another_version_is_found_when_it_is_installed_and_checked) {
    auto const url = at_database(database("old"));
    postgres_session(home, "postgres", "old")
        .query("create table if not exists weir_bucket(k bytea primary key, at bigint not null, "
               "level bigint not null)");
    auto const old = at(ctx, url);
    for (auto const& why : {complaint(old->install()), complaint(old->check())}) {
        BOOST_TEST(contains(why, "the table weir_bucket is of another version"), why);
        BOOST_TEST(contains(why, "column \"permit\" does not exist"), why);
        BOOST_TEST(contains(why, "(PostgreSQL "), why);
    }
}

BOOST_AUTO_TEST_CASE(stores_may_install_at_the_same_time) {
    auto const url = at_database(database("racy"));
    std::vector<std::shared_ptr<weir::postgres::store>> many;
    for (int i = 0; i != 8; ++i) {
        many.push_back(at(ctx, url));
        asio::co_spawn(ctx, many.back()->install(), rethrow);
    }
    BOOST_CHECK_NO_THROW(run());
}

BOOST_AUTO_TEST_CASE(check_detects_what_a_limiter_would_lack) {
    BOOST_TEST(complaint(store->check("x")) == "");
    role("looker", "select, insert");
    auto const why = complaint_of_check(home.url("looker"));
    BOOST_TEST(contains(why, "permission denied for table weir_bucket"), why);
    session.query("insert into weir_seats values('strange', 0, 'something')");
    auto const strange = complaint(store->check("strange"));
    BOOST_TEST(contains(strange, "the row strange of weir_seats holds no seats"), strange);
}

BOOST_AUTO_TEST_CASE(deleted_row_that_still_mattered_is_counted) {
    weir::postgres::token_bucket calls(
        ctx, store, "deleted", {.rate = {1, 1h}, .burst = 2, .timeout = 10s});
    visit const one(calls, 1);
    run(one);
    session.query("delete from weir_bucket where k = 'deleted'");
    visit const other(calls, 1);
    run(other);
    BOOST_TEST(other.granted());
    BOOST_TEST(calls.shared_stats().losses == 1u);
}

BOOST_AUTO_TEST_CASE(time_of_a_grant_is_that_of_the_server) {
    weir::postgres::token_bucket calls(ctx, store, "first", patient);
    visit const guest(calls, 2);
    run(guest);
    BOOST_TEST(guest.granted());
    auto const now =
        session.number("select (extract(epoch from clock_timestamp()) * 1000000)::bigint");
    auto const rows = session.query("select at, level, permit from weir_bucket where k = 'first'");
    BOOST_TEST_REQUIRE(rows.size() == 1u);
    BOOST_TEST(rows[0][0] == std::to_string(guest.seat().id()));
    BOOST_TEST(rows[0][1] == "200000");
    BOOST_TEST(rows[0][2] == "100000");
    BOOST_TEST(static_cast<std::int64_t>(guest.seat().id()) <= now);
}

// A question that waited for another one must not use the clock from before the wait.
BOOST_AUTO_TEST_CASE(clock_is_read_after_the_row_was_locked) {
    weir::postgres::token_bucket calls(
        ctx, store, "waited", {.rate = {10, 1s}, .burst = 1, .timeout = 10s});
    visit const first(calls, 1);
    run(first);
    session.query("begin");
    session.query("update weir_bucket set at = at where k = 'waited'");
    visit const next(calls, 1, 30s);
    postgres_session watcher(home);
    ctx.restart();
    while (watcher.number("select count(*) from pg_stat_activity where wait_event_type = 'Lock'") ==
           0)
        ctx.run_one_for(1ms);
    session.query(
        "update weir_bucket set at = (extract(epoch from clock_timestamp()) * 1000000)::bigint "
        "where k = 'waited'");
    auto const renewed = session.number("select at from weir_bucket where k = 'waited'");
    session.query("commit");
    run(next);
    BOOST_TEST(next.granted());
    BOOST_TEST(static_cast<std::int64_t>(next.seat().id()) >= renewed + 100'000);
}

BOOST_AUTO_TEST_CASE(denied_question_writes_nothing_and_waits_for_no_lock) {
    weir::shared_options const once{.rate = {1, 24h}, .burst = 1, .timeout = 10s};
    weir::postgres::token_bucket here(ctx, store, "denied", once);
    weir::postgres::token_bucket there(ctx, connect(ctx), "denied", once);
    visit const first(here, 1);
    run(first);
    BOOST_TEST(first.granted());
    auto const version = session.value_of("select xmin from weir_bucket where k = 'denied'");
    session.query("begin");
    session.query("select from weir_bucket where k = 'denied' for update");
    visit const next(there, 1, 60s);
    run(next);
    BOOST_TEST(next.rejected(errc::deadline_unreachable));
    session.query("rollback");
    BOOST_TEST(session.value_of("select xmin from weir_bucket where k = 'denied'") == version);
}

BOOST_AUTO_TEST_CASE(nothing_is_granted_after_the_timeout_of_a_lock_wait) {
    weir::shared_options const options{.rate = {10, 1s}, .burst = 5, .timeout = 50ms};
    weir::postgres::token_bucket calls(ctx, store, "locked", options);
    weir::postgres::token_bucket calm(ctx, store, "locked", patient);  // on a busy machine, too
    visit const first(calm, 1, 30s);
    run(first);
    auto const before = session.value_of("select at from weir_bucket where k = 'locked'");
    session.query("begin");
    session.query("select from weir_bucket where k = 'locked' for update");
    visit const hasty(calls, 1, 20ms);
    run(hasty);
    BOOST_TEST(hasty.rejected(errc::timed_out));
    run();                                     // until the question has ended
    support::wait_for_lock_waits(session, 0);  // the server has given it up
    session.query("rollback");
    BOOST_TEST(session.value_of("select at from weir_bucket where k = 'locked'") == before);
    visit const next(calm, 1, 30s);
    run(next);
    BOOST_TEST(next.granted());
}

BOOST_AUTO_TEST_CASE(closed_idle_connection_is_replaced_and_nothing_is_unknown) {
    weir::postgres::token_bucket calls(ctx, store, "killed", patient);
    visit const first(calls, 1, 30s);
    run(first);
    support::end_connections(session, "app");
    while (session.number("select count(*) from pg_stat_activity where usename = 'app'") != 0) {}
    visit const next(calls, 1, 30s);
    run(next);
    BOOST_TEST(next.granted());
    BOOST_TEST(calls.shared_stats().unknown == 0u);
}

BOOST_AUTO_TEST_CASE(missing_table_is_misconfigured_and_the_error_names_it) {
    auto const url = at_database(database("empty"));
    BOOST_TEST(misconfigured(url) == "relation \"weir_bucket\" does not exist");
    weir::postgres::token_bucket calls(ctx, at(ctx, url), "x", patient);
    visit const guest(calls, 1);
    run(guest);
    BOOST_TEST(weir::postgres::sqlstate_of(calls.last_failure().error) == "42P01");
}

BOOST_AUTO_TEST_CASE(unknown_user_or_database_and_missing_privilege_are_misconfigured) {
    auto const stranger = misconfigured(home.url("stranger"));
    BOOST_TEST(contains(stranger, "role \"stranger\" does not exist"), stranger);
    auto const nowhere = misconfigured(at_database("nowhere"));
    BOOST_TEST(contains(nowhere, "database \"nowhere\" does not exist"), nowhere);
    role("reader", "select");
    BOOST_TEST(misconfigured(home.url("reader")) == "permission denied for table weir_bucket");
}

BOOST_AUTO_TEST_CASE(wrong_password_is_misconfigured_and_in_no_message) {
    role("guest", "select, insert, update");
    session.query("alter role guest password 'correct'");
    for (std::string const password : {"correct", "horse"}) {
        auto const url = home.url_over_tcp("guest:" + password);
        if (password == "correct") {
            BOOST_TEST(complaint_of_check(url) == "");
            continue;
        }
        auto const why = misconfigured(url);
        BOOST_TEST(contains(why, "password authentication failed for user \"guest\""), why);
        BOOST_TEST(!contains(why, "horse"), why);
    }
}

BOOST_AUTO_TEST_CASE(read_only_server_is_unavailable_and_another_host_is_used) {
    auto const read_only = database("read_only");
    session.query("alter database read_only set default_transaction_read_only = on");
    weir::postgres::token_bucket calls(ctx, at(ctx, at_database(read_only)), "x", patient);
    visit const guest(calls, 1);
    run(guest);
    BOOST_TEST(guest.rejected(errc::unavailable));
    BOOST_TEST(contains(calls.last_failure().text, "session is read-only"),
               calls.last_failure().text);

    // The store uses the first of several hosts that answers; no server listens at the first port.
    support::reserved_port const closed;
    auto const several = "postgresql://app@127.0.0.1:" + std::to_string(closed.number()) +
                         ",127.0.0.1:" + std::to_string(home.port()) + "/weir";
    weir::postgres::token_bucket there(ctx, at(ctx, several), "several", patient);
    visit const next(there, 1);
    run(next);
    BOOST_TEST(next.granted());
}

BOOST_AUTO_TEST_CASE(silent_address_leaves_time_for_the_next_one) {
    support::black_hole const hole(ctx, support::first_of_two, home.port());
    bool is_connected = false;
    for (auto time = 1s; !is_connected && time < 20s; time *= 2) {  // a busy machine needs longer
        auto const remote = std::make_shared<weir::postgres::store>(
            ctx, weir::postgres::options{
                     .url = "postgresql://app@" + std::string(support::host_of_two) + ":" +
                            std::to_string(home.port()) + "/weir?sslmode=disable",
                     .connect_timeout = time});
        asio::co_spawn(ctx, remote->check(), [&](auto failed) { is_connected = !failed; });
        run();
    }
    BOOST_TEST(is_connected);
}

BOOST_AUTO_TEST_CASE(more_limiters_than_connections_wait_for_one) {
    auto const narrow = std::make_shared<weir::postgres::store>(
        ctx, weir::postgres::options{.url = address(), .max_connections = 2});
    std::vector<std::unique_ptr<weir::postgres::token_bucket>> limiters;
    std::vector<visit> guests;
    for (int i = 0; i != 20; ++i) {
        limiters.push_back(std::make_unique<weir::postgres::token_bucket>(
            ctx, narrow, "narrow" + std::to_string(i), patient));
        guests.emplace_back(*limiters.back(), 1);
    }
    run();
    for (auto const& g : guests)
        BOOST_TEST(g.granted());
}

BOOST_AUTO_TEST_CASE(concurrent_first_questions_get_one_grant_per_name) {
    auto const many = std::make_shared<weir::postgres::store>(
        ctx, weir::postgres::options{.url = address(), .max_connections = 16});
    weir::shared_options const once{.rate = {1, 24h}, .burst = 1, .timeout = 10s};
    for (int key = 0; key != 60; ++key) {
        std::vector<std::unique_ptr<weir::postgres::token_bucket>> racers;
        std::vector<visit> guests;
        for (int i = 0; i != 16; ++i) {
            racers.push_back(std::make_unique<weir::postgres::token_bucket>(
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

BOOST_AUTO_TEST_SUITE(postgres_faults, *ut::precondition(support::if_postgres_is_here))

BOOST_AUTO_TEST_CASE(no_request_waits_for_a_stopped_server) {
    own_server own;
    weir::shared_options const options{.rate = {10, 1s}, .burst = 5, .timeout = 2s};
    weir::postgres::token_bucket calls(own.ctx, own.there.store, "calls", options);
    own.server.send(SIGSTOP);
    auto const guest = own.ask(calls, 20ms);
    BOOST_TEST(guest.rejected(errc::timed_out));
    BOOST_TEST(calls.shared_stats().granted == 0);
    own.server.send(SIGCONT);
    BOOST_TEST(own.ask(calls, 30s).granted());
}

BOOST_AUTO_TEST_CASE(server_at_its_connection_limit_is_unavailable_until_it_accepts_again) {
    own_server own;
    while (own.connections() != 0) {}
    own.session.query("alter role app connection limit 0");
    weir::shared_options const options{.rate = {10, 1s}, .burst = 5, .timeout = 10s};
    weir::postgres::token_bucket calls(own.ctx, own.there.store, "calls", options);
    BOOST_TEST(own.ask(calls, 30s).rejected(errc::unavailable));
    own.there.run();  // until the last question has ended
    BOOST_TEST(weir::postgres::sqlstate_of(calls.last_failure().error) == "53300");
    BOOST_TEST(calls.shared_stats().unknown == 0u);
    own.session.query("alter role app connection limit -1");
    for (;;) {
        auto const guest = own.ask(calls, 30s);
        if (guest.granted())
            break;
        BOOST_TEST_REQUIRE(guest.rejected(errc::unavailable));
    }
}

BOOST_AUTO_TEST_CASE(defaults_of_new_sessions_change_nothing) {
    own_server own;
    for (std::string const setting :
         {"default_transaction_isolation = 'serializable'", "timezone = 'Asia/Kolkata'",
          "bytea_output = 'escape'", "datestyle = 'SQL, DMY'", "lock_timeout = 1",
          "enable_indexscan = off", "client_encoding = 'LATIN1'", "transform_null_equals = on"}) {
        BOOST_TEST_CONTEXT(setting) {
            own.session.query("alter role app set " + setting);
            auto const another = own.there.at(own.ctx, own.there.address());
            weir::shared_options const three{.rate = {3, 1h}, .timeout = 10s};
            weir::postgres::token_bucket calls(own.ctx, another, "calls " + setting, three);
            weir::postgres::sliding_log quota(own.ctx, another, "quota " + setting, three);
            weir::postgres::seats seats(
                own.ctx, another, "seats " + setting, {.seats = 3, .lease = 60s, .timeout = 10s});
            auto const ask = [&](auto& limiter) {
                std::vector<visit> guests(5);
                for (std::size_t i = 0; i != guests.size(); ++i) {
                    auto const& guest = guests[i];
                    limiter.async_enter(1, i < 3 ? weir::duration(30s) : 100ms, guest.callback());
                    own.ctx.restart();
                    while (guest.waiting() && own.ctx.run_one() != 0) {}
                }
                BOOST_TEST(std::ranges::count_if(guests, &visit::granted) == 3);
                BOOST_TEST(limiter.shared_stats().failed + limiter.shared_stats().unknown == 0u);
            };
            ask(calls);
            ask(quota);
            ask(seats);
            own.session.query("alter role app reset all");
        }
    }
}

BOOST_AUTO_TEST_CASE(installing_at_a_silent_server_takes_no_longer_than_connecting) {
    asio::io_context ctx;
    asio::ip::tcp::acceptor const silent(
        ctx, asio::ip::tcp::endpoint(asio::ip::address_v4::loopback(), 0));
    weir::postgres::options const where{
        .url = "postgresql://app@127.0.0.1:" + std::to_string(silent.local_endpoint().port()) +
               "/weir",
        .connect_timeout = 100ms};
    auto const store = std::make_shared<weir::postgres::store>(ctx, where);
    std::exception_ptr result;
    asio::co_spawn(ctx, store->install(),
                   [&](std::exception_ptr failure) { result = std::move(failure); });
    ctx.run_for(20s);
    BOOST_TEST_REQUIRE((result != nullptr));
    BOOST_CHECK_EXCEPTION(rethrow(result), boost::system::system_error, [](auto const& e) {
        return e.code() == asio::error::timed_out;
    });
}

BOOST_AUTO_TEST_SUITE_END()
