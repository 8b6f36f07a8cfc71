#pragma once

#include <cstdint>

namespace net {

/// The known state of the other side of a connection.
enum class presence : std::uint8_t {
    here,
    ended,  // it sends no more; whether it still reads cannot be known
    gone,
};

}  // namespace net
