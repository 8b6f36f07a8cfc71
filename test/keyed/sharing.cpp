#include <weir/chain.hpp>
#include <weir/keyed.hpp>
#include <weir/policy/seats.hpp>
#include <weir/policy/token_bucket.hpp>

#include "support/virtual_limiters.hpp"
#include "support/visit.hpp"

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/test/unit_test.hpp>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

// `when_no_place::share`: whether a key has a place is decided when its request is, and not when the call is made. So
// each request is granted or waits by a state of its key, or by the shared one: none is rejected with
// `errc::too_many_keys`.

using namespace support;
using weir::errc;
using weir::error_code;
using weir::permit;

namespace {

using seat_keys = weir::testing::keyed<int, weir::policy::seats>;

// The table has one place. `fill` gives it to key 1.
struct small_table {
    explicit small_table(weir::amount each = 1, weir::queue_options const& queueing = {})
        : tables(ctx, {.seats = each},
                 {.max_keys = 1, .no_place = weir::when_no_place::share, .heavy_keys = 10},
                 queueing) {}

    void fill() {
        first = tables.try_enter(1);
        BOOST_TEST_REQUIRE(static_cast<bool>(first));
        BOOST_TEST_REQUIRE(tables.stats().keys == 1U);
    }
    // No request was rejected with `errc::too_many_keys`, and each of them counts once.
    void check_counts(std::uint64_t requests) const {
        BOOST_TEST(tables.stats().total.too_many_keys == 0U);
        BOOST_TEST(tables.stats().keys <= 1U);
        std::uint64_t counted = 0;
        for (auto const& found : tables.heaviest(10))
            counted += found.requests;
        BOOST_TEST(counted == requests);
    }

    asio::io_context ctx;
    seat_keys tables;
    permit first;
};

}  // namespace

BOOST_AUTO_TEST_SUITE(keys_without_a_place)

BOOST_AUTO_TEST_CASE(share_although_there_was_a_place_at_the_call) {
    small_table t;
    auto two = t.tables.async_enter(2, 5s, asio::deferred);
    auto three = t.tables.async_enter(3, 5s, asio::deferred);
    t.fill();
    visit second;
    visit third;
    std::move(two)(second.callback());
    std::move(three)(third.callback());
    settle(t.ctx);
    BOOST_TEST(second.granted());  // the shared seat
    BOOST_TEST(third.waiting());
    second.leave();
    settle(t.ctx);
    BOOST_TEST(third.granted());
    BOOST_TEST(t.tables.stats().total.granted == 3U);
    t.check_counts(3);
}

BOOST_AUTO_TEST_CASE(have_their_own_state_although_there_was_no_place_at_the_call) {
    small_table t;
    t.fill();
    auto two = t.tables.async_enter(2, asio::deferred);
    auto link = t.tables.with(3);
    t.first.leave();
    visit second;
    std::move(two)(second.callback());
    settle(t.ctx);
    BOOST_TEST(second.granted());
    BOOST_TEST(t.tables.stats(2).remaining == 0);
    // The shared seat is still free.
    auto shared = t.tables.try_enter(4);
    BOOST_TEST(static_cast<bool>(shared));
    second.leave();
    weir::chain own(link);
    auto third = own.try_enter();
    BOOST_TEST(static_cast<bool>(third));
    t.check_counts(4);
}

