#pragma once

#include <weir/amount.hpp>
#include <weir/detail/asio_host.hpp>
#include <weir/detail/asio_operation.hpp>
#include <weir/detail/chain/link.hpp>
#include <weir/detail/core.hpp>
#include <weir/detail/enter_operation.hpp>
#include <weir/detail/waiting_room.hpp>
#include <weir/error.hpp>
#include <weir/order.hpp>
#include <weir/permit.hpp>
#include <weir/policy/policy.hpp>
#include <weir/queue_options.hpp>
#include <weir/reservation.hpp>
#include <weir/stats.hpp>
#include <weir/time.hpp>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/associated_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/basic_waitable_timer.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/assert.hpp>
#include <boost/container/static_vector.hpp>

#include <algorithm>
#include <chrono>
#include <concepts>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

namespace weir {

/// The timer of a limiter that is not told otherwise: `std::chrono::steady_clock`.
template <class Executor>
using basic_steady_timer = boost::asio::basic_waitable_timer<
    std::chrono::steady_clock, boost::asio::wait_traits<std::chrono::steady_clock>, Executor>;

namespace detail {

template <class Executor>
struct default_token {
    using type = boost::asio::default_completion_token_t<Executor>;
};
template <class Executor>
    requires std::is_void_v<boost::asio::default_completion_token_t<Executor>>
struct default_token<Executor> {
    using type = boost::asio::deferred_t;
};
template <class Executor>
using default_token_t = typename default_token<Executor>::type;

template <class T, class Executor>
struct outcome_of {
    using type = T;
    using executor = Executor;
    static constexpr bool awaited = false;
};
template <class T, class CoroutineExecutor, class Executor>
struct outcome_of<boost::asio::awaitable<T, CoroutineExecutor>, Executor> {
    using type = T;
    using executor = CoroutineExecutor;
    static constexpr bool awaited = true;
};

}  // namespace detail

/// Decides by the rule of `Policy` which requests are granted now, which wait and which are rejected.
///
///     weir::seats kitchen{ex, {.seats = 3}};
///
///     asio::awaitable<void> guest() {
///         auto seat = co_await kitchen.enter(1s);   // waits for up to a second
///         co_await dine();
///     }                                             // the seat is free again
///
/// A permit leaves by itself when it is destroyed. Keep it: `co_await kitchen.enter();` as a whole
/// statement gives the seat back at once. `run` cannot be misused like that.
///
/// Order: requests are granted in the order in which they came. No request overtakes another: while one
/// waits, `try_enter` fails, and a big request at the head holds up the small ones behind it. Whenever a
/// request leaves the line, for whatever reason, the next one is granted at once if it fits.
/// `queue_options::order` chooses another order, and so does `Queue`, one of `weir::order`, by type.
///
/// Checks, in this order: cancelled before it began (`asio::error::operation_aborted`); closed
/// (`errc::closed`); `n == 0`, which is granted at once and takes nothing; more than the policy can ever
/// grant (`errc::exceeds_capacity`); room, and an empty line: granted; the turn would come too late
/// (`errc::deadline_unreachable`); no patience (`errc::timed_out`); the queue is full, or its `max_expected_wait`
/// is too short (`errc::queue_full`). Otherwise the request waits.
///
/// Threads: all members but the destructor, the move constructor and the assignment may be called on any
/// thread at any time. Each takes the limiter's lock; a grant at once is made under it, without a message
/// to the limiter's executor. Requests that wait are served by steps: messages to that executor, of which
/// never two run at a time. So a request waits for longer than it must while nobody runs that context.
/// Only other calls help meanwhile: a request that comes and a permit that comes home serve up to 16
/// requests whose time has come.
///
/// Cancellation: each operation that waits supports `terminal`, `partial` and `total`, and completes with
/// `asio::error::operation_aborted` without having taken anything. As everywhere in Asio, the signal
/// must be emitted where the operation was started, and by one thread at a time. A grant beats a
/// cancellation or a deadline that comes later.
///
/// Completion: on the handler's associated executor, or on the limiter's if it has none; never inside
/// the initiating function, unless an immediate executor bound to the handler asks for it; never under a
/// lock. Each handler is posted by itself, so that the scheduler runs one handler in one turn. Grants
/// have an order; calls of handlers need not have it: two threads may post what they have granted at the
/// same time, and handlers may have different executors.
///
/// Lifetime: destroying the limiter completes all that waits with `errc::closed`. Permits may come home
/// later. Destroying the execution context destroys the handlers that wait, uncalled; limiter and permits
/// may outlive it, but then `get_executor` and the `async_` functions must not be called. The limiter may
/// be destroyed on one thread while its context is destroyed on another. A limiter that was moved from
/// may be assigned to and destroyed, nothing else. As everywhere in Asio, a context must outlive the
/// handlers that are bound to it.
///
/// Executors: the message for a step is posted under the limiter's lock, by whichever thread needs the
/// step. So `execute` of the limiter's executor, with `blocking.never`, must not run the function inside,
/// must not call the limiter nor one of its permits, and must not block on a lock that another thread
/// holds while it destroys a function or uses a limiter. It either keeps the function or throws; if it
/// throws, the next call tries again. The executors of handlers are called outside the lock, on whatever
/// thread has granted, rejected or cancelled the request. Asio's own executors do all that.
///
/// While nothing waits, a limiter has no timer running, keeps no `run()` from returning and holds no
/// memory for operations; once requests have waited in the order `priority` or `fair`, it keeps 1 KiB for the next
/// ones. A loop of grants at once never yields to other coroutines on its thread;
/// `asio::post` does.
template <limiting_policy Policy, class Executor = boost::asio::any_io_executor,
          class Timer = basic_steady_timer<Executor>, class Queue = order::any>
class basic_limiter {
protected:
    using core_type =
        detail::core<detail::waiting_room<Policy, Queue>, detail::asio_host<Executor, Timer>>;

private:
    using handle_type = detail::limiter_handle<core_type, Executor>;
    using enter_initiation = detail::initiation<core_type, Executor, detail::enter_signature>;
    using drain_initiation = detail::initiation<core_type, Executor, detail::drain_signature>;
    using overdue_initiation =
        detail::initiation<core_type, Executor, detail::watch_signature<overdue>>;

public:
    using executor_type = Executor;
    using policy_type = Policy;
    using timer_type = Timer;
    using clock_type = typename Timer::clock_type;
    using options_type = typename Policy::options_type;

