#pragma once

#include "config/configuration.hpp"
#include "gate.hpp"
#include "http/compose.hpp"
#include "http/head.hpp"
#include "rate_headers.hpp"
#include "upstream.hpp"

#include <memory>
#include <string>
#include <vector>

namespace proxy {

/// The upstream or response for a request, and the limits that the request must pass.
struct route {
    config::route configuration;
    weir::duration upstream_timeout;
    gate entrance;
    rate_header_writer rate_headers;
    std::shared_ptr<upstream> to;  // or `configuration.respond`

    http::field_changes request_headers;
    http::field_changes response_headers;
    std::vector<std::string> key_headers = {};  // the header fields in the keys of its limits
};

/// All routes, in order. The first route that matches a request is its route.
class routes {
public:
    explicit routes(std::vector<route> all);

    /// Returns the route of a request; null if none matches.
    [[nodiscard]] route const* find(http::request_head const& request) const;
    [[nodiscard]] std::vector<route> const& all() const noexcept { return all_; }

private:
    std::vector<route> all_;
    bool needs_path_;  // a route has a path other than `/`
};

}  // namespace proxy
