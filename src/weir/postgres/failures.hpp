#pragma once

#include <weir/error.hpp>
#include <weir/policy/outage.hpp>
#include <weir/postgres/error.hpp>

#include <string>
#include <string_view>

namespace weir::inline v0_2::postgres::detail {

/// Returns how a question failed with an error that had no effect.
[[nodiscard]] failure_kind kind_of(error_code const& ec) noexcept;

/// A message of libpq about a failed attempt to connect.
struct connect_error {
    error_code code;
    std::string text;
};

/// Parses such a message, in the form that `PQERRORS_VERBOSE` gives to the messages of a server.
[[nodiscard]] connect_error parse_connect_error(std::string_view message);

}  // namespace weir::inline v0_2::postgres::detail
