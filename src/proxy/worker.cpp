#include "worker.hpp"

#include "net/resolve.hpp"
#include "tcp_session.hpp"

#include <optional>

namespace proxy {
namespace {

// The target costs a system call, so it is found only if the servers get it.
std::optional<net::connection_ends> ends_of(net::arrival const& a, tcp_service const& to) {
    auto const client = net::tcp_endpoint(a.from);
    if (!client)
        return std::nullopt;
    net::connection_ends ends{*client, {}};
    net::error_code ec;
    if (to.introduces())
        if (auto const target = net::tcp_endpoint(a.socket.local_endpoint(ec)); target && !ec)
            ends.target = *target;
    return ends;
}

}  // namespace

void worker::serve(net::arrival a) {
    auto const& by = plan_->listeners[a.by];
    if (!by)  // the listener was closed
        return;
    auto const& options = by->options;
    if (by->service) {
        tcp_session::service service{plan_, &plan_->services[*by->service]};
        auto const ends = ends_of(a, *service.to);
        return tcp_session::start(std::make_unique<tcp_session>(
            for_sessions_, std::move(service), std::move(a.socket), ends, std::move(a.admitted),
            options.proxy_protocol));
    }
    auto const tcp = net::tcp_endpoint(a.from);
    auto const peer = tcp ? tcp->address() : asio::ip::address();
    session::role role{.awaits_balancer = options.proxy_protocol,
                       .check = options.check,
                       .https_port = options.https_port,
                       .security = by->security,
                       .listener = a.by};
    session::start(std::make_unique<session>(
        for_sessions_, std::move(a.socket), peer, std::move(a.admitted), std::move(role)));
}

void worker::use(std::shared_ptr<plan const> p) {
    plan_ = std::move(p);
    dog_.look_at_all();  // the new plan may not name a server any more
}

void worker::drain() {
    draining_ = true;
    upstreams_.close();
    dog_.stop_if_idle();
    spaces_.stop();
}

void worker::abort() {
    dog_.abort();
}

}  // namespace proxy
