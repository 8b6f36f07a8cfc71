#include "local_proxy.hpp"

#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>

using namespace std::chrono_literals;
using support::local_proxy;
using support::local_upstream;
using support::ok;
using support::reply;

namespace {

std::string configuration(std::string const& health) {
    return R"(
[[upstream]]
name = "a"
servers = ["UPSTREAM"]
health = { )" +
           health + R"( }

[[route]]
upstream = "a"
)";
}

bool is_out(local_proxy& proxy, std::size_t server = 0) {
    return proxy.plan().upstreams.front()->state().servers[server].down;
}

reply status(int n) {
    return {"HTTP/1.1 " + std::to_string(n) + " X\r\nContent-Length: 0\r\n\r\n"};
}

// A server. The test decides the results of its checks.
struct checked {
    void next(bool good) {
        proxy.upstream.answer = [good](std::string const&) { return status(good ? 200 : 500); };
        proxy.pass(1s);
    }
    // Does a check for each letter, `g` for a good one and `b` for a bad one. Returns whether the server is down after
    // each.
    std::string after(std::string const& checks) {
        std::string states;
        for (char const c : checks) {
            next(c == 'g');
            states += is_out(proxy) ? 'x' : '.';
        }
        return states;
    }

    local_proxy proxy{configuration(R"(path = "/", every = "1s", fall = 3, rise = 2)")};
};

}  // namespace

BOOST_AUTO_TEST_SUITE(health)

namespace data = boost::unit_test::data;

BOOST_DATA_TEST_CASE(is_2xx_and_3xx,
                     data::make({200, 204, 299, 300, 302, 304, 399, 400, 404, 499, 500, 503, 599}),
                     n) {
    local_proxy proxy(configuration(R"(path = "/up", every = "1s", fall = 1, rise = 1)"));
    proxy.upstream.answer = [n](std::string const&) { return status(n); };
    proxy.check_health();
    proxy.settle();
    BOOST_TEST(is_out(proxy) == (n >= 400));
    BOOST_REQUIRE(proxy.upstream.requests.size() == 1u);
    BOOST_TEST(proxy.upstream.requests[0].starts_with("GET /up HTTP/1.1\r\n"));
}

BOOST_AUTO_TEST_CASE(is_an_http_response) {
    for (std::string const text :
         {"SSH-2.0-OpenSSH_9.2", "HTTP/2.0 200 OK\r\n\r\n", "HTTP/1.1 2", ""}) {
        BOOST_TEST_CONTEXT(text) {
            local_proxy proxy(configuration(R"(path = "/", every = "1s", fall = 1)"));
            proxy.upstream.answer = [&](std::string const&) { return reply{text, true}; };
            proxy.check_health();
            proxy.settle();
            BOOST_TEST(is_out(proxy));
        }
    }
}

BOOST_AUTO_TEST_CASE(without_a_path_is_a_connection) {
    local_proxy proxy(configuration(R"(every = "1s", fall = 1, rise = 1)"));
    proxy.upstream.answer = nullptr;
    proxy.check_health();
    proxy.settle();
    BOOST_TEST(!is_out(proxy));
    BOOST_TEST(proxy.upstream.connections.size() == 1u);
    BOOST_TEST(proxy.upstream.open() == 0u);
    proxy.upstream.stop();
    proxy.pass(1s);
    BOOST_TEST(is_out(proxy));
}

// `timeout` covers the connection and the response together.
BOOST_AUTO_TEST_CASE(is_a_response_in_time) {
    local_proxy proxy(configuration(R"(path = "/", every = "1s", timeout = "500ms", fall = 1)"));
    proxy.upstream.answer = [](std::string const&) { return std::nullopt; };
    proxy.check_health();
    proxy.pass(499ms);
    BOOST_TEST(!is_out(proxy));
    proxy.pass(200ms);
    BOOST_TEST(is_out(proxy));
}

BOOST_AUTO_TEST_CASE(is_checked_periodically) {
    local_proxy proxy(configuration(R"(path = "/", every = "2s")"));
    proxy.check_health();
    proxy.pass(9s);
    BOOST_TEST(proxy.upstream.requests.size() == 5u);  // after 0, 2, 4, 6 and 8 s
    proxy.reload(configuration(R"(path = "/", every = "1s")"));
    proxy.upstream.requests.clear();
    proxy.pass(3s);
    BOOST_TEST(proxy.upstream.requests.size() == 4u);
}

