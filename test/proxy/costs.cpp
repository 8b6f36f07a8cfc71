#include "local_proxy.hpp"

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

using namespace std::chrono_literals;
using support::field_of;
using support::local_proxy;
using support::ok;
using support::reply;
using support::status_of;

namespace {

// A proxy with one limit, `api`, for all routes.
std::string limited(std::string const& rule, std::string const& more,
                    std::string const& routes = "limits = \"api\"\n") {
    return "[clients]\ntrusted = [\"10.0.0.1\"]\n" + support::forwards + routes +
           "[[limit]]\nname = \"api\"\nrule = \"" + rule + "\"\n" + more;
}
constexpr char const* impatient = "queue = \"patience 0s\"\n";

std::string request(std::string_view target = "/", std::string_view fields = "",
                    std::string_view body = "") {
    return "GET " + std::string(target) + " HTTP/1.1\r\nHost: test\r\n" + std::string(fields) +
           "\r\n" + std::string(body);
}
std::string post(std::string_view fields, std::string_view body) {
    return "POST / HTTP/1.1\r\nHost: test\r\n" + std::string(fields) + "\r\n" + std::string(body);
}

// The whole response, as far as it arrived.
std::string talk(local_proxy& proxy, support::wire& client, std::string const& text) {
    client.send(text);
    proxy.settle();
    return client.take();
}
std::string talk(local_proxy& proxy, std::string const& text,
                 std::string const& from = "10.0.0.1") {
    auto client = proxy.connect(from);
    return talk(proxy, client, text);
}

// The remaining permits, by the header RateLimit; -1 without it.
int rest(std::string_view answer) {
    auto const field = field_of(answer, "RateLimit");
    auto const r = field.find(";r=");
    return r == field.npos ? -1 : std::stoi(field.substr(r + 3));
}
// The permits of the limit that it could not grant now.
weir::amount used(local_proxy const& proxy) {
    auto& api = *proxy.plan().limits.front();
    http::request_head const nothing;
    boost::asio::ip::address const nobody;
    net::error_code ec;
    auto const none = api.try_enter({nothing, nobody}, {.cost = 0}, ec);
    return api.stats().capacity - none.remaining();
}

reply with(unsigned status, std::string_view fields = "") {
    return {"HTTP/1.1 " + std::to_string(status) + " X\r\nContent-Length: 0\r\n" +
            std::string(fields) + "\r\n"};
}

}  // namespace

BOOST_AUTO_TEST_SUITE(the_cost_of_a_request)

BOOST_AUTO_TEST_CASE(is_the_number_of_its_route) {
    local_proxy proxy(limited("10/60s", std::string("cost = 2\n") + impatient,
                              "path = \"/dear\"\nlimits = \"api\"\ncost = { api = 4 }\n"
                              "[[route]]\nupstream = \"a\"\nlimits = \"api\"\n"));
    auto client = proxy.connect();
    BOOST_TEST(rest(talk(proxy, client, request("/dear"))) == 6);
    BOOST_TEST(rest(talk(proxy, client, request("/cheap"))) == 4);
    // Two requests in one piece.
    auto const both = talk(proxy, client, request("/cheap") + request("/dear"));
    BOOST_TEST(rest(both) == 2);
    auto const second = both.substr(both.find("HTTP/1.1", 1));
    BOOST_TEST(status_of(second) == 429u);
    BOOST_TEST(rest(second) == 0);
    BOOST_TEST(rest(talk(proxy, client, request("/cheap"))) == 0);
    BOOST_TEST(status_of(talk(proxy, client, request("/cheap"))) == 429u);
    proxy.pass(60s);
    BOOST_TEST(rest(talk(proxy, client, request("/dear"))) == 6);
    BOOST_TEST(field_of(talk(proxy, client, request("/dear")), "RateLimit-Policy") ==
               "\"api\";q=10;w=60");
}

