#pragma once

#include <weir/amount.hpp>
#include <weir/detail/asio_host.hpp>
#include <weir/detail/asio_operation.hpp>
#include <weir/detail/chain/link.hpp>
#include <weir/detail/context_of.hpp>
#include <weir/detail/core_calls.hpp>
#include <weir/detail/default_token.hpp>
#include <weir/detail/keyed/compiled.hpp>
#include <weir/detail/keyed/heaviest.hpp>
#include <weir/detail/keyed/room.hpp>
#include <weir/detail/keyed/shards.hpp>
#include <weir/detail/keyed/start.hpp>
#include <weir/detail/observed_events.hpp>
#include <weir/detail/published.hpp>
#include <weir/detail/verbs.hpp>
#include <weir/error.hpp>
#include <weir/key_hash.hpp>
#include <weir/keyed_options.hpp>
#include <weir/limiter.hpp>
#include <weir/observer.hpp>
#include <weir/order.hpp>
#include <weir/permit.hpp>
#include <weir/policy/limiter_config.hpp>
#include <weir/policy/policy.hpp>
#include <weir/policy/rule.hpp>
#include <weir/queue_options.hpp>
#include <weir/reservation.hpp>
#include <weir/stats.hpp>
#include <weir/time.hpp>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/compose.hpp>
#include <boost/assert.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#ifdef WEIR_COMPILED_LIMITERS
#include <weir/policy/seats.hpp>
#include <weir/policy/token_bucket.hpp>

#include <string>
#include <string_view>
#endif

namespace weir::inline v0_2 {

namespace detail {

/// Throws `std::invalid_argument` if `max_hold` is not `forever`.
void check_not_watched(duration max_hold);
void check_not_watched(limiter_config const& config);
template <class Options>
void check_not_watched(Options const& options) {
    if constexpr (requires { options.max_hold; })
        check_not_watched(options.max_hold);
}
template <class... Options>
void check_not_watched(std::tuple<Options...> const& options) {
    std::apply([](auto const&... o) { (check_not_watched(o), ...); }, options);
}

[[noreturn]] void throw_no_place();

}  // namespace detail

/// Limits each of many keys, such as clients, separately by the rule of `Policy`: keys do not wait for each other.
///
///     weir::keyed<std::uint64_t, weir::policy::token_bucket> per_client{ctx, {.rate = {10, 1s}}};
///
///     asio::awaitable<void> serve(tcp::socket socket) {
///         auto const key = weir::client_key(socket.remote_endpoint().address());
///         auto permit = co_await per_client.enter(key, 1s);
///         ...
///
/// Each key is granted as many permits as a separate limiter would grant. For each key the documentation of
/// `basic_limiter` applies: order, checks, cancellation, completion, threads, lifetime and executors. The differences
/// follow.
///
/// Keys: `Key` is copyable and has `==`, and `Hash` hashes it with a seed; see `key_hash`. A lookup accepts any type
/// that compares and hashes like `Key`: a `std::string_view` becomes a `std::string` only if the key is new. It accepts
/// integers if their type is not wider than `Key`; see `key_like`. Keys are
/// copied, compared, hashed and destroyed under the lock, on any thread, also by a permit that is released after the
/// destruction of the limiter. These functions must not use the limiter or its permits, and only copying may throw:
/// then the limiter treats the key like a key beyond `max_keys`.
///
/// Timing: a hash with a random seed distributes the keys over shards, and the keys of a shard share its timer. So two
/// runs may differ in two ways: which of two keys is served first at the same instant, and which key waits longer than
/// another within `queue_options::tolerance`.
///
/// Memory: a key without waiting requests costs its state and 8 bytes; for text and large keys 8 bytes and a heap
/// block. The table is 69 % full on average: a `token_bucket` with 64-bit keys takes 50 bytes per key, because its
/// state is aligned to 16 bytes. A queue of about 320 bytes exists only while a request waits for the
/// key, or while the key has individual options. With its first waiting request a key takes at most 600 bytes, with or
/// without a patience: all keys of a shard share one timer and one structure of 1.6 KiB for deadlines.
///
/// Forgetting: a new key starts with the state of an unused limiter as old as this object, so a key that was never used
/// is like a key that was not used for long. The limiter forgets a key that has reached that state again; this cannot
/// change a later decision. `Policy` compares states by `are_alike` of its rule, or by `is_alike`, as
/// `policy::whole_rule` documents it. Each new key checks 8 entries of the table, and 72 if the table has no free entry,
/// so no call stops to clear the table. Other keys reuse the memory. If no entry becomes free, or memory is exhausted,
/// `keyed_options::no_place` decides: the key is rejected with `errc::too_many_keys`, or shares one state with other
/// keys. This is decided for each request when it is made, also for one of a chain: so with `when_no_place::share` none
/// is rejected with `errc::too_many_keys`. No key is evicted, unless `keyed_options::evict_within` permits it.
///
/// Statistics cover all keys together; `heaviest` lists the most frequent keys.
///
/// `async_wait_overdue` does not exist: limiters by key do not track held permits, so `max_hold` must be `forever`.
template <class Key, class Policy, class Executor = boost::asio::any_io_executor,
          class Timer = basic_steady_timer<Executor>, class Hash = key_hash,
          class Queue = order::any>
class basic_keyed {
    static_assert(detail::is_hashed<Key, Hash>,
                  "weir::keyed: the type of the keys has no hash. Specialize std::hash for it, or "
                  "name a hash like weir::key_hash as the fifth argument of weir::basic_keyed");
    static_assert(detail::is_compared<Key>, "weir::keyed: the type of the keys has no operator==");
    static_assert(
        detail::can_be_forgotten<Policy>,
        "weir::keyed: the policy has no is_alike(other, now), which returns whether it makes "
        "the same decisions as other from now on: keyed forgets keys that are like unused ones");
    static constexpr bool is_usable = detail::is_hashed<Key, Hash> && detail::is_compared<Key>;
    using stored_key = std::conditional_t<is_usable, Key, detail::unusable_key>;
    using hash_type = std::conditional_t<is_usable, Hash, detail::unusable_hash>;

