#include "file_reader.hpp"
#include "kinds.hpp"
#include "tcp.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace config {
namespace {

// A name of RFC 7301, if it can be printed.
kind<std::string> protocol_of_alpn() {
    return {"a protocol of ALPN, such as postgresql",
            [](toml::node const& node) -> std::optional<std::string> {
                auto const* const text = node.as_string();
                bool const right =
                    text && !text->get().empty() && text->get().size() <= 255 &&
                    std::ranges::all_of(text->get(), [](char c) { return c > ' ' && c < 0x7f; });
                return right ? std::optional(text->get()) : std::nullopt;
            }};
}

}  // namespace

void file_reader::read_listener(table_reader& t) {
    listener l;
    if (t.require("address", l.address, where_to_listen()))
        t.set_name(fmt::format("listen `{}`", to_string(l.address)));
    t.get("proxy_protocol", l.proxy_protocol, flag());
    t.get("mode", l.mode, file_mode());
    if (t.has("mode") && !std::holds_alternative<unix_address>(l.address))
        t.problem(t.at("mode"), "`mode` requires an `address` that is a unix socket");
    for (auto const& other : made_.listeners)
        if (other.address == l.address && t.has("address"))
            t.problem(t.at("address"), fmt::format("duplicate address `{}`", to_string(l.address)));
    if (l.proxy_protocol && made_.clients.trusted.empty() &&
        !std::holds_alternative<unix_address>(l.address))
        t.problem(t.at("proxy_protocol"), "`proxy_protocol` requires `trusted` in [clients]");
    t.table("check", [&](table_reader& of) { read_check(of, l); });
    read_tls(t, l);
    t.table("tcp", [&](table_reader& of) {
        l.tcp = read_tcp(of, made_, upstreams_, limits_);
        warn_of_burst(of, "`tcp`", l.tcp->bandwidth.value_or(bandwidth()));
        if (l.check)
            of.problem(of.at(), "`check` and `tcp` exclude each other");
    });
    read_limits_of_listener(t, l);
    made_.listeners.push_back(std::move(l));
}

void file_reader::read_check(table_reader& t, listener& l) {
    auto& c = l.check.emplace();
    t.get("described_by", c.described_by, way_of_describing());
    std::int64_t status = 0;
    if (t.get("refuse", status, number(400, 599)))
        c.refuse = static_cast<unsigned>(status);
    if (made_.clients.trusted.empty())
        t.problem(t.at(), "a check requires `trusted` in [clients]: the peers that may ask");
    if (l.proxy_protocol)
        t.problem(t.at(), "a check describes its client itself; leave out `proxy_protocol`");
    checks_at_ = checks_at_.value_or(t.at());
}

void file_reader::read_tls(table_reader& t, listener& l) {
    std::int64_t port = 0;
    if (t.get("https_port", port, number(1, 65535)))
        l.https_port = static_cast<std::uint16_t>(port);
    for (auto const* const other : {"tls", "check", "tcp"})
        if (t.has("https_port") && t.has(other))
            t.problem(t.at("https_port"),
                      fmt::format("`https_port` and `{}` exclude each other", other));
    // A relative path starts at the folder of this file.
    auto const read_path = [this](table_reader& of, std::string_view key, std::string& into) {
        if (of.require(key, into, text("a file")))
            into = (std::filesystem::path(path_).parent_path() / into).string();
    };
    t.tables("tls", [&](table_reader& of) {
        auto& one = l.tls.emplace_back();
        read_path(of, "certificate", one.certificate);
        read_path(of, "key", one.key);
    });
    if (t.is_empty_list("tls"))
        t.problem(t.at("tls"), "`tls` has no certificate");
    t.get("unknown_name", l.unknown_name, what_unknown_names_get());
    t.table("client_certificates", [&](table_reader& of) {
        auto& c = l.client_certificates.emplace();
        read_path(of, "authorities", c.authorities);
        of.get("required", c.required, flag());
    });
    t.list("handshake_limits", text("the name of a limit"), [&](std::string name, position at) {
        limits_.use(name, at, fmt::format("listen `{}`", to_string(l.address)));
        handshake_limits_.push_back(at);
        l.handshake_limits.push_back(std::move(name));
    });
    if (l.handshake_limits.size() > route::most_limits)
        t.problem(t.at("handshake_limits"),
                  fmt::format("{} limits; at most {} are allowed", l.handshake_limits.size(),
                              route::most_limits));
    t.list("alpn", protocol_of_alpn(), [&](std::string name, position at) {
        if (std::ranges::find(l.alpn, name) != l.alpn.end())
            t.problem(at, fmt::format("duplicate protocol `{}`", name));
        l.alpn.push_back(std::move(name));
    });
    if (t.has("alpn") && !t.has("tcp"))
        t.problem(t.at("alpn"), "`alpn` requires `tcp`: HTTP has its own protocols");
    for (auto const* const key :
         {"unknown_name", "client_certificates", "handshake_limits", "alpn"})
        if (t.has(key) && !t.has("tls"))
            t.problem(t.at(key), fmt::format("`{}` requires `tls`", key));
}

