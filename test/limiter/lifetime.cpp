#include "support/faulty_executor.hpp"
#include "support/virtual_limiters.hpp"
#include "support/visit.hpp"

#include <boost/asio/any_completion_handler.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/test/unit_test.hpp>

#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

using namespace support;
using weir::errc;
using weir::error_code;
using weir::permit;

namespace {

// Something in a coroutine's frame whose end can be seen.
struct guest_book {
    int inside = 0;
    int rejected = 0;

    class entry {
    public:
        explicit entry(guest_book& book) : book_(&book) { ++book_->inside; }
        entry(entry const&) = delete;
        entry& operator=(entry const&) = delete;
        ~entry() { --book_->inside; }

    private:
        guest_book* book_;
    };
};

// Enters, and holds the permit for ever.
template <class Limiter>
asio::awaitable<void> stays_for_ever(Limiter& limiter, guest_book& book) {
    guest_book::entry const entry(book);
    try {
        permit const seat = co_await limiter.enter();
        weir::testing::timer for_ever{co_await asio::this_coro::executor, clock::time_point::max()};
        co_await for_ever.async_wait(asio::deferred);
    } catch (weir::rejection const&) {
        ++book.rejected;
    }
}

}  // namespace

BOOST_AUTO_TEST_SUITE(limiter_lifetime)

BOOST_AUTO_TEST_CASE(destroying_the_limiter_closes_it_for_those_who_wait) {
    asio::io_context ctx;
    std::optional<seats> kitchen(std::in_place, ctx, weir::seats_options{.seats = 1});
    auto seat = kitchen->try_enter();
    visit queued{*kitchen, 1h};
    settle(ctx);
    visit arriving{*kitchen};
    error_code drained;
    kitchen->async_drain([&](error_code ec) { drained = ec; });
    kitchen.reset();
    BOOST_TEST(queued.waiting());
    settle(ctx);
    BOOST_TEST(queued.rejected(errc::closed));
    BOOST_TEST(arriving.rejected(errc::closed));
    BOOST_TEST(drained == errc::closed);
    BOOST_TEST(ctx.stopped());
    BOOST_TEST((weir::testing::next_expiry(ctx) == clock::time_point::max()));
    BOOST_TEST(seat.remaining() == 0);
    seat.leave();
    BOOST_TEST(settle(ctx) == 0U);
}

BOOST_AUTO_TEST_CASE(a_permit_is_good_after_its_limiter_has_gone) {
    asio::io_context ctx;
    std::optional<seats> kitchen(std::in_place, ctx, weir::seats_options{.seats = 3});
    auto seat = kitchen->try_enter(2);
    auto other = kitchen->try_enter(1);
    kitchen.reset();
    BOOST_TEST(bool(seat));
    BOOST_TEST(seat.remaining() == 0);
    auto half = seat.split(1);
    half.leave();
    BOOST_TEST(seat.remaining() == 1);
    other.settle(0);
    BOOST_TEST(seat.remaining() == 2);
    seat.merge(std::move(other));
    seat.settle(5);
    BOOST_TEST(seat.count() == 5);
    BOOST_TEST(settle(ctx) == 0U);
}

BOOST_AUTO_TEST_CASE(what_was_granted_but_not_delivered_is_delivered_after_the_limiter_has_gone) {
    asio::io_context ctx;
    std::optional<seats> kitchen(std::in_place, ctx, weir::seats_options{.seats = 1});
    visit at_once{*kitchen};
    visit waits{*kitchen};
    kitchen.reset();
    settle(ctx);
    BOOST_TEST(at_once.granted());
    BOOST_TEST(waits.rejected(errc::closed));
}

