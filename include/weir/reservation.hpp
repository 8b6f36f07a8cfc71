#pragma once

#include <weir/amount.hpp>
#include <weir/detail/asio_operation.hpp>
#include <weir/detail/enter_operation.hpp>
#include <weir/detail/wait_limit.hpp>
#include <weir/error.hpp>
#include <weir/permit.hpp>
#include <weir/policy/policy.hpp>
#include <weir/time.hpp>

#include <boost/asio/async_result.hpp>
#include <boost/assert.hpp>

#include <chrono>
#include <concepts>
#include <memory>
#include <optional>
#include <utility>

namespace weir {

namespace detail {

/// An operation without a handler: its outcome is left in it. It keeps itself while it is in the line of its core or on its
/// way out.
template <class Operation>
class kept_place final : public Operation {
public:
    void keep(std::shared_ptr<kept_place> self) noexcept { self_ = std::move(self); }
    /// Another operation has its place.
    void let_go() noexcept { auto const self = std::move(self_); }

    [[nodiscard]] bool post() override {
        let_go();
        return true;
    }
    void run() override {}
    void destroy() noexcept override { let_go(); }

private:
    std::shared_ptr<kept_place> self_;
};

/// Begins to wait in the place that a reservation keeps.
template <class Reservation>
class starts_to_use {
public:
    using signature = typename Reservation::signature;

    explicit starts_to_use(Reservation&& kept) noexcept : kept_(std::move(kept)) {}

    template <class Core>
    bool operator()(Core&, typename signature::operation_type& op) const {
        return kept_.hand_over(op);
    }
    template <class Core>
    [[nodiscard]] permit at_once(Core&, error_code& ec) const {
        auto granted = kept_.try_enter(ec);
        if (ec == errc::no_permit)
            ec = {};
        return granted;
    }

private:
    Reservation mutable kept_;
};

}  // namespace detail

/// A place in the line of a limiter, whose turn comes at an instant that is known: what `reserve` returns.
///
///     weir::leaky_bucket mails{ctx, {.rate = {10, 1s}}};
///
///     auto place = mails.reserve();                   // now, or throws weir::rejection
///     fmt::print("goes out at {}\n", *place.at());
///     auto turn = co_await place.enter();             // or place.give_back(), or its destructor
///
/// It stands in line as a request does that waits: behind those that came before, and before those that come later.
/// When its turn comes it gets its permit, which it keeps until it is asked for. If it is given back before, it was never
/// there: those behind it move up, reservations as well. If it is given back later its permit is refunded.
///
/// Nothing is taken ahead of its time: so what the limiter guarantees holds whatever is given back, and `at` is told and
/// not promised. It is exact if all before it are granted at their time. Its turn comes sooner if one of them leaves. It comes
/// later if somebody takes without asking (`charge`, `settle`), if one before it is granted more than the least that it has
/// asked for, if the rate is lowered, if a chain comes back to a place before it, and, where the limiter does not make up for
/// it, if a timer is late; and with `refill::interval`, if more comes back at a time than the bucket has room for.
///
/// Threads: it may be used on any thread, on one at a time. It may outlive its limiter and the execution context: then it
/// is rejected with `errc::closed`. An empty one may be destroyed, assigned to and asked for nothing but `retry_after`.
template <class Core, class Executor, class Clock, class Signature>
class [[nodiscard]] basic_reservation {
    using kept = detail::kept_place<typename Signature::operation_type>;
    using handle_type = detail::limiter_handle<Core, Executor>;
    using start_type = detail::starts_to_use<basic_reservation>;

public:
    using executor_type = Executor;
    using clock_type = Clock;
    using signature = Signature;

    basic_reservation() noexcept = default;
    basic_reservation(basic_reservation&& other) noexcept { swap(other); }
    basic_reservation& operator=(basic_reservation&& other) noexcept {
        basic_reservation moved(std::move(other));
        swap(moved);
        return *this;
    }
    ~basic_reservation() { give_back(); }

    void swap(basic_reservation& other) noexcept {
        std::swap(handle_, other.handle_);
        std::swap(place_, other.place_);
        std::swap(turn_, other.turn_);
        std::swap(retry_after_, other.retry_after_);
    }

