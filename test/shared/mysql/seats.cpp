#include <weir/mysql/engine.hpp>

#include "shared/mysql/engine_fixture.hpp"
#include "shared/mysql/server.hpp"
#include "shared/mysql/sql.hpp"
#include "shared/seats/processes.hpp"
#include "support/printing.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/test/tree/decorator.hpp>
#include <boost/test/unit_test.hpp>

#include <signal.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

namespace {

namespace asio = boost::asio;
namespace ut = boost::unit_test;
using namespace std::chrono_literals;
using support::run_until_over;
using support::visit;
using support::worker;

struct place : support::engine_fixture, support::seats_place {
    std::shared_ptr<weir::engine> connect(asio::io_context& where) override {
        return std::make_shared<weir::mysql::engine>(where, support::login());
    }
    record look(std::string const& name) override {
        auto const rows = session.query(
            "select timestampdiff(microsecond, '1970-01-01', utc_timestamp(6)), "
            "convert(state using utf8mb4) from "
            "weir_seats where k = '" +
            name + "'");
        if (rows.empty())
            return {};
        auto const ledger = weir::detail::seat_ledger::parse(rows[0][1]);
        BOOST_TEST_REQUIRE(ledger.has_value());
        return {std::stoll(rows[0][0]), *ledger};
    }
    std::string suite() const override { return "mysql_seats_worker"; }
    std::string address() const override { return support::server().socket(); }
};

std::shared_ptr<weir::engine> engine_of_worker(asio::io_context& ctx) {
    return std::make_shared<weir::mysql::engine>(
        ctx, weir::mysql::options{
                 .socket = worker::told("WEIR_ADDRESS"), .user = "root", .database = "weir"});
}

}  // namespace

BOOST_AUTO_TEST_SUITE(mysql_seats_worker, *ut::disabled())

BOOST_AUTO_TEST_CASE(sits_and_stands) {
    asio::io_context ctx;
    support::sit_and_stand(engine_of_worker(ctx), ctx);
}

BOOST_AUTO_TEST_CASE(sits_until_lost) {
    asio::io_context ctx;
    support::sit_until_lost(engine_of_worker(ctx), ctx);
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_FIXTURE_TEST_SUITE(mysql_seats, place, *ut::precondition(support::if_mariadb_is_here))

BOOST_AUTO_TEST_CASE(seats_are_taken_and_given_back) {
    support::check_that_seats_are_taken_and_given_back(*this);
}

BOOST_AUTO_TEST_CASE(many_begin_together) {
    support::check_that_many_begin_together(*this);
}

BOOST_AUTO_TEST_CASE(all_together_keep_to_the_seats) {
    support::check_that_all_together_keep_to_the_seats(*this);
}

BOOST_AUTO_TEST_CASE(seats_of_the_dead_come_back_after_the_lease) {
    support::check_that_seats_of_the_dead_come_back_after_the_lease(*this);
}

BOOST_AUTO_TEST_CASE(one_that_was_stopped_learns_that_it_has_lost) {
    support::check_that_one_that_was_stopped_learns_that_it_has_lost(*this);
}

BOOST_AUTO_TEST_CASE(clocks_of_clients_do_not_matter) {
    support::check_that_clocks_of_clients_do_not_matter(*this);
}

// The connection ends between the question and its answer.
BOOST_AUTO_TEST_CASE(question_whose_answer_is_lost_is_asked_again_and_takes_nothing_twice) {
    weir::mysql::seats kitchen(ctx, engine, "lost", support::long_seats(2));
    visit const first(kitchen);
    run_until_over(ctx, first);
    session.query("start transaction");
    session.query("select * from weir_seats where k = 'lost' for update");
    visit const next(kitchen);
    support::sql_session other(support::server().socket());
    ctx.restart();
    while (support::lock_waits(other) == 0)
        ctx.run_one_for(1ms);
    support::kill_others(other, "connection", "info like 'update weir_seats%'");
    session.query("rollback");
    run_until_over(ctx, next);
    BOOST_TEST(next.granted());
    BOOST_TEST(kitchen.shared_stats().unknown == 1u);
    BOOST_TEST(!first.seat().lost());
    BOOST_TEST(held("lost") == 2);
}

BOOST_AUTO_TEST_CASE(something_else_in_the_row_is_an_error) {
    session.query("insert into weir_seats values('odd', 0, 'something')");
    weir::mysql::seats kitchen(ctx, engine, "odd", support::long_seats(1));
    visit const guest(kitchen);
    run_until_over(ctx, guest);
    BOOST_TEST(guest.refused(weir::errc::unavailable));
    BOOST_TEST(kitchen.last_failure().failed());
    BOOST_TEST(kitchen.shared_stats().unknown == 0u);
}

BOOST_AUTO_TEST_CASE(server_that_was_killed_has_forgotten_nothing) {
    support::mariadb_server mortal;
    weir::mysql::options const where{.socket = mortal.socket(), .user = "root", .database = "weir"};
    auto const own = std::make_shared<weir::mysql::engine>(ctx, where);
    asio::co_spawn(ctx, own->install(), support::rethrow);
    run();
    weir::mysql::seats kitchen(ctx, own, "kitchen", support::long_seats(2));
    visit const before(kitchen);
    run_until_over(ctx, before);
    mortal.send(SIGKILL);
    mortal.restart();
    visit const after(kitchen, 1, 30s);
    run_until_over(ctx, after);
    BOOST_TEST(after.granted());
    BOOST_TEST(!before.seat().lost());
    BOOST_TEST(after.seat().id() == before.seat().id());
    before.leave();
    after.leave();
    run();
}

BOOST_AUTO_TEST_SUITE_END()
