#include <weir/format.hpp>
#include <weir/testing.hpp>
#include <weir/weir.hpp>

#include <boost/asio/error.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/test/unit_test.hpp>

#include <fmt/chrono.h>
#include <fmt/ranges.h>
#include <fmt/std.h>

#include <chrono>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

using namespace std::chrono_literals;

namespace {

template <class T>
void reads(T const& value, std::string_view text) {
    BOOST_TEST(fmt::format("{}", value) == text);
}

// Returns a permit after a wait, or the empty permit of a rejection.
struct permits {
    boost::asio::io_context ctx;
    weir::testing::limiter<weir::token_bucket> bucket{ctx, {.rate = weir::rate{2, 1s}}};

    weir::permit wait(weir::amount n) {
        weir::permit granted;
        bucket.async_enter(n, [&](weir::error_code, weir::permit p) { granted = std::move(p); });
        weir::testing::run(ctx);
        return granted;
    }
};

}  // namespace

BOOST_AUTO_TEST_SUITE(formatted)

BOOST_AUTO_TEST_CASE(a_duration_has_a_unit_and_at_most_three_decimals) {
    std::vector<std::pair<weir::duration, std::string_view>> const table{
        {0s, "0s"},
        {1ns, "1ns"},
        {999ns, "999ns"},
        {1us, "1us"},
        {1'001ns, "1.001us"},
        {1500us, "1.5ms"},
        {12'345'678ns, "12.346ms"},
        {999'999'000ns, "999.999ms"},
        {999'999'001ns, "1s"},
        {1s, "1s"},
        {1'500'000'001ns, "1.501s"},
        {60s, "60s"},
        {24h, "86400s"},
        {24h + 1ms, "86400.001s"},
        {weir::forever - 1ns, "9223372036.855s"},
        {weir::forever, "forever"},
        {-1500ms, "-1.5s"},
        {weir::duration::min(), "-forever"},
    };
    for (auto const& [length, text] : table)
        BOOST_TEST(weir::readable(length) == text);
}

BOOST_AUTO_TEST_CASE(a_permit_shows_its_count_or_the_retry_time) {
    permits p;
    reads(p.bucket.try_enter(2), "2 permits");
    reads(p.bucket.try_enter(0), "0 permits");
    reads(p.bucket.try_enter(1), "no permit; retry in 500ms");
    reads(p.wait(1), "1 permit after 500ms");
    reads(p.bucket.try_enter(3), "no permit");
    reads(weir::permit(), "no permit");
}

BOOST_AUTO_TEST_CASE(a_chain_permit_shows_its_counts_or_the_limiter_that_rejected) {
    permits p;
    weir::testing::limiter<weir::seats> kitchen{p.ctx, {.seats = 3}};
    weir::chain door{kitchen.with(2), p.bucket};
    auto turn = door.try_enter();
    reads(turn, "2 + 1 permits");
    reads(door.try_enter(), "no permits, rejected by limiter 0");
    turn[0].leave();
    reads(turn, "0 + 1 permits");
    reads(weir::chain{kitchen, p.bucket.with(2)}.try_enter(),
          "no permits, rejected by limiter 1; retry in 500ms");
    reads(weir::chain{p.bucket}.try_enter(), "1 permit");

    weir::chain{kitchen, p.bucket.with(2)}.async_enter([&](weir::error_code, auto granted) {
        turn = std::move(granted);
    });
    weir::testing::run(p.ctx);
    reads(turn, "1 + 2 permits after 1s");
    turn.leave();
    reads(turn, "no permits");
}

BOOST_AUTO_TEST_CASE(a_chain_rejection_shows_the_reason_and_the_limiter) {
    using weir::errc;
    reads(weir::chain_rejection(errc::no_permit, 500ms, 1),
          fmt::format("{}, rejected by limiter 1; retry in 500ms", errc::no_permit));
    reads(weir::chain_rejection(boost::asio::error::operation_aborted, {}, {}),
          fmt::format("{}", weir::rejection(boost::asio::error::operation_aborted, {})));
}

BOOST_AUTO_TEST_CASE(a_pool_shows_the_state_of_its_objects) {
    reads(weir::checkout_rejection(
              weir::errc::timed_out, std::make_exception_ptr(std::runtime_error("no server"))),
          "weir: no permit became available within the patience [weir:2]; cannot create an object: "
          "no server");
    reads(weir::checkout_rejection(weir::errc::closed, nullptr),
          "weir: the limiter is closed [weir:7]");
    weir::pool_stats stats;
    stats.idle = 2;
    stats.in_use = 1;
    stats.created = 4;
    stats.discarded = 1;
    reads(stats,
          "4 created, 0 failed; 1 discarded, 0 unhealthy, 0 retired; 2 idle, 1 in use, "
          "0 being checked, 0 being created; 0 granted, 0 immediately; 0 rejected; 0 waiting; "
          "0 permits in use, 0 remaining");
}

BOOST_AUTO_TEST_CASE(a_rejection_shows_the_reason_and_the_retry_time) {
    using weir::errc;
    reads(errc::no_permit, "no permit is available");
    reads(errc::closed, "the limiter is closed");
    reads(weir::rejection(errc::deadline_unreachable, 41s),
          "the wait would exceed the patience; retry in 41s");
    reads(weir::rejection(errc::queue_full, {}), "the queue is full");
    reads(weir::rejection(boost::asio::error::operation_aborted, {}),
          weir::error_code(boost::asio::error::operation_aborted).message());
}

BOOST_AUTO_TEST_CASE(requests_rates_and_patience) {
    reads(weir::request(), "1 permit");
    reads(weir::request(0), "0 permits");
    reads(weir::request(12), "12 permits");
    reads(weir::rate(100, 1s), "100/1s");
    reads(weir::rate(5, 1500ms), "5/1500ms");
    reads(weir::patience(), "the queue's patience");
    reads(weir::patience(0.0015s), "1.5ms");
    reads(weir::patience(weir::forever), "forever");
    reads(weir::overdue{.id = 7, .count = 2, .since = {}, .held = 31500ms},
          "permit 7 holds 2 for 31.5s");
    reads(weir::request_event{.granted = 2, .waited = 1500ms, .limiter = "calls"},
          "calls: 2 permits after 1.5s");
    auto const too_few = make_error_code(weir::errc::no_permit);
    reads(weir::request_event{.asked = 3, .error = too_few, .retry_after = 20ms},
          "3 permits rejected: " + too_few.message() + "; retry in 20ms");
    auto const late = make_error_code(weir::errc::timed_out);
    reads(weir::request_event{.error = late, .waited = 1s, .limiter = "calls"},
          "calls: 1 permit rejected after 1s: " + late.message());
}

BOOST_AUTO_TEST_CASE(options_are_written_as_they_are_parsed) {
    reads(weir::seats_options{.seats = 3, .max_hold = 30s}, "3 seats max_hold 30s");
    reads(weir::sliding_log_options{.limit = 10, .window = 1500ms}, "10/1500ms");
    reads(weir::sliding_window_options{.limit = 10, .window = 60s, .slices = 6},
          "10/1min sliding slices 6");
    reads(weir::fixed_window_options{.limit = 10, .window = 1s}, "10/1s fixed");
    reads(weir::token_bucket_options{.rate = weir::rate{100, 1s}, .burst = 20}, "100/1s burst 20");
    reads(weir::leaky_bucket_options{.rate = weir::rate{100, 1s}}, "100/1s leaky");
    reads(weir::smooth_bursty_options{.rate = weir::rate{2, 1s}}, "2/1s bursty");
    reads(weir::smooth_warming_up_options{.rate = weir::rate{2, 1s}, .warm_up = 4s},
          "2/1s warming warm_up 4s");
    reads(weir::limiter_config::parse("3 seats max_hold 30s"), "3 seats max_hold 30s");

    reads(weir::queue_options{.max_waiting = 100, .full = weir::when_full::evict_oldest},
          "max_waiting 100 full evict_oldest");
    reads(weir::queue_options{.tolerance = 0s, .patience = 2s}, "tolerance 0s patience 2s");
    reads(weir::queue_options{}, "max_waiting 1024");
}

BOOST_AUTO_TEST_CASE(shares_show_seats_in_use_and_waiting_requests) {
    reads(weir::share_stats{.partition = {"live", 70}, .share = 7, .in_use = 9},
          "live: 9 in use of a share of 7, 0 waiting");
    reads(
        weir::share_stats{
            .partition = {"batch", 30}, .share = 3, .in_use = 1, .waiting = 2, .waiting_for = 5},
        "batch: 1 in use of a share of 3, 2 waiting for 5 permits");
}

BOOST_AUTO_TEST_CASE(enumerators_are_written_as_in_options) {
    using weir::carry_over;
    using weir::limiter_config;
    for (auto const f : {weir::when_full::reject_newest, weir::when_full::evict_oldest})
        BOOST_TEST((weir::queue_options::parse(fmt::format("full {}", f)).full == f));

    using weir::queue_order;
    for (auto const o :
         {queue_order::fifo, queue_order::lifo, queue_order::adaptive_lifo, queue_order::codel,
          queue_order::priority, queue_order::fair, queue_order::shares})
        BOOST_TEST((weir::queue_options::parse(fmt::format("order {}", o)).order == o));

    auto const bucket = [](std::string const& text) {
        return std::get<weir::token_bucket_options>(
            limiter_config::parse("1/1s bucket " + text).options);
    };
    for (auto const r : {weir::refill::continuous, weir::refill::interval})
        BOOST_TEST((bucket(fmt::format("refill {}", r)).refill == r));
    for (auto const c : {carry_over::as_is, carry_over::proportional, carry_over::reset})
        BOOST_TEST((bucket(fmt::format("carry_over {}", c)).carry_over == c));

    for (auto const a : {weir::window_alignment::first_use, weir::window_alignment::epoch}) {
        auto const config = limiter_config::parse(fmt::format("1/1s fixed alignment {}", a));
        BOOST_TEST((std::get<weir::fixed_window_options>(config.options).alignment == a));
    }
}

BOOST_AUTO_TEST_CASE(statistics_omit_zero_counts) {
    reads(weir::limiter_stats{},
          "0 granted, 0 immediately; 0 rejected; 0 waiting; 0 permits in use, 0 remaining");
    reads(
        weir::limiter_stats{
            .granted = 12,
            .granted_immediately = 10,
            .no_permit = 2,
            .timed_out = 1,
            .cancelled = 4,
            .waited_max = 1500ms,
            .waiting = 3,
            .waiting_for = 6,
            .oldest_wait = 300ms,
            .in_use = 1,
            .remaining = 5},
        "12 granted, 10 immediately, the rest within 1.5s; "
        "7 rejected: 2 no permit, 1 timed out, 4 cancelled; "
        "3 waiting for 6 permits, oldest for 300ms; 1 permit in use, 5 remaining");
    reads(weir::limiter_stats{.deadline_unreachable = 1,
                              .queue_full = 2,
                              .shed = 3,
                              .exceeds_capacity = 4,
                              .closed = 5,
                              .too_many_keys = 9,
                              .unavailable = 8,
                              .overdue = 6,
                              .debt = 7},
          "0 granted, 0 immediately; 32 rejected: 1 deadline unreachable, 2 queue full, 3 shed, "
          "4 over capacity, 5 closed, 9 too many keys, 8 unavailable; 0 waiting; 0 permits "
          "in use, 0 remaining, "
          "debt 7; "
          "6 overdue");
}

BOOST_AUTO_TEST_CASE(statistics_of_a_key_show_only_its_state) {
    reads(weir::key_stats{.capacity = 5, .remaining = 5}, "0 waiting; 5 of 5 permits remaining");
    reads(weir::key_stats{.waiting = 2,
                          .waiting_for = 3,
                          .oldest_wait = 1500ms,
                          .capacity = 1,
                          .remaining = 0,
                          .debt = 4,
                          .paused_for = 20s},
          "2 waiting for 3 permits, oldest for 1.5s; 0 of 1 permit remaining, debt 4, paused for "
          "20s");
    boost::asio::io_context ctx;
    weir::keyed<int, weir::policy::seats> tables{ctx, {.seats = 2}};
    auto const one = tables.try_enter(7);
    reads(tables.stats(7), "0 waiting; 1 of 2 permits remaining");
}

BOOST_AUTO_TEST_CASE(statistics_of_all_keys_omit_fields_of_a_single_key) {
    reads(weir::keyed_stats{.total = {.granted = 12,
                                      .granted_immediately = 10,
                                      .no_permit = 2,
                                      .waiting = 3,
                                      .waiting_for = 6,
                                      .in_use = 1},
                            .keys = 5,
                            .bytes = 4096},
          "12 granted, 10 immediately; 2 rejected: 2 no permit; 3 waiting for 6 permits; 1 permit "
          "in use; "
          "5 keys in 4096 bytes");

    boost::asio::io_context ctx;
    weir::keyed<int, weir::policy::seats> tables{ctx, {.seats = 1}, {.shards = 1}};
    auto const seat = tables.try_enter(7);
    auto const stats = tables.stats();
    reads(stats, fmt::format("1 granted, 1 immediately; 0 rejected; 0 waiting; 1 permit in use; "
                             "1 key in {} bytes",
                             stats.bytes));
}

BOOST_AUTO_TEST_CASE(a_heavy_key_shows_the_bounds_of_its_counts) {
    reads(weir::heavy_key<std::string>{.key = "alice", .requests = 10, .rejected = 3},
          "alice: 10 requests, 3 rejected");
    reads(weir::heavy_key<int>{.key = 7, .requests = 10, .error = 2, .rejected = 3},
          "7: 8 to 10 requests, 3 to 5 rejected");

    struct nameless {};
    static_assert(!fmt::is_formattable<weir::heavy_key<nameless>>::value);
}

BOOST_AUTO_TEST_CASE(a_width_applies_as_for_a_string) {
    BOOST_TEST(fmt::format("{:>10}|{:<8}|{:*^8}", weir::rate(1, 3s), weir::request(1),
                           weir::refill::interval) == "      1/3s|1 permit|interval");
    std::vector<weir::rate> const both{weir::rate(1, 3s), weir::rate(2, 1s)};
    BOOST_TEST(fmt::format("{}", fmt::join(both, " and ")) == "1/3s and 2/1s");
}

BOOST_AUTO_TEST_SUITE_END()
