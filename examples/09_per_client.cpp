// A server with limits per client, which echoes lines. Each client may send at most three lines in ten seconds, and may
// hold at most two connections. The address identifies a client. The response to a line above the limit is the time
// after which to retry. A connection above the limit gets the line `too many` and is closed. By default the server
// listens on a free port, and the program runs two clients: one sends too many lines, the other does not. With --real
// it listens on port 7777: `nc localhost 7777`.
//     g++ -std=c++20 09_per_client.cpp -o 09_per_client $(pkg-config --cflags --libs weir)

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

struct limits {
    explicit limits(asio::io_context& context)
        : lines(context, {.limit = 3, .window = 10s}), connections(context, {.seats = 2}) {}

    weir::keyed<std::uint64_t, weir::policy::sliding_log> lines;
    weir::keyed<std::uint64_t, weir::policy::seats> connections;
};

asio::awaitable<void> serve(tcp::socket client, std::uint64_t key, limits& per_client) {
    auto const connection = per_client.connections.try_enter(key);  // held until the function ends
    if (!connection) {
        co_await asio::async_write(client, asio::buffer("too many\n", 9), as_tuple(use_awaitable));
        co_return;
    }
    for (std::string text;;) {
        auto const [failed, length] = co_await asio::async_read_until(
            client, asio::dynamic_buffer(text, 1000), '\n', as_tuple(use_awaitable));
        if (failed)
            co_return;
        auto const line = per_client.lines.try_enter(key);
        auto const answer =
            line ? fmt::format("echo: {}", text.substr(0, length)) : fmt::format("{}\n", line);
        text.erase(0, length);
        co_await asio::async_write(client, asio::buffer(answer), as_tuple(use_awaitable));
    }
}

asio::awaitable<void> listen(tcp::acceptor& door, limits& per_client) {
    for (;;) {
        auto [closed, client] = co_await door.async_accept(as_tuple(use_awaitable));
        if (closed)
            co_return;
        boost::system::error_code gone;
        auto const key = weir::client_key(client.remote_endpoint(gone).address());
        if (!gone)
            co_spawn(door.get_executor(), serve(std::move(client), key, per_client),
                     asio::detached);
    }
}

// Sends lines from the address `from` and prints the responses. Returns the number of echoes.
asio::awaitable<int> visit(tcp::endpoint where, char const* from, int lines) {
    tcp::socket server(co_await asio::this_coro::executor, tcp::v4());
    server.bind({asio::ip::make_address(from), 0});
    co_await server.async_connect(where, use_awaitable);
    int echoes = 0;
    for (int i = 0; i != lines; ++i) {
        co_await asio::async_write(server, asio::buffer("hello\n", 6), use_awaitable);
        std::string answer;
        co_await asio::async_read_until(server, asio::dynamic_buffer(answer), '\n', use_awaitable);
        fmt::print("{}: {}", from, answer);
        echoes += answer.starts_with("echo");
    }
    co_return echoes;
}

int main(int argc, char** argv) {
    bool const real = argc > 1 && argv[1] == std::string_view("--real");
    asio::io_context context;
    tcp::acceptor door(context, tcp::endpoint(asio::ip::address_v4::any(), real ? 7777 : 0));
    limits per_client(context);
    co_spawn(context, listen(door, per_client), asio::detached);
    int clients = 2;
    int echoes = 0;
    auto const done = [&](std::exception_ptr, int n) {
        echoes += n;
        if (--clients == 0)
            door.close();
    };
    tcp::endpoint const where(asio::ip::address_v4::loopback(), door.local_endpoint().port());
    if (!real) {
        co_spawn(context, visit(where, "127.0.0.2", 5), done);
        co_spawn(context, visit(where, "127.0.0.3", 2), done);
    }
    context.run();
    auto const stats = per_client.lines.stats();
    fmt::print("{} clients, {}\n", stats.keys, stats.total);
    return echoes == 5 && stats.total.no_permit == 2 ? 0 : 1;
}
