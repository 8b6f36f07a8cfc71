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

// How requests of HTTP/1.1 come in.
namespace proxy {

/// The head of a request, from its first bytes to its end.
class head_search {
public:
    /// Looks at what has come. That grows, and loses an empty line before the request.
    [[nodiscard]] http::fault look(http::buffer& in);

    [[nodiscard]] bool found() const noexcept { return scanner_.size() > 0; }
    /// What was found.
    [[nodiscard]] std::string_view text(http::buffer const& in) const noexcept {
        return in.text().substr(0, scanner_.size());
    }

private:
    http::head_scanner scanner_;
    bool blank_line_ = false;
};

/// Reads until the head is found, or wrong. The status is 0 if the connection has ended instead.
[[nodiscard]] net::task<http::fault> receive_head(side from, head_search& head,
                                                  net::clock::duration limit);

/// What the head says, and what of the body has come with it. Both are consumed, and lie before what `in` has.
[[nodiscard]] http::fault understand(http::buffer& in, std::string_view head,
                                     config::clients_options const& c, exchange::incoming& out);

/// What has been understood cannot be relied on: the request is one of HTTP/1.1 that nothing is known of.
void forget(exchange& x) noexcept;

/// Reads over the rest of a body. Whether it came to its end; each piece of it in time.
[[nodiscard]] net::task<bool> drop_body(side from, http::body_reader& body,
                                        net::clock::duration limit);

/// Reads the line of the PROXY protocol with which a connection begins. Empty if there is none.
[[nodiscard]] net::task<std::optional<net::introduction>> receive_introduction(
    side from, net::clock::duration limit);

}  // namespace proxy
