#pragma once

#include "configuration.hpp"

#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace config {

/// All errors in a configuration file, one line each: `FILE:LINE:COLUMN: the value found and the value expected`.
class bad_configuration : public std::runtime_error {
public:
    explicit bad_configuration(std::vector<std::string> problems);

    [[nodiscard]] std::vector<std::string> const& problems() const noexcept { return problems_; }

private:
    std::vector<std::string> problems_;
};

/// Parses a configuration from TOML text; messages contain `file` as its name. Throws `bad_configuration`. Settings
/// without effect that may be intended are `warnings` of the result.
[[nodiscard]] configuration read(std::string_view text, std::string_view file);

/// Parses a configuration file. Throws `bad_configuration`, or `tool::usage_error` if the file cannot be read.
[[nodiscard]] configuration read_file(std::string const& file);

}  // namespace config
