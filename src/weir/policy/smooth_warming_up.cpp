#include <weir/policy/smooth_warming_up.hpp>

#include "../check_option.hpp"

namespace weir::inline v0_2::policy {
namespace {

smooth_warming_up_options const& checked(smooth_warming_up_options const& options) {
    using detail::check_duration;
    using detail::check_option;
    check_option("smooth_warming_up", "permits of rate", options.rate.permits(), 1, max_amount);
    check_duration("smooth_warming_up", "warm_up", options.warm_up, duration::zero());
    check_option("smooth_warming_up", "cold_factor", options.cold_factor, 1., 1e6);
    check_option("smooth_warming_up", "carry_over", options.carry_over, carry_over::reset);
    return options;
}

}  // namespace

// Half of `warm_up` at the steady rate gives the threshold. The trapezium between the threshold and the most saved
// permits has the area `warm_up`.
warm_up_curve::warm_up_curve(options_type const& options)
    : warm_up_(checked(options).warm_up), saving_(0.5 + 2 / (1 + options.cold_factor)) {
    auto const granted =
        static_cast<double>(warm_up_.count()) * static_cast<double>(options.rate.permits()) /
        static_cast<double>(options.rate.period().count());
    threshold_ = 0.5 * granted;
    auto const sloped = 2 * granted / (1 + options.cold_factor);
    slope_ = sloped > 0 ? (options.cold_factor - 1) / sloped : 0;
}

template class smooth_rule<warm_up_curve>;

}  // namespace weir::inline v0_2::policy
