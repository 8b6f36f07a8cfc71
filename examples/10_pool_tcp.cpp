// A pool of TCP connections. The server, in this program, echoes lines, but it is unreliable: instead of answering each
// fifth line it closes the connection. It must never have more than three connections. Twelve workers share the three
// connections of the pool. Each worker checks out a connection, with a patience of two seconds. If the connection is
// broken, the worker discards it and checks out again: the pool creates another one. The pool checks a connection that
// was idle for 10 seconds before it hands it out.
//     g++ -std=c++20 10_pool_tcp.cpp -o 10_pool_tcp $(pkg-config --cflags --libs weir)

#include <weir/format.hpp>
#include <weir/weir.hpp>

#include <boost/asio.hpp>

#include <string>

using namespace std::chrono_literals;
namespace asio = boost::asio;
using asio::as_tuple;
using asio::use_awaitable;
using asio::ip::tcp;

asio::awaitable<void> serve(tcp::socket client, int& lines) {
    for (std::string text;;) {
        auto const [failed, length] = co_await asio::async_read_until(
            client, asio::dynamic_buffer(text, 1000), '\n', as_tuple(use_awaitable));
        if (failed || ++lines % 5 == 0)
            co_return;
        auto const answer = "echo: " + text.substr(0, length);
        text.erase(0, length);
        co_await asio::async_write(client, asio::buffer(answer), as_tuple(use_awaitable));
    }
}

asio::awaitable<void> listen(tcp::acceptor& door, int& lines) {
    for (;;) {
        auto [closed, client] = co_await door.async_accept(as_tuple(use_awaitable));
        if (closed)
            co_return;
        co_spawn(door.get_executor(), serve(std::move(client), lines), asio::detached);
    }
}

asio::awaitable<std::string> ask(tcp::socket& connection, std::string line) {
    co_await asio::async_write(connection, asio::buffer(line), use_awaitable);
    std::string answer;
    co_await asio::async_read_until(connection, asio::dynamic_buffer(answer), '\n', use_awaitable);
    co_return answer;
}

// Returns the number of connections that the worker used.
asio::awaitable<int> work(weir::pool<tcp::socket>& connections, int number) {
    for (int tries = 1;; ++tries) {
        auto connection = co_await connections.checkout(2s);
        try {
            auto const answer = co_await ask(*connection, fmt::format("hello from {}\n", number));
            fmt::print("worker {:>2}, after {} tries: {}", number, tries, answer);
            co_return tries;
        } catch (boost::system::system_error const&) {
            connection.discard();
        }
    }  // the lease returns the connection to the pool
}

int main() {
    asio::io_context context;
    tcp::acceptor door(context, tcp::endpoint(asio::ip::address_v4::loopback(), 0));
    int lines = 0;
    co_spawn(context, listen(door, lines), asio::detached);
    auto const where = door.local_endpoint();
    auto connect = [where](asio::any_io_executor executor) -> asio::awaitable<tcp::socket> {
        tcp::socket connection(executor);
        co_await connection.async_connect(where, use_awaitable);
        co_return connection;
    };
    auto is_quiet = [](tcp::socket& connection) {  // a closed connection has an end to read
        char next = 0;
        boost::system::error_code ec;
        connection.non_blocking(true);
        connection.receive(asio::buffer(&next, 1), tcp::socket::message_peek, ec);
        return ec == asio::error::would_block;
    };
    weir::pool<tcp::socket> connections(context, connect, is_quiet, {.max = 3, .check_after = 10s});

    int served = 0;
    int tries = 0;
    for (int number = 1; number <= 12; ++number)
        co_spawn(context, work(connections, number), [&](std::exception_ptr failure, int n) {
            if (failure)
                std::rethrow_exception(failure);
            tries += n;
            if (++served == 12) {
                connections.close();
                door.close();
            }
        });
    context.run();

    auto const stats = connections.stats();
    fmt::print("{}\n", stats);
    return stats.discarded == static_cast<unsigned>(tries - 12) && stats.discarded >= 2 ? 0 : 1;
}
