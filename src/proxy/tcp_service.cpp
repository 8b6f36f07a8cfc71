#include "tcp_service.hpp"

#include <algorithm>

namespace proxy {

tcp_route const& tcp_service::find(std::string_view server_name) const {
    // The dot of the root is not part of a name in TLS (RFC 6066, 3), but some clients send it.
    if (server_name.ends_with('.'))
        server_name.remove_suffix(1);
    if (server_name.empty() || tls::names::is_address(server_name))
        return rest();
    auto const found = names.find(server_name);
    return found.empty() ? rest() : routes[found.front()];
}

bool tcp_service::introduces() const noexcept {
    return std::ranges::any_of(routes, [](tcp_route const& r) {
        return r.to && r.to->configuration().proxy_protocol != 0;
    });
}

admin::tcp_state tcp_service::state_of(tcp_route const& r) const {
    auto const& c = *r.counts;
    admin::tcp_state s{
        .name = name,
        .sni = r.sni,
        .upstream = r.to ? r.to->configuration().name : "",
        .active = c.active,
        .waiting = c.waiting,
        .ended = {},
        .bytes_up = c.sent_up,
        .bytes_down = c.sent_down};
    for (std::size_t i = 0; i != s.ended.size(); ++i)
        s.ended[i] = c.ended[i];
    return s;
}

}  // namespace proxy