    using rule_type =
        typename std::conditional_t<detail::can_be_forgotten<Policy>, policy::rule_of<Policy>,
                                    std::type_identity<detail::unforgettable_rule<Policy>>>::type;
    using shared_rule = std::shared_ptr<rule_type const>;
    using room = detail::keyed_room<stored_key, hash_type, rule_type, Queue>;

protected:
    using core_type = detail::core<room, detail::asio_host<Executor, Timer>>;

private:
    using handle_type = detail::limiter_handle<core_type, Executor>;
    using shards_type = detail::keyed_shards<stored_key, hash_type, core_type, Executor>;
    using enter_token = detail::enter_token_t<Executor>;

public:
    /// The type that selects the limiter of a request.
    using key_type = Key;
    /// The executor that serves waiting requests.
    using executor_type = Executor;
    /// The rule by which the limiter grants permits of each key.
    using policy_type = Policy;
    /// The timer that ends waits.
    using timer_type = Timer;
    /// The clock of deadlines.
    using clock_type = typename Timer::clock_type;
    /// The options of the policy, such as `token_bucket_options`.
    using options_type = typename Policy::options_type;
    /// A position in the queue of a key with a known grant time.
    using reservation =
        basic_reservation<core_type, Executor, clock_type, detail::keyed_enter_signature>;

    /// Rebinds this type of limiter to another executor.
    template <class OtherExecutor>
    struct rebind_executor {
        /// The limiter on `OtherExecutor`.
        using other = basic_keyed<Key, Policy, OtherExecutor,
                                  typename Timer::template rebind_executor<OtherExecutor>::other,
                                  Hash, Queue>;
    };

    /// Creates limiters that serve waiting requests on `ex`. Each key has `options` and its own queue.
    ///
    /// @throws std::invalid_argument if an option is out of bounds; the message names the option, its value and the
    ///   bound
    explicit basic_keyed(Executor const& ex, options_type const& options = {},
                         keyed_options const& keys = {}, queue_options const& queueing = {})
        : all_(std::make_unique<everything>(
              ex, make_rule(options), detail::validated(keys), queueing)) {}