BOOST_AUTO_TEST_CASE(
    operations_that_are_started_after_their_limiter_has_gone_are_told_that_it_is_closed) {
    asio::io_context other;
    asio::io_context ctx;
    for (bool const in_use : {false, true}) {
        std::optional<seats> kitchen(
            std::in_place, ctx, weir::seats_options{.seats = 1, .max_hold = 1s});
        auto seat = kitchen->try_enter();
        visit waits;
        if (in_use)  // so that the limiter still has something to do when it goes
            kitchen->async_enter(waits.callback());
        auto enter = kitchen->async_enter(asio::deferred);
        auto enter_elsewhere = kitchen->async_enter(1, 1h, asio::deferred);
        auto awaited = kitchen->async_enter();
        auto drain = kitchen->async_drain(asio::deferred);
        auto watch = kitchen->async_wait_overdue(asio::deferred);
        kitchen.reset();
        if (!in_use)
            seat.leave();

        std::vector<error_code> told;
        auto const note = [&](error_code ec, auto const&...) { told.push_back(ec); };
        visit guest;
        visit guest_elsewhere;
        std::move(enter)(guest.callback());
        std::move(enter_elsewhere)(asio::bind_executor(other, guest_elsewhere.callback()));
        std::move(drain)(note);
        std::move(watch)(note);
        bool rejected = false;
        auto const awaits = [&]() -> asio::awaitable<void> {
            try {
                permit const none = co_await std::move(awaited);
            } catch (weir::rejection const& why) {
                rejected = why.code() == errc::closed;
            }
        };
        co_spawn(ctx, awaits(), rethrow);
        BOOST_TEST(guest.waiting());  // not from within
        BOOST_TEST(told.empty());
        settle(ctx, other);
        BOOST_TEST(guest.rejected(errc::closed));
        BOOST_TEST(guest_elsewhere.rejected(errc::closed));
        BOOST_TEST((told == std::vector<error_code>{errc::closed, errc::closed}));
        BOOST_TEST(rejected);
        BOOST_TEST(!waits.waiting());
        BOOST_TEST(ctx.stopped());
        BOOST_TEST(other.stopped());
    }
}

BOOST_AUTO_TEST_CASE(an_operation_that_is_never_started_keeps_nothing_alive_but_itself) {
    asio::io_context ctx;
    std::optional<seats> kitchen(std::in_place, ctx, weir::seats_options{.seats = 1});
    auto const enter = kitchen->async_enter(asio::deferred);
    auto const drain = kitchen->async_drain(asio::deferred);
    kitchen.reset();
    ctx.poll();
    BOOST_TEST(ctx.stopped());
}

BOOST_AUTO_TEST_CASE(a_handler_may_destroy_the_limiter_that_calls_it) {
    asio::io_context ctx;
    auto kitchen = std::make_unique<seats>(ctx, weir::seats_options{.seats = 2});
    auto both = kitchen->try_enter(2);
    kitchen->async_enter([&](error_code ec, permit) {
        BOOST_TEST(!ec);
        kitchen.reset();
    });
    visit served_with_it{*kitchen};
    visit behind{*kitchen, 1h};
    settle(ctx);
    both.leave();
    settle(ctx);
    BOOST_TEST(!kitchen);
    BOOST_TEST(served_with_it.granted());
    BOOST_TEST(behind.rejected(errc::closed));
    BOOST_TEST(ctx.stopped());

    // The same for the last one.
    kitchen = std::make_unique<seats>(ctx, weir::seats_options{.seats = 1});
    auto seat = kitchen->try_enter();
    kitchen->async_enter([&](error_code, permit) { kitchen.reset(); });
    settle(ctx);
    seat.leave();
    settle(ctx);
    BOOST_TEST(!kitchen);
    BOOST_TEST(ctx.stopped());

    // And from the report of an overdue permit, and from a timeout.
    kitchen = std::make_unique<seats>(ctx, weir::seats_options{.seats = 1, .max_hold = 1s});
    kitchen->async_wait_overdue([&](error_code, weir::overdue const&) { kitchen.reset(); });
    seat = kitchen->try_enter();
    visit waits{*kitchen};
    run_for(ctx, 2s);
    BOOST_TEST(!kitchen);
    BOOST_TEST(waits.rejected(errc::closed));
    BOOST_TEST(ctx.stopped());
}

BOOST_AUTO_TEST_CASE(a_context_that_ends_drops_those_who_wait_and_nothing_runs) {
    int called = 0;
    auto count = [&](error_code, permit) { ++called; };
    visit queued;
    visit arriving;
    visit granted;
    std::optional<seats> kitchen;
    permit seat;
    {
        asio::io_context ctx;
        kitchen.emplace(ctx, weir::seats_options{.seats = 2});
        seat = kitchen->try_enter();
        kitchen->async_enter(granted.callback());  // posted, never delivered
        kitchen->async_enter(queued.callback());
        kitchen->async_enter(1h, count);
        kitchen->async_drain([&](error_code) { ++called; });
        while (ctx.poll_one() != 0 && !granted.over()) {}
        kitchen->async_enter(arriving.callback());
        kitchen->async_enter(0, count);
    }
    BOOST_TEST(called == 0);
    BOOST_TEST(queued.dropped());
    BOOST_TEST(arriving.dropped());
    BOOST_TEST(kitchen->stats().waiting == 0U);

    // What is left does arithmetic, and lets nobody in.
    BOOST_TEST(kitchen->stats().live == 2U);
    error_code ec;
    BOOST_TEST(!kitchen->try_enter(1, ec));
    BOOST_TEST(ec == errc::closed);
    BOOST_TEST(!kitchen->charge(1));
    kitchen->configure({.seats = 5});
    BOOST_TEST(kitchen->options().seats == 5);
    kitchen->cancel();
    kitchen->close();
    seat.leave();
    granted.leave();
    BOOST_TEST(kitchen->stats().remaining == 5);
    BOOST_TEST(kitchen->stats().live == 0U);
}

