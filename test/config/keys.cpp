// For each key of the file: valid values, the messages for invalid values, and a check that writing keeps the value.

#include "config/read.hpp"
#include "config/write.hpp"

#include <boost/test/unit_test.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <vector>

// Files of this folder are compiled together.
namespace keys_of_a_file {
namespace {

using texts = std::vector<std::string_view>;

// A table, with the other keys that it needs.
struct place {
    std::string_view where;  // as messages call it
    std::string_view before;
    std::string_view behind = {};
};

constexpr std::string_view shop = "[[upstream]]\nname = \"shop\"\nservers = \"127.0.0.1:9000\"\n";
constexpr std::string_view bucket = "[[limit]]\nname = \"a\"\nrule = \"100/1s\"\n";
constexpr std::string_view store =
    "[[store]]\nname = \"e\"\nurl = \"redis://a\"\n"
    "[[limit]]\nname = \"a\"\nrule = \"100/1s\"\nstore = \"e\"\n";

constexpr place top{"", "", shop};
constexpr place timeouts{"timeouts: ", "[timeouts]\n", shop};
constexpr place clients{"clients: ", "[clients]\n", shop};
constexpr place admin{"admin: ", "[admin]\n", shop};
constexpr place state{"state: ", "[state]\n", shop};
constexpr place state_of_file{"state: ", "[state]\nfile = \"/a\"\n", shop};
constexpr place agent{"agent: ", "[agent]\npath = \"/a\"\nstore = \"e\"\n",
                      "[[store]]\nname = \"e\"\nurl = \"redis://a\"\n"};
constexpr place listener{"listen", "[[listen]]\n", shop};
constexpr place bound_listener{
    "listen `127.0.0.1:1`: ", "[[listen]]\naddress = \"127.0.0.1:1\"\n", shop};
constexpr place unix_listener{"listen `unix:/a`: ", "[[listen]]\naddress = \"unix:/a\"\n", shop};
constexpr place listener_for_checks{
    "listen `127.0.0.1:1` check: ",
    "[clients]\ntrusted = \"10.0.0.1\"\n[[listen]]\naddress = \"127.0.0.1:1\"\n[listen.check]\n",
    "[[route]]\ncheck = true\n"};
constexpr place upstream{"upstream `shop`: ", "[[upstream]]\nname = \"shop\"\n"};
constexpr place server{
    "upstream `shop` server: ",
    "[[upstream]]\nname = \"shop\"\n[[upstream.server]]\naddress = \"127.0.0.1:1\"\n"};
constexpr place upstream_of_two{
    "upstream `shop`: ", "[[upstream]]\nname = \"shop\"\nservers = [\"a:1\", \"a:2\"]\n"};
constexpr place health{
    "upstream `shop` health: ",
    "[[upstream]]\nname = \"shop\"\nservers = \"127.0.0.1:9000\"\n[upstream.health]\n"};
constexpr place encrypted{
    "upstream `shop`: ", "[[upstream]]\nname = \"shop\"\nservers = \"https://a:1\"\n"};
constexpr place tls_to_servers{
    "upstream `shop` tls: ",
    "[[upstream]]\nname = \"shop\"\nservers = \"https://a:1\"\n[upstream.tls]\n"};
constexpr place limit{"limit `a`: ", "[[limit]]\nname = \"a\"\nrule = \"100/1s\"\n", shop};
constexpr place keyed{"limit `a`", "[[limit]]\nname = \"a\"\nrule = \"100/1s\"\nkey = \"client\"\n",
                      shop};
constexpr place penalty{"limit `a`: ", "[[limit]]\nname = \"a\"\ncount = 401\n", shop};
constexpr place punished{
    "limit `a`: ", "[[limit]]\nname = \"a\"\nrule = \"5/1min penalty\"\ncount = 401\n", shop};
constexpr place trusting{
    "limit `a`: ",
    "[clients]\ntrusted = \"10.0.0.1\"\n[[limit]]\nname = \"a\"\nrule = \"100/1s\"\n", shop};
constexpr place seated{"limit `a`: ", "[[limit]]\nname = \"a\"\nrule = \"3 seats\"\n", shop};
constexpr place costly{
    "limit `a`: ", "[[limit]]\nname = \"a\"\nrule = \"100/1s\"\ncost = \"bytes\"\n", shop};
constexpr place priced{
    "route `/` cost: ",
    "[[limit]]\nname = \"a\"\nrule = \"100/1s\"\n[[route]]\nupstream = \"shop\"\nlimits = \"a\"\n",
    shop};
constexpr place classed{
    "limit `a`: ", "[[limit]]\nname = \"a\"\nrule = \"100/1s\"\nqueue = \"order priority\"\n",
    shop};
constexpr place fair{
    "limit `a`: ", "[[limit]]\nname = \"a\"\nrule = \"100/1s\"\nqueue = \"order fair\"\n", shop};
constexpr place weighty{"limit `a` weights: ", fair.before, shop};
constexpr place shared{"limit `a`: ", store, shop};
constexpr place route{"route `/`: ", "[[route]]\nupstream = \"shop\"\n", shop};
constexpr place unnamed_route{"route", "[[route]]\nupstream = \"shop\"\n", shop};
constexpr place answer{"route `/`: ", "[[route]]\n", shop};
constexpr place answered{"route `/`: ", "[[route]]\nrespond = 403\n", shop};
constexpr place body_of_route{"route `/` body: ", "[[route]]\nrespond = 403\n", shop};
constexpr place upgrade{
    "route `/` upgrade: ", "[[route]]\nupstream = \"shop\"\n[route.upgrade]\nto = \"websocket\"\n",
    shop};
constexpr place fields{"route `/` response_headers",
                       "[[route]]\nupstream = \"shop\"\n[route.response_headers]\n", shop};

struct row {
    place in;
    std::string_view key;
    texts right;  // as in the file, without the default
    texts wrong;
    std::string_view must;  // part of the message: the text after "but must be ", or another part
};

std::string file(row const& r, std::string_view value) {
    return fmt::format("{}{} = {}\n{}", r.in.before, r.key, value, r.in.behind);
}

std::vector<std::string> problems(std::string const& text) {
    try {
        static_cast<void>(config::read(text, "f"));
    } catch (config::bad_configuration const& wrong) {
        return wrong.problems();
    }
    return {};
}

// The value as messages quote it.
std::string shown(std::string_view value) {
    if (value.starts_with('['))
        return "a list";
    if (value.starts_with('{'))
        return "a table";
    return fmt::format("`{}`", value.starts_with('"') ? value.substr(1, value.size() - 2) : value);
}

std::vector<row> const& rows() {
    static texts const times{"\"1ms\"", "\"24h\"", "\"86400s\"", "\"1234ms\""};
    static texts const no_times{"\"0s\"",  "\"999us\"", "\"86401s\"", "\"24\"", "\"1.5s\"",
                                "\"-1s\"", "\"\"",      "5",          "[]",     "true"};
    static constexpr std::string_view a_time = "a time from 1ms to 24h, such as 500ms, 10s or 2min";
    static texts const flags{"true"};
    static texts const no_flags{"1", "\"true\"", "[true]"};
    static constexpr std::string_view a_flag = "true or false";
    static texts const no_texts{"\"\"", "\"a\\nb\"", "5", "true", "{}"};
    static std::string const longest_path = fmt::format("\"/{}\"", std::string(106, 'a'));
    static std::string const too_long_path = fmt::format("\"/{}\"", std::string(107, 'a'));
    static std::vector<row> const all{
        {top,
         "threads",
         {"1", "256"},
         {"0", "257", "-1", "1.0", "\"4\"", "true"},
         "a number from 1 to 256"},
        {top,
         "drain",
         {"\"0s\"", "\"24h\"", "\"1ns\""},
         {"\"86401s\"", "\"10\"", "10"},
         "a time from 0s to 24h, such as 500ms, 10s or 2min"},
        {top, "pid_file", {"\"/run/a\""}, {"\"\"", "5"}, "a file"},
        {top,
         "access_log",
         {"\"-\"", "\"a.log\""},
         {"\"\"", "true"},
         "a file, or `-` for standard output"},
        {top,
         "ratelimit_headers",
         {"\"legacy\"", "\"both\"", "\"none\""},
         {"\"IETF\"", "\"\"", "true"},
         "`ietf`, `legacy`, `both` or `none`"},
        {top, "access_log_format", {"\"json\""}, {"\"JSON\"", "\"xml\"", "1"}, "`text` or `json`"},
        {top,
         "log_level",
         {"\"error\"", "\"warning\""},
         {"\"debug\"", "\"\"", "1"},
         "`error`, `warning` or `info`"},
        {timeouts, "header", times, no_times, a_time},
        {timeouts, "body", times, no_times, a_time},
        {timeouts, "whole_body", times, no_times, a_time},
        {timeouts, "idle", times, no_times, a_time},
        {timeouts, "upstream", times, no_times, a_time},
        {timeouts, "upstream_idle", times, no_times, a_time},
        {clients,
         "trusted",
         {"[\"10.0.0.0/8\"]", "[\"10.0.0.1\", \"::1\", \"fd00::/8\"]"},
         {"\"10.0.0.1/8\"", "\"10.0.0.0/33\"", "\"::/129\"", "\"example.org\"", "\"\"", "5"},
         "a network, such as 10.0.0.0/8 or fd00::/8, without bits set after the prefix, or an "
         "address"},
        {clients,
         "forwarded_by",
         {"\"forwarded\""},
         {"\"Forwarded\"", "\"\"", "1"},
         "`x-forwarded-for` or `forwarded`"},
        {clients,
         "max_connections",
         {"1", "1000000000"},
         {"0", "1000000001", "\"5\""},
         "a number from 1 to 1000000000"},
        {clients, "abort_on_hang_up", flags, no_flags, a_flag},
        {clients, "pass_underscores", flags, no_flags, a_flag},
        {clients,
         "min_body_rate",
         {"0", "1000000000"},
         {"-1", "1000000001", "\"500\""},
         "a number from 0 to 1000000000"},
        {clients,
         "contended_body_rate",
         {"0", "1000000000"},
         {"-1", "1000000001", "\"500\""},
         "a number from 0 to 1000000000"},
        {admin,
         "address",
         {"\"127.0.0.1:1\"", "\"[::1]:0\"", "\"unix:/a\"", "\"none\"", "\"127.0.0.1:9090\""},
         {"\"127.0.0.1\"", "\"127.0.0.1:65536\"", "\"unix:\"", "\"systemd:a\"", "\"None\"", "9090"},
         "host:port, such as 127.0.0.1:9090 or [::1]:9090, unix:PATH or `none`"},
        {admin, "allow", {"[\"10.0.0.0/8\"]"}, {"\"10.0.0.1/8\"", "true"}, "a network"},
        {admin, "write", flags, no_flags, a_flag},
        {state, "file", {"\"/var/lib/a\""}, {"\"\"", "5"}, "a file"},
        {state_of_file,
         "every",
         {"\"1s\"", "\"24h\""},
         {"\"999ms\"", "\"86401s\"", "60"},
         "a time from 1s to 24h, such as 500ms, 10s or 2min"},
        {listener,
         "address",
         {"\"0.0.0.0:80\"", "\"[::]:0\"", "\"unix:/a\"", "\"systemd:a\""},
         {"\"80\"", "\":80\"", "\"::1:80\"", "\"a:65536\"", "\"unix:\"", "\"systemd:\"", "80"},
         "host:port, such as 127.0.0.1:8080 or [::1]:8080, unix:PATH or systemd:NAME"},
        {unix_listener, "proxy_protocol", flags, no_flags, a_flag},
        {unix_listener,
         "mode",
         {"\"0660\"", "\"0000\"", "\"0777\""},
         {"\"660\"", "\"1777\"", "\"0668\"", "\"00660\"", "432"},
         "four octal digits from 0000 to 0777, such as 0660"},
        {bound_listener,
         "mode",
         {},
         {"\"0660\""},
         "`mode` requires an `address` that is a unix socket"},
        {bound_listener,
         "proxy_protocol",
         {},
         {"true"},
         "`proxy_protocol` requires `trusted` in [clients]"},
        {listener_for_checks,
         "described_by",
         {"\"x-original\"", "\"itself\""},
         {"\"X-Forwarded\"", "\"\"", "5"},
         "`x-forwarded`, `x-original` or `itself`"},
        {listener_for_checks,
         "refuse",
         {"400", "403", "599"},
         {"399", "600", "\"403\""},
         "a number from 400 to 599"},
        {{"listen `127.0.0.1:1` check: ", "[[listen]]\naddress = \"127.0.0.1:1\"\n",
          "[[route]]\ncheck = true\n"},
         "check",
         {},
         {"{}"},
         "a check requires `trusted` in [clients]"},
        {{"listen `127.0.0.1:1` check: ",
          "[clients]\ntrusted = \"10.0.0.1\"\n[[listen]]\naddress = \"127.0.0.1:1\"\n"
          "proxy_protocol = true\n",
          "[[route]]\ncheck = true\n"},
         "check",
         {},
         {"{}"},
         "leave out `proxy_protocol`"},
        {{"", "[clients]\ntrusted = \"10.0.0.1\"\n[[listen]]\naddress = \"127.0.0.1:1\"\n", shop},
         "check",
         {},
         {"{}"},
         "no [[route]] has `check = true`, so each check would get 404"},
        {upstream,
         "servers",
         {"[\"a:1\"]", "[\"a:65535\", \"[::1]:9\", \"unix:/a\"]",
          "[\"https://a:1\", \"https://a.b\", \"https://[::1]\", \"https://[::1]:9\"]"},
         {"\"a:0\"", "\"a:65536\"", "\"a\"", "\"systemd:a\"", "\"unix:\"", "5", "\"https://\"",
          "\"https://a:0\"", "\"https://a:65536\"", "\"https://a/\"", "\"https://a/b:9\"",
          "\"https://b@a\"", "\"https://a?b\"", "\"https://a#b\"", "\"https://unix:/a\""},
         "host:port, with a port from 1 to 65535"},
        {upstream,
         "servers",
         {},
         {"[\"a:1\", \"https://a:2\"]", "[\"https://a:2\", \"unix:/a\"]"},
         "some servers have https:// and some have not"},
        {encrypted, "tls", {"{ insecure = true }"}, {"5", "[{ }]"}, "a table"},
        {{"upstream `shop` tls: ", upstream_of_two.before},
         "tls",
         {},
         {"{ }", "{ insecure = true }"},
         "no server has https://"},
        {tls_to_servers, "authorities", {"\"/a\""}, {"\"\"", "5"}, "a file"},
        {tls_to_servers,
         "server_name",
         {"\"a.example\"", "\"127.0.0.1\"", "\"::1\""},
         {"\"\"", "\"a b\"", "\"*.a\"", "\"a/b\"", "\"[::1]\"", "5"},
         "a name or an IP address, without a port"},
        {tls_to_servers, "key = \"/k\"\ncertificate", {"\"/a\""}, {"\"\"", "5"}, "a file"},
        {tls_to_servers, "certificate = \"/c\"\nkey", {"\"/a\""}, {"\"\"", "5"}, "a file"},
        {tls_to_servers, "certificate", {}, {"\"/a\""}, "missing `key`"},
        {tls_to_servers, "key", {}, {"\"/a\""}, "missing `certificate`"},
        {tls_to_servers, "insecure", {"true"}, {"1"}, a_flag},
        {tls_to_servers,
         "insecure = true\nauthorities",
         {},
         {"\"/a\""},
         "`authorities` and `insecure` exclude each other"},
        {server,
         "seats",
         {"1", "1000000000"},
         {"0", "1000000001", "\"5\""},
         "a number from 1 to 1000000000"},
        {server,
         "weight",
         {"2", "100"},
         {"0", "101", "-1", "1.5", "\"2\""},
         "a number from 1 to 100"},
        {server, "backup", {}, {"1", "\"true\""}, a_flag},
        {{"upstream `shop`: ", server.before},
         "backup",
         {},
         {"true"},
         "all servers have `backup`; at least one must have none"},
        {{"upstream `shop` server: ",
          "[[upstream]]\nname = \"shop\"\nservers = \"a:1\"\n[[upstream.server]]\naddress = "
          "\"127.0.0.1:1\"\n"},
         "backup",
         {"true"},
         {},
         ""},
        {upstream_of_two,
         "hash",
         {"\"client\"", "\"header A or client\"", "[\"client\", \"path 2\"]",
          "\"cookie a or query b\""},
         {"\"\"", "\"a\"", "\"path 0\"", "\"shared\"", "\"total\"", "\"header A or shared\"",
          "\"header A or reject\"", "5"},
         "`client`, `client_certificate`, `sni`, `header NAME`, `cookie NAME`, `query NAME`, "
         "`claim "
         "NAME`, or `path N`, a segment of the path from 1 to 100; or several of these with ` or ` "
         "between"},
        {upstream_of_two, "hash", {}, {"[\"client\", \"client\"]"}, "duplicate `client`"},
        {upstream_of_two, "hash", {}, {"[]"}, "`hash` has no part"},
        {server,
         "max_connections",
         {"1", "1000000000"},
         {"0", "1000000001", "\"5\""},
         "a number from 1 to 1000000000"},
        {server,
         "seats = 5\nmax_connections",
         {"5", "6"},
         {"4"},
         "`max_connections` is 4, but must be at least `seats` (5)"},
        {health,
         "path",
         {"\"/\"", "\"/a?b\""},
         {"\"a\"", "\"\"", "\"/a b\"", "\"/\\u00e9\"", "\"/a#b\"", "\"/%00\"", "5"},
         "a path, such as /healthz"},
        {health,
         "every",
         {"\"10ms\"", "\"24h\""},
         {"\"9ms\"", "\"86401s\"", "5"},
         "a time from 10ms to 24h, such as 500ms, 10s or 2min"},
        {health, "timeout", {"\"1ms\"", "\"24h\""}, no_times, a_time},
        {health, "fall", {"1", "1000"}, {"0", "1001", "\"3\""}, "a number from 1 to 1000"},
        {health, "rise", {"1", "1000"}, {"0", "1001", "\"3\""}, "a number from 1 to 1000"},
        {{"store `e`: ", "[[store]]\nname = \"e\"\n", shop},
         "url",
         {"\"redis://a\"", "\"rediss://a?insecure\"", "\"redis+sentinel://a,b/c\"",
          "\"rediss+sentinel://a/c\"", "\"unix:/a\"", "\"mysql://u:p@a/b\"",
          "\"postgresql://u:p@a,b/c\"", "\"agent:/a\""},
         {"\"http://a\"", "\"redis:a\"", "\"redis+tls://a\""},
         "`url` must start with one of redis://, rediss://, redis+sentinel://, "
         "rediss+sentinel://, unix:, mysql://, postgresql:// and agent:"},
        {{"agent: ", "[agent]\nstore = \"e\"\n", agent.behind},
         "path",
         {"\"/run/a\"", longest_path},
         {"\"\"", "5", too_long_path},
         "the path of a socket, of at most 107 bytes"},
        {{"agent: ", "[agent]\npath = \"/a\"\n", agent.behind},
         "store",
         {"\"e\""},
         {"\"\"", "5"},
         "the name of a store"},
        {{"agent: ", "[agent]\npath = \"/a\"\n", agent.behind},
         "store",
         {},
         {"\"b\""},
         "unknown store `b`; defined: e"},
        {{"agent: ", "[agent]\npath = \"/a\"\n", "[[store]]\nname = \"e\"\nurl = \"agent:/b\"\n"},
         "store",
         {},
         {"\"e\""},
         "the store `e` is an agent; name a store with a server"},
        {agent,
         "mode",
         {"\"0660\"", "\"0000\"", "\"0777\""},
         {"\"660\"", "\"1777\"", "432"},
         "four octal digits from 0000 to 0777, such as 0660"},
        {agent,
         "lease",
         {"\"1ms\"", "\"1min\""},
         {"\"999us\"", "\"60001ms\"", "5"},
         "a time from 1ms to 1min, such as 500ms, 10s or 2min"},
        {agent,
         "max_connections",
         {"1", "100000"},
         {"0", "100001", "\"5\""},
         "a number from 1 to 100000"},
        {agent,
         "max_limits",
         {"1", "10000000"},
         {"0", "10000001", "\"5\""},
         "a number from 1 to 10000000"},
        {limit,
         "key",
         {"\"client\"", "\"header A\"", "\"path 1\"", "\"path 100\"", "[\"client\", \"path 2\"]",
          "\"cookie session\"", "\"query api_key\"", "\"query filter[a]\"", "\"claim sub\"",
          "\"claim https://example.org/tenant\"", "\"header A or query a or client\"",
          "\"cookie a or shared\"", "[\"cookie a or reject\", \"path 1\"]",
          "\"client_certificate\"", "\"sni\"", "\"sni or reject\"",
          "\"header A or client_certificate or client\""},
         {"\"path 0\"",    "\"path 101\"",        "\"path\"",         "\"path x\"",
          "\"header \"",   "\"header a b\"",      "\"Client\"",       "5",
          "\"cookie \"",   "\"cookie a=b\"",      "\"query a&b\"",    "\"claim \"",
          "\"claim a b\"", "\"reject\"",          "\"shared\"",       "\"client or\"",
          "\"or client\"", "\"total or client\"", "\"client  or a\"", "\"header A or total\""},
         "`total`, `client`, `client_certificate`, `sni`, `header NAME`, `cookie NAME`, `query "
         "NAME`, "
         "`claim NAME`, or `path N`, a segment of the path from 1 to 100; or several of these with "
         "` or ` between, of which the last may be `shared` or `reject`"},
        {limit,
         "key",
         {},
         {"\"client or header A\"", "\"header A or client or path 1\""},
         "nothing can follow `client`"},
        {limit, "key", {}, {"\"header A or reject or client\""}, "nothing can follow `reject`"},
        {limit, "key", {}, {"\"header A or query a or header A\""}, "duplicate `header A`"},
        {limit, "v4_prefix", {"0", "31"}, {"-1", "33", "\"8\""}, "a number from 0 to 32"},
        {limit, "v6_prefix", {"0", "63"}, {"-1", "65", "\"8\""}, "a number from 0 to 64"},
        {keyed,
         "max_keys",
         {"1", "1000000000"},
         {"0", "1000000001"},
         "a number from 1 to 1000000000"},
        {limit, "max_keys", {}, {"1"}, "`max_keys` requires a `key` other than `total`"},
        {keyed,
         "max_memory",
         {"1000000", "1000000000000"},
         {"999999", "1000000000001", "\"1GB\""},
         "a number from 1000000 to 1000000000000"},
        {limit, "max_memory", {}, {"1000000"}, "`max_memory` requires a `key` other than `total`"},
        {keyed,
         "evict_within",
         {"\"1s\"", "\"24h\""},
         {"\"-1s\"", "\"25h\"", "1"},
         "a time from 0s to 24h"},
        {limit,
         "evict_within",
         {},
         {"\"1s\""},
         "`evict_within` requires a `key` other than `total`"},
        {keyed, "when_full", {"\"reject\""}, {"\"drop\"", "\"\"", "1"}, "`share` or `reject`"},
        {limit, "when_full", {}, {"\"reject\""}, "`when_full` requires a `key` other than `total`"},
        {limit,
         "queue",
         {"\"max_waiting 5 patience 1s\"", "\"patience 2s\"", "\"patience 24h\"",
          "\"patience forever\""},
         {"\"length 5\"", "\"limit -1\"", "\"order shares\"", "\"patience -1s\"",
          "\"patience 86401s\"", "\"max_expected_wait -1s\"", "5"},
         "a queue, such as `max_waiting 100 patience 2s`"},
        {limit, "dry_run", flags, no_flags, a_flag},
        {limit,
         "cost",
         {"2", "100", "\"bytes\"", "\"response bytes\"", "\"response header X-Tokens\""},
         {"0", "-1", "1000000000000001", "\"5\"", "\"byte\"", "\"header\"", "\"header \"",
          "\"header a b\"", "\"response\"", "\"response header \"", "\"response bytes \"", "1.5",
          "[1]"},
         "a number from 1 to 1000000000000000, `header NAME`, `bytes`, `response header NAME` or "
         "`response bytes`"},
        {limit, "cost", {}, {"101"}, "`cost` is 101, but the limit grants at most 100 at once"},
        {limit, "cost", {}, {"\"header A\""}, "`cost` by a header requires `trusted` in [clients]"},
        {trusting, "cost", {"\"header A\""}, {}, ""},
        {seated, "cost", {"3"}, {"4"}, "`cost` is 4, but the limit grants at most 3 at once"},
        {seated,
         "cost",
         {},
         {"\"bytes\"", "\"response bytes\"", "\"response header A\""},
         "which requires a rate: the cost of seats must be a number or `header NAME`"},
        {keyed,
         "overrides = { \"10.0.0.1\" = \"9/1s\" }\ncost",
         {"9"},
         {"10"},
         "`cost` is 10, but the limit grants at most 9 at once"},
        {limit, "estimate", {}, {"5"}, "`estimate` requires a `cost` other than a number"},
        {costly,
         "estimate",
         {"2", "100"},
         {"0", "-1", "\"5\""},
         "a number from 1 to 1000000000000000"},
        {costly,
         "estimate",
         {},
         {"101"},
         "`estimate` is 101, but the limit grants at most 100 at once"},
        {limit,
         "count",
         {"401", "\"4xx\"", "[401, \"5xx\"]", "[200, 599, \"2xx\"]"},
         {"199", "600", "\"1xx\"", "\"6xx\"", "\"4x\"", "\"4XX\"", "\"xxx\"", "\"0401\"", "\"\"",
          "4.5", "true"},
         "a status from 200 to 599, such as 401, or a class of them, such as `4xx`"},
        {limit, "count", {}, {"[]"}, "`count` has no status; leave it out to count all requests"},
        {{"limit `a`: ", "[[limit]]\nname = \"a\"\ncount = 401\n", shop},
         "rule",
         {"\"5/1min\"", "\"5/1min sliding\"", "\"5/1min fixed\"", "\"5/1min & 20/1h fixed\"",
          "\"9/day\""},
         {"\"5/1min bucket\"", "\"5/1min leaky\"", "\"5/1min bursty\"", "\"5 seats\"",
          "\"5 seats rest 1s\"", "\"5/1min & 20/1h bucket\""},
         "`count` requires a rule with a window, such as `5/1min`"},
        {shared, "count", {}, {"401"}, "`store` and `count` exclude each other"},
        {{"limit `a`: ", "[[limit]]\nname = \"a\"\nrule = \"5/1min penalty\"\n", shop},
         "count",
         {"401", "[401, \"5xx\"]"},
         {},
         ""},
        {{"limit `a`: ", "[[limit]]\nname = \"a\"\n", shop},
         "rule",
         {},
         {"\"5/1min penalty\""},
         "which requires `count`: the statuses of the responses that are offences"},
        {penalty,
         "rule",
         {"\"5/1min penalty\"", "\"5/1min penalty first 2min longest 24h memory 24h\""},
         {},
         ""},
        {penalty,
         "rule",
         {},
         {"\"5/1min penalty & 100/1s\"", "\"100/1s & 5/1min penalty\"",
          "\"5/1min penalty & 5/1h penalty\""},
         "a penalty cannot be combined by `&`: use a [[limit]] for each, and both in a route"},
        {punished,
         "queue",
         {},
         {"\"\"", "\"max_waiting 0\"", "\"order fair\""},
         "`queue` excludes a penalty, which rejects requests at once"},
        {punished, "cost", {"3"}, {}, ""},
        {punished,
         "cost",
         {},
         {"\"bytes\"", "\"response bytes\"", "\"response header A\""},
         "which requires a rate: the cost of a penalty must be a number or `header NAME`"},
        {punished, "dry_run", {"true"}, {}, ""},
        {punished,
         "key = \"client\"\noverrides",
         {"{ \"10.0.0.1\" = \"unlimited\", \"10.0.0.2\" = \"9/1min penalty\" }"},
         {},
         ""},
        {{"limit `a`",
          "[[limit]]\nname = \"a\"\nrule = \"9/1min\"\nkey = \"client\"\ncount = 401\n", shop},
         "overrides",
         {},
         {"{ \"10.0.0.2\" = \"9/1min penalty\" }"},
         "a rule of the same kind"},
        {{"limit `a`: ",
          "[[limit]]\nname = \"a\"\nkey = \"client\"\n"
          "overrides = { \"10.0.0.1\" = \"9/1min penalty\" }\n",
          shop},
         "rule",
         {},
         {"\"unlimited\""},
         "which requires `count`"},
        {shared, "cost", {"2", "\"bytes\"", "\"response header X-Tokens\""}, {}, ""},
        {limit,
         "priority",
         {},
         {"\"Priority\""},
         "`priority` requires `order priority` or `order fair` in `queue`"},
        {fair, "priority", {"\"X-Class\""}, {}, ""},
        {limit,
         "weights",
         {},
         {"{ \"10.0.0.1\" = 2 }"},
         "`weights` requires `order fair` in `queue`"},
        {limit, "weights", {}, {"{}"}, "`weights` requires `order fair` in `queue`"},
        {fair,
         "weights",
         {"{ \"10.0.0.1\" = 1, \"10.0.0.0/8\" = 32, \"fd00::/64\" = 7, \"0.0.0.0/0\" = 2 }"},
         {"5"},
         "a table"},
        {weighty,
         "weights",
         {},
         {"{ \"10.0.0.1\" = 0 }", "{ \"10.0.0.1\" = 33 }", "{ \"10.0.0.1\" = \"2\" }"},
         "a number from 1 to 32"},
        {weighty,
         "weights",
         {},
         {"{ \"10.0.0.1/8\" = 2 }", "{ \"fd00::/65\" = 2 }", "{ shop = 2 }"},
         "is not a client"},
        {weighty,
         "weights",
         {},
         {"{ \"fd00::1\" = 2, \"fd00::/64\" = 2 }"},
         "are the same clients"},
        {classed,
         "priority",
         {"\"X-Class\""},
         {"\"a b\"", "\"\"", "5"},
         "the name of a field, such as Priority"},
        {limit, "prefetch", {}, {"1"}, "`prefetch` requires `store`"},
        {limit, "shared_as", {}, {"\"b\""}, "`shared_as` requires `store`"},
        {limit, "timeout", {}, {"\"1s\""}, "`timeout` requires `store`"},
        {limit, "on_failure", {}, {"\"open\""}, "`on_failure` requires `store`"},
        {limit, "store", {}, {"\"b\""}, "unknown store `b`"},
        {shared, "shared_as", {"\"b\""}, no_texts, "a name"},
        {shared,
         "prefetch",
         {"1", "500000000"},
         {"-1", "500000001", "\"5\""},
         "a number from 0 to 500000000"},
        {shared,
         "timeout",
         {"\"1ms\"", "\"1min\"", "\"1234ms\""},
         {"\"999us\"", "\"60001ms\"", "\"24h\"", "5"},
         "a time from 1ms to 1min, such as 500ms, 10s or 2min"},
        {shared,
         "on_failure",
         {"\"open\"", "\"local 1\"", "\"local 1e-06\"", "\"local 0.25\""},
         {"\"local\"", "\"local 0\"", "\"local 1.1\"", "\"local -0.5\"", "\"local 0.25x\"",
          "\"local nan\"", "\"local 9e-7\"", "\"Open\"", "\"\"", "5"},
         "`closed`, `open`, or `local` and a share up to 1, such as `local 0.25`"},
        {shared, "key", {"\"client\"", "[\"header X-User\", \"client\"]"}, {}, {}},
        {shared,
         "shared_as",
         {"\"a\"", "\"a\"\nkey = \"client\""},
         {"\"a:b\"\nkey = \"client\""},
         "`store` with a `key` requires a name of at most 190 bytes without a colon"},
        {shared,
         "prefetch",
         {"5", "0\nkey = \"client\""},
         {"5\nkey = \"client\""},
         "`prefetch` requires the key `total`"},
        {shared,
         "overrides",
         {},
         {"{ \"10.0.0.1\" = \"5/1s\" }\nkey = \"client\""},
         "`store` and `overrides` exclude each other"},
        {shared, "dry_run", {}, {"true"}, "`store` and `dry_run` exclude each other"},
        {shared,
         "queue",
         {"\"max_waiting 5 patience 1ns\""},
         {"\"patience 0s\""},
         "the patience is 0s; with `store` it must exceed a round trip"},
        {{"limit `a`: ", "[[limit]]\nname = \"a\"\n", shop},
         "rule",
         {"\"100/1s\"", "\"3 seats\"", "\"1/1s & 10/1min\"", "\"unlimited\""},
         {"\"fast\"", "\"0 seats\"", "\"\"", "5", "\"Unlimited\"", "\"unlimited & 1/1s\""},
         "a rule, such as `100/1s`, `100/1s burst 20` or `32 seats`, or `unlimited`"},
        {{"limit `a`: ", "[[limit]]\nname = \"a\"\n", shop},
         "rule",
         {"\"4 knee min 4 max 200\""},
         {"\"adaptive 4..200\"", "\"20 adaptive\"", "\"10/1s adaptive\"", "\"adaptive 9..1\""},
         "`unlimited`: adaptive seats are a rule such as `4 knee min 4 max 200`"},
        {{"limit `a`: ", "[[limit]]\nname = \"a\"\n", shop},
         "rule",
         {"\"4 knee\""},
         {"\"adaptive\""},
         "`unlimited`: adaptive seats are a rule such as `4 knee`"},
        {{"limit `a`: ",
          "[[store]]\nname = \"e\"\nurl = \"redis://a\"\n[[limit]]\nname = \"a\"\nstore = "
          "\"e\"\n",
          shop},
         "rule",
         {},
         {"\"unlimited\""},
         "`store` and the rule `unlimited` exclude each other"},
        {keyed, "overrides", {}, {"{ \"a\" = \"1/1s\" }"}, "`a` is not a client: use an address"},
        {keyed,
         "overrides",
         {"{ \"10.0.0.0/8\" = \"1/1s\" }", "{ \"0.0.0.0/0\" = \"1/1s\", \"::/0\" = \"unlimited\" }",
          "{ \"2001:db8::/32\" = \"1/1s\", \"2001:db8::1\" = \"unlimited\" }"},
         {"{ \"2001:db8::/65\" = \"1/1s\" }", "{ \"10.0.0.1/8\" = \"1/1s\" }"},
         "an IPv4 network of up to 32 bits or an IPv6 network of up to 64 bits"},
        {keyed,
         "overrides",
         {},
         {"{ \"2001:db8::1\" = \"1/1s\", \"2001:db8::2\" = \"1/1s\" }"},
         "`2001:db8::1` and `2001:db8::2` are the same clients"},
        {keyed,
         "overrides",
         {},
         {"{ \"10.0.0.1\" = \"3 seats\" }", "{ \"10.0.0.0/8\" = \"3 seats\" }"},
         "a rule of the same kind as `100/1s`, or `unlimited`"},
        {{"limit `a`", "[[limit]]\nname = \"a\"\nrule = \"unlimited\"\nkey = \"client\"\n", shop},
         "overrides",
         {"{ \"10.0.0.1\" = \"3 seats\", \"10.0.0.2\" = \"2 seats\" }"},
         {"{ \"10.0.0.1\" = \"3 seats\", \"10.0.0.2\" = \"1/1s\" }"},
         "a rule of the same kind as `3 seats`, or `unlimited`"},
        {{"limit `a`", "[[limit]]\nname = \"a\"\nrule = \"1/1s\"\nkey = \"header A or client\"\n",
          shop},
         "overrides",
         {"{ \"gold\" = \"3/1s\", \"10.0.0.0/8\" = \"2/1s\" }"},
         {"{ \"2001:db8::/65\" = \"1/1s\" }"},
         "`2001:db8::/65` is not a client"},
        {{"limit `a`", "[[limit]]\nname = \"a\"\nrule = \"1/1s\"\nkey = \"header A or shared\"\n",
          shop},
         "overrides",
         {"{ \"2001:db8::/65\" = \"3/1s\" }"},
         {"{ \"b\" = \"3 seats\" }"},
         "a rule of the same kind"},
        {keyed,
         "max_keys = 1\noverrides",
         {},
         {"{ \"10.0.0.1\" = \"1/1s\", \"10.0.0.2\" = \"1/1s\" }"},
         "2 overrides exceed `max_keys` (1)"},
        {keyed,
         "max_keys = 1\noverrides",
         {"{ \"10.0.0.0/8\" = \"1/1s\", \"11.0.0.0/8\" = \"2/1s\", \"12.0.0.1\" = \"unlimited\" }"},
         {},
         ""},
        {keyed,
         "v4_prefix = 24\noverrides",
         {"{ \"10.0.0.0/24\" = \"1/1s\" }", "{ \"10.0.0.1\" = \"1/1s\" }",
          "{ \"2001:db8::/64\" = \"1/1s\" }"},
         {"{ \"10.0.0.0/25\" = \"1/1s\" }"},
         "an IPv4 network of up to 24 bits"},
        {limit,
         "overrides",
         {},
         {"{ \"a\" = \"1/1s\" }"},
         "`overrides` requires a `key` with one part"},
        {priced, "cost", {"{ \"a\" = 2 }", "{ \"a\" = 100 }"}, {}, ""},
        {priced, "cost", {}, {"{ b = 2 }"}, "`b` is not a limit of this route"},
        {priced,
         "cost",
         {},
         {"{ a = 101 }"},
         "`a` is 101, but the limit grants at most 100 at once"},
        {{"route `/` cost: ",
          "[[limit]]\nname = \"a\"\nrule = \"100/1s\"\n[[route]]\nupstream = \"shop\"\n"
          "limits = \"a\"\n[route.cost]\n",
          shop},
         "a",
         {},
         {"0", "-1", "1000000000000001", "\"5\"", "1.5"},
         "a number from 1 to 1000000000000000"},
        {unnamed_route,
         "host",
         {"\"example.org\"", "\"*.example.org\""},
         {"\"\"", "5"},
         "a host, such as example.org"},
        {route,
         "client",
         {"[\"10.0.0.0/8\", \"::1\"]"},
         {"\"10.0.0.1/8\"", "\"example.org\"", "\"\"", "5"},
         "a network, such as 10.0.0.0/8 or fd00::/8"},
        {route, "client", {}, {"[]"}, "`client` has no network"},
        {{"route `/` header: ", "[[route]]\nupstream = \"shop\"\n", shop},
         "header",
         {"{ \"X-Plan\" = \"gold\" }", "{ \"X-Plan\" = [\"gold\", \"silver\"], \"b\" = \"c d\" }"},
         {},
         ""},
        {{"route `/` header: ", "[[route]]\nupstream = \"shop\"\n[route.header]\n", shop},
         "X-Plan",
         {},
         {"\"\"", "\" a\"", "\"a\\nb\"", "5", "true"},
         "text without control characters, and without spaces at its ends"},
        {{"route `/` header: ", "[[route]]\nupstream = \"shop\"\n[route.header]\n", shop},
         "X-Plan",
         {},
         {"[]"},
         "`X-Plan` has no value"},
        {{"route `/` header: ", "[[route]]\nupstream = \"shop\"\n[route.header]\n", shop},
         "\"X Plan\"",
         {},
         {"\"a\""},
         "`X Plan` is not a valid header name"},
        {{"route `/` header: ",
          "[[route]]\nupstream = \"shop\"\n[route.header]\n\"x-plan\" = \"b\"\n", shop},
         "X-Plan",
         {},
         {"\"a\""},
         "duplicate header `"},
        {unnamed_route,
         "path",
         {"\"/a\"", "\"/a/\""},
         {"\"a\"", "\"\"", "\"/a\\u0001\"", "5"},
         "a prefix of paths, such as /api"},
        {route,
         "method",
         {"[\"GET\"]", "[\"GET\", \"X-Y\"]"},
         {"\"G T\"", "\"\"", "5"},
         "a method, such as GET"},
        {{"route `/api`: ", "[[route]]\nupstream = \"shop\"\npath = \"/api\"\n", shop},
         "upstream_path",
         {"\"/\"", "\"/v2\"", "\"/a/b%20c\"", "\"/api\""},
         {"\"\"", "\"v2\"", "\"/v2/\"", "\"//\"", "\"/a//b\"", "\"/a/../b\"", "\"/a/%2e\"",
          "\"/a?b\"", "\"/a#b\"", "\"/a;b\"", "\"/a b\"", "\"/a\\r\\nb\"", "\"/a%00\"",
          "\"/\u00e4\"", "5"},
         "a path without a slash at its end, such as / or /v2"},
        {answered, "upstream_path", {}, {"\"/\""}, "`upstream_path` requires `upstream`"},
        {route, "upstream_timeout", times, no_times, a_time},
        {route,
         "body_buffer",
         {"0", "1048576"},
         {"-1", "1048577", "\"64k\""},
         "a number from 0 to 1048576"},
        {route,
         "body_limit",
         {"0", "1000000000000"},
         {"-1", "1000000000001", "\"1M\""},
         "a number from 0 to 1000000000000"},
        {answer, "respond", {"200", "599"}, {"199", "600", "\"403\""}, "a number from 200 to 599"},
        {answer, "upstream", {"\"shop\""}, {"\"b\""}, "unknown upstream `b`; defined: shop"},
        {route,
         "respond",
         {},
         {"403"},
         "exactly one of `upstream`, `respond` and `check` is required"},
        {route, "check", {}, {"true"}, "exactly one of `upstream`, `respond` and `check`"},
        {answer, "check", {"true"}, {"1"}, "true or false"},
        {{"route `/`: ", "[[limit]]\nname = \"a\"\nrule = \"1 seats\"\n[[route]]\ncheck = true\n",
          shop},
         "limits",
         {},
         {"\"a\""},
         "limit `a` has seats, but nothing tells when the request of a check ends"},
        {{"route `/`: ",
          "[[limit]]\nname = \"a\"\nrule = \"1/1s\"\nkey = \"client\"\n[limit.overrides]\n"
          "\"10.0.0.1\" = \"5/1s & 2 seats\"\n[[route]]\ncheck = true\n",
          shop},
         "limits",
         {},
         {"\"a\""},
         "limit `a` has seats, but nothing tells when the request of a check ends"},
        {{"route `/`: ",
          "[[limit]]\nname = \"a\"\nrule = \"9/1s\"\ncount = 401\n[[route]]\ncheck = true\n", shop},
         "limits",
         {},
         {"\"a\""},
         "limit `a` counts by the response or by the body, which a check does not have"},
        {{"route `/`: ",
          "[[limit]]\nname = \"a\"\nrule = \"9/1s\"\ncost = \"bytes\"\n[[route]]\ncheck = true\n",
          shop},
         "limits",
         {},
         {"\"a\""},
         "limit `a` counts by the response or by the body, which a check does not have"},
        {{"route `/`: ", "[[route]]\ncheck = true\n", shop},
         "upgrade",
         {},
         {"{ to = \"a\" }"},
         "`upgrade` requires `upstream`"},
        {answered, "upstream_timeout", {}, {"\"5s\""}, "`upstream_timeout` requires `upstream`"},
        {answered, "body_buffer", {}, {"5"}, "`body_buffer` requires `upstream`"},
        {body_of_route, "body", {}, {"{}"}, "missing `file`"},
        {body_of_route, "body", {}, {"{ file = \"no-such-file.html\" }"}, "no-such-file.html"},
        {body_of_route,
         "body",
         {},
         {"{ file = \"a\", type = \"text\" }"},
         "a media type, such as text/html"},
        {route, "body", {}, {"{ file = \"a.html\" }"}, "`body` requires `respond`"},
        {{"route `/`: ", "[[route]]\nrespond = 304\n", shop},
         "body",
         {},
         {"{ file = \"a.html\" }"},
         "a response with the status 304 has no body"},
        {answered, "upgrade", {}, {"{ to = \"a\" }"}, "`upgrade` requires `upstream`"},
        {answered,
         "request_headers",
         {},
         {"{ remove = \"A\" }"},
         "`request_headers` requires `upstream`"},
        {answered, "response_headers", {"{ remove = [\"A\"] }"}, {}, ""},
        {answered, "body_limit", {"5"}, {}, ""},
        {route, "limits", {}, {"\"b\""}, "unknown limit `b`"},
        {{"route `/`: ", bucket,
          "[[route]]\nupstream = \"shop\"\n[[upstream]]\nname = \"shop\"\nservers = \"a:1\"\n"},
         "dry_run",
         {"true"},
         {},
         ""},
        {upgrade,
         "seats",
         {"\"handshake\""},
         {"\"forever\"", "\"\"", "5"},
         "`connection` or `handshake`"},
        {upgrade, "idle", times, no_times, a_time},
        {{"route `/` upgrade: ", "[[route]]\nupstream = \"shop\"\n[route.upgrade]\n", shop},
         "to",
         {"[\"websocket\"]", "[\"websocket\", \"echo/1\"]"},
         {"\"h2c\"", "\"HTTP/2.0\"", "\"h3\"", "\"http\"", "\"\"", "\"a b\"", "5"},
         "a protocol such as websocket, other than HTTP, whose requests would bypass the limits"},
        {fields,
         "remove",
         {"[\"X-A\"]", "[\"X-A\", \"Server\"]"},
         {"\"a b\""},
         "is not a valid header name"},
        {fields,
         "remove",
         {},
         {"\"Content-Length\"", "\"VIA\"", "\"te\""},
         "is set by the proxy and cannot be changed"},
        {fields,
         "add",
         {},
         {"{ \"X-A\" = \"a\\nb\" }", "{ \"X-A\" = 5 }"},
         "text without control characters"},
        {fields,
         "add",
         {"{ \"X-A\" = \"{client} {host} {id} {route}\" }", "{ \"X-A\" = \"{{}}\" }",
          "{ \"X-A\" = \"\" }"},
         {},
         ""},
        {fields,
         "add",
         {},
         {"{ \"X-A\" = \"{clients}\" }", "{ \"X-A\" = \"{{{Client}\" }", "{ \"X-A\" = \"a{}\" }",
          "{ \"X-A\" = \"{ id }\" }"},
         "use {client}, {client_certificate}, {host}, {id} or {route}, or `{{` for a brace"},
        {fields, "add", {}, {"{ \"X-A\" = \"a{client\" }"}, "`{` without `}`"},
        {fields,
         "add",
         {},
         {"{ \"X-A\" = \"a}\" }", "{ \"X-A\" = \"{{client}\" }"},
         "`}` without `{`"},
        {fields,
         "add",
         {},
         {"{ \"Transfer-Encoding\" = \"a\" }"},
         "is set by the proxy and cannot be changed"},
    };
    return all;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(each_key)

BOOST_AUTO_TEST_CASE(keeps_its_value_when_written_and_read_again) {
    for (auto const& r : rows())
        for (auto const value : r.right) {
            auto const text = file(r, value);
            auto const wrong = problems(text);
            BOOST_TEST(wrong.empty(), text << fmt::format("{}", fmt::join(wrong, "\n")));
            if (!wrong.empty())
                continue;
            auto const written = write(config::read(text, "f"));
            BOOST_TEST(write(config::read(written, "f")) == written);
        }
}

// Reading loses no value: different values give different texts.
BOOST_AUTO_TEST_CASE(writes_each_value_differently) {
    for (auto const& r : rows()) {
        std::set<std::string> all;
        for (auto const value : r.right)
            all.insert(write(config::read(file(r, value), "f")));
        // 24h and 86400s are equal.
        auto const same = static_cast<std::size_t>(std::ranges::count(r.right, "\"86400s\""));
        BOOST_TEST(all.size() == r.right.size() - same, r.key);
        if (r.in.where.starts_with("listen") || r.right.empty())
            continue;
        auto const plain = fmt::format("{}{}", r.in.before, r.in.behind);
        if (problems(plain).empty())
            BOOST_TEST(!all.contains(write(config::read(plain, "f"))), r.key);
    }
}

BOOST_AUTO_TEST_CASE(reports_place_value_and_bound_of_an_invalid_value) {
    for (auto const& r : rows())
        for (auto const value : r.wrong) {
            auto const text = file(r, value);
            auto const found = problems(text);
            auto const is_said = [&](std::string const& line) {
                auto const name = r.key.substr(r.key.rfind('\n') + 1);
                bool const placed = line.starts_with("f:") && line.find(r.in.where) != line.npos;
                if (!placed || line.find(r.must) == line.npos)
                    return false;
                // A message of another form names the key and the value.
                return line.find(" but must be " + std::string(r.must)) == line.npos ||
                       (line.find(fmt::format("`{}`", name)) != line.npos &&
                        line.find(shown(value)) != line.npos) ||
                       value.starts_with('{') || value.find('\\') != value.npos;
            };
            BOOST_TEST(std::ranges::any_of(found, is_said),
                       text << "\nshould report: " << r.must << "\nbut reports\n"
                            << fmt::format("{}", fmt::join(found, "\n")));
        }
}

BOOST_AUTO_TEST_CASE(is_valid_only_in_its_table) {
    for (auto const in : {top, timeouts, clients, admin, agent, bound_listener, upstream, server,
                          health, limit, shared, route, upgrade, fields}) {
        auto const text = fmt::format("{}frobnicate = 1\n{}", in.before, in.behind);
        auto const found = problems(text);
        BOOST_TEST(std::ranges::any_of(
                       found,
                       [&](std::string const& line) {
                           return line.find(in.where) != line.npos &&
                                  line.find("unknown key `frobnicate`; valid keys: ") != line.npos;
                       }),
                   text << fmt::format("{}", fmt::join(found, "\n")));
    }
}

BOOST_AUTO_TEST_CASE(of_a_route_has_at_most_15_limits) {
    auto const with = [](int n) {
        std::string text, names;
        for (int i = 0; i != n; ++i) {
            text += fmt::format("[[limit]]\nname = \"l{}\"\nrule = \"1/1s\"\n", i);
            names += fmt::format("\"l{}\",", i);
        }
        return problems(
            fmt::format("{}[[route]]\nupstream = \"shop\"\nlimits = [{}]\n{}", text, names, shop));
    };
    BOOST_TEST(with(15).empty());
    BOOST_TEST(with(16).size() == 1U);
    BOOST_TEST(with(16).front().find("16 limits; at most 15 are allowed") != std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace keys_of_a_file
