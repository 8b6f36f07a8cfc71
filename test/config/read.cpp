#include "config/read.hpp"

#include "config/write.hpp"
#include "support/temporary_folder.hpp"

#include <boost/test/unit_test.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

using namespace std::chrono_literals;
using config::configuration;

namespace {

configuration read(std::string_view text) {
    return config::read(text, "weir.toml");
}

// The errors in `text`, one line each.
std::vector<std::string> problems(std::string_view text) {
    try {
        static_cast<void>(read(text));
    } catch (config::bad_configuration const& wrong) {
        return wrong.problems();
    }
    return {};
}
std::string problem(std::string_view text) {
    auto const all = problems(text);
    BOOST_REQUIRE_MESSAGE(all.size() == 1, all.size() << " problems in\n" << text);
    return all.front();
}

constexpr std::string_view upstream =
    "[[upstream]]\nname = \"shop\"\nservers = \"127.0.0.1:9000\"\n";

std::string with(std::string_view text) {
    return std::string(text) + std::string(upstream);
}

// All keys, none with its default.
constexpr std::string_view everything = R"(threads = 4
drain = "30s"
pid_file = "/run/weir.pid"
access_log = "/var/log/weir.log"
ratelimit_headers = "both"
access_log_format = "json"
log_level = "warning"

[timeouts]
header = "5s"
body = "20s"
whole_body = "10min"
idle = "2min"
upstream = "90s"
upstream_idle = "1s"

[clients]
trusted = ["10.0.0.0/8", "::1"]
forwarded_by = "forwarded"
max_connections = 5000
abort_on_hang_up = true
pass_underscores = true
min_body_rate = 1000
contended_body_rate = 20000

[admin]
address = "0.0.0.0:9091"
allow = ["10.0.0.0/8", "fd00::/8"]
write = true

[state]
file = "/var/lib/weir/state"
every = "10s"

[[listen]]
address = "0.0.0.0:80"
proxy_protocol = true

[[listen]]
address = "[::]:80"
check = { described_by = "itself", refuse = 403 }

[[listen]]
address = "unix:/run/weir.sock"

[[listen]]
address = "systemd:web"

[[upstream]]
name = "shop"
servers = ["127.0.0.1:9000", "unix:/run/shop.sock"]
resolve = "1min"
health = { path = "/healthz", every = "1s", timeout = "200ms", fall = 5, rise = 1 }

[[upstream]]
name = "search"
hash = ["header X-Session or client", "path 1"]

[[upstream.server]]
address = "10.0.0.7:9000"
seats = 8
max_connections = 9
weight = 3

[[upstream.server]]
address = "[fd00::7]:9000"
backup = true

[[store]]
name = "shared"
url = "redis://10.0.0.9"

[[limit]]
name = "all"
rule = "64 seats"
queue = "max_waiting 100 full evict_oldest max_expected_wait 2s order priority ageing 250ms jitter 10s patience 500ms"
priority = "Priority"

[[limit]]
name = "client"
rule = "20/1s burst 50"
key = ["client", "header X-Api-Key or client", "path 2"]
v4_prefix = 24
v6_prefix = 56
max_keys = 1000
max_memory = 5000000
evict_within = "1s"
when_full = "reject"
queue = "max_waiting 0 patience 1s"
dry_run = true

[[limit]]
name = "key"
rule = "20/1s burst 50"
key = "header X-Api-Key or shared"
queue = "order fair patience 1s"
priority = "Urgency"

[limit.weights]
"10.0.0.0/8" = 3
"fd00::/48" = 32

[limit.overrides]
"a \"key\"" = "1/1s burst 5"
"gold" = "1000/1s burst 50"

[[limit]]
name = "all proxies"
rule = "1000/1s burst 100"
store = "shared"
shared_as = "shop"
prefetch = 64
timeout = "20ms"
on_failure = "local 0.25"

[[route]]
host = "*.example.org"
path = "/search"
method = ["GET", "HEAD"]
upstream = "search"
upstream_path = "/find"
limits = ["client", "all"]
upstream_timeout = "5s"
body_buffer = 1000
body_limit = 1000000

[route.upgrade]
to = ["websocket", "echo/1"]
seats = "handshake"
idle = "1h"

[route.request_headers]
remove = ["Cookie"]

[route.request_headers.add]
"X-Through" = "weir for {client}"

[route.response_headers.add]
"Strict-Transport-Security" = "max-age=1"

[[route]]
path = "/admin"
respond = 403

[route.body]
file = "sorry.html"
type = "text/html"

[[route]]
path = "/checked"
check = true

[[route]]
upstream = "shop"
limits = ["all"]

[[body]]
status = [429, 503]
file = "sorry.html"
type = "text/html; charset=utf-8"
)";

