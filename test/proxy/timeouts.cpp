#include "local_proxy.hpp"

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <string>
#include <system_error>

using namespace std::chrono_literals;
using support::get;
using support::local_proxy;
using support::ok;
using support::reply;
using support::status_of;

namespace {

// Each time limit ends on time, or at most a round of the watchdog later.
constexpr auto one_round = net::watchdog::round;

std::string const timed = R"(
[timeouts]
header = "10s"
body = "30s"
idle = "75s"
upstream = "60s"
[clients]
min_body_rate = 0
)" + support::forwards;

struct timed_proxy {
    // Checks that the connection stays open for `d`. Then passes the time in which it must end.
    void stays_for(net::clock::duration d) {
        proxy.pass(d - 1ms);
        BOOST_TEST(client.look() == "");
        BOOST_TEST(!client.ended());
        proxy.pass(one_round + 1ms);
    }

    local_proxy proxy{timed};
    support::wire client = proxy.connect();
};

std::string const with_a_seat = timed + R"(limits = ["seats"]
[[limit]]
name = "seats"
rule = "1 seats"
queue = "patience 0s"
)";

// The upstream does not respond.
struct proxy_with_a_seat {
    proxy_with_a_seat() { proxy.upstream.answer = nullptr; }
    [[nodiscard]] auto in_use() const { return proxy.plan().limits.front()->stats().in_use; }

    local_proxy proxy{with_a_seat};
};

}  // namespace

BOOST_AUTO_TEST_SUITE(time_runs_out)

BOOST_FIXTURE_TEST_CASE(for_a_client_that_sends_nothing, timed_proxy) {
    stays_for(10s);
    BOOST_TEST(client.ended());
    BOOST_TEST(client.take() == "");
}

BOOST_FIXTURE_TEST_CASE(for_a_head_that_does_not_end, timed_proxy) {
    client.send("GET / HTTP/1.1\r\n");
    proxy.pass(5s);
    client.send("Host: test\r\n");
    stays_for(5s);  // since its first byte
    BOOST_TEST(status_of(client.take()) == 408u);
}

// It has not begun a request: there is nothing to answer.
BOOST_FIXTURE_TEST_CASE(for_an_empty_line_without_a_request, timed_proxy) {
    client.send("\r\n");
    stays_for(10s);
    BOOST_TEST(client.ended());
    BOOST_TEST(client.take() == "");
}

BOOST_FIXTURE_TEST_CASE(for_a_client_that_sends_no_other_request, timed_proxy) {
    BOOST_TEST(proxy.ask(client, get) == 200u);
    stays_for(75s);
    proxy.pass(one_round);  // the connection may count as idle only after this time
    BOOST_TEST(client.ended());
}

BOOST_FIXTURE_TEST_CASE(for_each_part_of_a_body, timed_proxy) {
    client.send("POST / HTTP/1.1\r\nHost: test\r\nContent-Length: 3\r\n\r\n1");
    proxy.pass(29s);
    client.send("2");
    stays_for(30s);
    BOOST_TEST(status_of(client.take()) == 408u);
    BOOST_TEST(proxy.upstream.requests.empty());
}

BOOST_FIXTURE_TEST_CASE(for_a_response, timed_proxy) {
    proxy.upstream.answer = nullptr;
    client.send(get);
    proxy.settle();
    stays_for(60s);
    BOOST_TEST(status_of(client.take()) == 504u);
    BOOST_TEST(proxy.upstream.open() == 0u);
    // The client's connection continues.
    proxy.upstream.connections.clear();
    proxy.upstream.answer = [](std::string const&) { return ok(); };
    BOOST_TEST(proxy.ask(client, get) == 200u);
}

// The upstream may still work on that request.
BOOST_FIXTURE_TEST_CASE(for_a_response_and_its_seat_is_free, proxy_with_a_seat) {
    auto client = proxy.connect();
    BOOST_TEST(proxy.ask(client, get) == 0u);
    proxy.pass(60s + one_round);
    BOOST_TEST(status_of(client.take()) == 504u);
    BOOST_TEST(in_use() == 0);
    proxy.upstream.connections.clear();
    proxy.upstream.answer = [](std::string const&) { return ok(); };
    BOOST_TEST(proxy.ask() == 200u);
}

// The limit applies to each part separately.
BOOST_FIXTURE_TEST_CASE(for_each_part_of_a_response, timed_proxy) {
    proxy.upstream.answer = [](std::string const&) {
        return reply{"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n1"};
    };
    BOOST_TEST(proxy.ask(client, get) == 200u);
    proxy.pass(59s);
    proxy.upstream.connections.front().send("2");
    proxy.settle();
    BOOST_TEST(client.take() == "2");
    stays_for(60s);
    BOOST_TEST(client.ended());
}

// The head is one part, so that single bytes do not extend the time.
BOOST_FIXTURE_TEST_CASE(for_the_head_of_a_response, timed_proxy) {
    proxy.upstream.answer = [](std::string const&) { return reply{"HTTP/1.1 2"}; };
    client.send(get);
    proxy.settle();
    for (char const* const piece : {"0", "0", " "}) {
        proxy.pass(15s);
        proxy.upstream.connections.front().send(piece);
    }
    proxy.settle();
    BOOST_TEST(client.look() == "");
    stays_for(15s);
    BOOST_TEST(status_of(client.take()) == 504u);
}

