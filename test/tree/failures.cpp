#include <weir/rate_tree.hpp>
#include <weir/testing.hpp>

#include "support/allocations.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/test/unit_test.hpp>

#include <chrono>
#include <new>
#include <string>
#include <utility>

namespace asio = boost::asio;
using namespace std::chrono_literals;
using weir::errc;
using weir::error_code;
using weir::permit;
using weir::rate_tree_options;

namespace {

using tree_type = weir::testing::rate_tree;

struct fixture {
    asio::io_context ctx;
    tree_type tree{ctx, rate_tree_options::parse("tree / 100/1s burst 20, /a most 60/1s burst 12, "
                                                 "/a/* most 20/1s burst 2, /* most 50/1s burst 2")};
    std::string const user = "a name that does not fit into the object of a string";
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(rate_tree_failures, fixture)

BOOST_AUTO_TEST_CASE(a_new_key_without_memory_is_rejected_and_costs_nothing) {
    bool fails = true;
    int rejected = 0;
    for (int k = 0; fails; ++k) {
        error_code ec;
        permit granted;
        fails = support::with_failing_allocation(k, [&] {
            granted = tree.try_enter({"a", user}, 1, ec);
        });
        BOOST_TEST_REQUIRE((ec == (granted ? error_code() : errc::too_many_keys)));
        rejected += granted ? 0 : 1;
        BOOST_TEST_REQUIRE(tree.stats().keys == (granted ? 1U : 0U));
    }
    BOOST_TEST(rejected > 0);
    BOOST_TEST(tree.stats({"a", user})->may_take == 1);
}

BOOST_AUTO_TEST_CASE(a_wait_without_memory_has_no_effect) {
    auto const first = tree.try_enter({"a", user}, 2);
    BOOST_TEST(static_cast<bool>(first));
    bool fails = true;
    int thrown = 0;
    bool is_over = false;
    for (int k = 0; fails; ++k) {
        fails = support::with_failing_allocation(k, [&] {
            try {
                tree.async_enter({"a", user}, 1, 10s,
                                 [&](error_code ec, permit granted) { is_over = !ec && granted; });
            } catch (std::bad_alloc const&) {
                ++thrown;
            }
        });
        BOOST_TEST_REQUIRE(tree.stats().total.waiting == (fails ? 0U : 1U));
    }
    BOOST_TEST(thrown > 0);
    weir::testing::run_for(ctx, 1s);
    BOOST_TEST(is_over);
}

BOOST_AUTO_TEST_CASE(a_change_without_memory_has_no_effect) {
    static_cast<void>(tree.try_enter({"a", user}, 2));
    bool is_over = false;
    tree.async_enter({"a", user}, 1, 10s,
                     [&](error_code ec, permit granted) { is_over = !ec && granted; });
    auto const before = to_string(tree.options());
    auto const next = rate_tree_options::parse(
        "tree / 90/1s burst 30, /a most 60/1s burst 9, /a/* most 20/1s burst 5, "
        "/b 10/1s burst 2, /c 5/1s burst 1, /* most 50/1s");
    bool fails = true;
    for (int k = 0; fails; ++k) {
        fails = support::with_failing_allocation(k, [&] {
            try {
                tree.configure(next);
            } catch (std::bad_alloc const&) {}
        });
        BOOST_TEST_REQUIRE((to_string(tree.options()) == (fails ? before : to_string(next))));
        BOOST_TEST_REQUIRE(tree.stats().total.waiting == 1U);
    }
    weir::testing::run_for(ctx, 1s);
    BOOST_TEST(is_over);
}

BOOST_AUTO_TEST_SUITE_END()