// Reads `everything` in a folder that contains the files it names.
configuration read_everything() {
    support::temporary_folder const folder("weir-config-");
    std::ofstream(folder / "sorry.html") << "<p>Sorry\n";
    return config::read(everything, (folder / "weir.toml").string());
}

}  // namespace

BOOST_AUTO_TEST_SUITE(a_configuration)

BOOST_AUTO_TEST_CASE(has_defaults_for_all_that_is_optional) {
    auto const c = read(upstream);
    BOOST_REQUIRE(c.listeners.size() == 1U);
    BOOST_TEST(to_string(c.listeners[0].address) == "127.0.0.1:8080");
    BOOST_REQUIRE(c.routes.size() == 1U);
    BOOST_TEST(c.routes[0].upstream == "shop");
    BOOST_TEST(c.routes[0].path == "/");
    BOOST_TEST((c.timeouts == config::timeouts()));
    BOOST_TEST(to_string(*c.admin.address) == "127.0.0.1:9090");
    BOOST_TEST(!c.admin.is_named);
    BOOST_TEST(!c.admin.write);
    BOOST_TEST(!read(with("[admin]\naddress = \"none\"\n")).admin.address);
    // As the documentation states.
    BOOST_TEST((config::upgrade().idle == 5min));
    BOOST_TEST((config::upgrade().seats == config::seats_of_upgrade::connection));
    BOOST_TEST((config::health_check().fall == 3));
}

BOOST_AUTO_TEST_CASE(needs_allow_if_other_machines_can_reach_the_admin_address) {
    for (auto const* const mine : {"127.0.0.2:1", "[::1]:1", "localhost:1", "unix:/run/a"})
        BOOST_TEST(problems(with(fmt::format("[admin]\naddress = \"{}\"\n", mine))).empty(), mine);
    for (auto const* const others : {"0.0.0.0:1", "[::]:1", "10.0.0.1:1", "example.org:1"}) {
        auto const text = fmt::format("[admin]\naddress = \"{}\"\n", others);
        BOOST_TEST(
            problem(with(text)).find("list the permitted networks in `allow`") != std::string::npos,
            others);
        BOOST_TEST(problems(with(text + "allow = \"10.0.0.0/8\"\n")).empty(), others);
    }
    BOOST_TEST(problem(with("[admin]\naddress = \"systemd:x\"\n"))
                   .starts_with("weir.toml:2:11: admin: `address` is `systemd:x`, but must be "));
}

BOOST_AUTO_TEST_CASE(without_routes_applies_every_limit_to_every_request) {
    auto const c = read(with("[[limit]]\nname = \"a\"\nrule = \"3 seats\"\n"
                             "[[limit]]\nname = \"b\"\nrule = \"10/1s\"\nkey = \"total\"\n"));
    BOOST_REQUIRE(c.routes.size() == 1U);
    BOOST_TEST((c.routes[0].limits == std::vector<std::string>{"a", "b"}));
    BOOST_TEST(c.limits[1].key.empty());
    BOOST_TEST((c.limits[0].queue.patience.length_or(0s) == 1s));
}

