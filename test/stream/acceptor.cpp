// Seats for whole connections, on the loopback device.

#include <weir/keyed.hpp>
#include <weir/limited_acceptor.hpp>
#include <weir/seats.hpp>

#include "support/connection.hpp"
#include "support/printing.hpp"
#include "support/sanitizer.hpp"
#include "support/virtual_limiters.hpp"

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/test/unit_test.hpp>

#include <fmt/format.h>

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <fstream>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

using namespace support;
using asio::cancellation_type;
using asio::error::operation_aborted;
using asio::ip::tcp;
using weir::errc;
using weir::error_code;

namespace {

using acceptor = weir::limited_acceptor<tcp::acceptor>;
using keyed_seats =
    weir::basic_keyed<int, weir::policy::seats, asio::any_io_executor, weir::testing::timer>;

struct house {
    asio::io_context ctx;
    seats limit{ctx, {.seats = 2}};
    acceptor door{limit, ctx, tcp::endpoint(asio::ip::address_v4::loopback(), 0)};
    std::vector<acceptor::connection> guests;
    std::vector<error_code> errors;
    asio::cancellation_signal signal;

    void accept() {
        door.async_accept(asio::bind_cancellation_slot(
            signal.slot(), [this](error_code ec, acceptor::connection c) {
                if (ec) {
                    BOOST_TEST(!c.seat);
                    errors.push_back(ec);
                } else {
                    guests.push_back(std::move(c));
                }
            }));
    }
    [[nodiscard]] tcp::socket visit() {
        tcp::socket socket(ctx);
        socket.connect(door.acceptor().local_endpoint());
        return socket;
    }
    [[nodiscard]] bool wait_for(std::size_t n) {
        return run_until(ctx, [&] { return guests.size() == n; });
    }
};

// Returns whether a connection to this address is established, as the kernel knows it. One that was reset is not, even
// if it was not accepted yet.
bool has_connections(tcp::endpoint const& at) {
    std::ifstream table("/proc/net/tcp");
    BOOST_TEST_REQUIRE(table.is_open());
    auto const port = fmt::format(":{:04X}", at.port());
    std::string number;
    std::string local;
    std::string remote;
    std::string state;
    for (std::string line; std::getline(table, line);) {
        std::istringstream(line) >> number >> local >> remote >> state;
        if (local.ends_with(port) && state == "01")
            return true;
    }
    return false;
}

// Returns whether the peer has reset the connection.
bool is_reset(tcp::socket& socket) {
    std::array<char, 1> buffer{};
    error_code ec;
    socket.read_some(asio::buffer(buffer), ec);
    return ec == asio::error::connection_reset;
}

}  // namespace

BOOST_FIXTURE_TEST_SUITE(a_limited_acceptor, house, *boost::unit_test::label("whole"))

BOOST_AUTO_TEST_CASE(takes_a_seat_before_it_accepts) {
    std::vector<tcp::socket> visitors;
    for (int i = 0; i != 3; ++i) {
        visitors.push_back(visit());
        accept();
    }
    BOOST_TEST(wait_for(2));
    settle(ctx);
    BOOST_TEST(guests.size() == 2U);
    BOOST_TEST(limit.stats().in_use == 2);
    BOOST_TEST(limit.stats().waiting == 1U);
    guests.erase(guests.begin());
    BOOST_TEST(wait_for(2));
    BOOST_TEST(guests[1].socket.is_open());
    BOOST_TEST(!guests[1].of_client);
    guests.clear();
    BOOST_TEST(limit.stats().in_use == 0);
}

BOOST_AUTO_TEST_CASE(closes_the_socket_before_it_releases_the_seat) {
    auto const visitor = visit();
    accept();
    BOOST_TEST(wait_for(1));
    auto const handle = guests[0].socket.native_handle();
    bool was_open = true;
    limit.observe([&](weir::request_event const&) { was_open = ::fcntl(handle, F_GETFD) != -1; });
    auto const all = limit.try_enter(1);
    accept();  // waits for a seat
    settle(ctx);
    guests.clear();  // grants it
    settle(ctx);
    BOOST_TEST(limit.stats().granted == 3U);
    BOOST_TEST(!was_open);
}

BOOST_AUTO_TEST_CASE(holds_one_seat_while_it_waits_for_a_connection) {
    accept();
    settle(ctx);
    BOOST_TEST(limit.stats().in_use == 1);
    for (auto const type :
         {cancellation_type::terminal, cancellation_type::partial, cancellation_type::total}) {
        signal.emit(type);
        settle(ctx);
        BOOST_TEST(errors.size() == 1U);
        BOOST_TEST(errors.back() == operation_aborted);
        BOOST_TEST(limit.stats().in_use == 0);
        errors.clear();
        accept();
        settle(ctx);
    }
    door.acceptor().close();
    settle(ctx);
    BOOST_TEST(errors.back() == operation_aborted);
    BOOST_TEST(limit.stats().in_use == 0);
}

