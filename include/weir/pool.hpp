#pragma once

#include <weir/detail/asio_host.hpp>
#include <weir/detail/asio_operation.hpp>
#include <weir/detail/core.hpp>
#include <weir/detail/enter_operation.hpp>
#include <weir/detail/pool/callables.hpp>
#include <weir/detail/pool/checkout.hpp>
#include <weir/detail/pool/supplier.hpp>
#include <weir/detail/waiting_room.hpp>
#include <weir/error.hpp>
#include <weir/lease.hpp>
#include <weir/limiter.hpp>
#include <weir/policy/stock.hpp>
#include <weir/queue_options.hpp>
#include <weir/stats.hpp>
#include <weir/time.hpp>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/cancellation_type.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/execution_context.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/assert.hpp>

#include <algorithm>
#include <concepts>
#include <exception>
#include <memory>
#include <utility>

namespace weir {

/// Objects that are checked out and in, such as connections: `seats` with an object on each.
///
///     asio::awaitable<tcp::socket> connect(asio::any_io_executor ex) {
///         tcp::socket socket(ex);
///         co_await socket.async_connect(server, asio::use_awaitable);
///         co_return socket;
///     }
///     weir::pool<tcp::socket> connections{ctx, connect, {.max = 20}};
///
///     asio::awaitable<void> query() {
///         auto connection = co_await connections.checkout(1s);   // waits for up to a second
///         co_await talk(*connection);
///     }                                                          // checked in
///
/// Objects: they are made when a request has to wait for one, until `max` exist, and serve whichever
/// request is first in line when they are done. So an object that comes back meanwhile is used at once, and
/// one whose request has gone is kept for the next. Never more than `max` exist, those that are being
/// made included, and never do two leases hold the same one.
///
/// Making: `make` is called with the pool's executor if it takes one, otherwise with nothing. It returns an
/// `asio::awaitable` of something of which a `T` can be made, or such an Asio operation. Its coroutine runs
/// on the pool's executor, in a strand of its own, and is cancelled (`terminal`) after `make_within`, and
/// when the pool is closed or destroyed. One that does not heed this goes on until it is done; what it has
/// made is kept, or destroyed if the pool has been closed. When it fails, with an exception, requests wait on for as long as their
/// patience lasts, and it is tried again, by one attempt at a time, with the back-off of the options.
///
/// Checking: `check`, if there is one, is called with an object that is not handed out as it is: see
/// `pool_options::check_after`. It returns a `bool`, or an awaitable or an Asio operation that gives one or
/// nothing, and is treated as `make` is. A false, an exception, and no answer within `check_within` mean
/// that the object is broken: it is destroyed, and another is made in its place. Until the check has been
/// passed the request waits in line, and an object that comes back meanwhile is used at once.
///
/// Requests: order, checks, cancellation, completion, threads and executors are as in `basic_limiter`. A
/// request has no patience for making or checking if it has none at all: `try_checkout` and a patience of 0
/// get an object that is idle and needs no check, or nothing.
///
/// Errors: those of `basic_limiter`. A lease that comes with one, and `checkout_rejection`, have what the last
/// attempt to make an object has failed with. It is null if objects can be made, and all were in use.
///
/// What keeps `run()` from returning: requests that wait, and objects that are being made or checked. While
/// nobody waits no timer runs, so what is idle is not trimmed by a timer: it is trimmed when the pool is
/// used, or by `trim()`. Likewise the pool is filled up to `min` when it is made, and when there are
/// fewer after it was used; if that fails while nobody waits, it is tried again when it is next used.
///
/// Lifetime: as in `basic_limiter`. Objects that are idle are destroyed when the pool is closed or
/// destroyed, or its context ends, and the others when they come home after that. They are destroyed by the
/// thread that checks in, discards, closes or destroys, or that runs the executor, under no lock; a
/// destructor may call the pool. An object that comes home on one thread while the pool is closed on
/// another may live on until the pool is destroyed. `make` and `check` are kept until the last job has gone.
///
/// On virtual time it is `basic_pool<T, asio::any_io_executor, testing::timer>`.
///
/// Granted at once, a checkout takes one lock, that of the limiter, and so does a checkin. Only with
/// `max_age`, `max_idle`, `max_hold`, or a check after some time, the clock is read as well.
template <class T, class Executor = boost::asio::any_io_executor,
          class Timer = basic_steady_timer<Executor>>
class basic_pool {
    using core_type =
        detail::core<detail::waiting_room<policy::stock>, detail::asio_host<Executor, Timer>>;
    using supplier_type = detail::supplier<T, Executor, Timer, core_type>;
    using starts = detail::starts_to_checkout<supplier_type>;
    using initiation = detail::initiation<core_type, Executor, detail::checkout_signature<T>>;
    using drain_initiation = detail::initiation<core_type, Executor, detail::drain_signature>;
    using overdue_initiation =
        detail::initiation<core_type, Executor, detail::watch_signature<overdue>>;

