#pragma once

#include <weir/amount.hpp>
#include <weir/permit.hpp>
#include <weir/time.hpp>

#include <cstdint>

namespace support {

/// An issuer that does nothing with permits. A test overrides the functions that it observes.
class idle_issuer : public weir::detail::permit_issuer {
protected:
    using amount = weir::amount;
    using permit_origin = weir::detail::permit_origin;

public:
    void leave(amount, permit_origin) noexcept override {}
    void leave_unused(amount, permit_origin) noexcept override {}
    void refund(amount, permit_origin) noexcept override {}
    std::uint64_t overdraw(amount, amount, permit_origin from) override { return from.ticket; }
    void split(permit_origin) noexcept override {}
    std::uint64_t merge(permit_origin into, permit_origin, amount) noexcept override {
        return into.ticket;
    }
    [[nodiscard]] amount remaining(permit_origin) const noexcept override { return 0; }
    [[nodiscard]] weir::duration reset_after(permit_origin) const noexcept override {
        return weir::forever;
    }
};

}  // namespace support
