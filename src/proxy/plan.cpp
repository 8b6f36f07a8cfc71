#include "plan.hpp"

#include "http/path.hpp"
#include "limiting/request.hpp"
#include "net/resolve.hpp"
#include "preview.hpp"
#include "tool/trouble.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <utility>
#include <variant>

namespace proxy {
namespace {

template <class All>
auto find_name(All const& all, std::string const& name) {
    auto const found = std::ranges::find(all, name, [](auto const& one) -> std::string const& {
        return one->configuration().name;
    });
    return found == all.end() ? nullptr : *found;
}

http::field_changes changes_of(config::field_changes const& c) {
    http::field_changes made{.add = {}, .remove = c.remove};
    for (auto const& f : c.add)
        made.add.push_back({f.name, http::value_of(f.value)});
    return made;
}

std::vector<net::endpoint> resolve(config::server_address const& address,
                                   std::string const& upstream) {
    auto const complain = [&](std::string_view why) {
        throw std::runtime_error(fmt::format(
            "upstream `{}`: cannot resolve `{}`: {}", upstream, to_string(address), why));
    };
    if (auto const* const local = std::get_if<config::unix_address>(&address)) {
        auto const found = net::unix_endpoint(local->path);
        if (!found)
            complain("the path is too long");
        return {*found};
    }
    auto const& tcp = std::get<config::tcp_address>(address);
    net::error_code ec;
    auto found = net::resolve(tcp.host, std::to_string(tcp.port), ec);
    if (ec)
        complain(ec.message());
    return found;
}

bandwidth_limit const& bandwidth_named(plan const& p, std::string const& name) {
    return *std::ranges::find_if(p.bandwidths, [&](bandwidth_limit const& one) {
        return one.configuration.name == name;
    });
}

// The limits of these names, and the seats of the upstream; `to` may be null.
std::vector<std::shared_ptr<limit>> limits_of(plan const& p, std::vector<std::string> const& names,
                                              upstream const* to) {
    std::vector<std::shared_ptr<limit>> limits;
    for (auto const& name : names)
        limits.push_back(find_name(p.limits, name));
    if (auto const seats = to ? to->seats() : nullptr)
        limits.push_back(seats);
    return limits;
}

route_bandwidth bandwidth_of(plan const& p, std::vector<std::string> const& names) {
    route_bandwidth bandwidth;
    for (auto const& name : names) {
        auto const& b = bandwidth_named(p, name);
        if (b.up)
            bandwidth.up.add(b.up);
        if (b.down)
            bandwidth.down.add(b.down);
    }
    return bandwidth;
}

std::vector<config::key_part> keys_of(plan const& p, std::vector<std::string> const& bandwidths) {
    std::vector<config::key_part> keys;
    for (auto const& name : bandwidths) {
        auto const& key = bandwidth_named(p, name).configuration.key;
        keys.insert(keys.end(), key.begin(), key.end());
    }
    return keys;
}

}  // namespace

tcp_service const* plan::service_of(std::string_view listener) const noexcept {
    auto const found = std::ranges::find(services, listener, &tcp_service::name);
    return found == services.end() ? nullptr : &*found;
}

plan_maker::plan_maker(net::executor const& ex, config::configuration c, file_shares const& files,
                       std::shared_ptr<plan const> before)
    : executor_(ex), configuration_(std::move(c)), files_(files), before_(std::move(before)) {
    find_servers();
    for (auto const& u : configuration_.upstreams)
        encryptions_.push_back(encryptions_of(u));
    find_stores();
    certificates_ = read_certificates(configuration_, before_ ? &before_->certificates : nullptr);
    find_limits();
    find_bandwidths();
    number_listeners();
}

void plan_maker::find_servers() {
    for (auto const& u : configuration_.upstreams) {
        auto const old_servers = servers_before(u.name);
        auto& servers = servers_.emplace_back();
        for (auto const& s : u.servers) {
            auto const same = [&](auto const& one) { return one->address() == s.address; };
            auto const known = std::ranges::find_if(old_servers, same);
            if (known == old_servers.end()) {
                servers.push_back(std::make_shared<upstream_server>(s, resolve(s.address, u.name)));
                continue;
            }
            servers.push_back(*known);
            try {
                moved_.push_back({*known, resolve(s.address, u.name)});
            } catch (std::runtime_error const& failed) {
                tool::say(tool::level::warning,
                          fmt::format("weir-proxy: {}; its addresses stay\n", failed.what()));
            }
        }
    }
}

std::vector<std::shared_ptr<upstream_server>> plan_maker::servers_before(
    std::string const& of) const {
    std::vector<std::shared_ptr<upstream_server>> all;
    if (!before_)
        return all;
    if (auto const old = find_name(before_->upstreams, of))
        all = old->servers();
    for (auto const& one : before_->dismissed)
        if (auto server = one.of == of ? one.server.lock() : nullptr)
            all.push_back(std::move(server));
    return all;
}

void plan_maker::find_stores() {
    for (auto const& e : configuration_.stores) {
        auto const same = [&](config::store const& one) { return one == e; };
        if (before_ && std::ranges::any_of(before_->configuration.stores, same))
            stores_.emplace(e.name, before_->stores.at(e.name));
        else
            stores_.emplace(e.name,
                            make_store(executor_, fmt::format("store `{}`: `url`", e.name), e.url));
    }
}

void plan_maker::find_limits() {
    for (auto const& c : configuration_.limits) {
        auto const* const store = c.store.empty() ? nullptr : &stores_.at(c.store);
        auto const old = before_ ? find_name(before_->limits, c.name) : nullptr;
        bool const same_store =
            old && (!store || (before_->stores.contains(c.store) &&
                               before_->stores.at(c.store).keeper == store->keeper));
        if (same_store && limiting::can_become(old->configuration(), c))
            limits_.push_back(old);
        else
            limits_.push_back(store ? store->make_limit(executor_, c) : make_limit(executor_, c));
    }
}

bandwidth_limit const* plan_maker::bandwidth_before(std::string const& name) const {
    if (!before_)
        return nullptr;
    auto const& all = before_->bandwidths;
    auto const old = std::ranges::find_if(all, [&](bandwidth_limit const& b) {
        return b.configuration.name == name;
    });
    return old == all.end() ? nullptr : &*old;
}

void plan_maker::find_bandwidths() {
    for (auto const& c : configuration_.bandwidths) {
        auto const* const old = bandwidth_before(c.name);
        auto const find = [&](config::direction d, auto known) -> std::shared_ptr<byte_limit> {
            if (!config::has_rate(c, d))
                return nullptr;
            auto same = old ? old->*known : nullptr;
            return same && same->can_become(c) ? same
                                               : std::make_shared<byte_limit>(executor_, c, d);
        };
        bandwidths_.push_back({c, find(&config::bandwidth::up, &bandwidth_limit::up),
                               find(&config::bandwidth::down, &bandwidth_limit::down)});
    }
}

void plan_maker::apply_bandwidths() const {
    for (auto const& b : bandwidths_) {
        if (b.up)
            b.up->configure(b.configuration);
        if (b.down)
            b.down->configure(b.configuration);
    }
    if (!before_)
        return;
    for (auto const& old : before_->bandwidths) {
        for (auto const direction : {&bandwidth_limit::up, &bandwidth_limit::down}) {
            bool const stays = std::ranges::any_of(bandwidths_, [&](bandwidth_limit const& b) {
                return b.configuration.name == old.configuration.name && b.*direction;
            });
            if (old.*direction && !stays)
                (old.*direction)->free();
        }
    }
}

// A listener that is removed and added again gets its number back: it may still have connections.
void plan_maker::number_listeners() {
    if (before_)
        listener_numbers_ = before_->listener_numbers;
    for (auto const& l : configuration_.listeners)
        listener_numbers_.try_emplace(to_string(l.address), listener_numbers_.size());
}

std::size_t plan_maker::number_of(config::listener const& l) const {
    return listener_numbers_.at(to_string(l.address));
}

std::vector<net::endpoint> plan_maker::endpoints() const {
    std::vector<net::endpoint> all;
    for (auto const& servers : servers_)
        for (auto const& s : servers)
            for (auto const& at : *s->endpoints().all())
                all.push_back(at);
    for (auto const& m : moved_)
        all.insert(all.end(), m.to.begin(), m.to.end());
    return all;
}

std::shared_ptr<plan const> plan_maker::make() {
    plan made{.configuration = configuration_,
              .stores = stores_,
              .certificates = certificates_,
              .limits = limits_,
              .bandwidths = bandwidths_,
              .upstreams = {},
              .routes = routes({}),
              .services = {},
              .listeners = {},
              .listener_numbers = listener_numbers_,
              .responses = {},
              .dismissed = {}};
    for (auto const& m : moved_)
        m.server->endpoints().replace(m.to);
    auto const& admin = configuration_.admin;
    for (std::size_t i = 0; i != limits_.size(); ++i) {
        auto const& c = configuration_.limits[i];
        limits_[i]->configure(c);
        limits_[i]->replaced(std::nullopt);  // the rule of the file is in force again
        limits_[i]->keep_record(admin.address && admin.write && why_no_preview(c).empty());
    }
    apply_bandwidths();
    for (std::size_t i = 0; i != configuration_.upstreams.size(); ++i)
        made.upstreams.push_back(make_upstream_of(i));
    auto& counters = made.responses;
    counters.others = before_ ? before_->responses.others : std::make_shared<response_counter>();
    counters.none = before_ ? before_->responses.none : std::make_shared<response_counter>();
    std::vector<route> all;
    for (auto const& r : configuration_.routes)
        all.push_back(make_route_of(made, r));
    made.routes = routes(std::move(all));
    made.listeners.resize(listener_numbers_.size());
    for (auto const& l : configuration_.listeners)
        add_listener(made, l);
    made.dismissed = dismiss_servers();
    return std::make_shared<plan const>(std::move(made));
}

std::vector<plan::dismissed_server> plan_maker::dismiss_servers() const {
    std::vector<plan::dismissed_server> all;
    if (!before_)
        return all;
    auto const is_named = [this](std::shared_ptr<upstream_server> const& s) {
        return std::ranges::any_of(servers_, [&](auto const& servers) {
            return std::ranges::find(servers, s) != servers.end();
        });
    };
    for (auto const& old : before_->dismissed)
        if (auto const s = old.server.lock(); s && !is_named(s))
            all.push_back(old);
    for (auto const& old : before_->upstreams)
        for (auto const& s : old->servers())
            if (!is_named(s)) {
                s->leave();
                all.push_back({old->configuration().name, s});
            }
    return all;
}

std::shared_ptr<upstream> plan_maker::make_upstream_of(std::size_t i) const {
    auto const& c = configuration_.upstreams[i];
    for (std::size_t j = 0; j != c.servers.size(); ++j) {
        auto const& s = c.servers[j];
        servers_[i][j]->encrypt_by(encryptions_[i][j]);
        servers_[i][j]->configure(s, s.max_connections.value_or(s.seats.value_or(files_.upstream)));
    }
    auto const old = before_ ? find_name(before_->upstreams, c.name) : nullptr;
    return std::make_shared<upstream>(executor_, c, servers_[i], old.get());
}

// A reload keeps the counters of routes.
std::shared_ptr<response_counter> plan_maker::response_counter_of(plan::response_counters& made,
                                                                  std::string const& name) const {
    if (auto const found = made.of_routes.find(name); found != made.of_routes.end())
        return found->second;
    if (made.of_routes.size() == plan::response_counters::most)
        return made.others;
    std::shared_ptr<response_counter> counter;
    if (before_)
        if (auto const old = before_->responses.of_routes.find(name);
            old != before_->responses.of_routes.end())
            counter = old->second;
    if (!counter)
        counter = std::make_shared<response_counter>();
    return made.of_routes.emplace(name, std::move(counter)).first->second;
}

route plan_maker::make_route_of(plan& made, config::route const& c) const {
    auto const to = c.respond ? nullptr : find_name(made.upstreams, c.upstream);
    auto const limits = limits_of(made, c.limits, to.get());
    auto keys = keys_of(made, c.bandwidths);
    for (auto const& l : limits)
        keys.insert(keys.end(), l->configuration().key.begin(), l->configuration().key.end());
    auto bandwidth = bandwidth_of(made, c.bandwidths);
    gate entrance(executor_, limits, c.costs);
    rate_header_writer const headers(entrance.limits(), configuration_.ratelimit_headers);
    auto const name = route_name(c);
    auto request_headers = changes_of(c.request_headers);
    auto response_headers = changes_of(c.response_headers);
    bool const has_variables = request_headers.has_variables() || response_headers.has_variables();
    return {c,
            name,
            c.upstream_timeout.value_or(configuration_.timeouts.upstream),
            std::move(entrance),
            headers,
            std::move(bandwidth),
            to,
            response_counter_of(made.responses, name),
            std::move(request_headers),
            std::move(response_headers),
            std::move(keys),
            limiting::clients_of(c),
            has_variables,
            http::count_segments(c.path)};
}

void plan_maker::add_listener(plan& made, config::listener const& l) const {
    plan::listening one{l, make_security_of(made, l), {}};
    if (!l.bandwidths.empty())
        one.bandwidth = {bandwidth_of(made, l.bandwidths), keys_of(made, l.bandwidths)};
    if (l.tcp) {
        one.service = made.services.size();
        made.services.push_back(make_service_of(made, one));
    }
    made.listeners[number_of(l)] = std::make_unique<plan::listening const>(std::move(one));
}

// A reload keeps the counters of a listener and of its routes.
tcp_route plan_maker::make_tcp_route_of(plan const& made, tcp_service const* before,
                                        std::string const& sni, config::tcp_route const& c) const {
    auto const to = c.upstream.empty() ? nullptr : find_name(made.upstreams, c.upstream);
    std::shared_ptr<tcp_counter> counts;
    if (before)
        if (auto const old = std::ranges::find(before->routes, sni, &tcp_route::sni);
            old != before->routes.end())
            counts = old->counts;
    return {sni,
            c.limits,
            gate(executor_, limits_of(made, c.limits, to.get())),
            bandwidth_of(made, c.bandwidths),
            to,
            counts ? counts : std::make_shared<tcp_counter>()};
}

std::shared_ptr<tls_listener const> plan_maker::make_security_of(plan const& made,
                                                                 config::listener const& l) const {
    auto certificates = certificates_.of(to_string(l.address));
    if (!certificates)
        return nullptr;
    std::vector<std::shared_ptr<limit>> rates;
    std::vector<std::shared_ptr<limit>> seats;
    for (auto const& name : l.handshake_limits) {
        auto one = find_name(made.limits, name);
        (one->has_seats() ? seats : rates).push_back(std::move(one));
    }
    return std::make_shared<tls_listener const>(
        std::move(certificates), gate(executor_, rates), gate(executor_, seats));
}

tcp_service plan_maker::make_service_of(plan const& made, plan::listening const& l) const {
    auto const& c = *l.options.tcp;
    auto const name = to_string(l.options.address);
    auto const* const old = before_ ? before_->service_of(name) : nullptr;
    tcp_service service{name, c, {}};
    service.security = l.security;
    for (auto route : c.routes) {
        // The limits of all connections are common to more of them, so they come last.
        route.limits.insert(route.limits.end(), c.limits.begin(), c.limits.end());
        route.bandwidths.insert(route.bandwidths.end(), c.bandwidths.begin(), c.bandwidths.end());
        for (auto const& one : route.sni)
            service.names.add(one, service.routes.size());
        service.routes.push_back(
            make_tcp_route_of(made, old, fmt::format("{}", fmt::join(route.sni, ",")), route));
    }
    service.routes.push_back(
        make_tcp_route_of(made, old, "", {{}, c.upstream, c.limits, c.bandwidths}));
    return service;
}

}  // namespace proxy
