#pragma once

#include <weir/detail/asio_host.hpp>
#include <weir/detail/asio_operation.hpp>
#include <weir/detail/compiled.hpp>
#include <weir/detail/context_of.hpp>
#include <weir/detail/core_calls.hpp>
#include <weir/detail/default_token.hpp>
#include <weir/detail/observed_events.hpp>
#include <weir/detail/pool/callables.hpp>
#include <weir/detail/pool/checkout.hpp>
#include <weir/detail/pool/supplier.hpp>
#include <weir/detail/room.hpp>
#include <weir/detail/verbs.hpp>
#include <weir/error.hpp>
#include <weir/lease.hpp>
#include <weir/limiter.hpp>
#include <weir/observer.hpp>
#include <weir/policy/stock.hpp>
#include <weir/queue_options.hpp>
#include <weir/stats.hpp>
#include <weir/time.hpp>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/assert.hpp>

#include <algorithm>
#include <concepts>
#include <memory>
#include <stdexcept>
#include <utility>

namespace weir::inline v0_2 {

/// Lends objects, such as connections, to at most `max` callers at a time, and creates and checks them as necessary.
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
///     }                                                          // returns the connection
///
/// Objects: the pool creates an object when a request has to wait for one, until `max` objects exist. A new object goes
/// to the first request in the queue at that time. So a waiting request uses an object that is returned earlier, and an
/// object whose request has left is kept for the next request. At most `max` objects exist, including the ones being
/// created, and no two leases hold the same object.
///
/// Creation: the pool calls `make` with its executor if `make` accepts one, otherwise without arguments. `make` returns
/// an `asio::awaitable` or an Asio operation, with a result from which a `T` can be constructed. Its coroutine runs on
/// the pool's executor, in its own strand. It is cancelled (`terminal`) after `create_timeout`, and when the pool is
/// closed or destroyed. If it ignores the cancellation it runs to its end; the pool keeps its object, or destroys it if
/// the pool was closed. If `make` fails with an exception, requests continue to wait for their patience. The pool then
/// makes one attempt at a time, with the back-off of the options.
///
/// Checks of objects: the optional `check` is called with an idle object that needs a check before its next use; see
/// `pool_options::check_after`. It returns a `bool`, or an awaitable or an Asio operation with a result of `bool` or
/// none, and runs like `make`. `false`, an exception, and no result within `check_timeout` mean that the object is
/// broken: the pool destroys it and creates another. Until the check succeeds the request waits in the queue, and uses
/// an object that is returned earlier.
///
/// Requests: order, checks, cancellation, completion, threads and executors are as in `basic_limiter`. `try_checkout`
/// and a patience of 0 do not wait for creation or checks: they return an idle object that needs no check, or nothing.
///
/// Size: `configure` changes `max` and all other options while the pool is in use.
///
/// Errors: see `basic_limiter`. `checkout_rejection`, and the empty lease of a rejection, hold the exception of the
/// last attempt to create an object. It is null if objects can be created and all were in use.
///
/// Running context: waiting requests, and objects that are being created or checked, keep `run()` from returning. No
/// timer runs for idle objects: the pool destroys old idle objects only when it is used, or in `trim()`. It creates
/// objects up to `min` at construction, and after a use that leaves fewer; if that fails while no request waits, it
/// tries again at the next use.
///
/// Lifetime: as in `basic_limiter`. The pool destroys idle objects when it is closed or destroyed, or when its context
/// ends, and other objects when they are returned after that. The destructor of an object runs under no lock, and may
/// call the pool. It runs on the thread that returns or discards the object, that closes, configures, trims or destroys
/// the pool, or on the executor. `make` and `check` exist until their last call has ended.
///
/// Virtual time: use `testing::pool<T>`.
///
/// Cost: an immediate checkout takes one lock, the limiter's, and so does a return. They read the clock only with
/// `max_age`, `max_idle` or `max_hold`, or with a check.
template <class T, class Executor = boost::asio::any_io_executor,
          class Timer = basic_steady_timer<Executor>>
class basic_pool {
    using core_type = detail::core<detail::room<detail::one_slot<policy::stock>>,
                                   detail::asio_host<Executor, Timer>>;
    using supplier_type = detail::supplier<T, Executor, Timer, core_type>;
    using handle_type = detail::limiter_handle<core_type, Executor>;
    using starts = detail::starts_to_checkout<T, supplier_type>;
    using starts_here =
        detail::starts_to_checkout<T, supplier_type, std::shared_ptr<supplier_type> const*>;
    using enter_token = detail::enter_token_t<Executor>;
    using drain_initiation = detail::initiation<core_type, Executor, detail::drain_signature>;
    using overdue_initiation =
        detail::initiation<core_type, Executor, detail::watch_signature<overdue>>;

public:
    /// The type of the objects.
    using value_type = T;
    /// An object on loan.
    using lease_type = lease<T>;
    /// The executor on which the pool works.
    using executor_type = Executor;
    /// The timer that ends waits.
    using timer_type = Timer;
    /// The clock of deadlines.
    using clock_type = typename Timer::clock_type;
    /// The options of the pool.
    using options_type = pool_options;
    /// The default token of `async_drain` and `async_wait_overdue`: the executor's own default token, or else
    /// `asio::deferred`.
    using default_token = detail::default_token_t<Executor>;

