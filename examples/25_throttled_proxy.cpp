// A proxy for any protocol over TCP that forwards 1 MB per second in each direction for all connections together. The
// program runs an echo service behind it, and a client that sends 300 KB and reads them back.
//     g++ -std=c++20 25_throttled_proxy.cpp -o 25_throttled_proxy $(pkg-config --cflags --libs weir)

#include <weir/throttled_stream.hpp>
#include <weir/weir.hpp>

#include <boost/asio.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>

#include <fmt/format.h>

#include <array>
#include <chrono>
#include <string>

namespace asio = boost::asio;
using namespace asio::experimental::awaitable_operators;
using asio::as_tuple;
using asio::use_awaitable;
using asio::ip::tcp;
using stream = weir::throttled_stream<tcp::socket>;

// ---- The proxy

asio::awaitable<void> carry(stream& from, stream& to) {
    std::array<char, 16'384> buffer;
    for (;;) {
        auto const [ended, n] =
            co_await from.async_read_some(asio::buffer(buffer), as_tuple(use_awaitable));
        if (ended)
            break;
        co_await asio::async_write(to, asio::buffer(buffer, n), use_awaitable);
    }
    // All bytes have been written: the end comes last.
    to.lowest_layer().shutdown(tcp::socket::shutdown_send);
}

asio::awaitable<void> relay(tcp::socket socket, tcp::endpoint service, weir::throttle up,
                            weir::throttle down) {
    stream client(std::move(socket));
    stream server(client.get_executor());
    co_await server.lowest_layer().async_connect(service, use_awaitable);
    server.throttle_writes(up);
    client.throttle_writes(down);
    co_await (carry(client, server) && carry(server, client));
}

// ---- The service and a client

asio::awaitable<void> echo(tcp::acceptor& door) {
    stream client(co_await door.async_accept(use_awaitable));
    co_await carry(client, client);
}

asio::awaitable<void> proxy(tcp::acceptor& door, tcp::endpoint service, weir::throttle up,
                            weir::throttle down) {
    co_await relay(co_await door.async_accept(use_awaitable), service, up, down);
}

asio::awaitable<void> talk(tcp::endpoint where, std::size_t& came_back) {
    tcp::socket to(co_await asio::this_coro::executor);
    co_await to.async_connect(where, use_awaitable);
    std::string const text(300'000, 't');
    std::string answer;
    auto const send = [&]() -> asio::awaitable<void> {
        co_await asio::async_write(to, asio::buffer(text), use_awaitable);
        to.shutdown(tcp::socket::shutdown_send);
    };
    auto const read = [&]() -> asio::awaitable<void> {
        co_await asio::async_read(to, asio::dynamic_buffer(answer), as_tuple(use_awaitable));
    };
    co_await (send() && read());
    came_back = answer == text ? answer.size() : 0;
}

int main() {
    asio::io_context context;
    weir::token_bucket up(context, weir::bandwidth(1'000'000));
    weir::token_bucket down(context, weir::bandwidth(1'000'000));
    tcp::endpoint const any(asio::ip::address_v4::loopback(), 0);
    tcp::acceptor service(context, any);
    tcp::acceptor door(context, any);
    std::size_t came_back = 0;
    auto const begin = std::chrono::steady_clock::now();
    co_spawn(context, echo(service), asio::detached);
    co_spawn(context,
             proxy(door, service.local_endpoint(), weir::throttle(up), weir::throttle(down)),
             asio::detached);
    co_spawn(context, talk(door.local_endpoint(), came_back), asio::detached);
    context.run();
    std::chrono::duration<double> const took = std::chrono::steady_clock::now() - begin;
    fmt::print("{} bytes came back in {:.2f} s\n", came_back, took.count());
    return came_back == 300'000 && took.count() >= 0.24 ? 0 : 1;
}
