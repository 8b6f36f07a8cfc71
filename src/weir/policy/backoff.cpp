#include <weir/policy/backoff.hpp>

#include <algorithm>
#include <exception>
#include <random>

namespace weir::policy {
namespace {

// From 0 to 1, and another in each process.
double chance() noexcept {
    try {
        std::random_device device;
        return std::uniform_real_distribution<double>(0, 1)(device);
    } catch (std::exception const&) {
        return 0;  // no jitter is better than no second attempt
    }
}

}  // namespace

void backoff::failed(std::uint32_t seen, time_point now) noexcept {
    if (seen != failures_)
        return;
    auto delay = first_;
    for (std::uint32_t i = 0; i != failures_ && delay < most_; ++i)
        delay = std::min(times(delay, 2), most_);
    ++failures_;
    auto const jitter = static_cast<double>(delay.count()) * jitter_ * chance();
    retry_at_ =
        later(later(now, delay), round_up(std::chrono::duration<double, std::nano>(jitter)));
}

}  // namespace weir::policy
