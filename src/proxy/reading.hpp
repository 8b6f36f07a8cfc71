#pragma once

#include "config/configuration.hpp"
#include "exchange.hpp"
#include "http/body.hpp"
#include "http/head.hpp"
#include "net/asio.hpp"
#include "net/proxy_protocol.hpp"
#include "side.hpp"

#include <optional>
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

/// Reads and discards the rest of a body. `limit` is the time for each part. Returns whether the body was complete.
[[nodiscard]] net::task<bool> drop_body(side from, http::body_reader& body,
                                        net::clock::duration limit);

/// Reads the header of the PROXY protocol at the start of a connection. Returns nothing if it is missing or invalid.
[[nodiscard]] net::task<std::optional<net::introduction>> receive_introduction(
    side from, net::clock::duration limit);

}  // namespace proxy
