// The records of requests: the lines of the access log, and the counters.

#include "proxy/account.hpp"

#include "local_proxy.hpp"
#include "proxy/access_log.hpp"
#include "proxy/observe.hpp"

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

// Files of this folder are compiled together.
namespace accounts {
namespace {

using namespace std::chrono_literals;
using proxy::ending;
using support::field_of;
using support::get;
using support::local_proxy;
using support::reply;

std::string const limited = support::forwards + R"(limits = ["seats"]
[[limit]]
name = "seats"
rule = "1 seats"
queue = "patience 5s"
[clients]
trusted = ["10.0.0.0/8"]
)";

struct logged {
    explicit logged(std::string const& configuration = limited) : proxy(configuration, &log) {}

    // The lines so far, without their times, split into words. A quoted text is one word.
    [[nodiscard]] std::vector<std::vector<std::string>> lines() {
        log.end();
        std::ifstream in(folder / "log");
        std::vector<std::vector<std::string>> all;
        for (std::string line; std::getline(in, line);) {
            auto& words = all.emplace_back();
            for (std::size_t at = line.find(' '); at < line.size();) {
                bool const quoted = line[++at] == '"';
                auto const end = quoted ? line.find('"', at + 1) + 1 : line.find(' ', at);
                words.push_back(line.substr(at, end - at));
                at = end;
            }
        }
        return all;
    }
    std::string answer(support::wire& client, std::string const& fields = "") {
        client.send("GET /dish HTTP/1.1\r\nHost: test\r\n" + fields + "\r\n");
        proxy.settle();
        return client.take();
    }

    support::temporary_folder folder{"weir-log-"};
    tool::log_file log{(folder / "log").string()};
    local_proxy proxy;
};

constexpr std::string_view id_field = "X-Request-Id";

std::string id_field_with(std::string const& id) {
    return std::string(id_field) + ": " + id + "\r\n";
}

}  // namespace

BOOST_AUTO_TEST_SUITE(the_access_log)

BOOST_FIXTURE_TEST_CASE(has_one_line_per_request, logged) {
    proxy.upstream.answer = nullptr;
    auto client = proxy.connect("192.0.2.1");
    auto waiter = proxy.connect("192.0.2.2");
    BOOST_TEST(answer(client, id_field_with("a1")) == "");
    proxy.pass(200ms);
    BOOST_TEST(answer(waiter, id_field_with("a2")) == "");
    proxy.pass(104ms);
    proxy.upstream.connections.front().send(support::ok("hello").text);
    proxy.settle();
    proxy.pass(100ms);
    proxy.upstream.connections.front().send(support::ok("").text);
    proxy.settle();
    auto const all = lines();
    BOOST_REQUIRE(all.size() == 2u);
    auto const server = proxy.upstream.address();
    std::vector<std::string> const first{
        "192.0.2.1", "\"GET /dish HTTP/1.1\"", "200", "5", "0.304", "0.000", server, "\"-\"", "a1"};
    std::vector<std::string> const second{
        "192.0.2.2", "\"GET /dish HTTP/1.1\"", "200", "0", "0.204", "0.104", server, "\"-\"", "a2"};
    BOOST_TEST(all[0] == first, boost::test_tools::per_element());
    BOOST_TEST(all[1] == second, boost::test_tools::per_element());
}

BOOST_FIXTURE_TEST_CASE(names_the_limit_that_rejected_the_request, logged) {
    proxy.upstream.answer = nullptr;
    auto client = proxy.connect("192.0.2.1");
    auto waiter = proxy.connect("192.0.2.2");
    BOOST_TEST(answer(client) == "");
    BOOST_TEST(answer(waiter, id_field_with("a")) == "");
    proxy.pass(5001ms);
    auto const rejected = waiter.take();
    BOOST_TEST(support::status_of(rejected) == 503u);
    auto const all = lines();
    BOOST_REQUIRE(all.size() == 1u);
    auto const bytes = rejected.size() - rejected.find("\r\n\r\n") - 4;
    BOOST_TEST(all[0][2] == "503");
    BOOST_TEST(all[0][3] == std::to_string(bytes));
    BOOST_TEST(all[0][6] == "-");
    BOOST_TEST(all[0][7] == "\"seats\"");
}

