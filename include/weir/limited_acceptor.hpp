#pragma once

#include <weir/detail/default_token.hpp>
#include <weir/detail/throttle_source.hpp>
#include <weir/error.hpp>
#include <weir/permit.hpp>
#include <weir/throttle.hpp>

#include <boost/asio/async_result.hpp>
#include <boost/asio/basic_waitable_timer.hpp>
#include <boost/asio/cancellation_type.hpp>
#include <boost/asio/compose.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/socket_base.hpp>

#include <atomic>
#include <chrono>
#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <type_traits>
#include <utility>

namespace weir::inline v0_2 {

/// A connection with its permits. The socket is destroyed, and so closed, before the permits are released. Keep the
/// object as long as the connection, also if the handshake fails.
template <class Socket>
struct accepted_connection {
    /// The permit of the limiter of all connections.
    permit seat;
    /// The permit of the limiter of the client; empty without such a limiter.
    permit of_client;
    /// The connection.
    Socket socket;
};

namespace detail {

/// The steps of an accept: a seat, and then connections until one may be handed out.
template <class Door>
class accepting {
    using executor_type = typename Door::executor_type;
    using socket_type = typename Door::socket_type;
    using connection = typename Door::connection;
    using timer =
        boost::asio::basic_waitable_timer<std::chrono::steady_clock,
                                          boost::asio::wait_traits<std::chrono::steady_clock>,
                                          executor_type>;

public:
    explicit accepting(Door& self) noexcept : door_(&self) {}

    template <class Self>
    void operator()(Self& self) {
        self.reset_cancellation_state(boost::asio::enable_total_cancellation());
        boost::asio::any_io_executor const ex(self.get_executor());
        door_->seats_->wait(1, throttle_source::handler_type(std::move(self)), &ex);
    }

    // The limiter decides.
    template <class Self>
    void operator()(Self& self, error_code ec, permit seat) {
        seat_ = std::move(seat);
        if (ec)
            complete(self, ec);
        else
            accept(self);
    }

    // A connection, or an error.
    template <class Self>
    void operator()(Self& self, error_code ec, socket_type socket) {
        if (ec == boost::asio::error::no_descriptors || ec == boost::asio::error::no_memory ||
            ec == boost::asio::error::no_buffer_space ||
            ec == boost::system::errc::too_many_files_open_in_system)
            return pause(self);
        if (ec == boost::asio::error::connection_aborted)
            return accept(self);
        if (ec)
            return complete(self, ec);
        permit of_client;
        if (door_->of_client_) {
            auto const client = socket.remote_endpoint(ec);
            if (ec)  // reset meanwhile
                return accept(self);
            of_client = door_->of_client_(client);
            if (!of_client) {
                ++door_->rejected_;
                socket.set_option(boost::asio::socket_base::linger(true, 0), ec);  // no TIME_WAIT
                socket.close(ec);
                return accept(self);
            }
        }
        self.complete({}, connection{std::move(seat_), std::move(of_client), std::move(socket)});
    }

    // The pause is over.
    template <class Self>
    void operator()(Self& self, error_code) {
        accept(self);
    }

private:
    template <class Self>
    void accept(Self& self) {
        // A signal between two steps reaches neither of them.
        if (self.cancelled() != boost::asio::cancellation_type::none)
            return complete(self, boost::asio::error::operation_aborted);
        door_->acceptor_.async_accept(std::move(self));
    }

    template <class Self>
    void pause(Self& self) {
        pause_ = std::make_unique<timer>(door_->get_executor(), std::chrono::milliseconds(100));
        auto& waits = *pause_;
        waits.async_wait(std::move(self));
    }

    template <class Self>
    void complete(Self& self, error_code ec) {
        seat_.refund();
        self.complete(ec, connection{{}, {}, socket_type(door_->get_executor())});
    }

