// Reads of a throttled stream over a layer other than a socket, and the properties of its operations, on virtual time.

#include <weir/throttled_stream.hpp>

#include "support/counting_allocator.hpp"
#include "support/memory_stream.hpp"
#include "support/printing.hpp"
#include "support/transfer_result.hpp"
#include "support/virtual_limiters.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/bind_allocator.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/bind_immediate_executor.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/system_executor.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/use_future.hpp>
#include <boost/asio/write.hpp>
#include <boost/test/unit_test.hpp>

#include <array>
#include <cstddef>
#include <deque>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <utility>

using namespace support;
using asio::cancellation_type;
using asio::error::operation_aborted;
using weir::errc;
using weir::error_code;

namespace {

using stream = weir::throttled_stream<memory_stream>;
using wire = memory_stream::wire;

struct line : transfer_result {
    explicit line(asio::io_context& ctx)
        : w(std::make_shared<wire>()), from(ctx.get_executor(), w) {}

    void read(std::size_t most) {
        data.resize(most);
        from.async_read_some(asio::buffer(data), handler());
    }

    std::shared_ptr<wire> w;
    stream from;
    std::string data;
};

weir::amount left(token_bucket const& bytes) {
    return bytes.stats().remaining;
}

// Reads for ever.
void read_on(line& l) {
    l.data.resize(65'536);
    l.from.async_read_some(asio::buffer(l.data), [&l](error_code ec, std::size_t bytes) {
        l.n += bytes;
        if (!ec)
            read_on(l);
    });
}

}  // namespace

BOOST_AUTO_TEST_SUITE(reads_of_a_throttled_stream)

BOOST_AUTO_TEST_CASE(that_wait_for_bytes_take_nothing) {
    asio::io_context ctx;
    token_bucket bytes(ctx, {.rate = {1'000'000, 1s}, .burst = 50'000});
    weir::throttle const all(bytes);
    std::deque<line> idle;
    for (int i = 0; i != 20; ++i) {
        idle.emplace_back(ctx).from.throttle_reads(all);
        idle.back().read(16'384);
    }
    run_for(ctx, 1s);
    BOOST_TEST(left(bytes) == 50'000);
    BOOST_TEST(bytes.stats().live == 0U);
    // Nor do they make the turns of others smaller.
    line busy(ctx);
    busy.from.throttle_writes(all);
    std::string const data(20'000, 'x');
    asio::async_write(busy.from, asio::buffer(data), busy.handler());
    run_for(ctx, 1s);
    BOOST_TEST(busy.w->writes <= 4);  // 4,096, 8,192, 7,712
}

BOOST_AUTO_TEST_CASE(are_charged_for_what_came_and_the_next_read_pays) {
    asio::io_context ctx;
    token_bucket bytes(ctx, {.rate = {1'000, 1s}, .burst = 2'000, .initial = 1'000});
    line a(ctx);
    a.from.throttle_reads(weir::throttle(bytes));
    a.read(4'000);
    a.from.next_layer().receive(std::string(1'400, 'x'));
    settle(ctx);
    BOOST_TEST(a.calls == 1);  // at once: the bytes are here
    BOOST_TEST(a.n == 1'400U);
    a.read(4'000);
    auto const begin = clock::now();
    a.from.next_layer().receive("y");
    run_for(ctx, 1s);
    BOOST_TEST(a.calls == 2);
    BOOST_TEST((a.at - begin == 400ms));
    BOOST_TEST((a.from.read_stats().waited == 400ms));
    BOOST_TEST(a.from.read_stats().bytes == 1'401U);
}

BOOST_AUTO_TEST_CASE(have_the_rate_and_lose_nothing_before_the_end) {
    asio::io_context ctx;
    token_bucket bytes(ctx, {.rate = {1'000'000, 1s}, .burst = 50'000});
    line a(ctx);
    a.from.throttle_reads(weir::throttle(bytes));
    std::string text(300'000, 'x');
    for (std::size_t i = 0; i < text.size(); i += 7)
        text[i] = static_cast<char>('a' + i % 23);
    a.from.next_layer().receive(text, true);
    std::string got;
    auto const begin = clock::now();
    asio::async_read(a.from, asio::dynamic_buffer(got), a.handler());
    run_for(ctx, 1s);
    BOOST_TEST(a.ec == asio::error::eof);
    BOOST_TEST(a.n == text.size());
    BOOST_TEST((got == text));
    BOOST_TEST((a.at - begin == 250ms));
}

BOOST_AUTO_TEST_CASE(of_many_streams_are_fair, *boost::unit_test::label("whole")) {
    asio::io_context ctx;
    token_bucket bytes(ctx, {.rate = {1'000'000, 1s}, .burst = 50'000, .initial = 0});
    weir::throttle const all(bytes);
    std::deque<line> lines;
    for (int i = 0; i != 5; ++i) {
        auto& l = lines.emplace_back(ctx);
        l.from.throttle_reads(all);
        l.w->incoming.assign(3'000'000, 'x');
        l.w->most = i == 0 ? 1'000 : 60'000;
        read_on(l);
    }
    run_for(ctx, 10s);
    double sum = 0;
    for (auto const& l : lines) {
        sum += static_cast<double>(l.n);
        if (&l != &lines[0])
            BOOST_TEST(static_cast<double>(l.n) > 1.9e6);
    }
    BOOST_TEST(sum <= 10e6 + 5 * 65'536);
    BOOST_TEST(sum >= 10e6);
}

BOOST_AUTO_TEST_CASE(that_nobody_pays_are_charged) {
    asio::io_context ctx;
    token_bucket bytes(ctx, {.rate = {0, 1s}, .burst = 4'000, .initial = 1'000});
    {
        line a(ctx);
        a.from.throttle_reads(weir::throttle(bytes));
        a.from.next_layer().receive(std::string(1'400, 'x'));
        a.read(4'000);
        settle(ctx);
        BOOST_TEST(a.n == 1'400U);
        BOOST_TEST(bytes.stats().debt == 0);
        line moved(ctx);
        moved.from = std::move(a.from);
        BOOST_TEST(bytes.stats().debt == 0);
    }
    BOOST_TEST(bytes.stats().debt == 400);
}

BOOST_AUTO_TEST_CASE(that_pay_can_be_cancelled_and_pay_later) {
    asio::io_context ctx;
    asio::cancellation_signal signal;
    token_bucket bytes(ctx, {.rate = {0, 1s}, .burst = 4'000, .initial = 0});
    line a(ctx);
    a.from.throttle_reads(weir::throttle(bytes));
    a.from.next_layer().receive(std::string(3'000, 'x'));
    a.read(1'000);
    settle(ctx);
    BOOST_TEST(a.n == 1'000U);
    for (auto const type :
         {cancellation_type::terminal, cancellation_type::partial, cancellation_type::total}) {
        a.from.async_read_some(
            asio::buffer(a.data), asio::bind_cancellation_slot(signal.slot(), a.handler()));
        settle(ctx);
        signal.emit(type);
        settle(ctx);
        BOOST_TEST(a.ec == operation_aborted);
        BOOST_TEST(a.n == 0U);
        BOOST_TEST(a.w->incoming.size() == 2'000U);
    }
    bytes.configure([](auto& o) { o.rate = {1'000'000, 1s}; });
    a.read(4'000);
    run_for(ctx, 1s);
    BOOST_TEST(a.n == 2'000U);
    BOOST_TEST(a.calls == 5);
}

BOOST_AUTO_TEST_CASE(can_be_cancelled_while_they_wait_for_bytes) {
    asio::io_context ctx;
    asio::cancellation_signal signal;
    token_bucket bytes(ctx, {.rate = {1, 1s}, .burst = 4'000});
    line a(ctx);
    a.from.throttle_reads(weir::throttle(bytes));
    a.data.resize(100);
    a.from.async_read_some(
        asio::buffer(a.data), asio::bind_cancellation_slot(signal.slot(), a.handler()));
    settle(ctx);
    signal.emit(cancellation_type::total);
    settle(ctx);
    BOOST_TEST(a.ec == operation_aborted);
    BOOST_TEST(left(bytes) == 4'000);
}

BOOST_AUTO_TEST_CASE(and_writes_may_be_in_progress_at_once) {
    asio::io_context ctx;
    token_bucket bytes(ctx, {.rate = {100'000, 1s}, .burst = 10'000});
    weir::throttle const both(bytes);
    line a(ctx);
    a.from.throttle_reads(both);
    a.from.throttle_writes(both);
    a.read(1'000);
    std::string const data(50'000, 'x');
    std::size_t written = 0;
    asio::async_write(a.from, asio::buffer(data),
                      [&](error_code, std::size_t bytes_written) { written = bytes_written; });
    run_for(ctx, 100ms);
    a.from.next_layer().receive("hello");
    run_for(ctx, 1s);
    BOOST_TEST(a.n == 5U);
    BOOST_TEST(written == 50'000U);
}

BOOST_AUTO_TEST_CASE(find_lines) {
    asio::io_context ctx;
    token_bucket bytes(ctx, {.rate = {1'000, 1s}, .burst = 100});
    line a(ctx);
    a.from.throttle_reads(weir::throttle(bytes));
    a.from.next_layer().receive(std::string(500, 'x') + "\nrest");
    std::string got;
    asio::async_read_until(a.from, asio::dynamic_buffer(got), '\n', a.handler());
    run_for(ctx, 10s);
    BOOST_TEST(a.n == 501U);
    BOOST_TEST(!a.ec);

    a.from.next_layer().receive(std::string(200, 'y') + "\nrest");
    got.erase(0, a.n);
    std::size_t found = 0;
    auto const coroutine = [&]() -> asio::awaitable<void> {
        found = co_await asio::async_read_until(
            a.from, asio::dynamic_buffer(got), '\n', asio::use_awaitable);
    };
    asio::co_spawn(ctx, coroutine, asio::detached);
    run_for(ctx, 10s);
    BOOST_TEST(found == 4 + 201U);
}

BOOST_AUTO_TEST_CASE(of_ten_thousand_idle_streams_hold_nothing) {
    asio::io_context ctx;
    token_bucket bytes(ctx, {.rate = {0, 1s}, .burst = 1'000});
    weir::throttle const all(bytes);
    std::deque<line> idle;
    std::array<char, 100> room{};
    for (int i = 0; i != 10'000; ++i) {
        auto& one = idle.emplace_back(ctx);
        one.from.throttle_reads(all);
        one.from.async_read_some(asio::buffer(room), one.handler());
    }
    run_for(ctx, 1s);
    BOOST_TEST(left(bytes) == 1'000);
    BOOST_TEST(bytes.stats().waiting == 0U);
    idle.back().from.next_layer().receive("hello");
    run_for(ctx, 1s);
    BOOST_TEST(idle.back().n == 5U);
    BOOST_TEST(left(bytes) == 995);
}

BOOST_AUTO_TEST_CASE(have_any_rate) {
    for (weir::amount const rate : {weir::amount(1), weir::amount(1'000'000'000'000'000)}) {
        asio::io_context ctx;
        token_bucket bytes(ctx, {.rate = {rate, 1s}, .burst = 1});
        line a(ctx);
        a.from.throttle_writes(weir::throttle(bytes));
        std::string const text(10, 'x');
        auto const began = clock::now();
        asio::async_write(a.from, asio::buffer(text), a.handler());
        while (a.calls == 0)
            run_for(ctx, 1s);
        BOOST_TEST(a.n == text.size());
        BOOST_TEST((clock::now() - began >= (rate == 1 ? 9s : 0s)));
        BOOST_TEST((clock::now() - began <= (rate == 1 ? 10s : 1s)));
    }
}

// ---- Executors, allocators and tokens

BOOST_AUTO_TEST_CASE(complete_on_the_executor_of_the_handler, *boost::unit_test::label("whole")) {
    asio::io_context ctx;
    asio::io_context other;
    auto const strand = asio::make_strand(other);
    token_bucket bytes(ctx, {.rate = {1'000, 1s}, .burst = 1'000});
    line a(ctx);
    a.from.throttle_writes(weir::throttle(bytes));
    int calls = 0;
    auto const on_strand = [&](error_code, std::size_t) {
        BOOST_TEST(strand.running_in_this_thread());
        ++calls;
    };
    auto const on_context = [&](error_code, std::size_t) {
        BOOST_TEST(ctx.get_executor().running_in_this_thread());
        ++calls;
    };
    std::string const data(1'500, 'x');
    asio::async_write(a.from, asio::buffer(data), asio::bind_executor(strand, on_strand));
    for (int i = 0; i != 20; ++i) {
        run_for(ctx, 100ms);
        run_for(other, 0s);
    }
    BOOST_TEST(calls == 1);
    asio::async_write(a.from, asio::buffer(data), on_context);
    run_for(ctx, 10s);
    BOOST_TEST(calls == 2);
    bytes.close();
    a.from.async_write_some(asio::buffer(data), asio::bind_executor(strand, on_strand));
    BOOST_TEST(calls == 2);
    settle(ctx, other);
    BOOST_TEST(calls == 3);
}

BOOST_AUTO_TEST_CASE(that_fail_at_once_use_the_immediate_executor) {
    asio::io_context ctx;
    token_bucket bytes(ctx, {.rate = {1'000, 1s}});
    bytes.close();
    line a(ctx);
    a.from.throttle_writes(weir::throttle(bytes));
    a.from.async_write_some(asio::buffer("x", 1), a.handler());
    BOOST_TEST(a.calls == 0);
    settle(ctx);
    BOOST_TEST(a.calls == 1);
    a.from.async_write_some(
        asio::buffer("x", 1), asio::bind_immediate_executor(asio::system_executor(), a.handler()));
    BOOST_TEST(a.calls == 2);
    BOOST_TEST(a.ec == errc::closed);
}

BOOST_AUTO_TEST_CASE(keep_the_context_of_the_stream_running, *boost::unit_test::label("whole")) {
    asio::io_context limits;
    asio::io_context ctx;
    asio::io_context other;
    auto const work = asio::make_work_guard(other);
    token_bucket bytes(limits, {.rate = {1'000, 1s}, .burst = 1'000, .initial = 0});
    line a(ctx);
    a.from.throttle_writes(weir::throttle(bytes));
    a.from.async_write_some(asio::buffer("x", 1), asio::bind_executor(other, a.handler()));
    ctx.poll();
    BOOST_TEST(!ctx.stopped());
    run_for(limits, 1s);
    settle(ctx, other);
    BOOST_TEST(a.calls == 1);
    BOOST_TEST(a.n == 1U);
}

BOOST_AUTO_TEST_CASE(take_handlers_that_can_only_be_moved_and_their_allocator) {
    allocations counts;
    asio::io_context ctx;
    {
        token_bucket bytes(ctx, {.rate = {1'000, 1s}, .burst = 1'000, .initial = 0});
        line a(ctx);
        a.from.throttle_writes(weir::throttle(bytes));
        bool called = false;
        auto handler = [&called, own = std::make_unique<int>(7)](error_code, std::size_t n) {
            called = true;
            BOOST_TEST(*own == 7);
            BOOST_TEST(n == 1U);
        };
        a.from.async_write_some(
            asio::buffer("x", 1),
            asio::bind_allocator(counting_allocator<>(counts), std::move(handler)));
        BOOST_TEST(counts.live > 0);
        run_for(ctx, 1s);
        BOOST_TEST(called);
    }
    BOOST_TEST(counts.live == 0);
}

BOOST_AUTO_TEST_CASE(take_any_token, *boost::unit_test::label("whole")) {
    asio::io_context ctx;
    token_bucket bytes(ctx, {.rate = {1'000, 1s}, .burst = 1'000, .initial = 0});
    line a(ctx);
    a.from.throttle_writes(weir::throttle(bytes));
    auto future = a.from.async_write_some(asio::buffer("x", 1), asio::use_future);
    while (future.wait_for(1ms) !=
           std::future_status::ready)  // it runs on the executor of the system
        run_for(ctx, 1ms);
    BOOST_TEST(future.get() == 1U);
    auto later = a.from.async_write_some(asio::buffer("xy", 2));  // asio::deferred
    std::move(later)(a.handler());
    run_for(ctx, 1s);
    BOOST_TEST(a.n == 2U);
    auto const coroutine = [&]() -> asio::awaitable<void> {
        auto const n =
            co_await asio::async_write(a.from, asio::buffer("abc", 3), asio::use_awaitable);
        BOOST_TEST(n == 3U);
        bytes.close();
        try {
            co_await a.from.async_write_some(asio::buffer("x", 1), asio::use_awaitable);
            BOOST_ERROR("no exception");
        } catch (boost::system::system_error const& e) {
            BOOST_TEST(e.code() == errc::closed);
        }
    };
    bool done = false;
    asio::co_spawn(ctx, coroutine, [&](std::exception_ptr e) { done = !e; });
    run_for(ctx, 1s);
    BOOST_TEST(done);
}

BOOST_AUTO_TEST_CASE(may_destroy_the_stream_in_their_handler) {
    asio::io_context ctx;
    token_bucket bytes(ctx, {.rate = {0, 1s}, .burst = 10'000});
    auto a = std::make_unique<line>(ctx);
    a->from.throttle_writes(weir::throttle(bytes));
    a->w->most = 10;
    auto const keep = a->w;
    std::string const data(1'000, 'x');
    bool called = false;
    a->from.async_write_some(asio::buffer(data), [&](error_code, std::size_t) {
        a.reset();
        called = true;
    });
    settle(ctx);
    BOOST_TEST(called);
    BOOST_TEST(left(bytes) == 9'990);
}

BOOST_AUTO_TEST_SUITE_END()
