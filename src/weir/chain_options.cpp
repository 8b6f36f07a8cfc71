#include <weir/chain_options.hpp>

#include "check_option.hpp"

#include <chrono>
#include <cstdint>

namespace weir::inline v0_2 {

void validate(chain_options const& options) {
    constexpr duration hour = std::chrono::hours(1);
    detail::check_option("chain_options", "passes", std::int64_t{options.passes}, 1, 1'000'000);
    detail::check_duration("chain_options", "reserve_for", options.reserve_for, duration(1), hour);
}

}  // namespace weir::inline v0_2
