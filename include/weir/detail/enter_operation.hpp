#pragma once

#include <weir/detail/asio_operation.hpp>
#include <weir/detail/frame_memory.hpp>
#include <weir/detail/own_awaiters.hpp>
#include <weir/detail/wait_limit.hpp>
#include <weir/error.hpp>
#include <weir/permit.hpp>

#include <boost/asio/associator.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_allocator.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/this_coro.hpp>

#include <algorithm>
#include <chrono>
#include <concepts>
#include <coroutine>
#include <exception>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

namespace boost::asio::experimental::awaitable_operators {

/// An awaitable for which Asio's `||` and `&&` are found wherever the user has included them.
template <class T, class Executor>
class weir_operand : public awaitable<T, Executor> {
public:
    explicit weir_operand(awaitable<T, Executor>&& a) noexcept
        : awaitable<T, Executor>(std::move(a)) {}
};

}  // namespace boost::asio::experimental::awaitable_operators

namespace weir::inline v0_2::detail {

/// Converts a deadline of the caller to a limit of the wait.
template <class Clock, class Duration>
[[nodiscard]] wait_limit wait_until(std::chrono::time_point<Clock, Duration> deadline) {
    auto const t = time_point(round_up(deadline.time_since_epoch()));
    return {.length = forever, .until = std::min(t, never)};
}

/// Begins to wait for permits; the initiation calls it to start the operation.
class starts_to_enter {
public:
    using signature = enter_signature;

    starts_to_enter(request const& r, wait_limit const& limit) noexcept : r_(r), limit_(limit) {}

    template <class Core>
    bool operator()(std::shared_ptr<Core> const& core, operation& op) const {
        op.ask_for(r_);
        return core->enter(op, limit_);
    }
    template <class Core>
    [[nodiscard]] permit at_once(std::shared_ptr<Core> const& core, error_code& ec) const {
        return core->enter_at_once(r_, ec);
    }

private:
    request r_;
    wait_limit limit_;
};

/// Returns the exception for a rejection.
[[nodiscard]] inline rejection rejection_of(error_code ec, permit const& rejected) {
    return {permit_issuer::rejected_of(rejected), ec};
}

/// A handler of `void(error_code, permit)` that passes a rejection on as an exception.
template <class Handler>
class rejecting_handler {
public:
    explicit rejecting_handler(Handler&& h) noexcept : handler(std::move(h)) {}

    template <class Permit>
    void operator()(error_code ec, Permit granted) {
        auto const rejected = ec ? std::make_exception_ptr(rejection_of(ec, granted)) : nullptr;
        std::move(handler)(rejected, std::move(granted));
    }

    Handler handler;
};

/// A handler of `void(error_code, permit)` that stores the error.
template <class Handler>
class noting_handler {
public:
    noting_handler(Handler&& h, error_code& ec) noexcept : handler(std::move(h)), error_(&ec) {}

    template <class Permit>
    void operator()(error_code ec, Permit granted) {
        *error_ = ec;
        std::move(handler)(std::move(granted));
    }

    Handler handler;

private:
    error_code* error_;
};

/// A request for permits that has not started yet: an asynchronous operation in Asio's sense, to be awaited in a
/// coroutine on any executor.
///
/// `co_await` returns the permit, or throws `rejection`. If the permit is granted immediately, the coroutine is not
/// suspended and nothing is allocated. `std::move(op)(handler)` starts the operation with a handler of
/// `void(error_code, permit)`.
///
/// `Handle` is a `limiter_handle`, which lets the operation outlive the limiter, or a pointer to one. `Start` hands
/// the operation to its core.
template <class Handle, class Start>
class [[nodiscard]] enter_operation {
public:
    using result = typename Start::signature::result;

    /// The stored operation that completes a `Handler` after a wait.
    template <class Handler>
    using waiting_operation =
        asio_operation<typename Start::signature, Handler,
                       std::decay_t<decltype(std::remove_pointer_t<Handle>::executor)>>;

    enter_operation(Handle&& handle, Start&& start) noexcept
        : handle_(std::move(handle)), start_(std::move(start)) {}

    [[nodiscard]] auto const& get_executor() const noexcept { return handle().executor; }

