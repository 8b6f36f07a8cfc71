#include "outcome.hpp"

namespace replay {

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
