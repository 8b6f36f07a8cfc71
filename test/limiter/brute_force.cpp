#include "support/brute_force.hpp"

#include "support/virtual_limiters.hpp"

#include <boost/asio/any_completion_handler.hpp>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/bind_immediate_executor.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/system_executor.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/test/unit_test.hpp>

#include <exception>
#include <memory>
#include <utility>
#include <vector>

using namespace support;
using weir::error_code;
using weir::permit;

namespace {

class scene final : public stage {
public:
    static constexpr int least_steps = 5;

    std::unique_ptr<seats> kitchen;
    std::unique_ptr<sliding_log> printer;
    std::vector<permit> permits;

    void tell(order what) override {
        auto const obey = [what](auto const& limiter) {
            if (!limiter)
                return;
            what == order::close    ? limiter->close()
            : what == order::cancel ? limiter->cancel()
                                    : limiter->shutdown();
        };
        obey(kitchen);
        obey(printer);
    }

private:
    void destroy_actors() override {
        kitchen.reset();
        printer.reset();
    }
    void destroy_given() override { permits.clear(); }
};

// Keeps `seat` for `time`; the permit is in the handler of a timer.
void keep(asio::io_context& ctx, permit seat, clock::duration time, stage::mark mark) {
    auto meal = std::make_unique<weir::testing::timer>(ctx, time);
    auto& timer = *meal;
    timer.async_wait(
        [held = std::move(seat), meal = std::move(meal), mark = std::move(mark)](error_code) {});
}

asio::awaitable<void> pause(clock::duration time) {
    weir::testing::timer timer{co_await asio::this_coro::executor, time};
    co_await timer.async_wait(asio::deferred);
}

// Enters `times` times for `n` permits, and keeps each permit for `time`.
asio::awaitable<void> visits(scene& s, stage::mark, int times, int n, clock::duration time,
                             weir::patience patience = {}) {
    for (int i = 0; i != times && s.kitchen; ++i) {
        try {
            permit const seat = co_await s.kitchen->enter(n, patience);
            co_await pause(time);
        } catch (weir::rejection const&) {}
    }
}

// Creates the limiter, and keeps one of its seats outside the coroutines for 3 s.
void open(scene& s, weir::amount places, weir::queue_options const& queueing = {}) {
    s.kitchen = std::make_unique<seats>(*s.ctx, weir::seats_options{.seats = places}, queueing);
    s.permits.push_back(s.kitchen->try_enter());
    auto leaves = std::make_unique<weir::testing::timer>(*s.ctx, 3s);
    auto& timer = *leaves;
    timer.async_wait([&s, leaves = std::move(leaves)](error_code) {
        if (!s.permits.empty())
            s.permits.front().leave();
    });
}

}  // namespace

BOOST_AUTO_TEST_SUITE(limiter_brute_force)

BOOST_AUTO_TEST_CASE(callbacks_on_two_contexts) {
    cut_after_every_step<scene>([](scene& s) {
        open(s, 2);
        for (int i = 0; i != 6; ++i) {
            auto callback = [&s, mark = s.mark_it()](error_code ec, permit seat) {
                if (!ec && s.ctx)
                    keep(*s.ctx, std::move(seat), 2s, mark);
            };
            if (i % 2 == 0)
                s.kitchen->async_enter(1 + i % 3, std::move(callback));
            else
                s.kitchen->async_enter(
                    1, 1s * i, asio::bind_executor(*s.elsewhere, std::move(callback)));
        }
    });
}

BOOST_AUTO_TEST_CASE(coroutines_on_its_context_and_on_another) {
    cut_after_every_step<scene>([](scene& s) {
        open(s, 2);
        for (int i = 0; i != 2; ++i) {
            co_spawn(*s.ctx, visits(s, s.mark_it(), 2, 1 + i, 1s), rethrow);
            co_spawn(*s.elsewhere, visits(s, s.mark_it(), 2, 2 - i, 1s, 4s), rethrow);
            co_spawn(asio::make_strand(*s.ctx), visits(s, s.mark_it(), 1, 1, 500ms), rethrow);
        }
    });
}

