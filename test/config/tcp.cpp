#include "config/tcp.hpp"

#include "config/configuration.hpp"
#include "config/read.hpp"
#include "config/write.hpp"
#include "problem.hpp"

#include <boost/test/unit_test.hpp>

#include <fmt/format.h>

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

// Files of this folder are compiled together.
namespace listeners_of_any_protocol {
namespace {

using namespace std::chrono_literals;

std::string file(std::string_view limit, std::string_view tcp = "",
                 std::string_view upstream = "") {
    return fmt::format(
        "[[upstream]]\nname = \"a\"\nservers = [\"127.0.0.1:1\"]\n{}\n[[limit]]\nname = "
        "\"some\"\n{}\n[[listen]]\naddress = \"127.0.0.1:2\"\n[listen.tcp]\nupstream = "
        "\"a\"\nlimits = [\"some\"]\n{}\n",
        upstream, limit, tcp);
}
constexpr std::string_view seats = "rule = \"5 seats\"";

}  // namespace

BOOST_AUTO_TEST_SUITE(a_listener_with_tcp)

BOOST_AUTO_TEST_CASE(has_an_upstream_and_limits) {
    auto const c = config::read(
        file(seats, "refusal = \"-ERR\\r\\n\"\nidle = \"5min\"\n", "proxy_protocol = 2"), "f");
    BOOST_REQUIRE(c.listeners.size() == 1u);
    config::tcp_options const wanted{"a", {"some"}, {}, "-ERR\r\n", 5min};
    BOOST_TEST((c.listeners[0].tcp == wanted));
    BOOST_TEST(c.upstreams[0].proxy_protocol == 2);
    BOOST_TEST(c.routes.empty());
    BOOST_TEST(c.warnings.empty());
    BOOST_TEST((config::read(config::write(c), "again").listeners == c.listeners));
    BOOST_TEST(config::read(file(seats), "f").listeners[0].tcp->idle == 1h);
}

BOOST_AUTO_TEST_CASE(may_limit_bytes) {
    auto const c = config::read(file("bandwidth = { up = \"1MB/s\" }\nkey = \"client\""), "f");
    BOOST_TEST((c.listeners[0].tcp->bandwidths == std::vector<std::string>{"some"}));
    BOOST_TEST(c.listeners[0].tcp->limits.empty());
    BOOST_TEST((config::read(config::write(c), "again").listeners == c.listeners));
}

BOOST_AUTO_TEST_CASE(may_limit_the_bytes_of_each_connection) {
    auto const c = config::read(
        file(seats, "bandwidth = { up = \"1MB/s\", down = \"2MB/s burst 1MB\" }"), "f");
    config::bandwidth const wanted{{{1'000'000, 50'000}}, {{2'000'000, 1'000'000}}};
    BOOST_TEST((c.listeners[0].tcp->bandwidth == wanted));
    BOOST_TEST((config::read(config::write(c), "again").listeners == c.listeners));
    BOOST_TEST(is_refused(file(seats, "bandwidth = {}"), "missing `up`"));
    BOOST_TEST(is_refused(file(seats, "bandwidth = { up = \"1\" }"), "must be a rate of bytes"));
    BOOST_TEST(is_refused(file(seats, "bandwidth = \"1MB/s\""), "must be a table"));
}

// The message names the part that a connection does not have.
BOOST_AUTO_TEST_CASE(has_no_requests) {
    auto const refuses = [](std::string_view limit, std::string_view part) {
        return is_refused(
            file(limit), fmt::format("limit `some` has {}, which requires requests of HTTP", part));
    };
    BOOST_TEST(refuses("rule = \"5 seats\"\nkey = \"header X-Key or shared\"",
                       "the key `header X-Key or shared`"));
    BOOST_TEST(refuses("rule = \"5 seats\"\nkey = [\"client\", \"path 1\"]", "the key `path 1`"));
    BOOST_TEST(refuses("rule = \"5 seats\"\nkey = \"cookie a or client\"",
                       "the key `cookie a or client`"));
    BOOST_TEST(refuses("rule = \"5/1s\"\ncost = \"bytes\"", "the cost `bytes`"));
    BOOST_TEST(refuses("rule = \"5/1s\"\ncount = 404", "`count`"));
    BOOST_TEST(refuses("rule = \"5/1min penalty\"\ncount = 401\nkey = \"client\"", "`count`"));
    BOOST_TEST(refuses("rule = \"5 seats\"\nqueue = \"order priority\"\npriority = \"Priority\"",
                       "`priority`"));
    BOOST_TEST(refuses("rule = \"4 knee\"", "the rule `4 knee`"));
    BOOST_TEST(refuses("bandwidth = { up = \"1MB/s\" }\nkey = \"header X-Key\"",
                       "the key `header X-Key or client`"));
    BOOST_TEST(problem_of(file("rule = \"5/1s\"\nkey = \"client\"\ncost = 2")) == "");
    BOOST_TEST(is_refused(file(seats, "", "hash = \"header X-Key\""),
                          "upstream `a` has the hash `header X-Key`, which requires requests"));
    BOOST_TEST(problem_of(file(seats, "", "hash = \"client\"")) == "");
}

BOOST_AUTO_TEST_CASE(reports_mistakes) {
    BOOST_TEST(is_refused(file(seats, "refusal = \"\""), "`refusal` is ``, but must be a text of"));
    BOOST_TEST(is_refused(file(seats, fmt::format("refusal = \"{}\"", std::string(1025, 'x'))),
                          "must be a text of at most 1,024 bytes"));
    BOOST_TEST(is_refused(file(seats, "[listen.check]"), "`check` and `tcp` exclude each other"));
    BOOST_TEST(is_refused("[[listen]]\naddress = \"127.0.0.1:2\"\n[listen.tcp]\nupstream = \"b\"\n"
                          "limits = [\"c\", \"c\"]\n",
                          "unknown upstream `b`"));
    BOOST_TEST(is_refused("[[listen]]\naddress = \"127.0.0.1:2\"\n[listen.tcp]\nupstream = \"b\"\n"
                          "limits = [\"c\", \"c\"]\n",
                          "duplicate limit `c`"));
    BOOST_TEST(is_refused(file(seats) + "[[listen]]\naddress = \"127.0.0.1:3\"\n",
                          "missing [[route]]: required for the [[listen]] without `tcp`"));
    BOOST_TEST(is_refused(
        file(seats, "", "proxy_protocol = 1") +
            "[[listen]]\naddress = \"127.0.0.1:3\"\n[[route]]\nupstream = \"a\"\n",
        "upstream `a` has `proxy_protocol`, which requires a [[listen]]"));
    BOOST_TEST(
        is_refused("[[upstream]]\nname = \"a\"\nservers = [\"127.0.0.1:1\"]\nproxy_protocol = 1\n",
                   "upstream `a` has `proxy_protocol`"));
}

BOOST_AUTO_TEST_CASE(may_have_routes_by_server_name) {
    std::string const two =
        "[[upstream]]\nname = \"a\"\nservers = [\"127.0.0.1:1\"]\n"
        "[[upstream]]\nname = \"b\"\nservers = [\"127.0.0.1:2\"]\n"
        "[[limit]]\nname = \"some\"\nrule = \"5 seats\"\n"
        "[[limit]]\nname = \"bytes\"\nbandwidth = { up = \"1MB/s\" }\n"
        "[[listen]]\naddress = \"127.0.0.1:3\"\n";
    auto const c = config::read(
        two + "[listen.tcp]\nlimits = \"some\"\n"
              "[[listen.tcp.route]]\nsni = \"db.Example.org\"\nupstream = \"a\"\n"
              "[[listen.tcp.route]]\nsni = [\"*.example.org\", \"x_1-y\"]\nupstream = \"b\"\n"
              "limits = \"bytes\"\n",
        "f");
    auto const& tcp = c.listeners.at(0).tcp.value();
    BOOST_TEST(tcp.upstream == "");
    BOOST_REQUIRE(tcp.routes.size() == 2u);
    config::tcp_route const first{{"db.Example.org"}, "a", {}, {}};
    config::tcp_route const second{{"*.example.org", "x_1-y"}, "b", {}, {"bytes"}};
    BOOST_TEST((tcp.routes[0] == first));
    BOOST_TEST((tcp.routes[1] == second));
    BOOST_TEST(c.warnings.empty());
    BOOST_TEST((config::read(config::write(c), "again").listeners == c.listeners));

    auto const refuses = [&](std::string_view tcp_table, std::string_view why) {
        return is_refused(two + "tcp = { limits = \"some\", " + std::string(tcp_table) + " }\n",
                          why);
    };
    auto const refuses_name = [&](std::string_view name, std::string_view why) {
        return refuses(fmt::format("route = [{{ sni = \"{}\", upstream = \"a\" }}]", name), why);
    };
    for (auto const* const bad :
         {"", "a..b", ".a", "a.", "*.", "a.*.b", "*a.b", "a b", "a:1", "ä.b"})
        BOOST_TEST(refuses_name(bad, "but must be a server name, such as db.example.org"));
    BOOST_TEST(refuses_name("*", "`upstream` of `tcp` gets all other connections"));
    BOOST_TEST(refuses_name("10.0.0.1", "clients do not name an address"));
    BOOST_TEST(
        refuses("route = [{ sni = \"a\", upstream = \"a\" }, { sni = \"A\", upstream = \"b\" }]",
                "duplicate name `A`"));
    BOOST_TEST(refuses("route = [{ sni = \"a\" }]", "missing `upstream`"));
    BOOST_TEST(refuses("route = [{ upstream = \"a\" }]", "missing `sni`"));
    BOOST_TEST(refuses("route = [{ sni = [], upstream = \"a\" }]", "missing `sni`"));
    BOOST_TEST(refuses("route = []", "missing `upstream`"));
    BOOST_TEST(refuses("route = [{ sni = \"a\", upstream = \"c\" }]", "unknown upstream `c`"));
    BOOST_TEST(refuses("route = [{ sni = \"a\", upstream = \"a\", limits = \"no\" }]",
                       "unknown limit `no`"));
    BOOST_TEST(refuses("route = [{ sni = \"a\", upstream = \"a\", limits = \"some\" }]",
                       "duplicate limit `some`: each connection here has it"));
}

BOOST_AUTO_TEST_CASE(may_have_tls) {
    auto const with = [](std::string_view listen, std::string_view more = "") {
        return fmt::format("[[upstream]]\nname = \"a\"\nservers = [\"127.0.0.1:1\"]\n[[listen]]\n"
                           "address = \"127.0.0.1:2\"\n{}\n{}",
                           listen, more);
    };
    std::string_view const tls = "tls = [{ certificate = \"/a\", key = \"/b\" }]\n";
    std::string_view const tcp = "tcp = { upstream = \"a\" }\n";
    auto const c = config::read(
        with(fmt::format("{}{}alpn = [\"x\", \"postgresql\"]\nunknown_name = \"first\"", tls, tcp)),
        "f");
    auto const& l = c.listeners.at(0);
    BOOST_TEST((l.alpn == std::vector<std::string>{"x", "postgresql"}));
    BOOST_TEST(l.tls.size() == 1u);
    BOOST_TEST(l.tcp.has_value());
    BOOST_TEST((config::read(config::write(c), "again").listeners == c.listeners));
    auto const refuses =
        [&](std::string_view a, std::string_view b, std::string_view alpn, std::string_view why) {
            return is_refused(with(fmt::format("{}{}alpn = {}", a, b, alpn)), why);
        };
    BOOST_TEST(refuses(tls, "", "\"x\"", "`alpn` requires `tcp`"));
    BOOST_TEST(refuses(tcp, "", "\"x\"", "`alpn` requires `tls`"));
    BOOST_TEST(refuses(tls, tcp, "[\"x\", \"x\"]", "duplicate protocol `x`"));
    for (auto const* const bad : {"\"\"", "\"a b\"", "1"})
        BOOST_TEST(refuses(tls, tcp, bad, "must be a protocol of ALPN, such as postgresql"));
    BOOST_TEST(
        refuses(tls, tcp, fmt::format("\"{}\"", std::string(256, 'x')), "must be a protocol"));
}

BOOST_AUTO_TEST_CASE(needs_no_route) {
    auto const c = config::read(file(seats) + "[[route]]\nupstream = \"a\"\n", "f");
    BOOST_REQUIRE(c.warnings.size() == 1u);
    BOOST_TEST(c.warnings[0].ends_with("routes have no effect: each [[listen]] has `tcp`"));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace listeners_of_any_protocol
