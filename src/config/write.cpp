#include "write.hpp"

#include "tool/json.hpp"
#include "tool/text.hpp"
#include "tree.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace config {
namespace {

// Formats a value for the file.
std::string value_text(bool b) {
    return b ? "true" : "false";
}
std::string value_text(std::int64_t n) {
    return std::to_string(n);
}
std::string value_text(int n) {
    return std::to_string(n);
}
std::string value_text(unsigned n) {
    return std::to_string(n);
}
std::string text_of_mode(unsigned mode) {
    return fmt::format("\"{:04o}\"", mode);
}
std::string value_text(weir::duration d) {
    return tool::quoted(tool::to_text(d));
}
std::string value_text(std::string const& s) {
    return tool::quoted(s);
}
std::string value_text(listen_address const& a) {
    return tool::quoted(to_string(a));
}
std::string value_text(tool::network const& n) {
    return tool::quoted(tool::to_string(n));
}
std::string value_text(key_part const& part) {
    return tool::quoted(to_string(part));
}
std::string value_text(status_range const& r) {
    return r.first == r.last ? to_string(r) : tool::quoted(to_string(r));
}
std::string value_text(server const& s) {
    return tool::quoted(to_string(s));
}
std::string value_text(forwarded_by value) {
    return tool::quoted(to_string(value));
}
std::string value_text(unknown_name value) {
    return tool::quoted(to_string(value));
}
std::string value_text(certificate const& c) {
    return fmt::format("{{ certificate = {}, key = {} }}", tool::quoted(c.certificate),
                       tool::quoted(c.key));
}
std::string value_text(bandwidth const& b) {
    std::vector<std::string> members;
    for (auto const& [direction, rate] : {std::pair("up", b.up), {"down", b.down}})
        if (rate)
            members.push_back(fmt::format("{} = {}", direction, tool::quoted(to_string(*rate))));
    return fmt::format("{{ {} }}", fmt::join(members, ", "));
}
// States each direction of the limit, so that it does not depend on the rates of other keys.
std::string override_text(limit const& l, bandwidth const& rates) {
    if (!rates.up && !rates.down)
        return tool::quoted(unlimited);
    std::vector<std::string> members;
    for (auto const& [name, d] : {std::pair("up", &bandwidth::up), {"down", &bandwidth::down}}) {
        auto const& rate = rates.*d;
        if (rate || rate_of(l, d))
            members.push_back(fmt::format(
                "{} = {}", name, tool::quoted(rate ? to_string(*rate) : std::string(unlimited))));
    }
    return fmt::format("{{ {} }}", fmt::join(members, ", "));
}
std::string value_text(described_by value) {
    return tool::quoted(to_string(value));
}
std::string value_text(seats_of_upgrade value) {
    return tool::quoted(to_string(value));
}
std::string value_text(full_of_keys value) {
    return tool::quoted(to_string(value));
}
std::string value_text(limit_headers value) {
    return tool::quoted(to_string(value));
}
std::string value_text(log_format value) {
    return tool::quoted(to_string(value));
}
std::string value_text(tool::level value) {
    return tool::quoted(tool::to_string(value));
}
template <class T>
std::string value_text(std::vector<T> const& all) {
    std::vector<std::string> texts;
    for (auto const& one : all)
        texts.push_back(value_text(one));
    return fmt::format("[{}]", fmt::join(texts, ", "));
}

class writer {
public:
    [[nodiscard]] std::string text() && { return std::move(text_); }

    void line(std::string_view key, std::string_view value) {
        head();
        fmt::format_to(std::back_inserter(text_), "{} = {}\n", key, value);
    }
    // Writes the member unless the value is the default.
    template <class T>
    void member(std::string_view key, T const& value, T const& by_default) {
        if (!(value == by_default))
            line(key, value_text(value));
    }
    template <class T>
    void member(std::string_view key, std::optional<T> const& value) {
        if (value)
            line(key, value_text(*value));
    }
    template <class T>
    void member(std::string_view key, std::vector<T> const& value) {
        if (!value.empty())
            line(key, value_text(value));
    }

