#include "completion.hpp"

#include "arguments.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace tool {
namespace {

std::vector<CLI::Option const*> listed_options(CLI::App const& app) {
    std::vector<CLI::Option const*> listed;
    for (auto const* const option : app.get_options())
        if (!option->nonpositional() || !option->get_group().empty())
            listed.push_back(option);
    return listed;
}

bool is_file(CLI::Option const& option) {
    return option.get_type_name() == "FILE";
}

bool has_value(CLI::Option const& option) {
    return option.get_items_expected_max() > 0;
}

std::string bash(CLI::App const& app) {
    std::vector<std::string> names;
    std::vector<std::string> of_file;
    std::vector<std::string> of_text;
    bool has_positional = false;
    for (auto const* const option : listed_options(app)) {
        if (!option->nonpositional()) {
            has_positional = true;
            continue;
        }
        names.push_back(option->get_name());
        if (has_value(*option))
            (is_file(*option) ? of_file : of_text).push_back(option->get_name());
    }
    auto function = app.get_name();
    std::ranges::replace(function, '-', '_');
    return fmt::format(
        R"(# Completes the options of {program} in bash. Without a word in COMPREPLY, bash completes the name of a file.
_{function}() {{
    COMPREPLY=()
    case $3 in
        {of_file}) return ;;
        {of_text}) compopt +o default && return ;;
    esac
    if [[ $2 == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W '{names}' -- "$2")
    {otherwise}fi
}}
complete -o default -F _{function} {program}
)",
        fmt::arg("program", app.get_name()), fmt::arg("function", function),
        fmt::arg("of_file", fmt::join(of_file, " | ")),
        fmt::arg("of_text", fmt::join(of_text, " | ")), fmt::arg("names", fmt::join(names, " ")),
        fmt::arg("otherwise", has_positional ? "" : "else\n        compopt +o default\n    "));
}

// Text for a specification of zsh's `_arguments` inside single quotes.
std::string quoted_for_zsh(std::string_view text) {
    std::string out;
    for (char const c : text) {
        if (c == '\'')
            out += R"('\'')";
        else if (c == '[' || c == ']' || c == ':' || c == '\\')
            out += {'\\', c};
        else
            out += c;
    }
    return out;
}

std::string zsh(CLI::App const& app) {
    std::string out = fmt::format("#compdef {}\n# Completes the options of {} in zsh.\n_arguments",
                                  app.get_name(), app.get_name());
    for (auto const* const option : listed_options(app)) {
        if (!option->nonpositional()) {
            out += fmt::format(" \\\n    '*:{}:_files'", quoted_for_zsh(option->get_name()));
            continue;
        }
        bool const repeats = option->get_multi_option_policy() == CLI::MultiOptionPolicy::TakeAll;
        out += fmt::format(" \\\n    '{}{}[{}]", repeats ? "*" : "", option->get_name(),
                           quoted_for_zsh(option->get_description()));
        if (has_value(*option))
            out += fmt::format(":{}:{}", quoted_for_zsh(option->get_type_name()),
                               is_file(*option) ? "_files" : " ");
        out += "'";
    }
    return out + "\n";
}

}  // namespace

std::string completion(CLI::App const& app, std::string_view shell) {
    if (shell == "bash")
        return bash(app);
    if (shell == "zsh")
        return zsh(app);
    reject("--completion", shell, "bash or zsh");
}

void add_completion(CLI::App& app) {
    app.add_option_function<std::string>(
           "--completion",
           [&app](std::string const& shell) {
               throw CLI::CallForVersion(completion(app, shell), CLI::ExitCodes::Success);
           })
        ->group("");
}

}  // namespace tool
