// The servers of an upstream: their seats, and the effect of a reload.

#include "local_proxy.hpp"

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <list>
#include <string>
#include <vector>

// Files of this folder are compiled together.
namespace servers_of_an_upstream {
namespace {

using namespace std::chrono_literals;
using support::field_of;
using support::get;
using support::local_proxy;
using support::status_of;

std::string server(std::string const& name, std::string const& more) {
    return "[[upstream.server]]\naddress = \"" + name + "\"\n" + more + "\n";
}
std::string upstream(std::string const& servers, std::string const& of_route = "") {
    return "[[upstream]]\nname = \"a\"\n" + servers + "[[route]]\nupstream = \"a\"\n" + of_route;
}

struct clients {
    explicit clients(local_proxy& p) : proxy(p) {
        proxy.upstream.answer = nullptr;
        proxy.other.answer = nullptr;
    }
    // The status that a new client gets immediately; 0 if it gets no response yet.
    unsigned ask() {
        all.push_back(proxy.connect());
        return proxy.ask(all.back(), get);
    }

    local_proxy& proxy;
    std::list<support::wire> all;
};

void answer_all(local_proxy& proxy) {
    for (auto* const one : {&proxy.upstream, &proxy.other})
        for (auto& connection : one->connections)
            if (!connection.ended() && !connection.take().empty())
                connection.send(support::ok().text);
    proxy.settle();
}

}  // namespace

BOOST_AUTO_TEST_SUITE(seats_of_servers)

BOOST_AUTO_TEST_CASE(are_separate_for_each_server) {
    // Independent of the server that gets the first request.
    for (int before = 0; before != 4; ++before) {
        local_proxy proxy(upstream(server("UPSTREAM", "seats = 2") + server("OTHER", "seats = 5")));
        for (int i = 0; i != before; ++i)
            BOOST_TEST(proxy.ask() == 200u);
        clients some(proxy);
        for (int i = 0; i != 8; ++i)
            BOOST_TEST(some.ask() == 0u);
        BOOST_TEST(proxy.upstream.open() == 2u);
        BOOST_TEST(proxy.other.open() == 5u);
        answer_all(proxy);
        answer_all(proxy);
        for (auto& one : some.all)
            BOOST_TEST(status_of(one.take()) == 200u);
    }
}

// Their sum is a limit, at which requests wait for a free seat.
BOOST_AUTO_TEST_CASE(let_requests_wait) {
    local_proxy proxy(upstream(server("UPSTREAM", "seats = 1")));
    clients some(proxy);
    for (int i = 0; i != 3; ++i)
        BOOST_TEST(some.ask() == 0u);
    for (auto& one : some.all) {
        answer_all(proxy);
        BOOST_TEST(status_of(one.take()) == 200u);
    }
    BOOST_TEST(some.ask() == 0u);
    BOOST_TEST(some.ask() == 0u);
    proxy.pass(1001ms);  // the default patience
    BOOST_TEST(status_of(some.all.back().take()) == 503u);
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(a_server_that_rejects_connections)

namespace {

std::string const two = upstream(server("UPSTREAM", "seats = 2") + server("OTHER", "seats = 2"));

struct one_dead : local_proxy {
    one_dead() : local_proxy(two) {
        other.stop();
        upstream.answer = nullptr;
    }
    [[nodiscard]] auto capacity() const {
        return plan().upstreams.front()->seats()->stats().capacity;
    }
};

}  // namespace

BOOST_FIXTURE_TEST_CASE(has_no_seats_for_a_moment, one_dead) {
    std::list<support::wire> clients;
    for (int i = 0; i != 2; ++i) {
        clients.push_back(connect());
        BOOST_TEST(ask(clients.back(), get) == 0u);
    }
    BOOST_TEST(upstream.open() == 2u);
    BOOST_TEST(capacity() == 2);
    pass(999ms);
    BOOST_TEST(capacity() == 2);
    pass(1ms);
    BOOST_TEST(capacity() == 4);
}

// They wait within their patience, although the rejected connection was for them.
BOOST_FIXTURE_TEST_CASE(delays_requests_until_another_server_has_a_seat, one_dead) {
    std::list<support::wire> clients;
    for (int i = 0; i != 12; ++i) {
        clients.push_back(connect());
        BOOST_TEST(ask(clients.back(), get) == 0u);
    }
    for (int i = 0; i != 6; ++i) {
        BOOST_TEST(upstream.open() <= 2u);
        answer_all(*this);
    }
    for (auto& one : clients)
        BOOST_TEST(status_of(one.take()) == 200u);
    BOOST_TEST(plan().upstreams.front()->seats()->stats().in_use == 0);
}

// The other server has no free seat at that moment.
BOOST_AUTO_TEST_CASE(delays_a_request_that_was_the_first_to_find_it) {
    local_proxy proxy(two);
    clients some(proxy);
    for (int i = 0; i != 4; ++i)
        BOOST_TEST(some.ask() == 0u);
    BOOST_TEST(proxy.upstream.open() == 2u);
    for (auto& connection : proxy.other.connections)
        connection.send(support::ok("", "Connection: close\r\n").text);
    proxy.settle();
    proxy.other.stop();
    BOOST_TEST(some.ask() == 0u);
    answer_all(proxy);
    answer_all(proxy);
    for (auto& one : some.all)
        BOOST_TEST(status_of(one.take()) == 200u);
}

BOOST_AUTO_TEST_CASE(is_not_waited_for_after_it_was_tried) {
    local_proxy proxy(two);
    auto const& all = *proxy.plan().upstreams.front();
    std::vector<proxy::upstream_server const*> tried{all.servers()[0].get()};
    BOOST_TEST(all.may_have_seats_later(tried));
    tried.push_back(all.servers()[1].get());
    BOOST_TEST(!all.may_have_seats_later(tried));
}

BOOST_AUTO_TEST_CASE(delays_no_request_beyond_its_patience) {
    local_proxy proxy(two + R"(limits = ["rate"]
[[limit]]
name = "rate"
rule = "99/1s"
queue = "patience 500ms"
)");
    proxy.other.stop();
    proxy.upstream.answer = nullptr;
    std::list<support::wire> clients;
    for (int i = 0; i != 3; ++i) {
        clients.push_back(proxy.connect());
        BOOST_TEST(proxy.ask(clients.back(), get) == 0u);
    }
    proxy.pass(501ms);
    BOOST_TEST(status_of(clients.back().take()) == 503u);
}

BOOST_FIXTURE_TEST_CASE(gets_requests_again_after_the_moment, one_dead) {
    upstream.answer = [](std::string const&) { return support::ok(); };
    for (int i = 0; i != 8; ++i)
        BOOST_TEST(ask() == 200u);
    auto const failures = [&] {
        return plan().upstreams.front()->servers()[1]->state().connect_failures;
    };
    BOOST_TEST(failures() == 1u);
    pass(1s);
    for (int i = 0; i != 8; ++i)
        BOOST_TEST(ask() == 200u);
    BOOST_TEST(failures() == 2u);
}

BOOST_AUTO_TEST_CASE(is_not_waited_for_if_there_is_no_other) {
    local_proxy proxy(upstream(server("UPSTREAM", "seats = 2")));
    proxy.upstream.stop();
    BOOST_TEST(proxy.ask() == 502u);
    BOOST_TEST(proxy.plan().upstreams.front()->seats()->stats().in_use == 0);
}

BOOST_FIXTURE_TEST_CASE(is_not_waited_for_if_all_reject_connections, one_dead) {
    upstream.stop();
    BOOST_TEST(ask() == 502u);
    BOOST_TEST(capacity() == 4);  // without any other server, its seats count
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(after_a_reload)

// If a later reload names a server again, the server still counts its active requests.
BOOST_AUTO_TEST_CASE(a_server_keeps_its_connections) {
    auto const here = upstream(server("UPSTREAM", "max_connections = 1"));
    auto const there = upstream(server("OTHER", "max_connections = 1"));
    for (int reloads = 1; reloads != 4; ++reloads) {
        local_proxy proxy(here);
        clients some(proxy);
        BOOST_TEST(some.ask() == 0u);
        for (int i = 0; i != reloads; ++i)
            proxy.reload(there);
        BOOST_TEST(proxy.upstream.open() == 1u);
        proxy.reload(here);
        BOOST_TEST(some.ask() == 0u);
        BOOST_TEST(proxy.upstream.open() == 1u);
        BOOST_TEST(proxy.upstream.connections.size() == 1u);
        answer_all(proxy);
        BOOST_TEST(status_of(some.all.front().take()) == 200u);
        BOOST_TEST(proxy.upstream.open() == 1u);
        answer_all(proxy);
        BOOST_TEST(status_of(some.all.back().take()) == 200u);
    }
}

BOOST_AUTO_TEST_CASE(a_tunnel_to_a_removed_server_ends_after_drain) {
    for (bool const is_named : {false, true}) {
        auto const of_route = "upgrade = { to = \"chat\", idle = \"1h\" }\n";
        local_proxy proxy("drain = \"7s\"\n" + upstream(server("UPSTREAM", ""), of_route));
        proxy.upstream.answer = [](std::string const&) {
            return support::reply{
                "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: chat\r\n\r\n"};
        };
        auto client = proxy.connect();
        BOOST_TEST(proxy.ask(client, "GET / HTTP/1.1\r\nHost: test\r\nConnection: upgrade\r\n"
                                     "Upgrade: chat\r\n\r\n") == 101u);
        proxy.pass(1min);
        BOOST_TEST(!client.ended());
        proxy.reload(
            "drain = \"7s\"\n" +
            upstream(server("OTHER", "") + (is_named ? server("UPSTREAM", "") : ""), of_route));
        proxy.pass(6900ms);
        BOOST_TEST(!client.ended());
        proxy.pass(100ms + 3 * net::watchdog::round);
        BOOST_TEST(client.ended() == !is_named);
    }
}

BOOST_AUTO_TEST_CASE(responses_name_the_current_rule) {
    auto const with = [](std::string const& rule) {
        return support::forwards + "limits = [\"r\"]\n[[limit]]\nname = \"r\"\nrule = \"" + rule +
               "\"\n";
    };
    local_proxy proxy(with("9/60s"));
    auto client = proxy.connect();
    auto const told = [&] {
        client.send(get);
        proxy.settle();
        return field_of(client.take(), "RateLimit-Policy");
    };
    BOOST_TEST(told() == R"("r";q=9;w=60)");
    proxy.reload(with("5/30s"));
    BOOST_TEST(told() == R"("r";q=5;w=30)");
    proxy.plan().limits.front()->change_rule(config::rule_of("6/60s"));
    BOOST_TEST(told() == R"("r";q=6;w=60)");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace servers_of_an_upstream
