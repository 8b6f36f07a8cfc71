#include <weir/policy/fed.hpp>

#include "support/printing.hpp"

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <optional>
#include <stdexcept>
#include <utility>
#include <variant>

BOOST_AUTO_TEST_SUITE(policy_fed)

namespace {

using namespace std::chrono_literals;
using weir::amount;
using weir::time_point;
using weir::policy::fed;
using weir::policy::shared_bucket;

static_assert(weir::fed_policy<fed>);
static_assert(weir::eventful_policy<fed>);

constexpr time_point start{1h};
constexpr std::int64_t store_time = 1'000'000;

// A policy, the time, and the waiting requests: each test is a table of events.
struct story {
    explicit story(weir::shared_options options = ten_a_second()) : p(with_timeout(options)) {
        p.begin(now);
    }

    // Five of them can be granted at once.
    static weir::shared_options ten_a_second() {
        return {.rate = {10, 1s}, .burst = 5, .retry = {.jitter = 0}};
    }
    static weir::shared_options with_timeout(weir::shared_options options) {
        options.timeout = options.timeout.value_or(50ms);
        return options;
    }

    std::optional<fed::question> question() {
        auto const order = p.pop_command(waiting, now);
        if (!order)
            return std::nullopt;
        BOOST_TEST_REQUIRE(std::holds_alternative<fed::question>(*order));
        return std::get<fed::question>(*order);
    }
    fed::give_back return_order() {
        auto const order = p.pop_command(waiting, now);
        BOOST_TEST_REQUIRE((order && std::holds_alternative<fed::give_back>(*order)));
        return std::get<fed::give_back>(*order);
    }
    bool is_silent() const { return p.next_command(waiting, now) > now; }

    bool grant(fed::question const& q, amount n, std::chrono::microseconds wait = 0us,
               std::int64_t since = store_time) {
        return p.answered(q.number, {.granted = n, .wait = wait, .since = since}, now);
    }
    bool deny(fed::question const& q, std::chrono::microseconds wait) {
        return p.answered(q.number, {.wait = wait}, now);
    }
    // The server rejects the next question.
    bool refuse(std::chrono::microseconds again_in = 0us) {
        auto const q = question();
        BOOST_TEST_REQUIRE(q.has_value());
        return p.failed(q->number, {.wait = again_in}, now);
    }
    // The server rejects five questions in a row: an outage, with a pause by the options.
    void break_down() {
        for (int i = 0; i != 4; ++i) {
            BOOST_TEST(!refuse(1us));
            now += 1us;
        }
        BOOST_TEST(refuse());
    }
    // Grants the request at the head what it asked for, and removes it.
    weir::ticket serve(amount n) {
        BOOST_TEST_REQUIRE((p.ready_at(n, 0, now) <= now));
        waiting = {};
        return p.take(n, now);
    }

