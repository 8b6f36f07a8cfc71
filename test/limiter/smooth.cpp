#include <weir/smooth_bursty.hpp>
#include <weir/smooth_warming_up.hpp>

#include "support/virtual_limiters.hpp"
#include "support/visit.hpp"

#include <boost/test/unit_test.hpp>

#include <utility>
#include <vector>

using namespace support;
using weir::errc;
using weir::smooth_bursty_options;

namespace {

// A user-defined curve: after a pause twice as fast, for as many permits as the pause was worth.
class catching_up {
public:
    using options_type = smooth_bursty_options;

    explicit catching_up(options_type const& options) : max_burst_(options.max_burst) {}
    [[nodiscard]] weir::duration full_after() const noexcept { return max_burst_; }
    [[nodiscard]] weir::duration idle_at_start() const noexcept { return {}; }
    [[nodiscard]] double saving() const noexcept { return 1; }
    [[nodiscard]] double cost(double saved) const noexcept { return saved / 2; }

private:
    weir::duration max_burst_;
};

int served_of(int callers, smooth_bursty_options const& options) {
    asio::io_context ctx;
    smooth_bursty calls{ctx, options};
    std::vector<visit> guests;
    for (int i = 0; i != callers; ++i)
        guests.emplace_back(calls, 100ms);
    run_for(ctx, 1s);
    int served = 0;
    for (auto const& guest : guests) {
        served += guest.granted();
        if (!guest.granted())
            BOOST_TEST(guest.rejected(errc::deadline_unreachable));
    }
    return served;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(limiter_with_debt)

BOOST_AUTO_TEST_CASE(accumulates_permits_from_its_construction) {
    asio::io_context ctx;
    smooth_bursty calls{ctx, {.rate = {10, 1s}, .max_burst = 2s}};
    run_for(ctx, 1s);
    for (int i = 0; i != 11; ++i)
        BOOST_TEST(bool(calls.try_enter()));
    BOOST_TEST(!calls.try_enter());
}

BOOST_AUTO_TEST_CASE(returns_the_wait_of_each_request) {
    asio::io_context ctx;
    smooth_bursty calls{ctx, {.rate = {1, 1s}}};
    visit first{calls, 5};
    visit second{calls, 2};
    visit third{calls};
    run_for(ctx, 1min);
    BOOST_TEST(first.seat().waited() == 0s);
    BOOST_TEST(second.seat().waited() == 5s);
    BOOST_TEST(third.seat().waited() == 7s);
}

BOOST_AUTO_TEST_CASE(grants_twenty_at_the_start_if_it_starts_full) {
    BOOST_TEST(served_of(20, {.rate = {100, 1s}, .initial = 0s}) == 11);
    BOOST_TEST(served_of(20, {.rate = {100, 1s}, .initial = weir::forever}) == 20);
}

BOOST_AUTO_TEST_CASE(rejects_early_and_counts_the_queue) {
    asio::io_context ctx;
    smooth_bursty calls{ctx, {.rate = {1, 1s}}};
    auto const debt = calls.try_enter(5);
    visit ahead{calls, 3};
    visit too_late{calls, 8s - 1ns};
    visit in_time{calls, 8s};
    settle(ctx);
    BOOST_TEST(too_late.rejected(errc::deadline_unreachable));
    BOOST_TEST(too_late.seat().retry_after() == 8s);
    run_for(ctx, 8s);
    BOOST_TEST(in_time.granted());
}

BOOST_AUTO_TEST_CASE(keeps_a_debt_and_recomputes_waiting_requests_when_the_rate_changes) {
    asio::io_context ctx;
    smooth_bursty calls{ctx, {.rate = {1, 1s}}};
    auto const start = clock::now();
    auto const debt = calls.try_enter(5);
    visit second{calls, 10};
    visit third{calls};
    visit patient{calls, 20s};
    run_for(ctx, 1s);
    calls.configure([](smooth_bursty_options& o) { o.rate = {2, 1s}; });
    run_for(ctx, 1min);
    BOOST_TEST(second.at() == start + 5s);
    BOOST_TEST(third.at() == start + 10s);
    BOOST_TEST(patient.at() == start + 10'500ms);
}

BOOST_AUTO_TEST_CASE(takes_refunds) {
    asio::io_context ctx;
    smooth_bursty calls{ctx, {.rate = {1, 1s}}};
    auto guess = calls.try_enter(60);
    visit next{calls};
    run_for(ctx, 2s);
    guess.settle(5);
    run_for(ctx, 3s - 1ns);
    BOOST_TEST(next.waiting());
    run_for(ctx, 1ns);
    BOOST_TEST(next.granted());
}

BOOST_AUTO_TEST_CASE(warms_up) {
    asio::io_context ctx;
    smooth_warming_up calls{ctx, {.rate = {2, 1s}, .warm_up = 4s}};
    auto const start = clock::now();
    std::vector<visit> guests;
    for (int i = 0; i != 7; ++i)
        guests.emplace_back(calls);
    run_for(ctx, 1min);
    BOOST_TEST(guests[1].at() == start + 1375ms);
    BOOST_TEST(guests[4].at() == start + 4s);
    BOOST_TEST(guests[5].at() == start + 4500ms);
    BOOST_TEST(guests[6].at() == start + 5s);
}

BOOST_AUTO_TEST_CASE(follows_a_user_defined_curve) {
    asio::io_context ctx;
    weir::testing::limiter<weir::basic_limiter<weir::policy::smooth<catching_up>>> calls{
        ctx, {.rate = {10, 1s}, .max_burst = 500ms}};
    calls.try_enter().leave();
    run_for(ctx, 1h);
    auto const start = clock::now();
    std::vector<visit> guests;
    for (int i = 0; i != 8; ++i)
        guests.emplace_back(calls);
    run_for(ctx, 1min);
    for (int i = 0; i != 6; ++i)
        BOOST_TEST(guests[static_cast<std::size_t>(i)].at() == start + i * 50ms);
    BOOST_TEST(guests[6].at() == start + 350ms);
    BOOST_TEST(guests[7].at() == start + 450ms);
}

BOOST_AUTO_TEST_SUITE_END()
