#include "limiting/limit.hpp"
#include "world.hpp"

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

// Files of this folder are compiled together.
namespace limits_of_keys {
namespace {

using namespace std::chrono_literals;
using overrides = std::vector<std::pair<std::string, config::override_rule>>;
using support::test_world;

config::limit with(std::string const& rule, overrides own = {}, std::string const& queue = "") {
    auto c = support::limit_of("a", rule, queue);
    c.key.emplace_back();
    c.overrides = std::move(own);
    return c;
}

std::pair<std::string, config::override_rule> own(std::string key, std::string const& rule) {
    return {std::move(key),
            rule == config::unlimited ? config::override_rule()
                                      : config::override_rule(config::rule_of(rule))};
}

// A limit per client, of one of two kinds: the one made for many clients, or the one for any rule.
struct of_clients {
    explicit of_clients(config::limit const& c)
        : made(limiting::make_limit<test_world>(
              context.get_executor(), c, test_world::keys(), test_world::place())) {}

    bool enters(std::uint64_t client) {
        auto const at = made->selection()->of({client});
        if (at.is_unlimited)
            return true;
        weir::error_code ec;
        kept.push_back(made->try_enter({client}, at, ec));
        return bool(kept.back());
    }
    // Makes ten requests, and returns the number of them that are granted immediately.
    int lets_in(std::uint64_t client) {
        int n = 0;
        for (int i = 0; i != 10; ++i)
            n += enters(client) ? 1 : 0;
        return n;
    }
    // Whether a request waits, if it cannot be granted immediately.
    bool waits(std::uint64_t client) {
        bool decided = false;
        made->async_enter({client}, made->selection()->of({client}), 1s,
                          [&](weir::error_code, weir::permit const&) { decided = true; });
        weir::testing::run_for(context, 0s);
        bool const waited = !decided;
        weir::testing::run_for(context, 1s);
        weir::testing::run_for(context, weir::queue_options().tolerance);
        BOOST_TEST(decided);
        return waited;
    }

