#include "tcp.hpp"

#include "configuration.hpp"
#include "kinds.hpp"
#include "table_reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <optional>
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

void read_limits(table_reader& t, tcp_options& tcp, configuration const& c) {
    t.list("limits", text("the name of a limit"), [&](std::string name, position at) {
        auto const find = [&](std::vector<limit> const& all) {
            auto const found = std::ranges::find(all, name, &limit::name);
            return found == all.end() ? nullptr : &*found;
        };
        auto const* const of_bytes = find(c.bandwidths);
        auto const* const found = of_bytes ? of_bytes : find(c.limits);
        auto& those = of_bytes ? tcp.bandwidths : tcp.limits;
        if (std::ranges::find(those, name) != those.end())
            t.problem(at, fmt::format("duplicate limit `{}`", name));
        if (auto const need = found ? need_of_requests(*found) : std::string(); !need.empty())
            t.problem(
                at, fmt::format("limit `{}` has {}, which requires requests of HTTP", name, need));
        those.push_back(std::move(name));
    });
    if (auto const n = tcp.limits.size() + tcp.bandwidths.size(); n > route::most_limits)
        t.problem(t.at("limits"),
                  fmt::format("{} limits; at most {} are allowed", n, route::most_limits));
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

tcp_options read_tcp(table_reader& t, configuration const& c) {
    tcp_options tcp;
    if (t.require("upstream", tcp.upstream, text("the name of an upstream")))
        if (auto const to = std::ranges::find(c.upstreams, tcp.upstream, &upstream::name);
            to != c.upstreams.end())
            if (auto const part = need_of_requests(to->hash); !part.empty())
                t.problem(t.at("upstream"), fmt::format("upstream `{}` has the hash {}, which "
                                                        "requires requests of HTTP",
                                                        tcp.upstream, part));
    read_limits(t, tcp, c);
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
