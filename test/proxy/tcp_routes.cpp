#include "local_proxy.hpp"
#include "net/hello_message.hpp"
#include "net/hello_properties.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <iterator>
#include <list>
#include <string>
#include <string_view>

using namespace std::chrono_literals;
using support::local_proxy;
using support::temporary_folder;
using support::wire;

// Files of this folder are compiled together.
namespace routes_by_server_name {
namespace {

constexpr auto rounds = 2 * net::watchdog::round;
constexpr std::string_view unrecognized_name{"\x15\x03\x03\0\2\2\x70", 7};

std::string const upstreams = R"(
[[upstream]]
name = "a"
servers = ["UPSTREAM"]
[[upstream]]
name = "b"
servers = ["OTHER"]
[[limit]]
name = "of b"
rule = "1 seats"
queue = "patience 10s"
[[limit]]
name = "all"
rule = "3 seats"
queue = "patience 10s"
[[listen]]
address = "127.0.0.1:1"
)";
std::string const table = upstreams + R"(
[listen.tcp]
upstream = "a"
[[listen.tcp.route]]
sni = ["b.example", "*.x.example"]
upstream = "b"
[[listen.tcp.route]]
sni = "y.x.example"
upstream = "a"
)";
std::string const without_rest = upstreams + R"(
[listen.tcp]
limits = "all"
[[listen.tcp.route]]
sni = "b.example"
upstream = "b"
limits = "of b"
)";

std::string hello_for(std::string_view name, std::size_t record = 16'384) {
    return hello::records_of(
        name.empty() ? hello::message().text() : hello::asks_for(name).text(), record);
}

struct tcp_proxy : local_proxy {
    explicit tcp_proxy(std::string const& configuration, tool::log_file* log = nullptr)
        : local_proxy(configuration, log) {
        upstream.answer = other.answer = nullptr;
    }
    wire& client(std::string const& first = {}, std::string const& address = "10.0.0.1") {
        auto& made = clients.emplace_back(connect(address));
        if (!first.empty())
            made.send(first);
        settle();
        return made;
    }
    // The upstreams that got all of these bytes, as the first ones of a new connection.
    [[nodiscard]] std::string takers_of(std::string const& bytes) {
        auto const a = upstream.connections.size();
        auto const b = other.connections.size();
        client(bytes);
        std::string takers;
        if (upstream.connections.size() > a && upstream.connections.back().take() == bytes)
            takers += 'a';
        if (other.connections.size() > b && other.connections.back().take() == bytes)
            takers += 'b';
        return takers;
    }
    // The counters of a route.
    [[nodiscard]] admin::tcp_state of(std::string const& sni = "") const {
        auto const& service = plan().services.front();
        return service.state_of(*std::ranges::find(service.routes, sni, &proxy::tcp_route::sni));
    }

    std::list<wire> clients;
};

using counts = decltype(admin::tcp_state::ended);

}  // namespace

BOOST_AUTO_TEST_SUITE(a_connection_with_a_server_name)

