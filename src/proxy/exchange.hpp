#pragma once

#include "http/body.hpp"
#include "http/buffer.hpp"
#include "http/head.hpp"
#include "net/asio.hpp"

#include <cstdint>
#include <string>

namespace proxy {

/// What a request needs while it is being served. An idle connection has none of it.
struct exchange {
    http::buffer in;    // from the client
    http::buffer back;  // from the upstream
    std::string out;    // the head that is being sent
    std::string told;   // lines of it that tell of limits
    std::string text;   // the body of an answer of the proxy's own
    http::request_head request;
    http::answer_head answer;

    http::body_reader body{http::framing::none, 0};  // of the request
    http::body_reader::piece first;  // what of it has come with the head, behind which it lies

    std::string
        accept;  // of the request, where the proxy may answer by itself when its head has gone

    // For the log.
    std::string request_line;
    std::string client;  // if it is another than the peer
    std::string id;
    std::string upstream;
    std::string limit;
    unsigned status = 0;
    std::uint64_t bytes = 0;
    net::clock::duration waited{};
};

}  // namespace proxy
