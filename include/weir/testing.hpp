#pragma once

#include <weir/detail/context_of.hpp>
#include <weir/error.hpp>
#include <weir/key_hash.hpp>
#include <weir/limiter.hpp>
#include <weir/order.hpp>

#include <boost/asio/any_completion_handler.hpp>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/execution_context.hpp>
#include <boost/asio/query.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>

namespace weir::inline v0_2 {

template <class Key, class Policy, class Executor, class Timer, class Hash, class Queue>
class basic_keyed;
template <class T, class Executor, class Timer>
class basic_pool;
template <class Executor, class Timer>
class basic_rate_tree;

}  // namespace weir::inline v0_2

/// Virtual time for tests. A test of a day of virtual time takes milliseconds, and has the same result each time.
///
///     asio::io_context ctx;
///     weir::testing::limiter<weir::seats> workers{ctx, {.seats = 3}};
///     co_spawn(ctx, handle(workers), asio::detached);
///     weir::testing::run_for(ctx, 24h);
namespace weir::inline v0_2::testing {

/// The virtual clock. All contexts and threads of the process share it. It advances only in `advance_to`, `run`,
/// `run_for` and `run_until`, and never goes back.
class clock {
public:
    /// The type of a number of nanoseconds.
    using rep = std::int64_t;
    /// The unit, a nanosecond.
    using period = std::nano;
    /// The type of durations.
    using duration = std::chrono::nanoseconds;
    /// The type of instants.
    using time_point = std::chrono::time_point<clock>;
    /// The clock never goes back.
    static constexpr bool is_steady = true;

    /// Returns the virtual time.
    [[nodiscard]] static time_point now() noexcept;

    /// Advances to `t` without firing timers; does nothing if `t` is in the past.
    static void advance_to(time_point t) noexcept;
};

/// Derives all random values of the process from `seed` from now on, so that a test has the same result each time: the
/// jitter of `retry_after`, pauses between attempts, seeds of hashes, names of holders.
///
/// Without this call they come from `std::random_device`. If several threads use random values, their order is not
/// determined.
void seed(std::uint64_t seed) noexcept;

namespace detail {

// Returns `d` from now, at most the last instant: it does not overflow, like Asio's timers.
[[nodiscard]] inline clock::time_point from_now(clock::duration d) noexcept {
    auto const now = clock::now();
    return d > clock::time_point::max() - now ? clock::time_point::max() : now + d;
}

class virtual_timers;

// The part of a timer that does not depend on the type of the executor.
class timer_base {
public:
    using handler_type = boost::asio::any_completion_handler<void(error_code)>;

    timer_base(boost::asio::any_io_executor ex, clock::time_point expiry);
    timer_base(timer_base const&) = delete;
    timer_base& operator=(timer_base const&) = delete;
    ~timer_base();

    std::size_t cancel();
    void start(handler_type handler);

    clock::time_point expiry;

private:
    boost::asio::any_io_executor executor_;
    std::shared_ptr<virtual_timers> timers_;
    std::uint64_t id_;
};

}  // namespace detail

/// A timer on the virtual clock, with the interface of `asio::steady_timer`.
///
/// Completion, cancellation and executors are as in `asio::steady_timer`. Several threads may use different timers of
/// one context.
template <class Executor = boost::asio::any_io_executor>
class basic_timer {
public:
    /// The executor of the timer.
    using executor_type = Executor;
    /// The clock of the timer.
    using clock_type = clock;
    /// The duration of the clock.
    using duration = clock::duration;
    /// The instant of the clock.
    using time_point = clock::time_point;

    /// Rebinds this type of timer to another executor.
    template <class OtherExecutor>
    struct rebind_executor {
        /// The timer on `OtherExecutor`.
        using other = basic_timer<OtherExecutor>;
    };

    /// Creates a timer that expires at `expiry`.
    explicit basic_timer(Executor const& ex, time_point expiry = {})
        : executor_(ex), base_(std::make_unique<detail::timer_base>(ex, expiry)) {}
    /// Creates a timer that expires after a duration.
    basic_timer(Executor const& ex, duration after) : basic_timer(ex, detail::from_now(after)) {}

    /// Creates a timer on the executor of `context`.
    template <weir::detail::context_of<Executor> Context, class... Args>
    explicit basic_timer(Context& context, Args... args)
        : basic_timer(Executor(context.get_executor()), args...) {}

