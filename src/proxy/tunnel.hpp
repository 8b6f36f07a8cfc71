#pragma once

#include "bandwidth.hpp"
#include "net/asio.hpp"
#include "net/watchdog.hpp"
#include "side.hpp"

#include <atomic>
#include <cstdint>
#include <optional>

namespace proxy {

/// Relays bytes in both directions after a 101, until both directions end.
///
/// If a side closes its sending direction, the proxy closes the same direction to the other side, and the opposite
/// direction continues. If a side resets its connection, the proxy resets both. The proxy reads more in a direction
/// only after it sent everything that it had read, so a side that does not read makes the other side wait. A tunnel that
/// is silent for a second returns the memory of its buffers to the system.
class tunnel final : private net::watched {
public:
    struct limits {
        net::clock::duration idle;        // the tunnel ends after this time without a byte
        std::atomic<bool> const& leaves;  // set when no configuration names the server any more
        net::clock::duration drain;       // the tunnel ends this time after `leaves` is seen
    };

    using byte_counter = std::atomic<std::uint64_t>;
    /// The limits of bytes from the client and to the client, and the counters of these bytes; null without one.
    struct transfers {
        transfer* up = nullptr;
        transfer* down = nullptr;
        byte_counter* sent_up = nullptr;
        byte_counter* sent_down = nullptr;
    };

    tunnel(net::watchdog& dog, side client, side upstream, limits const& l, transfers const& by);

    /// Completes when both directions ended. The caller may close the connections only afterwards.
    net::task<> run();

    /// The number of bytes that were sent to the client.
    [[nodiscard]] std::uint64_t sent() const noexcept { return down_.sent; }

private:
    struct direction {
        side from;
        side to;
        transfer* by = nullptr;           // if its bytes are limited
        byte_counter* counted = nullptr;  // if its bytes are counted
        std::uint64_t sent = 0;
        bool waits = false;  // until `to` accepts more bytes

        [[nodiscard]] bool is_limited_now() const noexcept { return by && by->waits(); }
    };

    [[nodiscard]] net::clock::time_point look(net::clock::time_point now) override;
    void stop_if_idle() override {}
    void abort() override { stop(); }  // the watchdog closes the connections themselves

    net::task<> relay(direction& d);
    net::task<net::error_code> send(direction& d);
    void note_move();
    void give_memory_back() noexcept;
    void stop() noexcept;
    void close() noexcept;
    void reset() noexcept;

    limits const limits_;
    direction up_;
    direction down_;
    bool moved_ = true;  // a byte moved since the last `look`
    bool keeps_memory_ = true;
    bool stopped_ = false;
    net::clock::time_point last_;
    std::optional<net::clock::time_point> end_;
};

}  // namespace proxy
