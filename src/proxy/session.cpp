#include "session.hpp"

#include <weir/client_key.hpp>

#include "access_log.hpp"
#include "client.hpp"
#include "http/accept.hpp"
#include "http/compose.hpp"
#include "net/proxy_protocol.hpp"
#include "relay.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>

#include <utility>

namespace proxy {

namespace asio = boost::asio;

namespace {

// So much of a body that nobody wants is read, so that the connection can go on.
constexpr std::uint64_t small_body = 64 * 1024;

// For how long a client is listened to that is no longer wanted: until it is silent for so long, but no
// longer in all than that.
constexpr std::chrono::seconds lingering_silence{5};
constexpr std::chrono::seconds lingering{30};

std::string name_of(boost::asio::ip::address const& peer) {
    return peer.is_unspecified() ? "unknown" : peer.to_string();
}

constexpr http::fault ended{0, "the connection has ended"};

}  // namespace

session::session(worker& w, net::stream_socket socket, boost::asio::ip::address const& from,
                 net::listener::admission a, introduced by)
    : worker_(w),
      admission_(std::move(a)),
      client_(std::move(socket), w.dog()),
      peer_(from),
      awaits_balancer_(by == introduced::by_a_balancer),
      name_(name_of(from)) {
    ++worker_.counts().connections;
    ++worker_.counts().open;
}

session::~session() {
    --worker_.counts().open;
}

void session::start(std::unique_ptr<session> self) {
    self->client_.no_delay();
    sleep(std::move(self));
}

// Until the next request begins. That is no coroutine, since most connections are asleep most of the
// time, and this is all that they cost meanwhile.
void session::sleep(std::unique_ptr<session> self) {
    auto& me = *self;
    // A request that has come before the end is answered.
    if (me.worker_.draining() && !me.client_.has_input())
        return;
    auto const limit = me.fresh_ ? me.worker_.limits().header : me.worker_.limits().idle;
    me.fresh_ = false;
    me.asleep_.emplace(me.client_, net::direction::reading, limit);
    me.client_.set_idle(true);
    me.client_.when_readable([self = std::move(self)](net::error_code ec) mutable {
        self->client_.set_idle(false);
        self->asleep_.reset();
        if (ec && !(self->worker_.draining() && self->client_.has_input()))
            return;
        auto& context = self->worker_.context();
        asio::co_spawn(context, wake(std::move(self)), asio::detached);
    });
}

net::task<> session::wake(std::unique_ptr<session> self) {
    auto const after = co_await self->serve_all();
    if (after == next::request)
        sleep(std::move(self));
    else if (after == next::close_gently)
        co_await self->close_gently();
}

// Until none comes any more, or not soon.
net::task<session::next> session::serve_all() {
    auto const x = worker_.take_exchange();
    x->in.clear();
    if (awaits_balancer_) {
        if (!co_await be_introduced(*x))
            co_return next::close;
        fresh_ = true;
        if (x->in.empty())
            co_return next::request;
    }
    for (bool more = true; more;) {
        auto const after = co_await serve(*x);
        if (after != next::request)
            co_return after;
        if (x->in.empty())
            more = co_await goes_on_soon(*x);
    }
    co_return next::request;
}

// Only a balancer that is trusted is listened to.
net::task<bool> session::be_introduced(exchange& x) {
    if (!peer_.is_unspecified() && !is_trusted(worker_.clients(), peer_))
        co_return false;
    net::time_limit const limit(client_, net::direction::reading, worker_.limits().header);
    for (;;) {
        auto const [ec, n] = co_await client_.receive(x.in.room());
        x.in.commit(n);
        auto const found = net::parse_introduction(x.in.text());
        if (ec || found.is == net::introduction::state::wrong)
            co_return false;
        if (found.is == net::introduction::state::incomplete) {
            if (x.in.full())
                co_return false;
            continue;
        }
        awaits_balancer_ = false;
        x.in.consume(found.size);
        if (found.client) {
            peer_ = *found.client;
            name_ = name_of(peer_);
        }
        co_return true;
    }
}

// Most clients that go on do so at once. For these the next request is read into the buffer that is
// still here, which saves the system call that it costs to wait without one.
net::task<bool> session::goes_on_soon(exchange& x) {
    if (worker_.draining() || worker_.crowded())
        co_return false;
    // Other work comes first: to look for a request at once would be a system call in vain.
    co_await asio::post(worker_.context(), asio::deferred);
    if (worker_.draining())
        co_return false;
    net::time_limit const limit(client_, net::direction::reading, net::watchdog::round);
    client_.set_idle(true);
    auto const [ec, n] = co_await client_.receive(x.in.room());
    client_.set_idle(false);
    client_.forgive(net::direction::reading);
    x.in.commit(n);
    co_return !ec;
}

// The head of a request, from its first bytes to its end.
struct session::head_search {
    http::head_scanner scanner;
    bool blank_line = false;

