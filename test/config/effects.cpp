#include "config/read.hpp"
#include "http/path.hpp"

#include <boost/test/unit_test.hpp>

#include <fmt/format.h>

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace effects {
namespace {

constexpr std::string_view shop = "[[upstream]]\nname = \"shop\"\nservers = \"127.0.0.1:9000\"\n";

config::configuration read(std::string const& text) {
    return config::read(text, "weir.toml");
}

// The only error in a route with this line.
std::string problem(std::string_view line) {
    try {
        static_cast<void>(read(fmt::format("{}[[route]]\nupstream = \"shop\"\n{}\n", shop, line)));
    } catch (config::bad_configuration const& wrong) {
        BOOST_TEST(wrong.problems().size() == 1, wrong.what());
        return wrong.problems().front();
    }
    return {};
}

// The path of a route, as read.
std::string path(std::string_view text) {
    return read(fmt::format("{}[[route]]\nupstream = \"shop\"\npath = \"{}\"\n", shop, text))
        .routes.front()
        .path;
}

std::vector<std::string> warnings(std::string_view more) {
    return read(std::string(shop) + std::string(more)).warnings;
}

std::string route(std::string_view members) {
    return fmt::format("[[route]]\nupstream = \"shop\"\n{}\n", members);
}

// The warnings about the second one of two routes.
std::vector<std::string> warnings(std::string_view first, std::string_view second) {
    return warnings(route(first) + route(second));
}

}  // namespace

BOOST_AUTO_TEST_SUITE(settings_without_effect)

BOOST_AUTO_TEST_CASE(a_path_that_matches_no_request_is_an_error_with_a_remedy) {
    using row = std::pair<std::string_view, std::string_view>;
    for (auto const& [found, remedy] : {
             row{"/%61dmin", "/admin"},
             row{"//admin", "/admin"},
             row{"/a/../admin", "/admin"},
             row{"/./admin", "/admin"},
             row{"/admin?x=1", "/admin"},
             row{"/admin#x", "/admin"},
             row{"/a%20b", "/a b"},
             row{"/..", "/"},
         }) {
        auto const text = problem(fmt::format("path = \"{}\"", found));
        BOOST_TEST(text.starts_with("weir.toml:6:8: "), text);
        BOOST_TEST(text.find(fmt::format("`path` is `{}`, but must be ", found)) != text.npos,
                   text);
        BOOST_TEST(text.ends_with(fmt::format(": use `{}`", remedy)), text);
        BOOST_TEST(http::normal_path(remedy) == remedy);
    }
    for (auto const* const found : {"/a*", "/*/a", "/a/**", "/a%00", "/a%0ab", "admin", ""})
        BOOST_TEST(
            problem(fmt::format("path = \"{}\"", found)).find("`path` is") != std::string::npos,
            found);
}

BOOST_AUTO_TEST_CASE(an_asterisk_as_the_last_segment_is_a_prefix) {
    BOOST_TEST(path("/admin/*") == "/admin");
    BOOST_TEST(path("/*") == "/");
    BOOST_TEST(path("/admin/") == "/admin/");
    BOOST_TEST(path("/a b") == "/a b");
    BOOST_TEST(path("/ä") == "/ä");
}

BOOST_AUTO_TEST_CASE(a_host_that_matches_no_request_is_an_error_with_a_remedy) {
    using row = std::pair<std::string_view, std::string_view>;
    for (auto const& [found, remedy] : {
             row{"a.example:80", ": use `a.example`"},
             row{"*.example:8080", ": use `*.example`"},
             row{"[::1]:80", ": use `[::1]`"},
             row{"::1", ": use `[::1]`"},
             row{"a.example.", ": use `a.example`"},
             row{"*", ": leave out `host` to match all hosts"},
             row{"a.*.org", ": `*` is allowed only as the first label, as in *.example.org"},
             row{"*a.org", ": `*` is allowed only as the first label, as in *.example.org"},
             row{"http://a.example", ""},
             row{"a example", ""},
             row{"a.example/x", ""},
             row{"*.", ""},
             row{"a..example", ""},
             row{".example", ""},
         }) {
        auto const text = problem(fmt::format("host = \"{}\"", found));
        BOOST_TEST(text.find(fmt::format("`host` is `{}`, but must be ", found)) != text.npos,
                   found << ": " << text);
        BOOST_TEST(text.ends_with(remedy), text);
    }
    for (auto const* const good : {"a", "a.example", "*.example.org", "[::1]", "10.0.0.1", "a_b-c"})
        BOOST_TEST(problem(fmt::format("host = \"{}\"", good)) == "", good);
}

BOOST_AUTO_TEST_CASE(a_method_in_lower_case_is_an_error_with_a_remedy) {
    for (auto const* const found : {"get", "Post", "propfind"}) {
        auto const text = problem(fmt::format("method = [\"{}\"]", found));
        std::string upper(found);
        for (auto& c : upper)
            c = c >= 'a' ? static_cast<char>(c - 0x20) : c;
        BOOST_TEST(text.ends_with(fmt::format("methods are case-sensitive; use `{}`", upper)),
                   text);
    }
    BOOST_TEST(problem("method = [\"GET\", \"M-SEARCH\", \"own\"]") == "");
}

BOOST_AUTO_TEST_CASE(the_method_connect_is_an_error_with_a_remedy) {
    auto const text = problem("method = [\"GET\", \"CONNECT\"]");
    BOOST_TEST(text.ends_with("`method` is `CONNECT`, but must be a method, such as GET: the proxy "
                              "does not support CONNECT and answers it with 501; remove it"),
               text);
}

BOOST_AUTO_TEST_CASE(limits_upstreams_and_stores_without_a_user_are_warnings) {
    constexpr std::string_view more =
        "[[upstream]]\nname = \"spare\"\nservers = \"127.0.0.1:9001\"\n"
        "[[store]]\nname = \"there\"\nurl = \"redis://h\"\n"
        "[[limit]]\nname = \"a\"\nrule = \"1/1s\"\n"
        "[[limit]]\nname = \"b\"\nrule = \"1/1s\"\n";
    auto const found = warnings(std::string(more) + route("limits = [\"b\"]"));
    BOOST_TEST(
        found ==
            (std::vector<std::string>{
                "weir.toml:5:8: warning: upstream `spare`: no route names it: it gets no requests",
                "weir.toml:8:8: warning: store `there`: no limit and no agent names it: it counts "
                "nothing",
                "weir.toml:11:8: warning: limit `a`: no route names it: it limits nothing",
            }),
        boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(an_address_that_stands_for_a_network_is_a_warning) {
    constexpr std::string_view first = "[[limit]]\nname = \"a\"\nkey = \"client\"\n";
    constexpr std::string_view wrong =
        ": warning: limit `a`: with `v4_prefix = 24`, `10.0.0.7` is all clients of `10.0.0.0/24`; "
        "use `10.0.0.0/24`";
    constexpr std::string_view rule = "rule = \"1/1s\"\n";
    constexpr std::string_view overrides = "[limit.overrides]\n";
    for (auto const& prefix : {std::string("v4_prefix = 24\n"), std::string()})
        for (auto const& rest :
             {std::string(rule) + prefix + std::string(overrides) +
                  "\"10.0.0.7\" = \"unlimited\"\n",
              std::string(rule) + "queue = \"order fair\"\n" + prefix +
                  "[limit.weights]\n\"10.0.0.7\" = 2\n",
              "bandwidth = { up = \"1MB/s\" }\n" + prefix + std::string(overrides) +
                  "\"10.0.0.7\" = \"unlimited\"\n"}) {
            auto const found = warnings(std::string(first) + rest);
            BOOST_TEST_REQUIRE(found.size() == (prefix.empty() ? 0U : 1U), rest);
            BOOST_TEST((prefix.empty() || found.front().ends_with(wrong)), rest);
        }
    // A value that looks like an address.
    BOOST_TEST(
        warnings("[[limit]]\nname = \"a\"\nkey = \"header A or shared\"\n" + std::string(rule) +
                 "v4_prefix = 24\n" + std::string(overrides) + "\"10.0.0.7\" = \"unlimited\"\n")
            .empty());
    // One that is written as a network, and an address of the kind that usually stands for one.
    BOOST_TEST(warnings(std::string(first) + std::string(rule) + "v4_prefix = 24\n" +
                        std::string(overrides) +
                        "\"10.0.0.0/24\" = \"unlimited\"\n\"fd00::1\" = \"unlimited\"\n")
                   .empty());
}

BOOST_AUTO_TEST_CASE(a_file_without_routes_uses_all_limits) {
    BOOST_TEST(warnings("[[limit]]\nname = \"a\"\nrule = \"1/1s\"\n").empty());
}

BOOST_AUTO_TEST_CASE(a_route_behind_a_route_that_takes_all_of_its_requests_is_a_warning) {
    auto const found = warnings("", "path = \"/admin\"");
    BOOST_REQUIRE(found.size() == 1);
    BOOST_TEST(
        found.front() ==
        "weir.toml:7:1: warning: route `/admin`: unused: route `/` in line 4 matches all of its "
        "requests; put `/admin` before it");
    using pair = std::pair<std::string_view, std::string_view>;
    for (auto const& [first, second] : {
             pair{"path = \"/a\"", "path = \"/a/b\""},
             pair{"path = \"/a\"", "path = \"/a/\""},
             pair{"path = \"/a/\"", "path = \"/a\""},
             pair{"path = \"/a/*\"", "path = \"/a/b/c\""},
             pair{"host = \"a.org\"", "host = \"A.ORG\"\npath = \"/a\""},
             pair{"host = \"*.b.org\"", "host = \"a.b.org\""},
             pair{"host = \"*.b.org\"", "host = \"x.a.B.org\""},
             pair{"host = \"*.b.org\"", "host = \"*.a.b.org\""},
             pair{"path = \"/a\"\nmethod = \"GET\"", "path = \"/a\"\nmethod = \"GET\""},
             pair{"method = [\"GET\", \"PUT\"]", "method = \"PUT\"\npath = \"/a\""},
             pair{"", "client = \"10.0.0.0/8\"\nheader = { A = \"b\" }"},
             pair{"client = \"::1\"", "client = \"::1\"\npath = \"/a\""},
             pair{"header = { A = \"b\" }", "header = { A = \"b\" }\nclient = \"::1\""},
             pair{"client = \"10.0.0.0/8\"", "client = [\"10.1.0.0/16\", \"10.2.0.1\"]"},
             pair{"client = [\"0.0.0.0/0\", \"::/0\"]", "client = [\"::1\", \"10.0.0.1\"]"},
             pair{"header = { A = [\"b\", \"c\"] }", "header = { a = \"c\" }"},
             pair{"header = { A = \"b\" }", "header = { C = \"d\", A = \"b\" }"},
         })
        BOOST_TEST(warnings(first, second).size() == 1, first << " before " << second);
    for (auto const& [first, second] : {
             pair{"path = \"/a\"", "path = \"/ab\""},
             pair{"path = \"/a/b\"", "path = \"/a\""},
             pair{"host = \"a.org\"", ""},
             pair{"host = \"a.org\"", "host = \"b.org\""},
             pair{"host = \"*.b.org\"", "host = \"b.org\""},
             pair{"host = \"b.org\"", "host = \"a.b.org\""},
             pair{"host = \"b.org\"", "host = \"*.b.org\""},
             pair{"host = \"*.a.b.org\"", "host = \"*.b.org\""},
             pair{"method = \"GET\"", "path = \"/a\""},
             pair{"method = \"GET\"", "method = [\"GET\", \"PUT\"]"},
             pair{"client = \"10.0.0.0/8\"", ""},
             pair{"client = \"10.0.0.0/8\"", "client = \"11.0.0.0/8\""},
             pair{"client = \"10.0.0.1\"", "client = \"10.0.0.0/8\""},
             pair{"client = \"10.0.0.0/16\"", "client = \"10.0.0.0/8\""},
             pair{"header = { A = \"b\" }", ""},
             pair{"header = { A = \"b\" }", "header = { A = \"c\" }"},
             pair{"header = { A = \"b\" }", "header = { A = [\"b\", \"c\"] }"},
             pair{"header = { A = \"b\", C = \"d\" }", "header = { A = \"b\" }"},
             pair{"client = \"10.0.0.0/8\"", "client = [\"10.1.0.0/16\", \"11.0.0.1\"]"},
             pair{"client = \"::/0\"", ""},
         })
        BOOST_TEST(warnings(first, second).empty(), first << " before " << second);
}

BOOST_AUTO_TEST_CASE(a_route_whose_requests_several_routes_take_is_a_warning) {
    auto const of_three =
        [](std::string_view first, std::string_view second, std::string_view third) {
            return warnings(route(first) + route(second) + route(third));
        };
    auto const found =
        of_three("path = \"/a\"\nmethod = \"GET\"", "path = \"/a\"\nmethod = [\"PUT\", \"POST\"]",
                 "path = \"/a/b\"\nmethod = [\"GET\", \"PUT\"]");
    BOOST_REQUIRE(found.size() == 1);
    BOOST_TEST(found.front() ==
               "weir.toml:12:1: warning: route `/a/b`: unused: the routes in lines 4, 8 together "
               "match all of its requests; put `/a/b` before them");
    struct row {
        std::string_view first, second, third;
        bool is_behind;
    };
    constexpr std::string_view gets = "method = \"GET\"", puts = "method = \"PUT\"",
                               both = "method = [\"GET\", \"PUT\"]";
    for (auto const& r : {
             row{"method = \"PUT\"\npath = \"/a\"", gets,
                 "method = [\"GET\", \"PUT\"]\npath = \"/a\"", true},
             row{"client = \"10.0.0.0/8\"", "client = \"::1\"", "client = [\"::1\", \"10.0.0.1\"]",
                 true},
             row{"client = \"10.0.0.0/8\"\nmethod = \"GET\"", puts,
                 "client = \"10.0.0.1\"\nmethod = [\"GET\", \"PUT\"]", true},
             row{gets, puts, "", false},  // another method
             row{gets, "path = \"/a\"\nmethod = \"PUT\"", both, false},
             row{gets, "method = \"PUT\"\nheader = { A = \"b\" }", both, false},
             row{"client = \"10.0.0.0/8\"", "client = \"::1\"", "client = [\"::1\", \"11.0.0.1\"]",
                 false},
             row{"client = \"10.0.0.0/8\"\nmethod = \"GET\"", puts, both, false},
         })
        BOOST_TEST(of_three(r.first, r.second, r.third).size() == (r.is_behind ? 1u : 0u),
                   r.first << ", " << r.second << ", " << r.third);
}

BOOST_AUTO_TEST_CASE(a_limit_without_a_rule_is_a_warning) {
    auto const of_limit = [](std::string_view more) {
        return warnings(fmt::format("[[limit]]\nname = \"a\"\nrule = \"unlimited\"\n{}\n", more));
    };
    for (auto const* const more :
         {"", "key = \"client\"", "key = \"client\"\noverrides = { \"::1\" = \"unlimited\" }"}) {
        auto const found = of_limit(more);
        BOOST_REQUIRE(found.size() == 1);
        BOOST_TEST(found.front() ==
                   "weir.toml:6:8: warning: limit `a`: `rule` is `unlimited`, and `overrides` has "
                   "no rule: it limits nothing; write a rule, or remove the limit");
    }
    BOOST_TEST(of_limit("key = \"client\"\noverrides = { \"::1\" = \"1/1s\" }").empty());
    BOOST_TEST(of_limit("queue = \"patience 1s\"").empty());  // the patience of its routes
}

BOOST_AUTO_TEST_CASE(a_thousand_routes_in_order_are_no_warning) {
    std::string all;
    for (int i = 0; i != 1000; ++i)
        all += route(fmt::format("path = \"/{}\"", i));
    BOOST_TEST(warnings(all + route("")).empty());
}

BOOST_AUTO_TEST_CASE(the_field_that_names_clients_without_a_trusted_peer_is_a_warning) {
    auto const found = warnings("[clients]\nforwarded_by = \"forwarded\"\n");
    BOOST_REQUIRE(found.size() == 1);
    BOOST_TEST(found.front() ==
               "weir.toml:5:16: warning: clients: `forwarded_by` has no effect without `trusted`");
    BOOST_TEST(
        warnings("[clients]\nforwarded_by = \"forwarded\"\ntrusted = [\"10.0.0.0/8\"]\n").empty());
}

// Each entry of a log takes 16 bytes.
BOOST_AUTO_TEST_CASE(the_path_of_a_route_as_the_path_of_its_upstream_is_a_warning) {
    auto const found = warnings(route("path = \"/a\"\nupstream_path = \"/a\""));
    BOOST_REQUIRE(found.size() == 1);
    BOOST_TEST(found.front() ==
               "weir.toml:7:17: warning: route `/a`: `upstream_path` has no effect: it is the "
               "`path` of the route");
    BOOST_TEST(warnings(route("path = \"/a\"\nupstream_path = \"/\"")).empty());
}

BOOST_AUTO_TEST_CASE(a_choice_of_one_server_is_a_warning) {
    auto const of = [](std::string_view more) {
        return read(
                   fmt::format("[[upstream]]\nname = \"a\"\n{}[[route]]\nupstream = \"a\"\n", more))
            .warnings;
    };
    std::string const one = "[[upstream.server]]\naddress = \"a:1\"\n";
    auto const heavy = of(one + "weight = 2\n");
    BOOST_REQUIRE(heavy.size() == 1);
    BOOST_TEST(heavy.front() ==
               "weir.toml:1:1: warning: upstream `a`: `weight` has no effect with one server");
    auto const hashed = of("hash = \"client\"\n" + one);
    BOOST_REQUIRE(hashed.size() == 1);
    BOOST_TEST(hashed.front() ==
               "weir.toml:3:8: warning: upstream `a`: `hash` has no effect with one server");
    BOOST_TEST(
        of("hash = \"client\"\n" + one + "weight = 2\n[[upstream.server]]\naddress = \"a:2\"\n")
            .empty());
}

BOOST_AUTO_TEST_CASE(a_limit_whose_keys_can_exceed_its_memory_has_a_warning) {
    auto const of = [](std::string_view rule, std::string_view more) {
        return warnings(fmt::format("[[limit]]\nname = \"a\"\nrule = \"{}\"\n{}\n", rule, more));
    };
    constexpr std::string_view client = "key = \"client\"";
    auto const found = of("10000/1h", client);
    BOOST_TEST_REQUIRE(found.size() == 1);
    BOOST_TEST(found[0] ==
               "weir.toml:6:8: warning: limit `a`: 100000 keys can take about 16070 MB; "
               "`max_memory` (1074 MB) ends the tracking of new keys before");
    for (auto const* const rule :
         {"600/1h", "10000/1h burst 10000", "1000000/1h sliding", "5 seats", "300/1s & 200/1min"})
        BOOST_TEST(of(rule, client).empty(), rule);
    BOOST_TEST(of("10000/1h", "").empty());
    BOOST_TEST(of("10000/1h", "key = \"client\"\nmax_keys = 6000").empty());
    BOOST_TEST(of("10000/1h", "key = \"client\"\nmax_memory = 17000000000").empty());
    BOOST_TEST(of("300/1s & 1000/1min", client).size() == 1);
    BOOST_TEST(of("10/1s burst 10", "key = \"client\"\nmax_keys = 100000000").size() == 1);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace effects
