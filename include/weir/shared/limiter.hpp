#pragma once

#include <weir/detail/asio_operation.hpp>
#include <weir/detail/context_of.hpp>
#include <weir/detail/read_clock.hpp>
#include <weir/error.hpp>
#include <weir/limiter.hpp>
#include <weir/policy/fed.hpp>
#include <weir/policy/fed_seats.hpp>
#include <weir/queue_options.hpp>
#include <weir/shared/last_failure.hpp>
#include <weir/shared/store.hpp>
#include <weir/time.hpp>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/error.hpp>

#include <chrono>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>

namespace weir::inline v0_2 {

namespace detail {

inline void put(store& e, std::string const& name, policy::fed::question const& q,
                store::answer_handler handler) {
    e.async_take(name, q, std::move(handler));
}
inline void put(store& e, std::string const& name, policy::fed_seats::question const& q,
                store::seats_handler handler) {
    e.async_hold(name, q, std::move(handler));
}

/// Passes the messages of a store to the policy of one limiter.
template <class Core, class Clock>
class seats_receiver final : public policy::fed_seats::listener {
public:
    explicit seats_receiver(std::weak_ptr<Core> core) : core_(std::move(core)) {}

    void receive(policy::fed_seats::notice const& what) noexcept override {
        tell([&](policy::fed_seats& p, time_point now) { p.heard(what, now); });
    }
    void missed_messages() noexcept override {
        tell([](policy::fed_seats& p, time_point now) { p.missed_messages(now); });
    }

private:
    template <class F>
    void tell(F f) noexcept {
        auto const now = detail::read_clock<Clock>();
        if (auto const core = core_.lock())
            core->modify_at(now, [&](auto& room, time_point t) { f(room.policy(), t); });
    }