    using reservation = basic_reservation<core_type, Executor, clock_type, detail::enter_signature>;

    /// What `async_drain` and `async_wait_overdue` use if no token is given: the executor's own default,
    /// otherwise `asio::deferred`.
    using default_token = detail::default_token_t<Executor>;

    template <class OtherExecutor>
    struct rebind_executor {
        using other =
            basic_limiter<Policy, OtherExecutor,
                          typename Timer::template rebind_executor<OtherExecutor>::other, Queue>;
    };

    /// A limiter whose steps run on `ex`. Throws `std::invalid_argument` that names the option, its value
    /// and the bound, if an option is nonsense.
    explicit basic_limiter(Executor const& ex, options_type const& options = {},
                           queue_options const& queueing = {})
        : handle_{core_type::create(options, queueing, ex), ex} {}

    template <class Context>
        requires std::convertible_to<Context&, boost::asio::execution_context&> &&
                 std::convertible_to<typename Context::executor_type, Executor>
    explicit basic_limiter(Context& context, options_type const& options = {},
                           queue_options const& queueing = {})
        : basic_limiter(Executor(context.get_executor()), options, queueing) {}

    basic_limiter(basic_limiter&&) noexcept = default;
    basic_limiter& operator=(basic_limiter&& other) noexcept {
        basic_limiter moved(std::move(other));
        std::swap(handle_, moved.handle_);
        return *this;
    }
    ~basic_limiter() {
        if (handle_.core)
            handle_.core->abandon();
    }

    /// The executor that was given.
    [[nodiscard]] executor_type get_executor() const noexcept { return handle_.executor; }

    /// Grants `n` permits now or not at all. An empty permit says when to come back, if that is known; the
    /// reason is in `ec`: `errc::no_permit`, `exceeds_capacity` or `closed`. It allocates nothing, but it
    /// may post completion handlers of requests that wait and whose time has come.
    permit try_enter(request n, error_code& ec) noexcept { return core().try_enter(n, ec); }
    permit try_enter(request n = {}) noexcept {
        error_code ignored;
        return core().try_enter(n, ignored);
    }

    /// Grants as many permits as there are now, from 1 up to `max`, or none at all; `count()` of the permit
    /// tells how many. Above what the limiter can ever grant it grants what there is. A smooth limiter grants
    /// what it has saved, and one of which the next request has to wait for; more only `try_enter` takes ahead.
    /// An empty permit says when to come back for one. In all else it is like `try_enter`.
    permit try_enter_up_to(request max, error_code& ec) noexcept {
        return try_enter(up_to(max), ec);
    }
    permit try_enter_up_to(request max) noexcept {
        error_code ignored;
        return try_enter_up_to(max, ignored);
    }

