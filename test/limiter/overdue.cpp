#include "support/virtual_limiters.hpp"
#include "support/visit.hpp"
#include "support/watch.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/bind_immediate_executor.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/use_future.hpp>
#include <boost/test/unit_test.hpp>

#include <cstddef>
#include <future>
#include <memory>
#include <optional>
#include <set>
#include <stdexcept>
#include <utility>
#include <vector>

using namespace support;
using asio::error::operation_aborted;
using weir::errc;
using weir::error_code;
using weir::permit;

namespace {

// The result of one `async_wait_overdue`.
class wait {
    struct record {
        int calls = 0;
        error_code error;
        weir::overdue found;
    };

public:
    [[nodiscard]] auto callback() const {
        return [what = record_](error_code ec, weir::overdue const& found) {
            ++what->calls;
            what->error = ec;
            what->found = found;
        };
    }

    wait() = default;
    template <class Limiter>
    explicit wait(Limiter& limiter) {
        limiter.async_wait_overdue(callback());
    }

    [[nodiscard]] bool waiting() const { return record_->calls == 0 && record_.use_count() > 1; }
    [[nodiscard]] bool dropped() const { return record_->calls == 0 && record_.use_count() == 1; }
    [[nodiscard]] bool told() const { return record_->calls == 1 && !record_->error; }
    [[nodiscard]] bool failed(error_code ec) const {
        return record_->calls == 1 && record_->error == ec;
    }
    [[nodiscard]] weir::overdue const& found() const {
        BOOST_TEST_REQUIRE(told());
        return record_->found;
    }

private:
    std::shared_ptr<record> record_ = std::make_shared<record>();
};

bool no_timer_runs(asio::io_context& ctx) {
    return weir::testing::next_expiry(ctx) == clock::time_point::max();
}

}  // namespace

BOOST_AUTO_TEST_SUITE(limiter_overdue)

BOOST_AUTO_TEST_CASE(is_reported_once_at_max_hold) {
    asio::io_context ctx;
    seats kitchen{ctx, {.seats = 3, .max_hold = 10s}};
    watch const watched(kitchen, [&](weir::overdue const&) {
        BOOST_TEST(ctx.get_executor().running_in_this_thread());
    });
    auto const start = clock::now();
    auto pair = kitchen.try_enter(2);
    run_for(ctx, 4s);
    auto in_time = kitchen.try_enter();
    run_for(ctx, 5s);
    BOOST_TEST(watched.reports().empty());
    run_for(ctx, 1s);
    BOOST_TEST_REQUIRE(watched.reports().size() == 1U);
    auto const& [found, at] = watched.reports().front();
    BOOST_TEST(at == start + 10s);
    BOOST_TEST(found.id == pair.id());
    BOOST_TEST(found.count == 2);
    BOOST_TEST(found.held == 10s);
    BOOST_TEST((found.since.time_since_epoch() == start.time_since_epoch()));
    in_time.leave();
    run_for(ctx, 1min);
    BOOST_TEST(watched.reports().size() == 1U);
    BOOST_TEST(kitchen.stats().overdue == 1U);
    BOOST_TEST(bool(pair));  // the limiter does not take the permit back
}

BOOST_AUTO_TEST_CASE(is_kept_for_the_next_wait_unless_it_was_released) {
    asio::io_context ctx;
    seats kitchen{ctx, {.seats = 3, .max_hold = 10s}};
    auto const one = kitchen.try_enter();
    auto two = kitchen.try_enter();
    run_for(ctx, 11s);
    BOOST_TEST(kitchen.stats().overdue == 0U);  // no wait received a report
    two.leave();

    wait const late(kitchen);
    BOOST_TEST(late.waiting());  // does not complete inside the call
    settle(ctx);
    BOOST_TEST(late.found().id == one.id());
    BOOST_TEST(late.found().held == 11s);
    wait const none_left(kitchen);
    run_for(ctx, 1h);
    BOOST_TEST(none_left.waiting());
    BOOST_TEST(kitchen.stats().overdue == 1U);
}

