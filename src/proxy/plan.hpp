#pragma once

#include "config/configuration.hpp"
#include "file_shares.hpp"
#include "limit.hpp"
#include "net/asio.hpp"
#include "routes.hpp"
#include "store.hpp"
#include "upstream.hpp"

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace proxy {

/// What holds for requests until the next configuration does. A request keeps the plan under which it came.
struct plan {
    config::configuration configuration;
    std::map<std::string, store> stores;
    std::vector<std::shared_ptr<limit>> limits;  // in the order of the configuration
    std::vector<std::shared_ptr<upstream>> upstreams;
    proxy::routes routes;

    /// A server that was named by a plan before. While requests are there it counts them.
    struct dismissed_server {
        std::string of;  // the name of its upstream
        std::weak_ptr<upstream_server> server;
    };
    std::vector<dismissed_server> dismissed;
};

/// What limits and upstreams are made of. Names are looked up here, so that all that can be wrong is found before anything
/// has changed.
class plan_maker {
public:
    /// Blocks while names are looked up. Throws `std::runtime_error` that says what cannot be had, and `tool::usage_error`.
    plan_maker(net::executor const& ex, config::configuration c, file_shares const& files,
               std::shared_ptr<plan const> before);

    [[nodiscard]] config::configuration const& configuration() const noexcept {
        return configuration_;
    }
    /// What was found for the servers.
    [[nodiscard]] std::vector<net::endpoint> endpoints() const;

    /// The plan. Stores, limits, upstreams and servers of the plan before that have the same name go on in it: limits
    /// are configured in place if they can be, and begin anew otherwise. So do servers of earlier plans that still have
    /// requests.
    [[nodiscard]] std::shared_ptr<plan const> make();

private:
    void find_servers();
    void find_stores();
    void find_limits();
    [[nodiscard]] std::vector<std::shared_ptr<upstream_server>> servers_before(
        std::string const& of) const;
    [[nodiscard]] std::vector<plan::dismissed_server> dismiss_servers() const;
    [[nodiscard]] std::shared_ptr<upstream> make_upstream_of(std::size_t i) const;
    [[nodiscard]] route make_route_of(plan const& made, config::route const& c) const;

    net::executor executor_;
    config::configuration configuration_;
    file_shares files_;
    std::shared_ptr<plan const> before_;
    std::vector<std::vector<std::shared_ptr<upstream_server>>> servers_;  // of each upstream
    std::map<std::string, store> stores_;
    std::vector<std::shared_ptr<limit>> limits_;
};

}  // namespace proxy
