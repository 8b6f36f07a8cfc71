#include "reading.hpp"

namespace proxy {

namespace {

constexpr http::fault ended{0, "the connection ended"};

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
            co_return ended;
        }
        in.commit(n);
        auto const wrong = head.look(in);
        if (wrong || head.found())
            co_return wrong;
    }
}

http::fault understand(http::buffer& in, std::string_view head, config::clients_options const& c,
                       exchange::incoming& out) {
    auto const names = c.pass_underscores ? http::underscores::pass : http::underscores::drop;
    if (auto const wrong = http::parse(head, out.head, names))
        return wrong;
    in.consume(head.size());
    out.body = http::body_reader(out.head.body, out.head.length);
    auto const piece = out.body.take(in.data(), in.size());
    if (out.body.bad())
        return {400, "malformed chunked body"};
    out.first = in.text().substr(0, piece.body);
    out.body_begun = piece.used > 0;
    in.consume(piece.used);
    return {};
}

void forget(exchange& x) noexcept {
    x.request.head.version = 11;
    x.request.head.method = http::verb::unknown;
    x.kept.accept.clear();
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

net::task<std::optional<net::introduction>> receive_introduction(side from,
                                                                 net::clock::duration limit) {
    auto& [client, in] = from;
    net::time_limit const until(client, net::direction::reading, limit);
    for (;;) {
        auto const [ec, n] = co_await client.receive(in.room());
        in.commit(n);
        auto const found = net::parse_introduction(in.text());
        if (ec || found.is == net::introduction::state::wrong)
            co_return std::nullopt;
        if (found.is != net::introduction::state::incomplete) {
            in.consume(found.size);
            co_return found;
        }
        if (in.full())
            co_return std::nullopt;
    }
}

}  // namespace proxy
