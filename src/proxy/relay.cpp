#include "relay.hpp"

#include "http/compose.hpp"
#include "http/path.hpp"
#include "reach.hpp"

#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/post.hpp>

#include <cstddef>
#include <utility>

namespace proxy {

namespace asio = boost::asio;

namespace {

// The proxy reads at most this number of bytes of an unwanted response.
constexpr std::size_t most_dropped = 1024 * 1024;

config::timeouts limits_of(plan const& p, route const& r) {
    auto limits = p.configuration.timeouts;
    limits.upstream = r.upstream_timeout;
    return limits;
}

}  // namespace

relay::relay(shared const& s, plan const& p, route const& r, route_bandwidth const* of_listener,
             side client, exchange& x, body_clock& clock, entry& entered, std::string_view upgrade)
    : shared_(s),
      configuration_(p.configuration),
      route_(r),
      limits_(limits_of(p, r)),
      client_(client),
      x_(x),
      clock_(clock),
      entered_(entered),
      upgrade_(upgrade),
      up_(transfer::start({r.bandwidth.up, of_listener ? &of_listener->up : nullptr}, entered.who)),
      down_(transfer::start({r.bandwidth.down, of_listener ? &of_listener->down : nullptr},
                            entered.who)) {}

net::task<relayed> relay::run(std::string_view peer, bool is_trusted) {
    auto const& path = route_.configuration.upstream_path;
    if (path)
        http::replace_prefix(x_.kept.target, x_.request.head.target, route_.segments, *path);
    http::compose(x_.out, x_.request.head,
                  {.peer = peer,
                   .is_trusted = is_trusted,
                   .upstream = route_.to->servers().front()->name(),
                   .upgrade = upgrade_,
                   .target = path ? std::string_view(x_.kept.target) : std::string_view(),
                   .scheme = client_.connection.encryption() ? "https" : "http"},
                  {route_.request_headers, x_.variables});
    shared_.dog.add(*this);

    key_ = route_.to->key_of(entered_.who);
    at_ = route_.to->choose({}, key_);
    if (at_)
        upstream_ = shared_.upstreams.reuse(at_.server());
    bool const kept = bool(upstream_);
    if (kept) {
        server_ = &at_.server();
        co_await ask();
        if (!may_repeat() || !co_await route_.entrance.enter_again(entered_, client_.connection))
            co_return end();
        failure_ = failure::none;
        said_ = {};
        upstream_.close();
    }
    bool const connected = co_await connect();
    if (connected && !over()) {
        server_ = &at_.server();
        co_await ask();
    } else {
        at_ = {};  // before the permits are released
    }
    co_return end();
}

// Whether to send the request again, after an attempt on a kept connection.
bool relay::may_repeat() const noexcept {
    return failure_ == failure::silent &&
           proxy::may_repeat({.method = x_.request.head.method,
                              .has_body = x_.request.head.body != http::framing::none,
                              .answered = reached_ >= progress::heard,
                              .kept = true});
}

relayed relay::end() const noexcept {
    return {.why = failure_,
            .said = said_,
            .reached = reached_,
            .framing = framing_,
            .keep_alive = keep_alive_,
            .status = x_.answer.status,
            .server = server_,
            .lacks_seat = lacks_seat_};
}

// Connects to the chosen server, or to another one if that fails: nothing was sent yet.
net::task<bool> relay::connect() {
    auto const is_over = [this] { return over(); };
    connection_use const use;
    auto r = co_await reach(
        *route_.to, shared_.upstreams, std::move(at_), key_, use, limits_.upstream, is_over);
    at_ = std::move(r.at);
    upstream_ = std::move(r.connection);
    if (upstream_)
        co_return true;
    lacks_seat_ = r.lacks_seat;
    fail(r.why);
    co_return false;
}

// Sends the request, or its beginning, and relays both directions until they end.
net::task<> relay::ask() {
    using namespace asio::experimental::awaitable_operators;

    auto const& request = x_.request;
    reached_ = progress::asked;
    asked_ = net::clock::now();
    // Where bytes are limited, `upload` sends the body from its first byte.
    bool const later = up_ && !request.first.empty();
    upload_ = request.body.done() && !later ? upload_state::sent : upload_state::sending;
    {
        http::gather out{x_.out};
        http::body_writer writer(request.head.body);
        if (!later)
            writer.put(out, request.first.data(), request.first.size(), request.body.done());
        http::join(out, x_.out);
        // If this fails, the response may still state the reason.
        net::error_code ignored;
        if (!upstream_->send_now(out, ignored)) {
            net::time_limit const limit(*upstream_, net::direction::writing, limits_.upstream);
            (void)co_await upstream_->send(out);
        }
        if (!later)
            x_.drop_ahead();  // only a request without a body is sent again
    }
    if (upload_ == upload_state::sent) {
        // Other work comes first: an immediate read would be a system call without a result. A relay that is cancelled
        // meanwhile is over.
        if (shared_.spaces.busy())
            co_await asio::post(upstream_->get_executor(), asio::deferred);
        if (!over())
            co_await download();
    } else {
        co_await (upload() && download());
    }

    keep_alive_ = keep_alive_ && request.body.done();
    if (has_switched(reached_))
        co_return;
    if (may_be_kept())
        shared_.upstreams.keep(std::move(upstream_), limits_.upstream_idle);
    else if (is_of_client(failure_) && !configuration_.clients.abort_on_hang_up)
        co_await see_it_close();
}

bool relay::may_be_kept() const noexcept {
    return reached_ == progress::complete && upload_ == upload_state::sent &&
           x_.answer.keep_alive && x_.answer.body != http::framing::until_close && x_.back.empty();
}

// The request stays incomplete or the client disconnected, but the upstream still works on it. The proxy closes its
// sending side, and keeps the seat until the upstream closes the connection, up to the upstream timeout and
// `most_dropped` bytes.
net::task<> relay::see_it_close() {
    auto const end = net::clock::now() + limits_.upstream;
    {
        net::time_limit const limit(*upstream_, net::direction::writing, limits_.upstream);
        if (co_await upstream_->end_output())
            co_return;
    }
    std::size_t dropped = 0;
    for (auto now = net::clock::now(); now < end && dropped < most_dropped;
         now = net::clock::now()) {
        x_.back.clear();
        net::time_limit const limit(*upstream_, net::direction::reading, end - now);
        auto const [ec, n] = co_await upstream_->receive(x_.back.room());
        if (ec)
            co_return;
        dropped += n;
    }
}

// A client that closed its sending side may still read. The proxy finds that out when it sends the response.
net::clock::time_point relay::look(net::clock::time_point now) {
    if (has_switched(reached_))
        return net::clock::time_point::max();
    // Most requests end before the next round, so they need no system call for this.
    bool const lasts = std::exchange(lasts_, true);
    if (!lasts || over())
        return now;
    if (delays_others(now)) {
        fail(failure::body_too_slow);
        client_.connection.cancel();
        upstream_->cancel();
        return now;
    }
    auto const there = client_.connection.other_side();
    bool const aborts = configuration_.clients.abort_on_hang_up;
    if (there == net::presence::here || (there == net::presence::ended && !aborts))
        return now;
    bool const gone = there == net::presence::gone;
    fail(gone ? failure::client_gone : failure::client_ended);
    if (gone)
        client_.connection.cancel();
    if (upstream_)
        upstream_->cancel();
    return now;
}

void relay::fail(failure f, http::fault said) noexcept {
    if (failure_ != failure::none)
        return;
    failure_ = f;
    said_ = said;
    for (auto* const one : {up_.get(), down_.get()})
        if (one)
            one->stop();
}

// Ends without a response from the upstream: the request cannot be sent completely, or the client disconnected.
void relay::give_up(failure f) noexcept {
    fail(f);
    upstream_->cancel();
}

}  // namespace proxy