// The bytes of a body, without the framing of its chunks.
BOOST_FIXTURE_TEST_CASE(counts_the_bytes_of_bodies, logged) {
    auto client = proxy.connect();
    proxy.upstream.answer = [](std::string const&) {
        return reply{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
                     "5\r\nhello\r\n1\r\n!\r\n0\r\n\r\n"};
    };
    BOOST_TEST(answer(client).find("hello") != std::string::npos);
    client.send("HEAD / HTTP/1.1\r\nHost: test\r\n\r\n");
    proxy.upstream.answer = [](std::string const&) {
        return reply{"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n"};
    };
    proxy.settle();
    BOOST_TEST(client.take() != "");
    auto const all = lines();
    BOOST_REQUIRE(all.size() == 2u);
    BOOST_TEST(all[0][3] == "6");
    BOOST_TEST(all[1][3] == "0");
}

BOOST_FIXTURE_TEST_CASE(names_the_client_behind_a_trusted_peer, logged) {
    auto client = proxy.connect("10.0.0.1");
    answer(client, "X-Forwarded-For: 192.0.2.9\r\n");
    answer(client);
    auto const all = lines();
    BOOST_REQUIRE(all.size() == 2u);
    BOOST_TEST(all[0][0] == "192.0.2.9");
    BOOST_TEST(all[1][0] == "10.0.0.1");
}

