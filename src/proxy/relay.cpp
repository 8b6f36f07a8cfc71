#include "relay.hpp"

#include "http/compose.hpp"

#include <boost/asio/experimental/awaitable_operators.hpp>

#include <utility>

namespace proxy {
namespace {

constexpr http::fault unreachable{502, "the upstream cannot be reached"};
constexpr http::fault broke_off{502, "the upstream has closed the connection instead of answering"};
constexpr http::fault too_slow{504, "the upstream did not answer in time"};
constexpr http::fault too_long{502, "the header of the upstream's answer is too long"};

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

}  // namespace

relay::relay(worker& w, net::connection& client, exchange& x)
    : worker_(w), client_(client), x_(x) {}

net::task<> relay::run(std::string_view client_name) {
    http::compose(x_.out, x_.request, client_name, worker_.upstream.name());
    x_.in.consume(x_.request.size + x_.first.used);

    bool const repeatable = may_repeat(x_.request);
    upstream_ = worker_.upstream.reuse();
    bool const reused = upstream_ != nullptr;
    if (reused)
        co_await attempt();
    if (!reused || (silent_ && repeatable && !client_.hung_up())) {
        net::error_code ec;
        wrong_ = {};
        silent_ = false;
        upstream_ = co_await worker_.upstream.open(ec);
        if (!upstream_) {
            wrong_ = ec == asio::error::timed_out ? too_slow : unreachable;
            co_return;
        }
        co_await attempt();
    }
    gone_ = gone_ || client_.hung_up();
}

net::task<> relay::attempt() {
    using namespace asio::experimental::awaitable_operators;

    client_.hang_up_cancels(upstream_.get());
    went_on_ = true;
    uploaded_ = x_.body.done();
    stopped_ = false;
    {
        http::gather out{x_.out};
        http::body_writer writer(x_.request.body);
        auto const* const body = x_.in.data() - x_.first.used;
        writer.put(out, body, x_.first.body, uploaded_);
        net::time_limit const limit(
            *upstream_, net::direction::writing, worker_.settings.upstream_timeout);
        // If this fails the answer may still say why.
        (void)co_await upstream_->send(out);
    }
    if (uploaded_)
        co_await download();
    else
        co_await (upload() && download());
    client_.hang_up_cancels(nullptr);

    if (complete_ && uploaded_ && x_.answer.keep_alive &&
        x_.answer.body != http::framing::until_close && x_.back.empty())
        worker_.upstream.keep(std::move(upstream_));
    keep_alive_ = keep_alive_ && uploaded_;
}

net::task<> relay::upload() {
    auto const& settings = worker_.settings;
    if (x_.request.expects_continue && x_.first.used == 0) {
        http::gather go_on{"HTTP/1.1 100 Continue\r\n\r\n"};
        (void)co_await send_to_client(go_on);
    }
    while (!stopped_) {
        upstream_->restart(net::direction::reading,
                           settings.body_timeout + settings.upstream_timeout);
        net::error_code ec;
        std::size_t n = 0;
        {
            net::time_limit const limit(client_, net::direction::reading, settings.body_timeout);
            std::tie(ec, n) = co_await client_.receive(x_.in.room());
        }
        if (stopped_)
            co_return;
        if (ec) {
            gone_ = !client_.expired(net::direction::reading);
            give_up({408, "the body did not come in time"});
            co_return;
        }
        x_.in.commit(n);
        auto const piece = x_.body.take(x_.in.data(), x_.in.size());
        if (x_.body.bad()) {
            give_up({400, "the chunks of the body are wrong"});
            co_return;
        }
        http::gather out;
        http::body_writer writer(x_.request.body);
        writer.put(out, x_.in.data(), piece.body, x_.body.done());
        if (!out.empty()) {
            net::time_limit const limit(
                *upstream_, net::direction::writing, settings.upstream_timeout);
            ec = co_await upstream_->send(out);
        }
        x_.in.consume(piece.used);
        // The upstream reads no more; what it answers says why.
        if (ec)
            co_return;
        if (x_.body.done()) {
            uploaded_ = true;
            upstream_->restart(net::direction::reading, settings.upstream_timeout);
            co_return;
        }
    }
}

// There will be no answer from the upstream, since the request cannot be sent to its end.
void relay::give_up(http::fault f) noexcept {
    wrong_ = f;
    stopped_ = true;
    upstream_->cancel();
}

net::task<> relay::download() {
    x_.back.clear();
    do {
        if (!co_await read_answer_head()) {
            stopped_ = true;
            client_.cancel();
            co_return;
        }
    } while (x_.answer.status < 200);

    auto const& request = x_.request;
    auto const how = http::framing_for(request.version, x_.answer);
    open_ended_ = how == http::framing::until_close;
    keep_alive_ = request.keep_alive && !open_ended_ && !worker_.draining;
    x_.status = x_.answer.status;
    http::compose(x_.out, x_.answer, how, request.version, keep_alive_, worker_.date());

    http::body_reader body(x_.answer.body, x_.answer.length);
    http::body_writer writer(how);
    x_.back.consume(x_.answer.size);
    for (;;) {
        auto const piece = body.take(x_.back.data(), x_.back.size());
        if (body.bad()) {
            wrong_ = {502, "the chunks of the upstream's answer are wrong"};
            break;
        }
        http::gather out;
        if (!begun_)
            out.emplace_back(x_.out.data(), x_.out.size());
        writer.put(out, x_.back.data(), piece.body, body.done());
        begun_ = true;
        if (!out.empty()) {
            if (co_await send_to_client(out)) {
                gone_ = true;
                break;
            }
        }
        x_.bytes += piece.body;
        x_.back.consume(piece.used);
        if (body.done()) {
            complete_ = true;
            break;
        }
        if (auto const ec = co_await receive_answer()) {
            if (ec == asio::error::eof)
                body.end_of_input();
            if (!body.done())
                break;
        }
    }
    if (!uploaded_) {
        stopped_ = true;
        client_.cancel();
        upstream_->cancel();
    }
}

net::task<bool> relay::read_answer_head() {
    http::head_scanner scanner;
    auto& back = x_.back;
    for (;;) {
        if (auto const wrong = scanner.look(back.text())) {
            wrong_ = {502, "the upstream's answer is not HTTP"};
            co_return false;
        }
        if (scanner.size() > 0)
            break;
        if (back.full()) {
            wrong_ = too_long;
            co_return false;
        }
        if (auto const ec = co_await receive_answer()) {
            if (stopped_)  // the request is what went wrong
                co_return false;
            bool const late = upstream_->expired(net::direction::reading) ||
                              upstream_->expired(net::direction::writing);
            wrong_ = late ? too_slow : broke_off;
            silent_ = !heard_ && !late;
            co_return false;
        }
    }
    auto& answer = x_.answer;
    wrong_ = http::parse(back.text().substr(0, scanner.size()), x_.request.method, answer);
    if (wrong_)
        co_return false;
    if (answer.status >= 200)
        co_return true;

    // 100 has been said by the proxy itself, where it was asked for.
    if (x_.request.version >= 11 && answer.status != 100) {
        http::compose(x_.out, answer, http::framing::none, x_.request.version, true, {});
        http::gather out{x_.out};
        gone_ = bool(co_await send_to_client(out));
    }
    back.consume(answer.size);
    co_return !gone_;
}

net::task<net::error_code> relay::receive_answer() {
    // An upstream is not to blame for what the client takes long to send.
    auto const& settings = worker_.settings;
    auto const longer = uploaded_ ? net::clock::duration::zero() : settings.body_timeout;
    net::time_limit const limit(
        *upstream_, net::direction::reading, settings.upstream_timeout + longer);
    auto const [ec, n] = co_await upstream_->receive(x_.back.room());
    x_.back.commit(n);
    heard_ = heard_ || n > 0;
    co_return ec;
}

net::task<net::error_code> relay::send_to_client(http::gather const& out) {
    net::time_limit const limit(client_, net::direction::writing, worker_.settings.body_timeout);
    co_return co_await client_.send(out);
}

}  // namespace proxy
