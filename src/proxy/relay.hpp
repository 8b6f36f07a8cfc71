#pragma once

#include "http/body.hpp"
#include "net/connection.hpp"
#include "worker.hpp"

#include <memory>
#include <string_view>

namespace proxy {

/// One request on its way to the upstream, and the answer on its way back, both at the same time: an
/// upstream may answer before it has read everything.
class relay {
public:
    relay(worker& w, net::connection& client, exchange& x);

    /// Ends when the answer has been sent or cannot be. The answer's framing is right or the client
    /// must be closed: see `begun` and `complete`.
    net::task<> run(std::string_view client_name);

    /// What to tell the client, if nothing of an answer has been sent.
    [[nodiscard]] http::fault wrong() const noexcept { return wrong_; }
    /// Something was sent to the upstream.
    [[nodiscard]] bool went_on() const noexcept { return went_on_; }
    /// Something of the upstream's answer was sent to the client.
    [[nodiscard]] bool begun() const noexcept { return begun_; }
    [[nodiscard]] bool complete() const noexcept { return complete_; }
    /// The connection to the client can go on.
    [[nodiscard]] bool keep_alive() const noexcept { return complete_ && keep_alive_; }
    /// The client has gone.
    [[nodiscard]] bool gone() const noexcept { return gone_; }
    /// The client cannot see from the framing that the answer is incomplete.
    [[nodiscard]] bool must_reset() const noexcept { return begun_ && !complete_ && open_ended_; }

private:
    net::task<> attempt();
    net::task<> upload();
    net::task<> download();
    net::task<bool> read_answer_head();
    net::task<net::error_code> receive_answer();
    net::task<net::error_code> send_to_client(http::gather const& out);
    void give_up(http::fault f) noexcept;

    worker& worker_;
    net::connection& client_;
    exchange& x_;
    std::unique_ptr<net::connection> upstream_;

    http::fault wrong_;
    bool went_on_ = false;
    bool heard_ = false;   // something has come from the upstream
    bool silent_ = false;  // the connection ended before a byte of the answer had come
    bool uploaded_ = false;
    bool stopped_ = false;  // the answer is over, or there will be none
    bool begun_ = false;
    bool complete_ = false;
    bool keep_alive_ = false;
    bool open_ended_ = false;
    bool gone_ = false;
};

}  // namespace proxy
