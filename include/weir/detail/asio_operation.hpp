#pragma once

#include <weir/detail/asio_host.hpp>
#include <weir/detail/chain/member.hpp>
#include <weir/detail/operation.hpp>

#include <boost/asio/associated_allocator.hpp>
#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/associated_executor.hpp>
#include <boost/asio/associated_immediate_executor.hpp>
#include <boost/asio/associator.hpp>
#include <boost/asio/cancellation_type.hpp>
#include <boost/asio/dispatch.hpp>
#include <boost/asio/execution.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/require.hpp>

#include <memory>
#include <optional>
#include <type_traits>
#include <utility>
#include <variant>

namespace weir::inline v0_2::detail {

/// A function that was posted for an operation, and owns it until the call.
class arrival {
public:
    explicit arrival(operation& op) noexcept : op_(&op) {
        if (auto* const post = posting::current(); post && post->op_ == op_)
            post->fate_ = posting::fate::kept;
    }
    arrival(arrival&& other) noexcept : op_(std::exchange(other.op_, nullptr)) {}
    arrival& operator=(arrival&&) = delete;
    ~arrival() {
        if (!op_)
            return;
        if (auto* const post = posting::current(); post && post->op_ == op_)
            post->fate_ = posting::fate::destroyed;
        else
            op_->destroy();
    }

    void operator()() { std::exchange(op_, nullptr)->run(); }

    /// While this exists, the operation outlives a function that is destroyed on this thread without a call. This
    /// happens in two cases: a post throws before the executor has kept the function, or, without an exception, the
    /// function is given to a strand whose context is ending.
    class posting {
    public:
        explicit posting(operation& op) noexcept
            : op_(&op), outer_(std::exchange(current(), this)) {}
        posting(posting const&) = delete;
        posting& operator=(posting const&) = delete;
        ~posting() { current() = outer_; }

        /// Returns whether the executor has kept the function: then the function owns the operation, and may already
        /// have been called. An executor may keep it and throw all the same, as a strand does if its inner executor
        /// throws.
        [[nodiscard]] bool kept() const noexcept { return fate_ == fate::kept; }

        /// Returns `kept()` of the innermost object on this thread.
        [[nodiscard]] static bool current_is_kept() noexcept { return current()->kept(); }

    private:
        friend arrival;
        enum class fate : unsigned char { not_made, kept, destroyed };

        static posting*& current() noexcept {
            static thread_local constinit posting* innermost = nullptr;
            return innermost;
        }

        operation* op_;
        posting* outer_;
        fate fate_ = fate::not_made;
    };

private:
    operation* op_;
};

/// An `arrival` that is called through the executor that it names.
template <class Executor>
class arrival_on : public arrival {
public:
    using executor_type = Executor;

    arrival_on(operation& op, Executor const& ex) noexcept : arrival(op), executor_(ex) {}
    [[nodiscard]] executor_type get_executor() const noexcept { return executor_; }

private:
    Executor executor_;
};

/// The executor on which to complete an operation later.
template <class Executor>
class destination {
    using work = decltype(tracked(std::declval<Executor const&>()));
    static constexpr bool one_type = std::is_same_v<work, Executor>;
    struct nothing {};

public:
    /// If `track`, this object keeps the context of `ex` running.
    destination(Executor&& ex, bool track) : executor_(std::move(ex)) {
        if (!track)
            return;
        if constexpr (one_type)
            executor_ = tracked(executor_);
        else
            work_.emplace(tracked(executor_));
    }

    [[nodiscard]] Executor const& get() const noexcept { return executor_; }

private:
    Executor executor_;
    [[no_unique_address]] std::conditional_t<one_type, nothing, std::optional<work>> work_;
};

/// A completion handler with its arguments.
template <class Signature, class Handler>
class upcall {
public:
    using outcome = typename Signature::outcome;

    upcall(Handler&& h, outcome&& result) noexcept
        : handler(std::move(h)), result_(std::move(result)) {}

    void operator()() { result_.give_to(std::move(handler)); }

    Handler handler;

private:
    outcome result_;
};

/// `void(error_code, permit)`: the completion signature of a request for a permit.
struct enter_signature {
    using operation_type = operation;
    using result = permit;

    class outcome {
    public:
        explicit outcome(operation& op) noexcept
            : error_(op.error), granted_(std::move(op.granted)) {}

        template <class Handler>
        void give_to(Handler&& handler) {
            std::forward<Handler>(handler)(error_, std::move(granted_));
        }

    private:
        error_code error_;
        permit granted_;
    };
};

/// `void(error_code)`: the completion signature of `async_drain`.
struct drain_signature {
    using operation_type = operation;

    class outcome {
    public:
        explicit outcome(operation const& op) noexcept : error_(op.error) {}

