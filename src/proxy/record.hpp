#pragma once

#include "counters.hpp"
#include "net/asio.hpp"

#include <boost/asio/ip/address.hpp>

#include <cstdint>
#include <string_view>

namespace proxy {

class limit;
class upstream_server;
struct route;

/// What is told of one request when it is over: to the counters, to the operator, to the access log. What it refers to
/// lies in the exchange and in the plan.
struct record {
    ending how = ending::hung_up;

    route const* to = nullptr;
    upstream_server const* server = nullptr;  // that was asked
    limit const* turned_away_by = nullptr;    // also if the client hung up there
    boost::asio::ip::address client = {};     // of which the limits know
    std::string_view trouble = {};            // why the upstream has not answered; of a literal

    unsigned status = 0;      // of the answer
    std::uint64_t bytes = 0;  // of its body
    net::clock::duration waited{};

    // Where there is an access log:
    net::clock::time_point begun = {};
    std::string_view line = {};         // the first of the request
    std::string_view client_name = {};  // if it is another than the peer
    std::string_view id = {};
};

}  // namespace proxy
