#pragma once

#include <weir/amount.hpp>
#include <weir/detail/asio_host.hpp>
#include <weir/detail/asio_operation.hpp>
#include <weir/detail/chain/link.hpp>
#include <weir/detail/core.hpp>
#include <weir/detail/enter_operation.hpp>
#include <weir/detail/keyed/heaviest.hpp>
#include <weir/detail/keyed/shards.hpp>
#include <weir/detail/keyed/start.hpp>
#include <weir/detail/keyed_room.hpp>
#include <weir/detail/option_changes.hpp>
#include <weir/error.hpp>
#include <weir/key_hash.hpp>
#include <weir/limiter.hpp>
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
#include <boost/asio/awaitable.hpp>
#include <boost/asio/compose.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace weir {

/// What happens to a new key when a limiter keeps `max_keys` of them and can forget none.
enum class when_no_place : std::uint8_t {
    reject,  ///< it is rejected with `errc::too_many_keys`
    share,  ///< all such keys share one state and one queue, of the same options, until one can be forgotten
};

struct keyed_options {
    /// How many keys are kept at most, 1 to 2^32. A key is kept only while its state differs from that of a
    /// key that was never used, and a little longer.
    std::uint64_t max_keys = 1'000'000;

    when_no_place no_place = when_no_place::reject;

    /// Into how many parts the keys are divided, each with a lock and a timer of its own: 1 to 1,024, and
    /// rounded up to a power of two; fewer if there were less than 64 of `max_keys` for each. The more there are, the
    /// more seldom two threads meet.
    std::uint32_t shards = 16;

    /// In how many counters each part notes which keys come most often, for `heaviest`: 0 to 65,536, of some
    /// 60 bytes. With 0 none does.
    std::uint32_t heavy_keys = 0;
};

namespace detail {

/// The same, or throws `std::invalid_argument` that names the option, its value and the bound.
keyed_options const& validated(keyed_options const& options);

/// Throws `std::invalid_argument` if permits were to be watched.
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

/// One limiter for each of many keys, such as clients, in one object: each key has what a limiter of its own
/// would grant it, and keys do not wait for each other.
///
///     weir::keyed<std::uint64_t, weir::policy::token_bucket> per_client{ctx, {.rate = {10, 1s}}};
///
///     asio::awaitable<void> serve(tcp::socket socket) {
///         auto const key = weir::client_key(socket.remote_endpoint().address());
///         auto turn = co_await per_client.enter(key, 1s);
///         ...
///
/// What is said of `basic_limiter` holds for each key: order, checks, cancellation, completion, threads,
/// lifetime and executors. The differences:
///
/// Keys: `Key` may be copied and compared with `==`, and `Hash` hashes it with a seed; see `key_hash`. Keys
/// are looked up by any type that compares and hashes alike: no `std::string` is made of a
/// `std::string_view`, unless the key is new. Keys are copied, compared, hashed and destroyed under the lock,
/// on any thread, also by a permit that comes home after the limiter has gone. None of that may use the
/// limiter or one of its permits, and only copying may throw: the key then counts as one without a place.
///
/// Timing: keys are divided into parts by a hash with a random seed, and the keys of a part share its timer. So which of
/// two keys is served first at the same instant, and which waits longer than another within `queue_options::tolerance`,
/// may change from one run to the next.
///
/// Memory: a key for which nobody waits costs its state and 8 bytes, or for text and large keys 8 bytes and
/// a block on the heap, in a table that is 69 % full on average: a `token_bucket` of 64-bit keys 50 bytes,
/// since its state has to lie at multiples of 16. A waiting room, of some 950 bytes, exists only while a request
/// waits for the key, or while the key has options of its own. There is no timer and no allocation for a key
/// besides that of a page of the table.
///
/// Forgetting: each key has a limiter from the time at which this is made, so a key that was not used yet
/// is like one that has not been used for long. A key that has become like that again is forgotten: that
/// cannot change a later decision. Eight places of the table are looked at whenever a new key comes, and 72 if
/// there is no place for it, so no call stops to clear the table; the memory is used again by other keys. If
/// there still is no place, the key is rejected with `errc::too_many_keys`, or shares one state with others, as
/// `keyed_options::no_place` says. If there is no memory for it, or another thread has taken the last place meanwhile, it
/// is rejected in any case. No key is evicted.
///
/// Statistics are of all keys together, and `heaviest` names those that come most often.
///
/// `async_wait_overdue` does not exist: the permits of keys are not watched, and `max_hold` must be
/// `forever`.
template <class Key, class Policy, class Executor = boost::asio::any_io_executor,
          class Timer = basic_steady_timer<Executor>, class Hash = key_hash,
          class Queue = order::any>
class basic_keyed {
    using rule = policy::rule_of_t<Policy>;
    using room = detail::keyed_room<Key, Hash, rule, Queue>;
    using core_type = detail::core<room, detail::asio_host<Executor, Timer>>;
    using handle_type = detail::limiter_handle<core_type, Executor>;
    using shards_type = detail::keyed_shards<Key, Hash, core_type, Executor>;
    template <class Like>
    using kept = detail::kept_key<Key, Like>;

public:
    using key_type = Key;
    using executor_type = Executor;
    using policy_type = Policy;
    using timer_type = Timer;
    using clock_type = typename Timer::clock_type;
    using options_type = typename Policy::options_type;
    using reservation =
        basic_reservation<core_type, Executor, clock_type, detail::keyed_enter_signature>;

