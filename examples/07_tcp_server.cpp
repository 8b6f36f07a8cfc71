// A server that echoes lines. It serves two connections at a time, and at most five lines per minute for all of them
// together. Further connections wait in the backlog of the kernel. The response to a line above the limit is the time
// after which to retry. By default the server listens on a free port, and the program runs three clients with two lines
// each. With --real it listens on port 7777: `nc localhost 7777`.
//     g++ -std=c++20 07_tcp_server.cpp -o 07_tcp_server $(pkg-config --cflags --libs weir)

#include <weir/format.hpp>
#include <weir/weir.hpp>

#include <boost/asio.hpp>

#include <string>
#include <string_view>

using namespace std::chrono_literals;
namespace asio = boost::asio;
using asio::as_tuple;
using asio::use_awaitable;
using asio::ip::tcp;

// The permit lives as long as the connection.
asio::awaitable<void> serve(tcp::socket client, weir::permit, weir::any_limiter& lines) {
    for (std::string text;;) {
        auto const [failed, length] = co_await asio::async_read_until(
            client, asio::dynamic_buffer(text, 1000), '\n', as_tuple(use_awaitable));
        if (failed)
            co_return;
        auto const [rejected, line] = co_await lines.async_enter(100ms, as_tuple(use_awaitable));
        auto const answer = rejected ? fmt::format("{}, {}\n", rejected.message(), line)
                                     : fmt::format("echo: {}", text.substr(0, length));
        text.erase(0, length);
        co_await asio::async_write(client, asio::buffer(answer), use_awaitable);
    }
}

asio::awaitable<void> listen(tcp::acceptor& door, weir::seats& seats, weir::any_limiter& lines) {
    for (;;) {
        auto seat = co_await seats.enter();  // first the seat, then the connection
        auto [closed, client] = co_await door.async_accept(as_tuple(use_awaitable));
        if (closed)
            co_return;
        co_spawn(door.get_executor(), serve(std::move(client), std::move(seat), lines),
                 asio::detached);
    }
}

// Sends two lines and prints the responses. Returns the number of echoes.
asio::awaitable<int> visit(tcp::endpoint where, int number) {
    tcp::socket server(co_await asio::this_coro::executor);
    co_await server.async_connect(where, use_awaitable);
    int echoes = 0;
    for (int i = 0; i != 2; ++i) {
        co_await asio::async_write(server, asio::buffer("hello\n", 6), use_awaitable);
        std::string answer;
        co_await asio::async_read_until(server, asio::dynamic_buffer(answer), '\n', use_awaitable);
        fmt::print("client {}: {}", number, answer);
        echoes += answer.starts_with("echo");
    }
    co_return echoes;
}

int main(int argc, char** argv) {
    bool const real = argc > 1 && argv[1] == std::string_view("--real");
    asio::io_context context;
    tcp::acceptor door(context, tcp::endpoint(asio::ip::address_v4::loopback(), real ? 7777 : 0));
    weir::seats seats(context, {.seats = 2});
    weir::any_limiter lines(context, weir::limiter_config::parse("5/1min"));
    co_spawn(context, listen(door, seats, lines), asio::detached);
    int clients = 3;
    int echoes = 0;
    for (int number = 1; !real && number <= 3; ++number)
        co_spawn(context, visit(door.local_endpoint(), number), [&](std::exception_ptr, int n) {
            echoes += n;
            if (--clients == 0)
                door.close();
        });
    context.run();
    fmt::print("seats: {}\nlines: {}\n", seats.stats(), lines.stats());
    return echoes == 5 && lines.stats().deadline_unreachable == 1 ? 0 : 1;
}
