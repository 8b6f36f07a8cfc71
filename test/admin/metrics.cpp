// The values in /metrics and /stats.json.

#include "admin/state.hpp"
#include "admin/stats.hpp"

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>

// Files of this folder are compiled together.
namespace numbers {
namespace {

using namespace std::chrono_literals;

struct one_limit {
    one_limit() {
        auto& l = all.limits.emplace_back();
        l.name = "a";
        l.rule = "10/1s";
        l.stats.granted = 7;
        l.stats.granted_immediately = 4;
        l.waits.add(3ms);
        l.waits.add(3ms);
        l.waits.add(2min);
        l.stats.waited_total = 2min + 6ms;
        l.stats.no_permit = 5;
        l.stats.queue_full = 2;
        l.stats.cancelled = 3;
    }
    admin::limit_state& limit() { return all.limits.front(); }

    // The value of a series in the Prometheus text; empty if it is missing.
    [[nodiscard]] std::string value(std::string const& series) const {
        auto const text = "\n" + to_metrics(all);
        auto const at = text.find("\n" + series + " ");
        if (at == text.npos)
            return {};
        auto const rest = text.substr(at + series.size() + 2);
        return rest.substr(0, rest.find('\n'));
    }
    [[nodiscard]] bool says(std::string_view part) const {
        return to_json(all).find(part) != std::string::npos;
    }