    /// Limiters whose steps run on `ex`, each with `options` and a queue of its own. Throws
    /// `std::invalid_argument` that names the option, its value and the bound, if an option is nonsense.
    explicit basic_keyed(Executor const& ex, options_type const& options = {},
                         keyed_options const& keys = {}, queue_options const& queueing = {})
        : all_(std::make_unique<everything>(
              ex, make_rule(options), detail::validated(keys), queueing)) {}

    template <class Context>
        requires std::convertible_to<Context&, boost::asio::execution_context&> &&
                 std::convertible_to<typename Context::executor_type, Executor>
    explicit basic_keyed(Context& context, options_type const& options = {},
                         keyed_options const& keys = {}, queue_options const& queueing = {})
        : basic_keyed(Executor(context.get_executor()), options, keys, queueing) {}

    basic_keyed(basic_keyed&&) noexcept = default;
    basic_keyed& operator=(basic_keyed&& other) noexcept {
        basic_keyed moved(std::move(other));
        std::swap(all_, moved.all_);
        return *this;
    }
    ~basic_keyed() {
        each([](core_type& core) { core.abandon(); });
    }

    [[nodiscard]] executor_type get_executor() const noexcept {
        return all_->shards.first().executor;
    }

    /// Grants `n` permits of `key` now or not at all, like `basic_limiter::try_enter`. For a key that is new
    /// it may allocate.
    template <class Like>
    permit try_enter(Like const& key, request n, error_code& ec) noexcept {
        auto const who = look_up(key);
        return core_for(who).try_enter(n, ec, who);
    }
    template <class Like>
    permit try_enter(Like const& key, request n = {}) noexcept {
        error_code ignored;
        return try_enter(key, n, ignored);
    }

    /// The same for many keys at once, one permit each: the outcome for `keys[i]` is in `permits[i]`, as
    /// long as there are both. The clock is read once, each lock is taken once for some hundred keys, and
    /// what is in memory far away is asked for in advance. Of a key that comes several times the first is
    /// served first. Permits that are there before leave first.
    template <class Like>
    void try_enter_many(std::span<Like const> keys, std::span<permit> permits) noexcept {
        all_->shards.try_enter_many(keys, permits, clock_now());
    }

    /// Waits until `n` permits of `key` are granted, for as long as the patience lasts, like
    /// `basic_limiter::enter`. A key that is an lvalue is kept by reference until this has been awaited.
    template <class Like>
    [[nodiscard]] auto enter(Like&& key, request n = {}, patience wait = {}) {
        return enter_within(std::forward<Like>(key), n, {.length = wait});
    }
    template <class Like>
    [[nodiscard]] auto enter(Like&& key, patience wait) {
        return enter(std::forward<Like>(key), request(), wait);
    }
    /// The same until an instant of the limiter's clock.
    template <class Like>
    [[nodiscard]] auto enter_until(Like&& key, typename clock_type::time_point deadline,
                                   request n = {}) {
        return enter_within(std::forward<Like>(key), n, detail::wait_until(deadline));
    }

    /// The same with a completion token, like `basic_limiter::async_enter`: `void(error_code, permit)`. A copy
    /// of the key is kept.
    template <class Like, boost::asio::completion_token_for<void(error_code, permit)> Token>
    auto async_enter(Like&& key, request n, patience wait, Token&& token) {
        auto const who = look_up(key);
        auto const& handle = handle_for(who);
        return boost::asio::async_initiate<Token, void(error_code, permit)>(
            detail::initiation<core_type, Executor, detail::keyed_enter_signature>(
                handle.core, handle.executor),
            token,
            detail::starts_to_enter_key<kept<Like>>(
                static_cast<kept<Like>>(key), who.hash, n, {.length = wait}));
    }
    template <class Like, boost::asio::completion_token_for<void(error_code, permit)> Token>
    auto async_enter(Like&& key, patience wait, Token&& token) {
        return async_enter(std::forward<Like>(key), request(), wait, std::forward<Token>(token));
    }
    template <class Like, boost::asio::completion_token_for<void(error_code, permit)> Token>
    auto async_enter(Like&& key, Token&& token) {
        return async_enter(std::forward<Like>(key), request(), patience(),
                           std::forward<Token>(token));
    }

