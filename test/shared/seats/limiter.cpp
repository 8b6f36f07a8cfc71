#include <weir/shared/memory_store.hpp>
#include <weir/shared/seats.hpp>
#include <weir/testing.hpp>

#include "support/printing.hpp"
#include "support/rethrow.hpp"
#include "support/virtual_limiters.hpp"
#include "support/visit.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/test/unit_test.hpp>

#include <chrono>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace std::chrono_literals;
using support::clock;
using support::rethrow;
using support::run_for;
using support::settle;
using support::visit;
using weir::errc;
using weir::error_code;
namespace asio = boost::asio;

using store = weir::basic_memory_store<weir::testing::timer>;
using seats = weir::basic_shared_seats<asio::any_io_executor, weir::testing::timer>;
using fate = weir::store_conduct::fate;

// Two processes at one store, a millisecond away: two seats, for nine seconds.
struct fixture {
    asio::io_context ctx;
    std::shared_ptr<store> server = std::make_shared<store>(ctx);
    std::optional<seats> here{make(ctx)};
    std::optional<seats> there{make(ctx)};

    fixture() { is_as_far_as(1ms); }

    static weir::shared_seats_options options() {
        return {.seats = 2, .lease = 9s, .timeout = 50ms, .poll = 20ms};
    }
    seats make(asio::io_context& where) const { return seats(where, server, "kitchen", options()); }
    void is_as_far_as(weir::duration way, fate f = fate::answered) const {
        server->behave({.there = way / 2, .back = way / 2, .what = f});
    }
    [[nodiscard]] weir::amount held() const { return server->held("kitchen"); }
    // The result of a wait.
    struct wait {
        int calls = 0;
        error_code error;
        clock::time_point at;
    };
    static void watch(seats& of, weir::permit const& seat, wait& w) {
        of.async_wait_lost(seat, [&w](error_code ec) {
            ++w.calls;
            w.error = ec;
            w.at = clock::now();
        });
    }
};

BOOST_FIXTURE_TEST_SUITE(shared_seats_limiter, fixture)

BOOST_AUTO_TEST_CASE(permit_comes_after_a_round_trip_and_returns_without_waiting_requests) {
    visit const guest(*here, 2, 1s);
    run_for(ctx, 1ms - 1ns);
    BOOST_TEST(guest.waiting());
    run_for(ctx, 1ns);
    BOOST_TEST_REQUIRE(guest.granted());
    BOOST_TEST(guest.seat().count() == 2);
    BOOST_TEST(guest.seat().id() != 0u);
    BOOST_TEST(!guest.seat().lost());
    BOOST_TEST(held() == 2);
    BOOST_TEST(here->shared_stats().held == 2);
    guest.leave();
    run_for(ctx, 20ms - 1ns);
    BOOST_TEST(here->shared_stats().questions == 1u);
    run_for(ctx, 1ns + 500us);
    BOOST_TEST(held() == 0);
    run_for(ctx, 500us);
    BOOST_TEST(here->shared_stats().questions == 2u);
    BOOST_TEST(here->stats().in_use == 0);
    // Nothing is left to run.
    BOOST_TEST((weir::testing::next_expiry(ctx) == clock::time_point::max()));
    ctx.restart();
    BOOST_TEST(ctx.poll() == 0u);
    BOOST_TEST(ctx.stopped());
}

BOOST_AUTO_TEST_CASE(loop_without_other_processes_asks_once) {
    int served = 0;
    auto const guest = [&]() -> asio::awaitable<void> {
        for (; served != 100; ++served) {
            auto const seat = co_await here->async_enter();
            weir::testing::timer work(ctx, 100us);
            co_await work.async_wait(asio::deferred);
        }
    };
    co_spawn(ctx, guest(), rethrow);
    run_for(ctx, 11ms);
    BOOST_TEST(served == 100);
    BOOST_TEST(here->shared_stats().questions == 1u);
}

