// A relay for any protocol over TCP, with limits: at most two connections to the service at a time, and at most five
// new connections in any second. A further client waits for up to half a second; then the relay closes its connection.
// By default the relay listens on a free port, and the program runs an echo service and three clients. With --real the
// relay listens on port 7777 and connects to the service on port 9000.
//     g++ -std=c++20 08_tcp_relay.cpp -o 08_tcp_relay $(pkg-config --cflags --libs weir)

#include <weir/format.hpp>
#include <weir/weir.hpp>

#include <boost/asio.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>

#include <array>
#include <string>
#include <string_view>

using namespace std::chrono_literals;
namespace asio = boost::asio;
using asio::as_tuple;
using asio::use_awaitable;
using asio::ip::tcp;

// Copies bytes from `from` to `to` until `from` ends, and then ends the sending half of `to`.
asio::awaitable<void> carry(tcp::socket& from, tcp::socket& to) {
    std::array<char, 16 * 1024> buffer;
    for (;;) {
        auto const [ended, n] =
            co_await from.async_read_some(asio::buffer(buffer), as_tuple(use_awaitable));
        if (ended)
            break;
        co_await asio::async_write(to, asio::buffer(buffer, n), use_awaitable);
    }
    boost::system::error_code ignored;
    to.shutdown(tcp::socket::shutdown_send, ignored);
}

// The limit needs only two steps: acquire a permit before the work starts, and keep it until the work is done.
asio::awaitable<void> serve(tcp::socket client, tcp::endpoint service, weir::any_limiter& door) {
    using namespace asio::experimental::awaitable_operators;
    auto const [rejected, permit] = co_await door.async_enter(500ms, as_tuple(use_awaitable));
    if (rejected) {
        fmt::print("rejected: {}, {}\n", rejected.message(), permit);
        co_return;
    }
    tcp::socket upstream(client.get_executor());
    auto const [failed] = co_await upstream.async_connect(service, as_tuple(use_awaitable));
    if (!failed)
        co_await (carry(client, upstream) && carry(upstream, client));
}

template <class Serve>
asio::awaitable<void> listen(tcp::acceptor& at, Serve serve_one) {
    for (;;) {
        auto [closed, client] = co_await at.async_accept(as_tuple(use_awaitable));
        if (closed)
            co_return;
        co_spawn(at.get_executor(), serve_one(std::move(client)), asio::detached);
    }
}

// A service that sends back all bytes.
asio::awaitable<void> echo(tcp::socket client) {
    co_await carry(client, client);
}

// Sends a line, waits for a second and disconnects. Returns true if the line came back.
asio::awaitable<bool> visit(tcp::endpoint where) {
    tcp::socket relay(co_await asio::this_coro::executor);
    co_await relay.async_connect(where, use_awaitable);
    co_await asio::async_write(relay, asio::buffer("hello\n", 6), use_awaitable);
    std::string answer;
    co_await asio::async_read_until(
        relay, asio::dynamic_buffer(answer), '\n', as_tuple(use_awaitable));
    asio::steady_timer stay(relay.get_executor(), 1s);
    co_await stay.async_wait(use_awaitable);
    co_return answer == "hello\n";
}

int main(int argc, char** argv) {
    asio::io_context context;
    bool const real = argc > 1 && argv[1] == std::string_view("--real");
    tcp::endpoint const any(asio::ip::address_v4::loopback(), 0);
    tcp::acceptor service(context, any);
    tcp::acceptor relay(context, real ? tcp::endpoint(any.address(), 7777) : any);
    auto const to = real ? tcp::endpoint(any.address(), 9000) : service.local_endpoint();
    weir::any_limiter door(context, weir::limiter_config::parse("2 seats & 5/1s"));
    auto const relayed = [&](tcp::socket client) { return serve(std::move(client), to, door); };
    co_spawn(context, listen(relay, relayed), asio::detached);
    co_spawn(context, listen(service, echo), asio::detached);
    int left = 3, served = 0;
    for (int i = 0; !real && i != 3; ++i)
        co_spawn(context, visit(relay.local_endpoint()), [&](std::exception_ptr, bool came_back) {
            served += came_back;
            if (--left == 0)
                relay.close(), service.close();
        });
    context.run();
    fmt::print("{}\n", door.stats());
    return served == 2 && door.stats().in_use == 0 ? 0 : 1;
}
