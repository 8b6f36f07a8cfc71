#pragma once

#include <weir/amount.hpp>
#include <weir/detail/asio_host.hpp>
#include <weir/detail/asio_operation.hpp>
#include <weir/detail/core.hpp>
#include <weir/detail/frame_memory.hpp>
#include <weir/error.hpp>
#include <weir/permit.hpp>
#include <weir/policy/policy.hpp>
#include <weir/queue_options.hpp>
#include <weir/stats.hpp>
#include <weir/time.hpp>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/associated_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/basic_waitable_timer.hpp>
#include <boost/asio/bind_allocator.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/assert.hpp>

#include <chrono>
#include <concepts>
#include <functional>
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

/// Decides who may go now, who waits and who is turned away, by the rule of `Policy`.
///
///     weir::seats kitchen{ex, {.seats = 3}};
///
///     asio::awaitable<void> guest() {
///         auto seat = co_await kitchen.enter(1s);   // waits for up to a second
///         co_await dine();
///     }                                             // the seat is free again
///
/// Who is granted a permit may go; the permit leaves by itself when it is destroyed. Keep it:
/// `co_await kitchen.enter();` as a whole statement drops the seat at once; `run` cannot be misused
/// like that.
///
/// Order: first come, first served. Nobody overtakes: while somebody waits, `try_enter` fails, and a
/// big request at the head holds up the small ones behind it. Whenever somebody leaves the queue, for
/// whatever reason, the next one is served at once if that can be.
///
/// Checks, in this order: closed; `n == 0`, which is granted at once and takes nothing; more than the
/// policy can ever grant (`errc::exceeds_capacity`); room, and nobody waiting: granted; the turn
/// would come too late (`errc::deadline_unreachable`); no patience (`errc::timed_out`); queue full
/// (`errc::queue_full`); else wait.
///
/// Threads: all members but the destructor, assignment and move may be called on any thread at any
/// time. A grant at once costs a lock and no more; those who wait are served on the limiter's
/// executor, and so they stall while nobody runs its context.
///
/// Cancellation: each waiting operation supports `terminal`, `partial` and `total`, and completes with
/// `asio::error::operation_aborted` without having taken anything. As everywhere in Asio, the signal
/// is to be emitted where the operation was started, one at a time. A grant beats a cancellation, and
/// a deadline, that comes later.
///
/// Completion: on the handler's associated executor, or on the limiter's if it has none; never inside
/// the initiating function, unless an immediate executor bound to the handler asks for it.
///
/// Lifetime: destroying the limiter closes it: those who wait complete with `errc::closed`. Permits
/// may come home later. Destroying the execution context destroys waiting handlers uncalled; limiter
/// and permits may outlive it, but for `get_executor` and the `async_` functions. A limiter that was
/// moved from may be assigned to and destroyed, nothing else. As everywhere in Asio, a context must
/// outlive the handlers that are bound to it, and is not destroyed by one thread while another destroys
/// a limiter on it.
///
/// Nobody waiting, a limiter has no timer running, keeps no `run()` from returning and holds no memory
/// for waiters. A loop of grants at once never yields to others on its thread: `asio::post` does.
template <limiting_policy Policy, class Executor = boost::asio::any_io_executor,
          class Timer = basic_steady_timer<Executor>>
class basic_limiter {
    using core_type = detail::core<Policy, detail::asio_host<Executor, Timer>>;
    using enter_initiation = detail::initiation<core_type, Executor, detail::enter_signature>;
    using drain_initiation = detail::initiation<core_type, Executor, detail::drain_signature>;

public:
    using executor_type = Executor;
    using policy_type = Policy;
    using timer_type = Timer;
    using clock_type = typename Timer::clock_type;
    using options_type = typename Policy::options_type;

    /// What `async_enter` and `async_drain` use if no token is given: the executor's own default, else
    /// `asio::deferred`.
    using default_token = detail::default_token_t<Executor>;

    template <class OtherExecutor>
    struct rebind_executor {
        using other = basic_limiter<Policy, OtherExecutor,
                                    typename Timer::template rebind_executor<OtherExecutor>::other>;
    };

