#include "file_shares.hpp"

#include "admin/site.hpp"

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

file_shares share_out_files(config::configuration const& c) {
    auto const files = raised_limit();
    // 64 for logs, signals, the demo and the files that libraries open; 4 for the reactor of each thread.
    auto const admin =
        c.admin.address ? std::min(admin::site::most_connections, files / 16) : std::int64_t(0);
    auto const agent =
        c.agent ? std::min(c.agent->options.max_connections, files / 8) : std::int64_t(0);
    auto const for_sockets = files - 64 - 4 * c.threads - admin - agent;
    std::int64_t said = 0;
    std::int64_t unsaid = 0;
    for (auto const& u : c.upstreams)
        for (auto const& s : u.servers)
            if (auto const n = s.max_connections ? s.max_connections : s.seats)
                said = std::min(said + *n, for_sockets / 2);
            else
                ++unsaid;
    auto const left = for_sockets / 2 - said;
    file_shares result{.admin = admin, .agent = agent};
    if (unsaid > 0)
        result.upstream = std::max(left / unsaid, std::int64_t(1));
    result.clients = for_sockets - (unsaid > 0 ? for_sockets / 2 : said);
    auto const wanted = c.clients.max_connections;
    if (wanted && *wanted > result.clients)
        throw std::runtime_error(fmt::format(
            "`max_connections` is {}; at most {} fit into the limit of {} open files (ulimit -n)",
            *wanted, std::max(result.clients, std::int64_t(0)), files));
    if (result.clients < 1)
        throw std::runtime_error(
            fmt::format("the limit of {} open files is too low (ulimit -n)", files));
    result.clients = wanted.value_or(result.clients);
    return result;
}

}  // namespace proxy
