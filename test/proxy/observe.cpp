// The state of limits for the admin pages, and changes of rules by an operator.

#include "proxy/observe.hpp"

#include <weir/client_key.hpp>

#include "local_proxy.hpp"
#include "proxy/latency_counter.hpp"

#include <boost/asio/ip/address.hpp>
#include <boost/test/unit_test.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <list>
#include <optional>
#include <ranges>
#include <string>

// Files of this folder are compiled together.
namespace observed_limits {
namespace {

using namespace std::chrono_literals;
using admin::reason;
using support::get;
using support::local_proxy;

std::string limited(std::string const& limit) {
    return support::forwards + "limits = [\"a\"]\n[[limit]]\nname = \"a\"\n" + limit;
}

struct observed {
    explicit observed(std::string const& limit) : proxy(limited(limit)) {}

    [[nodiscard]] admin::limit_state limit() const {
        return proxy::state_of(proxy.plan()).limits.front();
    }
    [[nodiscard]] std::uint64_t rejected(reason why) const {
        return admin::rejections_of(limit().stats)[static_cast<std::size_t>(why)];
    }
    admin::answer set(std::string_view rule) {
        return proxy::set_rule(*proxy.plan().limits.front(), rule, "10.0.0.9");
    }

    local_proxy proxy;
};

}  // namespace

BOOST_AUTO_TEST_SUITE(an_operator)

BOOST_AUTO_TEST_CASE(sees_the_properties_of_a_limit) {
    observed some("rule = \"10/1s burst 20\"\nkey = [\"client\", \"path 1\"]\n");
    auto const l = some.limit();
    BOOST_TEST(l.name == "a");
    BOOST_TEST(l.rule == "10/1s burst 20");
    BOOST_TEST(l.key == "client and path 1");
    BOOST_TEST(!l.seats);
    BOOST_TEST((l.keys == 0u));
    BOOST_TEST(!l.writable);
}

BOOST_AUTO_TEST_CASE(sees_the_routes_of_a_limit) {
    std::string configuration = R"(
[[upstream]]
name = "a"
[[upstream.server]]
address = "UPSTREAM"
seats = 3
[[limit]]
name = "l"
rule = "1/1s"
dry_run = true
[[route]]
path = "/none"
upstream = "a"
)";
    for (int i = 0; i != 9; ++i)
        configuration +=
            "[[route]]\npath = \"/" + std::to_string(i) + "\"\nrespond = 204\nlimits = [\"l\"]\n";
    local_proxy const proxy(configuration);
    auto const limits = proxy::state_of(proxy.plan()).limits;
    BOOST_REQUIRE(limits.size() == 2u);
    BOOST_TEST(limits[0].routes_total == 9u);
    BOOST_REQUIRE(limits[0].routes.size() == 8u);
    BOOST_TEST(limits[0].routes[7] == "/7");
    BOOST_TEST(limits[1].name == "upstream a");
    BOOST_TEST(limits[1].routes_total == 1u);
    BOOST_TEST(limits[1].routes.front() == "/none");
}

BOOST_AUTO_TEST_CASE(sees_each_rejection_immediately) {
    observed some("rule = \"2/60s\"\nqueue = \"patience 0s\"\n");
    for (int i = 0; i != 5; ++i)
        some.proxy.ask();
    BOOST_TEST(some.limit().stats.granted == 2u);
    BOOST_TEST(some.limit().stats.granted_immediately == 2u);
    BOOST_TEST(some.rejected(reason::no_permit) == 3u);
    BOOST_TEST(some.limit().rejected_total() == 3u);
}

BOOST_AUTO_TEST_CASE(sees_each_rejection_once) {
    for (std::string const patience : {"0s", "1s"}) {
        observed some(
            "rule = \"9/1s\"\nkey = \"header X-Key\"\nmax_keys = 1\nwhen_full = \"reject\"\n"
            "queue = \"patience " +
            patience + "\"\n");
        auto client = some.proxy.connect();
        for (std::string const key : {"a", "b", "c"})
            some.proxy.ask(client, "GET / HTTP/1.1\r\nHost: a\r\nX-Key: " + key + "\r\n\r\n");
        BOOST_TEST(some.rejected(reason::too_many_keys) == 2u);
        BOOST_TEST(some.limit().rejected_total() == 2u);
        BOOST_TEST(some.limit().stats.granted == 1u);
    }
}

