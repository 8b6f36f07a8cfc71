#include <weir/keyed.hpp>
#include <weir/permit.hpp>
#include <weir/testing.hpp>
#include <weir/token_bucket.hpp>

#include "support/printing.hpp"
#include "support/says.hpp"
#include "support/virtual_limiters.hpp"
#include "support/visit.hpp"
#include "support/watch.hpp"

#include <boost/test/unit_test.hpp>

#include <fmt/format.h>

#include <chrono>
#include <cstdint>
#include <limits>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

using namespace std::chrono_literals;
using support::says;
using weir::amount;
using weir::permit;
using weir::detail::permit_issuer;
using weir::detail::permit_origin;

namespace {

using calls = std::vector<std::string>;

// A limiter that only records the calls of its permits.
class notebook : public permit_issuer {
public:
    calls told;
    amount free = 0;
    bool has_memory = true;

    void leave(amount n, permit_origin from) noexcept override {
        told.push_back(fmt::format("leave {} of {}", n, text(from)));
    }
    void leave_unused(amount n, permit_origin from) noexcept override {
        told.push_back(fmt::format("leave {} of {} unused", n, text(from)));
    }
    void refund(amount n, permit_origin from) noexcept override {
        told.push_back(fmt::format("refund {} of {}", n, text(from)));
    }
    std::uint64_t overdraw(amount n, amount, permit_origin from) override {
        if (!has_memory)
            throw std::bad_alloc();
        told.push_back(fmt::format("overdraw {} of {}", n, text(from)));
        return from.ticket + 1000;
    }
    void split(permit_origin from) noexcept override {
        told.push_back(from.key == 0 ? "split" : fmt::format("split key {}", from.key));
    }
    std::uint64_t merge(permit_origin into, permit_origin from, amount n) noexcept override {
        told.push_back(fmt::format("merge {} of {} into {}", n, text(from), text(into)));
        return into.ticket == from.ticket ? into.ticket : into.ticket + 2000;
    }
    std::uint64_t report(permit_origin from, weir::outcome o) noexcept override {
        told.push_back(fmt::format("report {} of {}", static_cast<int>(o), text(from)));
        return from.ticket + 3000;
    }
    [[nodiscard]] amount remaining(permit_origin from) const noexcept override {
        return free + static_cast<amount>(from.key);
    }
    [[nodiscard]] weir::duration reset_after(permit_origin from) const noexcept override {
        return from.key == 0 ? weir::forever : std::chrono::seconds(from.key);
    }

    [[nodiscard]] permit grant(amount n, std::uint64_t ticket, weir::duration waited = {}) {
        return permit_issuer::grant(*this, n, {.ticket = ticket}, waited);
    }
    [[nodiscard]] permit grant_for(std::uint64_t key, amount n, std::uint64_t ticket) {
        return permit_issuer::grant(*this, n, {.ticket = ticket, .key = key}, {});
    }
    [[nodiscard]] calls news() { return std::exchange(told, {}); }

private:
    static std::string text(permit_origin from) {
        return from.key == 0 ? fmt::format("{}", from.ticket)
                             : fmt::format("{} of key {}", from.ticket, from.key);
    }
};

void check_is_empty(permit const& p) {
    BOOST_TEST(!p);
    BOOST_TEST(p.count() == 0);
    BOOST_TEST(p.waited() == 0s);
    BOOST_TEST(p.remaining() == 0);
}

}  // namespace

static_assert(!std::is_copy_constructible_v<permit> && !std::is_copy_assignable_v<permit>);
static_assert(std::is_nothrow_move_constructible_v<permit>);
static_assert(std::is_nothrow_move_assignable_v<permit>);
static_assert(std::is_nothrow_default_constructible_v<permit>);
static_assert(std::is_nothrow_destructible_v<permit>);
static_assert(noexcept(std::declval<permit&>().leave()));
static_assert(noexcept(std::declval<permit&>().refund()));
static_assert(!std::is_convertible_v<permit, bool>);

// A part of the ABI.
static_assert(sizeof(permit) == 40);

BOOST_FIXTURE_TEST_SUITE(a_permit, notebook)