    /// Rebinds this type of pool to another executor.
    template <class OtherExecutor>
    struct rebind_executor {
        /// The pool on `OtherExecutor`.
        using other = basic_pool<T, OtherExecutor,
                                 typename Timer::template rebind_executor<OtherExecutor>::other>;
    };

    /// Creates a pool that works on `ex` and creates objects with `make`.
    ///
    /// @throws std::invalid_argument if an option is out of bounds; the message names the option, its value and the
    ///   bound
    template <detail::maker<T, Executor> Make>
    basic_pool(Executor const& ex, Make&& make, pool_options const& options = {},
               queue_options const& queueing = {})
        : basic_pool(ex, options, queueing, {},
                     detail::as_maker<T, Executor>(std::forward<Make>(make))) {}

    /// Creates a pool that works on `ex`, creates objects with `make` and checks them with `check`.
    ///
    /// @throws std::invalid_argument as the first constructor
    template <detail::maker<T, Executor> Make, detail::checker<T> Check>
    basic_pool(Executor const& ex, Make&& make, Check&& check, pool_options const& options = {},
               queue_options const& queueing = {})
        : basic_pool(ex, options, queueing, detail::as_checker<T>(std::forward<Check>(check)),
                     detail::as_maker<T, Executor>(std::forward<Make>(make))) {}

    /// Creates a pool that works on the executor of `context` and creates objects with `make`.
    ///
    /// @throws std::invalid_argument as the first constructor
    template <detail::context_of<Executor> Context, detail::maker<T, Executor> Make>
    basic_pool(Context& context, Make&& make, pool_options const& options = {},
               queue_options const& queueing = {})
        : basic_pool(Executor(context.get_executor()), std::forward<Make>(make), options,
                     queueing) {}
    /// Creates a pool that works on the executor of `context`, creates objects with `make` and checks them with
    /// `check`.
    ///
    /// @throws std::invalid_argument as the first constructor
    template <detail::context_of<Executor> Context, detail::maker<T, Executor> Make,
              detail::checker<T> Check>
    basic_pool(Context& context, Make&& make, Check&& check, pool_options const& options = {},
               queue_options const& queueing = {})
        : basic_pool(Executor(context.get_executor()), std::forward<Make>(make),
                     std::forward<Check>(check), options, queueing) {}

    /// Moves the pool. The source may only be destroyed or assigned to.
    basic_pool(basic_pool&&) noexcept = default;
    /// Destroys this pool, which completes its waiting operations with `errc::closed`, and moves `other` here.
    basic_pool& operator=(basic_pool&& other) noexcept {
        basic_pool moved(std::move(other));
        std::swap(handle_, moved.handle_);
        std::swap(supplier_, moved.supplier_);
        return *this;
    }
    /// Completes waiting operations with `errc::closed` and destroys idle objects. Leases in use stay valid.
    ~basic_pool() {
        if (!handle_.core)
            return;
        handle_.core->abandon();
        supplier_->stop();
    }