    fed p;
    time_point now = start;
    weir::demand waiting;
};

BOOST_AUTO_TEST_CASE(rate_is_counted_in_drops_of_lowest_terms) {
    auto const bucket = [](weir::rate const& r, amount burst) {
        return shared_bucket::of({.rate = r, .burst = burst});
    };
    auto const hundred = bucket({100, 1s}, 20);
    BOOST_TEST(hundred.drained == 1);
    BOOST_TEST(hundred.permit == 10'000);
    BOOST_TEST(hundred.full() == 200'000);
    BOOST_TEST(hundred.owed() == 0);
    BOOST_TEST(hundred.time_of(3) == 30'000);

    auto const three = bucket({3, 1s}, 1);
    BOOST_TEST(three.drained == 3);
    BOOST_TEST(three.permit == 1'000'000);
    BOOST_TEST(three.owed() == 2);
    BOOST_TEST(three.time_of(1) == 333'333);

    auto const fast = bucket({7'000'000, 1s}, 9);
    BOOST_TEST(fast.drained == 7);
    BOOST_TEST(fast.permit == 1);
    BOOST_TEST(fast.owed() == 0);
}

BOOST_AUTO_TEST_CASE(nothing_is_asked_while_no_request_waits) {
    story s;
    BOOST_TEST((s.p.next_command({}, s.now) == weir::never));
    BOOST_TEST(!s.question());
    BOOST_TEST(s.p.remaining(s.now) == 0);
    BOOST_TEST((s.p.ready_at(1, 0, s.now) == weir::unknown));
}

BOOST_AUTO_TEST_CASE(many_requests_are_one_question_for_at_least_the_head_and_at_most_all) {
    story s;
    s.waiting = {.head = 2, .all = 4, .until = s.now + 300ms};
    auto const q = s.question();
    BOOST_TEST_REQUIRE(q.has_value());
    BOOST_TEST(q->min == 2);
    BOOST_TEST(q->max == 4);
    BOOST_TEST((q->ahead == 300ms));
    s.waiting.all = 9;
    BOOST_TEST(!s.question());  // while the first is in progress

    s.grant(*q, 4);
    BOOST_TEST(s.p.remaining(s.now) == 4);
    s.p.take(2, s.now);
    BOOST_TEST((s.p.ready_at(3, 0, s.now) == weir::unknown));
    BOOST_TEST((s.p.ready_at(2, 0, s.now) == s.now));
    s.p.take(2, s.now);
    s.waiting = {.head = 3, .all = 5};
    auto const next = s.question();
    BOOST_TEST_REQUIRE(next.has_value());
    BOOST_TEST(next->min == 3);
    BOOST_TEST(next->max == 5);
    BOOST_TEST((next->ahead == 1s));  // the reach
}

BOOST_AUTO_TEST_CASE(no_more_is_asked_for_than_the_bucket_holds) {
    story s;
    s.waiting = {.head = 1, .all = 100};
    BOOST_TEST(s.question()->max == 5);
    BOOST_TEST(s.p.capacity() == 5);
}

BOOST_AUTO_TEST_CASE(permits_without_a_request_are_given_back) {
    story s;
    s.waiting = {.head = 2, .all = 3};
    auto const q = s.question();
    s.waiting = {.head = 1, .all = 1};  // the request at the head has left
    s.grant(*q, 3);
    BOOST_TEST((s.p.ready_at(1, 0, s.now) == s.now));
    s.serve(1);
    auto const back = s.return_order();
    BOOST_TEST(back.count == 2);
    BOOST_TEST(back.since == store_time);
    BOOST_TEST(s.is_silent());
    BOOST_TEST(s.p.remaining(s.now) == 0);
    BOOST_TEST(s.p.fed_stats().returned == 2);
}

BOOST_AUTO_TEST_CASE(too_few_permits_are_kept_for_a_large_head_and_the_rest_is_asked_for) {
    story s;
    s.waiting = {.head = 1, .all = 1};
    auto const q = s.question();
    s.waiting = {.head = 3, .all = 3};
    s.grant(*q, 1);
    auto const next = s.question();
    BOOST_TEST_REQUIRE(next.has_value());
    BOOST_TEST(next->min == 2);
    s.grant(*next, 2, 0us, store_time + 7);
    // The ticket of permits with two grant times is the earlier time: more has drained since then.
    BOOST_TEST(s.serve(3) == std::uint64_t{store_time});
}

BOOST_AUTO_TEST_CASE(rejection_names_a_time_before_which_nothing_is_asked) {
    story s;
    s.waiting = {.head = 1, .all = 2, .until = s.now + 10s};
    auto const q = s.question();
    s.now += 2ms;
    BOOST_TEST(s.deny(*q, 1200ms));  // waiting requests must be checked
    // Counted from the time of the question; each further permit takes 100 ms.
    BOOST_TEST((s.p.ready_at(1, 0, s.now) == start + 1200ms));
    BOOST_TEST((s.p.ready_at(1, 2, s.now) == start + 1200ms + 200ms));
    BOOST_TEST((s.p.next_command(s.waiting, s.now) == start + 700ms));  // half of the reach before
    s.now = start + 700ms;
    BOOST_TEST(s.question().has_value());
}

BOOST_AUTO_TEST_CASE(rejection_is_valid_for_a_second_because_others_may_give_back) {
    story s;
    s.waiting = {.head = 1, .all = 1};
    auto const q = s.question();
    s.now += 2ms;
    s.deny(*q, 24h);
    BOOST_TEST((s.p.next_command(s.waiting, s.now) == s.now + 1s));
    s.now += 1s - 1ns;
    BOOST_TEST((s.p.ready_at(1, 0, s.now) == start + 24h));
    BOOST_TEST(!s.question());
    s.now += 1ns;
    BOOST_TEST((s.p.ready_at(1, 0, s.now) == weir::unknown));
    BOOST_TEST(s.question().has_value());
}

BOOST_AUTO_TEST_CASE(rejection_of_many_does_not_apply_to_one) {
    story s;
    s.waiting = {.head = 4, .all = 4, .until = s.now + 1ms};
    s.deny(*s.question(), 3s);
    BOOST_TEST((s.p.ready_at(1, 0, s.now) == weir::unknown));
    s.waiting = {.head = 1, .all = 1};
    BOOST_TEST(s.question().has_value());
}

BOOST_AUTO_TEST_CASE(booked_grant_is_not_used_before_its_time) {
    story s;
    s.waiting = {.head = 1, .all = 3};
    auto const q = s.question();
    s.now += 2ms;
    s.grant(*q, 1, 70ms);
    // Not before it is due if the reply took the whole time; not after, if the question took it.
    auto const due = start + 2ms + 70ms;
    BOOST_TEST(s.p.remaining(s.now) == 0);
    BOOST_TEST((s.p.ready_at(1, 0, s.now) == due));
    // The bucket is full then, so one more permit takes at least 100 ms more.
    BOOST_TEST((s.p.ready_at(1, 1, s.now) == start + 70ms + 100ms));
    // The next question is sent early enough for its reply to be here when this permit is due.
    BOOST_TEST((s.p.next_command(s.waiting, s.now) == due - 2ms));
    s.now = due;
    BOOST_TEST(s.p.remaining(s.now) == 1);
    s.serve(1);
}

BOOST_AUTO_TEST_CASE(permits_lapse_a_timeout_after_the_question_or_the_booked_time) {
    for (auto const wait : {0ms, 200ms}) {
        story s;
        s.waiting = {.head = 1, .all = 1};
        auto const q = s.question();
        s.waiting = {.head = 5, .all = 5};
        s.now += 20ms;
        s.grant(*q, 1, wait);
        s.now = start + wait + 50ms;
        BOOST_TEST(s.p.remaining(s.now) == 1);
        s.now += 1ns;
        BOOST_TEST(s.p.remaining(s.now) == 0);
        BOOST_TEST((s.p.ready_at(1, 0, s.now) == (wait == 0ms ? weir::unknown : start + 300ms)));
        BOOST_TEST(s.return_order().count == 1);
        BOOST_TEST(s.p.fed_stats().lapsed == 1);
    }
}

BOOST_AUTO_TEST_CASE(saturated_it_asks_for_the_refill_of_a_millisecond) {
    story s{{.rate = {10'000, 1s}, .burst = 100}};
    s.waiting = {.head = 1, .all = 50};
    auto const first = s.question();
    BOOST_TEST(first->min == 1);
    s.grant(*first, 20);  // there were no more
    s.p.take(20, s.now);
    s.waiting.all = 30;
    BOOST_TEST(s.question()->min == 10);

    story few{{.rate = {10'000, 1s}, .burst = 100}};
    few.waiting = {.head = 1, .all = 7};
    few.grant(*few.question(), 1, 5us);
    few.now += 5us;
    few.p.take(1, few.now);
    few.waiting.all = 6;
    auto const q = few.question();
    BOOST_TEST(q->min == 6);
    few.deny(*q, 2s);  // later than the patience of the first: the next one sends its question
    few.now += 1ms;
    BOOST_TEST(few.question()->min == 1);
}

BOOST_AUTO_TEST_CASE(default_time_limit_follows_the_round_trip) {
    fed p({.rate = {1000, 1s}, .burst = 500});
    auto now = start;
    p.begin(now);
    auto const ask = [&] {
        weir::demand const one{.head = 1, .all = 1, .until = now + 1h};
        return std::get<fed::question>(p.pop_command(one, now).value());
    };
    auto const reply_after = [&](fed::question const& q, weir::duration round_trip) {
        now += round_trip;
        p.answered(q.number, {.granted = 1, .since = now.time_since_epoch() / 1us}, now);
        p.take(1, now);
    };
    auto q = ask();
    BOOST_TEST((q.timeout == 500ms));
    for (auto const& [round_trip, limit] :
         {std::pair(1ms, 50ms),
          {17ms, 51ms},
          {16ms, 50ms},
          {40ms, 120ms},
          {100ms, 300ms},
          {166ms, 498ms},
          {200ms, 500ms},
          {40ms, 120ms}}) {
        reply_after(q, round_trip);
        q = ask();
        BOOST_TEST((q.timeout == limit));
    }
    for (auto const limit : {240ms, 480ms, 500ms}) {
        now += q.timeout - 1ns;
        p.elapse(now);
        BOOST_TEST(p.fed_stats().is_asking());
        now += 1ns;
        p.elapse(now);
        q = ask();
        BOOST_TEST((q.timeout == limit));
    }
    reply_after(q, 499ms);  // in time
    BOOST_TEST(p.fed_stats().late == 0u);
    BOOST_TEST((ask().timeout == 500ms));
}

BOOST_AUTO_TEST_CASE(refund_is_sent_to_the_store_once) {
    story s;
    s.waiting = {.head = 3, .all = 3};
    s.grant(*s.question(), 3);
    auto const t = s.serve(3);
    BOOST_TEST(!s.p.refund(2, t, s.now));  // no request here can use it
    auto const back = s.return_order();
    BOOST_TEST(back.count == 2);
    BOOST_TEST(back.since == store_time);
    BOOST_TEST(s.is_silent());
    BOOST_TEST(s.p.remaining(s.now) == 0);
}

BOOST_AUTO_TEST_CASE(refunds_beyond_the_table_count_as_used) {
    story s;
    for (std::uint64_t t = 1; t <= 20; ++t)
        s.p.refund(1, t, s.now);
    s.p.refund(1, 1, s.now);  // the same grant needs no other entry
    amount all = 0;
    while (!s.is_silent())
        all += s.return_order().count;
    BOOST_TEST(all == 9);
}

BOOST_AUTO_TEST_CASE(debt_is_reported_to_the_store_before_any_grant) {
    story s;
    BOOST_TEST(s.p.take(7, s.now) == 0u);
    BOOST_TEST(s.p.debt(s.now) == 7);
    BOOST_TEST((s.p.ready_at(1, 0, s.now) == weir::unknown));
    auto const first = s.question();  // although no request waits
    BOOST_TEST_REQUIRE(first.has_value());
    BOOST_TEST(first->min == 5);
    BOOST_TEST(first->max == 5);
    BOOST_TEST((first->ahead > 24h));
    s.grant(*first, 5);
    BOOST_TEST(s.p.debt(s.now) == 2);
    s.waiting = {.head = 1, .all = 1};
    auto const second = s.question();
    BOOST_TEST(second->min == 2);
    s.grant(*second, 2, 200ms);
    BOOST_TEST(s.p.debt(s.now) == 0);
    BOOST_TEST((s.p.ready_at(1, 0, s.now) == start + 300ms));
    BOOST_TEST(s.p.remaining(s.now + 200ms) == 0);  // it was used already

    story forgiven;
    forgiven.p.take(2, forgiven.now);
    BOOST_TEST(forgiven.p.refund(2, 0, forgiven.now));
    BOOST_TEST(forgiven.p.debt(forgiven.now) == 0);
    BOOST_TEST(forgiven.is_silent());
}

BOOST_AUTO_TEST_CASE(question_without_a_reply_counts_as_used_and_another_is_sent) {
    story s;
    s.waiting = {.head = 1, .all = 1};
    auto const lost = s.question();
    BOOST_TEST((s.p.next_command(s.waiting, s.now) == start + 50ms));
    s.now += 50ms - 1ns;
    BOOST_TEST(!s.p.elapse(s.now));
    BOOST_TEST(!s.question());
    s.now += 1ns;
    BOOST_TEST(!s.p.elapse(s.now));
    auto const again = s.question();
    BOOST_TEST_REQUIRE(again.has_value());
    BOOST_TEST(again->number != lost->number);
    BOOST_TEST(s.p.fed_stats().unknown == 1);

    // The result of the first question is not used now, and given back.
    s.grant(*lost, 1);
    BOOST_TEST((s.p.ready_at(1, 0, s.now) == weir::unknown));
    BOOST_TEST(s.return_order().count == 1);
    BOOST_TEST(s.p.fed_stats().late == 1);
    s.grant(*again, 1);
    s.serve(1);
}

BOOST_AUTO_TEST_CASE(unsent_question_is_known_to_have_failed_even_if_reported_late) {
    story s;
    s.waiting = {.head = 1, .all = 1};
    auto const unsent = s.question();
    s.now += 50ms;
    s.p.elapse(s.now);
    BOOST_TEST(s.p.fed_stats().unknown == 1u);
    BOOST_TEST(!s.p.failed(unsent->number, {.kind = weir::failure_kind::unsent}, s.now));
    BOOST_TEST(s.p.fed_stats().unknown == 0u);
    BOOST_TEST(s.p.fed_stats().failed == 0u);
    BOOST_TEST(s.p.fed_stats().unsent == 1u);
    BOOST_TEST(s.p.fed_stats().late == 0u);
}

BOOST_AUTO_TEST_CASE(times_beyond_nanoseconds_are_the_end_of_time) {
    for (auto const wait : {std::chrono::microseconds::max(), std::chrono::microseconds(1LL << 62),
                            std::chrono::microseconds(std::int64_t{10'000'000'000'000'000})}) {
        story denied;
        denied.waiting = {.head = 1, .all = 1};
        denied.deny(*denied.question(), wait);
        BOOST_TEST((denied.p.ready_at(1, 0, denied.now) == weir::never));

        story booked;
        booked.waiting = {.head = 1, .all = 1};
        booked.grant(*booked.question(), 1, wait);
        BOOST_TEST(booked.p.remaining(start + 24h) == 0);
        BOOST_TEST((booked.p.ready_at(1, 0, booked.now) == weir::never));
    }
}

BOOST_AUTO_TEST_CASE(five_rejections_in_a_row_make_an_outage) {
    story s;
    s.waiting = {.head = 2, .all = 4};
    for (int i = 1; i != 5; ++i) {
        BOOST_TEST(!s.refuse(1us));
        BOOST_TEST(!s.p.unavailable_until(s.now));
        BOOST_TEST((s.p.next_command(s.waiting, s.now) == s.now + 1us));
        s.now += 1us;
    }
    BOOST_TEST(s.refuse());
    BOOST_TEST((s.p.unavailable_until(s.now) == s.now + 100ms));
    BOOST_TEST(!s.p.is_misconfigured());
    BOOST_TEST(!s.question());
    BOOST_TEST(s.p.fed_stats().unavailable);

    s.now += 100ms;
    BOOST_TEST(!s.p.unavailable_until(s.now));
    auto const probe = s.question();
    BOOST_TEST(probe->min == 2);
    BOOST_TEST(probe->max == 2);                // and nothing for the others
    BOOST_TEST(!s.p.unavailable_until(s.now));  // they may wait for its result
    BOOST_TEST(s.p.failed(probe->number, {}, s.now));
    BOOST_TEST((s.p.unavailable_until(s.now) == s.now + 200ms));

    s.now += 200ms;
    s.grant(*s.question(), 2);
    BOOST_TEST(!s.p.fed_stats().unavailable);
    BOOST_TEST(s.p.fed_stats().outages == 1);
    s.p.take(2, s.now);
    s.waiting = {.head = 1, .all = 3};
    BOOST_TEST(s.question()->max == 3);
}

BOOST_AUTO_TEST_CASE(probe_of_a_saturated_fast_limiter_asks_for_no_more_than_it_can_get) {
    story s{{.rate = {10'000, 1s}, .burst = 100, .retry = {.jitter = 0}}};
    s.waiting = {.head = 1, .all = 50};
    s.grant(*s.question(), 20);  // fewer than requested
    s.p.take(20, s.now);
    BOOST_TEST(s.question()->min == 10);  // the refill of a millisecond
    for (int i = 0; i != 20; ++i) {
        s.now += 50ms;
        s.p.elapse(s.now);
        if (i != 19)
            BOOST_TEST_REQUIRE(s.question().has_value());
    }
    BOOST_TEST_REQUIRE(s.p.fed_stats().unavailable);
    s.now += 100ms;
    auto const probe = s.question();
    BOOST_TEST_REQUIRE(probe.has_value());
    BOOST_TEST(probe->min == 1);
    BOOST_TEST(probe->max == 1);
}

BOOST_AUTO_TEST_CASE(second_of_silence_makes_an_outage_also_during_a_question) {
    story s{{.timeout = 400ms, .retry = {.jitter = 0}}};
    s.waiting = {.head = 1, .all = 1};
    for (int i = 0; i != 2; ++i) {
        BOOST_TEST_REQUIRE(s.question().has_value());
        s.now += 400ms;
        BOOST_TEST(!s.p.elapse(s.now));
        BOOST_TEST(!s.p.unavailable_until(s.now));
    }
    BOOST_TEST_REQUIRE(s.question().has_value());
    BOOST_TEST((s.p.next_command(s.waiting, s.now) == start + 1s));
    s.now = start + 1s;
    BOOST_TEST(s.p.elapse(s.now));
    BOOST_TEST(s.p.fed_stats().outages == 1u);
    BOOST_TEST(!s.p.unavailable_until(s.now));  // until the end of the question
    s.now = start + 1200ms;
    BOOST_TEST(s.p.elapse(s.now));
    BOOST_TEST((s.p.unavailable_until(s.now) == s.now + 100ms));
    BOOST_TEST(s.p.fed_stats().outages == 1u);
}

BOOST_AUTO_TEST_CASE(one_reply_ends_the_row_of_rejections) {
    story s;
    s.waiting = {.head = 1, .all = 1};
    for (int i = 0; i != 4; ++i) {
        s.refuse(1us);
        s.now += 1us;
    }
    s.deny(*s.question(), 0us);
    for (int i = 0; i != 4; ++i) {
        BOOST_TEST(!s.refuse(1us));
        s.now += 1us;
    }
}

BOOST_AUTO_TEST_CASE(late_reply_ends_an_outage_at_once) {
    story s;
    s.waiting = {.head = 1, .all = 1};
    auto const late = s.question();
    s.now += 50ms;
    s.p.elapse(s.now);
    s.break_down();
    BOOST_TEST_REQUIRE(s.p.unavailable_until(s.now).has_value());
    s.grant(*late, 1);
    BOOST_TEST(!s.p.unavailable_until(s.now));
    BOOST_TEST(!s.p.fed_stats().unavailable);
    BOOST_TEST(s.p.fed_stats().failing == 0u);
    BOOST_TEST((s.p.fed_stats().mode == weir::shared_mode::store));
    s.return_order();
    BOOST_TEST(s.question().has_value());  // without a pause
}

BOOST_AUTO_TEST_CASE(misconfigured_store_rejects_at_once_whatever_the_mode_and_opens_nothing) {
    for (decltype(weir::shared_options::on_failure) const mode :
         {decltype(weir::shared_options::on_failure)(weir::fail_closed()),
          decltype(weir::shared_options::on_failure)(weir::fail_open()),
          decltype(weir::shared_options::on_failure)(weir::fail_local{1})}) {
        story s{{.rate = {10, 1s}, .burst = 5, .on_failure = mode, .retry = {.jitter = 0}}};
        s.waiting = {.head = 1, .all = 1};
        auto const q = s.question();
        BOOST_TEST(s.p.failed(q->number, {.kind = weir::failure_kind::misconfigured}, s.now));
        BOOST_TEST((s.p.unavailable_until(s.now) == s.now + 5s));
        BOOST_TEST(s.p.is_misconfigured());
        BOOST_TEST(!s.p.is_unlimited());
        BOOST_TEST((s.p.ready_at(1, 0, s.now) == weir::unknown));
        BOOST_TEST((s.p.fed_stats().mode == weir::shared_mode::misconfigured));
        BOOST_TEST(s.p.fed_stats().outages == 0u);
        s.now += 5s;
        s.grant(*s.question(), 1);
        BOOST_TEST((s.p.fed_stats().mode == weir::shared_mode::store));
    }
}

BOOST_AUTO_TEST_CASE(hiccup_neither_opens_nor_grants_a_share) {
    for (decltype(weir::shared_options::on_failure) const mode :
         {decltype(weir::shared_options::on_failure)(weir::fail_open()),
          decltype(weir::shared_options::on_failure)(weir::fail_local{1})}) {
        story s{{.rate = {10, 1s}, .burst = 5, .on_failure = mode, .retry = {.jitter = 0}}};
        s.waiting = {.head = 1, .all = 1};
        for (int i = 0; i != 19; ++i) {
            BOOST_TEST_REQUIRE(s.question().has_value());
            s.now += 50ms;
            BOOST_TEST(!s.p.elapse(s.now));
            BOOST_TEST((s.p.ready_at(1, 0, s.now) == weir::unknown));
        }
        BOOST_TEST((s.p.fed_stats().mode == weir::shared_mode::store));
    }
}

BOOST_AUTO_TEST_CASE(fail_open_grants_everything_from_the_outage_to_the_first_reply) {
    story s{{.rate = {1, 1h}, .on_failure = weir::fail_open(), .retry = {.jitter = 0}}};
    s.waiting = {.head = 1, .all = 1};
    for (int i = 0; i != 4; ++i) {
        s.refuse(1us);
        BOOST_TEST((s.p.ready_at(1, 0, s.now) == weir::unknown));
        BOOST_TEST(!s.p.is_unlimited());
        s.now += 1us;
    }
    BOOST_TEST(s.refuse());
    BOOST_TEST(s.p.is_unlimited());
    for (int i = 0; i != 100; ++i) {
        BOOST_TEST((s.p.ready_at(1, 0, s.now) == s.now));
        s.p.take(1, s.now);
    }
    BOOST_TEST(!s.p.unavailable_until(s.now));
    BOOST_TEST(s.p.fed_stats().bypassed_permits == 100);

    // It asks again, for one permit, although no request waits.
    s.waiting = {};
    s.now += 100ms;
    auto const probe = s.question();
    BOOST_TEST_REQUIRE(probe.has_value());
    BOOST_TEST(probe->max == 1);
    BOOST_TEST(!s.question());
    s.grant(*probe, 1);
    BOOST_TEST((s.p.ready_at(2, 0, s.now) == weir::unknown));
    BOOST_TEST(s.return_order().count == 1);
    BOOST_TEST(s.is_silent());
}

BOOST_AUTO_TEST_CASE(lost_probe_is_followed_by_another_although_no_request_waits) {
    story s{{.rate = {1, 1h}, .on_failure = weir::fail_open(), .retry = {.jitter = 0}}};
    s.waiting = {.head = 1, .all = 1};
    s.break_down();
    s.waiting = {};
    s.p.take(1, s.now);
    s.now += 100ms;
    BOOST_TEST(s.question().has_value());
    s.p.take(1, s.now);
    s.now += 50ms;
    BOOST_TEST(!s.question());
    BOOST_TEST(s.p.fed_stats().unknown == 1u);
    s.now += 200ms;
    BOOST_TEST(s.question().has_value());
}

BOOST_AUTO_TEST_CASE(store_is_not_asked_in_an_outage_although_permits_are_granted) {
    story s{{.rate = {1, 1h}, .on_failure = weir::fail_open(), .retry = {.jitter = 0}}};
    s.waiting = {.head = 1, .all = 1};
    s.break_down();
    s.waiting = {};
    s.p.take(1, s.now);
    BOOST_TEST(!s.question());
    s.now += 100ms;
    BOOST_TEST(s.question().has_value());
}

BOOST_AUTO_TEST_CASE(fail_local_grants_a_share_that_counts_all_grants) {
    story s{{.rate = {10, 1s},
             .burst = 8,
             .on_failure = weir::fail_local{0.5},
             .retry = {.jitter = 0}}};
    s.waiting = {.head = 3, .all = 3};
    s.grant(*s.question(), 3);
    s.serve(3);
    s.waiting = {.head = 1, .all = 1};
    s.break_down();
    s.now = start;                          // as if no time had passed
    BOOST_TEST(s.p.remaining(s.now) == 1);  // half of the burst, less the three
    s.p.take(1, s.now);
    BOOST_TEST((s.p.ready_at(1, 0, s.now) == s.now + 200ms));  // half of the rate
    BOOST_TEST((s.p.ready_at(5, 0, s.now) == weir::unknown));  // more than the whole share

    auto const t = [&] {
        s.now += 200ms;
        return s.p.take(1, s.now);
    }();
    BOOST_TEST(s.p.refund(1, t, s.now));  // here, and not to the store
    BOOST_TEST((s.p.ready_at(1, 0, s.now) == s.now));
}

BOOST_AUTO_TEST_CASE(share_after_a_long_outage_is_as_documented) {
    story s{{.rate = {10, 1s},
             .burst = 8,
             .on_failure = weir::fail_local{0.5},
             .retry = {.jitter = 0}}};
    s.waiting = {.head = 1, .all = 1};
    s.break_down();
    amount granted = 0;
    for (auto const end = s.now + 10s; s.now <= end; s.now += 1ms)
        for (; s.p.ready_at(1, 0, s.now) <= s.now; ++granted)
            s.p.take(1, s.now);
    BOOST_TEST(granted == 4 + 50);
}

BOOST_AUTO_TEST_CASE(permits_of_several_sources_are_not_given_back_twice) {
    constexpr weir::ticket local = weir::ticket{1} << 63;
    BOOST_TEST(fed::merge(7, 9, 1) == 7u);
    BOOST_TEST(fed::merge(9, local, 1) == local);
    BOOST_TEST(fed::merge(local, 9, 1) == local);
    BOOST_TEST(fed::merge(local, 0, 1) == 0u);
    BOOST_TEST(fed::merge(0, 9, 1) == 0u);
}

// With a prefetch of up to 100 permits for 100 ms, at 10,000 per second.
struct leased_story : story {
    leased_story() : story({.rate = {10'000, 1s}, .burst = 1000, .prefetch = 100}) {}

    // One request arrives, and gets the permits of the reply.
    void come(std::chrono::microseconds wait = 0us) {
        waiting = {.head = 1, .all = 1, .until = now + 1s};
        auto const q = question();
        BOOST_TEST_REQUIRE(q.has_value());
        grant(*q, wait == 0us ? q->max : q->min, wait, ++since);
        now += wait;
        serve(1);
    }
    void use(amount n) {
        for (; n != 0; --n)
            p.take(1, now);
    }
    // The question of a process that uses all permits at once.
    void grow() {
        for (int i = 0; i != 12; ++i) {
            use(p.remaining(now));
            come();
        }
    }
    amount prefetch() const { return p.fed_stats().prefetch; }

    std::int64_t since = store_time;
};

BOOST_AUTO_TEST_CASE(prefetch_grows_while_permits_are_used_up_within_a_tenth_of_its_time) {
    leased_story s;
    for (auto const expected : {0, 1, 2, 4, 8, 16, 32, 64, 100, 100}) {
        s.come();
        BOOST_TEST(s.prefetch() == expected);
        BOOST_TEST(s.p.remaining(s.now) == expected);
        s.use(s.p.remaining(s.now));
        s.now += 10ms;
    }
    s.now += 1ns;  // it was used a little later
    s.come();
    BOOST_TEST(s.prefetch() == 100);
    BOOST_TEST(s.p.remaining(s.now) == 100);

    story strict{{.rate = {10'000, 1s}, .burst = 1000}};
    story single{{.rate = {10'000, 1s}, .burst = 1, .prefetch = 100}};
    for (auto* const one : {&strict, &single}) {
        for (int i = 0; i != 5; ++i) {
            one->waiting = {.head = 1, .all = 1};
            auto const q = one->question();
            BOOST_TEST(q->max == 1);
            one->grant(*q, 1);
            one->serve(1);
        }
    }
}

BOOST_AUTO_TEST_CASE(prefetch_is_at_most_half_of_the_burst) {
    leased_story s;
    fed next({.rate = {10'000, 1s}, .burst = 50, .prefetch = 100});
    s.grow();
    BOOST_TEST(s.prefetch() == 100);
    next.take_over(s.p, s.now);
    BOOST_TEST(next.fed_stats().prefetch == 25);
}

BOOST_AUTO_TEST_CASE(prefetched_permits_are_granted_without_a_question_until_a_quarter_is_left) {
    leased_story s;
    s.grow();
    s.use(75);
    BOOST_TEST(s.is_silent());
    s.use(1);
    auto const q = s.question();  // although no request waits
    BOOST_TEST_REQUIRE(q.has_value());
    BOOST_TEST(q->min == 1);
    BOOST_TEST(q->max == 101);
    BOOST_TEST(q->ahead.count() == 0);
    s.use(24);  // meanwhile
    s.grant(*q, 101, 0us, ++s.since);
    BOOST_TEST(s.p.remaining(s.now) == 101);

    // Not if they were needed later.
    s.now += 10ms + 1ns;
    s.use(100);
    BOOST_TEST(s.is_silent());
}

BOOST_AUTO_TEST_CASE(prefetched_permits_lapse_a_timeout_and_a_prefetch_time_after_the_question) {
    leased_story s;
    s.grow();
    s.now += 150ms;
    BOOST_TEST(s.p.remaining(s.now) == 100);
    BOOST_TEST(s.is_silent());
    s.now += 1ns;
    BOOST_TEST(s.p.remaining(s.now) == 0);
    BOOST_TEST(s.return_order().count == 100);
    BOOST_TEST(s.p.fed_stats().lapsed == 100);
    BOOST_TEST(s.prefetch() == 50);
    BOOST_TEST(s.is_silent());
}

BOOST_AUTO_TEST_CASE(next_step_is_due_when_prefetched_permits_lapse) {
    leased_story s;
    BOOST_TEST(!s.p.must_go_on());
    s.grow();
    BOOST_TEST(s.p.must_go_on());
    BOOST_TEST((s.p.next_command(s.waiting, s.now) == s.now + 150ms + 1ns));
    s.use(100);
    BOOST_TEST(!s.p.must_go_on());
}

BOOST_AUTO_TEST_CASE(fetched_permits_can_be_used_in_an_outage) {
    leased_story s;
    s.grow();
    s.waiting = {.head = 300, .all = 300};
    s.break_down();
    BOOST_TEST(s.p.unavailable_until(s.now).has_value());
    BOOST_TEST((s.p.ready_at(100, 0, s.now) == s.now));
    BOOST_TEST((s.p.ready_at(101, 0, s.now) == weir::unknown));
}

BOOST_AUTO_TEST_CASE(rejection_of_the_store_does_not_apply_in_an_outage) {
    story s;
    s.waiting = {.head = 1, .all = 1};
    s.deny(*s.question(), 700ms);
    BOOST_TEST((s.p.ready_at(1, 0, s.now) == start + 700ms));
    s.now += 300ms;
    s.break_down();
    BOOST_TEST((s.p.ready_at(1, 0, s.now) == weir::unknown));
}

BOOST_AUTO_TEST_CASE(prefetch_shrinks_when_a_grant_has_to_be_booked) {
    leased_story s;
    s.grow();
    s.use(100);
    s.come(30ms);
    BOOST_TEST(s.prefetch() == 50);
}

// Otherwise each grant would need two questions, of which one finds nothing.
BOOST_AUTO_TEST_CASE(prefetch_shrinks_when_the_store_grants_fewer_permits_or_none) {
    leased_story s;
    s.grow();
    s.use(100);
    for (auto const expected : {50, 25, 12, 6, 3, 1}) {
        s.waiting = {.head = 1, .all = 1, .until = s.now + 1s};
        auto const q = s.question();
        BOOST_TEST_REQUIRE(q.has_value());
        s.grant(*q, 1, 0us, ++s.since);
        s.serve(1);
        BOOST_TEST(s.prefetch() == expected);
        s.now += 1ms;
        BOOST_TEST(s.is_silent());
    }

    leased_story denied;
    denied.grow();
    denied.use(76);
    denied.waiting = {};
    denied.deny(*denied.question(), 1ms);
    BOOST_TEST(denied.prefetch() == 50);
}

BOOST_AUTO_TEST_CASE(refunded_prefetched_permit_is_granted_again_here_while_it_is_valid) {
    leased_story s;
    s.grow();
    auto const t = s.p.take(1, s.now);
    BOOST_TEST(s.p.refund(1, t, s.now));
    BOOST_TEST(s.p.remaining(s.now) == 100);
    auto const late = s.p.take(1, s.now);
    s.now += 151ms;
    BOOST_TEST(!s.p.refund(1, late, s.now));
    BOOST_TEST(s.return_order().count == 100);
}

BOOST_AUTO_TEST_CASE(prefetch_time_is_the_time_of_four_permits_if_that_is_longer) {
    story s{{.rate = {10, 1s}, .burst = 4, .prefetch = 2}};
    s.waiting = {.head = 1, .all = 1};
    s.grant(*s.question(), 1);
    s.now = start + 450ms;
    BOOST_TEST(s.p.remaining(s.now) == 1);
    s.now += 1ns;
    BOOST_TEST(s.p.remaining(s.now) == 0);
}

BOOST_AUTO_TEST_CASE(log_is_asked_for_up_to_the_permits_of_its_window) {
    weir::policy::fed_log p({.rate = {3, 10s}});
    BOOST_TEST(p.capacity() == 3);
    weir::demand const nine{.head = 1, .all = 9, .until = start + 5s};
    auto const q = std::get<fed::question>(p.pop_command(nine, start).value());
    BOOST_TEST(q.bucket.window == 10'000'000);
    BOOST_TEST(q.bucket.burst == 3);
    BOOST_TEST(q.max == 3);
    BOOST_TEST((q.ahead == 1s));
    p.answered(q.number, {.wait = 4s}, start);
    // The next one may be free as soon as the first.
    BOOST_TEST((p.ready_at(1, 0, start) == start + 4s));
    BOOST_TEST((p.ready_at(1, 1, start) == start + 4s));
}

BOOST_AUTO_TEST_CASE(wrong_options_of_a_log_are_named) {
    using weir::policy::fed_log;
    BOOST_CHECK_THROW((fed_log{{.rate = {4097, 1s}}}), std::invalid_argument);
    BOOST_CHECK_THROW((fed_log{{.rate = {10, 1s}, .burst = 5}}), std::invalid_argument);
    BOOST_CHECK_THROW((fed_log{{.timeout = 0s}}), std::invalid_argument);
    BOOST_CHECK_NO_THROW((fed_log{{.rate = {4096, 1s}}}));
}

BOOST_AUTO_TEST_CASE(each_change_of_mode_is_reported_once) {
    using mode = weir::shared_mode;
    for (auto const& [on_failure, without] :
         {std::pair<decltype(weir::shared_options::on_failure), mode>{
              weir::fail_closed(), mode::closed},
          {weir::fail_open(), mode::open},
          {weir::fail_local{0.5}, mode::local}}) {
        story s{{.rate = {10, 1s}, .burst = 5, .on_failure = on_failure, .retry = {.jitter = 0}}};
        BOOST_TEST((s.p.fed_stats().mode == mode::store));
        BOOST_TEST((s.p.fed_stats().mode_since == start));
        BOOST_TEST(!s.p.pop_event());
        s.waiting = {.head = 1, .all = 1};
        s.now += 1ms;
        s.break_down();
        auto const begin = s.now;
        BOOST_TEST((s.p.fed_stats().mode == without));
        BOOST_TEST((s.p.fed_stats().mode_since == begin));
        BOOST_TEST_REQUIRE(s.p.has_event());
        auto const away = s.p.pop_event().value();
        BOOST_TEST((away.before == mode::store));
        BOOST_TEST((away.after == without));
        BOOST_TEST((away.at == begin));
        BOOST_TEST(away.number == 1u);
        BOOST_TEST(!s.p.has_event());

        s.now += 1s;
        s.waiting = {.head = 9, .all = 9};  // more than the share
        s.p.take(without == mode::closed ? 0 : 1, s.now);
        s.grant(*s.question(), 1);
        auto const back = s.p.pop_event().value();
        BOOST_TEST((back.before == without));
        BOOST_TEST((back.after == mode::store));
        BOOST_TEST(back.number == 2u);
        BOOST_TEST(s.p.fed_stats().mode_changes == 2u);
    }
}

BOOST_AUTO_TEST_CASE(last_eight_unreported_changes_are_kept) {
    story s{
        {.rate = {10, 1s}, .burst = 5, .on_failure = weir::fail_open(), .retry = {.jitter = 0}}};
    for (int i = 0; i != 6; ++i) {
        s.now += 1s;
        s.waiting = {.head = 1, .all = 1};
        s.break_down();
        s.now += 100ms;
        s.deny(*s.question(), 0us);
    }
    BOOST_TEST(s.p.fed_stats().mode_changes == 12u);
    for (auto number = 5u; number <= 12; ++number) {
        auto const e = s.p.pop_event().value();
        BOOST_TEST(e.number == number);
        BOOST_TEST(
            (e.after == (number % 2 == 1 ? weir::shared_mode::open : weir::shared_mode::store)));
    }
    BOOST_TEST(!s.p.has_event());
}

BOOST_AUTO_TEST_CASE(new_options_may_change_the_mode) {
    story s{
        {.rate = {10, 1s}, .burst = 5, .on_failure = weir::fail_open(), .retry = {.jitter = 0}}};
    s.waiting = {.head = 1, .all = 1};
    s.break_down();
    fed next({.rate = {10, 1s}, .burst = 5, .on_failure = weir::fail_local{1}});
    next.take_over(s.p, s.now);
    BOOST_TEST((next.fed_stats().mode == weir::shared_mode::local));
    BOOST_TEST(next.fed_stats().mode_changes == 2u);
}

BOOST_AUTO_TEST_CASE(steps_of_the_clock_of_the_store_are_counted) {
    story s;
    auto const ask = [&](weir::duration there_and_back, std::int64_t store_says) {
        s.waiting = {.head = 1, .all = 1};
        auto const q = s.question();
        s.now += there_and_back;
        s.grant(*q, 1, 30ms, store_says + 30'000);
        s.now += 30ms;
        s.serve(1);
    };
    auto const steps = [&] {
        return std::pair(s.p.fed_stats().steps_forward, s.p.fed_stats().steps_back);
    };
    using pair = std::pair<std::uint64_t, std::uint64_t>;
    ask(1ms, store_time);
    s.now += 200ms;
    // 231 ms passed between the replies, up to two of them on the way.
    ask(1ms, store_time + 232'000 + 100'000);
    BOOST_TEST((steps() == pair(0, 0)));
    s.now += 200ms;
    ask(1ms, store_time + 332'000 + 232'001 + 100'000);
    BOOST_TEST((steps() == pair(1, 0)));
    s.now += 200ms;
    ask(1ms, store_time + 664'001 + 230'000 - 100'000);
    BOOST_TEST((steps() == pair(1, 0)));
    s.now += 200ms;
    ask(1ms, store_time + 794'001 + 229'999 - 100'000);
    BOOST_TEST((steps() == pair(1, 1)));
    // After an hour 3.6 s may be drift.
    s.now += 1h;
    ask(0ms, store_time + 924'000 + 3'600'000'000 + 3'500'000);
    BOOST_TEST((steps() == pair(1, 1)));
}

BOOST_AUTO_TEST_CASE(lost_state_is_counted_if_it_still_mattered) {
    // Grants three permits, which are refilled after 300 ms; then the store replies that the name is new.
    auto const losses = [](std::chrono::microseconds later, amount refunded = 0) {
        story s;
        s.waiting = {.head = 3, .all = 3};
        s.grant(*s.question(), 3);
        auto const t = s.serve(3);
        if (refunded != 0) {
            s.p.refund(refunded, t, s.now);
            s.return_order();
        }
        s.now += later;
        s.waiting = {.head = 1, .all = 1};
        auto const q = s.question();
        s.p.answered(q->number, {.granted = 1, .since = store_time + later.count(), .is_new = true},
                     s.now);
        return s.p.fed_stats().losses;
    };
    BOOST_TEST(losses(299'999us) == 1u);
    BOOST_TEST(losses(300ms) == 0u);
    BOOST_TEST(losses(199'999us, 1) == 1u);
    BOOST_TEST(losses(200ms, 1) == 0u);

    story fresh;
    fresh.waiting = {.head = 1, .all = 1};
    auto const q = fresh.question();
    fresh.p.answered(q->number, {.granted = 1, .since = store_time, .is_new = true}, fresh.now);
    BOOST_TEST(fresh.p.fed_stats().losses == 0u);
}

BOOST_AUTO_TEST_CASE(new_options_apply_from_the_next_question_on) {
    story s;
    s.waiting = {.head = 1, .all = 1};
    auto const q = s.question();
    fed next({.rate = {3, 1s}, .burst = 2});
    next.take_over(s.p, s.now);
    std::swap(s.p, next);
    s.grant(*q, 1);
    s.serve(1);
    s.waiting = {.head = 1, .all = 9};
    auto const other = s.question();
    BOOST_TEST(other->bucket.drained == 3);
    BOOST_TEST(other->max == 2);
}

BOOST_AUTO_TEST_CASE(wrong_options_are_named) {
    auto const is_wrong = [](weir::shared_options const& o) {
        BOOST_CHECK_THROW(fed{o}, std::invalid_argument);
    };
    is_wrong({.rate = {0, 1s}});
    is_wrong({.burst = 0});
    is_wrong({.burst = 500'000'001});
    is_wrong({.reach = -1ns});
    is_wrong({.reach = 61s});
    is_wrong({.timeout = 0s});
    is_wrong({.retry = {.initial = 0ns}});
    is_wrong({.retry = {.initial = 2s, .max = 1s}});
    is_wrong({.retry = {.jitter = 1.5}});
    is_wrong({.prefetch = -1});
    is_wrong({.prefetch = 500'000'001});
    is_wrong({.prefetch_time = 999us});
    is_wrong({.prefetch_time = 61s});
    is_wrong({.on_failure = weir::fail_local{0}});
    is_wrong({.on_failure = weir::fail_local{1.5}});
    is_wrong({.rate = {1, 24h * 4000}});
    is_wrong({.rate = {weir::max_amount, 1ns}, .burst = 1});
    is_wrong({.rate = {1, 24h * 3650}, .burst = 10'000});  // more than 64 bits hold
    BOOST_CHECK_NO_THROW((fed{{.rate = {1, 24h * 3650}}}));
    BOOST_CHECK_NO_THROW((fed{{.rate = {999'999'937, 24h}, .burst = 20'000}}));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
