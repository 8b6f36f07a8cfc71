#include <weir/keyed.hpp>
#include <weir/policy/any.hpp>
#include <weir/policy/sliding_log.hpp>
#include <weir/testing.hpp>

#include "support/random.hpp"
#include "support/sanitizer.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/test/unit_test.hpp>

#include <malloc.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

// The memory of a limiter by key, which `keyed_stats::bytes` states and `keyed_options::max_bytes` bounds.

namespace asio = boost::asio;
using namespace std::chrono_literals;

namespace {

using limiter = weir::basic_keyed<std::uint64_t, weir::policy::any, asio::any_io_executor,
                                  weir::testing::timer>;
using logs = weir::basic_keyed<std::uint64_t, weir::policy::sliding_log, asio::any_io_executor,
                               weir::testing::timer>;

// Compares the change of `bytes` with the memory of malloc, which includes what malloc takes for itself.
struct ledger {
    explicit ledger(limiter const& l) : of(l) {}

    void check() const {
        auto const allocated = in_use() - allocated_before;
        auto const stated = static_cast<std::ptrdiff_t>(of.stats().bytes) - stated_before;
        if (support::sanitizer)
            return;
        // With glibc 2.41, malloc takes 16 bytes less than `bytes` states.
        BOOST_TEST_REQUIRE(stated <= allocated + 64);
        BOOST_TEST_REQUIRE(allocated <= stated + stated / 5 + 3'000);
    }
    [[nodiscard]] static std::ptrdiff_t in_use() noexcept {
        return static_cast<std::ptrdiff_t>(mallinfo2().uordblks);
    }

    limiter const& of;
    std::ptrdiff_t allocated_before = in_use();
    std::ptrdiff_t stated_before = static_cast<std::ptrdiff_t>(of.stats().bytes);
};

}  // namespace

BOOST_AUTO_TEST_SUITE(memory_keys)

BOOST_AUTO_TEST_CASE(bytes_are_the_allocated_bytes) {
    for (char const* const rule : {"3/1s", "40/1s", "2000/10s", "500/1s sliding slices 50",
                                   "5/1s burst 9", "4 seats", "4 seats rest 1s", "3 seats & 30/1s",
                                   "300/1s & 3000/1min", "2 seats & 3/1s & 300/1s sliding"}) {
        BOOST_TEST_CONTEXT(rule) {
            asio::io_context ctx;
            limiter all(ctx, weir::limiter_config::parse(rule), {.max_keys = 10'000, .shards = 4});
            std::vector<weir::permit> held;
            held.reserve(100'000);
            support::random_source random(7);
            ledger const bytes(all);
            for (int round = 0; round != 60; ++round) {
                for (int i = 0; i != 500; ++i) {
                    auto const key =
                        static_cast<std::uint64_t>(random.between(0, random.one_in(2) ? 9 : 2'999));
                    if (auto p = all.try_enter(key)) {
                        if (random.one_in(4))
                            p.refund();
                        else if (random.one_in(4))
                            held.push_back(std::move(p));
                    }
                    if (!held.empty() && random.one_in(8)) {
                        held.back().leave();
                        held.pop_back();
                    }
                }
                bytes.check();
                weir::testing::run_for(ctx, random.one_in(10) ? 2min : 300ms);
            }
            all.configure(weir::limiter_config::parse(rule));
            bytes.check();
        }
    }
}

BOOST_AUTO_TEST_CASE(the_queue_of_a_key_keeps_its_bytes) {
    asio::io_context ctx;
    limiter all(ctx, weir::limiter_config::parse("20/1s"), {.shards = 1});
    for (int i = 0; i != 20; ++i, weir::testing::run_for(ctx, 1ms))
        static_cast<void>(all.try_enter(1U));
    auto const before = all.stats().bytes;
    std::optional<bool> granted;
    all.async_enter(1U, 1, 10s, [&](weir::error_code ec, weir::permit const&) { granted = !ec; });
    BOOST_TEST(all.stats().bytes == before);
    weir::testing::run_for(ctx, 3s);
    BOOST_TEST((granted == true));
    BOOST_TEST(all.stats().bytes == before);
    BOOST_TEST(static_cast<bool>(all.try_enter(1U)));  // forgets all entries
    BOOST_TEST(all.stats().bytes < before);
}

BOOST_AUTO_TEST_CASE(max_bytes_bounds_new_keys) {
    for (bool const share : {false, true}) {
        asio::io_context ctx;
        logs all(ctx, {.limit = 1'000, .window = 1min},
                 {.max_bytes = 100'000,
                  .no_place = share ? weir::when_no_place::share : weir::when_no_place::reject,
                  .shards = 1});
        std::uint64_t kept = 0;
        for (; kept != 10'000 && all.stats().keys == kept; ++kept)
            static_cast<void>(all.try_enter(kept));
        --kept;
        BOOST_TEST(kept > 400U);
        BOOST_TEST(kept < 1'000U);
        BOOST_TEST(all.stats().bytes >= 100'000U);
        BOOST_TEST(all.stats().bytes < 105'000U);

        weir::error_code ec;
        auto const further = all.try_enter(20'000U, 1, ec);
        BOOST_TEST(static_cast<bool>(further) == share);
        if (!share)
            BOOST_TEST((ec == weir::errc::too_many_keys));

        // The kept keys keep their exact limit, and exceed the bound.
        for (std::uint64_t key = 0; key != 10; ++key) {
            int granted = 1;
            for (int i = 0; i != 2'000; ++i, weir::testing::run_for(ctx, 1us))
                granted += all.try_enter(key) ? 1 : 0;
            BOOST_TEST(granted == 1'000);
        }
        BOOST_TEST(all.stats().bytes > 250'000U);
        BOOST_TEST(all.stats().keys == kept);

        // Forgotten keys make space.
        weir::testing::run_for(ctx, 2min);
        for (std::uint64_t key = 30'000; key != 30'500; ++key)
            static_cast<void>(all.try_enter(key));
        BOOST_TEST(static_cast<bool>(all.try_enter(40'000U)));
        BOOST_TEST(all.stats().bytes < 105'000U);
    }
}

BOOST_AUTO_TEST_CASE(each_shard_keeps_32_keys_in_any_case) {
    asio::io_context ctx;
    logs all(ctx, {.limit = 100, .window = 1min}, {.max_bytes = 1, .shards = 1});
    for (std::uint64_t key = 0; key != 1'000; ++key)
        static_cast<void>(all.try_enter(key));
    BOOST_TEST(all.stats().keys == 32U);
    BOOST_CHECK_THROW(logs(ctx, {}, {.max_bytes = 0}), std::invalid_argument);
}

BOOST_AUTO_TEST_SUITE_END()
