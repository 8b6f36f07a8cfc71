#pragma once

#include <weir/time.hpp>
#include <weir/wait_histogram.hpp>

#include <array>
#include <cstdint>
#include <memory>
#include <variant>

namespace weir::inline v0_2::detail {

/// A histogram of waits that takes little memory while there are few: none before the first wait, a byte for each range
/// up to 255 waits, 2 bytes up to 65,535, and then 8.
class wait_recorder {
public:
    /// Call this before a request waits: `add` may follow once. May throw `std::bad_alloc`, without an effect.
    void prepare() {
        if (begun_ == most_) [[unlikely]]
            widen();
        ++begun_;
    }
    void add(duration wait) noexcept;

    [[nodiscard]] wait_histogram recorded() const noexcept;

private:
    template <class Count>
    using array_of = std::array<Count, wait_histogram::ranges>;
    template <class Count>
    using counts_of = std::unique_ptr<array_of<Count>>;

    void widen();
    template <class Count>
    void widen_to();

    std::uint64_t begun_ = 0;  // the number of calls of `prepare`: no count is larger
    std::uint64_t most_ = 0;   // the largest count that fits
    std::variant<counts_of<std::uint8_t>, counts_of<std::uint16_t>, counts_of<std::uint64_t>>
        counts_;
};

}  // namespace weir::inline v0_2::detail
