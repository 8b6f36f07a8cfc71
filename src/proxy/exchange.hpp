#pragma once

#include "http/body.hpp"
#include "http/buffer.hpp"
#include "http/field_changes.hpp"
#include "http/head.hpp"
#include "record.hpp"

#include <optional>
#include <string>
#include <string_view>

namespace proxy {

/// A request and its response. It is independent of the connection, which may have several exchanges at a time.
struct exchange {
    explicit exchange(http::buffer::storage& of_back) noexcept : back(of_back) {}

    /// The request. Its texts are in the receive buffer of the connection, and valid until that receives more.
    struct incoming {
        http::request_head head;
        std::optional<http::request_head> described;  // by a check
        http::body_reader body{http::framing::none, 0};
        std::string_view first;   // the part of the body that was read before the upstream is asked
        std::size_t arrived = 0;  // bytes of it and of its framing that arrived with the head
        bool body_begun = false;  // some of these bytes arrived, or the proxy sent 100 Continue
        std::uint64_t length = 0;  // of the body so far

        /// The request that the limits decide on.
        [[nodiscard]] http::request_head const& asked() const noexcept {
            return described ? *described : head;
        }
    };
    incoming request;
    http::variable_values variables;  // of the route's changes to headers; set if they have any
    http::answer_head answer;         // of the upstream; its texts lie in `back`
    proxy::record record;

    // Output:
    std::string out;           // a head
    std::string rate_headers;  // its header lines about limits
    std::string body;          // of the proxy's own response
    std::string ahead;         // `incoming::first`, if a part of it arrived after the head

    /// Frees the part of the body that was read before the upstream is asked.
    void drop_ahead() noexcept {
        request.first = {};
        ahead.clear();
        ahead.shrink_to_fit();
    }

    // Texts that outlive the head in the receive buffer. They are members to reuse their memory; each is written before
    // it is read.
    struct kept_texts {
        std::string accept;
        std::string line;  // `record` refers to this one and the following
        std::string client;
        std::string id;
        std::string host;
        std::string target;  // for the upstream
    };
    kept_texts kept;

    http::buffer back;  // unread bytes from the upstream
};

}  // namespace proxy
