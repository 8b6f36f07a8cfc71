#include "client_introduction.hpp"

#include "client.hpp"
#include "counters.hpp"
#include "net/connection.hpp"

namespace proxy {
namespace {

// Sets `failed` if there is no header.
net::task<net::introduction> receive(side from, rest behind, introduction_failure& failed) {
    auto& [client, in] = from;
    for (;;) {
        auto room = in.room();
        if (behind == rest::stays) {
            auto const [ec, n] = co_await client.peek(room);
            if (ec)
                break;
            // Unless the header is complete, all these bytes belong to it.
            auto const seen = net::parse_introduction({in.text().data(), in.size() + n});
            bool const ends = seen.is == net::introduction::state::complete;
            room = room.first(ends ? seen.size - in.size() : n);
        }
        auto const [ec, n] = co_await client.receive(room);
        in.commit(n);
        if (ec)
            break;
        auto const found = net::parse_introduction(in.text());
        if (found.is == net::introduction::state::complete) {
            in.consume(found.size);
            co_return found;
        }
        if (found.is == net::introduction::state::wrong || in.full()) {
            failed = introduction_failure::invalid;
            co_return found;
        }
    }
    failed = client.expired(net::direction::reading) ? introduction_failure::timeout
                                                     : introduction_failure::disconnected;
    co_return net::introduction();
}

}  // namespace

net::task<std::optional<net::introduction>> receive_introduction(
    side from, boost::asio::ip::address const& peer, config::configuration const& c, rest behind,
    account& accounting) {
    auto failed = introduction_failure::none;
    net::introduction found;
    if (!peer.is_unspecified() && !is_trusted(c.clients, peer)) {
        failed = introduction_failure::untrusted;
    } else {
        net::time_limit const until(from.connection, net::direction::reading, c.timeouts.header);
        found = co_await receive(from, behind, failed);
    }
    if (failed == introduction_failure::none)
        co_return found;
    // A check of the balancer connects and sends nothing.
    if (failed == introduction_failure::untrusted || !from.received.empty())
        accounting.lacks_introduction(failed);
    co_return std::nullopt;
}

}  // namespace proxy
