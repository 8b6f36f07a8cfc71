#pragma once

#include <weir/amount.hpp>
#include <weir/detail/asio_host.hpp>
#include <weir/detail/asio_operation.hpp>
#include <weir/detail/chain/link.hpp>
#include <weir/detail/context_of.hpp>
#include <weir/detail/core_calls.hpp>
#include <weir/detail/default_token.hpp>
#include <weir/detail/enter_operation.hpp>
#include <weir/detail/observed_events.hpp>
#include <weir/detail/room.hpp>
#include <weir/detail/verbs.hpp>
#include <weir/error.hpp>
#include <weir/observer.hpp>
#include <weir/order.hpp>
#include <weir/permit.hpp>
#include <weir/policy/policy.hpp>
#include <weir/queue_options.hpp>
#include <weir/reservation.hpp>
#include <weir/stats.hpp>
#include <weir/time.hpp>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/basic_waitable_timer.hpp>
#include <boost/assert.hpp>
#include <boost/container/static_vector.hpp>

#include <algorithm>
#include <chrono>
#include <concepts>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

namespace weir::inline v0_2 {
namespace detail {

struct state_access;  // saved_state.hpp

}  // namespace detail

/// The default timer of a limiter: it measures `std::chrono::steady_clock`.
template <class Executor>
using basic_steady_timer = boost::asio::basic_waitable_timer<
    std::chrono::steady_clock, boost::asio::wait_traits<std::chrono::steady_clock>, Executor>;

/// Grants, queues or rejects requests by the rule of `Policy`.
///
///     weir::seats workers{ctx, {.seats = 3}};
///
///     asio::awaitable<void> handle(job next) {
///         auto seat = co_await workers.enter(1s);   // waits for up to a second
///         co_await process(next);
///     }                                             // releases the seat
///
/// A permit is released when it is destroyed, so keep it in a variable. `co_await workers.enter();` as a whole
/// statement releases the seat immediately. `run` avoids this mistake.
///
/// Order: the limiter grants requests in arrival order. While a request waits, `try_enter` fails, and a large request
/// at the head blocks smaller requests behind it. When a request leaves the queue, for any reason, the limiter grants
/// the next request immediately if it fits. `queue_options::order` selects another order at run time; `Queue`, a type
/// of `weir::order`, selects it at compile time.
///
/// Checks: the first one that applies decides.
/// 1. The operation was cancelled before it started: `asio::error::operation_aborted`.
/// 2. The limiter is closed: `errc::closed`.
/// 3. The request is for 0 permits: granted; it takes nothing.
/// 4. The policy can never grant so large a request: `errc::exceeds_capacity`.
/// 5. No request waits and the permits are free: granted.
/// 6. The permits would come after the patience ends: `errc::deadline_unreachable`.
/// 7. The patience is 0: `errc::timed_out`.
/// 8. The queue is full, or the expected wait exceeds its `max_expected_wait`: `errc::queue_full`.
/// 9. Otherwise the request waits.
///
/// Threads: call any member on any thread at any time, except the destructor, the move constructor and the assignment.
/// Each call takes the limiter's lock, but a free seat is granted and released by one atomic instruction. An immediate
/// grant needs no message to the limiter's executor. That executor serves waiting requests, one step at a time. While no thread runs its context, waiting
/// requests wait longer than they must; only other calls serve them: a new request or a released permit serves up to 16
/// requests.
///
/// Completion: a handler runs on its associated executor, or else on the limiter's. It never runs under a lock, and
/// inside the initiating function only if it has an immediate executor that allows this. Each handler is posted
/// separately, so that an Asio scheduler can run other work between two of them. Grants have an order; handlers on
/// several threads or executors may run in a different one.
///
/// Cancellation: waiting operations support `terminal`, `partial` and `total`. A cancelled operation completes with
/// `asio::error::operation_aborted` and takes nothing. A grant wins over a later cancellation or deadline. Emit the
/// signal on the executor that started the operation, from one thread at a time, as everywhere in Asio.
///
/// Lifetime: destroying the limiter completes waiting operations with `errc::closed`. Permits may outlive the limiter,
/// and both may outlive the execution context. Destroying the context destroys waiting handlers without a call; after
/// that, do not call `get_executor` or any `async_` function. One thread may destroy the limiter while another destroys
/// its context. Only destroy or assign to a moved-from limiter. As everywhere in Asio, a context must outlive the
/// handlers that are bound to it. A handler must not own the last reference to the limiter's context: if its executor
/// drops it, the destruction of the context waits for the thread that destroys the handler, and so for itself.
///
/// Executors: the limiter calls `execute` of its executor, with `blocking.never`, under its lock, on any thread that
/// uses the limiter. That function must not run its argument inline, call the limiter or its permits, or block on a
/// lock that another thread holds while it destroys a function or uses a limiter. It must store its argument or throw;
/// after an exception the next call retries. The limiter calls the executors of handlers outside the lock, on the
/// thread that granted, rejected or cancelled the request. Asio's executors meet these rules.
///
/// Cost: without waiting requests a limiter has no running timer, keeps no context running, and holds no memory for
/// operations, except 1 KiB after the first wait in the order `priority`, or of each class in the order `fair`. Immediate
/// grants never yield: use `asio::post` in a loop that must let other coroutines run.
template <limiting_policy Policy, class Executor = boost::asio::any_io_executor,
          class Timer = basic_steady_timer<Executor>, class Queue = order::any>
class basic_limiter {
protected:
    using core_type = detail::core<detail::room<detail::one_slot<Policy, Queue>>,
                                   detail::asio_host<Executor, Timer>>;
    using handle_type = detail::limiter_handle<core_type, Executor>;

private:
    using enter_token = detail::enter_token_t<Executor>;
    using drain_initiation = detail::initiation<core_type, Executor, detail::drain_signature>;
    using overdue_initiation =
        detail::initiation<core_type, Executor, detail::watch_signature<overdue>>;

public:
    /// The executor that serves waiting requests.
    using executor_type = Executor;
    /// The rule by which the limiter grants permits.
    using policy_type = Policy;
    /// The timer that ends waits.
    using timer_type = Timer;
    /// The clock of deadlines.
    using clock_type = typename Timer::clock_type;
    /// The options of the policy, such as `seats_options`.
    using options_type = typename Policy::options_type;

