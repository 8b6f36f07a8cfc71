#include "clock.hpp"

namespace net {

clock::time_point clock::now() noexcept {
    return time_point(std::chrono::steady_clock::now().time_since_epoch());
}

clock::duration clock::sleep_for(duration d) noexcept {
    return d;
}

}  // namespace net
