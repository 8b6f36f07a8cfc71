#pragma once

#include <weir/detail/default_token.hpp>
#include <weir/detail/throttled_half.hpp>
#include <weir/detail/throttled_operation.hpp>
#include <weir/error.hpp>
#include <weir/throttle.hpp>
#include <weir/time.hpp>

#include <boost/asio/async_result.hpp>
#include <boost/asio/buffer.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

namespace weir::inline v0_2 {

/// The counters of one direction of a `throttled_stream` since its construction.
struct transfer_stats {
    /// Transferred bytes.
    std::uint64_t bytes = 0;
    /// The sum of the waits for permits.
    duration waited{};
};

namespace detail {

template <class Layer>
struct lowest_layer_of {
    using type = Layer;
};
template <class Layer>
    requires requires { typename Layer::lowest_layer_type; }
struct lowest_layer_of<Layer> {
    using type = typename Layer::lowest_layer_type;
};

}  // namespace detail

/// A stream whose bytes pass limiters in each direction, where one permit is one byte.
///
///     weir::token_bucket bytes{ctx, weir::bandwidth(5'000'000), {.max_waiting = weir::unlimited}};
///     weir::throttle const all{bytes};
///
///     weir::throttled_stream<tcp::socket> stream{std::move(socket)};
///     stream.throttle_writes(all);
///     co_await asio::async_write(stream, asio::buffer(page), asio::use_awaitable);
///
/// The class is an AsyncReadStream and an AsyncWriteStream, and so is the next layer, which may be a reference.
/// `asio::async_read`, Beast's HTTP and websockets, and `ssl::stream` use it as any stream. It has no blocking
/// functions. Below TLS it limits the bytes on the wire, with handshake and records; above TLS, the bytes of the
/// application. `weir/throttled_websocket.hpp` has the functions by which a websocket closes it.
///
/// A direction has up to two limiters: its own and then a shared one, for example of a client and of all clients. It
/// holds permits of the first while it waits for the second. Without limiters it only counts.
///
/// Writes: it waits until the socket is writable, takes permits, writes as many bytes, and refunds the unused
/// permits. So a receiver that does not read holds no permits.
///
/// Reads: over a socket it waits until bytes have arrived, takes permits for them, and reads as many; an idle
/// connection takes nothing. Over another layer, which may hold bytes of which its socket does not know, it reads
/// first. The bytes are paid at once if they can be, and otherwise before the next read; so each stream can exceed the
/// limit once, by one read. If the stream is destroyed first, they are charged. The end of the data needs no permits.
///
/// Fairness: streams that use copies of one `throttle` ask in turns for the same number of bytes: as many as the
/// limit allows in 20 ms, divided by the streams that want bytes now, from 1,460 to 65,536 and at most the burst. So
/// their shares are even, however much each of them writes at a time. A stream begins with 4,096 and doubles.
///
/// Bound: no limiter grants more than its rule allows, and no byte is written before its permit. Over a layer that is
/// not a socket, the bytes read exceed the granted ones by at most one read per stream.
///
/// Errors: of the next layer; `errc::closed` if a limiter is closed or destroyed; `errc::queue_full` and `timed_out`,
/// as its `queue_options` say. A request above a burst that was lowered meanwhile becomes smaller.
///
/// Cancellation: a wait for permits supports `terminal`, `partial` and `total`. It completes with
/// `asio::error::operation_aborted` and 0 bytes, and takes and transfers nothing. A transfer is cancelled by the rules
/// of the next layer. Closing the next layer does not end a wait for permits.
///
/// Completion: the handler runs on its executor, or else on the executor of the stream, and inside the initiating
/// function only if it has an immediate executor that allows this. Bytes are settled before it runs.
///
/// Threads: as a socket: one thread at a time. One read and one write may be in progress at the same time. Move the
/// stream, or change its limiters, only while none is.
///
/// Lifetime: as of a socket, the stream must exist until its operations complete. If the context of the limiter ends
/// first, the handlers that wait there are destroyed, and all permits are refunded. As everywhere in Asio, the context of
/// the stream must outlive them: if it is another one, cancel them or close the limiter first.
template <class NextLayer>
class throttled_stream {
    template <class Way>
    class starts;

public:
    /// The type of the next layer.
    using next_layer_type = std::remove_reference_t<NextLayer>;
    /// The type of the lowest layer.
    using lowest_layer_type = typename detail::lowest_layer_of<next_layer_type>::type;
    /// The type of the executor.
    using executor_type = typename next_layer_type::executor_type;
    /// The default token: the executor's own, or else `asio::deferred`.
    using default_token = detail::default_token_t<executor_type>;