BOOST_AUTO_TEST_CASE(is_reported_to_one_of_several_waits_each_to_another) {
    asio::io_context ctx;
    seats kitchen{ctx, {.seats = 3, .max_hold = 10s}};
    std::vector<wait> waits(4);
    for (auto const& w : waits)
        kitchen.async_wait_overdue(w.callback());
    auto const one = kitchen.try_enter();
    run_for(ctx, 1s);
    auto const two = kitchen.try_enter();
    auto const three = kitchen.try_enter();
    run_for(ctx, 9s);
    BOOST_TEST(waits[0].found().id == one.id());
    BOOST_TEST(waits[1].waiting());
    run_for(ctx, 1s);
    std::set<std::uint64_t> const others{waits[1].found().id, waits[2].found().id};
    BOOST_TEST((others == std::set{two.id(), three.id()}));
    run_for(ctx, 1h);
    BOOST_TEST(waits[3].waiting());
    BOOST_TEST(kitchen.stats().overdue == 3U);
}

BOOST_AUTO_TEST_CASE(counts_from_the_grant_of_a_request_that_waited) {
    asio::io_context ctx;
    seats kitchen{ctx, {.seats = 1, .max_hold = 10s}};
    watch const watched(kitchen);
    auto seat = kitchen.try_enter();
    visit guest{kitchen};
    run_for(ctx, 9s);
    seat.leave();
    settle(ctx);
    BOOST_TEST(guest.granted());
    run_for(ctx, 9s);
    BOOST_TEST(watched.reports().empty());
    run_for(ctx, 1s);
    BOOST_TEST_REQUIRE(watched.reports().size() == 1U);
    BOOST_TEST(watched.reports()[0].found.held == 10s);
}

BOOST_AUTO_TEST_CASE(a_great_many_at_one_instant_are_all_reported) {
    asio::io_context ctx;
    seats kitchen{ctx, {.seats = 1000, .max_hold = 10s}};
    watch const watched(kitchen);
    std::vector<wait> waits(500);
    for (auto const& w : waits)
        kitchen.async_wait_overdue(w.callback());
    std::vector<permit> held;
    for (int i = 0; i != 1000; ++i)
        held.push_back(kitchen.try_enter());
    visit guest{kitchen};
    run_for(ctx, 10s);
    std::set<std::uint64_t> ids;
    for (auto const& w : waits)
        ids.insert(w.found().id);
    for (auto const& report : watched.reports())
        ids.insert(report.found.id);
    BOOST_TEST(ids.size() == 1000U);
    BOOST_TEST(watched.reports().size() == 500U);
    BOOST_TEST(kitchen.stats().overdue == 1000U);
    held.clear();
    settle(ctx);
    BOOST_TEST(guest.granted());
}

BOOST_AUTO_TEST_CASE(max_hold_alone_keeps_no_context_running) {
    asio::io_context ctx;
    seats kitchen{ctx, {.seats = 1, .max_hold = 3s}};
    auto const held = kitchen.try_enter();
    ctx.run();  // returns at once: no operation waits, and no timer runs
    BOOST_TEST(ctx.stopped());
    BOOST_TEST(no_timer_runs(ctx));
}

BOOST_AUTO_TEST_CASE(the_timer_runs_only_while_a_wait_for_a_report_is_pending) {
    asio::io_context ctx;
    seats kitchen{ctx, {.seats = 3, .max_hold = 10s}};
    auto seat = kitchen.try_enter();
    settle(ctx);
    BOOST_TEST(no_timer_runs(ctx));

    wait const first(kitchen);
    settle(ctx);
    BOOST_TEST((weir::testing::next_expiry(ctx) == clock::now() + 10s));
    BOOST_TEST(!ctx.stopped());  // a waiting operation keeps the context running
    seat.leave();
    run_for(ctx, 1h);
    BOOST_TEST(no_timer_runs(ctx));
    BOOST_TEST(first.waiting());
    BOOST_TEST(!ctx.stopped());

    seat = kitchen.try_enter();
    run_for(ctx, 10s);
    BOOST_TEST(first.told());
    BOOST_TEST(ctx.stopped());
    seat = kitchen.try_enter();
    settle(ctx);
    BOOST_TEST(no_timer_runs(ctx));
    BOOST_TEST(ctx.stopped());
}