    template <class Token>
        requires(std::invocable<std::decay_t<Token>, error_code, result> ||
                 boost::asio::completion_token_for<Token, void(std::exception_ptr, result)>)
    auto operator()(Token&& token) && {
        if constexpr (std::invocable<std::decay_t<Token>, error_code, result>) {
            initiate(std::forward<Token>(token));
        } else {
            return boost::asio::async_initiate<Token, void(std::exception_ptr, result)>(
                starts(std::move(*this)), token);
        }
    }

    /// Grants immediately, or sets `ec` to the reason of the rejection. If waiting might help, returns an empty
    /// permit without an error.
    [[nodiscard]] result at_once(error_code& ec) const { return start_.at_once(handle().core, ec); }

    template <class Handler>
    void initiate(Handler&& handler) const {
        start_operation<typename Start::signature>(
            handle(), std::forward<Handler>(handler), start_);
    }

private:
    class starts {
    public:
        explicit starts(enter_operation&& op) noexcept : op_(std::move(op)) {}
        using executor_type =
            std::decay_t<decltype(std::declval<enter_operation&>().get_executor())>;
        [[nodiscard]] executor_type get_executor() const noexcept { return op_.get_executor(); }

        template <class Handler>
        void operator()(Handler&& handler) {
            op_.initiate(rejecting_handler<std::decay_t<Handler>>(std::forward<Handler>(handler)));
        }

    private:
        enter_operation op_;
    };

    [[nodiscard]] auto const& handle() const noexcept {
        if constexpr (std::is_pointer_v<Handle>)
            return *handle_;
        else
            return handle_;
    }

    Handle handle_;
    Start start_;
};

template <class Executor, class Operation>
boost::asio::awaitable<typename Operation::result, Executor> await_alone(Operation operation) {
    co_return co_await std::move(operation);
}

/// An `enter_operation` that also becomes a coroutine where one is asked for: by a conversion to an awaitable, by
/// `co_spawn`, which calls it, and by the operators `||` and `&&`. `co_await` starts the operation, without a coroutine.
template <class Handle, class Executor, class Start>
class [[nodiscard]] enter_awaitable : public enter_operation<Handle, Start> {
    using operation = enter_operation<Handle, Start>;

public:
    using value_type = typename Start::signature::result;
    using executor_type = Executor;
    using awaitable = boost::asio::awaitable<value_type, Executor>;

    using operation::operation;
    using operation::operator();

    [[nodiscard]] awaitable operator()() const {
        return await_alone<Executor>(static_cast<operation const&>(*this));
    }
    [[nodiscard]] operator awaitable() const { return (*this)(); }  // like Asio's, implicit
};

/// The token of an operation that is awaited in a coroutine on any executor, and throws if it is rejected.
struct use_await {};

template <class Handle, class Start>
enter_operation<Handle, Start> const& as_enter_operation(
    enter_operation<Handle, Start> const& op) noexcept {
    return op;
}
template <class Op>
concept enters = requires(Op const& op) { detail::as_enter_operation(op); };

template <class T, class Executor>
[[nodiscard]] auto as_operand(boost::asio::awaitable<T, Executor>&& a) noexcept {
    return boost::asio::experimental::awaitable_operators::weir_operand<T, Executor>(std::move(a));
}
template <class Handle, class Executor, class Start>
[[nodiscard]] auto as_operand(enter_awaitable<Handle, Executor, Start> const& op) {
    return as_operand(op());
}

template <class T>
inline constexpr bool is_enter_awaitable = false;
template <class Handle, class Executor, class Start>
inline constexpr bool is_enter_awaitable<enter_awaitable<Handle, Executor, Start>> = true;

template <class A, class B>
    requires(is_enter_awaitable<A> || is_enter_awaitable<B>)
[[nodiscard]] auto operator||(A a, B b)
    -> decltype(as_operand(std::move(a)) || as_operand(std::move(b))) {
    return as_operand(std::move(a)) || as_operand(std::move(b));
}
template <class A, class B>
    requires(is_enter_awaitable<A> || is_enter_awaitable<B>)
[[nodiscard]] auto operator&&(A a, B b)
    -> decltype(as_operand(std::move(a)) && as_operand(std::move(b))) {
    return as_operand(std::move(a)) && as_operand(std::move(b));
}

}  // namespace weir::inline v0_2::detail