    /// Waits until `n` permits are granted, for as long as the patience lasts, in a coroutine on any
    /// executor: `co_await limiter.enter()`. If they can be granted now, nothing is posted, and only the
    /// frame of a coroutine is allocated, from Asio's cache.
    ///
    /// Throws `rejection` with the `error_code` that `async_enter` completes with, that of a cancellation,
    /// too, and with `retry_after` if that is known.
    ///
    /// The limiter must exist until the awaitable is awaited. It may also be given to `co_spawn`, and to
    /// the operators `||` and `&&` of `asio::experimental::awaitable_operators`.
    [[nodiscard]] auto enter(request n = {}, patience wait = {}) {
        return enter_within(n, {.length = wait});
    }
    [[nodiscard]] auto enter(patience wait) { return enter(request(), wait); }

    /// The same until an instant of the limiter's clock, for callers that have a deadline.
    [[nodiscard]] auto enter_until(typename clock_type::time_point deadline, request n = {}) {
        return enter_within(n, detail::wait_until(deadline));
    }

    /// Waits until `n` permits are granted, for as long as the patience lasts.
    ///
    /// Completion signature: `void(error_code, permit)`. On an error the permit is empty, and says when
    /// to come back, if that is known.
    /// Errors: an `errc`, or `asio::error::operation_aborted`.
    /// Throws what the handler's allocator and its executor throw, and `std::bad_alloc`; then nothing has
    /// been started.
    ///
    /// Without a token it is an operation to be awaited, in a coroutine on any executor: it gives the
    /// permit, or throws `rejection` like `enter`, of which it is the cheapest form. It may be awaited
    /// after the limiter has gone, and then throws `errc::closed`. If the executor has a default token
    /// of its own, that is used instead.
    template <boost::asio::completion_token_for<void(error_code, permit)> Token>
    auto async_enter(request n, patience wait, Token&& token) {
        return initiate_enter(n, {.length = wait}, std::forward<Token>(token));
    }
    template <boost::asio::completion_token_for<void(error_code, permit)> Token>
    auto async_enter(request n, Token&& token) {
        return async_enter(n, patience(), std::forward<Token>(token));
    }
    template <boost::asio::completion_token_for<void(error_code, permit)> Token>
    auto async_enter(patience wait, Token&& token) {
        return async_enter(request(), wait, std::forward<Token>(token));
    }
    template <boost::asio::completion_token_for<void(error_code, permit)> Token>
    auto async_enter(Token&& token) {
        return async_enter(request(), patience(), std::forward<Token>(token));
    }
    [[nodiscard]] auto async_enter(request n = {}, patience wait = {}) {
        return initiate_enter(n, {.length = wait});
    }
    [[nodiscard]] auto async_enter(patience wait) { return async_enter(request(), wait); }

    /// The same until an instant of the limiter's clock, for callers that have a deadline.
    template <boost::asio::completion_token_for<void(error_code, permit)> Token>
    auto async_enter_until(request n, typename clock_type::time_point deadline, Token&& token) {
        return initiate_enter(n, detail::wait_until(deadline), std::forward<Token>(token));
    }
    template <boost::asio::completion_token_for<void(error_code, permit)> Token>
    auto async_enter_until(typename clock_type::time_point deadline, Token&& token) {
        return async_enter_until(request(), deadline, std::forward<Token>(token));
    }
    [[nodiscard]] auto async_enter_until(request n, typename clock_type::time_point deadline) {
        return initiate_enter(n, detail::wait_until(deadline));
    }
    [[nodiscard]] auto async_enter_until(typename clock_type::time_point deadline) {
        return async_enter_until(request(), deadline);
    }

    /// Takes a place in line for `n` permits, and says when its turn comes: see `basic_reservation`. It waits for nothing. If
    /// the turn would come after the patience, or the queue is full, there is no place: `ec` says why, and `retry_after`
    /// when to come back. A place whose turn has not come when the patience ends is rejected then, as a request would be.
    /// For policies that know their schedule: buckets and smooth limiters.
    ///
    /// Without `ec` it throws `rejection`. Throws `std::bad_alloc`, and what the limiter's executor throws.
    reservation reserve(request n, patience wait, error_code& ec)
        requires scheduled_policy<Policy>
    {
        return reservation::take(*checked_handle(), n, wait, ec);
    }
    reservation reserve(request n = {}, patience wait = {})
        requires scheduled_policy<Policy>
    {
        return reservation::take_or_throw(*checked_handle(), n, wait);
    }