BOOST_AUTO_TEST_CASE(the_timer_stops_when_the_last_wait_is_cancelled) {
    asio::io_context ctx;
    seats kitchen{ctx, {.seats = 3, .max_hold = 10s}};
    auto const seat = kitchen.try_enter();
    asio::cancellation_signal signal;
    wait const first;
    kitchen.async_wait_overdue(asio::bind_cancellation_slot(signal.slot(), first.callback()));
    wait const second(kitchen);
    run_for(ctx, 1s);
    signal.emit(asio::cancellation_type::total);
    settle(ctx);
    BOOST_TEST(first.failed(operation_aborted));
    BOOST_TEST(second.waiting());
    BOOST_TEST(!no_timer_runs(ctx));
    kitchen.cancel();
    settle(ctx);
    BOOST_TEST(second.failed(operation_aborted));
    BOOST_TEST(no_timer_runs(ctx));
    BOOST_TEST(ctx.stopped());
    BOOST_TEST(kitchen.stats().overdue == 0U);
    BOOST_TEST(kitchen.stats().cancelled == 0U);  // no request for a permit was cancelled
}

BOOST_AUTO_TEST_CASE(a_report_wins_over_a_later_cancellation) {
    asio::io_context other;
    asio::io_context ctx;
    seats kitchen{ctx, {.seats = 3, .max_hold = 10s}};
    auto const seat = kitchen.try_enter();
    asio::cancellation_signal signal;
    wait const first;
    kitchen.async_wait_overdue(
        asio::bind_cancellation_slot(signal.slot(), asio::bind_executor(other, first.callback())));
    run_for(ctx, 10s);
    signal.emit(asio::cancellation_type::all);
    kitchen.cancel();
    settle(ctx, other);
    BOOST_TEST(first.found().id == seat.id());
}

BOOST_AUTO_TEST_CASE(continues_after_close_and_shutdown_because_permits_are_in_use) {
    asio::io_context ctx;
    seats kitchen{ctx, {.seats = 3, .max_hold = 10s}};
    auto const one = kitchen.try_enter();
    watch const watched(kitchen);
    settle(ctx);
    kitchen.shutdown();
    kitchen.close();
    run_for(ctx, 10s);
    BOOST_TEST(watched.reports().size() == 1U);
    BOOST_TEST(!watched.end());
}

BOOST_AUTO_TEST_CASE(ends_with_the_limiter_and_is_destroyed_with_the_context) {
    auto ctx = std::make_unique<asio::io_context>();
    std::optional<seats> kitchen(std::in_place, *ctx, seats::options_type{.max_hold = 1s});
    auto const seat = kitchen->try_enter();
    wait const first(*kitchen);
    wait const second(*kitchen);
    settle(*ctx);
    kitchen.reset();
    settle(*ctx);
    BOOST_TEST(first.failed(errc::closed));
    BOOST_TEST(second.failed(errc::closed));
    BOOST_TEST(ctx->stopped());
    BOOST_TEST(no_timer_runs(*ctx));

    kitchen.emplace(*ctx, seats::options_type{.max_hold = 1s});
    wait const dropped(*kitchen);
    settle(*ctx);
    BOOST_TEST(dropped.waiting());
    ctx.reset();
    BOOST_TEST(dropped.dropped());
}

BOOST_AUTO_TEST_CASE(a_change_of_max_hold_applies_to_permits_in_use) {
    asio::io_context ctx;
    seats kitchen{ctx, {.seats = 3, .max_hold = 1h}};
    watch const watched(kitchen);
    auto const seat = kitchen.try_enter();
    run_for(ctx, 2s);
    kitchen.configure([](weir::seats_options& o) { o.max_hold = 10s; });
    run_for(ctx, 7s);
    BOOST_TEST(watched.reports().empty());
    run_for(ctx, 1s);
    BOOST_TEST(watched.reports().size() == 1U);
}