// A slow client does not use up the time of the upstream.
BOOST_FIXTURE_TEST_CASE(for_a_response_after_the_request_was_sent, timed_proxy) {
    client.send("POST / HTTP/1.1\r\nHost: test\r\nContent-Length: 7\r\n\r\n1");
    proxy.upstream.answer = nullptr;
    for (char const* const piece : {"2", "3", "4", "5", "6", "7"}) {
        proxy.pass(29s);
        client.send(piece);
    }
    proxy.settle();
    stays_for(60s);
    BOOST_TEST(status_of(client.take()) == 504u);
}

BOOST_AUTO_TEST_CASE(for_a_route_by_its_own_time) {
    local_proxy proxy(timed + "upstream_timeout = \"2s\"\n");
    proxy.upstream.answer = nullptr;
    auto client = proxy.connect();
    client.send(get);
    proxy.pass(1999ms);
    BOOST_TEST(client.look() == "");
    proxy.pass(one_round + 1ms);
    BOOST_TEST(status_of(client.take()) == 504u);
}

BOOST_AUTO_TEST_SUITE_END()

// If the proxy closed the connection immediately, a client that still sends would lose the response.
BOOST_AUTO_TEST_SUITE(a_client_that_still_sends_after_the_last_response)

namespace {

struct unwanted {
    unwanted() {
        client.send("POST /none HTTP/1.1\r\nHost: test\r\nContent-Length: 1000000\r\n\r\n");
        proxy.settle();
        BOOST_TEST(status_of(client.take()) == 404u);
        BOOST_TEST(client.ended());
    }
    // Sends one byte. Returns whether the connection is still open.
    bool is_listened_to() {
        try {
            client.send("x");
        } catch (std::system_error const&) {
            return false;
        }
        proxy.settle();
        return true;
    }

    local_proxy proxy{timed + "path = \"/some\"\n"};
    support::wire client = proxy.connect();
};

}  // namespace

BOOST_FIXTURE_TEST_CASE(is_read_until_it_is_silent_for_5_s, unwanted) {
    proxy.pass(4900ms);
    BOOST_TEST(is_listened_to());
    proxy.pass(4900ms);
    BOOST_TEST(is_listened_to());
    proxy.pass(5s + one_round);
    BOOST_TEST(!is_listened_to());
}

BOOST_FIXTURE_TEST_CASE(is_read_for_at_most_30_s, unwanted) {
    for (int second = 1; second != 30; ++second) {
        proxy.pass(1s);
        BOOST_TEST(is_listened_to());
    }
    proxy.pass(1s);
    is_listened_to();  // the proxy reads this byte, then closes the connection
    BOOST_TEST(!is_listened_to());
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(a_client_that_disconnects)

// The proxy ends its side of the connection to the upstream, and frees the seat when the upstream ends its own.
BOOST_FIXTURE_TEST_CASE(leaves_its_seat_to_the_upstream, proxy_with_a_seat) {
    for (bool const ends : {true, false}) {
        BOOST_TEST_CONTEXT("the upstream ends the connection: " << ends) {
            auto client = proxy.connect();
            BOOST_TEST(proxy.ask(client, get) == 0u);
            proxy.pass(1s);  // it is noticed at any time
            client.close();
            proxy.pass(one_round);
            auto& connection = proxy.upstream.connections.back();
            BOOST_TEST(connection.ended());
            BOOST_TEST(in_use() == 1);
            if (ends) {
                connection.close();
                proxy.settle();
            } else {
                proxy.pass(59s - 2 * one_round);
                BOOST_TEST(in_use() == 1);
                proxy.pass(1s + 3 * one_round);
            }
            BOOST_TEST(in_use() == 0);
        }
    }
}

BOOST_FIXTURE_TEST_CASE(frees_its_seat_immediately_if_configured, proxy_with_a_seat) {
    std::string const key = "min_body_rate = 0\n";
    auto changed = with_a_seat;
    changed.replace(changed.find(key), key.size(), "abort_on_hang_up = true\n");
    proxy.reload(changed);
    auto client = proxy.connect();
    BOOST_TEST(proxy.ask(client, get) == 0u);
    client.close();
    proxy.pass(3 * net::watchdog::round);
    BOOST_TEST(proxy.upstream.open() == 0u);
    BOOST_TEST(in_use() == 0);
}

BOOST_AUTO_TEST_CASE(is_noticed_unless_it_may_still_read) {
    for (bool const aborts : {false, true}) {
        BOOST_TEST_CONTEXT("abort_on_hang_up: " << aborts) {
            local_proxy proxy(support::forwards +
                              "[clients]\nabort_on_hang_up = " + (aborts ? "true\n" : "false\n"));
            proxy.upstream.answer = nullptr;
            auto client = proxy.connect();
            BOOST_TEST(proxy.ask(client, get) == 0u);
            client.end();
            proxy.pass(3 * net::watchdog::round);
            BOOST_TEST(proxy.upstream.open() == (aborts ? 0u : 1u));
            if (!aborts) {
                proxy.upstream.connections.front().send(ok().text);
                proxy.settle();
                BOOST_TEST(status_of(client.take()) == 200u);
            }
        }
    }
}

BOOST_AUTO_TEST_SUITE_END()
