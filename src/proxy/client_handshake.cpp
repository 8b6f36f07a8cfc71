#include "client_handshake.hpp"

#include <weir/amount.hpp>

#include "tls/failure.hpp"

#include <boost/asio/deferred.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/post.hpp>

#include <algorithm>
#include <chrono>
#include <optional>

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
    bool const failed = !is_complete(how) && how != handshake::limited;
    return failed ? std::min(2 * full, weir::max_amount) : full;
}

// A handshake comes before the requests of its client.
request_info without_request(boost::asio::ip::address const& peer) {
    static http::request_head const none;
    return {none, peer};
}

// The seats of a full handshake. It holds them while it uses the private key, and not while it waits for the client, so a
// silent client holds none.
class seats_of_handshake final : public net::handshake_turns {
public:
    seats_of_handshake(gate const& seats, net::connection& client,
                       boost::asio::ip::address const& peer, net::clock::duration limit)
        : seats_(seats), client_(client), peer_(peer), limit_(limit) {}

    // The time in the queue does not count as time of the client.
    net::task<bool> begin() override {
        auto& entered = entered_.emplace(without_request(peer_));
        if (!seats_.enter_at_once(entered)) {
            client_.restart(net::direction::reading, no_time_limit);
            co_await seats_.enter_in_turn(entered, client_);
            client_.restart(net::direction::reading, limit_);
        }
        co_return entered.status == 0;
    }
    // Handshakes that are ready by now join the queue first, so that its order decides.
    net::task<> end() override {
        co_await asio::post(client_.get_executor(), asio::deferred);
        entered_.reset();
    }

    /// The result of a handshake that got no seats; empty if it got them, or did not ask.
    [[nodiscard]] std::optional<handshake> rejected() const noexcept {
        if (!entered_ || entered_->status == 0)
            return std::nullopt;
        return entered_->client == net::presence::here
                   ? handshake::limited
                   : handshake::disconnected;
    }

private:
    static constexpr net::clock::duration no_time_limit = std::chrono::hours(24);

    gate const& seats_;
    net::connection& client_;
    boost::asio::ip::address const& peer_;
    net::clock::duration limit_;
    std::optional<entry> entered_;
};

// Whether a byte is the first letter of a method of HTTP, with which no client of TLS begins.
constexpr bool begins_text(char first) noexcept {
    return first >= 'A' && first <= 'Z';
}

net::task<handshake> shake_hands(net::connection& client, char first, tls_listener const& by,
                                 boost::asio::ip::address const& peer, net::clock::duration limit) {
    if (begins_text(first))
        co_return handshake::not_tls;
    auto const make = [&](int descriptor) {
        return by.certificates->accept(descriptor, by.seats.has_seats());
    };
    seats_of_handshake seats(by.seats, client, peer, limit);
    net::time_limit const until(client, net::direction::reading, limit);
    auto const ec = co_await client.encrypt(make, &seats);
    if (!ec)
        co_return client.encryption()->agreed().is_resumed ? handshake::resumed : handshake::full;
    if (auto const how = seats.rejected())
        co_return *how;
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
    entry entered(without_request(peer));
    if (!by.rates.enter_at_once(entered))
        co_await by.rates.enter_in_turn(entered, client);
    auto how = entered.client == net::presence::here ? handshake::limited : handshake::disconnected;
    if (entered.status == 0) {
        how = co_await shake_hands(client, first, by, peer, limit);
        if (lacks_certificate(how))
            client.stop_encryption();
        by.rates.change_cost(entered, [how](weir::amount cost) { return cost_of(how, cost); });
    }
    accounting.shakes_hands(how);
    co_return how;
}

}  // namespace proxy
