#pragma once

#include "account.hpp"
#include "config/listener.hpp"
#include "counters.hpp"
#include "decision.hpp"
#include "gate.hpp"
#include "net/asio.hpp"
#include "net/connection.hpp"
#include "net/listener.hpp"
#include "plan.hpp"
#include "reading.hpp"
#include "relay.hpp"
#include "request_info.hpp"
#include "routes.hpp"
#include "side.hpp"
#include "workspace.hpp"

#include <boost/asio/ip/address.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace proxy {

/// Serves the requests of a client's connection, one after the other, until one of the two sides closes it.
///
/// For each request it reads the head, decides (see decision.hpp), performs the decision, and records the result (see
/// account.hpp).
class session {
public:
    /// The objects that the sessions of one thread share, and which must outlive them.
    struct shared {
        asio::io_context& context;
        std::shared_ptr<proxy::plan const> const& plan;  // for the next request
        workspaces& spaces;
        account& accounting;
        relay::shared for_relays;
    };

    /// The kind of a connection, which its listener determines.
    struct role {
        bool awaits_balancer =
            false;  // for the header of the PROXY protocol, which names the client
        std::optional<config::check_options> check = {};    // its requests are checks
        std::optional<std::uint16_t> https_port = {};       // its requests are redirected there
        std::shared_ptr<tls_listener const> security = {};  // null: it does not use TLS
        std::size_t listener = 0;                           // its number
    };

    /// `from` is the peer's address; unspecified for a Unix socket.
    session(shared const& s, net::stream_socket socket, boost::asio::ip::address const& from,
            net::listener::admission a, role as);

    /// Serves the connection until it ends. Call it on the connection's thread.
    static void start(std::unique_ptr<session> self);

private:
    // The next event on a connection without a request.
    enum class soon : std::uint8_t { request, end, nothing };

    static void sleep(std::unique_ptr<session> self);
    static net::task<> wake(std::unique_ptr<session> self);
    net::task<next> serve_all();
    net::task<> end();
    net::task<next> encrypt();
    net::task<bool> be_introduced(side from);
    net::task<soon> what_comes_soon(http::buffer& in);
    net::task<next> serve(workspaces::handle& w);
    net::task<next> redirect(workspace& w, plan const& p);
    [[nodiscard]] http::fault describe(exchange& x, config::clients_options const& c) const;
    net::task<conclusion> perform(workspaces::handle& w, plan const& p, route const& to,
                                  decision const& what,
                                  std::unique_ptr<lasting_record>& of_upgrade);
    [[nodiscard]] request_info info_of(exchange const& x,
                                       boost::asio::ip::address const& client) const;
    [[nodiscard]] http::fault fault_of_connection(exchange const& x) const;
    void set_variables(exchange& x) const;
    net::task<> wait(route const& to, entry& entered);
    net::task<failure> prepare_body(workspace& w, route const& to, body_clock& clock,
                                    entry& entered);
    [[nodiscard]] conclusion rejected(exchange& x, route const& to, entry const& entered) const;
    net::task<next> answer(workspace& w, plan const& p, conclusion const& end);
    [[nodiscard]] next close_as(next wanted, http::buffer const& in);

    [[nodiscard]] bool awaits_handshake() const noexcept {
        return role_.security && !role_.awaits_balancer;
    }
    [[nodiscard]] bool draining() const noexcept { return shared_.for_relays.draining; }
    [[nodiscard]] config::timeouts const& limits() const noexcept {
        return shared_.plan->configuration.timeouts;
    }

    shared const& shared_;
    net::listener::admission admission_;  // until the socket is closed
    net::connection client_;
    counted open_;
    std::optional<net::time_limit> asleep_;
    boost::asio::ip::address peer_;
    role role_;
    std::shared_ptr<tls::context const> certificates_;  // null without TLS
    std::string name_;                                  // of the peer, for the upstream and the log
    bool fresh_ = true;                                 // no request yet
    bool lacks_tls_ = false;  // the listener requires TLS, and the client does not use it
};

}  // namespace proxy