    boost::asio::io_context context;
    std::shared_ptr<test_world::limit> made;
    std::vector<weir::permit> kept;
};

constexpr char const* kinds[] = {"bucket", "exact"};

std::string rule(int n, std::string const& kind) {
    return std::to_string(n) + "/60s " + kind;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(a_keyed_limit)

BOOST_AUTO_TEST_CASE(is_separate_for_each_key) {
    for (std::string const kind : kinds) {
        BOOST_TEST_INFO_SCOPE(kind);
        of_clients limit(with(rule(3, kind)));
        BOOST_TEST(limit.lets_in(1) == 3);
        BOOST_TEST(limit.lets_in(2) == 3);
        BOOST_TEST((limit.made->keys()->count == 2u));
    }
}

BOOST_AUTO_TEST_CASE(has_its_own_rules_for_some_keys) {
    for (std::string const kind : kinds) {
        BOOST_TEST_INFO_SCOPE(kind);
        of_clients limit(with(rule(3, kind), {own("7", rule(2, kind))}));
        BOOST_TEST(limit.lets_in(7) == 2);
        BOOST_TEST(limit.lets_in(8) == 3);
    }
}

// Client 6 is known already, client 7 is not.
BOOST_AUTO_TEST_CASE(changes_the_rules_of_some_keys_with_a_reload) {
    for (std::string const kind : kinds) {
        BOOST_TEST_INFO_SCOPE(kind);
        of_clients limit(with(rule(3, kind), {own("7", rule(5, kind))}));
        BOOST_TEST(limit.lets_in(6) == 3);
        limit.made->configure(
            with(rule(3, kind), {own("6", rule(4, kind)), own("7", rule(2, kind))}));
        BOOST_TEST(limit.lets_in(7) == 2);
        BOOST_TEST(limit.lets_in(6) <= 1);  // 0 for a bucket, because it does not fill immediately
        BOOST_TEST(limit.lets_in(8) == 3);
    }
}

BOOST_AUTO_TEST_CASE(has_the_common_rule_after_a_reload_without_the_rule_of_a_key) {
    for (std::string const kind : kinds) {
        BOOST_TEST_INFO_SCOPE(kind);
        of_clients limit(with(rule(3, kind), {own("7", rule(5, kind))}));
        limit.made->configure(with(rule(3, kind)));
        BOOST_TEST(limit.lets_in(7) == 3);
    }
}

// A second reload compares with the configuration of the first one, not with the initial one.
BOOST_AUTO_TEST_CASE(stores_its_latest_configuration) {
    for (std::string const kind : kinds) {
        BOOST_TEST_INFO_SCOPE(kind);
        of_clients limit(with(rule(3, kind)));
        limit.made->configure(with(rule(3, kind), {own("7", rule(5, kind))}));
        BOOST_TEST(limit.made->configuration().overrides.size() == 1u);
        limit.made->configure(with(rule(3, kind)));
        BOOST_TEST(limit.lets_in(7) == 3);
    }
}

BOOST_AUTO_TEST_CASE(changes_its_queue_with_a_reload) {
    of_clients seats(with("1 seats", {}, "max_waiting 0"));
    BOOST_TEST(seats.enters(1));
    BOOST_TEST(!seats.waits(1));
    seats.made->configure(with("1 seats", {}, "max_waiting 1"));
    BOOST_TEST(seats.waits(1));
    seats.made->configure(with("1 seats", {}, "max_waiting 0"));
    BOOST_TEST(!seats.waits(1));
}

// The clients 10.1.0.1, 10.1.0.2 and so on.
constexpr std::uint64_t ten = 10U << 24 | 1U << 16;

BOOST_AUTO_TEST_CASE(gives_each_client_of_a_network_the_rule_of_the_network) {
    for (std::string const kind : kinds) {
        BOOST_TEST_INFO_SCOPE(kind);
        of_clients limit(with(
            rule(3, kind), {own("10.0.0.0/8", rule(2, kind)), own("10.1.0.0/16", rule(4, kind)),
                            own("10.1.0.9", rule(1, kind))}));
        for (int i = 1; i != 9; ++i)
            BOOST_TEST(limit.lets_in(ten + static_cast<unsigned>(i)) == 4);
        BOOST_TEST(limit.lets_in(ten + 9) == 1);
        BOOST_TEST(limit.lets_in((10U << 24) + 1) == 2);
        BOOST_TEST(limit.lets_in((10U << 24) + 2) == 2);
        BOOST_TEST(limit.lets_in(11U << 24) == 3);
        BOOST_TEST(limit.made->stats().granted == 8 * 4 + 1 + 2 + 2 + 3);
    }
}

BOOST_AUTO_TEST_CASE(has_no_limit_for_unlimited_clients_which_take_no_key) {
    for (std::string const kind : kinds) {
        BOOST_TEST_INFO_SCOPE(kind);
        of_clients limit(
            with(rule(3, kind), {own("10.0.0.0/8", "unlimited"), own("10.1.0.9", rule(1, kind)),
                                 own("11.0.0.1", "unlimited")}));
        BOOST_TEST(limit.lets_in(ten + 1) == 10);
        BOOST_TEST(limit.lets_in((11U << 24) + 1) == 10);
        BOOST_TEST((limit.made->keys()->count == 1u));  // of the override with a rule
        BOOST_TEST(limit.lets_in(ten + 9) == 1);
        BOOST_TEST(limit.lets_in((11U << 24) + 2) == 3);
    }
}

BOOST_AUTO_TEST_CASE(can_limit_some_keys_only) {
    for (std::string const kind : kinds) {
        BOOST_TEST_INFO_SCOPE(kind);
        auto c = with(rule(3, kind), {own("10.0.0.0/8", rule(2, kind)), own("7", rule(4, kind))});
        c.is_unlimited = true;
        of_clients limit(c);
        BOOST_TEST(limit.lets_in(ten) == 2);
        BOOST_TEST(limit.lets_in(11U << 24) == 10);
    }
}

// The keys keep their state, and a rule that two networks have is one set of limiters.
BOOST_AUTO_TEST_CASE(changes_the_rule_of_a_network_with_a_reload) {
    for (std::string const kind : kinds) {
        BOOST_TEST_INFO_SCOPE(kind);
        of_clients limit(with(rule(3, kind), {own("10.0.0.0/8", rule(5, kind))}));
        auto const old = limit.made->selection();
        BOOST_TEST(limit.lets_in(ten) == 5);
        limit.made->configure(with(rule(3, kind), {own("10.0.0.0/8", rule(4, kind))}));
        BOOST_TEST(limit.lets_in(ten) == 0);
        BOOST_TEST(limit.lets_in(ten + 1) == 4);
        // A request that began before the reload.
        weir::error_code ec;
        auto const permit = limit.made->try_enter({ten + 2}, old->of({ten + 2}), ec);
        BOOST_TEST(bool(permit));
        auto const granted = limit.made->stats().granted;
        limit.made->configure(with(rule(3, kind)));
        BOOST_TEST(limit.lets_in(ten + 3) == 3);
        BOOST_TEST(limit.made->stats().granted == granted + 3);
        limit.made->configure(with(rule(3, kind), {own("11.0.0.0/8", rule(4, kind))}));
        BOOST_TEST(limit.lets_in(11U << 24) == 4);
        BOOST_TEST(limit.lets_in(ten + 4) == 3);
    }
}

// Further clients share one limit, as if they were one client.
BOOST_AUTO_TEST_CASE(has_one_limit_for_all_keys_above_max_keys) {
    for (std::string const kind : kinds) {
        BOOST_TEST_INFO_SCOPE(kind);
        auto c = with(rule(3, kind));
        c.max_keys = 2;
        of_clients limit(c);
        for (std::uint64_t const client : {1U, 2U, 3U})
            BOOST_TEST(limit.lets_in(client) == 3);
        BOOST_TEST(limit.lets_in(4) == 0);
    }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace limits_of_keys
