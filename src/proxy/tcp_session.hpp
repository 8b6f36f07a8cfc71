#pragma once

#include "bandwidth.hpp"
#include "counters.hpp"
#include "gate.hpp"
#include "net/asio.hpp"
#include "net/client_hello.hpp"
#include "net/connection.hpp"
#include "net/listener.hpp"
#include "net/proxy_protocol.hpp"
#include "plan.hpp"
#include "reach.hpp"
#include "session.hpp"
#include "tcp_service.hpp"
#include "tunnel.hpp"
#include "workspace.hpp"

#include <boost/asio/ip/address.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace proxy {

/// Relays the bytes of a client's connection to a server, and the bytes of the server to the client. If the listener has
/// certificates, it decrypts the bytes of the client and encrypts the bytes of the server.
///
/// The connection passes the limits of its listener first. While it waits, its bytes stay in the kernel, and it loses its
/// position if the client closes one or both directions. If the listener has routes by server name, the connection waits
/// for the ClientHello before, and its bytes follow later. A connection keeps the settings of the plan with which it
/// began; the limits that it uses adopt the rules of later plans. It ends if no plan names its server any more.
class tcp_session {
public:
    /// A service, and the plan that owns it.
    struct service {
        std::shared_ptr<plan const> of;
        tcp_service const* to;
    };

    /// A connection over a Unix socket has no `ends`. With `awaits_balancer` it begins with the header of the PROXY
    /// protocol.
    tcp_session(session::shared const& s, service to, net::stream_socket socket,
                std::optional<net::connection_ends> const& ends, net::listener::admission a,
                bool awaits_balancer);

    ~tcp_session() { shared_.spaces.note_end(); }

    /// Serves the connection until it ends. Call it on the connection's thread.
    static void start(std::unique_ptr<tcp_session> self);

private:
    // The end of the connection, for the counters and the access log.
    struct conclusion {
        tcp_ending how = tcp_ending::served;
        unsigned status = 200;
        failure why = failure::none;
        limit const* rejected_by = nullptr;
        upstream_server const* server = nullptr;
        net::clock::duration waited{};
        std::optional<net::clock::duration> throttled = {};
        std::uint64_t bytes = 0;  // to the client
    };

    static net::task<> run(std::unique_ptr<tcp_session> self);
    net::task<bool> be_introduced();
    net::task<bool> encrypt();
    net::task<bool> find_route();
    net::task<net::client_hello> receive_hello(conclusion& end);
    net::task<> wait(entry& entered);
    net::task<reached> connect(entry& entered);
    [[nodiscard]] std::shared_ptr<tunnel> tunnel_to(
        net::connection& upstream, upstream_server const& server, transfer* up, transfer* down);
    [[nodiscard]] std::unique_ptr<byte_limit> own_limit(config::direction d) const;
    [[nodiscard]] std::string introduction() const;
    net::task<> refuse(std::string_view text);
    void record(conclusion const& end) const;

    [[nodiscard]] tcp_service const& at() const noexcept { return *service_.to; }
    [[nodiscard]] tcp_route const& to() const noexcept { return *route_; }
    [[nodiscard]] config::configuration const& configuration() const noexcept {
        return service_.of->configuration;
    }

    session::shared const& shared_;
    service const service_;
    tcp_route const* route_ = &service_.to->rest();
    std::string server_name_;             // for which the client asked, if it matters
    net::listener::admission admission_;  // until the socket is closed
    net::connection client_;
    counted open_;
    std::optional<net::connection_ends> ends_;
    boost::asio::ip::address peer_;  // the client for the limits
    bool awaits_balancer_;
    workspaces::buffer unsent_;  // the bytes that it read; null while the connection waits
    net::clock::time_point begun_ = net::clock::now();
};

}  // namespace proxy
