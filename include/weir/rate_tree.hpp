#pragma once

#include <weir/amount.hpp>
#include <weir/detail/asio_host.hpp>
#include <weir/detail/asio_operation.hpp>
#include <weir/detail/chain/link.hpp>
#include <weir/detail/context_of.hpp>
#include <weir/detail/core_calls.hpp>
#include <weir/detail/default_token.hpp>
#include <weir/detail/observed_events.hpp>
#include <weir/detail/tree/compiled.hpp>
#include <weir/detail/tree/path.hpp>
#include <weir/detail/tree/room.hpp>
#include <weir/detail/tree/start.hpp>
#include <weir/detail/verbs.hpp>
#include <weir/error.hpp>
#include <weir/limiter.hpp>
#include <weir/observer.hpp>
#include <weir/permit.hpp>
#include <weir/policy/rate_tree.hpp>
#include <weir/queue_options.hpp>
#include <weir/stats.hpp>
#include <weir/time.hpp>
#include <weir/tree_path.hpp>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/assert.hpp>

#include <chrono>
#include <concepts>
#include <memory>
#include <optional>
#include <utility>

namespace weir::inline v0_2 {
namespace detail {

struct tree_state_access;  // saved_tree.hpp

}  // namespace detail

/// Limits requests by a tree of rates, such as organisations, teams and users: each node has a guaranteed share of the
/// rate of its parent, lends what it does not use, and borrows up to a bound.
///
///     weir::rate_tree api{ctx, weir::rate_tree_options::parse(
///         "tree / 1000/1s burst 200, /acme 300/1s burst 60 most 600/1s, /acme/* most 20/1s, /* most 50/1s")};
///
///     auto permit = co_await api.enter({"acme", user}, 1s);
///
/// `policy::rate_tree` has the rule and its guarantees, and `policy::rate_tree_turns` the order in which waiting requests
/// of different leaves are granted. The requests of one leaf wait in the order of `queue_options::order`. Otherwise the
/// documentation of `basic_limiter` applies: checks, cancellation, completion, threads, lifetime and executors. The
/// differences follow.
///
/// Paths: a request names a leaf by a `tree_path`. If the options have no node for a name, and no `*` beside it, or if
/// all `keys` of `*` or all `max_keys` of the tree are in use, the request is rejected with `errc::too_many_keys`. If the
/// path ends above a leaf, it is rejected with `errc::exceeds_capacity`.
///
/// Grant times: while requests wait in other leaves, they borrow the same permits. So a grant time is known only if no
/// request waits in another leaf; otherwise a request is not rejected in advance with `errc::deadline_unreachable`, and
/// `retry_after` is absent. There are no reservations.
///
/// Ranges: a request for a range of permits is granted as many as its leaf may take at its turn.
///
/// Keys: a key of `*` is like a new one as soon as it has recovered. It is forgotten then, unless a permit of it exists
/// or a request waits there. Each new key checks 8 others, and 72 if there is no place.
///
/// Memory: a key takes 16 to 52 bytes of state, see `policy::rate_tree`, and about 85 for its name and its places in
/// tables, if the name has at most 15 bytes. While requests wait in a leaf, its line and its turns take about 650 bytes,
/// and each node above it that lends takes about 280. A waiting request takes about 260 bytes.
///
/// Locks: the whole tree has one lock, because each grant takes permits from all nodes above the leaf.
template <class Executor = boost::asio::any_io_executor, class Timer = basic_steady_timer<Executor>>
class basic_rate_tree {
    using room = detail::tree_room;
    using core_type = detail::core<room, detail::asio_host<Executor, Timer>>;
    using handle_type = detail::limiter_handle<core_type, Executor>;
    using enter_token = detail::enter_token_t<Executor>;
    using drain_initiation = detail::initiation<core_type, Executor, detail::drain_signature>;

public:
    /// The executor that serves waiting requests.
    using executor_type = Executor;
    /// The timer that ends waits.
    using timer_type = Timer;
    /// The clock of deadlines.
    using clock_type = typename Timer::clock_type;
    /// The options.
    using options_type = rate_tree_options;

    /// Rebinds this type of limiter to another executor.
    template <class OtherExecutor>
    struct rebind_executor {
        /// The limiter on `OtherExecutor`.
        using other =
            basic_rate_tree<OtherExecutor,
                            typename Timer::template rebind_executor<OtherExecutor>::other>;
    };

