#pragma once

#include <weir/error.hpp>
#include <weir/time.hpp>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>

#include <chrono>
#include <functional>
#include <memory>
#include <utility>

namespace weir::inline v0_2::redis::detail {

/// The timer of an object that decides at each call when to look again. Use it under the lock of that object.
class alarm {
public:
    explicit alarm(boost::asio::any_io_executor const& ex) : timer_(ex) {}

    /// Calls `owner->serve(event)` at `at` or earlier, which calls `event()` under its lock while the alarm exists. Not
    /// for `never`: a timer that is not needed would keep `run()` from returning. Throws `std::bad_alloc`.
    template <class Owner>
    void set(time_point at, std::shared_ptr<Owner> owner) {
        if (at == never && set_ != never) {
            timer_.cancel();
            set_ = never;
        }
        if (at >= set_)
            return;
        set_ = never;
        timer_.expires_at(std::chrono::steady_clock::time_point(at.time_since_epoch()));
        timer_.async_wait([this, owner = std::move(owner)](error_code const& ec) {
            auto rung = [this] { set_ = never; };
            if (!ec)
                owner->serve(std::ref(rung));
        });
        set_ = at;
    }

private:
    boost::asio::steady_timer timer_;
    time_point set_ = never;
};

}  // namespace weir::inline v0_2::redis::detail