    /// Enters, calls `f()`, leaves, and returns what `f` has returned; if `f` returns an awaitable, that is
    /// awaited. Throws `rejection` if the request was not granted, and what `f` throws.
    ///
    /// `f` runs on the executor of the coroutine that awaits this, also after a wait, and not on the
    /// limiter's. If the context ends while the request waits, the coroutine is destroyed and `f` is never
    /// called; if it ends while what `f` has returned is awaited, that is destroyed and the permit leaves.
    ///
    /// `f` is kept by reference: it must live until the call has been awaited, as it does in
    /// `co_await limiter.run(f)`.
    template <class F>
        requires std::invocable<F&>
    [[nodiscard]] auto run(F&& f, request n = {}, patience wait = {}) {
        return run_by_reference(f, n, wait);
    }
    template <class F>
        requires std::invocable<F&>
    [[nodiscard]] auto run(F&& f, patience wait) {
        return run_by_reference(f, request(), wait);
    }

    /// Takes `n` permits without asking for room, and without waiting, for what has been used already. What
    /// did not fit is a debt, and nothing is granted until it is paid. After `shutdown()` or `close()` it
    /// takes nothing, and the permit is empty.
    ///
    /// Throws `std::bad_alloc` if a debt cannot be noted, and `std::invalid_argument` if `n` is above
    /// `max_amount`; then nothing was taken.
    permit charge(request n) { return core().charge(n.count()); }

    /// This limiter in a `chain`, which asks `n` permits of it.
    [[nodiscard]] auto with(request n = {}) const
        requires(!core_type::is_fed)
    {
        return detail::chain_link<core_type, Executor>(*checked_handle(), n);
    }

    /// A copy of the options in force. Takes the lock.
    [[nodiscard]] options_type options() const { return core().options(); }

    /// Goes on with other options. What was used under the old ones stays used. Each request that waits is
    /// looked at again; one that can no longer be granted, or not in time, is rejected at once. Lowering a
    /// limit below what is in use revokes nothing, and nothing is granted until it fits.
    ///
    /// The policy is made of the new options, with all its memory, before the lock is taken. Under the
    /// lock it takes over the state of the old one, and so copies what still counts: for `sliding_log` the
    /// grants that still cool, 16 bytes for each. Requests that wait are looked at in portions, between
    /// which the lock is free.
    ///
    /// Throws like the constructor, and `std::bad_alloc`, changing nothing.
    void configure(options_type const& options) {
        core().configure([&](options_type& current) { current = options; });
    }

    /// The same with `change(options_type&)`, so that what is not named stays as it is. `change` is called
    /// outside the lock, and again if another thread has changed the options meanwhile.
    template <std::invocable<options_type&> Change>
    void configure(Change change) {
        core().configure(std::move(change));
    }

    /// The options of the queue, and a change of them: `change(queue_options&)`. Requests that wait stay,
    /// even if more of them wait than the new limit allows; their deadlines stay, too.
    ///
    /// Throws `std::invalid_argument` like the constructor, changing nothing.
    [[nodiscard]] queue_options queueing() const { return core().queueing(); }
    template <std::invocable<queue_options&> Change>
    void configure_queue(Change change) {
        core().configure_queue(std::move(change));
    }

    /// Rejects all new requests with `errc::closed` from now on; those that wait are served to the end.
    /// Permits that are out stay good. It cannot be undone.
    void shutdown() noexcept { core().shut_down(); }

    /// Rejects all new requests, and all that wait, with `errc::closed`. Permits that are out stay good,
    /// and `async_drain` tells when they have come home. It cannot be undone.
    void close() noexcept { core().close(); }

    /// Cancels all that waits now with `asio::error::operation_aborted`: requests, `async_drain` and
    /// `async_wait_overdue`.
    void cancel() noexcept { core().cancel(); }

    /// Completes when no permit is out and no request waits. It keeps no new request from being granted:
    /// `shutdown()` or `close()` does.
    ///
    /// A permit of count 0 is out like any other, and so is a permit whose completion handler has not been
    /// called yet. A drain completes after the requests that it has waited for, those that were cancelled
    /// included, and drains complete in the order in which they were started; but their handlers may be
    /// called in another order, as the class says.
    ///
    /// Completion signature: `void(error_code)`. Errors: `asio::error::operation_aborted`, and
    /// `errc::closed` if the limiter is destroyed.
    template <boost::asio::completion_token_for<void(error_code)> Token = default_token>
    auto async_drain(Token&& token = default_token()) {
        return boost::asio::async_initiate<Token, void(error_code)>(
            drain_initiation(handle_.core, handle_.executor), token, detail::starts_to_drain());
    }

