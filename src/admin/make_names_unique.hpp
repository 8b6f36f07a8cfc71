#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace admin {

/// Makes the names of `all` unique: the first of several equal names stays, and the others become `name#2`, `name#3`
/// and so on, except names that exist already.
template <class Named>
void make_names_unique(std::vector<Named>& all) {
    std::set<std::string> given;
    for (auto const& one : all)
        given.insert(one.name);
    std::set<std::string> seen;
    for (auto& one : all) {
        if (seen.insert(one.name).second)
            continue;
        std::string name;
        for (std::size_t n = 2; name.empty() || !given.insert(name).second; ++n)
            name = fmt::format("{}#{}", one.name, n);
        one.name = std::move(name);
    }
}

}  // namespace admin