    std::weak_ptr<Core> core_;
};

/// Carries the commands of one limiter to its store, and the results back.
template <class Policy, class Core, class Clock>
class shared_runner final
    : public Policy::runner,
      public std::enable_shared_from_this<shared_runner<Policy, Core, Clock>> {
    using command_type = typename Policy::command_type;
    using question = typename Policy::question;
    using answer = typename Policy::answer;

public:
    shared_runner(std::weak_ptr<Core> core, std::shared_ptr<store> e, std::string name)
        : core_(std::move(core)), store_(std::move(e)), name_(std::move(name)) {}

    using plain_policy = std::conditional_t<lending_policy<Policy>, policy::fed_seats, policy::fed>;
    void validate(plain_policy const& p) const override {
        if constexpr (!lending_policy<Policy>)
            store_->validate(p.bucket());
        else if (!store_->keeps_seats())
            throw std::invalid_argument("weir: this store does not support seats");
    }

    void carry_out(command_type const& command) noexcept override {
        if constexpr (std::is_same_v<command_type, question>)
            ask(command);
        else if (auto const* const q = std::get_if<question>(&command))
            ask(*q);
        else
            give_back(std::get<store::give_back>(command));
    }

    /// Returns the error of the last question, if it failed.
    [[nodiscard]] store_failure failure() const { return failure_.get(); }

private:
    void ask(question const& q) noexcept {
        try {
            if constexpr (lending_policy<Policy>)
                listen(q.holder);
            put(*store_, name_, q,
                [self = this->shared_from_this(), q](error_code ec, answer const& a) {
                    self->receive(q, ec, a);
                });
        } catch (...) {
            receive(q, boost::asio::error::no_memory, {.kind = failure_kind::unsent});
        }
    }

    // Only one question is in progress at a time.
    void listen(policy::fed_seats::holder_id const& holder)
        requires lending_policy<Policy>
    {
        if (receiver_)
            return;
        receiver_ = std::make_shared<seats_receiver<Core, Clock>>(core_);
        store_->listen(holder, receiver_);
    }

    void give_back(store::give_back const& what) noexcept {
        try {
            store_->async_give_back(name_, what);
        } catch (...) {
            // Then the permits count as used.
        }
    }

    void receive(question const& q, error_code ec, answer const& a) noexcept {
        failure_.note(ec, a.kind, a.text);
        bool is_received = false;
        bool goes_on = false;
        bool is_used = false;
        if (auto const core = core_.lock()) {
            auto const now = detail::read_clock<Clock>();
            goes_on = core->modify_at(now, [&](auto& room, time_point t) {
                is_used = room.live() != 0;
                is_received = lending_policy<Policy> || !room.is_gone();
                auto& p = room.policy();
                if (is_received && (ec ? p.failed(q.number, a, t) : p.answered(q.number, a, t)))
                    room.reprice();
            });
        }
        if constexpr (!lending_policy<Policy>) {
            if (!is_received && !ec && a.granted != 0)
                give_back({q.bucket, a.granted, a.since, q.timeout});
        } else if (!goes_on && !is_used && !ec && (a.held != 0 || a.ahead >= 0)) {
            release(q, a);
        }
    }

    // Gives back permits that no request will use, and leaves the line.
    void release(question q, answer const& a) noexcept
        requires lending_policy<Policy>
    {
        ++q.number;
        q.fence = a.fence;
        q.keep = q.min = q.max = 0;
        q.yields = false;
        try {
            put(*store_, name_, q, [](error_code, answer const&) {});
        } catch (...) {
            // Then the lease ends.
        }
    }

    std::weak_ptr<Core> core_;
    std::shared_ptr<store> store_;
    std::string name_;
    std::shared_ptr<policy::fed_seats::listener> receiver_;  // of seats
    last_failure failure_;
};

}  // namespace detail

/// A limiter whose state a store keeps, for all limiters with the same name on that store.
///
///     auto const store = std::make_shared<weir::mysql::store>(ctx, weir::mysql::options{.database = "shop"});
///     weir::shared_token_bucket calls{ctx, store, "calls", {.rate = {100, 1min}, .burst = 20}};
///     auto const call = co_await calls.enter(1s);
///
/// Requests wait in the queue of this process, as in any other limiter. The limiter asks the store for them, with one
/// question at a time. `basic_limiter` documents the operations, and `policy::fed` the guarantees.
///
/// Waiting: each grant costs a round trip to the store, which many requests share if they wait together. So while the
/// store decides, `try_enter` and `enter` with a patience of 0 are rejected with `errc::no_permit` or
/// `errc::timed_out`, except for 0 permits: the shortest useful patience is a round trip. No request waits longer than
/// its patience, whatever the store does.
///
/// Prefetch: with `shared_options::prefetch` the limiter fetches permits ahead for waiting requests. It grants them
/// without a round trip while there are any, also to `try_enter`; but `try_enter` alone causes no prefetch.
///
/// Failures: while the store does not reply, requests wait. In an outage, after a second of silence or five rejections
/// by the server, `shared_options::on_failure` applies: requests are rejected with `errc::unavailable`, or all are
/// granted, or this process grants its share. A rejection carries the time of the next question, which the first request
/// after that time causes. The limiter returns to the store with the first reply. If the server rejects a question until
/// an option changes, such as a password, that does not count as an outage: requests are rejected with
/// `errc::misconfigured` at once, whatever `on_failure` is.
///
/// Lifetime: the limiter keeps the store alive. A permit refunded after the destruction of the limiter counts as used.
/// A question in progress keeps the context of its store running until the store replies.
template <class Policy, class Executor = boost::asio::any_io_executor,
          class Timer = basic_steady_timer<Executor>>
class basic_shared_limiter : public basic_limiter<Policy, Executor, Timer> {
    using base = basic_limiter<Policy, Executor, Timer>;
    using runner =
        detail::shared_runner<Policy, typename base::core_type, typename Timer::clock_type>;

public:
    /// The options of the policy, such as `shared_options`.
    using options_type = typename base::options_type;

    /// Rebinds this type of limiter to another executor.
    template <class OtherExecutor>
    struct rebind_executor {
        /// The limiter on `OtherExecutor`.
        using other =
            basic_shared_limiter<Policy, OtherExecutor,
                                 typename Timer::template rebind_executor<OtherExecutor>::other>;
    };

    /// Makes a limiter whose state `e` keeps under `name`, 1 to 255 bytes.
    ///
    /// @throws std::invalid_argument if an option is invalid, or if the store does not support such a limiter; the text
    /// names the option, its value and the bound. `configure` throws it, too.
    basic_shared_limiter(Executor const& ex, std::shared_ptr<store> e, std::string name,
                         options_type const& options = {}, queue_options const& queueing = {})
        : base(ex, options, queueing) {
        detail::check_shared("shared limiter", e.get(), name);
        auto& core = this->core();
        runner_ = std::make_shared<runner>(core.share(), std::move(e), std::move(name));
        core.fed_by(runner_);
    }

