#include <weir/detail/chain/member.hpp>
#include <weir/detail/uncounted_permit.hpp>

#include <cstdint>

namespace weir::inline v0_2::detail {
namespace {

// A core without a lock and without a state, so that a chain may contain its permits.
class uncounted_core final : public chain_core {
public:
    void leave(amount, permit_origin) noexcept override {}
    void leave_unused(amount, permit_origin) noexcept override {}
    void refund(amount, permit_origin) noexcept override {}
    std::uint64_t overdraw(amount, amount, permit_origin) override { return 0; }
    void split(permit_origin) noexcept override {}
    std::uint64_t merge(permit_origin, permit_origin, amount) noexcept override { return 0; }
    [[nodiscard]] amount remaining(permit_origin) const noexcept override { return 0; }
    [[nodiscard]] duration reset_after(permit_origin) const noexcept override { return forever; }
    [[nodiscard]] bool counts() const noexcept override { return false; }

    [[nodiscard]] time_point read_clock() const noexcept override { return {}; }
    void connect(cancel_link&, operation&) noexcept override {}
    void disconnect(cancel_link&) noexcept override {}
    void disconnect(operation&) noexcept override {}
    void cancel(cancel_link&) noexcept override {}
    [[nodiscard]] bool hold_to_put_back(amount, permit_origin) noexcept override { return true; }
    void end_hold(counting) noexcept override {}
    void lock() noexcept override {}
    [[nodiscard]] bool unlock(bool) noexcept override { return false; }
    void attend() noexcept override {}
    [[nodiscard]] bool take_back(amount, permit_origin, bool, section_time&) noexcept override {
        return false;
    }
    bool serve(section_time&) noexcept override { return false; }
    void take_calls(call_list&) noexcept override {}
};

constinit uncounted_core uncounted;

}  // namespace

permit uncounted_permit(amount n) noexcept {
    return permit_issuer::grant(uncounted, n, {}, duration::zero());
}

}  // namespace weir::inline v0_2::detail
