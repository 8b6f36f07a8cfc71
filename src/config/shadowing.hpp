#pragma once

#include "configuration.hpp"

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

namespace config {

/// The routes of a file so far, in order. It finds routes that no request can reach.
class earlier_routes {
public:
    /// The number of the first earlier route that matches each request of `r`, from 0; empty if there is none.
    [[nodiscard]] std::optional<std::size_t> shadow_of(route const& r) const;
    void add(route const& r);

private:
    struct earlier {
        std::size_t number;
        std::vector<std::string> methods;
        std::vector<tool::network> clients;
        std::vector<header_condition> headers;
    };
    // By `check`, by host, in lower case, and by path, without a slash at the end.
    std::map<std::tuple<bool, std::string, std::string>, std::vector<earlier>> all_;
    std::size_t count_ = 0;
};

}  // namespace config
