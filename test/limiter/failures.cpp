#include "support/counting_allocator.hpp"
#include "support/faulty_executor.hpp"
#include "support/virtual_limiters.hpp"
#include "support/visit.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/bind_allocator.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/strand.hpp>
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <memory>
#include <new>
#include <optional>
#include <stdexcept>
#include <vector>

using namespace support;
using weir::errc;
using weir::error_code;
using weir::permit;

namespace {

// A limiter whose executor fails on demand.
struct shaky_house {
    using executor = faulty_executor<asio::io_context::executor_type>;

    asio::io_context ctx;
    faults plan;
    executor shaky{ctx.get_executor(), plan};
    seats kitchen{asio::any_io_executor(shaky), {.seats = 1}};
};

struct kitchen_fire : std::runtime_error {
    kitchen_fire() : std::runtime_error("the executor failed") {}
};

}  // namespace

BOOST_AUTO_TEST_SUITE(limiter_failures)

BOOST_FIXTURE_TEST_CASE(a_faulty_executor_without_a_failure_is_like_any_other, shaky_house) {
    auto seat = kitchen.try_enter();
    visit guest{kitchen};
    visit impatient{kitchen, 1s};
    run_for(ctx, 2s);
    seat.leave();
    settle(ctx);
    BOOST_TEST(guest.granted());
    BOOST_TEST(impatient.rejected(errc::timed_out));
    BOOST_TEST(ctx.stopped());
}

BOOST_FIXTURE_TEST_CASE(a_request_that_cannot_be_queued_throws_the_exception, shaky_house) {
    auto seat = kitchen.try_enter();
    asio::cancellation_signal signal;
    visit guest;
    plan.fail_next();
    auto token = [&] { return asio::bind_cancellation_slot(signal.slot(), guest.callback()); };
    BOOST_CHECK_THROW(kitchen.async_enter(1s, token()), fault);
    BOOST_TEST(guest.dropped());
    BOOST_TEST(kitchen.stats().waiting == 0U);
    signal.emit(asio::cancellation_type::all);

    // The failed request left no trace: the next one is granted.
    visit next{kitchen};
    settle(ctx);
    seat.leave();
    settle(ctx);
    BOOST_TEST(next.granted());
    BOOST_TEST(ctx.stopped());
}

BOOST_FIXTURE_TEST_CASE(a_failure_in_a_coroutine_is_thrown_by_run_as_in_asio, shaky_house) {
    auto seat = kitchen.try_enter();
    auto const frame = std::make_shared<int>();
    auto guest = [&](std::shared_ptr<int>) -> asio::awaitable<void> {
        plan.fail_next();
        permit const none = co_await kitchen.enter();
        BOOST_ERROR("was resumed");
    };
    co_spawn(ctx, guest(frame), rethrow);
    BOOST_CHECK_THROW(settle(ctx), fault);
    settle(ctx);
    BOOST_TEST(frame.use_count() == 1);  // the coroutine is destroyed
    BOOST_TEST(kitchen.stats().waiting == 0U);
    BOOST_TEST(ctx.stopped());
}

BOOST_FIXTURE_TEST_CASE(a_grant_that_cannot_be_posted_throws_the_exception_and_grants_nothing,
                        shaky_house) {
    visit guest;
    plan.fail_next();
    BOOST_CHECK_THROW(kitchen.async_enter(guest.callback()), fault);
    BOOST_TEST(guest.dropped());
    BOOST_TEST(kitchen.stats().live == 0U);
    BOOST_TEST(kitchen.stats().remaining == 1);

    visit too_many;
    plan.fail_next();
    BOOST_CHECK_THROW(kitchen.async_enter(2, too_many.callback()), fault);
    BOOST_TEST(too_many.dropped());

    visit drainer;
    bool called = false;
    plan.fail_next();
    BOOST_CHECK_THROW(kitchen.async_drain([&](error_code) { called = true; }), fault);
    settle(ctx);
    BOOST_TEST(!called);
}

