#include "tcp.hpp"

#include "configuration.hpp"
#include "file_reader.hpp"
#include "http/characters.hpp"
#include "kinds.hpp"
#include "table_reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <optional>
#include <set>
#include <stdexcept>
#include <utility>
#include <vector>

namespace config {
namespace {

// A refusal of this length fits into the buffer of each new connection.
constexpr std::size_t longest_refusal = 1024;

// Any bytes, with control characters.
kind<std::string> bytes_to_send() {
    return {
        "a text of at most 1,024 bytes", [](toml::node const& value) -> std::optional<std::string> {
            auto const* const text = value.as_string();
            bool const fits = text && !text->get().empty() && text->get().size() <= longest_refusal;
            return fits ? std::optional(text->get()) : std::nullopt;
        }};
}

// The first part of a key that connections do not have; empty without one.
std::string need_of_requests(std::vector<key_part> const& key) {
    for (auto const& part : key)
        if (part != key_part())
            return fmt::format("`{}`", to_string(part));
    return {};
}

// Clients send a name in its ASCII form, without the dot of the root.
kind<std::string> server_name() {
    return {"a server name, such as db.example.org or *.example.org",
            [](toml::node const& node) -> std::optional<std::string> {
                auto const* const text = node.as_string();
                std::string_view const found = text ? std::string_view(text->get()) : "";
                if (found == "*")
                    throw std::invalid_argument("`upstream` of `tcp` gets all other connections");
                auto const name = found.starts_with("*.") ? found.substr(2) : found;
                auto const last = name.substr(name.rfind('.') + 1);
                if (name.empty() || name.starts_with('.') || name.ends_with('.') ||
                    name.find("..") != name.npos || !std::ranges::all_of(name, [](char c) {
                        return http::is_alphanumeric(c) || c == '-' || c == '_' || c == '.';
                    }))
                    return std::nullopt;
                if (http::all(last, http::is_digit))
                    throw std::invalid_argument("clients do not name an address");
                return std::string(found);
            }};
}

// `to` is the destination of all connections or of a route. A route also has the limits of all connections.
template <class To>
void read_destination(table_reader& t, To& to, configuration const& c, names& upstreams,
                      names& limits) {
    if (t.get("upstream", to.upstream, text("the name of an upstream"))) {
        upstreams.use(to.upstream, t.at("upstream"), t.name());
        if (auto const u = std::ranges::find(c.upstreams, to.upstream, &upstream::name);
            u != c.upstreams.end())
            if (auto const part = need_of_requests(u->hash); !part.empty())
                t.problem(t.at("upstream"), fmt::format("upstream `{}` has the hash {}, which "
                                                        "requires requests of HTTP",
                                                        to.upstream, part));
    }
    t.list("limits", text("the name of a limit"), [&](std::string name, position at) {
        limits.use(name, t.at("limits"), t.name());
        auto const find = [&](std::vector<limit> const& all) {
            auto const found = std::ranges::find(all, name, &limit::name);
            return found == all.end() ? nullptr : &*found;
        };
        auto const* const of_bytes = find(c.bandwidths);
        auto const* const found = of_bytes ? of_bytes : find(c.limits);
        auto& those = of_bytes ? to.bandwidths : to.limits;
        if (std::ranges::find(those, name) != those.end())
            t.problem(at, fmt::format("duplicate limit `{}`", name));
        if (auto const need = found ? need_of_requests(*found) : std::string(); !need.empty())
            t.problem(
                at, fmt::format("limit `{}` has {}, which requires requests of HTTP", name, need));
        those.push_back(std::move(name));
    });
    if (auto const n = to.limits.size() + to.bandwidths.size(); n > route::most_limits)
        t.problem(t.at("limits"),
                  fmt::format("{} limits; at most {} are allowed", n, route::most_limits));
}

void read_route(table_reader& t, tcp_options& tcp, configuration const& c, names& upstreams,
                names& limits, std::set<std::string>& known) {
    auto& r = tcp.routes.emplace_back();
    t.list("sni", server_name(), [&](std::string name, position at) {
        std::string lower(name);
        std::ranges::transform(lower, lower.begin(), http::to_lower);
        if (!known.insert(lower).second)
            t.problem(at, fmt::format("duplicate name `{}`", name));
        r.sni.push_back(std::move(name));
    });
    if (!t.has("sni") || t.is_empty_list("sni"))
        t.problem(t.at(), fmt::format("missing `sni`: {}", server_name().expected));
    if (!t.has("upstream"))
        t.problem(t.at(), "missing `upstream`: the name of an upstream");
    read_destination(t, r, c, upstreams, limits);
    for (auto const names_of : {&tcp_options::limits, &tcp_options::bandwidths})
        for (auto const& name : tcp.*names_of)
            if (std::ranges::find(r.limits, name) != r.limits.end() ||
                std::ranges::find(r.bandwidths, name) != r.bandwidths.end())
                t.problem(t.at("limits"),
                          fmt::format("duplicate limit `{}`: each connection here has it", name));
    auto const n =
        tcp.limits.size() + tcp.bandwidths.size() + r.limits.size() + r.bandwidths.size();
    if (n > route::most_limits && r.limits.size() + r.bandwidths.size() <= route::most_limits)
        t.problem(t.at("limits"), fmt::format("{} limits with the limits of `tcp`; at most {} "
                                              "are allowed",
                                              n, route::most_limits));
}

}  // namespace

std::string need_of_requests(limit const& l) {
    if (auto const part = need_of_requests(l.key); !part.empty())
        return fmt::format("the key {}", part);
    if (l.cost.what != cost::kind::number)
        return fmt::format("the cost `{}`", to_string(l.cost));
    if (!l.count.empty())
        return "`count`";
    if (l.priority)
        return "`priority`";
    bool const adapts = is_adaptive(l.rule) || std::ranges::any_of(l.overrides, [](auto const& o) {
                            return o.second && is_adaptive(*o.second);
                        });
    return adapts ? fmt::format("the rule `{}`", rule_text(l)) : std::string();
}

tcp_options read_tcp(table_reader& t, configuration const& c, names& upstreams, names& limits) {
    tcp_options tcp;
    read_destination(t, tcp, c, upstreams, limits);
    std::set<std::string> known;
    t.tables("route", [&](table_reader& of) { read_route(of, tcp, c, upstreams, limits, known); });
    if (!t.has("upstream") && tcp.routes.empty())
        t.problem(t.at(), "missing `upstream`: the name of an upstream");
    t.table("bandwidth", [&](table_reader& of) { tcp.bandwidth = read_rates(of); });
    t.get("refusal", tcp.refusal, bytes_to_send());
    t.get("idle", tcp.idle, time(std::chrono::milliseconds(1)));
    return tcp;
}

bool has_tcp(configuration const& c) {
    return std::ranges::any_of(c.listeners, [](listener const& l) { return l.tcp.has_value(); });
}

// Without a listener, the default one accepts HTTP.
bool has_http(configuration const& c) {
    return c.listeners.empty() ||
           std::ranges::any_of(c.listeners, [](listener const& l) { return !l.tcp; });
}

}  // namespace config