BOOST_AUTO_TEST_CASE(reports_an_outcome_before_its_release) {
    auto p = grant(2, 7);
    p.report(weir::outcome::dropped);
    BOOST_TEST(news() == (calls{"report 1 of 7"}));
    p.report(weir::outcome::success);
    BOOST_TEST(news() == (calls{"report 0 of 3007"}));
    p.leave();
    BOOST_TEST(news() == (calls{"leave 2 of 6007"}));
    p.report(weir::outcome::dropped);  // `p` is empty
    permit().report(weir::outcome::dropped);
    auto nothing = grant(0, 0);
    nothing.report(weir::outcome::dropped);
    BOOST_TEST(news() == calls());
    static_assert(noexcept(p.report(weir::outcome::ignored)));
}

BOOST_AUTO_TEST_CASE(that_was_default_constructed_is_empty) {
    permit p;
    check_is_empty(p);
    BOOST_TEST(!p.retry_after());
    p.leave();
    p.refund();
    check_is_empty(p);
}

BOOST_AUTO_TEST_CASE(that_was_rejected_is_empty_and_has_a_retry_time) {
    permit p = permit_issuer::reject(3s);
    check_is_empty(p);
    BOOST_TEST(p.retry_after() == 3s);
    BOOST_TEST(permit_issuer::reject(0s).retry_after() == 0s);

    // `leave` does nothing.
    p.leave();
    BOOST_TEST(p.retry_after() == 3s);
}

BOOST_AUTO_TEST_CASE(that_was_rejected_may_have_no_retry_time) {
    permit const p = permit_issuer::reject(weir::forever);
    check_is_empty(p);
    BOOST_TEST(!p.retry_after());
}

BOOST_AUTO_TEST_CASE(that_was_granted_has_the_granted_count) {
    free = 42;
    auto const p = grant(3, 7, 5s);
    BOOST_TEST(static_cast<bool>(p));
    BOOST_TEST(p.count() == 3);
    BOOST_TEST(p.id() == 7U);
    BOOST_TEST(p.waited() == 5s);
    BOOST_TEST(p.remaining() == 42);
    BOOST_TEST(!p.retry_after());
}

BOOST_AUTO_TEST_CASE(that_was_granted_immediately_has_not_waited) {
    auto const p = grant(1, 7);
    BOOST_TEST(p.waited() == 0s);
    BOOST_TEST(!p.retry_after());
}

BOOST_AUTO_TEST_CASE(of_count_0_is_a_grant) {
    {
        auto const p = grant(0, 0);
        BOOST_TEST(static_cast<bool>(p));
        BOOST_TEST(p.count() == 0);
    }
    BOOST_TEST(news() == calls{"leave 0 of 0"});
}

BOOST_AUTO_TEST_CASE(is_released_by_its_destructor) {
    { auto const p = grant(3, 7); }
    BOOST_TEST(news() == calls{"leave 3 of 7"});
}

BOOST_AUTO_TEST_CASE(is_released_once_after_several_calls_of_leave) {
    free = 42;
    {
        auto p = grant(3, 7, 5s);
        p.leave();
        BOOST_TEST(news() == calls{"leave 3 of 7"});
        check_is_empty(p);
        BOOST_TEST(!p.retry_after());
        p.leave();
    }
    BOOST_TEST(news() == calls());
}

BOOST_AUTO_TEST_CASE(that_is_refunded_is_released_unused_and_only_once) {
    free = 42;
    {
        auto p = grant(3, 7, 5s);
        p.refund();
        BOOST_TEST(news() == calls{"leave 3 of 7 unused"});
        check_is_empty(p);
        BOOST_TEST(!p.retry_after());
        p.refund();
        p.leave();
    }
    BOOST_TEST(news() == calls());

    auto p = grant(0, 0);
    p.refund();
    BOOST_TEST(news() == calls{"leave 0 of 0 unused"});
}

BOOST_AUTO_TEST_CASE(that_is_refunded_can_be_assigned_again) {
    {
        auto p = grant(3, 7);
        p.refund();
        p = grant(2, 8);
        (void)news();
        BOOST_TEST(p.count() == 2);
    }
    BOOST_TEST(news() == calls{"leave 2 of 8"});
}

BOOST_AUTO_TEST_CASE(moves_with_its_count_and_times) {
    free = 42;
    {
        auto p = grant(3, 7, 5s);
        auto q = std::move(p);
        check_is_empty(p);
        BOOST_TEST(!p.retry_after());
        BOOST_TEST(q.count() == 3);
        BOOST_TEST(q.id() == 7U);
        BOOST_TEST(q.waited() == 5s);
        BOOST_TEST(q.remaining() == 42);
        p.leave();
        BOOST_TEST(news() == calls());
    }
    BOOST_TEST(news() == calls{"leave 3 of 7"});
}

