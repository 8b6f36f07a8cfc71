#pragma once

#include "feed.hpp"
#include "find.hpp"
#include "plan.hpp"
#include "simulation.hpp"

#include <optional>
#include <string>
#include <vector>

namespace replay {

/// The parsed command line.
struct options {
    std::string help;  // output of --help or --version; if it is set, ignore the rest

    logs_options logs;
    std::vector<plan> plans;  // the limits, then each alternative
    settings how;
    bool is_spread_chosen = false;  // otherwise, without --find, the report compares all kinds

    std::optional<unknown> find;
    std::string find_text;
    double max_rejected = 0.001;
    double max_slowed = 0.001;

    bool json = false;
    std::string html;     // path of the HTML report; empty for none
    std::string command;  // the command line as given, quoted for a shell
};

/// Parses the command line. Throws `tool::usage_error` and, for a configuration file, `config::bad_configuration`.
[[nodiscard]] options parse_options(int argc, char const* const* argv);

}  // namespace replay
