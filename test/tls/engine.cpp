#include "net/two_ends.hpp"
#include "support/temporary_folder.hpp"
#include "tls/context.hpp"
#include "tls/failure.hpp"
#include "tls/openssl.hpp"

#include <boost/asio/error.hpp>
#include <boost/test/unit_test.hpp>

#include <openssl/pem.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>

namespace {

namespace asio = net::asio;

// A certificate for `a.example` in files that exist as long as this object.
struct files {
    files() {
        tls::key_ptr const key(EVP_EC_gen("P-256"));
        tls::certificate_ptr const made(X509_new());
        auto* const x = made.get();
        auto* const subject = X509_get_subject_name(x);
        ASN1_INTEGER_set(X509_get_serialNumber(x), 1);
        X509_gmtime_adj(X509_getm_notBefore(x), 0);
        X509_gmtime_adj(X509_getm_notAfter(x), 1000);
        X509_set_pubkey(x, key.get());
        X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC,
                                   reinterpret_cast<unsigned char const*>("a.example"), -1, -1, 0);
        X509_set_issuer_name(x, subject);
        BOOST_REQUIRE(X509_sign(x, key.get(), EVP_sha256()) > 0);
        ::umask(0077);
        write([&](std::FILE* to) { return PEM_write_X509(to, x); }, path("a.pem"));
        write(
            [&](std::FILE* to) {
                return PEM_write_PrivateKey(to, key.get(), nullptr, nullptr, 0, nullptr, nullptr);
            },
            path("a.key"));
    }
    [[nodiscard]] std::string path(char const* name) const { return (folder / name).string(); }

    template <class F>
    static void write(F f, std::string const& path) {
        auto* const file = std::fopen(path.c_str(), "w");
        BOOST_REQUIRE(file);
        BOOST_REQUIRE(f(file) == 1);
        std::fclose(file);
    }

    support::temporary_folder folder{"weir-tls-"};
};

// A channel, and a client at the other end of its socket.
struct with_client : two_ends {
    explicit with_client(int version = TLS1_3_VERSION) {
        mine.non_blocking(true);
        theirs.non_blocking(true);
        mine.set_option(net::tcp::no_delay(true));
        SSL_CTX_set_min_proto_version(client_context.get(), version);
        SSL_CTX_set_max_proto_version(client_context.get(), version);
        client.reset(SSL_new(client_context.get()));
        SSL_set_fd(client.get(), theirs.native_handle());
        SSL_set_connect_state(client.get());
    }

    net::error_code shake_hands() {
        bool done = false;
        for (;;) {
            if (!done)
                done = SSL_do_handshake(client.get()) == 1;
            auto const r = channel->shake_hands();
            if (r.ec != asio::error::would_block) {
                while (!r.ec && !done)
                    done = SSL_do_handshake(client.get()) == 1;
                return r.ec;
            }
        }
    }

    std::string client_reads() {
        std::string text;
        std::array<char, 16384> room;
        for (std::size_t n = 0; SSL_read_ex(client.get(), room.data(), room.size(), &n) == 1;)
            text.append(room.data(), n);
        return text;
    }

    files pem;
    std::shared_ptr<tls::context const> context_of_all = tls::make_context(
        {.listener = "x", .certificates = {{pem.path("a.pem"), pem.path("a.key")}}},
        tls::make_ticket_keys());
    std::unique_ptr<net::channel> channel = context_of_all->accept(mine.native_handle(), false);
    tls::context_ptr client_context{SSL_CTX_new(TLS_client_method())};
    tls::ssl_ptr client;
};

std::string numbers(std::size_t n) {
    std::string out;
    for (int i = 0; out.size() < n; ++i)
        out += std::to_string(i) + ' ';
    out.resize(n);
    return out;
}

}  // namespace

BOOST_AUTO_TEST_CASE(the_handshake_names_what_was_agreed) {
    with_client w;
    SSL_set_tlsext_host_name(w.client.get(), "A.example");
    BOOST_TEST(w.shake_hands() == net::error_code());
    auto const agreed = w.channel->agreed();
    BOOST_TEST(agreed.version == "TLSv1.3");
    BOOST_TEST(agreed.cipher == SSL_get_cipher_name(w.client.get()));
    BOOST_TEST(agreed.server_name == "a.example");
}

BOOST_AUTO_TEST_CASE(failures_have_reasons) {
    {
        with_client w;
        SSL_set_tlsext_host_name(w.client.get(), "b.example");
        BOOST_TEST(w.shake_hands() == net::error_code(tls::failure::unknown_name));
        BOOST_TEST((w.channel->write({"x"}).ec == asio::error::connection_reset));
    }
    {
        with_client w;
        w.they_send("GET / HTTP/1.1\r\n\r\n");
        net::error_code ec = asio::error::would_block;
        run_until(w.context, [&] {
            ec = w.channel->shake_hands().ec;
            return ec != asio::error::would_block;
        });
        BOOST_TEST(ec == net::error_code(tls::failure::not_tls));
    }
    for (int const version : {TLS1_2_VERSION, TLS1_3_VERSION}) {
        with_client w(version);
        SSL_set_verify(w.client.get(), SSL_VERIFY_PEER, nullptr);
        BOOST_TEST(w.shake_hands() == net::error_code(tls::failure::rejected));
    }
    {
        with_client w(TLS1_2_VERSION);
        SSL_set_cipher_list(w.client.get(), "AES128-SHA");
        BOOST_TEST(w.shake_hands() == net::error_code(tls::failure::no_common_cipher));
    }
}

