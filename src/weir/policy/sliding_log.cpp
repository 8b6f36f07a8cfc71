#include <weir/policy/sliding_log.hpp>

#include "../check_option.hpp"

namespace weir::inline v0_2::policy {
namespace {

cooling_log log_of(sliding_log_options const& options) {
    detail::check_option("sliding_log", "limit", options.limit, 1, amount{1} << 26,
                         "; sliding_window and token_bucket have no such bound");
    detail::check_duration("sliding_log", "window", options.window, duration(1));
    return {options.limit, options.window, duration(1)};
}

}  // namespace

sliding_log_rule::sliding_log_rule(options_type const& options)
    : cooling_log(log_of(options)), options_(options) {}

}  // namespace weir::inline v0_2::policy
