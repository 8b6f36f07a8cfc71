#pragma once

#include <weir/amount.hpp>
#include <weir/time.hpp>

#include <chrono>
#include <string>

namespace weir::inline v0_2::agent {

/// The socket of an agent, and its bounds.
struct server_options {
    /// The path of the local socket, at most 107 bytes on Linux.
    std::string path = {};
    /// The rights of the socket, 0 to 0777: a process that may write to it may ask. By default only the same user may.
    unsigned mode = 0600;
    /// The longest time for which the agent keeps permits that it fetched ahead, 1 ms to 60 s. The guarantee of a limit
    /// that is fetched ahead is weaker by the refill of this time. A limit of fewer than 4 permits in this time is not
    /// fetched ahead.
    duration lease = std::chrono::milliseconds(100);
    /// The maximum number of connected processes, 1 to 100,000. Others wait in the backlog of the socket.
    amount max_connections = 1'000;
    /// The maximum number of limits that are fetched ahead, 1 to 10,000,000, with about 5 kB each. A new limit replaces
    /// the one that was not asked for the longest time. If requests wait for that one, the store decides about the new
    /// limit.
    amount max_limits = 10'000;

    friend bool operator==(server_options const&, server_options const&) = default;
};

}  // namespace weir::inline v0_2::agent
