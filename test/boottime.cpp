// weir/boottime.hpp: the system clock that counts sleep, and its timer.

#include <weir/boottime.hpp>
#include <weir/keyed.hpp>
#include <weir/seats.hpp>
#include <weir/sliding_log.hpp>

#include <boost/asio.hpp>
#include <boost/test/unit_test.hpp>

#include <array>
#include <atomic>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

namespace asio = boost::asio;
using namespace std::chrono_literals;
using weir::error_code;

namespace boottime_tests {

using clock_type = weir::boottime_clock;
using timer = weir::boottime_timer;

namespace {

auto const aborted = error_code(asio::error::operation_aborted);

struct record {
    int calls = 0;
    error_code error;
    clock_type::time_point at;
};

auto noting(record& what) {
    return [&what](error_code ec) {
        ++what.calls;
        what.error = ec;
        what.at = clock_type::now();
    };
}

// Returns the number of timers of this process that count sleep.
int timers_that_count_sleep() {
    int found = 0;
    for (auto const& entry : std::filesystem::directory_iterator("/proc/self/fdinfo")) {
        std::ifstream lines(entry.path());
        for (std::string line; std::getline(lines, line);)
            found += line == "clockid: " + std::to_string(CLOCK_BOOTTIME);
    }
    return found;
}

}  // namespace

static_assert(clock_type::is_steady);
static_assert(std::is_nothrow_move_constructible_v<timer> && !std::is_copy_constructible_v<timer>);
static_assert(std::same_as<timer::rebind_executor<asio::io_context::executor_type>::other,
                           weir::basic_boottime_timer<asio::io_context::executor_type>>);
static_assert(std::same_as<weir::boottime<weir::seats>::clock_type, clock_type>);

BOOST_AUTO_TEST_SUITE(boottime)

BOOST_AUTO_TEST_CASE(is_the_time_since_the_machine_started) {
    std::timespec before{};
    std::timespec after{};
    ::clock_gettime(CLOCK_BOOTTIME, &before);
    auto const now = clock_type::now().time_since_epoch();
    ::clock_gettime(CLOCK_BOOTTIME, &after);
    BOOST_TEST(
        (now >= std::chrono::seconds(before.tv_sec) + std::chrono::nanoseconds(before.tv_nsec)));
    BOOST_TEST(
        (now <= std::chrono::seconds(after.tv_sec) + std::chrono::nanoseconds(after.tv_nsec)));
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(a_boottime_timer)

// Found elsewhere: systemd/systemd#42919.
BOOST_AUTO_TEST_CASE(is_a_system_timer_that_counts_sleep) {
    asio::io_context ctx;
    BOOST_TEST(timers_that_count_sleep() == 0);
    {
        timer const t(ctx);
        BOOST_TEST(timers_that_count_sleep() == 1);
    }
    BOOST_TEST(timers_that_count_sleep() == 0);
}

BOOST_AUTO_TEST_CASE(completes_at_its_expiry_and_not_before) {
    asio::io_context ctx;
    std::array<record, 2> waited;
    timer t(ctx, 5ms);
    for (auto& w : waited)
        t.async_wait(noting(w));
    ctx.run();
    for (auto const& w : waited) {
        BOOST_TEST(w.calls == 1);
        BOOST_TEST(!w.error);
        BOOST_TEST((w.at >= t.expiry()));
    }
}

BOOST_AUTO_TEST_CASE(never_completes_inside_the_initiating_function) {
    asio::io_context ctx;
    for (auto const expiry :
         {clock_type::time_point(-1s), clock_type::time_point(), clock_type::now()}) {
        record waited;
        timer t(ctx, expiry);
        t.async_wait(noting(waited));
        BOOST_TEST(waited.calls == 0);
        ctx.restart();
        ctx.run();
        BOOST_TEST(waited.calls == 1);
        BOOST_TEST(!waited.error);
    }
}

BOOST_AUTO_TEST_CASE(never_expires_at_the_last_instant) {
    asio::io_context ctx;
    record waited;
    timer t(ctx, clock_type::duration::max());
    BOOST_TEST((t.expiry() == clock_type::time_point::max()));
    t.async_wait(noting(waited));
    ctx.run_for(2ms);
    BOOST_TEST(waited.calls == 0);
    t.cancel();
    ctx.run();
    BOOST_TEST(waited.error == aborted);
}

BOOST_AUTO_TEST_CASE(cancels_pending_waits_when_its_expiry_changes) {
    asio::io_context ctx;
    record first;
    record second;
    timer t(ctx, 1h);
    t.async_wait(noting(first));
    t.expires_after(1ms);
    t.async_wait(noting(second));
    ctx.run();
    BOOST_TEST(first.error == aborted);
    BOOST_TEST(!second.error);
    BOOST_TEST((second.at >= t.expiry()));
}

// Both have expired, and the context knows this: the first handler changes the expiry of the other timer.
BOOST_AUTO_TEST_CASE(is_not_early_when_its_expiry_changes_after_it_expired) {
    asio::io_context ctx;
    std::array<timer, 2> timers{timer(ctx), timer(ctx)};
    int moved = 0;
    for (auto& t : timers) {
        t.async_wait([&](error_code ec) {
            if (ec)
                return;
            auto& other = timers[&t == timers.data()];
            other.expires_after(2ms);
            other.async_wait([&](error_code again) {
                BOOST_TEST(!again);
                BOOST_TEST((clock_type::now() >= other.expiry()));
            });
            ++moved;
        });
    }
    ctx.run();
    BOOST_TEST(moved == 1);
}

BOOST_AUTO_TEST_CASE(cancels_pending_waits_on_destruction_and_keeps_them_on_a_move) {
    asio::io_context ctx;
    record waited;
    {
        timer t(ctx, 1h);
        t.async_wait(noting(waited));
        timer u(std::move(t));
        ctx.poll();
        BOOST_TEST(waited.calls == 0);
    }
    ctx.restart();
    ctx.run();
    BOOST_TEST(waited.error == aborted);
    BOOST_TEST(waited.calls == 1);
}

BOOST_AUTO_TEST_CASE(takes_any_type_of_cancellation) {
    for (auto const type : {asio::cancellation_type::terminal, asio::cancellation_type::partial,
                            asio::cancellation_type::total}) {
        asio::io_context ctx;
        record waited;
        asio::cancellation_signal signal;
        timer t(ctx, 1h);
        t.async_wait(asio::bind_cancellation_slot(signal.slot(), noting(waited)));
        signal.emit(type);
        ctx.run();
        BOOST_TEST(waited.error == aborted);
    }
}

BOOST_AUTO_TEST_CASE(starts_to_wait_when_a_deferred_operation_starts) {
    asio::io_context ctx;
    record waited;
    timer t(ctx, 1h);
    auto later = t.async_wait(asio::deferred);
    t.expires_after(1ms);
    std::move(later)(noting(waited));
    ctx.run();
    BOOST_TEST(!waited.error);
    BOOST_TEST((waited.at >= t.expiry()));
}

BOOST_AUTO_TEST_CASE(may_be_owned_by_its_handler_when_the_context_ends) {
    auto token = std::make_shared<int>();
    std::weak_ptr<int> const watched = token;
    {
        asio::io_context ctx;
        auto const t = std::make_shared<timer>(ctx, 1h);
        t->async_wait([t, kept = std::move(token)](error_code) { BOOST_ERROR("called"); });
        BOOST_TEST(!watched.expired());
    }
    BOOST_TEST(watched.expired());
    BOOST_TEST(timers_that_count_sleep() == 0);
}

// The intermediate handler of a wait on one thread races with the owner on another.
BOOST_AUTO_TEST_CASE(can_change_on_one_thread_while_another_runs_its_context) {
    asio::io_context ctx;
    auto work = std::optional(asio::make_work_guard(ctx));
    std::thread runner([&] { ctx.run(); });
    std::atomic<int> completed = 0;
    constexpr int rounds = 2'000;
    {
        timer t(ctx);
        for (int i = 0; i < rounds; ++i) {
            t.expires_after(i % 3 * 1us);
            t.async_wait([&](error_code) { ++completed; });
        }
    }
    work.reset();
    runner.join();
    BOOST_TEST(completed == rounds);
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(a_limiter_that_counts_sleep)

BOOST_AUTO_TEST_CASE(grants_at_the_grant_time) {
    asio::io_context ctx;
    weir::boottime<weir::sliding_log> calls(ctx, {.limit = 1, .window = 5ms});
    auto const before = clock_type::now();
    auto const first = calls.try_enter();
    int granted = 0;
    for (int i = 0; i < 3; ++i)
        calls.async_enter([&](error_code ec, weir::permit) { granted += !ec; });
    calls.async_enter(1ms, [&](error_code ec, weir::permit) {
        BOOST_TEST((ec == weir::errc::deadline_unreachable));
    });
    ctx.run();
    BOOST_TEST(granted == 3);
    BOOST_TEST((clock_type::now() - before >= 15ms));
}

BOOST_AUTO_TEST_CASE(may_outlive_its_context) {
    std::optional<weir::boottime<weir::seats>> kitchen;
    weir::permit seat;
    {
        asio::io_context ctx;
        kitchen.emplace(ctx, weir::seats_options{.seats = 1});
        seat = kitchen->try_enter();
        kitchen->async_enter(1h, [](error_code, weir::permit) { BOOST_ERROR("called"); });
        ctx.poll();
    }
    seat.leave();
    BOOST_TEST(kitchen->stats().waiting == 0U);
    BOOST_TEST(timers_that_count_sleep() == 0);
}

BOOST_AUTO_TEST_CASE(may_have_keys) {
    asio::io_context ctx;
    weir::basic_keyed<int, weir::policy::sliding_log, asio::any_io_executor, timer> calls(
        ctx, {.limit = 1, .window = 2ms});
    int granted = 0;
    for (int i = 0; i < 6; ++i)
        calls.async_enter(i % 2, [&](error_code ec, weir::permit) { granted += !ec; });
    ctx.run();
    BOOST_TEST(granted == 6);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace boottime_tests
