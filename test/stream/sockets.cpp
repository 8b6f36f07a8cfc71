// A throttled stream over sockets of the loopback device. Its limiters have virtual time.

#include <weir/throttled_stream.hpp>

#include "support/connection.hpp"
#include "support/printing.hpp"
#include "support/transfer_result.hpp"
#include "support/virtual_limiters.hpp"

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/connect_pair.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/write.hpp>
#include <boost/test/unit_test.hpp>

#include <sys/resource.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <utility>

using namespace support;
using asio::cancellation_type;
using asio::error::operation_aborted;
using asio::ip::tcp;
using weir::error_code;

namespace {

using stream = weir::throttled_stream<tcp::socket>;

struct ends {
    explicit ends(asio::io_context& ctx) : ends(connection(ctx)) {}
    explicit ends(std::pair<tcp::socket, tcp::socket> both)
        : near(std::move(both.first)), far(std::move(both.second)) {}

    stream near;
    tcp::socket far;
};

weir::amount left(token_bucket const& bytes) {
    return bytes.stats().remaining;
}

// Runs all handlers until `r` has its outcome.
[[nodiscard]] bool wait_for(asio::io_context& ctx, transfer_result const& r, int calls = 1) {
    return run_until(ctx, [&] { return r.calls == calls; });
}

// Reads until the end.
template <class Socket>
void drain(Socket& from, std::string& all) {
    auto const buffer = std::make_shared<std::array<char, 65'536>>();
    from.async_read_some(asio::buffer(*buffer), [&, buffer](error_code ec, std::size_t n) {
        all.append(buffer->data(), n);
        if (!ec)
            drain(from, all);
    });
}

}  // namespace

BOOST_AUTO_TEST_SUITE(a_throttled_socket, *boost::unit_test::label("whole"))

