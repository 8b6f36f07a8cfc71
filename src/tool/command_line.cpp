#include "command_line.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace tool {

void reject(std::string_view option, std::string_view value, std::string_view must) {
    throw usage_error(fmt::format("{} is `{}`, but must be {}", option, value, must));
}

void parse(std::span<char const* const> words, std::span<option const> all) {
    std::set<std::string_view> given;
    for (auto word = words.begin(); word != words.end(); ++word) {
        std::string_view const text = *word;
        auto const equals = text.starts_with("--") ? text.find('=') : text.npos;
        auto const name = text.substr(0, equals);
        auto const known = std::ranges::find(all, name, &option::name);
        if (known == all.end())
            throw usage_error(fmt::format("there is no option `{}`; see --help", name));
        if (!given.insert(known->name).second)
            throw usage_error(fmt::format("{} is given twice", name));

        std::string_view value;
        if (known->argument.empty()) {
            if (equals != text.npos)
                throw usage_error(fmt::format("{} takes no value", name));
        } else if (equals != text.npos) {
            value = text.substr(equals + 1);
        } else if (word + 1 != words.end()) {
            value = *++word;
        } else {
            throw usage_error(fmt::format(
                "{} is the last word, but must be followed by {}", name, known->argument));
        }
        known->set(name, value);
    }
}

std::string describe(std::span<option const> all) {
    std::string text;
    for (auto const& o : all)
        text += fmt::format("  {:<28}{}\n", fmt::format("{} {}", o.name, o.argument), o.help);
    return text;
}

}  // namespace tool