BOOST_AUTO_TEST_CASE(two_processes_never_exceed_the_seats) {
    std::vector<visit> crowd;
    for (int i = 0; i != 4; ++i) {
        crowd.emplace_back(*here, 1);
        crowd.emplace_back(*there, 1);
    }
    auto const in_use = [this] { return here->stats().in_use + there->stats().in_use; };
    run_for(ctx, 100ms);
    BOOST_TEST(in_use() == 2);
    int served = 0;
    for (int turn = 0; turn != 100 && served != 8; ++turn) {
        for (auto const& v : crowd) {
            if (v.over() && v.seat()) {
                v.leave();
                ++served;
                break;
            }
        }
        run_for(ctx, 50ms);
        BOOST_TEST(in_use() <= 2);
        BOOST_TEST(held() <= 2);
        BOOST_TEST(held() >= in_use());
    }
    BOOST_TEST(served == 8);
    run_for(ctx, 1s);
    BOOST_TEST(held() == 0);
}

BOOST_AUTO_TEST_CASE(released_seat_is_granted_elsewhere_after_a_poll_and_a_round_trip) {
    visit const all(*here, 2);
    run_for(ctx, 1ms);
    visit const other(*there, 1);
    run_for(ctx, 10s);
    BOOST_TEST(other.waiting());
    all.leave();
    run_for(ctx, 21ms);
    BOOST_TEST(other.granted());
}

// Released seats go to requests of the same process, but not forever.
BOOST_AUTO_TEST_CASE(saturated_processes_take_turns) {
    auto const until = clock::now() + 10s;
    auto const guests = [&](seats& of, int& served) -> asio::awaitable<void> {
        while (clock::now() < until) {
            auto const seat = co_await of.async_enter();
            weir::testing::timer meal(ctx, 5ms);
            co_await meal.async_wait(asio::deferred);
            ++served;
        }
    };
    int here_served = 0;
    int there_served = 0;
    for (int i = 0; i != 4; ++i) {
        co_spawn(ctx, guests(*here, here_served), rethrow);
        co_spawn(ctx, guests(*there, there_served), rethrow);
    }
    run_for(ctx, 11s);
    auto const all = here_served + there_served;
    BOOST_TEST(all >= 3600);  // of 4000
    BOOST_TEST(here_served >= all / 4);
    BOOST_TEST(there_served >= all / 4);
    BOOST_TEST(held() == 0);
}

BOOST_AUTO_TEST_CASE(requests_are_granted_in_order_and_a_large_request_is_not_overtaken) {
    visit const first(*here, 1);
    run_for(ctx, 1ms);
    visit const big(*here, 2);
    visit const small(*here, 1);
    run_for(ctx, 30s);
    BOOST_TEST(big.waiting());
    BOOST_TEST(small.waiting());
    BOOST_TEST(!here->try_enter());
    first.leave();
    run_for(ctx, 50ms);
    BOOST_TEST(big.granted());
    BOOST_TEST(small.waiting());
    big.leave();
    run_for(ctx, 50ms);
    BOOST_TEST(small.granted());
}

BOOST_AUTO_TEST_CASE(patience_ends_whatever_the_store_does) {
    visit const all(*there, 2);
    run_for(ctx, 1ms);
    visit const guest(*here, 1, 200ms);
    run_for(ctx, 201ms);
    BOOST_TEST(guest.rejected(errc::timed_out));
    BOOST_TEST(!guest.seat().retry_after().has_value());
    visit const greedy(*here, 3);
    settle(ctx);
    BOOST_TEST(greedy.rejected(errc::exceeds_capacity));
}

BOOST_AUTO_TEST_CASE(seat_is_held_while_its_permit_exists) {
    visit const all(*here, 2);
    run_for(ctx, 1ms);
    visit const other(*there, 1);
    run_for(ctx, 60s - 2ms);
    BOOST_TEST(other.waiting());
    BOOST_TEST(!all.seat().lost());
    BOOST_TEST(held() == 2);
    BOOST_TEST(here->shared_stats().questions ==
               21u);  // one, one at the end of the turn, and one every three seconds
}

BOOST_AUTO_TEST_CASE(seats_of_a_process_that_dies_are_free_after_the_lease_and_not_before) {
    auto own = std::make_unique<asio::io_context>();
    std::optional<seats> dies{make(*own)};
    visit all(*dies, 2);
    // Runs both contexts in turn, until it has its seats.
    for (int i = 0; i != 4; ++i) {
        settle(ctx, *own);
        run_for(ctx, 500us);
    }
    settle(*own);
    BOOST_TEST_REQUIRE(all.granted());
    auto const asked = clock::now();
    own.reset();
    visit const other(*there, 1);
    run_for(ctx, 8990ms);
    BOOST_TEST(other.waiting());
    run_for(ctx, 30ms);
    BOOST_TEST(other.granted());
    BOOST_TEST((other.at() >= asked + 8990ms));
    BOOST_TEST(all.seat().lost());
    BOOST_TEST(other.seat().id() > all.seat().id());
    dies.reset();
    all.leave();
    BOOST_TEST(held() == 1);
}

