#pragma once

#include "feed.hpp"
#include "find.hpp"
#include "plan.hpp"
#include "simulation.hpp"

#include <optional>
#include <string>
#include <vector>

namespace replay {

struct options {
    std::string help;  // what --help or --version prints; nothing else counts then

    logs_options logs;
    std::vector<plan> plans;  // of the limits, and of each alternative
    settings how;
    bool is_spread_chosen = false;  // otherwise others are tried, too

    std::optional<unknown> find;
    std::string find_text;
    double max_rejected = 0.001;

    bool json = false;
    std::string html;     // a file; empty for none
    std::string command;  // what was given
};

/// Throws `tool::usage_error`.
[[nodiscard]] options parse_options(int argc, char const* const* argv);

}  // namespace replay
