// Requests of a log, and limits with a tree of rates. The expected numbers follow from the words of
// src/docs/how-to/rate-tree.md.

#include <weir/rate_tree.hpp>
#include <weir/testing.hpp>

#include "config/read.hpp"
#include "replay/outcome.hpp"
#include "replay/plan.hpp"
#include "replay/simulation.hpp"
#include "support/random.hpp"
#include "tool/arguments.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/test/unit_test.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

BOOST_AUTO_TEST_SUITE(trees)

namespace {

using namespace std::chrono_literals;
using std::chrono::nanoseconds;
using weir::errc;

constexpr nanoseconds begin = 807'249'600s;

struct request {
    nanoseconds at{};
    std::string org = "-";
    std::string user = "-";
    std::string target = "/";
    std::string client = "10.0.0.1";
};

struct answer {
    std::optional<errc> rejected;
    nanoseconds waited{};
    friend bool operator==(answer const&, answer const&) = default;
    friend std::ostream& operator<<(std::ostream& out, answer const& a) {
        return out << (a.rejected ? replay::text_of(*a.rejected) : "granted after ")
                   << a.waited.count();
    }
};

struct result {
    std::vector<answer> answers;
    replay::outcome outcome;

    // The numbers of granted requests of each `size` consecutive requests.
    [[nodiscard]] std::vector<int> granted(std::size_t size) const {
        std::vector<int> all(answers.size() / size);
        for (std::size_t i = 0; i != answers.size(); ++i)
            all[i / size] += answers[i].rejected ? 0 : 1;
        return all;
    }
    [[nodiscard]] std::uint64_t rejected(errc why, std::size_t rule = 0) const {
        return outcome.rules.at(rule).rejected[static_cast<std::size_t>(why)];
    }
};

replay::plan plan_of(std::string const& limits) {
    replay::plan p;
    p.file = std::make_shared<config::configuration const>(
        config::read("[[upstream]]\nname = \"u\"\nservers = \"a:1\"\n" + limits, "test"));
    return p;
}

result replay_all(replay::plan const& p, std::vector<request> const& log, int retries = 0,
                  bool broken_off = false) {
    result r;
    r.answers.resize(log.size());
    std::size_t decisions = 0;
    replay::settings s;
    s.retries = retries;
    s.watcher = [&](replay::decision const& d) {
        ++decisions;
        r.answers[d.number] = {d.rejected, d.rejected ? 0ns : d.waited};
    };
    replay::simulation sim(s, {p});
    for (auto const& q : log) {
        logs::entry entry;
        entry.at = begin + q.at;
        entry.status = 200;
        for (std::size_t i = 0; i != sim.sources().size(); ++i) {
            using kind = logs::key_source::kind;
            auto const& source = sim.sources()[i];
            entry.keys[i] =
                source.what == kind::client      ? std::string_view(q.client)
                : source.what == kind::method    ? "GET"
                : source.what == kind::target    ? std::string_view(q.target)
                : source.name == "header X-Org"  ? std::string_view(q.org)
                : source.name == "header X-User" ? std::string_view(q.user)
                                                 : "-";
        }
        BOOST_REQUIRE(sim.add(entry));
    }
    sim.finish(broken_off);
    r.outcome = sim.results().front();
    BOOST_TEST(decisions == log.size() + r.outcome.came_back - r.outcome.open);
    return r;
}

constexpr std::string_view of_users = "key = [\"header X-Org\", \"header X-User\"]\n";

std::string tree(std::vector<std::pair<std::string, std::string>> const& nodes,
                 std::string_view patience = "0s", std::string_view more = of_users,
                 std::string_view queue = "max_waiting 1000") {
    auto text =
        fmt::format("[[limit]]\nname = \"tree\"\nqueue = \"{} patience {}\"\n{}[limit.tree]\n",
                    queue, patience, more);
    for (auto const& [path, node] : nodes)
        text += fmt::format("\"{}\" = \"{}\"\n", path, node);
    return text;
}

std::vector<std::pair<std::string, std::string>> const organisations{
    {"/", "10/1s burst 15"},
    {"/acme", "2/1s burst 4 most 5/1s burst 8"},
    {"/acme/*", "most 5/1s burst 5"},
    {"/*", "most 5/1s burst 6"},
    {"/*/*", "most 5/1s burst 3"}};

void add(std::vector<request>& log, int count, request const& r) {
    log.insert(log.end(), static_cast<std::size_t>(count), r);
}

}  // namespace

