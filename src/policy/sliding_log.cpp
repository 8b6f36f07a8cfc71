#include <weir/policy/sliding_log.hpp>

#include "../check_option.hpp"

namespace weir::policy {
namespace {

cooling_log::rule rule_of(sliding_log_options const& options) {
    detail::check_option("sliding_log", "limit", options.limit, 1, amount{1} << 26,
                         "; sliding_window and token_bucket have no such bound");
    detail::check_option("sliding_log", "window in nanoseconds", options.window.count(), 1,
                         forever.count());
    return {.limit = options.limit,
            .window = options.window,
            .slice = duration(1),
            .entries = static_cast<std::size_t>(options.limit)};
}

}  // namespace

sliding_log::sliding_log(options_type const& options) : options_(options), log_(rule_of(options)) {}

}  // namespace weir::policy