    Door* door_;
    permit seat_;
    std::unique_ptr<timer> pause_;
};

}  // namespace detail

/// Accepts connections only while a limiter has a seat for them.
///
///     weir::seats seats{ctx, {.seats = 1'000}};
///     weir::limited_acceptor<tcp::acceptor> door{seats, ctx, endpoint};
///     for (;;) {
///         auto connection = co_await door.async_accept(asio::use_awaitable);
///         co_spawn(ctx, serve(std::move(connection)), asio::detached);
///     }
///
/// The acceptor takes the seat first, so connections above the limit wait in the backlog of the kernel, and the program does not
/// know them. `limit_clients` adds a limit by client, which is known only after the accept: a connection above that
/// limit is reset, and the next one gets the seat. The limiter may have any rule, such as `64 seats & 100/1s` of
/// `any_limiter`.
///
/// The acceptor continues after a connection that was reset before it was accepted, and pauses for 100 ms if the process has no
/// file descriptors or memory.
///
/// Threads: as an acceptor. Several operations may be in progress at the same time.
///
/// Lifetime: the acceptor must exist until its operations complete. The limiter of all connections may be destroyed
/// first; then operations end with `errc::closed`. The limiter by client must exist as long as the acceptor.
template <class Acceptor>
class limited_acceptor {
    using accepting = detail::accepting<limited_acceptor>;
    friend accepting;

public:
    /// The type of the executor.
    using executor_type = typename Acceptor::executor_type;
    /// The type of the addresses.
    using endpoint_type = typename Acceptor::endpoint_type;
    /// The type of the sockets.
    using socket_type =
        typename Acceptor::protocol_type::socket::template rebind_executor<executor_type>::other;
    /// A connection with its permits.
    using connection = accepted_connection<socket_type>;
    /// The default token: the executor's own, or else `asio::deferred`.
    using default_token = detail::default_token_t<executor_type>;

    /// Creates an acceptor with these arguments, whose connections need a permit of `limiter`.
    template <detail::throttling_limiter Limiter, class... Args>
        requires std::constructible_from<Acceptor, Args...>
    explicit limited_acceptor(Limiter const& limiter, Args&&... args)
        : acceptor_(std::forward<Args>(args)...) {
        auto const link = limiter.with(request());
        using handle = std::remove_cvref_t<decltype(link.handle())>;
        seats_ = std::make_unique<detail::limiter_source<handle>>(link.handle());
    }

    /// Returns the acceptor: for its options and its address, and to close it.
    [[nodiscard]] Acceptor& acceptor() noexcept { return acceptor_; }
    /// Returns the executor of the acceptor.
    [[nodiscard]] executor_type get_executor() noexcept { return acceptor_.get_executor(); }

    /// Requires a permit of `limiter`, for the key `key_of(endpoint)`, for each further connection. Call it while no
    /// operation is in progress.
    template <detail::throttling_keyed Keyed, std::invocable<endpoint_type const&> KeyOf>
    void limit_clients(Keyed& limiter, KeyOf key_of) {
        of_client_ = [&limiter, key_of = std::move(key_of)](endpoint_type const& client) {
            return limiter.try_enter(key_of(client));
        };
    }

    /// Returns the number of connections that were reset because of the limit by client.
    [[nodiscard]] std::uint64_t rejected() const noexcept { return rejected_; }

    /// Takes a seat and accepts a connection.
    ///
    /// Completion signature: `void(error_code, connection)`. Errors: `errc::closed` and other rejections of the limiter
    /// of all connections; of the acceptor, such as `asio::error::operation_aborted` after a `close`. Then the seat is
    /// refunded.
    ///
    /// Cancellation: `terminal`, `partial` and `total` are supported. A connection that was accepted before the
    /// cancellation is passed on.
    template <boost::asio::completion_token_for<void(error_code, connection)> Token = default_token>
    auto async_accept(Token&& token = default_token()) {
        return boost::asio::async_compose<Token, void(error_code, connection)>(
            accepting(*this), token, acceptor_);
    }

private:
    Acceptor acceptor_;
    std::unique_ptr<detail::throttle_source> seats_;
    std::function<permit(endpoint_type const&)> of_client_;
    std::atomic<std::uint64_t> rejected_ = 0;
};

}  // namespace weir::inline v0_2