BOOST_AUTO_TEST_CASE(sees_no_rejection_of_a_waiting_request) {
    observed some("rule = \"1 seats\"\nqueue = \"max_waiting 1 patience 1s\"\n");
    some.proxy.upstream.answer = nullptr;
    std::list<support::wire> clients;
    for (int i = 0; i != 3; ++i) {
        clients.push_back(some.proxy.connect());
        some.proxy.ask(clients.back(), get);
    }
    BOOST_TEST(some.limit().stats.waiting == 1u);
    BOOST_TEST(some.limit().stats.in_use == 1u);
    BOOST_TEST(some.rejected(reason::no_permit) == 0u);
    BOOST_TEST(some.rejected(reason::queue_full) == 1u);
    some.proxy.pass(1001ms);
    BOOST_TEST(some.rejected(reason::timed_out) == 1u);
    BOOST_TEST(some.limit().rejected_total() == 2u);
    BOOST_TEST((some.limit().stats.capacity == 1));
}

BOOST_AUTO_TEST_CASE(sees_the_rejections_of_a_dry_run) {
    observed some("rule = \"1/60s\"\ndry_run = true\n");
    for (int i = 0; i != 3; ++i)
        BOOST_TEST(some.proxy.ask() == 200u);
    BOOST_TEST(some.limit().dry_run);
    BOOST_TEST(some.rejected(reason::no_permit) == 2u);
}

BOOST_AUTO_TEST_CASE(sees_clients_by_address_or_network) {
    auto const name = [](char const* address) {
        return proxy::name_of_client(weir::client_key(boost::asio::ip::make_address(address)));
    };
    BOOST_TEST(name("192.0.2.1") == "192.0.2.1");
    BOOST_TEST(name("2001:db8:1:2:3::4") == "2001:db8:1:2::/64");
    BOOST_TEST(name("0.0.0.0") == "a unix socket");
}

BOOST_AUTO_TEST_CASE(changes_the_rule_of_a_limit) {
    observed some("rule = \"1/30s\"\nqueue = \"patience 0s\"\n");
    BOOST_TEST(some.proxy.ask() == 200u);
    BOOST_TEST(some.proxy.ask() == 429u);
    auto const done = some.set("3/30s");
    BOOST_TEST(done.status == 200u);
    BOOST_TEST(done.text == "3/30s");
    BOOST_TEST(some.limit().rule == "3/30s");
    BOOST_TEST(some.proxy.ask() == 200u);  // the permits used before still count
    BOOST_TEST(some.proxy.ask() == 200u);
    BOOST_TEST(some.proxy.ask() == 429u);
    // A reload restores the rule of the file.
    some.proxy.reload(limited("rule = \"1/30s\"\nqueue = \"patience 0s\"\n"));
    BOOST_TEST(some.limit().rule == "1/30s");
    some.proxy.pass(30s);
    BOOST_TEST(some.proxy.ask() == 200u);
    BOOST_TEST(some.proxy.ask() == 429u);
}

// A second undo, perhaps by another operator, does not restore the rule that was undone.
BOOST_AUTO_TEST_CASE(undoes_the_last_change_once) {
    observed some("rule = \"1/30s\"\nqueue = \"patience 0s\"\n");
    auto const undo = [&] { return proxy::undo_rule(*some.proxy.plan().limits.front(), "me"); };
    BOOST_TEST(undo().status == 409u);
    BOOST_TEST(!some.limit().changed);
    auto const before = std::chrono::system_clock::now();
    // Neither the rule in force nor an invalid rule is a change.
    for (char const* const rule : {"3/30s", "2/30s", "2/30s", "0/30s", "2 seats"})
        static_cast<void>(some.set(rule));
    BOOST_REQUIRE(some.limit().changed.has_value());
    BOOST_TEST(some.limit().changed->from == "3/30s");
    BOOST_TEST((some.limit().changed->at >= before));
    auto const done = undo();
    BOOST_TEST(done.status == 200u);
    BOOST_TEST(done.text == "3/30s");
    BOOST_TEST(some.limit().rule == "3/30s");
    BOOST_TEST(!some.limit().changed);
    BOOST_TEST(undo().status == 409u);
    BOOST_TEST(some.limit().rule == "3/30s");
    for (auto const status : {200u, 200u, 200u, 429u})
        BOOST_TEST(some.proxy.ask() == status);
}