    /// A position in the queue with a known grant time.
    using reservation = basic_reservation<core_type, Executor, clock_type, detail::enter_signature>;

    /// The default token of `async_drain` and `async_wait_overdue`: the executor's own default token, or else
    /// `asio::deferred`.
    using default_token = detail::default_token_t<Executor>;

    /// Rebinds this type of limiter to another executor.
    template <class OtherExecutor>
    struct rebind_executor {
        /// The limiter on `OtherExecutor`.
        using other =
            basic_limiter<Policy, OtherExecutor,
                          typename Timer::template rebind_executor<OtherExecutor>::other, Queue>;
    };

    /// Creates a limiter whose waiting requests are served on `ex`.
    ///
    /// @throws std::invalid_argument if an option is out of bounds; the message names the option, its value and the
    ///   bound
    explicit basic_limiter(Executor const& ex, options_type const& options = {},
                           queue_options const& queueing = {})
        : handle_{core_type::create(options, queueing, ex), ex} {}

    /// Creates a limiter whose waiting requests are served on the executor of `context`.
    ///
    /// @throws std::invalid_argument as the other constructor
    template <detail::context_of<Executor> Context>
    explicit basic_limiter(Context& context, options_type const& options = {},
                           queue_options const& queueing = {})
        : basic_limiter(Executor(context.get_executor()), options, queueing) {}

    /// Moves the limiter. The source may only be destroyed or assigned to.
    basic_limiter(basic_limiter&&) noexcept = default;
    /// Destroys this limiter, which completes its waiting operations with `errc::closed`, and moves `other` here.
    basic_limiter& operator=(basic_limiter&& other) noexcept {
        basic_limiter moved(std::move(other));
        std::swap(handle_, moved.handle_);
        return *this;
    }
    /// Completes waiting operations with `errc::closed`. Permits in use stay valid.
    ~basic_limiter() {
        if (handle_.core)
            handle_.core->abandon();
    }

