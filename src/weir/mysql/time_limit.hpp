#pragma once

#include <weir/error.hpp>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/cancellation_type.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/steady_timer.hpp>

#include <chrono>
#include <memory>
#include <utility>

namespace weir::mysql::detail {

/// Cancels an operation that takes too long. It is used by one coroutine, on the strand that is given.
class time_limit {
public:
    time_limit(boost::asio::any_io_executor const& strand,
               std::chrono::steady_clock::time_point until)
        : timer_(strand, until) {
        timer_.async_wait([state = state_](boost::system::error_code ec) {
            if (ec || state->over)
                return;
            state->passed = true;
            state->signal.emit(boost::asio::cancellation_type::terminal);
        });
    }
    time_limit(time_limit const&) = delete;
    time_limit& operator=(time_limit const&) = delete;
    ~time_limit() { state_->over = true; }

    template <class Token>
    [[nodiscard]] auto bound(Token&& token) const {
        return boost::asio::bind_cancellation_slot(
            state_->signal.slot(), std::forward<Token>(token));
    }

    [[nodiscard]] bool passed() const noexcept { return state_->passed; }
    /// What has come of the operation: `timed_out` if it was cancelled here.
    [[nodiscard]] error_code outcome(error_code const& ec) const noexcept {
        bool const is_late = state_->passed && ec == boost::asio::error::operation_aborted;
        return is_late ? error_code(boost::asio::error::timed_out) : ec;
    }

private:
    struct state {
        boost::asio::cancellation_signal signal;
        bool over = false;
        bool passed = false;
    };

    std::shared_ptr<state> state_ = std::make_shared<state>();
    boost::asio::steady_timer timer_;
};

}  // namespace weir::mysql::detail