BOOST_AUTO_TEST_CASE(applies_to_all_limits_of_a_chain) {
    local_proxy proxy(R"(
[[upstream]]
name = "a"
servers = ["UPSTREAM"]

[[limit]]
name = "api"
rule = "10/60s"
queue = "patience 0s"
cost = 3

[[limit]]
name = "client"
rule = "20/60s"
key = "client"
queue = "patience 0s"

[[limit]]
name = "seats"
rule = "8 seats"
queue = "patience 0s"

[[route]]
upstream = "a"
limits = ["api", "client", "seats"]
cost = { client = 7, seats = 5 }
)");
    proxy.upstream.answer = nullptr;
    auto first = proxy.connect();
    auto second = proxy.connect();
    BOOST_TEST(proxy.ask(first, support::get) == 0u);
    auto const held = [&](std::size_t i) { return proxy.plan().limits[i]->stats().in_use; };
    BOOST_TEST(held(0) == 3);
    BOOST_TEST(held(1) == 7);
    BOOST_TEST(held(2) == 5);
    BOOST_TEST(proxy.ask(second, support::get) == 503u);
    BOOST_TEST(held(0) == 3);
    BOOST_TEST(held(1) == 7);
}

// Any other peer could state any cost. A value that is not a whole number counts as a missing one.
BOOST_AUTO_TEST_CASE(may_be_a_header_from_a_trusted_peer) {
    struct row {
        char const *from, *fields;
        int cost;
    };
    local_proxy proxy(
        limited("10/60s", std::string("cost = \"header X-Cost\"\nestimate = 2\n") + impatient));
    for (auto const& [from, fields, cost] : {
             row{"10.0.0.1", "X-Cost: 5\r\n", 5},
             row{"10.0.0.1", "x-cost: 0010\r\n", 10},
             row{"10.0.0.1", "X-Cost: 0\r\n", 0},
             row{"10.0.0.1", "", 2},
             row{"10.0.0.1", "X-Cost:\r\n", 2},
             row{"10.0.0.1", "X-Cost: -1\r\n", 2},
             row{"10.0.0.1", "X-Cost: +1\r\n", 2},
             row{"10.0.0.1", "X-Cost: 1.5\r\n", 2},
             row{"10.0.0.1", "X-Cost: 1 2\r\n", 2},
             row{"10.0.0.1", "X-Cost: many\r\n", 2},
             row{"10.0.0.1", "X-Cost: 1000000000000001\r\n", 2},
             row{"10.0.0.1", "X-Cost: 99999999999999999999999\r\n", 2},
             row{"10.0.0.1", "X-Cost: 1\r\nX-Cost: 1\r\n", 2},
             row{"10.0.0.1", "X-Cost: 3\r\nX-Cost: x\r\n", 2},
             row{"10.0.0.2", "X-Cost: 0\r\n", 2},
             row{"10.0.0.2", "X-Cost: 9\r\n", 2},
         }) {
        BOOST_TEST_CONTEXT(from << " " << fields) {
            BOOST_TEST(rest(talk(proxy, request("/", fields), from)) == 10 - cost);
            proxy.pass(60s);
        }
    }
    // A request that costs nothing passes even when nothing is left.
    BOOST_TEST(rest(talk(proxy, request("/", "X-Cost: 10\r\n"))) == 0);
    BOOST_TEST(status_of(talk(proxy, request("/", "X-Cost: 1\r\n"))) == 429u);
    BOOST_TEST(status_of(talk(proxy, request("/", "X-Cost: 0\r\n"))) == 200u);
}

BOOST_AUTO_TEST_CASE(above_the_limit_is_rejected_at_once_and_for_good) {
    for (std::string const queue : {"patience 0s", "patience 20s"})
        for (std::string const more : {"", "[[limit]]\nname = \"b\"\nrule = \"9 seats\"\n"}) {
            BOOST_TEST_CONTEXT(queue << " " << more) {
                local_proxy proxy(limited(
                    "10/60s", "cost = \"header X-Cost\"\nqueue = \"" + queue + "\"\n" + more,
                    more.empty() ? "limits = \"api\"\n" : "limits = [\"b\", \"api\"]\n"));
                auto const answer = talk(proxy, request("/", "X-Cost: 11\r\n"));
                BOOST_TEST(status_of(answer) == 429u);
                BOOST_TEST(field_of(answer, "Retry-After") == "");
                BOOST_TEST(rest(answer) == -1);
                BOOST_TEST(answer.find("costs more than") != answer.npos);
                BOOST_TEST(used(proxy) == 0);
                BOOST_TEST(status_of(talk(proxy, request("/", "X-Cost: 10\r\n"))) == 200u);
            }
        }
}

