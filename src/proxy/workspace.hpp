#pragma once

#include "exchange.hpp"
#include "http/buffer.hpp"
#include "net/asio.hpp"
#include "pool.hpp"
#include "tool/memory.hpp"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <new>
#include <string_view>

namespace proxy {

namespace asio = boost::asio;

/// The buffers of a connection while it serves a request. An idle connection has none.
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

/// A buffer in whole pages, which it shares with no other object.
class paged_buffer : tool::pages, public http::buffer {
public:
    paged_buffer() : pages(sizeof(storage)), buffer(*new(pages::data()) storage) {}
    using http::buffer::data;
};

/// The workspaces and the buffers of one thread.
class workspaces {
public:
    using handle = pool<workspace, 256>::handle;
    using buffer = pool<paged_buffer, 256>::handle;

    explicit workspaces(asio::io_context& context) : tidy_(context) {}

    /// A workspace. It returns to the pool with the handle; the pool frees memory that was unused for a second.
    [[nodiscard]] handle take() { return all_.take(); }
    /// An empty buffer, which returns to its pool in the same way.
    [[nodiscard]] buffer take_buffer() {
        auto taken = buffers_.take();
        taken->clear();
        return taken;
    }
    /// A buffer with these bytes, which fit into one; null without bytes.
    [[nodiscard]] buffer take_buffer(std::string_view bytes) {
        if (bytes.empty())
            return {};
        auto taken = take_buffer();
        std::ranges::copy(bytes, taken->room().begin());
        taken->commit(bytes.size());
        return taken;
    }
    /// A connection ended: if many end in a second, their memory returns to the system.
    void note_end() {
        ++ended_;
        tidy_soon();
    }
    /// Whether more are in use than the pool keeps, so that a waiting connection should return its own.
    [[nodiscard]] bool crowded() const noexcept { return all_.crowded(); }
    /// Whether several connections of the thread have a request, or had one just now.
    [[nodiscard]] bool busy() const noexcept { return all_.in_use() > 1; }
    /// Stops the freeing of unused memory: the thread is about to end.
    void stop();

private:
    void tidy_soon();

    net::timer tidy_;        // runs while the pool keeps an unused workspace
    std::size_t ended_ = 0;  // connections, since it ran
    bool tidies_ = false;
    bool stopped_ = false;
    pool<workspace, 256> all_{[this] { tidy_soon(); }};
    pool<paged_buffer, 256> buffers_{[this] { tidy_soon(); }};
};

}  // namespace proxy