    /// Returns the executor that the constructor received.
    [[nodiscard]] executor_type get_executor() const noexcept { return handle_.executor; }

    /// Grants `n` permits now or rejects the request, without waiting.
    ///
    /// An empty permit has a `retry_after` if it is known, and `ec` holds the reason: `errc::no_permit`,
    /// `exceeds_capacity` or `closed`. It allocates nothing, but may post completion handlers of waiting requests that
    /// can be granted.
    permit try_enter(request n, error_code& ec) noexcept { return core().try_enter(n, ec); }
    /// Grants `n` permits now or returns an empty permit.
    permit try_enter(request n = {}) noexcept {
        error_code ignored;
        return core().try_enter(n, ignored);
    }

    /// Grants the permits that are available now, at least 1 and at most `max`, or rejects the request.
    ///
    /// `count()` of the permit is the number of permits. If `max` exceeds the capacity, it grants the available permits
    /// all the same. A smooth limiter grants its saved permits and one for which the next request has to wait; only
    /// `try_enter` takes more in advance. The `retry_after` of an empty permit is for 1 permit. Otherwise it works like
    /// `try_enter`.
    permit try_enter_up_to(request max, error_code& ec) noexcept {
        return try_enter(detail::up_to(max), ec);
    }
    /// Grants the permits that are available now, at least 1 and at most `max`, or returns an empty permit.
    permit try_enter_up_to(request max) noexcept {
        error_code ignored;
        return try_enter_up_to(max, ignored);
    }

    /// Decides like `enter` if that needs no wait: grants `n` permits now, or rejects the request and sets `ec`.
    ///
    /// Otherwise the permit is empty and `ec` is clear: call `enter` or `async_enter`, which decides. The limiter does not
    /// count such a call, while a rejection by `try_enter` is final. So a program with handlers needs an operation, and its
    /// memory, only for requests that wait. It allocates nothing.
    [[nodiscard]] permit enter_at_once(request n, error_code& ec) noexcept {
        return core().enter_at_once(n, ec);
    }

    /// Waits until the limiter grants `n` permits or the patience ends.
    ///
    ///     auto seat = co_await limiter.enter(1s);
    ///
    /// The queue has a bound: while `queue_options::max_waiting` requests wait, by default 1,024, this throws `rejection`
    /// with `errc::queue_full`. A program that starts many jobs at once, and wants all of them done, makes a limiter with
    /// `{.max_waiting = weir::unlimited}`. `asio::detached` ignores the exception of a rejected job.
    ///
    /// Await it in a coroutine on any executor. This is the cheapest form: if the permits are free, it posts nothing and
    /// allocates nothing. A wait adds no allocation either: the frame of the awaiting coroutine has space for it.
    ///
    /// The limiter must exist until the call is awaited. The result converts to `asio::awaitable<permit, Executor>`, and
    /// works with `co_spawn` and with the operators `||` and `&&` of `asio::experimental::awaitable_operators`. There it
    /// becomes a coroutine.
    ///
    /// @param n     permits to acquire; default 1
    /// @param wait  patience: longest time to wait; default `queue_options::patience`
    /// @return an operation whose result is a `permit`
    /// @throws rejection with the `error_code` of `async_enter`, cancellation included, and with `retry_after` if it is
    ///   known
    [[nodiscard]] auto enter(request n, patience wait = {}) {
        return detail::enter(*checked_handle(), detail::starts_to_enter(n, {.length = wait}));
    }
    /// Waits until the limiter grants 1 permit or the patience ends.
    [[nodiscard]] auto enter(patience wait = {}) { return enter(request(), wait); }

