#pragma once

#include "counters.hpp"
#include "exchange.hpp"
#include "http/buffer.hpp"
#include "net/asio.hpp"
#include "pool.hpp"

namespace proxy {

namespace asio = boost::asio;

/// What a connection has while a request of it is served. An idle one has none of it.
struct workspace {
    http::buffer in;   // what has come from the client and was not used
    exchange current;  // of HTTP/1.1 there is one at a time
};

/// Those of one thread.
class workspaces {
public:
    using handle = pool<workspace, 256>::handle;

    /// `apart`: how many are in use for long, and do not count as a crowd.
    workspaces(asio::io_context& context, counter const& apart) : apart_(apart), tidy_(context) {}

    /// Memory that was not needed for a second goes back to the system.
    [[nodiscard]] handle take() { return all_.take(); }
    /// Whether so many are in use that those which are not needed for the moment are to come back.
    [[nodiscard]] bool crowded() const noexcept { return all_.crowded(apart_.value()); }
    /// From now on memory stays: the thread is about to end.
    void stop();

private:
    void tidy_soon();

    counter const& apart_;
    net::timer tidy_;  // while any is kept
    bool tidies_ = false;
    bool stopped_ = false;
    pool<workspace, 256> all_{[this] { tidy_soon(); }};
};

}  // namespace proxy
