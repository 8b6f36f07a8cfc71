#pragma once

#include <weir/detail/operation.hpp>
#include <weir/permit.hpp>

#include "simulation.hpp"

#include <algorithm>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#ifndef __has_feature
#define __has_feature(x) 0
#endif

namespace explorer {

using weir::permit;

// With AddressSanitizer it is better to free immediately; without it, later, to detect a use after the end.
#if defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)
inline constexpr bool frees_at_once = true;
#else
inline constexpr bool frees_at_once = false;
#endif

/// The granted permits and their times, one time for each permit.
template <class Permit>
struct seat_of {
    Permit held;
    std::vector<time_point> granted;
    int key = 0;
    weir::standing how{};
};
using seat = seat_of<permit>;

/// The handler of a cancellation slot.
struct canceller {
    weir::detail::cancel_link link;
    int users = 0;
    int core = 0;
    int key = 0;
};

template <class Permit>
struct caller_of {
    int number = 0;
    std::unique_ptr<canceller> slot;
    std::deque<seat_of<Permit>> seats;
    bool answered = true;
    error_code told;
};

/// An object that records its end.
class mortal {
public:
    virtual ~mortal() = default;
    [[nodiscard]] virtual bool is_linked() const noexcept = 0;
    [[nodiscard]] virtual request& asked() const noexcept = 0;
};

/// The receiver of the outcome of an operation.
template <class Permit>
class addressee {
public:
    using seat = seat_of<Permit>;
    using caller = caller_of<Permit>;

    // Notifies the oracle first, then the caller.
    virtual void completed(request& r, error_code ec, Permit const& granted,
                           weir::overdue const& found) = 0;
    virtual void destroyed(request& r, error_code ec, Permit const& granted) = 0;
    virtual void throws(request& r) = 0;
    virtual void answer(caller& who, action const& how, error_code ec, seat given) = 0;

    virtual void leave(seat& s) = 0;
    virtual void bury(mortal* op) = 0;
    /// Returns the context in which handlers of the request run that have no associated executor.
    [[nodiscard]] virtual context& home_of(request const& r) = 0;

protected:
    ~addressee() = default;
};

/// The outcome of an operation, as its handler gets it.
template <class Permit>
struct outcome_of {
    template <class Operation>
    static Permit take(Operation& op) {
        return std::move(op.granted);
    }
};

/// A completion handler that waits. It checks when and where it is called, and passes the outcome on.
///
/// `Base` is the class that the core sees.
template <class Base, class Permit = permit>
class operation final : public Base, public mortal {
    using seat = seat_of<Permit>;
    using caller = caller_of<Permit>;

public:
    operation(simulation& world, addressee<Permit>& to, caller& who, action const& how,
              request& asked)
        : world_(world), to_(to), who_(who), how_(how), asked_(asked) {
        this->ask_for(asked.wants == request::wish::permits ? asked_by(asked.n, asked.more, how.how)
                                                            : weir::request(0));
        asked.op = this;
    }
    ~operation() override = default;

    [[nodiscard]] bool post() override {
        use("a post");
        bool const lives_at_home = how_.lives != action::abode::elsewhere;
        auto& where = lives_at_home ? to_.home_of(asked_) : world_.elsewhere;
        if (lives_at_home && asked_.has_waited && world_.what.post_failures == 0 &&
            !world_.is_kept_running(where))
            violated(invariant::host, "a handler is posted to a context that may have returned");
        auto own = std::make_unique<arrival>(*this);
        auto& mine = *own;
        std::unique_ptr<message> m = std::move(own);
        try {
            world_.post(where, m);
        } catch (...) {
            mine.op = nullptr;
            throw;
        }
        return true;
    }

    void run() override {
        use("a handler");
        if (world_.initiating())
            violated(invariant::completion, "a handler is called inside its initiating function");
        auto const& how = how_;
        complete();
        if (how.throws)
            throw failure();
    }

    void destroy() noexcept override {
        use("the end of a handler");
        world_.say("the handler of caller {} is destroyed", who_.number);
        auto given = take_seat();
        to_.destroyed(asked_, this->error, given.held);
        to_.leave(given);
        pass_on(this->error, {});
    }

    /// Completes an operation that ended immediately, and notifies the caller.
    void complete() {
        weir::overdue late;
        if constexpr (requires { Base::found; })
            late = this->found;
        auto given = take_seat();
        to_.completed(asked_, this->error, given.held, late);
        pass_on(this->error, std::move(given));
    }

    /// Discards an operation that never began.
    void discard() {
        to_.throws(asked_);
        to_.bury(this);
    }

    [[nodiscard]] bool is_linked() const noexcept override {
        return static_cast<weir::detail::list_hook<weir::detail::in_line> const&>(*this)
                   .is_linked() ||
               static_cast<weir::detail::wheel_hook const&>(*this).is_linked();
    }

    [[nodiscard]] request& asked() const noexcept override { return asked_; }

private:
    struct arrival final : message {
        explicit arrival(operation& o) : op(&o) {}
        ~arrival() override {
            if (op)
                op->destroy();
        }
        void run() override { std::exchange(op, nullptr)->run(); }
        operation* op;
    };

    void use(char const* what) {
        world_.check_unlocked(what);
        if (over_)
            violated(invariant::completion, "an operation is used after its end");
    }

    seat take_seat() {
        simulation::unfailing const ours;
        auto held = outcome_of<Permit>::take(*this);
        auto const n = held ? static_cast<std::size_t>(std::max(asked_.n, asked_.got)) : 0;
        return {std::move(held), std::vector<time_point>(n, asked_.decided_at), asked_.key,
                asked_.how};
    }

    void pass_on(error_code ec, seat given) {
        simulation::unfailing const ours;
        auto& to = to_;
        auto& who = who_;
        auto const& how = how_;
        over_ = true;
        to.bury(this);
        to.answer(who, how, ec, std::move(given));
    }

    simulation& world_;
    addressee<Permit>& to_;
    caller& who_;
    action const& how_;
    request& asked_;
    bool over_ = false;
};

/// An operation without a handler, which holds a reservation.
template <class Base, class Permit>
class kept_operation final : public Base, public mortal {
public:
    kept_operation(simulation& world, addressee<Permit>& to, action const& how, request& asked)
        : world_(world), to_(to), asked_(asked) {
        this->ask_for(asked_by(asked.n, asked.more, how.how));
        asked.op = this;
        asked.kept = true;
    }
    ~kept_operation() override = default;

    void keep(std::shared_ptr<kept_operation> self) { self_ = std::move(self); }
    void let_go() {
        if (is_linked())
            violated(invariant::completion, "a reservation is in a queue after its end");
        asked_.released = true;
        auto const self = std::move(self_);
    }

    [[nodiscard]] bool post() override {
        world_.check_unlocked("a post");
        let_go();
        return true;
    }
    void run() override { violated(invariant::completion, "a reservation is completed"); }
    void destroy() noexcept override {
        world_.check_unlocked("the end of a reservation");
        if (asked_.doomed)
            to_.destroyed(asked_, this->error, this->granted);
        let_go();
    }

    [[nodiscard]] bool is_linked() const noexcept override {
        return static_cast<weir::detail::list_hook<weir::detail::in_line> const&>(*this)
                   .is_linked() ||
               static_cast<weir::detail::wheel_hook const&>(*this).is_linked();
    }
    [[nodiscard]] request& asked() const noexcept override { return asked_; }

private:
    simulation& world_;
    addressee<Permit>& to_;
    request& asked_;
    std::shared_ptr<kept_operation> self_;
};

}  // namespace explorer