    /// Returns the executor that the constructor received.
    [[nodiscard]] executor_type get_executor() const noexcept { return handle_.executor; }

    /// Returns an idle object that needs no check, or an empty lease, without waiting and without creating an object.
    /// `ec` holds the reason: `errc::no_permit` or `closed`.
    lease_type try_checkout(error_code& ec) noexcept {
        return detail::lease_access::make<T>(core().try_enter(1, ec));
    }
    /// Returns an idle object that needs no check, or an empty lease.
    lease_type try_checkout() noexcept {
        error_code ignored;
        return try_checkout(ignored);
    }

    /// Waits for an object until the patience ends.
    ///
    ///     auto connection = co_await pool.checkout(1s);
    ///
    /// Await it in a coroutine on any executor. If an idle object needs no check, the call posts nothing. The pool must
    /// exist until the call is awaited. The result also works with `co_spawn` and with the operators `||` and `&&` of
    /// `asio::experimental::awaitable_operators`.
    ///
    /// @return an awaitable of `lease<T>`
    /// @throws checkout_rejection with the `error_code` of `async_checkout`, cancellation included
    [[nodiscard]] auto checkout(patience wait = {}) {
        return detail::enter(*checked_handle(), starts_here(&supplier_, {.length = wait}));
    }
    /// Waits for an object until `deadline` passes on the pool's clock. Otherwise it works like `checkout`.
    [[nodiscard]] auto checkout_until(typename clock_type::time_point deadline) {
        return detail::enter(*checked_handle(),
                             starts_here(&supplier_, detail::wait_until(deadline)));
    }

    /// Waits for an object until the patience ends.
    ///
    /// Completion signature: `void(error_code, lease<T>)`. On an error the lease is empty. Errors: an `errc`, or
    /// `asio::error::operation_aborted`.
    ///
    /// Without a token, await the result in a coroutine on any executor. It returns the lease or throws
    /// `checkout_rejection` like `checkout`. If the executor has a default token, this function uses it instead.
    ///
    /// @throws std::bad_alloc and all that the handler's allocator and its executor throw; then no operation has
    ///   started
    template <boost::asio::completion_token_for<void(error_code, lease<T>)> Token = enter_token>
    auto async_checkout(patience wait, Token&& token = enter_token()) {
        return detail::async_enter(
            *checked_handle(), starts(supplier_, {.length = wait}), std::forward<Token>(token));
    }
    /// Waits for an object until the default patience ends.
    template <boost::asio::completion_token_for<void(error_code, lease<T>)> Token = enter_token>
    auto async_checkout(Token&& token = enter_token()) {
        return async_checkout(patience(), std::forward<Token>(token));
    }
    /// Waits for an object until `deadline` passes on the pool's clock. Otherwise it works like `async_checkout`.
    template <boost::asio::completion_token_for<void(error_code, lease<T>)> Token = enter_token>
    auto async_checkout_until(typename clock_type::time_point deadline,
                              Token&& token = enter_token()) {
        return detail::async_enter(
            *checked_handle(), starts(supplier_, detail::wait_until(deadline)),
            std::forward<Token>(token));
    }

    /// Checks out an object, calls `f(object)`, returns the object and then the result of `f`. If `f` returns an
    /// awaitable, `run` awaits it.
    ///
    /// `f` runs on the executor of the coroutine that awaits `run`. It receives a `T&`, which is valid until `f`, or its
    /// awaitable, has ended. `run` keeps a reference to `f`, which must exist until the call has been awaited.
    ///
    /// @throws checkout_rejection if no object is available, and all that `f` throws
    template <class F>
        requires std::invocable<F&, T&>
    [[nodiscard]] auto run(F&& f, patience wait = {}) {
        detail::check_temporary<F>();
        return detail::run(*checked_handle(), starts_here(&supplier_, {.length = wait}), f);
    }

