#pragma once

#include <weir/amount.hpp>
#include <weir/time.hpp>

#include <chrono>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace weir::inline v0_2 {

/// A field of an HTTP response. The views refer to the caller's memory.
struct http_field {
    std::string_view name;   ///< in any case
    std::string_view value;  ///< white space around it is ignored
};

/// A quota of a server, as a response states it.
struct stated_quota {
    /// The name of the quota: the string of a `RateLimit` item, or for instance "requests" and "tokens"; empty if the
    /// response names none.
    std::string name;
    /// How many permits are left until `reset`.
    amount remaining = 0;
    /// The time from now until the quota is full again, rounded up to milliseconds, at most 366 days; empty if unknown.
    std::optional<duration> reset;
    /// The size of the quota; empty if unknown.
    std::optional<amount> limit;

    friend bool operator==(stated_quota const&, stated_quota const&) = default;
};

/// The rate limits of a server, as a response states them.
struct rate_limit_fields {
    /// The time from now for which the server asks its client to send nothing, at most 366 days.
    std::optional<duration> retry_after;
    /// The quotas, one without a name first, in the order of the fields.
    std::vector<stated_quota> quotas;

    /// Returns the quota of this name, or the first one if `name` is empty; null if there is none.
    [[nodiscard]] stated_quota const* find(std::string_view name = {}) const noexcept;

    friend bool operator==(rate_limit_fields const&, rate_limit_fields const&) = default;
};

/// Reads what the fields of a response state about the server's rate limits. It ignores a field that it cannot read, and
/// all other fields.
///
/// - `Retry-After` counts for status 3xx, 413, 429 and 503: seconds, or a date in one of the three forms of HTTP.
/// - `RateLimit` and `RateLimit-Policy` of the IETF draft (version 8 and later). If a quota can be read from them, the
///   following fields do not count; nor does a later kind if an earlier one states a quota.
/// - `RateLimit-Remaining`, `-Reset`, `-Limit` of earlier drafts; the same with `X-RateLimit-` and `X-Rate-Limit-`. Also
///   with the name of a quota at the end, such as `x-ratelimit-remaining-tokens`, or as
///   `anthropic-ratelimit-tokens-remaining`.
///
/// A reset below 10^9 is in seconds from now, from 10^9 on the time since 1970 in seconds, from 10^12 on in
/// milliseconds. It can also be a date of HTTP or of ISO 8601, or a duration such as `6m0s`; a field `-Reset-After` has
/// precedence. Dates count from the response's own `Date`, or from `now` if it has none. A time in the past is 0, and a
/// time of more than 366 days is ignored.
///
/// A field with two different values is ignored, except for the lists `RateLimit` and `RateLimit-Policy`. Of more than 16
/// names of quotas the first 16 are read. The unit of a quota (`qu`) is not: select a quota by its name.
///
/// Thread-safe. Takes linear time in the size of the fields.
///
/// Source: RFC 9110 (Retry-After, dates), RFC 9651 (lists), draft-ietf-httpapi-ratelimit-headers.
///
/// @param now the current time; it matters only for dates
/// @throws std::bad_alloc
[[nodiscard]] rate_limit_fields read_rate_limit_fields(
    int status, std::span<http_field const> fields,
    std::chrono::system_clock::time_point now = std::chrono::system_clock::now());

}  // namespace weir::inline v0_2
