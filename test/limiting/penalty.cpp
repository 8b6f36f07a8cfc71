#include "limiting/limit.hpp"
#include "support/penalty_history.hpp"
#include "support/random.hpp"
#include "support/sanitizer.hpp"
#include "world.hpp"

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

// Files of this folder are compiled together.
namespace penalties {
namespace {

using namespace std::chrono_literals;
using support::random_source;
using support::test_world;
using support::visit;

config::limit penalty_of(std::string const& rule, std::vector<config::status_range> offences) {
    config::limit c;
    c.name = "penalty";
    c.rule = config::rule_of(rule);
    c.key.emplace_back();
    c.count = std::move(offences);
    c.queue = config::queue_of_penalty();
    return c;
}

struct limits {
    limits() { weir::testing::run_for(context, 1s); }

    void add(config::limit const& c) {
        auto keys = c.key.empty() ? std::nullopt : std::optional(test_world::keys());
        all.push_back(
            limiting::make_limit<test_world>(context.get_executor(), c, keys, test_world::place()));
    }
    void pass(weir::duration d) { weir::testing::run_for(context, d); }

    boost::asio::io_context context;
    std::vector<std::shared_ptr<test_world::limit>> all;
};

void settle(support::test_gate const& gate, visit& v, unsigned status) {
    gate.settle(v.entry, status, [](auto const&) { return std::optional<weir::amount>(); });
}
void offend(support::test_gate const& gate, std::uint64_t client) {
    visit v(gate, client);
    settle(gate, v, 401);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(a_penalty_of_a_gate)

// Three clients make requests, of which some overlap, and get responses of any status.
BOOST_AUTO_TEST_CASE(locks_out_whom_its_words_lock_out) {
    std::size_t locked = 0;
    support::for_each_seed(1, 300, [&locked](random_source& random) {
        limits here;
        auto const text = random.one_of<std::string>(
            {"3/10s penalty first 2s longest 9s memory 20s", "1/1s penalty first 1s longest 1s",
             "5/1min penalty first 5s longest 1h memory 0s"});
        here.add(penalty_of(text, {{401, 403}, {429, 429}}));
        auto const has_rate = random.one_in(2);
        if (has_rate)
            here.add(support::limit_of("rate", "8/5s", "patience 0s"));
        if (random.one_in(2))
            std::swap(here.all.front(), here.all.back());
        bool const is_dear = random.one_in(3);
        using costs = support::test_gate::costs;
        support::test_gate const gate(here.all, is_dear ? costs{{"penalty", 2}} : costs{});
        std::map<std::uint64_t, support::penalty_history> words;
        auto const options =
            std::get<weir::penalty_options>(weir::limiter_config::parse(text).options);
        for (std::uint64_t client = 0; client != 3; ++client)
            words.try_emplace(client, options);
        weir::time_point now{};
        weir::amount const n = is_dear ? 2 : 1;
        std::deque<std::unique_ptr<visit>> open;
        for (int i = 0; i != 150; ++i) {
            auto const d = random.one_of<weir::duration>({0s, 0s, 100ms, 1s, 3s, 30s});
            here.pass(d);
            now += d;
            if (!open.empty() && random.one_in(2)) {
                auto const status = random.one_of<unsigned>({0, 200, 400, 401, 402, 403, 404, 429});
                settle(gate, *open.front(), status);
                settle(gate, *open.front(), status);  // more is known
                if (status == 429 || (status > 400 && status < 404))
                    words.at(open.front()->entry.who.client).offend(n, now);
                open.pop_front();
            }
            auto const client = static_cast<std::uint64_t>(random.between(0, 2));
            auto v = std::make_unique<visit>(gate, client);
            here.pass(0s);
            BOOST_TEST_REQUIRE(!v->waits());
            bool const is_locked = words.at(client).end() > now;
            if (v->is_in()) {
                BOOST_TEST_REQUIRE(!is_locked);
                open.push_back(std::move(v));
                continue;
            }
            if (is_locked)
                ++locked;
            if (!is_locked || (has_rate && v->rejected_by() == "rate")) {
                BOOST_TEST_REQUIRE(v->rejected_by() == "rate");
                gate.punish(v->entry, 429);
                gate.punish(v->entry, 503);  // not in `count`
                words.at(client).offend(n, now);
            } else {
                BOOST_TEST_REQUIRE(v->rejected_by() == "penalty");
                BOOST_TEST_REQUIRE((v->entry.rejected.retry_after == words.at(client).end() - now));
                gate.punish(v->entry, 429);
            }
        }
    });
    BOOST_TEST(locked > (support::sanitizer ? 200U : 1'000U));  // which runs a fifth of the games
}

// A penalty has no queue, and the patience of the other limits stays. A request that waited for another limit before the
// penalty began is not forwarded during the penalty.
BOOST_AUTO_TEST_CASE(holds_for_requests_that_wait_for_another_limit) {
    for (bool const ends_in_time : {false, true}) {
        limits here;
        here.add(penalty_of("2/1min penalty first 20s", {{401, 401}}));
        here.add(
            support::limit_of("rate", "4/10s", ends_in_time ? "patience 30s" : "patience 15s"));
        support::test_gate const gate(here.all);
        visit first(gate, 1);
        visit second(gate, 1);
        offend(gate, 2);
        offend(gate, 2);
        visit const locked(gate, 2);
        visit const waits(gate, 1);
        visit const other(gate, 3);
        here.pass(0s);
        BOOST_TEST(locked.rejected_by() == "penalty");
        BOOST_TEST(waits.waits());
        BOOST_TEST(other.waits());
        settle(gate, first, 401);
        settle(gate, second, 401);
        here.pass(10s + 1ms);
        BOOST_TEST(other.is_in());
        BOOST_TEST(waits.waits() == ends_in_time);
        BOOST_TEST(waits.rejected_by() == (ends_in_time ? "" : "penalty"));
        here.pass(10s - 2ms);
        BOOST_TEST(!waits.is_in());
        here.pass(2ms);
        BOOST_TEST(waits.is_in() == ends_in_time);
    }
}

BOOST_FIXTURE_TEST_CASE(does_not_punish_a_request_that_was_not_forwarded, limits) {
    add(penalty_of("1/1min penalty", {{401, 401}, {429, 429}}));
    support::test_gate const gate(all);
    {
        visit v(gate, 1);
        v.entry.start_again();
        settle(gate, v, 401);
    }
    BOOST_TEST(visit(gate, 1).is_in());
    offend(gate, 1);
    visit const locked(gate, 1);
    pass(0s);
    BOOST_TEST(locked.rejected_by() == "penalty");
    // The penalty does not count its own rejection, nor decide on the request again.
    gate.punish(locked.entry, 429);
    BOOST_TEST(all.front()->stats().deadline_unreachable == 1U);
    BOOST_TEST(all.front()->stats().no_permit == 0U);
}

BOOST_FIXTURE_TEST_CASE(as_a_dry_run_counts_and_rejects_nothing, limits) {
    auto c = penalty_of("1/1min penalty", {{401, 401}});
    c.dry_run = true;
    add(c);
    support::test_gate const gate(all);
    offend(gate, 1);
    visit const v(gate, 1);
    BOOST_TEST(v.is_in());
    BOOST_TEST(!v.entry.permits.front());
}

BOOST_FIXTURE_TEST_CASE(keeps_its_state_when_its_rule_changes, limits) {
    auto c = penalty_of("2/1min penalty first 20s", {{401, 401}});
    add(c);
    support::test_gate const gate(all);
    offend(gate, 1);
    offend(gate, 1);
    offend(gate, 2);
    c.rule = config::rule_of("2/1min penalty first 40s");
    all.front()->configure(c);
    visit const first(gate, 1);
    offend(gate, 2);
    visit const second(gate, 2);
    pass(0s);
    BOOST_TEST((first.entry.rejected.retry_after == 20s));
    BOOST_TEST((second.entry.rejected.retry_after == 40s));
    BOOST_TEST(limiting::has_state(c.rule));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace penalties
