#pragma once

#include <weir/detail/operation.hpp>
#include <weir/permit.hpp>

#include "simulation.hpp"

#include <deque>
#include <memory>
#include <utility>
#include <vector>

#ifndef __has_feature
#define __has_feature(x) 0
#endif

namespace explorer {

using weir::permit;

// With AddressSanitizer it is better to free at once; without, to see who is used after the end.
#if defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)
inline constexpr bool frees_at_once = true;
#else
inline constexpr bool frees_at_once = false;
#endif

/// A permit and when it was granted, one time for each of what it stands for.
struct seat {
    permit held;
    std::vector<time_point> granted;
    int key = 0;
};

/// What a cancellation slot has in it.
struct canceller {
    weir::detail::cancel_link link;
    int users = 0;
    int core = 0;
    int key = 0;
};

struct caller {
    int number = 0;
    std::unique_ptr<canceller> slot;
    std::deque<seat> seats;
    bool answered = true;
    error_code told;
};

/// What has had its end.
class mortal {
public:
    virtual ~mortal() = default;
    [[nodiscard]] virtual bool is_linked() const noexcept = 0;
    [[nodiscard]] virtual request& asked() const noexcept = 0;
};

/// Where the outcome of an operation goes.
class addressee {
public:
    virtual void answer(caller& who, action const& how, error_code ec, seat given) = 0;
    virtual void leave(seat& s) = 0;
    virtual void bury(mortal* op) = 0;

protected:
    ~addressee() = default;
};

/// A completion handler that waits: it checks when and where it is called, and passes the outcome on.
///
/// `Base` is what the core knows of it.
template <class Base>
class operation final : public Base, public mortal {
public:
    operation(simulation& world, addressee& to, caller& who, action const& how, request& asked)
        : world_(world), to_(to), who_(who), how_(how), asked_(asked) {
        this->ask_for({asked.wants == request::wish::permits ? asked.n : 0, how.how});
        asked.op = this;
    }
    ~operation() override = default;

    [[nodiscard]] bool post() override {
        use("a post");
        bool const at_home = how_.lives != action::abode::elsewhere;
        if (at_home && asked_.number != 0 && world_.what.post_failures == 0 &&
            !world_.is_kept_running())
            violated(invariant::host, "a handler is posted to a context that may have returned");
        auto own = std::make_unique<arrival>(*this);
        auto& mine = *own;
        std::unique_ptr<message> m = std::move(own);
        try {
            world_.post(at_home ? world_.home : world_.elsewhere, m);
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
        world_.judge_of(asked_).destroyed(asked_);
        auto given = take_seat();
        to_.leave(given);
        pass_on(this->error, {});
    }

    /// It was over at once, and who asked is told so.
    void complete() {
        weir::overdue late;
        if constexpr (requires { Base::found; })
            late = this->found;
        world_.judge_of(asked_).completed(asked_, this->error, this->granted, late);
        pass_on(this->error, take_seat());
    }

    /// It never began.
    void discard() {
        world_.judge_of(asked_).throws(asked_);
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
        auto& mine = this->granted;
        auto const n = mine ? static_cast<std::size_t>(mine.count()) : 0;
        return {std::move(mine), std::vector<time_point>(n, asked_.decided_at), asked_.key};
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
    addressee& to_;
    caller& who_;
    action const& how_;
    request& asked_;
    bool over_ = false;
};

}  // namespace explorer
