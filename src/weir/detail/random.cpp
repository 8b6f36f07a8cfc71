#include <weir/detail/random.hpp>

#include <atomic>
#include <random>

namespace weir::inline v0_2::detail {
namespace {

std::atomic<std::uint64_t> series = 0;  // 0: no series

}  // namespace

std::uint64_t random_bits() {
    if (series.load(std::memory_order_relaxed) != 0)
        return mix_bits(series.fetch_add(next_in_series, std::memory_order_relaxed));
    std::random_device device;
    return std::uint64_t{device()} << 32 | device();
}

void begin_series(std::uint64_t seed) noexcept {
    series.store(mix_bits(seed) | 1, std::memory_order_relaxed);
}

}  // namespace weir::inline v0_2::detail
