#pragma once

#include "http/compose.hpp"
#include "net/connection.hpp"
#include "net/listener.hpp"
#include "worker.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace proxy {

/// A client's connection: one request after the other, until one of the two sides closes.
class session {
public:
    session(worker& w, net::tcp_socket socket, net::tcp::endpoint const& from,
            net::listener::admission a);
    ~session();

    /// Serves it until it ends; on its thread.
    static void start(std::unique_ptr<session> self);

private:
    struct head_search;
    enum class next : std::uint8_t { request, close, close_gently };

    static void sleep(std::unique_ptr<session> self);
    static net::task<> wake(std::unique_ptr<session> self);
    net::task<next> serve_all();
    net::task<bool> goes_on_soon(exchange& x);
    net::task<next> serve(exchange& x);
    net::task<http::fault> receive_head(exchange& x, head_search& head);
    [[nodiscard]] http::fault understand(exchange& x, std::size_t head_size);
    net::task<next> answer_in_turn(exchange& x);
    next turn_away(exchange& x, entry const& refused);
    net::task<next> refuse(exchange& x, http::fault f);
    net::task<next> answer_myself(exchange& x, http::own_answer what, next after);
    net::task<bool> drop_body(exchange& x);
    void log(exchange const& x, net::clock::time_point begun);
    [[nodiscard]] next closing(exchange const& x);
    net::task<> close_gently();

    worker& worker_;
    timeouts const& limits_;
    net::listener::admission admission_;  // until the socket has been closed
    net::connection client_;
    std::optional<net::time_limit> asleep_;
    std::string name_;   // of the client, for the upstream and the log
    std::uint64_t who_;  // the client, for the limits
    bool fresh_ = true;  // has not sent a request yet
};

}  // namespace proxy
