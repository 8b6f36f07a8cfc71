#pragma once

#include "admin/guard.hpp"
#include "admin/site.hpp"
#include "admin/state.hpp"
#include "config/configuration.hpp"
#include "limit.hpp"
#include "plan.hpp"

#include <cstdint>
#include <string>
#include <string_view>

namespace proxy {

/// The state and the counters of the limits and upstreams of a plan. Call it on the thread that configures.
[[nodiscard]] admin::state state_of(plan const& p);

[[nodiscard]] admin::guard guard_of(config::admin_options const& a);

/// The client of a key of `weir::client_key`, as text: an address, a network of 64 bits, or a Unix socket.
[[nodiscard]] std::string name_of_client(std::uint64_t key);

/// Gives a limit another rule of its kind on behalf of `client`, and logs the change. The rule holds until the next
/// reload. Call it on the thread that configures.
[[nodiscard]] admin::answer set_rule(limit& l, std::string_view rule, std::string const& client);

}  // namespace proxy
