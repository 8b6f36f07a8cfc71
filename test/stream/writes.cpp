// Writes of a throttled stream, on virtual time.

#include <weir/any_limiter.hpp>
#include <weir/keyed.hpp>
#include <weir/throttled_stream.hpp>

#include "support/memory_stream.hpp"
#include "support/printing.hpp"
#include "support/transfer_result.hpp"
#include "support/virtual_limiters.hpp"

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/write.hpp>
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <deque>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

using namespace support;
using asio::cancellation_type;
using asio::error::operation_aborted;
using weir::errc;
using weir::error_code;

namespace {

using stream = weir::throttled_stream<memory_stream>;
using wire = memory_stream::wire;
using keyed_bytes =
    weir::basic_keyed<int, weir::policy::token_bucket, asio::any_io_executor, weir::testing::timer>;

// A stream and what it has written.
struct line {
    explicit line(asio::io_context& ctx) : w(std::make_shared<wire>()), to(ctx.get_executor(), w) {}

    void write(std::size_t n) {
        data.resize(n, 'x');
        asio::async_write(to, asio::buffer(data), done.handler());
    }

    std::shared_ptr<wire> w;
    stream to;
    std::string data;
    transfer_result done;
};

// Writes for ever, `piece` bytes at a time.
void write_on(line& l, std::size_t piece) {
    l.data.resize(piece, 'x');
    asio::async_write(l.to, asio::buffer(l.data), [&l, piece](error_code ec, std::size_t) {
        if (!ec)
            write_on(l, piece);
    });
}

// The clock moves in steps: a process that is late by up to one step.
void run_late(asio::io_context& ctx, clock::duration length, clock::duration step) {
    auto const end = clock::now() + length;
    while (clock::now() < end) {
        clock::advance_to(clock::now() + step);
        weir::testing::fire_due(ctx);
        ctx.restart();
        ctx.poll();
    }
}

double jain(std::vector<double> const& shares) {
    double sum = 0;
    double squares = 0;
    for (double const share : shares) {
        sum += share;
        squares += share * share;
    }
    return sum * sum / (static_cast<double>(shares.size()) * squares);
}

// The bytes that may be granted without time: those in the bucket.
weir::amount left(token_bucket const& bytes) {
    return bytes.stats().remaining;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(writes_of_a_throttled_stream)

BOOST_AUTO_TEST_CASE(have_the_rate_after_the_burst) {
    asio::io_context ctx;
    token_bucket bytes(ctx, {.rate = {1'000'000, 1s}, .burst = 50'000});
    line a(ctx);
    a.to.throttle_writes(weir::throttle(bytes));
    auto const begin = clock::now();
    a.write(300'000);
    run_for(ctx, 1s);
    BOOST_TEST(a.done.calls == 1);
    BOOST_TEST(!a.done.ec);
    BOOST_TEST(a.done.n == 300'000U);
    BOOST_TEST(a.w->sent == a.data);
    BOOST_TEST((a.done.at - begin == 250ms));
    BOOST_TEST(a.to.write_stats().bytes == 300'000U);
    BOOST_TEST((a.to.write_stats().waited == 250ms));
    BOOST_TEST(a.to.read_stats().bytes == 0U);
}

BOOST_AUTO_TEST_CASE(without_a_limiter_are_those_of_the_next_layer) {
    asio::io_context ctx;
    line a(ctx);
    a.write(1'000'000);
    settle(ctx);
    BOOST_TEST(a.done.n == 1'000'000U);
    BOOST_TEST(a.w->writes == 16);  // asio::async_write passes 64 KiB at a time
    BOOST_TEST(a.to.write_stats().bytes == 1'000'000U);
    a.to.throttle_writes({}, {});
    BOOST_TEST(!weir::throttle());
}

BOOST_AUTO_TEST_CASE(never_exceed_the_burst_and_one_quantum_in_any_time,
                     *boost::unit_test::label("whole")) {
    constexpr double rate = 10e6;
    for (clock::duration const step : {1ms, 10ms, 100ms}) {
        asio::io_context ctx;
        token_bucket bytes(ctx, {.rate = {10'000'000, 1s}, .burst = 500'000});
        weir::throttle const all(bytes);
        std::deque<line> lines;
        for (int i = 0; i != 20; ++i) {
            lines.emplace_back(ctx).to.throttle_writes(all);
            write_on(lines.back(), 100'000);
        }
        run_late(ctx, 2s, step);
        std::vector<std::pair<clock::time_point, std::size_t>> log;
        for (auto const& l : lines)
            log.insert(log.end(), l.w->log.begin(), l.w->log.end());
        std::ranges::sort(log, {}, &decltype(log)::value_type::first);
        // The greatest excess over the rate in a window is the excess of the best window that ends here.
        double excess = 0;
        double worst = 0;
        auto before = log.front().first;
        for (auto const& [at, n] : log) {
            std::chrono::duration<double> const d = at - before;
            excess = std::max(excess - rate * d.count(), 0.0) + static_cast<double>(n);
            worst = std::max(worst, excess);
            before = at;
        }
        BOOST_TEST(worst <= 500'000 + 1);
        for (auto& l : lines)
            l.to.throttle_writes({});
    }
}

BOOST_AUTO_TEST_CASE(of_100_streams_are_fair_in_each_second, *boost::unit_test::label("whole")) {
    struct setting {
        weir::amount rate;
        bool equal;
    };
    for (auto const& [rate, equal] :
         {setting{10'000'000, true},
          {10'000'000, false},
          {100'000'000, true},
          {100'000'000, false}}) {
        for (clock::duration const step : {1ms, 10ms, 100ms}) {
            if (!equal && step > 50ms)
                continue;  // later than the burst: then the limit does not bind, and who writes more gets more
            asio::io_context ctx;
            token_bucket bytes(ctx, {.rate = {rate, 1s}, .burst = rate / 20});
            weir::throttle const all(bytes);
            std::deque<line> lines;
            for (std::size_t i = 0; i != 100; ++i) {
                lines.emplace_back(ctx).to.throttle_writes(all);
                write_on(lines.back(), equal || i % 2 == 0 ? 65'536 : 4'096);
            }
            for (int second = 0; second != 3; ++second) {
                std::vector<std::size_t> before;
                for (auto const& l : lines)
                    before.push_back(l.w->sent.size());
                run_late(ctx, 1s, step);
                std::vector<double> shares;
                for (std::size_t i = 0; i != lines.size(); ++i)
                    shares.push_back(static_cast<double>(lines[i].w->sent.size() - before[i]));
                BOOST_TEST(jain(shares) > 0.995,
                           "rate " << rate << ", equal " << equal << ", step " << step.count()
                                   << ", second " << second << ": " << jain(shares));
                for (auto& l : lines)
                    l.w->sent.clear();
            }
        }
    }
}

BOOST_AUTO_TEST_CASE(ask_for_less_the_more_streams_want_bytes) {
    asio::io_context ctx;
    token_bucket bytes(ctx, {.rate = {10'000'000, 1s}, .burst = 500'000, .initial = 0});
    weir::throttle const all(bytes);
    line alone(ctx);
    alone.to.throttle_writes(all);
    alone.write(1'000'000);
    run_for(ctx, 200ms);
    BOOST_TEST(alone.w->largest_write == 65'536U);  // not 200,000
    BOOST_TEST(alone.done.ec == error_code());
    std::deque<line> lines;
    for (int i = 0; i != 50; ++i) {
        lines.emplace_back(ctx).to.throttle_writes(all);
        write_on(lines.back(), 65'536);
    }
    run_for(ctx, 1s);
    for (auto& l : lines) {
        auto const last = l.w->log.back().second;
        BOOST_TEST(last >= 4'000U);  // 200,000 / 50
        BOOST_TEST(last <= 4'100U);
    }
}

BOOST_AUTO_TEST_CASE(pass_the_private_limiter_and_then_the_shared_one) {
    asio::io_context ctx;
    token_bucket all(ctx, {.rate = {1'000'000, 1s}, .burst = 50'000, .initial = 0});
    token_bucket own(ctx, {.rate = {100'000, 1s}, .burst = 16'384, .initial = 0});
    weir::throttle const shared(all);
    line slow(ctx);
    line fast(ctx);
    slow.to.throttle_writes(weir::throttle(own), shared);
    fast.to.throttle_writes(shared);
    write_on(slow, 50'000);
    write_on(fast, 50'000);
    run_for(ctx, 10s);
    BOOST_TEST(slow.w->sent.size() >= 995'000U);
    BOOST_TEST(slow.w->sent.size() <= 1'000'000U);
    BOOST_TEST(slow.w->sent.size() + fast.w->sent.size() >= 9'960'000U);
    BOOST_TEST(slow.w->sent.size() + fast.w->sent.size() <= 10'000'000U);
}

BOOST_AUTO_TEST_CASE(of_one_client_share_the_limit_of_that_client) {
    asio::io_context ctx;
    keyed_bytes per_client(ctx, {.rate = {1'000'000, 1s}, .burst = 50'000, .initial = 0});
    weir::keyed_throttle const clients(per_client);
    std::deque<line> lines;
    for (int const client : {1, 1, 1, 2}) {
        lines.emplace_back(ctx).to.throttle_writes(clients.of(client));
        write_on(lines.back(), lines.size() == 1 ? 1'500 : 60'000);
    }
    run_for(ctx, 10s);
    for (std::size_t i = 0; i != 3; ++i)
        BOOST_TEST(static_cast<double>(lines[i].w->sent.size()) == 3.333e6,
                   boost::test_tools::tolerance(0.01));
    BOOST_TEST(static_cast<double>(lines[3].w->sent.size()) == 10e6,
               boost::test_tools::tolerance(0.01));
}

BOOST_AUTO_TEST_CASE(take_any_rule) {
    asio::io_context ctx;
    weir::basic_any_limiter<asio::any_io_executor, weir::testing::timer> any(
        ctx, weir::limiter_config::parse("1000/1s burst 100 & 100000/1s burst 50000"));
    weir::testing::limiter<weir::sliding_log> log(ctx, {.limit = 500, .window = 1s});
    line a(ctx);
    line b(ctx);
    a.to.throttle_writes(weir::throttle(any));
    b.to.throttle_writes(weir::throttle(log));
    auto const begin = clock::now();
    a.write(1'100);
    b.write(1'100);
    run_for(ctx, 5s);
    BOOST_TEST((a.done.at - begin == 1s));
    BOOST_TEST((b.done.at - begin == 2s));
}

// ---- Bad input

BOOST_AUTO_TEST_CASE(of_no_bytes_take_no_permits) {
    asio::io_context ctx;
    token_bucket bytes(ctx, {.rate = {0, 1s}, .burst = 1, .initial = 0});
    line a(ctx);
    a.to.throttle_writes(weir::throttle(bytes));
    a.to.async_write_some(asio::const_buffer(), a.done.handler());
    settle(ctx);
    BOOST_TEST(a.done.calls == 1);
    BOOST_TEST(!a.done.ec);
    std::array<asio::const_buffer, 3> const empty{};
    a.to.async_write_some(empty, a.done.handler());
    settle(ctx);
    BOOST_TEST(a.done.calls == 2);
    BOOST_TEST(a.w->writes == 2);
    BOOST_TEST(bytes.stats().granted == 0U);
}

BOOST_AUTO_TEST_CASE(take_sequences_of_any_length) {
    asio::io_context ctx;
    token_bucket bytes(ctx, {.rate = {100'000, 1s}, .burst = 20'000});
    line a(ctx);
    a.to.throttle_writes(weir::throttle(bytes));
    std::string text;
    for (int i = 0; i != 5'000; ++i)
        text += std::to_string(i);
    std::vector<asio::const_buffer> pieces;
    for (std::size_t at = 0; at != text.size();) {
        auto const n = std::min<std::size_t>(text.size() - at, 1 + at % 37);
        pieces.emplace_back(text.data() + at, n);
        pieces.emplace_back();
        at += n;
    }
    asio::async_write(a.to, pieces, a.done.handler());
    run_for(ctx, 10s);
    BOOST_TEST(a.done.n == text.size());
    BOOST_TEST(a.w->sent == text);
    BOOST_TEST(left(bytes) == 20'000);  // refilled
}

BOOST_AUTO_TEST_CASE(of_two_gigabytes_are_divided) {
    asio::io_context ctx;
    token_bucket bytes(ctx, {.rate = {weir::max_amount, 1s}, .burst = weir::max_amount});
    line a(ctx);
    a.to.throttle_writes(weir::throttle(bytes));
    static char byte = 0;
    // The bytes after the first are never read: the limit ends each write long before.
    a.w->most = 1;
    a.to.async_write_some(asio::const_buffer(&byte, std::size_t(1) << 31), a.done.handler());
    settle(ctx);
    BOOST_TEST(a.done.n == 1U);
    BOOST_TEST(left(bytes) == weir::max_amount - 1);
}

BOOST_AUTO_TEST_CASE(of_one_byte_per_second_and_of_a_burst_of_one) {
    asio::io_context ctx;
    token_bucket bytes(ctx, {.rate = {1, 1s}, .burst = 1});
    line a(ctx);
    a.to.throttle_writes(weir::throttle(bytes));
    auto const begin = clock::now();
    a.write(5);
    run_for(ctx, 10s);
    BOOST_TEST(a.done.n == 5U);
    BOOST_TEST((a.done.at - begin == 4s));
}

// ---- Changes of the limiter

BOOST_AUTO_TEST_CASE(feel_another_rate_at_once) {
    asio::io_context ctx;
    token_bucket bytes(ctx, {.rate = {1'000, 1s}, .burst = 10'000, .initial = 0});
    line a(ctx);
    a.to.throttle_writes(weir::throttle(bytes));
    a.write(1'460);
    run_for(ctx, 1s);
    BOOST_TEST(a.done.calls == 0);
    bytes.configure([](auto& o) { o.rate = {460'000, 1s}; });
    run_for(ctx, 1ms);
    BOOST_TEST(a.done.calls == 1);

    bytes.configure([](auto& o) { o.rate = {0, 1s}; });
    a.write(30'000);
    run_for(ctx, 1h);
    BOOST_TEST(a.done.calls == 1);
    bytes.configure([](auto& o) { o.rate = {1'000'000, 1s}; });
    run_for(ctx, 30ms);
    BOOST_TEST(a.done.calls == 2);
    BOOST_TEST(!a.done.ec);
}

BOOST_AUTO_TEST_CASE(ask_for_less_if_the_burst_is_lowered) {
    asio::io_context ctx;
    token_bucket bytes(ctx, {.rate = {1'000'000, 1s}, .burst = 50'000, .initial = 0});
    line waits(ctx);
    line later(ctx);
    weir::throttle const all(bytes);
    waits.to.throttle_writes(all);
    later.to.throttle_writes(all);
    waits.write(20'000);
    settle(ctx);
    bytes.configure([](auto& o) { o.burst = 1'000; });
    later.write(20'000);
    run_for(ctx, 1s);
    BOOST_TEST(waits.done.n == 20'000U);
    BOOST_TEST(!waits.done.ec);
    BOOST_TEST(later.done.n == 20'000U);
    BOOST_TEST(!later.done.ec);
    BOOST_TEST(later.w->largest_write <= 1'000U);
}

BOOST_AUTO_TEST_CASE(end_with_the_error_of_the_limiter) {
    asio::io_context ctx;
    std::optional<token_bucket> bytes(
        std::in_place, ctx, weir::token_bucket_options{.rate = {1, 1s}, .initial = 0},
        weir::queue_options{.max_waiting = 1});
    weir::throttle const all(*bytes);
    line first(ctx);
    line second(ctx);
    first.to.throttle_writes(all);
    second.to.throttle_writes(all);
    first.write(10);
    second.write(10);
    BOOST_TEST(second.done.calls == 0);  // never inside the initiating function
    settle(ctx);
    BOOST_TEST(second.done.ec == errc::queue_full);
    BOOST_TEST(second.done.n == 0U);
    BOOST_TEST(first.done.calls == 0);
    bytes->close();
    settle(ctx);
    BOOST_TEST(first.done.ec == errc::closed);
    first.write(10);
    settle(ctx);
    BOOST_TEST(first.done.calls == 2);
    BOOST_TEST(first.done.ec == errc::closed);

    bytes.emplace(ctx, weir::token_bucket_options{.rate = {0, 1s}, .burst = 100, .initial = 0},
                  weir::queue_options{.patience = 100ms});
    first.to.throttle_writes(weir::throttle(*bytes));
    first.write(10);
    run_for(ctx, 1s);
    BOOST_TEST(first.done.ec == errc::timed_out);
    bytes->configure_queue([](auto& o) { o.patience = weir::forever; });
    first.write(10);
    run_for(ctx, 0s);
    bytes.reset();  // the limiter is destroyed before the stream
    settle(ctx);
    BOOST_TEST(first.done.ec == errc::closed);
    first.write(10);
    settle(ctx);
    BOOST_TEST(first.done.calls == 5);
    BOOST_TEST(first.w->sent.empty());
}

// ---- Exact settlement

BOOST_AUTO_TEST_CASE(that_are_partial_refund_the_rest_at_once) {
    asio::io_context ctx;
    token_bucket all(ctx, {.rate = {0, 1s}, .burst = 100'000});
    token_bucket own(ctx, {.rate = {0, 1s}, .burst = 50'000});
    line a(ctx);
    a.to.throttle_writes(weir::throttle(own), weir::throttle(all));
    a.w->most = 1'000;
    std::string const data(30'000, 'x');
    a.to.async_write_some(asio::buffer(data), a.done.handler());
    settle(ctx);
    BOOST_TEST(a.done.n == 1'000U);
    BOOST_TEST(left(own) == 49'000);
    BOOST_TEST(left(all) == 99'000);
}

BOOST_AUTO_TEST_CASE(that_fail_refund_all) {
    asio::io_context ctx;
    token_bucket bytes(ctx, {.rate = {0, 1s}, .burst = 50'000});
    line a(ctx);
    a.to.throttle_writes(weir::throttle(bytes));
    a.w->fails = asio::error::connection_reset;
    a.write(30'000);
    settle(ctx);
    BOOST_TEST(a.done.ec == asio::error::connection_reset);
    BOOST_TEST(left(bytes) == 50'000);
    BOOST_TEST(bytes.stats().live == 0U);
}

BOOST_AUTO_TEST_CASE(that_wait_can_be_cancelled_by_any_type) {
    for (auto const type :
         {cancellation_type::terminal, cancellation_type::partial, cancellation_type::total}) {
        for (bool const second : {false, true}) {
            asio::io_context ctx;
            asio::cancellation_signal signal;
            token_bucket own(ctx, {.rate = {0, 1s}, .burst = 50'000});
            token_bucket all(ctx, {.rate = {0, 1s}, .burst = 50'000});
            auto& empty = second ? all : own;
            auto& full = second ? own : all;
            auto const taken = empty.try_enter(50'000);
            line a(ctx);
            a.to.throttle_writes(weir::throttle(own), weir::throttle(all));
            std::string const data(30'000, 'x');
            a.to.async_write_some(asio::buffer(data),
                                  asio::bind_cancellation_slot(signal.slot(), a.done.handler()));
            settle(ctx);
            BOOST_TEST(a.done.calls == 0);
            signal.emit(type);
            settle(ctx);
            BOOST_TEST(a.done.calls == 1);
            BOOST_TEST(a.done.ec == operation_aborted);
            BOOST_TEST(a.done.n == 0U);
            BOOST_TEST(a.w->writes == 0);
            BOOST_TEST(left(full) == 50'000);
            BOOST_TEST(full.stats().live == 0U);
        }
    }
}

BOOST_AUTO_TEST_CASE(that_are_cancelled_after_the_grant_send_nothing) {
    asio::io_context ctx;
    asio::cancellation_signal signal;
    token_bucket bytes(ctx, {.rate = {0, 1s}, .burst = 50'000});
    auto held = bytes.try_enter(50'000);
    line a(ctx);
    a.to.throttle_writes(weir::throttle(bytes));
    std::string const data(3'000, 'x');
    a.to.async_write_some(asio::buffer(data),
                          asio::bind_cancellation_slot(signal.slot(), a.done.handler()));
    settle(ctx);
    held.refund();  // grants the request, whose handler is posted
    signal.emit(cancellation_type::total);
    settle(ctx);
    BOOST_TEST(a.done.ec == operation_aborted);
    BOOST_TEST(a.done.n == 0U);
    BOOST_TEST(a.w->writes == 0);
    BOOST_TEST(left(bytes) == 50'000);
}

BOOST_AUTO_TEST_CASE(of_async_write_that_are_cancelled_count_what_was_sent) {
    // At each instant of a write of half a second.
    for (auto at = 0ms; at < 500ms; at += 7ms) {
        asio::io_context ctx;
        asio::cancellation_signal signal;
        token_bucket bytes(ctx, {.rate = {100'000, 1s}, .burst = 50'000, .initial = 0});
        line a(ctx);
        a.to.throttle_writes(weir::throttle(bytes));
        a.data.assign(50'000, 'x');
        asio::async_write(a.to, asio::buffer(a.data),
                          asio::bind_cancellation_slot(signal.slot(), a.done.handler()));
        run_for(ctx, at);
        signal.emit(cancellation_type::partial);
        settle(ctx);
        BOOST_TEST(a.done.calls == 1);
        BOOST_TEST(a.done.ec == operation_aborted);
        BOOST_TEST(a.done.n == a.w->sent.size());
        // The bytes that were not sent are there for others.
        auto const since = at.count() * 100;
        BOOST_TEST(left(bytes) == since - static_cast<weir::amount>(a.done.n));
    }
}

BOOST_AUTO_TEST_CASE(that_wait_when_the_context_ends_give_all_back,
                     *boost::unit_test::label("whole")) {
    auto const mark = std::make_shared<int>();
    asio::io_context limits;
    token_bucket own(limits, {.rate = {0, 1s}, .burst = 50'000});
    token_bucket all(limits, {.rate = {0, 1s}, .burst = 50'000, .initial = 0});
    weir::throttle const first(own);
    {
        std::optional<line> a;
        asio::io_context ctx;
        a.emplace(ctx);
        a->to.throttle_writes(first, weir::throttle(all));
        std::string const data(30'000, 'x');
        a->to.async_write_some(
            asio::buffer(data), asio::bind_executor(ctx, [mark](error_code, std::size_t) {
                BOOST_ERROR("a handler was called");
            }));
        settle(ctx);
        BOOST_TEST(own.stats().live == 1U);
        a.reset();
        all.configure([](auto& o) { o.rate = {1'000'000, 1s}; });
        run_for(limits, 1s);  // granted, and posted to the context that ends
    }
    BOOST_TEST(mark.use_count() == 1);
    BOOST_TEST(left(own) == 50'000);
    BOOST_TEST(own.stats().live == 0U);
    BOOST_TEST(all.stats().live == 0U);
}

BOOST_AUTO_TEST_SUITE_END()