    /// Creates limiters that serve waiting requests on the executor of `context`.
    ///
    /// @throws std::invalid_argument as the other constructor
    template <detail::context_of<Executor> Context>
    explicit basic_keyed(Context& context, options_type const& options = {},
                         keyed_options const& keys = {}, queue_options const& queueing = {})
        : basic_keyed(Executor(context.get_executor()), options, keys, queueing) {}

    /// Moves the limiter. The source may only be destroyed or assigned to.
    basic_keyed(basic_keyed&&) noexcept = default;
    /// Destroys this limiter, which completes its waiting operations with `errc::closed`, and moves `other` here.
    basic_keyed& operator=(basic_keyed&& other) noexcept {
        basic_keyed moved(std::move(other));
        std::swap(all_, moved.all_);
        return *this;
    }
    /// Completes waiting operations with `errc::closed`. Permits in use stay valid.
    ~basic_keyed() {
        if (all_)
            each([](core_type& core) { core.abandon(); });
    }

    /// Returns the executor that the constructor received.
    [[nodiscard]] executor_type get_executor() const noexcept {
        return all().shards.first().executor;
    }

    /// Grants `n` permits of `key` now or rejects the request, like `basic_limiter::try_enter`. A new key may allocate.
    template <class Like>
    permit try_enter(Like const& key, request n, error_code& ec) noexcept {
        auto const who = look_up(key);
        return detail::decide_by_key(own_core_for(who), ec, [&](core_type& core) {
            return core.try_enter(n, ec, who);
        });
    }
    /// Grants `n` permits of `key` now or returns an empty permit. A new key may allocate.
    template <class Like>
    permit try_enter(Like const& key, request n = {}) noexcept {
        error_code ignored;
        return try_enter(key, n, ignored);
    }

    /// Grants the permits of `key` that are available now, at least 1 and at most `max`, or rejects the request, like
    /// `basic_limiter::try_enter_up_to`. A new key may allocate.
    template <class Like>
    permit try_enter_up_to(Like const& key, request max, error_code& ec) noexcept {
        return try_enter(key, detail::up_to(max), ec);
    }
    /// Grants the permits of `key` that are available now, at least 1 and at most `max`, or returns an empty permit. A
    /// new key may allocate.
    template <class Like>
    permit try_enter_up_to(Like const& key, request max) noexcept {
        error_code ignored;
        return try_enter_up_to(key, max, ignored);
    }

    /// Decides like `enter` if that needs no wait, like `basic_limiter::enter_at_once`. A new key may allocate.
    template <class Like>
    [[nodiscard]] permit enter_at_once(Like const& key, request n, error_code& ec) noexcept {
        auto const who = look_up(key);
        return detail::decide_by_key(own_core_for(who), ec, [&](core_type& core) {
            return core.enter_at_once(n, ec, who);
        });
    }

    /// Requests one permit for each of many keys, without waiting: `permits[i]` receives the result of `keys[i]`.
    ///
    /// The call handles as many pairs as the shorter span has. It reads the clock once, takes each lock at most once
    /// per 256 keys, and prefetches memory. Requests for the same key are handled in their order. Permits that
    /// `permits` already holds are released first.
    template <class Like>
    void try_enter_many(std::span<Like const> keys, std::span<permit> permits) noexcept {
        all().shards.try_enter_many(keys, permits, clock_now());
    }

    /// Waits until the limiter grants `n` permits of `key` or the patience ends, like `basic_limiter::enter`.
    ///
    /// If `key` is an lvalue, the operation keeps a reference to it until the call has been awaited.
    template <class Like>
    [[nodiscard]] auto enter(Like&& key, request n, patience wait = {}) {
        return enter_within(std::forward<Like>(key), n, {.length = wait});
    }
    /// Waits until the limiter grants 1 permit of `key` or the patience ends, like `basic_limiter::enter`.
    ///
    /// If `key` is an lvalue, the operation keeps a reference to it until the call has been awaited.
    template <class Like>
    [[nodiscard]] auto enter(Like&& key, patience wait = {}) {
        return enter(std::forward<Like>(key), request(), wait);
    }
    /// Waits until the limiter grants `n` permits of `key` or `deadline` passes on the limiter's clock. Otherwise it
    /// works like `enter`.
    template <class Like>
    [[nodiscard]] auto enter_until(Like&& key, request n,
                                   typename clock_type::time_point deadline) {
        return enter_within(std::forward<Like>(key), n, detail::wait_until(deadline));
    }
    /// Waits until the limiter grants 1 permit of `key` or `deadline` passes on the limiter's clock. Otherwise it works
    /// like `enter`.
    template <class Like>
    [[nodiscard]] auto enter_until(Like&& key, typename clock_type::time_point deadline) {
        return enter_until(std::forward<Like>(key), request(), deadline);
    }

