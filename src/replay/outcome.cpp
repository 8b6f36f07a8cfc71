#include "outcome.hpp"

namespace replay {

char const* text_of(weir::errc why) noexcept {
    switch (why) {
        case weir::errc::no_permit:
            return "no room";
        case weir::errc::timed_out:
            return "waited in vain";
        case weir::errc::deadline_unreachable:
            return "its turn would come too late";
        case weir::errc::queue_full:
            return "queue full";
        case weir::errc::shed:
            return "dropped from the queue";
        case weir::errc::exceeds_capacity:
            return "more than there ever is";
        case weir::errc::too_many_keys:
            return "too many keys";
        case weir::errc::closed:
        case weir::errc::unavailable:
        case weir::errc::lost:
            break;
    }
    return "closed";
}

}  // namespace replay
