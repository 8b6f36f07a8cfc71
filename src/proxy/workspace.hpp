#pragma once

#include "counters.hpp"
#include "exchange.hpp"
#include "http/buffer.hpp"
#include "net/asio.hpp"
#include "pool.hpp"

#include <memory>

namespace proxy {

namespace asio = boost::asio;

/// The buffers of a connection while it serves a request. An idle connection has none.
///
/// The buffers share no page with other objects, so a silent tunnel can return their pages to the system.
class workspace {
    struct alignas(4096) storage {
        http::buffer::storage of_in;
        http::buffer::storage of_back;
    };
    std::unique_ptr<storage> bytes_ = std::make_unique_for_overwrite<storage>();

public:
    http::buffer in{bytes_->of_in};     // unread bytes from the client
    exchange current{bytes_->of_back};  // HTTP/1.1 has one at a time
};

/// The workspaces of one thread.
class workspaces {
public:
    using handle = pool<workspace, 256>::handle;

    /// `apart` is the number of workspaces that tunnels hold; `crowded` does not count them.
    workspaces(asio::io_context& context, counter const& apart) : apart_(apart), tidy_(context) {}

    /// A workspace. It returns to the pool with the handle; the pool frees memory that was unused for a second.
    [[nodiscard]] handle take() { return all_.take(); }
    /// Whether more are in use than the pool keeps, so that a waiting connection should return its own.
    [[nodiscard]] bool crowded() const noexcept { return all_.crowded(apart_.value()); }
    /// Stops the freeing of unused memory: the thread is about to end.
    void stop();

private:
    void tidy_soon();

    counter const& apart_;
    net::timer tidy_;  // runs while the pool keeps an unused workspace
    bool tidies_ = false;
    bool stopped_ = false;
    pool<workspace, 256> all_{[this] { tidy_soon(); }};
};

}  // namespace proxy