BOOST_AUTO_TEST_CASE(share_by_each_call) {
    small_table t(10);
    t.fill();
    error_code ec;
    std::vector<permit> all;
    all.push_back(t.tables.try_enter(2, 1, ec));
    BOOST_TEST(!ec);
    all.push_back(t.tables.enter_at_once(3, 1, ec));
    BOOST_TEST(!ec);
    all.push_back(t.tables.try_enter_up_to(4, 2));
    all.push_back(t.tables.charge(5, 1));
    std::vector<int> const keys{6, 1, 7};
    std::vector<permit> batch(3);
    t.tables.try_enter_many<int>(keys, batch);
    for (auto& p : batch)
        all.push_back(std::move(p));
    for (auto const& p : all)
        BOOST_TEST(static_cast<bool>(p));
    BOOST_TEST(t.tables.stats(2).remaining == 3);
    BOOST_TEST(t.tables.stats(1).remaining == 8);
    t.check_counts(7);  // `charge` does not count
    t.tables.close();
    BOOST_TEST(!t.tables.charge(8, 1));
    BOOST_TEST(!t.tables.try_enter(8, 1, ec));
    BOOST_TEST(ec == errc::closed);
}

BOOST_AUTO_TEST_CASE(reserve_in_the_shared_queue) {
    asio::io_context ctx;
    weir::testing::keyed<int, weir::policy::token_bucket> calls{
        ctx,
        {.rate = {1, 1s}, .burst = 1},
        {.max_keys = 1, .no_place = weir::when_no_place::share}};
    BOOST_TEST(static_cast<bool>(calls.try_enter(1)));
    BOOST_TEST(static_cast<bool>(calls.try_enter(2)));
    auto three = calls.reserve(3);
    auto four = calls.reserve(4);
    BOOST_TEST((three.at() == weir::testing::clock::now() + 1s));
    BOOST_TEST((four.at() == weir::testing::clock::now() + 2s));
    four.give_back();
    visit third;
    three.async_enter(third.callback());
    auto five = calls.reserve(5);
    BOOST_TEST((five.at() == weir::testing::clock::now() + 2s));
    run_for(ctx, 1s);
    BOOST_TEST(third.granted());
    run_for(ctx, 1s);
    BOOST_TEST(static_cast<bool>(five.try_enter()));
    BOOST_TEST(calls.stats().total.too_many_keys == 0U);
}

// The signal reaches the operation where it waits.
BOOST_AUTO_TEST_CASE(are_cancelled_in_the_shared_queue) {
    small_table t;
    auto two = t.tables.async_enter(2, asio::deferred);
    t.fill();
    auto const shared = t.tables.try_enter(3);
    visit second;
    asio::cancellation_signal signal;
    std::move(two)(asio::bind_cancellation_slot(signal.slot(), second.callback()));
    settle(t.ctx);
    BOOST_TEST(second.waiting());
    signal.emit(asio::cancellation_type::total);
    settle(t.ctx);
    BOOST_TEST(second.rejected(asio::error::operation_aborted));
    BOOST_TEST(t.tables.stats().total.waiting == 0U);

    // An operation that outlives the limiter has another one's place.
    std::optional<seat_keys> gone(
        std::in_place, t.ctx, weir::seats_options{.seats = 1},
        weir::keyed_options{.max_keys = 1, .no_place = weir::when_no_place::share});
    auto late = gone->async_enter(2, asio::deferred);
    auto const first = gone->try_enter(1);
    gone.reset();
    visit last;
    std::move(late)(last.callback());
    settle(t.ctx);
    BOOST_TEST(last.rejected(errc::closed));
}

BOOST_AUTO_TEST_CASE(tell_the_observer_of_their_last_rejection_only) {
    small_table t;
    t.fill();
    std::vector<error_code> told;
    t.tables.observe([&](weir::request_event const& e) { told.push_back(e.error); });
    auto const shared = t.tables.try_enter(2);
    static_cast<void>(t.tables.try_enter(3));
    visit waits;
    t.tables.async_enter(3, 0s, waits.callback());
    settle(t.ctx);
    BOOST_TEST_REQUIRE(told.size() == 2U);
    BOOST_TEST(told[0] == errc::no_permit);
    BOOST_TEST(told[1] == errc::timed_out);
    t.check_counts(4);
}