template <class Result>
class boost::asio::async_result<weir::detail::use_await, void(weir::error_code, Result)> {
public:
    template <class Initiation, class Start>
    static auto initiate(Initiation&& initiation, weir::detail::use_await, Start&& start) {
        using handle_type = typename std::remove_cvref_t<Initiation>::handle_type;
        return weir::detail::enter_operation<handle_type, std::remove_cvref_t<Start>>(
            std::forward<Initiation>(initiation).handle(), std::forward<Start>(start));
    }
    // `completion_token_for` asks for this one.
    template <class Initiation>
    static void initiate(Initiation&&, weir::detail::use_await);
};

template <template <class, class> class Associator, class Handler, class Default>
struct boost::asio::associator<Associator, weir::detail::rejecting_handler<Handler>, Default>
    : Associator<Handler, Default> {
    static auto get(weir::detail::rejecting_handler<Handler> const& h) noexcept {
        return Associator<Handler, Default>::get(h.handler);
    }
    static auto get(weir::detail::rejecting_handler<Handler> const& h,
                    Default const& otherwise) noexcept {
        return Associator<Handler, Default>::get(h.handler, otherwise);
    }
};

template <template <class, class> class Associator, class Handler, class Default>
struct boost::asio::associator<Associator, weir::detail::noting_handler<Handler>, Default>
    : Associator<Handler, Default> {
    static auto get(weir::detail::noting_handler<Handler> const& h) noexcept {
        return Associator<Handler, Default>::get(h.handler);
    }
    static auto get(weir::detail::noting_handler<Handler> const& h,
                    Default const& otherwise) noexcept {
        return Associator<Handler, Default>::get(h.handler, otherwise);
    }
};

#ifdef WEIR_HAS_OWN_AWAITERS

/// The awaiter of such an operation: it asks the limiter first, and suspends only if it must wait.
template <class Permit, weir::detail::enters Op, class Executor>
class boost::asio::detail::awaitable_async_op<void(std::exception_ptr, Permit), Op, Executor> {
    // The rest of the operation, as Asio awaits any other.
    class waiting {
    public:
        explicit waiting(awaitable_async_op& self) noexcept : self_(self) {}

        template <class Handler>
        void operator()(Handler&& handler) && {
            static_assert(std::is_same_v<std::decay_t<Handler>, typename plain::handler_type>,
                          "the memory in the frame fits another handler");
            self_.op_.initiate(bound(weir::detail::frame_allocator<void>(self_.memory_),
                                     noting(std::forward<Handler>(handler), self_.error_)));
        }

    private:
        awaitable_async_op& self_;
    };
    using plain = awaitable_async_op<void(Permit), waiting, Executor>;
    using operation =
        std::decay_t<decltype(weir::detail::as_enter_operation(std::declval<Op const&>()))>;
    using noting = weir::detail::noting_handler<typename plain::handler_type>;
    using bound = boost::asio::allocator_binder<noting, weir::detail::frame_allocator<void>>;

public:
    /// The memory for the operation while it waits.
    using memory_type =
        weir::detail::frame_memory_for<typename operation::template waiting_operation<bound>>;

    awaitable_async_op(Op const& op, awaitable_frame_base<Executor>* frame)
        : op_(weir::detail::as_enter_operation(op)), frame_(frame) {}

    bool await_ready() {
        // A coroutine can choose not to get an exception for a cancellation.
        auto const state = frame_->await_transform(this_coro::cancellation_state).await_resume();
        if (state.cancelled() != cancellation_type::none) {
            error_ = boost::asio::error::operation_aborted;
            return true;
        }
        granted_ = op_.at_once(error_);
        return granted_ || error_;
    }

    void await_suspend(coroutine_handle<void> here) {
        plain_.emplace(std::move(waiting_), frame_);
        plain_->await_suspend(here);
    }

    Permit await_resume() {
        if (plain_)
            granted_ = plain_->await_resume();
        if (error_) {
            using weir::detail::rejection_of;
            throw rejection_of(error_, granted_);
        }
        return std::move(granted_);
    }

private:
    operation const& op_;  // the operand of `co_await`, which exists until the coroutine continues
    awaitable_frame_base<Executor>* frame_;
    Permit granted_;
    weir::error_code error_;
    memory_type memory_;
    waiting waiting_{*this};  // Asio keeps a reference to it
    std::optional<plain> plain_;
};

#endif