    template <class Context>
    static constexpr bool is_context = requires(Context& c) {
        { c.get_executor() } -> std::convertible_to<Executor>;
        requires std::convertible_to<Context&, boost::asio::execution_context&>;
    };

public:
    using value_type = T;
    using lease_type = lease<T>;
    using executor_type = Executor;
    using timer_type = Timer;
    using clock_type = typename Timer::clock_type;
    using options_type = pool_options;
    using default_token = detail::default_token_t<Executor>;

    template <class OtherExecutor>
    struct rebind_executor {
        using other = basic_pool<T, OtherExecutor,
                                 typename Timer::template rebind_executor<OtherExecutor>::other>;
    };

    /// A pool whose work is done on `ex`. Throws `std::invalid_argument` that names the option, its value
    /// and the bound, if an option is nonsense.
    template <detail::maker<T, Executor> Make>
    basic_pool(Executor const& ex, Make&& make, pool_options const& options = {},
               queue_options const& queueing = {})
        : basic_pool(ex, options, queueing, {},
                     detail::as_maker<T, Executor>(std::forward<Make>(make))) {}

    /// The same with a check.
    template <detail::maker<T, Executor> Make, detail::checker<T> Check>
    basic_pool(Executor const& ex, Make&& make, Check&& check, pool_options const& options = {},
               queue_options const& queueing = {})
        : basic_pool(ex, options, queueing, detail::as_checker<T>(std::forward<Check>(check)),
                     detail::as_maker<T, Executor>(std::forward<Make>(make))) {}

    /// The same on the executor of a context.
    template <class Context, detail::maker<T, Executor> Make>
        requires is_context<Context>
    basic_pool(Context& context, Make&& make, pool_options const& options = {},
               queue_options const& queueing = {})
        : basic_pool(Executor(context.get_executor()), std::forward<Make>(make), options,
                     queueing) {}
    template <class Context, detail::maker<T, Executor> Make, detail::checker<T> Check>
        requires is_context<Context>
    basic_pool(Context& context, Make&& make, Check&& check, pool_options const& options = {},
               queue_options const& queueing = {})
        : basic_pool(Executor(context.get_executor()), std::forward<Make>(make),
                     std::forward<Check>(check), options, queueing) {}

    basic_pool(basic_pool&&) noexcept = default;
    basic_pool& operator=(basic_pool&& other) noexcept {
        basic_pool moved(std::move(other));
        std::swap(core_, moved.core_);
        std::swap(supplier_, moved.supplier_);
        std::swap(executor_, moved.executor_);
        return *this;
    }
    ~basic_pool() {
        if (!core_)
            return;
        core_->abandon();
        supplier_->stop();
    }

    /// The executor that was given.
    [[nodiscard]] executor_type get_executor() const noexcept { return executor_; }