// The first new key gets the shared seat, as it would without a dry run; the next ones only pass.
BOOST_AUTO_TEST_CASE(share_in_a_dry_run) {
    small_table t(1, {.dry_run = true});
    t.fill();
    auto const two = t.tables.try_enter(2);
    BOOST_TEST(t.tables.stats().total.would_reject == 0U);
    BOOST_TEST(t.tables.stats().total.in_use == 2);
    auto const three = t.tables.try_enter(3);
    BOOST_TEST(static_cast<bool>(three));
    BOOST_TEST(t.tables.stats().total.would_reject == 1U);
    weir::chain chained(t.tables.with(4));
    auto const four = chained.try_enter();
    BOOST_TEST(static_cast<bool>(four));
    BOOST_TEST(t.tables.stats().total.in_use == 2);
}

BOOST_AUTO_TEST_CASE(share_in_chains_that_were_made_before) {
    small_table t(2);
    seats before{t.ctx, {.seats = 9}};
    seats after{t.ctx, {.seats = 9}};
    weir::chain chained(before.with(2), t.tables.with(2), after.with(3), t.tables.with(3));
    weir::chain twice(t.tables.with(4), t.tables.with(4));
    t.fill();
    error_code ec;
    auto permits = chained.try_enter(ec);
    BOOST_TEST(!ec);
    BOOST_TEST(static_cast<bool>(permits));
    BOOST_TEST(before.stats().in_use == 2);
    BOOST_TEST(after.stats().in_use == 3);
    BOOST_TEST(t.tables.stats(2).remaining == 0);  // shared
    BOOST_TEST(t.tables.stats(1).remaining == 1);

    auto const rejected = chained.try_enter(ec);
    BOOST_TEST(ec == errc::no_permit);
    BOOST_TEST((rejected.rejected_by() == 1U));
    permits = {};
    BOOST_TEST(before.stats().in_use == 0);
    BOOST_TEST(t.tables.stats(2).remaining == 2);

    auto const both = twice.try_enter(ec);
    BOOST_TEST(!ec);
    BOOST_TEST(t.tables.stats(4).remaining == 0);
    BOOST_TEST(t.tables.stats().total.too_many_keys == 0U);
}

BOOST_AUTO_TEST_CASE(wait_and_are_cancelled_in_chains_that_were_made_before) {
    for (bool const keys_first : {true, false}) {
        small_table t;
        seats other{t.ctx, {.seats = 1}};
        auto const chained = [&](int key) {
            std::vector<weir::any_link> links{t.tables.with(key), other};
            if (!keys_first)
                std::swap(links[0], links[1]);
            return weir::any_chain({links[0], links[1]});
        };
        auto two = chained(2);
        auto three = chained(3);
        auto four = chained(4);
        t.fill();
        struct end {
            std::optional<error_code> error;
            weir::any_chain_permit permits;
        };
        std::array<end, 3> ends;
        std::array<asio::cancellation_signal, 3> signals;
        auto const enter = [&](weir::any_chain& c, std::size_t i) {
            c.async_enter(
                5s, asio::bind_cancellation_slot(
                        signals[i].slot(), [&, i](error_code ec, weir::any_chain_permit p) {
                            ends[i] = {ec, std::move(p)};
                        }));
        };
        enter(two, 0);
        enter(three, 1);
        enter(four, 2);
        settle(t.ctx);
        BOOST_TEST((ends[0].error == error_code()));
        BOOST_TEST(!ends[1].error);
        signals[1].emit(asio::cancellation_type::total);
        settle(t.ctx);
        BOOST_TEST((ends[1].error == error_code(asio::error::operation_aborted)));
        BOOST_TEST(!ends[2].error);
        ends[0].permits = {};
        settle(t.ctx);
        BOOST_TEST((ends[2].error == error_code()));
        BOOST_TEST(static_cast<bool>(ends[2].permits));
        ends[2].permits = {};
        BOOST_TEST(t.tables.stats().total.in_use == 1);
        BOOST_TEST(t.tables.stats().total.too_many_keys == 0U);
    }
}

BOOST_AUTO_TEST_SUITE_END()