BOOST_FIXTURE_TEST_CASE(a_request_that_cannot_be_queued_has_no_effect_on_others, shaky_house) {
    auto seat = kitchen.try_enter();
    visit before{kitchen};
    settle(ctx);
    visit guest;
    plan.fail_next(-1);
    bool thrown = false;
    try {
        kitchen.async_enter(1ms, guest.callback());
    } catch (fault const&) {
        thrown = true;
    }
    plan.mend();
    BOOST_TEST(guest.dropped() == thrown);
    visit after{kitchen};
    run_for(ctx, 1s);
    seat.leave();
    settle(ctx);
    BOOST_TEST(before.granted());
    before.leave();
    settle(ctx);
    BOOST_TEST(after.granted());
}

BOOST_FIXTURE_TEST_CASE(a_request_that_cannot_be_queued_evicts_no_request, shaky_house) {
    seats cafe{asio::any_io_executor(shaky),
               {.seats = 1},
               {.max_waiting = 1, .full = weir::when_full::evict_oldest}};
    auto seat = cafe.try_enter();
    visit first{cafe};
    settle(ctx);
    visit guest;
    plan.fail_next();
    BOOST_CHECK_THROW(cafe.async_enter(1s, guest.callback()),
                      fault);  // needs a step for the timer
    settle(ctx);
    BOOST_TEST(guest.dropped());
    BOOST_TEST(first.waiting());
    BOOST_TEST(cafe.stats().shed == 0U);
}

BOOST_FIXTURE_TEST_CASE(any_call_retries_a_grant_whose_post_failed, shaky_house) {
    enum class call {
        try_enter,
        enter,
        async_enter,
        leave,
        refund,
        settle_down,
        charge,
        configure,
        configure_queue,
        shutdown,
        cancel_other,
        drain,
        wait_overdue
    };
    using enum call;
    for (auto const how :
         {try_enter, enter, async_enter, leave, refund, settle_down, charge, configure,
          configure_queue, shutdown, cancel_other, drain, wait_overdue}) {
        // Setup
        seats cafe{asio::any_io_executor(shaky), {.seats = 2}};
        auto seat = cafe.try_enter();
        auto other = cafe.try_enter();
        visit guest{cafe};
        asio::cancellation_signal signal;
        visit behind;
        cafe.async_enter(2, asio::bind_cancellation_slot(signal.slot(), behind.callback()));
        settle(ctx);
        plan.fail_next(-1);
        seat.leave();
        plan.mend();
        settle(ctx);
        BOOST_TEST(guest.waiting());
        BOOST_TEST(cafe.stats().live == 2U);  // its seat is granted, but its handler has not run

        // Act
        auto late = [&]() -> asio::awaitable<void> {
            co_await cafe.async_enter(0s, asio::as_tuple(asio::deferred));
        };
        switch (how) {
            case try_enter:
                BOOST_TEST(!cafe.try_enter());
                break;
            case enter:
                co_spawn(ctx, late(), rethrow);
                break;
            case async_enter:
                cafe.async_enter(0s, [](error_code, permit) {});
                break;
            case leave:
                other.leave();
                break;
            case refund:
                other.refund();
                break;
            case settle_down:
                other.settle(0);
                break;
            case charge:
                BOOST_TEST(bool(cafe.charge(1)));
                break;
            case configure:
                cafe.configure([](weir::seats_options& o) { o.seats = 3; });
                break;
            case configure_queue:
                cafe.configure_queue([](weir::queue_options& o) { o.max_waiting = 7; });
                break;
            case shutdown:
                cafe.shutdown();
                break;
            case cancel_other:
                signal.emit(asio::cancellation_type::terminal);
                break;
            case drain:
                cafe.async_drain([](error_code) {});
                break;
            case wait_overdue:
                cafe.async_wait_overdue([](error_code, weir::overdue const&) {});
                break;
        }

        // Check
        settle(ctx);
        BOOST_TEST(guest.granted(), "call number " << static_cast<int>(how));
    }
    BOOST_TEST(plan.failed >= 13);
}

BOOST_FIXTURE_TEST_CASE(the_timer_retries_too, shaky_house) {
    auto seat = kitchen.try_enter();
    visit guest{kitchen};
    visit patient{kitchen, 5s};
    settle(ctx);
    plan.fail_next(-1);
    seat.leave();
    plan.mend();
    run_for(ctx, 6s);
    BOOST_TEST(guest.granted());
}

