// The server that each request has: by weights, by a key, and by backups.

#include "config/read.hpp"
#include "local_proxy.hpp"
#include "proxy/limit.hpp"
#include "proxy/upstream.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/address.hpp>
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

// Files of this folder are compiled together.
namespace balancing_of_servers {
namespace {

using namespace std::chrono_literals;
using support::local_proxy;

// An upstream without a proxy, whose servers are never connected.
struct some_servers {
    // `servers` are the tables of the servers, without their addresses, which are a:1, a:2 and so on.
    explicit some_servers(std::vector<std::string> const& servers, std::string const& more = "",
                          std::vector<int> const& ports = {}) {
        auto text = "[[upstream]]\nname = \"a\"\n" + more + "\n";
        for (std::size_t i = 0; i != servers.size(); ++i)
            text += "[[upstream.server]]\naddress = \"a:" +
                    std::to_string(ports.empty() ? static_cast<int>(i) + 1 : ports[i]) + "\"\n" +
                    servers[i] + "\n";
        auto const c = config::read(text, "f").upstreams.front();
        for (auto const& s : c.servers) {
            all.push_back(
                std::make_shared<proxy::upstream_server>(s, std::vector<net::endpoint>()));
            all.back()->configure(s, 1000);
        }
        of = std::make_shared<proxy::upstream>(context.get_executor(), c, all, nullptr);
    }

    // The number of the server that gets a request, which holds a seat there until `held` is cleared; 0 if there is none.
    int ask(std::optional<std::uint64_t> key = {}) {
        held.push_back(of->choose({}, key));
        return held.back() ? number_of(held.back().server()) : 0;
    }
    // The same for a request that ends at once.
    int visit(std::optional<std::uint64_t> key = {}) {
        auto const n = ask(key);
        held.pop_back();
        return n;
    }
    // How many of `n` requests each server gets; each request ends before the next one, or at the end.
    std::vector<int> share(int n, bool hold) {
        std::vector<int> counts(all.size());
        for (int i = 0; i != n; ++i)
            ++counts[static_cast<std::size_t>((hold ? ask() : visit()) - 1)];
        held.clear();
        return counts;
    }
    int number_of(proxy::upstream_server const& s) const {
        auto const is_it = [&](auto const& one) { return one.get() == &s; };
        return static_cast<int>(std::ranges::find_if(all, is_it) - all.begin()) + 1;
    }
    void fall(int server) { of->note_check(*all[static_cast<std::size_t>(server - 1)], false); }
    void rise(int server) { of->note_check(*all[static_cast<std::size_t>(server - 1)], true); }
    [[nodiscard]] auto seats() const { return of->seats()->stats().capacity; }

