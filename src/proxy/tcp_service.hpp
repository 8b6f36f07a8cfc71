#pragma once

#include "admin/state.hpp"
#include "config/configuration.hpp"
#include "gate.hpp"
#include "routes.hpp"
#include "tls/names.hpp"
#include "upstream.hpp"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace proxy {

/// The result of a connection of any protocol.
enum class tcp_ending : std::uint8_t {
    served,        // it reached a server
    rejected,      // by a limit
    disconnected,  // the client left, or did not send its ClientHello, before it reached a server
    failed,        // no server accepted a connection
    unrouted,      // no upstream serves the name for which the client asked
};

/// Counts the connections of a listener or of a route, on any thread.
struct tcp_counter {
    using number = std::atomic<std::uint64_t>;

    number active = 0;   // connections to a server
    number waiting = 0;  // in the queues of limits
    number sent_up = 0;  // bytes
    number sent_down = 0;
    std::array<number, admin::tcp_state::results.size()> ended{};

    /// Adds 1 to a number for its lifetime.
    class counted {
    public:
        explicit counted(number& n) noexcept : in_(n) { in_.fetch_add(1); }
        counted(counted const&) = delete;
        ~counted() { in_.fetch_sub(1); }

    private:
        number& in_;
    };

    void count(tcp_ending how) noexcept { ++ended[static_cast<std::size_t>(how)]; }
};

/// The limits that connections of a listener must pass, and their upstream.
struct tcp_route {
    std::string sni;  // the server names for which its clients ask; empty for all other connections
    std::vector<std::string> limits;  // by name
    gate entrance;
    route_bandwidth bandwidth;
    std::shared_ptr<upstream> to;  // null: the connections are refused
    std::shared_ptr<tcp_counter> counts;
};

/// A listener for connections of any protocol.
struct tcp_service {
    std::string name;  // the address of the listener
    config::tcp_options configuration;
    std::vector<tcp_route> routes;  // the last one is for connections without another
    tls::names names = {};          // of the others
    std::shared_ptr<tls_listener const> security = {};  // null: the proxy does not end TLS

    [[nodiscard]] tcp_route const& rest() const noexcept { return routes.back(); }
    /// Whether the name for which a client asks matters.
    [[nodiscard]] bool has_names() const noexcept { return routes.size() > 1; }
    /// The route of a client that asks for this server name; empty if it names none.
    [[nodiscard]] tcp_route const& find(std::string_view server_name) const;
    /// Whether a server gets the header of the PROXY protocol.
    [[nodiscard]] bool introduces() const noexcept;

    [[nodiscard]] admin::tcp_state state_of(tcp_route const& r) const;
};

/// The name of a service for operators: `tcp 0.0.0.0:5432`, and `tcp 0.0.0.0:443 db.example.org` for a server name.
[[nodiscard]] inline std::string service_name(std::string const& listener,
                                              std::string_view server_name) {
    auto name = "tcp " + listener;
    return server_name.empty() ? name : name.append(1, ' ').append(server_name);
}

}  // namespace proxy
