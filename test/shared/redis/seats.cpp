#include <weir/redis/store.hpp>
#include <weir/shared/seats.hpp>

#include "shared/redis/place.hpp"

namespace {
using place = support::redis_place;
}

#include "shared/seats/tests.hpp"

BOOST_FIXTURE_TEST_SUITE(redis_seats, support::seats_place,
                         *boost::unit_test::precondition(place::if_here))

BOOST_AUTO_TEST_CASE(permit_is_lost_when_everything_was_flushed) {
    weir::shared_seats kitchen(ctx, store, "flushed", short_seats(1));
    visit const before(kitchen);
    run(before);
    auto const fence = before.seat().id();
    support::redis_session(home).say({"FLUSHALL", "SYNC"});
    weir::shared_seats there(ctx, connect(ctx), "flushed", short_seats(1));
    visit const after(there);
    run(after);
    BOOST_TEST(after.granted());
    BOOST_TEST(after.seat().id() > fence);
    bool is_told = false;
    kitchen.async_wait_lost(before.seat(), [&](weir::error_code ec) { is_told = !ec; });
    while (!is_told)
        ctx.run_one();
    BOOST_TEST(before.seat().lost());
    BOOST_TEST(!after.seat().lost());
    BOOST_TEST(held("flushed") == 1);
}

BOOST_AUTO_TEST_CASE(killed_connection_takes_nothing_twice) {
    weir::shared_seats kitchen(ctx, store, "killed", long_seats(2));
    visit const first(kitchen);
    run(first);
    support::redis_session(home).say({"CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"});
    visit const next(kitchen);
    run(next);
    BOOST_TEST(next.granted());
    BOOST_TEST(!first.seat().lost());
    BOOST_TEST(held("killed") == 2);
}

BOOST_AUTO_TEST_CASE(stopped_server_grants_once_although_the_question_is_repeated) {
    weir::shared_seats_options options = long_seats(2);
    options.timeout = 50ms;
    weir::shared_seats kitchen(ctx, store, "still", options);
    visit const first(kitchen, 1, 30s);
    run(first);
    home.send(SIGSTOP);
    visit const next(kitchen, 1, 30s);
    ctx.restart();
    while (kitchen.shared_stats().unknown + kitchen.shared_stats().failed < 2)
        ctx.run_one();
    home.send(SIGCONT);
    run(next);
    BOOST_TEST(next.granted());
    BOOST_TEST(!first.seat().lost());
    BOOST_TEST(held("still") == 2);
}

BOOST_AUTO_TEST_CASE(restart_of_a_server_without_persistence_loses_held_seats) {
    support::redis_server mortal;
    place there(mortal);
    weir::shared_seats kitchen(there.ctx, there.store, "kitchen", long_seats(2));
    visit const before(kitchen);
    there.run(before);
    mortal.send(SIGKILL);
    mortal.restart();
    visit const after(kitchen, 1, 30s);
    there.run(after);
    BOOST_TEST(after.granted());
    BOOST_TEST(before.seat().lost());
    BOOST_TEST(after.seat().id() != before.seat().id());
    before.leave();
    after.leave();
    there.run();
}

BOOST_AUTO_TEST_SUITE_END()
