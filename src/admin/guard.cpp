#include "guard.hpp"

#include "http/characters.hpp"

#include <boost/asio/ip/address_v6.hpp>

#include <algorithm>
#include <array>

namespace admin {
namespace {

namespace ip = boost::asio::ip;

std::array<std::uint8_t, 16> bytes_of(ip::address const& a) {
    auto const v6 = a.is_v4() ? ip::make_address_v6(ip::v4_mapped, a.to_v4()) : a.to_v6();
    return v6.to_bytes();
}

// `::1` for `[::1]:80`, and `name` for `name:80`; the whole text if anything else follows.
std::string_view without_port(std::string_view host) {
    auto const end =
        std::min(host.starts_with('[') ? host.find(']') + 1 : host.find(':'), host.size());
    auto const behind = host.substr(end);
    if (!behind.empty() && !behind.starts_with(':'))
        return host;
    auto const name = host.substr(0, end);
    return name.ends_with(']') ? name.substr(1, name.size() - 2) : name;
}

}  // namespace

std::string_view value_of(http::request_head const& request, std::string_view name) {
    for (auto const& f : request.fields)
        if (http::iequals(f.name, name))
            return f.value;
    return {};
}

bool guard::lets_in(ip::address const& peer) const {
    auto const bytes = bytes_of(peer);
    return peer.is_unspecified() || tool::is_loopback(bytes) ||
           std::ranges::any_of(allow, [&](auto const& n) { return n.contains(bytes); });
}

bool guard::is_here(http::request_head const& request) const {
    auto const name = without_port(request.host);
    return name.empty() || http::iequals(name, "localhost") || http::iequals(name, host) ||
           tool::network_of(name).has_value();
}

http::fault guard::forbids_change(http::request_head const& request) const {
    if (!write)
        return {403, "changes are disabled: `write` in [admin] is false"};
    if (!is_here(request))
        return {403, "Host does not name this machine"};
    auto const site = value_of(request, "Sec-Fetch-Site");
    if (!site.empty() && site != "same-origin" && site != "none")
        return {403, "cross-site request"};
    auto const origin = value_of(request, "Origin");
    auto const scheme = origin.find("://");
    if (!origin.empty() &&
        (scheme == origin.npos || !http::iequals(origin.substr(scheme + 3), request.host)))
        return {403, "cross-site request"};
    auto const type = value_of(request, "Content-Type");
    if (!http::iequals(type.substr(0, type.find(';')), "text/plain"))
        return {415, "Content-Type must be text/plain"};
    return {};
}

}  // namespace admin