    /// Whether there is a place, or a permit that has not been asked for yet.
    explicit operator bool() const noexcept { return place_ != nullptr; }

    /// When its turn comes, as told when the place was taken. Absent if that could not be told, as in an order other than
    /// `fifo`, or at a rate of 0.
    [[nodiscard]] std::optional<typename Clock::time_point> at() const noexcept {
        using instant = typename Clock::time_point;
        if (turn_ >= never)
            return std::nullopt;
        return instant(std::chrono::ceil<typename instant::duration>(turn_.time_since_epoch()));
    }

    /// For a rejection: when it may be worth asking again, as `permit::retry_after`.
    [[nodiscard]] std::optional<duration> retry_after() const noexcept {
        return if_known(retry_after_);
    }

    /// The permit, if its turn has come. The reservation is empty then, and so it is if there will be none: that is told by
    /// any other `ec` than `errc::no_permit`.
    permit try_enter(error_code& ec) noexcept {
        auto granted = handle_->core->take_up(*place_, ec);
        if (ec != errc::no_permit)
            clear();
        return granted;
    }
    permit try_enter() noexcept {
        error_code ignored;
        return try_enter(ignored);
    }

    /// Waits for its turn, in a coroutine on any executor. It gives the permit or throws `rejection`, like
    /// `basic_limiter::async_enter`. The reservation is empty from now on: the operation that is returned has the place.
    [[nodiscard]] auto enter() {
        auto handle = *handle_;
        return detail::enter_operation<handle_type, start_type>(
            std::move(handle), start_type(std::move(*this)));
    }
    /// The same with a completion token: `void(error_code, permit)`. A cancellation gives up the place, and so does what
    /// it throws: the same as `basic_limiter::async_enter`.
    template <boost::asio::completion_token_for<void(error_code, permit)> Token>
    auto async_enter(Token&& token) {
        detail::initiation<Core, Executor, Signature> const begins(
            handle_->core, handle_->executor);
        return boost::asio::async_initiate<Token, void(error_code, permit)>(
            begins, token, start_type(std::move(*this)));
    }

    /// As if it had never been taken; the reservation is empty then. The destructor does the same. An empty one does
    /// nothing.
    void give_back() noexcept {
        if (!place_)
            return;
        handle_->core->give_up(*place_).refund();
        clear();
    }

private:
    template <limiting_policy, class, class, class>
    friend class basic_limiter;
    template <class, class, class, class, class, class>
    friend class basic_keyed;
    friend start_type;

    template <class... Key>
    [[nodiscard]] static basic_reservation take(handle_type const& handle, request const& n,
                                                patience wait, error_code& ec, Key const&... key) {
        auto place = std::make_shared<kept>();
        place->ask_for(n);
        place->keep(place);
        basic_reservation made;
        bool waits = false;
        try {
            waits = handle.core->reserve(*place, {.length = wait}, made.turn_, key...);
        } catch (...) {
            place->let_go();
            throw;
        }
        if (!waits)
            place->let_go();
        ec = waits ? error_code() : place->error;
        if (ec) {
            made.turn_ = never;
            made.retry_after_ = place->granted.retry_after().value_or(forever);
        } else {
            made.handle_ = handle;
            made.place_ = std::move(place);
        }
        return made;
    }

    template <class... Key>
    [[nodiscard]] static basic_reservation take_or_throw(
        handle_type const& handle, request const& n, patience wait, Key const&... key) {
        error_code ec;
        auto made = take(handle, n, wait, ec, key...);
        if (ec)
            throw rejection(ec, made.retry_after());
        return made;
    }

    [[nodiscard]] bool hand_over(typename Signature::operation_type& by) noexcept {
        bool const waits = handle_->core->hand_over(*place_, by);
        if (waits)
            place_->let_go();
        clear();
        return waits;
    }

    void clear() noexcept {
        place_.reset();
        handle_.reset();
        turn_ = never;
    }

    std::optional<handle_type> handle_;
    std::shared_ptr<kept> place_;
    time_point turn_ = never;
    duration retry_after_ = forever;
};

}  // namespace weir
