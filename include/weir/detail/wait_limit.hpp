#pragma once

#include <weir/time.hpp>

namespace weir::inline v0_2::detail {

/// The limit of a wait: a duration and an instant, whichever ends first.
struct wait_limit {
    patience length = {};
    time_point until = never;
};

}  // namespace weir::inline v0_2::detail