    admin::state all;
};

}  // namespace

BOOST_AUTO_TEST_SUITE(metrics)

BOOST_FIXTURE_TEST_CASE(count_each_decision, one_limit) {
    auto const of = [this](std::string const& decision, std::string const& why) {
        return value("weir_limit_decisions_total{limit=\"a\",decision=\"" + decision +
                     "\",reason=\"" + why + "\"}");
    };
    BOOST_TEST(of("granted", "") == "4");
    BOOST_TEST(of("delayed", "") == "3");
    BOOST_TEST(of("rejected", "no_permit") == "5");
    BOOST_TEST(of("rejected", "queue_full") == "2");
    BOOST_TEST(of("rejected", "exceeds_capacity") == "0");
    BOOST_TEST(of("cancelled", "") == "3");
    limit().dry_run = true;
    BOOST_TEST(of("would_reject", "no_permit") == "5");
    BOOST_TEST(of("rejected", "no_permit") == "");
    BOOST_TEST(of("cancelled", "") == "3");
}

// Requests that were granted immediately have a wait of 0 s.
BOOST_FIXTURE_TEST_CASE(count_all_grants_in_the_histogram_of_waits, one_limit) {
    auto const bucket = [this](std::string const& end) {
        return value("weir_limit_wait_seconds_bucket{limit=\"a\",le=\"" + end + "\"}");
    };
    BOOST_TEST(bucket("0.001") == "4");
    BOOST_TEST(bucket("0.0025") == "4");
    BOOST_TEST(bucket("0.005") == "6");
    BOOST_TEST(bucket("60") == "6");
    BOOST_TEST(bucket("300") == "7");
    BOOST_TEST(bucket("+Inf") == "7");
    BOOST_TEST(value("weir_limit_wait_seconds_count{limit=\"a\"}") == "7");
    BOOST_TEST(value("weir_limit_wait_seconds_sum{limit=\"a\"}") == "120.006");
}

BOOST_FIXTURE_TEST_CASE(count_responses_by_route_and_status, one_limit) {
    all.routes.push_back(
        {.name = "GET /\"a\"", .responses = {{"200", 3}, {"4xx", 1}}, .times = {}});
    auto& times = all.routes[0].times;
    times.counts[2] = 2;   // up to 2.5 ms
    times.counts[14] = 1;  // above 10 s
    times.total = 12s;
    std::string const of = "route=\"GET /\\\"a\\\"\"";
    BOOST_TEST(value("weir_responses_total{" + of + ",status=\"200\"}") == "3");
    BOOST_TEST(value("weir_responses_total{" + of + ",status=\"4xx\"}") == "1");
    BOOST_TEST(value("weir_request_seconds_bucket{" + of + ",le=\"0.001\"}") == "0");
    BOOST_TEST(value("weir_request_seconds_bucket{" + of + ",le=\"0.0025\"}") == "2");
    BOOST_TEST(value("weir_request_seconds_bucket{" + of + ",le=\"10\"}") == "2");
    BOOST_TEST(value("weir_request_seconds_bucket{" + of + ",le=\"+Inf\"}") == "3");
    BOOST_TEST(value("weir_request_seconds_sum{" + of + "}") == "12");
}

BOOST_FIXTURE_TEST_CASE(report_which_server_is_up, one_limit) {
    all.upstreams.push_back({.name = "u", .checked = true, .servers = {}});
    auto& servers = all.upstreams[0].servers;
    servers.resize(2);
    servers[0].name = "a";
    servers[1].name = "b";
    servers[1].down = true;
    servers[1].active = 3;
    BOOST_TEST(value("weir_upstream_server_up{upstream=\"u\",server=\"a\"}") == "1");
    BOOST_TEST(value("weir_upstream_server_up{upstream=\"u\",server=\"b\"}") == "0");
    BOOST_TEST(value("weir_upstream_requests_active{upstream=\"u\",server=\"a\"}") == "");
    BOOST_TEST(value("weir_upstream_requests_active{upstream=\"u\",server=\"b\"}") == "3");
}

BOOST_FIXTURE_TEST_CASE(have_no_oldest_wait_for_a_limit_with_keys, one_limit) {
    limit().stats.oldest_wait = 1500ms;
    BOOST_TEST(value("weir_limit_oldest_wait_seconds{limit=\"a\"}") == "1.5");
    limit().keys = 2;
    BOOST_TEST(value("weir_limit_oldest_wait_seconds{limit=\"a\"}") == "");
}

BOOST_FIXTURE_TEST_CASE(report_the_mode_and_the_failures_of_a_store, one_limit) {
    limit().store = admin::store_state{.mode = "local", .failed = 2, .unanswered = 1};
    for (std::string const mode : {"store", "closed", "open", "local", "misconfigured"})
        BOOST_TEST(value("weir_store_mode{limit=\"a\",mode=\"" + mode + "\"}") ==
                   (mode == "local" ? "1" : "0"));
    BOOST_TEST(value("weir_store_failures_total{limit=\"a\",kind=\"failed\"}") == "2");
    BOOST_TEST(value("weir_store_failures_total{limit=\"a\",kind=\"unanswered\"}") == "1");
}

BOOST_FIXTURE_TEST_CASE(report_an_agent_only_where_there_is_one, one_limit) {
    BOOST_TEST(to_metrics(all).find("weir_agent") == std::string::npos);
    BOOST_TEST(!says("\"agent\""));
    all.agent = {.path = "/a", .connections = 2, .limits = 3, .questions = 5, .grants = 4};
    BOOST_TEST(value("weir_agent_connections_open") == "2");
    BOOST_TEST(value("weir_agent_limits") == "3");
    BOOST_TEST(value("weir_agent_questions_total") == "5");
    BOOST_TEST(value("weir_agent_grants_total") == "4");
    BOOST_TEST(says(
        R"("agent":{"path":"/a","connections":2,"limits":3,"questions":5,"grants":4},"tls":{)"));
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(stats)

// A client that disconnected was not rejected.
BOOST_FIXTURE_TEST_CASE(have_the_total_of_rejections, one_limit) {
    BOOST_TEST(limit().rejected_total() == 7u);
    BOOST_TEST(says("\"rejected_total\":7"));
    BOOST_TEST(says("\"disconnected\":3"));
    BOOST_TEST(says("\"waited\":3"));
}

// A range for each doubling, without the empty ones at both ends.
BOOST_FIXTURE_TEST_CASE(have_the_ranges_of_recent_waits, one_limit) {
    BOOST_TEST(says("\"max\":0,\"ranges\":[]"));
    limit().recent_waits.add(3ms);
    limit().recent_waits.add(4ms);
    limit().recent_waits.add(20ms);
    BOOST_TEST(
        says("\"ranges\":[{\"end\":0.004194303,\"count\":2},{\"end\":0.008388607,\"count\":0},"
             "{\"end\":0.016777215,\"count\":0},{\"end\":0.033554431,\"count\":1}]"));
}

BOOST_FIXTURE_TEST_CASE(have_handshakes_and_the_ends_of_certificates, one_limit) {
    BOOST_TEST(says(R"("tls":{"failed":{},"certificates":[]})"));
    all.handshakes = {{"full", 5}, {"resumed", 7}};
    all.failed_handshakes = {{"limited", 3}, {"timeout", 0}};
    all.certificates = {{"[::]:443", "/a \"b\".pem", std::chrono::sys_days(2024y / 2 / 29) + 1h}};
    BOOST_TEST(says(
        R"("tls":{"full":5,"resumed":7,"failed":{"limited":3,"timeout":0},"certificates":[{"listener":"[::]:443",)"
        R"("file":"/a \"b\".pem","expires":"2024-02-29T01:00:00.000Z"}]})"));
}

BOOST_FIXTURE_TEST_CASE(have_the_connections_without_a_proxy_header, one_limit) {
    auto const series = "weir_proxy_headers_failed_total{reason=\"invalid\"}";
    BOOST_TEST(value(series) == "");
    BOOST_TEST(says(R"("total":0,"without_proxy_header":{}})"));
    all.failed_introductions = {{"untrusted", 0}, {"invalid", 3}};
    BOOST_TEST(value(series) == "3");
    BOOST_TEST(says(R"("total":0,"without_proxy_header":{"untrusted":0,"invalid":3}})"));
}

BOOST_FIXTURE_TEST_CASE(have_the_mean_response_time_of_a_server, one_limit) {
    all.upstreams.push_back({.name = "u", .checked = false, .servers = {}});
    auto& server = all.upstreams[0].servers.emplace_back();
    BOOST_TEST(says("\"responses\":0,\"mean_response_time\":0"));
    server.responses.counts[3] = 3;
    server.responses.counts[14] = 1;
    server.responses.total = 10s;
    BOOST_TEST(says("\"responses\":4,\"mean_response_time\":2.5"));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace numbers
