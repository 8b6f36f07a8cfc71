#pragma once

#include "bandwidth.hpp"
#include "config/configuration.hpp"
#include "gate.hpp"
#include "http/compose.hpp"
#include "http/head.hpp"
#include "rate_headers.hpp"
#include "response_counter.hpp"
#include "tls/context.hpp"
#include "tool/network_map.hpp"
#include "upstream.hpp"

#include <boost/asio/ip/address.hpp>

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace proxy {

/// The limits of the bytes of requests and responses, of a route or a listener.
struct route_bandwidth {
    byte_limits up;
    byte_limits down;
};

/// The upstream or response for a request, and the limits that the request must pass.
struct route {
    config::route configuration;
    std::string name;  // see `route_name`
    weir::duration upstream_timeout;
    gate entrance;
    rate_header_writer rate_headers;
    route_bandwidth bandwidth;
    std::shared_ptr<upstream> to;  // or `configuration.respond`
    std::shared_ptr<response_counter> responses;

    http::field_changes request_headers;
    http::field_changes response_headers;
    std::vector<config::key_part> keys = {};  // of its limits
    tool::network_set clients = {};           // of `configuration`
    bool has_variables = false;               // in the changes of headers
    std::size_t segments = 0;                 // of the path of `configuration`
};

/// The name of a route for operators: `GET,HEAD *.example.org/cart`, `check /cart`.
[[nodiscard]] std::string route_name(config::route const& r);

/// A listener whose clients use TLS.
struct tls_listener {
    std::shared_ptr<tls::context const> certificates;
    gate rates;  // of handshakes
    gate seats;  // of full handshakes, while they use the private key
};

/// All routes, in order. The first route that matches a request is its route.
class routes {
public:
    explicit routes(std::vector<route> all);

    /// Reports a request with more than one line of a field that selects a route.
    [[nodiscard]] http::fault check(http::request_head const& request) const noexcept;
    /// Returns the route of a request; null if none matches. `peer` is the other end of the connection, and `c` states
    /// which peers may name another client. Only a check, or the request that it describes, matches a route for checks,
    /// and it matches no other.
    [[nodiscard]] route const* find(http::request_head const& request,
                                    config::clients_options const& c,
                                    boost::asio::ip::address const& peer, bool is_check) const;
    [[nodiscard]] std::vector<route> const& all() const noexcept { return all_; }

private:
    std::vector<route> all_;
    bool needs_path_;                   // a route has a path other than `/`
    bool needs_client_;                 // a route has clients
    std::vector<std::string> headers_;  // the fields that select a route
};

}  // namespace proxy
