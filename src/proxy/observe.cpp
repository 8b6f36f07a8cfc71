#include "observe.hpp"

#include <weir/version.hpp>

#include "admin/make_names_unique.hpp"
#include "limiting/request.hpp"
#include "tool/trouble.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace proxy {
namespace {

std::string key_of(config::limit const& c) {
    std::vector<std::string> parts;
    for (auto const& part : c.key)
        parts.push_back(to_string(part));
    return fmt::format("{}", fmt::join(parts, " and "));
}

char const* name_of(weir::shared_mode mode) {
    switch (mode) {
        case weir::shared_mode::store:
            return "store";
        case weir::shared_mode::closed:
            return "closed";
        case weir::shared_mode::open:
            return "open";
        case weir::shared_mode::local:
            return "local";
        case weir::shared_mode::misconfigured:
            return "misconfigured";
    }
    return "";
}

admin::limit_state state_of(limit const& l, bool writable) {
    auto const& c = l.configuration();
    auto const [stats, waits] = l.snapshot();
    admin::limit_state out;
    out.id = l.id();
    out.name = c.name;
    out.rule = config::rule_text(c);
    out.queue = config::text_of(c.queue);
    out.key = key_of(c);
    out.dry_run = c.dry_run;
    out.seats = l.has_seats();
    out.writable = writable && !c.is_unlimited && !c.tree;
    out.previewable = out.writable && l.record();
    if (auto const& r = l.replaced())
        out.changed = {to_string(r->rule), r->at};
    out.stats = stats;
    out.waits = waits;
    if (auto const keys = l.keys()) {
        out.keys = keys->count;
        out.max_keys = static_cast<std::uint64_t>(c.max_keys);
        out.when_full = to_string(config::when_full_of(c));
        if (!c.tree) {
            out.memory = keys->bytes;
            out.max_memory = static_cast<std::uint64_t>(c.max_memory);
            out.evicted = keys->evicted;
        }
    }
    if (auto const e = l.store_stats())
        out.store = {name_of(e->mode), e->questions, e->failed, e->unknown,
                     static_cast<std::uint64_t>(e->bypassed_permits)};
    return out;
}

admin::bandwidth_state state_of(byte_limit const& b, std::string direction) {
    auto const& l = *b.limiter();
    auto const& c = l.configuration();
    auto const stats = l.stats();
    admin::bandwidth_state out;
    out.name = c.name;
    out.direction = std::move(direction);
    out.rate = b.rate() ? to_string(*b.rate()) : std::string(config::unlimited);
    out.key = key_of(c);
    out.dry_run = b.is_dry();
    out.bytes = b.passed();
    out.late = b.late();
    out.waited = stats.waited_total + stats.rejected_waited_total;
    out.waiting = stats.waiting;
    if (auto const keys = l.keys()) {
        out.keys = keys->count;
        out.max_keys = static_cast<std::uint64_t>(c.max_keys);
    }
    return out;
}

void tell_of_rule(limit const& l, std::string_view how, weir::limiter_config const& before,
                  std::string const& client) {
    tool::say(tool::level::info,
              fmt::format("weir-proxy: limit {}: rule {} from `{}` to `{}` by {}\n", l.name(), how,
                          to_string(before), to_string(l.configuration().rule), client));
}

// Adds to each limit the routes and the listeners that name it.
void add_routes(admin::state& s, plan const& p) {
    constexpr std::size_t most = 8;
    std::map<std::uint64_t, admin::limit_state*> by_id;
    for (auto& l : s.limits)
        by_id.emplace(l.id, &l);
    std::map<std::string_view, std::uint64_t> ids;
    for (auto const& l : p.limits)
        ids.emplace(l->name(), l->id());
    auto const add = [&](std::string const& route, std::vector<std::string> const& names,
                         upstream const* to) {
        auto const add_to = [&](std::uint64_t id) {
            auto& l = *by_id.at(id);
            if (++l.routes_total <= most)
                l.routes.push_back(route);
        };
        for (auto const& name : names)
            add_to(ids.at(name));
        if (auto const seats = to ? to->seats() : nullptr)
            add_to(seats->id());
    };
    for (auto const& r : p.routes.all())
        add(route_name(r.configuration), r.configuration.limits, r.to.get());
    for (auto const& one : p.services)
        for (auto const& r : one.routes)
            add(service_name(one.name, r.sni), r.limits, r.to.get());
}

}  // namespace