// The limits of requests belong to routes, which know the upstream.
void file_reader::read_limits_of_listener(table_reader& t, listener& l) {
    for (auto const* const other : {"check", "tcp", "https_port"})
        if (t.has("limits") && t.has(other))
            t.problem(t.at("limits"),
                      fmt::format("`limits` and `{}` exclude each other: {}", other,
                                  other == std::string_view("tcp") ? "`tcp` has its own `limits`"
                                                                   : "the proxy responds itself"));
    t.list("limits", text("the name of a limit"), [&](std::string name, position at) {
        limits_.use(name, at, fmt::format("listen `{}`", to_string(l.address)));
        if (std::ranges::find(made_.limits, name, &limit::name) != made_.limits.end())
            t.problem(at, fmt::format("limit `{}` counts requests: name it in a [[route]]; the "
                                      "limits of a listener have `bandwidth`",
                                      name));
        if (std::ranges::find(l.bandwidths, name) != l.bandwidths.end())
            t.problem(at, fmt::format("duplicate limit `{}`", name));
        l.bandwidths.push_back(std::move(name));
    });
    if (auto const n = l.bandwidths.size(); n > route::most_limits)
        t.problem(t.at("limits"),
                  fmt::format("{} limits; at most {} are allowed", n, route::most_limits));
}

// A handshake has a client, and nothing else of a request.
void file_reader::check_handshake_limits() {
    std::size_t i = 0;
    for (auto const& l : made_.listeners)
        for (auto const& name : l.handshake_limits) {
            auto const at = handshake_limits_[i++];
            auto const why = why_not_for_handshakes(name);
            if (!why.empty())
                problems_.add(at, fmt::format("listen `{}`: `{}` cannot limit handshakes: {}",
                                              to_string(l.address), name, why));
        }
}

bool file_reader::is_of_listener(std::string_view name) const {
    return std::ranges::any_of(made_.listeners, [&](listener const& l) {
        return std::ranges::find(l.handshake_limits, name) != l.handshake_limits.end() ||
               std::ranges::find(l.bandwidths, name) != l.bandwidths.end();
    });
}

std::string_view file_reader::why_not_for_handshakes(std::string_view name) const {
    if (std::ranges::find(made_.bandwidths, name, &limit::name) != made_.bandwidths.end())
        return "it limits bytes";
    auto const found = std::ranges::find(made_.limits, name, &limit::name);
    if (found == made_.limits.end())
        return {};  // reported already
    if (found->tree)
        return "it is a tree";
    if (is_penalty(found->rule))
        return "it is a penalty";
    if (!found->key.empty() && found->key != std::vector{key_part{}})
        return "its key is not `client`";
    if (found->cost.what != cost::kind::number)
        return "its cost is not a number";
    if (!found->count.empty())
        return "it counts responses";
    return {};
}

}  // namespace config
