#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace http {

/// Decodes `%41` to `A`, once. Text that is no such code is unchanged.
[[nodiscard]] std::string percent_decoded(std::string_view text);

/// The path of a target in origin form, as a server may interpret it: without the query, percent-decoded once, without
/// the parameters of segments (`;x=1`), without empty segments, and with `.` and `..` resolved. It starts with a slash;
/// `*` is unchanged.
[[nodiscard]] std::string normal_path(std::string_view target);

/// Whether servers interpret the target differently: it has a fragment (`#`), an encoded NUL (`%00`), or a segment `.` or
/// `..` with parameters, which is a parent only for servers that ignore them.
[[nodiscard]] bool is_ambiguous(std::string_view target) noexcept;

/// Whether a path starts with the segments of a prefix: `/api` and `/api/` both match `/api` and `/api/x`, but not
/// `/apis`.
[[nodiscard]] bool begins_with(std::string_view path, std::string_view prefix) noexcept;

/// Segment number `n` of a path, from 1; empty if it has fewer.
[[nodiscard]] std::string_view segment_of(std::string_view path, std::int64_t n);

}  // namespace http