BOOST_FIXTURE_TEST_CASE(any_call_retries_close_and_cancel_too, shaky_house) {
    auto seat = kitchen.try_enter();
    visit guest{kitchen};
    settle(ctx);
    plan.fail_next(-1);
    kitchen.cancel();
    plan.mend();
    settle(ctx);
    BOOST_TEST(guest.waiting());
    BOOST_TEST(!kitchen.try_enter());
    settle(ctx);
    BOOST_TEST(guest.rejected(asio::error::operation_aborted));

    visit other{kitchen};
    settle(ctx);
    plan.fail_next(-1);
    kitchen.close();
    plan.mend();
    settle(ctx);
    BOOST_TEST(other.waiting());
    seat.leave();
    settle(ctx);
    BOOST_TEST(other.rejected(errc::closed));
}

BOOST_FIXTURE_TEST_CASE(any_post_can_fail_and_no_request_waits_for_ever, shaky_house) {
    int ended = 0;
    for (int k = 0; k != 20; ++k) {
        // Setup
        seats cafe{asio::any_io_executor(shaky), {.seats = 2}};
        std::vector<std::unique_ptr<weir::testing::timer>> meals;
        int over = 0;
        int thrown = 0;
        auto dine = [&](error_code ec, permit seat) {
            ++over;
            if (ec)
                return;
            meals.push_back(std::make_unique<weir::testing::timer>(ctx, 1s));
            meals.back()->async_wait([held = std::move(seat)](error_code) {});
        };
        plan.fail_next(1, k);
        for (int const n : {1, 2, 1, 2, 2, 1}) {
            try {
                cafe.async_enter(n, 10s, dine);
            } catch (fault const&) {
                ++over;
                ++thrown;
            }
        }

        // Act
        try {
            run_for(ctx, 20s);
        } catch (fault const&) {  // the timer of the limiter threw it
            ++thrown;
        }
        ended += plan.skip >= 0 ? 1 : 0;
        plan.mend();
        static_cast<void>(cafe.try_enter());  // retries a failed post
        run_for(ctx, 20s);

        // Check
        BOOST_TEST(over == 6, "post number " << k);
        BOOST_TEST(thrown <= 1);
        BOOST_TEST(cafe.stats().live == 0U);
        BOOST_TEST(cafe.stats().waiting == 0U);
    }
    BOOST_TEST(ended != 0);  // some k was beyond the last post
}

BOOST_AUTO_TEST_CASE(a_handler_whose_executor_fails_is_posted_again) {
    asio::io_context ctx;
    faults plan;
    faulty_executor shaky(ctx.get_executor(), plan);
    seats kitchen{ctx, {.seats = 1}};
    auto seat = kitchen.try_enter();
    visit guest;
    kitchen.async_enter(asio::bind_executor(shaky, guest.callback()));
    visit behind{kitchen};
    settle(ctx);
    plan.fail_next(3);
    seat.leave();
    settle(ctx);
    BOOST_TEST(plan.failed == 3);
    BOOST_TEST(guest.granted());
    BOOST_TEST(behind.waiting());
    guest.leave();
    settle(ctx);
    BOOST_TEST(behind.granted());
}

// Like a strand whose inner executor throws: it calls the function nevertheless. So the limiter must not post the
// handler again: that would call or destroy it twice.
BOOST_AUTO_TEST_CASE(a_handler_whose_executor_fails_after_storing_it_is_called_once) {
    asio::io_context ctx;
    faults plan;
    plan.keeping = true;
    faulty_executor shaky(ctx.get_executor(), plan);
    seats kitchen{ctx, {.seats = 1, .max_hold = 1h}};
    for (int failures = 1; failures != 4; ++failures) {
        // A grant, a rejection, a drain and a report of an overdue permit.
        auto seat = kitchen.try_enter();
        visit guest;
        visit impatient;
        int drained = 0;
        int told = 0;
        kitchen.async_enter(asio::bind_executor(shaky, guest.callback()));
        kitchen.async_enter(1s, asio::bind_executor(shaky, impatient.callback()));
        kitchen.async_drain(asio::bind_executor(shaky, [&](error_code) { ++drained; }));
        kitchen.async_wait_overdue(
            asio::bind_executor(shaky, [&](error_code, weir::overdue const&) { ++told; }));
        settle(ctx);
        plan.fail_next(-1);
        run_for(ctx, 2s);
        BOOST_TEST(impatient.rejected(errc::timed_out));
        run_for(ctx, 1h);
        BOOST_TEST(told == 1);
        seat.leave();
        settle(ctx);
        BOOST_TEST(guest.granted());
        guest.leave();
        settle(ctx);
        BOOST_TEST(drained == 1);
        plan.mend();
        BOOST_TEST(kitchen.stats().remaining == 1);
        BOOST_TEST(ctx.stopped());
    }
    BOOST_TEST(plan.failed == 12);
}

