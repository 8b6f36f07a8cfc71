#include "support/virtual_limiters.hpp"
#include "support/visit.hpp"

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/test/unit_test.hpp>

#include <memory>
#include <stdexcept>
#include <string>

using namespace support;
using weir::errc;
using weir::error_code;
using weir::permit;

namespace {

struct burnt : std::runtime_error {
    burnt() : std::runtime_error("burnt") {}
};

// Counts its instances, including copies and moved-from objects.
class counted {
public:
    explicit counted(int& live) : live_(&live) { ++*live_; }
    counted(counted const& other) : live_(other.live_) { ++*live_; }
    counted& operator=(counted const&) = delete;
    ~counted() { --*live_; }
    [[nodiscard]] int live() const { return *live_; }

private:
    int* live_;
};

struct one_seat {
    asio::io_context ctx;
    seats kitchen{ctx, {.seats = 1}};
    int done = 0;
};

}  // namespace

BOOST_AUTO_TEST_SUITE(limiter_run)

BOOST_FIXTURE_TEST_CASE(enters_calls_releases_and_returns_the_result, one_seat) {
    auto cook = [&] {
        BOOST_TEST(kitchen.stats().remaining == 0);
        return std::string("soup");
    };
    auto dine = [&]() -> asio::awaitable<int> {
        weir::testing::timer meal{ctx, 1s};
        co_await meal.async_wait(asio::deferred);
        BOOST_TEST(kitchen.stats().remaining == 0);
        co_return 42;
    };
    auto guest = [&]() -> asio::awaitable<void> {
        auto const soup = co_await kitchen.run(cook);
        BOOST_TEST(soup == "soup");
        BOOST_TEST(kitchen.stats().remaining == 1);
        auto const answer = co_await kitchen.run(dine, 1, 1s);
        BOOST_TEST(answer == 42);
        BOOST_TEST(kitchen.stats().remaining == 1);
        ++done;
    };
    co_spawn(ctx, guest(), rethrow);
    run_for(ctx, 1s);
    BOOST_TEST(done == 1);
}

BOOST_FIXTURE_TEST_CASE(takes_a_count_a_patience_or_both, one_seat) {
    kitchen.configure({.seats = 3});
    auto in_use = [&] { return 3 - kitchen.stats().remaining; };
    auto guest = [&]() -> asio::awaitable<void> {
        BOOST_TEST((co_await kitchen.run(in_use)) == 1);
        BOOST_TEST((co_await kitchen.run(in_use, 2)) == 2);
        BOOST_TEST((co_await kitchen.run(in_use, 1s)) == 1);
        BOOST_TEST((co_await kitchen.run(in_use, 3, 1s)) == 3);
        ++done;
    };
    co_spawn(ctx, guest(), rethrow);
    settle(ctx);
    BOOST_TEST(done == 1);
}

BOOST_FIXTURE_TEST_CASE(returns_void_and_move_only_types, one_seat) {
    auto nothing = [&] { ++done; };
    auto nothing_later = [&]() -> asio::awaitable<void> {
        ++done;
        co_return;
    };
    auto only_one = [] { return std::make_unique<int>(3); };
    auto guest = [&]() -> asio::awaitable<void> {
        co_await kitchen.run(nothing);
        co_await kitchen.run(nothing_later);
        auto const three = co_await kitchen.run(only_one);
        done += *three;
    };
    co_spawn(ctx, guest(), rethrow);
    settle(ctx);
    BOOST_TEST(done == 5);
}

BOOST_FIXTURE_TEST_CASE(waits_for_a_permit_and_calls_nothing_if_rejected, one_seat) {
    auto seat = kitchen.try_enter();
    auto cook = [&] { ++done; };
    int rejected = 0;
    auto patient = [&]() -> asio::awaitable<void> { co_await kitchen.run(cook); };
    auto hasty = [&]() -> asio::awaitable<void> {
        try {
            co_await kitchen.run(cook, 1s);
        } catch (weir::rejection const& why) {
            BOOST_TEST(why.code() == errc::timed_out);
            ++rejected;
        }
    };
    co_spawn(ctx, patient(), rethrow);
    co_spawn(ctx, hasty(), rethrow);
    run_for(ctx, 2s);
    BOOST_TEST(done == 0);
    BOOST_TEST(rejected == 1);
    seat.leave();
    settle(ctx);
    BOOST_TEST(done == 1);
    BOOST_TEST(kitchen.stats().remaining == 1);
}

