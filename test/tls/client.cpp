#include "tls/client.hpp"

#include "made_certificate.hpp"
#include "net/two_ends.hpp"
#include "support/temporary_folder.hpp"
#include "tls/openssl.hpp"

#include <boost/asio/error.hpp>
#include <boost/test/unit_test.hpp>

#include <openssl/err.h>
#include <openssl/x509_vfy.h>
#include <sys/stat.h>

#include <array>
#include <chrono>
#include <csignal>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

// Files of this folder are compiled together.
namespace towards_servers {
BOOST_AUTO_TEST_SUITE(towards_servers)

namespace {

namespace asio = net::asio;
using namespace std::chrono_literals;
using clock = std::chrono::steady_clock;

made_certificate const& authority() {
    static made_certificate const one("", "authority");
    return one;
}

struct authority_file {
    authority_file() { authority().write(file); }
    support::temporary_folder folder{"weir-tls-"};
    std::string file = (folder / "authority.pem").string();
};
std::string const& authorities() {
    static authority_file const one;
    return one.file;
}

std::shared_ptr<tls::client const> client_of(std::string const& name, clock::duration life = 1h) {
    return tls::make_clients({.authorities = authorities(), .session_life = life}, {name}).front();
}

// A server that shows a certificate. Its connections resume each other's sessions.
struct server {
    explicit server(made_certificate const& shown) {
        SSL_CTX_use_certificate(context.get(), shown.x.get());
        SSL_CTX_use_PrivateKey(context.get(), shown.key.get());
    }
    tls::context_ptr context{SSL_CTX_new(TLS_server_method())};
};

// A channel to a server, at the other end of its socket.
struct with_server : two_ends {
    with_server(tls::client const& c, server const& s)
        : channel(c.connect(mine.native_handle(), tls::inner_protocol::http)),
          at(SSL_new(s.context.get())) {
        mine.non_blocking(true);
        theirs.non_blocking(true);
        SSL_set_fd(at.get(), theirs.native_handle());
        SSL_set_accept_state(at.get());
    }
    net::error_code shake_hands() {
        for (bool done = false;;) {
            auto const r = channel->shake_hands();
            if (r.ec && r.ec != asio::error::would_block)
                return r.ec;
            ERR_clear_error();
            done = done || SSL_do_handshake(at.get()) == 1;
            if (!r.ec && done)
                return {};
        }
    }
    // Reads without bytes, so that tickets arrive.
    void settle() {
        std::array<char, 1> room;
        BOOST_TEST((channel->read(room).ec == asio::error::would_block));
    }
    [[nodiscard]] bool is_resumed() {
        BOOST_REQUIRE(shake_hands() == net::error_code());
        settle();
        return channel->agreed().is_resumed;
    }