BOOST_AUTO_TEST_CASE(an_immediate_completion_happens_once_if_the_executor_fails_after_storing_it) {
    asio::io_context ctx;
    faults plan;
    plan.keeping = true;
    faulty_executor shaky(ctx.get_executor(), plan);
    seats kitchen{ctx, {.seats = 1}};
    visit guest;
    plan.fail_next();
    kitchen.async_enter(asio::bind_executor(shaky, guest.callback()));
    settle(ctx);
    BOOST_TEST(plan.failed == 1);
    BOOST_TEST(guest.granted());
    BOOST_TEST(kitchen.stats().live == 1U);
}

BOOST_AUTO_TEST_CASE(a_step_that_is_stored_though_its_post_failed_does_no_harm) {
    asio::io_context ctx;
    faults plan;
    plan.keeping = true;
    faulty_executor shaky(ctx.get_executor(), plan);
    for (int k = 0; k != 12; ++k) {
        seats kitchen{asio::any_io_executor(shaky), {.seats = 2}};
        auto both = kitchen.try_enter(2);
        std::vector<visit> guests(4);
        plan.fail_next(1, k);
        int rejected = 0;
        for (auto& guest : guests) {
            try {
                kitchen.async_enter(10s, guest.callback());
            } catch (fault const&) {
                ++rejected;
                BOOST_TEST(guest.dropped());
            }
        }
        auto const run_on = [&](clock::duration d) {
            try {
                run_for(ctx, d);
            } catch (fault const&) {  // the timer of the limiter threw it
            }
        };
        run_on(1s);
        both.leave();
        run_on(1s);
        plan.mend();
        static_cast<void>(kitchen.try_enter());
        run_for(ctx, 20s);
        BOOST_TEST(std::ranges::none_of(guests, &visit::waiting), "post number " << k);
        BOOST_TEST(kitchen.stats().waiting == 0U);
        BOOST_TEST(rejected <= 1);
    }
}

// A strand that stored a function before its inner executor threw never calls it: the strand considers itself running.
// The handler is destroyed with the context of the strand, once.
BOOST_AUTO_TEST_CASE(a_handler_on_a_strand_whose_executor_fails_is_destroyed_once) {
    for (bool const at_once : {false, true}) {
        auto other = std::make_unique<asio::io_context>();
        asio::io_context ctx;
        faults plan;
        faulty_executor const shaky(other->get_executor(), plan);
        seats kitchen{ctx, {.seats = 1}};
        auto seat = kitchen.try_enter();
        visit guest;
        visit behind;
        if (at_once)
            seat.leave();
        else
            kitchen.async_enter(asio::bind_executor(asio::make_strand(shaky), guest.callback()));
        settle(ctx);
        plan.fail_next();
        if (at_once)
            kitchen.async_enter(asio::bind_executor(asio::make_strand(shaky), guest.callback()));
        else
            seat.leave();
        kitchen.async_enter(behind.callback());
        settle(ctx, *other);
        BOOST_TEST(plan.failed == 1);
        BOOST_TEST(guest.waiting());
        BOOST_TEST(behind.waiting());
        BOOST_TEST(kitchen.stats().live == 1U);
        other.reset();
        BOOST_TEST(guest.dropped());
        settle(ctx);
        BOOST_TEST(behind.granted());
        BOOST_TEST(kitchen.stats().live == 1U);
    }
}

