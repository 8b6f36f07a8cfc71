#pragma once

#include "state.hpp"

#include <string>

namespace admin {

/// The answer to `/stats.json`. Times are in seconds.
[[nodiscard]] std::string to_json(state const& s);

/// The answer to `/metrics`: the text format of Prometheus, version 0.0.4. There is no label for a client.
[[nodiscard]] std::string to_metrics(state const& s);

}  // namespace admin
