#pragma once

#include "config/configuration.hpp"
#include "tool/arguments.hpp"

#include <cstdint>
#include <string>

namespace proxy {

/// What the command line asks for.
struct command {
    enum class action : std::uint8_t { serve, help, check, print, reload };
    action what = action::serve;

    std::string help;                     // what --help or --version prints
    std::string file;                     // the configuration; or, without one,
    config::configuration configuration;  // what the other options amount to
    bool demo = false;  // with a demo as the only server, whose address is not known yet
};

/// Throws `tool::usage_error`, in one line.
[[nodiscard]] command parse_options(int argc, char const* const* argv);

}  // namespace proxy
