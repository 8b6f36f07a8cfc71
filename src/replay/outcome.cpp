#include "outcome.hpp"

namespace replay {

nanoseconds wait_of_granted(outcome const& o, double q) noexcept {
    auto const immediately = static_cast<double>(o.at_once);
    auto const waited = static_cast<double>(o.waits.count());
    auto const rank = q * (immediately + waited);
    if (rank <= immediately || waited == 0)
        return nanoseconds::zero();
    return std::min(o.waits.quantile((rank - immediately) / waited), o.longest_wait);
}

char const* text_of(weir::errc why) noexcept {
    switch (why) {
        case weir::errc::no_permit:
            return "no permit";
        case weir::errc::timed_out:
            return "timed out";
        case weir::errc::deadline_unreachable:
            return "wait too long";
        case weir::errc::queue_full:
            return "queue full";
        case weir::errc::shed:
            return "dropped from the queue";
        case weir::errc::exceeds_capacity:
            return "over capacity";
        case weir::errc::too_many_keys:
            return "too many keys";
        case weir::errc::closed:
        case weir::errc::unavailable:
        case weir::errc::lost:
        case weir::errc::misconfigured:
            break;
    }
    return "closed";
}

}  // namespace replay