    /// Waits until the limiter grants `n` permits of `key` or the patience ends, like `basic_limiter::async_enter`.
    /// Keeps a copy of the key.
    ///
    /// Completion signature: `void(error_code, permit)`. Without a token, await the result in a coroutine on any
    /// executor.
    template <class Like,
              boost::asio::completion_token_for<void(error_code, permit)> Token = enter_token>
    auto async_enter(Like&& key, request n, patience wait, Token&& token = enter_token()) {
        return async_enter_within(
            std::forward<Like>(key), n, {.length = wait}, std::forward<Token>(token));
    }
    /// Waits until the limiter grants `n` permits of `key` or the default patience ends. Keeps a copy of the key.
    template <class Like,
              boost::asio::completion_token_for<void(error_code, permit)> Token = enter_token>
    auto async_enter(Like&& key, request n, Token&& token = enter_token()) {
        return async_enter(std::forward<Like>(key), n, patience(), std::forward<Token>(token));
    }
    /// Waits until the limiter grants 1 permit of `key` or the patience ends. Keeps a copy of the key.
    template <class Like,
              boost::asio::completion_token_for<void(error_code, permit)> Token = enter_token>
    auto async_enter(Like&& key, patience wait, Token&& token = enter_token()) {
        return async_enter(std::forward<Like>(key), request(), wait, std::forward<Token>(token));
    }
    /// Waits until the limiter grants 1 permit of `key` or the default patience ends. Keeps a copy of the key.
    template <class Like,
              boost::asio::completion_token_for<void(error_code, permit)> Token = enter_token>
    auto async_enter(Like&& key, Token&& token = enter_token()) {
        return async_enter(std::forward<Like>(key), request(), patience(),
                           std::forward<Token>(token));
    }

    /// Waits until the limiter grants `n` permits of `key` or `deadline` passes on the limiter's clock. Otherwise it
    /// works like `async_enter`.
    template <class Like,
              boost::asio::completion_token_for<void(error_code, permit)> Token = enter_token>
    auto async_enter_until(Like&& key, request n, typename clock_type::time_point deadline,
                           Token&& token = enter_token()) {
        return async_enter_within(
            std::forward<Like>(key), n, detail::wait_until(deadline), std::forward<Token>(token));
    }
    /// Waits until the limiter grants 1 permit of `key` or `deadline` passes on the limiter's clock. Otherwise it works
    /// like `async_enter`.
    template <class Like,
              boost::asio::completion_token_for<void(error_code, permit)> Token = enter_token>
    auto async_enter_until(Like&& key, typename clock_type::time_point deadline,
                           Token&& token = enter_token()) {
        return async_enter_until(
            std::forward<Like>(key), request(), deadline, std::forward<Token>(token));
    }

    /// Reserves a position in the queue of `key`, like `basic_limiter::reserve`. With a log or a window a shard remembers
    /// the future of one key at a time: a reservation for another key looks at all requests of that key's queue.
    template <class Like>
    reservation reserve(Like const& key, request n, patience wait, error_code& ec)
        requires scheduled_policy<Policy>
    {
        auto const who = look_up(key);
        return detail::decide_by_key(own_core_for(who), ec, [&](core_type& core) {
            return reservation::take({core.share(), get_executor()}, n, wait, ec, who);
        });
    }
    /// Reserves a position in the queue of `key`, like `basic_limiter::reserve`.
    ///
    /// @throws rejection if the request is rejected
    template <class Like>
    reservation reserve(Like const& key, request n = {}, patience wait = {})
        requires scheduled_policy<Policy>
    {
        error_code ec;
        auto made = reserve(key, n, wait, ec);
        if (ec)
            throw rejection(ec, made.retry_after());
        return made;
    }

