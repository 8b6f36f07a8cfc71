#include <weir/detail/room/deadlines.hpp>

#include "support/printing.hpp"
#include "support/stand_in.hpp"

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <vector>

using namespace std::chrono_literals;
using weir::never;
using weir::time_point;
using weir::detail::deadlines;
using weir::detail::operation;

BOOST_AUTO_TEST_SUITE(detail_room_deadlines)

namespace {

constexpr time_point start{1h};

std::vector<operation*> expired(deadlines& of, time_point now, int budget) {
    std::vector<operation*> result;
    of.expire(now, budget, [&](operation& op) { result.push_back(&op); });
    return result;
}

}  // namespace

BOOST_AUTO_TEST_CASE(return_operations_whose_deadline_has_passed) {
    deadlines all;
    BOOST_TEST(all.next() == never);
    all.prepare(start, 0ns);
    support::stand_in patient, late, early;
    all.insert(patient, never);
    all.insert(late, start + 2s);
    all.insert(early, start + 1s);

    BOOST_TEST(expired(all, start + 1s, 100).empty());  // a deadline at the current time is met
    BOOST_TEST(all.next() > start);
    BOOST_TEST((expired(all, start + 1s + 1ns, 100) == std::vector<operation*>{&early}));
    BOOST_TEST(expired(all, start + 10s, 0).empty());
    BOOST_TEST((expired(all, start + 10s, 100) == std::vector<operation*>{&late}));
    BOOST_TEST(all.next() == never);
}

BOOST_AUTO_TEST_CASE(can_be_moved_and_removed) {
    deadlines all;
    all.prepare(start, 0ns);
    support::stand_in one, two, three;
    all.insert(one, start + 1s);
    all.move(one, start + 3s);
    all.insert(two, start + 2s);
    all.move(two, never);
    BOOST_TEST(expired(all, start + 2s + 1ns, 100).empty());
    all.insert(three, start + 4s);
    deadlines::erase(three);
    BOOST_TEST((expired(all, start + 10s, 100) == std::vector<operation*>{&one}));

    all.move(two, start + 11s);
    deadlines::replace(two, three);
    BOOST_TEST((expired(all, start + 20s, 100) == std::vector<operation*>{&three}));
}

BOOST_AUTO_TEST_CASE(have_no_memory_before_the_first_one_and_after_it_was_taken) {
    deadlines all;
    BOOST_TEST(!all.take_memory());
    support::stand_in op;
    all.insert(op, never);
    all.move(op, never);
    all.prepare(start, 1ms);
    BOOST_TEST(bool(all.take_memory()));
    BOOST_TEST(!all.take_memory());
    BOOST_TEST(all.next() == never);
}

BOOST_AUTO_TEST_SUITE_END()