BOOST_AUTO_TEST_CASE(guarantee_shares_and_lend_the_rest) {
    std::vector<request> log;
    auto const ask = [&](nanoseconds at, std::string const& org, std::string const& user) {
        add(log, 6, {at, org, user});
    };
    // The root has 15 permits, of which `acme` has 4. A user takes at most 3, and an organisation 6.
    for (auto const* const org : {"a", "b"})
        for (auto const* const user : {"x", "y", "z"})
            ask(0s, org, user);
    ask(0s, "acme", "ann");
    ask(0s, "acme", "bob");
    // One second later there are 2 more for `acme`, and 8 for the others. Each organisation may take 5 more, and the
    // second has 1 left from before.
    for (auto const* const org : {"a", "b"})
        for (auto const* const user : {"x", "y"})
            ask(1s, org, user);
    ask(1s, "acme", "ann");
    // At 10 s all are full. `acme` may take 8, and a user of it 5.
    ask(10s, "acme", "ann");
    ask(10s, "acme", "bob");
    for (auto const* const user : {"x", "y", "z"})
        ask(10s, "a", user);
    ask(10s, "b", "x");
    auto const r = replay_all(plan_of(tree(organisations)), log);
    std::vector const expected{3, 3, 0, 3, 2, 0, 4, 0,  //
                               3, 2, 3, 0, 2,           //
                               5, 3, 3, 3, 0, 1};
    BOOST_TEST(r.granted(6) == expected);
    BOOST_TEST(r.outcome.at_once == 40u);
    BOOST_TEST(r.outcome.rejected == log.size() - 40);
    BOOST_TEST(r.rejected(errc::no_permit) == log.size() - 40);
}

BOOST_AUTO_TEST_CASE(let_requests_wait) {
    // `gold` saves a permit in 2 s, so that the others get a permit in 2 s until it has saved one. The first lent permit
    // goes to the request that came first.
    auto const p = plan_of(
        tree({{"/", "1/1s burst 2"}, {"/gold", "1/2s burst 1"}, {"/*", "most 1/1s burst 1"}}, "6s",
             "key = \"header X-Org\"\n"));
    auto r = replay_all(
        p, {{0s, "a"},
            {0s, "gold"},
            {1s, "a"},
            {1s, "b"},
            {1s, "gold"},
            {1s, "c"},
            {1s, "d"},
            {1s, "e"},
            {1s, "f"}});
    // At 2 s: one lent, one saved. At 4 s: one lent, and `gold` is full. Then all permits are lent, until 7 s.
    std::vector<answer> const expected{
        {}, {}, {{}, 1s}, {{}, 3s}, {{}, 1s}, {{}, 4s}, {{}, 5s}, {{}, 6s}, {errc::timed_out, {}}};
    for (auto& a : r.answers)  // a rate may be 1 ns early
        a.waited = std::chrono::round<std::chrono::microseconds>(a.waited);
    BOOST_TEST(r.answers == expected, boost::test_tools::per_element());
    BOOST_TEST(r.outcome.at_once == 2u);
    BOOST_TEST(r.outcome.waited == 6u);
    BOOST_TEST(r.outcome.longest_queue == 7u);
}

