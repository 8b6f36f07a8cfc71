#pragma once

#include <weir/amount.hpp>
#include <weir/detail/asio_operation.hpp>
#include <weir/detail/enter_operation.hpp>
#include <weir/detail/verbs.hpp>
#include <weir/detail/wait_limit.hpp>
#include <weir/error.hpp>
#include <weir/permit.hpp>
#include <weir/policy/policy.hpp>
#include <weir/time.hpp>

#include <boost/asio/async_result.hpp>

#include <chrono>
#include <concepts>
#include <memory>
#include <optional>
#include <stdexcept>
#include <utility>

namespace weir::inline v0_2 {

namespace detail {

/// An operation without a handler, which stores its result. It owns itself while it waits in the queue of its core or
/// is posted.
template <class Operation>
class kept_place final : public Operation {
public:
    void keep(std::shared_ptr<kept_place> self) noexcept { self_ = std::move(self); }
    /// Another operation has taken its position.
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

/// Starts to wait in the position of a reservation.
template <class Reservation>
class starts_to_use {
public:
    using signature = typename Reservation::signature;

    explicit starts_to_use(Reservation&& kept) noexcept : kept_(std::move(kept)) {}

    template <class Core>
    bool operator()(std::shared_ptr<Core> const&, typename signature::operation_type& op) const {
        return kept_.hand_over(op);
    }
    template <class Core>
    [[nodiscard]] permit at_once(std::shared_ptr<Core> const&, error_code& ec) const {
        auto granted = kept_.try_enter(ec);
        if (ec == errc::no_permit)
            ec = {};
        return granted;
    }

private:
    Reservation mutable kept_;
};

}  // namespace detail

/// A position in the queue of a limiter with a known grant time: the result of `reserve`.
///
///     weir::leaky_bucket mails{ctx, {.rate = {10, 1s}}};
///
///     auto reserved = mails.reserve();                   // immediately, or throws weir::rejection
///     fmt::print("sends at {}\n", *reserved.at());
///     auto permit = co_await reserved.enter();           // or reserved.give_back(), or its destructor
///
/// A reservation waits like a request: behind earlier requests and before later ones. At its grant time it receives its
/// permit, and keeps it until `enter` or `try_enter`. If it is given back before that time, later requests and
/// reservations move up, as if it had never existed. If it is given back after that time, its permit is refunded.
///
/// The reservation takes no permit in advance, so the limiter's guarantee holds whatever is given back, and `at` is a
/// prediction, not a promise. It is exact if all requests ahead are granted at their times. The grant comes earlier if
/// one of them leaves. It comes later in these cases:
/// - `charge` or `settle` takes permits without a request.
/// - A request ahead is granted more than its minimum.
/// - The rate is lowered.
/// - A chain returns to a position ahead.
/// - A timer is late, and the limiter does not make up for it.
/// - With `refill::interval`, a refill is larger than the free room of the bucket.
///
/// `sliding_log`, `sliding_window` and `fixed_window` grant the requests ahead one by one in advance, since their amounts
/// count: with 3 permits per window, requests for 2, 2 and 2 permits need three windows, and requests for 3 and 3
/// need two. So `at` also counts what a request ahead for a range of permits is granted, and that a request ahead leaves
/// if its patience ends before its turn; it leaves up to `queue_options::tolerance` later.
///
/// Threads: use it on any thread, on one at a time. It may outlive its limiter and the execution context; then it is
/// rejected with `errc::closed`. A reservation is empty if it was rejected, moved from, given back, or if `enter` or
/// `try_enter` has taken its permit or its position.
template <class Core, class Executor, class Clock, class Signature>
class [[nodiscard]] basic_reservation {
    using kept = detail::kept_place<typename Signature::operation_type>;
    using handle_type = detail::limiter_handle<Core, Executor>;
    using start_type = detail::starts_to_use<basic_reservation>;
    using enter_token = detail::enter_token_t<Executor>;

public:
    /// The executor of the limiter.
    using executor_type = Executor;
    /// The clock of the limiter.
    using clock_type = Clock;
    /// The completion signature of `async_wait`.
    using signature = Signature;

