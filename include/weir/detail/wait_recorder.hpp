#pragma once

#include <weir/time.hpp>
#include <weir/wait_histogram.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <utility>
#include <variant>

namespace weir::detail {

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
    void add(duration wait) noexcept {
        auto const range = wait_histogram::range_of(wait);
        std::visit([&](auto& counts) { ++(*counts)[range]; }, counts_);
    }

    [[nodiscard]] wait_histogram recorded() const noexcept {
        wait_histogram result;
        std::visit(
            [&](auto const& counts) {
                for (std::size_t i = 0; counts && i != counts->size(); ++i) {
                    if (auto const n = (*counts)[i])
                        result.add(wait_histogram::end_of(i), n);
                }
            },
            counts_);
        return result;
    }

private:
    template <class Count>
    using array_of = std::array<Count, wait_histogram::ranges>;
    template <class Count>
    using counts_of = std::unique_ptr<array_of<Count>>;

    void widen() {
        if (begun_ == 0)
            widen_to<std::uint8_t>();
        else if (begun_ == std::numeric_limits<std::uint8_t>::max())
            widen_to<std::uint16_t>();
        else
            widen_to<std::uint64_t>();
    }
    template <class Count>
    void widen_to() {
        auto wider = std::make_unique<array_of<Count>>();
        std::visit(
            [&](auto const& counts) {
                for (std::size_t i = 0; counts && i != counts->size(); ++i)
                    (*wider)[i] = static_cast<Count>((*counts)[i]);
            },
            counts_);
        counts_ = std::move(wider);
        most_ = std::numeric_limits<Count>::max();
    }

    std::uint64_t begun_ = 0;  // the number of calls of `prepare`: no count is larger
    std::uint64_t most_ = 0;   // the largest count that fits
    std::variant<counts_of<std::uint8_t>, counts_of<std::uint16_t>, counts_of<std::uint64_t>>
        counts_;
};

}  // namespace weir::detail
