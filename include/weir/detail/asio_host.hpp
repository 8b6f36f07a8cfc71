#pragma once

#include <weir/detail/counting_lock.hpp>
#include <weir/detail/read_clock.hpp>
#include <weir/detail/registry.hpp>
#include <weir/detail/word_lock.hpp>
#include <weir/time.hpp>

#include <boost/asio/error.hpp>
#include <boost/asio/execution.hpp>
#include <boost/asio/execution_context.hpp>
#include <boost/asio/prefer.hpp>
#include <boost/asio/query.hpp>
#include <boost/asio/require.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

namespace weir::inline v0_2::detail {

/// Returns `ex` as an executor whose `execute` never runs the function before it returns.
template <class Executor>
[[nodiscard]] auto never_blocking(Executor const& ex) {
    return boost::asio::require(ex, boost::asio::execution::blocking.never);
}

/// Returns `ex` as an executor that keeps its context running for as long as it exists.
template <class Executor>
[[nodiscard]] auto tracked(Executor const& ex) {
    return boost::asio::prefer(ex, boost::asio::execution::outstanding_work.tracked);
}

/// The host of a core: an Asio executor and timer.
template <class Executor, class Timer>
class asio_host {
public:
    using mutex_type = word_lock;
    using counting_mutex_type = counting_lock;
    using executor_type = Executor;
    using clock_type = typename Timer::clock_type;

    class event_type {
    public:
        void set() noexcept {
            is_set_.store(true, std::memory_order_release);
            is_set_.notify_all();
        }
        void wait() const noexcept { is_set_.wait(false, std::memory_order_acquire); }

    private:
        std::atomic<bool> is_set_ = false;
    };

    explicit asio_host(Executor const& ex)
        : executor_(ex), poster_(never_blocking(ex)), timer_(ex) {}

    [[nodiscard]] static time_point now() noexcept { return read_clock<clock_type>(); }

    void attach(std::weak_ptr<context_user> user) {
        auto& context = boost::asio::query(executor_, boost::asio::execution::context);
        entry_ = std::make_unique<registry::entry>(context, std::move(user));
    }

    template <class Core>
    void post(std::shared_ptr<Core> core) {
        poster_.execute(message<Core>(std::move(core)));
    }

    template <class Core>
    void arm(std::weak_ptr<Core> core, time_point at, std::uint64_t epoch) {
        using target = typename Timer::time_point;
        auto const until = std::chrono::ceil<typename target::duration>(at.time_since_epoch());
        timer_.expires_at(target(until));
        timer_.async_wait(alarm<Core>(std::move(core), epoch));
    }

    void disarm() { timer_.cancel(); }

    void hold(bool keep) {
        if (keep)
            work_.emplace(tracked(executor_));
        else
            work_.reset();
    }

private:
    template <class Core>
    class message {
    public:
        explicit message(std::shared_ptr<Core> core) noexcept : core_(std::move(core)) {}
        void operator()() {
            auto const core = std::move(core_);
            core->step();
        }

    private:
        std::shared_ptr<Core> core_;
    };

    template <class Core>
    class alarm {
    public:
        alarm(std::weak_ptr<Core> core, std::uint64_t epoch) noexcept
            : core_(std::move(core)), epoch_(epoch) {}
        void operator()(boost::system::error_code const& ec) {
            if (ec == boost::asio::error::operation_aborted)
                return;
            if (auto const core = core_.lock())
                core->timer_expired(epoch_);
        }

    private:
        std::weak_ptr<Core> core_;
        std::uint64_t epoch_;
    };

    // First, to be destroyed last, when nothing is left to do in the context.
    std::unique_ptr<registry::entry> entry_;
    Executor executor_;
    decltype(never_blocking(std::declval<Executor const&>())) poster_;
    std::optional<decltype(tracked(std::declval<Executor const&>()))> work_;
    Timer timer_;
};

}  // namespace weir::inline v0_2::detail
