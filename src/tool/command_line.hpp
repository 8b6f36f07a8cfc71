#pragma once

#include "arguments.hpp"

#include <CLI/CLI.hpp>

#include <string>

namespace tool {

/// Throws `usage_error` for an error of CLI11, in the words of the other messages: an unknown option, an option without a
/// value, a repeated option, or a missing argument.
[[noreturn]] inline void reject(CLI::App const& app, CLI::ParseError const& error) {
    std::string text = error.what();
    auto const name = text.substr(0, text.find_first_of(": "));
    if (dynamic_cast<CLI::ExtrasError const*>(&error)) {
        auto const first = app.remaining().front();
        text = first.starts_with('-') ? "unknown option " + first
                                      : "unexpected argument `" + first + "`";
    } else if (dynamic_cast<CLI::RequiredError const*>(&error)) {
        text = "missing " + name;
    } else if (auto const* const option = app.get_option_no_throw(name);
               option && dynamic_cast<CLI::ArgumentMismatch const*>(&error)) {
        text = name + (option->count() > 1 ? " must not be repeated" : " needs a value");
    }
    throw usage_error(text + "; see --help");
}

}  // namespace tool
