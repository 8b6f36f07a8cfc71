#pragma once

#include "net/asio.hpp"
#include "net/watchdog.hpp"
#include "plan.hpp"

#include <functional>

// Tries the servers and stores of a plan before the first request needs them.
namespace proxy {

/// Tries to connect to each server, and to shake hands with each that uses TLS, within the time of `timeouts.upstream`.
/// Warns about each that accepts no connection or fails the handshake. Returns immediately.
void probe_upstreams(asio::io_context& context, net::watchdog& dog, plan const& p);

/// Prepares the stores, and warns about each that fails. Calls `ready` when each store succeeded or failed.
void prepare_stores(asio::io_context& context, plan const& p, std::function<void()> ready);

}  // namespace proxy