BOOST_AUTO_TEST_CASE(moves_with_its_retry_time) {
    auto p = permit_issuer::reject(3s);
    auto const q = std::move(p);
    BOOST_TEST(q.retry_after() == 3s);

    permit r;
    r = permit_issuer::reject(4s);
    BOOST_TEST(r.retry_after() == 4s);
}

BOOST_AUTO_TEST_CASE(is_released_by_a_move_assignment) {
    {
        auto p = grant(1, 1);
        p = grant(2, 2, 5s);
        BOOST_TEST(news() == calls{"leave 1 of 1"});
        BOOST_TEST(p.count() == 2);
        BOOST_TEST(p.waited() == 5s);

        p = permit();
        BOOST_TEST(news() == calls{"leave 2 of 2"});
        check_is_empty(p);

        p = grant(3, 3);
        BOOST_TEST(p.count() == 3);
    }
    BOOST_TEST(news() == calls{"leave 3 of 3"});
}

BOOST_AUTO_TEST_CASE(does_not_change_when_it_is_moved_to_itself) {
    {
        auto p = grant(3, 7, 5s);
        auto& itself = p;
        p = std::move(itself);
        BOOST_TEST(static_cast<bool>(p));
        BOOST_TEST(p.count() == 3);
        BOOST_TEST(p.id() == 7U);
        BOOST_TEST(p.waited() == 5s);
        BOOST_TEST(news() == calls());
    }
    BOOST_TEST(news() == calls{"leave 3 of 7"});

    auto rejected = permit_issuer::reject(3s);
    auto& itself = rejected;
    rejected = std::move(itself);
    BOOST_TEST(rejected.retry_after() == 3s);
}

BOOST_AUTO_TEST_CASE(can_be_swapped) {
    auto p = grant(1, 1, 5s);
    auto q = permit_issuer::reject(3s);
    p.swap(q);
    check_is_empty(p);
    BOOST_TEST(p.retry_after() == 3s);
    BOOST_TEST(q.count() == 1);
    BOOST_TEST(q.waited() == 5s);
    BOOST_TEST(news() == calls());
}

BOOST_AUTO_TEST_CASE(settled_for_less_refunds_the_rest) {
    auto p = grant(5, 7, 5s);
    p.settle(2);
    BOOST_TEST(news() == calls{"refund 3 of 7"});
    BOOST_TEST(p.count() == 2);
    BOOST_TEST(p.waited() == 5s);
    p.settle(2);
    BOOST_TEST(news() == calls());
    p.leave();
    BOOST_TEST(news() == calls{"leave 2 of 7"});
}

BOOST_AUTO_TEST_CASE(settled_for_more_takes_the_rest_now) {
    auto p = grant(5, 7, 5s);
    p.settle(9);
    BOOST_TEST(news() == calls{"overdraw 4 of 7"});
    BOOST_TEST(p.count() == 9);
    BOOST_TEST(p.id() == 1007U);
    BOOST_TEST(p.waited() == 5s);
    p.leave();
    BOOST_TEST(news() == calls{"leave 9 of 1007"});
}

BOOST_AUTO_TEST_CASE(settled_for_0_is_still_a_permit) {
    auto p = grant(5, 7);
    p.settle(0);
    BOOST_TEST(news() == calls{"refund 5 of 7"});
    BOOST_TEST(static_cast<bool>(p));
    BOOST_TEST(p.count() == 0);
    p.leave();
    BOOST_TEST(news().size() == 1U);  // `p` is no longer live
}

BOOST_AUTO_TEST_CASE(that_is_empty_ignores_settle_and_splits_off_an_empty_one) {
    permit nothing;
    nothing.settle(3);
    check_is_empty(nothing);
    check_is_empty(nothing.split(3));

    auto rejected = permit_issuer::reject(3s);
    rejected.settle(2);
    check_is_empty(rejected);
    BOOST_TEST(rejected.retry_after() == 3s);

    auto left = grant(5, 7);
    left.leave();
    BOOST_TEST(news() == calls{"leave 5 of 7"});
    left.settle(9);
    check_is_empty(left);
    check_is_empty(left.split(2));
    BOOST_TEST(news() == calls());
}

