#pragma once

#include <weir/time.hpp>

namespace weir::detail {

/// For how long a request may wait: for a length of time and until an instant, whichever ends first.
struct wait_limit {
    patience length = {};
    time_point until = never;
};

}  // namespace weir::detail
