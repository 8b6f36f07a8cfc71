#include "demo.hpp"

#include "tls/context.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>

#include <fmt/format.h>

#include <cerrno>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>

namespace proxy {

namespace beast = boost::beast::http;

demo_backend::demo_backend()
    : acceptor_(context_, net::tcp::endpoint(asio::ip::address_v4::loopback(), 0)) {
    asio::co_spawn(context_, open(), asio::detached);
    runs_ = std::thread([this] { context_.run(); });
}

demo_backend::~demo_backend() {
    context_.stop();
    runs_.join();
}

net::task<> demo_backend::open() {
    for (;;) {
        auto [ec, client] = co_await acceptor_.async_accept(net::as_values);
        if (!ec)
            asio::co_spawn(context_, serve(std::move(client)), asio::detached);
    }
}

net::task<> demo_backend::serve(net::tcp_socket client) {
    boost::beast::flat_buffer buffer;
    for (;;) {
        beast::request<beast::string_body> request;
        auto const [broken, read] =
            co_await beast::async_read(client, buffer, request, net::as_values);
        if (broken)
            co_return;

        int const number = ++requests_;
        int const together = ++active_;
        net::timer service(context_, service_time);
        auto const [cut] = co_await service.async_wait(net::as_values);
        --active_;

        beast::response<beast::string_body> response(beast::status::ok, 11);
        response.set(beast::field::content_type, "text/plain");
        response.body() = fmt::format("request {} served; {} were in progress\n", number, together);
        response.keep_alive(request.keep_alive());
        response.prepare_payload();
        auto const [gone, written] = co_await beast::async_write(client, response, net::as_values);
        if (gone || cut || !response.keep_alive())
            co_return;
    }
}

demo_certificate::demo_certificate() {
    auto name = (std::filesystem::temp_directory_path() / "weir-proxy-XXXXXX").string();
    if (!::mkdtemp(name.data()))
        throw std::runtime_error(fmt::format(
            "cannot create a folder `{}`: {}", name, std::generic_category().message(errno)));
    folder_ = name;
    try {
        tls::write_self_signed({files().certificate, files().key});
    } catch (...) {
        std::filesystem::remove_all(folder_);
        throw;
    }
}

demo_certificate::~demo_certificate() {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
}

}  // namespace proxy
