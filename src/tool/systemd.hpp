#pragma once

#include <string>
#include <utility>
#include <vector>

namespace tool {

/// The sockets that the service manager has opened for this process, each with its name, as sd_listen_fds_with_names(3) has
/// them. Their owner is whoever takes them; they are not passed on to other programs.
[[nodiscard]] std::vector<std::pair<std::string, int>> inherited_sockets();

}  // namespace tool
