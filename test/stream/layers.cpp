// Beast's HTTP and websockets over throttled streams, and Beast's own stream below one.

#include <weir/throttled_stream.hpp>
#include <weir/throttled_websocket.hpp>

#include "support/both_ways.hpp"
#include "support/connection.hpp"
#include "support/printing.hpp"
#include "support/virtual_limiters.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/websocket.hpp>
#include <boost/test/unit_test.hpp>

#include <chrono>
#include <cstddef>
#include <exception>
#include <string>
#include <utility>

using namespace support;
namespace beast = boost::beast;
namespace http = beast::http;
namespace websocket = beast::websocket;
using asio::use_awaitable;
using asio::ip::tcp;
using weir::error_code;

namespace {

constexpr weir::amount burst = 16'384;

template <class Stream>
void get_a_page(both_ways& test, Stream server, tcp::socket client) {
    std::string const page(300'000, 'p');
    test.throttle(server);
    auto const serve = [&]() -> asio::awaitable<void> {
        beast::flat_buffer buffer;
        http::request<http::string_body> request;
        co_await http::async_read(server, buffer, request, use_awaitable);
        BOOST_TEST(request.body().size() == 100'000U);
        http::response<http::string_body> response(http::status::ok, 11);
        response.body() = page;
        response.prepare_payload();
        co_await http::async_write(server, response, use_awaitable);
    };
    std::size_t got = 0;
    auto const ask = [&]() -> asio::awaitable<void> {
        http::request<http::string_body> request(http::verb::post, "/", 11);
        request.body().assign(100'000, 'q');
        request.prepare_payload();
        co_await http::async_write(client, request, use_awaitable);
        beast::flat_buffer buffer;
        http::response_parser<http::string_body> response;
        response.body_limit(1'000'000);
        co_await http::async_read(client, buffer, response, use_awaitable);
        got = response.get().body().size();
    };
    test.start(serve);
    test.start(ask);
    auto const took = test.run();
    BOOST_TEST(got == page.size());
    // 400,000 bytes less two bursts, and the heads.
    BOOST_TEST(took >= 0.367);
    BOOST_TEST(server.write_stats().bytes > 300'000U);
    BOOST_TEST(server.read_stats().bytes > 100'000U);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(a_throttled_stream_with_beast, *boost::unit_test::label("whole"))

BOOST_AUTO_TEST_CASE(carries_http) {
    both_ways test(burst);
    auto [near, far] = connection(test.ctx);
    get_a_page(test, weir::throttled_stream<tcp::socket>(std::move(near)), std::move(far));
}

BOOST_AUTO_TEST_CASE(carries_http_over_the_stream_of_beast) {
    both_ways test(burst);
    auto [near, far] = connection(test.ctx);
    get_a_page(test, weir::throttled_stream<beast::tcp_stream>(std::move(near)), std::move(far));
}

BOOST_AUTO_TEST_CASE(carries_http_with_callbacks) {
    both_ways test(burst);
    auto [near, far] = connection(test.ctx);
    weir::throttled_stream<tcp::socket> server(std::move(near));
    test.throttle(server);
    http::response<http::string_body> response(http::status::ok, 11);
    response.body().assign(100'000, 'p');
    response.prepare_payload();
    http::async_write(server, response, [&](error_code ec, std::size_t) {
        BOOST_TEST(!ec);
        --test.left;
    });
    beast::flat_buffer buffer;
    http::response<http::string_body> got;
    http::async_read(far, buffer, got, [&](error_code ec, std::size_t) {
        BOOST_TEST(!ec);
        --test.left;
    });
    BOOST_TEST(test.run() >= 0.083);
    BOOST_TEST(got.body().size() == 100'000U);
}

BOOST_AUTO_TEST_CASE(carries_websockets) {
    both_ways test(burst);
    auto [near, far] = connection(test.ctx);
    websocket::stream<weir::throttled_stream<tcp::socket>> server(std::move(near));
    websocket::stream<tcp::socket> client(std::move(far));
    test.throttle(server.next_layer());
    auto const serve = [&]() -> asio::awaitable<void> {
        co_await server.async_accept(use_awaitable);
        beast::flat_buffer buffer;
        co_await server.async_read(buffer, use_awaitable);
        co_await server.async_write(buffer.data(), use_awaitable);
        co_await server.async_close(websocket::close_code::normal, use_awaitable);
    };
    std::size_t got = 0;
    auto const talk = [&]() -> asio::awaitable<void> {
        co_await client.async_handshake("localhost", "/", use_awaitable);
        std::string const text(200'000, 't');
        co_await client.async_write(asio::buffer(text), use_awaitable);
        beast::flat_buffer buffer;
        co_await client.async_read(buffer, use_awaitable);
        got = buffer.size();
        auto [ec, n] = co_await client.async_read(buffer, asio::as_tuple(use_awaitable));
        BOOST_TEST((ec == websocket::error::closed));
    };
    test.start(serve);
    test.start(talk);
    BOOST_TEST(test.run() >= 0.367);
    BOOST_TEST(got == 200'000U);
    BOOST_TEST(!server.next_layer().next_layer().is_open());
}

BOOST_AUTO_TEST_CASE(carries_websockets_with_callbacks) {
    both_ways test(burst);
    auto [near, far] = connection(test.ctx);
    websocket::stream<weir::throttled_stream<tcp::socket>> server(std::move(near));
    websocket::stream<tcp::socket> client(std::move(far));
    test.throttle(server.next_layer());
    std::string const text(100'000, 't');
    beast::flat_buffer asked;
    beast::flat_buffer answered;
    auto const ends = [&](error_code ec, std::size_t) {
        BOOST_TEST(!ec);
        --test.left;
    };
    server.async_accept([&](error_code accepted) {
        BOOST_TEST(!accepted);
        server.async_read(asked, [&](error_code ec, std::size_t) {
            BOOST_TEST(!ec);
            server.async_write(asked.data(), ends);
        });
    });
    client.async_handshake("localhost", "/", [&](error_code connected) {
        BOOST_TEST(!connected);
        client.async_write(asio::buffer(text), [&](error_code ec, std::size_t) {
            BOOST_TEST(!ec);
            client.async_read(answered, ends);
        });
    });
    BOOST_TEST(test.run() >= 0.167);
    BOOST_TEST(answered.size() == text.size());
}

BOOST_AUTO_TEST_SUITE_END()
