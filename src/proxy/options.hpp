#pragma once

#include "config/configuration.hpp"
#include "tool/arguments.hpp"

#include <cstdint>
#include <string>

namespace proxy {

/// The parsed command line.
struct command {
    enum class action : std::uint8_t { serve, help, check, print, reload };
    action what = action::serve;

    std::string help;                     // output of --help or --version
    std::string file;                     // of --config; empty without it
    config::configuration configuration;  // made from the other options, if `file` is empty
    bool strict = false;                  // --check fails if a setting has no effect
    bool tls = false;                     // the demo makes a certificate
    bool demo = false;  // the only server is the demo backend, whose address is not known yet
};

/// Parses the command line. Throws `tool::usage_error` with a message of one line.
[[nodiscard]] command parse_options(int argc, char const* const* argv);

}  // namespace proxy
