#pragma once

#include "head.hpp"

#include <string>
#include <string_view>

namespace http {

/// Joins the Accept fields of a request into one list; empty if it has none.
void read_accept(std::string& out, request_head const& request);

/// The quality of a media type in an Accept list, in thousandths: 1000 without Accept, and 0 if the client does not
/// accept the type. The most specific range decides (RFC 9110, 12.5.1); of its parameters only `q` counts. Invalid
/// ranges are ignored.
[[nodiscard]] unsigned quality_of(std::string_view accept, std::string_view type) noexcept;

/// Whether a range in the list names exactly this type.
[[nodiscard]] bool names_type(std::string_view accept, std::string_view type) noexcept;

}  // namespace http
