#include "body.hpp"
#include "file_reader.hpp"
#include "http/characters.hpp"
#include "kinds.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace config {
namespace {

// Whether the proxy sets this header field itself.
bool is_reserved(std::string_view name) {
    constexpr std::string_view reserved[] = {
        "connection", "content-length",    "expect",  "host", "keep-alive",     "te",
        "trailer",    "transfer-encoding", "upgrade", "via",  "x-forwarded-for"};
    std::string lower(name);
    std::ranges::transform(lower, lower.begin(), [](char c) {
        return c >= 'A' && c <= 'Z' ? char(c | 0x20) : c;
    });
    return std::ranges::find(reserved, lower) != std::end(reserved);
}

}  // namespace

using namespace std::chrono_literals;

void file_reader::read_route(table_reader& t) {
    route r;
    t.get("host", r.host, host_of_route());
    t.get("path", r.path, path_of_route());
    auto const where = fmt::format("route `{}{}`", r.host, r.path);
    t.set_name(where);
    t.list("method", method(), [&](std::string m, position) { r.methods.push_back(std::move(m)); });
    t.list("client", network(), [&](tool::network n, position) { r.clients.push_back(n); });
    if (t.has("client") && r.clients.empty())
        t.problem(t.at("client"), "`client` has no network; leave it out to match all clients");
    t.table("header", [&](table_reader& of) { read_conditions(of, r); });

    if (t.get("upstream", r.upstream, text("the name of an upstream")))
        use_upstream(r.upstream, t.at("upstream"), where);
    std::int64_t status = 0;
    if (t.get("respond", status, number(200, 599)))
        r.respond = static_cast<unsigned>(status);
    t.get("check", r.check, flag());
    if (r.check)
        r.respond = 204;
    if (t.has("upstream") + t.has("respond") + r.check != 1)
        t.problem(t.at(), "exactly one of `upstream`, `respond` and `check` is required");
    else if (!t.has("upstream"))
        for (char const* const key :
             {"upstream_path", "upstream_timeout", "body_buffer", "upgrade", "request_headers"})
            if (t.has(key))
                t.problem(t.at(key), fmt::format("`{}` requires `upstream`", key));
    t.list("limits", text("the name of a limit"), [&](std::string name, position at) {
        limits_.use(name, at, where);
        bool const counts_bytes =
            std::ranges::find(made_.bandwidths, name, &limit::name) != made_.bandwidths.end();
        auto& those = counts_bytes ? r.bandwidths : r.limits;
        if (std::ranges::find(those, name) != those.end())
            t.problem(at, fmt::format("duplicate limit `{}`", name));
        if (counts_bytes && !t.has("upstream"))
            t.problem(at,
                      fmt::format("limit `{}` has `bandwidth`, which requires `upstream`", name));
        if (r.check)
            require_no_end(t, at, name);
        those.push_back(std::move(name));
    });
    if (auto const n = r.limits.size() + r.bandwidths.size(); n > route::most_limits)
        t.problem(t.at("limits"),
                  fmt::format("{} limits; at most {} are allowed", n, route::most_limits));
    t.table("cost", [&](table_reader& of) { read_costs(of, r); });
    if (t.get("upstream_path", r.upstream_path, path_of_upstream()) && *r.upstream_path == r.path)
        warnings_.add(t.at("upstream_path"),
                      fmt::format("warning: {}: `upstream_path` has no effect: it is the `path` of "
                                  "the route",
                                  where));
    t.get("upstream_timeout", r.upstream_timeout, time(1ms));
    t.get("body_buffer", r.body_buffer, number(0, route::most_body_buffer));
    t.get("body_limit", r.body_limit, number(0, 1'000'000'000'000));
    t.table("upgrade", [&](table_reader& of) {
        if (!of.has("to"))
            of.problem(of.at(),
                       "missing `to`: a protocol, such as websocket, or a list of protocols");
        of.list("to", protocol(),
                [&](std::string name, position) { r.upgrade.to.push_back(std::move(name)); });
        of.get("seats", r.upgrade.seats, how_long_seats_are_held());
        of.get("idle", r.upgrade.idle, time(1ms));
    });
    t.table("body", [&](table_reader& of) { read_content(of, r.body.emplace()); });
    if (r.body && !t.has("respond"))
        t.problem(t.at("body"), "`body` requires `respond`");
    else if (r.body && r.respond && (r.respond == 204U || r.respond == 304U))
        t.problem(t.at("body"),
                  fmt::format("a response with the status {} has no body", *r.respond));
    if (r.body && r.respond)
        r.body->status = {*r.respond};
    t.table("request_headers", [&](table_reader& of) { read_changes(of, r.request_headers); });
    t.table("response_headers", [&](table_reader& of) { read_changes(of, r.response_headers); });
    made_.routes.push_back(std::move(r));
    routes_at_.push_back(t.at());
}

