#include <weir/calendar_window.hpp>
#include <weir/keyed.hpp>
#include <weir/testing.hpp>

#include "support/random.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/test/unit_test.hpp>

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace asio = boost::asio;
using namespace std::chrono_literals;
using support::random_source;
using weir::calendar_window_options;
using weir::testing::run_for;

namespace {

// The wall clock of virtual time.
weir::wall_time wall() noexcept {
    return weir::wall_time(weir::testing::clock::now().time_since_epoch());
}

// Runs until a minute past midnight of UTC.
void run_until_midnight(asio::io_context& ctx) {
    auto const now = wall();
    run_for(ctx, std::chrono::ceil<std::chrono::days>(now + 1ns) - now + 1min);
}

using quotas_of_keys = weir::basic_keyed<int, weir::policy::calendar_window, asio::any_io_executor,
                                         weir::testing::timer>;
using quota = weir::testing::limiter<weir::calendar_window>;

}  // namespace

BOOST_AUTO_TEST_SUITE(quotas_by_key)

BOOST_AUTO_TEST_CASE(are_separate_and_begin_again_at_midnight) {
    asio::io_context ctx;
    run_until_midnight(ctx);
    quotas_of_keys quotas(ctx, {.limit = 2, .clock = wall}, {.shards = 4});
    BOOST_TEST(bool(quotas.try_enter(1, 2)));
    weir::error_code ec;
    BOOST_TEST(!quotas.try_enter(1, 1, ec));
    BOOST_TEST(bool(quotas.try_enter(2)));
    BOOST_TEST(quotas.stats().keys == 2U);
    run_for(ctx, 23h);
    BOOST_TEST(!quotas.try_enter(1, 1, ec));
    run_for(ctx, 1h);
    BOOST_TEST(bool(quotas.try_enter(1, 2)));
    BOOST_TEST(bool(quotas.try_enter(2, 2)));
}

BOOST_AUTO_TEST_CASE(wait_for_midnight) {
    asio::io_context ctx;
    run_until_midnight(ctx);
    quotas_of_keys quotas(ctx, {.limit = 2, .clock = wall});
    auto const first = quotas.try_enter(1, 2);
    auto const t = weir::testing::clock::now();
    weir::duration waited{};
    quotas.async_enter(1, weir::forever, [&](weir::error_code ec, weir::permit p) {
        BOOST_TEST(!ec);
        waited = weir::testing::clock::now() - t;
        BOOST_TEST((p.waited() == waited));
    });
    run_for(ctx, 48h);
    BOOST_TEST((waited == 24h - 1min));
}

BOOST_AUTO_TEST_CASE(forget_the_keys_of_earlier_windows) {
    asio::io_context ctx;
    run_until_midnight(ctx);
    quotas_of_keys quotas(ctx, {.limit = 2, .clock = wall}, {.max_keys = 64, .shards = 1});
    weir::error_code ec;
    for (int key = 0; key != 64; ++key)
        BOOST_TEST(bool(quotas.try_enter(key, 1, ec)));
    BOOST_TEST(!quotas.try_enter(64, 1, ec));
    BOOST_TEST((ec == weir::errc::too_many_keys));
    run_for(ctx, 24h);
    for (int key = 64; key != 128; ++key)
        BOOST_TEST(bool(quotas.try_enter(key, 1, ec)));
}

// Each key is granted what a separate limiter grants, also when the options change.
BOOST_AUTO_TEST_CASE(decide_as_one_limiter_for_each_key) {
    support::for_each_seed(1, 100, [](random_source& random) {
        asio::io_context ctx;
        auto const some_options = [&] {
            return calendar_window_options{
                .limit = random.between(1, 4),
                .unit = random.one_of({weir::calendar_unit::day, weir::calendar_unit::week}),
                .clock = wall};
        };
        auto const options = some_options();
        quotas_of_keys quotas(ctx, options);
        std::map<int, std::unique_ptr<quota>> separate;
        for (int key = 0; key != 8; ++key)
            separate[key] = std::make_unique<quota>(ctx, options);
        std::vector<std::pair<weir::permit, weir::permit>> held;
        for (int step = 0; step != 200; ++step) {
            if (random.one_in(4))
                run_for(ctx, std::chrono::minutes(random.of_any_size(3 * 1'440)));
            if (random.one_in(40)) {
                auto const next = some_options();
                quotas.configure(next);
                for (auto& [key, limiter] : separate)
                    limiter->configure([&](calendar_window_options& o) { o = next; });
            }
            if (!held.empty() && random.one_in(5)) {
                auto [a, b] = std::move(held.back());
                held.pop_back();
                a.refund();
                b.refund();
            }
            auto const key = static_cast<int>(random.between(0, 7));
            auto const n = random.between(1, 3);
            weir::error_code ec, other;
            auto a = quotas.try_enter(key, n, ec);
            auto b = separate[key]->try_enter(n, other);
            BOOST_REQUIRE(bool(a) == bool(b));
            BOOST_REQUIRE((ec == other));
            BOOST_REQUIRE((quotas.stats(key).remaining == separate[key]->stats().remaining));
            if (a)
                held.emplace_back(std::move(a), std::move(b));
        }
    });
}

BOOST_AUTO_TEST_SUITE_END()
