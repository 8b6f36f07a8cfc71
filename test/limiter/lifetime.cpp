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

// An object in a coroutine's frame. Its destruction is visible.
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

// Enters, and keeps the permit for ever.
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

BOOST_AUTO_TEST_CASE(the_destructor_closes_the_limiter_for_waiting_requests) {
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

BOOST_AUTO_TEST_CASE(a_permit_stays_valid_after_its_limiter) {
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

BOOST_AUTO_TEST_CASE(a_pending_grant_is_delivered_after_the_limiter) {
    asio::io_context ctx;
    std::optional<seats> kitchen(std::in_place, ctx, weir::seats_options{.seats = 1});
    visit at_once{*kitchen};
    visit waits{*kitchen};
    kitchen.reset();
    settle(ctx);
    BOOST_TEST(at_once.granted());
    BOOST_TEST(waits.rejected(errc::closed));
}

BOOST_AUTO_TEST_CASE(operations_that_start_after_their_limiter_complete_with_closed) {
    asio::io_context other;
    asio::io_context ctx;
    for (bool const in_use : {false, true}) {
        std::optional<seats> kitchen(
            std::in_place, ctx, weir::seats_options{.seats = 1, .max_hold = 1s});
        auto seat = kitchen->try_enter();
        visit waits;
        if (in_use)  // so that the limiter still has work when it is destroyed
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
        BOOST_TEST(guest.waiting());  // not called inside the initiating function
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

BOOST_AUTO_TEST_CASE(an_operation_that_never_starts_keeps_only_itself_alive) {
    asio::io_context ctx;
    std::optional<seats> kitchen(std::in_place, ctx, weir::seats_options{.seats = 1});
    auto const enter = kitchen->async_enter(asio::deferred);
    auto const drain = kitchen->async_drain(asio::deferred);
    kitchen.reset();
    ctx.poll();
    BOOST_TEST(ctx.stopped());
}

BOOST_AUTO_TEST_CASE(a_handler_can_destroy_the_limiter_that_calls_it) {
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

    // The handler of the last request can do so too.
    kitchen = std::make_unique<seats>(ctx, weir::seats_options{.seats = 1});
    auto seat = kitchen->try_enter();
    kitchen->async_enter([&](error_code, permit) { kitchen.reset(); });
    settle(ctx);
    seat.leave();
    settle(ctx);
    BOOST_TEST(!kitchen);
    BOOST_TEST(ctx.stopped());

    // So can the handler of an overdue report, while a request waits.
    kitchen = std::make_unique<seats>(ctx, weir::seats_options{.seats = 1, .max_hold = 1s});
    kitchen->async_wait_overdue([&](error_code, weir::overdue const&) { kitchen.reset(); });
    seat = kitchen->try_enter();
    visit waits{*kitchen};
    run_for(ctx, 2s);
    BOOST_TEST(!kitchen);
    BOOST_TEST(waits.rejected(errc::closed));
    BOOST_TEST(ctx.stopped());
}

BOOST_AUTO_TEST_CASE(a_context_that_ends_destroys_waiting_handlers_without_a_call) {
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

    // The remaining limiter does arithmetic, and grants no permit.
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

BOOST_AUTO_TEST_CASE(a_coroutine_elsewhere_is_rejected_when_the_context_of_the_limiter_ends) {
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

BOOST_AUTO_TEST_CASE(pending_grants_are_released_when_the_context_ends) {
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

BOOST_AUTO_TEST_CASE(a_handler_can_own_its_limiter) {
    // The waiting handler owns the limiter: the end of the context breaks the cycle.
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

    // The same with a handler that owns the permit too, and with a drain.
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

BOOST_AUTO_TEST_CASE(the_destructor_of_a_waiting_handler_can_use_the_limiter) {
    struct last_words {
        explicit last_words(std::function<void()> f) : say(std::move(f)) {}
        // A moved std::function may keep its function.
        last_words(last_words&& other) noexcept : say(std::exchange(other.say, nullptr)) {}
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

BOOST_AUTO_TEST_CASE(an_erased_handler_destroyed_by_its_context_releases_the_permit) {
    auto other = std::make_unique<asio::io_context>();
    asio::io_context ctx;
    seats kitchen{ctx, {.seats = 1}};
    auto seat = kitchen.try_enter();
    visit guest;
    kitchen.async_enter(asio::bind_executor(*other, guest.callback()));
    settle(ctx);
    seat.leave();
    settle(ctx);  // granted; the handler is posted to the other context
    BOOST_TEST(kitchen.stats().live == 1U);
    other.reset();
    BOOST_TEST(guest.dropped());
    BOOST_TEST(kitchen.stats().live == 0U);
    BOOST_TEST(bool(kitchen.try_enter()));
}

BOOST_AUTO_TEST_CASE(a_grant_destroyed_with_its_context_passes_to_the_next_request) {
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

// Like a strand whose context ends.
BOOST_AUTO_TEST_CASE(a_grant_that_an_executor_destroys_passes_to_the_next_request) {
    asio::io_context ctx;
    faults plan;
    faulty_executor const ending(ctx.get_executor(), plan);
    seats kitchen{ctx, {.seats = 1}, {.max_waiting = 100'000}};
    auto seat = kitchen.try_enter();
    visit first;
    visit last;
    kitchen.async_enter(asio::bind_executor(ending, first.callback()));
    for (int i = 0; i != 50'000; ++i)  // more than the stack can hold
        kitchen.async_enter(asio::bind_executor(ending, [](error_code, permit) {}));
    kitchen.async_enter(last.callback());
    settle(ctx);
    plan.dropping = true;
    seat.leave();
    settle(ctx);
    BOOST_TEST(first.dropped());
    BOOST_TEST(last.granted());

    // A permit of an immediate completion is released too.
    visit rejected;
    kitchen.async_enter(2, asio::bind_executor(ending, rejected.callback()));
    BOOST_TEST(rejected.dropped());
    last.leave();
    visit granted;
    kitchen.async_enter(asio::bind_executor(ending, granted.callback()));
    BOOST_TEST(granted.dropped());
    BOOST_TEST(kitchen.stats().remaining == 1);
}

BOOST_AUTO_TEST_CASE(permits_are_released_on_other_threads_after_limiter_and_context) {
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
    other = std::move(moved);  // destroys the former limiter
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

BOOST_AUTO_TEST_CASE(limiters_of_several_types_share_a_context_that_ends) {
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

BOOST_AUTO_TEST_CASE(one_context_creates_and_destroys_many_limiters) {
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