std::vector<admin::bandwidth_state> bandwidths_of(plan const& p) {
    std::vector<admin::bandwidth_state> all;
    for (auto const& b : p.bandwidths) {
        if (b.up)
            all.push_back(state_of(*b.up, "up"));
        if (b.down)
            all.push_back(state_of(*b.down, "down"));
    }
    return all;
}

admin::state state_of(plan const& p) {
    admin::state s;
    s.version = WEIR_VERSION_STRING;
    s.now = std::chrono::system_clock::now();
    s.writable = p.configuration.admin.write;
    for (auto const& l : p.limits)
        s.limits.push_back(state_of(*l, s.writable));
    s.bandwidths = bandwidths_of(p);
    for (auto const& one : p.services)
        for (auto const& r : one.routes)
            s.tcp.push_back(one.state_of(r));
    for (auto const& u : p.upstreams) {
        if (auto const seats = u->seats()) {
            s.limits.push_back(state_of(*seats, false));
            s.limits.back().rule = fmt::format("{} seats", s.limits.back().stats.capacity);
        }
        admin::make_names_unique(s.upstreams.emplace_back(u->state()).servers);
    }
    add_routes(s, p);
    admin::make_names_unique(s.limits);
    for (auto const& [name, counter] : p.responses.of_routes)
        s.routes.push_back(counter->sum(name));
    if (p.responses.of_routes.size() == plan::response_counters::most)
        s.routes.push_back(p.responses.others->sum("other"));
    s.routes.push_back(p.responses.none->sum("none"));
    return s;
}

admin::guard guard_of(config::admin_options const& a) {
    auto const* const tcp = a.address ? std::get_if<config::tcp_address>(&*a.address) : nullptr;
    return {.host = tcp ? tcp->host : std::string(), .allow = a.allow, .write = a.write};
}

std::string name_of_client(std::uint64_t key) {
    if (key == std::uint64_t(0xffff) << 32)
        return "a unix socket";
    auto const first = limiting::address_of_key(key);
    return first.is_v4() ? first.to_string() : first.to_string() + "/64";
}

changed_rule with_rule(config::limit const& l, std::string_view rule) {
    if (l.is_unlimited)
        return {{}, {409, "the limit is `unlimited`; only the file can change this"}};
    if (l.tree)
        return {{}, {409, "the limit has a tree; only the file can change this"}};
    auto wanted = l;
    try {
        wanted.rule = config::rule_of(rule);
        if (!config::are_of_one_kind(wanted.rule, l.rule))
            return {{},
                    {409, fmt::format("the rule is `{}`, but must be of the same kind as `{}`",
                                      to_string(wanted.rule), to_string(l.rule))}};
        if (auto const wrong = config::fault_of_cost(wanted); !wrong.empty())
            return {{}, {409, wrong}};
        if (!wanted.store.empty())
            static_cast<void>(shared_rule_of(wanted));
    } catch (std::invalid_argument const& wrong) {
        return {{}, {400, wrong.what()}};
    }
    return {std::move(wanted), {}};
}

admin::answer set_rule(limit& l, std::string_view rule, std::string const& client) {
    auto const before = l.configuration().rule;
    auto const wanted = with_rule(l.configuration(), rule);
    if (!wanted.configuration)
        return wanted.why_not;
    try {
        l.configure(*wanted.configuration);
    } catch (std::invalid_argument const& wrong) {
        return {400, wrong.what()};
    }
    auto const now = to_string(l.configuration().rule);
    if (now != to_string(before)) {
        l.replaced(limit::replaced_rule{before, std::chrono::system_clock::now()});
        tell_of_rule(l, "changed", before, client);
    }
    return {200, now};
}

admin::answer undo_rule(limit& l, std::string const& client) {
    auto const replaced = l.replaced();
    if (!replaced)
        return {409, "no change to undo"};
    auto const before = l.configuration().rule;
    auto wanted = l.configuration();
    wanted.rule = replaced->rule;
    l.configure(wanted);
    l.replaced(std::nullopt);
    tell_of_rule(l, "changed back", before, client);
    return {200, to_string(wanted.rule)};
}

}  // namespace proxy
