#pragma once

#include "config/configuration.hpp"

#include <cstdint>

namespace proxy {

/// How the files that the system lets the process have are shared out: clients must not take those with
/// which the upstream is reached.
struct file_shares {
    std::int64_t clients = 0;
    std::int64_t admin = 0;
    std::int64_t upstream = 0;  // of each server that does not say
};

/// `c.threads` is known. Raises the limit as far as it goes. Throws `std::runtime_error` if there are not enough.
[[nodiscard]] file_shares share_out_files(config::configuration const& c);

}  // namespace proxy
