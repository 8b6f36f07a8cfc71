#pragma once

#include <weir/detail/list.hpp>
#include <weir/detail/pool/attempts.hpp>
#include <weir/time.hpp>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/cancellation_type.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/strand.hpp>

#include <chrono>
#include <exception>
#include <memory>
#include <optional>
#include <utility>

namespace weir::inline v0_2::detail {

struct in_supplier;

/// A coroutine of a pool that makes or checks one object. It has its own strand, since it may be cancelled.
template <class Executor>
class job : public list_hook<in_supplier>,
            public attempt,
            public std::enable_shared_from_this<job<Executor>> {
public:
    explicit job(Executor const& ex) : strand(boost::asio::make_strand(ex)) {}

    // Call these on any thread.

    /// Cancels the operation that the coroutine awaits.
    void cancel() noexcept {
        on_strand([](job& self) { self.signal.emit(boost::asio::cancellation_type::terminal); });
    }
    /// Cancels the operation that the coroutine awaits, if that is the pause before a retry.
    void cancel_backing_off() noexcept {
        on_strand([](job& self) {
            if (self.is_backing_off)
                self.signal.emit(boost::asio::cancellation_type::terminal);
        });
    }

    boost::asio::strand<Executor> const strand;
    boost::asio::cancellation_signal signal;

private:
    template <class F>
    void on_strand(F f) noexcept {
        try {
            boost::asio::post(strand, [self = this->shared_from_this(), f] { f(*self); });
        } catch (...) {
            // On failure the coroutine continues until it is done.
        }
    }
};

/// The completion handler of a job's coroutine. It keeps the signal alive for as long as Asio needs it.
template <class Executor>
class job_end {
public:
    explicit job_end(std::shared_ptr<job<Executor>> j) noexcept : job_(std::move(j)) {}
    void operator()(std::exception_ptr) const noexcept {}

private:
    std::shared_ptr<job<Executor>> job_;
};

/// Cancels a job when it takes too long, until this object is destroyed. Use it on the job's strand.
template <class Timer, class Executor>
class job_deadline {
public:
    job_deadline(std::shared_ptr<job<Executor>> const& j,
                 boost::asio::any_io_executor const& strand, duration length) {
        if (length == forever)
            return;
        timer_.emplace(strand);
        timer_->expires_after(std::chrono::ceil<typename Timer::duration>(length));
        timer_->async_wait([state = state_, j](auto const& ec) {
            if (ec == boost::asio::error::operation_aborted || state->over)
                return;
            state->passed = true;
            j->signal.emit(boost::asio::cancellation_type::terminal);
        });
    }
    job_deadline(job_deadline const&) = delete;
    job_deadline& operator=(job_deadline const&) = delete;
    ~job_deadline() { state_->over = true; }

    [[nodiscard]] bool passed() const noexcept { return state_->passed; }

private:
    struct state {
        bool over = false;
        bool passed = false;
    };

    std::shared_ptr<state> state_ = std::make_shared<state>();
    std::optional<Timer> timer_;
};

}  // namespace weir::inline v0_2::detail
