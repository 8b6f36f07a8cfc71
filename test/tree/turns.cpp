#include <weir/rate_tree.hpp>
#include <weir/testing.hpp>

#include "support/printing.hpp"

#include <boost/asio/error.hpp>
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

// Otherwise the root lends to it, out of the permits that a leaf beside /a can get nowhere else.
BOOST_AUTO_TEST_CASE(a_request_behind_a_cancelled_one_borrows_from_the_lowest_lender) {
    asio::io_context ctx;
    weir::testing::rate_tree tree(
        ctx, rate_tree_options::parse("tree / 14/1s burst 8, /a 10/1s burst 3, "
                                      "/a/b most 1000/1s burst 9, /a/c most 1000/1s burst 9"));
    auto const from_a = tree.try_enter({"a", "b"}, 3);
    auto const from_root = tree.try_enter({"a", "c"}, 5);
    BOOST_TEST_REQUIRE((from_a && from_root));
    error_code cancelled;
    tree.async_enter({"a", "b"}, 2, [&](error_code ec, permit) { cancelled = ec; });
    permit first;
    tree.async_enter({"a", "c"}, 1, [&](error_code, permit p) { first = std::move(p); });
    permit second;
    tree.async_enter({"a", "c"}, 1, [&](error_code, permit p) { second = std::move(p); });
    run_for(ctx, 249ms);
    BOOST_TEST_REQUIRE(first.count() == 1);
    BOOST_TEST_REQUIRE(second.count() == 0);

    // Now each of the two can lend 1. It is the turn of /a/b at /a, and that of /a/c at the root.
    weir::testing::clock::advance_to(weir::testing::clock::now() + 5ms);
    tree.cancel({"a", "b"});
    BOOST_TEST(tree.stats({"a"})->lends == 0);
    BOOST_TEST(tree.stats({})->lends == 1);
    run_for(ctx, 0ms);
    BOOST_TEST(cancelled == asio::error::operation_aborted);
    BOOST_TEST(second.count() == 1);
}

BOOST_AUTO_TEST_SUITE_END()
