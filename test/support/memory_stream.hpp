#pragma once

#include <weir/error.hpp>
#include <weir/testing.hpp>

#include <boost/asio/any_completion_handler.hpp>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/append.hpp>
#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/post.hpp>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace support {

namespace asio = boost::asio;

/// A stream in memory, whose operations complete by a post. It cannot be waited for, unlike a socket.
class memory_stream {
    using handler_type = asio::any_completion_handler<void(weir::error_code, std::size_t)>;

public:
    using executor_type = asio::any_io_executor;

    /// The state that the stream shares with the test.
    struct wire {
        std::string sent;      // by writes
        std::string incoming;  // for reads
        bool ended = false;    // no bytes follow those in `incoming`
        weir::error_code fails;
        std::size_t most = std::numeric_limits<std::size_t>::max();  // of one transfer
        int writes = 0;
        std::size_t largest_write = 0;
        std::vector<std::pair<weir::testing::clock::time_point, std::size_t>> log;

        handler_type reader;  // waits for bytes
        asio::mutable_buffer into;
    };

    memory_stream(asio::any_io_executor ex, std::shared_ptr<wire> w)
        : executor_(std::move(ex)), wire_(std::move(w)) {}

    [[nodiscard]] executor_type get_executor() const noexcept { return executor_; }

    template <class Buffers, class Token>
    auto async_write_some(Buffers const& buffers, Token&& token) {
        auto const start = [self = this](auto handler, Buffers data) {
            auto& w = *self->wire_;
            ++w.writes;
            std::size_t n = 0;
            if (!w.fails) {
                n = std::min(asio::buffer_size(data), w.most);
                auto const before = w.sent.size();
                w.sent.resize(before + n);
                asio::buffer_copy(asio::buffer(w.sent.data() + before, n), data);
                w.log.emplace_back(weir::testing::clock::now(), n);
                w.largest_write = std::max(w.largest_write, n);
            }
            self->complete(std::move(handler), w.fails, n);
        };
        return asio::async_initiate<Token, void(weir::error_code, std::size_t)>(
            start, token, buffers);
    }

    template <class Buffers, class Token>
    auto async_read_some(Buffers const& buffers, Token&& token) {
        auto const start = [self = this](auto handler, Buffers data) {
            auto& w = *self->wire_;
            if (!w.incoming.empty() || w.ended || w.fails || asio::buffer_size(data) == 0)
                return self->read(std::move(handler), *asio::buffer_sequence_begin(data));
            w.into = *asio::buffer_sequence_begin(data);
            auto slot = asio::get_associated_cancellation_slot(handler);
            w.reader = std::move(handler);
            if (slot.is_connected())
                slot.assign([self](asio::cancellation_type) {
                    if (auto const reader = std::exchange(self->wire_->reader, nullptr))
                        self->complete(std::move(const_cast<handler_type&>(reader)),
                                       asio::error::operation_aborted, 0);
                });
        };
        return asio::async_initiate<Token, void(weir::error_code, std::size_t)>(
            start, token, buffers);
    }

    /// The peer sends these bytes, and perhaps the end.
    void receive(std::string bytes, bool end = false) {
        wire_->incoming += bytes;
        wire_->ended = end;
        if (auto reader = std::exchange(wire_->reader, nullptr))
            read(std::move(reader), wire_->into);
    }

private:
    template <class Handler>
    void complete(Handler&& handler, weir::error_code ec, std::size_t n) {
        asio::post(executor_, asio::append(std::forward<Handler>(handler), ec, n));
    }

    template <class Handler>
    void read(Handler&& handler, asio::mutable_buffer into) {
        auto const n = std::min({wire_->incoming.size(), into.size(), wire_->most});
        asio::buffer_copy(into, asio::buffer(wire_->incoming, n));
        wire_->incoming.erase(0, n);
        auto const ec = wire_->fails                 ? wire_->fails
                        : n == 0 && into.size() != 0 ? asio::error::eof
                                                     : weir::error_code();
        complete(std::forward<Handler>(handler), ec, n);
    }

    asio::any_io_executor executor_;
    std::shared_ptr<wire> wire_;
};

}  // namespace support
