// Keys of limits, orders of queues by client and class, and the status of a rejection by a limit per client.

#include "proxy/key.hpp"

#include "local_proxy.hpp"
#include "proxy/client.hpp"

#include <boost/asio/ip/address.hpp>
#include <boost/test/unit_test.hpp>

#include <array>
#include <chrono>
#include <cstdint>
#include <list>
#include <optional>
#include <string>
#include <vector>

// Files of this folder are compiled together.
namespace keys_of_limits {
namespace {

using namespace std::chrono_literals;
using config::key_part;
using kind = config::key_part::kind;
using support::get;
using support::local_proxy;
using support::status_of;

key_part const client{};
key_part header(std::string name) {
    return {.what = kind::header, .name = std::move(name), .number = 0};
}
key_part path(std::int64_t n) {
    return {.what = kind::segment, .name = {}, .number = n};
}

key_part source(kind what, std::string name = {}) {
    return {.what = what, .name = std::move(name), .number = 0};
}

// The claims {"sub":"anna"}.
std::string const payload = "e30.eyJzdWIiOiJhbm5hIn0.c2ln";
std::string const anna = "Authorization: Bearer " + payload + "\r\n";

struct request {
    std::string target = "/";
    std::string fields = {};
    std::string client = "10.0.0.1";
    std::string certificate = {};
    std::string server_name = {};
};

config::limit by(std::vector<key_part> key) {
    config::limit l;
    l.key = std::move(key);
    return l;
}

std::string head_of(request const& r) {
    return "GET " + r.target + " HTTP/1.1\r\nHost: a\r\n" + r.fields + "\r\n";
}
std::optional<std::array<std::uint8_t, 16>> client_of(config::limit const& l, request const& r) {
    auto const text = head_of(r);
    http::request_head head;
    BOOST_REQUIRE(!http::parse(text, head));
    auto const address = boost::asio::ip::make_address(r.client);
    return proxy::keys_of_requests(l).client_of(
        {head, address, false, r.certificate, r.server_name});
}

// The key of a request. Its fields may include Connection, which names fields that the proxy does not forward.
std::uint64_t key_of(config::limit const& l, request const& r) {
    auto const text = head_of(r);
    http::request_head head;
    BOOST_REQUIRE(!http::parse(text, head));
    auto const address = boost::asio::ip::make_address(r.client);
    return proxy::keys_of_requests(l).of({head, address, false, r.certificate, r.server_name});
}
bool are_one(config::limit const& l, request const& a, request const& b) {
    return key_of(l, a) == key_of(l, b);
}

std::string limited(std::string const& limit) {
    return support::forwards + "limits = [\"a\"]\n[[limit]]\nname = \"a\"\n" + limit;
}

// The status of the response to a request with a fault in its keys; 0 for other requests.
unsigned fault(key_part const& part, request const& r) {
    auto const text = head_of(r);
    http::request_head head;
    BOOST_REQUIRE(!http::parse(text, head));
    auto const address = boost::asio::ip::make_address(r.client);
    return proxy::fault_of_keys(std::vector{part},
                                {head, address, false, r.certificate, r.server_name})
        .status;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(a_key)

BOOST_AUTO_TEST_CASE(by_client_is_its_network) {
    auto l = by({client});
    BOOST_TEST(are_one(l, {}, {"/other", "A: b\r\n"}));
    BOOST_TEST(!are_one(l, {.client = "10.0.0.1"}, {.client = "10.0.0.2"}));
    BOOST_TEST(are_one(l, {.client = "2001:db8::1"}, {.client = "2001:db8::ffff:0:0:2"}));
    BOOST_TEST(!are_one(l, {.client = "2001:db8::1"}, {.client = "2001:db8:0:1::1"}));
    l.v4_prefix = 24;
    l.v6_prefix = 48;
    BOOST_TEST(are_one(l, {.client = "10.0.0.1"}, {.client = "10.0.0.200"}));
    BOOST_TEST(!are_one(l, {.client = "10.0.0.1"}, {.client = "10.0.1.1"}));
    BOOST_TEST(are_one(l, {.client = "2001:db8::1"}, {.client = "2001:db8:0:1::1"}));
    l.key.push_back(path(1));
    BOOST_TEST(are_one(l, {.client = "10.0.0.1"}, {.client = "10.0.0.200"}));
}

BOOST_AUTO_TEST_CASE(by_field_is_its_value) {
    auto const l = by({header("X-Api-Key")});
    BOOST_TEST(are_one(l, {.fields = "X-Api-Key: a\r\n"},
                       {"/b", "x-api-key: a\r\nOther: c\r\n", "10.0.0.2"}));
    BOOST_TEST(!are_one(l, {.fields = "X-Api-Key: a\r\n"}, {.fields = "X-Api-Key: A\r\n"}));
    BOOST_TEST(!are_one(l, {.fields = "X-Api-Key: a\r\n"}, {}));
}

// Several lines form one list, as for the upstream.
BOOST_AUTO_TEST_CASE(by_field_includes_all_its_lines) {
    auto const l = by({header("X-A")});
    request const two{.fields = "X-A: a\r\nX-A: b\r\n"};
    BOOST_TEST(!are_one(l, two, {.fields = "X-A: a\r\n"}));
    BOOST_TEST(!are_one(l, two, {.fields = "X-A: b\r\n"}));
    BOOST_TEST(!are_one(l, two, {.fields = "X-A: ab\r\n"}));
    BOOST_TEST(are_one(l, two, {.fields = "X-A: a,b\r\n"}));
}

// Otherwise a client could use any number of keys.
BOOST_AUTO_TEST_CASE(by_field_ignores_fields_that_are_not_forwarded) {
    auto const l = by({header("X-A")});
    BOOST_TEST(are_one(l, {.fields = "Connection: X-A\r\nX-A: a\r\n"},
                       {.fields = "Connection: X-A\r\nX-A: b\r\n"}));
    BOOST_TEST(are_one(l, {.fields = "Connection: X-A\r\nX-A: a\r\n"}, {}));
}

BOOST_AUTO_TEST_CASE(by_cookie_parameter_or_claim_is_its_value) {
    auto const cookies = by({source(kind::cookie, "session")});
    BOOST_TEST(are_one(cookies, {.fields = "Cookie: session=a\r\n"},
                       {"/b", "Cookie: x=y; session=\"%61\"\r\n", "10.0.0.2"}));
    BOOST_TEST(!are_one(cookies, {.fields = "Cookie: session=a\r\n"},
                        {.fields = "Cookie: session=b\r\n"}));
    BOOST_TEST(!are_one(cookies, {.fields = "Cookie: session=a\r\n"}, {}));
    BOOST_TEST(are_one(cookies, {.fields = "Cookie: session=\r\n"}, {}));
    auto const parameters = by({source(kind::query, "api_key")});
    BOOST_TEST(are_one(parameters, {"/?api_key=a"}, {"/b?c=d&api%5fkey=%61"}));
    BOOST_TEST(!are_one(parameters, {"/?api_key=a"}, {"/?api_key=b"}));
    auto const claims = by({source(kind::claim, "sub")});
    BOOST_TEST(
        are_one(claims, {.fields = anna}, {"/b", "authorization: bearer " + payload + "\r\n"}));
    BOOST_TEST(!are_one(claims, {.fields = anna}, {}));
    BOOST_TEST(are_one(claims, {.fields = "Authorization: Bearer a.b.c\r\n"}, {}));
}

BOOST_AUTO_TEST_CASE(is_the_first_value_that_is_present) {
    auto first = header("X-A");
    first.otherwise = {source(kind::query, "a"), client};
    auto const l = by({first});
    BOOST_TEST(are_one(l, {"/?a=c", "X-A: b\r\n"}, {"/", "X-A: b\r\n", "10.0.0.2"}));
    BOOST_TEST(
        are_one(l, {"/?a=b"}, {"/", "X-A: b\r\n"}));  // the same value, sent in another place
    BOOST_TEST(are_one(l, {"/?a=b", "X-A:\r\n"}, {"/?a=b", "", "10.0.0.2"}));
    BOOST_TEST(!are_one(l, {"/?a=b"}, {"/?a=c"}));
    BOOST_TEST(!are_one(l, {}, {.client = "10.0.0.2"}));
    BOOST_TEST(are_one(l, {}, {"/?a="}));
    BOOST_TEST(!are_one(l, {.client = "10.0.0.1"}, {.fields = "X-A: 10.0.0.1\r\n"}));
    // No value equals a client, not even one of the eight bytes of its number.
    std::string const bytes = "aabbccdd";
    BOOST_TEST(
        !are_one(l, {.client = "6161:6262:6363:6464::"}, {.fields = "X-A: " + bytes + "\r\n"}));
    BOOST_TEST(
        !are_one(l, {.client = "6464:6363:6262:6161::"}, {.fields = "X-A: " + bytes + "\r\n"}));
    auto last = header("X-A");
    last.otherwise = {source(kind::shared)};
    BOOST_TEST(are_one(by({last}), {.client = "10.0.0.1"}, {.client = "10.0.0.2"}));
    BOOST_TEST(!are_one(by({last}), {.fields = "X-A: a\r\n"}, {}));
    auto const pair = by({first, path(1)});
    BOOST_TEST(!are_one(pair, {"/a"}, {"/b"}));
    BOOST_TEST(!are_one(pair, {"/a"}, {.target = "/a", .client = "10.0.0.2"}));
    BOOST_TEST(are_one(pair, {"/a/b"}, {"/a/c"}));
}

BOOST_AUTO_TEST_CASE(that_is_a_client_names_its_address) {
    auto first = header("X-A");
    first.otherwise = {client};
    for (auto const& l : {by({client}), by({first})})
        BOOST_TEST(
            (client_of(l, {}) == proxy::bytes_of(boost::asio::ip::make_address("10.0.0.1"))));
    BOOST_TEST(!client_of(by({first}), {.fields = "X-A: a\r\n"}).has_value());
    BOOST_TEST(!client_of(by({header("X-A")}), {}).has_value());
    BOOST_TEST(!client_of(by({client, path(1)}), {}).has_value());
}

// Otherwise the upstream could use another value than the limit, and the client could send any number of them.
BOOST_AUTO_TEST_CASE(of_several_values_is_a_fault) {
    auto const cookie = source(kind::cookie, "session");
    BOOST_TEST(fault(cookie, {.fields = "Cookie: session=a; x=session\r\n"}) == 0u);
    BOOST_TEST(fault(cookie, {.fields = "Cookie: session=a; session=b\r\n"}) == 400u);
    BOOST_TEST(fault(cookie, {.fields = "Cookie: session=a\r\nCookie: session=a\r\n"}) == 400u);
    auto const parameter = source(kind::query, "k");
    BOOST_TEST(fault(parameter, {"/?k=a&l=b"}) == 0u);
    BOOST_TEST(fault(parameter, {"/?k=a&%6b=b"}) == 400u);
    auto const claim = source(kind::claim, "sub");
    BOOST_TEST(fault(claim, {.fields = anna}) == 0u);
    BOOST_TEST(fault(claim, {.fields = anna + anna}) == 400u);
    BOOST_TEST(fault(header("A"), {.fields = "A: b\r\na:\r\n"}) == 400u);
    BOOST_TEST(fault(header("A"), {.fields = "A: b\r\nConnection: b\r\n"}) == 0u);
    BOOST_TEST(fault(header("X-A"), {.fields = "X-A: b\r\nX-A: b\r\n"}) == 400u);
    BOOST_TEST(fault(header("X-A"), {.fields = "X-A: b\r\nX_A: b\r\nX-A2: b\r\n"}) == 0u);
    BOOST_TEST(fault(client, {.fields = "A: b\r\na:\r\n"}) == 0u);
    // Each alternative counts: which one is first does not matter to the upstream.
    auto chain = header("A");
    chain.otherwise = {parameter, client};
    BOOST_TEST(fault(chain, {"/?k=a&k=b", "A: b\r\n"}) == 400u);
    BOOST_TEST(fault(chain, {}) == 0u);
    chain.otherwise = {parameter, source(kind::reject)};
    BOOST_TEST(fault(chain, {}) == 400u);
    BOOST_TEST(fault(chain, {"/?k="}) == 400u);
    BOOST_TEST(fault(chain, {"/?k=a"}) == 0u);
    chain.otherwise = {source(kind::shared)};
    BOOST_TEST(fault(chain, {}) == 0u);
}

BOOST_AUTO_TEST_CASE(by_client_certificate_is_its_subject) {
    request const anna{.certificate = "CN=anna"};
    request const bert{.certificate = "CN=bert"};
    request const nobody{.fields = "Client-Certificate: CN=anna\r\n"};
    auto part = source(kind::client_certificate);
    auto l = by({part});
    BOOST_TEST(are_one(l, anna, {"/b", "A: b\r\n", "10.0.0.2", "CN=anna"}));
    BOOST_TEST(!are_one(l, anna, bert));
    BOOST_TEST(!are_one(l, anna, nobody));
    BOOST_TEST(are_one(l, nobody, {.client = "10.0.0.2"}));  // requests without one share a key
    BOOST_TEST(proxy::keys_of_requests(l).of("CN=anna") == key_of(l, anna));
    part.otherwise = {client};
    l = by({part});
    BOOST_TEST(!are_one(l, nobody, {.client = "10.0.0.2"}));
    BOOST_TEST(are_one(l, anna, {.client = "10.0.0.2", .certificate = "CN=anna"}));
    BOOST_TEST(!client_of(l, anna).has_value());
    BOOST_TEST(client_of(l, nobody).has_value());
}

BOOST_AUTO_TEST_CASE(by_sni_is_the_server_name) {
    request const a{.server_name = "a.example"};
    auto const l = by({source(kind::sni)});
    BOOST_TEST(are_one(l, a, {"/b", "A: b\r\n", "10.0.0.2", "CN=anna", "a.example"}));
    BOOST_TEST(!are_one(l, a, {.server_name = "b.example"}));
    BOOST_TEST(!are_one(l, a, {}));
    BOOST_TEST(are_one(l, {}, {.client = "10.0.0.2"}));
    BOOST_TEST(!are_one(by({source(kind::sni), source(kind::client_certificate)}),
                        {.server_name = "a"}, {.certificate = "a"}));
}

BOOST_AUTO_TEST_CASE(by_client_certificate_can_require_one) {
    auto part = source(kind::client_certificate);
    part.otherwise = {source(kind::reject)};
    BOOST_TEST(fault(part, {}) == 400u);
    BOOST_TEST(fault(part, {.certificate = "CN=anna"}) == 0u);
}

BOOST_AUTO_TEST_CASE(by_path_is_a_segment) {
    auto const l = by({path(2)});
    BOOST_TEST(are_one(l, {"/a/b/c"}, {"/x/b?c=d"}));
    BOOST_TEST(are_one(l, {"/a/b"}, {"/a/%62"}));
    BOOST_TEST(are_one(l, {"/a/b"}, {"//a/./x/../b/"}));
    BOOST_TEST(!are_one(l, {"/a/b"}, {"/a/c"}));
    BOOST_TEST(are_one(l, {"/a"}, {"/b"}));  // neither has a second segment
}

BOOST_AUTO_TEST_CASE(of_several_parts_distinguishes_each_part) {
    auto const l = by({header("A"), header("B")});
    auto const with = [](std::string const& a, std::string const& b) {
        return request{.fields = "A: " + a + "\r\nB: " + b + "\r\n"};
    };
    BOOST_TEST(are_one(l, with("a", "b"), with("a", "b")));
    BOOST_TEST(!are_one(l, with("a", "b"), with("b", "a")));
    BOOST_TEST(!are_one(l, with("ab", "c"), with("a", "bc")));
    BOOST_TEST(!are_one(l, with("ab", ""), with("", "ab")));
    auto const both = by({client, path(1)});
    BOOST_TEST(!are_one(both, {.target = "/a", .client = "10.0.0.1"},
                        {.target = "/a", .client = "10.0.0.2"}));
    BOOST_TEST(!are_one(both, {.target = "/a"}, {.target = "/b"}));
}

BOOST_AUTO_TEST_CASE(in_a_file_equals_the_key_of_a_request) {
    auto l = by({client});
    proxy::keys_of_requests const clients(l);
    BOOST_TEST(clients.of("10.0.0.1") == key_of(l, {.client = "10.0.0.1"}));
    l.v4_prefix = 24;
    proxy::keys_of_requests const networks(l);
    BOOST_TEST(networks.of("10.0.0.0/24") == key_of(l, {.client = "10.0.0.77"}));
    BOOST_TEST(networks.of("2001:db8::/64") == key_of(l, {.client = "2001:db8::77"}));
    auto first = header("X-A");
    first.otherwise = {client};
    auto const either = by({first});
    proxy::keys_of_requests const both(either);
    BOOST_TEST(both.of("a") == key_of(either, {.fields = "X-A: a\r\n"}));
    BOOST_TEST(both.of("10.0.0.1") == key_of(either, {}));
    BOOST_TEST(both.of("10.0.0.1") != key_of(either, {.fields = "X-A: 10.0.0.1\r\n"}));
    auto const fields = by({header("X-A")});
    BOOST_TEST(proxy::keys_of_requests(fields).of("a/b") ==
               key_of(fields, {.fields = "X-A: a/b\r\n"}));
    auto const paths = by({path(1)});
    BOOST_TEST(proxy::keys_of_requests(paths).of("a") == key_of(paths, {.target = "/a/b"}));
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(a_queue)

namespace {

// The targets of the waiting requests, in the order in which they get the only seat.
std::string order(std::string const& limit, std::vector<request> const& all) {
    local_proxy proxy(limited(limit));
    proxy.upstream.answer = nullptr;
    auto holder = proxy.connect();
    BOOST_TEST(proxy.ask(holder, get) == 0u);
    std::list<support::wire> clients;
    for (auto const& r : all) {
        clients.push_back(proxy.connect(r.client));
        clients.back().send("GET " + r.target + " HTTP/1.1\r\nHost: test\r\n" + r.fields + "\r\n");
        proxy.settle();
    }
    std::string served;
    proxy.upstream.answer = [&](std::string const& text) {
        served += text.substr(0, text.find(" HTTP")).substr(5);
        return support::ok();
    };
    proxy.pass(1s);
    return served;
}

}  // namespace

BOOST_AUTO_TEST_CASE(with_classes_takes_the_class_from_a_field) {
    std::string const limit = "rule = \"1 seats\"\nqueue = \"order priority patience 20s\"\n"
                              "priority = \"Priority\"\n";
    auto const of = [](std::string const& target, std::string const& value) {
        return request{"/" + target, value.empty() ? "" : "priority: " + value + "\r\n"};
    };
    BOOST_TEST(order(limit, {of("e", "u=5"), of("c", ""), of("b", "1"), of("a", "u=0, i"),
                             of("d", "3")}) == "abcde");
}

BOOST_AUTO_TEST_CASE(with_order_fair_alternates_between_clients) {
    std::string const limit = "rule = \"1 seats\"\nqueue = \"order fair patience 20s\"\n";
    std::vector<request> const all{
        {"/a", "", "10.0.0.2"},
        {"/b", "", "10.0.0.2"},
        {"/c", "", "10.0.0.3"},
        {"/d", "", "10.0.1.4"}};
    BOOST_TEST(order(limit, all) == "acdb");
    BOOST_TEST(order(limit + "v4_prefix = 24\n", all) == "adbc");
}

BOOST_AUTO_TEST_CASE(with_order_fair_takes_the_weight_by_network) {
    std::string const limit = "rule = \"1 seats\"\nqueue = \"order fair patience 20s\"\n"
                              "weights = { \"10.0.0.0/16\" = 9, \"10.0.0.3\" = 2 }\n";
    std::vector<request> const all{
        {"/a", "", "10.1.0.2"}, {"/b", "", "10.1.0.2"}, {"/c", "", "10.0.0.3"},
        {"/d", "", "10.0.0.3"}, {"/e", "", "10.0.0.4"}, {"/f", "", "10.0.0.4"}};
    BOOST_TEST(order(limit, all) == "efcadb");
}

BOOST_AUTO_TEST_CASE(with_order_fair_takes_the_class_from_a_field) {
    std::string const limit = "rule = \"1 seats\"\nqueue = \"order fair patience 20s\"\n"
                              "priority = \"Priority\"\n";
    std::vector<request> const all{
        {"/a", "", "10.0.0.2"},
        {"/b", "", "10.0.0.2"},
        {"/c", "", "10.0.0.3"},
        {"/d", "priority: u=2\r\n", "10.0.0.2"},
        {"/e", "priority: u=2\r\n", "10.0.0.3"}};
    BOOST_TEST(order(limit, all) == "deacb");
}

BOOST_AUTO_TEST_SUITE_END()

// Too many concurrent requests of one client do not mean that the upstream is overloaded.
BOOST_AUTO_TEST_CASE(seats_per_client_reject_with_429) {
    for (bool const is_of_clients : {false, true}) {
        local_proxy proxy(limited("rule = \"1 seats\"\nqueue = \"patience 0s\"\n" +
                                  std::string(is_of_clients ? "key = \"client\"\n" : "")));
        proxy.upstream.answer = nullptr;
        auto holder = proxy.connect();
        BOOST_TEST(proxy.ask(holder, get) == 0u);
        BOOST_TEST(proxy.ask() == (is_of_clients ? 429u : 503u));
    }
}

}  // namespace keys_of_limits
