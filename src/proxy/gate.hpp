#pragma once

#include <weir/any_limiter.hpp>
#include <weir/permit.hpp>
#include <weir/seats.hpp>

#include "net/asio.hpp"
#include "net/connection.hpp"
#include "options.hpp"

#include <chrono>
#include <optional>
#include <string>

namespace proxy {

/// What a request got at the gate.
struct entry {
    // They leave in the reverse order.
    weir::permit seat;
    weir::permit token;

    unsigned status = 0;  // 429 or 503 if it was turned away; 0 otherwise
    char const* why = nullptr;
    std::chrono::seconds retry_after{};
    net::presence client = net::presence::here;  // otherwise it hung up while it waited

    /// The request has not gone on after all: as if it had never been let in.
    void give_back() {
        if (token)
            token.settle(0);
        token.leave();
        seat.leave();
    }
};

/// The limiters in front of the upstream, shared by all threads.
///
/// First a seat, then the rate. The rate is about when a request reaches the upstream, so its token
/// must be the last thing that a request waits for: tokens that were handed out to requests which
/// then wait for a seat could all go on in the same moment. A seat that is held while its request
/// waits for a token costs nothing, since nobody could go on without a token.
class gate {
public:
    /// Those who wait are served on `ex`, which must run for as long as anybody may wait.
    gate(net::executor const& ex, options const& o);

    /// Lets a request in, or turns it away, if nobody has to wait for that. Otherwise false: it is to
    /// wait for its turn.
    [[nodiscard]] bool enter_at_once(entry& e);

    /// Lets it in, in its turn. A client that hangs up while it waits leaves at once; if it may still
    /// read, it is turned away.
    [[nodiscard]] net::task<> enter_in_turn(entry& e, net::connection& client);

    /// Whether a request that was let in may be sent a second time, for which it needs another token.
    [[nodiscard]] bool enter_again(entry& e);

    /// What the limiters have done, and who is in: a line for each.
    [[nodiscard]] std::string report() const;

private:
    std::optional<weir::basic_seats<net::executor>> seats_;
    std::optional<weir::basic_any_limiter<net::executor>> rate_;
    weir::duration patience_;
};

}  // namespace proxy
