#include <weir/redis/engine.hpp>

#include "shared/redis/server.hpp"
#include "shared/seats/processes.hpp"
#include "support/printing.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/test/tree/decorator.hpp>
#include <boost/test/unit_test.hpp>

#include <signal.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

namespace {

namespace asio = boost::asio;
namespace ut = boost::unit_test;
using namespace std::chrono_literals;
using support::run_until_over;
using support::visit;
using support::worker;

support::redis_server& server() {
    static support::redis_server one;
    return one;
}

std::shared_ptr<weir::redis::engine> engine_at(asio::io_context& ctx, std::string url) {
    weir::redis::options const where{
        .url = std::move(url), .connect_within = 10s, .silent_for = 10s};
    return std::make_shared<weir::redis::engine>(ctx, where);
}

struct place : support::seats_place {
    asio::io_context ctx;
    support::redis_session session{server()};
    std::shared_ptr<weir::redis::engine> engine = engine_at(ctx, address());

    std::shared_ptr<weir::engine> connect(asio::io_context& where) override {
        return engine_at(where, address());
    }
    record look(std::string const& name) override {
        auto const clock = session.numbers({"TIME"});
        auto const text = session.say({"GET", "{weir:" + name + "}:seats"});
        record found{.now = clock[0] * 1'000'000 + clock[1], .ledger = {}};
        if (text == "(nil)")
            return found;
        auto const ledger = weir::detail::seat_ledger::parse(text);
        BOOST_TEST_REQUIRE(ledger.has_value());
        found.ledger = *ledger;
        return found;
    }
    std::string suite() const override { return "redis_seats_worker"; }
    std::string address() const override { return server().url(); }
};

}  // namespace

BOOST_AUTO_TEST_SUITE(redis_seats_worker, *ut::disabled())

BOOST_AUTO_TEST_CASE(sits_and_stands) {
    asio::io_context ctx;
    support::sit_and_stand(engine_at(ctx, worker::told("WEIR_ADDRESS")), ctx);
}

BOOST_AUTO_TEST_CASE(sits_until_lost) {
    asio::io_context ctx;
    support::sit_until_lost(engine_at(ctx, worker::told("WEIR_ADDRESS")), ctx);
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_FIXTURE_TEST_SUITE(redis_seats, place, *ut::precondition(support::if_redis_is_here))

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

BOOST_AUTO_TEST_CASE(permit_is_lost_when_everything_was_flushed) {
    weir::redis::seats here(ctx, engine, "flushed", support::short_seats(1));
    visit const before(here);
    run_until_over(ctx, before);
    auto const fence = before.seat().id();
    session.say({"FLUSHALL", "SYNC"});
    weir::redis::seats there(ctx, connect(ctx), "flushed", support::short_seats(1));
    visit const after(there);
    run_until_over(ctx, after);
    BOOST_TEST(after.granted());
    BOOST_TEST(after.seat().id() > fence);
    bool is_told = false;
    here.async_wait_lost(before.seat(), [&](weir::error_code ec) { is_told = !ec; });
    while (!is_told)
        ctx.run_one();
    BOOST_TEST(before.seat().lost());
    BOOST_TEST(!after.seat().lost());
    BOOST_TEST(held("flushed") == 1);
}

BOOST_AUTO_TEST_CASE(connection_that_was_killed_takes_nothing_twice) {
    weir::redis::seats kitchen(ctx, engine, "killed", support::long_seats(2));
    visit const first(kitchen);
    run_until_over(ctx, first);
    session.say({"CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"});
    visit const next(kitchen);
    run_until_over(ctx, next);
    BOOST_TEST(next.granted());
    BOOST_TEST(!first.seat().lost());
    BOOST_TEST(held("killed") == 2);
}

BOOST_AUTO_TEST_CASE(server_that_stands_still_grants_once_although_it_is_asked_again) {
    weir::shared_seats_options options = support::long_seats(2);
    options.deadline = 50ms;
    weir::redis::seats kitchen(ctx, engine, "still", options);
    visit const first(kitchen, 1, 30s);
    run_until_over(ctx, first);
    server().send(SIGSTOP);
    visit const next(kitchen, 1, 30s);
    ctx.restart();
    while (kitchen.shared_stats().unknown + kitchen.shared_stats().failed < 2)
        ctx.run_one();
    server().send(SIGCONT);
    run_until_over(ctx, next);
    BOOST_TEST(next.granted());
    BOOST_TEST(!first.seat().lost());
    BOOST_TEST(held("still") == 2);
}

BOOST_AUTO_TEST_CASE(restart_keeps_what_was_saved_and_loses_what_was_not) {
    for (bool const saves : {true, false}) {
        support::redis_server mortal(
            saves ? std::vector<std::string>{"--appendonly", "yes", "--appendfsync", "always"}
                  : std::vector<std::string>{});
        auto const own = engine_at(ctx, mortal.url());
        weir::redis::seats kitchen(ctx, own, "kitchen", support::long_seats(2));
        visit const before(kitchen);
        run_until_over(ctx, before);
        mortal.send(SIGKILL);
        mortal.restart();
        visit const after(kitchen, 1, 30s);  // its question goes on with the holding
        run_until_over(ctx, after);
        BOOST_TEST(after.granted());
        BOOST_TEST(before.seat().lost() == !saves);
        BOOST_TEST((after.seat().id() == before.seat().id()) == saves);
        before.leave();
        after.leave();
        ctx.restart();
        ctx.run();
    }
}

BOOST_AUTO_TEST_SUITE_END()
