#pragma once

#include <weir/detail/enter_operation.hpp>
#include <weir/detail/own_awaiters.hpp>

#include <boost/asio/associated_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>

#include <concepts>
#include <coroutine>
#include <exception>
#include <type_traits>
#include <utility>

namespace weir::inline v0_2::detail {

/// The result of a function that `run` calls, and the executor type of the coroutine that it returns.
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

/// Rejects a temporary function that g++ before 13 would destroy twice. `F` is the deduced type of a parameter `F&&`.
template <class F>
constexpr void check_temporary() noexcept {
#if defined(__GNUC__) && !defined(__clang__) && __GNUC__ < 13
    static_assert(std::is_lvalue_reference_v<F> || std::is_trivially_destructible_v<F>,
                  "g++ 12 destroys a temporary function with a destructor twice in a co_await "
                  "expression: name the function first");
#endif
}

template <class F, class Held>
decltype(auto) call_with(F& f, Held const& held) {
    if constexpr (std::invocable<F&>)
        return f();
    else
        return f(*held);
}

/// The work of `run`: it enters, calls a function, and leaves. The function takes nothing, or the object of a lease.
///
/// A work defines its `outcome`, the `outcome_of` the function, and `start<Executor>()`, which makes the coroutine.
template <class Enter, class F>
class calls_with_permit {
public:
    using executor_type = std::decay_t<decltype(std::declval<Enter const&>().get_executor())>;
    using outcome = outcome_of<
        decltype(call_with(std::declval<F&>(), std::declval<typename Enter::result const&>())),
        executor_type>;

    calls_with_permit(Enter enter, F& f) noexcept : enter_(std::move(enter)), f_(&f) {}

    [[nodiscard]] auto const& get_executor() const noexcept { return enter_.get_executor(); }

    template <class Executor>
    [[nodiscard]] boost::asio::awaitable<typename outcome::type, Executor> start() const {
        return run<Executor>(enter_, *f_);
    }

private:
    template <class Executor>
    static boost::asio::awaitable<typename outcome::type, Executor> run(Enter enter, F& f) {
        auto const held = co_await std::move(enter);
        if constexpr (outcome::awaited)
            co_return co_await call_with(f, held);
        else
            co_return call_with(f, held);
    }

    Enter enter_;
    F* f_;
};

template <class T>
struct run_signature {
    using type = void(std::exception_ptr, T);
};
template <>
struct run_signature<void> {
    using type = void(std::exception_ptr);
};

/// A call of `run` that has not started yet: an asynchronous operation in Asio's sense, to be awaited in a coroutine on
/// any executor. With another handler it runs in a new coroutine, on the executor of the handler.
template <class Work>
class run_operation {
    using outcome = typename Work::outcome;
    using signature = typename run_signature<typename outcome::type>::type;

    class starts {
    public:
        using executor_type = std::decay_t<decltype(std::declval<Work const&>().get_executor())>;

        explicit starts(Work work) noexcept : work_(std::move(work)) {}
        [[nodiscard]] executor_type get_executor() const noexcept { return work_.get_executor(); }

        template <class Handler>
        void operator()(Handler&& handler) const {
            auto const ex = boost::asio::get_associated_executor(handler, get_executor());
            using own = std::remove_const_t<decltype(ex)>;
            using executor = std::conditional_t<outcome::awaited, typename outcome::executor, own>;
            boost::asio::co_spawn(executor(ex), work_.template start<executor>(),
                                  std::forward<Handler>(handler));
        }

    private:
        Work work_;
    };

public:
    explicit run_operation(Work work) noexcept : work_(std::move(work)) {}

    template <boost::asio::completion_token_for<signature> Token>
    auto operator()(Token&& token) && {
        return boost::asio::async_initiate<Token, signature>(starts(std::move(work_)), token);
    }

    /// Whether a coroutine on such an executor can await the function directly.
    template <class Executor>
    static constexpr bool runs_on =
        !outcome::awaited || std::same_as<Executor, typename outcome::executor>;

    template <class Executor>
    [[nodiscard]] auto on() const {
        return work_.template start<Executor>();
    }

private:
    Work work_;
};

/// A `run_operation` as an awaitable, which `co_spawn` and the operators `||` and `&&` take.
template <class Work>
class [[nodiscard]] run_awaitable
    : public run_operation<Work>,
      public boost::asio::awaitable<typename Work::outcome::type,
                                    typename Work::outcome::executor> {
    using coroutine_executor = typename Work::outcome::executor;
    using awaitable = boost::asio::awaitable<typename Work::outcome::type, coroutine_executor>;

public:
    explicit run_awaitable(Work const& work)
        : run_operation<Work>(work), awaitable(work.template start<coroutine_executor>()) {}

    /// Returns a coroutine on such an executor.
    template <class Executor>
    [[nodiscard]] auto take() && {
        if constexpr (std::same_as<Executor, coroutine_executor>)
            return awaitable(std::move(*this));
        else
            return this->template on<Executor>();
    }
};

template <class Work>
run_awaitable<Work> const& as_run_awaitable(run_awaitable<Work> const& op) noexcept {
    return op;
}
/// An awaitable of `run` whose function a coroutine on `Executor` can await directly.
template <class Op, class Executor>
concept runs_on = requires(Op const& op) {
    detail::as_run_awaitable(op);
    requires Op::template runs_on<Executor>;
};

}  // namespace weir::inline v0_2::detail

#ifdef WEIR_HAS_OWN_AWAITERS

/// The awaiter of `run`: it runs in the coroutine that awaits it, whose executor may have any type.
template <class Signature, class Op, class Executor>
    requires weir::detail::runs_on<Op, Executor>
class boost::asio::detail::awaitable_async_op<Signature, Op, Executor> {
public:
    awaitable_async_op(Op&& op, awaitable_frame_base<Executor>*)
        : coroutine_(std::move(op).template take<Executor>()) {}

    [[nodiscard]] bool await_ready() const noexcept { return coroutine_.await_ready(); }
    template <class Frame>
    void await_suspend(coroutine_handle<Frame> here) {
        coroutine_.await_suspend(here);
    }
    auto await_resume() -> decltype(auto) { return coroutine_.await_resume(); }

private:
    decltype(std::declval<Op&&>().template take<Executor>()) coroutine_;
};

#endif
