#pragma once

#include <weir/error.hpp>
#include <weir/limiter.hpp>

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

/// Virtual time: what weir tests itself with. A day of limiting passes in milliseconds, and the same
/// way each time.
///
///     asio::io_context ctx;
///     weir::testing::limiter<weir::seats> kitchen{ctx, {.seats = 3}};
///     co_spawn(ctx, guest(kitchen), asio::detached);
///     weir::testing::run_for(ctx, 24h);
namespace weir::testing {

/// The virtual clock. There is one in a process, which all its contexts and threads share. It stands
/// still until it is told to move, and never goes back.
class clock {
public:
    using rep = std::int64_t;
    using period = std::nano;
    using duration = std::chrono::nanoseconds;
    using time_point = std::chrono::time_point<clock>;
    static constexpr bool is_steady = true;

    [[nodiscard]] static time_point now() noexcept;

    /// Moves on to `t`, firing no timers; does nothing if that is past.
    static void advance_to(time_point t) noexcept;
};

/// Has all that is left to chance from now on follow from `seed`, in the whole process, so that a test goes the same
/// way each time: the jitter of `retry_after`, pauses between attempts, seeds of hashes, names of holders. Without it
/// they come from `std::random_device`. On several threads it is chance which of them gets which number.
void seed(std::uint64_t seed) noexcept;

namespace detail {

// `d` from now, held at the end of time instead of overflowing, as Asio's timers do it.
[[nodiscard]] inline clock::time_point from_now(clock::duration d) noexcept {
    auto const now = clock::now();
    return d > clock::time_point::max() - now ? clock::time_point::max() : now + d;
}

class virtual_timers;

// A timer of one context; what is common to timers of all executors.
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

/// A timer on the virtual clock, to be used like `asio::steady_timer`.
///
/// Completion, cancellation and executors are as there; distinct timers of one context may be used on
/// several threads.
template <class Executor = boost::asio::any_io_executor>
class basic_timer {
public:
    using executor_type = Executor;
    using clock_type = clock;
    using duration = clock::duration;
    using time_point = clock::time_point;

    template <class OtherExecutor>
    struct rebind_executor {
        using other = basic_timer<OtherExecutor>;
    };

    explicit basic_timer(Executor const& ex, time_point expiry = {})
        : executor_(ex), base_(std::make_unique<detail::timer_base>(ex, expiry)) {}
    basic_timer(Executor const& ex, duration after) : basic_timer(ex, detail::from_now(after)) {}

    template <class Context, class... Args>
        requires std::convertible_to<Context&, boost::asio::execution_context&>
    explicit basic_timer(Context& context, Args... args)
        : basic_timer(Executor(context.get_executor()), args...) {}

    [[nodiscard]] executor_type get_executor() const noexcept { return executor_; }
    [[nodiscard]] time_point expiry() const noexcept { return base_->expiry; }

    /// Sets the expiry and cancels the waits that are pending; how many they were.
    std::size_t expires_at(time_point t) {
        auto const cancelled = base_->cancel();
        base_->expiry = t;
        return cancelled;
    }
    std::size_t expires_after(duration d) { return expires_at(detail::from_now(d)); }
    std::size_t cancel() { return base_->cancel(); }

    /// Completes when the clock has reached the expiry. Completion signature: `void(error_code)`.
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

using timer = basic_timer<>;

/// `Limiter`, such as `weir::seats`, on virtual time.
template <class Limiter>
using limiter = basic_limiter<typename Limiter::policy_type, typename Limiter::executor_type,
                              basic_timer<typename Limiter::executor_type>>;

/// The timers of `context`: when the next one is due (`clock::time_point::max()` if none), and the
/// firing of those that are.
[[nodiscard]] clock::time_point next_expiry(boost::asio::execution_context& context);
void fire_due(boost::asio::execution_context& context);

/// Runs everything in `context` that can be run up to `t`. It moves the clock from one timer of `context`
/// to the next, and at the end to `t`. That is the clock of the whole process: for timers of other contexts
/// time passes, too, but they do not fire before their own context is run like this. Returns how many
/// handlers were run.
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

/// The same for so long from now.
template <class Context>
std::size_t run_for(Context& context, clock::duration d) {
    return run_until(context, detail::from_now(d));
}

/// Runs `context` until nothing is left to run and no timer is pending, moving the clock likewise.
template <class Context>
std::size_t run(Context& context) {
    return run_until(context, clock::time_point::max());
}

}  // namespace weir::testing
