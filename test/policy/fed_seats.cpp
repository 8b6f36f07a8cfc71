#include <weir/policy/fed_seats.hpp>

#include "support/printing.hpp"

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <cstdint>
#include <optional>
#include <stdexcept>

BOOST_AUTO_TEST_SUITE(policy_fed_seats)

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
    bool is_silent() { return !is_silent_until(now); }
    bool is_silent_until(time_point t) { return next() == t; }
    // A release only makes the limiter look.
    time_point next() {
        auto copy = p;
        if (!copy.pop_command(waiting, now))
            p = copy;
        return p.next_command(waiting, now);
    }
    void holds(fed_seats::question const& q, amount n, std::int64_t of = fence,
               std::chrono::microseconds wait = 0us) {
        p.answered(q.number,
                   {.held = n,
                    .fence = n != 0 ? of : 0,
                    .wait = wait,
                    .waits = others,
                    .ahead = n < q.min ? others : -1,
                    .time = server_time(),
                    .listens = listens},
                   now);
    }
    // The message of a grant, by the clock of the store.
    void told(std::uint64_t number, amount n, std::int64_t of, time_point at) {
        p.heard(
            {.number = number, .held = n, .fence = of, .time = server_time(at), .waits = others},
            now);
    }
    void told_of_another() { p.heard({.waits = 1}, now); }
    std::int64_t server_time(time_point at) const {
        return fence + std::chrono::floor<std::chrono::microseconds>(at - start).count();
    }
    std::int64_t server_time() const { return server_time(now); }
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
    amount others = 0;    // wait at the store, before this process
    bool listens = true;  // the store sends messages
};

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
    BOOST_TEST(s.is_silent_until(start + 20ms));
    BOOST_TEST(s.p.remaining(s.now) == 1);
    s.now += 20ms;
    auto const q = s.question();
    BOOST_TEST(q.fence == fence);
    BOOST_TEST(q.keep == 1);
    BOOST_TEST(q.min == 0);
    BOOST_TEST(q.max == 1);
    s.holds(q, 1);
    BOOST_TEST(s.is_silent_until(s.now + 3s));

    BOOST_TEST(s.p.leave(1, t, s.now));
    s.now += 20ms;
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
    s.now += 20ms;
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

// ---- Turns

BOOST_AUTO_TEST_CASE(seats_stay_here_while_no_other_process_waits) {
    story s;
    s.begin(4);
    s.waiting = {.head = 1, .all = 2};
    for (int i = 0; i != 100; ++i) {
        s.now += 29ms;
        s.p.leave(1, fence, s.now);
        BOOST_TEST(s.serve(1) == static_cast<ticket>(fence));
        s.waiting = {.head = 1, .all = 2};
        BOOST_TEST_REQUIRE(s.is_silent());
    }
}

BOOST_AUTO_TEST_CASE(turn_ends_after_fifty_milliseconds_if_another_process_waits) {
    story s;
    s.begin(4);
    s.waiting = {.head = 2, .all = 5};
    s.told_of_another();
    BOOST_TEST(s.is_silent());
    s.now = start + 50ms - 1ns;
    s.p.leave(1, fence, s.now);
    BOOST_TEST(s.p.remaining(s.now) == 1);
    s.serve(1);
    s.waiting = {.head = 2, .all = 5};
    s.now = start + 50ms;
    s.p.leave(1, fence, s.now);
    BOOST_TEST(s.p.remaining(s.now) == 0);
    // The same question gives up the seat and waits for the next ones.
    auto const q = s.question();
    BOOST_TEST(q.yields);
    BOOST_TEST(q.fence == fence);
    BOOST_TEST(q.keep == 3);
    BOOST_TEST(q.min == 0);  // five do not fit
    s.holds(q, 3);
    s.waiting = {.head = 1, .all = 1};
    s.now += 50ms;
    s.told_of_another();
    s.p.leave(1, fence, s.now);
    auto const next = s.question();
    BOOST_TEST(next.yields);
    BOOST_TEST(next.keep == 2);
    BOOST_TEST(next.min == 3);
    BOOST_TEST(next.max == 3);
}

BOOST_AUTO_TEST_CASE(next_turn_begins_with_the_question_that_yields) {
    story s;
    s.others = 1;
    s.begin(2);
    s.waiting = {.head = 1, .all = 1};
    s.now += 50ms;
    s.p.leave(1, fence, s.now);
    s.holds(s.question(), 2);  // it is still needed here
    s.serve(1);
    s.waiting = {.head = 1, .all = 1};
    s.now += 50ms - 1ns;
    s.p.leave(1, fence, s.now);
    BOOST_TEST(s.p.remaining(s.now) == 1);
    s.serve(1);
    s.now += 1ns;
    s.p.leave(1, fence, s.now);
    BOOST_TEST(s.p.remaining(s.now) == 0);
}

