#include <weir/policy/leaky_bucket.hpp>

#include "../check_option.hpp"

namespace weir::policy {
namespace {

bucket::rule rule_of(leaky_bucket_options const& options) {
    detail::check_option("leaky_bucket", "capacity", options.capacity, 1, max_amount);
    detail::check_option("leaky_bucket", "carry_over", options.carry_over, carry_over::reset);
    return {
        .rate = options.rate, .capacity = options.capacity, .drains = bucket::drain::continuously};
}

}  // namespace

leaky_bucket::leaky_bucket(options_type const& options)
    : options_(options), bucket_(rule_of(options)) {}

void leaky_bucket::take_over(leaky_bucket& before, time_point now) noexcept {
    auto const next = rule_of(options_);
    bucket::drops level = 0;
    if (options_.carry_over != carry_over::reset) {
        auto const grown = options_.carry_over == carry_over::as_is
                               ? bucket::drops_of(next, options_.capacity - before.capacity())
                               : 0;
        level = bucket::drops_of(next, next.capacity) -
                (before.bucket_.room_in(next, options_.carry_over, now) + grown);
    }
    bucket_.restart(next, level, now);
}

}  // namespace weir::policy
