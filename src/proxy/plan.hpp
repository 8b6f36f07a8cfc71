#pragma once

#include "bandwidth.hpp"
#include "certificates.hpp"
#include "config/configuration.hpp"
#include "encryption.hpp"
#include "file_shares.hpp"
#include "limit.hpp"
#include "net/asio.hpp"
#include "response_counter.hpp"
#include "routes.hpp"
#include "store.hpp"
#include "tcp_service.hpp"
#include "upstream.hpp"

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace proxy {

/// A limit of bytes of the configuration; null in a direction that it does not limit.
struct bandwidth_limit {
    config::limit configuration;
    std::shared_ptr<byte_limit> up;
    std::shared_ptr<byte_limit> down;
};

/// The objects of a configuration, for the requests that arrive while it is in force. A request keeps the plan with
/// which it began.
struct plan {
    config::configuration configuration;
    std::map<std::string, store> stores;
    certificates_of_listeners certificates;
    std::vector<std::shared_ptr<limit>> limits;  // in the order of the configuration
    std::vector<bandwidth_limit> bandwidths;     // the same
    std::vector<std::shared_ptr<upstream>> upstreams;
    proxy::routes routes;
    std::vector<tcp_service> services;  // in the order of their listeners

    /// The limits of the bytes of a listener's requests.
    struct listener_bandwidth {
        route_bandwidth bandwidth;
        std::vector<config::key_part> keys;
    };
    /// A listener, for its connections.
    struct listening {
        config::listener options;
        std::shared_ptr<tls_listener const> security;  // null without TLS
        std::optional<listener_bandwidth> bandwidth;   // only with limits
        std::optional<std::size_t> service = {};       // its index; none if it accepts HTTP
    };
    /// By number. Null for a listener that only earlier plans name, which may still have connections.
    std::vector<std::unique_ptr<listening const>> listeners;
    /// The numbers of the listeners of this plan and of all earlier ones, by name.
    std::map<std::string, std::size_t> listener_numbers;

    /// The limits of the bytes of a listener's requests now; null without limits.
    [[nodiscard]] listener_bandwidth const* bandwidth_of(std::size_t listener) const noexcept {
        auto const& l = listeners[listener];
        return l && l->bandwidth ? &*l->bandwidth : nullptr;
    }

    /// The counters of responses, by the names of routes. Routes of one name share a counter.
    struct response_counters {
        static constexpr std::size_t most = 256;  // routes with their own counters

        std::map<std::string, std::shared_ptr<response_counter>> of_routes;
        std::shared_ptr<response_counter> others;  // the further routes
        std::shared_ptr<response_counter> none;    // requests without a route
    };
    response_counters responses;

    /// A server of an earlier plan that this plan does not name. It counts its requests while it has any.
    struct dismissed_server {
        std::string of;  // the name of its upstream
        std::weak_ptr<upstream_server> server;
    };
    std::vector<dismissed_server> dismissed;

    /// The service of the listener of that address; null if it accepts HTTP.
    [[nodiscard]] tcp_service const* service_of(std::string_view listener) const noexcept;
};

/// Makes a plan. The constructor resolves names and finds all errors, before `make` changes any limit or upstream.
class plan_maker {
public:
    /// Resolves names, and blocks meanwhile. Throws `std::runtime_error` that names the missing resource, and
    /// `tool::usage_error`.
    plan_maker(net::executor const& ex, config::configuration c, file_shares const& files,
               std::shared_ptr<plan const> before);

    [[nodiscard]] config::configuration const& configuration() const noexcept {
        return configuration_;
    }
    /// The number of a listener of the configuration.
    [[nodiscard]] std::size_t number_of(config::listener const& l) const;
    /// The addresses of all servers.
    [[nodiscard]] std::vector<net::endpoint> endpoints() const;

    /// Makes the plan. It reuses stores, limits, upstreams and servers of the previous plan that have the same name,
    /// and servers of earlier plans that still have requests. A limit is reconfigured in place if that is possible;
    /// otherwise a new limit replaces it.
    [[nodiscard]] std::shared_ptr<plan const> make();

private:
    void find_servers();
    void find_stores();
    void find_limits();
    void find_bandwidths();
    void number_listeners();
    [[nodiscard]] bandwidth_limit const* bandwidth_before(std::string const& name) const;
    void apply_bandwidths() const;
    [[nodiscard]] std::vector<std::shared_ptr<upstream_server>> servers_before(
        std::string const& of) const;
    [[nodiscard]] std::vector<plan::dismissed_server> dismiss_servers() const;
    [[nodiscard]] std::shared_ptr<upstream> make_upstream_of(std::size_t i) const;
    [[nodiscard]] route make_route_of(plan& made, config::route const& c) const;
    [[nodiscard]] std::shared_ptr<tls_listener const> make_security_of(
        plan const& made, config::listener const& l) const;
    void add_listener(plan& made, config::listener const& l) const;
    [[nodiscard]] tcp_service make_service_of(plan const& made, plan::listening const& l) const;
    [[nodiscard]] tcp_route make_tcp_route_of(plan const& made, tcp_service const* before,
                                              std::string const& sni,
                                              config::tcp_route const& c) const;
    [[nodiscard]] std::shared_ptr<response_counter> response_counter_of(
        plan::response_counters& made, std::string const& name) const;

    net::executor executor_;
    config::configuration configuration_;
    file_shares files_;
    std::shared_ptr<plan const> before_;
    std::vector<std::vector<std::shared_ptr<upstream_server>>> servers_;  // of each upstream

    /// A server of an earlier plan, and the addresses that its name has now.
    struct moved_server {
        std::shared_ptr<upstream_server> server;
        std::vector<net::endpoint> to;
    };
    std::vector<moved_server> moved_;
    std::vector<server_encryptions> encryptions_;  // of each upstream
    std::map<std::string, store> stores_;
    certificates_of_listeners certificates_;
    std::vector<std::shared_ptr<limit>> limits_;
    std::vector<bandwidth_limit> bandwidths_;
    std::map<std::string, std::size_t> listener_numbers_;
};

}  // namespace proxy
