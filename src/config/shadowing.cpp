#include "shadowing.hpp"

#include "http/characters.hpp"

#include <algorithm>

namespace config {
namespace {

std::string host_of(route const& r) {
    std::string host(r.host);
    std::ranges::transform(host, host.begin(), http::to_lower);
    return host;
}

std::string path_of(route const& r) {
    return r.path.substr(0, r.path.find_last_not_of('/') + 1);
}

// The patterns that match all hosts of the pattern `host`.
std::vector<std::string> wider_hosts(std::string host) {
    std::vector<std::string> all{host};
    if (host.empty())
        return all;
    all.emplace_back();
    if (host.starts_with("*."))
        host.erase(0, 2);
    for (auto dot = host.find('.'); dot != host.npos; dot = host.find('.')) {
        host.erase(0, dot + 1);
        all.push_back("*." + host);
    }
    return all;
}

// The path and its parents, down to the empty text.
std::vector<std::string> wider_paths(std::string path) {
    std::vector<std::string> all{path};
    while (!path.empty()) {
        path.resize(path.rfind('/'));
        all.push_back(path);
    }
    return all;
}

// Whether a route for the methods `a` matches all methods of a route for `b`.
bool covers(std::vector<std::string> const& a, std::vector<std::string> const& b) {
    return a.empty() || (!b.empty() && std::ranges::all_of(b, [&](auto const& method) {
               return std::ranges::find(a, method) != a.end();
           }));
}

// Whether a route for the clients `a` matches all clients of a route for `b`.
bool covers(std::vector<tool::network> const& a, std::vector<tool::network> const& b) {
    return a.empty() || (!b.empty() && std::ranges::all_of(b, [&](tool::network const& narrow) {
               return std::ranges::any_of(a, [&](tool::network const& wide) {
                   return wide.is_v4() == narrow.is_v4() && wide.prefix <= narrow.prefix &&
                          wide.contains(narrow.address);
               });
           }));
}

// Whether a request with the header fields `b` has the header fields `a`.
bool covers(std::vector<header_condition> const& a, std::vector<header_condition> const& b) {
    return std::ranges::all_of(a, [&](header_condition const& wide) {
        return std::ranges::any_of(b, [&](header_condition const& narrow) {
            return http::iequals(wide.name, narrow.name) &&
                   std::ranges::all_of(narrow.values, [&](std::string const& value) {
                       return std::ranges::find(wide.values, value) != wide.values.end();
                   });
        });
    });
}

}  // namespace

std::optional<std::size_t> earlier_routes::shadow_of(route const& r) const {
    std::optional<std::size_t> first;
    auto const paths = wider_paths(path_of(r));
    for (auto const& host : wider_hosts(host_of(r)))
        for (auto const& path : paths) {
            auto const found = all_.find({r.check, host, path});
            if (found == all_.end())
                continue;
            for (auto const& one : found->second)
                if (covers(one.methods, r.methods) && covers(one.clients, r.clients) &&
                    covers(one.headers, r.headers)) {
                    first = std::min(first.value_or(one.number), one.number);
                    break;
                }
        }
    return first;
}

void earlier_routes::add(route const& r) {
    all_[{r.check, host_of(r), path_of(r)}].push_back({count_++, r.methods, r.clients, r.headers});
}

}  // namespace config
