#pragma once

#include <weir/amount.hpp>

#include "config/configuration.hpp"
#include "http/head.hpp"
#include "request_info.hpp"

#include <cstdint>
#include <optional>

namespace proxy {

/// The permits for this number of bytes: 1 for each, up to the largest cost.
[[nodiscard]] weir::amount amount_of(std::uint64_t bytes) noexcept;

/// The cost of a request, as far as the request tells it; otherwise the estimate of `c`. Precondition: `c` is not a
/// number.
[[nodiscard]] weir::amount cost_of(config::cost const& c, request_info const& who) noexcept;

/// The cost of a request that the head of its response tells.
[[nodiscard]] std::optional<weir::amount> cost_of_response(
    config::cost const& c, http::answer_head const& answer) noexcept;

}  // namespace proxy
