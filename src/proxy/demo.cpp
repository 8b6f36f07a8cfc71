#include "demo.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>

#include <fmt/format.h>

#include <utility>

namespace proxy {

namespace beast = boost::beast::http;

demo_kitchen::demo_kitchen()
    : acceptor_(context_, net::tcp::endpoint(asio::ip::address_v4::loopback(), 0)) {
    asio::co_spawn(context_, open(), asio::detached);
    runs_ = std::thread([this] { context_.run(); });
}

demo_kitchen::~demo_kitchen() {
    context_.stop();
    runs_.join();
}

net::task<> demo_kitchen::open() {
    for (;;) {
        auto [ec, guest] = co_await acceptor_.async_accept(net::as_values);
        if (!ec)
            asio::co_spawn(context_, serve(std::move(guest)), asio::detached);
    }
}

net::task<> demo_kitchen::serve(net::tcp_socket guest) {
    boost::beast::flat_buffer buffer;
    for (;;) {
        beast::request<beast::string_body> order;
        auto const [broken, read] =
            co_await beast::async_read(guest, buffer, order, net::as_values);
        if (broken)
            co_return;

        int const number = ++dishes_;
        int const together = ++on_the_stove_;
        net::timer cooking(context_, cooking_time);
        auto const [cut] = co_await cooking.async_wait(net::as_values);
        --on_the_stove_;

        beast::response<beast::string_body> dish(beast::status::ok, 11);
        dish.set(beast::field::content_type, "text/plain");
        dish.body() = fmt::format("request {} served; {} were in progress\n", number, together);
        dish.keep_alive(order.keep_alive());
        dish.prepare_payload();
        auto const [gone, written] = co_await beast::async_write(guest, dish, net::as_values);
        if (gone || cut || !dish.keep_alive())
            co_return;
    }
}

}  // namespace proxy
