#pragma once

#include "net/connection.hpp"
#include "net/listener.hpp"
#include "problem.hpp"
#include "worker.hpp"

#include <boost/asio/ip/address.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace proxy {

/// Whether a connection begins with the PROXY protocol.
enum class introduced : bool { by_itself, by_a_balancer };

/// A client's connection: one request after the other, until one of the two sides closes.
class session {
public:
    /// `from` is unspecified for a client that comes by a unix socket.
    session(worker& w, net::stream_socket socket, boost::asio::ip::address const& from,
            net::listener::admission a, introduced by);
    ~session();

    /// Serves it until it ends; on its thread.
    static void start(std::unique_ptr<session> self);

private:
    struct head_search;
    enum class next : std::uint8_t { request, close, close_gently };

    static void sleep(std::unique_ptr<session> self);
    static net::task<> wake(std::unique_ptr<session> self);
    net::task<next> serve_all();
    net::task<bool> be_introduced(exchange& x);
    net::task<bool> goes_on_soon(exchange& x);
    net::task<next> serve(exchange& x);
    net::task<http::fault> receive_head(exchange& x, head_search& head);
    [[nodiscard]] http::fault understand(exchange& x, std::size_t head_size);
    net::task<next> answer_in_turn(exchange& x);
    net::task<next> answer_itself(exchange& x, unsigned status, std::string_view why);
    next turn_away(exchange& x, entry const& refused);
    [[nodiscard]] static next what_follows(exchange& x);
    net::task<next> refuse(exchange& x, http::fault f);
    net::task<next> answer_myself(exchange& x, problem what, next after);
    net::task<bool> drop_body(exchange& x);
    void log(exchange const& x, net::clock::time_point begun);
    [[nodiscard]] next closing(exchange const& x);
    net::task<> close_gently();

    worker& worker_;
    net::listener::admission admission_;  // until the socket has been closed
    net::connection client_;
    std::optional<net::time_limit> asleep_;
    boost::asio::ip::address peer_;
    bool awaits_balancer_;  // which says who the client is
    std::string name_;      // of the peer, for the upstream and the log
    bool fresh_ = true;     // has not sent a request yet
};

}  // namespace proxy
