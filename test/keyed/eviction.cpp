#include <weir/format.hpp>
#include <weir/keyed.hpp>
#include <weir/policy/seats.hpp>
#include <weir/policy/sliding_log.hpp>
#include <weir/policy/token_bucket.hpp>

#include "support/random.hpp"
#include "support/virtual_limiters.hpp"
#include "support/visit.hpp"

#include <boost/test/unit_test.hpp>

#include <fmt/format.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

// `keyed_options::evict_within`: a new key takes the place of one that will be like an unused key soon.

using namespace support;
using weir::amount;
using weir::errc;

namespace {

using clients_with_buckets = weir::testing::keyed<std::uint64_t, weir::policy::token_bucket>;

template <class Limiter>
bool has_no_place_for(Limiter& limiter, std::uint64_t key) {
    weir::error_code ec;
    auto const p = limiter.try_enter(key, 1, ec);
    return ec == errc::too_many_keys;
}

// One permit a second, and 64 places.
struct full_table {
    explicit full_table(weir::duration evict_within)
        : clients(ctx, {.rate = {1, 1s}, .burst = 10},
                  {.max_keys = 64, .evict_within = evict_within}) {}

    bool enter(std::uint64_t key, amount n = 1) {
        return static_cast<bool>(clients.try_enter(key, n));
    }
    void fill(std::uint64_t from, std::uint64_t to, amount each) {
        for (auto key = from; key != to; ++key)
            BOOST_TEST_REQUIRE(enter(key, each));
    }

    asio::io_context ctx;
    clients_with_buckets clients;
};

}  // namespace

BOOST_AUTO_TEST_SUITE(eviction)

BOOST_AUTO_TEST_CASE(needs_an_option) {
    full_table t(0s);
    t.fill(0, 64, 1);
    BOOST_TEST(has_no_place_for(t.clients, 64));
    BOOST_TEST(t.clients.stats().evicted == 0U);
}

BOOST_AUTO_TEST_CASE(takes_keys_that_are_like_unused_ones_within_the_time) {
    full_table t(1s);
    t.fill(0, 64, 2);  // which takes two seconds to make up for
    BOOST_TEST(has_no_place_for(t.clients, 64));
    run_for(t.ctx, 999ms);
    BOOST_TEST(has_no_place_for(t.clients, 64));
    run_for(t.ctx, 1ms);
    BOOST_TEST(t.enter(64));
    auto const after = t.clients.stats();
    BOOST_TEST(after.evicted != 0U);
    BOOST_TEST(after.evicted + after.keys == 65U);
    BOOST_TEST(after.total.too_many_keys == 2U);
}

BOOST_AUTO_TEST_CASE(spares_keys_that_the_limiter_holds_back_from_a_flood_of_others) {
    full_table t(1s);
    t.fill(0, 32, 10);
    t.fill(1'000, 2'000, 1);
    for (std::uint64_t key = 0; key != 32; ++key)
        BOOST_TEST(!t.enter(key));
    BOOST_TEST(t.clients.stats().keys <= 64U);
    BOOST_TEST(t.clients.stats().total.too_many_keys == 0U);
}

// A new key looks at two pages of the table, which may have none of these left.
BOOST_AUTO_TEST_CASE(prefers_the_keys_that_have_the_least_time_to_go) {
    full_table t(8s);
    t.fill(0, 32, 1);
    run_for(t.ctx, 900ms);
    t.fill(32, 64, 1);
    for (std::uint64_t key = 100; key != 132; ++key)
        BOOST_TEST(t.enter(key, 8));
    int others = 0;
    for (std::uint64_t key = 32; key != 64; ++key)
        others += t.clients.stats(key).remaining == 10;
    BOOST_TEST(others <= 8);
    BOOST_TEST(t.clients.stats().evicted >= 32U);
    BOOST_TEST(t.clients.stats().evicted <= 40U);
}

