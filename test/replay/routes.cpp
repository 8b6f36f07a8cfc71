// Requests of a log, and the routes of a configuration.

#include "config/read.hpp"
#include "replay/keys.hpp"
#include "replay/names.hpp"
#include "replay/plan.hpp"
#include "replay/simulation.hpp"

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

using namespace std::chrono_literals;
using std::chrono::nanoseconds;

BOOST_AUTO_TEST_SUITE(replay_routes)

namespace {

constexpr nanoseconds begin = 807'249'600s;

replay::plan plan_of(std::string_view text) {
    replay::plan p;
    p.file = std::make_shared<config::configuration const>(config::read(text, "test"));
    return p;
}

struct line {
    nanoseconds at;
    std::string target;
    std::string host = {};
    std::optional<nanoseconds> held = 0ns;
    unsigned status = 200;
};

replay::outcome outcome_of(replay::plan const& p, std::vector<line> const& lines,
                           std::string host = {}) {
    replay::settings s;
    s.host = std::move(host);
    replay::simulation sim(s, {p});
    for (auto const& l : lines) {
        logs::entry entry;
        entry.at = begin + l.at;
        entry.held = l.held;
        entry.status = l.status;
        for (std::size_t i = 0; i != sim.sources().size(); ++i) {
            using kind = logs::key_source::kind;
            auto const what = sim.sources()[i].what;
            entry.keys[i] =
                what == kind::client   ? "10.0.0.1"
                : what == kind::method ? "GET"
                : what == kind::target ? std::string_view(l.target)
                : what == kind::host   ? std::string_view(l.host)
                                       : "";
        }
        BOOST_TEST(sim.add(entry));
    }
    sim.finish();
    return sim.results().front();
}

constexpr std::string_view upstream = "[[upstream]]\nname = \"u\"\nservers = \"a:1\"\n";

std::string limit(std::string const& name, std::string const& rule) {
    return "[[limit]]\nname = \"" + name + "\"\nrule = \"" + rule + "\"\nqueue = \"patience 0s\"\n";
}
std::string route(std::string const& what) {
    return "[[route]]\nupstream = \"u\"\n" + what + "\n";
}

}  // namespace

BOOST_AUTO_TEST_SUITE(routes_of_a_file)

// A request without a service time gets the service time of the previous request on its route.
BOOST_AUTO_TEST_CASE(have_separate_service_times) {
    auto const p = plan_of(std::string(upstream) + limit("a", "1 seats") +
                           route("path = \"/a\"\nlimits = [\"a\"]") + route(""));
    std::vector<line> const lines{
        {0s, "/a", "", 10s},
        {20s, "/b", "", 1s},
        {30s, "/a", "", std::nullopt},
        {35s, "/a", "", 0s},
        {45s, "/a", "", 0s}};
    auto const o = outcome_of(p, lines);
    BOOST_TEST(o.at_once == 4u);
    BOOST_TEST(o.rejected == 1u);
}

// The host of the log, or else the host of --host.
BOOST_AUTO_TEST_CASE(match_the_host) {
    auto const p = plan_of(std::string(upstream) + limit("none", "1/1h") +
                           route("host = \"shop.example\"\nlimits = [\"none\"]") + route(""));
    auto const rejected =
        [&](std::string const& of_log, std::string const& named, std::string const& target = "/") {
            return outcome_of(p, {{0s, target, of_log}, {1s, target, of_log}}, named).rejected;
        };
    BOOST_TEST(rejected("shop.example", "") == 1u);
    BOOST_TEST(rejected("shop.example", "other.example") == 1u);
    BOOST_TEST(rejected("other.example", "shop.example") == 0u);
    BOOST_TEST(rejected("", "shop.example") == 1u);
    BOOST_TEST(rejected("-", "shop.example") == 1u);
    BOOST_TEST(rejected("-", "") == 0u);
    BOOST_TEST(rejected("other.example", "", "http://shop.example/") == 1u);
}

BOOST_AUTO_TEST_CASE(have_the_seats_of_servers) {
    auto const p =
        plan_of("[[upstream]]\nname = \"u\"\n[[upstream.server]]\naddress = \"a:1\"\nseats = 1\n"
                "[[upstream.server]]\naddress = \"b:1\"\nseats = 1\n" +
                limit("rate", "9/1s") + route("limits = [\"rate\"]"));
    BOOST_TEST(p.limits().size() == 2u);
    BOOST_TEST(p.routes().at(0).limits.size() == 2u);
    std::vector<line> const three{{0s, "/", "", 5s}, {0s, "/", "", 5s}, {0s, "/", "", 5s}};
    auto const o = outcome_of(p, three);
    BOOST_TEST(o.at_once == 2u);
    BOOST_TEST(o.rejected == 1u);
}