    /// Returns a copy of the current options. Takes the lock.
    [[nodiscard]] pool_options options() const { return core().options().pool; }

    /// Replaces the options. Call it on any thread; if two threads call it, the changes follow each other.
    ///
    /// A higher `max` takes effect at once: the pool creates objects for requests that wait, and objects up to `min`.
    ///
    /// A lower `max` revokes no lease and rejects no request; waiting requests keep their positions. Before it returns,
    /// `configure` destroys idle objects above `max`, beginning with the object that was idle longest. If there are
    /// still more than `max` objects idle, in use and being checked, the pool destroys each object that is returned,
    /// created or checked, instead of keeping it, until there are `max`. Calls of `make` continue. The pool begins a new
    /// call only when fewer than `max` objects exist, including the ones being created.
    ///
    /// `min`, `order`, `max_age`, `max_idle` and `check_after` apply to all objects at once, and `configure` destroys
    /// objects that are now too old or idle for too long. If neither `max_age`, `max_idle` nor a check was set before,
    /// the pool did not measure idle times, and they begin now. If `max_hold` was not set before, it applies only to
    /// new leases. `check_timeout` and `create_timeout` apply to the calls of `check` and `make` that begin from now on,
    /// and `retry` to the pauses that begin from now on.
    ///
    /// After `close`, it only changes the result of `options()`.
    ///
    /// @throws std::invalid_argument as the constructor, or `std::bad_alloc`; then nothing has changed
    void configure(pool_options const& options) {
        configure([&](pool_options& current) { current = options; });
    }

    /// Changes the options with `change(pool_options&)`; options that it does not assign keep their values.
    ///
    ///     connections.configure([](weir::pool_options& o) { o.max = 50; });
    ///
    /// `change` is called outside the lock, and again if another thread changed the options in the meantime. The new
    /// options take effect as with the other overload.
    ///
    /// @throws std::invalid_argument as the constructor, `std::bad_alloc`, and all that `change` throws; then nothing
    ///   has changed
    template <std::invocable<pool_options&> Change>
    void configure(Change change) {
        core().configure([&](policy::stock::options_type& all) { change(all.pool); });
        trim();
    }

    /// Returns a copy of the current options of the queue. Takes the lock.
    [[nodiscard]] queue_options queueing() const { return core().queueing(); }
    /// Changes the options of the queue with `change(queue_options&)`, as in `basic_limiter`.
    ///
    /// Waiting requests stay, even if more of them wait than the new limit allows, and keep their deadlines.
    ///
    /// @throws std::invalid_argument as the constructor; then nothing has changed
    template <std::invocable<queue_options&> Change>
    void configure_queue(Change change) {
        core().configure_queue([&](queue_options& queueing) {
            change(queueing);
            check(queueing);
        });
    }

    /// Destroys all objects that were idle too long or are too old, before it returns.
    void trim() noexcept {
        static_cast<void>(checked_handle());
        auto const supplier = supplier_;  // the destructor of an object may destroy the pool
        supplier->trim();
        supplier->summon();  // there may be fewer than `min`
    }

    /// Rejects all new requests with `errc::closed`. Waiting requests are still served, and the pool creates objects
    /// for them. This is final.
    void shutdown() noexcept {
        core().shut_down();
        supplier_->shut_down();
    }

    /// Rejects all new and all waiting requests with `errc::closed`, and destroys all idle objects.
    ///
    /// The pool cancels creations and checks, and destroys each object that is returned later. Leases in use stay
    /// valid; `async_drain` waits for their return. This is final.
    void close() noexcept {
        core().close();
        supplier_->stop();
    }

    /// Cancels all operations that wait now, with `asio::error::operation_aborted`: requests, `async_drain` and
    /// `async_wait_overdue`. The pool continues to create objects and keeps them.
    void cancel() noexcept {
        core().cancel();
        supplier_->caller_left();
    }