BOOST_AUTO_TEST_CASE(awaitable_operators) {
    using namespace asio::experimental::awaitable_operators;
    cut_after_every_step<scene>(
        [](scene& s) {
            open(s, 1);
            auto either = [](scene& here, stage::mark,
                             clock::duration time) -> asio::awaitable<void> {
                auto const won = co_await (here.kitchen->enter() || pause(time));
                if (won.index() == 0)
                    co_await pause(1s);
            };
            auto both = [](scene& here, stage::mark) -> asio::awaitable<void> {
                try {
                    auto const two = co_await (here.kitchen->enter(2s) && here.kitchen->enter());
                } catch (std::exception const&) {}
            };
            co_spawn(*s.ctx, either(s, s.mark_it(), 2s), rethrow);
            co_spawn(*s.elsewhere, either(s, s.mark_it(), 3s), rethrow);
            co_spawn(*s.ctx, either(s, s.mark_it(), 9s), rethrow);
            co_spawn(*s.ctx, both(s, s.mark_it()), rethrow);
        },
        {stage::part::given});  // the limiter must exist until both sides have started
}

BOOST_AUTO_TEST_CASE(cancellation_by_signals) {
    cut_after_every_step<scene>([](scene& s) {
        open(s, 1);
        auto emits = [](scene& here, stage::mark) -> asio::awaitable<void> {
            for (auto& signal : here.signals) {
                co_await pause(700ms);
                signal.emit(asio::cancellation_type::terminal);
            }
        };
        for (int i = 0; i != 3; ++i) {
            auto& signal = s.signals.emplace_back();
            co_spawn(*s.ctx, visits(s, s.mark_it(), 2, 1, 1s),
                     asio::bind_cancellation_slot(signal.slot(), asio::detached));
            auto& other = s.signals.emplace_back();
            s.kitchen->async_enter(asio::bind_cancellation_slot(
                other.slot(), [mark = s.mark_it()](error_code, permit) {}));
        }
        s.kitchen->async_drain(asio::bind_cancellation_slot(
            s.signals.emplace_back().slot(), [mark = s.mark_it()](error_code) {}));
        co_spawn(*s.ctx, emits(s, s.mark_it()), rethrow);
    });
}

BOOST_AUTO_TEST_CASE(a_rate_whose_options_change) {
    cut_after_every_step<scene>([](scene& s) {
        open(s, 1);
        s.printer = std::make_unique<sliding_log>(
            *s.ctx, weir::sliding_log_options{.limit = 2, .window = 10s});
        auto prints = [](scene& here, stage::mark, int n,
                         weir::patience wait) -> asio::awaitable<void> {
            for (int i = 0; i != 2 && here.printer; ++i) {
                try {
                    permit page = co_await here.printer->enter(n, wait);
                    page.settle(1);
                    here.permits.push_back(std::move(page));
                } catch (weir::rejection const&) {}
            }
        };
        auto configures = [](scene& here, stage::mark) -> asio::awaitable<void> {
            for (auto const window : {5s, 20s, 1s}) {
                co_await pause(4s);
                if (here.printer)
                    here.printer->configure([&](weir::sliding_log_options& o) {
                        o.window = window;
                    });
            }
            if (here.printer)
                here.printer->configure({.limit = 1, .window = 1s});
        };
        co_spawn(*s.ctx, prints(s, s.mark_it(), 2, {}), rethrow);
        co_spawn(*s.elsewhere, prints(s, s.mark_it(), 1, 9s), rethrow);
        co_spawn(*s.ctx, prints(s, s.mark_it(), 1, 25s), rethrow);
        co_spawn(*s.elsewhere, configures(s, s.mark_it()), rethrow);
    });
}

BOOST_AUTO_TEST_CASE(close_during_requests) {
    cut_after_every_step<scene>([](scene& s) {
        open(s, 2);
        auto closes = [](scene& here, stage::mark) -> asio::awaitable<void> {
            co_await pause(1s);
            if (!here.kitchen)
                co_return;
            here.kitchen->cancel();
            co_await pause(1s);
            if (!here.kitchen)
                co_return;
            here.kitchen->close();
            if (!here.ctx)
                co_return;
            static_cast<void>(co_await here.kitchen->async_drain(asio::as_tuple(asio::deferred)));
            here.kitchen.reset();
        };
        for (int i = 0; i != 3; ++i) {
            co_spawn(*s.ctx, visits(s, s.mark_it(), 3, 1, 800ms), rethrow);
            co_spawn(*s.elsewhere, visits(s, s.mark_it(), 3, 2, 800ms), rethrow);
        }
        co_spawn(*s.elsewhere, closes(s, s.mark_it()), rethrow);
    });
}

