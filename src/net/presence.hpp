#pragma once

#include <cstdint>

namespace net {

/// The known state of the other side of a connection.
enum class presence : std::uint8_t {
    here,
    ended,  // it sends nothing more; whether it still reads is unknown
    gone,
};

}  // namespace net
