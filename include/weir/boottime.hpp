#pragma once

#include <weir/detail/context_of.hpp>
#include <weir/error.hpp>
#include <weir/limiter.hpp>
#include <weir/time.hpp>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/cancellation_state.hpp>
#include <boost/asio/compose.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/posix/basic_stream_descriptor.hpp>
#include <boost/asio/posix/descriptor_base.hpp>

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>

namespace weir::inline v0_2 {

/// A clock of the time since the machine started, including its sleep: `CLOCK_BOOTTIME` of Linux.
/// `std::chrono::steady_clock`, the default clock of a limiter, does not advance while the machine sleeps.
class boottime_clock {
public:
    /// The type of a number of nanoseconds.
    using rep = std::int64_t;
    /// The unit, a nanosecond.
    using period = std::nano;
    /// The type of durations.
    using duration = std::chrono::nanoseconds;
    /// The type of instants.
    using time_point = std::chrono::time_point<boottime_clock>;
    /// The clock never goes back.
    static constexpr bool is_steady = true;

    /// Returns the current time.
    [[nodiscard]] static time_point now() noexcept;
};

namespace detail {

// A timerfd, which becomes readable when it expires. These functions throw `boost::system::system_error`.
[[nodiscard]] int make_boottime_descriptor();
void check_boottime_descriptor(int descriptor,
                               error_code const& assigned);  // closes an unowned descriptor
void set_boottime_descriptor(int descriptor, boottime_clock::time_point expiry);

}  // namespace detail

/// A timer on `boottime_clock`, with the interface of `asio::steady_timer`. If its expiry passed while the machine
/// slept, it expires immediately after the sleep. Linux only.
///
/// Completion, cancellation and executors are as in `asio::steady_timer`; a timer takes a file descriptor. The
/// constructor and `expires_at` throw `boost::system::system_error` if a system call fails.
template <class Executor = boost::asio::any_io_executor>
class basic_boottime_timer {
public:
    /// The executor of the timer.
    using executor_type = Executor;
    /// The clock of the timer.
    using clock_type = boottime_clock;
    /// The duration of the clock.
    using duration = clock_type::duration;
    /// The instant of the clock.
    using time_point = clock_type::time_point;

    /// Rebinds this type of timer to another executor.
    template <class OtherExecutor>
    struct rebind_executor {
        /// The timer on `OtherExecutor`.
        using other = basic_boottime_timer<OtherExecutor>;
    };

    /// Creates a timer that expires at `expiry`.
    explicit basic_boottime_timer(Executor const& ex, time_point expiry = {})
        : state_(std::make_shared<state>(ex)) {
        expires_at(expiry);
    }
    /// Creates a timer that expires after a duration.
    basic_boottime_timer(Executor const& ex, duration after) : state_(std::make_shared<state>(ex)) {
        expires_after(after);
    }

    /// Creates a timer on the executor of `context`.
    template <detail::context_of<Executor> Context, class... Args>
    explicit basic_boottime_timer(Context& context, Args... args)
        : basic_boottime_timer(Executor(context.get_executor()), args...) {}

    basic_boottime_timer(basic_boottime_timer&&) noexcept = default;
    /// Cancels pending waits of this timer and moves `other` here. Waits of `other` continue.
    basic_boottime_timer& operator=(basic_boottime_timer&& other) noexcept {
        basic_boottime_timer moved(std::move(other));
        std::swap(state_, moved.state_);
        return *this;
    }
    /// Cancels pending waits.
    ~basic_boottime_timer() {
        if (state_)
            state_->cancel();
    }

    /// Returns the executor that the constructor received.
    [[nodiscard]] executor_type get_executor() const noexcept {
        return state_->descriptor.get_executor();
    }
    /// Returns the time at which the timer expires.
    [[nodiscard]] time_point expiry() const noexcept { return state_->expiry; }

    /// Sets the expiry and cancels pending waits.
    void expires_at(time_point t) {
        state_->cancel();
        detail::set_boottime_descriptor(state_->descriptor.native_handle(), t);
        state_->expiry = t;
    }
    /// Sets the expiry relative to now and cancels pending waits.
    void expires_after(duration d) {
        auto const now = clock_type::now();
        expires_at(d > time_point::max() - now ? time_point::max() : now + d);
    }
    /// Cancels pending waits.
    void cancel() noexcept { state_->cancel(); }

    /// Waits for the expiry. Completion signature: `void(error_code)`.
    template <boost::asio::completion_token_for<void(error_code)> Token =
                  detail::default_token_t<Executor>>
    auto async_wait(Token&& token = detail::default_token_t<Executor>()) {
        return boost::asio::async_compose<Token, void(error_code)>(
            wait(state_), token, state_->descriptor);
    }

private:
    // The state that a pending wait keeps alive.
    struct state {
        explicit state(Executor const& ex) : descriptor(ex) {
            auto const made = detail::make_boottime_descriptor();
            error_code ec;
            descriptor.assign(made, ec);
            detail::check_boottime_descriptor(made, ec);
        }

        void cancel() noexcept {
            std::scoped_lock const lock(mutex);
            ++epoch;
            error_code ignored;
            descriptor.cancel(ignored);
        }

        time_point expiry{};

        // A wait may continue on one thread while another thread cancels it.
        std::mutex mutex;
        std::uint64_t epoch = 0;  // how many times it was cancelled
        boost::asio::posix::basic_stream_descriptor<Executor> descriptor;
    };

    class wait {
    public:
        explicit wait(std::shared_ptr<state> of) : state_(std::move(of)) {}

        template <class Self>
        void operator()(Self& self) {
            self.reset_cancellation_state(boost::asio::enable_total_cancellation());
            epoch_ = state_->epoch;
            until_ = state_->expiry;
            go_on(self);
        }

        // The system may report the expiry that was set before.
        template <class Self>
        void operator()(Self& self, error_code const& ec) {
            if (ec || clock_type::now() >= until_)
                self.complete(ec);
            else if (!go_on(self))
                self.complete(boost::asio::error::operation_aborted);
        }

    private:
        template <class Self>
        bool go_on(Self& self) {
            auto const kept = state_;  // the lock lives there
            std::scoped_lock const lock(kept->mutex);
            if (epoch_ != kept->epoch)
                return false;
            kept->descriptor.async_wait(
                boost::asio::posix::descriptor_base::wait_read, std::move(self));
            return true;
        }

        std::shared_ptr<state> state_;
        std::uint64_t epoch_ = 0;
        time_point until_{};
    };

    std::shared_ptr<state> state_;
};

/// A timer on `boottime_clock`; see `basic_boottime_timer`.
using boottime_timer = basic_boottime_timer<>;

/// A limiter such as `weir::sliding_log` on `boottime_clock`: its time passes while the machine sleeps, so a daily
/// limit is free again after a night. By default the time of a limiter stops during sleep.
template <class Limiter>
using boottime = detail::with_timer_t<Limiter, basic_boottime_timer>;

}  // namespace weir::inline v0_2
