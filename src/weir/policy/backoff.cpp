#include <weir/policy/backoff.hpp>

#include "../check_option.hpp"

#include <algorithm>
#include <chrono>

namespace weir::inline v0_2::policy {

void validate(std::string_view where, backoff_options const& retry) {
    using detail::check_duration;
    using detail::check_option;
    check_duration(where, "retry.initial", retry.initial, duration(1));
    check_duration(where, "retry.max", retry.max, retry.initial);
    check_option(where, "retry.jitter", retry.jitter, 0, 1);
}

void backoff::failed(std::uint32_t seen, time_point now) noexcept {
    if (seen != failures_)
        return;
    auto const [initial, max, jitter] = options_;
    auto delay = initial;
    for (std::uint32_t i = 0; i != failures_ && delay < max; ++i)
        delay = std::min(times(delay, 2), max);
    ++failures_;
    auto const more = round_up(std::chrono::duration<double, std::nano>(delay) * jitter);
    retry_at_ = jitter_.after(later(now, delay), more, now);
}

}  // namespace weir::inline v0_2::policy