BOOST_AUTO_TEST_CASE(gives_each_queue_a_patience) {
    auto const limit = [](std::string_view queue) {
        return with(fmt::format("[[limit]]\nname = \"a\"\nrule = \"3 seats\"\n{}", queue));
    };
    struct row {
        std::string_view queue, written;
        weir::duration patience;
    };
    for (auto const& [queue, written, patience] : {
             row{"", "", 1s},
             row{"queue = \"\"\n", "", 1s},
             row{"queue = \"max_waiting 9\"\n", "queue = \"max_waiting 9 patience 1s\"\n", 1s},
             row{"queue = \"patience 1s\"\n", "", 1s},
             row{"queue = \"patience 2s max_waiting 9\"\n",
                 "queue = \"max_waiting 9 patience 2s\"\n", 2s},
             row{"queue = \"patience forever\"\n", "queue = \"patience forever\"\n", weir::forever},
             row{"queue = \"patience  forever max_waiting 9\"\n",
                 "queue = \"max_waiting 9 patience forever\"\n", weir::forever},
             row{"queue = \"max_expected_wait forever\"\n", "", 1s},
         }) {
        auto const c = read(limit(queue));
        BOOST_TEST((c.limits[0].queue.patience.length_or(0s) == patience), queue);
        auto const text = write(c);
        auto const line = "rule = \"3 seats\"\n" + std::string(written) + "\n[[route]]";
        BOOST_TEST(text.find(line) != text.npos, queue << " is written as\n" << text);
        BOOST_TEST(write(read(text)) == text);
        BOOST_TEST((read(text).limits[0].queue.patience.length_or(0s) == patience), queue);
    }
}

BOOST_AUTO_TEST_CASE(can_set_every_key) {
    auto const c = read_everything();
    BOOST_TEST(c.threads == 4);
    BOOST_TEST((c.timeouts.idle == 2min));
    BOOST_TEST(c.clients.trusted.size() == 2U);
    BOOST_TEST((c.clients.forwarded_by == config::forwarded_by::forwarded));
    BOOST_TEST((c.access_log_format == config::log_format::json));
    BOOST_TEST((c.log_level == tool::level::warning));
    BOOST_TEST(to_string(*c.admin.address) == "0.0.0.0:9091");
    BOOST_TEST(c.admin.allow.size() == 2U);
    BOOST_TEST(c.admin.write);
    BOOST_TEST(c.state.file == "/var/lib/weir/state");
    BOOST_TEST((c.state.every == 10s));
    BOOST_TEST(c.listeners[0].proxy_protocol);
    BOOST_TEST((c.listeners[1].check->described_by == config::described_by::itself));
    BOOST_TEST(c.listeners[1].check->refuse == 403U);
    BOOST_TEST((std::get<config::inherited_sockets>(c.listeners[3].address).name == "web"));
    BOOST_REQUIRE(c.upstreams.size() == 2U);
    BOOST_TEST(c.upstreams[0].health->fall == 5);
    BOOST_TEST((c.upstreams[1].servers[0].seats == 8));
    BOOST_TEST(!c.upstreams[1].servers[1].seats);
    BOOST_TEST(c.upstreams[1].servers[0].weight == 3);
    BOOST_TEST(!c.upstreams[1].servers[0].backup);
    BOOST_TEST(c.upstreams[1].servers[1].weight == 1);
    BOOST_TEST(c.upstreams[1].servers[1].backup);
    BOOST_REQUIRE(c.upstreams[1].hash.size() == 2U);
    BOOST_TEST(to_string(c.upstreams[1].hash[0]) == "header X-Session or client");
    auto const& client = c.limits[1];
    BOOST_REQUIRE(client.key.size() == 3U);
    BOOST_TEST((client.key[1].what == config::key_part::kind::header));
    BOOST_TEST(client.key[2].number == 2);
    BOOST_TEST(client.dry_run);
    BOOST_TEST(client.queue.max_waiting == 0);
    BOOST_TEST(c.limits[2].overrides.size() == 2U);
    BOOST_TEST((c.limits[2].priority == "Urgency"));
    BOOST_REQUIRE(c.limits[2].weights.size() == 2U);
    BOOST_TEST(c.limits[2].weights[0].first == "10.0.0.0/8");
    BOOST_TEST(c.limits[2].weights[0].second == 3);
    BOOST_TEST(std::get<weir::fail_local>(c.limits[3].on_failure).share == 0.25);
    BOOST_TEST((c.limits[0].queue.order == weir::queue_order::priority));
    BOOST_TEST((c.routes[0].methods == std::vector<std::string>{"GET", "HEAD"}));
    BOOST_TEST((c.routes[0].upstream_path == "/find"));
    BOOST_TEST((c.routes[1].respond == 403U));
    BOOST_REQUIRE(c.routes[1].body.has_value());
    BOOST_TEST(c.routes[1].body->text == "<p>Sorry\n");
    BOOST_TEST((c.routes[1].body->status == std::vector<unsigned>{403}));
    BOOST_REQUIRE(c.bodies.size() == 1U);
    BOOST_TEST((c.bodies[0].status == std::vector<unsigned>{429, 503}));
    BOOST_TEST(c.bodies[0].text == "<p>Sorry\n");
}