    /// Waits until no lease is in use and no request waits, as in `basic_limiter`. It does not wait for objects that
    /// are being created without a request.
    ///
    /// Completion signature: `void(error_code)`. Errors: `asio::error::operation_aborted`, and `errc::closed` if the
    /// pool is destroyed.
    template <boost::asio::completion_token_for<void(error_code)> Token = default_token>
    auto async_drain(Token&& token = default_token()) {
        return boost::asio::async_initiate<Token, void(error_code)>(
            drain_initiation(*checked_handle()), token, detail::starts_to_drain());
    }

    /// Waits for a lease that is held longer than `pool_options::max_hold`, as in `basic_limiter`. `overdue::id` is its
    /// `lease::id()`.
    ///
    /// Completion signature: `void(error_code, overdue)`. Errors: `asio::error::operation_aborted`, and `errc::closed`
    /// if the pool is destroyed.
    template <boost::asio::completion_token_for<void(error_code, overdue)> Token = default_token>
    auto async_wait_overdue(Token&& token = default_token()) {
        return boost::asio::async_initiate<Token, void(error_code, overdue)>(
            overdue_initiation(*checked_handle()), token, detail::starts_to_watch());
    }

    /// Calls `who` for each request for an object that waited or was rejected, from now on, in place of the previous
    /// observer; see `basic_limiter::observe`.
    ///
    /// @throws std::bad_alloc; then nothing has changed
    void observe(observer who) { core().observe(detail::shared_observer(std::move(who))); }

    /// Returns the counters since construction and the current state, both of the same instant. Takes the lock and
    /// reads the clock.
    [[nodiscard]] pool_stats stats() const { return core().ask(&stats_of); }

    /// Returns `stats()` and the wait times since construction, both of the same instant, as in `basic_limiter`.
    [[nodiscard]] weir::snapshot<pool_stats> snapshot() const {
        return core().ask([](auto const& room, time_point now) {
            return weir::snapshot<pool_stats>{stats_of(room, now), room.waits()};
        });
    }

private:
    [[nodiscard]] static pool_stats stats_of(
        detail::room<detail::one_slot<policy::stock>> const& room, time_point now) noexcept {
        auto const& n = room.policy().count();
        return {.requests = room.stats(now),
                .idle = n.idle,
                .in_use = n.in_use,
                .being_checked = n.being_checked,
                .being_created = n.being_created,
                .created = n.created,
                .failed = n.failed,
                .discarded = n.discarded,
                .unhealthy = n.unhealthy,
                .retired = n.retired};
    }

    // A request that passes would have no object.
    static queue_options const& check(queue_options const& queueing) {
        if (queueing.dry_run)
            throw std::invalid_argument(
                "weir::queue_options: shared limiters and pools do not support dry_run");
        return queueing;
    }

    basic_pool(Executor const& ex, pool_options const& options, queue_options const& queueing,
               typename supplier_type::checker_type check, typename supplier_type::maker_type make)
        : handle_{core_type::create({.pool = options, .checks = check != nullptr},
                                    basic_pool::check(queueing), ex),
                  ex} {
        try {
            supplier_ = std::make_shared<supplier_type>(
                handle_.core, ex, std::move(make), std::move(check));
            supplier_->begin();
        } catch (...) {
            handle_.core->abandon();
            throw;
        }
    }

    [[nodiscard]] handle_type const* checked_handle() const noexcept {
        BOOST_ASSERT_MSG(handle_.core, "use of a moved-from pool");
        return &handle_;
    }
    [[nodiscard]] core_type& core() const noexcept { return *checked_handle()->core; }

    handle_type handle_;
    std::shared_ptr<supplier_type> supplier_;
};

/// Lends objects, such as connections, to at most `max` callers at a time; see `basic_pool`. It accepts an executor of
/// any type.
template <class T>
using pool = basic_pool<T>;

}  // namespace weir::inline v0_2

WEIR_COMPILED_LIMITER(weir::policy::stock)
