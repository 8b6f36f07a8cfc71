#include "session.hpp"

#include <weir/client_key.hpp>

#include "access_log.hpp"
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

constexpr http::fault ended{0, "the connection has ended"};

}  // namespace

session::session(worker& w, net::tcp_socket socket, net::tcp::endpoint const& from,
                 net::listener::admission a)
    : worker_(w),
      limits_(w.settings().limits),
      admission_(std::move(a)),
      client_(std::move(socket), w.dog()),
      name_(from.address().to_string()),
      who_(weir::client_key(from.address(), w.settings().client_prefix.v4,
                            w.settings().client_prefix.v6)) {
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
    auto const limit = me.fresh_ ? me.limits_.header : me.limits_.idle;
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
    for (bool more = true; more;) {
        auto const after = co_await serve(*x);
        if (after != next::request)
            co_return after;
        if (x->in.empty())
            more = co_await goes_on_soon(*x);
    }
    co_return next::request;
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
    net::time_limit const limit(client_, net::direction::reading, limits_.header);
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
        worker_.settings().pass_underscores ? http::underscores::pass : http::underscores::drop;
    if (auto const wrong = http::parse(in.text().substr(0, head_size), request, names))
        return wrong;
    x.body = http::body_reader(request.body, request.length);
    x.first = x.body.take(in.data() + request.size, in.size() - request.size);
    if (x.body.bad())
        return {400, "the chunks of the body are wrong"};
    if (worker_.log())
        x.request_line.assign(in.text().substr(0, in.text().find('\r')));
    return {};
}

net::task<session::next> session::answer_in_turn(exchange& x) {
    http::own_answer mine;
    auto after = next::close_gently;
    {
        entry entered(who_);
        if (!worker_.entrance().enter_at_once(entered))
            co_await worker_.entrance().enter_in_turn(entered, client_);
        x.waited = entered.waited();
        if (entered.client == net::presence::gone) {
            ++worker_.counts().hung_up;
            co_return next::close;
        }
        if (entered.status != 0) {
            mine = {entered.status, entered.why, entered.retry_after};
            after = turn_away(x, entered);
        } else {
            relay way(worker_, client_, x, entered);
            co_await way.run(name_);
            worker_.entrance().report(entered, way.outcome());
            if (!way.went_on())
                entered.give_back();

            if (way.complete()) {
                ++worker_.counts().answered;
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
            mine = {way.wrong().status, way.wrong().why, {}};
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

// What follows the answer: another request, if what is left of this one is little enough to be read over.
session::next session::turn_away(exchange& x, entry const& refused) {
    bool const here = refused.client == net::presence::here;
    ++(here ? worker_.counts().turned_away : worker_.counts().hung_up);
    x.in.consume(x.request.size + x.first.used);
    bool const small =
        x.body.done() || (x.request.body == http::framing::length &&
                          x.request.length <= small_body && !x.request.expects_continue);
    return small && here && x.request.keep_alive ? next::request : next::close_gently;
}

// A client that has sent more than was read would lose the answer if it was closed at once.
session::next session::closing(exchange const& x) {
    bool const unread = !x.body.done() || !x.in.empty() || client_.has_input();
    return unread ? next::close_gently : next::close;
}

net::task<bool> session::drop_body(exchange& x) {
    while (!x.body.done()) {
        net::time_limit const limit(client_, net::direction::reading, limits_.body);
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
    http::own_answer const answer{f.status, f.why, {}};
    co_return co_await answer_myself(x, answer, next::close_gently);
}

net::task<session::next> session::answer_myself(exchange& x, http::own_answer what, next after) {
    if (worker_.draining())
        after = next::close_gently;
    bool const is_head = x.request.method == http::verb::head;
    x.status = what.status;
    x.bytes = is_head ? 0 : what.why.size() + 1;
    http::compose(x.out, what, is_head, x.request.version, after == next::request, worker_.date());
    http::gather out{x.out};
    net::error_code ec;
    if (!client_.send_now(out, ec)) {
        net::time_limit const limit(client_, net::direction::writing, limits_.body);
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
        .client = name_,
        .request = x.request_line.empty() ? "-" : std::string_view(x.request_line),
        .status = x.status,
        .bytes = x.bytes,
        .took = net::clock::now() - begun,
        .waited = x.waited};
    worker_.log()->write(text_of(line));
}

}  // namespace proxy