BOOST_FIXTURE_TEST_CASE(counts_failures_in_a_row, checked) {
    proxy.check_health();
    proxy.settle();
    BOOST_TEST(after("bbgbbgbb") == "........");
    BOOST_TEST(after("b") == "x");
}

BOOST_FIXTURE_TEST_CASE(counts_successes_in_a_row, checked) {
    proxy.check_health();
    proxy.settle();
    BOOST_TEST(after("bbb") == "..x");
    BOOST_TEST(after("gbgbg") == "xxxxx");
    BOOST_TEST(after("g") == ".");
    // Again the full number of failures is needed to be down.
    BOOST_TEST(after("bb") == "..");
    BOOST_TEST(after("b") == "x");
}

BOOST_FIXTURE_TEST_CASE(forgets_successes_after_a_failure, checked) {
    proxy.check_health();
    proxy.settle();
    BOOST_TEST(after("bbbg") == "..xx");
    BOOST_TEST(after("bbb") == "xxx");
    BOOST_TEST(after("g") == "x");
    BOOST_TEST(after("g") == ".");
}

// A failed connection attempt of a request counts as a failed check; a successful connection ends the series.
BOOST_AUTO_TEST_CASE(counts_requests) {
    local_proxy proxy(configuration(R"(every = "1h", fall = 3, rise = 2)"));
    auto& upstream = *proxy.plan().upstreams.front();
    auto& server = *upstream.servers().front();
    auto const note = [&](std::string const& reached) {
        for (char const c : reached)
            upstream.note(server, c == 'y');
        return is_out(proxy);
    };
    BOOST_TEST(!note("nnynnynn"));
    BOOST_TEST(note("n"));
    BOOST_TEST(note("yyyy"));  // only checks change it to up again
    upstream.note_check(server, true);
    BOOST_TEST(is_out(proxy));
    upstream.note_check(server, true);
    BOOST_TEST(!is_out(proxy));
    BOOST_TEST(server.state().connect_failures == 7u);
}

// Each outage needs new successes: the successes that ended the previous outage do not count.
BOOST_AUTO_TEST_CASE(takes_successes_of_one_outage_only) {
    local_proxy proxy(configuration(R"(every = "1h", fall = 3, rise = 2)"));
    auto& upstream = *proxy.plan().upstreams.front();
    auto& server = *upstream.servers().front();
    for (int outage = 0; outage != 3; ++outage) {
        for (int i = 0; i != 3; ++i) {
            BOOST_TEST(!is_out(proxy));
            upstream.note(server, false);  // and no check
        }
        BOOST_TEST(is_out(proxy));
        upstream.note_check(server, true);
        BOOST_TEST(is_out(proxy));
        upstream.note_check(server, true);
    }
    BOOST_TEST(!is_out(proxy));
}

BOOST_AUTO_TEST_CASE(of_requests_depends_on_the_connection_only) {
    local_proxy proxy(configuration(R"(every = "1h", fall = 2)"));
    proxy.upstream.answer = [](std::string const&) { return status(500); };
    for (int i = 0; i != 5; ++i)
        BOOST_TEST(proxy.ask() == 500u);
    BOOST_TEST(!is_out(proxy));
    proxy.upstream.stop();
    for (auto& one : proxy.upstream.connections)
        one.close();
    BOOST_TEST(proxy.ask() == 502u);
    BOOST_TEST(!is_out(proxy));
    BOOST_TEST(proxy.ask() == 502u);
    BOOST_TEST(is_out(proxy));
}

BOOST_AUTO_TEST_CASE(is_ignored_without_checks) {
    local_proxy proxy(R"(
[[upstream]]
name = "a"
servers = ["UPSTREAM"]

[[route]]
upstream = "a"
)");
    proxy.upstream.stop();
    for (int i = 0; i != 9; ++i)
        BOOST_TEST(proxy.ask() == 502u);
    BOOST_TEST(!is_out(proxy));
    BOOST_TEST(proxy.plan().upstreams.front()->servers().front()->state().connect_failures == 9u);
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(of_two_servers)

namespace {

std::string const two = R"(
[[upstream]]
name = "a"
servers = ["UPSTREAM", "OTHER"]
health = { path = "/", every = "1s", fall = 1, rise = 1 }

[[route]]
upstream = "a"
)";

reply good(std::string const&) {
    return ok();
}
reply bad(std::string const&) {
    return status(500);
}

struct both {
    both() {
        proxy.check_health();
        proxy.settle();
    }
    // The number of eight requests that each server gets.
    std::string shares() {
        proxy.upstream.requests.clear();
        proxy.other.requests.clear();
        for (int i = 0; i != 8; ++i)
            proxy.ask();
        return std::to_string(proxy.upstream.requests.size()) + " " +
               std::to_string(proxy.other.requests.size());
    }

    local_proxy proxy{two};
};

}  // namespace

