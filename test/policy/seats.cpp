#include <weir/policy/seats.hpp>

#include "support/allocations.hpp"
#include "support/printing.hpp"
#include "support/random.hpp"
#include "support/renew.hpp"
#include "support/says.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <stdexcept>
#include <vector>

using namespace std::chrono_literals;
using support::allocation_count;
using support::random_source;
using support::renew;
using support::says;
using weir::amount;
using weir::duration;
using weir::forever;
using weir::max_amount;
using weir::never;
using weir::seats_options;
using weir::ticket;
using weir::time_point;
using weir::unknown;
using weir::policy::seats;

BOOST_AUTO_TEST_SUITE(policy_seats)

namespace {

// A limiter that counts permits in its lock would not call this `take`.
class takes_twice : public seats {
public:
    using seats::seats;
    ticket take(amount n, time_point now) noexcept { return seats::take(2 * n, now); }
};
static_assert(weir::countable_policy<seats>);
static_assert(weir::limiting_policy<takes_twice> && !weir::countable_policy<takes_twice>);

constexpr duration tick{1};
constexpr time_point noon{12h};
constexpr time_point whenever{};  // seats without a watch need no time

bool fits(seats const& room, amount n) {
    return room.ready_at(n, 0, whenever) <= whenever;
}

std::vector<weir::overdue> all_overdue(seats& room, time_point now) {
    std::vector<weir::overdue> found;
    while (auto const one = room.pop_overdue(now))
        found.push_back(*one);
    return found;
}

std::vector<ticket> overdue_ids(seats& room, time_point now) {
    std::vector<ticket> ids;
    for (auto const& one : all_overdue(room, now))
        ids.push_back(one.id);
    return ids;
}

using tickets = std::vector<ticket>;

}  // namespace

BOOST_AUTO_TEST_SUITE(the_seats)

BOOST_AUTO_TEST_CASE(are_taken_and_released) {
    seats room({.seats = 2});
    BOOST_TEST(room.capacity() == 2);
    BOOST_TEST(room.remaining(whenever) == 2);
    auto const first = room.take(1, whenever);
    auto const second = room.take(1, whenever);
    BOOST_TEST(room.remaining(whenever) == 0);
    BOOST_TEST(!fits(room, 1));

    BOOST_TEST(room.leave(1, first));
    BOOST_TEST(room.remaining(whenever) == 1);
    BOOST_TEST(fits(room, 1));
    BOOST_TEST(room.leave(1, second));
    BOOST_TEST(room.remaining(whenever) == 2);
}

BOOST_AUTO_TEST_CASE(are_taken_several_at_a_time_and_released_in_parts) {
    seats room({.seats = 10});
    auto const t = room.take(7, whenever);
    BOOST_TEST(room.remaining(whenever) == 3);
    BOOST_TEST(fits(room, 3));
    BOOST_TEST(!fits(room, 4));

    room.leave(2, t);
    BOOST_TEST(fits(room, 5));
    room.refund(4, t, whenever);
    BOOST_TEST(fits(room, 9));
    BOOST_TEST(!fits(room, 10));
    room.leave(1, t);
    BOOST_TEST(fits(room, 10));
}

BOOST_AUTO_TEST_CASE(are_freed_by_a_refund_as_by_a_release) {
    seats room({.seats = 1});
    auto const t = room.take(1, whenever);
    BOOST_TEST(room.refund(1, t, whenever));
    BOOST_TEST(room.remaining(whenever) == 1);
}

BOOST_AUTO_TEST_CASE(are_as_many_after_a_merge_as_before) {
    seats room({.seats = 5});
    auto const a = room.take(2, whenever);
    auto const b = room.take(3, whenever);
    auto const both = room.merge(a, b, 3);
    BOOST_TEST(room.remaining(whenever) == 0);
    room.leave(5, both);
    BOOST_TEST(room.remaining(whenever) == 5);
}

