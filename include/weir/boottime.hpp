#pragma once

#include <weir/error.hpp>
#include <weir/limiter.hpp>
#include <weir/time.hpp>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/cancellation_state.hpp>
#include <boost/asio/compose.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/execution_context.hpp>
#include <boost/asio/posix/basic_stream_descriptor.hpp>
#include <boost/asio/posix/descriptor_base.hpp>

#include <chrono>
#include <concepts>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>

namespace weir {

/// The time since the machine was started, with the time in which it slept: `CLOCK_BOOTTIME` of Linux.
/// `std::chrono::steady_clock`, by which a limiter goes that is not told otherwise, stands still meanwhile.
class boottime_clock {
public:
    using rep = std::int64_t;
    using period = std::nano;
    using duration = std::chrono::nanoseconds;
    using time_point = std::chrono::time_point<boottime_clock>;
    static constexpr bool is_steady = true;

    [[nodiscard]] static time_point now() noexcept;
};

namespace detail {

// A timer of the system, which makes its descriptor readable. Throw `boost::system::system_error`.
[[nodiscard]] int make_boottime_descriptor();
void check_boottime_descriptor(int descriptor,
                               error_code const& assigned);  // closes what is not owned
void set_boottime_descriptor(int descriptor, boottime_clock::time_point expiry);

}  // namespace detail

/// A timer by `boottime_clock`, to be used like `asio::steady_timer`: after the machine has slept it
/// expires at once if its time has come meanwhile. Linux only.
///
/// Completion, cancellation and executors are as there; a timer takes a file descriptor. The constructor and
/// `expires_at` throw `boost::system::system_error` if the system rejects.
template <class Executor = boost::asio::any_io_executor>
class basic_boottime_timer {
public:
    using executor_type = Executor;
    using clock_type = boottime_clock;
    using duration = clock_type::duration;
    using time_point = clock_type::time_point;

    template <class OtherExecutor>
    struct rebind_executor {
        using other = basic_boottime_timer<OtherExecutor>;
    };

    explicit basic_boottime_timer(Executor const& ex, time_point expiry = {})
        : state_(std::make_shared<state>(ex)) {
        expires_at(expiry);
    }
    basic_boottime_timer(Executor const& ex, duration after) : state_(std::make_shared<state>(ex)) {
        expires_after(after);
    }

    template <class Context, class... Args>
        requires std::convertible_to<Context&, boost::asio::execution_context&>
    explicit basic_boottime_timer(Context& context, Args... args)
        : basic_boottime_timer(Executor(context.get_executor()), args...) {}

    basic_boottime_timer(basic_boottime_timer&&) noexcept = default;
    basic_boottime_timer& operator=(basic_boottime_timer&& other) noexcept {
        basic_boottime_timer moved(std::move(other));
        std::swap(state_, moved.state_);
        return *this;
    }
    ~basic_boottime_timer() {
        if (state_)
            state_->cancel();
    }

    [[nodiscard]] executor_type get_executor() const noexcept {
        return state_->descriptor.get_executor();
    }
    [[nodiscard]] time_point expiry() const noexcept { return state_->expiry; }

    /// Sets the expiry and cancels the waits that are pending.
    void expires_at(time_point t) {
        state_->cancel();
        detail::set_boottime_descriptor(state_->descriptor.native_handle(), t);
        state_->expiry = t;
    }
    void expires_after(duration d) {
        auto const now = clock_type::now();
        expires_at(d > time_point::max() - now ? time_point::max() : now + d);
    }
    void cancel() noexcept { state_->cancel(); }

    /// Completes when the clock has reached the expiry. Completion signature: `void(error_code)`.
    template <boost::asio::completion_token_for<void(error_code)> Token =
                  detail::default_token_t<Executor>>
    auto async_wait(Token&& token = detail::default_token_t<Executor>()) {
        return boost::asio::async_compose<Token, void(error_code)>(
            wait(state_), token, state_->descriptor);
    }

private:
    // What a wait keeps alive.
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

        // A wait that goes on may do so on one thread while another one cancels it.
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

        // The system may tell of the expiry that was set before.
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

using boottime_timer = basic_boottime_timer<>;

/// `Limiter`, such as `weir::sliding_log`, for which time passes while the machine sleeps: after a night a
/// daily limit is free again. By default time stands still for a limiter meanwhile.
template <class Limiter>
using boottime = basic_limiter<typename Limiter::policy_type, typename Limiter::executor_type,
                               basic_boottime_timer<typename Limiter::executor_type>>;

}  // namespace weir