    /// An empty reservation.
    basic_reservation() noexcept = default;
    basic_reservation(basic_reservation&& other) noexcept { swap(other); }
    basic_reservation& operator=(basic_reservation&& other) noexcept {
        basic_reservation moved(std::move(other));
        swap(moved);
        return *this;
    }
    /// Gives the reservation back.
    ~basic_reservation() { give_back(); }

    /// Exchanges the position with the position of `other`.
    void swap(basic_reservation& other) noexcept {
        std::swap(handle_, other.handle_);
        std::swap(place_, other.place_);
        std::swap(grant_time_, other.grant_time_);
        std::swap(retry_after_, other.retry_after_);
    }

    /// Returns whether it holds a position, or a permit that was not taken yet.
    explicit operator bool() const noexcept { return place_ != nullptr; }

    /// Returns the grant time, as predicted when the position was reserved. Absent if it was unknown: in an
    /// order other than `fifo` or `codel`, at a rate of 0, while the queue is examined again after a change, and for a log
    /// or a window while a chain waits in its queue or memory is lacking.
    [[nodiscard]] std::optional<typename Clock::time_point> at() const noexcept {
        using instant = typename Clock::time_point;
        if (grant_time_ >= never)
            return std::nullopt;
        return instant(
            std::chrono::ceil<typename instant::duration>(grant_time_.time_since_epoch()));
    }

    /// Returns, for a rejection, the time until a retry may be useful, as `permit::retry_after`.
    [[nodiscard]] std::optional<duration> retry_after() const noexcept {
        return if_known(retry_after_);
    }

    /// Returns the permit if the grant time has come, without waiting; the reservation is empty then.
    ///
    /// Otherwise the permit is empty. With `errc::no_permit` the reservation still waits; any other `ec` means that it
    /// was rejected, and it is empty then. An empty reservation is rejected with `errc::closed`.
    permit try_enter(error_code& ec) noexcept {
        if (!place_) {
            ec = errc::closed;
            return {};
        }
        auto granted = handle_->core->take_up(*place_, ec);
        if (ec != errc::no_permit)
            clear();
        return granted;
    }
    /// Returns the permit if the grant time has come, and an empty one otherwise, without waiting.
    permit try_enter() noexcept {
        error_code ignored;
        return try_enter(ignored);
    }

    /// Waits for the permit. The operation takes the position, so the reservation is empty from now on.
    ///
    /// Await the result in a coroutine on any executor. It returns the permit or throws `rejection`, like
    /// `basic_limiter::async_enter`.
    ///
    /// @throws std::logic_error from this call if the reservation is empty
    [[nodiscard]] auto enter() { return async_enter(detail::use_await()); }
    /// Waits for the permit. The operation takes the position, so the reservation is empty from now on.
    ///
    /// Completion signature: `void(error_code, permit)`. Errors and exceptions are as in `basic_limiter::async_enter`.
    /// A cancellation or an exception gives up the position.
    ///
    /// @throws std::logic_error if the reservation is empty
    template <boost::asio::completion_token_for<void(error_code, permit)> Token = enter_token>
    auto async_enter(Token&& token = enter_token()) {
        auto const of = handle();
        return detail::async_enter(of, start_type(std::move(*this)), std::forward<Token>(token));
    }

    /// Gives up the position, or refunds the permit; the reservation is empty then. The destructor does this too. An
    /// empty one does nothing.
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
            waits = handle.core->reserve(*place, {.length = wait}, made.grant_time_, key...);
        } catch (...) {
            place->let_go();
            throw;
        }
        if (!waits)
            place->let_go();
        ec = waits ? error_code() : place->error;
        if (ec) {
            made.grant_time_ = never;
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

    [[nodiscard]] handle_type const& handle() const {
        if (!handle_)
            throw std::logic_error("weir: this reservation is empty");
        return *handle_;
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
        grant_time_ = never;
    }

    std::optional<handle_type> handle_;
    std::shared_ptr<kept> place_;
    time_point grant_time_ = never;
    duration retry_after_ = forever;
};

}  // namespace weir::inline v0_2
