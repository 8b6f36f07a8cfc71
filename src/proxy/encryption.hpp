#pragma once

#include "config/configuration.hpp"
#include "tls/client.hpp"

#include <memory>
#include <string>
#include <vector>

namespace proxy {

/// TLS towards each server of an upstream, in their order; null without https.
using server_encryptions = std::vector<std::shared_ptr<tls::client const>>;

/// Reads the files of an upstream. Throws `tool::usage_error`, which names the upstream.
[[nodiscard]] server_encryptions encryptions_of(config::upstream const& u);

/// A line for each upstream whose servers may have any certificate.
[[nodiscard]] std::vector<std::string> warnings_of_encryptions(config::configuration const& c);

}  // namespace proxy