BOOST_AUTO_TEST_CASE(a_coroutine_elsewhere_is_rejected_by_a_limiter_whose_context_has_ended) {
    asio::io_context home;
    std::optional<seats> kitchen;
    visit waited;
    permit seat;
    {
        asio::io_context ctx;
        kitchen.emplace(ctx, weir::seats_options{.seats = 1});
        seat = kitchen->try_enter();
        kitchen->async_enter(waited.callback());
        settle(ctx);
    }
    BOOST_TEST(waited.dropped());
    int rejected = 0;
    auto guest = [&]() -> asio::awaitable<void> {
        try {
            permit const none = co_await kitchen->enter();
        } catch (weir::rejection const& why) {
            BOOST_TEST(why.code() == errc::closed);
            ++rejected;
        }
    };
    co_spawn(home, guest(), rethrow);
    settle(home);
    BOOST_TEST(rejected == 1);
}

BOOST_AUTO_TEST_CASE(granted_but_undelivered_permits_come_home_when_the_context_ends) {
    std::optional<seats> kitchen;
    visit at_home;
    visit elsewhere;
    {
        asio::io_context other;
        asio::io_context ctx;
        kitchen.emplace(ctx, weir::seats_options{.seats = 2});
        auto seat = kitchen->try_enter();
        kitchen->async_enter(at_home.callback());  // granted, posted
        kitchen->async_enter(asio::bind_executor(other, elsewhere.callback()));
        seat.leave();
        BOOST_TEST(kitchen->stats().live >= 1U);
    }
    BOOST_TEST(at_home.dropped());
    BOOST_TEST(elsewhere.dropped());
    BOOST_TEST(kitchen->stats().live == 0U);
    BOOST_TEST(kitchen->stats().remaining == 2);
}

BOOST_AUTO_TEST_CASE(coroutines_end_with_their_context_in_every_order_of_destruction) {
    enum class part { context, limiter, permits };
    using sequence = std::vector<part>;
    for (sequence const& order :
         {sequence{part::context, part::limiter, part::permits},
          sequence{part::context, part::permits, part::limiter},
          sequence{part::limiter, part::context, part::permits},
          sequence{part::limiter, part::permits, part::context},
          sequence{part::permits, part::context, part::limiter},
          sequence{part::permits, part::limiter, part::context}}) {
        for (bool const run_between : {false, true}) {
            // Setup
            guest_book book;
            auto ctx = std::make_unique<asio::io_context>();
            auto kitchen = std::make_unique<seats>(*ctx, weir::seats_options{.seats = 3});
            auto printer =
                std::make_unique<sliding_log>(*ctx, weir::sliding_log_options{.limit = 1});
            std::vector<permit> permits;
            permits.push_back(kitchen->try_enter());
            permits.push_back(kitchen->try_enter());
            permits.push_back(printer->try_enter());
            for (int i = 0; i != 3; ++i) {
                co_spawn(*ctx, stays_for_ever(*kitchen, book), rethrow);
                co_spawn(asio::make_strand(*ctx), stays_for_ever(*kitchen, book), rethrow);
                co_spawn(*ctx, stays_for_ever(*printer, book), rethrow);
            }
            ctx->poll();
            BOOST_TEST(book.inside == 9);

            // Act
            for (part const next : order) {
                switch (next) {
                    case part::context:
                        ctx.reset();
                        break;
                    case part::limiter:
                        kitchen.reset();
                        printer.reset();
                        break;
                    case part::permits:
                        permits.clear();
                        break;
                }
                if (run_between && ctx)
                    ctx->poll();
            }

            // Check
            BOOST_TEST(book.inside == 0);
        }
    }
}

