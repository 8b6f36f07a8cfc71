#include "local_proxy.hpp"

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <string>
#include <string_view>

// Files of this folder are compiled together.
namespace bodies_of_requests {
namespace {

using namespace std::chrono_literals;
using support::get;
using support::local_proxy;
using support::status_of;

constexpr auto too_late =
    2 * net::watchdog::round;  // the watchdog notices a limit at most this late

// One seat with this queue, and a route with these members.
std::string one_seat(std::string_view members, std::string_view tables, std::string_view queue) {
    return std::string(tables) + support::forwards + R"(limits = ["seats"]
)" + std::string(members) +
           R"(
[[limit]]
name = "seats"
rule = "1 seats"
queue = ")" +
           std::string(queue) + "\"\n";
}

std::string head(std::string_view fields) {
    return "POST /target HTTP/1.1\r\nHost: test\r\n" + std::string(fields) + "\r\n";
}

struct seat_proxy {
    explicit seat_proxy(std::string_view members = "", std::string_view tables = "",
                        std::string_view queue = "patience 0s")
        : proxy(one_seat(members, tables, queue)) {}

    [[nodiscard]] auto in_use() const { return proxy.plan().limits.front()->stats().in_use; }
    [[nodiscard]] auto granted() const { return proxy.plan().limits.front()->stats().granted; }
    unsigned ask(std::string_view text) { return proxy.ask(client, text); }

    local_proxy proxy;
    support::wire client = proxy.connect();
};

}  // namespace

BOOST_AUTO_TEST_SUITE(a_body)

BOOST_FIXTURE_TEST_CASE(that_is_short_is_read_before_its_request_asks_for_a_seat, seat_proxy) {
    BOOST_TEST(ask(head("Content-Length: 3\r\n") + "1") == 0u);
    BOOST_TEST(in_use() == 0);
    BOOST_TEST(proxy.ask() == 200u);
    proxy.pass(10s);
    BOOST_TEST(ask("2") == 0u);
    BOOST_TEST(in_use() == 0);
    BOOST_TEST(ask("3") == 200u);
    BOOST_REQUIRE(proxy.upstream.requests.size() == 2u);
    auto const& request = proxy.upstream.requests.back();
    BOOST_TEST(request.starts_with("POST /target HTTP/1.1\r\n"), request);
    BOOST_TEST(request.ends_with("\r\n\r\n123"), request);
    BOOST_TEST(ask(get) == 200u);  // the connection continues
}

// The bytes behind a chunked body are the next request.
BOOST_FIXTURE_TEST_CASE(that_is_chunked_ends_where_it_ends, seat_proxy) {
    BOOST_TEST(ask(head("Transfer-Encoding: chunked\r\n")) == 0u);
    BOOST_TEST(ask("3\r\nabc\r\n2\r") == 0u);
    BOOST_TEST(in_use() == 0);
    client.send("\nde\r\n0\r\n\r\nGET /next HTTP/1.1\r\nHost: test\r\n\r\n");
    proxy.settle();
    BOOST_REQUIRE(proxy.upstream.requests.size() == 2u);
    BOOST_TEST(proxy.upstream.requests[0].ends_with("\r\n\r\n5\r\nabcde\r\n0\r\n\r\n"),
               proxy.upstream.requests[0]);
    BOOST_TEST(proxy.upstream.requests[1].starts_with("GET /next "));
}

BOOST_AUTO_TEST_CASE(that_is_longer_than_the_buffer_asks_for_a_seat_when_that_is_full) {
    seat_proxy p("body_buffer = 4");
    BOOST_TEST(p.ask(head("Content-Length: 10\r\n") + "123") == 0u);
    BOOST_TEST(p.in_use() == 0);
    BOOST_TEST(p.ask("4") == 0u);
    BOOST_TEST(p.in_use() == 1);
    BOOST_TEST(p.proxy.ask() == 503u);
    BOOST_TEST(p.ask("567890") == 200u);
    BOOST_TEST(p.proxy.upstream.requests.back().ends_with("\r\n\r\n1234567890"));
}

