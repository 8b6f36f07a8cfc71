#include <weir/policy/leaky_bucket.hpp>

#include "../check_option.hpp"

namespace weir::inline v0_2::policy {
namespace {

leaky_bucket_options const& checked(leaky_bucket_options const& options) {
    detail::check_option("leaky_bucket", "capacity", options.capacity, 1, max_amount);
    detail::check_option("leaky_bucket", "carry_over", options.carry_over, carry_over::reset);
    return options;
}

}  // namespace

leaky_bucket_rule::leaky_bucket_rule(options_type const& options)
    : options_(checked(options)), bucket_(options.rate, options.capacity) {}

void leaky_bucket_rule::take_over(state_type& s, leaky_bucket_rule const& old,
                                  state_type const& before, time_point now) const noexcept {
    auto const mine = bucket_.measure();
    auto const theirs = old.bucket_.measure();
    auto const level = old.bucket_.level(before, now);
    switch (options_.carry_over) {
        case carry_over::as_is:
            s = bucket_.filled(-mine.carried(-level, theirs, carry_over::as_is), now);
            break;
        case carry_over::proportional:
            s = bucket_.filled(
                mine.full - mine.carried(theirs.full - level, theirs, carry_over::proportional),
                now);
            break;
        case carry_over::reset:
            s = begin(now);
            break;
    }
}

}  // namespace weir::inline v0_2::policy
