#include "resolve.hpp"

#include <boost/asio/local/stream_protocol.hpp>

#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cstddef>
#include <cstring>

namespace net {

std::vector<endpoint> resolve(std::string const& host, std::string const& port, error_code& ec) {
    asio::io_context context;
    tcp::resolver resolver(context);
    auto const found = resolver.resolve(host, port, ec);
    if (!ec && found.empty())
        ec = asio::error::host_not_found;
    std::vector<endpoint> all;
    for (auto const& one : found)
        all.emplace_back(one.endpoint());
    return all;
}

std::optional<endpoint> unix_endpoint(std::string const& path) {
    if (path.size() >= sizeof(sockaddr_un::sun_path))
        return {};
    return asio::local::stream_protocol::endpoint(path);
}

std::string path_of(endpoint const& at) {
    if (at.protocol().family() != AF_UNIX)
        return {};
    sockaddr_un address{};
    std::memcpy(&address, at.data(), std::min(sizeof address, std::size_t(at.size())));
    auto const room = at.size() - offsetof(sockaddr_un, sun_path);
    return {address.sun_path, ::strnlen(address.sun_path, std::min(room, sizeof address.sun_path))};
}

std::optional<tcp::endpoint> tcp_endpoint(endpoint const& at) {
    auto const family = at.protocol().family();
    if (family != AF_INET && family != AF_INET6)
        return {};
    tcp::endpoint found;
    std::memcpy(found.data(), at.data(), at.size());
    found.resize(at.size());
    return found;
}

std::string to_string(endpoint const& at) {
    auto const found = tcp_endpoint(at);
    if (!found)
        return "unix:" + path_of(at);
    auto const host = found->address().to_string();
    return (found->address().is_v6() ? '[' + host + ']' : host) + ':' +
           std::to_string(found->port());
}

bool leads_back(endpoint const& to, endpoint const& at) {
    auto const target = tcp_endpoint(to);
    auto const own = tcp_endpoint(at);
    if (!target || !own)
        return to == at;
    if (target->port() != own->port())
        return false;
    bool const anywhere = own->address().is_unspecified();
    return target->address() == own->address() || target->address().is_unspecified() ||
           (anywhere && target->address().is_loopback());
}

}  // namespace net
