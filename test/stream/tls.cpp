// TLS over a throttled stream, and a throttled stream over TLS.

#include <weir/throttled_stream.hpp>

#include "support/both_ways.hpp"
#include "support/connection.hpp"
#include "support/printing.hpp"
#include "support/virtual_limiters.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/test/unit_test.hpp>

#include <chrono>
#include <cstddef>
#include <exception>
#include <string>
#include <type_traits>
#include <utility>

using namespace support;
using asio::use_awaitable;
using asio::ip::tcp;
namespace ssl = asio::ssl;
using weir::error_code;

namespace {

// For tests only; valid for a hundred years.
constexpr char key[] = R"(-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQg3GXRJawRsLY2pBDL
qa2Au9EEvaht39uB4TG290061nuhRANCAATWyLcnDd398xcQCK/9SYnzDuCAeDCk
hP3jOQ2ysnrbHl9ro792LdW0yIlhZiJG51uR7TSLQgQCuCHhI4UGDelW
-----END PRIVATE KEY-----
)";
constexpr char certificate[] = R"(-----BEGIN CERTIFICATE-----
MIIBfjCCASWgAwIBAgIUI1pQ6+/rMFxwjCd5NhY1Zn6f8IwwCgYIKoZIzj0EAwIw
FDESMBAGA1UEAwwJbG9jYWxob3N0MCAXDTI2MTEyNjIxMjU1M1oYDzIxMjYxMTAy
MjEyNTUzWjAUMRIwEAYDVQQDDAlsb2NhbGhvc3QwWTATBgcqhkjOPQIBBggqhkjO
PQMBBwNCAATWyLcnDd398xcQCK/9SYnzDuCAeDCkhP3jOQ2ysnrbHl9ro792LdW0
yIlhZiJG51uR7TSLQgQCuCHhI4UGDelWo1MwUTAdBgNVHQ4EFgQU2tZ8VCice2cB
0Cjf2M3EZdKuU2QwHwYDVR0jBBgwFoAU2tZ8VCice2cB0Cjf2M3EZdKuU2QwDwYD
VR0TAQH/BAUwAwEB/zAKBggqhkjOPQQDAgNHADBEAiBcxWs/mytKLYblXku5jI5P
zQwJIHrRqmaWeiPgDo15yAIgPSN/EXZUAfilEHFTcVLXn3/frOtVIoaST6U3j2lA
xkI=
-----END CERTIFICATE-----
)";

constexpr std::size_t length = 300'000;

struct secure_ways : both_ways {
    secure_ways() : both_ways(50'000) {
        server_side.use_private_key(asio::buffer(key, sizeof key - 1), ssl::context::pem);
        server_side.use_certificate_chain(asio::buffer(certificate, sizeof certificate - 1));
    }

    ssl::context server_side{ssl::context::tls_server};
    ssl::context client_side{ssl::context::tls_client};
};

// The client sends and then receives `length` bytes, through the records of TLS. `server` is the stream to use,
// `secure` its layer with TLS.
template <class Server, class Secure>
double exchange(secure_ways& test, Server& server, Secure& secure, tcp::socket far,
                std::size_t most_at_a_time) {
    ssl::stream<tcp::socket> client(std::move(far), test.client_side);
    auto const serve = [&]() -> asio::awaitable<void> {
        co_await secure.async_handshake(ssl::stream_base::server, use_awaitable);
        std::string text;
        std::string piece(most_at_a_time, 'x');
        while (text.size() != length) {
            auto const n = co_await server.async_read_some(asio::buffer(piece), use_awaitable);
            text.append(piece, 0, n);
        }
        co_await asio::async_write(server, asio::buffer(text), use_awaitable);
        co_await secure.async_shutdown(asio::as_tuple(use_awaitable));
    };
    std::size_t got = 0;
    error_code ended;
    auto const talk = [&]() -> asio::awaitable<void> {
        co_await client.async_handshake(ssl::stream_base::client, use_awaitable);
        std::string const text(length, 't');
        co_await asio::async_write(client, asio::buffer(text), use_awaitable);
        std::string answer;
        auto const [ec, n] = co_await asio::async_read(
            client, asio::dynamic_buffer(answer), asio::as_tuple(use_awaitable));
        ended = ec;
        got = answer == text ? n : 0;
        co_await client.async_shutdown(asio::as_tuple(use_awaitable));
    };
    test.start(serve);
    test.start(talk);
    auto const took = test.run();
    BOOST_TEST(got == length);
    BOOST_TEST(ended == asio::error::eof);
    return took;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(a_throttled_stream_with_tls, *boost::unit_test::label("whole"))

BOOST_AUTO_TEST_CASE(below_it_limits_what_is_sent) {
    secure_ways test;
    auto [near, far] = connection(test.ctx);
    ssl::stream<weir::throttled_stream<tcp::socket>> server(
        weir::throttled_stream<tcp::socket>(std::move(near)), test.server_side);
    test.throttle(server.next_layer());
    auto const took = exchange(test, server, server, std::move(far), 65'536);
    // Twice 300,000 bytes less the burst, and the handshake and heads of the records: less than 2 %.
    BOOST_TEST(took >= 0.5);
    BOOST_TEST(took <= 0.53);
    BOOST_TEST(server.next_layer().write_stats().bytes > length);
    BOOST_TEST(server.next_layer().write_stats().bytes < length + length / 50);
    BOOST_TEST(server.next_layer().read_stats().bytes > length);
    static_assert(
        std::is_same_v<decltype(server)::lowest_layer_type, tcp::socket::lowest_layer_type>);
}

BOOST_AUTO_TEST_CASE(above_it_limits_what_the_application_says) {
    secure_ways test;
    auto [near, far] = connection(test.ctx);
    weir::throttled_stream<ssl::stream<tcp::socket>> server(std::move(near), test.server_side);
    test.throttle(server);
    auto const took = exchange(test, server, server.next_layer(), std::move(far), 65'536);
    BOOST_TEST(took >= 0.48);  // the last read is paid by the next one, which does not come
    BOOST_TEST(took <= 0.52);
    BOOST_TEST(server.write_stats().bytes == length);
    BOOST_TEST(server.read_stats().bytes == length);
}

// A record of TLS is decrypted as a whole: the socket has no bytes, but the stream has.
BOOST_AUTO_TEST_CASE(above_it_reads_what_is_decrypted_already) {
    secure_ways test;
    auto [near, far] = connection(test.ctx);
    weir::throttled_stream<ssl::stream<tcp::socket>> server(std::move(near), test.server_side);
    test.throttle(server);
    exchange(test, server, server.next_layer(), std::move(far), 100);
}

BOOST_AUTO_TEST_CASE(is_the_same_without_limits) {
    secure_ways test;
    auto [near, far] = connection(test.ctx);
    ssl::stream<weir::throttled_stream<tcp::socket>> server(
        weir::throttled_stream<tcp::socket>(std::move(near)), test.server_side);
    exchange(test, server, server, std::move(far), 1'000);
}

BOOST_AUTO_TEST_SUITE_END()