void file_reader::use_upstream(std::string const& name, position at, std::string const& where) {
    upstreams_.use(name, at, where);
    auto const u = std::ranges::find(made_.upstreams, name, &upstream::name);
    if (u != made_.upstreams.end() && u->proxy_protocol != 0)
        problems_.add(at, fmt::format("{}: upstream `{}` has `proxy_protocol`, which requires a "
                                      "[[listen]] with `tcp`: requests of several clients share a "
                                      "connection",
                                      where, name));
}

// A check ends with its response, before the request that it is about.
void file_reader::require_no_end(table_reader& t, position at, std::string_view name) {
    auto const found = std::ranges::find(made_.limits, name, &limit::name);
    if (found == made_.limits.end())
        return;
    auto const& l = *found;
    bool const seats = has_seats(l.rule) || std::ranges::any_of(l.overrides, [](auto const& o) {
                           return o.second && has_seats(*o.second);
                       });
    if (seats)
        t.problem(at, fmt::format("limit `{}` has seats, but nothing tells when the request of a "
                                  "check ends",
                                  name));
    else if (is_of_response(l.cost) || !l.count.empty() || l.cost.what == cost::kind::bytes)
        t.problem(at, fmt::format("limit `{}` counts by the response or by the body, which a check "
                                  "does not have",
                                  name));
}

void file_reader::read_conditions(table_reader& t, route& r) {
    t.all([&](std::string_view name, toml::node const& node) {
        auto const at = node.source().begin;
        if (!is_token(name))
            t.problem(at, fmt::format("`{}` is not a valid header name", name));
        check_field(at, name);
        for (auto const& other : r.headers)
            if (http::iequals(other.name, name))
                t.problem(at, fmt::format("duplicate header `{}`", name));
        auto& condition = r.headers.emplace_back(header_condition{std::string(name), {}});
        t.list(name, value_of_field(),
               [&](std::string value, position) { condition.values.push_back(std::move(value)); });
        if (auto const* const all = node.as_array(); all && all->empty())
            t.problem(at, fmt::format("`{}` has no value", name));
    });
}

void file_reader::read_costs(table_reader& t, route& r) {
    t.all([&](std::string_view name, toml::node const& node) {
        auto const at = node.source().begin;
        auto const n = t.make(name, node, number(1, cost::most));
        if (std::ranges::find(r.limits, name) == r.limits.end())
            return t.problem(at, fmt::format("`{}` is not a limit of this route", name));
        auto const of = std::ranges::find(made_.limits, name, &limit::name);
        if (n && of != made_.limits.end() && *n > capacity_of(*of))
            t.problem(at, fmt::format("`{}` is {}, but the limit grants at most {} at once", name,
                                      *n, capacity_of(*of)));
        if (n)
            r.costs.emplace_back(name, *n);
    });
}

void file_reader::read_changes(table_reader& t, field_changes& changes) {
    auto const name_is_right = [&](std::string_view name, position at) {
        if (!is_token(name))
            t.problem(at, fmt::format("`{}` is not a valid header name", name));
        else if (is_reserved(name))
            t.problem(at, fmt::format("`{}` is set by the proxy and cannot be changed", name));
    };
    t.table("add", [&](table_reader& of) {
        of.all([&](std::string_view name, toml::node const& node) {
            name_is_right(name, node.source().begin);
            if (auto value = of.make(name, node, field_value()))
                changes.add.push_back({std::string(name), std::move(*value)});
        });
    });
    t.list("remove", text("the name of a field, such as X-Api-Key"),
           [&](std::string name, position at) {
               name_is_right(name, at);
               changes.remove.push_back(std::move(name));
           });
}

void file_reader::read_body(table_reader& t) {
    body b;
    if (!t.has("status"))
        t.problem(t.at(), "missing `status`: a status, such as 429, or a list of statuses");
    t.list("status", number(200, 599), [&](std::int64_t status, position) {
        b.status.push_back(static_cast<unsigned>(status));
    });
    read_content(t, b);
    for (auto const& other : made_.bodies)
        for (auto const status : b.status)
            if (other.type == b.type &&
                std::ranges::find(other.status, status) != other.status.end())
                t.problem(t.at("status"),
                          fmt::format("duplicate body of this type for status {}", status));
    made_.bodies.push_back(std::move(b));
}

void file_reader::read_content(table_reader& t, body& b) {
    if (t.require("file", b.file, text("a file"))) {
        try {
            b.text = config::read_body(b.file, path_);
        } catch (std::invalid_argument const& wrong) {
            t.problem(t.at("file"), wrong.what());
        }
        b.type = type_by_name(b.file);
        if (b.type.empty() && !t.has("type"))
            t.problem(t.at(),
                      fmt::format("missing `type`: cannot infer the media type of `{}`", b.file));
    }
    t.get("type", b.type, media_type());
}

}  // namespace config