    /// An object that is idle and needs no check, now or not at all: it never has one made. The reason is
    /// in `ec`: `errc::no_permit` or `closed`.
    lease_type try_checkout(error_code& ec) noexcept {
        return detail::lease_access::make<T>(core().try_enter(1, ec));
    }
    lease_type try_checkout() noexcept {
        error_code ignored;
        return try_checkout(ignored);
    }

    /// Waits for an object, for as long as the patience lasts: `co_await pool.checkout(1s)`. If one is idle
    /// and needs no check, nothing is posted.
    ///
    /// Throws `checkout_rejection` with the `error_code` that `async_checkout` completes with, that of a
    /// cancellation, too. The pool must exist until the awaitable is awaited.
    template <class CoroutineExecutor = Executor>
    [[nodiscard]] boost::asio::awaitable<lease_type, CoroutineExecutor> checkout(
        patience wait = {}) {
        return await_checkout<CoroutineExecutor>(checked(), {.length = wait});
    }

    /// The same until an instant of the pool's clock, for callers that have a deadline.
    template <class CoroutineExecutor = Executor>
    [[nodiscard]] boost::asio::awaitable<lease_type, CoroutineExecutor> checkout_until(
        typename clock_type::time_point deadline) {
        return await_checkout<CoroutineExecutor>(checked(), detail::wait_until(deadline));
    }

    /// Waits for an object, for as long as the patience lasts.
    ///
    /// Completion signature: `void(error_code, lease<T>)`. On an error the lease is empty.
    /// Errors: an `errc`, or `asio::error::operation_aborted`.
    /// Throws what the handler's allocator and its executor throw, and `std::bad_alloc`; then nothing has
    /// been started.
    template <boost::asio::completion_token_for<void(error_code, lease<T>)> Token = default_token>
    auto async_checkout(patience wait, Token&& token = default_token()) {
        return initiate(checked(), {.length = wait}, std::forward<Token>(token));
    }
    template <boost::asio::completion_token_for<void(error_code, lease<T>)> Token = default_token>
    auto async_checkout(Token&& token = default_token()) {
        return async_checkout(patience(), std::forward<Token>(token));
    }
    template <boost::asio::completion_token_for<void(error_code, lease<T>)> Token = default_token>
    auto async_checkout_until(typename clock_type::time_point deadline,
                              Token&& token = default_token()) {
        return initiate(checked(), detail::wait_until(deadline), std::forward<Token>(token));
    }

    /// The options that were given.
    [[nodiscard]] pool_options options() const { return core().options().pool; }

    /// Destroys, here and now, what has been idle for too long or is too old.
    void trim() noexcept {
        checked()->supplier_->trim();
        supplier_->look();  // there may be fewer than `min`
    }

    /// Rejects all new requests with `errc::closed` from now on; those that wait are served to the end, and
    /// objects are made for them. It cannot be undone.
    void shutdown() noexcept {
        core().shut_down();
        supplier_->shut_down();
    }

    /// Rejects all new requests, and all that wait, with `errc::closed`; destroys the objects that are idle,
    /// cancels what is being made or checked, and keeps nothing that comes home. Leases that are out stay
    /// good, and `async_drain` tells when they have come home. It cannot be undone.
    void close() noexcept {
        core().close();
        supplier_->stop();
    }

    /// Cancels all that waits now with `asio::error::operation_aborted`: requests, `async_drain` and
    /// `async_wait_overdue`. What is being made goes on, and is kept.
    void cancel() noexcept {
        core().cancel();
        supplier_->caller_left();
    }

    /// Completes when no lease is out and no request waits, as in `basic_limiter`. What is being made
    /// without a request is not waited for.
    ///
    /// Completion signature: `void(error_code)`. Errors: `asio::error::operation_aborted`, and
    /// `errc::closed` if the pool is destroyed.
    template <boost::asio::completion_token_for<void(error_code)> Token = default_token>
    auto async_drain(Token&& token = default_token()) {
        return boost::asio::async_initiate<Token, void(error_code)>(
            drain_initiation(checked()->core_, executor_), token, detail::starts_to_drain());
    }