BOOST_FIXTURE_TEST_CASE(only_servers_that_are_up_get_requests, both) {
    BOOST_TEST(shares() == "4 4");
    proxy.upstream.answer = bad;
    proxy.pass(1s);
    BOOST_TEST(shares() == "0 8");
    proxy.upstream.answer = good;
    proxy.pass(1s);
    BOOST_TEST(shares() == "4 4");
}

BOOST_FIXTURE_TEST_CASE(if_all_are_down_all_get_requests, both) {
    proxy.upstream.answer = bad;
    proxy.other.answer = bad;
    proxy.pass(1s);
    BOOST_TEST((is_out(proxy, 0) && is_out(proxy, 1)));
    BOOST_TEST(shares() == "4 4");
}

// A server keeps its health across a reload. Without checks no server is down.
BOOST_FIXTURE_TEST_CASE(a_reload_keeps_the_health, both) {
    proxy.upstream.answer = bad;
    proxy.pass(1s);
    auto changed = two;
    changed.replace(changed.find("fall = 1"), 8, "fall = 2");
    proxy.reload(changed);
    BOOST_TEST(is_out(proxy));
    changed.erase(changed.find("health"), changed.find("[[route]]") - changed.find("health"));
    proxy.reload(changed);
    BOOST_TEST(!is_out(proxy));
    BOOST_TEST(shares() == "4 4");
}

BOOST_AUTO_TEST_CASE(the_other_gets_the_request_if_one_is_not_reachable) {
    local_proxy proxy(two);
    proxy.upstream.stop();
    for (int i = 0; i != 4; ++i)
        BOOST_TEST(proxy.ask() == 200u);
    BOOST_TEST(proxy.other.requests.size() == 4u);
    proxy.other.stop();
    for (auto& one : proxy.other.connections)
        one.close();
    BOOST_TEST(proxy.ask() == 502u);
}

BOOST_AUTO_TEST_CASE(the_one_with_the_fewest_requests_gets_the_next) {
    local_proxy proxy(two);
    proxy.upstream.answer = nullptr;
    proxy.other.answer = nullptr;
    std::list<support::wire> clients;
    auto const hold = [&] {
        clients.push_back(proxy.connect());
        BOOST_TEST(proxy.ask(clients.back(), support::get) == 0u);
    };
    for (int i = 0; i != 6; ++i)
        hold();
    BOOST_TEST(proxy.upstream.connections.size() == 3u);
    BOOST_TEST(proxy.other.connections.size() == 3u);
    // One server responded to all its requests, so it gets the next ones.
    for (auto& one : proxy.other.connections)
        one.send(ok().text);
    proxy.settle();
    for (int i = 0; i != 3; ++i)
        hold();
    auto const asked = std::ranges::count_if(proxy.other.connections, [](auto& one) {
        return one.look().size() > support::get.size() * 2;
    });
    BOOST_TEST(proxy.upstream.connections.size() == 3u);
    BOOST_TEST((asked == 3 || proxy.other.connections.size() == 6u));
}

// The seats of a server that is down cannot be used.
BOOST_AUTO_TEST_CASE(only_servers_that_are_up_have_seats) {
    local_proxy proxy(R"(
[[upstream]]
name = "a"
health = { every = "1h", fall = 1, rise = 1 }
[[upstream.server]]
address = "UPSTREAM"
seats = 2
[[upstream.server]]
address = "OTHER"
seats = 3

[[route]]
upstream = "a"
)");
    auto& upstream = *proxy.plan().upstreams.front();
    auto const seats = [&] { return upstream.seats()->stats().capacity; };
    BOOST_TEST(seats() == 5);
    upstream.note_check(*upstream.servers()[0], false);
    BOOST_TEST(seats() == 3);
    upstream.note_check(*upstream.servers()[1], false);
    BOOST_TEST(seats() == 5);  // all are down, which counts as all up
    upstream.note_check(*upstream.servers()[0], true);
    BOOST_TEST(seats() == 2);
    upstream.note_check(*upstream.servers()[1], true);
    BOOST_TEST(seats() == 5);
}

BOOST_AUTO_TEST_SUITE_END()