BOOST_AUTO_TEST_CASE(are_ready_now_or_at_an_unknown_time) {
    seats room({.seats = 3});
    BOOST_TEST(room.ready_at(3, 0, noon) <= noon);
    BOOST_TEST(room.ready_at(1, 2, noon) <= noon);
    BOOST_TEST(room.ready_at(1, 3, noon) == unknown);
    BOOST_TEST(room.ready_at(2, 2, noon) == unknown);
    room.take(1, noon);
    BOOST_TEST(room.ready_at(2, 0, noon) <= noon);
    BOOST_TEST(room.ready_at(3, 0, noon) == unknown);
    BOOST_TEST(room.ready_at(1, 1, noon) <= noon);
    BOOST_TEST(room.ready_at(1, 2, noon) == unknown);
}

BOOST_AUTO_TEST_CASE(need_the_time_only_if_they_are_watched) {
    BOOST_TEST(!seats({.seats = 1}).timed());
    BOOST_TEST(seats({.seats = 1, .max_hold = 1h}).timed());
    seats room({.seats = 1});
    renew(room, {.seats = 1, .max_hold = 1h}, noon);
    BOOST_TEST(room.timed());
    renew(room, {.seats = 1}, noon);
    BOOST_TEST(!room.timed());
}

BOOST_AUTO_TEST_CASE(grant_nothing_below_a_lowered_number_until_it_fits) {
    seats room({.seats = 5});
    auto const t = room.take(5, whenever);
    renew(room, {.seats = 2}, whenever);
    BOOST_TEST(room.capacity() == 2);
    BOOST_TEST(room.remaining(whenever) == 0);
    for (int i = 0; i != 3; ++i) {  // 5, 4 and 3 are in use
        BOOST_TEST(!fits(room, 1));
        room.leave(1, t);
    }
    BOOST_TEST(!fits(room, 1));  // 2 are
    room.leave(1, t);
    BOOST_TEST(fits(room, 1));
    BOOST_TEST(!fits(room, 2));
    BOOST_TEST(room.remaining(whenever) == 1);
    room.leave(1, t);
    BOOST_TEST(fits(room, 2));
}

BOOST_AUTO_TEST_CASE(grant_more_at_once_when_their_number_is_raised) {
    seats room({.seats = 1});
    auto const t = room.take(1, whenever);
    renew(room, {.seats = 4}, whenever);
    BOOST_TEST(room.capacity() == 4);
    BOOST_TEST(room.remaining(whenever) == 3);
    renew(room, {.seats = 1}, whenever);
    BOOST_TEST(room.remaining(whenever) == 0);
    room.leave(1, t);
    BOOST_TEST(room.remaining(whenever) == 1);
}

BOOST_AUTO_TEST_CASE(go_into_debt_on_take) {
    seats room({.seats = 2});
    auto const t = room.take(5, whenever);
    BOOST_TEST(room.remaining(whenever) == 0);
    BOOST_TEST(room.ready_at(1, 0, whenever) == unknown);
    room.leave(3, t);
    BOOST_TEST(!fits(room, 1));
    room.leave(1, t);
    BOOST_TEST(fits(room, 1));
}