    std::unique_ptr<net::channel> channel;
    tls::ssl_ptr at;
};

net::error_code outcome(std::string const& name, server const& s) {
    return with_server(*client_of(name), s).shake_hands();
}

}  // namespace

BOOST_AUTO_TEST_CASE(the_certificate_must_be_for_the_name) {
    struct row {
        char const* names;
        char const* common;
        char const* wanted;
        long reason;
    };
    for (auto const& [names, common, wanted, reason] : {
             row{"DNS:a.example", "x", "a.example", X509_V_OK},
             row{"DNS:a.example", "x", "A.Example", X509_V_OK},
             row{"DNS:a.example", "x", "a.example.", X509_V_OK},
             row{"DNS:b.example,DNS:a.example", "x", "a.example", X509_V_OK},
             row{"DNS:b.example", "x", "a.example", X509_V_ERR_HOSTNAME_MISMATCH},
             row{"DNS:a.example", "x", "example", X509_V_ERR_HOSTNAME_MISMATCH},
             row{"DNS:example", "x", "a.example", X509_V_ERR_HOSTNAME_MISMATCH},
             row{"DNS:*.b.example", "x", "a.b.example", X509_V_OK},
             row{"DNS:*.b.example", "x", "a.a.b.example", X509_V_ERR_HOSTNAME_MISMATCH},
             row{"DNS:*.b.example", "x", "b.example", X509_V_ERR_HOSTNAME_MISMATCH},
             row{"DNS:a*.b.example", "x", "aa.b.example", X509_V_ERR_HOSTNAME_MISMATCH},
             row{"", "a.example", "a.example", X509_V_ERR_HOSTNAME_MISMATCH},
             row{"IP:10.0.0.1", "a.example", "a.example", X509_V_ERR_HOSTNAME_MISMATCH},
             row{"IP:10.0.0.1", "x", "10.0.0.1", X509_V_OK},
             row{"IP:fd00::1", "x", "fd00::1", X509_V_OK},
             row{"IP:10.0.0.1", "x", "10.0.0.2", X509_V_ERR_IP_ADDRESS_MISMATCH},
             row{"DNS:10.0.0.1", "10.0.0.1", "10.0.0.1", X509_V_ERR_IP_ADDRESS_MISMATCH},
         }) {
        BOOST_TEST_CONTEXT(names << ", " << common << ", " << wanted) {
            server const s(made_certificate(names, common, &authority()));
            auto const ec = outcome(wanted, s);
            BOOST_TEST(ec.value() == reason);
            BOOST_TEST(tls::is_of_certificate(ec) == (reason != X509_V_OK));
            BOOST_TEST(tls::is_of_tls(ec) == (reason != X509_V_OK));
        }
    }
}

BOOST_AUTO_TEST_CASE(a_server_learns_its_name_unless_that_is_an_address) {
    server const s(made_certificate("DNS:a.example,IP:10.0.0.1", "x", &authority()));
    for (std::string_view const name : {"a.example", "a.example.", "10.0.0.1"}) {
        with_server w(*client_of(std::string(name)), s);
        BOOST_REQUIRE(w.shake_hands() == net::error_code());
        auto const* const stated = SSL_get_servername(w.at.get(), TLSEXT_NAMETYPE_host_name);
        BOOST_TEST((stated ? std::string_view(stated) : "") ==
                   (name.starts_with('a') ? "a.example" : ""));
    }
}

BOOST_AUTO_TEST_CASE(an_authority_must_have_signed_the_certificate) {
    made_certificate const expired("DNS:a.example", "x", &authority(), -10);
    made_certificate const own("DNS:a.example", "x");
    made_certificate const other("", "authority");
    made_certificate const foreign("DNS:a.example", "x", &other);
    BOOST_TEST(outcome("a.example", server(expired)).value() == X509_V_ERR_CERT_HAS_EXPIRED);
    BOOST_TEST(outcome("a.example", server(own)).value() == X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT);
    auto const ec = outcome("a.example", server(foreign));
    BOOST_TEST(tls::is_of_certificate(ec));
    // Without verification, each of them will do.
    for (auto const* const one : {&expired, &own, &foreign}) {
        auto const any = tls::make_clients({.is_insecure = true}, {"b.example"}).front();
        BOOST_TEST(with_server(*any, server(*one)).shake_hands() == net::error_code());
    }
    // The file may have the certificate of the server itself.
    made_certificate const good("DNS:a.example", "x", &authority());
    support::temporary_folder const folder("weir-tls-");
    auto const file = (folder / "a.pem").string();
    good.write(file);
    auto const pinned = tls::make_clients({.authorities = file}, {"a.example"}).front();
    BOOST_TEST(with_server(*pinned, server(good)).shake_hands() == net::error_code());
}

BOOST_AUTO_TEST_CASE(a_ticket_may_come_at_any_time) {
    server const s(made_certificate("DNS:a.example", "x", &authority()));
    SSL_CTX_set_num_tickets(s.context.get(), 0);
    auto const c = client_of("a.example");
    with_server first(*c, s);
    BOOST_TEST(!first.is_resumed());
    BOOST_TEST(!with_server(*c, s).is_resumed());
    BOOST_REQUIRE(SSL_new_session_ticket(first.at.get()) == 1);
    BOOST_REQUIRE(SSL_do_handshake(first.at.get()) == 1);
    first.settle();  // the ticket is not a part of a response
    BOOST_TEST(!first.channel->has_input());
    with_server second(*c, s);
    BOOST_TEST(second.is_resumed());
    BOOST_TEST(!with_server(*client_of("a.example"), s).is_resumed());
}

BOOST_AUTO_TEST_CASE(a_session_has_an_end_however_often_it_is_resumed) {
    constexpr auto life = 100ms;
    for (auto const version : {TLS1_2_VERSION, TLS1_3_VERSION}) {
        server const s(made_certificate("DNS:a.example", "x", &authority()));
        SSL_CTX_set_max_proto_version(s.context.get(), version);
        auto const c = client_of("a.example", life);
        auto verified = clock::now();
        int full = 0;
        int resumed = 0;
        for (auto const end = clock::now() + 20s;
             (full < 3 || resumed == 0) && clock::now() < end;) {
            auto const began = clock::now();
            with_server one(*c, s);
            bool const is_resumed = one.is_resumed();
            if (is_resumed)
                BOOST_TEST((began - verified < life));
            else
                verified = clock::now();
            ++(is_resumed ? resumed : full);
        }
        BOOST_TEST(full >= 3);
        BOOST_TEST(resumed > 0);
    }
}

BOOST_AUTO_TEST_CASE(a_failed_handshake_ends_the_session) {
    server const s(made_certificate("DNS:a.example", "x", &authority()));
    auto const c = client_of("a.example");
    BOOST_TEST(!with_server(*c, s).is_resumed());
    BOOST_TEST(with_server(*c, s).is_resumed());
    {
        with_server broken(*c, s);
        BOOST_TEST((broken.channel->shake_hands().ec == asio::error::would_block));
        broken.they_send("HTTP/1.1 400 Bad Request\r\n\r\n");
        net::error_code ec = asio::error::would_block;
        run_until(broken.context, [&] {
            ec = broken.channel->shake_hands().ec;
            return ec != asio::error::would_block;
        });
        BOOST_TEST(tls::is_of_tls(ec));
        BOOST_TEST(!tls::is_of_certificate(ec));
        BOOST_TEST(ec.message() == "the server does not use TLS at this port");
    }
    BOOST_TEST(!with_server(*c, s).is_resumed());
}

BOOST_AUTO_TEST_CASE(clients_are_alike_if_they_verify_alike) {
    support::temporary_folder const folder("weir-tls-");
    auto const file = (folder / "a.pem").string();
    auto const made = [&](std::string const& name) {
        return tls::make_clients({.authorities = file}, {name}).front();
    };
    authority().write(file);
    auto const first = made("a.example");
    BOOST_TEST(first->is_like(*made("a.example")));
    BOOST_TEST(first->is_like(*client_of("a.example")));  // another file with these certificates
    BOOST_TEST(!first->is_like(*made("b.example")));
    BOOST_TEST(!first->is_like(*tls::make_clients({.is_insecure = true}, {"a.example"}).front()));
    BOOST_TEST(!first->is_like(*tls::make_clients({}, {"a.example"}).front()));
    made_certificate("", "authority").write(file);
    BOOST_TEST(!first->is_like(*made("a.example")));
}

BOOST_AUTO_TEST_CASE(the_reason_can_be_read_after_a_write_that_failed) {
    server const s(made_certificate("DNS:a.example", "x", &authority()));
    auto const c = client_of("a.example");
    with_server w(*c, s);
    BOOST_REQUIRE(!w.is_resumed());
    BOOST_TEST(w.channel->write({"a request"}).bytes == 9);
    std::size_t n = 0;
    BOOST_REQUIRE(SSL_write_ex(w.at.get(), "no", 2, &n) == 1);
    std::signal(SIGPIPE, SIG_IGN);
    w.mine.shutdown(net::stream_socket::shutdown_send);  // as after a reset, but nothing is lost
    auto const ec = w.channel->write({"the rest"}).ec;
    BOOST_TEST(bool(ec));
    BOOST_TEST((ec != asio::error::would_block));
    std::array<char, 9> room;
    auto r = w.channel->read(room);
    while (r.ec == asio::error::would_block)  // after a ticket
        r = w.channel->read(room);
    BOOST_TEST(r.ec == net::error_code());
    BOOST_TEST(std::string_view(room.data(), r.bytes) == "no");
    BOOST_TEST(bool(w.channel->end_output().ec));
    BOOST_TEST(bool(w.channel->write({"the rest"}).ec));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace towards_servers
