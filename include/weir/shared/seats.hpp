#pragma once

#include <weir/detail/asio_operation.hpp>
#include <weir/error.hpp>
#include <weir/limiter.hpp>
#include <weir/permit.hpp>
#include <weir/policy/fed_seats.hpp>
#include <weir/shared/limiter.hpp>
#include <weir/time.hpp>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/cancellation_type.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/experimental/parallel_group.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <concepts>
#include <exception>
#include <type_traits>
#include <utility>

namespace weir {

namespace detail {

/// `void(error_code)`: what a wait for the loss of a permit is completed with.
struct loss_signature : drain_signature {
    using operation_type = watch_operation<ticket>;
};

/// Begins to wait for the loss of the permits of a ticket.
struct starts_to_watch_for_loss {
    ticket of;

    template <class Core>
    bool operator()(Core& core, watch_operation<ticket>& op) const {
        op.found = of;
        return core.watch(op);
    }
};

/// Of some work and a wait for the loss of its permit: the one that ends, ends the other, but a wait that was
/// cancelled ends nothing.
struct ends_both {
    using kind = boost::asio::cancellation_type;

    template <class... Result>
    kind operator()(std::exception_ptr const&, Result const&...) const noexcept {
        return kind::all;
    }
    kind operator()(error_code const& ec) const noexcept { return ec ? kind::none : kind::all; }
};

}  // namespace detail

/// Seats that many processes share: at most so many permits are out at a time, over all of them. It is a semaphore, or with
/// one seat a lock, whose permits are on loan: `policy::fed_seats` says what is guaranteed.
///
///     weir::shared_seats kitchen{ctx, store, "kitchen", {.seats = 16, .lease = 10s}};
///     auto const seat = co_await kitchen.enter(1s);
///     while (cook())
///         if (seat.lost())
///             break;
///
///     co_await kitchen.run([] { return cook_slowly(); }, 1s);   // is cancelled if the seat is lost
///
/// What is said of `basic_limiter` and `basic_shared_limiter` holds for it, with these differences.
///
/// A seat is held for as long as its permit is out, and renewed meanwhile, after a third of the lease each time. For that
/// the context of the limiter must run; it is kept running while seats are held, and until the store has taken them
/// back or their lease has ended. The limiter may be destroyed before: its permits stay good, and are renewed
/// until the last one is back. When the context is destroyed nobody renews, and the permits are lost at the end of the
/// lease. In a process that dies or stands still, seats come free for others when the lease has ended by the clock of
/// the store, and not before.
///
/// A permit that is not renewed in time is lost: all permits of this process together. Then `permit::lost()` is true,
/// `async_wait_lost` completes, `run` cancels what it runs, and the seat may be another one's. It cannot be had back:
/// let the permit go, and enter anew. A lost permit comes home like any other, and makes no room.
///
/// Fence: a process may stand still between its look at `lost()` and what it does then. Against that only the resource
/// can protect itself: send `permit::id()` with every order to it. With one seat, the resource keeps the greatest number that
/// it has seen and rejects an order with a lower one, in the same transaction as what it does. With several seats
/// a lower number may be good as well; where it matters, let there be a name for each seat, with one seat.
/// Numbers grow also where the store has lost its data, unless its clock was set back as well.
///
/// Clocks: that of a process is only asked for how long something took, so it may show any time. It must not stand still
/// while the machine sleeps: where that happens, let the clock of `Timer` be one that goes on. If the clock of the store
/// is set back, the seats of a process that has died come free up to a lease later. If it is set forward by d, leases end
/// by d sooner, and others may have a seat up to a third of the lease before its holder knows.
///
/// While the store cannot be asked, nothing new is granted: after five failures in a row requests are rejected with
/// `errc::unavailable`, unless this process holds seats that may come home. There is no other choice: seats that were
/// granted without the store would be too many as soon as two processes do so.
///
/// Why no time can be named when a request is rejected: nobody knows when a seat comes home.
template <class Executor = boost::asio::any_io_executor, class Timer = basic_steady_timer<Executor>>
class basic_shared_seats : public basic_shared_limiter<policy::fed_seats, Executor, Timer> {
    using base = basic_shared_limiter<policy::fed_seats, Executor, Timer>;

public:
    using base::base;

    template <class OtherExecutor>
    struct rebind_executor {
        using other =
            basic_shared_seats<OtherExecutor,
                               typename Timer::template rebind_executor<OtherExecutor>::other>;
    };

    /// Waits until `seat`, a permit of this limiter, is lost; at once, if it is. Several may wait for the same one. The
    /// permit need not live meanwhile.
    ///
    /// While it waits it keeps the context running. `close()` does not end it; `cancel()` does.
    ///
    /// Completion signature: `void(error_code)`: no error if the permit is lost. Errors: `asio::error::operation_aborted`,
    /// also when this process holds no seats any more because all have come home, and for a permit of nothing; and
    /// `errc::closed` if the limiter is destroyed.
    template <
        boost::asio::completion_token_for<void(error_code)> Token = typename base::default_token>
    auto async_wait_lost(permit const& seat, Token&& token = typename base::default_token()) {
        using initiation =
            detail::initiation<typename base::core_type, Executor, detail::loss_signature>;
        return boost::asio::async_initiate<Token, void(error_code)>(
            initiation(this->core().share(), this->get_executor()), token,
            detail::starts_to_watch_for_loss{seat.id()});
    }

    /// As that of `basic_limiter`; besides, an awaitable that `f` returns is cancelled if the permit is lost. Then
    /// this throws `rejection` with `errc::lost` when `f` has ended, whatever has come of it. `f` may ignore the cancellation;
    /// it must support the terminal one to be ended by it, as coroutines do unless they say otherwise. What it gives must be
    /// default-constructible.
    template <class F>
        requires std::invocable<F&>
    [[nodiscard]] auto run(F&& f, request n = {}, patience wait = {}) {
        return run_while_held(f, n, wait);
    }
    template <class F>
        requires std::invocable<F&>
    [[nodiscard]] auto run(F&& f, patience wait) {
        return run_while_held(f, request(), wait);
    }

private:
    template <class F, class Outcome = detail::outcome_of<std::invoke_result_t<F&>, Executor>>
    boost::asio::awaitable<typename Outcome::type, typename Outcome::executor> run_while_held(
        F& f, request n, patience wait) {
        namespace asio = boost::asio;
        auto const seat = co_await this->enter(n, wait);
        if constexpr (!Outcome::awaited) {
            co_return f();
        } else {
            auto both = asio::experimental::make_parallel_group(
                asio::co_spawn(co_await asio::this_coro::executor, f(), asio::deferred),
                async_wait_lost(seat, asio::deferred));
            auto ended = both.async_wait(detail::ends_both(), asio::deferred);
            using token = asio::use_awaitable_t<typename Outcome::executor>;
            if constexpr (std::is_void_v<typename Outcome::type>) {
                auto const [_, failure, kept] = co_await std::move(ended)(token());
                check(failure, kept);
            } else {
                auto [_, failure, result, kept] = co_await std::move(ended)(token());
                check(failure, kept);
                co_return std::move(result);
            }
        }
    }

    static void check(std::exception_ptr const& failure, error_code const& kept) {
        if (!kept)
            throw rejection(errc::lost, std::nullopt);
        if (failure)
            std::rethrow_exception(failure);
    }
};

using shared_seats = basic_shared_seats<>;

}  // namespace weir