BOOST_AUTO_TEST_CASE(holder_that_cannot_renew_detects_the_loss_before_another_gets_the_seat) {
    visit const all(*here, 2);
    run_for(ctx, 1ms);
    auto const began = clock::now() - 1ms;
    wait w;
    wait same;
    watch(*here, all.seat(), w);
    watch(*here, all.seat(), same);
    is_as_far_as(1ms, fate::unreachable);
    run_for(ctx, 8980ms);
    BOOST_TEST(w.calls == 0);
    BOOST_TEST(!all.seat().lost());
    run_for(ctx, 10ms);
    BOOST_TEST(w.calls == 1);
    BOOST_TEST(same.calls == 1);
    BOOST_TEST(!w.error);
    BOOST_TEST((w.at == began + 8991ms));
    BOOST_TEST(all.seat().lost());
    BOOST_TEST(here->shared_stats().lost == 2);
    BOOST_TEST(here->stats().in_use == 2);  // the permits still exist

    is_as_far_as(1ms);
    visit const next(*there, 2);
    run_for(ctx, 1s);
    BOOST_TEST_REQUIRE(next.granted());
    BOOST_TEST((next.at() > w.at));
    BOOST_TEST(next.seat().id() > all.seat().id());

    // The release of a lost permit frees no seat.
    all.leave();
    run_for(ctx, 1s);
    BOOST_TEST(held() == 2);
    BOOST_TEST(!next.seat().lost());
}

// The store renews the lease, but the reply is lost: the seats are lost here, and free only when that lease has ended.
BOOST_AUTO_TEST_CASE(
    holder_without_replies_to_renewals_loses_its_seats_before_the_store_frees_them) {
    visit const all(*here, 2);
    run_for(ctx, 1ms);
    is_as_far_as(1ms, fate::answer_lost);
    run_for(ctx, 9s);
    BOOST_TEST(all.seat().lost());
    BOOST_TEST(held() == 2);
    is_as_far_as(1ms);
    visit const next(*there, 2);
    run_for(ctx, 9s);
    BOOST_TEST_REQUIRE(next.granted());
    BOOST_TEST(next.seat().id() > all.seat().id());
}

BOOST_AUTO_TEST_CASE(wait_for_a_lost_permit_completes_at_once) {
    visit const guest(*here, 1);
    run_for(ctx, 1ms);
    server->restart_empty();
    run_for(ctx, 4s);
    BOOST_TEST(guest.seat().lost());
    wait w;
    watch(*here, guest.seat(), w);
    settle(ctx);
    BOOST_TEST(w.calls == 1);
    BOOST_TEST(!w.error);
    visit const again(*here, 1);
    run_for(ctx, 1ms);
    BOOST_TEST(again.granted());
    BOOST_TEST(!again.seat().lost());
    BOOST_TEST(guest.seat().lost());
    BOOST_TEST(again.seat().id() > guest.seat().id());
}

BOOST_AUTO_TEST_CASE(wait_ends_with_the_last_release_a_cancellation_or_the_limiter) {
    visit const guest(*here, 1);
    run_for(ctx, 1ms);
    wait home;
    watch(*here, guest.seat(), home);
    guest.leave();
    run_for(ctx, 22ms);
    BOOST_TEST(home.calls == 1);
    BOOST_TEST(home.error == asio::error::operation_aborted);

    visit const next(*here, 1);
    run_for(ctx, 1ms);
    wait cancelled;
    asio::cancellation_signal signal;
    here->async_wait_lost(
        next.seat(), asio::bind_cancellation_slot(signal.slot(), [&](error_code ec) {
            ++cancelled.calls;
            cancelled.error = ec;
        }));
    signal.emit(asio::cancellation_type::total);
    settle(ctx);
    BOOST_TEST(cancelled.calls == 1);
    BOOST_TEST(cancelled.error == asio::error::operation_aborted);

    wait gone;
    watch(*here, next.seat(), gone);
    here.reset();
    settle(ctx);
    BOOST_TEST(gone.calls == 1);
    BOOST_TEST(gone.error == errc::closed);

    visit const nothing(*there, 0);
    settle(ctx);
    wait none;
    watch(*there, nothing.seat(), none);
    settle(ctx);
    BOOST_TEST(none.error == asio::error::operation_aborted);
}

