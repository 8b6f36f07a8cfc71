#include <weir/chain.hpp>
#include <weir/error.hpp>
#include <weir/keyed.hpp>
#include <weir/seats.hpp>

#include "support/printing.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/test/unit_test.hpp>

#include <optional>

// `enter_at_once` decides and counts a request that needs no wait, and leaves other requests to `enter`.

using weir::errc;
using weir::error_code;

namespace {

// Is not changed by a call that leaves the request to `enter`.
std::uint64_t rejections(weir::limiter_stats const& s) {
    return s.no_permit + s.exceeds_capacity + s.closed + s.too_many_keys + s.queue_full;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(limiter_at_once)

BOOST_AUTO_TEST_CASE(grants_what_is_free) {
    boost::asio::io_context context;
    weir::seats workers{context, {.seats = 3}};
    error_code ec = errc::closed;
    auto const two = workers.enter_at_once(2, ec);
    BOOST_TEST(two.count() == 2);
    BOOST_TEST(!ec);
    BOOST_TEST(workers.stats().granted_immediately == 1U);
}

BOOST_AUTO_TEST_CASE(leaves_a_request_that_must_wait_to_enter) {
    boost::asio::io_context context;
    weir::seats workers{context, {.seats = 1}};
    auto seat = workers.try_enter();
    error_code ec = errc::closed;
    BOOST_TEST(!workers.enter_at_once({}, ec));
    BOOST_TEST(!ec);
    BOOST_TEST(rejections(workers.stats()) == 0U);

    std::optional<error_code> done;
    workers.async_enter([&](error_code result, weir::permit const&) { done = result; });
    ec = errc::closed;
    BOOST_TEST(!workers.enter_at_once({}, ec));  // overtakes nobody
    BOOST_TEST(!ec);
    seat.leave();
    context.run();
    BOOST_TEST_REQUIRE(done.has_value());
    BOOST_TEST(!*done);
    BOOST_TEST(rejections(workers.stats()) == 0U);
    BOOST_TEST(workers.stats().granted == 2U);
}

BOOST_AUTO_TEST_CASE(rejects_what_no_wait_can_help) {
    boost::asio::io_context context;
    weir::seats workers{context, {.seats = 1}};
    error_code ec;
    BOOST_TEST(!workers.enter_at_once(2, ec));
    BOOST_TEST(ec == errc::exceeds_capacity);
    workers.close();
    BOOST_TEST(!workers.enter_at_once({}, ec));
    BOOST_TEST(ec == errc::closed);
    BOOST_TEST(rejections(workers.stats()) == 2U);
}

BOOST_AUTO_TEST_CASE(of_a_key) {
    boost::asio::io_context context;
    weir::keyed<int, weir::seats> clients{
        context,
        {.seats = 1},
        {.max_keys = 1, .no_place = weir::when_no_place::reject, .shards = 1}};
    error_code ec;
    auto const seat = clients.enter_at_once(1, {}, ec);
    BOOST_TEST(static_cast<bool>(seat));
    BOOST_TEST(!clients.enter_at_once(1, {}, ec));
    BOOST_TEST(!ec);
    BOOST_TEST(!clients.enter_at_once(2, {}, ec));
    BOOST_TEST(ec == errc::too_many_keys);
    auto const total = clients.stats().total;
    BOOST_TEST(total.too_many_keys == 1U);
    BOOST_TEST(rejections(total) == 1U);
}

BOOST_AUTO_TEST_CASE(of_a_chain) {
    boost::asio::io_context context;
    weir::seats a{context, {.seats = 1}};
    weir::seats b{context, {.seats = 2}};
    weir::chain all{a, b.with(2)};
    error_code ec = errc::closed;
    {
        auto const both = all.enter_at_once(ec);
        BOOST_TEST(static_cast<bool>(both));
        BOOST_TEST(!ec);
        BOOST_TEST(!all.enter_at_once(ec));
        BOOST_TEST(!ec);
    }
    BOOST_TEST(!weir::chain(a, b.with(3)).enter_at_once(ec));
    BOOST_TEST(ec == errc::exceeds_capacity);
    BOOST_TEST(rejections(a.stats()) == 0U);
    BOOST_TEST(rejections(b.stats()) == 1U);
}

BOOST_AUTO_TEST_SUITE_END()