BOOST_AUTO_TEST_CASE(a_limiter_inside_a_handler_of_its_own_context) {
    // Who waits owns the limiter: the cycle is broken when the context ends.
    std::weak_ptr<seats> alive;
    permit seat;
    {
        asio::io_context ctx;
        auto kitchen = std::make_shared<seats>(ctx, weir::seats_options{.seats = 1});
        alive = kitchen;
        seat = kitchen->try_enter();
        auto& limiter = *kitchen;
        limiter.async_enter([kitchen = std::move(kitchen)](error_code, permit) {});
        settle(ctx);
        BOOST_TEST(!alive.expired());
    }
    BOOST_TEST(alive.expired());

    // The same, with the permit in the handler as well, and a drain.
    {
        asio::io_context ctx;
        auto kitchen = std::make_shared<seats>(ctx, weir::seats_options{.seats = 1});
        alive = kitchen;
        auto& limiter = *kitchen;
        auto only = kitchen->try_enter();
        limiter.async_drain([kitchen, only = std::move(only)](error_code) {});
        limiter.async_enter([kitchen = std::move(kitchen)](error_code, permit) {});
        settle(ctx);
        BOOST_TEST(!alive.expired());
    }
    BOOST_TEST(alive.expired());
}

BOOST_AUTO_TEST_CASE(a_handler_dropped_while_waiting_may_use_the_limiter_in_its_destructor) {
    struct last_words {
        explicit last_words(std::function<void()> f) : say(std::move(f)) {}
        last_words(last_words&&) = default;
        ~last_words() {
            if (say)
                say();
        }
        void operator()(error_code, permit) {}
        std::function<void()> say;
    };
    std::optional<seats> kitchen;
    permit seat;
    int said = 0;
    {
        asio::io_context ctx;
        kitchen.emplace(ctx, weir::seats_options{.seats = 2});
        seat = kitchen->try_enter(2);
        for (int i = 0; i != 3; ++i) {
            kitchen->async_enter(last_words([&] {
                ++said;
                kitchen->cancel();
                if (seat)
                    seat.split(std::min<weir::amount>(seat.count(), 1)).leave();
                BOOST_TEST(!kitchen->try_enter());
                static_cast<void>(kitchen->stats());
            }));
        }
        settle(ctx);
    }
    BOOST_TEST(said == 3);
    BOOST_TEST(kitchen->stats().remaining == 2);
}

BOOST_AUTO_TEST_CASE(an_erased_handler_that_is_dropped_by_its_context_gives_the_permit_back) {
    auto other = std::make_unique<asio::io_context>();
    asio::io_context ctx;
    seats kitchen{ctx, {.seats = 1}};
    auto seat = kitchen.try_enter();
    visit guest;
    kitchen.async_enter(asio::bind_executor(*other, guest.callback()));
    settle(ctx);
    seat.leave();
    settle(ctx);  // granted; the message is in the other context
    BOOST_TEST(kitchen.stats().live == 1U);
    other.reset();
    BOOST_TEST(guest.dropped());
    BOOST_TEST(kitchen.stats().live == 0U);
    BOOST_TEST(bool(kitchen.try_enter()));
}

BOOST_AUTO_TEST_CASE(a_grant_dropped_with_its_context_goes_to_the_next_one) {
    auto other = std::make_unique<asio::io_context>();
    asio::io_context ctx;
    seats kitchen{ctx, {.seats = 1}};
    auto seat = kitchen.try_enter();
    visit dropped;
    kitchen.async_enter(asio::bind_executor(*other, dropped.callback()));
    visit next{kitchen};
    settle(ctx);
    seat.leave();
    settle(ctx);
    BOOST_TEST(next.waiting());
    other.reset();
    settle(ctx);
    BOOST_TEST(next.granted());
}

