#include "tcp_session.hpp"

#include "access_log.hpp"
#include "bandwidth.hpp"
#include "client.hpp"
#include "client_handshake.hpp"
#include "client_introduction.hpp"
#include "close_gently.hpp"
#include "tunnel.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>

#include <chrono>
#include <cstddef>
#include <optional>
#include <string_view>
#include <tuple>
#include <utility>

namespace proxy {

namespace asio = boost::asio;

namespace {

// After a refusal the client has this time to read it and to close the connection.
constexpr std::chrono::seconds after_refusal{1};

// A client of TLS has this time to send its ClientHello. One that sends nothing meanwhile may wait for its server.
constexpr std::chrono::seconds time_of_hello{5};

// The limits of connections use no part of a request.
http::request_head const no_request;

}  // namespace

tcp_session::tcp_session(session::shared const& s, service to, net::stream_socket socket,
                         std::optional<net::connection_ends> const& ends,
                         net::listener::admission a, bool awaits_balancer)
    : shared_(s),
      service_(std::move(to)),
      admission_(std::move(a)),
      client_(std::move(socket), s.for_relays.dog),
      open_(s.accounting.opens()),
      ends_(ends),
      peer_(ends ? ends->client.address() : boost::asio::ip::address()),
      awaits_balancer_(awaits_balancer) {}

void tcp_session::start(std::unique_ptr<tcp_session> self) {
    auto& context = self->shared_.context;
    asio::co_spawn(context, run(std::move(self)), asio::detached);
}

// A connection that carries bytes stays in this function: a function for that would need a frame for each connection.
net::task<> tcp_session::run(std::unique_ptr<tcp_session> self) {
    auto& me = *self;
    if (me.awaits_balancer_) {
        bool const known = co_await me.be_introduced();
        if (!known)
            co_return;
    }
    if (me.at().security) {
        bool const encrypted = co_await me.encrypt();
        if (!encrypted)
            co_return;
    }
    if (me.at().has_names()) {
        bool const found = co_await me.find_route();
        if (!found)
            co_return;
    }
    auto const& to = me.to();
    conclusion end;
    {
        entry entered({no_request, me.peer_});
        if (!to.entrance.enter_at_once(entered))
            co_await me.wait(entered);
        if (entered.status == 0) {
            auto reached = co_await me.connect(entered);
            if (reached.connection) {
                end.server = &reached.at.server();
                auto& counts = *to.counts;
                tcp_counter::counted const active(counts.active);
                auto const start = [&](byte_limits const& of_route, auto direction) {
                    return transfer::start(
                        {.of_route = of_route, .own = me.own_limit(direction)}, entered.who);
                };
                auto const up = start(to.bandwidth.up, &config::bandwidth::up);
                auto const down = start(to.bandwidth.down, &config::bandwidth::down);
                auto through = me.tunnel_to(*reached.connection, *end.server, up.get(), down.get());
                end.bytes = co_await tunnel::run(std::move(through), asio::deferred);
                end.throttled = waited_of(up.get(), down.get());
            } else if (entered.status == 0) {
                entered.give_back();
                end.why = reached.why;
                end.how = is_of_client(end.why) ? tcp_ending::disconnected : tcp_ending::failed;
                end.status = fault_of(end.why).status;
            }
        }  // closes the connection to the server before its permits are released
        if (entered.status != 0) {
            end.how = entered.client == net::presence::here ? tcp_ending::rejected
                                                            : tcp_ending::disconnected;
            end.status = entered.status;
            end.rejected_by = entered.rejected_by;
        }
        to.entrance.settle(entered, end.bytes, std::nullopt);
        end.waited = entered.waited;
    }
    me.record(end);
    if (end.how == tcp_ending::rejected)
        co_await me.refuse(me.at().configuration.refusal);
    else if (end.how != tcp_ending::served)
        me.client_.reset();
}

// Reads the header of the PROXY protocol. Bytes that follow it stay in the buffer.
net::task<bool> tcp_session::be_introduced() {
    unsent_ = shared_.spaces.take_buffer();
    client_.set_idle(true);
    side const from{client_, *unsent_};
    auto const found = co_await receive_introduction(
        from, peer_, configuration(), at().security ? rest::stays : rest::may_be_read,
        shared_.accounting);
    client_.set_idle(false);
    if (found && found->ends) {
        ends_ = found->ends;
        peer_ = ends_->client.address();
    }
    if (unsent_->empty())
        unsent_.reset();
    co_return found.has_value();
}

// Completes the handshake of TLS. Returns whether it succeeded.
net::task<bool> tcp_session::encrypt() {
    auto const& limits = configuration().timeouts;
    auto const first = co_await first_byte_of(client_, limits.header);
    if (!first)
        co_return false;
    auto const how = co_await proxy::encrypt(
        client_, *first, *at().security, peer_, limits.handshake, shared_.accounting);
    if (how == handshake::limited)
        client_.reset();
    if (lacks_certificate(how))
        co_await close_gently(client_, after_refusal, after_refusal);
    co_return is_complete(how);
}

// Finds the route by the server name for which a client of TLS asks. If the proxy does not end TLS, the bytes of the
// client stay in the buffer, for the server.
net::task<bool> tcp_session::find_route() {
    conclusion end{.how = tcp_ending::unrouted, .status = 404};
    std::string_view alert;
    if (auto const* const security = client_.encryption()) {
        server_name_ = security->agreed().server_name;
    } else {
        auto const hello = co_await receive_hello(end);
        server_name_ = hello.server_name;
        if (hello.is == net::client_hello::state::complete)
            alert = net::unrecognized_name_alert();
    }
    if (end.how == tcp_ending::unrouted) {
        route_ = &at().find(server_name_);
        if (route_->to)
            co_return true;
    }
    record(end);
    co_await refuse(alert);
    co_return false;
}

// Sets `end` if the client does not send a whole ClientHello.
net::task<net::client_hello> tcp_session::receive_hello(conclusion& end) {
    using state = net::client_hello::state;
    net::client_hello hello;
    client_.set_idle(true);
    {
        net::time_limit const until(client_, net::direction::reading, time_of_hello);
        for (net::error_code ec; !ec;) {
            if (!unsent_) {  // a silent client needs none
                std::tie(ec) = co_await client_.wait(net::stream_socket::wait_read);
                if (ec)
                    break;
                unsent_ = shared_.spaces.take_buffer();
            }
            auto& in = *unsent_;
            hello = net::parse_client_hello(in.text());
            if (hello.is != state::incomplete)
                break;
            std::size_t n = 0;
            std::tie(ec, n) = co_await client_.receive(in.room());
            in.commit(n);
        }
    }
    client_.set_idle(false);
    bool const is_late = client_.expired(net::direction::reading);
    client_.forgive(net::direction::reading);
    bool const is_silent = is_late && (!unsent_ || unsent_->empty());
    if (hello.is == state::incomplete && !is_silent) {
        end.how = tcp_ending::disconnected;
        end.status = is_late ? 408 : fault_of(failure::client_gone).status;
    }
    co_return hello;
}

// A waiting connection has no buffer.
net::task<> tcp_session::wait(entry& entered) {
    tcp_counter::counted const waiting(to().counts->waiting);
    std::string const kept(unsent_ ? unsent_->text() : "");
    unsent_.reset();
    co_await to().entrance.enter_in_turn(entered, client_);
    unsent_ = shared_.spaces.take_buffer(kept);
}

// Connects to a server. If the servers that can be reached have no free seat, the connection waits for one again.
net::task<reached> tcp_session::connect(entry& entered) {
    auto& upstream = *to().to;
    auto const key = upstream.key_of(entered.who);
    auto const is_gone = [this] { return client_.other_side() == net::presence::gone; };
    next_entry next;
    auto const header = introduction();
    connection_use const use{.inner = tls::inner_protocol::other, .introduction = header};
    for (;;) {
        auto at = upstream.choose({}, key);
        auto r = co_await reach(upstream, shared_.for_relays.upstreams, std::move(at), key, use,
                                configuration().timeouts.upstream, is_gone);
        if (!r.connection && is_gone())
            r.why = failure::client_gone;
        if (!next.follows(r.lacks_seat, entered.patience, entered.waited))
            co_return r;
        entered.start_again();
        co_await wait(entered);
        if (entered.status != 0)
            co_return r;
    }
}

std::shared_ptr<tunnel> tcp_session::tunnel_to(
    net::connection& upstream, upstream_server const& server, transfer* up, transfer* down) {
    auto& counts = *to().counts;
    return std::make_shared<tunnel>(
        shared_.spaces, shared_.for_relays.dog, tunnel::side{client_, std::move(unsent_)},
        tunnel::side{upstream, {}},
        tunnel::limits{.idle = at().configuration.idle,
                       .leaves = server.leaves(),
                       .drain = configuration().drain},
        tunnel::transfers{
            .up = up, .down = down, .sent_up = &counts.sent_up, .sent_down = &counts.sent_down});
}

// The limit of the bytes of this connection alone; null without one.
std::unique_ptr<byte_limit> tcp_session::own_limit(config::direction d) const {
    config::limit own;
    own.bandwidth = at().configuration.bandwidth;
    return config::has_rate(own, d)
               ? std::make_unique<byte_limit>(shared_.context.get_executor(), own, d)
               : nullptr;
}

// The header of the PROXY protocol for the server; empty if it gets none.
std::string tcp_session::introduction() const {
    auto const version = to().to->configuration().proxy_protocol;
    if (version == 0)
        return {};
    std::optional<net::introduced_tls> tls;
    if (auto const* const security = client_.encryption()) {
        using certificate = net::introduced_tls::certificate;
        auto const agreed = security->agreed();
        tls = {.version = agreed.version,
               .cipher = agreed.cipher,
               .server_name = agreed.server_name,
               .protocol = agreed.protocol,
               .verified = agreed.client_certificate.empty() ? certificate::none
                           : agreed.is_resumed               ? certificate::of_session
                                                             : certificate::of_connection};
    }
    return net::make_introduction(version, ends_, tls);
}

net::task<> tcp_session::refuse(std::string_view text) {
    net::error_code ec;
    http::gather out{text};
    if (text.empty() || !client_.send_now(out, ec) || ec)
        co_return client_.reset();
    co_await close_gently(client_, after_refusal, after_refusal);
}

void tcp_session::record(conclusion const& end) const {
    to().counts->count(end.how);
    auto& accounting = shared_.accounting;
    if (end.how == tcp_ending::rejected)
        accounting.rejects(*end.rejected_by, peer_);
    if (end.how == tcp_ending::failed)
        accounting.fails({to().to, nullptr, fault_of(end.why).why});
    if (!accounting.has_log())
        return;
    auto const client = name_of(peer_);
    auto const request = service_name(at().name, server_name_);
    log_line const line{
        .ended = std::chrono::system_clock::now(),
        .client = client,
        .request = request,
        .status = end.status,
        .bytes = end.bytes,
        .took = net::clock::now() - begun_,
        .waited = end.waited,
        .throttled = end.throttled,
        .upstream = end.server ? std::string_view(end.server->name()) : "",
        .limit = end.rejected_by ? std::string_view(end.rejected_by->name()) : "",
        .id = "",
        .encryption =
            client_.encryption() ? std::optional(client_.encryption()->agreed()) : std::nullopt};
    accounting.log(line, configuration().access_log_format);
}

}  // namespace proxy
