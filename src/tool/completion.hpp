#pragma once

#include <CLI/CLI.hpp>

#include <string>
#include <string_view>

namespace tool {

/// Returns the script with which a shell completes the options of `app`: `bash` or `zsh`. A value of type `FILE`, and a
/// positional argument, is the name of a file.
///
/// @throws usage_error for another shell
[[nodiscard]] std::string completion(CLI::App const& app, std::string_view shell);

/// Adds the option `--completion SHELL`, which `--help` does not list. Parsing it throws `CLI::CallForVersion`, whose
/// text is the script.
void add_completion(CLI::App& app);

}  // namespace tool
