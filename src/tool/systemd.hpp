#pragma once

#include <string>
#include <utility>
#include <vector>

namespace tool {

/// Returns the sockets that systemd passed to this process, with their names, as sd_listen_fds_with_names(3) does.
///
/// The caller owns the sockets. They are marked close-on-exec, so that other programs do not inherit them.
[[nodiscard]] std::vector<std::pair<std::string, int>> inherited_sockets();

}  // namespace tool
