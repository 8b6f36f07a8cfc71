#include "read.hpp"

#include "bandwidth.hpp"
#include "body.hpp"
#include "http/characters.hpp"
#include "kinds.hpp"
#include "shadowing.hpp"
#include "table_reader.hpp"
#include "tcp.hpp"
#include "tool/arguments.hpp"
#include "tree.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <map>
#include <ranges>
#include <system_error>
#include <utility>

namespace config {
namespace {

using namespace std::chrono_literals;

// The names of tables, and the places that refer to them. A reference may come before its table.
class names {
public:
    explicit names(std::string what) : what_(std::move(what)) {}

    void give(std::string const& name, table_reader& by) {
        if (!given_.emplace(name, by.at("name")).second)
            by.problem(by.at("name"), fmt::format("duplicate {} `{}`", what_, name));
    }
    void use(std::string const& name, position at, std::string where) {
        used_.push_back({name, at, std::move(where)});
    }
    void check(problem_list& problems) const {
        for (auto const& one : used_) {
            if (!given_.contains(one.name))
                problems.add(one.at, fmt::format("{}: unknown {} `{}`{}", one.where, what_,
                                                 one.name, known()));
        }
    }
    // `why` is the effect of a name without a use.
    void find_unused(problem_list& warnings, std::string_view why) const {
        std::set<std::string_view> used;
        for (auto const& one : used_)
            used.insert(one.name);
        for (auto const& [name, at] : given_)
            if (!used.contains(name))
                warnings.add(at, fmt::format("warning: {} `{}`: {}", what_, name, why));
    }

private:
    struct use_of {
        std::string name;
        position at;
        std::string where;
    };

    [[nodiscard]] std::string known() const {
        return given_.empty()
                   ? ""
                   : fmt::format("; defined: {}", fmt::join(given_ | std::views::keys, ", "));
    }

    std::string what_;
    std::map<std::string, position> given_;
    std::vector<use_of> used_;
};

// The keys of a table that name clients.
class different_clients {
public:
    void add(table_reader& of, position at, tool::network const& clients, std::string_view key) {
        auto const [first, is_new] = seen_.try_emplace(tool::to_string(clients), key);
        if (!is_new)
            of.problem(at, fmt::format("`{}` and `{}` are the same clients", first->second, key));
    }

private:
    std::map<std::string, std::string> seen_;  // by network
};

std::string not_a_client(std::string_view key, limit const& l) {
    return fmt::format("`{}` is not a client: use an address, an IPv4 network of up to {} bits or "
                       "an IPv6 network of up to {} bits",
                       key, l.v4_prefix, l.v6_prefix);
}

bool has_max_hold(weir::limiter_config const& rule) {
    if (auto const* const all = std::get_if<weir::all_options>(&rule.options))
        return std::ranges::any_of(all->parts, has_max_hold);
    auto const* const seats = std::get_if<weir::seats_options>(&rule.options);
    return seats && seats->max_hold != weir::forever;
}

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

class file_reader {
public:
    file_reader(toml::table const& file, std::string_view path, problem_list& problems)
        : path_(path), file_(file, "", problems), problems_(problems), warnings_(path) {}

    [[nodiscard]] configuration read();

private:
    void read_clients(table_reader& t);
    void read_admin(table_reader& t);
    void read_state(table_reader& t);
    void read_timeouts(table_reader& t);
    void read_listener(table_reader& t);
    void read_check(table_reader& t, listener& l);
    void read_tls(table_reader& t, listener& l);
    void check_handshake_limits();
    [[nodiscard]] bool limits_handshakes(std::string_view name) const;
    [[nodiscard]] std::string_view why_not_for_handshakes(std::string_view name) const;
    void read_upstream(table_reader& t);
    void read_hash(table_reader& t, upstream& u);
    void read_store(table_reader& t);
    void read_limit(table_reader& t);
    void read_limit_of_bytes(table_reader& t, limit l);
    void warn_of_memory(table_reader& t, limit const& l, std::string_view rule);
    void read_key(table_reader& t, limit& l);
    void read_overrides(table_reader& t, limit& l, bool has_kind);
    void read_weights(table_reader& t, limit& l);
    void read_cost(table_reader& t, limit& l, bool ruled);
    void read_count(table_reader& t, limit& l, bool ruled);
    void read_sharing(table_reader& t, limit& l, bool ruled);
    void read_route(table_reader& t);
    void use_upstream(std::string const& name, position at, std::string const& where);
    void require_no_end(table_reader& t, position at, std::string_view name);
    void read_conditions(table_reader& t, route& r);
    void read_costs(table_reader& t, route& r);
    void read_changes(table_reader& t, field_changes& changes);
    void read_body(table_reader& t);
    void read_content(table_reader& t, body& b);