    boost::asio::io_context context;
    std::vector<std::shared_ptr<proxy::upstream_server>> all;
    std::shared_ptr<proxy::upstream> of;
    std::list<proxy::upstream::visit> held;
};

constexpr auto checked = "health = { fall = 1, rise = 1 }";

using counts = std::vector<int>;

// The server of each of 4000 keys.
std::vector<int> servers_of_keys(some_servers& servers) {
    std::vector<int> all;
    for (std::uint64_t key = 0; key != 4000; ++key)
        all.push_back(servers.visit(key));
    return all;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(weights)

BOOST_AUTO_TEST_CASE(divide_concurrent_requests) {
    some_servers two({"weight = 3", ""});
    BOOST_TEST(two.share(40, true) == (counts{30, 10}), boost::test_tools::per_element());
    some_servers three({"weight = 50", "weight = 30", "weight = 20"});
    BOOST_TEST(three.share(100, true) == (counts{50, 30, 20}), boost::test_tools::per_element());
    some_servers extreme({"weight = 100", "weight = 1"});
    BOOST_TEST(extreme.share(99, true) == (counts{99, 0}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(divide_requests_that_follow_each_other) {
    some_servers two({"weight = 3", ""});
    BOOST_TEST(two.share(40, false) == (counts{30, 10}), boost::test_tools::per_element());
    some_servers uneven({"weight = 2", "weight = 3"});
    BOOST_TEST(uneven.share(50, false) == (counts{20, 30}), boost::test_tools::per_element());
    some_servers equal({"", "", ""});
    BOOST_TEST(equal.share(30, false) == (counts{10, 10, 10}), boost::test_tools::per_element());
    some_servers without({"weight = 3", "", "weight = 2"}, checked);
    without.fall(1);
    BOOST_TEST(without.share(30, false) == (counts{0, 10, 20}), boost::test_tools::per_element());
}

// From the words of the reference: the smallest (active requests + 1) / weight, if not all servers are idle.
BOOST_AUTO_TEST_CASE(select_the_smallest_quotient) {
    std::vector<double> const weights{5, 3, 1};
    some_servers servers({"weight = 5", "weight = 3", ""});
    std::vector<double> busy(3);
    for (int i = 0; i != 60; ++i) {
        auto const quotient = [&](std::size_t n) { return (busy[n] + 1) / weights[n]; };
        auto const smallest = std::min({quotient(0), quotient(1), quotient(2)});
        auto const n = static_cast<std::size_t>(servers.ask() - 1);
        if (i != 0)
            BOOST_TEST(quotient(n) <= smallest + 1e-9);
        ++busy[n];
    }
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(a_backup)

BOOST_AUTO_TEST_CASE(gets_requests_only_while_all_other_servers_are_down) {
    some_servers servers({"", "backup = true", ""}, checked);
    BOOST_TEST(servers.share(20, true) == (counts{10, 0, 10}), boost::test_tools::per_element());
    servers.fall(1);
    BOOST_TEST(servers.share(20, true) == (counts{0, 0, 20}), boost::test_tools::per_element());
    servers.fall(3);
    BOOST_TEST(servers.share(20, true) == (counts{0, 20, 0}), boost::test_tools::per_element());
    servers.rise(1);
    BOOST_TEST(servers.share(20, true) == (counts{20, 0, 0}), boost::test_tools::per_element());
    servers.fall(1);
    servers.fall(2);  // all are down
    BOOST_TEST(servers.share(20, true) == (counts{10, 0, 10}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(does_not_help_a_server_that_is_full) {
    some_servers servers({"seats = 2", "seats = 2\nbackup = true"}, checked);
    BOOST_TEST(servers.ask() == 1);
    BOOST_TEST(servers.ask() == 1);
    BOOST_TEST(servers.ask() == 0);
    BOOST_TEST(servers.of->may_have_seats_later({}));
    servers.held.clear();
    servers.fall(1);
    BOOST_TEST(servers.ask() == 2);
    BOOST_TEST(servers.ask() == 2);
    BOOST_TEST(servers.of->may_have_seats_later({}));
    std::vector<proxy::upstream_server const*> const tried{servers.all[1].get()};
    BOOST_TEST(!servers.of->may_have_seats_later(tried));
}

BOOST_AUTO_TEST_CASE(has_seats_that_count_only_then) {
    some_servers servers({"seats = 2", "seats = 3", "seats = 10\nbackup = true"}, checked);
    BOOST_TEST(servers.seats() == 5);
    servers.fall(1);
    BOOST_TEST(servers.seats() == 3);
    servers.fall(2);
    BOOST_TEST(servers.seats() == 10);
    servers.fall(3);
    BOOST_TEST(servers.seats() == 5);
    servers.rise(2);
    BOOST_TEST(servers.seats() == 3);
}

// The first server rejects connections, but there are no checks.
BOOST_AUTO_TEST_CASE(gets_requests_after_a_failed_connection) {
    local_proxy proxy(R"(
[[upstream]]
name = "a"
servers = ["UPSTREAM"]
[[upstream.server]]
address = "OTHER"
backup = true
[[route]]
upstream = "a"
)");
    for (int i = 0; i != 4; ++i)
        BOOST_TEST(proxy.ask() == 200u);
    BOOST_TEST(proxy.other.requests.empty());
    auto& all = *proxy.plan().upstreams.front();
    auto& first = *all.servers().back();  // tables precede the list
    all.note(first, false);
    BOOST_TEST(proxy.ask() == 200u);
    BOOST_TEST(proxy.ask() == 200u);
    BOOST_TEST(proxy.other.requests.size() == 2u);
    proxy.pass(1s);
    BOOST_TEST(proxy.ask() == 200u);
    BOOST_TEST(proxy.other.requests.size() == 2u);
    proxy.pass(1min);  // so that no connection is kept
    proxy.upstream.stop();
    BOOST_TEST(proxy.ask() == 200u);
    BOOST_TEST(proxy.other.requests.size() == 3u);
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(a_key)

BOOST_AUTO_TEST_CASE(has_one_server_and_each_server_its_part_of_the_keys) {
    some_servers servers({"", "", "", ""});
    auto const of = servers_of_keys(servers);
    BOOST_TEST(servers_of_keys(servers) == of, boost::test_tools::per_element());
    some_servers weighted({"weight = 2", "", "", ""});
    auto const by_weight = servers_of_keys(weighted);
    for (int n = 1; n <= 4; ++n) {
        BOOST_TEST(std::abs(std::ranges::count(of, n) - 1000) < 120);  // 4 standard deviations
        BOOST_TEST(std::abs(std::ranges::count(by_weight, n) - (n == 1 ? 1600 : 800)) < 130);
    }
}

// Their order in the file and the other servers do not matter.
BOOST_AUTO_TEST_CASE(moves_only_if_its_server_leaves) {
    some_servers five({"", "", "", "", ""});
    some_servers four({"", "", "", ""}, "", {5, 4, 2, 1});
    auto const before = servers_of_keys(five);
    auto const after = servers_of_keys(four);
    std::vector<int> const ports{5, 4, 2, 1};
    int moved = 0;
    for (std::size_t key = 0; key != before.size(); ++key) {
        auto const port = ports[static_cast<std::size_t>(after[key] - 1)];
        if (before[key] == 3)
            ++moved;
        else
            BOOST_TEST(before[key] == port);
    }
    BOOST_TEST(std::abs(moved - 800) < 110);
}

BOOST_AUTO_TEST_CASE(moves_while_its_server_is_down) {
    some_servers servers({"", "", "", "backup = true"}, checked);
    auto const before = servers_of_keys(servers);
    BOOST_TEST(std::ranges::count(before, 4) == 0);
    servers.fall(2);
    auto const without = servers_of_keys(servers);
    for (std::size_t key = 0; key != before.size(); ++key)
        BOOST_TEST((before[key] == 2 ? without[key] != 2 : without[key] == before[key]));
    BOOST_TEST(std::ranges::count(without, 4) == 0);
    servers.rise(2);
    BOOST_TEST(servers_of_keys(servers) == before, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(has_another_server_if_its_own_is_full) {
    some_servers servers({"seats = 1", "seats = 1"});
    auto const first = servers.ask(7);
    BOOST_TEST(servers.ask(7) == 3 - first);
    BOOST_TEST(servers.ask(7) == 0);
}

// So all proxies, and a proxy after a restart, select the same servers.
BOOST_AUTO_TEST_CASE(is_the_same_in_all_processes) {
    some_servers servers({"", ""}, "hash = \"header X-Session\"");
    http::request_head request;
    BOOST_REQUIRE(!http::parse("GET / HTTP/1.1\r\nHost: a\r\nX-Session: s1\r\n\r\n", request));
    boost::asio::ip::address const client;
    BOOST_TEST(servers.of->key_of({request, client}).value() == 17697961343039885303u);
}

BOOST_AUTO_TEST_CASE(is_a_value_of_the_request) {
    auto const key = [](std::string const& hash, std::string const& fields,
                        std::string const& address = "192.0.2.1") {
        some_servers servers({"", ""}, hash);
        http::request_head request;
        auto const text = "GET /a/b HTTP/1.1\r\nHost: a\r\n" + fields + "\r\n";
        BOOST_REQUIRE(!http::parse(text, request));
        auto const client = boost::asio::ip::make_address(address);
        return servers.of->key_of({request, client});
    };
    auto const by_header = "hash = \"header A\"";
    BOOST_TEST(!key("", "A: 1\r\n").has_value());
    BOOST_TEST(!key(by_header, "B: 1\r\n").has_value());
    BOOST_TEST(!key(by_header, "A:\r\n").has_value());
    BOOST_TEST(key(by_header, "A: 1\r\n").has_value());
    BOOST_TEST(key(by_header, "A: 1\r\n").value() ==
               key(by_header, "a: 1\r\n", "192.0.2.2").value());
    BOOST_TEST(key(by_header, "A: 1\r\n").value() != key(by_header, "A: 2\r\n").value());
    auto const by_both = "hash = [\"header A\", \"path 2\"]";
    BOOST_TEST(!key(by_both, "").has_value());
    BOOST_TEST(key(by_both, "A: 1\r\n").has_value());
    BOOST_TEST(!key("hash = [\"header A\", \"path 3\"]", "A: 1\r\n").has_value());
    auto const or_client = "hash = \"header A or client\"";
    BOOST_TEST(key(or_client, "").value() != key(or_client, "", "192.0.2.2").value());
    BOOST_TEST(key(or_client, "A: 1\r\n").value() ==
               key(or_client, "A: 1\r\n", "192.0.2.2").value());
    auto const by_client = "hash = \"client\"";
    BOOST_TEST(key(by_client, "").value() != key(by_client, "", "192.0.2.2").value());
    BOOST_TEST(key(by_client, "", "2001:db8::1").value() ==
               key(by_client, "", "2001:db8::2").value());
}

BOOST_AUTO_TEST_CASE(selects_the_server_of_requests_also_after_a_reload) {
    auto const configuration = [](std::string const& servers) {
        return "[[upstream]]\nname = \"a\"\nhash = \"header X-Session\"\nservers = [" + servers +
               "]\n[[route]]\nupstream = \"a\"\n";
    };
    local_proxy proxy(configuration("\"UPSTREAM\", \"OTHER\""));
    auto const servers = [&] {
        std::string all;
        for (int i = 0; i != 40; ++i) {
            auto client = proxy.connect();
            auto const before = proxy.upstream.requests.size();
            BOOST_TEST(proxy.ask(client, "GET / HTTP/1.1\r\nHost: a\r\nX-Session: s" +
                                             std::to_string(i) + "\r\n\r\n") == 200u);
            all += proxy.upstream.requests.size() > before ? 'u' : 'o';
        }
        return all;
    };
    auto const before = servers();
    BOOST_TEST(before.find('u') != before.npos);
    BOOST_TEST(before.find('o') != before.npos);
    BOOST_TEST(servers() == before);
    proxy.reload(configuration("\"OTHER\", \"UPSTREAM\""));
    BOOST_TEST(servers() == before);
    // A request without the header has the least busy server.
    proxy.upstream.requests.clear();
    proxy.other.requests.clear();
    for (int i = 0; i != 10; ++i)
        BOOST_TEST(proxy.ask() == 200u);
    BOOST_TEST(proxy.upstream.requests.size() == 5u);
    BOOST_TEST(proxy.other.requests.size() == 5u);
    proxy.reload(configuration("\"OTHER\""));
    BOOST_TEST(servers() == std::string(40, 'o'));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace balancing_of_servers
