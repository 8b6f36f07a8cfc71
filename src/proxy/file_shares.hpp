#pragma once

#include "config/configuration.hpp"

#include <cstdint>

namespace proxy {

/// The numbers of connections that fit into the process's limit of open files. Connections of clients must not use up
/// the files that connections to the upstream need.
struct file_shares {
    std::int64_t clients = 0;
    std::int64_t admin = 0;
    std::int64_t agent = 0;     // connections of processes
    std::int64_t upstream = 0;  // of each server without `max_connections` and `seats`
};

/// Raises the limit of open files as far as possible and divides it. Throws `std::runtime_error` if it is too low.
/// Precondition: `c.threads` is set.
[[nodiscard]] file_shares share_out_files(config::configuration const& c);

}  // namespace proxy
