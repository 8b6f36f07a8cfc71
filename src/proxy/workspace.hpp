#pragma once

#include "counters.hpp"
#include "exchange.hpp"
#include "http/buffer.hpp"
#include "net/asio.hpp"
#include "pool.hpp"
#include "tool/memory.hpp"

#include <cstddef>
#include <memory>
#include <new>

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

/// The buffers of a tunnel that begins without a request. They share no page with other objects, either.
class tunnel_buffers {
    using storage = http::buffer::storage;
    tool::pages bytes_{2 * sizeof(storage)};

public:
    http::buffer up{*new (bytes_.data()) storage};  // unread bytes from the client
    http::buffer down{*new (bytes_.data() + sizeof(storage)) storage};  // and from the server
};

/// The workspaces and the buffers of one thread.
class workspaces {
public:
    using handle = pool<workspace, 256>::handle;
    using buffers = pool<tunnel_buffers, 256>::handle;

    /// `apart` is the number of workspaces that tunnels hold; `crowded` does not count them.
    workspaces(asio::io_context& context, counter const& apart) : apart_(apart), tidy_(context) {}

    /// A workspace. It returns to the pool with the handle; the pool frees memory that was unused for a second.
    [[nodiscard]] handle take() { return all_.take(); }
    /// Empty buffers, which return to their pool in the same way.
    [[nodiscard]] buffers take_buffers() {
        auto taken = buffers_.take();
        taken->up.clear();
        taken->down.clear();
        return taken;
    }
    /// A connection ended: if many end in a second, their memory returns to the system.
    void note_end() {
        ++ended_;
        tidy_soon();
    }
    /// Whether more are in use than the pool keeps, so that a waiting connection should return its own.
    [[nodiscard]] bool crowded() const noexcept { return all_.crowded(apart_.value()); }
    /// Stops the freeing of unused memory: the thread is about to end.
    void stop();

private:
    void tidy_soon();

    counter const& apart_;
    net::timer tidy_;        // runs while the pool keeps an unused workspace
    std::size_t ended_ = 0;  // connections, since it ran
    bool tidies_ = false;
    bool stopped_ = false;
    pool<workspace, 256> all_{[this] { tidy_soon(); }};
    pool<tunnel_buffers, 256> buffers_{[this] { tidy_soon(); }};
};

}  // namespace proxy