    /// Creates a tree, in which each node is full, that serves waiting requests on `ex`.
    ///
    /// @throws std::invalid_argument if an option is out of bounds; the message names the node, the value and the bound
    basic_rate_tree(Executor const& ex, options_type const& options,
                    queue_options const& queueing = {})
        : handle_{core_type::create(options, queueing, ex), ex} {}

    /// Creates a tree that serves waiting requests on the executor of `context`.
    ///
    /// @throws std::invalid_argument as the other constructor
    template <detail::context_of<Executor> Context>
    basic_rate_tree(Context& context, options_type const& options,
                    queue_options const& queueing = {})
        : basic_rate_tree(Executor(context.get_executor()), options, queueing) {}

    /// Moves the limiter. The source may only be destroyed or assigned to.
    basic_rate_tree(basic_rate_tree&&) noexcept = default;
    /// Destroys this limiter, which completes its waiting operations with `errc::closed`, and moves `other` here.
    basic_rate_tree& operator=(basic_rate_tree&& other) noexcept {
        basic_rate_tree moved(std::move(other));
        std::swap(handle_, moved.handle_);
        return *this;
    }
    /// Completes waiting operations with `errc::closed`. Permits in use stay valid.
    ~basic_rate_tree() {
        if (handle_.core)
            handle_.core->abandon();
    }

    /// Returns the executor that the constructor received.
    [[nodiscard]] executor_type get_executor() const noexcept { return handle().executor; }

    /// Grants `n` permits of a leaf now or rejects the request, like `basic_limiter::try_enter`. A new key may allocate.
    permit try_enter(tree_path const& leaf, request n, error_code& ec) noexcept {
        return core().try_enter(n, ec, detail::tree_lookup{leaf});
    }
    /// Grants `n` permits of a leaf now or returns an empty permit. A new key may allocate.
    permit try_enter(tree_path const& leaf, request n = {}) noexcept {
        error_code ignored;
        return try_enter(leaf, n, ignored);
    }

    /// Grants the permits of a leaf that are available now, at least 1 and at most `max`, or rejects the request, like
    /// `basic_limiter::try_enter_up_to`. A new key may allocate.
    permit try_enter_up_to(tree_path const& leaf, request max, error_code& ec) noexcept {
        return try_enter(leaf, detail::up_to(max), ec);
    }
    /// Grants the permits of a leaf that are available now, at least 1 and at most `max`, or returns an empty permit. A
    /// new key may allocate.
    permit try_enter_up_to(tree_path const& leaf, request max) noexcept {
        error_code ignored;
        return try_enter_up_to(leaf, max, ignored);
    }

    /// Decides like `enter` if that needs no wait, like `basic_limiter::enter_at_once`. A new key may allocate.
    [[nodiscard]] permit enter_at_once(tree_path const& leaf, request n, error_code& ec) noexcept {
        return core().enter_at_once(n, ec, detail::tree_lookup{leaf});
    }

    /// Waits until the limiter grants `n` permits of a leaf or the patience ends, like `basic_limiter::enter`. The names
    /// must exist until the call has been awaited.
    [[nodiscard]] auto enter(tree_path const& leaf, request n, patience wait = {}) {
        return enter_within(leaf, n, {.length = wait});
    }
    /// Waits until the limiter grants 1 permit of a leaf or the patience ends, like `basic_limiter::enter`. The names
    /// must exist until the call has been awaited.
    [[nodiscard]] auto enter(tree_path const& leaf, patience wait = {}) {
        return enter(leaf, request(), wait);
    }
    /// Waits until the limiter grants `n` permits of a leaf or `deadline` passes on the limiter's clock. Otherwise it
    /// works like `enter`.
    [[nodiscard]] auto enter_until(tree_path const& leaf, request n,
                                   typename clock_type::time_point deadline) {
        return enter_within(leaf, n, detail::wait_until(deadline));
    }
    /// Waits until the limiter grants 1 permit of a leaf or `deadline` passes on the limiter's clock. Otherwise it works
    /// like `enter`.
    [[nodiscard]] auto enter_until(tree_path const& leaf,
                                   typename clock_type::time_point deadline) {
        return enter_until(leaf, request(), deadline);
    }