BOOST_AUTO_TEST_CASE(unused_seat_is_given_up_after_a_round_trip_if_another_process_waits) {
    story s;
    s.waiting = {.head = 1, .all = 1};
    auto const q = s.question();
    s.now += 2ms;
    s.others = 1;
    s.holds(q, 1);
    auto const t = s.serve(1);
    s.p.leave(1, t, s.now);
    BOOST_TEST(s.is_silent_until(s.now + 2ms));
    BOOST_TEST(s.p.remaining(s.now) == 1);
    s.now += 2ms;
    auto const back = s.question();
    BOOST_TEST(back.max == 0);
    BOOST_TEST(!back.yields);
    s.holds(back, 0);
    BOOST_TEST(s.p.fed_stats().lost == 0);
    BOOST_TEST(!s.p.must_go_on());
}

BOOST_AUTO_TEST_CASE(holder_without_messages_asks_whether_another_process_waits) {
    story s;
    s.listens = false;
    s.waiting = {.head = 1, .all = 1};
    s.holds(s.question(), 1);
    auto const t = s.serve(1);
    for (auto const pause : {50ms, 100ms, 200ms, 400ms, 500ms, 500ms}) {
        BOOST_TEST(s.is_silent_until(s.now + pause));
        s.now += pause;
        auto const q = s.question();
        BOOST_TEST(q.keep == 1);
        BOOST_TEST(q.max == 1);
        s.holds(q, 1);
    }
    s.now += 500ms;
    s.others = 1;
    s.holds(s.question(), 1);
    BOOST_TEST(s.is_silent_until(s.now + 3s));  // now it knows
    s.waiting = {.head = 1, .all = 1};
    s.p.leave(1, t, s.now);
    BOOST_TEST(s.question().yields);
}

// ---- The line

BOOST_AUTO_TEST_CASE(message_grants_what_the_last_question_waits_for) {
    story s;
    s.waiting = {.head = 1, .all = 1};
    auto const q = s.question();
    s.now += 4ms;
    s.holds(q, 0);
    BOOST_TEST(s.p.must_go_on());
    BOOST_TEST(s.p.fed_stats().denied == 1u);
    // Granted 100 ms after the reply, and heard 30 ms later.
    s.now = start + 134ms;
    s.others = 2;
    s.told(q.number, 1, fence + 9, start + 104ms);
    auto const t = s.serve(1);
    BOOST_TEST(t == static_cast<ticket>(fence + 9));
    // A second from the grant, counted from the question: the store counts from a later time.
    auto const end = start + 100ms + 999ms;
    BOOST_TEST(!s.p.is_lost(t, end - 1ns));
    BOOST_TEST(s.p.is_lost(t, end));
    // Long before that, a question makes a lease of it.
    BOOST_TEST(s.is_silent_until(start + 225ms));
    s.now = start + 225ms;
    auto const confirms = s.question();
    BOOST_TEST(confirms.fence == fence + 9);
    BOOST_TEST(confirms.keep == 1);
    s.holds(confirms, 1, fence + 9);
    BOOST_TEST(!s.p.is_lost(t, end + 5s));
    // Its turn began with the message; two others wait.
    s.waiting = {.head = 1, .all = 1};
    s.p.leave(1, t, s.now);
    BOOST_TEST(s.question().yields);
}

BOOST_AUTO_TEST_CASE(message_about_another_question_is_only_a_reason_to_ask) {
    story s;
    s.waiting = {.head = 1, .all = 1};
    auto const q = s.question();
    s.holds(q, 0);
    s.now += 10ms;
    s.told(q.number - 1, 1, fence + 9, s.now);
    BOOST_TEST(s.p.remaining(s.now) == 0);
    auto const again = s.question();
    BOOST_TEST(again.fence == 0);
    BOOST_TEST(again.known == 0);
    BOOST_TEST(again.min == 1);
    // A message while a question is in progress, of which nothing is known yet.
    s.told(again.number, 1, fence + 9, s.now);
    BOOST_TEST(s.p.remaining(s.now) == 0);
    s.holds(again, 0);
    auto const third = s.question();
    s.holds(third, 1, fence + 9);
    BOOST_TEST(s.p.remaining(s.now) == 1);
    s.p.heard({.number = third.number, .held = 3, .fence = fence + 9, .time = s.server_time()},
              s.now);
    BOOST_TEST(s.p.remaining(s.now) == 1);  // it waited for nothing
}

