#include <weir/any_limiter.hpp>

#include "support/virtual_limiters.hpp"
#include "support/visit.hpp"
#include "support/watch.hpp"

#include <boost/test/unit_test.hpp>

#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

using namespace support;
using weir::errc;
using weir::error_code;
using weir::limiter_config;

using any_limiter = weir::testing::limiter<weir::any_limiter>;

BOOST_AUTO_TEST_SUITE(limiter_chosen_at_run_time)

BOOST_AUTO_TEST_CASE(is_created_from_text_and_formats_as_text) {
    asio::io_context ctx;
    for (std::string const text :
         {"3 seats", "10/1min", "10/1min sliding", "10/1min fixed", "9/month", "100/1s burst 20",
          "100/1s bucket", "100/1s leaky", "5/1s bursty", "5/1s warming", "3 seats & 10/1s"}) {
        any_limiter door{ctx, limiter_config::parse(text)};
        BOOST_TEST(to_string(door.options()) == text);
        auto const granted = door.try_enter();
        BOOST_TEST(bool(granted));
    }
    BOOST_CHECK_THROW(any_limiter(ctx, limiter_config::parse("0 seats")), std::invalid_argument);
}

BOOST_AUTO_TEST_CASE(accepts_options_of_every_kind) {
    asio::io_context ctx;
    any_limiter kitchen{ctx, weir::seats_options{.seats = 2}};
    auto const both = kitchen.try_enter(2);
    visit guest{kitchen, 1s};
    run_for(ctx, 2s);
    BOOST_TEST(guest.rejected(errc::timed_out));

    any_limiter printer{ctx, weir::sliding_log_options{.limit = 1, .window = 10s}};
    auto const page = printer.try_enter();
    visit next{printer};
    run_for(ctx, 10s);
    BOOST_TEST(next.granted());
    BOOST_TEST(next.seat().waited() == 10s);
}

BOOST_AUTO_TEST_CASE(enforces_several_limits_at_once) {
    asio::io_context ctx;
    any_limiter calls{ctx, limiter_config::parse("2/1s & 3/10s")};
    auto const start = clock::now();
    std::vector<std::unique_ptr<visit>> guests;
    for (int i = 0; i != 5; ++i)
        guests.push_back(std::make_unique<visit>(calls));
    run_for(ctx, 20s);
    std::vector<weir::duration> const expected{0s, 0s, 1s, 10s, 10s};
    for (std::size_t i = 0; i != guests.size(); ++i) {
        BOOST_TEST(guests[i]->granted());
        BOOST_TEST((guests[i]->seat().waited() == expected[i]));
    }
    BOOST_TEST((clock::now() - start) == 20s);
}

BOOST_AUTO_TEST_CASE(can_change_during_use) {
    asio::io_context ctx;
    any_limiter kitchen{ctx, limiter_config::parse("1 seats")};
    auto const seat = kitchen.try_enter();
    visit guest{kitchen};
    settle(ctx);
    BOOST_TEST(guest.waiting());
    BOOST_CHECK_THROW(kitchen.configure(limiter_config::parse("9/1s exact")),
                      std::invalid_argument);
    settle(ctx);
    BOOST_TEST(guest.waiting());
    kitchen.configure(limiter_config::parse("2 seats"));
    settle(ctx);
    BOOST_TEST(guest.granted());
}

BOOST_AUTO_TEST_CASE(reports_permits_held_too_long) {
    asio::io_context ctx;
    any_limiter kitchen{ctx, limiter_config::parse("3 seats max_hold 30s")};
    watch const watched(kitchen);
    auto const seat = kitchen.try_enter(2);
    run_for(ctx, 29s);
    BOOST_TEST(watched.reports().empty());
    run_for(ctx, 2s);
    BOOST_TEST_REQUIRE(watched.reports().size() == 1U);
    BOOST_TEST(watched.reports()[0].found.id == seat.id());
    BOOST_TEST(watched.reports()[0].found.count == 2);
    BOOST_TEST(kitchen.stats().overdue == 1U);
}

BOOST_AUTO_TEST_CASE(has_no_reports_if_its_rule_has_no_max_hold) {
    asio::io_context ctx;
    any_limiter calls{ctx, limiter_config::parse("10/1min exact")};
    watch const watched(calls);
    auto const call = calls.try_enter(2);
    run_for(ctx, 24h);
    BOOST_TEST(watched.reports().empty());
    BOOST_TEST(!watched.end());
    BOOST_TEST((weir::testing::next_expiry(ctx) == clock::time_point::max()));
    calls.cancel();
    settle(ctx);
    BOOST_TEST((watched.end() == error_code(asio::error::operation_aborted)));
}

BOOST_AUTO_TEST_SUITE_END()