BOOST_AUTO_TEST_CASE(may_be_the_bytes_of_its_body) {
    local_proxy proxy(
        limited("100/60s", std::string("cost = \"bytes\"\nestimate = 20\n") + impatient));
    BOOST_TEST(rest(talk(proxy, post("Content-Length: 7\r\n", "1234567"))) == 93);
    BOOST_TEST(rest(talk(proxy, request())) == 93);
    BOOST_TEST(rest(talk(proxy, post("Content-Length: 94\r\n", ""))) == 0);
    // The length is unknown: the estimate, until the whole body arrived.
    auto client = proxy.connect();
    auto const head = post("Transfer-Encoding: chunked\r\n", "");
    BOOST_TEST(status_of(talk(proxy, client, head)) == 0u);
    BOOST_TEST(used(proxy) == 27);
    BOOST_TEST(
        status_of(talk(proxy, client,
                       "3\r\nabc\r\n2d\r\n" + std::string(45, 'x') + "\r\n0\r\n\r\n")) == 200u);
    BOOST_TEST(used(proxy) == 55);
    BOOST_TEST(status_of(talk(proxy, client, head + "0\r\n\r\n")) == 200u);
    BOOST_TEST(used(proxy) == 55);
}

BOOST_AUTO_TEST_CASE(may_be_a_header_of_the_response) {
    struct row {
        char const* fields;
        int cost;
    };
    local_proxy proxy(limited(
        "10/60s", std::string("cost = \"response header X-Tokens\"\nestimate = 3\n") + impatient));
    for (auto const& [fields, cost] : {
             row{"X-Tokens: 8\r\n", 8},
             row{"X-Tokens: 1\r\n", 1},
             row{"x-tokens: 0\r\n", 0},
             row{"", 3},
             row{"X-Tokens: -5\r\n", 3},
             row{"X-Tokens: 5 tokens\r\n", 3},
             row{"X-Tokens: 1000000000000001\r\n", 3},
             row{"X-Tokens: 4\r\nX-Tokens: 5\r\n", 3},
         }) {
        BOOST_TEST_CONTEXT(fields) {
            proxy.upstream.answer = [&](std::string const&) { return ok("", fields); };
            // The header of the request has no effect.
            BOOST_TEST(rest(talk(proxy, request("/", "X-Tokens: 7\r\n"))) == 10 - cost);
            proxy.pass(60s);
        }
    }
}

// The next requests wait until the window has passed the permits beyond the limit.
BOOST_AUTO_TEST_CASE(may_exceed_the_limit_once_it_is_known) {
    for (std::string const rule : {"10/60s", "10/60s sliding", "10/60s fixed", "10/60s bucket"}) {
        BOOST_TEST_CONTEXT(rule) {
            local_proxy proxy(
                limited(rule, std::string("cost = \"response header X-Tokens\"\n") + impatient));
            proxy.upstream.answer = [](std::string const&) { return ok("", "X-Tokens: 25\r\n"); };
            BOOST_TEST(rest(talk(proxy, request())) == 0);
            BOOST_TEST(used(proxy) == 10);
            proxy.pass(59s);
            BOOST_TEST(status_of(talk(proxy, request())) == 429u);
            proxy.pass(91s);
            BOOST_TEST(status_of(talk(proxy, request())) == 200u);
        }
    }
}