    /// Rebinds this type of stream to another executor.
    template <class Executor>
    struct rebind_executor {
        /// The stream on `Executor`.
        using other =
            throttled_stream<typename next_layer_type::template rebind_executor<Executor>::other>;
    };

    /// Creates a stream without limits over a layer with these arguments.
    template <class... Args>
        requires std::constructible_from<NextLayer, Args...>
    explicit throttled_stream(Args&&... args) : next_(std::forward<Args>(args)...) {}

    /// Moves a stream without operations in progress.
    throttled_stream(throttled_stream&&) = default;
    /// Moves a stream without operations in progress.
    throttled_stream& operator=(throttled_stream&&) = default;
    /// Charges the bytes that were read and not paid.
    ~throttled_stream() = default;

    /// Returns the executor of the next layer.
    [[nodiscard]] executor_type get_executor() noexcept { return next_.get_executor(); }
    /// Returns the next layer.
    [[nodiscard]] next_layer_type& next_layer() noexcept { return next_; }
    /// Returns the next layer.
    [[nodiscard]] next_layer_type const& next_layer() const noexcept { return next_; }
    /// Returns the lowest layer.
    [[nodiscard]] lowest_layer_type& lowest_layer() noexcept {
        if constexpr (requires { next_.lowest_layer(); })
            return next_.lowest_layer();
        else
            return next_;
    }
    /// Returns the lowest layer.
    [[nodiscard]] lowest_layer_type const& lowest_layer() const noexcept {
        return const_cast<throttled_stream*>(this)->lowest_layer();
    }

    /// Limits reads by `own` and then by `shared` from now on. Call it while no read is in progress.
    void throttle_reads(throttle own, throttle shared = {}) noexcept { limit(reads_, own, shared); }
    /// Limits writes by `own` and then by `shared` from now on. Call it while no write is in progress.
    void throttle_writes(throttle own, throttle shared = {}) noexcept {
        limit(writes_, own, shared);
    }

    /// Returns the counters of reads. Call it on the thread of the stream.
    [[nodiscard]] transfer_stats read_stats() const noexcept {
        return {.bytes = reads_.bytes(), .waited = reads_.waited()};
    }
    /// Returns the counters of writes. Call it on the thread of the stream.
    [[nodiscard]] transfer_stats write_stats() const noexcept {
        return {.bytes = writes_.bytes(), .waited = writes_.waited()};
    }

    /// Reads some bytes, at least one unless the buffers are empty.
    ///
    /// Completion signature: `void(error_code, std::size_t)`. Empty buffers go to the next layer, without permits.
    template <class MutableBuffers, boost::asio::completion_token_for<void(error_code, std::size_t)>
                                        Token = default_token>
    auto async_read_some(MutableBuffers const& buffers, Token&& token = default_token()) {
        return boost::asio::async_initiate<Token, void(error_code, std::size_t)>(
            starts<detail::reading>(*this, reads_), token, buffers);
    }

    /// Writes some bytes, at least one unless the buffers are empty.
    ///
    /// Completion signature: `void(error_code, std::size_t)`. Empty buffers go to the next layer, without permits.
    template <class ConstBuffers, boost::asio::completion_token_for<void(error_code, std::size_t)>
                                      Token = default_token>
    auto async_write_some(ConstBuffers const& buffers, Token&& token = default_token()) {
        return boost::asio::async_initiate<Token, void(error_code, std::size_t)>(
            starts<detail::writing>(*this, writes_), token, buffers);
    }

private:
    static void limit(detail::throttled_half& half, throttle& own, throttle& shared) noexcept {
        using access = detail::throttle_access;
        half.limit(std::move(access::source(own)), std::move(access::source(shared)));
    }

    NextLayer next_;
    detail::throttled_half reads_;
    detail::throttled_half writes_;
};

template <class NextLayer>
template <class Way>
class throttled_stream<NextLayer>::starts {
public:
    using executor_type = throttled_stream::executor_type;

    starts(throttled_stream& of, detail::throttled_half& half) noexcept
        : stream_(&of), half_(&half) {}
    [[nodiscard]] executor_type get_executor() const noexcept { return stream_->get_executor(); }

    template <class Handler, class Buffers>
    void operator()(Handler&& handler, Buffers const& buffers) const {
        auto& layer = stream_->next_layer();
        if (boost::asio::buffer_size(detail::first_bytes<typename Way::buffer_type>(buffers, 1)) ==
            0)
            return Way::start(layer, buffers, std::forward<Handler>(handler));
        detail::throttled_operation<Way, next_layer_type, Buffers, std::decay_t<Handler>>(
            layer, *half_, buffers, std::decay_t<Handler>(std::forward<Handler>(handler)))
            .proceed();
    }

private:
    throttled_stream* stream_;
    detail::throttled_half* half_;
};

}  // namespace weir::inline v0_2
