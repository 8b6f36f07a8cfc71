#pragma once

#include "bandwidth.hpp"
#include "counters.hpp"
#include "date.hpp"
#include "exchange.hpp"
#include "failure.hpp"
#include "gate.hpp"
#include "http/body.hpp"
#include "net/asio.hpp"
#include "net/connection.hpp"
#include "net/watchdog.hpp"
#include "plan.hpp"
#include "reading.hpp"
#include "routes.hpp"
#include "side.hpp"
#include "tunnel.hpp"
#include "upstream.hpp"
#include "workspace.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

namespace proxy {

/// Sends one request to the upstream and its response to the client, both at the same time: an upstream may respond
/// before it read the whole request.
class relay final : private net::watched {
public:
    /// The objects that the relays of one thread share, and which must outlive them.
    struct shared {
        net::watchdog& dog;
        workspaces& spaces;
        upstream_pool& upstreams;
        proxy::date& date;
        counter& tunnels;
        bool const&
            draining;  // the proxy is shutting down: each response is the last of its connection
    };

    /// `of_listener`, if it is not null, limits the bytes in addition to the route. `clock` limits the time of the rest
    /// of the body. `upgrade` is the protocol that the upstream is asked to switch to; empty without one.
    relay(shared const& s, plan const& p, route const& r, route_bandwidth const* of_listener,
          side client, exchange& x, body_clock& clock, entry& entered, std::string_view upgrade);

    /// Completes when the response was sent or cannot be sent. On a failure before the first byte of a response, the
    /// caller must send one: `relayed::said`. `peer` is the other end of the client's connection; the proxy may trust
    /// it to state the protocol and the host of the request.
    net::task<relayed> run(std::string_view peer, bool is_trusted);

    /// The tunnel after a response 101, with the bytes that were read before. It does not use the exchange. Destroy the
    /// relay after it.
    [[nodiscard]] std::shared_ptr<tunnel> tunnel_through();

    /// The time for which bytes waited for a bandwidth; empty without one.
    [[nodiscard]] std::optional<net::clock::duration> throttled() const noexcept {
        return waited_of(up_.get(), down_.get());
    }

private:
    static constexpr net::clock::duration no_time_limit = std::chrono::hours(24 * 365);

    // The body of the request.
    enum class upload_state : std::uint8_t { sending, sent, unwanted };

    [[nodiscard]] net::clock::time_point look(net::clock::time_point now) override;
    void stop_if_idle() override {}
    // The watchdog closes the connections themselves, which does not end a wait for permits.
    void abort() override {
        if (up_ || down_)
            fail(failure::client_gone);
    }

    net::task<bool> connect();
    net::task<> ask();
    net::task<> see_it_close();
    [[nodiscard]] bool may_repeat() const noexcept;
    [[nodiscard]] bool may_be_kept() const noexcept;
    [[nodiscard]] relayed end() const noexcept;

    // Keeps the first failure, which causes the following ones.
    void fail(failure f) noexcept { fail(f, fault_of(f)); }
    void fail(failure f, http::fault said) noexcept;
    void give_up(failure f) noexcept;
    [[nodiscard]] bool over() const noexcept {
        return failure_ != failure::none || reached_ >= progress::complete;
    }

    // The request: see relay_request.cpp.
    net::task<> upload();
    net::task<std::size_t> take_up(std::size_t most);
    void end_upload() noexcept;
    [[nodiscard]] bool delays_others(net::clock::time_point now);

    // The response: see relay_response.cpp.
    net::task<> download();
    net::task<bool> read_answer_head();
    net::task<bool> pass_on_interim();
    void tell_of_limits();
    net::task<bool> send_answer();
    net::task<std::size_t> take_down(std::size_t most);
    net::task<> switch_protocols();
    void free_seats() noexcept;
    [[nodiscard]] net::clock::duration time_to_receive(
        std::optional<net::clock::time_point> end = {}) const;
    void take_in(std::size_t received) noexcept;
    net::task<net::error_code> send_to_client(http::gather const& out);

    shared const& shared_;
    config::configuration const& configuration_;
    route const& route_;
    config::timeouts const limits_;
    side client_;
    exchange& x_;
    body_clock& clock_;
    entry& entered_;
    std::string_view upgrade_;

    // Null without a limit of bytes.
    std::unique_ptr<transfer> const up_;
    std::unique_ptr<transfer> const down_;

    std::optional<std::uint64_t> key_;  // by which the request has its server
    upstream::visit at_;
    upstream_connection upstream_;
    upstream_server* server_ = nullptr;  // of `upstream_`
    net::clock::time_point asked_;       // when the request began to be sent

    progress reached_ = progress::idle;
    upload_state upload_ = upload_state::sending;
    net::clock::time_point next_demand_{};  // when to look at `demand_` again
    std::optional<gate::demand> demand_;    // for the seats of the request, at the last look
    failure failure_ = failure::none;
    http::fault said_;                             // the response to the client for `failure_`
    http::framing framing_ = http::framing::none;  // of the response, as the client gets it
    bool keep_alive_ = false;
    bool lacks_seat_ = false;
    bool lasts_ = false;           // longer than a round of the watchdog
    bool client_is_full_ = false;  // it did not accept the last bytes immediately
};

}  // namespace proxy