BOOST_AUTO_TEST_CASE(has_nothing_to_undo_after_a_reload) {
    for (std::string const rule : {"1/30s", "3/30s"}) {  // also if the file has the new rule
        observed some("rule = \"1/30s\"\n");
        BOOST_TEST(some.set("3/30s").status == 200u);
        some.proxy.reload(limited("rule = \"" + rule + "\"\n"));
        BOOST_TEST(!some.limit().changed);
        BOOST_TEST(proxy::undo_rule(*some.proxy.plan().limits.front(), "me").status == 409u);
        BOOST_TEST(some.limit().rule == rule);
    }
}

BOOST_AUTO_TEST_CASE(cannot_change_the_kind_of_a_limit) {
    observed some("rule = \"1/30s\"\n");
    for (char const* const other : {"3 seats", "1/30s burst 2", "1/30s & 2/1h"})
        BOOST_TEST(some.set(other).status == 409u, other);
    for (char const* const wrong : {"", "fast", "0/1s", "1/30s\n"})
        BOOST_TEST(some.set(wrong).status == 400u, wrong);
    BOOST_TEST(some.limit().rule == "1/30s");
}

BOOST_AUTO_TEST_CASE(cannot_make_a_limit_reject_every_request) {
    observed some("rule = \"9/30s\"\ncost = 5\n");
    BOOST_TEST(some.set("5/30s").status == 200u);
    BOOST_TEST(some.set("4/30s").status == 409u);
    BOOST_TEST(some.limit().rule == "5/30s");
}

// Active requests are counted where they select the server.
BOOST_AUTO_TEST_CASE(sees_the_seats_and_active_requests_of_servers) {
    auto const servers_of = [](std::string const& upstream) {
        local_proxy proxy(upstream + "[[route]]\nupstream = \"a\"\n");
        proxy.upstream.answer = nullptr;
        auto client = proxy.connect();
        BOOST_TEST(proxy.ask(client, get) == 0u);
        return proxy::state_of(proxy.plan()).upstreams.front().servers;
    };
    std::string const a = "[[upstream]]\nname = \"a\"\n";
    std::string const seats =
        "health = {}\n[[upstream.server]]\naddress = \"UPSTREAM\"\nseats = 3\n";
    auto const one = servers_of(a + "servers = \"UPSTREAM\"\n");
    BOOST_TEST((one.front().seats == std::nullopt));
    BOOST_TEST((one.front().active == std::nullopt));
    BOOST_TEST(one.front().connections == 1u);
    auto const with_seats = servers_of(a + seats);
    BOOST_TEST((with_seats.front().seats == 3));
    BOOST_TEST((with_seats.front().active == 1u));
    auto const two = servers_of(a + "servers = [\"UPSTREAM\", \"OTHER\"]\n");
    BOOST_TEST((two.front().seats == std::nullopt));
    BOOST_TEST((two.front().active == 1u));
    BOOST_TEST((two.back().active == 0u));
}

// As Prometheus counts: a range includes its end.
BOOST_AUTO_TEST_CASE(sees_latencies_in_ranges) {
    proxy::latency_counter counts;
    auto const& ends = admin::latency::ends;
    for (auto const end : ends)
        counts.count(end);
    for (auto const n : counts.sum().counts | std::views::take(ends.size()))
        BOOST_TEST(n == 1u);
    BOOST_TEST(counts.sum().counts.back() == 0u);
    for (auto const end : ends)
        counts.count(end + 1ns);
    BOOST_TEST(counts.sum().counts.front() == 1u);
    for (auto const n :
         counts.sum().counts | std::views::drop(1) | std::views::take(ends.size() - 1))
        BOOST_TEST(n == 2u);
    BOOST_TEST(counts.sum().counts.back() == 1u);
    BOOST_TEST(counts.sum().count() == 2 * ends.size());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace observed_limits
