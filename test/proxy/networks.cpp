// Routes by client and header, limits of networks, and requests without a limit.

#include "local_proxy.hpp"

#include <boost/test/unit_test.hpp>

#include <string>
#include <string_view>

// Files of this folder are compiled together.
namespace networks_of_clients {
namespace {

using support::field_of;
using support::get;
using support::local_proxy;
using support::status_of;

constexpr std::string_view upstream = "[[upstream]]\nname = \"shop\"\nservers = \"UPSTREAM\"\n";

std::string with(std::string_view more) {
    return std::string(upstream) + std::string(more);
}

std::string request(std::string const& fields) {
    return "GET / HTTP/1.1\r\nHost: test\r\n" + fields + "\r\n";
}

// The status of a request of that client.
unsigned ask(local_proxy& proxy, std::string const& client, std::string const& fields = "") {
    auto c = proxy.connect(client);
    return proxy.ask(c, request(fields));
}

// The number of ten requests of a client that are granted.
int granted(local_proxy& proxy, std::string const& client, std::string const& fields = "") {
    int n = 0;
    for (int i = 0; i != 10; ++i)
        n += ask(proxy, client, fields) == 200 ? 1 : 0;
    return n;
}

constexpr std::string_view limited =
    "[[route]]\nupstream = \"shop\"\nlimits = [\"client\"]\n"
    "[[limit]]\nname = \"client\"\nrule = \"3/1h\"\nkey = \"client\"\nqueue = \"patience 0s\"\n";

}  // namespace

BOOST_AUTO_TEST_SUITE(a_route)

BOOST_AUTO_TEST_CASE(may_deny_or_allow_networks) {
    local_proxy deny(
        with("[[route]]\nclient = [\"10.1.0.0/16\", \"2001:db8::/32\"]\nrespond = 403\n"
             "[[route]]\nupstream = \"shop\"\n"));
    BOOST_TEST(ask(deny, "10.1.2.3") == 403u);
    BOOST_TEST(ask(deny, "::ffff:10.1.2.3") == 403u);
    BOOST_TEST(ask(deny, "2001:db8:1::7") == 403u);
    BOOST_TEST(ask(deny, "10.2.0.1") == 200u);
    BOOST_TEST(ask(deny, "2001:db9::1") == 200u);
    local_proxy allow(with("[[route]]\nclient = \"10.0.0.0/8\"\nupstream = \"shop\"\n"
                           "[[route]]\nrespond = 403\n"));
    BOOST_TEST(ask(allow, "10.2.0.1") == 200u);
    BOOST_TEST(ask(allow, "11.0.0.1") == 403u);
    BOOST_TEST(ask(allow, "::1") == 403u);
}

BOOST_AUTO_TEST_CASE(takes_the_client_that_a_trusted_peer_names) {
    local_proxy proxy(with("[clients]\ntrusted = \"10.0.0.9\"\n"
                           "[[route]]\nclient = \"192.0.2.0/24\"\nrespond = 403\n"
                           "[[route]]\nupstream = \"shop\"\n"));
    auto const named = "X-Forwarded-For: 192.0.2.1\r\n";
    BOOST_TEST(ask(proxy, "10.0.0.9", named) == 403u);
    BOOST_TEST(ask(proxy, "10.0.0.9") == 200u);
    BOOST_TEST(ask(proxy, "10.0.0.1", named) == 200u);
}

BOOST_AUTO_TEST_CASE(matches_header_fields_by_one_of_their_values) {
    local_proxy proxy(
        with("[[route]]\nheader = { \"X-Plan\" = [\"gold\", \"silver\"], A = \"b\" }\n"
             "respond = 204\n[[route]]\nupstream = \"shop\"\n"));
    BOOST_TEST(ask(proxy, "10.0.0.1", "X-Plan: gold\r\nA: b\r\n") == 204u);
    BOOST_TEST(ask(proxy, "10.0.0.1", "x-plan:   silver \r\na: b\r\n") == 204u);
    for (auto const* const fields : {"", "X-Plan: gold\r\n", "A: b\r\n", "X-Plan: Gold\r\nA: b\r\n",
                                     "X-Plan: gold,silver\r\nA: b\r\n", "X-Plan:\r\nA: b\r\n",
                                     "X-Plan: gold\r\nA: b\r\nConnection: A\r\n"})
        BOOST_TEST(ask(proxy, "10.0.0.1", fields) == 200u, fields);
    for (auto const* const fields :
         {"X-Plan: gold\r\nA: b\r\nA: c\r\n", "X-Plan: free\r\nX-Plan: gold\r\n"})
        BOOST_TEST(ask(proxy, "10.0.0.1", fields) == 400u, fields);
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(a_limit_of_networks)

BOOST_AUTO_TEST_CASE(uses_the_longest_network) {
    local_proxy proxy(
        with(std::string(limited) +
             "[limit.overrides]\n\"10.0.0.0/8\" = \"5/1h\"\n\"10.1.0.0/16\" = "
             "\"unlimited\"\n\"10.1.1.1\" = \"1/1h\"\n\"2001:db8::/32\" = \"2/1h\"\n"));
    BOOST_TEST(granted(proxy, "10.9.9.9") == 5);
    BOOST_TEST(granted(proxy, "10.9.9.8") == 5);
    BOOST_TEST(granted(proxy, "10.1.9.9") == 10);
    BOOST_TEST(granted(proxy, "10.1.1.1") == 1);
    BOOST_TEST(granted(proxy, "11.0.0.1") == 3);
    BOOST_TEST(granted(proxy, "2001:db8:1:2::1") == 2);
    BOOST_TEST(granted(proxy, "2001:db8:1:2::2") == 0);  // the same client
    BOOST_TEST(granted(proxy, "2001:db8:1:3::1") == 2);
}

BOOST_AUTO_TEST_CASE(tells_a_client_the_rule_of_its_network) {
    local_proxy proxy(with(std::string(limited) +
                           "[limit.overrides]\n\"10.0.0.0/8\" = \"5/1h\"\n\"11.0.0.0/8\" = "
                           "\"unlimited\"\n"));
    auto const answer = [&](std::string const& client) {
        auto c = proxy.connect(client);
        c.send(get);
        proxy.settle();
        return c.take();
    };
    auto const first = answer("10.0.0.1");
    BOOST_TEST(field_of(first, "RateLimit-Policy").starts_with(R"("client";q=5;w=3600;pk=)"));
    BOOST_TEST(field_of(first, "RateLimit").starts_with(R"("client";r=4;t=3600;pk=)"));
    auto const second = answer("11.0.0.1");
    BOOST_TEST(status_of(second) == 200u);
    BOOST_TEST(field_of(second, "RateLimit-Policy") == "");
    BOOST_TEST(field_of(second, "RateLimit") == "");
}

BOOST_AUTO_TEST_CASE(tells_nothing_of_a_limit_for_other_networks) {
    local_proxy proxy(with(
        "[[route]]\nupstream = \"shop\"\nlimits = [\"client\"]\n[[limit]]\nname = \"client\"\n"
        "rule = \"unlimited\"\nkey = \"client\"\n[limit.overrides]\n\"10.0.0.0/8\" = \"5/1h\"\n"));
    auto const policy_for = [&](std::string const& client) {
        auto c = proxy.connect(client);
        c.send(get);
        proxy.settle();
        return std::string(field_of(c.take(), "RateLimit-Policy"));
    };
    BOOST_TEST(policy_for("10.0.0.1").starts_with(R"("client";q=5;w=3600;pk=)"));
    BOOST_TEST(policy_for("11.0.0.1") == "");
}

BOOST_AUTO_TEST_CASE(may_be_off) {
    local_proxy proxy(with("[[route]]\nupstream = \"shop\"\nlimits = [\"a\", \"b\"]\n"
                           "[[limit]]\nname = \"a\"\nrule = \"unlimited\"\n"
                           "[[limit]]\nname = \"b\"\nrule = \"4/1h\"\nqueue = \"patience 0s\"\n"));
    BOOST_TEST(granted(proxy, "10.0.0.1") == 4);
}

BOOST_AUTO_TEST_CASE(limits_clients_that_send_no_key) {
    local_proxy proxy(with(
        "[[route]]\nupstream = \"shop\"\nlimits = [\"key\"]\n"
        "[[limit]]\nname = \"key\"\nrule = \"3/1h\"\nqueue = \"patience 0s\"\n"
        "key = \"header X-Api-Key or cookie key or client\"\n"
        "[limit.overrides]\n\"gold\" = \"5/1h\"\n\"10.0.0.0/8\" = \"unlimited\"\n"));
    BOOST_TEST(granted(proxy, "11.0.0.1") == 3);
    BOOST_TEST(granted(proxy, "11.0.0.2") == 3);
    BOOST_TEST(granted(proxy, "10.0.0.1") == 10);
    BOOST_TEST(granted(proxy, "10.0.0.1", "X-Api-Key: a\r\n") == 3);
    BOOST_TEST(granted(proxy, "10.0.0.1", "Cookie: key=a\r\n") == 0);  // the same key
    BOOST_TEST(granted(proxy, "11.0.0.1", "X-Api-Key: gold\r\n") == 5);
    // A value that is a text of a network has the common rule.
    BOOST_TEST(granted(proxy, "11.0.0.1", "X-Api-Key: 10.0.0.0/8\r\n") == 3);
    BOOST_TEST(granted(proxy, "11.0.0.1", "Cookie: key=10.0.0.1\r\n") == 3);
}

BOOST_AUTO_TEST_CASE(rejects_requests_that_leave_its_key_open) {
    local_proxy proxy(with("[[route]]\nupstream = \"shop\"\nlimits = [\"key\"]\n"
                           "[[limit]]\nname = \"key\"\nrule = \"3/1h\"\nqueue = \"patience 0s\"\n"
                           "key = \"cookie session or reject\"\n"));
    for (auto const* const fields :
         {"", "Cookie: session=\r\n", "Cookie: x=session\r\n", "Cookie: session=a; session=b\r\n"})
        BOOST_TEST(ask(proxy, "10.0.0.1", fields) == 400u, fields);
    BOOST_TEST(granted(proxy, "10.0.0.1", "Cookie: session=a\r\n") == 3);
    BOOST_TEST(ask(proxy, "10.0.0.1", "Cookie: session=" + std::string(100'000, 'a') + "\r\n") ==
               431u);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace networks_of_clients
