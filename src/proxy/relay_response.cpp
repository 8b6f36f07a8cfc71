#include "http/characters.hpp"
#include "http/compose.hpp"
#include "relay.hpp"
#include "tool/text.hpp"

#include <memory>
#include <optional>
#include <utility>

namespace proxy {

namespace asio = boost::asio;

net::task<> relay::download() {
    x_.back.clear();
    do {
        if (!co_await read_answer_head()) {
            end_upload();
            co_return;
        }
    } while (x_.answer.status < 200 && x_.answer.status != 101);
    server_->note_answer(x_.answer.status, net::clock::now() - asked_);
    if (x_.answer.status == 101)
        co_return co_await switch_protocols();

    auto const& request = x_.request.head;
    framing_ = http::framing_for(request.version, x_.answer);
    // An upstream that responds with an error, or closes the connection, before it read the whole request does not get
    // the rest of it.
    bool const cut_short = upload_ != upload_state::sent && !x_.request.body.done() &&
                           (x_.answer.status >= 400 || !x_.answer.keep_alive);
    keep_alive_ = request.keep_alive && framing_ != http::framing::until_close &&
                  !shared_.draining && !cut_short;
    x_.record.status = x_.answer.status;
    route_.entrance.hear(entered_, x_.answer);
    tell_of_limits();
    http::compose(x_.out, x_.answer, framing_, request.version, keep_alive_, shared_.date.now(),
                  {route_.response_headers, x_.variables}, x_.rate_headers);
    x_.back.consume(x_.answer.size);

    if (co_await send_answer())
        reached_ = progress::complete;
    end_upload();
}

// Reads the next head, interim responses included. Passes an interim response on to the client.
net::task<bool> relay::read_answer_head() {
    http::head_scanner scanner;
    auto& back = x_.back;
    std::optional<net::clock::time_point> end;  // of the whole head, from its first byte
    for (;;) {
        if (scanner.look(back.text())) {
            fail(failure::malformed);
            co_return false;
        }
        if (scanner.size() > 0)
            break;
        if (back.full()) {
            fail(failure::header_too_long);
            co_return false;
        }
        if (!end && !back.empty())
            end = net::clock::now() + limits_.upstream;
        net::time_limit const limit(*upstream_, net::direction::reading, time_to_receive(end));
        auto const [ec, n] = co_await upstream_->receive(back.room());
        take_in(n);
        if (ec) {
            bool const late = upstream_->expired(net::direction::reading) ||
                              upstream_->expired(net::direction::writing);
            route_.to->report(*server_, ec);  // such as: the server demands a certificate
            fail(late                 ? failure::too_slow
                 : tls::is_of_tls(ec) ? failure::tls_failed
                                      : failure::silent);
            co_return false;
        }
    }
    auto const head = back.text().substr(0, scanner.size());
    if (auto const wrong = http::parse(head, x_.request.head.method, x_.answer, upgrade_)) {
        fail(failure::malformed, wrong);
        co_return false;
    }
    if (x_.answer.status >= 200 || x_.answer.status == 101)
        co_return true;
    co_return co_await pass_on_interim();
}

net::task<bool> relay::pass_on_interim() {
    // The proxy sends 100 itself if the client expects it.
    if (auto const version = x_.request.head.version; version >= 11 && x_.answer.status != 100) {
        http::compose(x_.out, x_.answer, http::framing::none, version, true, {});
        http::gather const out{x_.out};
        if (co_await send_to_client(out))
            give_up(failure::client_gone);
    }
    x_.back.consume(x_.answer.size);
    co_return !over();
}

// Adds the header fields about limits. The response has one set of X-RateLimit fields: the upstream's or ours.
void relay::tell_of_limits() {
    constexpr std::string_view older = "x-ratelimit-";
    std::optional<weir::amount> theirs;
    for (auto const& f : x_.answer.fields)
        if (http::iequals(f.name, "x-ratelimit-remaining"))
            theirs = tool::number_of(f.value);
    if (route_.rate_headers.write(x_.rate_headers, entered_, theirs))
        for (auto& f : x_.answer.fields)
            if (http::iequals(f.name.substr(0, older.size()), older))
                f.goes_on = false;
}

// Sends the response, with the composed head. Returns whether all of it was sent.
net::task<bool> relay::send_answer() {
    http::body_reader body(x_.answer.body, x_.answer.length);
    http::body_writer writer(framing_);
    for (;;) {
        bool const first = reached_ < progress::begun;
        // Where bytes are limited, the head does not wait for the body.
        auto const most = !down_ ? x_.back.size() : first ? 0 : co_await take_down(x_.back.size());
        if (down_ && failure_ != failure::none)
            co_return false;
        auto const piece = body.take(x_.back.data(), most);
        if (body.bad()) {
            fail(failure::bad_chunks);
            co_return false;
        }
        http::gather out;
        if (first)
            out.emplace_back(x_.out);
        writer.put(out, x_.back.data(), piece.body, body.done());
        if (first)
            http::join(out, x_.out);
        reached_ = progress::begun;
        net::error_code ec;
        client_is_full_ = !out.empty() && !client_.connection.send_now(out, ec);
        if (client_is_full_)
            ec = co_await send_to_client(out);
        if (down_)
            down_->settle(ec ? 0 : piece.body);
        if (ec) {
            give_up(failure::client_gone);
            co_return false;
        }
        x_.record.bytes += piece.body;
        x_.back.consume(piece.used);
        if (body.done())
            co_return true;
        if (!x_.back.empty())
            continue;
        net::time_limit const limit(*upstream_, net::direction::reading, time_to_receive());
        auto const [stopped, n] = co_await upstream_->receive(x_.back.room());
        take_in(n);
        if (stopped) {
            if (stopped == asio::error::eof)
                body.end_of_input();
            if (!body.done()) {
                fail(failure::cut_off);
                co_return false;
            }
        }
    }
}

// Waits until a part of the body may pass: first for the client's socket, so that a client that does not read holds no
// permits.
net::task<std::size_t> relay::take_down(std::size_t most) {
    if (client_is_full_) {
        net::time_limit const limit(client_.connection, net::direction::writing, limits_.body);
        auto const [ec] = co_await client_.connection.wait(net::stream_socket::wait_write);
        if (ec)
            give_up(failure::client_gone);
    }
    if (failure_ != failure::none)
        co_return 0;
    co_return co_await down_->take(most);
}

net::task<> relay::switch_protocols() {
    auto const& how = route_.configuration.upgrade;
    x_.record.status = x_.answer.status;
    route_.entrance.hear(entered_, x_.answer);
    tell_of_limits();
    http::compose_switch(x_.out, x_.answer, upgrade_, {route_.response_headers, x_.variables},
                         x_.rate_headers);
    x_.back.consume(x_.answer.size);
    reached_ = progress::switched;
    if (how.seats == config::seats_of_upgrade::handshake)
        free_seats();
    http::gather const head{x_.out};
    if (co_await send_to_client(head))
        co_return give_up(failure::client_gone);
    reached_ = progress::tunnelled;
}

std::shared_ptr<tunnel> relay::tunnel_through() {
    auto& spaces = shared_.spaces;
    tunnel::limits const limits{.idle = route_.configuration.upgrade.idle,
                                .leaves = server_->leaves(),
                                .drain = configuration_.drain};
    tunnel::side client{client_.connection, spaces.take_buffer(client_.received.text())};
    tunnel::side upstream{*upstream_, spaces.take_buffer(x_.back.text())};
    return std::make_shared<tunnel>(
        spaces, shared_.dog, std::move(client), std::move(upstream), limits,
        tunnel::transfers{.up = up_.get(), .down = down_.get()});
}

// Frees the connection's place at the server first, because the request that gets the permit needs it. Rates keep
// counting the request.
void relay::free_seats() noexcept {
    at_ = {};
    upstream_.free_place();
    route_.entrance.free_seats(entered_);
}

// The time limit of the upstream for the next part of its response, until `end` if it is set.
net::clock::duration relay::time_to_receive(std::optional<net::clock::time_point> end) const {
    if (up_ && up_->waits())  // see `take_up`
        return no_time_limit;
    // A slow client must not use up the time of the upstream.
    auto const longer = x_.request.body.done() ? net::clock::duration::zero() : limits_.body;
    return longer + (end ? *end - net::clock::now() : limits_.upstream);
}

void relay::take_in(std::size_t received) noexcept {
    x_.back.commit(received);
    if (received > 0 && reached_ < progress::heard)
        reached_ = progress::heard;
}

net::task<net::error_code> relay::send_to_client(http::gather const& out) {
    net::time_limit const limit(client_.connection, net::direction::writing, limits_.body);
    co_return co_await client_.connection.send(out);
}

}  // namespace proxy
