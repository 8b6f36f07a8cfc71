#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace http {

/// Decodes `%41` to `A`, once. Text that is no such code is unchanged.
[[nodiscard]] std::string percent_decoded(std::string_view text);

/// The path of a target in origin form, as a server may interpret it: without the query, percent-decoded once, without
/// the parameters of segments (`;x=1`) and the dots at their ends, without empty segments, and with `.` and `..`
/// resolved. It starts with a slash; `*` is unchanged.
[[nodiscard]] std::string normal_path(std::string_view target);

/// Whether servers interpret the target differently: it has a fragment (`#`), an encoded NUL (`%00`), or a segment `.` or
/// `..` with parameters, which is a parent only for servers that ignore them.
[[nodiscard]] bool is_ambiguous(std::string_view target) noexcept;

/// Whether a path starts with the segments of a prefix: `/api` and `/api/` both match `/api` and `/api/x`, but not
/// `/apis`.
[[nodiscard]] bool begins_with(std::string_view path, std::string_view prefix) noexcept;

/// The number of segments of a path without empty segments; a slash at its end begins no segment.
[[nodiscard]] std::size_t count_segments(std::string_view path) noexcept;

/// Sets `out` to a target in which `prefix` replaces the first `count` segments of the path. The path has at least
/// these segments after the dots and the empty segments are resolved, as `normal_path` does. The other segments keep
/// their spelling, and the query stays. A `prefix` that is not `/` has no slash at its end. `*` is unchanged.
void replace_prefix(std::string& out, std::string_view target, std::size_t count,
                    std::string_view prefix);

/// Segment number `n` of a path, from 1; empty if it has fewer.
[[nodiscard]] std::string_view segment_of(std::string_view path, std::int64_t n);

}  // namespace http
