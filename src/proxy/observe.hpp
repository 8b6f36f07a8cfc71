#pragma once

#include "admin/guard.hpp"
#include "admin/site.hpp"
#include "admin/state.hpp"
#include "config/configuration.hpp"
#include "limit.hpp"
#include "plan.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace proxy {

/// The state and the counters of the limits and upstreams of a plan. Call it on the thread that configures.
[[nodiscard]] admin::state state_of(plan const& p);
/// The limits of bytes of a plan, one for each direction.
[[nodiscard]] std::vector<admin::bandwidth_state> bandwidths_of(plan const& p);

[[nodiscard]] admin::guard guard_of(config::admin_options const& a);

/// The client of a key of `weir::client_key`, as text: an address, a network of 64 bits, or a Unix socket.
[[nodiscard]] std::string name_of_client(std::uint64_t key);

/// The configuration of a limit with another rule of its kind. If it cannot have the rule, `configuration` is empty,
/// and `why_not` has the reason.
struct changed_rule {
    std::optional<config::limit> configuration;
    admin::answer why_not;
};
[[nodiscard]] changed_rule with_rule(config::limit const& l, std::string_view rule);

/// Gives a limit another rule of its kind on behalf of `client`, and logs the change. The rule holds until the next
/// reload. The limit remembers the rule before. Call it on the thread that configures.
[[nodiscard]] admin::answer set_rule(limit& l, std::string_view rule, std::string const& client);

/// Restores the rule that `set_rule` replaced, on behalf of `client`, and logs the change. A second call has nothing to
/// restore: two operators who undo a change at the same time undo it once. Call it on the thread that configures.
[[nodiscard]] admin::answer undo_rule(limit& l, std::string const& client);

}  // namespace proxy
