#include "client_handshake.hpp"

#include <weir/amount.hpp>

#include "tls/failure.hpp"

#include <algorithm>

namespace proxy {
namespace {

handshake handshake_of(net::error_code failed) noexcept {
    if (failed.category() != tls::category())
        return handshake::disconnected;
    switch (static_cast<tls::failure>(failed.value())) {
        case tls::failure::unknown_name:
            return handshake::unknown_name;
        case tls::failure::no_common_version:
            return handshake::no_common_version;
        case tls::failure::no_common_cipher:
            return handshake::no_common_cipher;
        case tls::failure::not_tls:
            return handshake::not_tls;
        case tls::failure::rejected:
            return handshake::rejected;
        case tls::failure::no_certificate:
            return handshake::no_certificate;
        case tls::failure::bad_certificate:
            return handshake::bad_certificate;
        case tls::failure::other:
            break;
    }
    return handshake::other;
}

// The cost of a handshake, whose full cost is `full`. A resumed one takes a quarter of the CPU time. A failed one costs
// more, so that a client that only fails is soon rejected.
weir::amount cost_of(handshake how, weir::amount full) noexcept {
    if (how == handshake::resumed)
        return full / 4 + (full % 4 != 0);
    return is_complete(how) ? full : std::min(2 * full, weir::max_amount);
}

// Whether a byte is the first letter of a method of HTTP, with which no client of TLS begins.
constexpr bool begins_text(char first) noexcept {
    return first >= 'A' && first <= 'Z';
}

net::task<handshake> shake_hands(net::connection& client, char first, tls_listener const& by,
                                 net::clock::duration limit) {
    if (begins_text(first))
        co_return handshake::not_tls;
    auto const make = [&](int descriptor) { return by.certificates->accept(descriptor); };
    net::time_limit const until(client, net::direction::reading, limit);
    auto const ec = co_await client.encrypt(make);
    if (!ec)
        co_return client.encryption()->agreed().is_resumed ? handshake::resumed : handshake::full;
    if (client.expired(net::direction::reading))
        co_return handshake::timeout;
    co_return handshake_of(ec);
}

}  // namespace

// The operation reads before it waits, and again after each wakeup. A wait for readiness alone would take one of these
// system calls more, and may end before the byte can be read.
net::task<std::optional<char>> first_byte_of(net::connection& client, net::clock::duration limit) {
    net::time_limit const until(client, net::direction::reading, limit);
    char first = 0;
    client.set_idle(true);
    auto const [ec, n] = co_await client.peek({&first, 1});
    client.set_idle(false);
    if (!ec)
        co_return first;
    // A client whose byte arrived before the shutdown is served.
    bool const stopped =
        ec == asio::error::operation_aborted && !client.expired(net::direction::reading);
    co_return stopped ? client.next_byte() : std::nullopt;
}

net::task<handshake> encrypt(net::connection& client, char first, tls_listener const& by,
                             boost::asio::ip::address const& peer, net::clock::duration limit,
                             account& accounting) {
    static http::request_head const none;
    entry entered({none, peer});
    if (!by.limits.enter_at_once(entered))
        co_await by.limits.enter_in_turn(entered, client);
    auto how = entered.client == net::presence::here ? handshake::limited : handshake::disconnected;
    if (entered.status == 0) {
        how = co_await shake_hands(client, first, by, limit);
        if (lacks_certificate(how))
            client.stop_encryption();
        by.limits.change_cost(entered, [how](weir::amount cost) { return cost_of(how, cost); });
    }
    accounting.shakes_hands(how);
    co_return how;
}

}  // namespace proxy