BOOST_AUTO_TEST_CASE(a_wait_that_began_before_max_hold_was_set_reports_too) {
    asio::io_context ctx;
    seats kitchen{ctx, {.seats = 3}};
    wait const patient(kitchen);
    settle(ctx);
    BOOST_TEST(no_timer_runs(ctx));
    kitchen.configure({.seats = 3, .max_hold = 10s});
    auto const seat = kitchen.try_enter();
    run_for(ctx, 10s);
    BOOST_TEST(patient.found().id == seat.id());
}

BOOST_AUTO_TEST_CASE(a_permit_granted_before_max_hold_was_set_stays_unwatched_after_settle) {
    asio::io_context ctx;
    seats kitchen{ctx, {.seats = 4}};
    watch const watched(kitchen);
    auto seat = kitchen.try_enter();
    kitchen.configure({.seats = 4, .max_hold = 1h});
    seat.settle(3);
    BOOST_TEST(kitchen.stats().remaining == 1);
    seat.leave();
    BOOST_TEST(kitchen.stats().remaining == 4);
    run_for(ctx, 2h);
    BOOST_TEST(watched.reports().empty());
}

BOOST_AUTO_TEST_CASE(takes_every_token) {
    asio::io_context ctx;
    seats kitchen{ctx, {.seats = 4, .max_hold = 10s}};
    auto future = kitchen.async_wait_overdue(asio::use_future);
    auto when_called = kitchen.async_wait_overdue(asio::deferred);
    wait const called;
    std::move(when_called)(called.callback());
    int resumed = 0;
    auto waits = [&]() -> asio::awaitable<void> {
        auto const [ec, found] =
            co_await kitchen.async_wait_overdue(asio::as_tuple(asio::deferred));
        BOOST_TEST(!ec);
        weir::overdue const other = co_await kitchen.async_wait_overdue();
        BOOST_TEST(other.count == 4);
        ++resumed;
    };
    co_spawn(ctx, waits(), rethrow);
    settle(ctx);
    kitchen.configure([](weir::seats_options& o) { o.seats = 10; });
    auto const one = kitchen.try_enter(1);
    auto const two = kitchen.try_enter(2);
    auto const three = kitchen.try_enter(3);
    run_for(ctx, 1s);
    auto const four = kitchen.try_enter(4);
    run_for(ctx, 10s);
    BOOST_TEST(future.get().id == one.id());
    BOOST_TEST(called.told());
    BOOST_TEST(resumed == 1);
}

BOOST_AUTO_TEST_CASE(an_immediate_report_uses_the_immediate_executor_if_there_is_one) {
    asio::io_context ctx;
    seats kitchen{ctx, {.seats = 2, .max_hold = 10s}};
    auto const seat = kitchen.try_enter();
    run_for(ctx, 10s);
    wait const first;
    kitchen.async_wait_overdue(
        asio::bind_immediate_executor(asio::system_executor(), first.callback()));
    BOOST_TEST(first.found().id == seat.id());
}

BOOST_AUTO_TEST_CASE(a_due_report_does_not_need_the_context_to_run) {
    asio::io_context other;
    asio::io_context ctx;
    seats kitchen{ctx, {.seats = 2, .max_hold = 10s}};
    wait const first;
    kitchen.async_wait_overdue(asio::bind_executor(other, first.callback()));
    auto const one = kitchen.try_enter();
    settle(ctx);
    clock::advance_to(clock::now() + 20s);  // the handler of the timer did not run
    auto two = kitchen.try_enter();
    two.leave();  // carries out the steps that are due
    settle(other);
    BOOST_TEST(first.found().id == one.id());
    BOOST_TEST(first.found().held == 20s);
}