BOOST_FIXTURE_TEST_CASE(releases_when_the_function_throws, one_seat) {
    auto burns = [] { throw burnt(); };
    auto burns_later = [&]() -> asio::awaitable<void> {
        weir::testing::timer meal{ctx, 1s};
        co_await meal.async_wait(asio::deferred);
        throw burnt();
    };
    auto guest = [&]() -> asio::awaitable<void> {
        try {
            co_await kitchen.run(burns);
        } catch (burnt const&) {
            ++done;
        }
        try {
            co_await kitchen.run(burns_later, 1s);
        } catch (burnt const&) {
            ++done;
        }
    };
    co_spawn(ctx, guest(), rethrow);
    run_for(ctx, 1s);
    BOOST_TEST(done == 2);
    BOOST_TEST(kitchen.stats().remaining == 1);
}

BOOST_FIXTURE_TEST_CASE(can_be_cancelled_while_it_waits_and_while_the_function_runs, one_seat) {
    auto seat = kitchen.try_enter();
    auto dine = [&]() -> asio::awaitable<void> {
        weir::testing::timer meal{ctx, 1h};
        co_await meal.async_wait(asio::deferred);
    };
    auto guest = [&]() -> asio::awaitable<void> {
        try {
            co_await kitchen.run(dine);
        } catch (boost::system::system_error const& why) {
            BOOST_TEST(why.code() == asio::error::operation_aborted);
            ++done;
        }
    };
    asio::cancellation_signal waits;
    asio::cancellation_signal runs;
    co_spawn(ctx, guest(), asio::bind_cancellation_slot(waits.slot(), rethrow));
    co_spawn(ctx, guest(), asio::bind_cancellation_slot(runs.slot(), rethrow));
    settle(ctx);
    waits.emit(asio::cancellation_type::terminal);
    settle(ctx);
    BOOST_TEST(done == 1);
    seat.leave();
    settle(ctx);
    BOOST_TEST(kitchen.stats().remaining == 0);
    runs.emit(asio::cancellation_type::terminal);
    settle(ctx);
    BOOST_TEST(done == 2);
    BOOST_TEST(kitchen.stats().remaining == 1);
}

// With g++ 12, give a name to a lambda that captures an object with a destructor: a temporary inside a co_await
// expression is destroyed twice (compiler/coroutine_temporaries.cpp).
BOOST_FIXTURE_TEST_CASE(takes_functions_by_reference_and_copies_none, one_seat,
                        *boost::unit_test::label("whole")) {
    int live = 0;
    auto guest = [&](counted const what) -> asio::awaitable<void> {
        auto now = [what] { return what.live(); };
        auto later = [what]() -> asio::awaitable<int> {
            co_await asio::post(asio::deferred);
            co_return what.live();
        };
        auto const named = live;
        BOOST_TEST((co_await kitchen.run(now)) == named);
        BOOST_TEST((co_await kitchen.run(later)) == named);
        BOOST_TEST((co_await kitchen.run([&] { return live; })) == named);

        auto seat = kitchen.try_enter();
        weir::testing::timer closing_time{ctx, 1s};
        closing_time.async_wait([&](error_code) { seat.leave(); });
        BOOST_TEST((co_await kitchen.run(now, 1min)) == named);

        kitchen.close();
        try {
            co_await kitchen.run(later, 1, 1min);
        } catch (weir::rejection const&) {
            ++done;
        }
        BOOST_TEST(live == named);
    };
    co_spawn(ctx, guest(counted(live)), rethrow);
    run_for(ctx, 1s);
    BOOST_TEST(done == 1);
    BOOST_TEST(live == 0);
}

BOOST_FIXTURE_TEST_CASE(ends_with_its_context, one_seat) {
    int live = 0;
    permit seat;
    {
        asio::io_context other;
        seats cafe{other, {.seats = 1}};
        seat = cafe.try_enter();
        auto guest = [&](counted const what) -> asio::awaitable<void> {
            auto cook = [what] { return what.live(); };
            co_await cafe.run(cook);
        };
        co_spawn(other, guest(counted(live)), rethrow);
        settle(other);
        BOOST_TEST(live >= 2);
    }
    BOOST_TEST(live == 0);
}

BOOST_AUTO_TEST_SUITE_END()
