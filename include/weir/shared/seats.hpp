#pragma once

#include <weir/detail/asio_operation.hpp>
#include <weir/detail/enter_operation.hpp>
#include <weir/detail/run_operation.hpp>
#include <weir/detail/verbs.hpp>
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

namespace weir::inline v0_2 {

namespace detail {

/// The signature `void(error_code)` of a wait for the loss of a permit.
struct loss_signature : drain_signature {
    using operation_type = watch_operation<ticket>;
};

/// Starts a wait for the loss of the permits of a ticket.
struct starts_to_watch_for_loss {
    ticket of;

    template <class Core>
    bool operator()(std::shared_ptr<Core> const& core, watch_operation<ticket>& op) const {
        op.found = of;
        return core->watch(op);
    }
};

/// Runs some work, and a wait for the loss of its permit: the operation that ends first cancels the other, except that
/// a cancelled wait cancels nothing.
struct ends_both {
    using kind = boost::asio::cancellation_type;

    template <class... Result>
    kind operator()(std::exception_ptr const&, Result const&...) const noexcept {
        return kind::all;
    }
    kind operator()(error_code const& ec) const noexcept { return ec ? kind::none : kind::all; }
};

}  // namespace detail

/// Seats that many processes share: a concurrency limit over all of them.
///
///     weir::shared_seats workers{ctx, store, "workers", {.seats = 16, .lease = 10s}};
///     auto const seat = co_await workers.enter(1s);
///     while (step())
///         if (seat.lost())
///             break;
///
///     co_await workers.run([] { return job(); }, 1s);   // cancelled if the seat is lost
///
/// This is a semaphore, or with one seat a lock, with leased permits. `policy::fed_seats` documents the guarantees. The
/// documentation of `basic_limiter` and `basic_shared_limiter` applies, with the following differences.
///
/// Lease: a seat is held while its permit exists. The limiter renews the lease after each third of it. For that its
/// context must run; it is kept running while seats are held, and until the store has taken them back or their lease
/// has ended. The limiter may be destroyed earlier: its permits remain valid and are renewed until the last one is
/// released. After the destruction of the context nothing is renewed, and the permits are lost at the end of the lease.
/// If a process dies or is suspended, its seats become free for others when the lease ends on the clock of the store,
/// and not before.
///
/// Loss: if the lease is not renewed in time, all permits of this process are lost together. Then `permit::lost()` is
/// true, `async_wait_lost` completes, `run` cancels its work, and another process may get the seat. A lost seat cannot
/// be recovered: release the permit, and enter again. The release of a lost permit frees no seat.
///
/// Fencing: a process may be suspended between its call of `lost()` and the action that follows. Only the resource can
/// protect itself against that: send `permit::id()` with every command to it. With one seat, the resource keeps the
/// greatest number that it has seen, and rejects a command with a lower number, in the transaction of the command. With
/// several seats a lower number may be valid, too; if that matters, use one name per seat, with one seat each. The
/// numbers grow even if the store loses its data, unless its clock is also set back.
///
/// Clocks: the clock of a process only measures how long something took, so it may show any time. It must not stop
/// while the machine sleeps; on such systems choose a `Timer` with a clock that continues. If the clock of the store is
/// set back, the seats of a dead process become free up to a lease later. If it is set forward by d, leases end earlier
/// by d, and others may get a seat up to a third of the lease before its holder detects the loss.
///
/// Failures: while the store is unavailable, nothing new is granted. In an outage, after a second of silence or five
/// rejections by the server, requests are rejected with `errc::unavailable`, unless this process holds seats that may be
/// released. There is no other rule for failures, because two processes that grant seats without the store would exceed
/// the limit.
///
/// A rejection for lack of seats carries no time to wait, because the time of the next release is unknown.
template <class Executor = boost::asio::any_io_executor, class Timer = basic_steady_timer<Executor>>
class basic_shared_seats : public basic_shared_limiter<policy::fed_seats, Executor, Timer> {
    using base = basic_shared_limiter<policy::fed_seats, Executor, Timer>;

public:
    /// Makes seats that a store keeps, like the constructors of `basic_shared_limiter`.
    using base::base;