BOOST_AUTO_TEST_CASE(can_be_settled_for_the_largest_amount_and_not_for_more) {
    auto p = grant(5, 7);
    BOOST_CHECK_EXCEPTION(p.settle(weir::max_amount + 1), std::invalid_argument,
                          says("weir::permit: the settled amount is 1000000000000001, but must be "
                               "from 0 to 1000000000000000"));
    BOOST_CHECK_EXCEPTION(
        p.settle(std::numeric_limits<std::uint64_t>::max()), std::invalid_argument,
        says("weir::permit: the settled amount is 576460752303423487, but must "
             "be from 0 to 1000000000000000"));
    BOOST_CHECK_THROW(p.settle(-1), std::invalid_argument);
    BOOST_TEST(news() == calls());
    BOOST_TEST(p.count() == 5);

    p.settle(weir::max_amount);
    BOOST_TEST(p.count() == weir::max_amount);
}

BOOST_AUTO_TEST_CASE(does_not_change_if_a_debt_cannot_be_recorded) {
    has_memory = false;
    auto p = grant(5, 7);
    BOOST_CHECK_THROW(p.settle(6), std::bad_alloc);
    BOOST_TEST(p.count() == 5);
    BOOST_TEST(p.id() == 7U);
    p.leave();
    BOOST_TEST(news() == calls{"leave 5 of 7"});
}

BOOST_AUTO_TEST_CASE(splits_into_two_that_are_released_separately) {
    auto p = grant(5, 7, 5s);
    auto q = p.split(2);
    BOOST_TEST(news() == calls{"split"});
    BOOST_TEST(p.count() == 3);
    BOOST_TEST(q.count() == 2);
    BOOST_TEST(p.id() == 7U);
    BOOST_TEST(q.id() == 7U);
    BOOST_TEST(q.waited() == 5s);
    BOOST_TEST(!q.retry_after());
    p.leave();
    BOOST_TEST(news() == calls{"leave 3 of 7"});
    q.leave();
    BOOST_TEST(news() == calls{"leave 2 of 7"});
}

BOOST_AUTO_TEST_CASE(can_be_split_into_all_and_0) {
    auto p = grant(5, 7);
    auto nothing = p.split(0);
    BOOST_TEST(static_cast<bool>(nothing));
    BOOST_TEST(nothing.count() == 0);
    auto all = p.split(5);
    BOOST_TEST(all.count() == 5);
    BOOST_TEST(static_cast<bool>(p));
    BOOST_TEST(p.count() == 0);
    BOOST_TEST(news() == (calls{"split", "split"}));
    all.leave();
    BOOST_TEST(news() == calls{"leave 5 of 7"});
}

BOOST_AUTO_TEST_CASE(cannot_be_split_beyond_its_count) {
    auto p = grant(3, 7);
    BOOST_CHECK_EXCEPTION(
        (void)p.split(4), std::invalid_argument,
        says("weir::permit: the part to split off is 4, but must be from 0 to 3"));
    BOOST_CHECK_THROW((void)p.split(std::numeric_limits<std::uint64_t>::max()),
                      std::invalid_argument);
    BOOST_CHECK_THROW((void)p.split(-1), std::invalid_argument);
    BOOST_TEST(news() == calls());
    BOOST_TEST(p.count() == 3);
}

BOOST_AUTO_TEST_CASE(merges_with_another_of_the_same_limiter) {
    {
        auto p = grant(3, 7, 5s);
        auto q = grant(2, 8, 1s);
        p.merge(std::move(q));
        BOOST_TEST(news() == calls{"merge 2 of 8 into 7"});
        BOOST_TEST(p.count() == 5);
        BOOST_TEST(p.id() == 2007U);
        BOOST_TEST(p.waited() == 5s);
        check_is_empty(q);
        BOOST_TEST(!q.retry_after());
    }
    BOOST_TEST(news() == calls{"leave 5 of 2007"});
}

BOOST_AUTO_TEST_CASE(merges_with_an_empty_one_and_does_not_change) {
    auto p = grant(3, 7);
    p.merge(permit());
    p.merge(permit_issuer::reject(3s));
    BOOST_TEST(news() == calls());
    BOOST_TEST(p.count() == 3);
    BOOST_TEST(!p.retry_after());

    permit empty;
    empty.merge(permit());
    check_is_empty(empty);
}