// Users without a name are not one user; requests without a segment or a server name are one kind of requests.
BOOST_AUTO_TEST_CASE(gives_users_without_a_name_the_key_of_their_client) {
    using row = std::pair<std::string_view, std::string_view>;
    auto const key_of = [](std::string_view members) {
        auto const c =
            config::read(with(fmt::format("[[limit]]\nname = \"a\"\n{}\n", members)), "f");
        std::vector<std::string> parts;
        for (auto const& part : c.limits.back().key)
            parts.push_back(to_string(part));
        return fmt::format("{}", fmt::join(parts, ", "));
    };
    for (auto const& [key, read] : {
             row{"'header A'", "header A or client"},
             row{"'cookie a'", "cookie a or client"},
             row{"'query a'", "query a or client"},
             row{"'claim a'", "claim a or client"},
             row{"'client_certificate'", "client_certificate or client"},
             row{"'path 1 or query a'", "path 1 or query a or client"},
             row{"['header A', 'path 1']", "header A or client, path 1"},
             row{"'client'", "client"},
             row{"'path 1'", "path 1"},
             row{"'sni'", "sni"},
             row{"'header A or path 1'", "header A or path 1"},
             row{"'header A or client'", "header A or client"},
             row{"'header A or shared'", "header A or shared"},
             row{"'header A or reject'", "header A or reject"},
         })
        BOOST_TEST(key_of(fmt::format("rule = \"1/1s\"\nkey = {}", key)) == read, key);
    BOOST_TEST(key_of("key = 'header A'\n[limit.tree]\n'/' = '10/1s'\n'/*' = 'most 5/1s'") ==
               "header A");
}

BOOST_AUTO_TEST_CASE(is_written_as_it_is_read) {
    auto const c = read_everything();
    BOOST_TEST(write(c) == everything);
    auto const small = read(upstream);
    BOOST_TEST(write(small) == R"([[listen]]
address = "127.0.0.1:8080"

[[upstream]]
name = "shop"
servers = ["127.0.0.1:9000"]

[[route]]
upstream = "shop"
)");
    BOOST_TEST(write(read(write(small))) == write(small));
}