    /// Rebinds this type of limiter to another executor.
    template <class OtherExecutor>
    struct rebind_executor {
        /// The limiter on `OtherExecutor`.
        using other =
            basic_shared_seats<OtherExecutor,
                               typename Timer::template rebind_executor<OtherExecutor>::other>;
    };

    /// Waits until `seat`, a permit of this limiter, is lost; completes at once if it is lost already.
    ///
    /// Several operations may wait for the same permit, and the permit may be destroyed meanwhile. While it waits, the
    /// operation keeps the context running. `close()` does not end it; `cancel()` does.
    ///
    /// Completion signature: `void(error_code)`: no error if the permit is lost. Errors:
    /// `asio::error::operation_aborted`, also when this process holds no more seats because all were released, and for
    /// a permit of nothing; `errc::closed` if the limiter is destroyed.
    template <
        boost::asio::completion_token_for<void(error_code)> Token = typename base::default_token>
    auto async_wait_lost(permit const& seat, Token&& token = typename base::default_token()) {
        using initiation =
            detail::initiation<typename base::core_type, Executor, detail::loss_signature>;
        return boost::asio::async_initiate<Token, void(error_code)>(
            initiation(*this->checked_handle()), token,
            detail::starts_to_watch_for_loss{seat.id()});
    }

    /// Enters, calls `f`, awaits its result and releases the seat, as `run` of `basic_limiter`. If the permit is lost,
    /// this also cancels an awaitable that `f` returned.
    ///
    /// After a loss it throws `rejection` with `errc::lost` when `f` has ended, whatever the result of `f`. `f` may
    /// ignore the cancellation; it must support terminal cancellation to be ended by it, as coroutines do by default.
    /// The result type of `f` must be default-constructible.
    template <class F>
        requires std::invocable<F&>
    [[nodiscard]] auto run(F&& f, request n, patience wait = {}) {
        detail::check_temporary<F>();
        auto enter = detail::operation_of(
            *this->checked_handle(), detail::starts_to_enter(n, {.length = wait}));
        return detail::run_awaitable(
            calls_while_held<decltype(enter), std::remove_reference_t<F>>(*this, enter, f));
    }
    /// Enters for 1 seat, calls `f`, awaits its result and releases the seat. If the permit is lost, this also cancels
    /// an awaitable that `f` returned.
    template <class F>
        requires std::invocable<F&>
    [[nodiscard]] auto run(F&& f, patience wait = {}) {
        detail::check_temporary<F>();
        return run(f, request(), wait);
    }

private:
    // See `calls_with_permit`.
    template <class Enter, class F>
    class calls_while_held {
    public:
        using outcome = detail::outcome_of<std::invoke_result_t<F&>, Executor>;

        calls_while_held(basic_shared_seats& owner, Enter enter, F& f) noexcept
            : owner_(&owner), enter_(std::move(enter)), f_(&f) {}

        [[nodiscard]] Executor const& get_executor() const noexcept {
            return enter_.get_executor();
        }

        template <class Other>
        [[nodiscard]] boost::asio::awaitable<typename outcome::type, Other> start() const {
            return owner_->run_while_held<outcome, Other>(enter_, *f_);
        }

    private:
        basic_shared_seats* owner_;
        Enter enter_;
        F* f_;
    };

    template <class Outcome, class Other, class Enter, class F>
    boost::asio::awaitable<typename Outcome::type, Other> run_while_held(Enter enter, F& f) {
        namespace asio = boost::asio;
        auto const seat = co_await std::move(enter);
        if constexpr (!Outcome::awaited) {
            co_return f();
        } else {
            auto both = asio::experimental::make_parallel_group(
                asio::co_spawn(co_await asio::this_coro::executor, f(), asio::deferred),
                async_wait_lost(seat, asio::deferred));
            auto ended = both.async_wait(detail::ends_both(), asio::deferred);
            using token = asio::use_awaitable_t<Other>;
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

/// Seats that many processes share, with the default executor and timer.
using shared_seats = basic_shared_seats<>;

template <class Executor, class Before, class Timer>
struct detail::with_timer<basic_shared_seats<Executor, Before>, Timer> {
    using type = basic_shared_seats<Executor, Timer>;
};

}  // namespace weir::inline v0_2
