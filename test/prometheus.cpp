// The text format of Prometheus, and the metrics of limiters, pools and keyed limiters in it.

#include <weir/keyed.hpp>
#include <weir/pool.hpp>
#include <weir/prometheus.hpp>
#include <weir/seats.hpp>
#include <weir/testing.hpp>
#include <weir/token_bucket.hpp>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/test/unit_test.hpp>

#include <chrono>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace {

namespace asio = boost::asio;
using namespace std::chrono_literals;
using weir::metrics_writer;
using type = weir::metrics_writer::type;

// Reads a text as the format's description has it, and fails where the text breaks a rule.
struct exposition {
    explicit exposition(std::string const& text) {
        BOOST_TEST(text.ends_with('\n'));
        std::istringstream lines(text);
        std::string family;
        for (std::string line; std::getline(lines, line);) {
            if (line.starts_with("# HELP ")) {
                family = line.substr(7, line.find(' ', 7) - 7);
                BOOST_TEST(types.count(family) == 0u, family << " occurs twice");
            } else if (line.starts_with("# TYPE ")) {
                BOOST_TEST(line.substr(7, line.find(' ', 7) - 7) == family);
                types[family] = line.substr(line.rfind(' ') + 1);
            } else {
                BOOST_TEST(line.starts_with(family), line << " is not of " << family);
                auto const space = line.rfind(' ');
                BOOST_TEST(
                    values.emplace(line.substr(0, space), std::stod(line.substr(space + 1))).second,
                    line << " occurs twice");
            }
        }
    }
    [[nodiscard]] double operator[](std::string const& series) const {
        auto const found = values.find(series);
        BOOST_TEST((found != values.end()), series << " is missing");
        return found == values.end() ? -1 : found->second;
    }
    [[nodiscard]] bool has(std::string const& series) const { return values.contains(series); }

    std::map<std::string, std::string> types;
    std::map<std::string, double> values;
};

}  // namespace

BOOST_AUTO_TEST_SUITE(prometheus)

BOOST_AUTO_TEST_CASE(samples_follow_the_head_of_their_family) {
    metrics_writer out;
    out.family("up", "Whether it runs.", type::gauge);
    out.add(1.0);
    out.family("requests_total", "Requests.", type::counter);
    out.add(std::uint64_t{7}, {{"result", "answered"}, {"reason", ""}});
    out.add(std::uint64_t{0}, {{"result", "rejected"}, {"reason", "rate"}});
    BOOST_TEST(out.text() ==
               "# HELP up Whether it runs.\n"
               "# TYPE up gauge\n"
               "up 1\n"
               "# HELP requests_total Requests.\n"
               "# TYPE requests_total counter\n"
               "requests_total{result=\"answered\",reason=\"\"} 7\n"
               "requests_total{result=\"rejected\",reason=\"rate\"} 0\n");
}

BOOST_AUTO_TEST_CASE(a_family_without_a_sample_is_left_out) {
    metrics_writer out;
    out.family("keys", "Keys.", type::gauge);
    BOOST_TEST(out.text().empty());
    out.family("up", "Up.", type::gauge);
    out.add(0.0);
    out.family("last", "Last.", type::gauge);
    BOOST_TEST(out.text() == "# HELP up Up.\n# TYPE up gauge\nup 0\n");
}

BOOST_AUTO_TEST_CASE(buckets_end_with_infinity) {
    metrics_writer out;
    out.histogram_family("wait_seconds", "Waits.");
    out.add({.buckets = {{.end = 2500us, .count = 2}, {.end = 1min, .count = 5}},
             .count = 6,
             .sum = 99500ms},
            {{"limit", "a"}});
    out.add(weir::cumulative_histogram{}, {});
    BOOST_TEST(out.text() ==
               "# HELP wait_seconds Waits.\n"
               "# TYPE wait_seconds histogram\n"
               "wait_seconds_bucket{limit=\"a\",le=\"0.0025\"} 2\n"
               "wait_seconds_bucket{limit=\"a\",le=\"60\"} 5\n"
               "wait_seconds_bucket{limit=\"a\",le=\"+Inf\"} 6\n"
               "wait_seconds_sum{limit=\"a\"} 99.5\n"
               "wait_seconds_count{limit=\"a\"} 6\n"
               "wait_seconds_bucket{le=\"+Inf\"} 0\n"
               "wait_seconds_sum 0\n"
               "wait_seconds_count 0\n");
}

BOOST_AUTO_TEST_CASE(a_value_of_a_label_is_escaped) {
    metrics_writer out;
    out.family("up", "Up.", type::gauge);
    out.add(1.0, {{"server", "a\\b \"c\"\nd \xe2\x98\x95"}});
    BOOST_TEST(out.text().ends_with("up{server=\"a\\\\b \\\"c\\\"\\nd \xe2\x98\x95\"} 1\n"));
}

