#pragma once

#include "config/configuration.hpp"
#include "exchange.hpp"
#include "failure.hpp"
#include "http/body.hpp"
#include "http/head.hpp"
#include "net/asio.hpp"
#include "net/clock.hpp"
#include "side.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

// Reads requests of HTTP/1.1.
namespace proxy {

/// The head of a request, from its first bytes to its end.
class head_search {
public:
    /// Searches `in`, which only grows between calls. Consumes an empty line before the request.
    [[nodiscard]] http::fault look(http::buffer& in);

    [[nodiscard]] bool found() const noexcept { return scanner_.size() > 0; }
    /// The head. Precondition: `found()`.
    [[nodiscard]] std::string_view text(http::buffer const& in) const noexcept {
        return in.text().substr(0, scanner_.size());
    }

private:
    http::head_scanner scanner_;
    bool blank_line_ = false;
};

/// Reads until the head is complete or invalid. Returns the fault. Its status is 0 if the connection ended.
[[nodiscard]] net::task<http::fault> receive_head(side from, head_search& head,
                                                  net::clock::duration limit);

/// Parses `head`, and reads the part of the body that arrived with it. Consumes both from `in`; their bytes stay valid
/// until `in` receives more.
[[nodiscard]] http::fault understand(http::buffer& in, std::string_view head,
                                     config::clients_options const& c, exchange::incoming& out);

/// Resets the facts of an invalid request that its response depends on: the response uses HTTP/1.1.
void forget(exchange& x) noexcept;

/// The delay of a body behind a rate.
class body_delay {
public:
    /// `rate` is in bytes per second; 0: the body is never late.
    explicit body_delay(std::int64_t rate) noexcept : rate_(static_cast<std::uint64_t>(rate)) {}

    void add(net::clock::duration waited) noexcept {
        if (rate_ != 0)
            now_ += waited;
    }
    /// Fast bytes do not make up for later slow ones.
    void make_up(std::size_t bytes) noexcept;
    [[nodiscard]] net::clock::duration now() const noexcept { return now_; }

private:
    std::uint64_t rate_;
    net::clock::duration now_{};
};

/// The time that a client may still take for the body of a request. Only the time in which the proxy waits for the client
/// counts.
class body_clock {
public:
    /// The most that a body may fall behind `contended_body_rate`, if `timeouts.body` is not less.
    static constexpr std::chrono::seconds most_contended_delay{5};

    explicit body_clock(config::configuration const& c) noexcept
        : part_(c.timeouts.body),
          whole_(c.timeouts.whole_body.value_or(net::clock::duration::max())),
          least_(c.clients.min_body_rate),
          contended_(c.clients.contended_body_rate) {}

    /// The time limit of the next part: `timeouts.body`, or less if the whole body would take longer than
    /// `timeouts.whole_body`, or fall behind `min_body_rate` by more than `timeouts.body`.
    [[nodiscard]] net::clock::duration left() const noexcept;
    /// The proxy begins to wait for a part.
    void start() noexcept { since_ = net::clock::now(); }
    /// The part arrived, with that number of bytes.
    void stop(std::size_t bytes) noexcept;

    /// Records whether other requests lack the seats of this one, from now on. Returns whether they do, and the body that
    /// the proxy waits for is too far behind `contended_body_rate`. Only the time in which others lack the seats counts.
    [[nodiscard]] bool delays_others(bool they_lack_seats) noexcept;

private:
    void pass() noexcept;

    net::clock::duration part_;
    net::clock::duration whole_;
    net::clock::duration waited_{};
    body_delay least_;
    body_delay contended_;
    bool is_contended_ = false;
    std::optional<net::clock::time_point> since_;  // waits, and `waited_` has the time before
};

/// The result of a wait for a part of a body.
struct body_part {
    net::error_code ec;
    std::size_t n = 0;
    failure why = failure::none;
};
/// Receives bytes of a body into `room`, within the time of `clock`.
[[nodiscard]] net::task<body_part> receive_body(side from, body_clock& clock, std::span<char> room);

/// Whether the part of the body that arrived is longer than the route allows.
[[nodiscard]] bool is_too_long(exchange::incoming const& request, config::route const& to) noexcept;

/// Reads the body of a request, up to the first `body_buffer` bytes, into `x.ahead` and `x.request.first`. The head in
/// the buffer of `from` stays valid. Sends 100 Continue if the client waits for it. Returns the failure of the client.
[[nodiscard]] net::task<failure> read_ahead(side from, exchange& x, config::route const& to,
                                            body_clock& clock);

/// Reads and discards the rest of a body. `limit` is the time for each part. Returns whether the body was complete.
[[nodiscard]] net::task<bool> drop_body(side from, http::body_reader& body,
                                        net::clock::duration limit);

}  // namespace proxy