    /// Waits until the limiter grants `n` permits of a leaf or the patience ends, like `basic_limiter::async_enter`.
    /// Keeps copies of the names.
    ///
    /// Completion signature: `void(error_code, permit)`. Without a token, await the result in a coroutine on any
    /// executor.
    template <boost::asio::completion_token_for<void(error_code, permit)> Token = enter_token>
    auto async_enter(tree_path const& leaf, request n, patience wait,
                     Token&& token = enter_token()) {
        return async_enter_within(leaf, n, {.length = wait}, std::forward<Token>(token));
    }
    /// Waits until the limiter grants `n` permits of a leaf or the default patience ends. Keeps copies of the names.
    template <boost::asio::completion_token_for<void(error_code, permit)> Token = enter_token>
    auto async_enter(tree_path const& leaf, request n, Token&& token = enter_token()) {
        return async_enter(leaf, n, patience(), std::forward<Token>(token));
    }
    /// Waits until the limiter grants 1 permit of a leaf or the patience ends. Keeps copies of the names.
    template <boost::asio::completion_token_for<void(error_code, permit)> Token = enter_token>
    auto async_enter(tree_path const& leaf, patience wait, Token&& token = enter_token()) {
        return async_enter(leaf, request(), wait, std::forward<Token>(token));
    }
    /// Waits until the limiter grants 1 permit of a leaf or the default patience ends. Keeps copies of the names.
    template <boost::asio::completion_token_for<void(error_code, permit)> Token = enter_token>
    auto async_enter(tree_path const& leaf, Token&& token = enter_token()) {
        return async_enter(leaf, request(), patience(), std::forward<Token>(token));
    }
    /// Waits until the limiter grants `n` permits of a leaf or `deadline` passes on the limiter's clock. Otherwise it
    /// works like `async_enter`.
    template <boost::asio::completion_token_for<void(error_code, permit)> Token = enter_token>
    auto async_enter_until(tree_path const& leaf, request n,
                           typename clock_type::time_point deadline,
                           Token&& token = enter_token()) {
        return async_enter_within(
            leaf, n, detail::wait_until(deadline), std::forward<Token>(token));
    }

    /// Enters for a leaf, calls `f()`, releases the permits and returns the result of `f`, like `basic_limiter::run`.
    ///
    /// `run` keeps references to the names and to `f`.
    template <class F>
        requires std::invocable<F&>
    [[nodiscard]] auto run(tree_path const& leaf, F&& f, request n, patience wait = {}) {
        detail::check_temporary<F>();
        return detail::run(
            handle(),
            detail::starts_to_enter_leaf<detail::path_of_caller>(leaf, n, {.length = wait}), f);
    }
    /// Enters for 1 permit of a leaf, calls `f()`, releases the permit and returns the result of `f`, like
    /// `basic_limiter::run`.
    ///
    /// `run` keeps references to the names and to `f`.
    template <class F>
        requires std::invocable<F&>
    [[nodiscard]] auto run(tree_path const& leaf, F&& f, patience wait = {}) {
        detail::check_temporary<F>();
        return run(leaf, f, request(), wait);
    }

    /// Takes `n` permits of a leaf immediately, even if they are not free, like `basic_limiter::charge`.
    ///
    /// The permit is also empty if the path ends at no leaf, or if the tree cannot keep another key.
    template <detail::number T>
    permit charge(tree_path const& leaf, T n) {
        return core().charge(detail::checked_amount(n, "charge"), detail::tree_lookup{leaf});
    }

    /// Returns a leaf as a part of a `chain`, for `n` permits. Keeps copies of the names.
    [[nodiscard]] auto with(tree_path const& leaf, request n = {}) const {
        return detail::chain_link<core_type, Executor, detail::own_path>(
            handle(), n, detail::own_path(leaf));
    }

    /// Returns a copy of the options.
    [[nodiscard]] options_type options() const {
        return core().ask([](room const& r, time_point) { return r.options(); });
    }
    /// Changes the options, as `policy::rate_tree::configure`: a node with the same path keeps what it has saved, up to
    /// its new burst. All turns begin again. Waiting requests of removed nodes, and requests that are too large now, are
    /// rejected with `errc::exceeds_capacity`. Unused permits of removed nodes are not put back.
    ///
    /// @throws std::invalid_argument as the constructor; then nothing has changed
    /// @throws std::bad_alloc if memory is exhausted; then nothing has changed
    void configure(options_type const& options) {
        core().modify_at(clock_now(), [&](room& r, time_point now) { r.configure(options, now); });
    }

    /// Returns a copy of the options of the queues, which are the same for all leaves.
    [[nodiscard]] queue_options queueing() const { return core().queueing(); }
    /// Changes the options of all queues with `change(queue_options&)`, as in `basic_limiter`.
    ///
    /// @throws std::invalid_argument as the constructor; then nothing has changed
    template <std::invocable<queue_options&> Change>
    void configure_queue(Change change) {
        auto const before = queueing();
        auto wanted = before;
        change(wanted);
        room::check_change(before, wanted);
        core().modify_at(clock_now(), [&](room& r, time_point) { r.set_queueing(wanted); });
    }

