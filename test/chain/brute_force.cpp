#include "support/brute_force.hpp"

#include <weir/chain.hpp>
#include <weir/keyed.hpp>
#include <weir/token_bucket.hpp>

#include "support/virtual_limiters.hpp"

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/test/unit_test.hpp>

#include <memory>
#include <optional>
#include <utility>
#include <vector>

// Chains that are destroyed, closed or cancelled, or lose a part, after every step.

using namespace support;
using weir::chain;
using weir::error_code;

namespace {

using clients =
    weir::basic_keyed<int, weir::policy::token_bucket, asio::any_io_executor, weir::testing::timer>;

class scene final : public stage {
public:
    static constexpr int least_steps = 5;

    // This limiter lives in the other context.
    std::unique_ptr<seats> kitchen;
    std::unique_ptr<seats> bar;
    std::unique_ptr<clients> per_client;
    std::vector<std::shared_ptr<void>> held;

    [[nodiscard]] bool is_open() const { return kitchen && bar && per_client; }

    void tell(order what) override {
        auto const obey = [what](auto const& limiter) {
            if (!limiter)
                return;
            what == order::close    ? limiter->close()
            : what == order::cancel ? limiter->cancel()
                                    : limiter->shutdown();
        };
        obey(kitchen);
        obey(bar);
        obey(per_client);
    }
    void check() const override {
        if (kitchen)
            BOOST_TEST_REQUIRE(kitchen->stats().in_use <= 1);
        if (bar)
            BOOST_TEST_REQUIRE(bar->stats().in_use <= 2);
    }
    void check_closed() const override {
        if (kitchen)
            BOOST_TEST_REQUIRE((kitchen->stats().live == 0 && kitchen->stats().waiting == 0));
        if (bar)
            BOOST_TEST_REQUIRE((bar->stats().live == 0 && bar->stats().waiting == 0));
    }

private:
    void destroy_actors() override {
        bar.reset();
        per_client.reset();
        kitchen.reset();
    }
    void destroy_given() override { held.clear(); }
};

void open(scene& s) {
    s.kitchen = std::make_unique<seats>(*s.elsewhere, weir::seats_options{.seats = 1});
    s.bar = std::make_unique<seats>(*s.ctx, weir::seats_options{.seats = 2});
    s.per_client =
        std::make_unique<clients>(*s.ctx, weir::token_bucket_options{.rate = {1, 1s}, .burst = 1});
}

// Keeps `turn` for `time`, in the handler of a timer.
void keep(scene& s, auto turn, clock::duration time, stage::mark mark) {
    if (!s.ctx)
        return;
    auto meal = std::make_unique<weir::testing::timer>(*s.ctx, time);
    auto& timer = *meal;
    timer.async_wait(
        [held = std::move(turn), meal = std::move(meal), mark = std::move(mark)](error_code) {});
}

asio::awaitable<void> pause(clock::duration time) {
    weir::testing::timer timer{co_await asio::this_coro::executor, time};
    co_await timer.async_wait(asio::deferred);
}

asio::awaitable<void> visits(scene& s, stage::mark, int client) {
    for (int i = 0; i != 2 && s.is_open(); ++i) {
        try {
            chain door{s.per_client->with(client), *s.bar, *s.kitchen};
            auto const turn = co_await door.enter(3s);
            co_await pause(300ms);
        } catch (weir::rejection const&) {}
    }
}

}  // namespace

BOOST_AUTO_TEST_SUITE(chain_brute_force)

BOOST_AUTO_TEST_CASE(callbacks_in_every_order_of_three_limiters) {
    cut_after_every_step<scene>([](scene& s) {
        open(s);
        auto const enter = [&s](auto door, auto wait) {
            door.async_enter(wait, [&s, mark = s.mark_it()](error_code ec, auto turn) {
                if (!ec)
                    keep(s, std::move(turn), 700ms, mark);
            });
        };
        auto const a = s.bar->with(2);
        auto const& b = *s.kitchen;
        auto const c = s.per_client->with(1);
        weir::chain_options const impatient{.passes = 1, .reserve_for = 400ms};
        enter(chain{a, b, c}, 10s);
        enter(chain{impatient, b, c, a}, weir::patience());
        enter(chain{c, b, s.bar->with(1)}, 2s);
        enter(chain{impatient, c, a}, 10s);
    });
}

BOOST_AUTO_TEST_CASE(coroutines_and_plain_callers) {
    cut_after_every_step<scene>([](scene& s) {
        open(s);
        for (int i = 0; i != 3; ++i)
            co_spawn(*s.ctx, visits(s, s.mark_it(), i % 2), rethrow);
        co_spawn(*s.elsewhere, visits(s, s.mark_it(), 1), rethrow);
        s.kitchen->async_enter([&s, mark = s.mark_it()](error_code ec, weir::permit p) {
            if (!ec)
                keep(s, std::move(p), 500ms, mark);
        });
    });
}

BOOST_AUTO_TEST_CASE(cancellations) {
    cut_after_every_step<scene>([](scene& s) {
        open(s);
        for (int i = 0; i != 4; ++i) {
            auto& signal = s.signals.emplace_back();
            chain{*s.bar, *s.kitchen}.async_enter(asio::bind_cancellation_slot(
                signal.slot(), [&s, mark = s.mark_it()](error_code ec, auto turn) {
                    if (!ec)
                        keep(s, std::move(turn), 300ms, mark);
                }));
            auto stop = std::make_unique<weir::testing::timer>(*s.ctx, 250ms * i);
            auto& timer = *stop;
            timer.async_wait([&signal, stop = std::move(stop)](error_code) {
                signal.emit(asio::cancellation_type::terminal);
            });
        }
    });
}

BOOST_AUTO_TEST_SUITE_END()
