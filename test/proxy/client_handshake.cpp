#include "proxy/client_handshake.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>
#include <boost/test/unit_test.hpp>

#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <optional>
#include <string_view>

using namespace std::chrono_literals;

// Files of this folder are compiled together.
namespace first_bytes {
namespace {

// A client, and the proxy that waits for its first byte.
struct client_of_tls {
    client_of_tls() {
        BOOST_REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()) == 0);
        taker = ::dup(ends[0]);
        client.emplace(net::stream_socket(context, net::stream(AF_UNIX, 0), ends[0]), dog);
    }
    ~client_of_tls() {
        leave();
        ::close(taker);
    }

    void wait() {
        auto const waits = [](client_of_tls& self) -> net::task<> {
            self.first = co_await proxy::first_byte_of(*self.client, 1h);
            self.is_over = true;
        };
        boost::asio::co_spawn(context, waits(*this), boost::asio::detached);
        context.poll();
    }
    void send(std::string_view text) const {
        BOOST_REQUIRE(::send(ends[1], text.data(), text.size(), 0) ==
                      static_cast<int>(text.size()));
    }
    void leave() noexcept {
        if (ends[1] >= 0)
            ::close(ends[1]);
        ends[1] = -1;
    }
    // Takes a byte away from the proxy.
    void take() const {
        char byte;
        BOOST_REQUIRE(::recv(taker, &byte, 1, MSG_DONTWAIT) == 1);
    }

    boost::asio::io_context context;
    net::watchdog dog{context};
    std::array<int, 2> ends{};
    int taker = -1;
    std::optional<net::connection> client;
    std::optional<char> first;
    bool is_over = false;
};

}  // namespace

BOOST_AUTO_TEST_SUITE(the_first_byte_of_a_client)

BOOST_FIXTURE_TEST_CASE(stays_unread, client_of_tls) {
    send("ab");
    wait();
    BOOST_TEST((first == 'a'));
    take();
    take();
}

BOOST_FIXTURE_TEST_CASE(may_come_later, client_of_tls) {
    wait();
    BOOST_TEST(!is_over);
    send("x");
    context.poll();
    BOOST_TEST((first == 'x'));
}

// The thread may find the socket readable before a wakeup for which there is no byte.
BOOST_FIXTURE_TEST_CASE(may_come_after_a_wakeup_without_a_byte, client_of_tls) {
    wait();
    send("x");
    boost::asio::post(context, [&] { take(); });  // runs between the event and its handler
    context.poll();
    BOOST_TEST(!is_over);
    send("y");
    context.poll();
    BOOST_TEST((first == 'y'));
}

BOOST_FIXTURE_TEST_CASE(is_missing_if_the_client_leaves, client_of_tls) {
    wait();
    leave();
    context.poll();
    BOOST_TEST(is_over);
    BOOST_TEST(!first);
}

BOOST_FIXTURE_TEST_CASE(is_missing_if_the_proxy_stops, client_of_tls) {
    wait();
    dog.stop_if_idle();
    context.poll();
    BOOST_TEST(is_over);
    BOOST_TEST(!first);
}

BOOST_FIXTURE_TEST_CASE(counts_if_it_arrived_before_the_proxy_stops, client_of_tls) {
    wait();
    send("x");
    dog.stop_if_idle();
    context.poll();
    BOOST_TEST((first == 'x'));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace first_bytes
