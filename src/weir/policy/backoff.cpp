#include <weir/policy/backoff.hpp>

#include "../check_option.hpp"

#include <algorithm>
#include <chrono>

namespace weir::policy {

void validate(std::string_view where, backoff_options const& retry) {
    using detail::check_option;
    auto const most = forever.count();
    check_option(where, "retry.initial in nanoseconds", retry.initial.count(), 1, most);
    check_option(where, "retry.max in nanoseconds", retry.max.count(), retry.initial.count(), most);
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

}  // namespace weir::policy