    // Reads the name of a table. Later messages about the table contain the name.
    [[nodiscard]] std::string name_of(table_reader& t, std::string_view what, names& all) {
        std::string name;
        if (t.require("name", name, text("a name"))) {
            t.set_name(fmt::format("{} `{}`", what, name));
            all.give(name, t);
        }
        return name;
    }
    void complete();
    void find_settings_without_effect();

    std::string_view path_;
    table_reader file_;
    problem_list& problems_;
    problem_list warnings_;
    configuration made_;
    std::vector<position> routes_at_;
    std::vector<position> handshake_limits_;  // in the order of the file
    std::optional<position> checks_at_;       // the first listener for checks
    names upstreams_{"upstream"};
    names stores_{"store"};
    names limits_{"limit"};
};

configuration file_reader::read() {
    file_.get("threads", made_.threads, number(1, 256));
    file_.get("drain", made_.drain, time(0s));
    file_.get("pid_file", made_.pid_file, text("a file"));
    file_.get("access_log", made_.access_log, text("a file, or `-` for standard output"));
    file_.get("ratelimit_headers", made_.ratelimit_headers, which_headers());
    file_.get("access_log_format", made_.access_log_format, way_of_logging());
    file_.get("log_level", made_.log_level, level());
    file_.table("timeouts", [this](auto& t) { read_timeouts(t); });
    file_.table("clients", [this](auto& t) { read_clients(t); });
    file_.table("admin", [this](auto& t) { read_admin(t); });
    file_.table("state", [this](auto& t) { read_state(t); });
    file_.tables("upstream", [this](auto& t) { read_upstream(t); });
    file_.tables("store", [this](auto& t) { read_store(t); });
    file_.tables("limit", [this](auto& t) { read_limit(t); });
    file_.tables("listen", [this](auto& t) { read_listener(t); });
    file_.tables("route", [this](auto& t) { read_route(t); });
    file_.tables("body", [this](auto& t) { read_body(t); });
    file_.finish();
    upstreams_.check(problems_);
    stores_.check(problems_);
    limits_.check(problems_);
    check_handshake_limits();
    find_settings_without_effect();
    complete();
    made_.warnings = std::move(warnings_).lines();
    return std::move(made_);
}

void file_reader::find_settings_without_effect() {
    stores_.find_unused(warnings_, "no limit names it: it counts nothing");
    bool const has_checks = std::ranges::any_of(made_.routes, &route::check);
    if (checks_at_ && !has_checks)
        problems_.add(*checks_at_, "no [[route]] has `check = true`, so each check would get 404");
    if (made_.routes.empty() && !has_tcp(made_))
        return;
    if (!made_.routes.empty() && !has_http(made_))
        warnings_.add(routes_at_.front(),
                      "warning: routes have no effect: each [[listen]] has `tcp`");
    char const* const none = has_tcp(made_) ? "no route or listener" : "no route";
    upstreams_.find_unused(warnings_, fmt::format("{} names it: it gets no requests", none));
    limits_.find_unused(warnings_, fmt::format("{} names it: it limits nothing", none));
    auto const name_of = [](route const& r) { return r.host + r.path; };
    earlier_routes earlier;
    for (std::size_t i = 0; i != made_.routes.size(); ++i) {
        auto const& r = made_.routes[i];
        if (r.check && !checks_at_)
            warnings_.add(
                routes_at_[i],
                fmt::format("warning: route `{}`: unused: no [[listen]] has `check`", name_of(r)));
        if (auto const by = earlier.shadow_of(r))
            warnings_.add(
                routes_at_[i],
                fmt::format(
                    "warning: route `{0}`: unused: route `{1}` in line {2} matches all of its "
                    "requests; put `{0}` before it",
                    name_of(r), name_of(made_.routes[*by]), routes_at_[*by].line));
        earlier.add(r);
    }
}

void file_reader::read_timeouts(table_reader& t) {
    auto& to = made_.timeouts;
    t.get("header", to.header, time(1ms));
    t.get("handshake", to.handshake, time(1ms));
    t.get("body", to.body, time(1ms));
    t.get("whole_body", to.whole_body, time(1ms));
    t.get("idle", to.idle, time(1ms));
    t.get("upstream", to.upstream, time(1ms));
    t.get("upstream_idle", to.upstream_idle, time(1ms));
}

void file_reader::read_clients(table_reader& t) {
    auto& c = made_.clients;
    t.list("trusted", network(), [&](tool::network n, position) { c.trusted.push_back(n); });
    t.get("forwarded_by", c.forwarded_by, way_of_forwarding());
    if (t.has("forwarded_by") && !t.has("trusted"))
        warnings_.add(t.at("forwarded_by"),
                      "warning: clients: `forwarded_by` has no effect without `trusted`");
    t.get("max_connections", c.max_connections, number(1, 1'000'000'000));
    t.get("abort_on_hang_up", c.abort_on_hang_up, flag());
    t.get("pass_underscores", c.pass_underscores, flag());
    t.get("min_body_rate", c.min_body_rate, number(0, 1'000'000'000));
}

void file_reader::read_admin(table_reader& t) {
    auto& a = made_.admin;
    a.is_named = t.get("address", a.address, where_to_administer());
    t.list("allow", network(), [&](tool::network n, position) { a.allow.push_back(n); });
    t.get("write", a.write, flag());
    if (a.address && !is_private(*a.address) && !t.has("allow"))
        t.problem(t.at("address"),
                  fmt::format("`address` is `{}`, which other machines can reach; list the "
                              "permitted networks in `allow`",
                              to_string(*a.address)));
}

void file_reader::read_state(table_reader& t) {
    auto& s = made_.state;
    t.require("file", s.file, text("a file"));
    t.get("every", s.every, time(1s));
}

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
        auto const& tcp = l.tcp.emplace(read_tcp(of, made_));
        if (!tcp.upstream.empty())
            upstreams_.use(tcp.upstream, of.at("upstream"), of.name());
        for (auto const* const names : {&tcp.limits, &tcp.bandwidths})
            for (auto const& name : *names)
                limits_.use(name, of.at("limits"), of.name());
        if (l.check)
            of.problem(of.at(), "`check` and `tcp` exclude each other");
        if (!l.tls.empty())
            of.problem(of.at(), "`tls` and `tcp` exclude each other: the bytes pass unchanged");
    });
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
    t.list("handshake_limits", text("the name of a limit"), [&](std::string name, position at) {
        limits_.use(name, at, fmt::format("listen `{}`", to_string(l.address)));
        handshake_limits_.push_back(at);
        l.handshake_limits.push_back(std::move(name));
    });
    if (l.handshake_limits.size() > route::most_limits)
        t.problem(t.at("handshake_limits"),
                  fmt::format("{} limits; at most {} are allowed", l.handshake_limits.size(),
                              route::most_limits));
    for (auto const* const key : {"unknown_name", "handshake_limits"})
        if (t.has(key) && !t.has("tls"))
            t.problem(t.at(key), fmt::format("`{}` requires `tls`", key));
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

bool file_reader::limits_handshakes(std::string_view name) const {
    return std::ranges::any_of(made_.listeners, [&](listener const& l) {
        return std::ranges::find(l.handshake_limits, name) != l.handshake_limits.end();
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

void file_reader::read_upstream(table_reader& t) {
    upstream u{.name = name_of(t, "upstream", upstreams_), .servers = {}, .health = {}};
    bool weighted = false;
    // A server is an address, or a table with an address.
    t.tables("server", [&](table_reader& of) {
        server s;
        of.require("address", s.address, where_a_server_is());
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
           [&](server_address at, position) { u.servers.push_back({std::move(at), {}, {}}); });
    if (!u.servers.empty() && std::ranges::all_of(u.servers, &server::backup))
        t.problem(t.at(), "all servers have `backup`; at least one must have none");
    if (u.servers.empty())
        t.problem(t.at(), "missing `servers` (a list of addresses) or [[upstream.server]]");
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

void file_reader::read_hash(table_reader& t, upstream& u) {
    t.list("hash", part_of_hash(), [&](key_part part, position at) {
        if (std::ranges::find(u.hash, part) != u.hash.end())
            t.problem(at, fmt::format("duplicate `{}`", to_string(part)));
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

void file_reader::read_limit(table_reader& t) {
    limit l;
    l.name = name_of(t, "limit", limits_);
    if (t.claim("bandwidth"))
        return read_limit_of_bytes(t, std::move(l));
    override_rule said;
    bool const has_tree = t.has("tree");
    bool ruled = has_tree ? t.get("rule", said, rule()) : t.require("rule", said, rule());
    l.is_unlimited = ruled && !said;
    l.rule = said.value_or(rule_of("1/1s"));
    read_key(t, l);
    read_overrides(t, l, ruled && !l.is_unlimited);
    ruled = read_tree(t, l) || (ruled && !has_tree);

    bool const punishes = is_penalty(l.rule);
    t.get("queue", l.queue, queue());
    if (punishes && t.has("queue"))
        t.problem(t.at("queue"), "`queue` excludes a penalty, which rejects requests at once");
    if (punishes)
        l.queue = queue_of_penalty();
    t.get("priority", l.priority, token("the name of a field, such as Priority"));
    bool const is_fair = l.queue.order == weir::queue_order::fair;
    if (l.priority && l.queue.order != weir::queue_order::priority && !is_fair)
        t.problem(t.at("priority"),
                  "`priority` requires `order priority` or `order fair` in `queue`");
    read_weights(t, l);
    if (t.has("weights") && !is_fair)
        t.problem(t.at("weights"), "`weights` requires `order fair` in `queue`");
    t.get("dry_run", l.dry_run, flag());
    read_cost(t, l, ruled);
    read_count(t, l, ruled && !has_tree);

    if (t.get("store", l.store, text("the name of a store")))
        stores_.use(l.store, t.at("store"), fmt::format("limit `{}`", l.name));
    read_sharing(t, l, ruled && !has_tree);
    if (!has_tree)
        warn_of_memory(t, l, "rule");
    made_.limits.push_back(std::move(l));
}

void file_reader::read_limit_of_bytes(table_reader& t, limit l) {
    read_key(t, l);
    read_bandwidth(t, l);
    warn_of_memory(t, l, "bandwidth");
    made_.bandwidths.push_back(std::move(l));
}

void file_reader::warn_of_memory(table_reader& t, limit const& l, std::string_view rule) {
    if (!l.key.empty() && most_memory(l) > static_cast<double>(l.max_memory))
        warnings_.add(
            t.at(rule),
            fmt::format("warning: limit `{}`: {} keys can take about {:.0f} MB; `max_memory` "
                        "({:.0f} MB) ends the tracking of new keys before",
                        l.name, l.max_keys, most_memory(l) / 1e6,
                        static_cast<double>(l.max_memory) / 1e6));
}

void file_reader::read_key(table_reader& t, limit& l) {
    bool total = false;
    t.list("key", part_of_key(), [&](std::optional<key_part> found, position) {
        if (found)
            l.key.push_back(std::move(*found));
        else
            total = true;
    });
    if (total && !l.key.empty())
        t.problem(t.at("key"), "`key` combines `total` with other parts; use `total` alone");
    if (!l.key.empty() && has_max_hold(l.rule))
        t.problem(t.at("rule"), "`max_hold` requires the key `total`");
    auto const prefix = [&](std::string_view key, int& into, std::int64_t most) {
        std::int64_t bits = 0;
        if (t.get(key, bits, number(0, most)))
            into = static_cast<int>(bits);
    };
    prefix("v4_prefix", l.v4_prefix, 32);
    prefix("v6_prefix", l.v6_prefix, 64);
    t.get("max_keys", l.max_keys, number(1, 1'000'000'000));
    t.get("max_memory", l.max_memory, number(1'000'000, 1'000'000'000'000));
    t.get("when_full", l.when_full, what_further_keys_get());
    for (char const* const key : {"max_keys", "max_memory", "when_full"})
        if (l.key.empty() && t.has(key))
            t.problem(t.at(key), fmt::format("`{}` requires a `key` other than `total`", key));
}

void file_reader::read_weights(table_reader& t, limit& l) {
    different_clients different;
    t.table("weights", [&](table_reader& of) {
        of.all([&](std::string_view key, toml::node const& node) {
            auto const weight = of.make(key, node, number(1, weir::max_weight));
            if (!weight)
                return;
            auto const at = node.source().begin;
            if (auto const who = clients_in(key, l))
                different.add(of, at, who->network, key);
            else
                of.problem(at, not_a_client(key, l));
            l.weights.emplace_back(key, static_cast<int>(*weight));
        });
    });
}

// Without a kind of rule, the first override decides it.
void file_reader::read_overrides(table_reader& t, limit& l, bool has_kind) {
    bool const by_client = l.key.size() == 1 && has_client(l.key.front());
    bool const by_value = l.key.size() == 1 && l.key.front() != key_part();
    std::int64_t keys = 0;
    different_clients different;
    t.table("overrides", [&](table_reader& of) {
        of.all([&](std::string_view key, toml::node const& node) {
            auto other = of.make(key, node, rule());
            if (!other)
                return;
            auto const at = node.source().begin;
            if (*other && !std::exchange(has_kind, true))
                l.rule = **other;
            if (*other && !are_of_one_kind(**other, l.rule))
                of.problem(at, fmt::format("`{}` is `{}`, but must be a rule of the same kind as "
                                           "`{}`, or `unlimited`",
                                           key, to_string(**other), to_string(l.rule)));
            auto const who = clients_named(key, l);
            if (by_client && !who && !(by_value && !tool::network_of(key)))
                of.problem(at, not_a_client(key, l));
            if (who)
                different.add(of, at, who->network, key);
            keys += *other && (!who || who->is_one_key) ? 1 : 0;
            l.overrides.emplace_back(key, std::move(*other));
        });
    });
    if (keys > l.max_keys)
        t.problem(t.at("overrides"),
                  fmt::format("{} overrides exceed `max_keys` ({})", keys, l.max_keys));
    if (l.key.size() != 1 && !l.overrides.empty())
        t.problem(t.at("overrides"), "`overrides` requires a `key` with one part");
}

void file_reader::read_cost(table_reader& t, limit& l, bool ruled) {
    using kind = cost::kind;
    t.get("cost", l.cost, cost_of_request());
    auto& c = l.cost;
    if (c.what == kind::header && made_.clients.trusted.empty())
        t.problem(t.at("cost"), "`cost` by a header requires `trusted` in [clients]");
    // The number of seats cannot change while they are in use.
    bool const is_early = c.what == kind::number || c.what == kind::header;
    bool const punishes = is_penalty(l.rule);
    if (ruled && !is_early && (has_seats(l.rule) || punishes))
        t.problem(t.at("cost"), fmt::format("`cost` is `{}`, which requires a rate: the cost of "
                                            "{} must be a number or `header NAME`",
                                            to_string(c), punishes ? "a penalty" : "seats"));
    t.get("estimate", c.estimate, number(1, cost::most));
    if (t.has("estimate") && c.what == kind::number)
        t.problem(t.at("estimate"), "`estimate` requires a `cost` other than a number");
    if (auto const wrong = ruled ? fault_of_cost(l) : ""; !wrong.empty())
        t.problem(t.at(t.has("estimate") ? "estimate" : "cost"), wrong);
}

void file_reader::read_count(table_reader& t, limit& l, bool ruled) {
    t.list("count", counted_status(), [&](status_range r, position) { l.count.push_back(r); });
    bool const punishes = is_penalty(l.rule);
    if (!t.has("count") && punishes)
        t.problem(t.at("rule"),
                  fmt::format("`rule` is `{}`, which requires `count`: the statuses of the "
                              "responses that are offences, such as `count = 401`",
                              to_string(l.rule)));
    if (!t.has("count"))
        return;
    if (t.is_empty_list("count"))
        t.problem(t.at("count"), "`count` has no status; leave it out to count all requests");
    if (ruled && !punishes && !has_window(l.rule))
        t.problem(t.at("rule"),
                  fmt::format("`rule` is `{}`, but `count` requires a rule with a window, such as "
                              "`5/1min`, `5/1min sliding` or `5/1min fixed`: other rules cannot "
                              "give back exactly what a request did not use",
                              to_string(l.rule)));
    if (t.has("store"))
        t.problem(t.at("count"), "`store` and `count` exclude each other");
}

void file_reader::read_sharing(table_reader& t, limit& l, bool ruled) {
    t.get("shared_as", l.shared_as, text("a name"));
    t.get("prefetch", l.prefetch, number(0, 500'000'000));
    t.get("timeout", l.timeout, time(1ms, 1min));  // the bounds of `shared_options::timeout`
    t.get("on_failure", l.on_failure, mode_of_failure());
    if (!t.has("store")) {
        for (char const* const key : {"shared_as", "prefetch", "timeout", "on_failure"})
            if (t.has(key))
                t.problem(t.at(key), fmt::format("`{}` requires `store`", key));
        return;
    }
    if (!l.key.empty())
        t.problem(t.at("key"), "`store` requires the key `total`");
    if (l.is_unlimited)
        t.problem(t.at("rule"), "`store` and the rule `unlimited` exclude each other");
    if (l.dry_run)
        t.problem(t.at("dry_run"), "`store` and `dry_run` exclude each other");
    if (l.queue.patience.length_or(weir::forever) <= 0ns)
        t.problem(t.at("queue"),
                  "the patience is 0s; with `store` it must exceed a round trip, for example 50ms");
    try {
        if (ruled && !l.is_unlimited)
            static_cast<void>(shared_rule_of(l));
    } catch (std::invalid_argument const& wrong) {
        t.problem(t.at("rule"),
                  fmt::format("`rule` is `{}`, but {}", to_string(l.rule), wrong.what()));
    }
}

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

// Adds the default listener and the default route.
void file_reader::complete() {
    if (made_.listeners.empty())
        made_.listeners.push_back({.address = tcp_address{"127.0.0.1", 8080}});
    if (!made_.routes.empty() || !has_http(made_))
        return;
    if (made_.upstreams.size() != 1 || has_tcp(made_)) {
        file_.problem({1, 1}, made_.upstreams.empty() ? "missing [[upstream]]"
                              : has_tcp(made_)
                                  ? "missing [[route]]: required for the [[listen]] without `tcp`"
                                  : "missing [[route]]: required with several upstreams");
        return;
    }
    route all;
    all.upstream = made_.upstreams.front().name;
    use_upstream(all.upstream, {1, 1}, "the default route");
    for (auto const& l : made_.limits)
        if (!limits_handshakes(l.name))
            all.limits.push_back(l.name);
    for (auto const& l : made_.bandwidths)
        all.bandwidths.push_back(l.name);
    made_.routes.push_back(std::move(all));
}

}  // namespace

bad_configuration::bad_configuration(std::vector<std::string> problems)
    : runtime_error(fmt::format("{}", fmt::join(problems, "\n"))), problems_(std::move(problems)) {}

configuration read(std::string_view text, std::string_view file) {
    problem_list problems(file);
    configuration made;
    try {
        auto const parsed = toml::parse(text);
        made = file_reader(parsed, file, problems).read();
    } catch (toml::parse_error const& wrong) {
        problems.add(wrong.source().begin, std::string(wrong.description()));
    }
    if (!problems.empty())
        throw bad_configuration(std::move(problems).lines());
    return made;
}

configuration read_file(std::string const& file) {
    constexpr std::size_t most_bytes = 64 * 1024 * 1024;
    if (std::error_code ec; std::filesystem::is_directory(file, ec))
        throw tool::usage_error(fmt::format("`{}` is a directory", file));
    std::ifstream in(file, std::ios::binary);
    std::string text;
    std::array<char, 64 * 1024> part;
    while (text.size() <= most_bytes && (in.read(part.data(), part.size()), in.gcount() > 0))
        text.append(part.data(), static_cast<std::size_t>(in.gcount()));
    if (text.size() > most_bytes)
        throw tool::usage_error(
            fmt::format("`{}` is too large; the maximum is {} bytes", file, most_bytes));
    if (!in.eof())
        throw tool::usage_error(
            fmt::format("cannot read `{}`: {}", file, std::generic_category().message(errno)));
    return read(text, file);
}

}  // namespace config
