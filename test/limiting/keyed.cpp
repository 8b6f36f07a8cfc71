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
using overrides = std::vector<std::pair<std::string, weir::limiter_config>>;
using support::test_world;

config::limit with(std::string const& rule, overrides own = {}, std::string const& queue = "") {
    auto c = support::limit_of("a", rule, queue);
    c.key.emplace_back();
    c.overrides = std::move(own);
    return c;
}

std::pair<std::string, weir::limiter_config> own(std::string key, std::string const& rule) {
    return {std::move(key), config::rule_of(rule)};
}

// A limit of each client, of either kind: one that is made for many clients, and one for any rule.
struct of_clients {
    explicit of_clients(config::limit const& c)
        : made(limiting::make_limit<test_world>(
              context.get_executor(), c, test_world::keys(), test_world::place())) {}

    bool enters(std::uint64_t client) {
        weir::error_code ec;
        kept.push_back(made->try_enter({client}, made->key_of({client}), ec));
        return bool(kept.back());
    }
    // How many of ten requests are let in at once.
    int lets_in(std::uint64_t client) {
        int n = 0;
        for (int i = 0; i != 10; ++i)
            n += enters(client) ? 1 : 0;
        return n;
    }
    // Whether a request that cannot be let in waits.
    bool waits(std::uint64_t client) {
        bool decided = false;
        made->async_enter({client}, client, 1s,
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

BOOST_AUTO_TEST_SUITE(a_limit_of_keys)

BOOST_AUTO_TEST_CASE(is_one_of_each) {
    for (std::string const kind : kinds) {
        BOOST_TEST_INFO_SCOPE(kind);
        of_clients limit(with(rule(3, kind)));
        BOOST_TEST(limit.lets_in(1) == 3);
        BOOST_TEST(limit.lets_in(2) == 3);
        BOOST_TEST((limit.made->keys() == 2u));
    }
}

BOOST_AUTO_TEST_CASE(has_other_rules_for_some_keys) {
    for (std::string const kind : kinds) {
        BOOST_TEST_INFO_SCOPE(kind);
        of_clients limit(with(rule(3, kind), {own("7", rule(2, kind))}));
        BOOST_TEST(limit.lets_in(7) == 2);
        BOOST_TEST(limit.lets_in(8) == 3);
    }
}

// A key that has come, and one that has not.
BOOST_AUTO_TEST_CASE(takes_other_rules_for_some_keys_with_a_reload) {
    for (std::string const kind : kinds) {
        BOOST_TEST_INFO_SCOPE(kind);
        of_clients limit(with(rule(3, kind), {own("7", rule(5, kind))}));
        BOOST_TEST(limit.lets_in(6) == 3);
        limit.made->configure(
            with(rule(3, kind), {own("6", rule(4, kind)), own("7", rule(2, kind))}));
        BOOST_TEST(limit.lets_in(7) == 2);
        BOOST_TEST(limit.lets_in(6) <= 1);  // of a bucket none: it does not fill at once
        BOOST_TEST(limit.lets_in(8) == 3);
    }
}

BOOST_AUTO_TEST_CASE(has_one_rule_where_a_reload_takes_the_other_away) {
    for (std::string const kind : kinds) {
        BOOST_TEST_INFO_SCOPE(kind);
        of_clients limit(with(rule(3, kind), {own("7", rule(5, kind))}));
        limit.made->configure(with(rule(3, kind)));
        BOOST_TEST(limit.lets_in(7) == 3);
    }
}

// The second reload is compared with the first one, and not with the start.
BOOST_AUTO_TEST_CASE(knows_what_it_was_configured_with) {
    for (std::string const kind : kinds) {
        BOOST_TEST_INFO_SCOPE(kind);
        of_clients limit(with(rule(3, kind)));
        limit.made->configure(with(rule(3, kind), {own("7", rule(5, kind))}));
        BOOST_TEST(limit.made->configuration().overrides.size() == 1u);
        limit.made->configure(with(rule(3, kind)));
        BOOST_TEST(limit.lets_in(7) == 3);
    }
}

BOOST_AUTO_TEST_CASE(takes_another_queue_with_a_reload) {
    of_clients seats(with("1 seats", {}, "max_waiting 0"));
    BOOST_TEST(seats.enters(1));
    BOOST_TEST(!seats.waits(1));
    seats.made->configure(with("1 seats", {}, "max_waiting 1"));
    BOOST_TEST(seats.waits(1));
    seats.made->configure(with("1 seats", {}, "max_waiting 0"));
    BOOST_TEST(!seats.waits(1));
}

// Clients beyond the most share one limit, as if they were one client.
BOOST_AUTO_TEST_CASE(has_one_limit_for_all_keys_above_the_most) {
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