BOOST_FIXTURE_TEST_CASE(has_a_line_for_a_malformed_request, logged) {
    auto client = proxy.connect("192.0.2.1");
    BOOST_TEST(proxy.ask(client, "NO\r\n\r\n") == 400u);
    auto const all = lines();
    BOOST_REQUIRE(all.size() == 1u);
    BOOST_TEST(all[0][1] == "\"-\"");
    BOOST_TEST(all[0][2] == "400");
    BOOST_TEST(all[0][8] == "-");
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(a_line)

BOOST_AUTO_TEST_CASE(rounds_seconds_to_milliseconds) {
    proxy::log_line l;
    l.took = 1'234'500us;
    l.waited = 499us;
    l.client = "a";
    l.request = "b";
    BOOST_TEST(text_of(l).find(" 1.234 0.000 ") != std::string::npos);  // a tie rounds to even
    l.took = 61s + 999'600us;
    l.waited = 501us;
    BOOST_TEST(text_of(l).find(" 62.000 0.001 ") != std::string::npos);
    BOOST_TEST(json_of(l).find(R"("request_time":62.000,"waited":0.001)") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(escapes_bytes_that_could_end_a_field) {
    proxy::log_line l;
    l.client = "a";
    l.request = "GET /\"\\\x07\xe9 HTTP/1.1";
    l.limit = "a \"limit\"";
    auto const text = text_of(l);
    BOOST_TEST(text.find(R"("GET /\x22\x5C\x07\xE9 HTTP/1.1")") != std::string::npos);
    BOOST_TEST(text.find(R"("a \x22limit\x22" -)") != std::string::npos);
    BOOST_TEST(json_of(l).find(R"("upstream":null)") != std::string::npos);
    BOOST_TEST(json_of(l).find(R"("request_id":null)") != std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(the_id_of_a_request)

BOOST_FIXTURE_TEST_CASE(is_the_one_of_the_client_if_valid_or_else_a_new_one, logged) {
    auto client = proxy.connect();
    auto const sent = [&](std::string const& fields) {
        proxy.upstream.requests.clear();
        answer(client, fields);
        BOOST_REQUIRE(proxy.upstream.requests.size() == 1u);
        auto const& request = proxy.upstream.requests.front();
        auto const at = request.find("X-Request-Id");
        BOOST_TEST(request.find("X-Request-Id", at + 1) == request.npos);  // exactly one
        return field_of(request, id_field);
    };
    std::string const longest(128, 'a');
    BOOST_TEST(sent(id_field_with("abc-1")) == "abc-1");
    BOOST_TEST(sent(id_field_with(longest)) == longest);
    BOOST_TEST(sent(id_field_with("first") + id_field_with("second")) == "first");
    std::string last;
    for (std::string const& wrong :
         {std::string(), id_field_with(longest + "a"), id_field_with("a b"), id_field_with("a\"b"),
          id_field_with("\xe9"), id_field_with("")}) {
        auto const fresh = sent(wrong);
        BOOST_TEST(fresh.size() == 32u);
        BOOST_TEST(fresh != last);
        last = fresh;
    }
    auto const all = lines();
    BOOST_TEST(all[0][8] == "abc-1");
    BOOST_TEST(all.back()[8] == last);
}

BOOST_AUTO_TEST_CASE(does_not_depend_on_an_access_log) {
    local_proxy proxy(support::forwards);
    auto client = proxy.connect();
    auto const sent = [&](std::string const& fields) {
        BOOST_TEST(proxy.ask(client, "GET / HTTP/1.1\r\nHost: test\r\n" + fields + "\r\n") == 200u);
        return field_of(proxy.upstream.requests.back(), id_field);
    };
    auto const fresh = sent("");
    BOOST_TEST(fresh.size() == 32u);
    BOOST_TEST(sent(id_field_with("a b")).size() == 32u);
    BOOST_TEST(sent(id_field_with("a b")) != fresh);
    BOOST_TEST(sent(id_field_with("a-b")) == "a-b");
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(counts)

BOOST_AUTO_TEST_CASE(include_each_request_once) {
    local_proxy proxy(limited + "[[route]]\npath = \"/no\"\nrespond = 403\n");
    auto& accounting = proxy.worker().accounting();
    auto const n = [&](ending how) { return accounting.counts()[how].value(); };
    auto client = proxy.connect();
    BOOST_TEST(proxy.ask(client, get) == 200u);
    proxy.upstream.answer = [](std::string const&) { return reply{"", true}; };
    BOOST_TEST(proxy.ask(client, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n") ==
               502u);
    BOOST_TEST(n(ending::answered) == 1u);
    BOOST_TEST(n(ending::failed) == 1u);
    auto other = proxy.connect();
    BOOST_TEST(proxy.ask(other, "NO\r\n\r\n") == 400u);
    BOOST_TEST(n(ending::malformed) == 1u);
    BOOST_TEST(accounting.counts().requests.value() ==
               2u);  // the malformed request is not included
    BOOST_TEST(accounting.counts().connections.value() == 2u);
    client.close();
    proxy.pass(1s);
    BOOST_TEST(accounting.counts().connections.value() == 2u);
}

// Each rejection is taken once only.
BOOST_AUTO_TEST_CASE(of_rejections_are_per_client_and_limit) {
    local_proxy proxy(support::forwards + R"(limits = ["rate"]
[[limit]]
name = "rate"
rule = "1/60s"
queue = "patience 0s"
)");
    for (int i = 0; i != 4; ++i)
        proxy.ask("192.0.2.1");
    proxy.ask("192.0.2.2");
    auto& accounting = proxy.worker().accounting();
    auto const all = accounting.take_troubles();
    BOOST_REQUIRE(all.rejected.size() == 2u);
    BOOST_TEST(all.rejected[0].count == 3u);
    BOOST_TEST(all.rejected[1].count == 1u);
    BOOST_TEST(all.rejected[0].key.limit == proxy.plan().limits[0]->id());
    BOOST_TEST(accounting.take_troubles().rejected.empty());
}

BOOST_AUTO_TEST_CASE(of_failures_are_per_server) {
    local_proxy proxy(support::forwards);
    proxy.upstream.answer = [](std::string const&) { return reply{"", true}; };
    for (int i = 0; i != 3; ++i)
        BOOST_TEST(proxy.ask() == 502u);
    auto const all = proxy.worker().accounting().take_troubles();
    BOOST_REQUIRE(all.upstreams.size() == 1u);
    BOOST_TEST(all.upstreams[0].count == 3u);
    BOOST_TEST(all.upstreams[0].key.server->name() == proxy.upstream.address());
    BOOST_TEST(proxy.worker().accounting().take_troubles().upstreams.empty());
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(responses)

namespace {

admin::route_state route_of(local_proxy const& proxy, std::string const& name) {
    for (auto& one : proxy::state_of(proxy.plan()).routes)
        if (one.name == name)
            return one;
    BOOST_FAIL("no route is named " + name);
    return {};
}

// The counts by status, as `200:3 404:1`.
std::string statuses(local_proxy const& proxy, std::string const& route) {
    std::string all;
    for (auto const& [status, n] : route_of(proxy, route).responses)
        all += (all.empty() ? "" : " ") + status + ":" + std::to_string(n);
    return all;
}

std::string const three_routes = R"(
[[upstream]]
name = "a"
servers = ["UPSTREAM"]
[[route]]
host = "*.test"
path = "/no"
method = ["GET", "HEAD"]
respond = 403
[[route]]
path = "/yes"
upstream = "a"
)";

std::string request_for(std::string const& target, std::string const& host = "a.test") {
    return "GET " + target + " HTTP/1.1\r\nHost: " + host + "\r\n\r\n";
}

}  // namespace

BOOST_AUTO_TEST_CASE(are_counted_by_route_and_status) {
    local_proxy proxy(three_routes);
    auto client = proxy.connect();
    BOOST_TEST(proxy.ask(client, request_for("/no")) == 403u);
    BOOST_TEST(proxy.ask(client, request_for("/no")) == 403u);
    BOOST_TEST(proxy.ask(client, request_for("/other")) == 404u);
    BOOST_TEST(proxy.ask(client, request_for("/yes")) == 200u);
    proxy.upstream.answer = [](std::string const&) {
        return reply{"HTTP/1.1 451 No\r\nContent-Length: 0\r\n\r\n"};
    };
    BOOST_TEST(proxy.ask(client, request_for("/yes")) == 451u);
    for (std::string const status : {"226", "452", "599", "999"}) {
        proxy.upstream.answer = [&](std::string const&) {
            return reply{"HTTP/1.1 " + status + " X\r\nContent-Length: 0\r\n\r\n"};
        };
        proxy.ask(client, request_for("/yes"));
    }
    auto malformed = proxy.connect();
    BOOST_TEST(proxy.ask(malformed, "NO\r\n\r\n") == 400u);
    BOOST_TEST(statuses(proxy, "GET,HEAD *.test/no") == "403:2");
    BOOST_TEST(statuses(proxy, "/yes") == "200:1 2xx:1 451:1 4xx:1 5xx:1 other:1");
    BOOST_TEST(statuses(proxy, "none") == "400:1 404:1");
}

BOOST_AUTO_TEST_CASE(are_counted_further_after_a_reload) {
    local_proxy proxy(three_routes);
    auto client = proxy.connect();
    BOOST_TEST(proxy.ask(client, request_for("/yes")) == 200u);
    BOOST_TEST(proxy.ask(client, request_for("/other")) == 404u);
    proxy.reload(three_routes + "[[route]]\npath = \"/more\"\nrespond = 204\n");
    BOOST_TEST(proxy.ask(client, request_for("/yes")) == 200u);
    BOOST_TEST(statuses(proxy, "/yes") == "200:2");
    BOOST_TEST(statuses(proxy, "none") == "404:1");
    BOOST_TEST(statuses(proxy, "/more") == "");
}

// Otherwise a long configuration would make the metrics long.
BOOST_AUTO_TEST_CASE(have_a_bounded_number_of_routes) {
    std::string all;
    for (int i = 0; i != 300; ++i)
        all += "[[route]]\npath = \"/r" + std::to_string(i) + "\"\nrespond = 204\n";
    local_proxy proxy(all);
    auto client = proxy.connect();
    BOOST_TEST(proxy.ask(client, request_for("/r255")) == 204u);
    BOOST_TEST(proxy.ask(client, request_for("/r256")) == 204u);
    BOOST_TEST(proxy.ask(client, request_for("/r299")) == 204u);
    BOOST_TEST(proxy::state_of(proxy.plan()).routes.size() == 256u + 2u);
    BOOST_TEST(statuses(proxy, "/r255") == "204:1");
    BOOST_TEST(statuses(proxy, "other") == "204:2");
}

// A rejection takes no time: its time would hide the time of the others.
BOOST_AUTO_TEST_CASE(have_the_time_of_requests_that_were_not_rejected) {
    local_proxy proxy(support::forwards + R"(limits = ["seats"]
[[limit]]
name = "seats"
rule = "1 seats"
queue = "patience 0s"
)");
    proxy.upstream.answer = nullptr;
    auto client = proxy.connect();
    BOOST_TEST(proxy.ask(client, get) == 0u);
    BOOST_TEST(proxy.ask() == 503u);
    auto const& counts = proxy.worker().accounting().counts();
    BOOST_TEST(counts.active.value() == 1u);
    proxy.pass(200ms);
    proxy.upstream.connections.front().send(support::ok().text);
    proxy.settle();
    BOOST_TEST(support::status_of(client.take()) == 200u);
    BOOST_TEST(counts.active.value() == 0u);
    auto const times = route_of(proxy, "/").times;
    BOOST_TEST(statuses(proxy, "/") == "200:1 503:1");
    BOOST_TEST(times.count() == 1u);
    BOOST_TEST((times.total == 200ms));
    BOOST_TEST(times.counts[8] == 1u);  // above 100 ms, and at most 250 ms
    BOOST_TEST(counts.responses[0].value() == 1u);
    BOOST_TEST(counts.responses[3].value() == 0u);
    BOOST_TEST(counts.response_times[weir::wait_histogram::range_of(200ms)].value() == 1u);
}

BOOST_AUTO_TEST_CASE(have_no_time_of_an_upgraded_connection) {
    local_proxy proxy(support::forwards + "[route.upgrade]\nto = [\"websocket\"]\n");
    proxy.upstream.answer = [](std::string const&) {
        return reply{"HTTP/1.1 101 X\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"};
    };
    auto client = proxy.connect();
    BOOST_TEST(proxy.ask(client, "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\n"
                                 "Upgrade: websocket\r\n\r\n") == 101u);
    proxy.pass(2s);
    client.close();
    proxy.settle();
    proxy.pass(1s);
    BOOST_TEST(statuses(proxy, "/") == "101:1");
    BOOST_TEST(route_of(proxy, "/").times.count() == 0u);
    BOOST_TEST(proxy.worker().accounting().counts().responses[0].value() == 1u);
}

// The client did not receive the response.
BOOST_AUTO_TEST_CASE(are_not_counted_for_a_client_that_disconnected) {
    local_proxy proxy(support::forwards + R"(limits = ["seats"]
[[limit]]
name = "seats"
rule = "1 seats"
queue = "patience 5s"
)");
    proxy.upstream.answer = nullptr;
    auto client = proxy.connect();
    auto waiter = proxy.connect();
    BOOST_TEST(proxy.ask(client, get) == 0u);
    BOOST_TEST(proxy.ask(waiter, get) == 0u);
    auto const& counts = proxy.worker().accounting().counts();
    BOOST_TEST(counts.active.value() == 2u);
    BOOST_TEST(counts.waiting.value() == 1u);
    waiter.close();
    proxy.settle();
    BOOST_TEST(counts.waiting.value() == 0u);
    BOOST_TEST(counts[ending::disconnected].value() == 1u);
    BOOST_TEST(statuses(proxy, "/") == "");
    BOOST_TEST(counts.responses[3].value() == 0u);

    auto other = proxy.connect();  // which closes its sending side, and may still read
    BOOST_TEST(proxy.ask(other, get) == 0u);
    other.end();
    proxy.settle();
    BOOST_TEST(counts.waiting.value() == 0u);
    BOOST_TEST(support::status_of(other.take()) == 503u);
    BOOST_TEST(counts[ending::disconnected].value() == 2u);
    BOOST_TEST(statuses(proxy, "/") == "");
    BOOST_TEST(counts.responses[3].value() == 0u);
}

BOOST_AUTO_TEST_CASE(with_status_5xx_are_counted_by_server) {
    local_proxy proxy(support::forwards);
    auto client = proxy.connect();
    auto const server = [&] {
        return proxy::state_of(proxy.plan()).upstreams.front().servers.front();
    };
    for (std::string const status : {"200", "404", "500", "599"}) {
        proxy.upstream.answer = [&](std::string const&) {
            return reply{"HTTP/1.1 " + status + " X\r\nContent-Length: 0\r\n\r\n"};
        };
        proxy.ask(client, get);
    }
    BOOST_TEST(server().responses.count() == 4u);
    BOOST_TEST(server().error_responses == 2u);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace accounts
