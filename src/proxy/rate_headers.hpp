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

/// What answers say of the limits in front of one route. Any thread may use it.
///
/// RateLimit-Policy and RateLimit are those of draft-ietf-httpapi-ratelimit-headers-10. There is an item for each limit
/// but dry runs: what its rule grants, what of that remains, and in how many seconds all of it will be there again. A
/// request that was rejected is told of the limit alone that has rejected it, since nothing is known of the others; and
/// what remains at a store nobody here knows either.
///
/// X-RateLimit-Limit, -Remaining and -Reset (in seconds) are those of the limit of which the least remains; seats have
/// none.
class told_limits {
public:
    /// The limits of the gate, in its order.
    told_limits(std::span<std::shared_ptr<limit> const> limits, config::limit_headers which);

    /// Writes whole lines. `theirs` is what an upstream says to remain in X-RateLimit-Remaining: if that is no more, it
    /// stays. Whether ours take the place of the upstream's X-RateLimit fields.
    bool tell(std::string& out, entry const& e, std::optional<weir::amount> theirs = {}) const;

private:
    struct one {
        std::shared_ptr<limit> of;
        std::shared_ptr<limit::override_quotas const> overrides;  // null: there are none
    };
    struct rest;

    [[nodiscard]] policy policy_for(std::size_t i, entry const& e) const;
    [[nodiscard]] std::optional<rest> rest_of(std::size_t i, entry const& e) const;
    void tell_policies(std::string& out, entry const& e) const;

    std::vector<one> limits_;
    config::limit_headers which_;
};

}  // namespace proxy