    [[nodiscard]] bool found() const noexcept { return scanner.size() > 0; }
    [[nodiscard]] http::fault look(http::buffer& in);
};

http::fault session::head_search::look(http::buffer& in) {
    // One empty line is allowed before a request (RFC 9112, 2.2).
    if (!blank_line && in.text().starts_with("\r\n")) {
        in.consume(2);
        blank_line = true;
        scanner = {};
    }
    if (auto const wrong = scanner.look(in.text()))
        return wrong;
    if (found() || !in.full())
        return {};
    return scanner.in_first_line() ? http::fault{414, "the first line is too long"}
                                   : http::fault{431, "the header is too long"};
}

net::task<session::next> session::serve(exchange& x) {
    auto const begun = worker_.log() ? net::clock::now() : net::clock::time_point();
    x.status = 0;
    x.bytes = 0;
    x.waited = {};
    x.request_line.clear();
    x.client.clear();
    x.told.clear();
    x.id.clear();
    x.upstream.clear();
    x.limit.clear();

    auto after = next::close;
    head_search head;
    auto wrong = head.look(x.in);
    if (!wrong && !head.found())
        wrong = co_await receive_head(x, head);
    if (!wrong)
        wrong = understand(x, head.scanner.size());
    if (wrong) {
        if (wrong.status == 0)
            co_return next::close;
        ++worker_.counts().malformed;
        after = co_await refuse(x, wrong);
    } else {
        ++worker_.counts().requests;
        after = co_await answer_in_turn(x);
    }
    if (worker_.log())
        log(x, begun);
    co_return after;
}

net::task<http::fault> session::receive_head(exchange& x, head_search& head) {
    net::time_limit const limit(client_, net::direction::reading, worker_.limits().header);
    for (;;) {
        auto const [ec, n] = co_await client_.receive(x.in.room());
        if (ec) {
            if (client_.expired(net::direction::reading) && !x.in.empty())
                co_return http::fault{408, "the header did not come in time"};
            co_return ended;
        }
        x.in.commit(n);
        auto const wrong = head.look(x.in);
        if (wrong || head.found())
            co_return wrong;
    }
}

http::fault session::understand(exchange& x, std::size_t head_size) {
    auto& in = x.in;
    auto& request = x.request;
    auto const names =
        worker_.clients().pass_underscores ? http::underscores::pass : http::underscores::drop;
    if (auto const wrong = http::parse(in.text().substr(0, head_size), request, names))
        return wrong;
    x.body = http::body_reader(request.body, request.length);
    x.first = x.body.take(in.data() + request.size, in.size() - request.size);
    if (x.body.bad())
        return {400, "the chunks of the body are wrong"};
    if (worker_.log()) {
        x.request_line.assign(in.text().substr(0, in.text().find('\r')));
        take_request_id(request, x.id, worker_.ids());
    }
    return {};
}

net::task<session::next> session::answer_in_turn(exchange& x) {
    auto const plan = worker_.in_force();
    auto const* const to = plan->routes.find(x.request);
    if (!to)
        co_return co_await answer_itself(x, 404, "no route fits the request");
    problem mine;
    auto after = next::close_gently;
    {
        auto const who = client_of(plan->configuration.clients, x.request, peer_);
        if (worker_.log() && who != peer_)
            x.client = name_of(who);
        entry entered({x.request, who});
        if (!to->entrance.enter_at_once(entered))
            co_await to->entrance.enter_in_turn(entered, client_);
        x.waited = entered.waited;
        if (worker_.log() && entered.turned_away_by)
            x.limit = entered.turned_away_by->name();
        if (entered.client == net::presence::gone) {
            ++worker_.counts().hung_up;
            co_return next::close;
        }
        if (entered.status != 0) {
            to->told.tell(x.told, entered);
            mine = {entered.status, entered.why, entered.retry_after};
            if (auto const by = entered.refused_by())
                mine.violated = to->entrance.limits()[*by]->told().name;
            http::read_accept(x.accept, x.request);
            after = turn_away(x, entered);
        } else if (!to->to) {
            to->told.tell(x.told, entered);
            entered.permits.clear();
            co_return co_await answer_itself(x, *to->configuration.answer, to->reason);
        } else {
            // What follows may overwrite the head.
            http::read_accept(x.accept, x.request);
            relay way(worker_, *plan, *to, client_, x, entered);
            co_await way.run(name_);
            if (worker_.log() && way.server())
                x.upstream = way.server()->name();
            to->entrance.report(entered, way.outcome());
            if (!way.went_on())
                entered.give_back();

            if (way.complete()) {
                ++worker_.counts().answered;
                if (way.tunnelled())
                    co_return next::close;
                co_return way.keep_alive() && !worker_.draining() ? next::request : closing(x);
            }
            ++(way.client() == net::presence::here ? worker_.counts().failed
                                                   : worker_.counts().hung_up);
            if (way.client() == net::presence::gone)
                co_return next::close;
            if (way.begun()) {
                if (way.must_reset())
                    client_.reset();
                co_return next::close;
            }
            to->told.tell(x.told, entered);
            mine = {way.wrong().status, way.wrong().why};
            if (mine.status >= 500 && way.client() == net::presence::here)
                worker_.troubles().count({to->to, way.server(), way.wrong().why});
            if (x.request.keep_alive && x.body.done())
                after = next::request;
        }
    }
    // What was held at the gate has come home: what follows is between the client and the proxy.
    after = co_await answer_myself(x, mine, after);
    if (after == next::request && !x.body.done()) {
        bool const dropped = co_await drop_body(x);
        if (!dropped)
            after = next::close;
    }
    co_return after;
}

net::task<session::next> session::answer_itself(exchange& x, unsigned status,
                                                std::string_view why) {
    ++worker_.counts().routed;
    http::read_accept(x.accept, x.request);
    auto after = what_follows(x);
    after = co_await answer_myself(x, {status, why}, after);
    if (after == next::request && !x.body.done() && !co_await drop_body(x))
        after = next::close;
    co_return after;
}

session::next session::turn_away(exchange& x, entry const& refused) {
    bool const here = refused.client == net::presence::here;
    if (here)
        worker_.refused().count(
            {refused.turned_away_by->id(), weir::client_key(refused.who.client)});
    ++(here ? worker_.counts().turned_away : worker_.counts().hung_up);
    auto const after = what_follows(x);
    return here ? after : next::close_gently;
}

// Another request, if what is left of this one is little enough to be read over.
session::next session::what_follows(exchange& x) {
    x.in.consume(x.request.size + x.first.used);
    bool const small =
        x.body.done() || (x.request.body == http::framing::length &&
                          x.request.length <= small_body && !x.request.expects_continue);
    return small && x.request.keep_alive ? next::request : next::close_gently;
}

// A client that has sent more than was read would lose the answer if it was closed at once.
session::next session::closing(exchange const& x) {
    bool const unread = !x.body.done() || !x.in.empty() || client_.has_input();
    return unread ? next::close_gently : next::close;
}

net::task<bool> session::drop_body(exchange& x) {
    while (!x.body.done()) {
        net::time_limit const limit(client_, net::direction::reading, worker_.limits().body);
        auto const [ec, n] = co_await client_.receive(x.in.room());
        if (ec)
            co_return false;
        x.in.commit(n);
        x.in.consume(x.body.take(x.in.data(), x.in.size()).used);
    }
    co_return true;
}

net::task<session::next> session::refuse(exchange& x, http::fault f) {
    // Nothing of the head is to be relied on.
    x.request.version = 11;
    x.request.method = http::verb::unknown;
    x.accept.clear();
    co_return co_await answer_myself(x, {f.status, f.why}, next::close_gently);
}

net::task<session::next> session::answer_myself(exchange& x, problem what, next after) {
    if (worker_.draining())
        after = next::close_gently;
    bool const is_head = x.request.method == http::verb::head;
    auto const plan = worker_.in_force();  // has the body
    auto const body = choose_body(plan->configuration.bodies, what, x.accept, x.text);
    bool const sent = !is_head && http::has_body(what.status);
    x.status = what.status;
    x.bytes = sent ? body.text.size() : 0;
    http::compose(x.out,
                  {.status = what.status,
                   .type = body.type,
                   .length = body.text.size(),
                   .retry_after = what.retry_after,
                   .lines = x.told},
                  x.request.version, after == next::request, worker_.date());
    http::gather out{x.out};
    if (sent)
        out.emplace_back(body.text);
    http::join(out, x.out);
    net::error_code ec;
    if (!client_.send_now(out, ec)) {
        net::time_limit const limit(client_, net::direction::writing, worker_.limits().body);
        ec = co_await client_.send(out);
    }
    co_return ec ? next::close : after;
}

// To close a socket with unread input resets it, and the client might never see the answer.
net::task<> session::close_gently() {
    client_.end_of_output();
    std::array<char, 16 * 1024> nowhere;
    auto const end = net::clock::now() + lingering;
    for (bool silent = false; !silent && net::clock::now() < end;) {
        net::time_limit const limit(client_, net::direction::reading, lingering_silence);
        auto const [ec, n] = co_await client_.receive(nowhere);
        silent = bool(ec);
    }
}

void session::log(exchange const& x, net::clock::time_point begun) {
    log_line const line{
        .ended = std::chrono::system_clock::now(),  // before `took`: nothing seems to begin late
        .client = x.client.empty() ? name_ : x.client,
        .request = x.request_line.empty() ? "-" : std::string_view(x.request_line),
        .status = x.status,
        .bytes = x.bytes,
        .took = net::clock::now() - begun,
        .waited = x.waited,
        .upstream = x.upstream,
        .limit = x.limit,
        .id = x.id};
    bool const json = worker_.log_format() == config::log_format::json;
    worker_.log()->write(json ? json_of(line) : text_of(line));
}

}  // namespace proxy