BOOST_AUTO_TEST_CASE(can_be_cancelled_at_each_step) {
    for (int steps = 0; steps != 6; ++steps) {
        auto const visitor = visit();
        accept();
        for (int i = 0; i != steps; ++i) {
            ctx.restart();
            ctx.poll_one();
        }
        auto const before = guests.size();
        signal.emit(cancellation_type::total);
        settle(ctx);
        BOOST_TEST(guests.size() + errors.size() == 1U);
        BOOST_TEST(guests.size() >= before);
        guests.clear();
        errors.clear();
        BOOST_TEST(limit.stats().in_use == 0);
        // The connection that was not accepted is still there.
        if (before == 0) {
            error_code ec;
            door.acceptor().non_blocking(true);
            tcp::socket rest_of_it(ctx);
            door.acceptor().accept(rest_of_it, ec);
        }
    }
}

BOOST_AUTO_TEST_CASE(ends_with_the_error_of_the_limiter) {
    auto const one = limit.try_enter(2);
    accept();
    settle(ctx);
    limit.close();
    settle(ctx);
    BOOST_TEST(errors.size() == 1U);
    BOOST_TEST(errors[0] == errc::closed);
}

BOOST_AUTO_TEST_CASE(resets_connections_above_the_limit_of_a_client) {
    keyed_seats per_client(ctx, {.seats = 1});
    int client = 1;
    door.limit_clients(per_client, [&](tcp::endpoint const&) { return client; });
    auto first = visit();
    accept();
    BOOST_TEST(wait_for(1));
    BOOST_TEST(guests[0].of_client.count() == 1);
    auto second = visit();
    accept();
    BOOST_TEST(run_until(ctx, [&] { return door.rejected() == 1; }));
    BOOST_TEST(is_reset(second));
    settle(ctx);
    BOOST_TEST(guests.size() == 1U);
    BOOST_TEST(limit.stats().in_use == 2);  // for the next connection
    client = 2;
    auto third = visit();
    BOOST_TEST(wait_for(2));
    BOOST_TEST(errors.empty());
    guests.clear();
    BOOST_TEST(per_client.stats().total.in_use == 0);
}

BOOST_AUTO_TEST_CASE(continues_after_a_connection_that_was_reset) {
    keyed_seats per_client(ctx, {.seats = 5});
    door.limit_clients(per_client, [](tcp::endpoint const&) { return 1; });
    {
        auto gone = visit();
        gone.set_option(asio::socket_base::linger(true, 0));
        gone.close();  // the destructor would not linger
    }
    BOOST_TEST(run_until(ctx, [&] { return !has_connections(door.acceptor().local_endpoint()); }));
    auto const stays = visit();
    accept();
    BOOST_TEST(wait_for(1));
    BOOST_TEST((guests[0].socket.remote_endpoint() == stays.local_endpoint()));
    BOOST_TEST(errors.empty());
}

BOOST_AUTO_TEST_CASE(pauses_while_there_are_no_descriptors) {
    if (sanitizer)
        return;  // it needs descriptors itself, to check whether memory can be read
    auto const visitor = visit();
    accept();
    settle(ctx);
    rlimit before{};
    ::getrlimit(RLIMIT_NOFILE, &before);
    auto const next = ::open("/dev/null", O_RDONLY);
    ::close(next);
    rlimit const none{.rlim_cur = static_cast<rlim_t>(next), .rlim_max = before.rlim_max};
    ::setrlimit(RLIMIT_NOFILE, &none);
    auto const other = guests.size();
    accept();
    std::size_t handlers = 0;
    for (int i = 0; i != 50; ++i)
        handlers += settle(ctx);
    ::setrlimit(RLIMIT_NOFILE, &before);
    BOOST_TEST(handlers < 20U);  // it does not spin
    BOOST_TEST(errors.empty());
    BOOST_TEST(wait_for(std::max<std::size_t>(other, 1)));
    BOOST_TEST(limit.stats().in_use == 2);
}

BOOST_AUTO_TEST_CASE(works_in_a_coroutine_that_ends_with_the_context) {
    auto const listen = [this]() -> asio::awaitable<void> {
        for (;;)
            guests.push_back(co_await door.async_accept(asio::use_awaitable));
    };
    asio::co_spawn(ctx, listen, [](std::exception_ptr) {});
    auto const visitor = visit();
    BOOST_TEST(wait_for(1));
    settle(ctx);
    BOOST_TEST(limit.stats().in_use == 2);
}

BOOST_AUTO_TEST_SUITE_END()
