#include <weir/policy/adaptive_throttle.hpp>

#include "../check_option.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace weir::inline v0_2::policy {
namespace {

adaptive_throttle_options const& checked(adaptive_throttle_options const& options) {
    detail::check_option("adaptive_throttle", "ratio", options.ratio, 1, 1'000);
    detail::check_duration("adaptive_throttle", "window", options.window, std::chrono::seconds(1),
                           std::chrono::hours(24));
    return options;
}

}  // namespace

adaptive_throttle_rule::adaptive_throttle_rule(adaptive_throttle_options const& options)
    : options_(checked(options)) {}

bool adaptive_throttle_rule::grant(double random, time_point now) noexcept {
    auto& slice = current(now);
    if (random >= probability()) {
        ++granted_;
        return true;
    }
    ++slice.requests;
    ++all_.requests;
    ++rejected_;
    return false;
}

void adaptive_throttle_rule::report(outcome o, time_point now) noexcept {
    if (o == outcome::ignored)
        return;
    auto& slice = current(now);
    ++slice.requests;
    ++all_.requests;
    if (o == outcome::success) {
        ++slice.accepted;
        ++all_.accepted;
    }
}

adaptive_throttle_stats adaptive_throttle_rule::stats(time_point now) noexcept {
    (void)current(now);
    return {granted_, rejected_, all_.requests, all_.accepted, probability()};
}

double adaptive_throttle_rule::probability() const noexcept {
    auto const requests = static_cast<double>(all_.requests);
    auto const excess = requests - options_.ratio * static_cast<double>(all_.accepted);
    return std::max(0.0, excess / (requests + 1));
}

// Clears the slices that are older than the window, and returns the slice of `now`.
auto adaptive_throttle_rule::current(time_point now) noexcept -> counts& {
    auto const size = static_cast<std::int64_t>(slices_.size());
    std::int64_t const number = now.time_since_epoch() / (options_.window / size);
    auto const at = [&](std::int64_t n) -> counts& {
        return slices_[static_cast<std::size_t>((n % size + size) % size)];
    };
    for (auto n = std::max(number_, number - size) + 1; n <= number; ++n) {
        auto& old = at(n);
        all_.requests -= old.requests;
        all_.accepted -= old.accepted;
        old = {};
    }
    number_ = std::max(number_, number);
    return at(number_);
}

}  // namespace weir::inline v0_2::policy
