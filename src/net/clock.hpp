#pragma once

#include <chrono>

namespace net {

/// The clock of all timers and time limits: `std::chrono::steady_clock`.
///
/// One file of the library defines only its two functions. A program that defines them itself, such as a test on
/// virtual time, is linked without that file.
struct clock {
    using duration = std::chrono::steady_clock::duration;
    using rep = duration::rep;
    using period = duration::period;
    using time_point = std::chrono::time_point<clock>;
    static constexpr bool is_steady = true;

    [[nodiscard]] static time_point now() noexcept;

    /// How long the system may sleep before it checks a timer that is due after `d`.
    [[nodiscard]] static duration sleep_for(duration d) noexcept;
};

/// Tells Asio how long to wait on `clock`.
struct clock_traits {
    [[nodiscard]] static clock::duration to_wait_duration(clock::duration d) noexcept {
        return clock::sleep_for(d);
    }
    [[nodiscard]] static clock::duration to_wait_duration(clock::time_point t) noexcept {
        return clock::sleep_for(t - clock::now());
    }
};

}  // namespace net