BOOST_AUTO_TEST_CASE(numbers_are_exact) {
    metrics_writer out;
    out.family("n", "N.", type::gauge);
    out.add(std::numeric_limits<std::uint64_t>::max());
    out.add(1732370703.123456);
    out.add(0.1);
    BOOST_TEST(out.text().ends_with("\nn 18446744073709551615\nn 1732370703.123456\nn 0.1\n"));
}

// 8 requests for 2 seats that each hold for 10 ms: 2 wait for 0, 10, 20 and 30 ms.
BOOST_AUTO_TEST_CASE(a_histogram_counts_immediate_grants_as_waits_of_0_s) {
    asio::io_context context;
    weir::testing::limiter<weir::seats> seats(context, {.seats = 2});
    std::vector<std::unique_ptr<weir::testing::timer>> timers;
    for (int i = 0; i != 8; ++i)
        seats.async_enter([&](weir::error_code, weir::permit p) {
            auto& t = *timers.emplace_back(std::make_unique<weir::testing::timer>(context, 10ms));
            t.async_wait([held = std::move(p)](weir::error_code) {});
        });
    weir::testing::run_for(context, 1s);

    exposition const out(weir::prometheus("workers", seats.snapshot()));
    auto const within = [&](std::string const& end) {
        return out["weir_limit_wait_seconds_bucket{limit=\"workers\",le=\"" + end + "\"}"];
    };
    BOOST_TEST(out.types.at("weir_limit_wait_seconds") == "histogram");
    BOOST_TEST(within("0.001") == 2);
    BOOST_TEST(within("0.005") == 2);
    BOOST_TEST(within("0.025") == 6);
    BOOST_TEST(within("0.05") == 8);
    BOOST_TEST(within("300") == 8);
    BOOST_TEST(within("+Inf") == 8);
    BOOST_TEST(out["weir_limit_wait_seconds_count{limit=\"workers\"}"] == 8);
    BOOST_TEST(out["weir_limit_wait_seconds_sum{limit=\"workers\"}"] == 0.12);
    auto const decisions = [&](std::string const& decision, std::string const& reason) {
        return out["weir_limit_decisions_total{limit=\"workers\",decision=\"" + decision +
                   "\",reason=\"" + reason + "\"}"];
    };
    BOOST_TEST(decisions("granted", "") == 2);
    BOOST_TEST(decisions("delayed", "") == 6);
    BOOST_TEST(decisions("rejected", "queue_full") == 0);
    BOOST_TEST(out["weir_limit_permits_total{limit=\"workers\"}"] == 8);
    BOOST_TEST(out["weir_limit_in_use{limit=\"workers\"}"] == 0);
    BOOST_TEST(out["weir_limit_capacity{limit=\"workers\"}"] == 2);
    BOOST_TEST(!out.has("weir_limit_keys{limit=\"workers\"}"));
}

BOOST_AUTO_TEST_CASE(buckets_may_have_ends_of_your_own) {
    weir::limiter_stats stats{.granted = 3, .granted_immediately = 1, .waited_total = 4s};
    weir::wait_histogram waits;
    waits.add(1s);
    waits.add(3s);
    std::vector<weir::duration> const ends{500ms, 2s};
    auto const h = weir::accumulate(stats, waits, ends);
    BOOST_REQUIRE(h.buckets.size() == 2u);
    BOOST_TEST(h.buckets[0].count == 1u);
    BOOST_TEST(h.buckets[1].count == 2u);
    BOOST_TEST(h.count == 3u);
    BOOST_TEST((h.sum == 4s));
    BOOST_TEST(weir::accumulate(stats, waits, {}).buckets.empty());
}

BOOST_AUTO_TEST_CASE(each_reason_is_a_name_of_errc) {
    weir::limiter_stats s{
        .no_permit = 1,
        .timed_out = 2,
        .deadline_unreachable = 3,
        .queue_full = 4,
        .shed = 5,
        .exceeds_capacity = 6,
        .closed = 7,
        .too_many_keys = 8,
        .unavailable = 9,
        .cancelled = 10};
    weir::limit_metrics l("a", weir::snapshot<weir::limiter_stats>{s, {}});
    auto const expect_all = [](exposition const& out, std::string const& rejected) {
        auto const of = [&](std::string const& decision, std::string const& reason) {
            return out["weir_limit_decisions_total{limit=\"a\",decision=\"" + decision +
                       "\",reason=\"" + reason + "\"}"];
        };
        int n = 0;
        for (auto const* const reason :
             {"no_permit", "timed_out", "deadline_unreachable", "queue_full", "shed",
              "exceeds_capacity", "closed", "too_many_keys", "unavailable"})
            BOOST_TEST(of(rejected, reason) == ++n);
        BOOST_TEST(of("cancelled", "") == 10);
    };
    expect_all(exposition(weir::prometheus({l})), "rejected");
    l.dry_run = true;
    expect_all(exposition(weir::prometheus({l})), "would_reject");
}