BOOST_AUTO_TEST_CASE(may_be_the_bytes_of_the_response) {
    local_proxy proxy(
        limited("1000/60s", std::string("cost = \"response bytes\"\nestimate = 9\n") + impatient));
    proxy.upstream.answer = [](std::string const&) { return ok("1234567"); };
    BOOST_TEST(rest(talk(proxy, request())) == 991);  // before the body
    BOOST_TEST(used(proxy) == 7);
    BOOST_TEST(status_of(talk(proxy, "HEAD / HTTP/1.1\r\nHost: test\r\n\r\n")) == 200u);
    BOOST_TEST(used(proxy) == 7);
}

BOOST_AUTO_TEST_CASE(of_a_client_that_leaves_is_what_it_got) {
    local_proxy proxy("timeouts = { upstream = \"1s\" }\n" +
                      limited("1000/1h", std::string("cost = \"response bytes\"\n") + impatient));
    proxy.upstream.answer = nullptr;
    auto client = proxy.connect();
    BOOST_TEST(proxy.ask(client, support::get) == 0u);
    auto& server = proxy.upstream.connections.back();
    server.send("HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n" + std::string(40, 'x'));
    proxy.settle();
    BOOST_TEST(status_of(client.take()) == 200u);
    client.close();
    proxy.pass(20s);
    BOOST_TEST(used(proxy) == 40);
}

// The upstream may have done the work, so the estimate stays. If it got no request, nothing does.
BOOST_AUTO_TEST_CASE(without_a_response_is_the_estimate) {
    for (char const* const cost : {"response header X-Tokens", "response bytes"}) {
        local_proxy proxy(
            limited("10/60s", "cost = \"" + std::string(cost) + "\"\nestimate = 3\n" + impatient));
        proxy.upstream.answer = [](std::string const&) { return reply{"", true}; };
        auto const failed = talk(proxy, request());
        BOOST_TEST(status_of(failed) == 502u);
        BOOST_TEST(rest(failed) == 7);
        BOOST_TEST(used(proxy) == 3);
        proxy.upstream.stop();
        BOOST_TEST(status_of(talk(proxy, request())) == 502u);
        BOOST_TEST(used(proxy) == 3);
    }
}

// An attempt without a response costs nothing, because the second one has a response.
BOOST_AUTO_TEST_CASE(of_a_repeated_request_is_counted_once) {
    local_proxy proxy(limited(
        "10/60s", std::string("cost = \"response header X-Tokens\"\nestimate = 3\n") + impatient));
    proxy.upstream.answer = [](std::string const&) { return ok("", "X-Tokens: 1\r\n"); };
    auto client = proxy.connect();
    BOOST_TEST(rest(talk(proxy, client, request())) == 9);
    proxy.upstream.answer = [first = true](std::string const&) mutable {
        return std::exchange(first, false) ? reply{"", true} : ok("", "X-Tokens: 4\r\n");
    };
    proxy.upstream.requests.clear();
    BOOST_TEST(rest(talk(proxy, client, request())) == 5);
    BOOST_TEST(proxy.upstream.requests.size() == 2u);
    BOOST_TEST(used(proxy) == 5);
}

BOOST_AUTO_TEST_CASE(of_an_upgraded_connection_is_all_it_sent) {
    for (std::string const seats : {"handshake", "connection"}) {
        local_proxy proxy(
            limited("100/1h", std::string("cost = \"response bytes\"\n") + impatient,
                    "limits = \"api\"\nupgrade = { to = \"chat\", seats = \"" + seats + "\" }\n"));
        proxy.upstream.answer = [](std::string const&) {
            return reply{
                "HTTP/1.1 101 X\r\nConnection: upgrade\r\nUpgrade: chat\r\n\r\n0123456789"};
        };
        {
            auto client = proxy.connect();
            BOOST_TEST(proxy.ask(client,
                                 request("/", "Connection: upgrade\r\nUpgrade: chat\r\n")) == 101u);
            proxy.upstream.connections.back().send("abcde");
            proxy.settle();
        }
        proxy.pass(1min);
        BOOST_TEST(used(proxy) == 15);
    }
}

