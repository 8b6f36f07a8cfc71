#pragma once

#include <weir/error.hpp>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/cancellation_state.hpp>
#include <boost/asio/cancellation_type.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/steady_timer.hpp>

#include <chrono>
#include <memory>
#include <utility>

namespace weir::inline v0_2::detail::sql {

/// Cancels an operation that takes too long, or whose coroutine is cancelled. One coroutine uses it, on the given
/// strand.
class time_limit {
public:
    time_limit(boost::asio::any_io_executor const& strand,
               boost::asio::cancellation_state const& of_coroutine,
               std::chrono::steady_clock::time_point until)
        : state_(std::make_shared<state>(strand, until)), of_coroutine_(of_coroutine.slot()) {
        state_->timer.async_wait([state = state_](error_code ec) {
            if (ec || state->over)
                return;
            state->passed = true;
            state->cancel(kind::terminal);
        });
        if (of_coroutine_.is_connected())
            of_coroutine_.assign([state = state_](kind k) {
                if (!state->over)
                    state->cancel(k);
            });
    }
    time_limit(time_limit const&) = delete;
    time_limit& operator=(time_limit const&) = delete;
    ~time_limit() {
        state_->over = true;
        state_->timer.cancel();
        if (of_coroutine_.is_connected())
            of_coroutine_.clear();
    }

    template <class Token>
    [[nodiscard]] auto bound(Token&& token) const {
        return boost::asio::bind_cancellation_slot(
            state_->signal.slot(), std::forward<Token>(token));
    }

    [[nodiscard]] bool passed() const noexcept { return state_->passed; }
    /// Returns the error of the operation: `timed_out` if it was cancelled because it took too long.
    [[nodiscard]] error_code outcome(error_code const& ec) const noexcept {
        bool const is_late = state_->passed && ec == boost::asio::error::operation_aborted;
        return is_late ? error_code(boost::asio::error::timed_out) : ec;
    }

private:
    using kind = boost::asio::cancellation_type;

    struct state : std::enable_shared_from_this<state> {
        state(boost::asio::any_io_executor const& strand,
              std::chrono::steady_clock::time_point until)
            : timer(strand, until) {}

        // Repeatedly, because a signal is lost between two steps of a composed operation.
        void cancel(kind k) {
            signal.emit(k);
            timer.expires_after(std::chrono::milliseconds(10));
            timer.async_wait([self = this->shared_from_this(), k](error_code ec) {
                if (!ec && !self->over)
                    self->cancel(k);
            });
        }

        boost::asio::cancellation_signal signal;
        boost::asio::steady_timer timer;
        bool over = false;
        bool passed = false;
    };

    std::shared_ptr<state> state_;
    boost::asio::cancellation_slot of_coroutine_;
};

}  // namespace weir::inline v0_2::detail::sql
