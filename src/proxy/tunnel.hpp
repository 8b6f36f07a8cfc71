#pragma once

#include "bandwidth.hpp"
#include "net/asio.hpp"
#include "net/connection.hpp"
#include "net/watchdog.hpp"
#include "workspace.hpp"

#include <boost/asio/any_completion_executor.hpp>
#include <boost/asio/any_completion_handler.hpp>
#include <boost/asio/async_result.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

namespace proxy {

/// Relays the bytes of two connections to each other, until both directions end.
///
/// If a side closes its sending direction, the proxy closes the same direction to the other side, and the opposite
/// direction continues. If a side resets its connection, the proxy resets both, and so it does if it ends the tunnel
/// while bytes flow, or wait. The proxy reads more in a direction only after it sent everything that it had read, so a
/// side that does not read makes the other side wait. A direction has a buffer only while it has bytes.
class tunnel final : private net::watched {
public:
    /// A connection, and the bytes that were read from it before; null without any.
    struct side {
        net::connection& connection;
        workspaces::buffer unsent;
    };

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

    tunnel(workspaces& spaces, net::watchdog& dog, side client, side upstream, limits const& l,
           transfers const& by);

    /// Completes with the number of bytes that were sent to the client, when both directions ended. The caller may
    /// close the connections only afterwards. A cancellation resets them. Use it on their thread.
    template <boost::asio::completion_token_for<void(std::uint64_t)> Token>
    static auto run(std::shared_ptr<tunnel> one, Token token) {
        return boost::asio::async_initiate<Token, void(std::uint64_t)>(
            [](auto handler, std::shared_ptr<tunnel> t) {
                begin(std::move(t), std::move(handler));
            },
            token, std::move(one));
    }

private:
    using handler = boost::asio::any_completion_handler<void(std::uint64_t)>;
    class step;

    // The needs of a direction; `room` is in the socket of the side to which it sends.
    enum class need : std::uint8_t { bytes, permits, room, room_for_end, nothing };

    struct direction {
        net::connection& from;
        net::connection& to;
        transfer* by;           // if its bytes are limited
        byte_counter* counted;  // if its bytes are counted
        workspaces::buffer unsent;
        std::size_t granted = 0;  // the first bytes of `unsent` that have their permits
        std::uint64_t sent = 0;
        need awaits = need::room;

        [[nodiscard]] bool has_ended() const noexcept { return awaits == need::nothing; }
        // Whether it has bytes or an end that it cannot send now.
        [[nodiscard]] bool is_held() const noexcept {
            return awaits == need::room || awaits == need::room_for_end || is_limited();
        }
        [[nodiscard]] bool is_limited() const noexcept { return by && by->waits(); }
        // Whether there are bytes that were not sent.
        [[nodiscard]] bool has_more() const { return !has_ended() && (unsent || from.has_input()); }
    };

    static void begin(std::shared_ptr<tunnel> t, handler done);
    void go_on(step const& mine, net::error_code ec);
    void read(step const& mine);
    [[nodiscard]] bool send(step const& mine);
    [[nodiscard]] bool send_now(step const& mine, std::size_t most);
    void end_output(step const& mine);
    void await(step const& mine, need what);
    void await_permits(step const& mine);
    void fail(direction& d);
    void end(direction& d);

    [[nodiscard]] net::clock::time_point look(net::clock::time_point now) override;
    void stop_if_idle() override {}
    void abort() override { close(net::clock::now()); }
    void note_move();
    void stop() noexcept;
    void close(net::clock::time_point now);
    void reset() noexcept;

    workspaces& spaces_;
    limits const limits_;
    direction up_;
    direction down_;
    handler done_;
    boost::asio::any_completion_executor work_;  // of the handler's executor
    bool moved_ = true;                          // a byte moved since the last `look`
    bool stopped_ = false;
    net::clock::time_point last_;
    std::optional<net::clock::time_point> end_;
};

}  // namespace proxy
