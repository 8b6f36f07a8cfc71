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

/// What the limits and upstreams of a plan do now and have done; on the thread that configures.
[[nodiscard]] admin::state state_of(plan const& p);

[[nodiscard]] admin::guard guard_of(config::admin_options const& a);

/// What a key of `weir::client_key` stands for: an address, or a network of 64 bits.
[[nodiscard]] std::string name_of_client(std::uint64_t key);

/// Gives a limit another rule of its kind, for `client`, and says so; on the thread that configures. It holds until the
/// configuration is read anew.
[[nodiscard]] admin::answer set_rule(limit& l, std::string_view rule, std::string const& client);

}  // namespace proxy
