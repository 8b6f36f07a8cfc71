#pragma once

#include "net/asio.hpp"
#include "plan.hpp"

#include <functional>

// What a plan needs of others is tried before the first request needs it.
namespace proxy {

/// Says which servers accept no connection. It waits for nothing.
void probe_upstreams(asio::io_context& context, plan const& p);

/// Asks the engines, and says which cannot be asked. Calls `ready` when all have answered, or cannot.
void prepare_engines(asio::io_context& context, plan const& p, std::function<void()> ready);

}  // namespace proxy