        template <class Handler>
        void give_to(Handler&& handler) {
            std::forward<Handler>(handler)(error_);
        }

    private:
        error_code error_;
    };
};

/// `void(error_code, Found)`: the completion signature of a wait for an event that the policy reports.
template <class Found>
struct watch_signature {
    using operation_type = watch_operation<Found>;

    class outcome {
    public:
        explicit outcome(operation_type const& op) noexcept : error_(op.error), found_(op.found) {}

        template <class Handler>
        void give_to(Handler&& handler) {
            std::forward<Handler>(handler)(error_, found_);
        }

    private:
        error_code error_;
        Found found_;
    };
};

/// A completion handler that waits. It needs one allocation, from the handler's associated allocator, and frees it
/// before it calls the handler.
///
/// While it waits it keeps the context of its executor running; for the limiter's own executor the limiter does that.
template <class Signature, class Handler, class Executor>
class asio_operation final : public Signature::operation_type {
    using own_executor = boost::asio::associated_executor_t<Handler, Executor>;
    using own_allocator = boost::asio::associated_allocator_t<Handler>;
    using allocator =
        typename std::allocator_traits<own_allocator>::template rebind_alloc<asio_operation>;

    // An executor that does not support `blocking.never` is reached through the limiter's executor.
    static constexpr bool takes_posts =
        boost::asio::can_require_v<own_executor, boost::asio::execution::blocking_t::never_t>;
    using own_or_fallback = std::conditional_t<takes_posts, own_executor, Executor>;
    using onward = std::conditional_t<takes_posts, std::monostate, destination<own_executor>>;

public:
    [[nodiscard]] static std::unique_ptr<asio_operation, destroy_operation> make(
        Handler&& handler, Executor const& fallback) {
        allocator alloc(boost::asio::get_associated_allocator(handler));
        auto* const memory = std::allocator_traits<allocator>::allocate(alloc, 1);
        try {
            return std::unique_ptr<asio_operation, destroy_operation>(
                ::new (static_cast<void*>(memory))
                    asio_operation(std::move(handler), executor_of(handler, fallback), fallback));
        } catch (...) {
            std::allocator_traits<allocator>::deallocate(alloc, memory, 1);
            throw;
        }
    }

    [[nodiscard]] bool post() override {
        arrival::posting const guard(*this);
        try {
            execute();
        } catch (...) {
            if (!guard.kept())
                throw;
        }
        return guard.kept();
    }

    void run() override {
        auto call = take_apart();
        call();
    }

    void destroy() noexcept override {
        auto const unused = take_apart();
        static_cast<void>(unused);
    }

    /// Calls the handler of an operation that ended as soon as it began: on the handler's immediate executor if it has
    /// one, otherwise by a post to its own executor.
    static void complete_at_once(std::unique_ptr<asio_operation, destroy_operation> op,
                                 Executor const& ex) {
        using immediate = boost::asio::associated_immediate_executor<Handler, Executor>;
        if constexpr (requires {
                          typename immediate::asio_associated_immediate_executor_is_unspecialised;
                      }) {
            if (op->post())
                static_cast<void>(op.release());
        } else {
            auto const immediately = immediate::get(op->handler_, ex);
            boost::asio::dispatch(immediately, op.release()->take_apart());
        }
    }

private:
    asio_operation(Handler&& handler, own_or_fallback own, Executor const& fallback)
        : executor_(std::move(own), !is_fallback(own, fallback)),
          onward_(onward_of(handler, fallback)),
          handler_(std::move(handler)) {}

    // This call may destroy the object.
    void execute() {
        if constexpr (takes_posts) {
            auto const ex = never_blocking(executor_.get());
            using ex_type = std::remove_const_t<decltype(ex)>;
            using allocator_property = boost::asio::execution::allocator_t<own_allocator>;
            if constexpr (boost::asio::can_require_v<ex_type, allocator_property>) {
                boost::asio::require(ex, boost::asio::execution::allocator(
                                             boost::asio::get_associated_allocator(handler_)))
                    .execute(arrival(*this));
            } else {
                ex.execute(arrival(*this));
            }
        } else {
            // In the handler's own context, this object may outlive the limiter's context.
            auto fallback = std::move(executor_);
            try {
                boost::asio::post(fallback.get(), arrival_on<own_executor>(*this, onward_.get()));
            } catch (...) {
                if (!arrival::posting::current_is_kept())
                    executor_ = std::move(fallback);
                throw;
            }
        }
    }

    static own_or_fallback executor_of(Handler const& handler, Executor const& fallback) {
        if constexpr (takes_posts)
            return boost::asio::get_associated_executor(handler, fallback);
        else
            return fallback;
    }

