#pragma once

#include "net/asio.hpp"
#include "net/watchdog.hpp"
#include "side.hpp"

#include <atomic>
#include <cstdint>
#include <optional>

namespace proxy {

/// A connection after a 101: bytes go both ways as they come, for as long as both sides are there.
///
/// A side that ends its half ends that of the other one, and the other direction goes on. A side that resets the
/// connection resets both. Nothing is read in a direction before all that was read has been sent, so that a side
/// which does not read makes the other one wait.
class tunnel final : private net::watched {
public:
    struct limits {
        net::clock::duration idle;        // it ends when nothing has moved for so long,
        std::atomic<bool> const& leaves;  // and when its server has been told to leave
        net::clock::duration drain;       // for so long
    };

    tunnel(net::watchdog& dog, side client, side upstream, limits const& l);

    /// Ends when both directions have. The connections may only be closed afterwards.
    net::task<> run();

    /// How many bytes the client was sent.
    [[nodiscard]] std::uint64_t sent() const noexcept { return down_.sent; }

private:
    struct direction {
        side from;
        side to;
        std::uint64_t sent = 0;
        bool waits = false;  // for `to` to take what there is
    };

    [[nodiscard]] net::clock::time_point look(net::clock::time_point now) override;
    void stop_if_idle() override {}
    void abort() override {}  // what is watched closes itself

    net::task<> relay(direction& d);
    net::task<net::error_code> send(direction& d);
    void note_move();
    void close() noexcept;
    void reset() noexcept;

    limits const limits_;
    direction up_;
    direction down_;
    bool moved_ = true;  // since the last look
    net::clock::time_point last_;
    std::optional<net::clock::time_point> end_;
};

}  // namespace proxy
