#include <weir/shared/limiter.hpp>
#include <weir/testing.hpp>

#include "shared/distant_store.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <ostream>
#include <utility>
#include <vector>

// Processes at different distances from a store, in virtual time. Each wants more than its share of the limit.

namespace {

using namespace std::chrono_literals;
namespace asio = boost::asio;
using weir::amount;
using weir::duration;
using weir::testing::clock;
using weir::testing::timer;

// A process in which some requests always wait.
struct greedy_process {
    weir::basic_shared_token_bucket<asio::any_io_executor, timer> limiter;
    std::vector<clock::time_point> granted;

    greedy_process(asio::io_context& ctx, std::shared_ptr<weir::store> e,
                   weir::shared_options const& options)
        : limiter(ctx, std::move(e), "limit", options) {}

    void enter() {
        limiter.async_enter([this](weir::error_code ec, weir::permit const&) {
            if (ec)
                return;
            granted.push_back(clock::now());
            enter();
        });
    }
};

// The round trip of each process, and the number of its requests that wait.
struct setting {
    weir::shared_options limit;
    std::vector<duration> round_trips;
    int waiting;
    double least_share;  // of an equal share, as promised

    friend std::ostream& operator<<(std::ostream& to, setting const& s) {
        return to << s.limit.rate.permits() << "/s for " << s.round_trips.size() << " processes";
    }
};

struct outcome {
    double least_share = 2;
    double used = 0;  // of the rate
    double questions_per_grant = 0;
    std::uint64_t unknown = 0;
    duration longest_without{};
};

outcome watch(setting const& s, clock::duration time) {
    asio::io_context ctx;
    auto const ledger = std::make_shared<weir::detail::bucket_ledger>();
    std::vector<std::unique_ptr<greedy_process>> processes;
    for (auto const round_trip : s.round_trips) {
        auto const there = std::make_shared<support::distant_store>(ctx, ledger, round_trip);
        processes.push_back(std::make_unique<greedy_process>(ctx, there, s.limit));
        for (int i = 0; i != s.waiting; ++i)
            processes.back()->enter();
    }
    weir::testing::run_for(ctx, 2s);  // until the burst is used up
    std::uint64_t questions = 0;
    for (auto& p : processes) {
        p->granted.clear();
        questions -= p->limiter.shared_stats().questions;
    }
    auto const begin = clock::now();
    weir::testing::run_for(ctx, time);

    outcome o;
    std::size_t all = 0;
    auto least = std::size_t(-1);
    for (auto const& p : processes) {
        all += p->granted.size();
        least = std::min(least, p->granted.size());
        auto last = begin;
        for (auto const at : p->granted)
            o.longest_without = std::max<duration>(o.longest_without, at - std::exchange(last, at));
        o.longest_without = std::max<duration>(o.longest_without, begin + time - last);
        auto const stats = p->limiter.shared_stats();
        questions += stats.questions;
        o.unknown += stats.unknown;
    }
    auto const share = static_cast<double>(all) / static_cast<double>(processes.size());
    o.least_share = static_cast<double>(least) / share;
    o.used = static_cast<double>(all) / static_cast<double>(s.limit.rate.permits()) /
             std::chrono::duration<double>(time).count();
    o.questions_per_grant = static_cast<double>(questions) / static_cast<double>(all);
    for (auto& p : processes)
        p->limiter.close();
    weir::testing::run_for(ctx, 1s);
    return o;
}

std::vector<duration> twice(std::vector<duration> round_trips) {
    auto const once = round_trips;
    round_trips.insert(round_trips.end(), once.begin(), once.end());
    return round_trips;
}

weir::shared_options per_second(amount n, amount burst) {
    return {.rate = {n, 1s}, .burst = burst};
}

std::vector<duration> const near_and_far = twice({200us, 10ms, 40ms, 70ms});
std::vector<setting> const settings{
    {per_second(50, 1), near_and_far, 64, 0.95},
    {per_second(50, 50), near_and_far, 64, 0.95},
    {per_second(200, 20), near_and_far, 64, 0.9},
    {per_second(200, 200), near_and_far, 64, 0.9},
    {per_second(1000, 100), near_and_far, 300, 0.8},
    {per_second(2000, 20), near_and_far, 64, 0.8},
    {per_second(2000, 2000), near_and_far, 300, 0.8},
    {per_second(2000, 20), twice({200us, 200us, 2ms, 2ms}), 64, 0.95},
    {per_second(20'000, 100), twice({200us, 200us, 2ms, 2ms}), 64, 0.95},
};

}  // namespace

BOOST_AUTO_TEST_SUITE(shared_distance)

BOOST_DATA_TEST_CASE(process_gets_its_share_at_any_distance, settings, s) {
    auto const o = watch(s, s.limit.rate.permits() > 5000 ? 3s : 20s);
    BOOST_TEST(o.least_share >= s.least_share);
    BOOST_TEST(o.used >= 0.99);
    BOOST_TEST(o.used <= 1.01);
    BOOST_TEST(o.questions_per_grant <= 1.01);
    BOOST_TEST(o.unknown == 0u);
}

// With a burst of one permit, a grant is of one permit, whatever the distance.
BOOST_AUTO_TEST_CASE(processes_with_ten_times_the_latency_get_their_share) {
    setting const s{per_second(1000, 1), twice({200us, 2ms, 200us, 2ms, 200us, 2ms, 200us, 2ms}), 4,
                    0.9};
    auto const o = watch(s, 10s);
    BOOST_TEST(o.least_share >= s.least_share);
    BOOST_TEST((o.longest_without <= 100ms));
    BOOST_TEST(o.used >= 0.98);
    BOOST_TEST(o.used <= 1.0001);
}

BOOST_AUTO_TEST_SUITE_END()
