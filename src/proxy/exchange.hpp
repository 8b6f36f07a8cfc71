#pragma once

#include "http/body.hpp"
#include "http/buffer.hpp"
#include "http/head.hpp"
#include "record.hpp"

#include <string>
#include <string_view>

namespace proxy {

/// A request in hand, and the answer to it. It knows nothing of the connection by which the request has come: that may
/// have several at a time.
struct exchange {
    /// The request. Its texts lie in what the connection has received, until that receives more.
    struct incoming {
        http::request_head head;
        http::body_reader body{http::framing::none, 0};
        std::string_view first;   // of the body, what has come with the head
        bool body_begun = false;  // something of it has come, be it only of its framing
    };
    incoming request;
    http::answer_head answer;  // of the upstream. Its texts lie in:
    http::buffer back;         // what has come from the upstream and was not used
    proxy::record record;

    // What is being sent.
    std::string out;   // a head
    std::string told;  // lines of it that tell of limits
    std::string body;  // of an answer of the proxy's own

    // What is wanted of the request when its head has gone. Only its memory goes on from one request to the next: each of
    // them is written before it is read.
    struct kept_texts {
        std::string accept;
        std::string line;  // this and the others are of the record
        std::string client;
        std::string id;
    };
    kept_texts kept;
};

}  // namespace proxy