BOOST_AUTO_TEST_CASE(reports_file_line_column_value_and_expected_values) {
    BOOST_TEST(problem(with("threads = 0\n")) ==
               "weir.toml:1:11: `threads` is `0`, but must be a number from 1 to 256");
    BOOST_TEST(problem(with("drain = \"5 s\"\n")) ==
               "weir.toml:1:9: `drain` is `5 s`, but must be a time from 0s to 24h, such as 500ms, "
               "10s or 2min");
    BOOST_TEST(problem(with("[clients]\nforwarded_by = \"via\"\n")) ==
               "weir.toml:2:16: clients: `forwarded_by` is `via`, but must be `x-forwarded-for` or "
               "`forwarded`");
    BOOST_TEST(problem("[[upstream]]\nname = \"a\"\nservers = \"b:80\"\nhealth = { rise = 0 }\n")
                   .starts_with("weir.toml:4:19: upstream `a` health: `rise` is `0`, but must be"));
    BOOST_TEST(problem(with("[[limit]]\nname = \"a\"\nrule = \"10/1x\"\n"))
                   .starts_with("weir.toml:3:8: limit `a`: `rule` is `10/1x`, but must be a rule, "
                                "such as `100/1s`, "
                                "`100/1s burst 20` or `32 seats`, or `unlimited`: "));
    // An invalid rule has no kind, so the overrides are not compared with it.
    BOOST_TEST(problem(with("[[limit]]\nname = \"a\"\nrule = \"5 seat\"\nkey = \"client\"\n"
                            "[limit.overrides]\n\"10.0.0.1\" = \"9 seats\"\n"))
                   .starts_with("weir.toml:3:8: limit `a`: `rule` is `5 seat`"));
    BOOST_TEST(problem(with("[clients]\ntrusted = [\"10.0.0.0/8\", \"10.0.0.1/8\"]\n")) ==
               "weir.toml:2:26: clients: `trusted` is `10.0.0.1/8`, but must be a network, such as "
               "10.0.0.0/8 or "
               "fd00::/8, without bits set after the prefix, or an address");
}

BOOST_AUTO_TEST_CASE(cannot_have_an_unknown_key) {
    BOOST_TEST(
        problem(with("[timeouts]\nhead = \"5s\"\n")) ==
        "weir.toml:2:1: timeouts: unknown key `head`; valid keys: body, handshake, header, idle, "
        "upstream, upstream_idle, whole_body");
    BOOST_TEST(problem(with("[[limit]]\nname = \"a\"\nrule = \"3 seats\"\nrat = 1\n"))
                   .starts_with("weir.toml:4:1: limit `a`: unknown key `rat`; valid keys: "));
}

BOOST_AUTO_TEST_CASE(reports_all_errors_at_once) {
    auto const all = problems(R"(threads = "many"
[[listen]]
address = "nowhere"
[[upstream]]
servers = []
[[limit]]
rule = 5
store = "none"
prefetch = 2
[[route]]
upstream = "shop"
limits = ["fast"]
)");
    BOOST_REQUIRE(all.size() == 9U);
    BOOST_TEST(all[0].starts_with("weir.toml:1:11: `threads` is `many`"));
    BOOST_TEST(all[1].starts_with("weir.toml:3:11: listen: `address` is `nowhere`"));
    BOOST_TEST(all[2].starts_with("weir.toml:4:1: upstream: missing `name`"));
    BOOST_TEST(all[3].starts_with("weir.toml:4:1: upstream: missing `servers`"));
    BOOST_TEST(all[4].starts_with("weir.toml:6:1: limit: missing `name`"));
    BOOST_TEST(all[5].starts_with("weir.toml:7:8: limit: `rule` is `5`"));
    BOOST_TEST(all[6].starts_with("weir.toml:8:9: limit ``: unknown store `none`"));
    BOOST_TEST(all[7].starts_with("weir.toml:11:12: route `/`: unknown upstream `shop`"));
    BOOST_TEST(all[8].starts_with("weir.toml:12:11: route `/`: unknown limit `fast`"));
}