    /// Enters for `key`, calls `f()`, releases the permits and returns the result of `f`, like `basic_limiter::run`.
    ///
    /// `run` keeps references to `key` and `f`.
    template <class Like, class F>
        requires std::invocable<F&>
    [[nodiscard]] auto run(Like const& key, F&& f, request n, patience wait = {}) {
        detail::check_temporary<F>();
        auto const who = look_up(key);
        return detail::run(own_handle_for(who),
                           start_for<Like const&>(key, who.hash, n, {.length = wait}), f);
    }
    /// Enters for 1 permit of `key`, calls `f()`, releases the permit and returns the result of `f`, like
    /// `basic_limiter::run`.
    ///
    /// `run` keeps references to `key` and `f`.
    template <class Like, class F>
        requires std::invocable<F&>
    [[nodiscard]] auto run(Like const& key, F&& f, patience wait = {}) {
        detail::check_temporary<F>();
        return run(key, f, request(), wait);
    }

    /// Takes `n` permits of `key` immediately, even if they are not free, like `basic_limiter::charge`.
    ///
    /// The permit is also empty if the key is new and the limiter cannot keep another key.
    template <class Like, detail::number T>
    permit charge(Like const& key, T n) {
        auto const who = look_up(key);
        auto const count = detail::checked_amount(n, "charge");
        error_code ec;
        return detail::decide_by_key(own_core_for(who), ec, [&](core_type& core) {
            auto charged = core.charge(count, who);
            if (!charged)
                ec = errc::too_many_keys;  // or the limiter is closed, and so is the next core
            return charged;
        });
    }

    /// Returns one key as a part of a `chain`, for `n` permits. Keeps a copy of the key.
    template <class Like>
    [[nodiscard]] auto with(Like const& key, request n = {}) const {
        using who_type = detail::one_key<stored_key>;
        auto const who = look_up(key);
        return detail::chain_link<core_type, Executor, who_type>(
            own_handle_for(who), n,
            who_type{stored_key(detail::as_key<stored_key>(key)), who.hash});
    }

    /// Does not compile: a chain needs the key.
    template <class Without = Key>
    detail::chain_link<core_type, Executor, detail::one_key<stored_key>> with() const {
        static_assert(!std::same_as<Without, Key>,
                      "weir::chain: a keyed limiter needs a key here: limiter.with(key)");
        return with(detail::key_after_error<stored_key>());
    }

    /// Returns the options of all keys without individual options.
    [[nodiscard]] options_type options() const { return all().rule.value()->options(); }
    /// Returns the options of one key.
    template <class Like>
    [[nodiscard]] options_type options(Like const& key) const {
        auto const who = look_up(key);
        return core_that_knows(who).ask([&](room const& r, time_point) { return r.options(who); });
    }

    /// Replaces the options of all keys without individual options.
    ///
    /// `options()` returns the new options as soon as the change begins. The limiter then changes one page of the table
    /// after the other, and holds no lock in between. Requests during the change are decided by the old or the new
    /// options. When this function returns, all keys have the new options, or newer ones if another thread has changed
    /// them meanwhile. Permits in use and permits that a rate still counts keep counting, as in
    /// `basic_limiter::configure`.
    ///
    /// @throws std::invalid_argument as the constructor; then nothing has changed
    /// @throws std::bad_alloc; then each key has its old or its new options, and another call finishes the change, even
    ///   one with the same options
    void configure(options_type const& options) {
        configure([&](options_type& current) { current = options; });
    }

    /// Changes the options of all keys with `change(options_type&)`; options that it does not assign keep their values.
    ///
    /// `change` is called outside all locks, and again if another thread changed the options in the meantime.
    ///
    /// @throws std::invalid_argument or `std::bad_alloc` as the other overload
    template <std::invocable<options_type&> Change>
    void configure(Change change) {
        auto const next = all().rule.replace([&](shared_rule const& before) {
            options_type wanted(before->options());
            change(wanted);
            return make_rule(wanted);
        });
        each([&](core_type& core) { change_page_by_page(core, next); });
    }

