#pragma once

#include <weir/amount.hpp>
#include <weir/shared/seat_ledger.hpp>

#include <cstdint>

namespace support {

/// What a server has noted of seats.
struct seats_record {
    std::int64_t now = 0;  ///< of the server
    weir::detail::seat_ledger ledger;

    [[nodiscard]] weir::amount held() { return ledger.held(now); }
};

}  // namespace support
