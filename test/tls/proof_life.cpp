// How long a client that resumes its session need not show its certificate again.
#include "made_certificate.hpp"
#include "net/two_ends.hpp"
#include "support/temporary_folder.hpp"
#include "tls/context.hpp"
#include "tls/openssl.hpp"

#include <boost/asio/error.hpp>
#include <boost/test/unit_test.hpp>

#include <time.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <memory>
#include <string>

namespace {

std::time_t passed_time = 0;

}  // namespace

// The wall clock of this program, also for OpenSSL.
extern "C" std::time_t time(std::time_t* to) noexcept {
    timespec now{};
    ::clock_gettime(CLOCK_REALTIME, &now);
    auto const is = now.tv_sec + passed_time;
    if (to)
        *to = is;
    return is;
}

// Files of this folder are compiled together.
namespace proofs {

namespace asio = net::asio;
using namespace std::chrono_literals;

using session_ptr = std::unique_ptr<SSL_SESSION, tls::freed_by<SSL_SESSION_free>>;

/// A listener that requires a certificate, and a client that has one for `valid`.
struct with_certificate {
    explicit with_certificate(int version, std::chrono::seconds valid = 24h)
        : own("", "client", &authority, static_cast<long>(valid.count())) {
        authority.write(path("authority.pem"));
        tls::certificate_files const files{path("a.pem"), path("a.key")};
        tls::write_self_signed(files);
        listener = tls::make_context({.listener = "x",
                                      .certificates = {files},
                                      .clients = {{.authorities = path("authority.pem")}}},
                                     tls::make_ticket_keys());
        SSL_CTX_set_min_proto_version(client.get(), version);
        SSL_CTX_set_max_proto_version(client.get(), version);
        SSL_CTX_use_certificate(client.get(), own.x.get());
        SSL_CTX_use_PrivateKey(client.get(), own.key.get());
    }
    ~with_certificate() { passed_time = 0; }

    [[nodiscard]] std::string path(char const* name) const { return (folder / name).string(); }

    /// Connects, with the latest session if it has one, and keeps the newest. Returns whether the connection resumed it.
    bool resumes() {
        two_ends ends;
        ends.mine.non_blocking(true);
        ends.theirs.non_blocking(true);
        auto const channel = listener->accept(ends.mine.native_handle(), false);
        tls::ssl_ptr const theirs(SSL_new(client.get()));
        SSL_set_fd(theirs.get(), ends.theirs.native_handle());
        SSL_set_connect_state(theirs.get());
        if (session)
            SSL_set_session(theirs.get(), session.get());
        bool done = false;
        run_until(ends.context, [&] {
            done = done || SSL_do_handshake(theirs.get()) == 1;
            auto const r = channel->shake_hands();
            BOOST_REQUIRE((!r.ec || r.ec == asio::error::would_block));
            return done && !r.ec;
        });
        std::array<char, 1> room;
        std::size_t n = 0;
        SSL_read_ex(theirs.get(), room.data(), room.size(), &n);  // tickets
        session.reset(SSL_get1_session(theirs.get()));
        SSL_shutdown(theirs.get());  // otherwise OpenSSL gives the session up
        BOOST_TEST(channel->agreed().client_certificate == "CN=client");
        return channel->agreed().is_resumed;
    }

    support::temporary_folder folder{"weir-tls-"};
    made_certificate authority{"", "authority", nullptr, 1'000'000};
    made_certificate own;
    std::shared_ptr<tls::context const> listener;
    tls::context_ptr client{SSL_CTX_new(TLS_client_method())};
    session_ptr session;
};

void pass(std::chrono::seconds t) {
    passed_time += t.count();
}

BOOST_AUTO_TEST_SUITE(the_proof_of_a_client)

// TLS 1.3 renews the session at each use, which does not renew the proof.
BOOST_AUTO_TEST_CASE(is_valid_for_two_hours) {
    for (int const version : {TLS1_2_VERSION, TLS1_3_VERSION})
        BOOST_TEST_CONTEXT(version) {
            with_certificate c(version);
            BOOST_TEST(!c.resumes());
            for (int i = 0; i != 7; ++i) {
                pass(17min);
                BOOST_TEST(c.resumes());
            }
            pass(2min);
            BOOST_TEST(!c.resumes());
            pass(119min);
            BOOST_TEST(c.resumes());
            pass(2min);
            BOOST_TEST(!c.resumes());
        }
}

BOOST_AUTO_TEST_CASE(ends_with_the_certificate) {
    for (int const version : {TLS1_2_VERSION, TLS1_3_VERSION})
        BOOST_TEST_CONTEXT(version) {
            with_certificate c(version, 1h);
            BOOST_TEST(!c.resumes());
            pass(59min);
            BOOST_TEST(c.resumes());
            pass(2min);
            c.own = made_certificate("", "client", &c.authority);
            SSL_CTX_use_certificate(c.client.get(), c.own.x.get());
            SSL_CTX_use_PrivateKey(c.client.get(), c.own.key.get());
            BOOST_TEST(!c.resumes());
        }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace proofs
