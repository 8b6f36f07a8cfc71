#include <weir/policy/outage.hpp>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <chrono>

BOOST_AUTO_TEST_SUITE(policy_outage)

namespace {

using namespace std::chrono_literals;
using weir::duration;
using weir::time_point;
using weir::policy::outage;
using kind = weir::failure_kind;
using state = outage::state;

// The questions to a store, in virtual time: pauses of 50 ms, 100 ms, and so on, up to 500 ms.
struct story {
    outage o{{.initial = 50ms, .max = 500ms, .jitter = 0}};
    time_point now{1h};

    // A question at the earliest time, `idle` after it, that fails after `length`.
    void fail(kind why, duration length = 0ms, duration again_in = 0ms, duration idle = 0ms) {
        now = std::max(now, o.retry_at()) + idle;
        o.asks(now);
        now += length;
        o.failed(why, again_in, now);
    }
    bool is_out() const { return o.current() == state::unavailable; }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(of_a_store, story)

BOOST_AUTO_TEST_CASE(second_of_silence_is_an_outage) {
    for (int i = 0; i != 19; ++i)
        fail(kind::no_reply, 50ms);
    BOOST_TEST(!is_out());
    BOOST_TEST((o.retry_at() <= now));  // the next question follows at once
    fail(kind::no_reply, 50ms);
    BOOST_TEST(is_out());
}

BOOST_AUTO_TEST_CASE(outage_begins_during_a_question_when_the_second_is_over) {
    fail(kind::no_reply, 700ms);
    BOOST_TEST((o.begins_at() == weir::never));  // nothing is asked
    o.asks(now);
    auto const begin = now + 300ms;
    BOOST_TEST((o.begins_at() == begin));
    BOOST_TEST(!o.elapse(begin - 1ns));
    BOOST_TEST(!is_out());
    BOOST_TEST(o.elapse(begin));
    BOOST_TEST(is_out());
    BOOST_TEST((o.begins_at() == weir::never));
    BOOST_TEST(!o.elapse(begin + 1s));
}

BOOST_AUTO_TEST_CASE(first_question_has_its_whole_timeout) {
    o.asks(now);
    BOOST_TEST(!o.elapse(now + 9s));
    BOOST_TEST(!is_out());
    now += 10s;
    o.failed(kind::no_reply, 0ms, now);
    BOOST_TEST(is_out());
}

BOOST_AUTO_TEST_CASE(time_without_a_question_is_no_silence) {
    for (int i = 0; i != 19; ++i)
        fail(kind::no_reply, 50ms, 0ms, 1h);
    BOOST_TEST(!is_out());
    fail(kind::no_reply, 50ms, 0ms, 1h);
    BOOST_TEST(is_out());
}

BOOST_AUTO_TEST_CASE(unsent_question_is_silence_and_no_refusal) {
    for (int i = 0; i != 9; ++i)
        fail(kind::unsent, 0ms, 100ms);
    BOOST_TEST(!is_out());
    BOOST_TEST((o.retry_at() == now + 100ms));
    BOOST_TEST((o.begins_at() == weir::never));  // not in this pause
    fail(kind::unsent, 0ms, 200ms);
    BOOST_TEST(!is_out());
    BOOST_TEST((o.begins_at() == now + 100ms));
    fail(kind::unsent);
    BOOST_TEST(is_out());
}

BOOST_AUTO_TEST_CASE(fifth_refusal_is_an_outage) {
    for (auto const pause : {50ms, 100ms, 200ms}) {
        fail(kind::refused);
        BOOST_TEST((o.retry_at() == now + pause));
    }
    for (int i = 0; i != 3; ++i)
        fail(kind::unsent, 1ms);  // it does not count
    fail(kind::refused);
    BOOST_TEST(!is_out());
    fail(kind::refused);
    BOOST_TEST(is_out());
}

BOOST_AUTO_TEST_CASE(every_reply_ends_the_outage_and_the_pauses) {
    for (int i = 0; i != 5; ++i)
        fail(kind::refused);
    BOOST_TEST_REQUIRE(is_out());
    o.replied();
    BOOST_TEST((o.current() == state::none));
    BOOST_TEST(!o.is_failing());
    BOOST_TEST((o.retry_at() <= now));
    for (int i = 0; i != 4; ++i)
        fail(kind::refused, 0ms, 1ms);
    BOOST_TEST(!is_out());
}

BOOST_AUTO_TEST_CASE(late_reply_does_not_end_the_question_in_progress) {
    fail(kind::no_reply, 50ms);
    o.asks(now);
    o.replied();
    now += 50ms;
    o.failed(kind::no_reply, 0ms, now);
    BOOST_TEST(!is_out());
    o.asks(now);
    BOOST_TEST((o.begins_at() == now + 950ms));
}

BOOST_AUTO_TEST_CASE(pauses_in_an_outage_double_up_to_their_bound) {
    fail(kind::no_reply, 1s);
    BOOST_TEST_REQUIRE(is_out());
    BOOST_TEST((o.retry_at() == now + 50ms));
    for (auto const pause : {100ms, 200ms, 400ms, 500ms, 500ms}) {
        fail(kind::no_reply, 50ms);
        BOOST_TEST((o.retry_at() == now + pause));
    }
}

BOOST_AUTO_TEST_CASE(pause_of_the_store_replaces_the_other_one) {
    fail(kind::no_reply, 1s);
    for (int i = 0; i != 10; ++i) {
        fail(kind::unsent, 0ms, 7ms);
        BOOST_TEST((o.retry_at() == now + 7ms));
    }
    fail(kind::refused);  // the pauses did not grow meanwhile
    BOOST_TEST((o.retry_at() == now + 100ms));
}

BOOST_AUTO_TEST_CASE(questions_that_fail_at_once_are_ten_milliseconds_apart) {
    for (auto const why : {kind::no_reply, kind::unsent}) {
        o.replied();
        fail(why, 2ms);
        BOOST_TEST((o.retry_at() == now + 8ms));
    }
}

BOOST_AUTO_TEST_CASE(misconfigured_store_is_detected_at_once_and_is_no_outage) {
    fail(kind::misconfigured, 1ms);
    BOOST_TEST((o.current() == state::misconfigured));
    BOOST_TEST(o.is_failing());
    BOOST_TEST((o.retry_at() == now + 5s));
    for (int i = 0; i != 10; ++i)
        fail(kind::misconfigured, 1ms);
    BOOST_TEST((o.current() == state::misconfigured));
    o.replied();
    BOOST_TEST((o.current() == state::none));
}

BOOST_AUTO_TEST_CASE(late_report_of_a_misconfigured_store_counts) {
    fail(kind::no_reply, 50ms);
    o.asks(now);
    o.misconfigured(0ms, now);
    BOOST_TEST((o.current() == state::misconfigured));
    o.failed(kind::no_reply, 0ms, now + 50ms);
    BOOST_TEST((o.current() == state::misconfigured));
}

BOOST_AUTO_TEST_CASE(misconfigured_store_that_is_silent_is_an_outage) {
    fail(kind::misconfigured);
    fail(kind::no_reply, 1s);
    BOOST_TEST(is_out());
    fail(kind::misconfigured);
    BOOST_TEST((o.current() == state::misconfigured));
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE_END()