    /// Grants nothing to any leaf until `end`; see `basic_limiter::pause_until`.
    void pause_until(typename clock_type::time_point end) noexcept {
        core().pause_until(detail::wait_until(end).until);
    }
    /// Grants nothing to any leaf for `length` from now on; see `basic_limiter::pause_until`.
    ///
    /// @throws std::invalid_argument if the duration is NaN
    template <class Rep, class Period>
    void pause_for(std::chrono::duration<Rep, Period> length) {
        core().pause_until(later(clock_now(), patience(length).length_or(forever)));
    }
    /// Ends a pause.
    void resume() noexcept { core().resume(); }

    /// Rejects all new requests with `errc::closed`. Waiting requests are still served; see `basic_limiter::shutdown`.
    void shutdown() noexcept { core().shut_down(); }
    /// Rejects all new and all waiting requests with `errc::closed`; see `basic_limiter::close`.
    void close() noexcept { core().close(); }
    /// Cancels all operations that wait now.
    void cancel() noexcept { core().cancel(); }
    /// Cancels all requests that wait in one leaf.
    void cancel(tree_path const& leaf) noexcept {
        core().modify_at(clock_now(), [&](room& r, time_point now) {
            r.cancel_leaf(detail::tree_lookup{leaf}, now);
        });
    }

    /// Waits until no permit of any leaf is in use and no request waits; see `basic_limiter::async_drain`.
    ///
    /// Completion signature: `void(error_code)`. Errors: `asio::error::operation_aborted`, and `errc::closed` if the
    /// limiter is destroyed.
    template <boost::asio::completion_token_for<void(error_code)> Token =
                  detail::default_token_t<Executor>>
    auto async_drain(Token&& token = detail::default_token_t<Executor>()) {
        return boost::asio::async_initiate<Token, void(error_code)>(
            drain_initiation(handle()), token, detail::starts_to_drain());
    }

    /// Calls `who` for each request of any leaf that waited or was rejected, from now on, in place of the previous
    /// observer; see `basic_limiter::observe`. An event does not name the leaf.
    ///
    /// @throws std::bad_alloc; then nothing has changed
    void observe(observer who) { core().observe(detail::shared_observer(std::move(who))); }

    /// Returns the counters and the state of all leaves together, and the number of keys.
    [[nodiscard]] keyed_stats stats() const {
        return core().ask([](room const& r, time_point now) {
            return keyed_stats{.total = r.stats(now), .keys = r.keys()};
        });
    }
    /// Returns the counters of all leaves and the wait times since construction, as in `basic_limiter`.
    [[nodiscard]] weir::snapshot<limiter_stats> snapshot() const { return core().snapshot(); }
    /// Returns the state of one node, a leaf or not; nothing if the options have no such node, or if the key was never
    /// used or is forgotten.
    [[nodiscard]] std::optional<rate_tree_stats> stats(tree_path const& node) const {
        std::optional<rate_tree_stats> result;
        core().modify_at(clock_now(), [&](room& r, time_point now) {
            result = r.stats_of(detail::tree_lookup{node}, now);
        });
        return result;
    }

private:
    friend detail::tree_state_access;

    [[nodiscard]] static time_point clock_now() noexcept {
        return detail::asio_host<Executor, Timer>::now();
    }
    [[nodiscard]] handle_type const& handle() const noexcept {
        BOOST_ASSERT_MSG(handle_.core, "use of a moved-from rate tree");
        return handle_;
    }
    [[nodiscard]] core_type& core() const noexcept { return *handle().core; }

    [[nodiscard]] auto enter_within(tree_path const& leaf, request n,
                                    detail::wait_limit const& limit) {
        return detail::enter(handle(),
                             detail::starts_to_enter_leaf<detail::path_of_caller>(leaf, n, limit));
    }
    template <class Token>
    auto async_enter_within(tree_path const& leaf, request n, detail::wait_limit const& limit,
                            Token&& token) {
        return detail::async_enter(
            handle(), detail::starts_to_enter_leaf<detail::own_path>(leaf, n, limit),
            std::forward<Token>(token));
    }

    handle_type handle_;
};

/// Limits requests by a tree of rates; see `basic_rate_tree`.
using rate_tree = basic_rate_tree<>;

}  // namespace weir::inline v0_2

#ifdef WEIR_COMPILED_LIMITERS
WEIR_INSTANTIATE_TREE(extern, weir::basic_steady_timer<boost::asio::any_io_executor>)
#endif
