#include <weir/keyed.hpp>

#include "check_option.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <variant>

namespace weir::inline v0_2::detail {

weir::keyed_options const& validated(keyed_options const& options) {
    auto const most = std::uint64_t{1} << 32;
    check_option("keyed", "max_keys",
                 static_cast<std::int64_t>(std::min(options.max_keys, most + 1)), 1,
                 static_cast<std::int64_t>(most));
    constexpr auto largest = std::numeric_limits<std::int64_t>::max();
    check_option("keyed", "max_bytes",
                 static_cast<std::int64_t>(std::min(options.max_bytes, std::uint64_t{largest})),
                 std::int64_t{1}, largest);
    check_duration("keyed", "evict_within", options.evict_within, duration::zero(),
                   std::chrono::hours(24));
    check_option("keyed", "no_place", options.no_place, when_no_place::share);
    check_option("keyed", "shards", std::int64_t{options.shards}, std::int64_t{1},
                 std::int64_t{most_shards});
    check_option("keyed", "heavy_keys", std::int64_t{options.heavy_keys}, std::int64_t{0},
                 std::int64_t{65'536});
    return options;
}

void check_not_watched(duration max_hold) {
    if (max_hold != forever)
        throw std::invalid_argument(
            "weir::keyed: max_hold is not supported: keyed limiters do not track held permits");
}

void check_not_watched(limiter_config const& config) {
    std::visit(
        [](auto const& options) {
            if constexpr (requires { options.parts; })
                for (auto const& part : options.parts)
                    check_not_watched(part);
            else
                check_not_watched(options);
        },
        config.options);
}

void throw_no_place() {
    throw std::length_error("weir::keyed: the limiter has reached its maximum number of keys");
}

}  // namespace weir::inline v0_2::detail
