#include "tls/flight.hpp"

#include "net/asio.hpp"
#include "tls/openssl.hpp"

#include <boost/asio/error.hpp>
#include <boost/test/unit_test.hpp>

#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstddef>
#include <string>
#include <vector>

BOOST_AUTO_TEST_SUITE(a_flight)

namespace {

// A server's end of TLS, and the other end of its socket, which receives each system call as one message.
struct server_side {
    server_side() {
        BOOST_REQUIRE(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, ends.data()) == 0);
        flight.begin(ssl.get(), ends[0]);
    }
    ~server_side() {
        ssl.reset();
        ::close(ends[0]);
        leave();
    }
    void leave() {
        if (ends[1] >= 0)
            ::close(ends[1]);
        ends[1] = -1;
    }

    // As OpenSSL writes and reads.
    void write(std::string const& text) const {
        BOOST_TEST(BIO_write(bio(), text.data(), static_cast<int>(text.size())) ==
                   static_cast<int>(text.size()));
        BOOST_TEST(BIO_flush(bio()) == 1);
    }
    [[nodiscard]] std::string read() const {
        std::array<char, 64> room;
        auto const n = BIO_read(bio(), room.data(), room.size());
        BOOST_TEST((n > 0 || BIO_should_read(bio())));
        return n > 0 ? std::string(room.data(), static_cast<std::size_t>(n)) : std::string();
    }
    [[nodiscard]] BIO* bio() const { return SSL_get_wbio(ssl.get()); }

    void they_send(std::string const& text) const {
        BOOST_TEST(::send(ends[1], text.data(), text.size(), 0) ==
                   static_cast<ssize_t>(text.size()));
    }
    [[nodiscard]] std::vector<std::string> they_receive() const {
        std::vector<std::string> all;
        std::string room(1 << 20, ' ');
        for (ssize_t n; (n = ::recv(ends[1], room.data(), room.size(), MSG_DONTWAIT)) > 0;)
            all.push_back(room.substr(0, static_cast<std::size_t>(n)));
        return all;
    }

    std::array<int, 2> ends{};
    tls::flight flight;
    tls::context_ptr context{SSL_CTX_new(TLS_server_method())};
    tls::ssl_ptr ssl{SSL_new(context.get())};
};

using messages = std::vector<std::string>;

}  // namespace

BOOST_FIXTURE_TEST_CASE(is_sent_at_once, server_side) {
    write("hello ");
    write("certificate ");
    write("done");
    BOOST_TEST(they_receive().empty());
    BOOST_TEST(flight.send() == net::error_code());
    BOOST_TEST((they_receive() == messages{"hello certificate done"}));
    BOOST_TEST(flight.send() == net::error_code());  // there is nothing to send
    BOOST_TEST(they_receive().empty());
}

BOOST_FIXTURE_TEST_CASE(is_answered_only_when_it_was_sent, server_side) {
    they_send("hello");
    BOOST_TEST(read() == "hello");
    BOOST_TEST(read().empty());
    write("certificate");
    they_send("finished");
    BOOST_TEST(read().empty());
    BOOST_TEST(flight.send() == net::error_code());
    BOOST_TEST(read() == "finished");
}

BOOST_FIXTURE_TEST_CASE(ends_with_the_handshake, server_side) {
    write("finished");
    BOOST_TEST(flight.send() == net::error_code());
    flight.end();
    write("a response");
    write("another");
    BOOST_TEST((they_receive() == messages{"finished", "a response", "another"}));
    they_send("a request");
    BOOST_TEST(read() == "a request");
}

BOOST_FIXTURE_TEST_CASE(waits_for_the_socket, server_side) {
    std::string const filler(1000, 'x');
    while (::send(ends[0], filler.data(), filler.size(), 0) > 0) {}
    write("certificate");
    BOOST_TEST(flight.send() == boost::asio::error::would_block);
    BOOST_TEST(they_receive().back() == filler);
    BOOST_TEST(flight.send() == net::error_code());
    BOOST_TEST((they_receive() == messages{"certificate"}));
}

BOOST_FIXTURE_TEST_CASE(fails_if_the_other_side_left, server_side) {
    std::signal(SIGPIPE, SIG_IGN);
    write("certificate");
    leave();
    BOOST_TEST(flight.send() == boost::asio::error::broken_pipe);
}

BOOST_AUTO_TEST_SUITE_END()