    static onward onward_of(Handler const& handler, Executor const& fallback) {
        if constexpr (takes_posts)
            return {};
        else
            return onward(boost::asio::get_associated_executor(handler, fallback), true);
    }

    static bool is_fallback(own_or_fallback const& own, Executor const& fallback) {
        if constexpr (takes_posts && std::is_same_v<own_or_fallback, Executor>)
            return own == fallback;
        else
            return false;
    }

    // Destroys this object and returns the remaining call.
    upcall<Signature, Handler> take_apart() {
        upcall<Signature, Handler> call(std::move(handler_), typename Signature::outcome(*this));
        allocator alloc(boost::asio::get_associated_allocator(call.handler));
        this->~asio_operation();
        std::allocator_traits<allocator>::deallocate(alloc, this, 1);
        return call;
    }

    destination<own_or_fallback> executor_;
    [[no_unique_address]] onward onward_;
    Handler handler_;
};

/// The handler in a cancellation slot. It runs on the thread that emits the signal, and may outlive the operation, the
/// limiter and the context.
class canceller {
public:
    template <class Core>
    canceller(std::shared_ptr<Core> const& core, operation& op) {
        link_.core = core;
        core->connect(link_, op);
    }
    canceller(canceller const&) = delete;
    canceller& operator=(canceller const&) = delete;
    ~canceller() {
        if (auto const core = link_.core.lock())
            core->disconnect(link_);
    }

    // A wait that ends early has no side effect, so every type of cancellation applies.
    void operator()(boost::asio::cancellation_type type) {
        if (type == boost::asio::cancellation_type::none)
            return;
        if (auto const core = link_.core.lock())
            core->cancel(link_);
    }

private:
    cancel_link link_;
};

/// The parts of a limiter that its operations need. The core is null for a chain without limiters.
template <class Core, class Executor>
struct limiter_handle {
    std::shared_ptr<Core> core;
    Executor executor;
};

/// Starts an operation of a limiter that completes `handler`. `start(core, op)` hands it over, and returns true if it
/// waits, false if it has ended already.
template <class Signature, class Core, class Executor, class Handler, class Start>
void start_operation(limiter_handle<Core, Executor> const& of, Handler&& handler,
                     Start const& start) {
    using op_type = asio_operation<Signature, std::decay_t<Handler>, Executor>;
    auto const& [core, ex] = of;
    auto slot = boost::asio::get_associated_cancellation_slot(handler);
    auto op = op_type::make(std::decay_t<Handler>(std::forward<Handler>(handler)), ex);
    bool const cancellable = core && slot.is_connected();
    bool waits = false;
    try {
        if (cancellable)
            slot.template emplace<canceller>(core, *op);
        waits = start(core, *op);
    } catch (...) {
        if (core)
            core->disconnect(*op);
        throw;
    }
    if (waits)
        static_cast<void>(op.release());
    else
        op_type::complete_at_once(std::move(op), ex);
}

/// Begins to wait until all permits are released and no request waits.
struct starts_to_drain {
    template <class Core>
    bool operator()(std::shared_ptr<Core> const& core, operation& op) const {
        return core->drain(op);
    }
};

/// Begins to wait for an event that the policy reports.
struct starts_to_watch {
    template <class Core, class Found>
    bool operator()(std::shared_ptr<Core> const& core, watch_operation<Found>& op) const {
        return core->watch(op);
    }
};

/// Starts an operation once its handler is known. If the limiter was destroyed before the start, the operation ends
/// with `errc::closed`.
template <class Core, class Executor, class Signature>
class initiation {
public:
    using executor_type = Executor;
    using handle_type = limiter_handle<Core, Executor>;

    // The handle has a copy of the executor, because the limiter and its host may be destroyed before the call.
    explicit initiation(handle_type const& of) : handle_(of) {}

    [[nodiscard]] executor_type const& get_executor() const noexcept { return handle_.executor; }
    [[nodiscard]] handle_type&& handle() && noexcept { return std::move(handle_); }

    template <class Handler, class Start>
    void operator()(Handler&& handler, Start start) const {
        start_operation<Signature>(handle_, std::forward<Handler>(handler), start);
    }

private:
    handle_type handle_;
};

}  // namespace weir::inline v0_2::detail

template <template <class, class> class Associator, class Signature, class Handler, class Default>
struct boost::asio::associator<Associator, weir::detail::upcall<Signature, Handler>, Default>
    : Associator<Handler, Default> {
    using upcall = weir::detail::upcall<Signature, Handler>;

    static auto get(upcall const& call) noexcept {
        return Associator<Handler, Default>::get(call.handler);
    }
    static auto get(upcall const& call, Default const& otherwise) noexcept {
        return Associator<Handler, Default>::get(call.handler, otherwise);
    }
};
