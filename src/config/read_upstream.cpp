#include "file_reader.hpp"
#include "kinds.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <string_view>
#include <utility>

namespace config {

using namespace std::chrono_literals;

namespace {

kind<std::string> name_of_server() {
    constexpr std::size_t longest = 253;
    auto what = text("a name or an IP address, without a port");
    what.make = [make = std::move(what.make)](toml::node const& node) {
        auto name = make(node);
        if (name &&
            (name->empty() || name->size() > longest || !std::ranges::all_of(*name, [](char c) {
                 return c > ' ' && c < 0x7f && c != '*' && c != '/' && c != '[';
             })))
            name.reset();
        return name;
    };
    return what;
}

}  // namespace

void file_reader::read_upstream(table_reader& t) {
    upstream u{.name = name_of(t, "upstream", upstreams_), .servers = {}, .health = {}};
    bool weighted = false;
    // A server is an address, or a table with an address.
    t.tables("server", [&](table_reader& of) {
        server s;
        of.require("address", s, where_a_server_is());
        of.get("seats", s.seats, number(1, 1'000'000'000));
        of.get("max_connections", s.max_connections, number(1, 1'000'000'000));
        if (s.seats && s.max_connections && *s.max_connections < *s.seats)
            of.problem(of.at("max_connections"),
                       fmt::format("`max_connections` is {}, but must be at least `seats` ({})",
                                   *s.max_connections, *s.seats));
        of.get("weight", s.weight, number(1, 100));
        of.get("backup", s.backup, flag());
        weighted = weighted || of.has("weight");
        u.servers.push_back(std::move(s));
    });
    t.list("servers", where_a_server_is(),
           [&](server s, position) { u.servers.push_back(std::move(s)); });
    if (!u.servers.empty() && std::ranges::all_of(u.servers, &server::backup))
        t.problem(t.at(), "all servers have `backup`; at least one must have none");
    if (u.servers.empty())
        t.problem(t.at(), "missing `servers` (a list of addresses) or [[upstream.server]]");
    read_encryption(t, u);
    t.get("resolve", u.resolve, time(0s));
    read_hash(t, u);
    std::int64_t version = 0;
    if (t.get("proxy_protocol", version, number(1, 2)))
        u.proxy_protocol = static_cast<int>(version);
    auto const has_no_effect = [&](std::string_view key) {
        warnings_.add(t.at(key), fmt::format("warning: upstream `{}`: `{}` has no effect with one "
                                             "server",
                                             u.name, key));
    };
    if (u.servers.size() == 1 && weighted)
        has_no_effect("weight");
    if (u.servers.size() == 1 && !u.hash.empty())
        has_no_effect("hash");
    t.table("health", [&](table_reader& of) {
        health_check h;
        of.get("path", h.path, target("a path, such as /healthz"));
        of.get("every", h.every, time(10ms));
        of.get("timeout", h.timeout, time(1ms));
        of.get("fall", h.fall, number(1, 1000));
        of.get("rise", h.rise, number(1, 1000));
        u.health = std::move(h);
    });
    made_.upstreams.push_back(std::move(u));
}

void file_reader::read_encryption(table_reader& t, upstream& u) {
    auto const encrypted = std::ranges::count_if(u.servers, &server::https);
    if (encrypted != 0 && encrypted != std::ssize(u.servers))
        t.problem(t.at(),
                  "some servers have https:// and some have not; a request may go to any of "
                  "them, so all need it or none");
    t.table("tls", [&](table_reader& of) {
        auto& tls = u.tls;
        // A relative path starts at the folder of this file.
        auto const read_path = [&](std::string_view key, std::string& into) {
            if (of.get(key, into, text("a file")))
                into = (std::filesystem::path(path_).parent_path() / into).string();
        };
        read_path("authorities", tls.authorities);
        of.get("server_name", tls.server_name, name_of_server());
        certificate mine;
        read_path("certificate", mine.certificate);
        read_path("key", mine.key);
        if (of.has("certificate") != of.has("key"))
            of.problem(of.at(), fmt::format("`certificate` and `key` need each other; missing `{}`",
                                            of.has("key") ? "certificate" : "key"));
        if (of.has("certificate"))
            tls.certificate = std::move(mine);
        of.get("insecure", tls.insecure, flag());
        if (tls.insecure && of.has("authorities"))
            of.problem(of.at("authorities"), "`authorities` and `insecure` exclude each other");
        if (encrypted == 0 && !u.servers.empty())
            of.problem(of.at(), "no server has https://");
    });
}

void file_reader::read_hash(table_reader& t, upstream& u) {
    t.list("hash", part_of_hash(), [&](key_part part, position at) {
        if (std::ranges::find(u.hash, part) != u.hash.end())
            t.problem(at, fmt::format("duplicate `{}`", to_string(part)));
        check_fields(at, part);
        u.hash.push_back(std::move(part));
    });
    if (t.has("hash") && u.hash.empty())
        t.problem(t.at("hash"), "`hash` has no part");
}

void file_reader::read_store(table_reader& t) {
    store e{.name = name_of(t, "store", stores_), .url = {}};
    // The message does not quote the URL, which may contain a password.
    if (t.require("url", e.url, text(fmt::format("one of {}", store_schemes))) &&
        !is_store_url(e.url))
        t.problem(t.at("url"), fmt::format("`url` must start with one of {}", store_schemes));
    made_.stores.push_back(std::move(e));
}

void file_reader::read_agent(table_reader& t) {
    agent a;
    t.require("path", a.options.path, path_of_socket());
    t.get("mode", a.options.mode, file_mode());
    if (t.require("store", a.store.name, text("the name of a store"))) {
        stores_.use(a.store.name, t.at("store"), "agent");
        auto const asked = std::ranges::find(made_.stores, a.store.name, &store::name);
        if (asked != made_.stores.end())
            a.store = *asked;
        if (path_of_agent(a.store.url))
            t.problem(t.at("store"),
                      fmt::format("the store `{}` is an agent; name a store with a server",
                                  a.store.name));
    }
    t.get("lease", a.options.lease, time(std::chrono::milliseconds(1), std::chrono::seconds(60)));
    t.get("max_connections", a.options.max_connections, number(1, 100'000));
    t.get("max_limits", a.options.max_limits, number(1, 10'000'000));
    made_.agent = std::move(a);
}

}  // namespace config
