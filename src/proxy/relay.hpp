#pragma once

#include "exchange.hpp"
#include "gate.hpp"
#include "http/body.hpp"
#include "http/buffer.hpp"
#include "http/head.hpp"
#include "net/asio.hpp"
#include "net/connection.hpp"
#include "net/watchdog.hpp"
#include "routes.hpp"
#include "worker.hpp"

#include <cstdint>
#include <memory>
#include <string_view>

namespace proxy {

/// One request on its way to the upstream, and the answer on its way back, both at the same time: an
/// upstream may answer before it has read everything.
class relay final : private net::watched {
public:
    relay(worker& w, plan const& p, route const& r, net::connection& client, exchange& x,
          entry& entered);

    /// Ends when the answer has been sent or cannot be. The answer's framing is right or the client
    /// must be closed: see `begun` and `complete`.
    net::task<> run(std::string_view client_name);

    /// What to tell the client, if nothing of an answer has been sent.
    [[nodiscard]] http::fault wrong() const noexcept { return wrong_; }
    /// Something was sent to the upstream.
    [[nodiscard]] bool went_on() const noexcept { return stage_ >= stage::asked; }
    /// Something of the upstream's answer was sent to the client.
    [[nodiscard]] bool begun() const noexcept { return stage_ >= stage::begun; }
    [[nodiscard]] bool complete() const noexcept { return stage_ == stage::complete; }
    /// The connection to the client can go on.
    [[nodiscard]] bool keep_alive() const noexcept { return complete() && keep_alive_; }
    /// To which it was sent; null if it was sent to none.
    [[nodiscard]] upstream_server const* server() const noexcept { return server_; }
    /// It has become something else than HTTP, and has ended: nothing is left to be said on the connection.
    [[nodiscard]] bool tunnelled() const noexcept { return tunnelled_; }
    /// How it went at the upstream: a client that hangs up or does not send its body says nothing about that.
    [[nodiscard]] weir::outcome outcome() const noexcept;
    /// Whether the client has hung up.
    [[nodiscard]] net::presence client() const noexcept { return there_; }
    /// The client cannot see from the framing that the answer is incomplete.
    [[nodiscard]] bool must_reset() const noexcept {
        return stage_ == stage::broken && framing_ == http::framing::until_close;
    }

private:
    // How far it has come with the upstream. Later is more.
    enum class stage : std::uint8_t {
        idle,
        asked,     // something was sent to it
        heard,     // something has come from it
        begun,     // something of its answer was sent to the client
        broken,    // and the rest cannot be
        complete,  // all of it was sent
    };
    // The body of the request.
    enum class upload_state : std::uint8_t { sending, sent, unwanted };

    [[nodiscard]] net::clock::time_point look(net::clock::time_point now) override;
    void stop_if_idle() override {}
    void abort() override {}

    net::task<> attempt();
    net::task<bool> connect();
    net::task<> upload();
    net::task<> download();
    net::task<bool> read_answer_head();
    void tell_of_limits();
    net::task<bool> send_answer();
    net::task<> switch_protocols();
    void free_seats() noexcept;
    net::task<net::error_code> receive_answer();
    net::task<net::error_code> send_to_client(http::gather const& out);
    net::task<> see_it_close();
    void end_upload() noexcept;
    [[nodiscard]] bool is_clients_fault() const noexcept;
    void give_up(http::fault f) noexcept;
    void client_has_gone() noexcept;
    [[nodiscard]] bool over() const noexcept {
        return there_ != net::presence::here || wrong_ || stage_ >= stage::broken;
    }
    [[nodiscard]] bool may_be_kept() const noexcept;

    worker& worker_;
    config::configuration const& configuration_;
    route const& route_;
    config::timeouts const limits_;
    net::connection& client_;
    exchange& x_;
    entry& entered_;
    upstream::visit at_;
    upstream_connection upstream_;
    upstream_server* server_ = nullptr;  // to which that leads
    net::clock::time_point asked_;       // when it was
    std::string_view upgrade_;           // the protocol that the upstream is asked for

    http::fault wrong_;
    stage stage_ = stage::idle;
    upload_state upload_ = upload_state::sending;
    http::framing framing_ = http::framing::none;  // of the answer, as the client gets it
    bool keep_alive_ = false;
    bool tunnelled_ = false;
    bool seen_ = false;                          // by the watchdog
    net::presence there_ = net::presence::here;  // the client
};

}  // namespace proxy
