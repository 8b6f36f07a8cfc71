#pragma once

#include <weir/error.hpp>
#include <weir/policy/outage.hpp>

namespace weir::inline v0_2::mysql::detail {

/// Returns how a question failed with an error that had no effect.
[[nodiscard]] failure_kind kind_of(error_code const& ec) noexcept;

}  // namespace weir::inline v0_2::mysql::detail