BOOST_AUTO_TEST_CASE(is_not_read_before_if_there_is_no_buffer) {
    seat_proxy p("body_buffer = 0");
    BOOST_TEST(p.ask(head("Content-Length: 3\r\n") + "1") == 0u);
    BOOST_TEST(p.in_use() == 1);
}

BOOST_FIXTURE_TEST_CASE(for_which_its_client_waits_is_asked_for_before_a_seat, seat_proxy) {
    client.send(head("Content-Length: 3\r\nExpect: 100-continue\r\n"));
    proxy.settle();
    BOOST_TEST(client.take() == "HTTP/1.1 100 Continue\r\n\r\n");
    BOOST_TEST(in_use() == 0);
    client.send("123");
    proxy.settle();
    auto const answer = client.take();
    BOOST_TEST(answer.starts_with("HTTP/1.1 200 "), answer);
}

BOOST_FIXTURE_TEST_CASE(that_is_incomplete_or_malformed_takes_no_seat, seat_proxy) {
    BOOST_TEST(ask(head("Transfer-Encoding: chunked\r\n") + "3\r\nab") == 0u);
    BOOST_TEST(ask("cde") == 400u);
    auto other = proxy.connect();
    BOOST_TEST(proxy.ask(other, head("Content-Length: 3\r\n") + "1") == 0u);
    other.end();
    proxy.settle();
    BOOST_TEST(status_of(other.take()) == 400u);
    auto slow = proxy.connect();
    BOOST_TEST(proxy.ask(slow, head("Content-Length: 3\r\n") + "1") == 0u);
    proxy.pass(30s + too_late);
    BOOST_TEST(status_of(slow.take()) == 408u);
    BOOST_TEST(granted() == 0u);
    BOOST_TEST(proxy.upstream.requests.empty());
}

// ---- Time

// A client that sends `n` bytes each second; returns the seconds after which it gets a response.
int seconds_until_response(seat_proxy& p, std::size_t n, int most, std::size_t at_once = 0) {
    BOOST_TEST(p.ask(head("Content-Length: 1000000\r\n") + std::string(at_once, 'x')) == 0u);
    for (int second = 1; second <= most; ++second) {
        p.proxy.pass(1s);
        p.client.send(std::string(n, 'x'));
        p.proxy.settle();
        if (status_of(p.client.look()) != 0) {
            BOOST_TEST(status_of(p.client.take()) == 408u);
            return second;
        }
    }
    return most;
}

BOOST_AUTO_TEST_CASE(that_is_slower_than_the_least_rate_ends_and_frees_its_seat) {
    seat_proxy p("body_buffer = 4", "[timeouts]\nbody = \"10s\"\n[clients]\nmin_body_rate = 100\n");
    // 50 bytes at the end of each second: after t seconds, 10 s and the time of 50 (t - 1) bytes at 100 bytes/s are over:
    // t = 10 + (t - 1) / 2.
    auto const seconds = seconds_until_response(p, 50, 100);
    BOOST_TEST(seconds >= 19);
    BOOST_TEST(seconds <= 20);
    BOOST_TEST(p.in_use() == 0);
}