BOOST_AUTO_TEST_CASE(comes_before_a_shared_state) {
    asio::io_context ctx;
    clients_with_buckets clients{
        ctx,
        {.rate = {1, 1s}, .burst = 1},
        {.max_keys = 64, .evict_within = 1s, .no_place = weir::when_no_place::share}};
    for (std::uint64_t key = 0; key != 1'000; ++key)
        BOOST_TEST(static_cast<bool>(clients.try_enter(key)), key);
    BOOST_TEST(clients.stats().evicted >= 1'000U - 64U);
}

// Each key takes little memory, so new ones come until the memory is used up, and then evict others.
BOOST_AUTO_TEST_CASE(makes_place_in_a_full_memory) {
    auto const rejected = [](weir::duration evict_within) {
        asio::io_context ctx;
        weir::testing::keyed<std::uint64_t, weir::policy::sliding_log> clients{
            ctx,
            {.limit = 100, .window = 1s},
            {.max_bytes = 1'000'000, .evict_within = evict_within}};
        auto const held = static_cast<bool>(clients.try_enter(0U, 100));
        for (std::uint64_t key = 1; key != 50'000; ++key)
            static_cast<void>(clients.try_enter(key));
        BOOST_TEST(held);
        BOOST_TEST(clients.stats().bytes < 1'200'000U);
        return clients.stats().total.too_many_keys;
    };
    auto const without = rejected(0s);
    auto const with = rejected(1s);
    BOOST_TEST(without > 40'000U);
    BOOST_TEST(with < without / 10);
}

BOOST_AUTO_TEST_CASE(spares_seats_in_use_and_requests_that_wait) {
    asio::io_context ctx;
    weir::testing::keyed<std::uint64_t, weir::policy::seats> tables{
        ctx, {.seats = 1}, {.max_keys = 64, .evict_within = 24h}};
    std::vector<weir::permit> seats;
    for (std::uint64_t key = 0; key != 64; ++key)
        seats.push_back(tables.try_enter(key));
    BOOST_TEST(has_no_place_for(tables, 64));

    full_table t(24h);
    t.fill(0, 64, 10);
    std::vector<visit> waiting(64);
    for (std::uint64_t key = 0; key != 64; ++key)
        t.clients.async_enter(key, 1h, waiting[key].callback());
    settle(t.ctx);
    BOOST_TEST(has_no_place_for(t.clients, 64));
    run_for(t.ctx, 1s);
    for (auto const& one : waiting)
        BOOST_TEST(one.granted());
    BOOST_TEST(t.enter(64));
}

// The permits of a key in any time: its burst, its rate, and the permits of `evict_within` for each eviction.
BOOST_AUTO_TEST_CASE(grants_a_key_the_permits_of_the_time_in_advance_at_most) {
    for_each_seed(1, 200, [](random_source& random) {
        asio::io_context ctx;
        auto const within = random.between(0, 4);
        weir::testing::keyed<std::uint64_t, weir::policy::sliding_log> clients{
            ctx,
            {.limit = 5, .window = 5s},
            {.max_keys = static_cast<std::uint64_t>(random.between(1, 70)),
             .evict_within = std::chrono::seconds(within)}};
        auto const begin = weir::testing::clock::now();
        std::map<std::uint64_t, std::vector<std::int64_t>> granted;  // seconds
        for (int i = 0; i != 400; ++i) {
            auto const key = static_cast<std::uint64_t>(random.between(0, 100));
            if (clients.try_enter(key))
                granted[key].push_back((weir::testing::clock::now() - begin) / 1s);
            if (random.between(0, 9) == 0)
                run_for(ctx, 1s);
        }
        // An entry is forgotten at most `within` early, so no window that is shorter by as much has too many.
        for (auto const& [key, times] : granted)
            for (std::size_t i = 5; i < times.size(); ++i)
                BOOST_TEST(times[i] - times[i - 5] >= 5 - within, key);
        if (within == 0)
            BOOST_TEST(clients.stats().evicted == 0U);
    });
}

BOOST_AUTO_TEST_CASE(is_told_in_the_text_of_the_statistics) {
    weir::keyed_stats stats;
    BOOST_TEST(fmt::format("{}", stats).find("evicted") == std::string::npos);
    stats.evicted = 3;
    BOOST_TEST(fmt::format("{}", stats).find("3 evicted") != std::string::npos);
    auto sum = stats;
    sum += stats;
    BOOST_TEST(sum.evicted == 6U);
}

BOOST_AUTO_TEST_CASE(has_a_time_up_to_a_day) {
    for (weir::duration const wrong : {weir::duration(-1ns), weir::duration(24h + 1ns)})
        BOOST_CHECK_THROW(full_table{wrong}, std::invalid_argument);
    BOOST_CHECK_NO_THROW(full_table{24h});
}

BOOST_AUTO_TEST_SUITE_END()
