#include "support/brute_force.hpp"

#include "support/workshop.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/test/unit_test.hpp>

#include <memory>
#include <utility>
#include <vector>

// Scenarios of a pool, repeated with an interruption after each of their steps. The interruption destroys all objects
// in each order, or destroys a part and continues without it, or closes the pool, or cancels its waits. The pooled
// objects count their instances.

using namespace support;
using kind = workshop::kind;

namespace {

class scene final : public stage {
public:
    static constexpr int least_steps = 10;

    workshop shop;
    std::unique_ptr<thing_pool> pool;
    std::vector<thing_lease> leases;
    int maximum = 0;

    void tell(order what) override {
        if (!pool)
            return;
        what == order::close    ? pool->close()
        : what == order::cancel ? pool->cancel()
                                : pool->shutdown();
    }

    void check() const override {
        BOOST_TEST_REQUIRE(shop.all->max <= maximum);
        if (!pool)
            return;
        auto const s = pool->stats();
        BOOST_TEST_REQUIRE(s.idle + s.in_use + s.being_checked <= shop.all->alive);
        BOOST_TEST_REQUIRE(s.idle + s.in_use + s.being_checked + s.being_created <= maximum);
        BOOST_TEST_REQUIRE(
            s.created == static_cast<std::uint64_t>(s.idle + s.in_use + s.being_checked) +
                             s.discarded + s.unhealthy + s.retired);
    }
    void check_closed() const override { BOOST_TEST_REQUIRE(shop.all->alive == 0); }
    void check_destroyed() const override { BOOST_TEST_REQUIRE(shop.all->alive == 0); }

private:
    void destroy_actors() override { pool.reset(); }
    void destroy_given() override { leases.clear(); }
};

asio::awaitable<void> pause(clock::duration time) {
    weir::testing::timer timer(co_await asio::this_coro::executor, time);
    co_await timer.async_wait(asio::deferred);
}

// Checks out `times` times, keeps each object for `time`, and returns or discards it alternately.
asio::awaitable<void> visits(scene& p, stage::mark, int times, clock::duration time,
                             weir::patience patience = {}) {
    for (int i = 0; i != times && p.pool; ++i) {
        try {
            auto lease = co_await p.pool->checkout(patience);
            lease->begin_use();
            co_await pause(time);
            lease->end_use();
            if (i % 2 == 1)
                lease.discard();
        } catch (weir::checkout_rejection const&) {}
    }
}

void open(scene& p, weir::pool_options const& options, bool checks = false) {
    p.maximum = static_cast<int>(options.max);
    p.pool = checks
                 ? std::make_unique<thing_pool>(*p.ctx, p.shop.maker(), p.shop.checker(), options)
                 : std::make_unique<thing_pool>(*p.ctx, p.shop.maker(), options);
}

void spawn_visits(scene& p, clock::duration time, weir::patience patience = {}) {
    for (int i = 0; i != 2; ++i) {
        co_spawn(*p.ctx, visits(p, p.mark_it(), 2, time), rethrow);
        co_spawn(*p.elsewhere, visits(p, p.mark_it(), 2, time, patience), rethrow);
    }
}

// Changes the behaviour of the factory and of the check at the instant `at`.
asio::awaitable<void> changes(scene& p, stage::mark, clock::duration at, behaviour making,
                              behaviour checking) {
    co_await pause(at);
    p.shop.making = making;
    p.shop.checking = checking;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(pool_brute_force)

BOOST_AUTO_TEST_CASE(coroutines_and_callbacks_on_two_contexts) {
    cut_after_every_step<scene>([](scene& p) {
        p.shop.making.takes = 1s;
        open(p, {.max = 2});
        spawn_visits(p, 2s, 3s);
        for (int i = 0; i != 3; ++i) {
            auto keep = [&p, mark = p.mark_it()](weir::error_code ec, thing_lease lease) {
                if (!ec && p.leases.size() < 1)
                    p.leases.push_back(std::move(lease));
            };
            if (i == 0)
                p.pool->async_checkout(std::move(keep));
            else
                p.pool->async_checkout(1s * i, asio::bind_executor(*p.elsewhere, std::move(keep)));
        }
    });
}

BOOST_AUTO_TEST_CASE(a_factory_that_fails_and_recovers) {
    for (auto const what : {kind::fails, kind::throws_at_once, kind::hangs}) {
        cut_after_every_step<scene>([what](scene& p) {
            p.shop.making = {.what = what, .takes = 500ms};
            open(p,
                 {.min = 1, .max = 2, .create_timeout = 2s, .retry = {.initial = 1s, .jitter = 0}});
            spawn_visits(p, 1s, 4s);
            co_spawn(*p.ctx, changes(p, p.mark_it(), 5s, {.takes = 500ms}, {}), rethrow);
        });
    }
}

BOOST_AUTO_TEST_CASE(checks_that_succeed_fail_hang_and_throw) {
    for (auto const what : {kind::works, kind::fails, kind::hangs, kind::throws_at_once}) {
        cut_after_every_step<scene>([what](scene& p) {
            p.shop.checking = {.what = what, .takes = 300ms};
            open(p, {.max = 2, .check_after = 0s, .check_timeout = 1s}, true);
            spawn_visits(p, 1s, 4s);
        });
    }
}

BOOST_AUTO_TEST_CASE(checks_followed_by_a_failing_factory) {
    cut_after_every_step<scene>([](scene& p) {
        open(p, {.max = 2, .check_after = 500ms, .retry = {.initial = 1s, .jitter = 0}}, true);
        spawn_visits(p, 1s, 4s);
        co_spawn(*p.ctx,
                 changes(p, p.mark_it(), 500ms, {.what = kind::fails}, {.what = kind::fails}),
                 rethrow);
        co_spawn(*p.ctx, changes(p, p.mark_it(), 4s, {}, {}), rethrow);
    });
}

BOOST_AUTO_TEST_CASE(objects_that_reach_their_max_age) {
    cut_after_every_step<scene>([](scene& p) {
        p.shop.making.takes = 100ms;
        open(p, {.min = 1,
                 .max = 3,
                 .order = weir::reuse::least_recent,
                 .max_age = 3s,
                 .max_idle = 1s,
                 .max_hold = 1s});
        spawn_visits(p, 700ms, 2s);
        p.pool->async_wait_overdue([mark = p.mark_it()](weir::error_code, weir::overdue const&) {});
        p.pool->async_drain([mark = p.mark_it()](weir::error_code) {});
    });
}

BOOST_AUTO_TEST_CASE(a_pool_that_is_resized) {
    cut_after_every_step<scene>([](scene& p) {
        p.shop.making.takes = 300ms;
        p.shop.checking.takes = 200ms;
        open(p, {.max = 3, .check_after = 500ms}, true);
        auto resizes = [](scene& here, stage::mark) -> asio::awaitable<void> {
            for (weir::amount const max : {1, 2, 3, 1}) {
                co_await pause(700ms);
                if (here.pool)
                    here.pool->configure([max](weir::pool_options& o) { o.max = max; });
            }
        };
        spawn_visits(p, 500ms, 4s);
        co_spawn(*p.elsewhere, resizes(p, p.mark_it()), rethrow);
    });
}

BOOST_AUTO_TEST_CASE(cancellation_by_signals_and_operators) {
    using namespace asio::experimental::awaitable_operators;
    cut_after_every_step<scene>([](scene& p) {
        p.shop.making = {.takes = 1s};
        open(p, {.max = 1, .retry = {.jitter = 0}});
        auto emits = [](scene& here, stage::mark) -> asio::awaitable<void> {
            for (auto& signal : here.signals) {
                co_await pause(300ms);
                signal.emit(asio::cancellation_type::terminal);
            }
        };
        auto either = [](scene& here, stage::mark) -> asio::awaitable<void> {
            if (!here.pool)
                co_return;
            auto const won = co_await (here.pool->async_checkout(asio::use_awaitable) || pause(2s));
            if (won.index() == 0)
                co_await pause(1s);
        };
        for (int i = 0; i != 2; ++i) {
            auto& signal = p.signals.emplace_back();
            co_spawn(*p.ctx, visits(p, p.mark_it(), 2, 1s),
                     asio::bind_cancellation_slot(signal.slot(), asio::detached));
            auto& other = p.signals.emplace_back();
            p.pool->async_checkout(asio::bind_cancellation_slot(
                other.slot(), [mark = p.mark_it()](weir::error_code, thing_lease) {}));
        }
        co_spawn(*p.ctx, emits(p, p.mark_it()), rethrow);
        co_spawn(asio::make_strand(*p.ctx), either(p, p.mark_it()), asio::detached);
    });
}

BOOST_AUTO_TEST_CASE(a_factory_that_ignores_cancellation) {
    cut_after_every_step<scene>([](scene& p) {
        p.shop.making = {.what = kind::hangs_deaf};
        open(p, {.max = 2, .create_timeout = 1s});
        spawn_visits(p, 1s, 4s);
    });
}

BOOST_AUTO_TEST_SUITE_END()
