#include <weir/policy/fed_seats.hpp>

#include "support/printing.hpp"

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <cstdint>
#include <optional>
#include <stdexcept>

namespace {

using namespace std::chrono_literals;
using weir::amount;
using weir::ticket;
using weir::time_point;
using weir::policy::fed_seats;

static_assert(weir::fed_policy<fed_seats>);
static_assert(weir::lending_policy<fed_seats>);

constexpr time_point start{1h};
constexpr std::int64_t fence = 1'700'000'000'000'000;

// A policy, the time, and the waiting requests: each test is a table of events. Four seats, for nine seconds.
struct story {
    explicit story(weir::shared_seats_options const& options = four()) : p(options) {}

    static weir::shared_seats_options four() {
        return {.seats = 4, .lease = 9s, .timeout = 50ms, .poll = 20ms};
    }

    fed_seats::question question() {
        auto const q = p.pop_command(waiting, now);
        BOOST_TEST_REQUIRE(q.has_value());
        return *q;
    }
    bool is_silent() const { return p.next_command(waiting, now) > now; }
    bool is_silent_until(time_point t) const { return p.next_command(waiting, now) == t; }
    void holds(fed_seats::question const& q, amount n, std::int64_t of = fence,
               std::chrono::microseconds wait = 0us) {
        p.answered(q.number, {.held = n, .fence = n != 0 ? of : 0, .wait = wait}, now);
    }
    ticket serve(amount n) {
        BOOST_TEST_REQUIRE((p.ready_at(n, 0, now) <= now));
        waiting.all -= n;
        waiting.head = waiting.all != 0 ? 1 : 0;
        return p.take(n, now);
    }
    // Grants `n` requests of one seat each.
    ticket begin(amount n) {
        waiting = {.head = 1, .all = n};
        holds(question(), n);
        ticket t = 0;
        for (amount i = 0; i != n; ++i)
            t = serve(1);
        BOOST_TEST_REQUIRE(is_silent());
        return t;
    }

