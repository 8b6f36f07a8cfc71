#include <weir/chain.hpp>
#include <weir/server_quota.hpp>

#include "support/random.hpp"
#include "support/virtual_limiters.hpp"
#include "support/visit.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

using namespace support;
using weir::amount;
using weir::duration;
using weir::http_field;

namespace {

using server_quota = weir::testing::limiter<weir::server_quota>;

weir::rate_limit_fields says(int status, std::vector<http_field> const& fields) {
    return weir::read_rate_limit_fields(status, fields);
}

// A server that counts in windows and rejects all requests beyond its limit. Requests and responses take time, and
// overtake each other.
class server {
public:
    server(random_source& random, amount limit, duration window, duration latency)
        : random_(random), limit_(limit), window_(window), latency_(latency) {}

    asio::awaitable<weir::rate_limit_fields> call() {
        co_await travel();
        auto const at = clock::now().time_since_epoch();
        if (at / window_ != number_) {
            number_ = at / window_;
            used_ = 0;
        }
        bool const is_rejected = used_ == limit_;
        used_ += is_rejected ? 0 : 1;
        rejected += is_rejected ? 1 : 0;
        ++received;
        auto const rest = std::chrono::ceil<std::chrono::seconds>((number_ + 1) * window_ - at);
        auto const field =
            "\"all\";r=" + std::to_string(limit_ - used_) + ";t=" + std::to_string(rest.count());
        co_await travel();
        http_field const fields[] = {{"RateLimit", field}};
        co_return weir::read_rate_limit_fields(is_rejected ? 429 : 200, fields);
    }

    int received = 0;
    int rejected = 0;

private:
    asio::awaitable<void> travel() {
        auto const took = duration(random_.between(latency_.count() / 4, latency_.count() / 2));
        weir::testing::timer road(co_await asio::this_coro::executor, took);
        co_await road.async_wait(asio::use_awaitable);
    }

    random_source& random_;
    amount limit_;
    duration window_;
    duration latency_;
    std::int64_t number_ = -1;
    amount used_ = 0;
};

asio::awaitable<void> call_until_enough(server_quota& quota, server& of, int& started, int calls) {
    while (started < calls) {
        ++started;
        auto permit = co_await quota.enter();
        auto const fields = co_await of.call();
        weir::obey(quota, std::move(permit), fields);
    }
}

}  // namespace

BOOST_AUTO_TEST_SUITE(server_quota_limiter)

BOOST_AUTO_TEST_CASE(wakes_waiting_requests_when_a_response_states_permits) {
    asio::io_context ctx;
    server_quota quota{ctx};
    auto probe = quota.try_enter();
    visit one{quota};
    visit two{quota};
    visit three{quota};
    settle(ctx);
    BOOST_TEST(one.waiting());
    weir::obey(quota, std::move(probe), says(200, {{"RateLimit", "\"all\";r=2;t=10"}}));
    settle(ctx);
    BOOST_TEST(one.granted());
    BOOST_TEST(two.granted());
    BOOST_TEST(three.waiting());
    run_for(ctx, 10s);
    BOOST_TEST(three.granted());
}

BOOST_AUTO_TEST_CASE(pauses_for_the_time_of_retry_after) {
    asio::io_context ctx;
    server_quota quota{ctx};
    auto probe = quota.try_enter();
    visit one{quota};
    // Neither the released permit nor the stated ones are granted during the pause.
    weir::obey(quota, std::move(probe),
               says(429, {{"Retry-After", "7"}, {"RateLimit", "\"all\";r=5;t=60"}}));
    run_for(ctx, 7s - 1ns);
    BOOST_TEST(one.waiting());
    run_for(ctx, 1ns);
    BOOST_TEST(one.granted());
}

BOOST_AUTO_TEST_CASE(obeys_the_quota_of_a_name) {
    asio::io_context ctx;
    server_quota requests{ctx};
    server_quota tokens{ctx};
    auto const fields =
        says(200, {{"x-ratelimit-remaining-requests", "5"},
                   {"x-ratelimit-reset-requests", "1s"},
                   {"x-ratelimit-remaining-tokens", "900"},
                   {"x-ratelimit-reset-tokens", "6m0s"}});
    weir::obey(requests, 0, fields, "requests");
    weir::obey(tokens, 0, fields, "tokens");
    weir::obey(tokens, 0, fields, "pages");
    weir::chain both{requests, tokens.with(400)};
    auto const one = both.try_enter();
    auto const two = both.try_enter();
    auto const three = both.try_enter();
    BOOST_TEST(bool(two));
    BOOST_TEST(!three);
    BOOST_TEST(requests.stats().remaining == 3);
    BOOST_TEST(tokens.stats().remaining == 100);
    BOOST_TEST(*three.retry_after() == 360s);
}

BOOST_AUTO_TEST_CASE(ignores_a_quota_without_a_reset) {
    asio::io_context ctx;
    server_quota quota{ctx};
    weir::obey(quota, 0, says(200, {{"RateLimit", "\"all\";r=50"}}));
    weir::obey(quota, 0, says(200, {{"RateLimit", "\"all\";r=50;t=0"}}));
    BOOST_TEST(quota.stats().remaining == 1);
}

// Servers of many kinds, and 1,000 calls to each: the server rejects none, and they take little longer than necessary.
BOOST_AUTO_TEST_CASE(leads_to_no_rejection_by_a_server_that_counts_in_windows,
                     *boost::unit_test::label("whole")) {
    std::vector<double> times;
    for_each_seed(1, 100, [&times](random_source& random) {
        constexpr int calls = 1'000;
        asio::io_context ctx;
        auto const limit = random.between(1, 200);
        duration const window = std::chrono::seconds(random.between(1, 60));
        duration const latency = std::chrono::milliseconds(random.between(10, 500));
        server of(random, limit, window, latency);
        server_quota quota{ctx};
        int started = 0;
        auto const workers = random.between(1, 64);
        for (std::int64_t i = 0; i != workers; ++i)
            co_spawn(ctx, call_until_enough(quota, of, started, calls), rethrow);
        auto const start = clock::now();
        while (of.received < calls)
            weir::testing::run_for(ctx, 10ms);
        auto const took = clock::now() - start;
        weir::testing::run_for(ctx, 1s);
        BOOST_TEST_REQUIRE(of.received == calls);
        BOOST_TEST_REQUIRE(of.rejected == 0);
        // The server grants `limit` in each window, and a worker makes one call at a time.
        auto const by_server = window * ((calls - 1) / limit);
        auto const by_workers = latency * 3 / 4 * (calls / workers);
        times.push_back(std::chrono::duration<double>(took) /
                        std::chrono::duration<double>(std::max<duration>(by_server, by_workers)));
    });
    std::ranges::sort(times);
    auto const at = [&times](double part) {
        return times[static_cast<std::size_t>(part * static_cast<double>(times.size() - 1))];
    };
    BOOST_TEST_MESSAGE("times of the ideal: median "
                       << at(0.5) << ", 90 % below " << at(0.9) << ", worst " << at(1));
    BOOST_TEST(at(0.5) <= 1.2);
}

BOOST_AUTO_TEST_SUITE_END()