    /// A limiter whose waiters are served on `ex`. Throws `std::invalid_argument` naming the option,
    /// its value and the bound, if an option is nonsense.
    explicit basic_limiter(Executor const& ex, options_type const& options = {},
                           queue_options const& queueing = {})
        : core_(core_type::create(options, queueing, ex)) {}

    template <class Context>
        requires std::convertible_to<Context&, boost::asio::execution_context&> &&
                 std::convertible_to<typename Context::executor_type, Executor>
    explicit basic_limiter(Context& context, options_type const& options = {},
                           queue_options const& queueing = {})
        : basic_limiter(Executor(context.get_executor()), options, queueing) {}

    basic_limiter(basic_limiter&&) noexcept = default;
    basic_limiter& operator=(basic_limiter&& other) noexcept {
        basic_limiter moved(std::move(other));
        core_.swap(moved.core_);
        return *this;
    }
    ~basic_limiter() {
        if (core_)
            core_->abandon();
    }

    /// The executor that was given. Precondition: its context exists.
    [[nodiscard]] executor_type get_executor() const noexcept { return core().host()->executor(); }

    /// Grants `n` permits now, or never: an empty permit says when to come back, if that is known. The
    /// reason is in `ec`: `errc::limited`, `exceeds_capacity` or `closed`.
    permit try_enter(request n, error_code& ec) noexcept { return core().try_enter(n.count(), ec); }
    permit try_enter(request n = {}) noexcept {
        error_code ignored;
        return core().try_enter(n.count(), ignored);
    }

    /// Waits until `n` permits are granted, for as long as the patience lasts. If they can be granted
    /// now, nothing is posted, and only the coroutine's frame is allocated, from Asio's cache.
    ///
    /// Throws `refusal`, with the `error_code` that `async_enter` completes with; that of a
    /// cancellation, too.
    ///
    /// For coroutines on an executor of another type than the limiter's, name it:
    /// `co_await limiter.template enter<asio::io_context::executor_type>()`.
    template <class CoroutineExecutor = Executor>
    [[nodiscard]] boost::asio::awaitable<permit, CoroutineExecutor> enter(request n = {},
                                                                          patience wait = {}) {
        // A coroutine may have asked not to be told of a cancellation by an exception.
        auto const state = co_await boost::asio::this_coro::cancellation_state;
        if (state.cancelled() != boost::asio::cancellation_type::none)
            throw refusal(boost::asio::error::operation_aborted, std::nullopt);

        error_code ec;
        auto granted = core().enter_at_once(n.count(), ec);
        if (!granted) {
            if (ec)
                throw refusal(ec, std::nullopt);
            detail::frame_memory memory;
            granted = co_await async_enter(
                n, wait,
                boost::asio::bind_allocator(
                    detail::frame_allocator<void>(memory),
                    boost::asio::redirect_error(boost::asio::deferred, ec)));
            if (ec)
                throw refusal(ec, granted.retry_after());
        }
        co_return granted;
    }
    template <class CoroutineExecutor = Executor>
    [[nodiscard]] boost::asio::awaitable<permit, CoroutineExecutor> enter(patience wait) {
        return enter<CoroutineExecutor>(request(), wait);
    }

    /// Waits until `n` permits are granted, for as long as the patience lasts.
    ///
    /// Completion signature: `void(error_code, permit)`. On an error the permit is empty, and says when
    /// to come back, if that is known.
    /// Errors: an `errc`, or `asio::error::operation_aborted`.
    /// Throws what the handler's allocator, its executor and `std::bad_alloc` throw; then nothing has
    /// been started.
    template <boost::asio::completion_token_for<void(error_code, permit)> Token = default_token>
    auto async_enter(request n, patience wait, Token&& token = default_token()) {
        return boost::asio::async_initiate<Token, void(error_code, permit)>(
            enter_initiation(core_), token, starts_to_enter(n, wait));
    }
    template <boost::asio::completion_token_for<void(error_code, permit)> Token = default_token>
    auto async_enter(request n, Token&& token = default_token()) {
        return async_enter(n, patience(), std::forward<Token>(token));
    }
    template <boost::asio::completion_token_for<void(error_code, permit)> Token = default_token>
    auto async_enter(patience wait, Token&& token = default_token()) {
        return async_enter(request(), wait, std::forward<Token>(token));
    }
    template <boost::asio::completion_token_for<void(error_code, permit)> Token = default_token>
    auto async_enter(Token&& token = default_token()) {
        return async_enter(request(), patience(), std::forward<Token>(token));
    }

