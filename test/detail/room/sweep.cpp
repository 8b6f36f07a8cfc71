#include <weir/detail/room/sweep.hpp>

#include "support/printing.hpp"
#include "support/stand_in.hpp"

#include <boost/asio/error.hpp>
#include <boost/test/unit_test.hpp>

#include <cstdint>

using support::stand_in;
using weir::amount;
using weir::errc;
using weir::error_code;
using weir::time_point;
using weir::detail::sweep;
using namespace std::chrono_literals;

BOOST_AUTO_TEST_SUITE(detail_room_sweep)

namespace {

// One permit becomes free each second, from now on, and a request can get at most three.
struct one_each_second {
    [[nodiscard]] static amount capacity() noexcept { return 3; }
    [[nodiscard]] static time_point ready_at(amount n, amount ahead, time_point now) noexcept {
        return now + (ahead + n) * 1s;
    }
};

auto const aborted = make_error_code(boost::asio::error::operation_aborted);
error_code const stays;
constexpr time_point now{100s};

struct guest : stand_in {
    guest(std::uint64_t n, amount asks, std::chrono::seconds patience) {
        number = n;
        count = asks;
        deadline = now + patience;
    }
};

error_code look_at(sweep& s, guest& g, bool is_shut = false, bool in_order = true) {
    return s.look_at(g, one_each_second(), weir::detail::pause(), is_shut, in_order, now);
}

}  // namespace

BOOST_AUTO_TEST_CASE(cancels_requests_that_arrived_before) {
    sweep s;
    guest before(4, 1, 1h);
    guest after(5, 1, 1h);
    s.cancel_before(5);
    BOOST_TEST(s.is_under_way());
    BOOST_TEST(look_at(s, before) == aborted);
    BOOST_TEST(look_at(s, after) == stays);
    s.end();
    BOOST_TEST(!s.is_under_way());
    BOOST_TEST(s.cancels(4));
    BOOST_TEST(!s.cancels(5));
}

BOOST_AUTO_TEST_CASE(all_requests_leave_a_closed_limiter_even_if_they_are_cancelled) {
    sweep s;
    guest one(1, 1, 1h);
    s.cancel_before(2);
    s.close();
    BOOST_TEST(look_at(s, one, true) == errc::closed);
}

BOOST_AUTO_TEST_CASE(other_options_reject_requests_that_cannot_be_granted_in_time) {
    sweep s;
    guest first(1, 2, 2s);
    guest too_late(2, 2, 3s);
    guest too_much(3, 4, 1h);
    guest last(4, 1, 3s);  // the two requests before it have left
    s.reprice();
    BOOST_TEST(look_at(s, first) == stays);
    BOOST_TEST(look_at(s, too_late) == errc::deadline_unreachable);
    BOOST_TEST(look_at(s, too_much) == errc::exceeds_capacity);
    BOOST_TEST(look_at(s, last) == stays);
}

BOOST_AUTO_TEST_CASE(a_debt_is_examined_during_grants_and_once_more_after_a_debt_meanwhile) {
    sweep s;
    guest one(1, 1, 1h);
    BOOST_TEST(s.fall_into_debt());
    BOOST_TEST(s.is_under_way());
    BOOST_TEST(!s.holds_grants());
    BOOST_TEST(look_at(s, one) == stays);
    BOOST_TEST(!s.fall_into_debt());
    BOOST_TEST(!s.fall_into_debt());
    BOOST_TEST(s.end());
    guest late(2, 1, 0s);
    BOOST_TEST(look_at(s, late) == errc::deadline_unreachable);
    BOOST_TEST(!s.end());
    BOOST_TEST(!s.is_under_way());
}

BOOST_AUTO_TEST_CASE(a_debt_during_another_walk_is_examined_after_it) {
    sweep s;
    s.cancel_before(1);
    BOOST_TEST(!s.fall_into_debt());
    BOOST_TEST(s.holds_grants());
    BOOST_TEST(s.end());
    BOOST_TEST(!s.holds_grants());
    s.reprice();  // examines all again, so nothing remains for later
    BOOST_TEST(s.holds_grants());
    BOOST_TEST(!s.end());
}

BOOST_AUTO_TEST_CASE(a_request_that_leaves_after_its_examination_is_no_longer_ahead) {
    sweep s;
    guest first(1, 2, 1h);
    guest second(2, 2, 2s);
    s.reprice();
    BOOST_TEST(look_at(s, first) == stays);
    s.leaves(first);
    BOOST_TEST(look_at(s, second) == stays);
    s.leaves(second);
    guest unseen(3, 2, 1h);
    s.leaves(unseen);  // the sweep has not reached it
    guest third(4, 1, 0s);
    BOOST_TEST(look_at(s, third) == errc::deadline_unreachable);
}

BOOST_AUTO_TEST_CASE(no_request_is_certainly_ahead_if_the_order_may_change) {
    sweep s;
    guest first(1, 2, 1h);
    guest second(2, 2, 2s);
    s.reprice();
    BOOST_TEST(look_at(s, first, false, false) == stays);
    BOOST_TEST(look_at(s, second, false, false) == stays);
}

BOOST_AUTO_TEST_CASE(prices_are_examined_only_after_a_change_or_a_new_request) {
    sweep s;
    guest late(9, 1, 0s);
    s.joins();
    s.cancel_before(5);
    BOOST_TEST(look_at(s, late) == stays);
    s.joins();
    BOOST_TEST(look_at(s, late) == errc::deadline_unreachable);
    s.end();
    s.cancel_before(6);
    BOOST_TEST(look_at(s, late) == stays);
}

BOOST_AUTO_TEST_SUITE_END()