BOOST_AUTO_TEST_CASE(message_of_an_earlier_holding_or_of_long_ago_grants_nothing) {
    story s;
    auto const t = s.begin(1);
    s.p.leave(1, t, s.now);
    s.now += 20ms;
    s.holds(s.question(), 0);
    s.waiting = {.head = 1, .all = 1};
    auto const q = s.question();
    BOOST_TEST(q.known == fence);
    s.holds(q, 0);
    s.told(q.number, 1, fence, s.now);
    BOOST_TEST(s.p.remaining(s.now) == 0);
    s.holds(s.question(), 0);
    auto const granted = s.now;
    s.now += 999ms;
    s.told(q.number + 1, 1, fence + 1, granted);
    BOOST_TEST(s.p.remaining(s.now) == 0);
    BOOST_TEST(!s.is_silent());
}

BOOST_AUTO_TEST_CASE(process_in_the_line_asks_again_in_case_a_message_was_lost) {
    story s;
    s.waiting = {.head = 1, .all = 1};
    s.holds(s.question(), 0);
    BOOST_TEST(s.is_silent_until(start + 500ms));
    s.p.missed_messages(s.now);
    BOOST_TEST(!s.is_silent());
    s.others = 19;
    s.holds(s.question(), 0);
    BOOST_TEST(s.is_silent_until(start + 2s));  // twice the time of twenty turns
    s.now += 2s;
    s.others = 0;
    s.holds(s.question(), 0, 0, 30ms);
    BOOST_TEST(s.is_silent_until(s.now + 30ms));  // the lease of the holder ends
}

BOOST_AUTO_TEST_CASE(without_messages_a_process_asks_when_its_turn_may_come) {
    story s;
    s.listens = false;
    s.waiting = {.head = 1, .all = 1};
    s.others = 5;
    s.holds(s.question(), 0);
    BOOST_TEST(s.is_silent_until(start + 200ms));  // 0.8 of five turns
    s.now += 200ms;
    s.others = 0;
    s.holds(s.question(), 0);
    // It advanced five places in 200 ms, so one in 47.5 ms, by a mean over four.
    BOOST_TEST(s.is_silent_until(s.now + 47'500'000ns / 8));
    s.now += 10ms;
    s.holds(s.question(), 1);
    BOOST_TEST(s.p.remaining(s.now) == 1);
}

BOOST_AUTO_TEST_CASE(process_leaves_the_line_when_its_requests_have_left) {
    story s;
    s.waiting = {.head = 1, .all = 1};
    s.holds(s.question(), 0);
    s.waiting = {};
    BOOST_TEST(s.p.must_go_on());
    auto const q = s.question();
    BOOST_TEST(q.min == 0);
    BOOST_TEST(q.max == 0);
    s.holds(q, 0);
    BOOST_TEST(!s.p.must_go_on());
}

BOOST_AUTO_TEST_CASE(renewal_keeps_the_place_in_the_line) {
    story s;
    s.begin(1);
    s.waiting = {.head = 3, .all = 3};
    s.others = 100;
    s.holds(s.question(), 1);
    s.now += 3s;
    auto const q = s.question();
    BOOST_TEST(q.keep == 1);
    BOOST_TEST(q.min == 4);
    BOOST_TEST(!q.yields);
}

BOOST_AUTO_TEST_CASE(rejection_leaves_nothing_unused) {
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
    BOOST_TEST(s.is_silent());
}

BOOST_AUTO_TEST_CASE(place_in_the_line_is_given_up_after_a_failure) {
    story s;
    s.waiting = {.head = 1, .all = 1};
    s.holds(s.question(), 0);
    s.now += 500ms;
    auto const q = s.question();
    s.p.failed(q.number, {.kind = weir::failure_kind::unsent}, s.now);
    s.told(q.number, 1, fence + 9, s.now);
    BOOST_TEST(s.p.remaining(s.now) == 0);
    s.waiting = {};
    BOOST_TEST(s.p.must_go_on());
    s.now += 10ms;
    BOOST_TEST(s.question().max == 0);
}

// ---- Losses

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
    s.now += 20ms;
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
        BOOST_TEST(!s.p.unavailable_until(s.now));
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
    BOOST_TEST_REQUIRE(s.p.unavailable_until(s.now).has_value());
    s.now = *s.p.unavailable_until(s.now);
    BOOST_TEST(!s.p.unavailable_until(s.now));
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
        BOOST_TEST(!s.p.unavailable_until(s.now));
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
    BOOST_TEST(s.p.unavailable_until(s.now).has_value());
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
    s.now += 20ms;
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
