#include <weir/keyed.hpp>
#include <weir/limiter.hpp>
#include <weir/policy/any.hpp>
#include <weir/policy/sliding_log.hpp>
#include <weir/policy/token_bucket.hpp>

#include "support/allocations.hpp"
#include "support/sanitizer.hpp"
#include "support/virtual_limiters.hpp"
#include "support/visit.hpp"

#include <boost/mpl/list.hpp>
#include <boost/test/unit_test.hpp>

#include <cstddef>
#include <memory>
#include <new>
#include <string>
#include <type_traits>
#include <vector>

// Memory runs out at each allocation in turn. Each key is compared with a separate limiter that received the same calls
// and has enough memory.

using namespace support;
using weir::amount;
using weir::errc;
using weir::permit;

namespace {

// The kinds of state: one on the heap, one that is a whole policy, and one that is a number.
struct logs {
    using policy = weir::policy::sliding_log;
    static policy::options_type options(amount n) { return {.limit = n, .window = 1h}; }
};
struct chosen {
    using policy = weir::policy::any;
    static policy::options_type options(amount n) {
        return weir::all_options({weir::sliding_log_options{.limit = n, .window = 1h},
                                  weir::leaky_bucket_options{.rate = {n, 1h}, .capacity = n}});
    }
};
struct buckets {
    using policy = weir::policy::token_bucket;
    static policy::options_type options(amount n) { return {.rate = {1, 1h}, .burst = n}; }
};
std::string text_of(weir::limiter_config const& options) {
    return to_string(options);
}
using kinds = boost::mpl::list<logs, chosen, buckets>;

// Keys without free permits, some of them with waiting requests or their own options, and a separate limiter for each
// key.
template <class Kind>
struct house {
    static constexpr int keys = 24;  // all on one page
    static constexpr int key_that_waits = 3;
    static constexpr int key_with_own_options = 5;
    using policy = typename Kind::policy;

    house() {
        for (int key = 0; key != keys; ++key) {
            alone.push_back(
                std::make_unique<
                    weir::basic_limiter<policy, asio::any_io_executor, weir::testing::timer>>(
                    ctx, Kind::options(3)));
            for (int i = 0; i != 1 + key % 3; ++i) {
                all.try_enter(key).leave();
                alone.back()->try_enter().leave();
            }
        }
        configure_one(key_with_own_options, 4);
        for (int key : {key_that_waits, 2 * key_that_waits}) {
            all.async_enter(key, 3, weir::forever, waiting.emplace_back().callback());
            alone[static_cast<std::size_t>(key)]->async_enter(
                3, also_waiting.emplace_back().callback());
        }
        settle(ctx);
    }

    void configure_one(int key, amount n) {
        all.configure(key, Kind::options(n));
        alone[static_cast<std::size_t>(key)]->configure(Kind::options(n));
    }
    void configure_alone(amount n) {
        for (int key = 0; key != keys; ++key) {
            if (key != key_with_own_options)
                alone[static_cast<std::size_t>(key)]->configure(Kind::options(n));
        }
    }

    [[nodiscard]] bool is_like_its_twin(int key) const {
        auto const mine = all.stats(key);
        auto const its = alone[static_cast<std::size_t>(key)]->stats();
        return mine.capacity == its.capacity && mine.remaining == its.remaining &&
               mine.debt == its.debt && mine.waiting == its.waiting;
    }
    void check() const {
        for (int key = 0; key != keys; ++key)
            BOOST_TEST(is_like_its_twin(key), "key " << key);
    }

