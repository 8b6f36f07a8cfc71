#include "local_proxy.hpp"

#include <boost/test/unit_test.hpp>

#include <fmt/format.h>

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>

using namespace std::chrono_literals;
using support::local_proxy;
using support::ok;
using support::status_of;
using support::wire;

// Files of this folder are compiled together.
namespace bandwidth_of_listeners {
namespace {

std::string limit(std::string_view name, std::string_view rates, std::string_view more = "") {
    return fmt::format("[[limit]]\nname = '{}'\nbandwidth = {{ {} }}\n{}\n", name, rates, more);
}
std::string listen(int port, std::string_view limits) {
    return fmt::format("[[listen]]\naddress = '127.0.0.1:{}'\nlimits = [{}]\n", port, limits);
}
// Three routes to a server.
std::string routes(std::string_view limits_of_a = "") {
    return fmt::format("[[upstream]]\nname = 'u'\nservers = ['UPSTREAM']\n"
                       "[[route]]\npath = '/a'\nupstream = 'u'\nlimits = [{}]\n"
                       "[[route]]\npath = '/none'\nrespond = 200\n"
                       "[[route]]\nupstream = 'u'\n[route.upgrade]\nto = 'echo'\n",
                       limits_of_a);
}

struct a_proxy : local_proxy {
    explicit a_proxy(std::string const& configuration) : local_proxy(configuration) {
        upstream.answer = [](auto const&) { return ok(std::string(100'000, 'd')); };
    }
    wire ask_for(std::string_view target, std::string_view more = "", std::size_t of_listener = 0) {
        listener = of_listener;
        auto client = connect();
        client.send(fmt::format("GET {} HTTP/1.1\r\nHost: test\r\n{}\r\n", target, more));
        settle();
        return client;
    }
    [[nodiscard]] proxy::byte_limit& down(std::size_t n = 0) const {
        return *plan().bandwidths.at(n).down;
    }
};

std::size_t body_of(wire& w) {
    auto const& text = w.look();
    auto const end = text.find("\r\n\r\n");
    return end == text.npos ? 0 : text.size() - end - 4;
}

// Bytes after a time: at most one portion of 20 ms below what the rate and the burst allow.
bool is_paced(std::size_t came, std::size_t allowed) {
    return came <= allowed && came + 1'460 >= allowed;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(a_listener_with_bandwidth)

BOOST_AUTO_TEST_CASE(shares_it_among_the_requests_of_all_routes) {
    a_proxy p(listen(1, "'l'") + routes() + limit("l", "down = '50kB/s burst 4kB'"));
    auto one = p.ask_for("/a");
    auto two = p.ask_for("/b");
    p.pass(1s);
    BOOST_TEST(is_paced(body_of(one) + body_of(two), 54'000));
    BOOST_TEST(body_of(one) >= 25'000u);
    BOOST_TEST(body_of(two) >= 25'000u - 1'460u);
    BOOST_TEST(p.down().passed() == body_of(one) + body_of(two));
    p.pass(5s);
    BOOST_TEST(body_of(one) + body_of(two) == 200'000u);
}

BOOST_AUTO_TEST_CASE(limits_bytes_from_clients) {
    a_proxy p(listen(1, "'l'") + routes() + limit("l", "up = '10kB/s burst 2kB'"));
    auto client = p.connect();
    client.send("POST /a HTTP/1.1\r\nHost: test\r\nContent-Length: 20000\r\n\r\n" +
                std::string(20'000, 'u'));
    p.pass(1s);
    BOOST_TEST(p.upstream.requests.empty());
    BOOST_TEST(is_paced(p.plan().bandwidths.front().up->passed(), 12'000));
    p.pass(1s);
    BOOST_TEST(p.upstream.requests.size() == 1u);
}

BOOST_AUTO_TEST_CASE(leaves_other_listeners_and_responses_of_the_proxy_alone) {
    a_proxy p(listen(1, "'l'") + listen(2, "") + routes() + limit("l", "down = '1kB/s burst 1kB'"));
    auto one = p.ask_for("/a", "", 1);
    BOOST_TEST(body_of(one) == 100'000u);
    auto two = p.ask_for("/none");
    BOOST_TEST(status_of(two.look()) == 200u);
    BOOST_TEST(p.down().passed() == 0u);
}

BOOST_AUTO_TEST_CASE(adds_to_the_limits_of_routes) {
    for (bool const route_is_slow : {true, false}) {
        a_proxy p(listen(1, "'l'") + routes("'r'") +
                  limit("l", fmt::format("down = '{}kB/s burst 2kB'", route_is_slow ? 500 : 50)) +
                  limit("r", fmt::format("down = '{}kB/s burst 2kB'", route_is_slow ? 50 : 500),
                        "key = 'client'"));
        auto client = p.ask_for("/a");
        p.pass(1s);
        BOOST_TEST(is_paced(body_of(client), 52'000));
        BOOST_TEST(p.down(0).passed() == body_of(client));
        BOOST_TEST(p.down(1).passed() == body_of(client));
    }
}

// While a transfer waits for the limit of all, the limit by key is taken, and not the other way around.
BOOST_AUTO_TEST_CASE(takes_of_the_limits_by_key_first) {
    for (bool const route_has_key : {true, false}) {
        auto const key = limit("key", "down = '20kB/s burst 1460B'", "key = 'header User'");
        auto const all = limit("all", "down = '2920kB/s burst 2920B'");
        a_proxy p(listen(1, route_has_key ? "'all'" : "'key'") +
                  routes(route_has_key ? "'key'" : "'all'") + key + all);
        auto slow = p.ask_for("/a", "User: a\r\n");
        BOOST_TEST(p.down(0).limiter()->stats().waiting == 1u);
        BOOST_TEST(p.down(1).limiter()->stats().waiting == 0u);
        // It holds nothing of the limit of all.
        auto const before = p.down(1).passed();
        auto other = p.ask_for("/a", "User: b\r\n");
        BOOST_TEST(p.down(1).passed() == before + 1'460);
    }
}

BOOST_AUTO_TEST_CASE(counts_once_what_a_route_names_too) {
    a_proxy p(listen(1, "'l'") + routes("'l'") + limit("l", "down = '50kB/s burst 4kB'"));
    auto client = p.ask_for("/a");
    p.pass(1s);
    BOOST_TEST(is_paced(body_of(client), 54'000));
    BOOST_TEST(p.down().passed() == body_of(client));
}

BOOST_AUTO_TEST_CASE(requires_the_key_of_its_limit) {
    a_proxy p(listen(1, "'l'") + listen(2, "") + routes() +
              limit("l", "down = '1MB/s'", "key = ['header User or reject']"));
    BOOST_TEST(status_of(p.ask_for("/a").look()) == 400u);
    BOOST_TEST(status_of(p.ask_for("/a", "User: a\r\n").look()) == 200u);
    BOOST_TEST(status_of(p.ask_for("/none").look()) == 200u);  // whose bytes it does not limit
    BOOST_TEST(status_of(p.ask_for("/a", "", 1).look()) == 200u);
}

BOOST_AUTO_TEST_CASE(limits_upgraded_connections) {
    a_proxy p(listen(1, "'l'") + routes() +
              limit("l", "down = '50kB/s burst 4kB', up = '10kB/s burst 2kB'"));
    p.upstream.answer = [](auto const&) {
        return support::reply{
            "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n"};
    };
    auto client = p.ask_for("/", "Connection: upgrade\r\nUpgrade: echo\r\n");
    BOOST_REQUIRE(status_of(client.take()) == 101u);
    p.upstream.answer = nullptr;
    auto& server = p.upstream.connections.front();
    client.send(std::string(50'000, 'u'));
    server.send(std::string(100'000, 'd'));
    p.pass(1s);
    BOOST_TEST(is_paced(client.look().size(), 54'000));
    BOOST_TEST(is_paced(server.look().size(), 12'000));
}

// A connection may be older than the configuration that limits it.
BOOST_AUTO_TEST_CASE(changes_by_a_reload) {
    auto const of = [](std::string_view limits, std::string_view rates) {
        return listen(1, limits) + routes() + limit("l", rates);
    };
    a_proxy p(of("", "down = '1kB/s'"));
    auto client = p.ask_for("/a");
    BOOST_TEST(client.take().size() > 100'000u);
    p.reload(of("'l'", "down = '10kB/s burst 2kB'"));
    client.send("GET /a HTTP/1.1\r\nHost: test\r\n\r\n");
    p.pass(1s);
    BOOST_TEST(is_paced(body_of(client), 12'000));
    p.reload(of("'l'", "down = '20kB/s burst 2kB'"));
    p.pass(1s);
    BOOST_TEST(is_paced(body_of(client), 32'000));
    p.reload(of("", "up = '20kB/s burst 2kB'"));
    p.settle();
    BOOST_TEST(body_of(client) == 100'000u);
    static_cast<void>(client.take());
    client.send("GET /a HTTP/1.1\r\nHost: test\r\n\r\n");
    p.settle();
    BOOST_TEST(body_of(client) == 100'000u);
}

BOOST_AUTO_TEST_CASE(stays_with_it_if_a_reload_changes_the_order_of_listeners) {
    auto const limits = limit("l", "down = '10kB/s burst 2kB'");
    a_proxy p(listen(1, "'l'") + listen(2, "") + routes() + limits);
    auto client = p.connect();  // of the first
    p.reload(listen(3, "") + listen(2, "") + listen(1, "'l'") + routes() + limits);
    client.send("GET /a HTTP/1.1\r\nHost: test\r\n\r\n");
    p.pass(1s);
    BOOST_TEST(is_paced(body_of(client), 12'000));
    for (std::size_t const free : {0u, 1u}) {
        auto other = p.ask_for("/a", "", free);
        BOOST_TEST(body_of(other) == 100'000u);
    }
    auto limited = p.ask_for("/a", "", 2);
    BOOST_TEST(body_of(limited) < 3'000u);
}

BOOST_AUTO_TEST_CASE(ends_with_it_for_its_connections_until_it_is_added_again) {
    auto const of = [](std::string const& listeners) {
        return listeners + routes() + limit("l", "down = '10kB/s burst 2kB'");
    };
    a_proxy p(of(listen(1, "'l'")));
    auto client = p.connect();
    auto const ask = [&] {
        static_cast<void>(client.take());
        client.send("GET /a HTTP/1.1\r\nHost: test\r\n\r\n");
        p.settle();
        return body_of(client);
    };
    p.reload(of(listen(2, "'l'")));
    BOOST_TEST(ask() == 100'000u);
    p.reload(of(listen(3, "") + listen(1, "'l'")));
    BOOST_TEST(ask() < 3'000u);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace bandwidth_of_listeners