BOOST_AUTO_TEST_CASE(that_is_empty_becomes_the_permit_merged_into_it) {
    auto p = permit_issuer::reject(3s);
    auto q = grant(3, 7, 5s);
    p.merge(std::move(q));
    BOOST_TEST(news() == calls());
    BOOST_TEST(p.count() == 3);
    BOOST_TEST(p.id() == 7U);
    BOOST_TEST(p.waited() == 5s);
    BOOST_TEST(!p.retry_after());
    check_is_empty(q);
}

BOOST_AUTO_TEST_CASE(merges_with_itself_and_does_not_change) {
    auto p = grant(3, 7);
    auto& itself = p;
    p.merge(std::move(itself));
    BOOST_TEST(news() == calls());
    BOOST_TEST(p.count() == 3);
}

BOOST_AUTO_TEST_CASE(passes_its_key_to_the_issuer_in_each_operation) {
    auto p = grant_for(5, 4, 7);
    BOOST_TEST(p.remaining() == 5);
    p.settle(3);
    p.settle(6);
    BOOST_TEST(p.id() == 1007U);
    auto part = p.split(2);
    p.merge(std::move(part));
    auto moved = std::move(p);
    auto nothing = moved.split(0);
    moved.swap(nothing);
    nothing.refund();
    moved.leave();
    grant_for(6, 1, 8).leave();
    BOOST_TEST((news() == calls{"refund 1 of 7 of key 5", "overdraw 3 of 7 of key 5", "split key 5",
                                "merge 2 of 1007 of key 5 into 1007 of key 5", "split key 5",
                                "leave 6 of 1007 of key 5 unused", "leave 0 of 0 of key 5",
                                "leave 1 of 8 of key 6"}));
}

BOOST_AUTO_TEST_CASE(does_not_merge_with_a_permit_of_another_key) {
    auto p = grant_for(5, 4, 7);
    auto q = grant_for(6, 4, 8);
    BOOST_CHECK_EXCEPTION(
        p.merge(std::move(q)), std::invalid_argument,
        says("weir::permit: cannot merge permits of different keys or partitions"));
    BOOST_TEST(p.count() == 4);
    BOOST_TEST(q.count() == 4);
    BOOST_TEST(news().empty());
}

BOOST_AUTO_TEST_CASE(does_not_merge_with_a_permit_of_another_limiter) {
    notebook elsewhere;
    auto p = grant(3, 7);
    auto q = elsewhere.grant(2, 8);
    BOOST_CHECK_EXCEPTION(p.merge(std::move(q)), std::invalid_argument,
                          says("weir::permit: cannot merge permits of different limiters"));
    BOOST_TEST(p.count() == 3);
    BOOST_TEST(q.count() == 2);
    BOOST_TEST(news() == calls());
    BOOST_TEST(elsewhere.news() == calls());
}

// The limiter may reuse a ticket when no permit of it is in use.
BOOST_AUTO_TEST_CASE(of_count_0_has_given_up_its_ticket) {
    auto settled = grant(5, 7);
    settled.settle(0);
    auto split = grant(5, 8);
    auto all_of_it = split.split(5);
    auto other = grant(5, 9);
    auto none_of_it = other.split(0);
    (void)news();

    settled.settle(2);
    BOOST_TEST(news() == calls{"overdraw 2 of 0"});
    split.settle(2);
    BOOST_TEST(news() == calls{"overdraw 2 of 0"});
    none_of_it.settle(2);
    BOOST_TEST(news() == calls{"overdraw 2 of 0"});
}