BOOST_AUTO_TEST_CASE(lend_by_weight) {
    auto const p = plan_of(tree(
        {{"/", "4/1s burst 1"}, {"/a", "most 4/1s burst 4 weight 3"}, {"/*", "most 4/1s burst 4"}},
        "2s", "key = \"header X-Org\"\n"));
    std::vector<request> log{{0s, "c"}};
    for (int i = 0; i != 12; ++i) {
        add(log, 1, {0s, "a"});
        add(log, 1, {0s, "b"});
    }
    auto const r = replay_all(p, log);
    int of_a = 0;
    for (std::size_t i = 1; i < log.size(); i += 2)
        of_a += r.answers[i].rejected ? 0 : 1;
    BOOST_TEST(r.outcome.at_once == 1u);
    BOOST_TEST(r.outcome.waited == 8u);
    BOOST_TEST(of_a == 6);
}

// The requests of one leaf wait in the order of the queue.
BOOST_AUTO_TEST_CASE(let_the_clients_of_a_leaf_take_turns) {
    auto const p = plan_of(tree({{"/", "1/1s burst 1"}, {"/*", "most 1/1s burst 1"}}, "9s",
                                "key = \"header X-Org\"\n", "max_waiting 9 order fair"));
    std::vector<request> log;
    add(log, 5, {0s, "a"});
    add(log, 1, {.org = "a", .client = "10.0.0.2"});
    auto const r = replay_all(p, log);
    BOOST_TEST(r.outcome.waited == 5u);
    BOOST_TEST(r.answers.back().waited <= 2s);
}

BOOST_AUTO_TEST_CASE(meet_retries_and_interruptions) {
    auto const with_patience = [](std::string_view patience) {
        return plan_of(tree({{"/", "1/1s burst 1"}, {"/*", "most 1/1s burst 1"}}, patience,
                            "key = \"header X-Org\"\n"));
    };
    // Two requests come back after 1 s, and one of them after 2 s.
    auto const retried = replay_all(with_patience("0s"), {{0s, "a"}, {0s, "b"}, {0s, "c"}}, 2);
    BOOST_TEST(retried.outcome.at_once == 1u);
    BOOST_TEST(retried.outcome.later == 2u);
    BOOST_TEST(retried.outcome.came_back == 3u);
    auto const interrupted =
        replay_all(with_patience("9s"), {{0s, "a"}, {0s, "a"}, {0s, "b"}, {0s, "c"}}, 0, true);
    BOOST_TEST(interrupted.outcome.at_once == 1u);
    BOOST_TEST(interrupted.outcome.open == 3u);
}

// A value is a name, never a path, and values with a comma are others. A request without a value has the empty value.
BOOST_AUTO_TEST_CASE(have_a_leaf_for_each_list_of_values) {
    auto const p =
        plan_of(tree({{"/", "90/1h burst 90"},
                      {"/acme", "1/1h burst 9 most 1/1h burst 10"},
                      {"/acme/*", "most 1/1h burst 2"},
                      {"/*", "most 1/1h burst 3"},
                      {"/*/*", "most 1/1h burst 1"}}));
    std::string const long_name(5000, 'a');
    std::vector<std::pair<std::string, std::string>> const leaves{
        {"acme", "ann"},  {"acme", "-"},         {"acme/ann", "x"},
        {"*", "x"},       {"a", "b, c"},         {"a, b", "c"},
        {"a", "b"},       {"ACME", "x"},         {"-", "x"},
        {"-", "-"},       {"..", "acme"},        {"/acme", "x"},
        {long_name, "x"}, {long_name + "b", "x"}};
    std::vector<request> log;
    for (auto const& [org, user] : leaves)
        add(log, 4, {0s, org, user});
    add(log, 4, {0s, "", "x"});  // as without a value
    std::vector const expected{2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0};
    auto const r = replay_all(p, log);
    BOOST_TEST(r.granted(4) == expected);
    auto const& top = r.outcome.top_rejected;
    BOOST_REQUIRE(top.size() == 10u);
    auto const shown = [&](std::string_view key) {
        return std::ranges::count(top, key, &replay::rejected_key::key);
    };
    BOOST_TEST(top[0].key == "-, x");
    BOOST_TEST(top[0].what == "header X-Org, header X-User");
    BOOST_TEST(shown("a, b, c") == 2);
}