BOOST_AUTO_TEST_CASE(cannot_contradict_itself) {
    struct row {
        std::string_view text, wrong;
    };
    for (auto const& [text, wrong] : {
             row{"[[upstream]]\nname = \"shop\"\nservers = \"127.0.0.1:1\"\n",
                 "duplicate upstream `shop`"},
             row{"[[limit]]\nname = \"a\"\nrule = \"1/1s & 9/1min & 50/1h\"\n"
                 "[[limit]]\nname = \"a#3\"\nrule = \"1/1s\"\n",
                 "limit `a#3`: part 3 of the rule of `a` has this name in RateLimit-Policy"},
             row{"[[upstream]]\nname = \"b\"\n[[upstream.server]]\naddress = \"127.0.0.1:1\"\n"
                 "seats = 1\n[[limit]]\nname = \"upstream b\"\nrule = \"1/1s\"\n",
                 "limit `upstream b`: the seats of the servers of `b` have this name"},
             row{"[[limit]]\nname = \"a\"\nrule = \"1/1s\"\nkey = [\"total\", \"client\"]\n",
                 "use `total` alone"},
             row{"[[limit]]\nname = \"a\"\nrule = \"1/1s\"\n[limit.overrides]\nx = \"2/1s\"\n",
                 "`overrides` requires a `key` with one part"},
             row{"[[limit]]\nname = \"a\"\nrule = \"1/1s\"\nkey = \"path 1\"\n[limit.overrides]\nx "
                 "= \"2 seats\"\n",
                 "of the same kind as `1/1s`"},
             row{"[[limit]]\nname = \"a\"\nrule = \"1/1s\"\nkey = "
                 "\"client\"\n[limit.overrides]\n\"10.0.0.1/8\" = \"2/1s\"\n",
                 "`10.0.0.1/8` is not a client"},
             row{"[[limit]]\nname = \"a\"\nrule = \"1 seats max_hold 1s\"\nkey = \"client\"\n",
                 "`max_hold` requires the key `total`"},
             row{"[[limit]]\nname = \"a\"\nrule = \"1/1s\"\npriority = \"Priority\"\n",
                 "`priority` requires `order priority` or `order fair`"},
             row{"[[limit]]\nname = \"a\"\nrule = \"1/1s\"\n[limit.weights]\n\"10.0.0.1\" = 2\n",
                 "`weights` requires `order fair`"},
             row{"[[limit]]\nname = \"a\"\nrule = \"1 seats\"\nqueue = \"order shares\"\n",
                 "`order shares` is not supported here"},
             row{"[[limit]]\nname = \"a\"\nrule = \"1 seats\"\nqueue = \"dry_run true\"\n",
                 "`dry_run` is an option of the limit, not of its queue"},
             row{"[[limit]]\nname = \"a\"\nrule = \"1/1s\"\nqueue = \"length 5\"\n",
                 "`queue` is `length 5`, but must be a queue"},
             row{"[[limit]]\nname = \"a\"\nrule = \"1/1s\"\nprefetch = 5\n",
                 "`prefetch` requires `store`"},
             row{"[[store]]\nname = \"e\"\nurl = \"redis://a\"\n[[limit]]\nname = \"a\"\nrule = "
                 "\"3 seats\"\nstore = \"e\"\n",
                 "a store supports rules such as 100/1s"},
             row{"[[store]]\nname = \"e\"\nurl = \"redis://a\"\n[[limit]]\nname = \"a\"\nrule = "
                 "\"3/1s\"\nkey = \"client\"\nprefetch = 5\nstore = \"e\"\n",
                 "`prefetch` requires the key `total`"},
             row{"[[store]]\nname = \"e\"\nurl = \"redis://a\"\n[[limit]]\nname = \"a\"\nrule = "
                 "\"3/1s\"\ndry_run = true\nstore = \"e\"\n",
                 "`store` and `dry_run` exclude each other"},
             row{"[[listen]]\naddress = \"0.0.0.0:80\"\nproxy_protocol = true\n", "`trusted`"},
             row{"[[listen]]\naddress = \"0.0.0.0:80\"\n[[listen]]\naddress = \"0.0.0.0:80\"\n",
                 "duplicate address `0.0.0.0:80`"},
             row{"[[route]]\nupstream = \"shop\"\n[route.request_headers.add]\nhost = \"a\"\n",
                 "is set by the proxy"},
             row{"[[route]]\nupstream = \"shop\"\n[route.response_headers]\nremove = \"a b\"\n",
                 "is not a valid header name"},
             row{"[[route]]\n", "exactly one of `upstream`, `respond` and `check` is required"},
             row{"[[route]]\nupstream = \"shop\"\nrespond = 403\n",
                 "exactly one of `upstream`, `respond` and `check` is required"},
             row{"[[route]]\nupstream = \"shop\"\npath = \"api\"\n", "must be a prefix of paths"},
             row{"[[store]]\nname = \"e\"\nurl = \"http://a\"\n",
                 "`url` must start with one of redis://, rediss://, redis+sentinel://, "
                 "rediss+sentinel://, unix:, mysql://, postgresql:// and agent:"},
             row{"[[limit]]\nname = \"a\"\nrule = \"0 seats\"\n", "must be a rule"},
             row{"[upstreams]\n", "unknown key `upstreams`"},
             row{"upstream = 5\n", "must be a list of tables, each under [[upstream]]"},
         }) {
        auto const all = problems(text == std::string_view("upstream = 5\n")
                                      ? std::string(text)
                                      : std::string(upstream) + std::string(text));
        auto const is_told = [&](std::string const& line) { return line.find(wrong) != line.npos; };
        BOOST_TEST(std::ranges::any_of(all, is_told),
                   text << "\nlacks the error\n"
                        << wrong << "\nbut\n"
                        << fmt::format("{}", fmt::join(all, "\n")));
    }
}