    /// Returns a copy of the options of the queues, which are the same for all keys.
    [[nodiscard]] queue_options queueing() const { return all().queueing.value(); }
    /// Changes the options of all queues with `change(queue_options&)`, as in `basic_limiter`.
    ///
    /// @throws std::invalid_argument as the constructor; then nothing has changed
    template <std::invocable<queue_options&> Change>
    void configure_queue(Change change) {
        auto const next = all().queueing.replace([&](queue_options const& before) {
            auto wanted = before;
            change(wanted);
            room::check_change(before, wanted);
            return wanted;
        });
        each([&](core_type& core) {
            core.modify_at(clock_now(), [&](room& r, time_point) { r.set_queueing(next); });
        });
    }

    /// Gives a key individual options, even if the key was never used. The limiter keeps the key until `reset`.
    ///
    /// @throws std::invalid_argument as the constructor
    /// @throws std::bad_alloc if memory is exhausted
    /// @throws std::length_error if the limiter cannot keep another key
    template <class Like>
    void configure(Like const& key, options_type const& options) {
        change(key, make_rule(options));
    }
    /// Gives a key the options of all other keys again.
    template <class Like>
    void reset(Like const& key) {
        change(key, nullptr);
    }

    /// Grants nothing to any key until `end`; see `basic_limiter::pause_until`.
    void pause_until(typename clock_type::time_point end) noexcept {
        each([until = detail::wait_until(end).until](core_type& core) { core.pause_until(until); });
    }
    /// Grants nothing to any key for `length` from now on; see `basic_limiter::pause_until`.
    ///
    /// @throws std::invalid_argument if the duration is NaN
    template <class Rep, class Period>
    void pause_for(std::chrono::duration<Rep, Period> length) {
        auto const until = later(clock_now(), patience(length).length_or(forever));
        each([until](core_type& core) { core.pause_until(until); });
    }
    /// Ends a pause: grants to each key what its policy allows now.
    void resume() noexcept {
        each([](core_type& core) { core.resume(); });
    }

    /// Rejects all new requests with `errc::closed`. Waiting requests are still served; see `basic_limiter::shutdown`.
    void shutdown() noexcept {
        each([](core_type& core) { core.shut_down(); });
    }
    /// Rejects all new and all waiting requests with `errc::closed`; see `basic_limiter::close`.
    void close() noexcept {
        each([](core_type& core) { core.close(); });
    }
    /// Cancels all operations that wait now.
    void cancel() noexcept { all().shards.cancel(); }
    /// Cancels all requests that wait for one key. If the key shares a state with other keys, their requests are
    /// cancelled too.
    template <class Like>
    void cancel(Like const& key) noexcept {
        auto const who = look_up(key);
        core_that_knows(who).modify_at(clock_now(), [&](room& r, time_point now) {
            r.cancel_key(who, now);
        });
    }

    /// Waits until no permit of any key is in use and no request waits.
    ///
    /// The limiter checks its shards one after the other, so the result holds for one instant only after `shutdown()`
    /// or `close()`.
    ///
    /// Completion signature: `void(error_code)`. Errors: `asio::error::operation_aborted`, and `errc::closed` if the
    /// limiter is destroyed.
    template <boost::asio::completion_token_for<void(error_code)> Token =
                  detail::default_token_t<Executor>>
    auto async_drain(Token&& token = detail::default_token_t<Executor>()) {
        return boost::asio::async_compose<Token, void(error_code)>(
            all().shards.drain(), token, get_executor());
    }

    /// Calls `who` for each request of any key that waited or was rejected, from now on, in place of the previous
    /// observer; see `basic_limiter::observe`. An event does not name the key: `heaviest` names the keys with the most
    /// rejections.
    ///
    /// @throws std::bad_alloc; then nothing has changed
    void observe(observer who) {
        each([shared = detail::shared_observer(std::move(who))](core_type& core) {
            core.observe(shared);
        });
    }

    /// Returns the counters and the state of all keys together. Each shard is read at one instant.
    [[nodiscard]] keyed_stats stats() const {
        keyed_stats sum;
        each([&](core_type& core) { sum += core.ask(&stats_of); });
        return complete(sum);
    }