BOOST_AUTO_TEST_CASE(reaches_the_upstream_of_the_name_with_all_bytes) {
    tcp_proxy proxy(table);
    for (auto const* const name : {"b.example", "B.EXAMPLE", "b.example.", "z.x.example"})
        BOOST_TEST(proxy.takers_of(hello_for(name) + "and more") == "b");
    // An exact name comes before a wildcard, which matches one label.
    for (auto const* const name : {"y.x.example", "x.example", "z.y.x.example", "other",
                                   "*.x.example", "10.0.0.1", "::1", ".x.example"})
        BOOST_TEST(proxy.takers_of(hello_for(name)) == "a");
    BOOST_TEST(proxy.takers_of(hello_for("")) == "a");
    BOOST_TEST(proxy.takers_of("GET / HTTP/1.1\r\n\r\n") == "a");
    BOOST_TEST(proxy.takers_of(std::string(20'000, 'x')) == "a");
    BOOST_TEST(proxy.takers_of(hello_for("b.example", 7)) == "b");
    BOOST_TEST(proxy.of("b.example,*.x.example").active == 5u);
    BOOST_TEST(proxy.of("y.x.example").active == 1u);
    BOOST_TEST(proxy.of().active == 10u);
}

BOOST_AUTO_TEST_CASE(may_send_it_in_pieces) {
    tcp_proxy proxy(table);
    auto const bytes = hello_for("b.example", 3);
    auto& client = proxy.client();
    for (char const c : bytes) {
        BOOST_TEST(proxy.other.connections.empty());
        client.send(std::string(1, c));
        proxy.settle();
    }
    BOOST_REQUIRE(proxy.other.connections.size() == 1u);
    BOOST_TEST(proxy.other.connections.back().take() == bytes);
    proxy.other.connections.back().send("answer");
    client.send("more");
    proxy.settle();
    BOOST_TEST(client.take() == "answer");
    BOOST_TEST(proxy.other.connections.back().take() == "more");
}

BOOST_AUTO_TEST_CASE(has_5_s_for_the_name) {
    tcp_proxy proxy(table);
    auto& silent = proxy.client();
    auto& half = proxy.client(hello_for("b.example").substr(0, 60));
    auto& slow = proxy.client();
    for (int i = 0; i != 4; ++i) {
        slow.send(hello_for("b.example").substr(static_cast<std::size_t>(i), 1));
        proxy.pass(1s);
    }
    proxy.pass(900ms);
    BOOST_TEST(!half.ended());
    BOOST_TEST(!slow.ended());
    BOOST_TEST(proxy.upstream.connections.empty());
    proxy.pass(100ms + rounds);
    BOOST_TEST(half.ended());
    BOOST_TEST(slow.ended());
    BOOST_TEST((proxy.of().ended == counts{0, 0, 2}));
    // In some protocols the server speaks first.
    BOOST_TEST(!silent.ended());
    BOOST_REQUIRE(proxy.upstream.connections.size() == 1u);
    proxy.upstream.connections.back().send("hello");
    proxy.pass(6s);
    BOOST_TEST(silent.take() == "hello");
    BOOST_TEST(proxy.other.connections.empty());
}

BOOST_AUTO_TEST_CASE(may_end_before_the_name) {
    for (bool const half : {false, true}) {
        tcp_proxy proxy(table);
        for (auto const& first : {std::string(), hello_for("b.example").substr(0, 60)}) {
            auto& client = proxy.client(first);
            if (half)
                client.end();
            else
                client.close();
        }
        proxy.settle();
        BOOST_TEST((proxy.of().ended == counts{0, 0, 2}));
        BOOST_TEST(proxy.upstream.connections.empty());
        BOOST_TEST(proxy.worker().accounting().counts().open.value() == 0u);
    }
}

BOOST_AUTO_TEST_CASE(without_an_upstream_gets_an_alert) {
    tcp_proxy proxy(without_rest);
    for (auto const* const name : {"a.example", "", "10.0.0.1"}) {
        auto& client = proxy.client(hello_for(name));
        BOOST_TEST(client.take() == unrecognized_name);
        BOOST_TEST(client.ended());
    }
    auto& other = proxy.client("GET / HTTP/1.1\r\n\r\n");
    BOOST_TEST(other.take() == "");
    BOOST_TEST(other.ended());
    auto& silent = proxy.client();
    proxy.pass(5s + rounds);
    BOOST_TEST(silent.ended());
    BOOST_TEST((proxy.of().ended == counts{0, 0, 0, 0, 5}));
    BOOST_TEST(proxy.takers_of(hello_for("b.example")) == "b");
}

BOOST_AUTO_TEST_CASE(has_the_limits_of_its_route_and_of_all) {
    tcp_proxy proxy(without_rest);
    auto const in_use = [&](std::size_t n) { return proxy.plan().limits.at(n)->stats().in_use; };
    BOOST_TEST(proxy.takers_of(hello_for("b.example")) == "b");
    static_cast<void>(proxy.client());  // it has no permit before its name is known
    BOOST_TEST(in_use(0) == 1);
    BOOST_TEST(in_use(1) == 1);
    auto const bytes = hello_for("b.example") + "early";
    auto& waiting = proxy.client(bytes);
    BOOST_TEST(proxy.of("b.example").waiting == 1u);
    waiting.send(" and late");
    proxy.clients.front().close();
    proxy.other.connections.front().close();
    proxy.settle();
    BOOST_REQUIRE(proxy.other.connections.size() == 2u);
    BOOST_TEST(proxy.other.connections.back().take() == bytes + " and late");
    static_cast<void>(proxy.client(hello_for("b.example")));
    proxy.clients.back().close();
    proxy.pass(1s);
    BOOST_TEST((proxy.of("b.example").ended == counts{1, 0, 1}));
}

BOOST_AUTO_TEST_CASE(may_come_by_a_balancer) {
    tcp_proxy proxy("[clients]\ntrusted = [\"10.0.0.1\"]\n" + table);
    proxy.is_introduced = true;
    auto const line = std::string("PROXY TCP4 192.0.2.1 10.0.0.5 1 2\r\n");
    auto const bytes = hello_for("b.example");
    for (auto const cut : {0u, 10u, 60u}) {
        proxy.client(line + bytes.substr(0, cut)).send(bytes.substr(cut));
        proxy.settle();
        BOOST_TEST(proxy.other.connections.back().take() == bytes);
    }
}

BOOST_AUTO_TEST_CASE(keeps_its_upstream_and_its_counters_in_a_reload) {
    tcp_proxy proxy(table);
    auto& client = proxy.client(hello_for("b.example"));
    auto changed = table;
    changed.replace(changed.find("\"b\"\n[[listen.tcp"), 3, "\"a\"");
    proxy.reload(changed);
    client.send("x");
    proxy.settle();
    BOOST_TEST(proxy.other.connections.back().take() == hello_for("b.example") + "x");
    BOOST_TEST(proxy.of("b.example,*.x.example").active == 1u);
    BOOST_TEST(proxy.takers_of(hello_for("b.example")) == "a");
}

BOOST_AUTO_TEST_CASE(is_in_the_access_log_by_its_name) {
    temporary_folder const folder("weir-tcp-");
    auto const path = folder / "log";
    {
        tool::log_file log(path);
        tcp_proxy proxy(without_rest, &log);
        proxy.client(hello_for("B.example"), "10.0.0.7").close();
        proxy.other.connections.back().close();
        proxy.settle();
        static_cast<void>(proxy.client(hello_for("a\"b"), "10.0.0.8"));
        proxy.client(hello_for("b.example").substr(0, 9));
        proxy.pass(5s + rounds);
        log.end();
    }
    std::ifstream in(path);
    std::string line;
    std::getline(in, line);
    BOOST_TEST(line.find(" 10.0.0.7 \"tcp 127.0.0.1:1 B.example\" 200 0 ") != line.npos);
    std::getline(in, line);
    BOOST_TEST(line.find(" 10.0.0.8 \"tcp 127.0.0.1:1 a\\x22b\" 404 0 ") != line.npos);
    std::getline(in, line);
    BOOST_TEST(line.find(" \"tcp 127.0.0.1:1\" 408 0 ") != line.npos);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace routes_by_server_name