BOOST_AUTO_TEST_CASE(of_count_0_takes_over_the_ticket_of_a_merged_permit) {
    auto p = grant(5, 7);
    p.settle(0);
    (void)news();
    p.merge(grant(3, 8));
    BOOST_TEST(news() == calls{"merge 3 of 8 into 8"});
    BOOST_TEST(p.count() == 3);
    BOOST_TEST(p.id() == 8U);
    p.leave();
    BOOST_TEST(news() == calls{"leave 3 of 8"});
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(a_permit_of_a_limiter)

using support::run_for;
using support::seats;
using support::sliding_log;
namespace asio = boost::asio;

BOOST_AUTO_TEST_CASE(counts_as_live_until_its_release) {
    asio::io_context ctx;
    seats kitchen{ctx, {.seats = 10}};
    auto p = kitchen.try_enter(4);
    BOOST_TEST(p.count() == 4);
    BOOST_TEST(p.remaining() == 6);
    BOOST_TEST(kitchen.stats().live == 1U);

    auto part = p.split(1);
    BOOST_TEST(kitchen.stats().live == 2U);
    BOOST_TEST(kitchen.stats().remaining == 6);
    p.merge(std::move(part));
    BOOST_TEST(kitchen.stats().live == 1U);
    BOOST_TEST(p.count() == 4);

    p.settle(1);
    BOOST_TEST(kitchen.stats().remaining == 9);
    p.settle(12);
    BOOST_TEST(p.remaining() == 0);
    BOOST_TEST(!kitchen.try_enter());
    p.settle(3);
    BOOST_TEST(kitchen.stats().remaining == 7);

    p.leave();
    BOOST_TEST(kitchen.stats().live == 0U);
    BOOST_TEST(kitchen.stats().remaining == 10);
}

BOOST_AUTO_TEST_CASE(of_count_0_counts_as_live) {
    asio::io_context ctx;
    seats kitchen{ctx, {.seats = 1}};
    auto p = kitchen.try_enter(0);
    BOOST_TEST(static_cast<bool>(p));
    BOOST_TEST(p.count() == 0);
    BOOST_TEST(kitchen.stats().live == 1U);
    BOOST_TEST(kitchen.stats().remaining == 1);
    p.leave();
    BOOST_TEST(kitchen.stats().live == 0U);
}

BOOST_AUTO_TEST_CASE(has_the_wait_of_its_request) {
    asio::io_context ctx;
    seats kitchen{ctx, {.seats = 1}};
    auto first = kitchen.try_enter();
    permit second;
    kitchen.async_enter([&](weir::error_code ec, permit p) {
        BOOST_TEST(!ec);
        second = std::move(p);
    });
    run_for(ctx, 5s);
    first.leave();
    support::settle(ctx);
    BOOST_TEST(second.waited() == 5s);
    BOOST_TEST(!second.retry_after());
    auto const part = second.split(0);
    BOOST_TEST(part.waited() == 5s);
}

BOOST_AUTO_TEST_CASE(that_was_rejected_has_a_retry_time_if_it_is_known) {
    asio::io_context ctx;
    sliding_log tokens{ctx, {.limit = 1, .window = 10s}};
    auto const granted = tokens.try_enter();
    BOOST_TEST(!granted.retry_after());
    run_for(ctx, 3s);
    BOOST_TEST(tokens.try_enter().retry_after() == 7s);

    seats kitchen{ctx, {.seats = 1}};
    auto const seat = kitchen.try_enter();
    BOOST_TEST(!kitchen.try_enter().retry_after());
}

BOOST_AUTO_TEST_CASE(has_a_reset_time_if_it_is_known) {
    asio::io_context ctx;
    weir::testing::limiter<weir::token_bucket> bucket{ctx, {.rate = {10, 1s}, .burst = 20}};
    auto const five = bucket.try_enter(5);
    BOOST_TEST((five.reset_after() == weir::duration(500ms)));
    BOOST_TEST((bucket.stats().reset_after == weir::duration(500ms)));
    auto const debt = bucket.charge(25);
    BOOST_TEST((five.reset_after() == weir::duration(3s)));
    run_for(ctx, 2s);
    BOOST_TEST((five.reset_after() == weir::duration(1s)));
    run_for(ctx, 1h);
    BOOST_TEST((five.reset_after() == weir::duration(0s)));

    sliding_log calls{ctx, {.limit = 2, .window = 10s}};
    auto first = calls.try_enter();
    run_for(ctx, 4s);
    auto second = calls.try_enter();
    BOOST_TEST((first.reset_after() == weir::duration(10s)));  // until the second expires, too
    second.refund();
    BOOST_TEST(!second.reset_after());
    BOOST_TEST((first.reset_after() == weir::duration(6s)));

    seats kitchen{ctx, {.seats = 2}};
    BOOST_TEST((kitchen.stats().reset_after == weir::duration(0s)));
    auto const seat = kitchen.try_enter();
    BOOST_TEST(!seat.reset_after());
    BOOST_TEST(!kitchen.stats().reset_after);
    BOOST_TEST(!permit().reset_after());
    BOOST_TEST(!kitchen.try_enter(2).reset_after());
}

BOOST_AUTO_TEST_CASE(of_a_key_has_the_reset_time_of_the_key) {
    asio::io_context ctx;
    weir::basic_keyed<int, weir::policy::token_bucket, asio::any_io_executor, weir::testing::timer>
        calls{ctx, {.rate = {10, 1s}}};
    auto const of_one = calls.try_enter(1, 5);
    auto const of_two = calls.try_enter(2, 2);
    BOOST_TEST((of_one.reset_after() == weir::duration(500ms)));
    BOOST_TEST((of_two.reset_after() == weir::duration(200ms)));
    BOOST_TEST((calls.stats(1).reset_after == weir::duration(500ms)));
    BOOST_TEST((calls.stats(3).reset_after == weir::duration(0s)));
    BOOST_TEST(!calls.stats().total.reset_after);
    run_for(ctx, 300ms);
    BOOST_TEST((of_two.reset_after() == weir::duration(0s)));
}

BOOST_AUTO_TEST_CASE(that_is_settled_refunds_unused_permits) {
    asio::io_context ctx;
    sliding_log tokens{ctx, {.limit = 10, .window = 10s}};
    auto p = tokens.try_enter(8);
    p.settle(3);
    BOOST_TEST(p.remaining() == 7);
    p.leave();
    BOOST_TEST(tokens.stats().remaining == 7);  // the rate keeps counting used permits
    run_for(ctx, 10s);
    BOOST_TEST(tokens.stats().remaining == 10);
}

BOOST_AUTO_TEST_CASE(that_is_refunded_was_never_used) {
    asio::io_context ctx;
    sliding_log tokens{ctx, {.limit = 10, .window = 10s}};
    auto used = tokens.try_enter(2);
    auto unused = tokens.try_enter(5);
    BOOST_TEST(tokens.stats().in_use == 7);
    used.leave();
    unused.refund();
    BOOST_TEST(!unused);
    BOOST_TEST(tokens.stats().remaining == 8);
    BOOST_TEST(tokens.stats().live == 0U);
    BOOST_TEST(tokens.stats().in_use == 0);

    // The refund of an expired permit changes nothing.
    auto old = tokens.try_enter(3);
    run_for(ctx, 10s);
    auto const young = tokens.try_enter(9);
    BOOST_TEST(tokens.stats().remaining == 1);
    old.refund();
    BOOST_TEST(tokens.stats().remaining == 1);
    BOOST_TEST(tokens.stats().live == 1U);

    seats kitchen{ctx, {.seats = 2}};
    auto seat = kitchen.try_enter(2);
    seat.refund();
    BOOST_TEST(kitchen.stats().remaining == 2);
    BOOST_TEST(kitchen.stats().live == 0U);
}

BOOST_AUTO_TEST_CASE(that_is_refunded_lets_a_waiting_request_be_granted_immediately) {
    asio::io_context ctx;
    sliding_log tokens{ctx, {.limit = 2, .window = 10s}};
    auto first = tokens.try_enter(2);
    support::visit guest{tokens};
    support::settle(ctx);
    BOOST_TEST(guest.waiting());
    first.refund();
    support::settle(ctx);
    BOOST_TEST(guest.granted());
    BOOST_TEST(ctx.stopped());
}

BOOST_AUTO_TEST_CASE(that_is_refunded_after_limiter_and_context_ended_updates_the_state) {
    permit p;
    permit q;
    {
        asio::io_context ctx;
        {
            seats kitchen{ctx, {.seats = 3}};
            p = kitchen.try_enter(2);
            q = p.split(1);
        }
        p.refund();
        BOOST_TEST(q.remaining() == 2);
    }
    BOOST_TEST(q.remaining() == 2);
    q.refund();
    BOOST_TEST(!q);
}

BOOST_AUTO_TEST_CASE(may_be_released_after_the_limiter_was_closed) {
    asio::io_context ctx;
    seats kitchen{ctx, {.seats = 2}};
    auto p = kitchen.try_enter(2);
    kitchen.close();
    auto part = p.split(1);
    part.leave();
    BOOST_TEST(p.remaining() == 1);
    BOOST_TEST(kitchen.stats().live == 1U);
    p.leave();
    BOOST_TEST(kitchen.stats().live == 0U);
}

BOOST_AUTO_TEST_CASE(may_be_released_after_the_limiter_was_destroyed) {
    asio::io_context ctx;
    permit p;
    {
        seats kitchen{ctx, {.seats = 2, .max_hold = 1h}};
        p = kitchen.try_enter(2);
    }
    run_for(ctx, 1s);
    BOOST_TEST(p.count() == 2);
    BOOST_TEST(p.remaining() == 0);
    auto part = p.split(1);
    p.settle(5);
    p.settle(1);
    part.leave();
    BOOST_TEST(p.remaining() == 1);
    p.leave();
}

BOOST_AUTO_TEST_CASE(may_be_released_after_the_context_was_destroyed) {
    permit p;
    permit q;
    {
        asio::io_context ctx;
        seats kitchen{ctx, {.seats = 3}};
        p = kitchen.try_enter(2);
        q = kitchen.try_enter(1);
    }
    p.merge(std::move(q));
    BOOST_TEST(p.count() == 3);
    p.settle(1);
    BOOST_TEST(p.remaining() == 2);
}

BOOST_AUTO_TEST_CASE(may_be_released_after_the_context_and_before_the_limiter_is_destroyed) {
    auto ctx = std::make_optional<asio::io_context>();
    seats kitchen{*ctx, {.seats = 2}};
    auto p = kitchen.try_enter();
    ctx.reset();
    p.leave();
    BOOST_TEST(kitchen.stats().live == 0U);
    BOOST_TEST(kitchen.stats().remaining == 2);
}

BOOST_AUTO_TEST_CASE(may_be_released_on_any_thread) {
    asio::io_context ctx;
    seats kitchen{ctx, {.seats = 2}};
    auto p = kitchen.try_enter(2);
    std::thread([p = std::move(p)]() mutable { p.leave(); }).join();
    BOOST_TEST(kitchen.stats().remaining == 2);
}

BOOST_AUTO_TEST_CASE(does_not_merge_with_a_permit_of_another_limiter) {
    asio::io_context ctx;
    seats kitchen{ctx, {.seats = 2}};
    seats bar{ctx, {.seats = 2}};
    auto p = kitchen.try_enter();
    auto q = bar.try_enter();
    BOOST_CHECK_THROW(p.merge(std::move(q)), std::invalid_argument);
    BOOST_TEST(kitchen.stats().live == 1U);
    BOOST_TEST(bar.stats().live == 1U);
    BOOST_TEST(q.count() == 1);
}

// Another permit may have its entry in the table of watched permits by then.
BOOST_AUTO_TEST_CASE(can_be_settled_for_0_and_then_for_more) {
    asio::io_context ctx;
    seats kitchen{ctx, {.seats = 4, .max_hold = 1h}};
    support::watch const watched(kitchen);
    auto p = kitchen.try_enter(2);
    p.settle(0);
    p.settle(2);
    BOOST_TEST(p.count() == 2);
    auto other = kitchen.try_enter(1);
    BOOST_TEST(kitchen.stats().remaining == 1);
    p.leave();
    BOOST_TEST(kitchen.stats().remaining == 3);
    other.leave();
    BOOST_TEST(kitchen.stats().remaining == 4);
    run_for(ctx, 2h);
    BOOST_TEST(watched.reports().empty());

    std::vector<permit> all;
    while (auto one = kitchen.try_enter())
        all.push_back(std::move(one));
    BOOST_TEST(all.size() == 4U);
    run_for(ctx, 2h);
    BOOST_TEST(watched.reports().size() == 4U);
}

BOOST_AUTO_TEST_CASE(can_be_split_into_0_and_outlive_the_rest) {
    asio::io_context ctx;
    seats kitchen{ctx, {.seats = 4, .max_hold = 1h}};
    support::watch const watched(kitchen);
    auto p = kitchen.try_enter(2);
    auto nothing = p.split(0);
    p.leave();
    auto other = kitchen.try_enter(1);  // has the entry of `p`
    nothing.merge(kitchen.try_enter(2));
    BOOST_TEST(nothing.count() == 2);
    BOOST_TEST(nothing.id() != other.id());
    nothing.leave();
    BOOST_TEST(kitchen.stats().remaining == 3);
    other.leave();
    BOOST_TEST(kitchen.stats().remaining == 4);
    BOOST_TEST(kitchen.stats().live == 0U);
    run_for(ctx, 2h);
    BOOST_TEST(watched.reports().empty());
}

BOOST_AUTO_TEST_SUITE_END()
