#pragma once

#include <weir/agent/server.hpp>

#include "config/configuration.hpp"
#include "file_shares.hpp"
#include "health.hpp"
#include "listeners.hpp"
#include "names.hpp"
#include "net/asio.hpp"
#include "net/listener.hpp"
#include "net/watchdog.hpp"
#include "operator_view.hpp"
#include "plan.hpp"
#include "reload.hpp"
#include "state_file.hpp"
#include "threads.hpp"
#include "tool/log_file.hpp"

#include <boost/asio/signal_set.hpp>

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace proxy {

namespace asio = boost::asio;

/// The proxy. One thread accepts connections and assigns them to the serving threads in rotation. It also handles
/// signals and the shutdown. A single serving thread accepts its connections itself.
///
/// The kernel's distribution of connections (SO_REUSEPORT) uses a hash, and leaves threads idle.
class server {
public:
    /// Opens the listeners. Throws `std::runtime_error`, which names the unavailable resource, and `tool::usage_error`.
    /// On SIGHUP the server continues with the configuration that `again` returns; a null `again` disables that.
    /// Precondition: `c.threads` is set.
    explicit server(config::configuration const& c, reloader::reader again = nullptr);
    ~server();

    [[nodiscard]] net::listener::acceptors_list const& acceptors() const {
        return listeners_.all();
    }
    /// Whether clients use TLS at this listener.
    [[nodiscard]] bool encrypts(net::listener::acceptor const& one) const {
        return plan_->certificates.of(one.name()) != nullptr;
    }
    /// The listener of the status page and the metrics; null without one.
    [[nodiscard]] net::listener::acceptor const* admin_acceptor() const {
        return view_->acceptor();
    }

    /// Serves until SIGINT or SIGTERM, and then until the active requests end.
    void run();

    /// The counters of the proxy and of each limit, as text.
    [[nodiscard]] std::string report() const { return view_->report(); }

private:
    void open_log(std::string const& path);
    void open_agent();
    void note_limits();
    void let_clients_in();
    void apply(plan_maker& maker);
    void listen_to_signals();
    void reload();
    void drain();
    void abort();

    file_shares shares_;
    asio::io_context context_{1};  // of the limits, on the caller's thread
    net::watchdog dog_{context_};
    proxy::listeners listeners_;
    std::optional<tool::log_file> log_;
    state_file state_;
    std::shared_ptr<plan const> plan_;  // in force
    std::optional<weir::agent::server> agent_;
    std::vector<std::weak_ptr<limit>> limits_;  // of all plans, while they exist
    threads threads_{context_};
    std::optional<health_checks> checks_;
    std::optional<name_lookups> names_;
    reloader reloader_;
    std::optional<operator_view> view_;
    asio::signal_set signals_;
    net::timer bound_;
    phase phase_ = phase::starting;
};

}  // namespace proxy
