#include "support/allocations.hpp"

#include "limiting/gate.hpp"
#include "limiting/tree.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/test/unit_test.hpp>

#include <fmt/format.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace {

// Limits by client, where a client is a number.
struct client {
    std::uint64_t number;
};
struct world {
    struct keys {
        static std::uint64_t of(client who) { return who.number; }
        static std::uint64_t of(std::string const& text) { return std::stoull(text); }
        static std::optional<std::array<std::uint8_t, 16>> client_of(client) { return {}; }
        static limiting::path_names names_of(client who) {
            limiting::path_names names;
            names.add("a name of more than 16 bytes");
            names.add(std::to_string(who.number));
            return names;
        }
    };
    struct place {
        static weir::request of(client, weir::amount cost) { return cost; }
    };
    template <class Permit>
    struct decided {
        void operator()(weir::error_code, Permit const&) const {}
    };

    using executor = boost::asio::io_context::executor_type;
    using timer = weir::basic_steady_timer<executor>;
    using request_info = client;
    using hash = weir::key_hash;
    using limit = limiting::limit<world>;
    static weir::amount cost_of(config::cost const& c, client) { return c.estimate; }
    template <class Permit>
    using handler = decided<Permit>;
    static constexpr std::uint32_t shards = 1;
};

config::limit rule_with(std::string const& rule, bool has_key) {
    config::limit l;
    l.name = rule;
    l.rule = weir::limiter_config::parse(rule);
    l.queue.patience = weir::duration::zero();
    if (has_key)
        l.key = {{}};
    return l;
}

// Alternating limits of total seats and seats per client, followed by one that can reject.
struct chained {
    chained(std::size_t n, bool rejects) {
        std::vector<std::shared_ptr<world::limit>> limits;
        for (std::size_t i = 0; i != n; ++i) {
            bool const last = i + 1 == n;
            add(limits, rule_with(rejects && last ? "1/1h" : "9 seats", i % 2 == 1));
        }
        gate.emplace(limits);
    }
    // A tree of rates alone, or together with a number of seats.
    chained(bool has_seats, int permits) {
        auto c = rule_with("1/1h", true);
        c.tree = weir::rate_tree_options::parse(fmt::format(
            "tree / 9/1h burst 9, /* most 9/1h burst 9, /*/* most 9/1h burst {}", permits));
        std::vector<std::shared_ptr<world::limit>> limits{
            std::make_shared<limiting::tree_limit<world>>(
                context.get_executor(), c, world::keys(), world::place())};
        if (has_seats)
            add(limits, rule_with("9 seats", false));
        gate.emplace(limits);
    }
    void add(std::vector<std::shared_ptr<world::limit>>& limits, config::limit const& c) {
        limits.push_back(limiting::make_limit<world>(
            context.get_executor(), c, c.key.empty() ? std::nullopt : std::optional(world::keys()),
            world::place()));
    }

    // The number of allocations for granting or rejecting one request.
    std::size_t cost(bool rejected) {
        support::allocation_count const made;
        limiting::entry<world> e(client{1});
        bool const decided = gate->enter_at_once(e);
        bool const passed = gate->is_in(e);
        auto const n = made();
        BOOST_TEST_REQUIRE(decided);
        BOOST_TEST_REQUIRE(passed != rejected);
        return n;
    }

    boost::asio::io_context context;
    std::optional<limiting::gate<world>> gate;
};

}  // namespace

BOOST_AUTO_TEST_SUITE(at_a_gate)

BOOST_AUTO_TEST_CASE(a_grant_by_any_number_of_chained_limits_allocates_at_most_once) {
    for (std::size_t n = 0; n <= limiting::usual_limits; ++n) {
        chained all(n, false);
        static_cast<void>(all.cost(false));  // creates the keys of the client
        BOOST_TEST(all.cost(false) == (n <= 4 ? 0u : 1u), n << " limits");
    }
}

BOOST_AUTO_TEST_CASE(a_rejection_allocates_nothing) {
    for (std::size_t n = 1; n <= limiting::usual_limits; ++n) {
        chained all(n, true);
        static_cast<void>(all.cost(false));
        BOOST_TEST(all.cost(true) == 0u, n << " limits");
    }
}

BOOST_AUTO_TEST_CASE(a_tree_alone_allocates_nothing) {
    chained tree(false, 3);
    static_cast<void>(tree.cost(false));  // creates the leaf of the client
    BOOST_TEST(tree.cost(false) == 0u);
    static_cast<void>(tree.cost(false));
    BOOST_TEST(tree.cost(true) == 0u);
}

BOOST_AUTO_TEST_CASE(a_tree_in_a_chain_allocates_once) {
    chained all(true, 3);
    static_cast<void>(all.cost(false));
    BOOST_TEST(all.cost(false) == 1u);
    static_cast<void>(all.cost(false));
    BOOST_TEST(all.cost(true) == 1u);
}

BOOST_AUTO_TEST_SUITE_END()
