#include "reading.hpp"

#include <boost/asio/error.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <tuple>
#include <utility>

namespace proxy {

namespace {

constexpr http::fault connection_ended{0, "the connection ended"};

}  // namespace

http::fault head_search::look(http::buffer& in) {
    // One empty line is allowed before a request (RFC 9112, 2.2).
    if (!blank_line_ && in.text().starts_with("\r\n")) {
        in.consume(2);
        blank_line_ = true;
        scanner_ = {};
    }
    if (auto const wrong = scanner_.look(in.text()))
        return wrong;
    if (found() || !in.full())
        return {};
    return scanner_.in_first_line() ? http::fault{414, "the request line is too long"}
                                    : http::fault{431, "the header is too long"};
}

net::task<http::fault> receive_head(side from, head_search& head, net::clock::duration limit) {
    auto& [client, in] = from;
    net::time_limit const until(client, net::direction::reading, limit);
    for (;;) {
        auto const [ec, n] = co_await client.receive(in.room());
        if (ec) {
            if (client.expired(net::direction::reading) && !in.empty())
                co_return http::fault{408, "timed out waiting for the header"};
            co_return connection_ended;
        }
        in.commit(n);
        auto const wrong = head.look(in);
        if (wrong || head.found())
            co_return wrong;
    }
}

http::fault understand(http::buffer& in, std::string_view head, config::clients_options const& c,
                       exchange::incoming& out) {
    out.described.reset();
    auto const names = c.pass_underscores ? http::underscores::pass : http::underscores::drop;
    if (auto const wrong = http::parse(head, out.head, names))
        return wrong;
    in.consume(head.size());
    out.body = http::body_reader(out.head.body, out.head.length);
    auto const piece = out.body.take(in.data(), in.size());
    if (out.body.bad())
        return {400, "malformed chunked body"};
    out.first = in.text().substr(0, piece.body);
    out.arrived = piece.used;
    out.body_begun = piece.used > 0;
    out.length = piece.body;
    in.consume(piece.used);
    return {};
}

void forget(exchange& x) noexcept {
    x.request.head.version = 11;
    x.request.head.method = http::verb::unknown;
    x.kept.accept.clear();
}

void body_delay::make_up(std::size_t bytes) noexcept {
    if (rate_ == 0)
        return;
    std::chrono::nanoseconds const due(
        bytes / rate_ * 1'000'000'000 + bytes % rate_ * 1'000'000'000 / rate_);
    now_ = std::max<net::clock::duration>(now_ - due, net::clock::duration::zero());
}

net::clock::duration body_clock::left() const noexcept {
    return std::clamp(std::min(whole_ - waited_, part_ - least_.now()), net::clock::duration(1),
                      part_);
}

void body_clock::stop(std::size_t bytes) noexcept {
    pass();
    since_.reset();
    least_.make_up(bytes);
    contended_.make_up(bytes);
}

bool body_clock::delays_others(bool they_lack_seats) noexcept {
    pass();
    is_contended_ = they_lack_seats;
    return they_lack_seats && since_ &&
           contended_.now() > std::min<net::clock::duration>(part_, most_contended_delay);
}

void body_clock::pass() noexcept {
    if (!since_)
        return;
    auto const now = net::clock::now();
    auto const waited = now - std::exchange(*since_, now);
    waited_ += waited;
    least_.add(waited);
    if (is_contended_)
        contended_.add(waited);
}

net::task<body_part> receive_body(side from, body_clock& clock, std::span<char> room) {
    auto& client = from.connection;
    clock.start();
    body_part r;
    {
        net::time_limit const limit(client, net::direction::reading, clock.left());
        std::tie(r.ec, r.n) = co_await client.receive(room);
    }
    clock.stop(r.n);
    if (r.ec)
        r.why = client.expired(net::direction::reading) ? failure::body_too_slow
                : r.ec == boost::asio::error::eof       ? failure::body_cut_off
                                                        : failure::client_gone;
    co_return r;
}

bool is_too_long(exchange::incoming const& request, config::route const& to) noexcept {
    return to.body_limit && request.length > static_cast<std::uint64_t>(*to.body_limit);
}

net::task<failure> read_ahead(side from, exchange& x, config::route const& to, body_clock& clock) {
    auto& [client, in] = from;
    auto& request = x.request;
    if (request.head.expects_continue && !request.body_begun) {
        net::time_limit const limit(client, net::direction::writing, clock.left());
        http::gather const go_on{"HTTP/1.1 100 Continue\r\n\r\n"};
        if (co_await client.send(go_on))
            co_return failure::client_gone;
        request.body_begun = true;
    }
    // The head stays in the buffer, before the bytes that this function receives and copies.
    in.rewind(request.arrived);
    auto const most = static_cast<std::uint64_t>(to.body_buffer) + in.tail().size();
    // A string that grows in steps takes up to twice as much.
    if (request.head.body == http::framing::length)
        x.ahead.reserve(static_cast<std::size_t>(std::min(request.head.length, most)));
    x.ahead.assign(request.first);
    while (!request.body.done() && x.ahead.size() < static_cast<std::size_t>(to.body_buffer) &&
           !in.tail().empty()) {
        auto const r = co_await receive_body(from, clock, in.tail());
        if (r.why != failure::none)
            co_return r.why;
        in.commit(r.n);
        auto const piece = request.body.take(in.data(), in.size());
        if (request.body.bad())
            co_return failure::body_bad_chunks;
        x.ahead.append(in.data(), piece.body);
        request.length += piece.body;
        if (is_too_long(request, to))
            co_return failure::body_too_large;
        if (request.body.done())
            in.consume(piece.used);
        else
            in.rewind();
    }
    request.first = x.ahead;
    co_return failure::none;
}

net::task<bool> drop_body(side from, http::body_reader& body, net::clock::duration limit) {
    auto& [client, in] = from;
    while (!body.done()) {
        net::time_limit const until(client, net::direction::reading, limit);
        auto const [ec, n] = co_await client.receive(in.room());
        if (ec)
            co_return false;
        in.commit(n);
        in.consume(body.take(in.data(), in.size()).used);
    }
    co_return true;
}

}  // namespace proxy
