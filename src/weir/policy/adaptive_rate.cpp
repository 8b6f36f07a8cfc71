#include <weir/policy/adaptive_rate.hpp>

#include "../check_option.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>

namespace weir::inline v0_2::policy {
namespace {

constexpr double slots_per_second = 2;
// The share of the newest slot in the measured rate.
constexpr double newest = 0.8;

adaptive_rate_options const& checked(adaptive_rate_options const& options) {
    detail::check_option("adaptive_rate", "least", options.least, 0.001, 1e6);
    detail::check_option("adaptive_rate", "most", options.most, options.least, 1e6);
    detail::check_option("adaptive_rate", "decrease", options.decrease, 0.01, 0.99);
    detail::check_option("adaptive_rate", "growth", options.growth, 0.001, 1'000);
    return options;
}

token_bucket_options bucket_of(double per_second) {
    return {.rate = {std::llround(per_second * 1'000), std::chrono::seconds(1'000)},
            .burst = std::max<amount>(std::llround(std::ceil(per_second)), 1),
            .initial = 0};
}

}  // namespace

adaptive_rate::adaptive_rate(options_type const& options)
    : options_(checked(options)), bucket_(bucket_of(options.least)) {}

void adaptive_rate::take_over(adaptive_rate& before, time_point now) noexcept {
    auto const options = options_;
    *this = before;
    options_ = options;
    if (has_rate_)
        set_rate(per_second_, now);
}

bool adaptive_rate::leave(amount n, ticket t, time_point now) noexcept {
    auto const code = t & code_mask;
    if (code == code_of(outcome::ignored))
        return false;
    measure(n, now);
    if (code == code_of(outcome::dropped)) {
        // A request that was in progress at the latest fall was sent at the rate before it.
        if (!has_rate_ || granted_at(t) >= fell_)
            fall(now);
    } else if (has_rate_) {
        grow(now);
    }
    return has_rate_;
}

ticket adaptive_rate::merge(ticket a, ticket b, amount) noexcept {
    auto const dropped = code_of(outcome::dropped);
    auto const one = a & code_mask;
    auto const other = b & code_mask;
    auto const code = one == dropped || other == dropped ? dropped
                      : one == 0 || other == 0           ? std::max(one, other)
                                                         : std::min(one, other);
    return std::min(a & ~code_mask, b & ~code_mask) | code;
}

void adaptive_rate::measure(amount n, time_point now) noexcept {
    count_ = std::min(count_ + n, max_amount);
    auto const slots = slot_of(now) - slot_;
    if (slots <= 0)
        return;
    auto const rate = static_cast<double>(count_) / static_cast<double>(slots) * slots_per_second;
    measured_ = newest * rate + (1 - newest) * measured_;
    count_ = 0;
    slot_ += slots;
}

void adaptive_rate::fall(time_point now) noexcept {
    before_fall_ = has_rate_ ? std::min(measured_, per_second_) : measured_;
    fell_ = now;
    if (!has_rate_) {
        bucket_.begin(now);
        limited_since_ = now;
    }
    has_rate_ = true;
    set_rate(before_fall_ * options_.decrease, now);
}

void adaptive_rate::grow(time_point now) noexcept {
    auto const t = std::chrono::duration<double>(now - fell_).count();
    auto const k = std::cbrt(before_fall_ * (1 - options_.decrease) / options_.growth);
    auto const by_cubic = options_.growth * std::pow(t - k, 3) + before_fall_;
    set_rate(std::min(by_cubic, 2 * measured_), now);
}

void adaptive_rate::set_rate(double per_second, time_point now) noexcept {
    per_second_ = std::clamp(per_second, options_.least, options_.most);
    token_bucket next(bucket_of(per_second_));
    next.take_over(bucket_, now);
    bucket_ = next;
}

}  // namespace weir::inline v0_2::policy
