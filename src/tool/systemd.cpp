#include "systemd.hpp"

#include "text.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>

namespace tool {
namespace {

constexpr int first_socket = 3;

std::string_view variable(char const* name) {
    auto const* const value = std::getenv(name);
    return value ? value : "";
}

}  // namespace

std::vector<std::pair<std::string, int>> inherited_sockets() {
    auto const count = number_of(variable("LISTEN_FDS"));
    if (number_of(variable("LISTEN_PID")) != ::getpid() || !count || *count > 1024)
        return {};
    auto names = variable("LISTEN_FDNAMES");
    std::vector<std::pair<std::string, int>> all;
    for (int i = 0; i != static_cast<int>(*count); ++i) {
        auto const name = names.substr(0, names.find(':'));
        names.remove_prefix(std::min(names.size(), name.size() + 1));
        ::fcntl(first_socket + i, F_SETFD, FD_CLOEXEC);
        all.emplace_back(name.empty() ? "unknown" : name, first_socket + i);
    }
    return all;
}

}  // namespace tool