    fed_seats p;
    time_point now = start;
    weir::demand waiting;
};

BOOST_AUTO_TEST_SUITE(policy_fed_seats)

BOOST_AUTO_TEST_CASE(options_are_checked) {
    auto const is_nonsense = [](auto change) {
        auto o = story::four();
        change(o);
        BOOST_CHECK_THROW(fed_seats{o}, std::invalid_argument);
    };
    is_nonsense([](auto& o) { o.seats = 0; });
    is_nonsense([](auto& o) { o.seats = 1'000'001; });
    is_nonsense([](auto& o) { o.lease = 100ms - 1ns; });
    is_nonsense([](auto& o) { o.lease = 1h + 1ns; });
    is_nonsense([](auto& o) { o.timeout = 0s; });
    is_nonsense([](auto& o) { o.timeout = o.lease / 6 + 1ns; });
    is_nonsense([](auto& o) { o.poll = 1ms - 1ns; });
    is_nonsense([](auto& o) { o.poll = 60s + 1ns; });
}

BOOST_AUTO_TEST_CASE(question_asks_for_the_first_at_least_and_for_all_at_most) {
    story s;
    BOOST_TEST(s.is_silent_until(weir::never));
    BOOST_TEST(!s.p.must_go_on());
    s.waiting = {.head = 2, .all = 9};
    auto const q = s.question();
    BOOST_TEST(q.seats == 4);
    BOOST_TEST((q.lease == 9s));
    BOOST_TEST(q.fence == 0);
    BOOST_TEST(q.keep == 0);
    BOOST_TEST(q.min == 2);
    BOOST_TEST(q.max == 4);
    BOOST_TEST(s.is_silent());  // one question at a time
    BOOST_TEST(s.p.must_go_on());
    s.holds(q, 3);
    BOOST_TEST(s.p.remaining(s.now) == 3);
    BOOST_TEST(s.serve(2) == static_cast<ticket>(fence));
    BOOST_TEST(s.p.remaining(s.now) == 1);
    BOOST_TEST((s.p.ready_at(2, 0, s.now) == weir::unknown));
    BOOST_TEST((s.p.ready_at(1, 1, s.now) == weir::unknown));
}

BOOST_AUTO_TEST_CASE(two_processes_have_two_names) {
    story a;
    story b;
    a.waiting = b.waiting = {.head = 1, .all = 1};
    BOOST_TEST((a.question().holder != b.question().holder));
}

BOOST_AUTO_TEST_CASE(lease_is_renewed_after_a_third_and_ends_counted_from_the_question) {
    story s;
    s.waiting = {.head = 1, .all = 1};
    auto const q = s.question();
    s.now += 40ms;
    s.holds(q, 1);
    auto const t = s.serve(1);
    s.now = start + 3s - 1ns;
    BOOST_TEST(s.is_silent());
    s.now = start + 3s;
    auto const renewal = s.question();
    BOOST_TEST(renewal.fence == fence);
    BOOST_TEST(renewal.keep == 1);
    BOOST_TEST(renewal.min == 0);
    BOOST_TEST(renewal.max == 1);
    BOOST_TEST(renewal.number > q.number);
    s.now += 40ms;
    s.holds(renewal, 1);
    BOOST_TEST(s.is_silent_until(start + 6s));

    // Nine seconds after the question, less a thousandth.
    auto const end = start + 3s + 9s - 9ms;
    BOOST_TEST(!s.p.is_lost(t, end - 1ns));
    BOOST_TEST(s.p.is_lost(t, end));
    s.now = end;
    s.p.elapse(s.now);
    BOOST_TEST(s.p.is_lost(t, s.now));
    BOOST_TEST(!s.p.is_held(t));
    BOOST_TEST(s.p.fed_stats().lost == 1);
    BOOST_TEST(!s.p.leave(1, t, s.now));
    BOOST_TEST(s.p.fed_stats().held == 0);
}

BOOST_AUTO_TEST_CASE(seat_without_a_request_is_given_back_until_the_store_confirms) {
    story s;
    auto const t = s.begin(2);
    BOOST_TEST(s.p.leave(1, t, s.now));
    auto const q = s.question();
    BOOST_TEST(q.fence == fence);
    BOOST_TEST(q.keep == 1);
    BOOST_TEST(q.min == 0);
    BOOST_TEST(q.max == 1);
    s.holds(q, 1);
    BOOST_TEST(s.is_silent_until(start + 3s));

    BOOST_TEST(s.p.leave(1, t, s.now));
    auto const last = s.question();
    BOOST_TEST(last.max == 0);
    s.now += 50ms;
    s.p.elapse(s.now);  // no reply
    BOOST_TEST(s.p.must_go_on());
    s.now += 1s;
    auto const again = s.question();
    BOOST_TEST(again.max == 0);
    BOOST_TEST(again.number > last.number);
    s.holds(again, 0);
    BOOST_TEST(!s.p.must_go_on());
    BOOST_TEST(s.is_silent_until(weir::never));
    BOOST_TEST(!s.p.is_lost(t, s.now));  // it was released
    BOOST_TEST(s.p.fed_stats().lost == 0);
}

BOOST_AUTO_TEST_CASE(seat_that_may_have_been_given_back_is_not_granted_again) {
    story s;
    auto const t = s.begin(2);
    s.p.leave(1, t, s.now);
    auto const q = s.question();
    BOOST_TEST(q.max == 1);
    s.waiting = {.head = 1, .all = 1};
    BOOST_TEST(s.p.remaining(s.now) == 0);
    s.now += 50ms;
    s.p.elapse(s.now);
    BOOST_TEST(s.p.remaining(s.now) == 0);
    s.now += 1s;
    auto const again = s.question();
    BOOST_TEST(again.keep == 1);
    BOOST_TEST(again.min == 2);
    s.holds(again, 2);
    s.serve(1);
}

BOOST_AUTO_TEST_CASE(released_seat_goes_to_the_next_request_here) {
    story s;
    auto const t = s.begin(4);
    s.waiting = {.head = 1, .all = 1};
    BOOST_TEST(s.is_silent());  // there are no more
    s.p.leave(1, t, s.now);
    BOOST_TEST(s.serve(1) == t);
}

BOOST_AUTO_TEST_CASE(after_fifty_polls_a_seat_returns_to_the_store_although_requests_wait) {
    story s;
    s.begin(4);
    s.waiting = {.head = 1, .all = 2};
    s.now = start + 1s - 1ns;
    s.p.leave(1, fence, s.now);
    s.serve(1);
    s.now = start + 1s;
    s.p.leave(1, fence, s.now);
    BOOST_TEST(s.p.remaining(s.now) == 0);
    auto const q = s.question();
    BOOST_TEST(q.keep == 3);
    BOOST_TEST(q.min == 0);
    BOOST_TEST(q.max == 3);
    s.holds(q, 3);
    BOOST_TEST(s.is_silent_until(s.now + 40ms));
    // Then the next ones stay here, for the same time again.
    s.now += 1s - 1ns;
    s.p.leave(1, fence, s.now);
    BOOST_TEST(s.p.remaining(s.now) == 1);
    s.now += 1ns;
    s.p.leave(1, fence, s.now);
    BOOST_TEST(s.p.remaining(s.now) == 0);
}

BOOST_AUTO_TEST_CASE(rejection_is_followed_by_a_pause_and_leaves_nothing_unused) {
    story s;
    auto const t = s.begin(2);
    s.waiting = {.head = 2, .all = 2};
    s.p.leave(1, t, s.now);  // not enough for the request at the head
    auto const q = s.question();
    BOOST_TEST(q.keep == 1);
    BOOST_TEST(q.min == 3);
    BOOST_TEST(q.max == 3);
    s.holds(q, 1);
    BOOST_TEST(s.p.fed_stats().denied == 1u);
    auto const next = s.p.next_command(s.waiting, s.now);
    BOOST_TEST((next > s.now + 9ms));
    BOOST_TEST((next <= s.now + 20ms));

    // A lease of another process ends sooner.
    s.now = next;
    s.holds(s.question(), 1, fence, 3ms);
    BOOST_TEST(s.is_silent_until(s.now + 3ms));
    s.now += 3ms;
    s.holds(s.question(), 1, fence, 1us);
    BOOST_TEST(s.is_silent_until(s.now + 1ms));
}

BOOST_AUTO_TEST_CASE(store_without_its_data_makes_all_permits_lost) {
    story s;
    auto const t = s.begin(2);
    s.now += 3s;
    s.holds(s.question(), 0);
    BOOST_TEST(s.p.is_lost(t, s.now));
    BOOST_TEST(s.p.fed_stats().lost == 2);
    BOOST_TEST(!s.p.must_go_on());
    s.waiting = {.head = 1, .all = 1};
    auto const q = s.question();
    BOOST_TEST(q.fence == 0);
    BOOST_TEST(q.keep == 0);
    s.holds(q, 1, fence + 7);
    auto const fresh = s.serve(1);
    BOOST_TEST(fresh == static_cast<ticket>(fence + 7));
    BOOST_TEST(!s.p.is_lost(fresh, s.now));
    BOOST_TEST(s.p.is_lost(t, s.now));
    BOOST_TEST(!s.p.leave(1, t, s.now));  // lost permits free no seat
    BOOST_TEST(s.p.remaining(s.now) == 0);
}

// A store without its data whose clock was also set back.
BOOST_AUTO_TEST_CASE(holding_with_a_lower_fence_is_valid_if_it_is_the_current_one) {
    story s;
    s.begin(1);
    s.now += 3s;
    s.holds(s.question(), 0);
    s.waiting = {.head = 1, .all = 1};
    s.holds(s.question(), 1, fence - 5);
    auto const t = s.serve(1);
    BOOST_TEST(!s.p.is_lost(t, s.now));
}

BOOST_AUTO_TEST_CASE(late_reply_does_not_restore_lost_seats) {
    story s;
    auto const t = s.begin(1);
    s.now = start + 8980ms;  // the process was suspended
    auto const q = s.question();
    s.now = start + 8991ms;
    BOOST_TEST(s.p.is_lost(t, s.now));
    s.holds(q, 1);
    BOOST_TEST(s.p.is_lost(t, s.now));
    BOOST_TEST(s.p.remaining(s.now) == 0);
    // The store still keeps the seat, so it is given back, with or without a waiting request.
    BOOST_TEST(s.p.must_go_on());
    auto const back = s.question();
    BOOST_TEST(back.fence == 0);
    BOOST_TEST(back.max == 0);
    s.holds(back, 0);
    BOOST_TEST(!s.p.must_go_on());
}

BOOST_AUTO_TEST_CASE(reply_after_all_requests_left_is_given_back) {
    story s;
    s.waiting = {.head = 1, .all = 1};
    auto const q = s.question();
    s.waiting = {};
    BOOST_TEST(s.p.must_go_on());
    s.holds(q, 1);
    auto const back = s.question();
    BOOST_TEST(back.fence == fence);
    BOOST_TEST(back.max == 0);
}

BOOST_AUTO_TEST_CASE(seats_of_a_lost_question_are_given_back) {
    story s;
    s.waiting = {.head = 1, .all = 1};
    auto const q = s.question();
    s.waiting = {};
    s.now += 50ms;
    s.p.elapse(s.now);
    BOOST_TEST(s.p.must_go_on());
    s.now = s.p.next_command(s.waiting, s.now);
    auto const back = s.question();
    BOOST_TEST(back.fence == 0);
    BOOST_TEST(back.max == 0);
    BOOST_TEST(back.number > q.number);
    // It is tried for a lease, and not longer.
    int tries = 0;
    while (s.p.must_go_on()) {
        s.now = std::max(s.now, s.p.next_command(s.waiting, s.now));
        s.p.elapse(s.now);
        tries += s.p.pop_command(s.waiting, s.now).has_value();
        BOOST_TEST_REQUIRE(tries < 100);
    }
    BOOST_TEST((s.now - start < 11s));
}

BOOST_AUTO_TEST_CASE(late_reply_to_the_last_question_is_valid_and_an_older_one_is_not) {
    story s;
    s.waiting = {.head = 1, .all = 1};
    auto const first = s.question();
    s.now += 60ms;
    s.p.elapse(s.now);
    s.holds(first, 1);
    BOOST_TEST(s.p.fed_stats().late == 1u);
    auto const t = s.serve(1);
    BOOST_TEST(!s.p.is_lost(t, s.now));
    BOOST_TEST(!s.p.is_lost(t, start + 8990ms));
    BOOST_TEST(s.p.is_lost(t, start + 8991ms));

    s.waiting = {.head = 1, .all = 1};
    auto const older = s.question();
    s.now += 60ms;
    s.p.elapse(s.now);
    s.now += 1s;
    auto const newer = s.question();
    s.holds(older, 2);
    BOOST_TEST(s.p.remaining(s.now) == 0);
    s.holds(newer, 1);
    BOOST_TEST(s.p.remaining(s.now) == 0);
}

BOOST_AUTO_TEST_CASE(failed_renewals_are_repeated_and_held_seats_stay_valid) {
    story s;
    auto const t = s.begin(1);
    s.now += 3s;
    int tries = 0;
    while (!s.p.is_lost(t, s.now)) {
        BOOST_TEST(!s.p.barred(s.now));
        if (auto const q = s.p.pop_command(s.waiting, s.now)) {
            ++tries;
            s.p.failed(q->number, {}, s.now);
        }
        s.now = std::max(s.now, s.p.next_command(s.waiting, s.now));
        BOOST_TEST_REQUIRE(tries < 100);
    }
    BOOST_TEST(tries >= 5);
    BOOST_TEST((s.now == start + 8991ms));
    BOOST_TEST(s.p.fed_stats().unavailable);
    s.p.elapse(s.now);
    BOOST_TEST(!s.p.must_go_on());
}

BOOST_AUTO_TEST_CASE(five_rejections_are_an_outage_in_which_all_are_rejected) {
    story s;
    s.waiting = {.head = 1, .all = 1};
    for (int i = 1; i <= 5; ++i) {
        s.now = std::max(s.now, s.p.next_command(s.waiting, s.now));
        auto const q = s.question();
        BOOST_TEST(s.p.failed(q.number, {.wait = 1us}, s.now) == (i == 5));
    }
    BOOST_TEST_REQUIRE(s.p.barred(s.now).has_value());
    s.now = *s.p.barred(s.now);
    BOOST_TEST(!s.p.barred(s.now));
    s.holds(s.question(), 1);
    BOOST_TEST(!s.p.fed_stats().unavailable);
    s.serve(1);
}

BOOST_AUTO_TEST_CASE(stall_below_a_second_rejects_nobody) {
    story s;
    s.waiting = {.head = 1, .all = 1};
    for (int i = 0; i != 19; ++i) {
        s.question();
        s.now += 50ms;
        BOOST_TEST(!s.p.elapse(s.now));
        BOOST_TEST(!s.p.barred(s.now));
    }
    BOOST_TEST(!s.p.fed_stats().unavailable);
    s.question();
    s.now += 50ms;
    BOOST_TEST(s.p.elapse(s.now));
    BOOST_TEST(s.p.fed_stats().unavailable);
}

BOOST_AUTO_TEST_CASE(misconfigured_store_rejects_at_once) {
    story s;
    s.waiting = {.head = 1, .all = 1};
    auto const q = s.question();
    BOOST_TEST(s.p.failed(q.number, {.kind = weir::failure_kind::misconfigured}, s.now));
    BOOST_TEST(s.p.barred(s.now).has_value());
    BOOST_TEST(s.p.is_misconfigured());
    BOOST_TEST(!s.p.fed_stats().unavailable);
}

BOOST_AUTO_TEST_CASE(charge_counts_and_is_paid_by_later_seats) {
    story s;
    auto const t = s.begin(1);
    BOOST_TEST(s.p.take(2, s.now) == 0u);
    BOOST_TEST(s.p.debt(s.now) == 2);
    auto const q = s.question();
    BOOST_TEST(q.keep == 3);
    BOOST_TEST(q.min == 0);
    BOOST_TEST(q.max == 3);
    s.holds(q, 2);
    BOOST_TEST(s.p.debt(s.now) == 1);
    s.p.leave(1, t, s.now);
    BOOST_TEST(s.p.debt(s.now) == 0);
    BOOST_TEST(s.p.remaining(s.now) == 0);
    BOOST_TEST(!s.p.is_lost(0, s.now + 1h));
    s.p.leave(2, 0, s.now);
    BOOST_TEST(s.question().max == 0);
}

BOOST_AUTO_TEST_CASE(merged_parts_of_two_holdings_count_once) {
    story s;
    auto const lost = s.begin(1);
    s.now += 3s;
    s.holds(s.question(), 0);
    s.waiting = {.head = 2, .all = 2};
    s.holds(s.question(), 2, fence + 1);
    auto const t = s.serve(2);
    BOOST_TEST(s.p.merge(lost, t, 1) == lost);
    BOOST_TEST(s.p.remaining(s.now) == 1);
    BOOST_TEST(s.p.merge(t, lost, 1) == t);
    BOOST_TEST(s.p.remaining(s.now) == 0);
}

BOOST_AUTO_TEST_CASE(new_options_revoke_nothing) {
    story s;
    auto const t = s.begin(3);
    fed_seats next({.seats = 1, .lease = 3s, .timeout = 50ms});
    next.take_over(s.p, s.now);
    s.p = next;
    BOOST_TEST(s.p.capacity() == 1);
    s.now += 1s;
    auto const q = s.question();
    BOOST_TEST(q.seats == 1);
    BOOST_TEST((q.lease == 3s));
    BOOST_TEST(q.keep == 3);
    BOOST_TEST(q.max == 3);
    BOOST_TEST(!s.p.is_lost(t, s.now));
    s.waiting = {.head = 1, .all = 1};
    s.holds(q, 3);
    BOOST_TEST(s.is_silent());  // it does not fit
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