// All bytes arrive once and in their order, however many of the rest the caller offers after a call that would block.
BOOST_AUTO_TEST_CASE(a_write_that_would_block_can_go_on_with_fewer_bytes) {
    for (std::size_t const offered : {1U, 100U, 16384U, 50000U}) {
        with_client w;
        BOOST_REQUIRE(w.shake_hands() == net::error_code());
        auto const text = numbers(6'000'000);
        std::string got;
        std::size_t sent = 0;
        auto const write = [&](std::size_t most) {
            std::string_view const rest = std::string_view(text).substr(sent, most);
            auto const half = rest.size() / 2;
            auto const r = w.channel->write({rest.substr(0, half), rest.substr(half)});
            BOOST_REQUIRE(r.bytes <= rest.size());
            sent += r.bytes;
            return r.ec;
        };
        bool blocked = false;
        while (sent != text.size()) {
            auto ec = write(text.size());
            BOOST_REQUIRE((!ec || ec == asio::error::would_block));
            blocked = blocked || ec;
            got += w.client_reads();
            for (int i = 0; i != 3 && sent != text.size(); ++i)
                static_cast<void>(write(offered));
        }
        got += w.client_reads();
        BOOST_TEST(blocked);
        BOOST_TEST((got == text));
    }
}

BOOST_AUTO_TEST_CASE(received_bytes_that_the_socket_does_not_report_are_known) {
    with_client w;
    BOOST_REQUIRE(w.shake_hands() == net::error_code());
    std::array<char, 3> room;
    BOOST_TEST((w.channel->read(room).ec == asio::error::would_block));
    BOOST_TEST(!w.channel->has_input());
    std::size_t n = 0;
    BOOST_REQUIRE(SSL_write_ex(w.client.get(), "abcde", 5, &n) == 1);
    auto r = w.channel->read(room);
    BOOST_TEST(std::string_view(room.data(), r.bytes) == "abc");
    BOOST_TEST(w.channel->has_input());
    r = w.channel->read(room);
    BOOST_TEST(std::string_view(room.data(), r.bytes) == "de");
    BOOST_TEST(!w.channel->has_input());
}

BOOST_AUTO_TEST_CASE(only_an_announced_end_is_an_end) {
    for (bool const announced : {true, false}) {
        with_client w;
        BOOST_REQUIRE(w.shake_hands() == net::error_code());
        w.client_reads();
        if (announced)
            SSL_shutdown(w.client.get());
        w.they_end_their_half();
        std::array<char, 3> room;
        auto const expected = announced ? net::error_code(asio::error::eof)
                                        : net::error_code(asio::error::connection_reset);
        BOOST_TEST(w.channel->read(room).ec == expected);
        BOOST_TEST(w.theirs.available() == 0u);  // no alert to a client that has closed
    }
}

// Bytes beside OpenSSL fill the socket, and the client takes them beside OpenSSL.
BOOST_AUTO_TEST_CASE(an_end_of_output_waits_until_the_socket_accepts_it) {
    with_client w;
    BOOST_REQUIRE(w.shake_hands() == net::error_code());
    w.client_reads();
    std::array<char, 16384> const text{};
    std::size_t filled = 0;
    for (net::error_code ec; !ec;)
        filled += w.mine.write_some(asio::buffer(text), ec);
    for (int i = 0; i != 2; ++i) {
        auto const r = w.channel->end_output();
        BOOST_TEST((r.ec == asio::error::would_block));
        BOOST_TEST((r.next == net::stream_socket::wait_write));
    }
    run_until(w.context, [&] {
        std::array<char, 16384> room;
        net::error_code ec;
        filled -= w.theirs.read_some(asio::buffer(room, std::min(filled, room.size())), ec);
        return filled == 0;
    });
    run_until(w.context, [&] { return !w.channel->end_output().ec; });
    run_until(w.context, [&] {
        w.client_reads();
        return SSL_get_shutdown(w.client.get()) == SSL_RECEIVED_SHUTDOWN;
    });
}

BOOST_AUTO_TEST_CASE(an_end_of_output_is_announced) {
    with_client w;
    BOOST_REQUIRE(w.shake_hands() == net::error_code());
    BOOST_TEST(w.channel->write({"abc"}).bytes == 3);
    BOOST_TEST(w.channel->end_output().ec == net::error_code());
    BOOST_TEST(w.client_reads() == "abc");
    BOOST_TEST(SSL_get_shutdown(w.client.get()) == SSL_RECEIVED_SHUTDOWN);
    // The other direction still works.
    std::size_t n = 0;
    BOOST_REQUIRE(SSL_write_ex(w.client.get(), "de", 2, &n) == 1);
    std::array<char, 3> room;
    BOOST_TEST(w.channel->read(room).bytes == 2);
}