    /// Enters, calls `f()`, leaves, and returns what `f` has returned; if `f` returns an awaitable it
    /// is awaited. Throws `refusal` if it was not let in, and what `f` throws.
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

    /// Takes `n` permits whatever the state of the limiter, in debt if it must be: for what has been
    /// used without asking. An empty permit if the limiter is closed. May throw `std::bad_alloc`, and
    /// `std::invalid_argument` if `n` is above `max_amount`.
    permit charge(request n) { return core().charge(n.count()); }

    [[nodiscard]] options_type options() const { return core().options(); }

    /// Goes on with other options. What was used under the old ones stays used; those who wait are
    /// looked at again: who can no longer be served, or not in time, is told at once. Lowering a limit
    /// below what is in use revokes nothing, and grants nothing until it fits.
    ///
    /// Throws like the constructor, changing nothing.
    void configure(options_type const& options) {
        core().configure([&](options_type& current) { current = options; });
    }

    /// The same with `change(options_type&)`, so that what is not named stays as it is. `change` may
    /// be called more than once, if two threads do this at a time.
    template <std::invocable<options_type&> Change>
    void configure(Change change) {
        core().configure(std::move(change));
    }

    /// Lets nobody in any more: those who wait, and all newcomers, get `errc::closed`. Permits that are
    /// out stay good.
    void close() noexcept { core().close(); }

    /// Cancels whatever is waiting now with `asio::error::operation_aborted`.
    void cancel() noexcept { core().cancel(); }

    /// Completes when no permit is out and nobody waits; does not keep anybody from coming in:
    /// `close()` does.
    ///
    /// Completion signature: `void(error_code)`. Errors: `asio::error::operation_aborted`.
    template <boost::asio::completion_token_for<void(error_code)> Token = default_token>
    auto async_drain(Token&& token = default_token()) {
        return boost::asio::async_initiate<Token, void(error_code)>(
            drain_initiation(core_), token, starts_to_drain());
    }

    /// Has `handler(overdue const&)` called, on the limiter's executor, for each permit that is held
    /// for too long; once for each, and perhaps for several at a time on several threads. An empty
    /// function ends that.
    void on_overdue(std::function<void(overdue const&)> handler)
        requires watchful_policy<Policy>
    {
        core().on_overdue(std::move(handler));
    }

    [[nodiscard]] struct stats stats() const { return core().stats(); }

private:
    class starts_to_enter {
    public:
        starts_to_enter(request n, patience wait) noexcept : n_(n.count()), wait_(wait) {}
        bool operator()(core_type& core, detail::operation& op) const {
            op.count = n_;
            return core.enter(op, wait_);
        }

    private:
        amount n_;
        patience wait_;
    };

    class starts_to_drain {
    public:
        starts_to_drain() noexcept {}
        bool operator()(core_type& core, detail::operation& op) const { return core.drain(op); }
    };

    template <class F, class Outcome = detail::outcome_of<std::invoke_result_t<F&>, Executor>>
    boost::asio::awaitable<typename Outcome::type, typename Outcome::executor> run_by_reference(
        F& f, request n, patience wait) {
        auto const permit = co_await enter<typename Outcome::executor>(n, wait);
        if constexpr (Outcome::awaited)
            co_return co_await f();
        else
            co_return f();
    }

    [[nodiscard]] core_type& core() const noexcept {
        BOOST_ASSERT_MSG(core_, "this limiter has been moved from");
        return *core_;
    }

    std::shared_ptr<core_type> core_;
};

}  // namespace weir
