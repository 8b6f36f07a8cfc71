#include <weir/policy/token_bucket.hpp>

#include "../check_option.hpp"

#include <algorithm>

namespace weir::policy {
namespace {

amount burst_of(token_bucket_options const& options) {
    return options.burst.value_or(std::max<amount>(options.rate.permits(), 1));
}

bucket::rule rule_of(token_bucket_options const& options) {
    auto const burst = burst_of(options);
    detail::check_option("token_bucket", "burst", burst, 1, max_amount);
    detail::check_option("token_bucket", "initial", options.initial.value_or(burst), 0, burst);
    detail::check_option("token_bucket", "refill", options.refill, refill::interval);
    detail::check_option("token_bucket", "carry_over", options.carry_over, carry_over::reset);
    return {.rate = options.rate,
            .capacity = burst,
            .drains = options.refill == refill::continuous ? bucket::drain::continuously
                                                           : bucket::drain::by_periods};
}

bucket::drops initial_level(token_bucket_options const& options) {
    auto const burst = burst_of(options);
    auto const missing = burst - options.initial.value_or(burst);
    return bucket::drops_of(rule_of(options), missing);
}

}  // namespace

token_bucket::token_bucket(options_type const& options)
    : options_(options), bucket_(rule_of(options)) {
    begin(time_point::min());
}

void token_bucket::begin(time_point now) noexcept {
    bucket_.restart(rule_of(options_), initial_level(options_), now);
}

void token_bucket::take_over(token_bucket& before, time_point now) noexcept {
    if (options_.carry_over == carry_over::reset) {
        begin(now);
    } else {
        auto const next = rule_of(options_);
        auto const& old = before.bucket_;
        auto const full = bucket::drops_of(next, next.capacity);
        auto const tokens = std::min(old.room_in(next, options_.carry_over, now), full);
        bucket_.restart(next, full - tokens, old.beat(next, now));
    }
}

}  // namespace weir::policy