    /// Waits until the limiter grants `n` permits or `deadline` passes on the limiter's clock. Otherwise it works like
    /// `enter`.
    [[nodiscard]] auto enter_until(request n, typename clock_type::time_point deadline) {
        return detail::enter(*checked_handle(),
                             detail::starts_to_enter(n, detail::wait_until(deadline)));
    }
    /// Waits until the limiter grants 1 permit or `deadline` passes on the limiter's clock.
    [[nodiscard]] auto enter_until(typename clock_type::time_point deadline) {
        return enter_until(request(), deadline);
    }

    /// Waits until the limiter grants `n` permits or the patience ends.
    ///
    /// Completion signature: `void(error_code, permit)`. On an error the permit is empty and has a `retry_after` if it
    /// is known. Errors: an `errc`, or `asio::error::operation_aborted`.
    ///
    /// Without a token, await the result in a coroutine on any executor. It returns the permit or throws `rejection`
    /// like `enter`, but costs less. If the limiter is destroyed before the `co_await`, that throws `errc::closed`. If
    /// the executor has a default token, this function uses it instead.
    ///
    /// @throws std::bad_alloc and all that the handler's allocator and its executor throw; then no operation has
    ///   started
    template <boost::asio::completion_token_for<void(error_code, permit)> Token = enter_token>
    auto async_enter(request n, patience wait, Token&& token = enter_token()) {
        return detail::async_enter(*checked_handle(), detail::starts_to_enter(n, {.length = wait}),
                                   std::forward<Token>(token));
    }
    /// Waits until the limiter grants `n` permits or the default patience ends.
    template <boost::asio::completion_token_for<void(error_code, permit)> Token = enter_token>
    auto async_enter(request n, Token&& token = enter_token()) {
        return async_enter(n, patience(), std::forward<Token>(token));
    }
    /// Waits until the limiter grants 1 permit or the patience ends.
    template <boost::asio::completion_token_for<void(error_code, permit)> Token = enter_token>
    auto async_enter(patience wait, Token&& token = enter_token()) {
        return async_enter(request(), wait, std::forward<Token>(token));
    }
    /// Waits until the limiter grants 1 permit or the default patience ends.
    template <boost::asio::completion_token_for<void(error_code, permit)> Token = enter_token>
    auto async_enter(Token&& token = enter_token()) {
        return async_enter(request(), patience(), std::forward<Token>(token));
    }

    /// Waits until the limiter grants `n` permits or `deadline` passes on the limiter's clock. Otherwise it works like
    /// `async_enter`.
    template <boost::asio::completion_token_for<void(error_code, permit)> Token = enter_token>
    auto async_enter_until(request n, typename clock_type::time_point deadline,
                           Token&& token = enter_token()) {
        return detail::async_enter(
            *checked_handle(), detail::starts_to_enter(n, detail::wait_until(deadline)),
            std::forward<Token>(token));
    }
    /// Waits until the limiter grants 1 permit or `deadline` passes on the limiter's clock. Otherwise it works like
    /// `async_enter`.
    template <boost::asio::completion_token_for<void(error_code, permit)> Token = enter_token>
    auto async_enter_until(typename clock_type::time_point deadline,
                           Token&& token = enter_token()) {
        return async_enter_until(request(), deadline, std::forward<Token>(token));
    }

    /// Reserves a position in the queue for `n` permits and returns its grant time; see `basic_reservation`. It does
    /// not wait.
    ///
    /// If the grant time is after the end of the patience, or the queue is full, the reservation is empty: `ec` holds
    /// the reason, and `retry_after` the time until a retry is useful. A reservation that has not reached its grant
    /// time when the patience ends is rejected then, like a waiting request. Only policies with a known schedule
    /// support this: buckets, smooth limiters, `sliding_log`, `sliding_window` and `fixed_window`.
    ///
    /// Cost: constant for buckets and smooth limiters. For the others the amounts of the requests ahead count: the first
    /// reservation after the queue or the limiter changed looks at each of them under the lock, and the next ones only at
    /// requests that came since. A grant, a departure, a refund, a charge, a pause or other options are such a change. The
    /// memory is up to 16 bytes for each of these requests, until the next change. `queue_options::max_waiting` bounds
    /// both.
    ///
    /// @throws std::bad_alloc and all that the limiter's executor throws
    reservation reserve(request n, patience wait, error_code& ec)
        requires scheduled_policy<Policy>
    {
        return reservation::take(*checked_handle(), n, wait, ec);
    }
    /// Reserves a position in the queue for `n` permits and returns its grant time. It does not wait.
    ///
    /// @throws rejection if the request is rejected
    /// @throws std::bad_alloc and all that the limiter's executor throws
    reservation reserve(request n = {}, patience wait = {})
        requires scheduled_policy<Policy>
    {
        return reservation::take_or_throw(*checked_handle(), n, wait);
    }