    asio::io_context ctx;
    weir::basic_keyed<int, policy, asio::any_io_executor, weir::testing::timer> all{
        ctx, Kind::options(3), {.shards = 1}};
    std::vector<
        std::unique_ptr<weir::basic_limiter<policy, asio::any_io_executor, weir::testing::timer>>>
        alone;
    std::vector<visit> waiting;
    std::vector<visit> also_waiting;
};

// Calls `f` with a failure of its first allocation, then of its second, and so on, until none fails; each time in a new
// house. Calls `after` whenever `f` threw.
template <class Kind, class F, class After>
void run_out_of_memory(F f, After after) {
    int failures = 0;
    for (int k = 0;; ++k) {
        house<Kind> h;
        h.check();
        try {
            if (!with_failing_allocation(k, [&] { f(h); }))
                break;
        } catch (std::bad_alloc const&) {
            ++failures;
            BOOST_TEST_CONTEXT("allocation " << k) {
                after(h);
            }
        }
        BOOST_TEST_REQUIRE(k < 10'000);
    }
    BOOST_TEST(failures > 0);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(keyed_failures)

// The keys are on one page, so the change applies to all of them or to none.
BOOST_AUTO_TEST_CASE_TEMPLATE(a_page_changes_its_options_completely_or_not_at_all, Kind, kinds) {
    for (amount const next : {2, 7}) {
        run_out_of_memory<Kind>([&](house<Kind>& h) { h.all.configure(Kind::options(next)); },
                                [&](house<Kind>& h) {
                                    h.check();
                                    // Removes the room objects of the keys, and with them their state.
                                    h.all.cancel();
                                    for (auto& limiter : h.alone)
                                        limiter->cancel();
                                    settle(h.ctx);
                                    h.check();
                                    h.all.configure(Kind::options(next));
                                    h.configure_alone(next);
                                    h.check();
                                    run_for(h.ctx, 30min);
                                    h.check();
                                });
    }
}

// With many pages, each changed or did not change, and the next change applies to all of them.
BOOST_AUTO_TEST_CASE_TEMPLATE(pages_change_one_by_one, Kind, kinds) {
    constexpr int many = 80;
    constexpr int step =
        support::sanitizer && std::is_same_v<Kind, chosen> ? 25 : 5;  // `chosen` takes most memory
    int mixed = 0;
    for (int k = 0;; k += step) {
        house<Kind> h;
        for (int key = 1'000; key != 1'000 + many; ++key)
            h.all.try_enter(key, 2).leave();
        bool failed = false;
        try {
            if (!with_failing_allocation(k, [&] { h.all.configure(Kind::options(7)); }))
                break;
        } catch (std::bad_alloc const&) {
            failed = true;
        }
        int changed = 0;
        for (int key = 1'000; key != 1'000 + many; ++key) {
            auto const capacity = h.all.stats(key).capacity;
            BOOST_TEST_REQUIRE((capacity == 3 || capacity == 7));
            changed += capacity == 7;
            // A bucket keeps its permits; a log has room for more.
            auto const remaining = h.all.stats(key).remaining;
            auto const if_changed = std::is_same_v<Kind, buckets> ? h.all.stats(key).remaining : 5;
            BOOST_TEST_REQUIRE(remaining == (capacity == 7 ? if_changed : 1));
            // The options and the capacity must belong to the same rule.
            BOOST_TEST_REQUIRE(text_of(h.all.options(key)) == text_of(Kind::options(capacity)));
        }
        if (!failed)
            continue;
        mixed += changed > 0 && changed < many;
        // A new key is checked by the rule that it will get.
        for (int key = 5'000; key != 5'100; ++key) {
            auto const capacity = h.all.stats(key).capacity;
            weir::error_code ec;
            h.all.try_enter(key, 4, ec).leave();
            BOOST_TEST_REQUIRE((ec == errc::exceeds_capacity) == (capacity == 3));
        }
        h.all.configure(Kind::options(7));
        for (int key = 1'000; key != 1'000 + many; ++key)
            BOOST_TEST_REQUIRE(h.all.stats(key).capacity == 7);
    }
    BOOST_TEST(mixed > 0);
}

// A waiting request allocates a room object for its key.
BOOST_AUTO_TEST_CASE_TEMPLATE(a_request_that_cannot_wait_leaves_its_key_unchanged, Kind, kinds) {
    run_out_of_memory<Kind>(
        [](house<Kind>& h) {
            h.all.async_enter(7, 3, weir::forever, [](weir::error_code, permit) {});
        },
        [](house<Kind>& h) { h.check(); });
}

BOOST_AUTO_TEST_CASE_TEMPLATE(a_key_changes_its_options_completely_or_not_at_all, Kind, kinds) {
    for (int const key : {house<Kind>::key_that_waits, house<Kind>::key_with_own_options, 8}) {
        run_out_of_memory<Kind>([&](house<Kind>& h) { h.all.configure(key, Kind::options(9)); },
                                [&](house<Kind>& h) {
                                    h.check();
                                    h.configure_one(key, 9);
                                    h.check();
                                });
    }
}

BOOST_AUTO_TEST_SUITE_END()