// The request keeps the configuration of its arrival, and the limit keeps its permits.
BOOST_AUTO_TEST_CASE(may_change_by_a_reload) {
    auto const costs = [](std::string const& cost) {
        return limited("100/1h", "cost = " + cost + "\nqueue = \"patience 0s\"\n");
    };
    local_proxy proxy(costs("\"response header X-Tokens\"\nestimate = 10"));
    proxy.upstream.answer = nullptr;
    auto client = proxy.connect();
    BOOST_TEST(proxy.ask(client, support::get) == 0u);
    BOOST_TEST(used(proxy) == 10);
    proxy.reload(costs("5"));
    BOOST_TEST(used(proxy) == 10);
    auto second = proxy.connect();
    BOOST_TEST(proxy.ask(second, support::get) == 0u);
    BOOST_TEST(used(proxy) == 15);
    for (auto& server : proxy.upstream.connections)
        server.send(ok("", "X-Tokens: 40\r\n").text);
    proxy.settle();
    BOOST_TEST(rest(client.take()) == 55);
    BOOST_TEST(status_of(second.take()) == 200u);
    BOOST_TEST(used(proxy) == 45);
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(a_limit_that_counts_statuses)

BOOST_AUTO_TEST_CASE(counts_no_other_responses) {
    struct row {
        char const* count;
        std::vector<unsigned> counted, others;
    };
    for (auto const& [count, counted, others] : {
             row{"401", {401}, {200, 204, 302, 400, 402, 403, 500}},
             row{"\"401\"", {401}, {200, 403}},
             row{"[\"4xx\", 503]", {400, 401, 499, 503}, {200, 399, 500, 502, 504}},
         }) {
        BOOST_TEST_CONTEXT(count) {
            local_proxy proxy(
                limited("2/60s", "count = " + std::string(count) + "\nqueue = \"patience 0s\"\n"));
            unsigned status = 0;
            proxy.upstream.answer = [&](std::string const&) { return with(status); };
            for (int i = 0; i != 3; ++i)
                for (unsigned const other : others) {
                    status = other;
                    auto const answer = talk(proxy, request());
                    BOOST_TEST(status_of(answer) == other);
                    BOOST_TEST(rest(answer) == 2);
                }
            for (unsigned const one : counted) {
                status = one;
                BOOST_TEST(rest(talk(proxy, request())) == 1);
                BOOST_TEST(rest(talk(proxy, request())) == 0);
                auto const answer = talk(proxy, request());
                BOOST_TEST(status_of(answer) == 429u);
                BOOST_TEST(field_of(answer, "Retry-After") == "60");
                proxy.pass(60s);
            }
        }
    }
}

// Requests without a response hold their permits, so that never more than the limit are counted. The next one waits for
// the decision on them.
BOOST_AUTO_TEST_CASE(never_counts_more_than_it_grants) {
    for (std::string const rule : {"2/60s", "2/60s sliding", "2/60s fixed", "2/60s & 3/1h"}) {
        BOOST_TEST_CONTEXT(rule) {
            local_proxy proxy(limited(rule, "count = 401\nqueue = \"patience 2h\"\n"));
            proxy.upstream.answer = nullptr;
            std::vector<support::wire> clients;
            for (int i = 0; i != 4; ++i) {
                clients.push_back(proxy.connect());
                BOOST_TEST(proxy.ask(clients.back(), support::get) == 0u);
            }
            auto& servers = proxy.upstream.connections;
            BOOST_TEST(servers.size() == 2u);
            servers.front().send(with(200).text);
            proxy.settle();
            BOOST_TEST(status_of(clients[0].take()) == 200u);
            BOOST_TEST(servers.size() == 2u);  // on the kept connection
            BOOST_TEST(servers.front().take().find("GET", 1) != std::string::npos);
            for (auto& server : servers)
                server.send(with(401).text);
            proxy.settle();
            BOOST_TEST(status_of(clients[1].take()) == 401u);
            BOOST_TEST(status_of(clients[2].take()) == 401u);
            proxy.pass(50s);
            BOOST_TEST(status_of(clients[3].take()) == 0u);
            BOOST_TEST(used(proxy) == 2);
        }
    }
}

// A permit that has expired is not given back: it would be a second one.
BOOST_AUTO_TEST_CASE(gives_back_nothing_that_has_expired) {
    for (std::string const rule : {"2/60s", "2/60s sliding", "2/60s fixed"}) {
        BOOST_TEST_CONTEXT(rule) {
            local_proxy proxy("timeouts = { upstream = \"10min\" }\n" +
                              limited(rule, "count = 401\nqueue = \"patience 0s\"\n"));
            proxy.upstream.answer = [](std::string const& asked) {
                return asked.starts_with("GET /slow") ? std::nullopt : std::optional(with(401));
            };
            std::vector<support::wire> slow;
            for (int i = 0; i != 2; ++i) {
                slow.push_back(proxy.connect());
                BOOST_TEST(proxy.ask(slow.back(), request("/slow")) == 0u);
            }
            proxy.pass(130s);
            for (int i = 0; i != 2; ++i)
                BOOST_TEST(proxy.ask() == 401u);
            for (auto& server : proxy.upstream.connections)
                server.send(with(200).text);
            proxy.settle();
            BOOST_TEST(status_of(slow[0].take()) == 200u);
            BOOST_TEST(status_of(slow[1].take()) == 200u);
            BOOST_TEST(proxy.ask() == 429u);
        }
    }
}

// The wait would be longer than the patience if no permit came back, so no request waits for one.
BOOST_AUTO_TEST_CASE(rejects_at_once_what_would_have_to_wait_longer_than_its_patience) {
    local_proxy proxy(limited("1/60s", "count = 401\nqueue = \"patience 10s\"\n"));
    proxy.upstream.answer = nullptr;
    auto client = proxy.connect();
    BOOST_TEST(proxy.ask(client, support::get) == 0u);
    BOOST_TEST(proxy.ask() == 429u);
    proxy.upstream.connections.back().send(with(200).text);
    proxy.settle();
    proxy.upstream.answer = [](std::string const&) { return with(200); };
    BOOST_TEST(proxy.ask() == 200u);
}

BOOST_AUTO_TEST_CASE(counts_no_response_of_the_proxy_itself) {
    local_proxy proxy(limited("3/60s", "count = [\"4xx\", \"5xx\"]\nqueue = \"patience 0s\"\n",
                              "limits = [\"api\", \"seats\"]\n") +
                      "[[limit]]\nname = \"seats\"\nrule = \"1 seats\"\nqueue = \"patience 0s\"\n");
    proxy.upstream.answer = [](std::string const&) { return reply{"", true}; };
    BOOST_TEST(proxy.ask() == 502u);
    proxy.upstream.answer = [](std::string const&) { return reply{"nonsense\r\n\r\n", true}; };
    BOOST_TEST(proxy.ask() == 502u);
    BOOST_TEST(used(proxy) == 0);
    proxy.upstream.answer = nullptr;
    auto holder = proxy.connect();
    BOOST_TEST(proxy.ask(holder, support::get) == 0u);
    BOOST_TEST(proxy.ask() == 503u);
    BOOST_TEST(used(proxy) == 1);
    proxy.pass(61s);  // until the timeout
    BOOST_TEST(status_of(holder.take()) == 504u);
    BOOST_TEST(used(proxy) == 0);
    proxy.upstream.stop();
    BOOST_TEST(proxy.ask() == 502u);
    BOOST_TEST(used(proxy) == 0);
}

BOOST_AUTO_TEST_CASE(counts_the_response_of_a_route) {
    local_proxy proxy(limited("2/60s", "count = 404\nqueue = \"patience 0s\"\n",
                              "path = \"/a\"\nlimits = \"api\"\n"
                              "[[route]]\npath = \"/wp-admin\"\nrespond = 404\nlimits = \"api\"\n"
                              "[[route]]\nrespond = 403\nlimits = \"api\"\n"));
    for (int i = 0; i != 3; ++i)
        BOOST_TEST(status_of(talk(proxy, request("/b"))) == 403u);
    BOOST_TEST(rest(talk(proxy, request("/wp-admin"))) == 1);
    BOOST_TEST(rest(talk(proxy, request("/a"))) == 1);
    BOOST_TEST(status_of(talk(proxy, request("/wp-admin"))) == 404u);
    BOOST_TEST(status_of(talk(proxy, request("/a"))) == 429u);
}

// A client that leaves before the response learned nothing. During the response it knows the status.
BOOST_AUTO_TEST_CASE(counts_what_a_client_that_leaves_has_learned) {
    local_proxy proxy(limited("2/1h", "count = 401\nqueue = \"patience 2h\"\n"));
    proxy.upstream.answer = nullptr;
    auto first = proxy.connect();
    auto second = proxy.connect();
    auto waiter = proxy.connect();
    BOOST_TEST(proxy.ask(first, support::get) == 0u);
    BOOST_TEST(proxy.ask(second, support::get) == 0u);
    BOOST_TEST(proxy.ask(waiter, support::get) == 0u);
    BOOST_TEST(used(proxy) == 2);
    waiter.close();
    proxy.pass(1s);
    BOOST_TEST(used(proxy) == 2);
    first.close();
    proxy.pass(2s);
    auto& servers = proxy.upstream.connections;
    servers.back().send("HTTP/1.1 401 X\r\nContent-Length: 9\r\n\r\nabc");
    proxy.settle();
    BOOST_TEST(status_of(second.take()) == 401u);
    second.close();
    proxy.pass(70s);
    BOOST_TEST(used(proxy) == 1);
    for (auto& server : servers)
        server.close();
    proxy.upstream.answer = [](std::string const&) { return with(401); };
    BOOST_TEST(proxy.ask() == 401u);
    BOOST_TEST(proxy.ask() == 0u);
}

BOOST_AUTO_TEST_CASE(may_change_by_a_reload) {
    auto const counts = [](std::string const& count) {
        return limited("3/1h", count + "queue = \"patience 0s\"\n");
    };
    local_proxy proxy(counts("count = 401\n"));
    proxy.upstream.answer = nullptr;
    auto client = proxy.connect();
    BOOST_TEST(proxy.ask(client, support::get) == 0u);
    proxy.reload(counts(""));
    proxy.upstream.connections.back().send(ok().text);
    proxy.settle();
    BOOST_TEST(status_of(client.take()) == 200u);
    BOOST_TEST(used(proxy) == 0);
    proxy.upstream.answer = [](std::string const&) { return ok(); };
    BOOST_TEST(proxy.ask() == 200u);
    BOOST_TEST(used(proxy) == 1);
    proxy.reload(counts("count = \"4xx\"\n"));
    BOOST_TEST(proxy.ask() == 200u);
    BOOST_TEST(used(proxy) == 1);
}

// All of the cost counts, or nothing.
BOOST_AUTO_TEST_CASE(may_have_a_cost) {
    local_proxy proxy(
        limited("10/60s", "count = 200\ncost = \"response header X-Tokens\"\nestimate = 2\n"
                          "queue = \"patience 0s\"\n"));
    unsigned status = 200;
    proxy.upstream.answer = [&](std::string const&) { return with(status, "X-Tokens: 4\r\n"); };
    BOOST_TEST(rest(talk(proxy, request())) == 6);
    status = 500;
    BOOST_TEST(rest(talk(proxy, request())) == 6);
    BOOST_TEST(used(proxy) == 4);
}

BOOST_AUTO_TEST_CASE(may_be_a_dry_run) {
    local_proxy proxy(limited("1/60s", "count = 401\ndry_run = true\nqueue = \"patience 0s\"\n"));
    unsigned status = 200;
    proxy.upstream.answer = [&](std::string const&) { return with(status); };
    for (int i = 0; i != 2; ++i)
        BOOST_TEST(proxy.ask() == 200u);
    BOOST_TEST(used(proxy) == 0);
    status = 401;
    for (int i = 0; i != 2; ++i)
        BOOST_TEST(proxy.ask() == 401u);
    BOOST_TEST(used(proxy) == 1);
    BOOST_TEST(proxy.plan().limits.front()->stats().no_permit == 1u);
}

BOOST_AUTO_TEST_SUITE_END()
