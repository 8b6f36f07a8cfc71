#include <weir/rate_tree.hpp>
#include <weir/testing.hpp>

#include "support/printing.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/test/unit_test.hpp>

#include <chrono>
#include <utility>

namespace asio = boost::asio;
using namespace std::chrono_literals;
using weir::errc;
using weir::error_code;
using weir::permit;
using weir::rate_tree_options;
using weir::testing::run_for;

BOOST_AUTO_TEST_SUITE(rate_tree_limiter_turns)

// The first request of a leaf is found to be too late only when it could be granted. The next one is smaller, so a lower
// node can lend to it.
BOOST_AUTO_TEST_CASE(a_request_behind_one_that_is_too_late_borrows_from_the_lowest_lender) {
    asio::io_context ctx;
    weir::testing::rate_tree tree(
        ctx,
        rate_tree_options::parse("tree / 100/1s burst 26, /a 100/1s burst 24, "
                                 "/a/b 10/1s burst 4, /a/b/c most 1000/1s burst 6, "
                                 "/a/d 90/1s burst 12"),
        {.tolerance = 1s});
    auto const lent = tree.try_enter({"a", "b", "c"}, 6);  // leaves 2 permits that /a can lend
    BOOST_TEST_REQUIRE(static_cast<bool>(lent));
    BOOST_TEST_REQUIRE(tree.stats({"a"})->lends == 2);

    error_code late = errc::closed;
    tree.async_enter({"a", "b", "c"}, 5, 32ms, [&](error_code ec, permit) { late = ec; });
    permit next;
    tree.async_enter({"a", "b", "c"}, 1, [&](error_code, permit p) { next = std::move(p); });
    auto const own = tree.try_enter({"a", "d"}, 12);  // now /a gets 10 permits per second to lend
    BOOST_TEST_REQUIRE(static_cast<bool>(own));
    run_for(ctx, 140ms);
    BOOST_TEST_REQUIRE(late == errc::closed);
    BOOST_TEST_REQUIRE(tree.stats({"a", "b"})->saved == 4);

    run_for(ctx, 20ms);
    BOOST_TEST(late == errc::timed_out);
    BOOST_TEST(next.count() == 1);
    BOOST_TEST(tree.stats({"a", "b"})->saved == 3);
}

BOOST_AUTO_TEST_SUITE_END()
