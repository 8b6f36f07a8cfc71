#include <weir/chain.hpp>
#include <weir/rate_tree.hpp>
#include <weir/seats.hpp>
#include <weir/testing.hpp>

#include "support/printing.hpp"

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/test/unit_test.hpp>

#include <chrono>
#include <cstddef>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace asio = boost::asio;
using namespace std::chrono_literals;
using weir::amount;
using weir::errc;
using weir::error_code;
using weir::permit;
using weir::rate_tree_options;
using weir::tree_path;
using weir::testing::clock;
using weir::testing::run_for;

namespace {

using tree_type = weir::testing::rate_tree;

struct fixture {
    // `acme` has 30 of 100 per second, and each of its users at most 20.
    asio::io_context ctx;
    tree_type tree{ctx, rate_tree_options::parse(
                            "tree / 100/1s burst 20, /acme 30/1s burst 5 most 60/1s burst 12, "
                            "/acme/* most 20/1s burst 4 keys 3, /* most 50/1s burst 10 keys 4")};
    struct outcome {
        bool is_over = false;
        error_code error;
        permit granted;
    };
    void enter(tree_type& limiter, tree_path const& leaf, weir::request n, weir::patience wait,
               outcome& to) {
        limiter.async_enter(leaf, n, wait, [&to](error_code ec, permit p) {
            to.is_over = true;
            to.error = ec;
            to.granted = std::move(p);
        });
    }
    void take_all(tree_type& limiter, tree_path const& leaf) {
        while (limiter.try_enter(leaf))
            continue;
    }
    error_code reason(tree_path const& leaf, weir::request n = {}) {
        error_code ec;
        static_cast<void>(tree.try_enter(leaf, n, ec));
        return ec;
    }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(rate_tree_limiter, fixture)

// ---- Paths

BOOST_AUTO_TEST_CASE(a_path_that_names_no_leaf_is_rejected) {
    BOOST_TEST((reason({"acme"}) == errc::exceeds_capacity));
    BOOST_TEST((reason({}) == errc::exceeds_capacity));
    BOOST_TEST((reason({"acme", "ann", "phone"}) == errc::too_many_keys));
    BOOST_TEST((reason({"globex", "bob"}) == errc::too_many_keys));
    BOOST_TEST(!tree.charge({"acme"}, 1));
    BOOST_TEST(!tree.charge({"acme", "ann", "phone"}, 1));
    BOOST_TEST(tree.stats().keys == 0U);  // nothing was stored for them
    BOOST_TEST((reason({"globex"}) == error_code()));
    BOOST_TEST(tree.stats().keys == 1U);
    BOOST_TEST((reason({"globex"}, 11) == errc::exceeds_capacity));
    BOOST_TEST(tree.stats().total.exceeds_capacity == 3U);
}

BOOST_AUTO_TEST_CASE(a_key_above_leaves_is_stored_with_a_leaf_only) {
    tree.configure(rate_tree_options::parse(
        "tree / 100/1s burst 20, /* most 50/1s keys 4, /*/* most 10/1s keys 4"));
    BOOST_TEST((reason({"a"}) == errc::exceeds_capacity));
    BOOST_TEST(!tree.charge({"a"}, 1));
    BOOST_TEST(tree.stats().keys == 0U);
    BOOST_TEST((reason({"a", "b"}) == error_code()));
    BOOST_TEST(tree.stats().keys == 2U);
}

BOOST_AUTO_TEST_CASE(names_are_any_text) {
    std::string const odd("a/b\0\xff*", 6);
    take_all(tree, {odd});
    BOOST_TEST((reason({odd}) == errc::no_permit));
    BOOST_TEST((reason({"a"}) == error_code()));
    BOOST_TEST((reason({""}) == error_code()));
    BOOST_TEST(tree.stats().keys == 3U);
    BOOST_TEST((reason({"*"}) == error_code()));
    BOOST_TEST(tree.stats().keys == 4U);
}

BOOST_AUTO_TEST_CASE(a_path_has_a_greatest_length) {
    std::vector<std::string> const names(16, "a");
    BOOST_CHECK_THROW(tree_path{names}, std::invalid_argument);
    BOOST_TEST(tree_path(std::span(names).first(15)).size() == 15U);
}

BOOST_AUTO_TEST_CASE(a_key_is_forgotten_when_nothing_refers_to_it) {
    for (auto const* name : {"a", "b", "c"})
        BOOST_TEST((reason({name}) == error_code()));
    auto held = tree.try_enter({"d"});
    BOOST_TEST((reason({"e"}) == errc::too_many_keys));
    run_for(ctx, 1s);  // all have recovered
    BOOST_TEST(tree.stats({"a"}).has_value());
    for (auto const* name : {"e", "f", "g"})
        BOOST_TEST((reason({name}) == error_code()));
    BOOST_TEST(tree.stats({"d"}).has_value());  // its permit may still be refunded
    BOOST_TEST(!tree.stats({"a"}).has_value());
    BOOST_TEST((reason({"h"}) == errc::too_many_keys));
    held.refund();
    run_for(ctx, 1s);
    BOOST_TEST((reason({"h"}) == error_code()));
}

BOOST_AUTO_TEST_CASE(the_only_key_that_can_be_forgotten_is_found) {
    constexpr std::size_t keys = 40;
    tree.configure(rate_tree_options::parse("tree / 100/1s burst 90, /* most 50/1s keys 40"));
    run_for(ctx, 1s);
    std::vector<permit> held;
    for (std::size_t i = 0; i != keys; ++i)
        held.push_back(tree.try_enter({std::to_string(i)}));
    for (std::size_t i = 0; i != keys; ++i) {
        BOOST_TEST((reason({"new"}) == errc::too_many_keys));
        held[i] = permit();
        run_for(ctx, 1s);
        held[i] = tree.try_enter({std::to_string(keys + i)});
        BOOST_TEST_REQUIRE(static_cast<bool>(held[i]));
    }
}

BOOST_AUTO_TEST_CASE(a_key_with_a_waiting_request_is_not_forgotten) {
    for (auto const* name : {"b", "c"})
        take_all(tree, {name});  // all permits of the root
    outcome waiting;
    enter(tree, {"a"}, 1, weir::forever, waiting);
    run_for(ctx, 0ns);
    for (auto const* name : {"d", "e"})  // more keys than there is room for
        static_cast<void>(tree.charge({name}, 1));
    BOOST_TEST(!waiting.is_over);
    BOOST_TEST_REQUIRE(tree.stats({"a"}).has_value());
    BOOST_TEST(tree.stats({"d"}).has_value());
    BOOST_TEST(!tree.stats({"e"}).has_value());
    tree.configure(tree.options());
    static_cast<void>(tree.charge({"e"}, 1));
    BOOST_TEST_REQUIRE(tree.stats({"a"}).has_value());
    BOOST_TEST(!tree.stats({"e"}).has_value());
    run_for(ctx, 1s);
    BOOST_TEST(static_cast<bool>(waiting.granted));
}

// ---- Waits

BOOST_AUTO_TEST_CASE(a_guaranteed_share_is_there_whatever_others_do) {
    take_all(tree, {"globex"});
    take_all(tree, {"initech"});
    take_all(tree, {"umbrella"});
    outcome greedy;
    enter(tree, {"globex"}, 10, weir::forever, greedy);
    run_for(ctx, 0ns);
    BOOST_TEST(!greedy.is_over);
    // The root has lent all that it may lend, and requests wait for more. The 5 permits of acme are there.
    amount granted = 0;
    for (auto const* user : {"ann", "bob", "carl"}) {
        while (tree.try_enter({"acme", user}))
            ++granted;
    }
    BOOST_TEST(granted == 5);
}

BOOST_AUTO_TEST_CASE(a_patience_ends) {
    take_all(tree, {"a"});
    take_all(tree, {"b"});
    outcome first;
    outcome second;
    enter(tree, {"a"}, 10, weir::forever, first);
    enter(tree, {"b"}, 1, 5ms, second);
    run_for(ctx, 6ms);
    BOOST_TEST(second.is_over);
    BOOST_TEST((second.error == errc::timed_out));
    BOOST_TEST(!first.is_over);
    run_for(ctx, 1s);
    BOOST_TEST(static_cast<bool>(first.granted));
}

BOOST_AUTO_TEST_CASE(a_hopeless_request_is_rejected_at_once_if_no_other_leaf_waits) {
    take_all(tree, {"a"});
    outcome alone;
    enter(tree, {"a"}, 10, 1ms, alone);
    run_for(ctx, 0ns);
    BOOST_TEST((alone.error == errc::deadline_unreachable));
    BOOST_TEST(alone.granted.retry_after().has_value());
    outcome other;
    outcome behind;
    take_all(tree, {"b"});
    enter(tree, {"b"}, 10, weir::forever, other);
    enter(tree, {"a"}, 10, 1ms, behind);
    run_for(ctx, 0ns);
    BOOST_TEST(!behind.is_over);
}

BOOST_AUTO_TEST_CASE(requests_of_one_leaf_keep_the_order_of_their_queue) {
    tree.configure_queue([](weir::queue_options& o) { o.order = weir::queue_order::priority; });
    take_all(tree, {"a"});
    outcome low;
    outcome high;
    enter(tree, {"a"}, {3, {.priority = 5}}, weir::forever, low);
    enter(tree, {"a"}, {2, {.priority = 0}}, weir::forever, high);
    while (!high.is_over)
        run_for(ctx, 1ms);
    BOOST_TEST(!low.is_over);
    run_for(ctx, 1s);
    BOOST_TEST(static_cast<bool>(low.granted));
}

BOOST_AUTO_TEST_CASE(all_or_one_leaf_can_be_cancelled) {
    take_all(tree, {"a"});
    take_all(tree, {"b"});
    outcome of_a;
    outcome of_b;
    enter(tree, {"a"}, 10, weir::forever, of_a);
    enter(tree, {"b"}, 10, weir::forever, of_b);
    tree.cancel({"a"});
    tree.cancel({"nobody"});
    run_for(ctx, 0ns);
    BOOST_TEST(of_a.error == asio::error::operation_aborted);
    BOOST_TEST(!of_b.is_over);
    tree.cancel();
    run_for(ctx, 0ns);
    BOOST_TEST(of_b.error == asio::error::operation_aborted);
    BOOST_TEST(tree.stats().total.cancelled == 2U);
}

BOOST_AUTO_TEST_CASE(a_pause_holds_all_leaves) {
    tree.pause_for(1s);
    BOOST_TEST((reason({"a"}) == errc::no_permit));
    outcome waiting;
    enter(tree, {"acme", "ann"}, 1, weir::forever, waiting);
    run_for(ctx, 1s - 1ns);
    BOOST_TEST(!waiting.is_over);
    run_for(ctx, 1ns);
    BOOST_TEST(static_cast<bool>(waiting.granted));
    BOOST_TEST((waiting.granted.waited() == 1s));
}

BOOST_AUTO_TEST_CASE(a_closed_tree_rejects_all) {
    take_all(tree, {"a"});
    outcome waiting;
    enter(tree, {"a"}, 10, weir::forever, waiting);
    tree.close();
    run_for(ctx, 0ns);
    BOOST_TEST((waiting.error == errc::closed));
    BOOST_TEST((reason({"b"}) == errc::closed));
    BOOST_TEST(!tree.charge({"b"}, 1));
}

BOOST_AUTO_TEST_CASE(a_destroyed_tree_completes_its_requests) {
    outcome waiting;
    permit held;
    {
        tree_type local{ctx, rate_tree_options::parse("tree / 1/1s burst 1")};
        held = local.try_enter({});
        enter(local, {}, 1, weir::forever, waiting);
    }
    run_for(ctx, 0ns);
    BOOST_TEST((waiting.error == errc::closed));
    held.refund();
}

BOOST_AUTO_TEST_CASE(a_coroutine_waits) {
    std::string const user = "ann";
    take_all(tree, {"acme", user});
    std::vector<weir::duration> waits;
    auto work = [&]() -> asio::awaitable<void> {
        for (int i = 0; i != 3; ++i) {
            auto const granted = co_await tree.enter({"acme", user}, 2, 10s);
            waits.push_back(granted.waited());
        }
        co_await tree.run({"acme", user}, [&] { waits.push_back(0ns); });
    };
    asio::co_spawn(ctx, work, asio::detached);
    run_for(ctx, 1s);
    std::vector<weir::duration> const expected{100ms, 100ms, 100ms, 0ns};
    BOOST_TEST_REQUIRE(waits.size() == expected.size());
    for (std::size_t i = 0; i != waits.size(); ++i)
        BOOST_TEST((waits[i] == expected[i]));
}

// ---- Permits

BOOST_AUTO_TEST_CASE(unused_permits_go_back_to_all_nodes) {
    auto granted = tree.try_enter({"acme", "ann"}, 4);
    BOOST_TEST(tree.stats({"acme"})->saved == 1);
    BOOST_TEST(tree.stats({})->saved == 16);
    granted.refund();
    BOOST_TEST(tree.stats({"acme"})->saved == 5);
    BOOST_TEST(tree.stats({})->saved == 20);
    BOOST_TEST(tree.stats({"acme", "ann"})->may_take == 4);
}

BOOST_AUTO_TEST_CASE(a_settled_permit_takes_more) {
    auto granted = tree.try_enter({"acme", "ann"}, 1);
    granted.settle(30);
    BOOST_TEST(granted.count() == 30);
    BOOST_TEST(tree.stats({"acme", "ann"})->debt == 26);
    BOOST_TEST((reason({"acme", "ann"}) == errc::no_permit));
    run_for(ctx, 10s);
    BOOST_TEST((reason({"acme", "ann"}) == error_code()));
}

BOOST_AUTO_TEST_CASE(a_range_is_granted_as_far_as_it_goes) {
    BOOST_TEST(tree.try_enter_up_to({"acme", "ann"}, 100).count() == 4);
    BOOST_TEST(tree.try_enter_up_to({"globex"}, 100).count() == 10);
}

// ---- Changes

BOOST_AUTO_TEST_CASE(requests_wait_on_under_other_options) {
    take_all(tree, {"a"});
    outcome kept;
    outcome too_large;
    outcome removed;
    enter(tree, {"a"}, 5, weir::forever, kept);
    enter(tree, {"a"}, 10, weir::forever, too_large);
    take_all(tree, {"acme", "ann"});
    auto of_removed = tree.charge({"acme", "ann"}, 2);
    enter(tree, {"acme", "ann"}, 4, weir::forever, removed);
    BOOST_CHECK_THROW(tree.configure({}), std::invalid_argument);
    run_for(ctx, 0ns);
    BOOST_TEST(!kept.is_over);
    tree.configure(
        rate_tree_options::parse("tree / 100/1s burst 20, /* most 50/1s burst 6 keys 4"));
    run_for(ctx, 0ns);
    BOOST_TEST((too_large.error == errc::exceeds_capacity));
    BOOST_TEST((removed.error == errc::exceeds_capacity));
    BOOST_TEST(!kept.is_over);
    BOOST_TEST((reason({"acme", "ann"}) == errc::too_many_keys));
    run_for(ctx, 1s);
    BOOST_TEST(static_cast<bool>(kept.granted));
    auto also_of_removed = of_removed.split(1);
    of_removed.refund();  // of no effect
    tree.configure(rate_tree_options::parse("tree / 100/1s burst 20, /acme 30/1s burst 5, "
                                            "/acme/* most 20/1s burst 4, /* most 50/1s"));
    BOOST_TEST((reason({"acme", "ann"}) == error_code()));
    BOOST_TEST(tree.stats({"acme", "ann"})->may_take == 3);
    also_of_removed.refund();  // this is another node, although it has the same path
    BOOST_TEST(tree.stats({"acme", "ann"})->may_take == 3);
    BOOST_TEST(to_string(tree.options()).starts_with("tree / 100/1s"));
}

BOOST_AUTO_TEST_CASE(bad_options_name_the_node) {
    BOOST_CHECK_EXCEPTION(
        tree.configure(rate_tree_options::parse("tree / 10/1s burst 2, /a 20/1s burst 1")),
        std::invalid_argument, [](auto const& e) {
            return std::string_view(e.what()).find("/") != std::string_view::npos;
        });
    BOOST_CHECK_THROW(tree_type(ctx, rate_tree_options{}), std::invalid_argument);
    BOOST_CHECK_THROW(
        tree.configure_queue([](weir::queue_options& o) { o.order = weir::queue_order::shares; }),
        std::invalid_argument);
}

// ---- Chains

BOOST_AUTO_TEST_CASE(a_chain_takes_of_a_leaf) {
    weir::basic_limiter<weir::policy::seats, asio::any_io_executor, weir::testing::basic_timer<>>
        workers{ctx, {.seats = 1}};
    weir::chain both(workers.with(), tree.with({"acme", "ann"}, 2));
    auto first = both.try_enter();
    BOOST_TEST(static_cast<bool>(first));
    BOOST_TEST(tree.stats({"acme", "ann"})->may_take == 2);
    outcome second;
    outcome third;
    auto const tell = [](outcome& to) {
        return [&to](error_code ec, auto p) {
            to.is_over = true;
            to.error = ec;
            static_cast<void>(p);
        };
    };
    both.async_enter(weir::patience(weir::forever), tell(second));
    both.async_enter(weir::patience(weir::forever), tell(third));
    run_for(ctx, 0ns);
    BOOST_TEST(!second.is_over);
    first = {};
    run_for(ctx, 0ns);
    BOOST_TEST(second.is_over);  // it took the seat and gave it back
    BOOST_TEST(!third.is_over);
    run_for(ctx, 100ms);
    BOOST_TEST(third.is_over);
    BOOST_TEST(!third.error);
}

BOOST_AUTO_TEST_CASE(chains_and_requests_of_other_leaves_take_turns) {
    tree_type half{
        ctx, rate_tree_options::parse("tree / 100/1s burst 2, /a most 100/1s, /b most 100/1s")};
    weir::basic_limiter<weir::policy::seats, asio::any_io_executor, weir::testing::basic_timer<>>
        workers{ctx, {.seats = 1}};
    weir::chain chained(workers.with(), half.with({"a"}));
    int of_a = 0;
    int of_b = 0;
    bool goes_on = true;
    auto by_chain = [&]() -> asio::awaitable<void> {
        while (goes_on) {
            auto const granted = co_await chained.enter(10s);
            ++of_a;
        }
    };
    auto alone = [&]() -> asio::awaitable<void> {
        while (goes_on) {
            auto const granted = co_await half.enter({"b"}, 10s);
            ++of_b;
        }
    };
    for (int i = 0; i != 3; ++i) {
        asio::co_spawn(ctx, by_chain, asio::detached);
        asio::co_spawn(ctx, alone, asio::detached);
    }
    run_for(ctx, 10s);
    goes_on = false;
    run_for(ctx, 1s);
    BOOST_TEST(std::abs(of_a - 500) <= 6);
    BOOST_TEST(std::abs(of_b - 500) <= 6);
}

BOOST_AUTO_TEST_CASE(a_dry_run_counts_and_lets_all_pass) {
    tree.configure_queue([](weir::queue_options& o) { o.dry_run = true; });
    std::vector<permit> passed;
    for (int i = 0; i != 6; ++i)
        passed.push_back(tree.try_enter({"acme", "ann"}));
    outcome waiting;
    enter(tree, {"acme", "ann"}, 2, weir::forever, waiting);
    run_for(ctx, 0ns);
    for (auto const& one : passed)
        BOOST_TEST(static_cast<bool>(one));
    BOOST_TEST(static_cast<bool>(waiting.granted));
    auto const stats = tree.stats().total;
    BOOST_TEST(stats.would_reject == 2U);
    BOOST_TEST(stats.would_wait == 1U);
    BOOST_TEST(tree.stats({"acme", "ann"})->may_take == 0);
    waiting.granted.refund();
    BOOST_TEST(tree.stats({"acme", "ann"})->may_take == 0);
    BOOST_TEST(static_cast<bool>(tree.try_enter({"no", "such", "path"})));
    BOOST_TEST(tree.stats().total.would_reject == 3U);
}

BOOST_AUTO_TEST_CASE(it_drains) {
    auto held = tree.try_enter({"a"});
    bool is_drained = false;
    tree.shutdown();
    tree.async_drain([&](error_code ec) { is_drained = !ec; });
    run_for(ctx, 0ns);
    BOOST_TEST(!is_drained);
    held = permit();
    run_for(ctx, 0ns);
    BOOST_TEST(is_drained);
}

BOOST_AUTO_TEST_SUITE_END()
