#include <weir/policy/seats.hpp>

#include "../check_option.hpp"

namespace weir::inline v0_2::policy {
namespace {

constexpr amount most_watched = 1 << 24;

seats_options const& checked(seats_options const& options) {
    bool const watched = options.max_hold != forever;
    detail::check_option("seats", watched ? "seats, with max_hold," : "seats", options.seats, 1,
                         watched ? most_watched : max_amount);
    detail::check_duration("seats", "max_hold", options.max_hold, duration(1));
    return options;
}

}  // namespace

seats_rule::seats_rule(options_type const& options) : options_(checked(options)) {}

seats::seats(options_type const& options)
    : ruled(options),
      watch_(timed() ? hold_watch(static_cast<std::size_t>(options.seats)) : hold_watch()) {}

}  // namespace weir::inline v0_2::policy