    /// Makes a limiter whose waiting requests are served on the executor of `context`.
    ///
    /// @throws std::invalid_argument as the other constructor
    template <detail::context_of<Executor> Context>
    basic_shared_limiter(Context& context, std::shared_ptr<store> e, std::string name,
                         options_type const& options = {}, queue_options const& queueing = {})
        : basic_shared_limiter(Executor(context.get_executor()), std::move(e), std::move(name),
                               options, queueing) {}

    /// Returns counts of the questions that this limiter asked the store.
    [[nodiscard]] auto shared_stats() const {
        return this->core().ask([](auto const& room, time_point) {
            return room.policy().fed_stats();
        });
    }

    /// Waits until the mode changes: the store decides, or one of the rules of `shared_options::on_failure`. It
    /// completes with one change: wait again for the next.
    ///
    /// Each change is reported once, in order, to the wait that was started first. If no operation waits when the mode
    /// changes, the next wait completes with that change at once; of more than 8 unreported changes, only the last 8
    /// are reported. While no operation waits for anything, only the next request detects a missing reply.
    ///
    /// This is an operation instead of a callback, so that the handler runs on its own executor, never under a lock,
    /// and ends with the context. While it waits, it keeps the context running. `close()` does not end it; `cancel()`
    /// does.
    ///
    /// Completion signature: `void(error_code, mode_change)`. Errors: `asio::error::operation_aborted`, and
    /// `errc::closed` if the limiter is destroyed.
    template <boost::asio::completion_token_for<void(error_code, mode_change)> Token =
                  typename base::default_token>
    auto async_wait_mode_change(Token&& token = typename base::default_token())
        requires eventful_policy<Policy>
    {
        using initiation = detail::initiation<typename base::core_type, Executor,
                                              detail::watch_signature<mode_change>>;
        return boost::asio::async_initiate<Token, void(error_code, mode_change)>(
            initiation(*this->checked_handle()), token, detail::starts_to_watch());
    }

    /// Returns the error of the last question, as the store reports it, with the message of the server; no error if there
    /// was a reply.
    [[nodiscard]] store_failure last_failure() const { return runner_->failure(); }

private:
    std::shared_ptr<runner> runner_;
};

/// A token bucket that many processes share: a limit of the average rate, with bursts.
template <class Executor = boost::asio::any_io_executor, class Timer = basic_steady_timer<Executor>>
using basic_shared_token_bucket = basic_shared_limiter<policy::fed, Executor, Timer>;

/// A token bucket that many processes share, with the default executor and timer.
using shared_token_bucket = basic_shared_token_bucket<>;

/// A sliding log that many processes share: at most the number of permits of `rate` in any time interval of its period,
/// exactly, over all processes.
template <class Executor = boost::asio::any_io_executor, class Timer = basic_steady_timer<Executor>>
using basic_shared_sliding_log = basic_shared_limiter<policy::fed_log, Executor, Timer>;

/// A sliding log that many processes share, with the default executor and timer.
using shared_sliding_log = basic_shared_sliding_log<>;

/// An interval that many processes share: at most one permit in any time interval of length `every`, over all
/// processes. It is a token bucket with a burst of 1.
template <class Executor = boost::asio::any_io_executor, class Timer = basic_steady_timer<Executor>>
class basic_shared_interval : public basic_shared_token_bucket<Executor, Timer> {
public:
    /// Rebinds this type of limiter to another executor.
    template <class OtherExecutor>
    struct rebind_executor {
        /// The limiter on `OtherExecutor`.
        using other =
            basic_shared_interval<OtherExecutor,
                                  typename Timer::template rebind_executor<OtherExecutor>::other>;
    };

    /// Makes a limiter that grants one permit per `every`, 1 us to ten years.
    template <class Place>
    basic_shared_interval(Place&& place, std::shared_ptr<store> e, std::string name, duration every,
                          queue_options const& queueing = {})
        : basic_shared_token_bucket<Executor, Timer>(
              place, std::move(e), std::move(name), {.rate = {1, every}, .burst = 1}, queueing) {}
};

/// An interval that many processes share, with the default executor and timer.
using shared_interval = basic_shared_interval<>;

template <class Policy, class Executor, class Before, class Timer>
struct detail::with_timer<basic_shared_limiter<Policy, Executor, Before>, Timer> {
    using type = basic_shared_limiter<Policy, Executor, Timer>;
};
template <class Executor, class Before, class Timer>
struct detail::with_timer<basic_shared_interval<Executor, Before>, Timer> {
    using type = basic_shared_interval<Executor, Timer>;
};

}  // namespace weir::inline v0_2
