#pragma once

#include "compose.hpp"
#include "connection.hpp"
#include "worker.hpp"

#include <memory>
#include <string>

namespace proxy {

/// A client's connection: one request after the other, until one of the two sides closes.
class session {
public:
    session(worker& w, tcp_socket socket, std::string client);
    ~session();

    /// Serves it until it ends.
    static task<> run(std::unique_ptr<session> self);

private:
    enum class next : bool { close, request };

    task<bool> goes_on_soon(exchange& x);
    task<next> serve(exchange& x);
    task<fault> read_request(exchange& x);
    task<next> answer_in_turn(exchange& x);
    task<next> turn_away(exchange& x, entry const& refused);
    task<next> refuse(exchange& x, fault f);
    task<next> answer_myself(exchange& x, own_answer what, next after);
    task<bool> drop_body(exchange& x);
    void log(exchange const& x, clock::time_point begun);
    task<> close_gently();

    worker& worker_;
    connection client_;
    std::string name_;   // of the client, for the upstream and the log
    bool fresh_ = true;  // has not sent a request yet
};

}  // namespace proxy