BOOST_AUTO_TEST_CASE(a_limiter_on_a_strand_whose_executor_fails_loses_no_permit_and_no_handler) {
    enum class call { enter, leave, cancel, close, destroy };
    using enum call;
    for (bool const keeping : {false, true}) {
        for (auto const act : {enter, leave, cancel, close, destroy}) {
            std::vector<visit> guests(4);
            permit seat;
            asio::io_context elsewhere;
            {
                asio::io_context ctx;
                faults plan;
                plan.keeping = keeping;
                faulty_executor const shaky(ctx.get_executor(), plan);
                std::optional<seats> kitchen(
                    std::in_place, asio::any_io_executor(asio::make_strand(shaky)),
                    weir::seats_options{.seats = 1});
                seat = kitchen->try_enter();
                kitchen->async_enter(asio::bind_executor(elsewhere, guests[0].callback()));
                kitchen->async_enter(guests[1].callback());
                settle(ctx);
                plan.fail_next();
                switch (act) {
                    case enter:  // needs a step for the timer
                        BOOST_CHECK_THROW(kitchen->async_enter(1s, guests[2].callback()), fault);
                        break;
                    case leave:
                        seat.leave();
                        break;
                    case cancel:
                        kitchen->cancel();
                        break;
                    case close:
                        kitchen->close();
                        break;
                    case destroy:
                        kitchen.reset();
                        break;
                }
                plan.mend();
                if (kitchen)
                    kitchen->async_enter(guests[3].callback());
                settle(ctx, elsewhere);
                if (act == leave)
                    BOOST_TEST(guests[0].granted());
                else if (act != enter)
                    BOOST_TEST(guests[0].over());
            }
            settle(elsewhere);  // completes the waiting requests of the destroyed limiter
            for (std::size_t i = 0; i != guests.size(); ++i)
                BOOST_TEST(!guests[i].waiting(), "guest " << i << ", call " << static_cast<int>(act)
                                                          << (keeping ? ", kept" : ""));
            guests.clear();
            seat.leave();
        }
    }
}

BOOST_FIXTURE_TEST_CASE(bad_alloc_while_queueing_has_no_effect_on_others, shaky_house) {
    auto seat = kitchen.try_enter();
    visit first{kitchen};
    allocations none{.until_failure = 0};
    visit guest;
    auto token = [&] { return asio::bind_allocator(counting_allocator<>(none), guest.callback()); };
    BOOST_CHECK_THROW(kitchen.async_enter(1s, token()), std::bad_alloc);
    BOOST_TEST(guest.dropped());
    BOOST_TEST(kitchen.stats().waiting == 1U);
    BOOST_TEST(none.live == 0);
    visit last{kitchen};
    settle(ctx);
    seat.leave();
    settle(ctx);
    first.leave();
    settle(ctx);
    BOOST_TEST(last.granted());
}

BOOST_AUTO_TEST_CASE(bad_alloc_at_the_second_allocation_releases_the_permit) {
    allocations one{.until_failure = 1};
    allocations two{.until_failure = 1};
    asio::io_context other;
    asio::io_context ctx;
    using io_executor = asio::io_context::executor_type;
    seats::rebind_executor<io_executor>::other kitchen{ctx, {.seats = 1}};
    visit guest;
    BOOST_CHECK_THROW(
        kitchen.async_enter(asio::bind_allocator(counting_allocator<>(one), guest.callback())),
        std::bad_alloc);
    BOOST_TEST(guest.dropped());
    BOOST_TEST(one.live == 0);
    BOOST_TEST(kitchen.stats().remaining == 1);

    // A grant that cannot be posted to another executor is posted again.
    auto seat = kitchen.try_enter();
    kitchen.async_enter(asio::bind_executor(
        other, asio::bind_allocator(counting_allocator<>(two), guest.callback())));
    ctx.poll();
    seat.leave();
    ctx.restart();
    for (int i = 0; i != 3; ++i)
        ctx.poll_one();
    BOOST_TEST(guest.waiting());
    two.until_failure = -1;
    settle(ctx, other);
    BOOST_TEST(guest.granted());
}

