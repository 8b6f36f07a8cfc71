#pragma once

#include "listener.hpp"

#include <string>

namespace config {

struct configuration;
struct limit;
class names;
class table_reader;

/// Reads the table `tcp` of a listener, after the upstreams and the limits of `c`. Reports limits and upstreams that
/// need requests of HTTP. Adds the names that it uses to `upstreams` and `limits`.
[[nodiscard]] tcp_options read_tcp(table_reader& t, configuration const& c, names& upstreams,
                                   names& limits);

/// The part of a limit that connections of any protocol do not have, such as `the key `header X-Api-Key``; empty if they
/// have all parts.
[[nodiscard]] std::string need_of_requests(limit const& l);

/// Whether a listener accepts connections of any protocol; whether one accepts HTTP.
[[nodiscard]] bool has_tcp(configuration const& c);
[[nodiscard]] bool has_http(configuration const& c);

}  // namespace config
