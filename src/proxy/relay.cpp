#include "relay.hpp"

#include "http/characters.hpp"
#include "http/compose.hpp"
#include "tool/text.hpp"
#include "tunnel.hpp"

#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/post.hpp>
#include <boost/container/small_vector.hpp>

#include <optional>
#include <tuple>
#include <utility>

namespace proxy {

namespace asio = boost::asio;

namespace {

constexpr http::fault unreachable{502, "the upstream cannot be reached"};
constexpr http::fault broke_off{502, "the upstream has closed the connection instead of answering"};
constexpr http::fault too_slow{504, "the upstream did not answer in time"};
constexpr http::fault hung_up{503, "the client has ended the connection"};
constexpr http::fault too_long{502, "the header of the upstream's answer is too long"};

// So many bytes of an answer are read that nobody wants.
constexpr std::size_t most_dropped = 1024 * 1024;

// May be sent again if the first time may have come to nothing (RFC 9110, 9.2.2).
bool may_repeat(http::request_head const& request) noexcept {
    switch (request.method) {
        case http::verb::get:
        case http::verb::head:
        case http::verb::options:
        case http::verb::trace:
        case http::verb::put:
        case http::verb::delete_:
            return request.body == http::framing::none;
        default:
            return false;
    }
}

config::timeouts limits_of(plan const& p, route const& r) {
    auto limits = p.configuration.timeouts;
    limits.upstream = r.upstream_timeout;
    return limits;
}

}  // namespace

relay::relay(worker& w, plan const& p, route const& r, net::connection& client, exchange& x,
             entry& entered)
    : worker_(w),
      configuration_(p.configuration),
      route_(r),
      limits_(limits_of(p, r)),
      client_(client),
      x_(x),
      entered_(entered) {}

net::task<> relay::run(std::string_view client_name) {
    // What follows the head of such a request is of the other protocol, once the upstream has gone over to it.
    if (x_.request.body == http::framing::none) {
        auto const asked = http::upgrade_among(x_.request, route_.configuration.upgrade.to);
        for (auto const& one : route_.configuration.upgrade.to)
            if (http::iequals(one, asked))
                upgrade_ = one;
    }
    http::compose(x_.out, x_.request, client_name, route_.to->servers().front()->name(),
                  route_.request_fields, upgrade_);
    x_.in.consume(x_.request.size + x_.first.used);
    worker_.dog().add(*this);

    at_ = route_.to->choose();
    if (at_)
        upstream_ = worker_.upstreams().reuse(at_.server());
    if (upstream_) {
        server_ = &at_.server();
        co_await attempt();
        bool const silent = stage_ == stage::asked && wrong_.why == broke_off.why;
        if (!silent || !may_repeat(x_.request) || there_ != net::presence::here ||
            !co_await route_.entrance.enter_again(entered_, client_))
            co_return;
        wrong_ = {};
        upstream_.close();
    }
    bool const connected = co_await connect();
    if (!connected || over()) {
        at_ = {};  // before the permits go back
        co_return;
    }
    server_ = &at_.server();
    co_await attempt();
}

// To the server, or to another one, since nothing has been sent yet.
net::task<bool> relay::connect() {
    auto& to = *route_.to;
    boost::container::small_vector<upstream_server const*, 4> tried;
    auto failure = unreachable;
    while (at_ && there_ == net::presence::here) {
        net::error_code ec;
        upstream_ = co_await worker_.upstreams().open(at_.server(), limits_.upstream, ec);
        to.note(at_.server(), bool(upstream_));
        if (upstream_)
            co_return true;
        failure = ec == asio::error::timed_out ? too_slow : unreachable;
        tried.push_back(&at_.server());
        at_ = {};
        if (to.has_choice())
            at_ = to.choose(tried);
    }
    if (there_ == net::presence::here)
        wrong_ = failure;
    co_return false;
}

// A client that has ended its half may still read. Whether it does shows when it is answered.
net::clock::time_point relay::look(net::clock::time_point now) {
    if (tunnelled_)
        return net::clock::time_point::max();
    // Most requests are over before the next round, and need no system call for this.
    bool const lasts = std::exchange(seen_, true);
    if (!lasts || over())
        return now;
    auto const there = client_.other_side();
    bool const aborts = configuration_.clients.abort_on_hang_up;
    if (there == net::presence::here || (there == net::presence::ended && !aborts))
        return now;
    there_ = there;
    wrong_ = hung_up;
    if (there == net::presence::gone)
        client_.cancel();
    if (upstream_)
        upstream_->cancel();
    return now;
}

net::task<> relay::attempt() {
    using namespace asio::experimental::awaitable_operators;

    stage_ = stage::asked;
    asked_ = net::clock::now();
    upload_ = x_.body.done() ? upload_state::sent : upload_state::sending;
    {
        http::gather out{x_.out};
        http::body_writer writer(x_.request.body);
        auto const* const body = x_.in.data() - x_.first.used;
        writer.put(out, body, x_.first.body, x_.body.done());
        http::join(out, x_.out);
        // If this fails the answer may still say why.
        net::error_code ignored;
        if (!upstream_->send_now(out, ignored)) {
            net::time_limit const limit(*upstream_, net::direction::writing, limits_.upstream);
            (void)co_await upstream_->send(out);
        }
    }
    if (upload_ == upload_state::sent) {
        // Other work comes first: to look for the answer at once would be a system call in vain. What
        // is cancelled meanwhile is over.
        co_await asio::post(worker_.context(), asio::deferred);
        if (!over())
            co_await download();
    } else {
        co_await (upload() && download());
    }

    keep_alive_ = keep_alive_ && x_.body.done();
    if (tunnelled_)
        co_return;
    if (may_be_kept())
        worker_.upstreams().keep(std::move(upstream_), limits_.keep);
    else if (is_clients_fault() && !configuration_.clients.abort_on_hang_up)
        co_await see_it_close();
}

bool relay::is_clients_fault() const noexcept {
    return there_ != net::presence::here || (wrong_ && wrong_.status < 500);
}

weir::outcome relay::outcome() const noexcept {
    // How long a tunnel lasts says nothing of the upstream.
    if (is_clients_fault() || tunnelled_)
        return weir::outcome::ignored;
    auto const status = wrong_ ? wrong_.status : x_.answer.status;
    bool const overloaded = status == 502 || status == 503 || status == 504;
    return overloaded || stage_ == stage::broken ? weir::outcome::dropped : weir::outcome::success;
}

// The request will not come to its end, or nobody wants the answer, but the upstream works on it. It is
// told, and has the seat until it is seen to have closed the connection.
net::task<> relay::see_it_close() {
    upstream_->end_of_output();
    auto const end = net::clock::now() + limits_.upstream;
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

bool relay::may_be_kept() const noexcept {
    return stage_ == stage::complete && upload_ == upload_state::sent && x_.answer.keep_alive &&
           x_.answer.body != http::framing::until_close && x_.back.empty();
}

net::task<> relay::upload() {
    if (x_.request.expects_continue && x_.first.used == 0) {
        http::gather const go_on{"HTTP/1.1 100 Continue\r\n\r\n"};
        (void)co_await send_to_client(go_on);
    }
    while (!over()) {
        upstream_->restart(net::direction::reading, limits_.body + limits_.upstream);
        net::error_code ec;
        std::size_t n = 0;
        {
            net::time_limit const limit(client_, net::direction::reading, limits_.body);
            std::tie(ec, n) = co_await client_.receive(x_.in.room());
        }
        x_.in.commit(n);
        if (over())
            co_return;
        if (ec) {
            if (client_.expired(net::direction::reading))
                give_up({408, "the body did not come in time"});
            else if (ec == asio::error::eof)
                give_up({400, "the body has ended too soon"});
            else
                client_has_gone();
            co_return;
        }
        auto const piece = x_.body.take(x_.in.data(), x_.in.size());
        if (x_.body.bad()) {
            give_up({400, "the chunks of the body are wrong"});
            co_return;
        }
        http::gather out;
        http::body_writer writer(x_.request.body);
        writer.put(out, x_.in.data(), piece.body, x_.body.done());
        // If the upstream reads no more, what it answers says why. Until then the client is read on,
        // since it may not look for an answer before it has sent everything.
        if (!out.empty() && upload_ == upload_state::sending) {
            net::time_limit const limit(*upstream_, net::direction::writing, limits_.upstream);
            if (co_await upstream_->send(out))
                upload_ = upload_state::unwanted;
        }
        x_.in.consume(piece.used);
        if (x_.body.done()) {
            if (upload_ == upload_state::sending)
                upload_ = upload_state::sent;
            upstream_->restart(net::direction::reading, limits_.upstream);
            co_return;
        }
    }
}

// There will be no answer from the upstream, since the request cannot be sent to its end.
void relay::give_up(http::fault f) noexcept {
    wrong_ = f;
    upstream_->cancel();
}

void relay::client_has_gone() noexcept {
    there_ = net::presence::gone;
    give_up(hung_up);
}

// The answer is over, and nobody wants the rest of the request.
void relay::end_upload() noexcept {
    if (!x_.body.done()) {
        client_.cancel();
        upstream_->cancel();
    }
}

net::task<> relay::download() {
    x_.back.clear();
    do {
        if (!co_await read_answer_head()) {
            end_upload();
            co_return;
        }
    } while (x_.answer.status < 200 && x_.answer.status != 101);
    server_->note_answer(net::clock::now() - asked_);
    if (x_.answer.status == 101)
        co_return co_await switch_protocols();

    auto const& request = x_.request;
    framing_ = http::framing_for(request.version, x_.answer);
    // An upstream that refuses what it has not read, or wants no more, will not see the end of it.
    bool const cut_short = upload_ != upload_state::sent && !x_.body.done() &&
                           (x_.answer.status >= 400 || !x_.answer.keep_alive);
    keep_alive_ = request.keep_alive && framing_ != http::framing::until_close &&
                  !worker_.draining() && !cut_short;
    x_.status = x_.answer.status;
    tell_of_limits();
    http::compose(x_.out, x_.answer, framing_, request.version, keep_alive_, worker_.date(),
                  route_.answer_fields, x_.told);
    x_.back.consume(x_.answer.size);

    bool const sent = co_await send_answer();
    if (begun())
        stage_ = sent ? stage::complete : stage::broken;
    end_upload();
}

// Of the older fields there is one set: the upstream's, or ours.
void relay::tell_of_limits() {
    constexpr std::string_view older = "x-ratelimit-";
    std::optional<weir::amount> theirs;
    for (auto const& f : x_.answer.fields)
        if (http::iequals(f.name, "x-ratelimit-remaining"))
            theirs = tool::number_of(f.value);
    if (route_.told.tell(x_.told, entered_, theirs))
        for (auto& f : x_.answer.fields)
            if (http::iequals(f.name.substr(0, older.size()), older))
                f.goes_on = false;
}

// The answer whose head has been composed.
net::task<bool> relay::send_answer() {
    http::body_reader body(x_.answer.body, x_.answer.length);
    http::body_writer writer(framing_);
    for (;;) {
        auto const piece = body.take(x_.back.data(), x_.back.size());
        if (body.bad()) {
            wrong_ = {502, "the chunks of the upstream's answer are wrong"};
            co_return false;
        }
        http::gather out;
        if (stage_ < stage::begun)
            out.emplace_back(x_.out);
        writer.put(out, x_.back.data(), piece.body, body.done());
        if (stage_ < stage::begun)
            http::join(out, x_.out);
        stage_ = stage::begun;
        net::error_code ec;
        if (!out.empty() && !client_.send_now(out, ec))
            ec = co_await send_to_client(out);
        if (ec) {
            client_has_gone();
            co_return false;
        }
        x_.bytes += piece.body;
        x_.back.consume(piece.used);
        if (body.done())
            co_return true;
        ec = co_await receive_answer();
        if (ec) {
            if (ec == asio::error::eof)
                body.end_of_input();
            if (!body.done())
                co_return false;
        }
    }
}

net::task<> relay::switch_protocols() {
    auto const& how = route_.configuration.upgrade;
    x_.status = x_.answer.status;
    tell_of_limits();
    http::compose_switch(x_.out, x_.answer, upgrade_, route_.answer_fields, x_.told);
    x_.back.consume(x_.answer.size);
    stage_ = stage::begun;
    tunnelled_ = true;
    auto const server = at_.server().shared_from_this();
    if (how.seats == config::seats_of_upgrade::handshake)
        free_seats();
    http::gather const head{x_.out};
    auto const failed = co_await send_to_client(head);
    if (failed)
        co_return client_has_gone();
    tunnel through(worker_.dog(), {client_, x_.in}, {*upstream_, x_.back},
                   {.idle = how.idle, .leaves = server->leaves(), .drain = configuration_.drain});
    ++worker_.counts().tunnels;
    co_await through.run();
    --worker_.counts().tunnels;
    x_.bytes += through.sent();
    stage_ = stage::complete;
}

// The server's first, which whoever gets a permit then looks for. What it has used of rates stays used.
void relay::free_seats() noexcept {
    at_ = {};
    upstream_.free_place();
    for (auto& permit : entered_.permits) {
        permit.report(weir::outcome::success);
        permit.leave();
    }
}

net::task<bool> relay::read_answer_head() {
    http::head_scanner scanner;
    auto& back = x_.back;
    for (;;) {
        if (scanner.look(back.text())) {
            wrong_ = {502, "the upstream's answer is not HTTP"};
            co_return false;
        }
        if (scanner.size() > 0)
            break;
        if (back.full()) {
            wrong_ = too_long;
            co_return false;
        }
        if (co_await receive_answer()) {
            if (over())  // the request is what went wrong
                co_return false;
            bool const late = upstream_->expired(net::direction::reading) ||
                              upstream_->expired(net::direction::writing);
            wrong_ = late ? too_slow : broke_off;
            co_return false;
        }
    }
    auto& answer = x_.answer;
    wrong_ =
        http::parse(back.text().substr(0, scanner.size()), x_.request.method, answer, upgrade_);
    if (wrong_)
        co_return false;
    if (answer.status >= 200 || answer.status == 101)
        co_return true;

    // 100 has been said by the proxy itself, where it was asked for.
    if (x_.request.version >= 11 && answer.status != 100) {
        http::compose(x_.out, answer, http::framing::none, x_.request.version, true, {});
        http::gather const out{x_.out};
        if (co_await send_to_client(out))
            client_has_gone();
    }
    back.consume(answer.size);
    co_return !over();
}

net::task<net::error_code> relay::receive_answer() {
    // An upstream is not to blame for what the client takes long to send.
    auto const longer = x_.body.done() ? net::clock::duration::zero() : limits_.body;
    net::time_limit const limit(*upstream_, net::direction::reading, limits_.upstream + longer);
    auto const [ec, n] = co_await upstream_->receive(x_.back.room());
    x_.back.commit(n);
    if (n > 0 && stage_ < stage::heard)
        stage_ = stage::heard;
    co_return ec;
}

net::task<net::error_code> relay::send_to_client(http::gather const& out) {
    net::time_limit const limit(client_, net::direction::writing, limits_.body);
    co_return co_await client_.send(out);
}

}  // namespace proxy
