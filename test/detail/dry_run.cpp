#include <weir/chain.hpp>
#include <weir/format.hpp>
#include <weir/keyed.hpp>
#include <weir/pool.hpp>
#include <weir/queue_options.hpp>
#include <weir/shared/limiter.hpp>
#include <weir/shared/memory_store.hpp>

#include "support/printing.hpp"
#include "support/random.hpp"
#include "support/says.hpp"
#include "support/virtual_limiters.hpp"
#include "support/visit.hpp"

#include <boost/test/unit_test.hpp>

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

using namespace support;
using weir::amount;
using weir::duration;
using weir::error_code;
using weir::permit;
using weir::queue_options;

BOOST_AUTO_TEST_SUITE(dry_runs)

namespace {

queue_options dry(queue_options options = {}) {
    options.dry_run = true;
    return options;
}

// The words. A twin without a queue and without a dry run gets each request at the same time, and decides which of them
// are granted. Another request would have had to wait if its patience and the queue allow it.
template <class Limiter>
class twins {
public:
    twins(random_source& random, asio::io_context& ctx,
          typename Limiter::options_type const& options, queue_options const& queue)
        : random_(random), queue_(queue), tried_(ctx, options, dry(queue)), real_(ctx, options) {}

    void ask() {
        auto const n = random_.between(1, 5);
        error_code ec;
        auto expected = real_.try_enter(n, ec);
        permit got;
        if (random_.one_in(2)) {
            got = tried_.try_enter(n, ec);
            if (!expected)
                ++would_reject_;
        } else {
            duration const patience = 1ms * random_.between(0, 3'000);
            visit guest;
            tried_.async_enter(n, patience, guest.callback());
            settle(ctx_of());
            BOOST_REQUIRE(guest.granted());
            got = std::move(guest.seat());
            if (!expected)
                ++(would_wait(expected, n, patience) ? would_wait_ : would_reject_);
        }
        BOOST_REQUIRE(!ec || !expected);
        BOOST_REQUIRE(bool(got));
        BOOST_REQUIRE(got.count() == n);
        BOOST_REQUIRE(got.waited() == duration::zero());
        granted_ += expected ? 1 : 0;
        held_.emplace_back(std::move(got), std::move(expected));
    }
    void end() {
        if (held_.empty())
            return;
        auto& [got, expected] = held_[random_.index_in(held_)];
        std::swap(held_.back().first, got);
        std::swap(held_.back().second, expected);
        auto [a, b] = std::move(held_.back());
        held_.pop_back();
        auto const n = random_.between(0, 6);
        switch (random_.between(0, 3)) {
            case 0:
                a.refund();
                return b.refund();
            case 1:
                a.settle(n);
                return b.settle(n);
            case 2: {
                auto part = a.split(1);
                if (b)
                    b.split(1).leave();
                return part.leave();
            }
            default:
                return;
        }
    }
    void compare() {
        auto const tried = tried_.stats();
        auto const real = real_.stats();
        BOOST_REQUIRE(tried.remaining == real.remaining);
        BOOST_REQUIRE(tried.debt == real.debt);
        BOOST_REQUIRE(tried.in_use == real.in_use);
        BOOST_REQUIRE(tried.live == real.live);
        BOOST_REQUIRE(tried.granted == granted_);
        BOOST_REQUIRE(tried.granted_immediately == granted_);
        BOOST_REQUIRE(tried.would_reject == would_reject_);
        BOOST_REQUIRE(tried.would_wait == would_wait_);
        BOOST_REQUIRE(tried.waiting == 0U);
        BOOST_REQUIRE(tried.no_permit + tried.timed_out + tried.deadline_unreachable +
                          tried.queue_full + tried.exceeds_capacity ==
                      0U);
    }
    [[nodiscard]] bool saw_all() const { return granted_ && would_reject_ && would_wait_; }

private:
    [[nodiscard]] asio::io_context& ctx_of() {
        return static_cast<asio::io_context&>(tried_.get_executor().context());
    }
    [[nodiscard]] bool would_wait(permit const& rejected, amount n, duration patience) const {
        if (patience == duration::zero() || n > real_.stats().capacity || queue_.max_waiting == 0)
            return false;
        auto const ready = rejected.retry_after();
        return !ready ||
               (*ready <= patience && *ready <= queue_.max_expected_wait.length_or(weir::forever));
    }

    random_source& random_;
    queue_options queue_;
    Limiter tried_;
    Limiter real_;
    std::vector<std::pair<permit, permit>> held_;
    std::uint64_t granted_ = 0;
    std::uint64_t would_reject_ = 0;
    std::uint64_t would_wait_ = 0;
};

template <class Limiter>
void compare_twins(typename Limiter::options_type const& options) {
    int seen = 0;
    for_each_seed(1, 200, [&](random_source& random) {
        asio::io_context ctx;
        queue_options queue{.max_waiting = random.one_in(4) ? 0 : 1'024};
        if (random.one_in(3))
            queue.max_expected_wait = 1s;
        twins<Limiter> both(random, ctx, options, queue);
        for (int i = 0; i != 60; ++i) {
            run_for(ctx, 1ms * random.of_any_size(1'000));
            random.one_in(3) ? both.end() : both.ask();
            both.compare();
        }
        seen += both.saw_all() ? 1 : 0;
    });
    BOOST_TEST(seen > 10);
}

}  // namespace

BOOST_AUTO_TEST_CASE(count_as_a_limiter_without_a_queue) {
    compare_twins<seats>({.seats = 4});
    compare_twins<sliding_log>({.limit = 4, .window = 2s});
    compare_twins<token_bucket>({.rate = {2, 1s}, .burst = 4});
}

BOOST_AUTO_TEST_CASE(begin_and_end_at_run_time) {
    asio::io_context ctx;
    seats workers(ctx, {.seats = 1});
    auto const first = workers.try_enter();
    visit waits(workers);
    error_code ec;
    workers.configure_queue([](queue_options& o) { o.dry_run = true; });
    BOOST_TEST(bool(workers.try_enter(1, ec)));
    visit passes(workers);
    settle(ctx);
    BOOST_TEST(passes.granted());
    BOOST_TEST(waits.waiting());
    workers.configure_queue([](queue_options& o) { o.dry_run = false; });
    BOOST_TEST(!workers.try_enter(1, ec));
    visit also(workers);
    settle(ctx);
    BOOST_TEST(also.waiting());
}

BOOST_AUTO_TEST_CASE(end_with_the_limiter) {
    asio::io_context ctx;
    permit late;
    {
        seats workers(ctx, {.seats = 1}, dry());
        auto const first = workers.try_enter();
        late = workers.try_enter();
        BOOST_TEST(bool(late));
        workers.close();
        error_code ec;
        BOOST_TEST(!workers.try_enter(1, ec));
        BOOST_TEST((ec == weir::errc::closed));
        visit rejected(workers);
        settle(ctx);
        BOOST_TEST(rejected.rejected(weir::errc::closed));
    }
    late.leave();
}

BOOST_AUTO_TEST_CASE(grant_the_most_of_a_range_and_more_than_the_capacity) {
    asio::io_context ctx;
    seats workers(ctx, {.seats = 3}, dry());
    auto all = workers.try_enter_up_to(5);
    BOOST_TEST(all.count() == 3);
    BOOST_TEST(workers.try_enter_up_to(5).count() == 5);
    error_code ec;
    BOOST_TEST(workers.try_enter(9, ec).count() == 9);
    BOOST_TEST(!ec);
    visit waits(workers, weir::request::between(1, 4));
    settle(ctx);
    BOOST_TEST(waits.seat().count() == 4);
    BOOST_TEST(workers.stats().would_reject == 2U);
    BOOST_TEST(fmt::format("{}", workers.stats()).find("2 would be rejected, 1 would wait") !=
               std::string::npos);
}

BOOST_AUTO_TEST_CASE(merge_permits_that_count_with_others) {
    asio::io_context ctx;
    seats workers(ctx, {.seats = 2}, dry());
    for (bool const counted_first : {true, false}) {
        auto counted = workers.try_enter(2);
        auto uncounted = workers.try_enter(3);
        auto another = workers.try_enter(1);
        uncounted.merge(std::move(another));
        BOOST_TEST(uncounted.count() == 4);
        auto& into = counted_first ? counted : uncounted;
        into.merge(std::move(counted_first ? uncounted : counted));
        BOOST_TEST(into.count() == 2);
        BOOST_TEST(!(counted_first ? uncounted : counted));
        BOOST_TEST(workers.stats().in_use == 2);
        into.leave();
        BOOST_TEST(workers.stats().in_use == 0);
        BOOST_TEST(workers.stats().live == 0U);
    }
}

BOOST_AUTO_TEST_CASE(of_keys_count_for_all_keys) {
    asio::io_context ctx;
    weir::basic_keyed<std::string, weir::policy::seats, asio::any_io_executor, weir::testing::timer>
        clients(ctx, {.seats = 1}, {.max_keys = 1, .shards = 1}, dry());
    auto const a = clients.try_enter("a");
    auto const again = clients.try_enter("a");
    auto const b = clients.try_enter("b");
    BOOST_TEST(bool(again));
    BOOST_TEST(bool(b));
    visit waits;
    clients.async_enter("a", 1s, waits.callback());
    settle(ctx);
    BOOST_TEST(waits.granted());
    auto const total = clients.stats().total;
    BOOST_TEST(total.granted == 1U);
    BOOST_TEST(total.would_reject == 2U);
    BOOST_TEST(total.would_wait == 1U);
    BOOST_TEST(total.in_use == 1);
    BOOST_TEST(clients.stats().keys == 1U);
}

// A chain with a dry run is granted when the other limiter grants it, as if it were alone.
BOOST_AUTO_TEST_CASE(neither_reject_nor_delay_a_chain) {
    std::uint64_t granted = 0, would_wait = 0;
    for_each_seed(1, 300, [&](random_source& random) {
        asio::io_context ctx;
        seats tried(ctx, {.seats = 2}, dry({.patience = 0ms}));
        token_bucket strict(ctx, {.rate = {2, 1s}, .burst = 2});
        token_bucket alone(ctx, {.rate = {2, 1s}, .burst = 2});
        weir::chain both{tried, strict};
        struct pair {
            bool over = false;
            bool over_alone = false;
            weir::chain_permit<2> permits;
            permit permit_alone;
        };
        std::vector<std::unique_ptr<pair>> all;
        for (int i = 0; i != 40; ++i) {
            run_for(ctx, 1ms * random.of_any_size(500));
            if (!all.empty() && random.one_in(3)) {
                auto& one = *all[random.index_in(all)];
                if (random.one_in(4)) {
                    one.permits.refund();
                    one.permit_alone.refund();
                }
                one.permits.leave();
                one.permit_alone.leave();
                continue;
            }
            auto& one = *all.emplace_back(std::make_unique<pair>());
            both.async_enter([&one](error_code ec, weir::chain_permit<2> p) {
                BOOST_REQUIRE(!ec);
                BOOST_REQUIRE(p[0].count() == 1);
                one.over = true;
                p[1].settle(1);
                one.permits = std::move(p);
            });
            alone.async_enter([&one](error_code ec, permit p) {
                BOOST_REQUIRE(!ec);
                one.over_alone = true;
                one.permit_alone = std::move(p);
            });
            settle(ctx);
            for (auto const& each : all)
                BOOST_REQUIRE(each->over == each->over_alone);
            BOOST_REQUIRE(tried.stats().in_use <= 2);
        }
        run_for(ctx, 1min);
        granted += tried.stats().granted;
        would_wait += tried.stats().would_wait;
        for (auto const& each : all)
            BOOST_REQUIRE(each->over);
        all.clear();
        BOOST_REQUIRE(tried.stats().in_use == 0);
        BOOST_REQUIRE(tried.stats().live == 0U);
        auto const s = tried.stats();
        BOOST_REQUIRE(s.granted + s.would_wait + s.would_reject == strict.stats().granted);
    });
    BOOST_TEST(granted > 100U);
    BOOST_TEST(would_wait > 20U);
}

BOOST_AUTO_TEST_CASE(take_nothing_if_the_chain_is_rejected) {
    asio::io_context ctx;
    seats tried(ctx, {.seats = 1}, dry());
    seats strict(ctx, {.seats = 2});
    weir::chain both{tried, strict};
    error_code ec;
    auto one = both.try_enter(ec);
    auto two = both.try_enter(ec);
    BOOST_TEST(bool(two));
    BOOST_TEST(two[0].count() == 1);
    BOOST_TEST(!both.try_enter(ec));
    BOOST_TEST((ec == weir::errc::no_permit));
    BOOST_TEST(tried.stats().granted == 1U);
    BOOST_TEST(tried.stats().would_wait == 1U);
    two.leave();
    BOOST_TEST(tried.stats().in_use == 1);
    BOOST_TEST(strict.stats().in_use == 1);
    weir::chain only{tried};
    BOOST_TEST(bool(only.try_enter(ec)));
}

// A pool would hand out no object, and a shared limiter would never ask its store.
BOOST_AUTO_TEST_CASE(are_not_for_pools_and_shared_limiters) {
    asio::io_context ctx;
    auto const reason =
        says("weir::queue_options: shared limiters and pools do not support dry_run");
    auto const make = []() -> asio::awaitable<int> { co_return 1; };
    BOOST_CHECK_EXCEPTION(weir::pool<int>(ctx, make, {.max = 1}, dry()), std::invalid_argument,
                          reason);
    weir::pool<int> numbers(ctx, make, {.max = 1});
    BOOST_CHECK_EXCEPTION(numbers.configure_queue([](queue_options& o) { o.dry_run = true; }),
                          std::invalid_argument, reason);
    BOOST_TEST(!numbers.queueing().dry_run);
    auto const store = std::make_shared<weir::memory_store>(ctx);
    BOOST_CHECK_EXCEPTION(weir::shared_token_bucket(ctx, store, "a", {.rate = {1, 1s}}, dry()),
                          std::invalid_argument, reason);
}

BOOST_AUTO_TEST_CASE(have_a_text_and_their_limits) {
    BOOST_TEST(queue_options::parse("dry_run true").dry_run);
    BOOST_TEST(to_string(dry()) == "dry_run true");
    BOOST_TEST(!queue_options::parse("dry_run false").dry_run);
    BOOST_CHECK_EXCEPTION(
        (void)queue_options::parse("dry_run maybe"), std::invalid_argument,
        says("weir::queue_options: `dry_run maybe`, column 9: expected false or true, found "
             "`maybe`"));
}

BOOST_AUTO_TEST_SUITE_END()