    /// Without a token it is an operation to be awaited, in a coroutine on any executor.
    template <class Like>
    [[nodiscard]] auto async_enter(Like&& key, request n = {}, patience wait = {}) {
        using start_type = detail::starts_to_enter_key<kept<Like>>;
        auto const who = look_up(key);
        return detail::enter_operation<handle_type, start_type>(
            handle_for(who),
            start_type(static_cast<kept<Like>>(key), who.hash, n, {.length = wait}));
    }
    template <class Like>
    [[nodiscard]] auto async_enter(Like&& key, patience wait) {
        return async_enter(std::forward<Like>(key), request(), wait);
    }

    /// Takes a place in the line of `key`, like `basic_limiter::reserve`.
    template <class Like>
    reservation reserve(Like const& key, request n, patience wait, error_code& ec)
        requires scheduled_policy<Policy>
    {
        auto const who = look_up(key);
        return reservation::take(handle_for(who), n, wait, ec, who);
    }
    template <class Like>
    reservation reserve(Like const& key, request n = {}, patience wait = {})
        requires scheduled_policy<Policy>
    {
        auto const who = look_up(key);
        return reservation::take_or_throw(handle_for(who), n, wait, who);
    }

    /// Enters for `key`, calls `f()`, leaves, and returns what `f` has returned, like `basic_limiter::run`. Key
    /// and `f` are kept by reference.
    template <class Like, class F>
        requires std::invocable<F&>
    [[nodiscard]] auto run(Like const& key, F&& f, request n = {}, patience wait = {}) {
        return run_by_reference(key, f, n, wait);
    }
    template <class Like, class F>
        requires std::invocable<F&>
    [[nodiscard]] auto run(Like const& key, F&& f, patience wait) {
        return run_by_reference(key, f, request(), wait);
    }

    /// Takes `n` permits of `key` without asking for room and without waiting, like `basic_limiter::charge`.
    /// The permit is also empty if there is no place for a key that is new.
    template <class Like>
    permit charge(Like const& key, request n) {
        auto const who = look_up(key);
        return core_for(who).charge(n.count(), who);
    }

    /// One key in a `chain`, which asks `n` permits of it. A copy of the key is kept.
    template <class Like>
    [[nodiscard]] auto with(Like const& key, request n = {}) const {
        using who_type = detail::one_key<Key>;
        auto const who = look_up(key);
        return detail::chain_link<core_type, Executor, who_type>(
            handle_for(who), n, who_type{Key(key), who.hash});
    }

    /// The options that keys have, unless they have their own; and those of one key.
    [[nodiscard]] options_type options() const {
        std::lock_guard lock(all_->configuring);
        return all_->for_all->options();
    }
    template <class Like>
    [[nodiscard]] options_type options(Like const& key) const {
        auto const who = look_up(key);
        return core_that_knows(who).ask([&](room const& r, time_point) { return r.options(who); });
    }

    /// Goes on with other options for all keys that have none of their own. Keys are changed one page of the
    /// table after the other; those that come meanwhile are told either. When this returns, all have
    /// been. What was used under the old options stays used, as in `basic_limiter::configure`.
    ///
    /// Throws `std::invalid_argument`, changing nothing. If it throws `std::bad_alloc`, each key has changed
    /// or is as it was, and it may be called again.
    void configure(options_type const& options) {
        configure([&](options_type& current) { current = options; });
    }

    /// The same with `change(options_type&)`, so that what is not named stays as it is. `change` is called
    /// outside all locks, and again if another thread has changed the options meanwhile.
    template <std::invocable<options_type&> Change>
    void configure(Change change) {
        replace([&] { return all_->for_all->options(); },
                [&](options_type wanted) {
                    change(wanted);
                    return make_rule(wanted);
                },
                [&](std::shared_ptr<rule const>& next) {
                    each([&](core_type& core) { change_page_by_page(core, next); });
                    all_->for_all = std::move(next);
                });
    }

