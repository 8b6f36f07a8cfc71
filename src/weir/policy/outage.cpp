#include <weir/policy/outage.hpp>

#include <algorithm>

namespace weir::inline v0_2::policy {

// Silence after this time does not count.
time_point outage::idle_from() const noexcept {
    return is_asking_ ? never : std::max(ended_, retry_at_);
}

void outage::asks(time_point now) noexcept {
    if (failures_ != 0 && now > idle_from())
        silent_since_ += now - idle_from();
    asked_ = now;
    is_asking_ = true;
}

void outage::replied() noexcept {
    state_ = state::none;
    failures_ = refusals_ = 0;
    retry_at_ = time_point::min();
    backoff_.succeeded();
}

void outage::failed(failure_kind why, duration again_in, time_point now) noexcept {
    is_asking_ = false;
    ended_ = now;
    if (why == failure_kind::misconfigured)
        return misconfigured(again_in, now);
    if (failures_++ == 0)
        silent_since_ = asked_;
    bool const is_refused = why == failure_kind::refused;
    refusals_ += is_refused;
    if (refusals_ >= refusals_of_outage || now - silent_since_ >= silence_of_outage)
        state_ = state::unavailable;

    if (again_in > duration::zero()) {
        retry_at_ = later(now, again_in);
    } else if (is_refused || state_ != state::none) {
        backoff_.failed(backoff_.failures(), now);
        retry_at_ = backoff_.retry_at();
    } else {
        retry_at_ = later(asked_, shortest_pause);
    }
}

void outage::misconfigured(duration again_in, time_point now) noexcept {
    state_ = state::misconfigured;
    failures_ = refusals_ = 0;
    retry_at_ = later(now, std::max(again_in, pause_of_misconfigured));
}

time_point outage::begins_at() const noexcept {
    if (failures_ == 0 || state_ == state::unavailable)
        return never;
    auto const at = later(silent_since_, silence_of_outage);
    return at <= idle_from() ? at : never;
}

bool outage::elapse(time_point now) noexcept {
    if (now < begins_at())
        return false;
    state_ = state::unavailable;
    return true;
}

}  // namespace weir::inline v0_2::policy