BOOST_AUTO_TEST_CASE(name_clients_by_their_network_and_use_alternatives) {
    std::string const networks = "key = \"client\"\nv4_prefix = 24\n";
    auto const p = plan_of(tree({{"/", "9/1h burst 9"},
                                 {"/10.1.2.0", "1/1h burst 3 most 1/1h burst 4"},
                                 {"/*", "most 1/1h burst 1"}},
                                "0s", networks));
    auto const at = [](std::string client) { return request{.client = std::move(client)}; };
    std::vector<request> log;
    for (auto const* const client :
         {"10.1.2.3", "10.1.2.4", "10.1.3.4", "2001:db8::1", "2001:db8::2", "host/1", "host/2"})
        add(log, 2, at(client));
    BOOST_TEST(replay_all(p, log).granted(2) == (std::vector{2, 2, 1, 1, 0, 1, 1}));

    auto const q = plan_of(tree({{"/", "9/1h burst 9"},
                                 {"/acme", "1/1h burst 3 most 1/1h burst 4"},
                                 {"/*", "most 1/1h burst 1"}},
                                "0s", "key = \"header X-Org or path 1 or header X-User\"\n"));
    log.clear();
    add(log, 5, {.org = "-", .user = "x", .target = "/acme/x"});
    add(log, 5, {.org = "other", .user = "-", .target = "/acme"});
    add(log, 5, {.org = "", .user = "y", .target = "/-"});
    add(log, 5, {.org = "", .user = "y", .target = "/"});
    add(log, 5, {.org = "", .user = "-", .target = "/"});
    BOOST_TEST(replay_all(q, log).granted(5) == (std::vector{4, 1, 1, 1, 1}));

    auto const one = plan_of(tree(
        {{"/", "9/1h burst 9"}, {"/*", "most 1/1h burst 1"}}, "0s", "key = \"header X-Org\"\n"));
    auto const r =
        replay_all(one, {{0s, "-"}, {0s, ""}, {0s, "a"}, {0s, "10.0.0.0/8"}, {0s, "10.0.0.0"}});
    BOOST_TEST(r.granted(1) == (std::vector{1, 0, 1, 1, 1}));
}

BOOST_AUTO_TEST_CASE(reject_further_keys) {
    auto const p = plan_of(tree({{"/", "1/1s burst 2"}, {"/*", "most 1/1s burst 1"}}, "1s",
                                "key = \"header X-Org\"\nmax_keys = 2\n"));
    auto const r = replay_all(p, {{0s, "a"}, {0s, "b"}, {0s, "c"}, {9s, "c"}});
    BOOST_TEST(r.granted(1) == (std::vector{1, 1, 0, 1}));
    BOOST_TEST(r.rejected(errc::too_many_keys) == 1u);
}

// All routes with a limit share its tree. Other limits get back what a request takes that the tree rejects.
BOOST_AUTO_TEST_CASE(are_shared_by_routes_and_follow_other_limits) {
    auto const route = [](std::string const& path, std::string const& limits) {
        return fmt::format("[[route]]\nupstream = \"u\"\npath = \"{}\"\nlimits = [{}]\n", path,
                           limits);
    };
    std::string const all = "[[limit]]\nname = \"all\"\nrule = \"5/1h\"\nqueue = \"patience 0s\"\n";
    auto const p = plan_of(
        tree(organisations) + all + route("/one", "\"tree\"") + route("/", "\"all\", \"tree\""));
    std::vector<request> log;
    add(log, 2, {.org = "a", .user = "x", .target = "/one"});
    add(log, 9, {.org = "a", .user = "x"});
    add(log, 9, {.org = "a", .user = "y"});
    add(log, 9, {.org = "b", .user = "x"});
    auto const r = replay_all(p, log);
    BOOST_TEST(r.outcome.at_once == 2u + 1 + 3 + 1);
    BOOST_TEST(r.rejected(errc::no_permit, 0) == 8u + 6);
    BOOST_TEST(r.rejected(errc::no_permit, 1) == 8u);
}

