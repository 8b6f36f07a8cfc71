#include <weir/detail/wait_recorder.hpp>
#include <weir/time.hpp>
#include <weir/wait_histogram.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <utility>
#include <variant>

namespace weir::inline v0_2::detail {

void wait_recorder::add(duration wait) noexcept {
    auto const range = wait_histogram::range_of(wait);
    std::visit([&](auto& counts) { ++(*counts)[range]; }, counts_);
}

wait_histogram wait_recorder::recorded() const noexcept {
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

template <class Count>
void wait_recorder::widen_to() {
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

void wait_recorder::widen() {
    if (begun_ == 0)
        widen_to<std::uint8_t>();
    else if (begun_ == std::numeric_limits<std::uint8_t>::max())
        widen_to<std::uint16_t>();
    else
        widen_to<std::uint64_t>();
}

}  // namespace weir::inline v0_2::detail
