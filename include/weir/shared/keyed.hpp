#pragma once

#include <weir/detail/asio_operation.hpp>
#include <weir/detail/context_of.hpp>
#include <weir/detail/default_token.hpp>
#include <weir/error.hpp>
#include <weir/key_hash.hpp>
#include <weir/keyed.hpp>
#include <weir/order.hpp>
#include <weir/policy/fed.hpp>
#include <weir/policy/fed_keys.hpp>
#include <weir/queue_options.hpp>
#include <weir/shared/keys_runner.hpp>
#include <weir/shared/limiter.hpp>
#include <weir/shared/store.hpp>
#include <weir/time.hpp>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/async_result.hpp>

#include <chrono>
#include <concepts>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

namespace weir::inline v0_2 {

/// A limit for each of many keys, such as users, that a store keeps for all limiters with the same name on that store.
///
///     auto const store = std::make_shared<weir::redis::store>(ctx, weir::redis::options{.url = "redis://localhost"});
///     weir::shared_keyed<std::string> per_user{ctx, store, "api", {.rate = {10, 1s}}};
///     auto const call = co_await per_user.enter(user, 200ms);
///
/// All processes together grant each key what `policy::fed_keys_rule` documents. `basic_keyed` documents the operations
/// and the bounds of keys, and `basic_shared_limiter` the waits, the failures and the lifetime. The differences follow.
///
/// Keys: texts or integers. The name of a key at the store is `name:key`, in Redis `{weir:name:key}`; an integer is
/// written in decimal digits. A key that is empty, longer than 64 bytes, begins with `#`, or contains other bytes than
/// visible ASCII, or a brace, becomes `#` and 32 hexadecimal digits: two SipHash-1-3 of the key. So a store of many
/// nodes can distribute the keys. Do not name another shared limiter of the same store `name:key`.
///
/// Questions: each key has at most one question in progress, and the questions of different keys do not wait for each
/// other: a Redis store sends the questions that come together in one write. While a rejection by the store is valid, a
/// request that cannot be granted in its patience is rejected without a question. So a flood of requests for one key
/// asks the store about once per grant.
///
/// Failures concern the store, not a key: what the question of one key finds out holds for all keys. After a failure
/// only one question at a time is asked, until the store replies. With `fail_local` each key has its share of the limit.
///
/// Memory in this process: a key takes an entry in the table while requests wait for it, a question is in progress, the
/// store rejected it, or it has debt; with `fail_local` also until its share is full again. An entry takes about 160
/// bytes, and a key with waiting requests about 600 more. `max_keys` bounds the number of entries. With
/// `when_no_place::share` all keys without a place share one state at the store, named `name:`.
///
/// Memory at the store: as of a `shared_token_bucket` for each key; the store forgets a key that is full again.
///
/// `reserve` and a `chain` do not exist, since the grant time depends on other processes. There is no prefetch:
/// `shared_options::prefetch` must be 0. `shared_stats::losses` is always 0.
template <class Key, class Policy = policy::fed, class Executor = boost::asio::any_io_executor,
          class Timer = basic_steady_timer<Executor>, class Hash = key_hash>
class basic_shared_keyed : private basic_keyed<Key, policy::fed_keys, Executor, Timer, Hash> {
    static_assert(
        detail::namable<Key>,
        "weir::shared_keyed: the keys must be texts or integers, since they are a part of "
        "the names at the store");
    static_assert(std::same_as<Policy, policy::fed> || std::same_as<Policy, policy::fed_log>,
                  "weir::shared_keyed: the second argument must be weir::shared_token_bucket or "
                  "weir::shared_sliding_log");
    using base = basic_keyed<Key, policy::fed_keys, Executor, Timer, Hash>;
    using typename base::core_type;
    using runner = detail::keys_runner<core_type, detail::key_feed<Key, policy::fed_keys_rule>,
                                       typename Timer::clock_type>;

public:
    using typename base::clock_type;
    using typename base::executor_type;
    using typename base::key_type;
    using typename base::timer_type;
    /// The policy of each key: `policy::fed` or `policy::fed_log`.
    using policy_type = Policy;
    /// The options of each key.
    using options_type = shared_options;

    /// Rebinds this type of limiter to another executor.
    template <class OtherExecutor>
    struct rebind_executor {
        /// The limiter on `OtherExecutor`.
        using other =
            basic_shared_keyed<Key, Policy, OtherExecutor,
                               typename Timer::template rebind_executor<OtherExecutor>::other,
                               Hash>;
    };

    /// Makes limiters whose state `e` keeps under `name`, 1 to 190 bytes without a colon. Each key has `options` and, in
    /// each process, its own queue.
    ///
    /// @throws std::invalid_argument if an option is invalid, or if the store does not support such a limiter; the text
    /// names the option, its value and the bound. `configure` throws it, too.
    basic_shared_keyed(Executor const& ex, std::shared_ptr<store> e, std::string name,
                       shared_options const& options = {}, keyed_options const& keys = {},
                       queue_options const& queue = {})
        : basic_shared_keyed(std::make_shared<policy::keys_contact>(options, now()), ex,
                             std::move(e), std::move(name), options, keys, queue) {}

    /// Makes limiters that serve waiting requests on the executor of `context`.
    ///
    /// @throws std::invalid_argument as the other constructor
    template <detail::context_of<Executor> Context>
    basic_shared_keyed(Context& context, std::shared_ptr<store> e, std::string name,
                       shared_options const& options = {}, keyed_options const& keys = {},
                       queue_options const& queue = {})
        : basic_shared_keyed(Executor(context.get_executor()), std::move(e), std::move(name),
                             options, keys, queue) {}