    // Later members belong to this table. An empty table is written only if it is `[[one]]` of a list.
    void table(std::string name) {
        head_ = '[' + std::move(name) + ']';
        if (head_.starts_with("[["))
            head();
    }

private:
    void head() {
        if (head_.empty())
            return;
        if (!text_.empty())
            text_ += '\n';
        text_ += std::exchange(head_, {}) + '\n';
    }

    std::string text_;
    std::string head_;
};

void write(writer& w, timeouts const& t, timeouts const& by_default) {
    w.table("timeouts");
    w.member("header", t.header, by_default.header);
    w.member("handshake", t.handshake, by_default.handshake);
    w.member("body", t.body, by_default.body);
    w.member("whole_body", t.whole_body);
    w.member("idle", t.idle, by_default.idle);
    w.member("upstream", t.upstream, by_default.upstream);
    w.member("upstream_idle", t.upstream_idle, by_default.upstream_idle);
}

void write(writer& w, tcp_options const& t) {
    w.table("listen.tcp");
    auto const destination = [&w](auto const& to) {
        w.member("upstream", to.upstream, std::string());
        auto limits = to.limits;
        limits.insert(limits.end(), to.bandwidths.begin(), to.bandwidths.end());
        w.member("limits", limits);
    };
    destination(t);
    w.member("bandwidth", t.bandwidth);
    w.member("refusal", t.refusal, std::string());
    w.member("idle", t.idle, tcp_options().idle);
    for (auto const& r : t.routes) {
        w.table("[listen.tcp.route]");
        w.member("sni", r.sni);
        destination(r);
    }
}

void write(writer& w, clients_options const& c, clients_options const& by_default) {
    w.table("clients");
    w.member("trusted", c.trusted);
    w.member("forwarded_by", c.forwarded_by, by_default.forwarded_by);
    w.member("max_connections", c.max_connections);
    w.member("abort_on_hang_up", c.abort_on_hang_up, by_default.abort_on_hang_up);
    w.member("pass_underscores", c.pass_underscores, by_default.pass_underscores);
    w.member("min_body_rate", c.min_body_rate, by_default.min_body_rate);
    w.member("contended_body_rate", c.contended_body_rate, by_default.contended_body_rate);
}

void write(writer& w, admin_options const& a, admin_options const& by_default) {
    w.table("admin");
    if (a.address != by_default.address || a.is_named)
        w.line("address", tool::quoted(a.address ? to_string(*a.address) : "none"));
    w.member("allow", a.allow);
    w.member("write", a.write, by_default.write);
}

void write(writer& w, state_options const& s, state_options const& by_default) {
    w.table("state");
    w.member("file", s.file, by_default.file);
    w.member("every", s.every, by_default.every);
}

void write(writer& w, agent const& a) {
    weir::agent::server_options const by_default;
    w.table("agent");
    w.line("path", tool::quoted(a.options.path));
    if (a.options.mode != by_default.mode)
        w.line("mode", text_of_mode(a.options.mode));
    w.line("store", tool::quoted(a.store.name));
    w.member("lease", a.options.lease, by_default.lease);
    w.member("max_connections", a.options.max_connections, by_default.max_connections);
    w.member("max_limits", a.options.max_limits, by_default.max_limits);
}

void write(writer& w, upstream const& u) {
    w.table("[upstream]");
    w.line("name", tool::quoted(u.name));
    // Servers with only an address form a list. If one has more members, each server has a table, in the same order.
    bool plain = true;
    for (auto const& s : u.servers)
        plain = plain && s == server{.address = s.address, .https = s.https};
    if (plain)
        w.member("servers", u.servers);
    if (auto const& tls = u.tls; tls != upstream_tls()) {
        std::vector<std::string> members;
        auto const add = [&](std::string_view key, std::string const& value) {
            if (!value.empty())
                members.push_back(fmt::format("{} = {}", key, tool::quoted(value)));
        };
        add("authorities", tls.authorities);
        add("server_name", tls.server_name);
        if (tls.certificate) {
            add("certificate", tls.certificate->certificate);
            add("key", tls.certificate->key);
        }
        if (tls.insecure)
            members.emplace_back("insecure = true");
        w.line("tls", fmt::format("{{ {} }}", fmt::join(members, ", ")));
    }
    w.member("resolve", u.resolve, upstream().resolve);
    w.member("proxy_protocol", u.proxy_protocol, 0);
    if (u.hash.size() == 1)
        w.line("hash", value_text(u.hash.front()));
    else
        w.member("hash", u.hash);
    if (u.health) {
        health_check const by_default;
        auto const& h = *u.health;
        std::vector<std::string> members;
        auto const add = [&](std::string_view key, auto const& value, auto const& standard) {
            if (!(value == standard))
                members.push_back(fmt::format("{} = {}", key, value_text(value)));
        };
        if (h.path)
            members.push_back("path = " + tool::quoted(*h.path));
        add("every", h.every, by_default.every);
        add("timeout", h.timeout, by_default.timeout);
        add("fall", h.fall, by_default.fall);
        add("rise", h.rise, by_default.rise);
        w.line("health",
               members.empty() ? "{}" : fmt::format("{{ {} }}", fmt::join(members, ", ")));
    }
    if (plain)
        return;
    for (auto const& s : u.servers) {
        w.table("[upstream.server]");
        w.line("address", value_text(s));
        w.member("seats", s.seats);
        w.member("max_connections", s.max_connections);
        w.member("weight", s.weight, server().weight);
        w.member("backup", s.backup, false);
    }
}

void write(writer& w, limit const& l) {
    limit const by_default;
    w.table("[limit]");
    w.line("name", tool::quoted(l.name));
    if (auto const& b = l.bandwidth)
        w.line("bandwidth", value_text(*b));
    else if (!l.tree)
        w.line("rule", tool::quoted(rule_text(l)));
    if (l.key.size() == 1)
        w.line("key", value_text(l.key.front()));
    else
        w.member("key", l.key);
    if (!l.byte_overrides.empty()) {
        std::vector<std::string> members;
        for (auto const& [key, rates] : l.byte_overrides)
            members.push_back(fmt::format("{} = {}", tool::quoted(key), override_text(l, rates)));
        w.line("overrides", fmt::format("{{ {} }}", fmt::join(members, ", ")));
    }
    w.member("v4_prefix", l.v4_prefix, by_default.v4_prefix);
    w.member("v6_prefix", l.v6_prefix, by_default.v6_prefix);
    w.member("max_keys", l.max_keys, by_default.max_keys);
    w.member("max_memory", l.max_memory, by_default.max_memory);
    w.member("evict_within", l.evict_within, by_default.evict_within);
    w.member("when_full", l.when_full, by_default.when_full);

    if (!is_penalty(l.rule))
        w.member("queue", text_of(l.queue), text_of(by_default.queue));
    w.member("priority", l.priority);
    w.member("dry_run", l.dry_run, by_default.dry_run);
    if (auto const& c = l.cost; c.what != cost::kind::number)
        w.line("cost", tool::quoted(to_string(c)));
    else
        w.member("cost", c.number, by_default.cost.number);
    w.member("estimate", l.cost.estimate, by_default.cost.estimate);
    w.member("count", l.count);
    w.member("store", l.store, by_default.store);
    w.member("shared_as", l.shared_as, by_default.shared_as);
    w.member("prefetch", l.prefetch, by_default.prefetch);
    w.member("timeout", l.timeout);
    w.member("on_failure", to_string(l.on_failure), to_string(by_default.on_failure));
    if (l.tree) {
        w.table("limit.tree");
        for (auto const& node : l.tree->nodes)
            w.line(tool::quoted(node.path), tool::quoted(to_string(node)));
    }
    if (!l.weights.empty())
        w.table("limit.weights");
    for (auto const& [clients, weight] : l.weights)
        w.line(tool::quoted(clients), std::to_string(weight));
    if (!l.overrides.empty())
        w.table("limit.overrides");
    for (auto const& [key, rule] : l.overrides)
        w.line(tool::quoted(key), tool::quoted(rule ? to_string(*rule) : std::string(unlimited)));
}

void write(writer& w, std::string_view name, field_changes const& changes) {
    w.table(fmt::format("route.{}", name));
    w.member("remove", changes.remove);
    w.table(fmt::format("route.{}.add", name));
    for (auto const& [field, value] : changes.add)
        w.line(tool::quoted(field), tool::quoted(value));
}

void write(writer& w, route const& r) {
    route const by_default;
    w.table("[route]");
    w.member("host", r.host, by_default.host);
    w.member("path", r.path, by_default.path);
    w.member("method", r.methods);
    w.member("client", r.clients);
    if (!r.headers.empty()) {
        std::vector<std::string> members;
        for (auto const& [name, values] : r.headers)
            members.push_back(
                fmt::format("{} = {}", tool::quoted(name),
                            values.size() == 1 ? value_text(values.front()) : value_text(values)));
        w.line("header", fmt::format("{{ {} }}", fmt::join(members, ", ")));
    }
    w.member("upstream", r.upstream, by_default.upstream);
    w.member("upstream_path", r.upstream_path);
    if (r.check)
        w.member("check", r.check, false);
    else
        w.member("respond", r.respond);
    auto limits = r.limits;
    limits.insert(limits.end(), r.bandwidths.begin(), r.bandwidths.end());
    w.member("limits", limits);
    if (!r.costs.empty()) {
        std::vector<std::string> members;
        for (auto const& [name, n] : r.costs)
            members.push_back(fmt::format("{} = {}", tool::quoted(name), n));
        w.line("cost", fmt::format("{{ {} }}", fmt::join(members, ", ")));
    }
    w.member("upstream_timeout", r.upstream_timeout);
    w.member("body_buffer", r.body_buffer, by_default.body_buffer);
    w.member("body_limit", r.body_limit);
    if (!r.upgrade.to.empty()) {
        w.table("route.upgrade");
        w.member("to", r.upgrade.to);
        w.member("seats", r.upgrade.seats, by_default.upgrade.seats);
        w.member("idle", r.upgrade.idle, by_default.upgrade.idle);
    }
    if (r.body) {
        w.table("route.body");
        w.line("file", tool::quoted(r.body->file));
        w.line("type", tool::quoted(r.body->type));
    }
    write(w, "request_headers", r.request_headers);
    write(w, "response_headers", r.response_headers);
}

}  // namespace

