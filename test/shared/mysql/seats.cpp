#include <weir/mysql/store.hpp>
#include <weir/shared/seats.hpp>

#include "shared/mysql/place.hpp"

namespace {
using place = support::mysql_place;
}

#include "shared/seats/tests.hpp"

BOOST_FIXTURE_TEST_SUITE(mysql_seats, support::seats_place,
                         *boost::unit_test::precondition(place::if_here))

// The connection ends between the question and its reply.
BOOST_AUTO_TEST_CASE(question_with_a_lost_reply_is_repeated_and_takes_nothing_twice) {
    weir::shared_seats kitchen(ctx, store, "lost", long_seats(2));
    visit const first(kitchen);
    run(first);
    session.query("start transaction");
    session.query("select * from weir_seats where k = 'lost' for update");
    visit const next(kitchen);
    support::sql_session other(home.socket());
    ctx.restart();
    while (support::lock_waits(other) == 0)
        ctx.run_one_for(1ms);
    support::kill_others(other, "connection", "info like 'update weir_seats%'");
    session.query("rollback");
    run(next);
    BOOST_TEST(next.granted());
    BOOST_TEST(kitchen.shared_stats().unknown == 1u);
    BOOST_TEST(!first.seat().lost());
    BOOST_TEST(held("lost") == 2);
}

BOOST_AUTO_TEST_CASE(invalid_text_in_the_row_is_an_error) {
    session.query("insert into weir_seats values('odd', 0, 'something')");
    weir::shared_seats kitchen(ctx, store, "odd", long_seats(1));
    visit const guest(kitchen);
    run(guest);
    BOOST_TEST(guest.rejected(weir::errc::misconfigured));
    BOOST_TEST(kitchen.last_failure().error.failed());
    BOOST_TEST(kitchen.last_failure().text == "the row of the limiter holds no seats");
    BOOST_TEST(kitchen.shared_stats().unknown == 0u);
}

BOOST_AUTO_TEST_SUITE_END()
