#include <weir/policy/server_quota.hpp>

#include "../check_option.hpp"

#include <algorithm>
#include <chrono>

namespace weir::inline v0_2::policy {
namespace {

// Resets of the same window differ by at most this: servers round them to seconds, and responses take time.
constexpr duration slack = std::chrono::milliseconds(1500);

// `left_` is at least its opposite, so that it does not overflow.
constexpr amount most_debt = max_amount * 2'000;

server_quota_options const& checked(server_quota_options const& options) {
    detail::check_option("server_quota", "probes", options.probes, 1, max_amount);
    if (options.stated) {
        detail::check_option("server_quota", "stated.remaining", options.stated->remaining, 0,
                             max_amount);
        detail::check_option("server_quota", "stated.counted", options.stated->counted, 0,
                             max_amount);
        detail::check_duration("server_quota", "stated.reset", options.stated->reset, duration(0));
    }
    return options;
}

}  // namespace

server_quota::server_quota(options_type const& options) : options_(checked(options)) {}

void server_quota::take_over(server_quota& before, time_point now) noexcept {
    auto const options = options_;
    *this = before;
    options_ = options;
    hear(now);
}

amount server_quota::remaining(time_point now) const noexcept {
    return std::max<amount>(is_known(now) ? left_ : options_.probes - probing(now), 0);
}

amount server_quota::debt(time_point now) const noexcept {
    return std::max<amount>(is_known(now) ? -left_ : probing(now) - options_.probes, 0);
}

time_point server_quota::ready_at(amount n, amount ahead, time_point now) const noexcept {
    bool const is_known_now = is_known(now);
    bool const is_only_probe = !is_known_now && ahead == 0 && probing(now) == 0;
    auto const free = remaining(now);
    if (is_only_probe || (free >= n && free - n >= ahead))
        return now;
    return is_known_now ? reset_ : unknown;
}

ticket server_quota::take(amount n, time_point now) noexcept {
    elapse(now);
    in_use_ += n;
    if (known_)
        left_ = std::max(left_ - n, -most_debt);
    else
        probing_ += n;
    return period_;
}

bool server_quota::leave(amount n, ticket t, time_point now) noexcept {
    elapse(now);
    in_use_ -= n;
    if (known_ || t != period_)
        return false;
    probing_ = std::max<amount>(probing_ - n, 0);
    return true;
}

bool server_quota::refund(amount n, ticket t, time_point now) noexcept {
    elapse(now);
    if (!known_)
        return leave(n, t, now);
    // Each statement about this window has counted the permit as in use, or it was granted after them.
    in_use_ -= n;
    left_ += n;
    return true;
}

ticket server_quota::merge(ticket a, ticket b, amount n) noexcept {
    // All permits of one ticket are probes, or none is.
    if (!known_ && a == period_ && b != period_)
        probing_ += n;
    return std::max(a, b);
}

void server_quota::begin_period(bool known) noexcept {
    known_ = known;
    probing_ = 0;
    ++period_;
}

void server_quota::elapse(time_point now) noexcept {
    if (known_ && now >= reset_)
        begin_period(false);
}

// Takes the statement of the options into account.
void server_quota::hear(time_point now) noexcept {
    elapse(now);
    auto const stated = options_.stated;
    options_.stated.reset();
    if (!stated)
        return;
    auto const reset = later(now, stated->reset);
    auto const left = stated->remaining + stated->counted - in_use_;
    bool const is_same_window =
        known_ && later(reset, slack) >= reset_ && reset <= later(reset_, slack);
    bool const is_next_window =
        known_ && reset > later(reset_, slack) && later(now, slack) >= reset_;
    if (reset == now) {
        if (known_)
            begin_period(false);
    } else if (!known_ || is_next_window) {
        begin_period(true);
        left_ = left;
        reset_ = reset;
    } else if (later(reset, slack) >= reset_) {
        left_ = std::min(left_, left);
        if (is_same_window)
            reset_ = std::max(reset_, reset);
    }
}

}  // namespace weir::inline v0_2::policy
