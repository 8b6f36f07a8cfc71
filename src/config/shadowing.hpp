#pragma once

#include "configuration.hpp"

#include <cstddef>
#include <map>
#include <string>
#include <tuple>
#include <vector>

namespace config {

/// The routes of a file so far, in order. It finds routes that no request can reach.
class earlier_routes {
public:
    /// The numbers of earlier routes, from 0 and in order, that together match each request of `r`: the first single
    /// one if there is one, or several that divide its methods and clients. Empty if there are none.
    [[nodiscard]] std::vector<std::size_t> shadows_of(route const& r) const;
    void add(route const& r);

private:
    struct earlier {
        std::size_t number;
        std::vector<std::string> methods;
        std::vector<tool::network> clients;
        std::vector<header_condition> headers;
    };
    [[nodiscard]] std::vector<earlier const*> wider_routes(route const& r) const;

    // By `check`, by host, in lower case, and by path, without a slash at the end.
    std::map<std::tuple<bool, std::string, std::string>, std::vector<earlier>> all_;
    std::size_t count_ = 0;
};

}  // namespace config
