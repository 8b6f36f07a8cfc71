#include <weir/policy/sliding_window.hpp>

#include "../check_option.hpp"

namespace weir::policy {
namespace {

cooling_log log_of(sliding_window_options const& options) {
    detail::check_option("sliding_window", "limit", options.limit, 1, max_amount);
    detail::check_duration("sliding_window", "window", options.window, duration(1));
    detail::check_option("sliding_window", "slices", options.slices, 1, amount{1} << 20);
    // Slices begin at least a slice apart, so at most this many begin within a window and the slice before it.
    return {options.limit, options.window,
            duration((options.window.count() - 1) / options.slices + 1),
            static_cast<std::size_t>(options.slices) + 1};
}

}  // namespace

sliding_window_rule::sliding_window_rule(options_type const& options)
    : cooling_log(log_of(options)), options_(options) {}

}  // namespace weir::policy
