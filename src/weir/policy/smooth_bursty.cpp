#include <weir/policy/smooth_bursty.hpp>

#include "../check_option.hpp"

namespace weir::inline v0_2::policy {

bursty_curve::bursty_curve(options_type const& options)
    : max_burst_(options.max_burst), initial_(options.initial) {
    using detail::check_duration;
    using detail::check_option;
    check_option("smooth_bursty", "permits of rate", options.rate.permits(), 1, max_amount);
    check_duration("smooth_bursty", "max_burst", max_burst_, duration::zero());
    check_duration("smooth_bursty", "initial", initial_, duration::zero());
    check_option("smooth_bursty", "carry_over", options.carry_over, carry_over::reset);
}

template class smooth_rule<bursty_curve>;

}  // namespace weir::inline v0_2::policy
