#include "admin/stats.hpp"
#include "local_proxy.hpp"
#include "proxy/observe.hpp"

#include <boost/test/unit_test.hpp>

#include <fmt/format.h>

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>

using namespace std::chrono_literals;
using support::local_proxy;
using support::ok;
using support::wire;

// Files of this folder are compiled together.
namespace bandwidth_of_some_keys {
namespace {

std::string with(std::string_view limit) {
    return fmt::format(
        "[[upstream]]\nname = 'u'\nservers = ['UPSTREAM']\n"
        "[[route]]\nupstream = 'u'\nlimits = 'bytes'\n[[limit]]\nname = 'bytes'\n{}\n",
        limit);
}

struct a_proxy : local_proxy {
    explicit a_proxy(std::string_view limit) : local_proxy(with(limit)) {
        pass(10s);  // a key with an override begins with the usual burst
        upstream.answer = [](auto const&) { return ok(std::string(100'000, 'd')); };
    }
    wire ask_for(std::string_view user, std::string const& from = "10.0.0.1") {
        auto client = connect(from);
        client.send(fmt::format("GET / HTTP/1.1\r\nHost: test\r\nUser: {}\r\n\r\n", user));
        settle();
        return client;
    }
    [[nodiscard]] proxy::byte_limit& down() const { return *plan().bandwidths.front().down; }
};

std::size_t body_of(wire& w) {
    auto const& text = w.look();
    auto const end = text.find("\r\n\r\n");
    return end == text.npos ? 0 : text.size() - end - 4;
}

// At most a portion waits, and the portion before it may be smaller.
bool is_paced(std::size_t came, std::size_t allowed) {
    return came <= allowed && came + 2 * 1'460 >= allowed;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(a_bandwidth_with_overrides)

BOOST_AUTO_TEST_CASE(has_their_rates_for_their_keys) {
    a_proxy p("bandwidth = { down = '10kB/s burst 2kB' }\nkey = 'header User'\n"
              "overrides = { fast = { down = '40kB/s burst 4kB' }, free = 'unlimited' }");
    auto usual = p.ask_for("usual");
    auto fast = p.ask_for("fast");
    auto free = p.ask_for("free");
    BOOST_TEST(body_of(free) == 100'000u);
    p.pass(1s);
    BOOST_TEST(is_paced(body_of(usual), 12'000));
    BOOST_TEST(is_paced(body_of(fast), 44'000));
    BOOST_TEST(p.down().passed() == body_of(usual) + body_of(fast) + body_of(free));
}

BOOST_AUTO_TEST_CASE(has_them_for_networks) {
    a_proxy p(
        "bandwidth = { down = '10kB/s burst 2kB' }\nkey = 'client'\n"
        "overrides = { '10.1.0.0/16' = { down = '40kB/s burst 4kB' }, '10.1.0.7' = 'unlimited' }");
    auto usual = p.ask_for("", "10.0.0.1");
    auto one = p.ask_for("", "10.1.0.1");
    auto other = p.ask_for("", "10.1.0.2");
    auto free = p.ask_for("", "10.1.0.7");
    BOOST_TEST(body_of(free) == 100'000u);
    p.pass(1s);
    BOOST_TEST(is_paced(body_of(usual), 12'000));
    for (auto* const each : {&one, &other})  // each client of the network has this rate
        BOOST_TEST(is_paced(body_of(*each), 44'000));
}

// A portion of the usual rate would be larger than the burst of the key.
BOOST_AUTO_TEST_CASE(takes_portions_by_their_rates) {
    a_proxy p("bandwidth = { down = '100MB/s' }\nkey = 'header User'\n"
              "overrides = { slow = { down = '10kB/s burst 2kB' } }");
    auto slow = p.ask_for("slow");
    BOOST_TEST(body_of(slow) == 1'460u);  // the rest of the burst is less than a portion
    p.pass(1s);
    BOOST_TEST(is_paced(body_of(slow), 12'000));
}

// The usual rate limits no other key in a direction that only an override has.
BOOST_AUTO_TEST_CASE(limits_a_direction_of_these_keys_only) {
    a_proxy p("bandwidth = { up = '1MB/s' }\nkey = 'header User'\n"
              "overrides = { slow = { down = '10kB/s burst 2kB' } }");
    auto usual = p.ask_for("usual");
    auto slow = p.ask_for("slow");
    BOOST_TEST(body_of(usual) == 100'000u);
    p.pass(1s);
    BOOST_TEST(is_paced(body_of(slow), 12'000));
    auto const s = proxy::state_of(p.plan());
    BOOST_REQUIRE(s.bandwidths.size() == 2u);
    BOOST_TEST(s.bandwidths[1].rate == "unlimited");
}

BOOST_AUTO_TEST_CASE(changes_by_a_reload) {
    constexpr std::string_view keyed =
        "bandwidth = { down = '10kB/s burst 2kB' }\nkey = 'header User'\n";
    a_proxy p(keyed);
    auto client = p.ask_for("a");
    p.pass(1s);
    BOOST_TEST(is_paced(body_of(client), 12'000));
    p.reload(with(std::string(keyed) + "overrides = { a = { down = '30kB/s burst 2kB' } }"));
    p.pass(1s);
    BOOST_TEST(is_paced(body_of(client), 42'000));
    p.reload(with(keyed));
    p.pass(1s);
    BOOST_TEST(is_paced(body_of(client), 52'000));
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(a_dry_run_of_a_bandwidth)

BOOST_AUTO_TEST_CASE(delays_nothing_and_counts_what_is_late) {
    a_proxy p("bandwidth = { down = '10kB/s burst 2kB' }\ndry_run = true");
    auto client = p.ask_for("");
    BOOST_TEST(body_of(client) == 100'000u);
    BOOST_TEST(p.down().passed() == 100'000u);
    BOOST_TEST(p.down().late() == 98'000u);
    p.pass(100ms);
    auto other = p.ask_for("");  // late bytes take nothing
    BOOST_TEST(p.down().late() == 98'000u + 99'000u);
    BOOST_TEST(p.down().limiter()->stats().waited_total == 0ns);
    auto const s = proxy::state_of(p.plan());
    BOOST_REQUIRE(s.bandwidths.size() == 1u);
    BOOST_TEST(s.bandwidths[0].dry_run);
    BOOST_TEST(s.bandwidths[0].late == 197'000u);
    auto const text = to_metrics(s);
    for (std::string_view const line :
         {"weir_bandwidth_late_bytes_total{limit=\"bytes\",direction=\"down\"} 197000\n",
          "key=\"total\",dry_run=\"true\"} 1\n"})
        BOOST_TEST(text.find(line) != text.npos, line);
    BOOST_TEST(to_json(s).find("\"dry_run\":true,\"bytes\":200000,\"late\":197000") !=
               std::string::npos);
}

BOOST_AUTO_TEST_CASE(counts_by_key_and_leaves_unlimited_keys_alone) {
    a_proxy p("bandwidth = { down = '10kB/s burst 2kB' }\nkey = 'header User'\ndry_run = true\n"
              "overrides = { free = 'unlimited', more = { down = '10kB/s burst 30kB' } }");
    static_cast<void>(p.ask_for("free"));
    BOOST_TEST(p.down().late() == 0u);
    static_cast<void>(p.ask_for("a"));
    BOOST_TEST(p.down().late() == 98'000u);
    static_cast<void>(p.ask_for("more"));
    BOOST_TEST(p.down().late() == 98'000u + 70'000u);
    BOOST_TEST(p.down().passed() == 300'000u);
}

BOOST_AUTO_TEST_CASE(counts_nothing_that_the_rate_allows) {
    a_proxy p("bandwidth = { down = '1MB/s burst 100kB' }\ndry_run = true");
    for (int i = 0; i != 10; ++i) {
        static_cast<void>(p.ask_for(""));
        p.pass(100ms);
    }
    BOOST_TEST(p.down().passed() == 1'000'000u);
    BOOST_TEST(p.down().late() == 0u);
}

BOOST_AUTO_TEST_CASE(begins_and_ends_by_a_reload) {
    constexpr std::string_view rates = "bandwidth = { down = '10kB/s burst 2kB' }\n";
    a_proxy p(rates);
    auto client = p.ask_for("");
    p.pass(1s);
    BOOST_TEST(is_paced(body_of(client), 12'000));
    p.reload(with(std::string(rates) + "dry_run = true"));
    p.pass(1s);  // the portion that waits gets its turn, and the rest follows at once
    BOOST_TEST(body_of(client) == 100'000u);
    p.reload(with(rates));
    auto other = p.ask_for("");
    p.pass(1s);
    BOOST_TEST(body_of(other) <= 12'000u);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace bandwidth_of_some_keys
