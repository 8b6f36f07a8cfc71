#pragma once

#include "config/listener.hpp"
#include "http/head.hpp"

namespace proxy {

/// Reads the request that a check describes. `out` is a copy of the check, and keeps its fields: it gets the method, the
/// target and the host. Reports a part that is missing, invalid, or described more than once: another program may have
/// passed on a field that its client sent.
[[nodiscard]] http::fault describe(config::described_by what, http::request_head const& check,
                                   http::request_head& out);

}  // namespace proxy