// As a strand does whose context is ending.
BOOST_AUTO_TEST_CASE(a_grant_dropped_silently_by_an_executor_goes_to_the_next_one) {
    asio::io_context ctx;
    faults plan;
    faulty_executor const ending(ctx.get_executor(), plan);
    seats kitchen{ctx, {.seats = 1}, {.max_waiting = 100'000}};
    auto seat = kitchen.try_enter();
    visit first;
    visit last;
    kitchen.async_enter(asio::bind_executor(ending, first.callback()));
    for (int i = 0; i != 50'000; ++i)  // more than there is stack for
        kitchen.async_enter(asio::bind_executor(ending, [](error_code, permit) {}));
    kitchen.async_enter(last.callback());
    settle(ctx);
    plan.dropping = true;
    seat.leave();
    settle(ctx);
    BOOST_TEST(first.dropped());
    BOOST_TEST(last.granted());

    // The same when it is over at once.
    visit rejected;
    kitchen.async_enter(2, asio::bind_executor(ending, rejected.callback()));
    BOOST_TEST(rejected.dropped());
    last.leave();
    visit granted;
    kitchen.async_enter(asio::bind_executor(ending, granted.callback()));
    BOOST_TEST(granted.dropped());
    BOOST_TEST(kitchen.stats().remaining == 1);
}

BOOST_AUTO_TEST_CASE(permits_come_home_from_other_threads_after_everything_has_gone) {
    std::vector<permit> permits;
    {
        asio::thread_pool pool(1);
        seats kitchen{pool, {.seats = 4}};
        for (int i = 0; i != 4; ++i)
            permits.push_back(kitchen.try_enter());
        kitchen.async_enter([](error_code, permit) {});
    }
    std::vector<std::thread> threads;
    for (auto& held : permits)
        threads.emplace_back([mine = std::move(held)]() mutable { mine.leave(); });
    for (auto& thread : threads)
        thread.join();
    BOOST_TEST(!permits.front());
}

BOOST_AUTO_TEST_CASE(a_limiter_can_be_moved) {
    asio::io_context ctx;
    seats kitchen{ctx, {.seats = 1}};
    auto seat = kitchen.try_enter();
    visit guest{kitchen};
    seats moved(std::move(kitchen));
    settle(ctx);
    BOOST_TEST(guest.waiting());

    seats other{ctx, {.seats = 7}};
    visit none{other, 8};
    auto const all = other.try_enter(7);
    visit waits{other};
    settle(ctx);
    other = std::move(moved);  // what it was is destroyed
    settle(ctx);
    BOOST_TEST(waits.rejected(errc::closed));
    BOOST_TEST(guest.waiting());
    seat.leave();
    settle(ctx);
    BOOST_TEST(guest.granted());
    BOOST_TEST(other.options().seats == 1);

    auto& same = other;
    other = std::move(same);
    guest.leave();
    BOOST_TEST(bool(other.try_enter()));

    kitchen = seats{ctx, {.seats = 2}};
    BOOST_TEST(bool(kitchen.try_enter(2)));
}

BOOST_AUTO_TEST_CASE(limiters_of_several_kinds_share_a_context_that_ends) {
    guest_book book;
    {
        asio::io_context ctx;
        seats kitchen{ctx, {.seats = 1}};
        weir::seats real{ctx, {.seats = 1}};
        weir::sliding_log real_log{ctx, {.limit = 1, .window = 1h}};
        auto strand = asio::make_strand(ctx);
        seats on_strand{asio::any_io_executor(strand), {.seats = 1}};
        sliding_log printer{ctx, {.limit = 1, .window = 1h}};
        for (int i = 0; i != 3; ++i) {
            co_spawn(ctx, stays_for_ever(kitchen, book), rethrow);
            co_spawn(ctx, stays_for_ever(real, book), rethrow);
            co_spawn(strand, stays_for_ever(real_log, book), rethrow);
            co_spawn(strand, stays_for_ever(on_strand, book), rethrow);
            co_spawn(ctx, stays_for_ever(printer, book), rethrow);
        }
        ctx.poll();
        BOOST_TEST(book.inside == 15);
    }
    BOOST_TEST(book.inside == 0);
}

BOOST_AUTO_TEST_CASE(many_limiters_come_and_go_on_one_context) {
    asio::io_context ctx;
    for (int round = 0; round != 3; ++round) {
        std::vector<visit> guests;
        {
            std::vector<permit> held;
            std::vector<seats> many;
            for (int i = 0; i != 300; ++i) {
                many.emplace_back(ctx, weir::seats_options{.seats = 1});
                held.push_back(many.back().try_enter());
                guests.emplace_back(many.back(), 1h);
            }
            settle(ctx);
        }
        settle(ctx);
        BOOST_TEST(std::ranges::all_of(guests, [](visit const& guest) {
            return guest.rejected(errc::closed);
        }));
        BOOST_TEST(ctx.stopped());
    }
}

BOOST_AUTO_TEST_SUITE_END()
