#include "file_shares.hpp"

#include <fmt/format.h>

#include <sys/resource.h>

#include <algorithm>
#include <limits>
#include <stdexcept>

namespace proxy {
namespace {

std::int64_t raised_limit() noexcept {
    rlimit files{};
    if (getrlimit(RLIMIT_NOFILE, &files) != 0)
        return 1024;
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    getrlimit(RLIMIT_NOFILE, &files);
    constexpr rlim_t most = std::numeric_limits<std::int32_t>::max();
    return static_cast<std::int64_t>(std::min(files.rlim_cur, most));
}

}  // namespace

file_shares share_out_files(options const& o) {
    auto const files = raised_limit();
    // Logs, signals, the demo and what libraries open; of each thread its reactor.
    auto const for_sockets = files - 64 - 4 * o.threads;
    file_shares result;
    result.upstream = std::min(o.seats.value_or(for_sockets), for_sockets / 2);
    result.clients = for_sockets - result.upstream;
    if (o.connections && *o.connections > result.clients)
        throw std::runtime_error(fmt::format(
            "--connections is `{}`, but must be at most {}, since no more than {} files "
            "may be open (ulimit -n)",
            *o.connections, std::max(result.clients, std::int64_t(0)), files));
    if (result.clients < 1)
        throw std::runtime_error(
            fmt::format("no more than {} files may be open (ulimit -n)", files));
    result.clients = o.connections.value_or(result.clients);
    return result;
}

}  // namespace proxy