BOOST_AUTO_TEST_CASE(take_costs_and_may_run_dry) {
    std::vector<request> log;
    add(log, 4, {.org = "acme", .user = "ann"});
    auto const dear = plan_of(tree(organisations, "0s", std::string(of_users) + "cost = 2\n"));
    BOOST_TEST(replay_all(dear, log).outcome.at_once == 2u);
    add(log, 4, {.org = "acme", .user = "ann"});
    auto const dry = plan_of(tree(organisations, "0s", std::string(of_users) + "dry_run = true\n"));
    auto const r = replay_all(dry, log);
    BOOST_TEST(r.outcome.at_once == 8u);
    BOOST_TEST(r.rejected(errc::no_permit) == 3u);
}

BOOST_AUTO_TEST_CASE(change_only_in_a_file) {
    auto p = plan_of(tree(organisations));
    BOOST_TEST(p.limits().front().text ==
               "tree: tree of 10/1s burst 15 per header X-Org, header X-User");
    for (char const* const text : {"tree: 5/1s", "tree: 3 seats", "tree: unlimited"})
        BOOST_CHECK_EXCEPTION(
            p.change("--versus", text), tool::usage_error, [&](tool::usage_error const& e) {
                return e.what() == fmt::format("--versus is `{}`, but limit `tree` has a tree: its "
                                               "rates change only in a file, which --versus "
                                               "compares",
                                               text);
            });
    p.change("--versus", "patience 1s");
    std::vector<request> log;
    add(log, 6, {.org = "a", .user = "x"});
    // A user has 3 at once, and 5 in the next second.
    BOOST_TEST(replay_all(p, log).outcome.waited == 3u);
    BOOST_TEST(replay_all(plan_of(tree(organisations)), log).outcome.waited == 0u);
}

// The replay decides like the limiter on another clock.
BOOST_AUTO_TEST_CASE(decide_like_the_limiter) {
    using executor = boost::asio::io_context::executor_type;
    using limiter = weir::basic_rate_tree<executor, weir::testing::basic_timer<executor>>;
    for (std::uint64_t seed = 1; seed != 9; ++seed) {
        support::random_source random(seed);
        std::vector<request> log;
        for (auto at = 0ns; log.size() != 1500;) {
            at += random.one_in(3) ? 0ns : std::chrono::milliseconds(random.between(0, 150));
            auto const org = random.one_in(3) ? "acme" : fmt::format("o{}", random.between(1, 3));
            log.push_back({at, org, fmt::format("u{}", random.between(1, 3))});
        }
        auto const patience = random.one_in(2) ? 2s : 0s;
        auto const p = plan_of(tree(organisations, fmt::format("{}s", patience.count())));
        auto const replayed = replay_all(p, log);

        boost::asio::io_context context;
        auto const& what = p.file->limits.front();
        limiter one(context.get_executor(), *what.tree, what.queue);
        std::vector<answer> answers(log.size());
        auto const start = weir::testing::clock::now();
        for (std::size_t i = 0; i != log.size(); ++i) {
            weir::testing::run_until(context, start + log[i].at);
            weir::tree_path const leaf(log[i].org, log[i].user);
            auto const decide = [&answers, i](weir::error_code ec, weir::permit const& permit) {
                answers[i] =
                    ec ? answer{static_cast<errc>(ec.value()), {}} : answer{{}, permit.waited()};
            };
            if (patience == 0s) {
                weir::error_code ec;
                auto const permit = one.try_enter(leaf, 1, ec);
                decide(ec, permit);
            } else {
                one.async_enter(leaf, 1, patience, decide);
            }
        }
        weir::testing::run_until(context, start + log.back().at + 1min);
        BOOST_TEST_CONTEXT("seed " << seed)
        BOOST_TEST(replayed.answers == answers, boost::test_tools::per_element());
        BOOST_TEST(replayed.outcome.at_once + replayed.outcome.waited > 100u);
        BOOST_TEST(replayed.outcome.rejected > 100u);
    }
}

BOOST_AUTO_TEST_SUITE_END()