BOOST_AUTO_TEST_CASE(permit_may_outlive_its_limiter_and_is_renewed_until_its_release) {
    visit const guest(*here, 1);
    run_for(ctx, 1ms);
    here.reset();
    run_for(ctx, 60s);
    BOOST_TEST(!guest.seat().lost());
    BOOST_TEST(held() == 1);
    guest.leave();
    run_for(ctx, 21ms);
    BOOST_TEST(held() == 0);
    ctx.restart();
    BOOST_TEST(ctx.poll() == 0u);
    BOOST_TEST(ctx.stopped());
}

BOOST_AUTO_TEST_CASE(reply_after_the_end_of_the_limiter_is_given_back) {
    visit const guest(*here, 1);
    run_for(ctx, 300us);
    here.reset();
    run_for(ctx, 400us);
    BOOST_TEST(guest.rejected(errc::closed));
    BOOST_TEST(held() == 1);
    run_for(ctx, 22ms);
    BOOST_TEST(held() == 0);
    ctx.restart();
    BOOST_TEST(ctx.poll() == 0u);
    BOOST_TEST(ctx.stopped());
}

BOOST_AUTO_TEST_CASE(request_cancelled_during_a_question_leaves_nothing) {
    asio::cancellation_signal signal;
    visit const guest;
    here->async_enter(asio::bind_cancellation_slot(signal.slot(), guest.callback()));
    run_for(ctx, 300us);
    signal.emit(asio::cancellation_type::terminal);
    settle(ctx);
    BOOST_TEST(guest.rejected(asio::error::operation_aborted));
    run_for(ctx, 300us);
    BOOST_TEST(held() == 1);
    run_for(ctx, 21ms);
    BOOST_TEST(held() == 0);
}

BOOST_AUTO_TEST_CASE(lost_reply_takes_no_seat_twice) {
    is_as_far_as(1ms, fate::answer_lost);
    visit const guest(*here, 1);
    run_for(ctx, 1ms);
    BOOST_TEST(held() == 1);
    is_as_far_as(1ms);
    run_for(ctx, 1s);
    BOOST_TEST(guest.granted());
    BOOST_TEST(held() == 1);
    BOOST_TEST(here->shared_stats().unknown == 1u);

    // The store does not keep a seat without a holder either.
    guest.leave();
    run_for(ctx, 21ms);
    BOOST_TEST(held() == 0);
    is_as_far_as(1ms, fate::answer_lost);
    visit const hasty(*here, 1, 10ms);
    run_for(ctx, 11ms);
    BOOST_TEST(hasty.rejected(errc::timed_out));
    BOOST_TEST(held() == 1);
    is_as_far_as(1ms);
    run_for(ctx, 1s);
    BOOST_TEST(held() == 0);
}

BOOST_AUTO_TEST_CASE(outage_rejects_with_the_time_of_the_next_attempt_and_ends_automatically) {
    is_as_far_as(1ms, fate::unreachable);
    visit const guest(*here, 1);
    run_for(ctx, 20s);
    BOOST_TEST(guest.rejected(errc::unavailable));
    BOOST_TEST_REQUIRE(guest.seat().retry_after().has_value());
    BOOST_TEST(here->shared_stats().unavailable);
    BOOST_TEST((here->last_failure().error == asio::error::connection_refused));
    is_as_far_as(1ms);
    run_for(ctx, *guest.seat().retry_after());
    visit const next(*here, 1);
    run_for(ctx, 1ms);
    BOOST_TEST(next.granted());
    BOOST_TEST(!here->shared_stats().unavailable);
}

BOOST_AUTO_TEST_CASE(next_renewal_detects_a_loss_of_data) {
    visit const all(*here, 2);
    run_for(ctx, 1ms);
    server->restart_empty();
    visit const other(*there, 2);
    run_for(ctx, 1ms);
    BOOST_TEST(other.granted());
    BOOST_TEST(other.seat().id() > all.seat().id());
    BOOST_TEST(!all.seat().lost());
    run_for(ctx, 3s);
    BOOST_TEST(all.seat().lost());
    BOOST_TEST(!other.seat().lost());
    BOOST_TEST(held() == 2);
}

