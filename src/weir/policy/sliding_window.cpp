#include <weir/policy/sliding_window.hpp>

#include "../check_option.hpp"

namespace weir::inline v0_2::policy {
namespace {

cooling_log log_of(sliding_window_options const& options) {
    detail::check_option("sliding_window", "limit", options.limit, 1, max_amount);
    detail::check_duration("sliding_window", "window", options.window, duration(1));
    detail::check_option("sliding_window", "slices", options.slices, 1, amount{1} << 20);
    return {options.limit, options.window,
            duration((options.window.count() - 1) / options.slices + 1)};
}

}  // namespace

sliding_window_rule::sliding_window_rule(options_type const& options)
    : cooling_log(log_of(options)), options_(options) {}

}  // namespace weir::inline v0_2::policy