    /// Enters, calls `f()`, releases the permits and returns the result of `f`. If `f` returns an awaitable, `run`
    /// awaits it.
    ///
    /// `f` runs on the executor of the coroutine that awaits `run`, also after a wait, and not on the limiter's
    /// executor. If the context ends while the request waits, the coroutine is destroyed without a call of `f`. If it
    /// ends while the awaitable of `f` runs, that awaitable is destroyed and the permits are released.
    ///
    /// `run` keeps a reference to `f`, which must exist until the call has been awaited, as in `co_await
    /// limiter.run(f)`.
    ///
    /// With g++ 12 name `f` first if it has a destructor, as a lambda with a captured string has. This compiler destroys
    /// such a temporary twice, so `run` rejects it at compile time.
    ///
    /// @throws rejection if the request is not granted, and all that `f` throws
    template <class F>
        requires std::invocable<F&>
    [[nodiscard]] auto run(F&& f, request n, patience wait = {}) {
        detail::check_temporary<F>();
        return detail::run(*checked_handle(), detail::starts_to_enter(n, {.length = wait}), f);
    }
    /// Enters for 1 permit, calls `f()`, releases the permit and returns the result of `f`.
    template <class F>
        requires std::invocable<F&>
    [[nodiscard]] auto run(F&& f, patience wait = {}) {
        detail::check_temporary<F>();
        return run(f, request(), wait);
    }

    /// Takes `n` permits immediately, even if they are not free. Use it for work that is already done.
    ///
    /// Permits beyond the free ones are a debt, and the limiter grants none until the debt is paid. After `shutdown()`
    /// or `close()` it takes nothing and returns an empty permit.
    ///
    /// @throws std::bad_alloc if the debt cannot be recorded
    /// @throws std::invalid_argument if `n` exceeds `max_amount`; in both cases nothing is taken
    template <detail::number T>
    permit charge(T n) {
        return core().charge(detail::checked_amount(n, "charge"));
    }

    /// Returns this limiter as a part of a `chain`, for `n` permits.
    [[nodiscard]] auto with(request n = {}) const {
        static_assert(!core_type::is_fed,
                      "weir::chain: a shared limiter cannot be in a chain, because its store, "
                      "outside this process, grants the permits. Enter it separately");
        return detail::chain_link<core_type, Executor>(*checked_handle(), n);
    }

    /// Returns a copy of the current options. Takes the lock.
    [[nodiscard]] options_type options() const { return core().options(); }

    /// Replaces the options. Permits in use and permits that a rate still counts keep counting.
    ///
    /// The limiter checks each waiting request again, and rejects immediately a request that it can no longer grant, or
    /// not in time. A limit below the number of permits in use revokes no permit; the limiter grants none until they
    /// fit.
    ///
    /// The new policy is built, with all its memory, before the lock is taken. Under the lock it copies the state that
    /// still counts: for `sliding_log` the grants that have not expired, 16 bytes each. The limiter checks waiting
    /// requests in portions, and releases the lock between them.
    ///
    /// @throws std::invalid_argument as the constructor, or `std::bad_alloc`; then nothing has changed
    void configure(options_type const& options) {
        core().configure([&](options_type& current) { current = options; });
    }

    /// Changes the options with `change(options_type&)`; options that it does not assign keep their values.
    ///
    /// `change` is called outside the lock, and again if another thread changed the options in the meantime.
    ///
    /// @throws std::invalid_argument as the constructor, or `std::bad_alloc`; then nothing has changed
    template <std::invocable<options_type&> Change>
    void configure(Change change) {
        core().configure(change);
    }