    /// Returns the executor that the constructor received.
    [[nodiscard]] executor_type get_executor() const noexcept { return executor_; }
    /// Returns the time at which the timer expires.
    [[nodiscard]] time_point expiry() const noexcept { return base_->expiry; }

    /// Sets the expiry and cancels pending waits. Returns the number of cancelled waits.
    std::size_t expires_at(time_point t) {
        auto const cancelled = base_->cancel();
        base_->expiry = t;
        return cancelled;
    }
    /// Sets the expiry relative to now and cancels pending waits. Returns the number of cancelled waits.
    std::size_t expires_after(duration d) { return expires_at(detail::from_now(d)); }
    /// Cancels pending waits. Returns their number.
    std::size_t cancel() { return base_->cancel(); }

    /// Waits for the expiry. Completion signature: `void(error_code)`.
    template <boost::asio::completion_token_for<void(error_code)> Token =
                  weir::detail::default_token_t<Executor>>
    auto async_wait(Token&& token = weir::detail::default_token_t<Executor>()) {
        return boost::asio::async_initiate<Token, void(error_code)>(starts(*this), token);
    }

private:
    class starts {
    public:
        using executor_type = Executor;
        explicit starts(basic_timer& owner) noexcept : timer_(&owner) {}
        [[nodiscard]] executor_type get_executor() const noexcept { return timer_->executor_; }
        template <class Handler>
        void operator()(Handler&& handler) const {
            timer_->base_->start(std::forward<Handler>(handler));
        }

    private:
        basic_timer* timer_;
    };

    Executor executor_;
    std::unique_ptr<detail::timer_base> base_;
};

/// A timer on the virtual clock; see `basic_timer`.
using timer = basic_timer<>;

/// A limiter on virtual time: `limiter<weir::seats>` for `weir::seats`. It may be a shared limiter, but not a limiter by
/// key. A `weir::chain` of such limiters is on virtual time too.
template <class Limiter>
using limiter = weir::detail::with_timer_t<Limiter, basic_timer>;

/// A limiter by key on virtual time: `keyed<int, weir::seats>` for `weir::keyed<int, weir::seats>`. Include
/// weir/keyed.hpp.
template <class Key, class Policy>
using keyed = basic_keyed<Key, typename weir::detail::policy_of<Policy>::type,
                          boost::asio::any_io_executor, timer, key_hash, order::any>;

/// A `weir::rate_tree` on virtual time. Include weir/rate_tree.hpp.
using rate_tree = basic_rate_tree<boost::asio::any_io_executor, timer>;

/// A pool on virtual time: `pool<tcp::socket>` for `weir::pool<tcp::socket>`. Include weir/pool.hpp.
template <class T>
using pool = basic_pool<T, boost::asio::any_io_executor, timer>;

/// Returns the next expiry of the timers of `context`; `clock::time_point::max()` if there is no timer.
[[nodiscard]] clock::time_point next_expiry(boost::asio::execution_context& context);
/// Fires all timers of `context` that have expired.
void fire_due(boost::asio::execution_context& context);

/// Runs `context` until the virtual time `t`, and returns the number of handlers that ran.
///
/// The function advances the clock from one timer of `context` to the next, and at the end to `t`. The clock belongs to
/// the whole process: time also passes for timers of other contexts, but they fire only when their own context runs in
/// this way.
template <class Context>
std::size_t run_until(Context& context, clock::time_point t) {
    std::size_t handlers = 0;
    for (;;) {
        context.restart();
        handlers += context.poll();
        auto const next = next_expiry(context);
        if (next > t || next == clock::time_point::max())
            break;
        clock::advance_to(next);
        fire_due(context);
    }
    if (t != clock::time_point::max())
        clock::advance_to(t);
    return handlers;
}

/// Runs `context` for a duration from now, like `run_until`. Returns the number of handlers that ran.
template <class Context>
std::size_t run_for(Context& context, clock::duration d) {
    return run_until(context, detail::from_now(d));
}

/// Runs `context` until it has no work and no pending timer, and advances the clock like `run_until`. Returns the
/// number of handlers that ran.
template <class Context>
std::size_t run(Context& context) {
    return run_until(context, clock::time_point::max());
}

}  // namespace weir::inline v0_2::testing