// Found elsewhere: dotnet/runtime#68776.
BOOST_AUTO_TEST_CASE(a_handler_that_throws_does_not_stop_the_others) {
    asio::io_context ctx;
    seats kitchen{ctx, {.seats = 3}};
    auto all = kitchen.try_enter(3);
    visit before{kitchen};
    kitchen.async_enter([](error_code, permit) { throw kitchen_fire(); });
    visit after{kitchen};
    settle(ctx);
    all.leave();
    BOOST_CHECK_THROW(settle(ctx), kitchen_fire);
    settle(ctx);
    BOOST_TEST(before.granted());
    BOOST_TEST(after.granted());
    BOOST_TEST(kitchen.stats().live == 2U);
    BOOST_TEST(kitchen.stats().remaining == 1);
    BOOST_TEST(ctx.stopped());
}

BOOST_AUTO_TEST_CASE(all_handlers_can_throw) {
    asio::io_context ctx;
    seats kitchen{ctx, {.seats = 1}};
    auto seat = kitchen.try_enter();
    for (int i = 0; i != 5; ++i)
        kitchen.async_enter([](error_code, permit) { throw kitchen_fire(); });
    kitchen.async_enter(1s, [](error_code, permit) { throw kitchen_fire(); });
    run_for(ctx, 500ms);
    seat.leave();
    int fires = 0;
    for (bool again = true; again;) {
        try {
            run_for(ctx, 1s);
            again = false;
        } catch (kitchen_fire const&) {
            ++fires;
        }
    }
    BOOST_TEST(fires == 6);
    BOOST_TEST(kitchen.stats().remaining == 1);
}

BOOST_AUTO_TEST_CASE(an_overdue_handler_that_throws_does_no_other_harm) {
    asio::io_context ctx;
    seats kitchen{ctx, {.seats = 1, .max_hold = 1s}};
    kitchen.async_wait_overdue([](error_code, weir::overdue const&) { throw kitchen_fire(); });
    auto seat = kitchen.try_enter();
    visit guest{kitchen, 1s};
    visit patient{kitchen};
    BOOST_CHECK_THROW(run_for(ctx, 2s), kitchen_fire);
    run_for(ctx, 2s);
    BOOST_TEST(guest.rejected(errc::timed_out));
    seat.leave();
    settle(ctx);
    BOOST_TEST(patient.granted());
}

BOOST_AUTO_TEST_CASE(invalid_options_are_named) {
    asio::io_context ctx;
    auto const says = [](std::string_view option, std::string_view value) {
        return [=](std::invalid_argument const& e) {
            std::string_view const what = e.what();
            return what.find(option) != what.npos && what.find(value) != what.npos;
        };
    };
    auto make = [&](weir::seats_options const& o, weir::queue_options const& q = {}) {
        seats const kitchen{ctx, o, q};
    };
    auto make_log = [&](weir::sliding_log_options const& o) { sliding_log const printer{ctx, o}; };
    using std::invalid_argument;
    BOOST_CHECK_EXCEPTION(make({.seats = 0}), invalid_argument, says("seats is 0", "from 1"));
    BOOST_CHECK_EXCEPTION(make({.seats = -3}), invalid_argument, says("seats", "-3"));
    BOOST_CHECK_EXCEPTION(make({.seats = weir::max_amount + 1}), invalid_argument,
                          says("seats", "1000000000000001"));
    BOOST_CHECK_EXCEPTION(make({.max_hold = 0s}), invalid_argument, says("max_hold", "0"));
    BOOST_CHECK_EXCEPTION(make({}, {.max_waiting = -1}), invalid_argument,
                          says("max_waiting", "-1"));
    BOOST_CHECK_EXCEPTION(make({}, {.tolerance = -1ns}), invalid_argument, says("tolerance", "-1"));
    BOOST_CHECK_EXCEPTION(make({}, {.full = static_cast<weir::when_full>(99)}), invalid_argument,
                          says("full", "99"));
    BOOST_CHECK_EXCEPTION(make_log({.limit = 0}), invalid_argument, says("limit", "0"));
    BOOST_CHECK_EXCEPTION(make_log({.window = 0s}), invalid_argument, says("window", "0"));
    BOOST_CHECK_EXCEPTION(make_log({.window = -1s}), invalid_argument, says("window", "-1"));
}

BOOST_AUTO_TEST_SUITE_END()
