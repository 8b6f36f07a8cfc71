#pragma once

#include <weir/policy/calendar_cursor.hpp>

#include <boost/asio/error.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

namespace replay {

using std::chrono::nanoseconds;

/// The time of the log, in nanoseconds since 1970 or another epoch. Each thread has its own clock and sets it.
class clock {
public:
    using rep = std::int64_t;
    using period = std::nano;
    using duration = nanoseconds;
    using time_point = std::chrono::time_point<clock>;
    static constexpr bool is_steady = true;

    [[nodiscard]] static time_point now() noexcept { return now_; }
    /// Sets the time, and the time of its epoch since 1970.
    static void set(time_point t, duration epoch = {}) noexcept {
        now_ = t;
        epoch_ = epoch;
    }
    /// The wall clock at this time.
    [[nodiscard]] static weir::wall_time wall() noexcept {
        return weir::wall_time(now_.time_since_epoch() + epoch_);
    }

private:
    static inline thread_local constinit time_point now_{};
    static inline thread_local constinit duration epoch_{};
};

/// The execution context of the limiters, for one thread, with their few timers.
class stage {
public:
    using executor_type = boost::asio::io_context::executor_type;

    stage() : context_(BOOST_ASIO_CONCURRENCY_HINT_UNSAFE), work_(context_.get_executor()) {
        boost::asio::use_service<timers>(context_).owner = this;
    }
    stage(stage const&) = delete;

    [[nodiscard]] executor_type get_executor() noexcept { return context_.get_executor(); }

    /// The expiry of the next timer.
    [[nodiscard]] clock::time_point next_expiry() const noexcept { return next_; }

    /// Runs all posted handlers; returns true if there was any.
    bool run_posted() { return context_.poll() != 0; }

    /// Runs the handlers of all expired timers.
    void fire_due() {
        for (std::size_t i = 0; i < alarms_.size(); ++i)
            if (auto& a = *alarms_[i]; a.handler && a.expiry <= clock::now())
                std::exchange(a.handler, nullptr)({});
        note();
    }

private:
    friend class timer;

    struct alarm {
        stage& owner;
        clock::time_point expiry{};
        std::function<void(boost::system::error_code const&)>
            handler;  // null if no wait is pending
    };

    // The service by which a timer finds the stage of its executor.
    struct timers : boost::asio::execution_context::service {
        using key_type = timers;
        static inline boost::asio::execution_context::id id;
        explicit timers(boost::asio::execution_context& context) : service(context) {}
        void shutdown() noexcept override {}
        stage* owner = nullptr;
    };

    void note() noexcept {
        next_ = clock::time_point::max();
        for (auto const* const a : alarms_)
            if (a->handler)
                next_ = std::min(next_, a->expiry);
    }

    std::vector<alarm*> alarms_;
    clock::time_point next_ = clock::time_point::max();
    boost::asio::io_context context_;
    boost::asio::executor_work_guard<executor_type> work_;
};

/// A timer of a stage with the members that limiters use: like `asio::steady_timer`, but for one wait at a time.
class timer {
public:
    using clock_type = clock;
    using time_point = clock::time_point;
    using executor_type = stage::executor_type;

    explicit timer(executor_type const& ex) : executor_(ex) {
        auto& context = static_cast<boost::asio::io_context&>(ex.context());
        auto& owner = *boost::asio::use_service<stage::timers>(context).owner;
        alarm_.reset(new stage::alarm{owner, {}, {}});
        owner.alarms_.push_back(alarm_.get());
    }

    void expires_at(time_point t) {
        cancel();
        alarm_->expiry = t;
    }
    void cancel() {
        if (!alarm_->handler)
            return;
        alarm_->handler = nullptr;  // destroyed without a call, which limiters do not need
        alarm_->owner.note();
    }
    template <class Handler>
    void async_wait(Handler handler) {
        alarm_->handler = std::move(handler);
        alarm_->owner.next_ = std::min(alarm_->owner.next_, alarm_->expiry);
    }

    [[nodiscard]] executor_type get_executor() const noexcept { return executor_; }

private:
    struct strike {
        void operator()(stage::alarm* a) const noexcept {
            std::erase(a->owner.alarms_, a);
            a->owner.note();
            delete a;
        }
    };

    executor_type executor_;
    std::unique_ptr<stage::alarm, strike> alarm_;
};

}  // namespace replay
