#pragma once

#include "state.hpp"

#include <string>

namespace admin {

/// The response to `/stats.json`. Times are in seconds.
[[nodiscard]] std::string to_json(state const& s);

/// The response to `/metrics`: the text format of Prometheus, version 0.0.4. No label contains a client.
[[nodiscard]] std::string to_metrics(state const& s);

}  // namespace admin