BOOST_AUTO_TEST_CASE(cannot_name_a_header_that_the_proxy_drops) {
    constexpr std::string_view limit = "[[limit]]\nname = \"a\"\nrule = \"1/1s\"\n";
    for (auto const& text : {
             std::string(limit) + "key = \"header X_Y or client\"\n",
             std::string(limit) + "key = \"cookie a or header X_Y\"\n",
             std::string(limit) + "cost = \"header X_Y\"\n",
             std::string(limit) + "queue = \"order priority\"\npriority = \"X_Y\"\n",
             "[[route]]\nupstream = \"shop\"\nheader = { X_Y = \"1\" }\n" + std::string(limit),
             "[[upstream]]\nname = \"two\"\nservers = [\"127.0.0.1:1\", \"127.0.0.1:2\"]\n"
             "hash = \"header X_Y\"\n[[route]]\nupstream = \"two\"\n" +
                 std::string(limit),
         }) {
        std::string const trusting = with("[clients]\ntrusted = \"10.0.0.1\"\n");
        BOOST_TEST(
            problem(trusting + text)
                .ends_with(
                    "no request has the header `X_Y`: fields with an underscore are dropped; "
                    "use `X-Y`, or set `pass_underscores` in [clients]"),
            text);
        auto const passing = with("[clients]\ntrusted = \"10.0.0.1\"\npass_underscores = true\n");
        BOOST_TEST(problems(passing + text).empty(), text);
    }
    // The fields of responses stay.
    BOOST_TEST(
        problems(with("") + std::string(limit) + "cost = \"response header X_Y\"\n").empty());
}

// A URL may hold a password.
BOOST_AUTO_TEST_CASE(reports_an_error_without_the_url_of_a_store) {
    for (std::string const url : {"http://u:secret@a", "secret", "redis:u:secret@a"})
        BOOST_TEST(problem(with("[[store]]\nname = \"e\"\nurl = \"" + url + "\"\n")) ==
                   "weir.toml:3:7: store `e`: `url` must start with one of redis://, rediss://, "
                   "redis+sentinel://, "
                   "rediss+sentinel://, unix:, mysql://, postgresql:// and agent:");
}

BOOST_AUTO_TEST_CASE(is_toml) {
    BOOST_TEST(problem("threads = \n").starts_with("weir.toml:1:"));
    BOOST_TEST(problem("threads = 1\nthreads = 2\n").starts_with("weir.toml:2:"));
    BOOST_TEST(problem("").find("missing [[upstream]]") != std::string::npos);
    // A message has one line, even if it quotes a line break.
    BOOST_TEST(problem(with("drain = \"a\\nb\\u0007\"\n"))
                   .starts_with("weir.toml:1:9: `drain` is `a?b?`, but must be a time"));
}

BOOST_AUTO_TEST_SUITE_END()
