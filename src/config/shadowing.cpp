#include "shadowing.hpp"

#include "http/characters.hpp"

#include <algorithm>
#include <optional>
#include <set>

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

// Divides a list into lists of one element each. An empty list, which matches all, cannot be divided.
template <class T>
std::vector<std::vector<T>> each_of(std::vector<T> const& list) {
    if (list.empty())
        return {{}};
    std::vector<std::vector<T>> each;
    for (auto const& one : list)
        each.push_back({one});
    return each;
}

}  // namespace

// The earlier routes whose host and path match all requests of `r`, in order.
std::vector<earlier_routes::earlier const*> earlier_routes::wider_routes(route const& r) const {
    std::vector<earlier const*> found;
    auto const paths = wider_paths(path_of(r));
    for (auto const& host : wider_hosts(host_of(r)))
        for (auto const& path : paths)
            if (auto const those = all_.find({r.check, host, path}); those != all_.end())
                for (auto const& one : those->second)
                    if (covers(one.headers, r.headers))
                        found.push_back(&one);
    std::ranges::sort(found, {}, [](earlier const* one) { return one->number; });
    return found;
}

// A single network of `r` counts as matched only if one earlier route matches all of it.
std::vector<std::size_t> earlier_routes::shadows_of(route const& r) const {
    auto const wider = wider_routes(r);
    auto const first =
        [&](std::vector<std::string> const& methods,
            std::vector<tool::network> const& clients) -> std::optional<std::size_t> {
        auto const found = std::ranges::find_if(wider, [&](earlier const* one) {
            return covers(one->methods, methods) && covers(one->clients, clients);
        });
        return found == wider.end() ? std::nullopt : std::optional((*found)->number);
    };
    if (auto const one = first(r.methods, r.clients))
        return {*one};
    std::set<std::size_t> together;
    for (auto const& methods : each_of(r.methods))
        for (auto const& clients : each_of(r.clients)) {
            auto const one = first(methods, clients);
            if (!one)
                return {};
            together.insert(*one);
        }
    return {together.begin(), together.end()};
}

void earlier_routes::add(route const& r) {
    all_[{r.check, host_of(r), path_of(r)}].push_back({count_++, r.methods, r.clients, r.headers});
}

}  // namespace config
