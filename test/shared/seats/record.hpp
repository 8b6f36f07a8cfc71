#pragma once

#include <weir/amount.hpp>
#include <weir/shared/seat_ledger.hpp>

#include <cstdint>

namespace support {

/// A server's record of seats.
struct seats_record {
    std::int64_t now = 0;  ///< on the server's clock
    weir::detail::seat_ledger ledger;

    [[nodiscard]] weir::amount held() { return ledger.held(now); }
    [[nodiscard]] weir::amount waiting() const { return ledger.waiting(now); }
};

}  // namespace support