    /// Returns a copy of the current options of the queue.
    [[nodiscard]] queue_options queueing() const { return core().queueing(); }
    /// Changes the options of the queue with `change(queue_options&)`.
    ///
    /// Waiting requests stay, even if more of them wait than the new limit allows, and keep their deadlines.
    ///
    /// @throws std::invalid_argument as the constructor; then nothing has changed
    template <std::invocable<queue_options&> Change>
    void configure_queue(Change change) {
        core().configure_queue(change);
    }

    /// Grants nothing until `end`, an instant of the limiter's clock. Waiting requests keep their positions.
    ///
    /// Use it when the service behind the limiter tells all callers to wait, for instance with `Retry-After`. Of two
    /// pauses the later end applies; `resume` ends a pause early.
    ///
    /// The policy continues to free permits during the pause: a bucket is full afterwards. The grant times of all
    /// requests include the pause, and so does `retry_after`. The limiter checks each waiting request again, and
    /// rejects immediately a request whose patience ends before its grant time, with `errc::deadline_unreachable`.
    /// Permits in use stay valid, and `charge` still takes permits.
    void pause_until(typename clock_type::time_point end) noexcept {
        core().pause_until(detail::wait_until(end).until);
    }
    /// Grants nothing for `length` from now on; see `pause_until`. Zero and negative durations have no effect.
    ///
    /// @throws std::invalid_argument if the duration is NaN
    template <class Rep, class Period>
    void pause_for(std::chrono::duration<Rep, Period> length) {
        auto const now = detail::asio_host<Executor, Timer>::now();
        core().pause_until(later(now, patience(length).length_or(forever)));
    }
    /// Ends a pause: grants what the policy allows now.
    void resume() noexcept { core().resume(); }

    /// Rejects all new requests with `errc::closed`. Waiting requests are still served, and permits in use stay valid.
    /// This is final.
    void shutdown() noexcept { core().shut_down(); }

    /// Rejects all new and all waiting requests with `errc::closed`. Permits in use stay valid; `async_drain` waits for
    /// their release. This is final.
    void close() noexcept { core().close(); }

    /// Cancels all operations that wait now, with `asio::error::operation_aborted`: requests, `async_drain` and
    /// `async_wait_overdue`.
    void cancel() noexcept { core().cancel(); }

    /// Waits until no permit is in use and no request waits. New requests are still granted, except after `shutdown()`
    /// or `close()`.
    ///
    /// A permit of count 0 counts as in use, and so does a permit whose completion handler has not been called yet. A
    /// drain completes after the requests for which it waited, cancelled requests included. Drains complete in the
    /// order in which they started, but their handlers may run in another order: see Completion in `basic_limiter`.
    ///
    /// Completion signature: `void(error_code)`. Errors: `asio::error::operation_aborted`, and `errc::closed` if the
    /// limiter is destroyed.
    template <boost::asio::completion_token_for<void(error_code)> Token = default_token>
    auto async_drain(Token&& token = default_token()) {
        return boost::asio::async_initiate<Token, void(error_code)>(
            drain_initiation(*checked_handle()), token, detail::starts_to_drain());
    }

    /// Waits for a permit that is held longer than the policy allows, such as `seats_options::max_hold`. It completes
    /// with one permit: wait again for the next.
    ///
    /// Each overdue permit is reported once, to the oldest wait. If no wait exists when the permit becomes overdue, the
    /// next wait completes with it immediately, unless the permit has been released by then. The oldest grant is
    /// reported first.
    ///
    /// The wait keeps the context running, like any operation. The timer runs only while a permit in use could become
    /// overdue. `cancel()` ends the wait; `close()` does not.
    ///
    /// Completion signature: `void(error_code, overdue)`. Errors: `asio::error::operation_aborted`, and `errc::closed`
    /// if the limiter is destroyed.
    template <boost::asio::completion_token_for<void(error_code, overdue)> Token = default_token>
    auto async_wait_overdue(Token&& token = default_token())
        requires watchful_policy<Policy>
    {
        return boost::asio::async_initiate<Token, void(error_code, overdue)>(
            overdue_initiation(*checked_handle()), token, detail::starts_to_watch());
    }