    /// Waits for a lease that is held for longer than `pool_options::max_hold`, as in `basic_limiter`: its
    /// `lease::id()` is in `overdue::id`.
    ///
    /// Completion signature: `void(error_code, overdue)`. Errors: `asio::error::operation_aborted`, and
    /// `errc::closed` if the pool is destroyed.
    template <boost::asio::completion_token_for<void(error_code, overdue)> Token = default_token>
    auto async_wait_overdue(Token&& token = default_token()) {
        return boost::asio::async_initiate<Token, void(error_code, overdue)>(
            overdue_initiation(checked()->core_, executor_), token, detail::starts_to_watch());
    }

    /// What the pool has done since it was made, and what it is doing: all of one instant. Takes the lock
    /// and reads the clock.
    [[nodiscard]] pool_stats stats() const { return core().ask(&stats_of); }

    /// The same, with the waits since the pool was made, as in `basic_limiter`.
    [[nodiscard]] weir::snapshot<pool_stats> snapshot() const {
        return core().ask([](auto const& room, time_point now) {
            return weir::snapshot<pool_stats>{stats_of(room, now), room.waits()};
        });
    }

private:
    [[nodiscard]] static pool_stats stats_of(detail::waiting_room<policy::stock> const& room,
                                             time_point now) noexcept {
        auto const& n = room.policy().count();
        return {.requests = room.stats(now),
                .idle = n.idle,
                .in_use = n.in_use,
                .being_checked = n.being_checked,
                .being_made = n.being_made,
                .made = n.made,
                .failed = n.failed,
                .discarded = n.discarded,
                .unhealthy = n.unhealthy,
                .retired = n.retired};
    }

    basic_pool(Executor const& ex, pool_options const& options, queue_options const& queueing,
               typename supplier_type::checker_type check, typename supplier_type::maker_type make)
        : core_(core_type::create(
              {.pool = options, .checks = check != nullptr, .clock = &supplier_type::now}, queueing,
              ex)),
          executor_(ex) {
        try {
            supplier_ = std::make_shared<supplier_type>(
                core_, ex, options, std::move(make), std::move(check));
            supplier_->begin();
        } catch (...) {
            core_->abandon();
            throw;
        }
    }

    // Nothing of the pool is touched once it waits.
    template <class CoroutineExecutor>
    static boost::asio::awaitable<lease_type, CoroutineExecutor> await_checkout(
        basic_pool const* pool, detail::wait_limit limit) {
        // A coroutine may have asked not to be told of a cancellation by an exception.
        auto const state = co_await boost::asio::this_coro::cancellation_state;
        if (state.cancelled() != boost::asio::cancellation_type::none)
            throw checkout_rejection(boost::asio::error::operation_aborted, nullptr);
        error_code ec;
        if (auto granted = pool->core().enter_at_once(1, ec))
            co_return detail::lease_access::make<T>(std::move(granted));
        if (ec)
            throw checkout_rejection(ec, nullptr);
        auto [error, given] =
            co_await initiate(pool, limit, boost::asio::as_tuple(boost::asio::deferred));
        if (error)
            throw detail::lease_access::rejection(error, given);
        co_return std::move(given);
    }

    template <class Token>
    static auto initiate(basic_pool const* pool, detail::wait_limit const& limit, Token&& token) {
        return boost::asio::async_initiate<Token, void(error_code, lease<T>)>(
            initiation(pool->core_, pool->executor_), token, starts(pool->supplier_, limit));
    }

    [[nodiscard]] basic_pool const* checked() const noexcept {
        BOOST_ASSERT_MSG(core_, "this pool has been moved from");
        return this;
    }
    [[nodiscard]] core_type& core() const noexcept { return *checked()->core_; }

    std::shared_ptr<core_type> core_;
    std::shared_ptr<supplier_type> supplier_;
    Executor executor_;
};

/// `basic_pool` on an executor of any type.
template <class T>
using pool = basic_pool<T>;

}  // namespace weir
