#pragma once

#include <weir/detail/asio_host.hpp>
#include <weir/detail/context_user.hpp>
#include <weir/detail/pool/job.hpp>
#include <weir/detail/pool/jobs.hpp>
#include <weir/detail/pool/place.hpp>
#include <weir/detail/read_clock.hpp>
#include <weir/error.hpp>
#include <weir/lease.hpp>
#include <weir/policy/stock.hpp>
#include <weir/time.hpp>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_state.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/this_coro.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

namespace weir::inline v0_2::detail {

/// The object that is notified of the end of a checkout.
class checkout_listener {
public:
    /// The error of the last attempt to make an object; null if it succeeded, or before the first attempt.
    [[nodiscard]] virtual shared_failure failure() const noexcept = 0;
    /// Handles the end of a request's wait.
    virtual void caller_left() noexcept = 0;

protected:
    ~checkout_listener() = default;
};

/// The actor of a pool beside its limiter: it starts the making of objects for waiting requests, checks idle objects,
/// and destroys objects that are too old.
///
/// The supplier is level-triggered. Each change is followed by a call of `summon()`, on any thread, which posts a step
/// message by the protocol of `wakeup`. The step compares the waiting requests with the objects. It sees each change
/// that was made before it arrived, and each later change posts another step. Several steps may run at a time, since
/// each decision and its effect on the stock are one section of the core.
/// Requests wait only in the limiter's queue: a job serves the request that is at the head when the job is done.
///
/// Invariants:
/// - The lock of `jobs` is never held while the core or a user's function is called, nor while a user's object is
///   destroyed. Only `execute` of the executor is called under it.
/// - All objects that are bound to the context (strands, timers, signals) are in the frames of the jobs, or in
///   messages, which are destroyed with the context.
/// - A place of the stock that is in use is owned by a lease or by a `stock_place`, whose destructor returns it.
template <class T, class Executor, class Timer, class Core>
class supplier final
    : public context_user,
      public policy::stock_supplier,
      public checkout_listener,
      public std::enable_shared_from_this<supplier<T, Executor, Timer, Core>> {
    using stock = policy::stock;
    using place = stock_place<T, Core>;
    using strand_executor = boost::asio::any_io_executor;
    using timer_type = typename Timer::template rebind_executor<strand_executor>::other;
    using job_type = job<Executor>;
    using deadline = job_deadline<timer_type, Executor>;

public:
    using maker_type = std::function<boost::asio::awaitable<T>(Executor const&)>;
    using checker_type = std::function<boost::asio::awaitable<bool>(T&)>;

    supplier(std::shared_ptr<Core> core, Executor const& ex, maker_type make, checker_type check)
        : core_(std::move(core)),
          make_(std::move(make)),
          check_(std::move(check)),
          jobs_(ex, options().retry) {}
    supplier(supplier const&) = delete;
    supplier& operator=(supplier const&) = delete;
    ~supplier() = default;

    /// Reads the clock that all parts of the pool use.
    [[nodiscard]] static time_point now() noexcept {
        return read_clock<typename Timer::clock_type>();
    }

    /// Completes the construction. Call it once, before any other function.
    void begin() {
        jobs_.attach(this->shared_from_this());
        std::weak_ptr<stock_supplier> const self = this->shared_from_this();
        change_stock(*core_, [&](stock& s) { inventory_ = &s.supplied_by(self); });
        if (options().min != 0)
            summon();
    }

    void summon() noexcept override {
        jobs_.wake([this](Executor const& ex) {
            never_blocking(ex).execute(message(this->shared_from_this()));
        });
    }

    void object_gone() noexcept override {
        change_stock(*core_, [](stock& s) { s.gone(); });
        summon();
    }

    [[nodiscard]] shared_failure failure() const noexcept override { return jobs_.failure(); }

    /// Records that a request waits from now on.
    void caller_waits() noexcept {
        if (inventory_->needs_supplier())
            summon();
    }

    void caller_left() noexcept override {
        if (jobs_.is_any_backing_off())
            summon();
    }

    /// Destroys idle objects that are above `max`, too old or have been idle for too long.
    void trim() noexcept {
        auto const time = now();
        destroy_each([time](stock& s) {
            auto* const old = s.take_old(time);
            if (!old)
                s.plan_trim();
            return old;
        });
    }

    /// Keeps only as many objects as requests wait for.
    void shut_down() noexcept { jobs_.shut_down(); }

    /// Makes no more objects, and destroys the idle ones.
    void stop() noexcept {
        change_stock(*core_, [](stock& s) { s.close(); });
        jobs_.stop();
        destroy_idle();
    }

    void context_ends() noexcept override {
        change_stock(*core_, [](stock& s) { s.close(); });
        jobs_.context_ends();
        destroy_idle();
    }

private:
    class message {
    public:
        explicit message(std::shared_ptr<supplier> to) noexcept : to_(std::move(to)) {}
        void operator()() {
            auto const to = std::move(to_);
            to->step();
        }

    private:
        std::shared_ptr<supplier> to_;
    };

    /// The registration of a running job, in the frame of its coroutine.
    class registration {
    public:
        registration(std::shared_ptr<supplier> owner, std::shared_ptr<job_type> j) noexcept
            : owner_(std::move(owner)), job_(std::move(j)) {}
        registration(registration&&) noexcept = default;
        registration& operator=(registration&&) = delete;
        ~registration() {
            if (!owner_)
                return;
            // Otherwise the job could not be started, and an immediate retry is useless.
            if (owner_->jobs_.end(*job_))
                owner_->summon();
        }

        /// Registers the job. Call it on the job's strand, so that the job is not cancelled while Asio is still
        /// starting it. Returns whether the pool is still open.
        [[nodiscard]] bool begin() noexcept { return owner_->jobs_.begin(*job_); }

        /// Returns whether this job may try to make an object: while attempts fail, only one job tries.
        [[nodiscard]] bool claims_attempt() noexcept { return owner_->jobs_.claim_attempt(*job_); }

        [[nodiscard]] supplier& owner() const noexcept { return *owner_; }
        [[nodiscard]] std::shared_ptr<job_type> const& job() const noexcept { return job_; }

        void back_off(bool begins) noexcept { owner_->jobs_.back_off(*job_, begins); }

    private:
        std::shared_ptr<supplier> owner_;
        std::shared_ptr<job_type> job_;
    };

    /// The registration and the place of a job's coroutine. They are in one object, since compilers disagree on
    /// the order in which the parameters of a coroutine are destroyed: the place must be returned before the next
    /// call of `summon()`.
    class assignment {
    public:
        assignment(registration&& r, place&& p) noexcept
            : entry(std::move(r)), piece(std::move(p)) {}

        registration entry;
        place piece;
    };
    /// An assignment that was posted to the job's strand. An executor may keep a function whose post threw an exception:
    /// so two threads may try to take the assignment, and one succeeds.
    class sent_assignment {
    public:
        void put(assignment&& a) noexcept { given_.emplace(std::move(a)); }
        [[nodiscard]] std::optional<assignment> take() noexcept {
            return is_taken_.exchange(true) ? std::nullopt : std::move(given_);
        }

    private:
        std::optional<assignment> given_;
        std::atomic<bool> is_taken_ = false;
    };

    // Destroys the objects outside all locks. Each object counts until it is destroyed.
    template <class Take>
    void destroy_each(Take take) noexcept {
        for (;;) {
            std::unique_ptr<stock::item> old;
            change_stock(*core_, [&](stock& s) { old.reset(take(s)); });
            if (!old)
                return;
            old.reset();
            change_stock(*core_, [](stock& s) { s.gone(); });
        }
    }
    void destroy_idle() noexcept {
        destroy_each([](stock& s) { return s.take_any(); });
    }

    void step() noexcept {
        jobs_.step_arrived();
        trim();
        while (begin_job()) {}
        change_stock(*core_, [shut = jobs_.is_shut_down()](stock& s) { s.note_shortage(shut); });
        end_idle_retries();
    }

    [[nodiscard]] std::uint64_t waiting() const noexcept {
        return core_->ask([](auto const& room, time_point) { return room.waiting(); });
    }
    [[nodiscard]] pool_options options() const noexcept { return core_->options().pool; }

    // Begins a job if one is needed, and returns whether another one may be needed. An object that needs only a check
    // is checked, even if another object is being made meanwhile. While attempts to make objects fail, only one job at
    // a time tries.
    [[nodiscard]] bool begin_job() noexcept {
        auto const time = now();
        auto const begins = jobs_.next(time);
        if (!begins)
            return false;
        stock::item* unchecked = nullptr;
        bool has_place = false;
        core_->modify([&](auto& room) {
            stock& s = room.policy();
            auto const waiting = static_cast<amount>(room.waiting());
            auto const& n = s.count();
            if (waiting > n.being_checked)
                unchecked = s.take_unchecked(time);
            bool const wanted = waiting > n.being_checked + n.being_created;
            bool const low = begins->may_fill && n.objects() < s.options().pool.min;
            has_place = unchecked || (begins->may_make && (wanted || low) && s.reserve());
            return false;
        });
        return has_place && start(place(core_, unchecked), begins->executor);
    }

    // Starts a job on its strand: there Asio starts a coroutine without calling the executor, whose exceptions it
    // does not handle. Exceptions of this post are harmless, even if the executor has kept the function.
    [[nodiscard]] bool start(place piece, Executor const& ex) noexcept {
        std::shared_ptr<sent_assignment> sent;
        try {
            sent = std::make_shared<sent_assignment>();
            auto j = std::make_shared<job_type>(ex);
            registration entry(this->shared_from_this(), j);
            if (!piece.object() && !entry.claims_attempt())
                return true;  // a job that ended meanwhile saw this place in use, and its step began no other
            sent->put({std::move(entry), std::move(piece)});
            boost::asio::post(j->strand, [j, sent, ex] {
                if (auto mine = sent->take())
                    run(j, std::move(*mine), ex);
            });
            return true;
        } catch (...) {
            // Out of memory, or an exception of the executor: the next `summon()` retries.
            auto const back = sent ? sent->take() : std::nullopt;
            return false;
        }
    }
    static void run(std::shared_ptr<job_type> const& j, assignment given,
                    Executor const& ex) noexcept {
        try {
            auto token = boost::asio::bind_cancellation_slot(j->signal.slot(), job_end(j));
            boost::asio::co_spawn(j->strand, supply(std::move(given), ex), std::move(token));
        } catch (...) {
            // Out of memory: the next `summon()` retries.
        }
    }

    // The coroutine of a job.
    static boost::asio::awaitable<void> supply(assignment given, Executor ex) {
        auto& [entry, piece] = given;
        if (!entry.begin())
            co_return;
        auto& self = entry.owner();
        strand_executor const here = co_await boost::asio::this_coro::executor;
        if (T* const object = piece.object()) {
            bool healthy = false;
            {
                deadline const limit(entry.job(), here, self.options().check_timeout);
                try {
                    healthy = co_await self.check_(*object);
                } catch (...) {}  // the check failed
                healthy = healthy && !limit.passed();
            }
            if (healthy) {
                piece.is_healthy(now());
                co_return;
            }
            if (self.jobs_.are_stopped())
                co_return;
            piece.is_broken();
            // Another idle object may be healthy, and a check takes less time than making this one.
            self.summon();
            co_await boost::asio::this_coro::reset_cancellation_state(
                boost::asio::enable_terminal_cancellation());
            if (!entry.claims_attempt())
                co_return;
        }

        if (auto const at = self.jobs_.retry_at(); at > now()) {
            timer_type pause(here);
            pause.expires_at(typename timer_type::time_point(
                std::chrono::ceil<typename timer_type::duration>(at.time_since_epoch())));
            entry.back_off(true);
            if (self.waiting() == 0)
                co_return;  // from now on, the end of the last wait cancels the pause
            auto const [cancelled] =
                co_await pause.async_wait(boost::asio::as_tuple(boost::asio::deferred));
            entry.back_off(false);
            auto const state = co_await boost::asio::this_coro::cancellation_state;
            if (cancelled || state.cancelled() != boost::asio::cancellation_type::none)
                co_return;
        }
        if (!self.is_needed())
            co_return;

        auto const failures = self.jobs_.failures();
        std::exception_ptr failure;
        {
            deadline const limit(entry.job(), here, self.options().create_timeout);
            try {
                T object = co_await self.make_(ex);
                piece.is_made(std::move(object), now());
                self.jobs_.succeeded();
            } catch (...) {
                failure = limit.passed() ? timeout() : std::current_exception();
            }
        }
        if (failure && !self.jobs_.are_stopped())
            self.has_failed(std::move(failure), failures);
    }

    [[nodiscard]] static std::exception_ptr timeout() noexcept {
        return std::make_exception_ptr(boost::system::system_error(
            make_error_code(errc::timed_out), "weir::pool: create_timeout"));
    }

    // Returns whether the object that a job makes is still needed, and allowed.
    [[nodiscard]] bool is_needed() const noexcept {
        bool is_allowed = false;
        bool is_wanted = false;
        bool is_low = false;
        core_->ask([&](auto const& room, time_point) {
            auto const& limits = room.policy().options().pool;
            auto const objects = room.policy().count().objects();
            is_allowed = objects <= limits.max;
            is_wanted = room.waiting() != 0;
            is_low = objects <= limits.min;
        });
        return is_allowed && jobs_.go_on(is_wanted, is_low);
    }
    void has_failed(std::exception_ptr thrown, std::uint32_t seen) noexcept {
        auto why = described(std::move(thrown));
        backoff_options retry;
        change_stock(*core_, [&](stock& s) {
            s.has_failed();
            retry = s.options().pool.retry;
        });
        jobs_.failed(std::move(why), retry, seen, now());
    }

    // Without memory, the reason is unknown.
    [[nodiscard]] static shared_failure described(std::exception_ptr thrown) noexcept {
        try {
            return shared_failure(new detail::failure(std::move(thrown)));
        } catch (...) {
            return nullptr;
        }
    }

    // Ends the pauses of retries if no request waits for their objects any more.
    void end_idle_retries() noexcept {
        if (jobs_.is_any_backing_off() && waiting() == 0)
            jobs_.cancel_retries();
    }

    std::shared_ptr<Core> const core_;
    stock::inventory const* inventory_ = nullptr;  // of the core
    maker_type make_;
    checker_type check_;

    jobs<Executor> jobs_;
};

}  // namespace weir::inline v0_2::detail