    /// Calls `who` for each request that waited or was rejected, from now on, in place of the previous observer.
    ///
    ///     workers.observe([&](weir::request_event const& e) {
    ///         if (e.error)
    ///             rejected_requests.add(1, e.error.message());
    ///         if (e.waited)
    ///             waits.record(*e.waited);
    ///     });
    ///
    /// Each event corresponds to a count of `stats`. A request that was granted immediately has no event. A granted
    /// chain has an event at each limiter in whose queue it waited, with the time in that queue. A rejected chain has an
    /// event at the limiter that rejected it. Without an observer, the cost is one branch for each request that waits or is
    /// rejected. An empty `who` ends the calls.
    ///
    /// The limiter calls `who` outside all its locks, on the thread that decided: the caller of `try_enter` or `enter`, a
    /// thread that releases a permit, or the limiter's executor; on several threads at once if several use the limiter.
    /// Events have no order among each other. Except in a chain, the call ends before the completion handler of the
    /// request is posted, and before a rejecting function returns, so a slow observer delays them. It may use the limiter.
    /// The limiter ignores an exception of `who`. If memory is exhausted, the event of a request that did not wait may
    /// be lost.
    ///
    /// The limiter destroys `who` when no request waits after the limiter was destroyed, or when its context ends: then
    /// requests that wait have no event. A call on another thread may still be in progress when this function returns.
    ///
    /// @throws std::bad_alloc; then nothing has changed
    void observe(observer who) { core().observe(detail::shared_observer(std::move(who))); }

    /// Returns the counters since construction and the current state, both of the same instant. Takes the lock and
    /// reads the clock.
    [[nodiscard]] limiter_stats stats() const { return core().stats(); }

    /// Returns the use and the waiting requests of each partition of `queue_order::shares`, in the order of
    /// `queue_options::partitions`, all of the same instant. Takes the lock.
    [[nodiscard]] boost::container::static_vector<share_stats, partitions::max_size> shares()
        const {
        return core().shares();
    }

    /// Returns `stats()` and the wait times since construction, both of the same instant.
    ///
    /// To measure an interval, subtract the wait times of two snapshots. Several observers can do this independently.
    [[nodiscard]] weir::snapshot<limiter_stats> snapshot() const { return core().snapshot(); }

protected:
    [[nodiscard]] core_type& core() const noexcept { return *checked_handle()->core; }
    [[nodiscard]] handle_type const* checked_handle() const noexcept {
        BOOST_ASSERT_MSG(handle_.core, "use of a moved-from limiter");
        return &handle_;
    }

private:
    friend detail::state_access;

    handle_type handle_;
};

namespace detail {

/// The policy that a limiter or a policy names.
template <class T>
struct policy_of {
    using type = T;
};
template <class Policy, class Executor, class Timer, class Queue>
struct policy_of<basic_limiter<Policy, Executor, Timer, Queue>> {
    using type = Policy;
};

/// The type of a limiter with another timer.
template <class Limiter, class Timer>
struct with_timer {
    static_assert(!std::is_same_v<Timer, Timer>,
                  "weir: only a limiter without keys, such as weir::seats, can be named here. For "
                  "others use weir::testing::keyed and weir::testing::pool, or name the timer as "
                  "an argument of the template");
    using type = Limiter;
};
template <class Policy, class Executor, class Before, class Queue, class Timer>
struct with_timer<basic_limiter<Policy, Executor, Before, Queue>, Timer> {
    using type = basic_limiter<Policy, Executor, Timer, Queue>;
};
template <class Limiter, template <class> class Timer>
using with_timer_t = typename with_timer<Limiter, Timer<typename Limiter::executor_type>>::type;

}  // namespace detail

}  // namespace weir::inline v0_2
