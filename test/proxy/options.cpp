// The configuration that the options of weir-proxy describe.

#include "proxy/options.hpp"

#include "config/write.hpp"

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

// Files of this folder are compiled together.
namespace options_of_a_proxy {
namespace {

using namespace std::chrono_literals;

proxy::command parsed(std::vector<char const*> args) {
    args.insert(args.begin(), "weir-proxy");
    return proxy::parse_options(static_cast<int>(args.size()), args.data());
}
config::configuration with(std::vector<char const*> args) {
    args.insert(args.end(), {"--upstream", "127.0.0.1:9000"});
    return parsed(std::move(args)).configuration;
}
std::string wrong(std::vector<char const*> args, bool has_upstream = true) {
    try {
        static_cast<void>(
            has_upstream ? with(std::move(args)) : parsed(std::move(args)).configuration);
    } catch (tool::usage_error const& e) {
        return e.what();
    }
    return "nothing";
}
std::string limits(config::configuration const& c) {
    std::string all;
    for (auto const& l : c.limits)
        all += (all.empty() ? "" : ", ") + l.name + ": " + to_string(l.rule);
    return all;
}
bool has(std::string const& text, std::string_view part) {
    return text.find(part) != text.npos;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(options)

BOOST_AUTO_TEST_CASE(have_the_defaults_that_the_help_states) {
    auto const c = with({});
    BOOST_TEST(to_string(c.listeners.at(0).address) == "127.0.0.1:8080");
    BOOST_TEST(to_string(*c.admin.address) == "127.0.0.1:9090");
    BOOST_TEST(!c.admin.is_named);
    BOOST_TEST(c.limits.empty());
    BOOST_TEST(c.access_log == "");
    BOOST_TEST((c.drain == 10s));
    BOOST_TEST((c.timeouts == config::timeouts{10s, 10s, 30s, {}, 75s, 60s, 5s}));
    BOOST_TEST(!c.upstreams.at(0).servers.at(0).max_connections);
    auto const limited = with({"--per-client-rate", "5/1s"});
    auto const& l = limited.limits.at(0);
    BOOST_TEST(l.queue.max_waiting == 1024);
    BOOST_TEST((l.queue.patience.length_or(0s) == 1s));
    BOOST_TEST(l.max_keys == 100'000);
    BOOST_TEST(l.v4_prefix == 32);
    BOOST_TEST(l.v6_prefix == 64);
}

// Limits per client precede limits for all requests, and seats precede rates.
BOOST_AUTO_TEST_CASE(create_limits_in_a_fixed_order) {
    auto const c = with({"--rate", "100/1s", "--seats", "64", "--per-client-rate", "5/1s burst 9",
                         "--per-client-seats", "2"});
    BOOST_TEST(limits(c) ==
               "per-client seats: 2 seats, per-client rate: 5/1s burst 9, seats: 64 seats, "
               "rate: 100/1s");
    BOOST_TEST(c.routes.at(0).limits.size() == 4u);
    BOOST_TEST(c.limits[0].key.size() == 1u);
    BOOST_TEST(c.limits[2].key.empty());
}

// The number of connections to the upstream is at most the number of seats.
BOOST_AUTO_TEST_CASE(limit_connections_to_the_number_of_seats) {
    BOOST_TEST((with({"--seats", "64"}).upstreams[0].servers[0].max_connections == 64));
    BOOST_TEST(
        (with({"--seats", "adaptive 4..200"}).upstreams[0].servers[0].max_connections == 200));
    BOOST_TEST(!with({"--rate", "5/1s"}).upstreams[0].servers[0].max_connections);
}

BOOST_AUTO_TEST_CASE(of_a_store_require_a_rate_and_patience) {
    auto const c =
        with({"--rate", "100/1s", "--store", "redis://a", "--shared-as", "shop", "--prefetch", "9",
              "--on-failure", "local 0.25", "--store-timeout", "80ms"});
    BOOST_TEST(c.stores.at(0).url == "redis://a");
    auto const& l = c.limits.at(0);
    BOOST_TEST(l.store == c.stores[0].name);
    BOOST_TEST(l.shared_as == "shop");
    BOOST_TEST(l.prefetch == 9);
    BOOST_TEST((l.timeout == 80ms));
    BOOST_TEST(config::to_string(l.on_failure) == "local 0.25");
    BOOST_TEST(has(wrong({"--store", "redis://a"}), "--store requires --rate"));
    BOOST_TEST(has(wrong({"--store", "redis://a", "--seats", "3"}), "--store requires --rate"));
    BOOST_TEST(has(wrong({"--store", "redis://a", "--rate", "1/1s", "--patience", "0s"}),
                   "--patience is 0s; with --store it must exceed a round trip"));
    BOOST_TEST(
        has(wrong({"--store", "http://a", "--rate", "1/1s"}), "--store must start with one of"));
    BOOST_TEST(
        has(wrong({"--store", "redis://a", "--rate", "1/1s leaky"}), "--rate is `1/1s leaky`"));
    for (std::vector<char const*> const& alone : std::vector<std::vector<char const*>>{
             {"--shared-as", "a"},
             {"--prefetch", "1"},
             {"--on-failure", "open"},
             {"--store-timeout", "1s"}})
        BOOST_TEST(wrong({alone[0], alone[1], "--rate", "1/1s"}) ==
                   std::string(alone[0]) + " requires --store");
}

BOOST_AUTO_TEST_CASE(of_clients_require_a_limit_per_client) {
    for (char const* const option : {"--max-keys", "--client-prefix-v4", "--client-prefix-v6"}) {
        BOOST_TEST(wrong({option, "8", "--rate", "1/1s"}) ==
                   std::string(option) + " requires --per-client-seats or --per-client-rate");
        BOOST_TEST(with({option, "8", "--per-client-seats", "1"}).limits.size() == 1U);
        BOOST_TEST(with({option, "8", "--per-client-rate", "1/1s"}).limits.size() == 1U);
    }
    BOOST_TEST(wrong({"--max-memory", "2000000", "--rate", "1/1s"}) ==
               "--max-memory requires --per-client-seats or --per-client-rate");
    auto const c = with({"--max-memory", "2000000", "--per-client-rate", "1/1s"});
    BOOST_TEST(c.limits.at(0).max_memory == 2'000'000);
}

// Only a configuration file can open the admin address to other machines.
BOOST_AUTO_TEST_CASE(open_the_admin_address_to_this_machine_only) {
    for (char const* const mine : {"127.0.0.1:1", "[::1]:0", "localhost:1"})
        BOOST_TEST(with({"--admin", mine}).admin.is_named, mine);
    for (char const* const others : {"0.0.0.0:1", "10.0.0.1:1", "[::]:1", "example.org:1"})
        BOOST_TEST(has(wrong({"--admin", others}), "a local address such as 127.0.0.1:9090"),
                   others);
    BOOST_TEST(!with({"--admin", "none"}).admin.address);
}

BOOST_AUTO_TEST_CASE(require_or_exclude_each_other) {
    BOOST_TEST(has(wrong({}, false), "missing --upstream HOST:PORT, --demo or --config FILE"));
    BOOST_TEST(has(wrong({"--demo"}), "--demo and --upstream exclude each other"));
    BOOST_TEST(has(wrong({"--check", "--print-config"}), "exclude each other"));
    BOOST_TEST(has(wrong({"--reload"}), "--reload requires --config"));
    BOOST_TEST(has(wrong({"--config", "a"}), "--upstream and --config exclude each other"));
    BOOST_TEST(has(wrong({"--config", "a", "--store", "redis://h"}, false),
                   "--store and --config exclude each other"));
    BOOST_TEST(has(wrong({"--print-config", "--demo"}, false),
                   "--print-config and --demo exclude each other"));
    BOOST_TEST(parsed({"--config", "a.toml", "--check"}).file == "a.toml");
    BOOST_TEST(limits(parsed({"--demo"}).configuration) == "seats: 3 seats");
    BOOST_TEST(limits(parsed({"--demo", "--rate", "1/1s"}).configuration) == "rate: 1/1s");
}

BOOST_AUTO_TEST_CASE(report_the_value_and_the_bound) {
    struct row {
        std::vector<char const*> args;
        std::string_view said;
    };
    for (auto const& [args, said] :
         {row{{"--seats", "0"}, "--seats is `0`, but must be a number from 1 to 1000000000"},
          row{{"--rate", "3 seats"}, "for seats use --seats"},
          row{{"--per-client-rate", "3 seats"}, "for seats use --per-client-seats"},
          row{{"--threads", "257"}, "--threads is `257`, but must be a number from 1 to 256"},
          row{{"--listen", "a:65536"}, "--listen is `a:65536`, but must be host:port"},
          row{{"--upgrade", "h2c"}, "--upgrade is `h2c`, but must be a protocol such as websocket"},
          row{{"--ratelimit-headers", "all"},
              "--ratelimit-headers is `all`, but must be ietf, legacy, both or none"},
          row{{"--patience", "5"}, "--patience is `5`, but must be a time"},
          row{{"--header-timeout", "0s"}, "--header-timeout is `0s`"},
          row{{"--frobnicate"}, "; see --help"}})
        BOOST_TEST(has(wrong(args), said), wrong(args));
}

// The result is a first configuration file with the same settings.
BOOST_AUTO_TEST_CASE(are_printed_as_a_configuration) {
    auto const text =
        write(with({"--seats", "64", "--rate", "100/1s burst 20", "--patience", "3s"}));
    BOOST_TEST(has(text, "rule = \"100/1s burst 20\"\nqueue = \"patience 3s\"\n"));
    BOOST_TEST(has(text, "max_connections = 64\n"));
    BOOST_TEST(has(text, "limits = [\"seats\", \"rate\"]\n"));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace options_of_a_proxy
