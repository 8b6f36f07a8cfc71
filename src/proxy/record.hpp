#pragma once

#include "counters.hpp"
#include "net/asio.hpp"
#include "net/channel.hpp"

#include <boost/asio/ip/address.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace proxy {

class limit;
class upstream_server;
struct route;

/// The facts about one finished request for the counters, the status page and the access log. It refers to texts of the
/// exchange and to objects of the plan.
struct record {
    ending how = ending::disconnected;

    route const* to = nullptr;
    upstream_server const* server = nullptr;  // that got the request
    limit const* rejected_by = nullptr;    // also if the client disconnected while it waited there
    boost::asio::ip::address client = {};  // as the limits see it
    std::string_view trouble = {};         // why the upstream did not respond; a literal

    unsigned status = 0;      // of the response
    std::uint64_t bytes = 0;  // of its body
    net::clock::duration waited{};
    std::optional<net::clock::duration> throttled =
        {};  // the waits of its bytes; empty without a bandwidth

    net::clock::time_point begun = {};

    std::optional<net::channel::agreement> encryption = {};
    std::string_view id = {};    // empty if the request is malformed
    std::string_view line = {};  // the request line; only with an access log
    // Of `client`, if it is not the peer; only with an access log, or if header changes of the route have variables.
    std::string_view client_name = {};
};

/// A copy of a record that owns its texts.
struct lasting_record : record {
    explicit lasting_record(record const& r)
        : record(r), texts(std::string(r.id).append(r.line).append(r.client_name)) {
        std::string_view rest = texts;
        for (auto* const one : {&id, &line, &client_name}) {
            auto const n = one->size();
            *one = rest.substr(0, n);
            rest.remove_prefix(n);
        }
    }
    lasting_record(lasting_record const&) = delete;

    std::string const texts;
};

}  // namespace proxy
