#include "table_reader.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <sstream>

namespace config {

namespace {

// Keeps a message on one line.
std::string printable(std::string text) {
    std::ranges::replace_if(
        text, [](char c) { return static_cast<unsigned char>(c) < ' ' || c == 127; }, '?');
    return text;
}

}  // namespace

std::vector<std::string> problem_list::lines() && {
    // Problems at the same position keep their order.
    std::multimap<std::pair<toml::source_index, toml::source_index>, std::string> sorted;
    for (auto& [at, text] : found_)
        sorted.emplace(std::pair(at.line, at.column), std::move(text));
    std::vector<std::string> lines;
    for (auto const& [at, text] : sorted)
        lines.push_back(fmt::format("{}:{}:{}: {}", file_, at.first, at.second, printable(text)));
    return lines;
}

std::string text_of(toml::node const& node) {
    if (node.is_table())
        return "a table";
    if (node.is_array())
        return "a list";
    if (auto const* const text = node.as_string())
        return fmt::format("`{}`", text->get());
    std::ostringstream out;
    node.visit([&out](auto const& value) { out << value; });
    return fmt::format("`{}`", out.str());
}

void table_reader::finish() {
    for (auto const& [key, node] : table_) {
        if (asked_.contains(key.str()))
            continue;
        problem(key.source().begin, fmt::format("unknown key `{}`; valid keys: {}", key.str(),
                                                fmt::join(asked_, ", ")));
    }
}

}  // namespace config
