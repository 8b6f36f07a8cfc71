#include "session.hpp"

#include "check.hpp"
#include "client.hpp"
#include "client_handshake.hpp"
#include "client_introduction.hpp"
#include "close_gently.hpp"
#include "http/accept.hpp"
#include "http/values.hpp"
#include "key.hpp"
#include "own_response.hpp"
#include "reach.hpp"
#include "reading.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>

#include <chrono>
#include <optional>
#include <span>
#include <utility>

namespace proxy {

namespace asio = boost::asio;

namespace {

// The time limits of a gentle close.
constexpr std::chrono::seconds lingering_silence{5};
constexpr std::chrono::seconds lingering{30};

constexpr std::uint16_t default_https_port = 443;

}  // namespace

session::session(shared const& s, net::stream_socket socket, boost::asio::ip::address const& from,
                 net::listener::admission a, role as)
    : shared_(s),
      admission_(std::move(a)),
      client_(std::move(socket), s.for_relays.dog),
      open_(s.accounting.opens()),
      peer_(from),
      role_(std::move(as)) {}

// ---- The connection

void session::start(std::unique_ptr<session> self) {
    sleep(std::move(self));
}

// Waits until the next request begins, or the handshake of TLS. Between requests this is not a coroutine: most
// connections are idle most of the time, and this way they need no coroutine frame meanwhile.
void session::sleep(std::unique_ptr<session> self) {
    auto& me = *self;
    // A request that arrived before the shutdown is served.
    if (me.draining() && !me.client_.has_input())
        return;
    auto& context = me.shared_.context;
    if (me.awaits_handshake())
        return asio::co_spawn(context, wake(std::move(self)), asio::detached);
    auto const limit = me.fresh_ ? me.limits().header : me.limits().idle;
    me.fresh_ = false;
    me.asleep_.emplace(me.client_, net::direction::reading, limit);
    me.client_.set_idle(true);
    auto then = [&context, self = std::move(self)](net::error_code ec) mutable {
        self->client_.set_idle(false);
        self->asleep_.reset();
        if (ec && !(self->draining() && self->client_.has_input()))
            return;
        asio::co_spawn(context, wake(std::move(self)), asio::detached);
    };
    me.client_.wait(net::stream_socket::wait_read, std::move(then));
}

net::task<> session::wake(std::unique_ptr<session> self) {
    auto after = next::close;
    if (self->awaits_handshake())
        after = co_await self->encrypt();
    else
        after = co_await self->serve_all();
    // Many clients send their request with the last message of the handshake.
    if (after == next::request && self->client_.holds_input())
        after = co_await self->serve_all();
    if (after == next::request)
        sleep(std::move(self));
    else if (after == next::close_gently)
        co_await close_gently(self->client_, lingering_silence, lingering);
    else if (after == next::reset)
        self->client_.reset();
    else if (self->client_.encryption())
        co_await self->end();
}

// An encrypted response that the end of the connection ends is complete only with an announcement of the end.
net::task<> session::end() {
    net::time_limit const limit(client_, net::direction::writing, limits().body);
    static_cast<void>(co_await client_.end_output());
}

net::task<next> session::encrypt() {
    auto const by = std::exchange(role_.security, nullptr);
    auto const first = co_await first_byte_of(client_, limits().header);
    if (!first)
        co_return next::close;
    auto const how = co_await proxy::encrypt(
        client_, *first, *by, peer_, limits().handshake, shared_.accounting);
    certificates_ = by->certificates;
    lacks_tls_ = how == handshake::not_tls && !client_.encryption();
    fresh_ = true;
    if (how == handshake::limited)
        co_return next::reset;
    if (lacks_certificate(how))
        co_return next::close_gently;
    // A request without TLS gets a response that states the reason.
    co_return lacks_tls_ || is_complete(how) ? next::request : next::close;
}

// Serves requests until the connection ends or the next request does not arrive soon.
net::task<next> session::serve_all() {
    auto w = shared_.spaces.take();
    w->in.clear();
    if (role_.awaits_balancer) {
        side const from{client_, w->in};
        if (!co_await be_introduced(from))
            co_return next::close;
        fresh_ = true;
        if (w->in.empty())
            co_return next::request;
    } else {
        // The completion of an asynchronous read would be queued, and the thread would ask the kernel for events first.
        net::error_code ec;
        w->in.commit(client_.receive_now(w->in.room(), ec));
        if (ec && ec != asio::error::would_block)
            co_return next::close;
    }
    if (name_.empty())
        name_ = name_of(peer_);
    for (auto then = soon::request; then == soon::request;) {
        auto const after = co_await serve(w);
        if (after != next::request)
            co_return w ? close_as(after, w->in) : after;
        if (w->in.empty())
            then = co_await what_comes_soon(w->in);
        if (then == soon::end)
            co_return next::close;
    }
    co_return next::request;
}

// Reads the header of the PROXY protocol.
net::task<bool> session::be_introduced(side from) {
    auto const found = co_await receive_introduction(
        from, peer_, shared_.plan->configuration, role_.security ? rest::stays : rest::may_be_read,
        shared_.accounting);
    if (!found)
        co_return false;
    role_.awaits_balancer = false;
    if (found->ends)
        peer_ = found->ends->client.address();
    co_return true;
}

// Most clients that send another request send it immediately. It is read into the buffer that is still there. That
// saves the system call of a wait without a buffer.
net::task<session::soon> session::what_comes_soon(http::buffer& in) {
    if (draining() || shared_.spaces.crowded())
        co_return soon::nothing;
    // Other work comes first: an immediate read would be a system call without a result.
    if (shared_.spaces.busy())
        co_await asio::post(shared_.context, asio::deferred);
    if (draining())
        co_return soon::nothing;
    net::time_limit const limit(client_, net::direction::reading, net::watchdog::round);
    client_.set_idle(true);
    auto const [ec, n] = co_await client_.receive(in.room());
    client_.set_idle(false);
    client_.forgive(net::direction::reading);
    in.commit(n);
    if (!ec)
        co_return soon::request;
    co_return ec == asio::error::operation_aborted ? soon::nothing : soon::end;
}

// An immediate close would lose the response if the client sent bytes that were not read.
next session::close_as(next wanted, http::buffer const& in) {
    if (wanted != next::close_if_read)
        return wanted;
    return in.empty() && !client_.has_input() ? next::close : next::close_gently;
}

// ---- One request

net::task<next> session::serve(workspaces::handle& w) {
    auto& x = w->current;
    auto& accounting = shared_.accounting;
    accounting.expects(x);
    if (auto const* const c = client_.encryption())
        x.record.encryption = c->agreed();
    side const from{client_, w->in};
    head_search head;
    auto wrong = head.look(w->in);
    if (!wrong && !head.found())
        wrong = co_await receive_head(from, head, limits().header);
    if (wrong && wrong.status == 0)
        co_return next::close;

    auto const active = accounting.serves();
    auto const plan = shared_.plan;
    auto const text = head.text(w->in);
    if (!wrong)
        wrong = understand(w->in, text, plan->configuration.clients, x.request);
    if (wrong) {
        forget(x);
    } else {
        accounting.begins(x, text.substr(0, text.find('\r')));
        http::read_accept(x.kept.accept, x.request.head);
        wrong = fault_of_connection(x);
        if (!wrong && role_.check)
            wrong = describe(x, plan->configuration.clients);
        if (!wrong)
            wrong = plan->routes.check(x.request.asked());
        x.record.to = plan->routes.find(
            x.request.asked(), plan->configuration.clients, peer_, role_.check.has_value());
    }
    auto const* const to = x.record.to;
    if (role_.https_port && !wrong)
        co_return co_await redirect(*w, *plan);
    if (to && !wrong)
        wrong = fault_of_keys(to->keys, info_of(x, peer_));
    if (auto const* const at = plan->bandwidth_of(role_.listener); at && to && to->to && !wrong)
        wrong = fault_of_keys(at->keys, info_of(x, peer_));
    auto const what = decide(wrong, x.request.head, to ? &to->configuration : nullptr);
    auto end = conclude(what, x.request.head, x.request.body.done());
    std::unique_ptr<lasting_record> of_upgrade;
    if (what.limited)
        end = co_await perform(w, *plan, *to, what, of_upgrade);
    auto& result = of_upgrade ? *of_upgrade : x.record;
    if (w)
        x.drop_ahead();

    result.how = end.how;
    accounting.ends(result);
    if (end.say.status != 0)
        end.after = co_await answer(*w, *plan, end);
    else if (draining())
        end.after = last_after(end);
    accounting.responds(result, *plan, name_);
    co_return end.after;
}

// Redirects the request to https. The status keeps its method.
net::task<next> session::redirect(workspace& w, plan const& p) {
    auto& x = w.current;
    auto const& request = x.request.head;
    auto const host = http::name_of_host(request.host);
    decision what{.limited = false, .how = ending::routed, .say = {308, "use https"}};
    if (host.empty())
        what.say = {400, "a redirect needs the Host of the request"};
    x.record.to = nullptr;
    auto end = conclude(what, request, x.request.body.done());
    if (!host.empty()) {
        auto const port = *role_.https_port;
        x.rate_headers.assign("Location: https://").append(host);
        if (port != default_https_port)
            x.rate_headers.append(":").append(std::to_string(port));
        x.rate_headers.append(request.target == "*" ? "/" : request.target).append("\r\n");
        end.say.lines = x.rate_headers;
    }
    x.record.how = end.how;
    shared_.accounting.ends(x.record);
    end.after = co_await answer(w, p, end);
    shared_.accounting.responds(x.record, p, name_);
    co_return end.after;
}

// Reads the request that a check describes.
http::fault session::describe(exchange& x, config::clients_options const& c) const {
    if (!is_trusted(c, peer_))
        return {403, "only a trusted peer may check a request"};
    auto& described = x.request.described.emplace(x.request.head);
    auto const wrong = proxy::describe(role_.check->described_by, x.request.head, described);
    if (wrong)
        x.request.described.reset();
    else
        shared_.accounting.describes(x);
    return wrong;
}

// Passes the limits of the route, and relays the request unless the route responds itself. The permits are released at
// the end of this function: the rest concerns only the client and the proxy. An upgraded connection returns its
// workspace, and then its record is `of_upgrade`.
net::task<conclusion> session::perform(workspaces::handle& w, plan const& p, route const& to,
                                       decision const& what,
                                       std::unique_ptr<lasting_record>& of_upgrade) {
    auto& x = w->current;
    auto const client = client_of(p.configuration.clients, x.request.head, peer_);
    if (client != peer_ && (to.has_variables || shared_.accounting.has_log()))
        x.record.client_name = x.kept.client = name_of(client);
    if (to.has_variables)
        set_variables(x);
    bool const is_balancer = is_trusted(p.configuration.clients, peer_);
    auto who = info_of(x, client);
    who.is_trusted = is_balancer;
    entry entered(who);
    body_clock clock(p.configuration);
    if (what.what != action::answer && x.request.head.body != http::framing::none) {
        auto const why = co_await prepare_body(*w, to, clock, entered);
        if (why != failure::none) {
            relayed const failed{.why = why, .said = fault_of(why)};
            co_return conclude(failed, x.request.head, false);
        }
    }
    if (entered.status == 0 && !to.entrance.enter_at_once(entered))
        co_await wait(to, entered);
    auto end = conclude(what, x.request.head, x.request.body.done());
    if (what.what == action::answer)
        to.entrance.answer(entered, end.say.status);
    next_entry next;
    std::optional<std::uint64_t> received;  // the bytes of a body of unknown length
    auto const* const of_listener = p.bandwidth_of(role_.listener);
    for (bool again = what.what != action::answer; again && entered.status == 0;) {
        relay way(shared_.for_relays, p, to, of_listener ? &of_listener->bandwidth : nullptr,
                  {client_, w->in}, x, clock, entered, what.protocol);
        auto const r = co_await way.run(name_, is_balancer);
        x.record.server = r.server;
        x.record.throttled = way.throttled();
        if (r.reached == progress::tunnelled) {
            received = x.request.length;
            end = conclude(r, x.request.head, true);
            of_upgrade = std::make_unique<lasting_record>(x.record);
            auto through = way.tunnel_through();
            w.reset();
            counted const one(shared_.for_relays.tunnels);
            of_upgrade->bytes += co_await tunnel::run(std::move(through), asio::deferred);
            of_upgrade->throttled = way.throttled();
            to.entrance.report(entered, outcome_of(r));
            break;
        }
        to.entrance.report(entered, outcome_of(r));
        again = next.follows(r.lacks_seat, entered.patience, entered.waited);
        if (again) {
            entered.start_again();
            co_await wait(to, entered);
            continue;
        }
        if (r.reached == progress::idle)
            entered.give_back();
        bool const has_length = x.request.head.body == http::framing::length;
        received = has_length ? std::nullopt : std::optional(x.request.length);
        end = conclude(r, x.request.head, x.request.body.done());
        if (end.say.status >= 500)
            x.record.trouble = end.say.why;
    }
    auto& result = of_upgrade ? *of_upgrade : x.record;
    to.entrance.settle(entered, result.bytes, received);
    result.client = client;
    result.waited = entered.waited;
    result.rejected_by = entered.rejected_by;
    if (entered.status != 0)
        end = rejected(x, to, entered);
    if (end.say.status != 0) {
        to.rate_headers.write(x.rate_headers, entered);
        end.say.lines = x.rate_headers;
    }
    co_return end;
}

// Reports a request without the TLS that the listener requires, and one for a server other than that for which the client
// began the connection (RFC 9110, 15.5.20). A check describes a request of another connection.
http::fault session::fault_of_connection(exchange const& x) const {
    if (lacks_tls_)
        return {400, "this port requires TLS: use https"};
    auto const& how = x.record.encryption;
    auto const host = http::name_of_host(x.request.head.host);
    if (!how || role_.check || certificates_->serves(how->server_name, host))
        return {};
    return {421, "the connection is for another server name"};
}

// The properties of a request whose client is `client`. The peer of a check is another proxy, whose connection
// is not the client's.
request_info session::info_of(exchange const& x, boost::asio::ip::address const& client) const {
    request_info who{x.request.asked(), client};
    if (auto const& how = x.record.encryption; how && !role_.check) {
        who.client_certificate = how->client_certificate;
        who.server_name = how->server_name;
    }
    return who;
}

// Sets the variables of the route's changes to headers, to texts that outlive the head of the request.
void session::set_variables(exchange& x) const {
    using http::variable;
    x.kept.host.assign(http::name_of_host(x.request.asked().host));
    auto& v = x.variables;
    v[variable::client] = x.record.client_name.empty() ? name_ : x.record.client_name;
    v[variable::client_certificate] =
        x.record.encryption ? x.record.encryption->client_certificate : "";
    v[variable::host] = x.kept.host;
    v[variable::id] = x.kept.id;
    v[variable::route] = x.record.to->name;
}

net::task<> session::wait(route const& to, entry& entered) {
    auto const waiting = shared_.accounting.waits();
    co_await to.entrance.enter_in_turn(entered, client_);
}

// Reads the body of the request, or its beginning, before the request asks for a seat: otherwise a client that sends
// slowly would hold the seat meanwhile. A request that a rate rejects is not read.
net::task<failure> session::prepare_body(workspace& w, route const& to, body_clock& clock,
                                         entry& entered) {
    auto const& c = to.configuration;
    if (is_too_long(w.current.request, c))
        co_return failure::body_too_large;
    if (w.current.request.body.done() || c.body_buffer == 0 || !to.entrance.has_seats())
        co_return failure::none;
    if (!co_await to.entrance.may_enter(entered, client_))
        co_return failure::none;
    side const from{client_, w.in};
    co_return co_await read_ahead(from, w.current, c, clock);
}

conclusion session::rejected(exchange& x, route const& to, entry const& entered) const {
    problem say{role_.check ? role_.check->refuse : entered.status, entered.why};
    if (entered.retry_after > std::chrono::seconds::zero())
        say.retry_after = entered.retry_after;
    say.violated = to.rate_headers.violated(entered);
    return conclude(say, entered.client, x.request.head, x.request.body.done());
}

net::task<next> session::answer(workspace& w, plan const& p, conclusion const& end) {
    auto& x = w.current;
    auto const after = draining() ? last_after(end) : end.after;
    http::changes_of_message changes;
    std::span<config::body const> bodies = p.configuration.bodies;
    if (auto const* const to = x.record.to; to && end.how == ending::routed) {
        changes = {to->response_headers, x.variables};
        if (auto const& own = to->configuration.body)
            bodies = {&*own, 1};
    }
    auto out = write_response(
        x, bodies, end.say, after == next::request, shared_.for_relays.date.now(), changes);
    net::error_code ec;
    if (!client_.send_now(out, ec)) {
        net::time_limit const limit(client_, net::direction::writing, limits().body);
        ec = co_await client_.send(out);
    }
    if (ec)
        co_return next::close;
    if (after == next::request && !x.request.body.done()) {
        side const from{client_, w.in};
        bool const dropped = co_await drop_body(from, x.request.body, limits().body);
        if (!dropped)
            co_return next::close;
    }
    co_return after;
}

}  // namespace proxy