BOOST_AUTO_TEST_CASE(change_one_limit_by_name_or_all_limits) {
    auto p = plan_of(std::string(upstream) + limit("a", "1/1s") + limit("b", "2/1s") +
                     route("limits = [\"a\", \"b\"]"));
    auto const before = p.file;
    p.change("--versus", "patience 3s");
    p.change("--versus", "queue 7");
    p.change("--versus", "b: 5/1s");
    for (auto const& l : p.limits()) {
        BOOST_TEST((l.what.queue.patience.length_or(0s) == 3s));
        BOOST_TEST(l.what.queue.max_waiting == 7);
    }
    BOOST_TEST(to_string(p.limits()[0].what.rule) == "1/1s");
    BOOST_TEST(to_string(p.limits()[1].what.rule) == "5/1s");
    BOOST_TEST(to_string(before->limits[1].rule) == "2/1s");  // other plans still have the old rule
    for (char const* const wrong : {"c: 1/1s", "5/1s", "b: 3 seats", "b: 5/1s per client"})
        BOOST_CHECK_THROW(p.change("--versus", wrong), tool::usage_error);
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(keys_of_a_log)

BOOST_AUTO_TEST_CASE(are_the_paths_and_hosts_of_targets) {
    struct row {
        std::string_view target, path, host;
    };
    for (auto const& [target, path, host] :
         {row{"/a/b?c", "/a/b", ""}, row{"/a/../%62", "/b", ""},
          row{"http://h.example/a?b", "/a", "h.example"},
          row{"http://h.example:80", "/", "h.example:80"}, row{"/a?http://h/b", "/a", ""},
          row{"*", "*", ""}}) {
        BOOST_TEST(replay::path_of(target) == path, target);
        BOOST_TEST(replay::host_of(target) == host, target);
    }
}

BOOST_AUTO_TEST_CASE(are_clients_by_address_or_network) {
    replay::clients addresses(32, 64);
    BOOST_TEST(addresses.all()[addresses.number_of("10.1.2.3")] == "10.1.2.3");
    BOOST_TEST(addresses.all()[addresses.number_of("2001:db8::7")] == "2001:db8::/64");
    replay::clients networks(24, 64);
    BOOST_TEST(networks.all()[networks.number_of("10.1.2.3")] == "10.1.2.0/24");
    BOOST_TEST(networks.all()[networks.number_of("host.example")] == "host.example");
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(rules)

BOOST_AUTO_TEST_CASE(replace_rules_of_the_same_kind_and_key) {
    replay::plan p;
    auto const rules = [&] {
        std::string all;
        for (auto const& r : p.rules)
            all += to_string(r) + "; ";
        return all;
    };
    for (char const* const one : {"1/1s", "2/1s per client", "3 seats", "4/1s per path 1"})
        p.replace(replay::rule::parse(one));
    BOOST_TEST(rules() == "2/1s per client; 4/1s per path 1; 3 seats; 1/1s; ");
    p.replace(replay::rule::parse("7/1s per client"));
    BOOST_TEST(rules() == "4/1s per path 1; 7/1s per client; 3 seats; 1/1s; ");
    p.replace(replay::rule::parse("9/1s"));
    BOOST_TEST(rules() == "4/1s per path 1; 7/1s per client; 3 seats; 9/1s; ");
    p.replace(replay::rule::parse("5 seats per client"));
    BOOST_TEST(rules() == "5 seats per client; 4/1s per path 1; 7/1s per client; 3 seats; 9/1s; ");
}

// A permit comes back at the end of a request whose status does not count.
BOOST_AUTO_TEST_CASE(may_have_costs_and_count_statuses) {
    auto const costs = plan_of(
        std::string(upstream) + limit("a", "10/1h") +
        route("path = \"/dear\"\nlimits = \"a\"\ncost = { a = 4 }") + route("limits = \"a\""));
    auto const some = outcome_of(
        costs, {{0s, "/dear"}, {1s, "/dear"}, {2s, "/dear"}, {3s, "/"}, {4s, "/"}, {5s, "/"}});
    BOOST_TEST(some.at_once == 4u);
    BOOST_TEST(some.rejected == 2u);

    auto const counts = plan_of(
        std::string(upstream) +
        "[[limit]]\nname = \"a\"\nrule = \"2/1h\"\ncount = [401, 404]\n"
        "queue = \"patience 0s\"\n" +
        "[[route]]\npath = \"/trap\"\nrespond = 404\nlimits = \"a\"\n" + route("limits = \"a\""));
    auto const logins = [&](std::vector<line> const& lines) {
        return outcome_of(counts, lines).rejected;
    };
    auto const at = [](nanoseconds when, unsigned status, nanoseconds held = 0ns) {
        return line{when, "/", {}, held, status};
    };
    BOOST_TEST(logins({at(0s, 200), at(1s, 200), at(2s, 302), at(3s, 0), at(4s, 500)}) == 0u);
    BOOST_TEST(logins({at(0s, 401), at(1s, 200), at(2s, 401), at(3s, 200), at(4s, 401)}) == 2u);
    // Two requests are not answered yet.
    BOOST_TEST(logins({at(0s, 200, 5s), at(1s, 200, 5s), at(4s, 200), at(5s, 401)}) == 1u);
    BOOST_TEST(logins({{0s, "/trap"}, {1s, "/trap"}, at(2s, 200)}) == 1u);
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE_END()
