// A server of a file: 1 MB per second for each client, and 5 MB per second for all of them together, in equal shares. The
// program runs eight connections of eight clients, and one client with two connections; each reads 300 KB.
//     g++ -std=c++20 23_file_server.cpp -o 23_file_server $(pkg-config --cflags --libs weir)

#include <weir/throttled_stream.hpp>
#include <weir/weir.hpp>

#include <boost/asio.hpp>

#include <fmt/format.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <string>

namespace asio = boost::asio;
using asio::as_tuple;
using asio::use_awaitable;
using asio::ip::tcp;
using clock_type = std::chrono::steady_clock;

using clients = weir::keyed<std::uint64_t, weir::token_bucket>;

constexpr std::size_t length = 300'000;

struct limits {
    explicit limits(asio::io_context& context)
        : bytes(context, weir::bandwidth(5'000'000), {.max_waiting = 10'000}),
          bytes_of_client(context, weir::bandwidth(1'000'000)) {}

    weir::token_bucket bytes;
    clients bytes_of_client;
    weir::throttle all{bytes};
    weir::keyed_throttle<clients> per_client{bytes_of_client};
};

// A connection begins with the number of its client; a real server takes the address.
asio::awaitable<void> serve(tcp::socket socket, limits& limit, std::string const& file) {
    std::uint64_t client = 0;
    co_await asio::async_read(socket, asio::buffer(&client, sizeof client), use_awaitable);
    weir::throttled_stream<tcp::socket> to(std::move(socket));
    to.throttle_writes(limit.per_client.of(client),
                       limit.all);  // the client's, and then the shared one
    co_await asio::async_write(to, asio::buffer(file), use_awaitable);
}

asio::awaitable<void> listen(tcp::acceptor& door, limits& limit, std::string const& file) {
    for (;;) {
        auto [closed, client] = co_await door.async_accept(as_tuple(use_awaitable));
        if (closed)
            co_return;
        co_spawn(door.get_executor(), serve(std::move(client), limit, file), asio::detached);
    }
}

// Returns the time that the file took.
asio::awaitable<double> fetch(tcp::endpoint where, std::uint64_t client) {
    tcp::socket from(co_await asio::this_coro::executor);
    co_await from.async_connect(where, use_awaitable);
    co_await asio::async_write(from, asio::buffer(&client, sizeof client), use_awaitable);
    auto const begin = clock_type::now();
    std::string file;
    auto const [ec, n] =
        co_await asio::async_read(from, asio::dynamic_buffer(file), as_tuple(use_awaitable));
    if (n != length)
        throw std::runtime_error("a file is cut");
    co_return std::chrono::duration<double>(clock_type::now() - begin).count();
}

int main() {
    asio::io_context context;
    limits limit(context);
    std::string const file(length, 'f');
    tcp::acceptor door(context, tcp::endpoint(asio::ip::address_v4::loopback(), 0));
    co_spawn(context, listen(door, limit, file), asio::detached);
    std::array<double, 10> took{};
    int left = 10;
    for (std::uint64_t i = 0; i != took.size(); ++i) {
        auto const client = i < 8 ? i : 8;  // the last two are of one client
        co_spawn(context, fetch(door.local_endpoint(), client),
                 [&, i](std::exception_ptr, double t) {
                     took[i] = t;
                     if (--left == 0)
                         door.close();
                 });
    }
    context.run();
    auto const sum = length * took.size();
    fmt::print("{} bytes; the first client took {:.1f} s, the last one {:.1f} s\n", sum, took[0],
               took[9]);
    // 3 MB less the burst of 250 KB take at least 0.55 s.
    return took[9] >= 0.5 ? 0 : 1;
}