BOOST_AUTO_TEST_CASE(clock_set_back_revokes_nothing_and_keeps_no_seat_forever) {
    visit const guest(*here, 1);
    auto own = std::make_unique<asio::io_context>();
    std::optional<seats> dies{make(*own)};
    visit const dead(*dies, 1);
    for (int i = 0; i != 4; ++i) {
        settle(ctx, *own);
        run_for(ctx, 500us);
    }
    settle(*own);
    BOOST_TEST_REQUIRE(dead.granted());
    own.reset();
    server->step_clock(-1h);
    visit const other(*there, 1);
    run_for(ctx, 8990ms);
    BOOST_TEST(other.waiting());
    run_for(ctx, 50ms);
    BOOST_TEST(other.granted());
    run_for(ctx, 60s);
    BOOST_TEST(!guest.seat().lost());
    dies.reset();
}

BOOST_AUTO_TEST_CASE(clock_set_forward_ends_leases_and_the_next_renewal_detects_it) {
    visit const all(*here, 2);
    run_for(ctx, 1ms);
    server->step_clock(1h);
    visit const other(*there, 1);
    run_for(ctx, 1ms);
    BOOST_TEST(other.granted());
    BOOST_TEST(!all.seat().lost());
    run_for(ctx, 3s);
    BOOST_TEST(all.seat().lost());
}

BOOST_AUTO_TEST_CASE(close_and_shutdown_leave_permits_valid) {
    visit const guest(*here, 1);
    run_for(ctx, 1ms);
    visit const waiting(*here, 2);
    here->close();
    settle(ctx);
    BOOST_TEST(waiting.rejected(errc::closed));
    bool is_drained = false;
    here->async_drain([&](error_code ec) { is_drained = !ec; });
    run_for(ctx, 30s);
    BOOST_TEST(!guest.seat().lost());
    BOOST_TEST(!is_drained);
    guest.leave();
    run_for(ctx, 21ms);
    BOOST_TEST(is_drained);
    BOOST_TEST(held() == 0);

    there->shutdown();
    visit const late(*there, 1);
    settle(ctx);
    BOOST_TEST(late.rejected(errc::closed));
}

BOOST_AUTO_TEST_CASE(parts_of_a_permit_are_released_one_by_one) {
    visit const guest(*here, 2);
    run_for(ctx, 1ms);
    auto part = guest.seat().split(1);
    BOOST_TEST(part.id() == guest.seat().id());
    part.leave();
    run_for(ctx, 21ms);
    BOOST_TEST(held() == 1);
    guest.seat().settle(2);  // it takes the seats that it needs
    run_for(ctx, 50ms);
    BOOST_TEST(held() == 2);
    BOOST_TEST(!guest.seat().lost());
    guest.leave();
    run_for(ctx, 21ms);
    BOOST_TEST(held() == 0);
}

BOOST_AUTO_TEST_CASE(limiter_moves_with_its_permits) {
    visit const guest(*here, 1);
    run_for(ctx, 1ms);
    seats moved(std::move(*here));
    here = std::move(moved);
    run_for(ctx, 30s);
    BOOST_TEST(!guest.seat().lost());
}

BOOST_AUTO_TEST_CASE(context_may_end_at_any_time) {
    for (weir::duration const when : {0us, 400us, 700us, 1000us, 3001000us}) {
        auto own = std::make_unique<asio::io_context>();
        auto const far = std::make_shared<store>(ctx);
        far->behave({.there = 500us, .back = 500us});
        seats limiter(*own, far, "kitchen", options());
        visit const guest(limiter, 1);
        settle(*own);
        run_for(ctx, when);
        settle(*own);
        own.reset();
        run_for(ctx, 5ms);
        BOOST_TEST((guest.dropped() || guest.granted()));
        seats other(ctx, far, "kitchen", options());
        visit const all(other, 2);
        run_for(ctx, 5ms);
        // Undelivered grants were given back; seats with a permit are kept for their lease.
        BOOST_TEST(all.granted() == guest.dropped());
        run_for(ctx, 10s);
        BOOST_TEST(all.granted());
        BOOST_TEST((guest.dropped() || guest.seat().lost()));
    }
}