    /// The options of the queues, and a change of them: `change(queue_options&)`, as in `basic_limiter`. They
    /// are the same for all keys. Throws `std::invalid_argument`, changing nothing.
    [[nodiscard]] queue_options queueing() const {
        std::lock_guard lock(all_->configuring);
        return all_->shards.first().core->queueing();
    }
    template <std::invocable<queue_options&> Change>
    void configure_queue(Change change) {
        replace([&] { return all_->shards.first().core->queueing(); },
                [&](queue_options wanted) {
                    change(wanted);
                    return wanted;
                },
                [&](queue_options const& next) {
                    each([&](core_type& core) {
                        core.configure_queue([&](queue_options& current) { current = next; });
                    });
                });
    }

    /// Gives a key options of its own, whether it has come yet or not. The key is kept until `reset`.
    /// Throws like the constructor, `std::bad_alloc`, and `std::length_error` if there is no place for the key.
    template <class Like>
    void configure(Like const& key, options_type const& options) {
        change(key, make_rule(options));
    }
    /// Has a key go on with the options of all others.
    template <class Like>
    void reset(Like const& key) {
        change(key, nullptr);
    }

    /// Rejects all new requests, of all keys, from now on; see `basic_limiter`.
    void shutdown() noexcept {
        each([](core_type& core) { core.shut_down(); });
    }
    /// Rejects all new requests and all that wait.
    void close() noexcept {
        each([](core_type& core) { core.close(); });
    }
    /// Cancels all that waits now; and all that waits for one key, or, if there is no place for that, for all that
    /// share a state with it.
    void cancel() noexcept { all_->shards.cancel(); }
    template <class Like>
    void cancel(Like const& key) noexcept {
        auto const who = look_up(key);
        core_that_knows(who).tell_at(clock_now(), [&](room& r, time_point now) {
            r.cancel(who, now);
        });
    }

    /// Completes when no permit of any key is out and no request waits. The parts of the limiter are
    /// looked at one after the other, so it says that of one instant only after `shutdown()` or `close()`.
    ///
    /// Completion signature: `void(error_code)`. Errors: `asio::error::operation_aborted`, and
    /// `errc::closed` if the limiter is destroyed.
    template <boost::asio::completion_token_for<void(error_code)> Token =
                  detail::default_token_t<Executor>>
    auto async_drain(Token&& token = detail::default_token_t<Executor>()) {
        return boost::asio::async_compose<Token, void(error_code)>(
            all_->shards.drain(), token, get_executor());
    }

    [[nodiscard]] keyed_stats stats() const {
        detail::keyed_sum sum;
        each([&](core_type& core) { sum.add(core.ask(&stats_of)); });
        return sum.result();
    }

    /// The same, with the waits of all keys since the limiter was made, as in `basic_limiter`. Each part is of
    /// one instant.
    [[nodiscard]] weir::snapshot<keyed_stats> snapshot() const {
        detail::keyed_sum sum;
        wait_histogram waits;
        each([&](core_type& core) {
            auto const part = core.ask([](room const& r, time_point now) {
                return weir::snapshot<keyed_stats>{stats_of(r, now), r.waits()};
            });
            sum.add(part.stats);
            waits += part.waits;
        });
        return {sum.result(), waits};
    }
    /// The `n` keys that have come most often since the limiter was made, those with the greatest `asked`
    /// first, if `keyed_options::heavy_keys` is not 0. A request of `charge` does not count.
    ///
    /// With c counters, no `error` is greater than the requests for keys of the same part divided by c, and a
    /// key that has come more often than that is never left out of all that there are; keys are spread evenly
    /// over the parts. Keys for which there was no place and that share a state are counted in two parts, and
    /// their errors add up.
    ///
    /// The parts are looked at one after the other. Throws `std::bad_alloc`, and what copying a key throws.
    /// Source: see `detail::heavy_keys`.
    [[nodiscard]] std::vector<heavy_key<Key>> heaviest(std::size_t n) const {
        std::vector<detail::heavy_part<Key>> parts;
        each([&](core_type& core) {
            parts.push_back(core.ask([](room const& r, time_point) {
                return detail::heavy_part<Key>(r.heavy());
            }));
        });
        auto const part_of = [&](std::uint64_t hash) { return all_->shards.index_of(hash); };
        return detail::heaviest(n, std::span(parts), all_->shards.has_shared(), part_of);
    }

    /// Of one key as it is now: capacity, what remains, debt, and what waits. What was done is not known.
    template <class Like>
    [[nodiscard]] limiter_stats stats(Like const& key) const {
        auto const who = look_up(key);
        return core_that_knows(who).ask([&](room const& r, time_point now) {
            return r.stats(who, now);
        });
    }

private:
    [[nodiscard]] static keyed_stats stats_of(room const& r, time_point now) noexcept {
        return {.total = r.stats(now), .keys = r.keys(), .bytes = r.bytes()};
    }