    /// Returns `stats()` and the wait times of all keys since construction, as in `basic_limiter`. Each shard is read
    /// at one instant.
    [[nodiscard]] weir::snapshot<keyed_stats> snapshot() const {
        keyed_stats sum;
        wait_histogram waits;
        each([&](core_type& core) {
            auto const part = core.ask([](room const& r, time_point now) {
                return weir::snapshot<keyed_stats>{stats_of(r, now), r.waits()};
            });
            sum += part.stats;
            waits += part.waits;
        });
        return {complete(sum), waits};
    }
    /// Returns the `n` keys with the most requests since construction, the greatest `requests` first; none if
    /// `keyed_options::heavy_keys` is 0.
    ///
    /// `charge` does not count as a request. With c counters and R requests for the keys of a shard, each `error` in
    /// that shard is at most R / c, and each key with more than R / c requests is in the result if `n` is large enough.
    /// Keys are distributed evenly over the shards. A key that shares a state because the limiter could not keep it is
    /// counted in two shards, and its errors add up.
    ///
    /// The shards are read one after the other. Source: see `detail::heavy_keys`.
    ///
    /// @throws std::bad_alloc and all that copying a key throws
    [[nodiscard]] std::vector<heavy_key<Key>> heaviest(std::size_t n) const {
        std::vector<detail::heavy_part<Key>> parts;
        each([&](core_type& core) {
            parts.push_back(core.ask([](room const& r, time_point) {
                return detail::heavy_part<Key>(r.heavy());
            }));
        });
        auto const part_of = [&](std::uint64_t hash) { return all().shards.index_of(hash); };
        return detail::heaviest(n, std::span(parts), all().shards.has_shared(), part_of);
    }

    /// Returns the current state of one key. Requests in the past are not counted by key.
    template <class Like>
    [[nodiscard]] key_stats stats(Like const& key) const {
        auto const who = look_up(key);
        auto const now =
            core_that_knows(who).ask([&](room const& r, time_point t) { return r.stats(who, t); });
        return {.waiting = now.waiting,
                .waiting_for = now.waiting_for,
                .oldest_wait = now.oldest_wait,
                .capacity = now.capacity,
                .remaining = now.remaining,
                .debt = now.debt,
                .reset_after = now.reset_after,
                .paused_for = now.paused_for};
    }

protected:
    /// The parts of the limiter, for a limiter that derives from this one.
    [[nodiscard]] auto parts() const noexcept { return all().shards.all(); }

private:
    friend detail::state_access;

    [[nodiscard]] static keyed_stats stats_of(room const& r, time_point now) noexcept {
        return {.total = r.stats(now), .keys = r.keys()};
    }

    [[nodiscard]] keyed_stats complete(keyed_stats sum) const noexcept {
        sum.bytes = all().shards.bytes();
        sum.evicted = all().shards.evicted();
        return sum;
    }

    struct everything {
        everything(Executor const& ex, shared_rule r, keyed_options const& keys,
                   queue_options const& queues)
            : rule(std::move(r)),
              queueing(queues),
              shards(
                  ex,
                  std::make_shared<detail::keyed_bounds<hash_type>>(
                      hash_type(), hash_seed::random(), static_cast<std::size_t>(keys.max_keys),
                      static_cast<std::size_t>(keys.max_bytes), keys.evict_within),
                  keys.shards, keys.no_place == when_no_place::share,
                  // Unused keys of all shards have the same state, so that a restored state can become like it.
                  [&, begin = clock_now()](auto const& bounds, bool all_share_one,
                                           std::shared_ptr<core_type> const& next) {
                      return core_type::create(
                          {rule.value(), bounds, all_share_one, keys.heavy_keys, begin, next},
                          queues, ex);
                  }) {}

        detail::published<shared_rule> rule;  // of all keys without individual options
        detail::published<queue_options> queueing;
        shards_type shards;
    };

    static shared_rule make_rule(options_type const& options) {
        detail::check_not_watched(options);
        return std::make_shared<rule_type const>(options);
    }
    [[nodiscard]] static time_point clock_now() noexcept {
        return detail::asio_host<Executor, Timer>::now();
    }