    using base::async_drain;
    using base::async_enter;
    using base::async_enter_until;
    using base::cancel;
    using base::charge;
    using base::close;
    using base::configure_queue;
    using base::enter;
    using base::enter_at_once;
    using base::enter_until;
    using base::get_executor;
    using base::heaviest;
    using base::observe;
    using base::pause_for;
    using base::pause_until;
    using base::queueing;
    using base::reset;
    using base::resume;
    using base::run;
    using base::shutdown;
    using base::snapshot;
    using base::stats;
    using base::try_enter;
    using base::try_enter_many;
    using base::try_enter_up_to;

    /// Does not compile: the grant time depends on other processes.
    template <class Like, class... Args>
    void reserve(Like const&, Args const&...) const {
        static_assert(!std::same_as<Like, Like>,
                      "weir::shared_keyed: a shared limiter has no reservations, because the grant "
                      "time depends on other processes. Enter it with a patience");
    }
    /// Does not compile: the store cannot decide together with other limiters.
    template <class... Args>
    void with(Args const&...) const {
        static_assert(sizeof...(Args) > 1000,
                      "weir::chain: a shared limiter cannot be in a chain, because its store, "
                      "outside this process, grants the permits. Enter it separately");
    }

    /// Returns the options of all keys without individual options.
    [[nodiscard]] shared_options options() const { return base::options().limit; }
    /// Returns the options of one key.
    template <class Like>
    [[nodiscard]] shared_options options(Like const& key) const {
        return base::options(key).limit;
    }
    /// Replaces the options of all keys without individual options; see `basic_keyed::configure`. All processes must use
    /// the same rate.
    ///
    /// @throws std::invalid_argument as the constructor; then nothing has changed
    /// @throws std::bad_alloc as `basic_keyed::configure`
    void configure(shared_options const& options) {
        configure([&](shared_options& current) { current = options; });
    }
    /// Changes the options of all keys with `change(shared_options&)`; options that it does not assign keep their
    /// values.
    ///
    /// @throws std::invalid_argument or `std::bad_alloc` as the other overload
    template <std::invocable<shared_options&> Change>
    void configure(Change change) {
        base::configure([&](policy::fed_keys_options& all) {
            change(all.limit);
            check(all);
        });
        contact_->use(options(), now());
        runner_->tell_all();
    }
    /// Gives a key individual options, such as another rate. All processes must do so. `on_failure`, `timeout` and
    /// `retry` are the same for all keys, and are ignored here.
    ///
    /// @throws as `basic_keyed::configure`
    template <class Like>
    void configure(Like const& key, shared_options const& options) {
        auto own = base::options();
        auto const on_failure = own.limit.on_failure;
        own.limit = options;
        own.limit.on_failure = on_failure;
        check(own);
        base::configure(key, own);
    }

    /// Returns counts of the questions about all keys.
    [[nodiscard]] weir::shared_stats shared_stats() const { return contact_->stats(); }

    /// Waits until the mode changes; see `basic_shared_limiter::async_wait_mode_change`.
    ///
    /// Completion signature: `void(error_code, mode_change)`. Errors: `asio::error::operation_aborted`, and
    /// `errc::closed` if the limiter is destroyed.
    template <boost::asio::completion_token_for<void(error_code, mode_change)> Token =
                  detail::default_token_t<Executor>>
    auto async_wait_mode_change(Token&& token = detail::default_token_t<Executor>()) {
        using initiation =
            detail::initiation<core_type, Executor, detail::watch_signature<mode_change>>;
        return boost::asio::async_initiate<Token, void(error_code, mode_change)>(
            initiation(base::parts().front()), token, detail::starts_to_watch());
    }

    /// Returns the error of the last question, as the store reports it, with the message of the server; no error if
    /// there was a reply.
    [[nodiscard]] store_failure last_failure() const { return runner_->failure(); }

private:
    using shared_contact = std::shared_ptr<policy::keys_contact>;

    basic_shared_keyed(shared_contact const& contact, Executor const& ex, std::shared_ptr<store> e,
                       std::string name, shared_options const& options, keyed_options const& keys,
                       queue_options const& queue)
        : base(ex,
               policy::fed_keys_options{.limit = options,
                                        .is_log = std::same_as<Policy, policy::fed_log>,
                                        .contact = contact},
               keys, queue),
          contact_(contact) {
        detail::check_shared("shared_keyed", e.get(), name);
        detail::check_name_by_key(name);
        runner_ = std::make_shared<runner>(std::move(e), std::move(name), contact);
        check(base::options());
        for (auto const& part : base::parts())
            runner_->add(part.core);
    }

    void check(policy::fed_keys_options const& all) const {
        runner_->validate(policy::fed_keys_rule(all).bucket());
    }
    [[nodiscard]] static time_point now() noexcept {
        return detail::asio_host<Executor, Timer>::now();
    }

    shared_contact contact_;
    std::shared_ptr<runner> runner_;
};

/// A limit by key that many processes share: `shared_keyed<std::string>` is a token bucket for each key, and
/// `shared_keyed<std::string, shared_sliding_log>` a sliding log; see `basic_shared_keyed`.
template <class Key, class Limiter = shared_token_bucket>
using shared_keyed = basic_shared_keyed<Key, typename Limiter::policy_type>;

}  // namespace weir::inline v0_2