BOOST_AUTO_TEST_CASE(that_is_idle_takes_nothing) {
    asio::io_context ctx;
    token_bucket bytes(ctx, {.rate = {0, 1s}, .burst = 1'000'000});
    weir::throttle const all(bytes);
    std::deque<ends> idle;
    std::array<char, 16'384> buffer{};
    transfer_result r;
    for (int i = 0; i != 100; ++i) {
        auto& one = idle.emplace_back(ctx);
        one.near.throttle_reads(all);
        one.near.async_read_some(asio::buffer(buffer), r.handler());
    }
    settle(ctx);
    BOOST_TEST(r.calls == 0);
    BOOST_TEST(left(bytes) == 1'000'000);
    BOOST_TEST(bytes.stats().live == 0U);
    asio::write(idle[0].far, asio::buffer("hello", 5));
    BOOST_TEST(wait_for(ctx, r));
    BOOST_TEST(r.n == 5U);
    BOOST_TEST(left(bytes) == 999'995);
    for (auto& one : idle)
        one.near.next_layer().close();
    settle(ctx);
    BOOST_TEST(left(bytes) == 999'995);
    BOOST_TEST(bytes.stats().granted == 1U);
}

BOOST_AUTO_TEST_CASE(asks_only_for_bytes_that_have_arrived) {
    asio::io_context ctx;
    token_bucket bytes(ctx, {.rate = {100, 1s}, .burst = 1'000, .initial = 300});
    ends both(ctx);
    both.near.throttle_reads(weir::throttle(bytes));
    std::array<char, 1'000> buffer{};
    transfer_result r;
    asio::write(both.far, asio::buffer(buffer, 300));
    BOOST_TEST(run_until(ctx, [&] { return both.near.next_layer().available() == 300U; }));
    both.near.async_read_some(asio::buffer(buffer), r.handler());
    BOOST_TEST(wait_for(ctx, r));
    BOOST_TEST(r.n == 300U);  // no wait for 1,000
    BOOST_TEST(left(bytes) == 0);
}

BOOST_AUTO_TEST_CASE(reads_all_before_the_end_and_the_end_without_permits) {
    asio::io_context ctx;
    token_bucket bytes(ctx, {.rate = {100'000, 1s}, .burst = 10'000});
    ends both(ctx);
    both.near.throttle_reads(weir::throttle(bytes));
    std::string const text(30'000, 'x');
    asio::write(both.far, asio::buffer(text));
    both.far.shutdown(tcp::socket::shutdown_send);
    std::string got;
    transfer_result r;
    asio::async_read(both.near, asio::dynamic_buffer(got), r.handler());
    BOOST_TEST(wait_for(ctx, r));
    BOOST_TEST(r.ec == asio::error::eof);
    BOOST_TEST(got.size() == text.size());

    bytes.configure([](auto& o) { o.rate = {0, 1s}; });
    auto const none = bytes.try_enter_up_to(10'000);
    both.near.async_read_some(asio::buffer(got), r.handler());
    BOOST_TEST(wait_for(ctx, r, 2));
    BOOST_TEST(r.ec == asio::error::eof);
    // The other half is open.
    both.near.async_write_some(asio::buffer("bye", 3), r.handler());
    std::array<char, 3> bye{};
    asio::read(both.far, asio::buffer(bye));
    BOOST_TEST(wait_for(ctx, r, 3));
    BOOST_TEST(r.n == 3U);
}

BOOST_AUTO_TEST_CASE(sends_all_before_the_end) {
    asio::io_context ctx;
    token_bucket bytes(ctx, {.rate = {1'000'000, 1s}, .burst = 50'000});
    ends both(ctx);
    both.near.throttle_writes(weir::throttle(bytes));
    std::string const text(300'000, 'x');
    std::string got;
    drain(both.far, got);
    bool ended = false;
    asio::async_write(both.near, asio::buffer(text), [&](error_code ec, std::size_t n) {
        BOOST_TEST(!ec);
        BOOST_TEST(n == text.size());
        both.near.lowest_layer().shutdown(tcp::socket::shutdown_send);
        ended = true;
    });
    BOOST_TEST(run_until(ctx, [&] { return ended && got.size() == text.size(); }));
}

BOOST_AUTO_TEST_CASE(holds_no_permits_while_the_receiver_does_not_read) {
    asio::io_context ctx;
    constexpr weir::amount burst = 100'000'000;
    token_bucket bytes(ctx, {.rate = {0, 1s}, .burst = burst});
    weir::throttle const all(bytes);
    // A local socket has no window that could grow: it takes bytes until its buffer is full.
    using local = asio::local::stream_protocol::socket;
    local far(ctx);
    local socket(ctx);
    asio::local::connect_pair(far, socket);
    weir::throttled_stream<local> near(std::move(socket));
    near.throttle_writes(all);
    std::string const data(50'000'000, 'x');
    transfer_result r;
    asio::cancellation_signal signal;
    asio::async_write(near, asio::buffer(data),
                      asio::bind_cancellation_slot(signal.slot(), r.handler()));
    settle(ctx);
    BOOST_TEST(r.calls == 0);
    auto const written = static_cast<weir::amount>(near.write_stats().bytes);
    BOOST_TEST(written > 0);
    BOOST_TEST(left(bytes) == burst - written);
    BOOST_TEST(bytes.stats().live == 0U);
    // It waits for the socket, which can be cancelled, too.
    signal.emit(cancellation_type::partial);
    settle(ctx);
    BOOST_TEST(r.ec == operation_aborted);
    BOOST_TEST(static_cast<weir::amount>(r.n) == written);
    std::string got;
    drain(far, got);
    settle(ctx);
    BOOST_TEST(static_cast<weir::amount>(got.size()) == written);
    BOOST_TEST(left(bytes) == burst - written);
}

BOOST_AUTO_TEST_CASE(finds_a_reset_when_the_permits_come) {
    asio::io_context ctx;
    token_bucket bytes(ctx, {.rate = {1'000, 1s}, .burst = 1'000, .initial = 0});
    ends both(ctx);
    both.near.throttle_writes(weir::throttle(bytes));
    transfer_result r;
    both.near.async_write_some(asio::buffer("x", 1), r.handler());
    settle(ctx);
    both.far.set_option(asio::socket_base::linger(true, 0));
    both.far.close();
    both.near.next_layer().wait(tcp::socket::wait_read);  // for the reset
    settle(ctx);
    BOOST_TEST(r.calls == 0);
    run_for(ctx, 10ms);
    BOOST_TEST(r.calls == 1);
    BOOST_TEST((r.ec == asio::error::connection_reset || r.ec == asio::error::broken_pipe));
    BOOST_TEST(bytes.stats().live == 0U);
    BOOST_TEST(left(bytes) == 10);
}

BOOST_AUTO_TEST_CASE(reads_are_cancelled_between_bytes_and_permits) {
    for (auto const type :
         {cancellation_type::terminal, cancellation_type::partial, cancellation_type::total}) {
        asio::io_context ctx;
        asio::cancellation_signal signal;
        token_bucket bytes(ctx, {.rate = {0, 1s}, .burst = 1'000, .initial = 0});
        ends both(ctx);
        both.near.throttle_reads(weir::throttle(bytes));
        std::array<char, 100> buffer{};
        transfer_result r;
        both.near.async_read_some(
            asio::buffer(buffer), asio::bind_cancellation_slot(signal.slot(), r.handler()));
        settle(ctx);
        asio::write(both.far, asio::buffer("hello", 5));
        BOOST_TEST(run_until(ctx, [&] { return bytes.stats().waiting == 1U; }));
        signal.emit(type);
        settle(ctx);
        BOOST_TEST(r.ec == operation_aborted);
        BOOST_TEST(r.n == 0U);
        BOOST_TEST(both.near.next_layer().available() == 5U);
    }
}

BOOST_AUTO_TEST_CASE(may_be_a_local_socket_or_a_reference) {
    asio::io_context ctx;
    token_bucket bytes(ctx, {.rate = {0, 1s}, .burst = 1'000});
    asio::local::stream_protocol::socket far(ctx);
    asio::local::stream_protocol::socket socket(ctx);
    asio::local::connect_pair(far, socket);
    weir::throttled_stream<asio::local::stream_protocol::socket&> near(socket);
    near.throttle_writes(weir::throttle(bytes));
    transfer_result r;
    asio::async_write(near, asio::buffer("hello", 5), r.handler());
    BOOST_TEST(wait_for(ctx, r));
    BOOST_TEST(r.n == 5U);
    BOOST_TEST(&near.next_layer() == &socket);
    BOOST_TEST(left(bytes) == 995);
}

// A small limit over a large one.
BOOST_AUTO_TEST_CASE(may_be_throttled_twice) {
    asio::io_context ctx;
    token_bucket one(ctx, {.rate = {0, 1s}, .burst = 1'000});
    token_bucket two(ctx, {.rate = {0, 1s}, .burst = 1'000});
    auto [near, far] = connection(ctx);
    weir::throttled_stream<weir::throttled_stream<tcp::socket>> both(std::move(near));
    both.throttle_reads(weir::throttle(one));
    both.next_layer().throttle_reads(weir::throttle(two));
    std::array<char, 100> buffer{};
    transfer_result r;
    both.async_read_some(asio::buffer(buffer), r.handler());
    asio::write(far, asio::buffer("hello", 5));
    BOOST_TEST(wait_for(ctx, r));
    BOOST_TEST(r.n == 5U);
    BOOST_TEST(left(one) == 995);
    BOOST_TEST(left(two) == 995);
    BOOST_TEST(&both.lowest_layer() == &both.next_layer().next_layer());
}

BOOST_AUTO_TEST_CASE(cancelled_at_each_step_of_async_write_counts_what_the_peer_gets) {
    for (int steps = 0;; ++steps) {
        asio::io_context ctx;
        asio::cancellation_signal signal;
        token_bucket bytes(ctx, {.rate = {1'000'000, 1s}, .burst = 16'384});
        ends both(ctx);
        both.near.throttle_writes(weir::throttle(bytes));
        std::string const data(60'000, 'x');
        transfer_result r;
        asio::async_write(both.near, asio::buffer(data),
                          asio::bind_cancellation_slot(signal.slot(), r.handler()));
        int step = 0;
        while (step != steps && r.calls == 0) {
            ctx.restart();
            if (ctx.poll_one() == 0)
                weir::testing::run_for(ctx, 1ms);
            ++step;
        }
        bool const whole = r.calls != 0;
        signal.emit(cancellation_type::partial);
        weir::testing::run_for(ctx, 100ms);
        BOOST_TEST_REQUIRE(r.calls == 1);
        if (r.n < data.size())
            BOOST_TEST(r.ec == operation_aborted);
        both.near.next_layer().shutdown(tcp::socket::shutdown_send);
        std::string got;
        error_code ec;
        asio::read(both.far, asio::dynamic_buffer(got), ec);
        BOOST_TEST(got.size() == r.n);
        BOOST_TEST(bytes.stats().live == 0U);
        if (whole)
            break;
        BOOST_TEST_REQUIRE(steps < 1'000);
    }
}

BOOST_AUTO_TEST_CASE(shares_a_limiter_with_sockets_of_other_threads) {
    asio::thread_pool limits(1);
    weir::token_bucket bytes(limits, {.rate = {20'000'000, 1s}, .burst = 1'000'000});
    weir::throttle const all(bytes);
    constexpr std::size_t length = 1'500'000;
    auto const transfer = [&] {
        asio::io_context ctx;
        ends both(ctx);
        both.near.throttle_writes(all);
        std::string const data(length, 'x');
        std::string got;
        drain(both.far, got);
        asio::async_write(both.near, asio::buffer(data), [&](error_code, std::size_t) {
            both.near.next_layer().shutdown(tcp::socket::shutdown_send);
        });
        ctx.run();
        BOOST_TEST(got.size() == length);
    };
    {
        std::jthread const one(transfer);
        std::jthread const two(transfer);
    }
    BOOST_TEST(bytes.stats().live == 0U);
}

BOOST_AUTO_TEST_SUITE_END()