    struct everything {
        everything(Executor const& ex, std::shared_ptr<rule const> r, keyed_options const& keys,
                   queue_options const& queueing)
            : for_all(std::move(r)),
              shards(ex,
                     std::make_shared<detail::keyed_bounds<Hash>>(
                         Hash(), hash_seed::random(), static_cast<std::size_t>(keys.max_keys)),
                     keys.shards, keys.no_place == when_no_place::share,
                     [&](auto const& bounds, bool all_share_one) {
                         return core_type::create(
                             {for_all, bounds, all_share_one, keys.heavy_keys}, queueing, ex);
                     }) {}

        std::mutex configuring;
        detail::option_changes changes;
        std::shared_ptr<rule const> for_all;
        shards_type shards;
    };

    static std::shared_ptr<rule const> make_rule(options_type const& options) {
        detail::check_not_watched(options);
        return std::make_shared<rule const>(options);
    }
    [[nodiscard]] static time_point clock_now() noexcept {
        return detail::asio_host<Executor, Timer>::now();
    }

    template <class Like>
    [[nodiscard]] auto look_up(Like const& key) const noexcept {
        return all_->shards.look_up(key);
    }
    template <class Like>
    [[nodiscard]] handle_type const& handle_for(
        detail::keyed_lookup<Like> const& who) const noexcept {
        return all_->shards.handle_for(who, &clock_now);
    }
    template <class Like>
    [[nodiscard]] core_type& core_for(detail::keyed_lookup<Like> const& who) const noexcept {
        return *handle_for(who).core;
    }
    template <class Like>
    [[nodiscard]] core_type& core_that_knows(detail::keyed_lookup<Like> const& who) const noexcept {
        return all_->shards.core_that_knows(who);
    }

    template <class F>
    void each(F f) const {
        if (!all_)
            return;
        for (auto const& handle : all_->shards.all())
            f(*handle.core);
    }

    template <class Like>
    [[nodiscard]] auto enter_within(Like&& key, request n, detail::wait_limit const& limit) {
        using start_type = detail::starts_to_enter_key<
            std::conditional_t<detail::becomes_key<Key, Like>, Key, Like>>;
        auto const who = look_up(key);
        auto const* const handle = &handle_for(who);
        start_type start(taken_along(std::forward<Like>(key)), who.hash, n, limit);
        detail::enter_operation<handle_type const*, start_type> operation(handle, std::move(start));
        auto coroutine = await_enter(operation);
        return detail::enter_awaitable<handle_type const*, Executor, start_type>(
            std::move(operation), std::move(coroutine));
    }
    template <class Like>
    [[nodiscard]] static decltype(auto) taken_along(Like&& key) noexcept {
        if constexpr (detail::becomes_key<Key, Like>)
            return static_cast<Key>(key);
        else
            return std::forward<Like>(key);
    }
    template <class Start>
    static boost::asio::awaitable<permit, Executor> await_enter(
        detail::enter_operation<handle_type const*, Start> operation) {
        co_return co_await std::move(operation);
    }

    template <class Like, class F,
              class Outcome = detail::outcome_of<std::invoke_result_t<F&>, Executor>>
    boost::asio::awaitable<typename Outcome::type, typename Outcome::executor> run_by_reference(
        Like const& key, F& f, request n, patience wait) {
        auto const permit = co_await enter(key, n, wait);
        if constexpr (Outcome::awaited)
            co_return co_await f();
        else
            co_return f();
    }

    // As `option_changes` has them.
    template <class Read, class Prepare, class Put>
    void replace(Read read, Prepare prepare, Put put) {
        auto const lock = [this] { return std::lock_guard(all_->configuring); };
        all_->changes.make(lock, read, prepare, lock, put);
    }
    static void change_page_by_page(core_type& core, std::shared_ptr<rule const> const& next) {
        std::uint64_t page = 0;
        do {
            core.tell_at(clock_now(),
                         [&](room& r, time_point now) { page = r.configure(next, page, now); });
        } while (page != 0);
    }

    template <class Like>
    void change(Like const& key, std::shared_ptr<rule const> own) {
        std::lock_guard lock(all_->configuring);
        auto const who = look_up(key);
        bool done = false;
        all_->shards.own_core_for(who.hash).tell_at(clock_now(), [&](room& r, time_point now) {
            done = r.configure(who, std::move(own), now);
        });
        if (!done)
            detail::throw_no_place();
    }

    std::unique_ptr<everything> all_;
};

template <class Key, class Policy>
using keyed = basic_keyed<Key, Policy>;

}  // namespace weir