BOOST_AUTO_TEST_CASE(can_be_awaited_again_in_its_handler_any_number_of_times) {
    asio::io_context ctx;
    seats kitchen{ctx, {.seats = 100, .max_hold = 10s}};
    std::vector<permit> held;
    int depth = 0;
    watch const watched(kitchen, [&](weir::overdue const& found) {
        BOOST_TEST(++depth == 1);
        // All calls that a handler can make to the limiter that calls it.
        BOOST_TEST(kitchen.stats().overdue >= 1U);
        std::erase_if(held, [&](permit const& p) { return p.id() == found.id; });
        kitchen.configure([](weir::seats_options&) {});
        --depth;
    });
    for (int i = 0; i != 100; ++i)
        held.push_back(kitchen.try_enter());
    run_for(ctx, 10s);
    BOOST_TEST(watched.reports().size() == 100U);
    BOOST_TEST(held.empty());
    BOOST_TEST(kitchen.stats().remaining == 100);
}

// A handler that replaced itself was once destroyed under the lock, and with it this permit, whose release needs the
// lock.
BOOST_AUTO_TEST_CASE(a_handler_that_owns_the_last_permit_can_be_called_cancelled_and_destroyed) {
    for (auto const how : {0, 1, 2, 3}) {
        auto ctx = std::make_unique<asio::io_context>();
        seats kitchen{*ctx, {.seats = 3, .max_hold = 10s}};
        int calls = 0;
        asio::cancellation_signal signal;
        kitchen.async_wait_overdue(asio::bind_cancellation_slot(
            signal.slot(), [&, mine = kitchen.try_enter()](error_code, weir::overdue const&) {
                ++calls;
                BOOST_TEST(kitchen.stats().live == 1U);
            }));
        settle(*ctx);
        if (how == 0)
            run_for(*ctx, 10s);
        else if (how == 1)
            kitchen.cancel();
        else if (how == 2)
            signal.emit(asio::cancellation_type::partial);
        else
            ctx.reset();
        if (ctx)
            settle(*ctx);
        BOOST_TEST(calls == (how == 3 ? 0 : 1));
        BOOST_TEST(kitchen.stats().live == 0U);
    }
}

BOOST_AUTO_TEST_CASE(handlers_that_throw_lose_no_report_of_other_permits) {
    asio::io_context ctx;
    seats kitchen{ctx, {.seats = 5, .max_hold = 10s}};
    std::vector<permit> held;
    for (int i = 0; i != 5; ++i)
        held.push_back(kitchen.try_enter());
    std::set<std::uint64_t> told;
    for (int i = 0; i != 5; ++i) {
        kitchen.async_wait_overdue([&](error_code ec, weir::overdue const& found) {
            BOOST_TEST(!ec);
            told.insert(found.id);
            throw std::runtime_error("no more of this");
        });
    }
    int thrown = 0;
    for (bool again = true; again;) {
        try {
            run_for(ctx, 50s);
            again = false;
        } catch (std::runtime_error const&) {
            ++thrown;
        }
    }
    BOOST_TEST(thrown == 5);
    BOOST_TEST(told.size() == 5U);
    BOOST_TEST(kitchen.stats().overdue == 5U);
}

BOOST_AUTO_TEST_CASE(a_watch_that_throws_and_waits_again_receives_all_reports) {
    asio::io_context ctx;
    seats kitchen{ctx, {.seats = 5, .max_hold = 10s}};
    std::vector<permit> held;
    for (int i = 0; i != 5; ++i)
        held.push_back(kitchen.try_enter());
    std::set<std::uint64_t> told;
    int thrown = 0;
    for (int i = 0; i != 5; ++i) {
        kitchen.async_wait_overdue([&](error_code, weir::overdue const& found) {
            told.insert(found.id);
            throw std::runtime_error("once more");
        });
        try {
            run_for(ctx, 10s);
        } catch (std::runtime_error const&) {
            ++thrown;
        }
    }
    BOOST_TEST(thrown == 5);
    BOOST_TEST(told.size() == 5U);
}

BOOST_AUTO_TEST_SUITE_END()
