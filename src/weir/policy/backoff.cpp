#include <weir/policy/backoff.hpp>

#include "../check_option.hpp"

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

void validate(std::string_view where, backoff_options const& retry) {
    using detail::check_option;
    auto const most = forever.count();
    check_option(where, "retry.first in nanoseconds", retry.first.count(), 1, most);
    check_option(where, "retry.most in nanoseconds", retry.most.count(), retry.first.count(), most);
    check_option(where, "retry.jitter", retry.jitter, 0, 1);
}

void backoff::failed(std::uint32_t seen, time_point now) noexcept {
    if (seen != failures_)
        return;
    auto const [first, most, jitter] = options_;
    auto delay = first;
    for (std::uint32_t i = 0; i != failures_ && delay < most; ++i)
        delay = std::min(times(delay, 2), most);
    ++failures_;
    auto const more = static_cast<double>(delay.count()) * jitter * chance();
    retry_at_ = later(later(now, delay), round_up(std::chrono::duration<double, std::nano>(more)));
}

}  // namespace weir::policy