std::string write(configuration const& c) {
    configuration const by_default;
    writer w;
    w.member("threads", c.threads, by_default.threads);
    w.member("drain", c.drain, by_default.drain);
    w.member("pid_file", c.pid_file, by_default.pid_file);
    w.member("access_log", c.access_log, by_default.access_log);
    w.member("ratelimit_headers", c.ratelimit_headers, by_default.ratelimit_headers);
    w.member("access_log_format", c.access_log_format, by_default.access_log_format);
    w.member("log_level", c.log_level, by_default.log_level);
    write(w, c.timeouts, by_default.timeouts);
    write(w, c.clients, by_default.clients);
    write(w, c.admin, by_default.admin);
    write(w, c.state, by_default.state);
    for (auto const& l : c.listeners) {
        w.table("[listen]");
        w.line("address", value_text(l.address));
        w.member("proxy_protocol", l.proxy_protocol, false);
        if (l.mode)
            w.line("mode", text_of_mode(*l.mode));
        if (l.https_port)
            w.line("https_port", std::to_string(*l.https_port));
        w.member("tls", l.tls);
        w.member("unknown_name", l.unknown_name, unknown_name::refuse);
        if (auto const& clients = l.client_certificates)
            w.line("client_certificates",
                   fmt::format("{{ authorities = {}, required = {} }}",
                               tool::quoted(clients->authorities), clients->required));
        w.member("handshake_limits", l.handshake_limits);
        w.member("limits", l.bandwidths);
        w.member("alpn", l.alpn);
        if (auto const& check = l.check)
            w.line("check", fmt::format("{{ described_by = {}, refuse = {} }}",
                                        value_text(check->described_by), check->refuse));
        if (l.tcp)
            write(w, *l.tcp);
    }
    for (auto const& u : c.upstreams)
        write(w, u);
    for (auto const& e : c.stores) {
        w.table("[store]");
        w.line("name", tool::quoted(e.name));
        w.line("url", tool::quoted(e.url));
    }
    if (c.agent)
        write(w, *c.agent);
    for (auto const& all : {&c.limits, &c.bandwidths})
        for (auto const& l : *all)
            write(w, l);
    for (auto const& r : c.routes)
        write(w, r);
    for (auto const& b : c.bodies) {
        w.table("[body]");
        w.member("status", b.status);
        w.line("file", tool::quoted(b.file));
        w.line("type", tool::quoted(b.type));
    }
    return std::move(w).text();
}

}  // namespace config