    /// Waits for a permit that is held for longer than the options of the policy allow, such as
    /// `seats_options::max_hold`. It completes with one permit: wait again for the next.
    ///
    /// Each overdue permit is reported once: to the wait that was started first. If none waits when the
    /// permit becomes overdue, the next wait completes with it at once, unless the permit has come home
    /// by then. The permit that was granted first is reported first.
    ///
    /// While it waits it keeps the context running, like any operation; the timer runs only if a permit
    /// that could become overdue is out. `close()` does not end it; `cancel()` does.
    ///
    /// Completion signature: `void(error_code, overdue)`. Errors: `asio::error::operation_aborted`, and
    /// `errc::closed` if the limiter is destroyed.
    template <boost::asio::completion_token_for<void(error_code, overdue)> Token = default_token>
    auto async_wait_overdue(Token&& token = default_token())
        requires watchful_policy<Policy>
    {
        return boost::asio::async_initiate<Token, void(error_code, overdue)>(
            overdue_initiation(handle_.core, handle_.executor), token, detail::starts_to_watch());
    }

    /// What the limiter has done since it was made, and what it is doing: all of one instant. Takes the
    /// lock and reads the clock.
    [[nodiscard]] limiter_stats stats() const { return core().stats(); }

    /// What the partitions of `queue_order::shares` have and ask for, in no order: all of one instant. Takes the lock.
    [[nodiscard]] boost::container::static_vector<share_stats, partitions::most> shares() const {
        boost::container::static_vector<share_stats, partitions::most> all;
        core().ask([&](auto const& room, time_point) {
            room.each_share([&](share_stats const& one) { all.push_back(one); });
        });
        return all;
    }

    /// The same, with the waits since the limiter was made. The difference of the waits of two snapshots tells
    /// of the time between them, so that several who watch do not disturb each other.
    [[nodiscard]] weir::snapshot<limiter_stats> snapshot() const {
        return core().ask([](auto const& room, time_point now) {
            return weir::snapshot<limiter_stats>{room.stats(now), room.waits()};
        });
    }

protected:
    [[nodiscard]] core_type& core() const noexcept { return *checked_handle()->core; }

private:
    // An executor's own default token, if it has one.
    static constexpr bool has_default_token =
        !std::is_void_v<boost::asio::default_completion_token_t<Executor>>;

    [[nodiscard]] auto enter_within(request n, detail::wait_limit const& limit) {
        detail::enter_operation<handle_type const*> operation(
            checked_handle(), detail::starts_to_enter(n, limit));
        auto coroutine = await_enter(operation);
        return detail::enter_awaitable<handle_type const*, Executor>(
            std::move(operation), std::move(coroutine));
    }

    static boost::asio::awaitable<permit, Executor> await_enter(
        detail::enter_operation<handle_type const*> operation) {
        co_return co_await std::move(operation);
    }

    template <class Token>
    auto initiate_enter(request n, detail::wait_limit const& limit, Token&& token) {
        return boost::asio::async_initiate<Token, void(error_code, permit)>(
            enter_initiation(handle_.core, handle_.executor), token,
            detail::starts_to_enter(n, limit));
    }
    [[nodiscard]] auto initiate_enter(request n, detail::wait_limit const& limit) {
        if constexpr (has_default_token)
            return initiate_enter(n, limit, default_token());
        else
            return detail::enter_operation<handle_type>(
                *checked_handle(), detail::starts_to_enter(n, limit));
    }

    template <class F, class Outcome = detail::outcome_of<std::invoke_result_t<F&>, Executor>>
    boost::asio::awaitable<typename Outcome::type, typename Outcome::executor> run_by_reference(
        F& f, request n, patience wait) {
        auto const permit = co_await enter(n, wait);
        if constexpr (Outcome::awaited)
            co_return co_await f();
        else
            co_return f();
    }

    static request up_to(request const& max) noexcept {
        return max.count() == 0 ? max : request(1, max.count(), max.priority());
    }

    [[nodiscard]] handle_type const* checked_handle() const noexcept {
        BOOST_ASSERT_MSG(handle_.core, "this limiter has been moved from");
        return &handle_;
    }
    handle_type handle_;
};

}  // namespace weir
