#include <weir/mysql/store.hpp>

#include "shared/certificate.hpp"
#include "shared/mysql/server.hpp"
#include "shared/mysql/sql.hpp"
#include "support/rethrow.hpp"

#include <boost/asio/awaitable.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/test/tree/decorator.hpp>
#include <boost/test/unit_test.hpp>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace {

namespace asio = boost::asio;
namespace ut = boost::unit_test;
using asio::ip::tcp;
using namespace std::chrono_literals;
using support::certificate;
using weir::mysql::tls;

boost::test_tools::assertion_result if_all_is_here(ut::test_unit_id id) {
    if (auto found = support::if_mariadb_is_here(id); !found)
        return found;
    return certificate::if_possible(id);
}

// A server with a certificate for `localhost`, if it has any. `safe` may log in with TLS only, and `app` with or
// without.
struct tls_server {
    certificate own{"DNS:localhost"};
    support::mariadb_server server;
    support::sql_session session{server.socket()};
    asio::io_context ctx;

    explicit tls_server(bool offers = true)
        : server(offers ? std::vector{"--ssl-key=" + own.key(), "--ssl-cert=" + own.file()}
                        : std::vector<std::string>{"--skip-ssl"}) {
        session.query("create user safe@'%' identified by 'secret' require ssl");
        session.query("create user app@'%' identified by 'secret'");
        session.query("grant create, select, insert, update on weir.* to safe@'%', app@'%'");
    }

    [[nodiscard]] weir::mysql::options by(std::string user, tls how) const {
        return {.host = "localhost",
                .port = server.port(),
                .user = std::move(user),
                .password = "secret",
                .database = "weir",
                .tls = how};
    }
    // The error of a store that cannot log in; empty if it can.
    std::string complaint(weir::mysql::options const& o) {
        try {
            auto const store = std::make_shared<weir::mysql::store>(ctx, o);
            asio::co_spawn(ctx, store->install(), support::rethrow);
            ctx.restart();
            ctx.run();
        } catch (boost::system::system_error const& e) {
            return e.what();
        }
        return {};
    }
};

struct server_without_tls : tls_server {
    server_without_tls() : tls_server(false) {}
};

bool has(std::string const& text, std::string const& part) {
    return text.find(part) != text.npos;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(mysql_tls, *ut::precondition(if_all_is_here))

BOOST_FIXTURE_TEST_CASE(traffic_is_encrypted_if_the_server_offers_it, tls_server) {
    BOOST_TEST(complaint(by("safe", tls::if_offered)) == "");
    BOOST_TEST(complaint(by("safe", tls::required)) == "");
    BOOST_TEST(has(complaint(by("safe", tls::never)), "Access denied"));
    BOOST_TEST(complaint(by("app", tls::never)) == "");
}

BOOST_FIXTURE_TEST_CASE(certificate_must_be_from_the_authority_and_for_the_host, tls_server) {
    auto good = by("safe", tls::if_offered);
    good.authorities = own.file();
    BOOST_TEST(complaint(good) == "");

    auto elsewhere = good;
    elsewhere.host = "127.0.0.1";  // the certificate does not name it
    BOOST_TEST(has(complaint(elsewhere), "certificate verify failed"));

    certificate const other("DNS:localhost");
    auto of_another = good;
    of_another.authorities = other.file();
    BOOST_TEST(has(complaint(of_another), "certificate verify failed"));

    auto of_nobody = good;
    of_nobody.authorities = "/nowhere/ca.pem";
    BOOST_TEST(has(complaint(of_nobody), "No such file"));
}

BOOST_FIXTURE_TEST_CASE(nothing_is_sent_unencrypted_if_tls_is_required, server_without_tls) {
    auto checked = by("app", tls::if_offered);
    checked.authorities = own.file();
    BOOST_TEST(has(complaint(by("app", tls::required)), "doesn't allow SSL"));
    BOOST_TEST(has(complaint(checked), "doesn't allow SSL"));
    BOOST_TEST(complaint(by("app", tls::if_offered)) == "");
}

BOOST_FIXTURE_TEST_CASE(local_socket_is_encrypted_if_required, tls_server) {
    auto local = by("safe", tls::required);
    local.socket = server.socket();
    BOOST_TEST(complaint(local) == "");
    local.authorities = own.file();
    BOOST_TEST(complaint(local) == "");
    local.host = "127.0.0.1";
    BOOST_TEST(has(complaint(local), "certificate verify failed"));
    auto plain = by("app", tls::if_offered);
    plain.socket = server.socket();
    BOOST_TEST(complaint(plain) == "");
}

BOOST_FIXTURE_TEST_CASE(killed_connection_is_replaced_by_an_encrypted_one, tls_server) {
    auto const store = std::make_shared<weir::mysql::store>(ctx, by("safe", tls::required));
    asio::co_spawn(ctx, store->install(), support::rethrow);
    ctx.run();
    weir::mysql::token_bucket calls(
        ctx, store, "calls", {.rate = {1000, 1s}, .burst = 5, .timeout = 10s});
    int granted = 0;
    for (int i = 0; i != 5; ++i) {
        asio::co_spawn(ctx, calls.enter(30s), [&](std::exception_ptr failure, weir::permit) {
            granted += failure ? 0 : 1;
        });
        ctx.restart();
        ctx.run();
        support::kill_others(session, "connection", "user = 'safe'");
    }
    BOOST_TEST(granted == 5);
}

namespace {

// Forwards the greeting of a server, receives the reply, and is silent from then on.
asio::awaitable<void> greet_and_be_silent(tcp::acceptor& acceptor, std::uint16_t port) {
    tcp::socket client = co_await acceptor.async_accept(asio::use_awaitable);
    tcp::socket server(acceptor.get_executor());
    tcp::endpoint const to(asio::ip::address_v4::loopback(), port);
    co_await server.async_connect(to, asio::use_awaitable);
    std::array<char, 4096> bytes;
    auto n = co_await server.async_read_some(asio::buffer(bytes), asio::use_awaitable);
    co_await asio::async_write(client, asio::buffer(bytes, n), asio::use_awaitable);
    boost::system::error_code ended;
    while (!ended)
        n = co_await client.async_read_some(
            asio::buffer(bytes), asio::redirect_error(asio::use_awaitable, ended));
}

}  // namespace

BOOST_FIXTURE_TEST_CASE(stalled_handshake_takes_no_longer_than_connecting, tls_server) {
    tcp::acceptor acceptor(ctx, tcp::endpoint(asio::ip::address_v4::loopback(), 0));
    asio::co_spawn(ctx, greet_and_be_silent(acceptor, server.port()), asio::detached);
    auto silent = by("safe", tls::required);
    silent.host = "127.0.0.1";
    silent.port = acceptor.local_endpoint().port();
    silent.connect_timeout = 100ms;
    BOOST_TEST(has(complaint(silent), "timed out"));
}

BOOST_AUTO_TEST_SUITE_END()
