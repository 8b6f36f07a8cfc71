#include <weir/retry_budget.hpp>
#include <weir/testing.hpp>

#include "support/random.hpp"
#include "support/says.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <queue>
#include <stdexcept>
#include <thread>
#include <vector>

using namespace std::chrono_literals;
using support::random_source;
using support::says;
using weir::outcome;
using weir::retry_budget;
using weir::retry_budget_options;

namespace {

using virtual_budget = weir::basic_retry_budget<weir::testing::clock>;

// Returns how many attempts per second reach a service that accepts 100 per second. `offered` calls per second are made,
// each with up to three retries after up to 100 ms. Each of 20 clients has a budget.
template <class MakeBudget>
double attempts_per_second(int offered, MakeBudget make_budget) {
    struct attempt {
        std::int64_t at;  // in microseconds
        std::size_t client;
        unsigned number;
        bool operator>(attempt const& other) const { return at > other.at; }
    };
    std::vector<std::unique_ptr<retry_budget>> budgets(20);
    for (auto& b : budgets)
        b = make_budget();
    random_source random(11);
    std::priority_queue<attempt, std::vector<attempt>, std::greater<>> next;
    constexpr int seconds = 60;
    for (int i = 0; i != offered * seconds; ++i)
        next.push({random.between(0, seconds * 1'000'000), random.index_in(budgets), 0});
    double room = 0;
    std::int64_t before = 0;
    int reached = 0;
    while (!next.empty()) {
        auto const now = next.top();
        next.pop();
        room = std::min(room + static_cast<double>(now.at - before) * 1e-4, 100.0);
        before = now.at;
        ++reached;
        auto& budget = budgets[now.client];
        bool const is_accepted = room >= 1;
        room -= is_accepted ? 1 : 0;
        if (budget)
            budget->report(is_accepted ? outcome::success : outcome::dropped, now.number ? 1 : 0);
        if (!is_accepted && now.number < 3 && (!budget || budget->try_retry()))
            next.push({now.at + random.between(1, 100'000), now.client, now.number + 1});
    }
    return static_cast<double>(reached) / seconds;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(retry_budgets)

// The words of gRFC A6: the count starts at maxTokens; each failed call takes 1, each successful one adds tokenRatio, within
// 0 and maxTokens; while the count is at most half of maxTokens, no call is retried.
BOOST_AUTO_TEST_CASE(grpc_throttles_retries_as_its_words_say) {
    support::for_each_seed(1, 100, [](random_source& random) {
        auto const most = random.between(1, 1'000'000);  // in thousandths
        auto const ratio = random.between(1, 2'000);
        retry_budget budget(retry_budget_options::grpc(
            static_cast<double>(most) / 1'000, static_cast<double>(ratio) / 1'000));
        auto count = most;
        for (int i = 0; i != 1'000; ++i) {
            auto const retry = static_cast<unsigned>(random.between(0, 1));
            if (random.one_in(3)) {
                budget.report(outcome::success, retry);
                count = std::min(count + ratio, most);
            } else if (random.one_in(4)) {
                budget.report(outcome::ignored, retry);
            } else {
                budget.report(outcome::dropped, retry);
                count = std::max<std::int64_t>(count - 1'000, 0);
            }
            BOOST_TEST_REQUIRE(budget.try_retry() == (2 * count > most));
            BOOST_TEST_REQUIRE(budget.stats().tokens == static_cast<double>(count) / 1'000);
        }
    });
}

BOOST_AUTO_TEST_CASE(grpc_retries_just_above_half_of_the_tokens) {
    for (int thousandths = 1; thousandths != 100; ++thousandths) {
        retry_budget budget(retry_budget_options::grpc(thousandths / 1'000.0, 0.001));
        BOOST_TEST_REQUIRE(budget.try_retry());
        budget.report(outcome::dropped);
        for (int level = 0; level <= thousandths; ++level) {
            BOOST_TEST_REQUIRE(budget.try_retry() == (2 * level > thousandths));
            budget.report(outcome::success);
        }
    }
}

BOOST_AUTO_TEST_CASE(grpc_does_not_retry_at_half_of_the_tokens) {
    retry_budget budget(retry_budget_options::grpc(10, 0.5));
    for (int i = 0; i != 5; ++i) {
        BOOST_TEST(budget.try_retry());
        budget.report(outcome::dropped);
    }
    BOOST_TEST(budget.stats().tokens == 5);
    BOOST_TEST(!budget.try_retry());
    budget.report(outcome::success);
    BOOST_TEST(budget.try_retry());
}

// The words of the AWS SDKs' standard mode: capacity 500; a retry takes 5, and 10 after a timeout; a success returns what
// the last retry took, or adds 1 if there was none.
BOOST_AUTO_TEST_CASE(aws_retries_as_its_words_say) {
    support::for_each_seed(1, 100, [](random_source& random) {
        retry_budget budget(retry_budget_options::aws());
        int capacity = 500;
        for (int call = 0; call != 600; ++call) {
            int taken = 0;
            for (int attempt = 0; attempt != 3; ++attempt) {
                if (random.one_in(3)) {
                    budget.report(outcome::success, static_cast<unsigned>(taken / 5));
                    capacity = std::min(capacity + (taken ? taken : 1), 500);
                    break;
                }
                budget.report(outcome::dropped, static_cast<unsigned>(taken / 5));
                int const cost = random.one_in(2) ? 10 : 5;
                bool const is_allowed = capacity >= cost;
                BOOST_TEST_REQUIRE(budget.try_retry(static_cast<unsigned>(cost / 5)) == is_allowed);
                if (!is_allowed)
                    break;
                capacity -= cost;
                taken = cost;
            }
            BOOST_TEST_REQUIRE(budget.stats().tokens == capacity);
        }
    });
}

BOOST_AUTO_TEST_CASE(a_share_of_calls_is_retried) {
    virtual_budget budget(retry_budget_options::share(0.25, 2));
    int retries = 0;
    while (budget.try_retry())
        ++retries;
    BOOST_TEST(retries == 20);  // those of 10 s
    for (int i = 0; i != 8; ++i)
        budget.report(outcome::success);
    BOOST_TEST(budget.try_retry());
    BOOST_TEST(budget.try_retry());
    BOOST_TEST(!budget.try_retry());
    weir::testing::clock::advance_to(weir::testing::clock::now() + 499ms);
    BOOST_TEST(!budget.try_retry());
    weir::testing::clock::advance_to(weir::testing::clock::now() + 1ms);
    BOOST_TEST(budget.try_retry());
    weir::testing::clock::advance_to(weir::testing::clock::now() + 24h * 365);
    BOOST_TEST(budget.stats().tokens == 20);
    BOOST_TEST(budget.stats().allowed == 23U);
    BOOST_TEST(budget.stats().rejected == 3U);
    budget.report(outcome::success);  // adds nothing to a full budget, also later
    weir::testing::clock::advance_to(weir::testing::clock::now() + 1s);
    for (int i = 0; i != 20; ++i)
        BOOST_TEST(budget.try_retry());
    BOOST_TEST(!budget.try_retry());
}

// The figures are in src/docs/how-to/retries.md.
BOOST_AUTO_TEST_CASE(budgets_stop_the_multiplication_of_load) {
    auto const none = [] { return std::unique_ptr<retry_budget>(); };
    auto const grpc = [] { return std::make_unique<retry_budget>(retry_budget_options::grpc()); };
    auto const aws = [] { return std::make_unique<retry_budget>(); };
    for (int const offered : {200, 800}) {
        auto const without = attempts_per_second(offered, none);
        auto const with_grpc = attempts_per_second(offered, grpc);
        auto const with_aws = attempts_per_second(offered, aws);
        BOOST_TEST_MESSAGE(offered
                           << " calls per second: " << without << " attempts without a budget, "
                           << with_grpc << " with grpc(), " << with_aws << " with aws()");
        BOOST_TEST(without > 2.2 * offered);
        BOOST_TEST(with_grpc < 1.02 * offered);
        BOOST_TEST(with_aws < 1.4 * offered);
    }
}

BOOST_AUTO_TEST_CASE(options_out_of_range_are_rejected) {
    BOOST_CHECK_EXCEPTION(retry_budget({.most = 0}), std::invalid_argument,
                          says("weir::retry_budget: most is 0, but must be from 0.001 to 1000000"));
    BOOST_CHECK_EXCEPTION(retry_budget({.cost = -1}), std::invalid_argument,
                          says("weir::retry_budget: cost is -1, but must be from 0 to 1000000"));
    BOOST_CHECK_THROW(retry_budget({.failure = std::numeric_limits<double>::quiet_NaN()}),
                      std::invalid_argument);
}

BOOST_AUTO_TEST_CASE(threads_take_each_token_once) {
    retry_budget budget({.most = 1'000'000, .cost = 1, .success = 0});
    std::vector<std::jthread> threads;
    for (int i = 0; i != 4; ++i)
        threads.emplace_back([&budget] {
            while (budget.try_retry())
                budget.report(outcome::success);
        });
    threads.clear();
    BOOST_TEST(budget.stats().allowed == 1'000'000U);
    BOOST_TEST(budget.stats().rejected == 4U);
    BOOST_TEST(budget.stats().tokens == 0);
}

BOOST_AUTO_TEST_SUITE_END()