BOOST_AUTO_TEST_CASE(eviction_and_overdue_permits) {
    cut_after_every_step<scene>([](scene& s) {
        open(s, 2, {.max_waiting = 2, .full = weir::when_full::evict_oldest, .patience = 10s});
        s.kitchen->configure([](weir::seats_options& o) { o.max_hold = 1s; });
        auto watches = [](scene& here, stage::mark) -> asio::awaitable<void> {
            while (here.kitchen) {
                auto const [ec, found] =
                    co_await here.kitchen->async_wait_overdue(asio::as_tuple(asio::deferred));
                if (ec)
                    co_return;
                if (here.kitchen && here.kitchen->stats().overdue == 3)
                    here.kitchen.reset();
            }
        };
        co_spawn(*s.ctx, watches(s, s.mark_it()), rethrow);
        co_spawn(*s.elsewhere, watches(s, s.mark_it()), rethrow);
        s.kitchen->async_wait_overdue(asio::bind_executor(
            *s.elsewhere, [mark = s.mark_it(),
                           kept = s.kitchen->try_enter(0)](error_code, weir::overdue const&) {}));
        for (int i = 0; i != 3; ++i) {
            co_spawn(*s.ctx, visits(s, s.mark_it(), 2, 1, 2s), rethrow);
            co_spawn(*s.elsewhere, visits(s, s.mark_it(), 2, 2, 500ms), rethrow);
        }
    });
}

BOOST_AUTO_TEST_CASE(functions_given_to_run) {
    cut_after_every_step<scene>([](scene& s) {
        open(s, 1);
        auto dines = [](scene& here, stage::mark mark, int times) -> asio::awaitable<void> {
            auto dine = [mark]() -> asio::awaitable<void> { co_await pause(1s); };
            auto nothing = [mark] {};
            for (int i = 0; i != times && here.kitchen; ++i) {
                try {
                    co_await here.kitchen->run(dine, 4s);
                    if (here.kitchen)
                        co_await here.kitchen->run(nothing);
                } catch (weir::rejection const&) {}
            }
        };
        for (int i = 0; i != 3; ++i) {
            co_spawn(*s.ctx, dines(s, s.mark_it(), 1), rethrow);
            co_spawn(*s.elsewhere, dines(s, s.mark_it(), 2), rethrow);
        }
    });
}

BOOST_AUTO_TEST_CASE(erased_immediate_and_deferred_handlers) {
    cut_after_every_step<scene>([](scene& s) {
        open(s, 2);
        using erased = asio::any_completion_handler<void(error_code, permit)>;
        auto callback = [&s](clock::duration time) {
            return [&s, time, mark = s.mark_it()](error_code ec, permit seat) {
                if (!ec && s.ctx)
                    keep(*s.ctx, std::move(seat), time, mark);
            };
        };
        for (int i = 0; i != 2; ++i) {
            s.kitchen->async_enter(erased(callback(1s)));
            s.kitchen->async_enter(erased(asio::bind_executor(*s.elsewhere, callback(1s))));
            s.kitchen->async_enter(
                2, 3s, erased(asio::bind_executor(asio::make_strand(*s.elsewhere), callback(2s))));
            s.kitchen->async_enter(
                asio::bind_immediate_executor(asio::system_executor(), callback(3s)));
            auto later = s.kitchen->async_enter(1, 5s, asio::deferred);
            std::move(later)(callback(1s));
        }
    });
}

BOOST_AUTO_TEST_CASE(waiting_handlers_own_the_limiter) {
    cut_after_every_step<scene>([](scene& s) {
        open(s, 1);
        auto own = std::make_shared<seats>(*s.ctx, weir::seats_options{.seats = 1});
        auto guest = [](std::shared_ptr<seats> mine, stage::mark, int i) -> asio::awaitable<void> {
            auto& limiter = *mine;
            try {
                permit const seat = co_await limiter.enter(i);
                co_await pause(1s);
            } catch (weir::rejection const&) {  // the limiter's context ended
            }
        };
        for (int i = 0; i != 2; ++i) {
            co_spawn(*s.ctx, guest(own, s.mark_it(), 1), rethrow);
            co_spawn(*s.elsewhere, guest(own, s.mark_it(), i), rethrow);
        }
    });
}

BOOST_AUTO_TEST_SUITE_END()
