#pragma once

#include "head.hpp"

#include <string>
#include <string_view>

namespace http {

/// The Accept of a request: its lines as one list; empty if it has none.
void read_accept(std::string& out, request_head const& request);

/// How much a client wants a media type, in thousandths: 1000 without any Accept, and 0 if it wants none of it. The most
/// specific range decides (RFC 9110, 12.5.1), whatever its parameters but `q`. What is no range, is passed over.
[[nodiscard]] unsigned quality_of(std::string_view accept, std::string_view type) noexcept;

/// Whether a range names exactly that type.
[[nodiscard]] bool names_type(std::string_view accept, std::string_view type) noexcept;

}  // namespace http