BOOST_AUTO_TEST_CASE(has_the_decisions_of_a_dry_run_once_there_are_any) {
    weir::limiter_stats s{.granted = 1};
    auto const text = [&] {
        return weir::prometheus(
            {weir::limit_metrics("a", weir::snapshot<weir::limiter_stats>{s, {}})});
    };
    BOOST_TEST(text().find("decision=\"would_") == std::string::npos);
    s.would_wait = 7;
    auto const all = exposition(text());
    BOOST_TEST(all[R"(weir_limit_decisions_total{limit="a",decision="would_reject",reason=""})"] ==
               0);
    BOOST_TEST(all[R"(weir_limit_decisions_total{limit="a",decision="would_wait",reason=""})"] ==
               7);
}

BOOST_AUTO_TEST_CASE(several_limiters_share_their_families) {
    asio::io_context context;
    weir::seats seats(context, {.seats = 3});
    weir::keyed<int, weir::policy::token_bucket> per_client(context, {.rate = {10, 1s}});
    weir::pool<int> pool(context, []() -> asio::awaitable<int> { co_return 1; }, {.max = 5});
    auto const seat = seats.try_enter();
    static_cast<void>(per_client.try_enter(7));
    static_cast<void>(per_client.try_enter(8));
    exposition const out(weir::prometheus({{"seats", seats.snapshot()},
                                           {"clients", per_client.snapshot()},
                                           {"objects", pool.snapshot()}}));
    BOOST_TEST(out["weir_limit_in_use{limit=\"seats\"}"] == 1);
    BOOST_TEST(out["weir_limit_remaining{limit=\"seats\"}"] == 2);
    BOOST_TEST(out["weir_limit_keys{limit=\"clients\"}"] == 2);
    BOOST_TEST(!out.has("weir_limit_capacity{limit=\"clients\"}"));
    BOOST_TEST(!out.has("weir_limit_oldest_wait_seconds{limit=\"clients\"}"));
    BOOST_TEST(out["weir_limit_permits_total{limit=\"clients\"}"] == 2);
    BOOST_TEST(out["weir_limit_capacity{limit=\"objects\"}"] == 5);
    BOOST_TEST(out["weir_pool_objects{limit=\"objects\",state=\"idle\"}"] == 0);
    BOOST_TEST(out["weir_pool_objects_total{limit=\"objects\",event=\"created\"}"] == 0);
    BOOST_TEST(!out.has("weir_pool_objects{limit=\"seats\",state=\"idle\"}"));
}

BOOST_AUTO_TEST_CASE(a_limiter_with_a_name_needs_no_other) {
    asio::io_context context;
    weir::seats seats(context, {.seats = 3}, {.name = "workers"});
    weir::keyed<int, weir::policy::token_bucket> per_client(
        context, {.rate = {10, 1s}}, {}, {.name = "clients"});
    weir::pool<int> pool(context, []() -> asio::awaitable<int> { co_return 1; }, {.max = 5},
                         {.name = "objects"});
    weir::seats nameless(context, {.seats = 4});

    BOOST_TEST(weir::prometheus(seats.snapshot()) == weir::prometheus("workers", seats.snapshot()));
    exposition const out(weir::prometheus(
        {seats.snapshot(),
         per_client.snapshot(),
         pool.snapshot(),
         {"others", nameless.snapshot()}}));
    BOOST_TEST(out["weir_limit_capacity{limit=\"workers\"}"] == 3);
    BOOST_TEST(out["weir_limit_keys{limit=\"clients\"}"] == 0);
    BOOST_TEST(out["weir_pool_objects{limit=\"objects\",state=\"idle\"}"] == 0);
    BOOST_TEST(out["weir_limit_capacity{limit=\"others\"}"] == 4);

    exposition const renamed(weir::prometheus("mine", seats.snapshot()));
    BOOST_TEST(renamed["weir_limit_capacity{limit=\"mine\"}"] == 3);
    BOOST_CHECK_EXCEPTION(
        static_cast<void>(weir::prometheus(nameless.snapshot())), std::invalid_argument,
        [](std::invalid_argument const& e) {
            return std::string(e.what()) ==
                   "weir::prometheus: the limiter has no name; set queue_options::name, or name "
                   "it in this call";
        });
}

BOOST_AUTO_TEST_SUITE_END()
