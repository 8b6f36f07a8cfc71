#pragma once

#include "configuration.hpp"

#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace config {

/// All that is wrong with a file: a line for each, as `FILE:LINE:COLUMN: what was found, and what is expected`.
class bad_configuration : public std::runtime_error {
public:
    explicit bad_configuration(std::vector<std::string> problems);

    [[nodiscard]] std::vector<std::string> const& problems() const noexcept { return problems_; }

private:
    std::vector<std::string> problems_;
};

/// The configuration that a text in TOML describes; `file` is what messages call it. Throws `bad_configuration`.
[[nodiscard]] configuration read(std::string_view text, std::string_view file);

/// That of a file. Throws `tool::usage_error` if it cannot be read, too.
[[nodiscard]] configuration read_file(std::string const& file);

}  // namespace config
