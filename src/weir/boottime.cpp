#include <weir/boottime.hpp>

#include <boost/system/system_error.hpp>

#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <ctime>

namespace weir::inline v0_2 {

boottime_clock::time_point boottime_clock::now() noexcept {
    std::timespec now{};
    ::clock_gettime(CLOCK_BOOTTIME, &now);
    return time_point(std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec));
}

namespace {

int checked(int result, char const* what) {
    if (result < 0)
        throw boost::system::system_error(errno, boost::system::system_category(), what);
    return result;
}

}  // namespace

int detail::make_boottime_descriptor() {
    return checked(::timerfd_create(CLOCK_BOOTTIME, TFD_NONBLOCK | TFD_CLOEXEC), "timerfd_create");
}

void detail::check_boottime_descriptor(int descriptor, error_code const& assigned) {
    if (!assigned)
        return;
    ::close(descriptor);
    throw boost::system::system_error(assigned, "timerfd");
}

void detail::set_boottime_descriptor(int descriptor, boottime_clock::time_point expiry) {
    ::itimerspec setting{};
    // A zero disarms the timer, which is right for the last instant only.
    if (expiry != boottime_clock::time_point::max()) {
        auto const since_boot = std::max(expiry.time_since_epoch(), std::chrono::nanoseconds(1));
        auto const whole = std::chrono::floor<std::chrono::seconds>(since_boot);
        setting.it_value.tv_sec = whole.count();
        setting.it_value.tv_nsec = (since_boot - whole).count();
    }
    checked(::timerfd_settime(descriptor, TFD_TIMER_ABSTIME, &setting, nullptr), "timerfd_settime");
}

}  // namespace weir::inline v0_2