BOOST_AUTO_TEST_CASE(wrong_arguments_are_rejected) {
    struct bare : weir::store {
        void async_take(std::string const&, question const&, answer_handler) override {}
        void async_give_back(std::string const&, give_back const&) override {}
    };
    BOOST_CHECK_THROW(seats(ctx, std::make_shared<bare>(), "kitchen"), std::invalid_argument);
    BOOST_CHECK_THROW(seats(ctx, nullptr, "kitchen"), std::invalid_argument);
    BOOST_CHECK_THROW(seats(ctx, server, ""), std::invalid_argument);
    BOOST_CHECK_THROW(seats(ctx, server, "kitchen", {.seats = 0}), std::invalid_argument);
}

// ---- Work that runs while a seat is held

struct burnt : std::runtime_error {
    burnt() : std::runtime_error("burnt") {}
};

BOOST_AUTO_TEST_CASE(run_returns_the_result_and_throws_the_exception_of_its_function) {
    int done = 0;
    auto const nap = [&](weir::duration d) -> asio::awaitable<void> {
        weir::testing::timer t{ctx, d};
        co_await t.async_wait(asio::deferred);
    };
    auto const guest = [&]() -> asio::awaitable<void> {
        auto cook = [&]() -> asio::awaitable<int> {
            co_await nap(20s);
            BOOST_TEST(held() == 1);
            co_return 42;
        };
        BOOST_TEST((co_await here->run(cook, 1s)) == 42);
        auto burn = [&]() -> asio::awaitable<void> {
            co_await nap(1s);
            throw burnt();
        };
        BOOST_CHECK_THROW(co_await here->run(burn), burnt);
        auto dine = [&]() -> asio::awaitable<void> { co_await nap(1s); };
        co_await here->run(dine, 2, 1s);
        co_await nap(1s);
        auto look = [&] { return held(); };
        BOOST_TEST((co_await here->run(look)) == 1);
        ++done;
    };
    co_spawn(ctx, guest(), rethrow);
    run_for(ctx, 30s);
    BOOST_TEST(done == 1);
    BOOST_TEST(held() == 0);
}

BOOST_AUTO_TEST_CASE(run_cancels_its_work_when_the_seat_is_lost) {
    error_code inside;
    error_code outside;
    clock::time_point ended;
    auto const guest = [&]() -> asio::awaitable<void> {
        auto cook = [&]() -> asio::awaitable<void> {
            weir::testing::timer t{ctx, 1h};
            try {
                co_await t.async_wait(asio::deferred);
            } catch (boost::system::system_error const& e) {
                inside = e.code();
                ended = clock::now();
                throw;
            }
        };
        try {
            co_await here->run(cook);
        } catch (weir::rejection const& r) {
            outside = r.code();
        }
    };
    auto const began = clock::now();
    co_spawn(ctx, guest(), rethrow);
    run_for(ctx, 1ms);
    is_as_far_as(1ms, fate::unreachable);
    run_for(ctx, 20s);
    BOOST_TEST(inside == asio::error::operation_aborted);
    BOOST_TEST(outside == errc::lost);
    BOOST_TEST((ended == began + 8991ms));
    BOOST_TEST(here->stats().in_use == 0);
}

BOOST_AUTO_TEST_CASE(run_survives_a_cancelled_wait_and_ends_on_its_own_cancellation) {
    int done = 0;
    error_code outcome;
    auto cook = [&]() -> asio::awaitable<void> {
        weir::testing::timer t{ctx, 10s};
        co_await t.async_wait(asio::deferred);
        ++done;
    };
    auto const guest = [&]() -> asio::awaitable<void> { co_await here->run(cook); };
    asio::cancellation_signal signal;
    co_spawn(ctx, guest(), rethrow);
    co_spawn(ctx, guest(),
             asio::bind_cancellation_slot(signal.slot(), [&](std::exception_ptr failure) {
                 try {
                     rethrow(failure);
                 } catch (boost::system::system_error const& e) {
                     outcome = e.code();
                 }
             }));
    run_for(ctx, 1s);
    here->cancel();
    run_for(ctx, 1s);
    BOOST_TEST(here->stats().in_use == 2);
    signal.emit(asio::cancellation_type::terminal);
    run_for(ctx, 2ms);
    BOOST_TEST(outcome == asio::error::operation_aborted);
    BOOST_TEST(here->stats().in_use == 1);
    run_for(ctx, 10s);
    BOOST_TEST(done == 1);
    BOOST_TEST(held() == 0);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
