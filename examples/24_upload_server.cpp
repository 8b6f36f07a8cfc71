// A server of uploads. It reads 2 MB per second from all clients together, and lets in two connections at a time; others
// wait in the backlog of the kernel. The program runs three clients that send 200 KB each.
//     g++ -std=c++20 24_upload_server.cpp -o 24_upload_server $(pkg-config --cflags --libs weir)

#include <weir/format.hpp>
#include <weir/limited_acceptor.hpp>
#include <weir/throttled_stream.hpp>
#include <weir/weir.hpp>

#include <boost/asio.hpp>

#include <array>
#include <string>

namespace asio = boost::asio;
using asio::as_tuple;
using asio::use_awaitable;
using asio::ip::tcp;
using acceptor = weir::limited_acceptor<tcp::acceptor>;

constexpr std::size_t length = 200'000;

// An idle connection takes no bytes of the limit: the permits are for bytes that have arrived.
asio::awaitable<void> receive(acceptor::connection client, weir::throttle all,
                              std::size_t& received) {
    weir::throttled_stream<tcp::socket&> from(client.socket);
    from.throttle_reads(all);
    std::array<char, 65'536> buffer;
    for (;;) {
        auto const [ended, n] =
            co_await from.async_read_some(asio::buffer(buffer), as_tuple(use_awaitable));
        received += n;
        if (ended)
            break;
    }
    fmt::print("an upload of {} bytes waited {} ms\n", from.read_stats().bytes,
               from.read_stats().waited / std::chrono::milliseconds(1));
}  // the socket is closed, and then the seat is free

asio::awaitable<void> listen(acceptor& door, weir::throttle all, std::size_t& received) {
    for (int i = 0; i != 3; ++i) {
        auto client = co_await door.async_accept(use_awaitable);
        co_spawn(door.get_executor(), receive(std::move(client), all, received), asio::detached);
    }
}

asio::awaitable<void> send(tcp::endpoint where) {
    tcp::socket to(co_await asio::this_coro::executor);
    co_await to.async_connect(where, use_awaitable);
    std::string const data(length, 'u');
    co_await asio::async_write(to, asio::buffer(data), use_awaitable);
}

int main() {
    asio::io_context context;
    weir::seats seats(context, {.seats = 2});
    weir::token_bucket bytes(context, weir::bandwidth(2'000'000), {.max_waiting = 1'000});
    acceptor door(seats, context, tcp::endpoint(asio::ip::address_v4::loopback(), 0));
    std::size_t received = 0;
    co_spawn(context, listen(door, weir::throttle(bytes), received), asio::detached);
    auto const begin = std::chrono::steady_clock::now();
    for (int i = 0; i != 3; ++i)
        co_spawn(context, send(door.acceptor().local_endpoint()), asio::detached);
    context.run();
    std::chrono::duration<double> const took = std::chrono::steady_clock::now() - begin;
    fmt::print("{} bytes, {}\n", received, seats.stats());
    return received == 3 * length && took.count() >= 0.24 ? 0 : 1;
}