BOOST_AUTO_TEST_CASE(can_be_a_quadrillion) {
    seats room({.seats = max_amount});
    BOOST_TEST(fits(room, max_amount));
    auto const t = room.take(max_amount - 1, whenever);
    BOOST_TEST(room.remaining(whenever) == 1);
    BOOST_TEST(fits(room, 1));
    BOOST_TEST(!fits(room, 2));
    BOOST_TEST(room.ready_at(1, max_amount, whenever) == unknown);
    BOOST_TEST(room.ready_at(max_amount, 9'000 * max_amount, whenever) == unknown);

    for (int i = 0; i != 9'000; ++i)
        room.take(max_amount, whenever);
    BOOST_TEST(!fits(room, 1));
    BOOST_TEST(room.remaining(whenever) == 0);
    for (int i = 0; i != 9'000; ++i)
        room.leave(max_amount, t);
    BOOST_TEST(room.remaining(whenever) == 1);

    renew(room, {.seats = 1}, whenever);
    BOOST_TEST(!fits(room, 1));
    room.leave(max_amount - 1, t);
    BOOST_TEST(room.remaining(whenever) == 1);
}

BOOST_AUTO_TEST_CASE(reject_invalid_options_by_name) {
    using nonsense = std::invalid_argument;
    BOOST_CHECK_EXCEPTION(seats({.seats = 0}), nonsense,
                          says("weir::seats: seats is 0, but must be from 1 to 1000000000000000"));
    BOOST_CHECK_EXCEPTION(seats({.seats = -3}), nonsense,
                          says("weir::seats: seats is -3, but must be from 1 to 1000000000000000"));
    BOOST_CHECK_EXCEPTION(seats({.seats = max_amount + 1}), nonsense,
                          says("weir::seats: seats is 1000000000000001, but must be from 1 to "
                               "1000000000000000"));
    BOOST_CHECK_EXCEPTION(seats({.seats = (1 << 24) + 1, .max_hold = 1s}), nonsense,
                          says("weir::seats: seats, with max_hold, is 16777217, but must be from 1 "
                               "to 16777216"));
    BOOST_CHECK_EXCEPTION(seats({.seats = 1, .max_hold = 0s}), nonsense,
                          says("weir::seats: max_hold is 0s, but must be at least 1ns"));
    BOOST_CHECK_EXCEPTION(seats({.seats = 1, .max_hold = -1us}), nonsense,
                          says("weir::seats: max_hold is -1us, but must be at least 1ns"));
    BOOST_CHECK_NO_THROW(seats({.seats = max_amount}));
    BOOST_CHECK_NO_THROW(seats({.seats = 1, .max_hold = tick}));
}

BOOST_AUTO_TEST_CASE(are_unchanged_by_invalid_options) {
    seats room({.seats = 3, .max_hold = 5s});
    auto const t = room.take(2, noon);
    BOOST_CHECK_THROW(renew(room, {.seats = 0}, noon), std::invalid_argument);
    BOOST_CHECK_THROW(renew(room, {.seats = 9, .max_hold = -1s}, noon), std::invalid_argument);
    BOOST_CHECK_THROW(renew(room, {.seats = 1 << 25, .max_hold = 1s}, noon), std::invalid_argument);
    BOOST_TEST(room.options().seats == 3);
    BOOST_TEST(room.options().max_hold == 5s);
    BOOST_TEST(room.capacity() == 3);
    BOOST_TEST(room.remaining(noon) == 1);
    BOOST_TEST(room.next_overdue() == noon + 5s);
    room.leave(2, t);
    BOOST_TEST(room.remaining(noon) == 3);
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(watched_seats)

BOOST_AUTO_TEST_CASE(are_reported_once_when_held_for_max_hold) {
    seats room({.seats = 3, .max_hold = 10s});
    BOOST_TEST(room.next_overdue() == never);
    auto const t = room.take(2, noon);
    BOOST_TEST(room.next_overdue() == noon + 10s);
    BOOST_TEST(!room.pop_overdue(noon + 10s - tick));

    auto const found = room.pop_overdue(noon + 10s);
    BOOST_TEST_REQUIRE(found.has_value());
    BOOST_TEST(found->id == t);
    BOOST_TEST(found->count == 2);
    BOOST_TEST(found->since == noon);
    BOOST_TEST(found->held == 10s);

    BOOST_TEST(room.next_overdue() == never);
    BOOST_TEST(!room.pop_overdue(noon + 24h));
    BOOST_TEST(room.remaining(noon + 24h) == 1);  // no permit is revoked
    room.leave(2, t);
    BOOST_TEST(room.remaining(noon + 24h) == 3);
}

BOOST_AUTO_TEST_CASE(are_reported_with_the_time_held) {
    seats room({.seats = 1, .max_hold = 10s});
    room.take(1, noon);
    auto const found = room.pop_overdue(noon + 3h);
    BOOST_TEST_REQUIRE(found.has_value());
    BOOST_TEST(found->held == 3h);
}

BOOST_AUTO_TEST_CASE(are_not_reported_if_released_before) {
    seats room({.seats = 3, .max_hold = 10s});
    auto const first = room.take(1, noon);
    auto const second = room.take(1, noon + 1s);
    room.leave(1, first);
    BOOST_TEST(room.next_overdue() == noon + 11s);
    room.refund(1, second, noon + 5s);
    BOOST_TEST(room.next_overdue() == never);
    BOOST_TEST(overdue_ids(room, noon + 24h) == tickets());
}

BOOST_AUTO_TEST_CASE(are_reported_in_the_order_of_their_grants) {
    seats room({.seats = 5, .max_hold = 10s});
    tickets expected;
    for (auto const s : {0s, 0s, 1s, 2s})
        expected.push_back(room.take(1, noon + s));
    BOOST_TEST(room.next_overdue() == noon + 10s);
    BOOST_TEST(overdue_ids(room, noon + 10s) == (tickets{expected[0], expected[1]}));
    BOOST_TEST(room.next_overdue() == noon + 11s);
    BOOST_TEST(overdue_ids(room, noon + 24h) == (tickets{expected[2], expected[3]}));
}

BOOST_AUTO_TEST_CASE(can_leave_from_anywhere_in_the_order) {
    for (std::size_t const who : {0U, 1U, 2U}) {
        for (std::size_t const reported : {0U, 1U, 2U, 3U}) {
            seats room({.seats = 3, .max_hold = 10s});
            tickets all;
            for (auto const s : {0s, 1s, 2s})
                all.push_back(room.take(1, noon + s));
            for (std::size_t i = 0; i != reported; ++i)
                BOOST_TEST(room.pop_overdue(noon + 1h)->id == all[i]);

            room.leave(1, all[who]);
            tickets expected;
            for (auto i = reported; i != all.size(); ++i) {
                if (i != who)
                    expected.push_back(all[i]);
            }
            auto const newcomer = room.take(1, noon + 1h);
            expected.push_back(newcomer);
            BOOST_TEST(overdue_ids(room, noon + 2h) == expected);
        }
    }
}

BOOST_AUTO_TEST_CASE(keep_their_ticket_until_their_last_part_is_released) {
    seats room({.seats = 3, .max_hold = 10s});
    auto const t = room.take(3, noon);
    room.leave(1, t);
    BOOST_TEST(room.next_overdue() == noon + 10s);
    auto const found = room.pop_overdue(noon + 10s);
    BOOST_TEST_REQUIRE(found.has_value());
    BOOST_TEST(found->id == t);
    BOOST_TEST(found->count == 2);
    room.leave(2, t);
    BOOST_TEST(room.remaining(noon + 11s) == 3);
}

BOOST_AUTO_TEST_CASE(take_the_ticket_they_are_merged_into) {
    seats room({.seats = 4, .max_hold = 10s});
    auto const a = room.take(1, noon);
    auto const b = room.take(3, noon + 1s);
    BOOST_TEST(room.merge(b, a, 1) == b);
    BOOST_TEST(room.next_overdue() == noon + 11s);
    auto const found = all_overdue(room, noon + 1h);
    BOOST_TEST_REQUIRE(found.size() == 1U);
    BOOST_TEST(found[0].id == b);
    BOOST_TEST(found[0].count == 4);
    BOOST_TEST(found[0].since == noon + 1s);
    room.leave(4, b);
    BOOST_TEST(room.remaining(noon + 1h) == 4);
}

BOOST_AUTO_TEST_CASE(take_it_in_part_if_only_a_part_is_merged) {
    seats room({.seats = 4, .max_hold = 10s});
    auto const a = room.take(3, noon);
    auto const b = room.take(1, noon + 1s);
    BOOST_TEST(room.merge(b, a, 2) == b);
    auto const found = all_overdue(room, noon + 1h);
    BOOST_TEST_REQUIRE(found.size() == 2U);
    BOOST_TEST(found[0].id == a);
    BOOST_TEST(found[0].count == 1);
    BOOST_TEST(found[1].id == b);
    BOOST_TEST(found[1].count == 3);
}

BOOST_AUTO_TEST_CASE(are_unchanged_when_parts_of_one_are_merged_again) {
    seats room({.seats = 4, .max_hold = 10s});
    auto const t = room.take(3, noon);
    BOOST_TEST(room.merge(t, t, 2) == t);
    auto const found = all_overdue(room, noon + 1h);
    BOOST_TEST_REQUIRE(found.size() == 1U);
    BOOST_TEST(found[0].count == 3);
}

BOOST_AUTO_TEST_CASE(have_a_ticket_that_was_never_used_before) {
    seats room({.seats = 2, .max_hold = 10s});
    std::set<ticket> seen;
    auto now = noon;
    for (int i = 0; i != 1'000; ++i) {
        auto const a = room.take(1, now);
        auto const b = room.take(1, now);
        BOOST_TEST(a != 0U);
        BOOST_TEST(b != 0U);
        BOOST_TEST(seen.insert(a).second);
        BOOST_TEST(seen.insert(b).second);
        room.leave(1, i % 2 == 0 ? a : b);
        room.leave(1, i % 2 == 0 ? b : a);
        now += tick;
    }
}

BOOST_AUTO_TEST_CASE(allocate_nothing_once_they_are_set_up) {
    seats room({.seats = 100, .max_hold = 10s});
    tickets all(100);
    allocation_count const allocations;
    for (int round = 0; round != 10; ++round) {
        for (auto& t : all)
            t = room.take(1, noon);
        for (auto const t : all)
            room.leave(1, t);
    }
    auto const allocated = allocations();
    BOOST_TEST(allocated == 0U);

    renew(room, {.seats = 1, .max_hold = 10s}, noon);
    renew(room, {.seats = 100, .max_hold = 10s}, noon);
    allocation_count const later_allocations;
    for (auto& t : all)
        t = room.take(1, noon);
    auto const allocated_later = later_allocations();
    BOOST_TEST(allocated_later == 0U);
}

BOOST_AUTO_TEST_CASE(can_grow_to_many_without_allocating) {
    seats room({.seats = 3, .max_hold = 10s});
    auto const first = room.take(1, noon);
    seats more({.seats = 4'000'000, .max_hold = 10s});
    allocation_count const allocations;
    more.take_over(room, noon + 1s);
    std::swap(room, more);
    auto const allocated = allocations();
    BOOST_TEST(allocated == 0U);
    BOOST_TEST(room.remaining(noon) == 3'999'999);
    tickets all{first};
    for (int i = 0; i != 1'000; ++i)
        all.push_back(room.take(1, noon + 1s));
    renew(room, {.seats = 3, .max_hold = 10s}, noon + 1s);
    BOOST_TEST(overdue_ids(room, noon + 1h) == all);
    for (auto const t : all)
        room.leave(1, t);
    BOOST_TEST(room.remaining(noon) == 3);
}

BOOST_AUTO_TEST_CASE(can_be_queried_in_absurd_debt) {
    seats room({.seats = 1});
    for (int i = 0; i != 9'223; ++i)
        room.take(max_amount, whenever);
    BOOST_TEST(room.ready_at(1, std::numeric_limits<amount>::max(), noon) == unknown);
    BOOST_TEST(room.ready_at(1, max_amount, noon) == unknown);
    BOOST_TEST(room.remaining(noon) == 0);
}

BOOST_AUTO_TEST_CASE(are_watched_beyond_their_number_if_there_is_debt) {
    seats room({.seats = 2, .max_hold = 10s});
    tickets all;
    for (int i = 0; i != 1'000; ++i)
        all.push_back(room.take(3, noon + i * tick));
    BOOST_TEST(room.remaining(noon + 1s) == 0);
    BOOST_TEST(overdue_ids(room, noon + 1h) == all);
    for (auto const t : all)
        room.leave(3, t);
    BOOST_TEST(room.remaining(noon + 1h) == 2);
    BOOST_TEST(overdue_ids(room, noon + 2h) == tickets());
}

BOOST_AUTO_TEST_CASE(are_watched_from_when_max_hold_is_set) {
    seats room({.seats = 3});
    auto const unwatched = room.take(1, noon);
    BOOST_TEST(unwatched == 0U);
    renew(room, {.seats = 3, .max_hold = 10s}, noon + 1s);
    BOOST_TEST(room.next_overdue() == never);
    auto const watched = room.take(1, noon + 2s);
    BOOST_TEST(room.next_overdue() == noon + 12s);
    room.leave(1, unwatched);
    BOOST_TEST(overdue_ids(room, noon + 1h) == tickets{watched});
    room.leave(1, watched);
    BOOST_TEST(room.remaining(noon + 1h) == 3);
}

BOOST_AUTO_TEST_CASE(are_not_reported_after_max_hold_is_unset) {
    seats room({.seats = 3, .max_hold = 10s});
    auto const first = room.take(1, noon);
    auto const second = room.take(1, noon + 1s);
    renew(room, {.seats = 3}, noon + 5s);
    BOOST_TEST(room.next_overdue() == never);
    BOOST_TEST(overdue_ids(room, noon + 1h) == tickets());
    auto const unwatched = room.take(1, noon + 1h);
    BOOST_TEST(unwatched == 0U);
    room.leave(1, first);

    // A permit that was watched all along still is.
    renew(room, {.seats = 3, .max_hold = 10s}, noon + 2h);
    BOOST_TEST(room.next_overdue() == noon + 11s);
    BOOST_TEST(overdue_ids(room, noon + 2h) == tickets{second});
    room.leave(1, unwatched);
    room.leave(1, second);
    BOOST_TEST(room.remaining(noon + 2h) == 3);
}

BOOST_AUTO_TEST_CASE(follow_a_new_max_hold_at_once) {
    seats room({.seats = 3, .max_hold = 10s});
    auto const first = room.take(1, noon);
    auto const second = room.take(1, noon + 5s);
    renew(room, {.seats = 3, .max_hold = 3s}, noon + 6s);
    BOOST_TEST(room.next_overdue() == noon + 3s);
    BOOST_TEST(overdue_ids(room, noon + 6s) == tickets{first});
    renew(room, {.seats = 3, .max_hold = 1h}, noon + 6s);
    BOOST_TEST(room.next_overdue() == noon + 5s + 1h);
    BOOST_TEST(overdue_ids(room, noon + 2h) == tickets{second});  // the first only once
}

BOOST_AUTO_TEST_CASE(are_not_watched_if_merged_into_an_unwatched_one) {
    seats room({.seats = 3});
    auto const unwatched = room.take(1, noon);
    renew(room, {.seats = 3, .max_hold = 10s}, noon);
    auto const watched = room.take(2, noon);
    BOOST_TEST(room.merge(unwatched, watched, 2) == unwatched);
    BOOST_TEST(overdue_ids(room, noon + 1h) == tickets());
    room.leave(3, unwatched);
    BOOST_TEST(room.remaining(noon + 1h) == 3);
}

BOOST_AUTO_TEST_CASE(are_watched_if_unwatched_ones_are_merged_into_them) {
    seats room({.seats = 3});
    auto const unwatched = room.take(1, noon);
    renew(room, {.seats = 3, .max_hold = 10s}, noon);
    auto const watched = room.take(2, noon);
    BOOST_TEST(room.merge(watched, unwatched, 1) == watched);
    auto const found = all_overdue(room, noon + 1h);
    BOOST_TEST_REQUIRE(found.size() == 1U);
    BOOST_TEST(found[0].count == 3);
    room.leave(3, watched);
    BOOST_TEST(room.remaining(noon + 1h) == 3);
}

BOOST_AUTO_TEST_CASE(are_never_reported_if_max_hold_ends_after_the_end_of_time) {
    seats room({.seats = 1, .max_hold = forever - tick});
    room.take(1, noon);
    BOOST_TEST(room.next_overdue() == never);
    BOOST_TEST(!room.pop_overdue(never - tick));
}

namespace {

// The reference of the watch: a list of all permits in use, each with its ticket.
struct held_permit {
    ticket id;
    amount units;
    time_point since;
    bool reported;
};

void expect(bool condition, char const* what) {
    if (!condition) [[unlikely]]
        BOOST_FAIL(what);
}

class comparison {
public:
    explicit comparison(random_source& random)
        : random_(random),
          options_{.seats = random.between(1, 12), .max_hold = some_bound()},
          room_(options_),
          free_(options_.seats) {}

    void run() {
        for (auto steps = random_.between(10, 100); steps != 0; --steps) {
            now_ += duration(random_.one_in(3) ? 0 : random_.of_any_size(40));
            switch (random_.between(0, 9)) {
                case 0:
                case 1:
                case 2:
                    take();
                    break;
                case 3:
                case 4:
                    leave();
                    break;
                case 5:
                    merge();
                    break;
                case 6:
                    configure();
                    break;
                default:
                    report();
            }
            check();
        }
        while (!out_.empty())
            leave();
        check();
        expect(room_.remaining(now_) == options_.seats, "all seats are free in the end");
        expect(room_.next_overdue() == never, "no permit is watched in the end");
    }

private:
    [[nodiscard]] duration some_bound() {
        return random_.one_in(4) ? forever : duration(random_.between(1, 60));
    }

    void take() {
        bool const in_debt = random_.one_in(6);
        auto const n = random_.between(1, std::min<amount>(options_.seats, 4));
        bool const room = room_.ready_at(n, 0, now_) <= now_;
        expect(room == (n <= free_), "granted iff it fits");
        if (!room && !in_debt)
            return;
        allocation_count const allocations;
        auto const t = room_.take(n, now_);
        auto const allocated = allocations();
        expect(allocated == 0 || !room, "nothing is allocated if it fits");
        free_ -= n;
        bool const watched = options_.max_hold != forever;
        expect((t != 0) == watched, "a ticket iff it is watched");
        for (auto const& p : out_)
            expect(t == 0 || p.id != t, "a distinct ticket");
        out_.push_back({t, n, now_, !watched});
    }

    void leave() {
        if (out_.empty())
            return;
        auto const i = random_.index_in(out_);
        auto& p = out_[i];
        auto const n = random_.one_in(2) ? p.units : random_.between(1, p.units);
        bool const room = random_.one_in(2) ? room_.leave(n, p.id) : room_.refund(n, p.id, now_);
        expect(room, "permits become free");
        free_ += n;
        give_up(i, n);
    }

    void merge() {
        if (out_.empty())
            return;
        auto const from = random_.index_in(out_);
        auto const into = random_.index_in(out_);
        if (from == into) {
            expect(room_.merge(out_[from].id, out_[from].id, 1) == out_[from].id, "the same");
            return;
        }
        auto const n = random_.between(1, out_[from].units);
        expect(room_.merge(out_[into].id, out_[from].id, n) == out_[into].id, "into the first");
        out_[into].units += n;
        give_up(from, n);
    }

    void give_up(std::size_t i, amount n) {
        out_[i].units -= n;
        if (out_[i].units == 0)
            out_.erase(out_.begin() + static_cast<std::ptrdiff_t>(i));
    }

    void configure() {
        auto const seats = random_.one_in(2) ? options_.seats : random_.between(1, 20);
        free_ += seats - options_.seats;
        options_ = {.seats = seats, .max_hold = some_bound()};
        renew(room_, options_, now_);
    }

    [[nodiscard]] held_permit* first_to_report() {
        auto const first =
            std::ranges::find_if(out_, [](held_permit const& p) { return !p.reported; });
        return first == out_.end() || options_.max_hold == forever ? nullptr : &*first;
    }

    void report() {
        for (;;) {
            auto* const expected = first_to_report();
            bool const due = expected && expected->since + options_.max_hold <= now_;
            auto const found = room_.pop_overdue(now_);
            expect(found.has_value() == due, "reported when it is due");
            if (!found)
                return;
            expect(found->id == expected->id && found->count == expected->units &&
                       found->since == expected->since && found->held == now_ - expected->since,
                   "reported as it is");
            expected->reported = true;
        }
    }

    void check() {
        expect(room_.remaining(now_) == std::max<amount>(free_, 0), "the remaining seats");
        auto const* const first = first_to_report();
        expect(room_.next_overdue() == (first ? first->since + options_.max_hold : never),
               "when to report next");
    }

    random_source& random_;
    seats_options options_;
    seats room_;
    amount free_;
    time_point now_{};
    std::vector<held_permit> out_;  // in the order of their grants
};

}  // namespace

BOOST_AUTO_TEST_CASE(behave_like_a_plain_list) {
    support::for_each_seed(1'000'000, 20'000, [](random_source& random) {
        comparison(random).run();
    });
    BOOST_TEST(true);  // no check above failed
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE_END()