    template <class Like>
    [[nodiscard]] auto look_up(Like const& key) const noexcept {
        return all().shards.look_up(key);
    }
    template <class Like>
    [[nodiscard]] handle_type const& own_handle_for(
        detail::keyed_lookup<Like> const& who) const noexcept {
        return all().shards.own_handle_for(who.hash);
    }
    template <class Like>
    [[nodiscard]] core_type& own_core_for(detail::keyed_lookup<Like> const& who) const noexcept {
        return *own_handle_for(who).core;
    }
    template <class Like>
    [[nodiscard]] core_type& core_that_knows(detail::keyed_lookup<Like> const& who) const noexcept {
        return all().shards.core_that_knows(who);
    }

    [[nodiscard]] everything& all() const noexcept {
        BOOST_ASSERT_MSG(all_, "use of a moved-from keyed limiter");
        return *all_;
    }
    template <class F>
    void each(F f) const {
        for (auto const& handle : all().shards.all())
            f(*handle.core);
    }

    // `Kept` is the key, a reference to it, or a type by which it can be looked up.
    template <class Kept, class Like>
    [[nodiscard]] static auto start_for(Like&& key, std::uint64_t hash, request n,
                                        detail::wait_limit const& limit) {
        using kept = std::conditional_t<detail::becomes_key<stored_key, Kept>, stored_key, Kept>;
        return detail::starts_to_enter_key<kept>(
            static_cast<kept>(detail::as_key<stored_key>(std::forward<Like>(key))), hash, n, limit);
    }
    template <class Like>
    [[nodiscard]] auto enter_within(Like&& key, request n, detail::wait_limit const& limit) {
        auto const who = look_up(key);
        auto const& handle = own_handle_for(who);
        return detail::enter(handle, start_for<Like>(std::forward<Like>(key), who.hash, n, limit));
    }
    template <class Like, class Token>
    auto async_enter_within(Like&& key, request n, detail::wait_limit const& limit, Token&& token) {
        auto const who = look_up(key);
        auto const& handle = own_handle_for(who);
        return detail::async_enter(
            handle, start_for<std::decay_t<Like>>(std::forward<Like>(key), who.hash, n, limit),
            std::forward<Token>(token));
    }

    static void change_page_by_page(core_type& core,
                                    typename detail::published<shared_rule>::version const& next) {
        std::uint64_t page = 0;
        do {
            core.modify_at(clock_now(),
                           [&](room& r, time_point now) { page = r.configure(next, page, now); });
        } while (page != 0);
    }

    template <class Like>
    void change(Like const& key, shared_rule own) {
        auto const who = look_up(key);
        bool done = false;
        all().shards.own_core_for(who.hash).modify_at(clock_now(), [&](room& r, time_point now) {
            done = r.configure(who, std::move(own), now);
        });
        if (!done)
            detail::throw_no_place();
    }

    std::unique_ptr<everything> all_;
};

/// Limits each of many keys, such as clients, by a policy, such as `policy::seats`, or by the policy of a limiter, such
/// as `seats`; see `basic_keyed`.
template <class Key, class Policy>
using keyed = basic_keyed<Key, typename detail::policy_of<Policy>::type>;

}  // namespace weir::inline v0_2

#ifdef WEIR_COMPILED_LIMITERS
#define WEIR_COMPILED_KEYED(Rule)                                                                  \
    WEIR_INSTANTIATE_KEYED(                                                                        \
        extern, std::uint64_t, Rule, weir::basic_steady_timer<boost::asio::any_io_executor>)       \
    WEIR_INSTANTIATE_KEYED(                                                                        \
        extern, std::string, Rule, weir::basic_steady_timer<boost::asio::any_io_executor>)         \
    WEIR_INSTANTIATE_KEYED_LOOKUP(                                                                 \
        extern, std::string, Rule, weir::basic_steady_timer<boost::asio::any_io_executor>,         \
        std::string_view)
WEIR_COMPILED_KEYED(weir::policy::seats_rule)
WEIR_COMPILED_KEYED(weir::policy::token_bucket_rule)
#undef WEIR_COMPILED_KEYED
#endif
