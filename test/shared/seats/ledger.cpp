#include <weir/shared/seat_ledger.hpp>

#include "support/printing.hpp"
#include "support/seats_definition.hpp"

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <cstdint>
#include <vector>

namespace {

using namespace std::chrono_literals;
using weir::amount;
using weir::detail::seat_ledger;
using question = weir::policy::fed_seats::question;
using notice = weir::policy::fed_seats::notice;

constexpr std::int64_t begin = 1'700'000'000'000'000;

struct fixture {
    seat_ledger ledger;
    std::int64_t now = begin;
    std::uint64_t number = 0;

    // Three seats, for ten seconds.
    question of(std::uint64_t who, std::int64_t fence, amount keep, amount least, amount most) {
        return {.seats = 3,
                .lease = 10s,
                .holder = {who, 7},
                .number = ++number,
                .fence = fence,
                .keep = keep,
                .min = least,
                .max = most};
    }
    amount ask(std::uint64_t who, std::int64_t fence, amount keep, amount least, amount most) {
        return ledger.hold(of(who, fence, keep, least, most), now).held;
    }
};

BOOST_FIXTURE_TEST_SUITE(shared_seats_ledger, fixture)

BOOST_AUTO_TEST_CASE(seats_are_granted_while_available_and_rejected_with_the_next_end_of_a_lease) {
    BOOST_TEST(ask(1, 0, 0, 1, 2) == 2);
    now += 1'000'000;
    BOOST_TEST(ask(2, 0, 0, 1, 2) == 1);
    now += 1'000'000;
    auto const denied = ledger.hold(of(3, 0, 0, 1, 1), now);
    BOOST_TEST(denied.held == 0);
    BOOST_TEST(denied.fence == 0);
    BOOST_TEST((denied.wait == 8s));
    BOOST_TEST(ledger.held(now) == 3);
}

BOOST_AUTO_TEST_CASE(holding_grows_shrinks_and_ends_under_one_fence) {
    auto const first = ledger.hold(of(1, 0, 0, 1, 1), now);
    BOOST_TEST(first.fence == begin);
    now += 5;
    auto const more = ledger.hold(of(1, begin, 1, 2, 3), now);
    BOOST_TEST(more.held == 3);
    BOOST_TEST(more.fence == begin);
    BOOST_TEST(ask(1, begin, 2, 0, 2) == 2);
    BOOST_TEST(ask(2, 0, 0, 1, 1) == 1);
    BOOST_TEST(ask(1, begin, 1, 3, 3) == 1);  // not that many, and no more than the seats in use
    BOOST_TEST(ask(1, begin, 0, 0, 0) == 0);
    BOOST_TEST(ledger.held(now) == 1);
    auto const next = ledger.hold(of(1, 0, 0, 1, 1), now);
    BOOST_TEST(next.fence > begin + 5);
}

BOOST_AUTO_TEST_CASE(fences_grow_although_the_clock_stops_or_is_set_back) {
    std::int64_t last = 0;
    for (std::uint64_t who = 1; who != 10; ++who) {
        auto const said = ledger.hold(of(who, 0, 0, 1, 1), now);
        BOOST_TEST_REQUIRE(said.held == 1);
        BOOST_TEST(said.fence > last);
        last = said.fence;
        ledger.hold(of(who, last, 0, 0, 0), now);
        now -= who % 2 == 0 ? 1'000'000 : 0;
    }
}

BOOST_AUTO_TEST_CASE(lease_ends_unless_it_is_renewed_and_not_before) {
    auto const f = ledger.hold(of(1, 0, 0, 3, 3), now).fence;
    now += 9'999'999;
    BOOST_TEST(ask(2, 0, 0, 1, 1) == 0);
    BOOST_TEST(ask(1, f, 3, 0, 3) == 3);
    now += 9'999'999;
    BOOST_TEST(ask(2, 0, 0, 1, 1) == 0);
    now += 1;
    BOOST_TEST(ask(2, 0, 0, 1, 1) == 1);
    BOOST_TEST(ask(1, f, 3, 0, 3) == 0);  // the lease ended, although there are seats
}

BOOST_AUTO_TEST_CASE(overtaken_question_changes_nothing) {
    auto const early = of(1, 0, 0, 3, 3);
    auto const late = ledger.hold(of(1, 0, 0, 1, 1), now);
    BOOST_TEST(ledger.hold(early, now).held == 1);
    BOOST_TEST(ledger.held(now) == 1);
    now += 5'000'000;
    auto const renewal = of(1, late.fence, 1, 0, 1);
    ledger.hold(renewal, now);
    auto const before = ledger.text();
    now += 1;
    BOOST_TEST(ledger.hold(renewal, now).held == 1);
    BOOST_TEST(ledger.text() == before);
}

BOOST_AUTO_TEST_CASE(holding_unknown_to_its_holder_ends) {
    auto const ghost = ledger.hold(of(1, 0, 0, 3, 3), now);
    auto q = of(1, 0, 0, 1, 2);
    q.known = ghost.fence;
    auto const said = ledger.hold(q, now);
    BOOST_TEST(said.held == 2);
    BOOST_TEST(said.fence > ghost.fence);
    BOOST_TEST(ledger.held(now) == 2);
    BOOST_TEST(ask(1, ghost.fence, 1, 0, 1) == 0);
    BOOST_TEST(ledger.held(now) == 0);
    ask(1, 0, 0, 1, 1);
    BOOST_TEST(ask(1, 0, 0, 0, 0) == 0);
    BOOST_TEST(ledger.held(now) == 0);
}

BOOST_AUTO_TEST_CASE(clock_set_back_keeps_no_seat_for_longer_than_a_lease) {
    ask(1, 0, 0, 3, 3);
    now -= 3'600'000'000;
    BOOST_TEST((ledger.hold(of(2, 0, 0, 1, 1), now).wait == 10s));
    now += 10'000'000;
    BOOST_TEST(ask(2, 0, 0, 1, 1) == 1);
}

BOOST_AUTO_TEST_CASE(fewer_seats_than_are_held_revoke_nothing) {
    auto const f = ledger.hold(of(1, 0, 0, 3, 3), now).fence;
    auto q = of(1, f, 3, 0, 3);
    q.seats = 1;
    BOOST_TEST(ledger.hold(q, now).held == 3);
    q = of(1, f, 2, 0, 2);
    q.seats = 1;
    BOOST_TEST(ledger.hold(q, now).held == 2);
}

BOOST_AUTO_TEST_CASE(text_is_the_ledger) {
    ask(1, 0, 0, 1, 2);
    ask(0xfedcba9876543210, 0, 0, 1, 1);
    auto const read = seat_ledger::parse(ledger.text());
    BOOST_TEST_REQUIRE(read.has_value());
    BOOST_TEST((*read == ledger));
    BOOST_TEST((seat_ledger::parse("0\n") == seat_ledger()));
    for (auto const* const nonsense :
         {"", "0", "x\n", "0\n1", "0\n1 2 3 4 5 6\n", "0\n1 2 3 4 5 6 7\n", "0\n1 2 3 4 5 6 7 8",
          "0\n1 2 3 4 5 6 7 8 9\n"})
        BOOST_TEST(!seat_ledger::parse(nonsense));
}

// ---- The line

BOOST_AUTO_TEST_CASE(released_seats_go_to_the_first_in_the_line_without_its_question) {
    auto const f = ledger.hold(of(1, 0, 0, 3, 3), now).fence;
    auto first = of(2, 0, 0, 1, 1);
    first.channel = 22;
    auto const waits = ledger.hold(first, ++now);
    BOOST_TEST(waits.held == 0);
    BOOST_TEST(waits.ahead == 0);
    BOOST_TEST(waits.waits == 0);
    auto const behind = ledger.hold(of(3, 0, 0, 1, 1), ++now);
    BOOST_TEST(behind.ahead == 1);
    BOOST_TEST(behind.waits == 1);
    BOOST_TEST(ledger.waiting(now) == 2);

    std::vector<notice> told;
    auto const less = ledger.hold(of(1, f, 2, 0, 2), ++now, told);
    BOOST_TEST(less.held == 2);
    BOOST_TEST(less.waits == 1);
    BOOST_TEST_REQUIRE(told.size() == 1u);
    BOOST_TEST((told[0] == notice{.holder = {2, 7},
                                  .channel = 22,
                                  .number = first.number,
                                  .held = 1,
                                  .fence = now,
                                  .time = now,
                                  .waits = 1}));
    BOOST_TEST(ledger.held(now) == 3);
}

BOOST_AUTO_TEST_CASE(large_request_at_the_head_gets_its_seats_before_small_ones_behind_it) {
    auto const f = ledger.hold(of(1, 0, 0, 2, 2), now).fence;
    auto const g = ledger.hold(of(2, 0, 0, 1, 1), ++now).fence;
    BOOST_TEST(ledger.hold(of(3, 0, 0, 3, 3), ++now).ahead == 0);
    BOOST_TEST(ledger.hold(of(4, 0, 0, 1, 1), ++now).ahead == 1);
    ask(1, f, 0, 0, 0);
    BOOST_TEST(ledger.held(now) == 1);  // two are free, for the holder of 3
    BOOST_TEST(ask(5, 0, 0, 1, 1) == 0);
    ask(2, g, 0, 0, 0);
    BOOST_TEST(ledger.hold(of(4, 0, 0, 1, 1), ++now).ahead == 0);
    auto const all = of(3, 0, 0, 3, 3);
    BOOST_TEST(ledger.hold(all, ++now).held == 3);
}

BOOST_AUTO_TEST_CASE(holder_that_yields_stands_at_the_end_of_the_line) {
    auto const f = ledger.hold(of(1, 0, 0, 3, 3), now).fence;
    ask(2, 0, 0, 1, 1);
    ask(3, 0, 0, 3, 3);
    auto q = of(1, f, 0, 1, 3);
    q.yields = true;
    auto const said = ledger.hold(q, ++now);
    BOOST_TEST(said.held == 0);
    BOOST_TEST(said.ahead == 1);
    BOOST_TEST(ledger.held(now) == 1);
    // Without another holder in the line it keeps what it needs.
    seat_ledger alone;
    auto const a = alone.hold(of(1, 0, 0, 1, 1), now).fence;
    q = of(1, a, 0, 1, 1);
    q.yields = true;
    BOOST_TEST(alone.hold(q, ++now).held == 1);
}

BOOST_AUTO_TEST_CASE(grant_that_its_holder_does_not_confirm_lapses_after_a_second) {
    auto const f = ledger.hold(of(1, 0, 0, 3, 3), now).fence;
    ask(2, 0, 0, 3, 3);
    ask(3, 0, 0, 1, 1);
    ask(1, f, 0, 0, 0);
    now += 999'999;
    BOOST_TEST(ask(3, 0, 0, 1, 1) == 0);
    BOOST_TEST(ledger.held(now) == 3);
    now += 1;
    BOOST_TEST(ask(3, 0, 0, 1, 1) == 1);

    seat_ledger other;
    auto const g = other.hold(of(1, 0, 0, 3, 3), now).fence;
    other.hold(of(2, 0, 0, 1, 1), now);
    other.hold(of(1, g, 0, 0, 0), now);
    now += 999'999;
    BOOST_TEST(other.hold(of(2, 0, 0, 1, 1), now).held == 1);  // it asks in time
    now += 9'999'999;
    BOOST_TEST(other.held(now) == 1);
}

BOOST_AUTO_TEST_CASE(place_in_the_line_lapses_after_a_lease) {
    auto const f = ledger.hold(of(1, 0, 0, 3, 3), now).fence;
    ask(2, 0, 0, 3, 3);
    now += 5'000'000;
    ask(1, f, 3, 0, 3);
    ask(3, 0, 0, 1, 1);
    now += 5'000'000;  // the second holder has asked nothing since
    ask(1, f, 0, 0, 0);
    BOOST_TEST(ledger.hold(of(3, 0, 0, 1, 1), now).held == 1);
}

BOOST_AUTO_TEST_CASE(question_that_only_repeats_a_wait_changes_nothing) {
    ask(1, 0, 0, 3, 3);
    ask(2, 0, 0, 1, 1);
    auto const before = ledger.text();
    now += 4'999'999;
    BOOST_TEST(ledger.hold(of(2, 0, 0, 1, 1), now).ahead == 0);
    BOOST_TEST(ledger.text() == before);
    now += 1;
    ask(2, 0, 0, 1, 1);
    BOOST_TEST(ledger.text() != before);
}

BOOST_AUTO_TEST_CASE(holder_that_nobody_told_continues_the_new_holding) {
    auto const f = ledger.hold(of(1, 0, 0, 3, 3), now).fence;
    ask(2, 0, 0, 1, 1);
    ask(1, f, 0, 0, 0);
    auto const granted = now;
    auto const said = ledger.hold(of(2, 0, 0, 1, 1), ++now);
    BOOST_TEST(said.held == 1);
    BOOST_TEST(said.fence == granted + 1);  // the token of the grant
}

BOOST_AUTO_TEST_CASE(first_who_waits_is_announced_to_holders_that_listen) {
    auto q = of(1, 0, 0, 3, 3);
    q.channel = 11;
    ledger.hold(q, now);
    std::vector<notice> told;
    ledger.hold(of(2, 0, 0, 1, 1), ++now, told);
    BOOST_TEST_REQUIRE(told.size() == 1u);
    BOOST_TEST((told[0] == notice{.holder = {1, 7}, .channel = 11, .time = now, .waits = 1}));
}

BOOST_AUTO_TEST_CASE(fences_grow_beyond_what_a_holder_has_known) {
    auto q = of(1, 0, 0, 1, 1);
    q.known = now + 1'000'000;  // by a clock that was set back, of a store that has lost its data
    BOOST_TEST(ledger.hold(q, now).fence == q.known + 1);
}

BOOST_AUTO_TEST_CASE(replies_follow_the_definition) {
    support::for_each_seed(1, 50, [&](auto& random) {
        seat_ledger one;
        support::compare_with_seats([&](question const& q, std::int64_t at,
                                        auto& messages) { return one.hold(q, at, messages); },
                                    500, random, now);
    });
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
