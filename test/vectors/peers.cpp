// The expectations in the tests of other libraries, as data: each case of peer-vectors.json is run on its limiter, in
// virtual time, or listed here with the reason why it cannot be run.

#include "adaptive.hpp"
#include "bench.hpp"
#include "buckets.hpp"
#include "cycles.hpp"
#include "guava.hpp"
#include "queues.hpp"
#include "shares.hpp"

#include <boost/json/src.hpp>
#include <boost/test/unit_test.hpp>

#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <set>
#include <string>

using namespace vectors;

BOOST_AUTO_TEST_SUITE(vectors_of_the_peers)

namespace {

json::array const& all_vectors() {
    static json::value const document = [] {
        std::ifstream file(WEIR_PEER_VECTORS);
        BOOST_TEST_REQUIRE(file.is_open());
        return json::parse(std::string(std::istreambuf_iterator<char>(file), {}));
    }();
    return document.at("vectors").as_array();
}

using runner = std::function<void(vector const&)>;

std::map<std::string, runner> const by_algorithm{
    {"guava.smooth_bursty", run_guava},
    {"guava.smooth_warming_up", run_guava},
    {"semaphore.fifo_weighted", run_seats},
    {"gcra", run_governor},
    {"gcra.redis_cell", run_redis_cell},
    {"token_bucket.go", [](vector const& v) { run_go(v); }},
    {"token_bucket.interval_refill", run_userver},
    {"token_bucket.folly", run_folly},
    {"token_bucket.folly.dynamic", run_folly},
    {"concurrency.dotnet", run_dotnet},
    {"token_bucket.dotnet", run_dotnet},
    {"token_bucket.dotnet.retry_after", run_dotnet_retry_after},
    {"sliding_window.dotnet", run_dotnet},
    {"fixed_cycle.resilience4j", run_resilience4j},
    {"leaky_bucket.uber", run_uber_count},
    {"leaky_bucket.uber.chained", run_uber_chained},
    {"aimd", run_aimd},
    {"vegas", run_vegas},
    {"ema.gradient2", run_mean},
    {"partitioned_concurrency", [](vector const& v) { run_partitions(v); }},
};

std::map<std::string, runner> const by_id{
    {"guava-argument-validation", run_guava_nonsense},
    {"gosem-too-big-does-not-block-others", too_big_does_not_block_others},
    {"net-conc-fifo", run_seats},
    {"lifo-backlog-full", [](vector const& v) { netflix(v).backlog_full(); }},
    {"lifo-timeout", [](vector const& v) { netflix(v).timeout(); }},
    {"lifo-limit-decrease", [](vector const& v) { netflix(v).limit_decrease(); }},
    {"lifo-timeout-grant-race", [](vector const& v) { netflix(v).grant_race(); }},
    {"governor-correct-wait-time", run_governor_wait_time},
    {"go-long-running-qps", run_go_for_long},
    {"net-tb-n-over-limit", dotnet_over_limit},
    {"net-tb-zero-permits",
     [](vector const&) { nothing_never_waits("1/1s burst 1 refill interval"); }},
    {"net-conc-zero-waits", [](vector const&) { nothing_never_waits("1 seats"); }},
    {"lb-try-acquire", leaky_try_acquire},
    {"lb-idle-3", leaky_idle},
    {"lb-big-head-blocks-then-drop-releases", leaky_big_head},
    {"uber-initial-noslack", run_uber},

    // In these the clock goes back; here it stops meanwhile, and no permit is earned twice.
    {"go-jump-backwards", [](vector const& v) { run_go(v, {{5, {}}}); }},
    {"go-set-burst-with-reservations", [](vector const& v) { run_go(v, {{3, 12}}); }},
    // A waiting request has the new price.
    {"go-set-limit-with-reservations", [](vector const& v) { run_go(v, {{1, 3}}); }},
    // Requests behind the cancelled one move up.
    {"go-cancel-multi", [](vector const& v) { run_go(v, {{1, {}}, {2, 1}, {3, {}}, {6, 4}}); }},
    // A grant wins over a cancellation at the same time.
    {"go-cancel-1-token", [](vector const& v) { run_go(v, {{4, 5}}); }},
    // The limit holds; lent permits return first.
    {"partition-exceed-total-for-unused-bin", [](vector const& v) { run_partitions(v, 7); }},
};

std::map<std::string, char const*> const not_applicable{
    {"folly-codel-basic", "tests folly's variant of CoDel, which differs from the order codel"},
    {"lb-numeric-limits", "requests more than a quadrillion permits, which no limiter can grant"},
};

runner const* runner_of(vector const& v) {
    if (auto const found = by_id.find(text(v, "id")); found != by_id.end())
        return &found->second;
    if (auto const found = by_algorithm.find(text(v, "algorithm")); found != by_algorithm.end())
        return &found->second;
    return nullptr;
}

}  // namespace

BOOST_AUTO_TEST_CASE(are_each_run_or_listed_with_a_reason) {
    std::set<std::string> ids;
    for (auto const& each : all_vectors()) {
        auto const& v = each.as_object();
        auto const id = text(v, "id");
        BOOST_TEST_CONTEXT(id) {
            BOOST_TEST(ids.insert(id).second);
            bool const left_out = not_applicable.contains(id);
            BOOST_TEST((left_out || runner_of(v)));
            BOOST_TEST(!(left_out && by_id.contains(id)));
        }
    }
    BOOST_TEST(ids.size() == 89U);
    for (auto const& [id, how] : by_id)
        BOOST_TEST(ids.contains(id), id);
    for (auto const& [id, why] : not_applicable)
        BOOST_TEST(ids.contains(id), id);
}

BOOST_AUTO_TEST_CASE(give_the_expected_results) {
    for (auto const& each : all_vectors()) {
        auto const& v = each.as_object();
        auto const id = text(v, "id");
        if (not_applicable.contains(id))
            continue;
        if (auto const* const run = runner_of(v)) {
            BOOST_TEST_CONTEXT(id) {
                (*run)(v);
            }
        }
    }
}

BOOST_AUTO_TEST_SUITE_END()
