#pragma once

#include "config/configuration.hpp"
#include "gate.hpp"
#include "limit.hpp"
#include "quota.hpp"

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace proxy {

/// Writes the header fields of responses about the limits of one route. Any thread may use it.
///
/// RateLimit-Policy and RateLimit follow draft-ietf-httpapi-ratelimit-headers-11. RateLimit-Policy has an item with the
/// quota of each part of each rule, except dry runs and penalties. A tree of rates has one part: the leaf of the request.
/// RateLimit has an item for each of these limits: the remaining permits, and the seconds until all of them are available
/// again. For a rejected request it names only the limit that rejected it, since the rest of the others is unknown. It
/// does not name a granted limit with a store, whose rest is unknown too.
///
/// The limiter of a rule with several parts tells the smallest rest of all parts and the time of the last part. The item
/// has the name of the part that decides this time, as `policy::part_after` finds it.
///
/// X-RateLimit-Limit, -Remaining and -Reset (in seconds) describe the limit with the smallest rest. They ignore limits
/// without a window, such as seats.
class rate_header_writer {
public:
    /// `limits` are the limits of the gate, in its order.
    rate_header_writer(std::span<std::shared_ptr<limit> const> limits, config::limit_headers which);

    /// Writes whole lines to `out`. `theirs` is the upstream's X-RateLimit-Remaining: if it is not above ours, the
    /// upstream's X-RateLimit fields stay. Returns whether ours replace the upstream's X-RateLimit fields.
    bool write(std::string& out, entry const& e, std::optional<weir::amount> theirs = {}) const;

    /// Returns the name of the quota that rejected the request, as `quoted`; empty if none did. It is valid while the
    /// limits exist.
    [[nodiscard]] std::string_view violated(entry const& e) const;

private:
    struct one {
        std::shared_ptr<limit> of;
        limit::override_quotas overrides;
    };
    struct rest;

    [[nodiscard]] policy policy_for(std::size_t i, entry const& e) const;
    [[nodiscard]] std::optional<rest> rest_of(std::size_t i, entry const& e) const;
    void write_policies(std::string& out, entry const& e) const;

    std::vector<one> limits_;
    config::limit_headers which_;
};

}  // namespace proxy