// A client sends more than `body_buffer` at once, and then holds a seat with a byte now and then.
BOOST_AUTO_TEST_CASE(that_began_fast_may_not_be_slow_later) {
    seat_proxy p("body_buffer = 4", "[timeouts]\nbody = \"10s\"\n[clients]\nmin_body_rate = 100\n");
    auto const seconds = seconds_until_response(p, 50, 100, 100'000);
    BOOST_TEST(seconds >= 19);
    BOOST_TEST(seconds <= 20);
    BOOST_TEST(p.in_use() == 0);
}

BOOST_AUTO_TEST_CASE(that_is_as_fast_as_the_least_rate_goes_on) {
    seat_proxy p("body_buffer = 4", "[timeouts]\nbody = \"10s\"\n[clients]\nmin_body_rate = 100\n");
    BOOST_TEST(seconds_until_response(p, 100, 100) == 100);
    BOOST_TEST(p.in_use() == 1);
}

BOOST_AUTO_TEST_CASE(has_any_rate_without_a_least_one) {
    seat_proxy p("body_buffer = 4", "[timeouts]\nbody = \"10s\"\n[clients]\nmin_body_rate = 0\n");
    BOOST_TEST(seconds_until_response(p, 1, 100) == 100);
}

BOOST_AUTO_TEST_CASE(has_a_time_limit_as_a_whole) {
    for (auto const* const buffer : {"body_buffer = 4", "body_buffer = 1000000"}) {
        seat_proxy p(buffer, "[timeouts]\nbody = \"10s\"\nwhole_body = \"15s\"\n");
        auto const seconds = seconds_until_response(p, 5000, 100);
        BOOST_TEST(seconds >= 15);
        BOOST_TEST(seconds <= 16);
    }
}

// The client does not answer for the time in which the upstream does not read.
BOOST_AUTO_TEST_CASE(waits_for_the_upstream_without_a_loss_of_time) {
    seat_proxy p("body_buffer = 0",
                 "[timeouts]\nbody = \"10s\"\nwhole_body = \"15s\"\nupstream = \"60s\"\n");
    p.proxy.upstream.answer = [](std::string const&) { return std::nullopt; };
    BOOST_TEST(p.ask(head("Content-Length: 3\r\n") + "123") == 0u);
    p.proxy.pass(50s);
    p.proxy.upstream.connections.front().send(support::ok().text);
    p.proxy.settle();
    BOOST_TEST(status_of(p.client.take()) == 200u);
}

// ---- Rates

// One seat, and a rate with this rule and queue. The first request uses up the permit of the rate.
struct rate_and_seat {
    explicit rate_and_seat(std::string const& rule, std::string const& queue,
                           std::string const& members = "")
        : proxy(support::forwards + R"(limits = ["seats", "rate"]
[[limit]]
name = "seats"
rule = "1 seats"
queue = "patience 60s"
[[limit]]
name = "rate"
rule = ")" + rule +
                "\"\nqueue = \"" + queue + "\"\n" + members) {
        BOOST_TEST(proxy.ask() == 200u);
    }

    [[nodiscard]] auto stats(std::size_t limit) const {
        return proxy.plan().limits[limit]->stats();
    }
    // The answer to the head of a request whose body does not arrive.
    std::string answer_to_head(std::string_view fields = "") {
        client.send(head("Content-Length: 3\r\n" + std::string(fields)));
        proxy.settle();
        return client.take();
    }

    local_proxy proxy;
    support::wire client = proxy.connect();
};

BOOST_AUTO_TEST_CASE(of_a_request_above_its_rate_is_not_waited_for) {
    for (auto const* const queue : {"patience 0s", "patience 5s", "max_waiting 0 patience 20s"}) {
        rate_and_seat p("1/10s", queue);
        auto const answer = p.answer_to_head();
        BOOST_TEST(status_of(answer) == 429u, queue);
        BOOST_TEST(support::field_of(answer, "Retry-After") == "10");
        BOOST_TEST(!support::field_of(answer, "RateLimit").empty());
        auto const rate = p.stats(1);
        BOOST_TEST(rate.deadline_unreachable == 1u);
        BOOST_TEST(rate.granted == 1u);
        BOOST_TEST(p.stats(0).granted == 1u);
        // The connection continues behind the body.
        p.client.send("123");
        p.proxy.pass(10s);
        BOOST_TEST(p.proxy.ask(p.client, get) == 200u);
    }
}

BOOST_AUTO_TEST_CASE(of_a_request_above_its_rate_is_not_asked_for) {
    rate_and_seat p("1/10s", "patience 5s");
    auto const answer = p.answer_to_head("Expect: 100-continue\r\n");
    BOOST_TEST(answer.starts_with("HTTP/1.1 429 "), answer);
}

BOOST_AUTO_TEST_CASE(is_read_first_if_the_rate_grants_its_request_in_time) {
    rate_and_seat p("1/10s", "patience 10s");
    BOOST_TEST(p.answer_to_head() == "");
    BOOST_TEST(p.stats(1).waiting == 0u);
    BOOST_TEST(p.stats(1).granted == 1u);
    BOOST_TEST(p.proxy.ask(p.client, "123") == 0u);
    BOOST_TEST(p.stats(1).waiting == 1u);
    p.proxy.pass(10s);
    BOOST_TEST(status_of(p.client.take()) == 200u);
    BOOST_TEST(p.stats(1).granted == 2u);
}

BOOST_AUTO_TEST_CASE(is_read_first_whatever_is_free_of_its_rate) {
    rate_and_seat p("2/10s", "patience 0s");
    BOOST_TEST(p.answer_to_head() == "");
    auto const rate = p.stats(1);
    BOOST_TEST(rate.granted == 1u);
    BOOST_TEST(rate.remaining == 1);
    BOOST_TEST(rate.cancelled == 0u);
    BOOST_TEST(p.proxy.ask(p.client, "123") == 200u);
}

// Requests that already wait for the rate count.
BOOST_AUTO_TEST_CASE(of_a_request_behind_too_many_others_is_not_waited_for) {
    rate_and_seat p("1/10s", "patience 15s");
    auto first = p.proxy.connect();
    BOOST_TEST(p.proxy.ask(first, get) == 0u);
    BOOST_TEST(status_of(p.answer_to_head()) == 429u);
}

BOOST_AUTO_TEST_CASE(is_read_first_if_its_request_is_not_limited) {
    for (auto const* const how :
         {"dry_run = true\n", "key = \"client\"\noverrides = { \"10.0.0.1\" = \"unlimited\" }\n"}) {
        rate_and_seat p("1/10s", "patience 0s", how);
        BOOST_TEST(p.answer_to_head() == "");
        BOOST_TEST(p.proxy.ask(p.client, "123") == 200u);
    }
}

BOOST_AUTO_TEST_CASE(of_a_client_above_its_rate_is_not_waited_for) {
    rate_and_seat p("1/10s", "patience 0s", "key = \"client\"\n");
    auto other = p.proxy.connect("10.0.0.2");
    BOOST_TEST(p.proxy.ask(other, head("Content-Length: 3\r\n")) == 0u);
    BOOST_TEST(status_of(p.answer_to_head()) == 429u);
    BOOST_TEST(p.proxy.ask(other, "123") == 200u);
}

// ---- Others that wait for the seat

// A client whose slow body holds the seat.
struct contended : seat_proxy {
    explicit contended(std::string const& clients = "", std::string const& queue = "patience 100s")
        : seat_proxy("body_buffer = 4", "[clients]\nmin_body_rate = 0\n" + clients, queue) {
        BOOST_TEST(ask(head("Content-Length: 1000000\r\n") + std::string(1000, 'x')) == 0u);
        BOOST_TEST(in_use() == 1);
    }
    void send_for(int seconds, std::size_t n) {
        for (int second = 0; second != seconds && status_of(client.look()) == 0; ++second) {
            proxy.pass(1s);
            client.send(std::string(n, 'x'));
            proxy.settle();
        }
    }
    // Another client, whose request waits.
    support::wire wait_for_the_seat(std::string const& from = "10.0.0.2") {
        auto other = proxy.connect(from);
        BOOST_TEST(proxy.ask(other, get) == 0u);
        return other;
    }
};

BOOST_AUTO_TEST_CASE(that_delays_others_ends_and_frees_its_seat) {
    contended p;
    p.send_for(100, 600);
    BOOST_TEST(p.client.look() == "");
    auto other = p.wait_for_the_seat();
    p.send_for(4, 600);
    BOOST_TEST(p.client.look() == "");
    p.send_for(4, 600);
    BOOST_TEST(status_of(p.client.take()) == 408u);
    p.proxy.settle();
    BOOST_TEST(status_of(other.take()) == 200u);
}

BOOST_AUTO_TEST_CASE(of_which_nothing_arrives_ends_if_it_delays_others) {
    contended p;
    p.proxy.pass(20s);
    auto other = p.wait_for_the_seat();
    p.proxy.pass(4s);
    BOOST_TEST(p.client.look() == "");
    p.proxy.pass(4s);
    BOOST_TEST(status_of(p.client.take()) == 408u);
    BOOST_TEST(status_of(other.take()) == 200u);
}

BOOST_AUTO_TEST_CASE(that_is_fast_enough_may_delay_others) {
    contended p;
    auto other = p.wait_for_the_seat();
    p.send_for(60, 10'000);
    BOOST_TEST(p.client.look() == "");
    BOOST_TEST(p.in_use() == 1);
}

BOOST_AUTO_TEST_CASE(that_was_fast_may_not_delay_others_later) {
    contended p;
    auto other = p.wait_for_the_seat();
    p.send_for(10, 50'000);
    p.send_for(8, 600);
    BOOST_TEST(status_of(p.client.take()) == 408u);
}

BOOST_AUTO_TEST_CASE(may_delay_others_without_a_contended_rate) {
    contended p("contended_body_rate = 0\n");
    auto other = p.wait_for_the_seat();
    p.send_for(60, 1);
    BOOST_TEST(p.client.look() == "");
}

// Only the time in which others wait counts.
BOOST_AUTO_TEST_CASE(that_delayed_others_for_a_short_time_goes_on) {
    contended p;
    for (int round = 0; round != 3; ++round) {
        auto once = p.wait_for_the_seat();
        p.proxy.pass(100ms);
        once.close();
        p.send_for(20, 600);
    }
    BOOST_TEST(p.client.look() == "");
}

BOOST_AUTO_TEST_CASE(delays_others_also_if_they_do_not_wait) {
    contended p("", "max_waiting 0");
    for (int second = 0; second != 8; ++second) {
        p.send_for(1, 600);
        static_cast<void>(p.proxy.ask("10.0.0.3"));
    }
    BOOST_TEST(status_of(p.client.take()) == 408u);
    BOOST_TEST(p.proxy.ask("10.0.0.3") == 200u);
}

// A client that has its seat for itself delays only itself.
BOOST_AUTO_TEST_CASE(may_delay_the_requests_of_its_own_client) {
    contended p("", "patience 100s\"\nkey = \"client");
    auto const own = p.wait_for_the_seat("10.0.0.1");
    p.send_for(60, 600);
    BOOST_TEST(p.client.look() == "");
}

// ---- Size

BOOST_AUTO_TEST_CASE(that_is_too_large_gets_413_without_a_permit) {
    for (auto const* const buffer : {"", "body_buffer = 0\n"}) {
        seat_proxy p(std::string(buffer) + "body_limit = 5");
        BOOST_TEST(p.ask(head("Content-Length: 6\r\n")) == 413u);
        BOOST_TEST(p.granted() == 0u);
        auto other = p.proxy.connect();
        BOOST_TEST(p.proxy.ask(other, head("Content-Length: 5\r\n") + "12345") == 200u);
        auto chunked = p.proxy.connect();
        BOOST_TEST(p.proxy.ask(chunked, head("Transfer-Encoding: chunked\r\n") +
                                            "6\r\n123456\r\n0\r\n\r\n") == 413u);
        auto in_parts = p.proxy.connect();
        BOOST_TEST(p.proxy.ask(in_parts, head("Transfer-Encoding: chunked\r\n") + "3\r\n123\r\n") ==
                   0u);
        BOOST_TEST(p.proxy.ask(in_parts, "3\r\n456\r\n") == 413u);
        BOOST_TEST(p.in_use() == 0);
        BOOST_TEST(p.proxy.upstream.requests.size() == 1u);
    }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace bodies_of_requests
