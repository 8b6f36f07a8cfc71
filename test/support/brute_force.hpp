#pragma once

#include "support/virtual_limiters.hpp"

#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <array>
#include <deque>
#include <initializer_list>
#include <memory>
#include <utility>
#include <vector>

namespace support {

/// What a story is played on: two contexts, of which the limiters have the first, and all that the
/// story wants to have destroyed in every order. A story does nothing to a part that is null.
class stage {
public:
    std::unique_ptr<asio::io_context> ctx = std::make_unique<asio::io_context>();
    std::unique_ptr<asio::io_context> elsewhere = std::make_unique<asio::io_context>();
    std::unique_ptr<seats> kitchen;
    std::unique_ptr<sliding_log> printer;
    std::vector<weir::permit> permits;
    std::deque<asio::cancellation_signal> signals;  // outlive all, as Asio wants it

    /// To be kept by whatever must have gone in the end: handlers, frames of coroutines.
    using mark = std::shared_ptr<void const>;
    [[nodiscard]] mark mark_it() const { return left_; }
    [[nodiscard]] long left() const { return left_.use_count() - 1; }

    /// Calls one handler, or else moves the clock to the next timer; false if there is neither.
    bool step() {
        for (auto* const context : {ctx.get(), elsewhere.get()}) {
            if (!context)
                continue;
            context->restart();
            if (context->poll_one() != 0)
                return true;
        }
        auto due = clock::time_point::max();
        for (auto* const context : {ctx.get(), elsewhere.get()})
            due = context ? std::min(due, weir::testing::next_expiry(*context)) : due;
        if (due == clock::time_point::max())
            return false;
        clock::advance_to(due);
        for (auto* const context : {ctx.get(), elsewhere.get()}) {
            if (context)
                weir::testing::fire_due(*context);
        }
        return true;
    }

    /// Everything that can be destroyed by itself. `elsewhere` goes after `ctx`, since handlers that
    /// wait in the one are bound to the other.
    enum class part { ctx, elsewhere, limiters, permits };
    void destroy(part p) {
        switch (p) {
            case part::ctx:
                ctx.reset();
                break;
            case part::elsewhere:
                elsewhere.reset();
                break;
            case part::limiters:
                kitchen.reset();
                printer.reset();
                break;
            case part::permits:
                permits.clear();
                break;
        }
    }

private:
    mark left_ = std::make_shared<int>();
};

/// Plays a story again and again, cut after its first, second, third... step.
template <class Story>
class cut_story {
    using part = stage::part;

public:
    cut_story(Story story, std::vector<part> dispensable)
        : story_(std::move(story)), dispensable_(std::move(dispensable)) {}

    void play_all() {
        for (; goes_on_; ++steps_) {
            BOOST_TEST_REQUIRE(steps_ != most_steps, "the story does not end");
            destroy_in_every_order();
            go_on_without_a_part();
            close_or_cancel();
        }
        BOOST_TEST_MESSAGE("cut after each of " << steps_ << " steps");
        BOOST_TEST(steps_ > 5);
    }

private:
    static constexpr int most_steps = 10'000;

    [[nodiscard]] std::unique_ptr<stage> play() {
        auto s = std::make_unique<stage>();
        story_(*s);
        for (int i = 0; i != steps_; ++i)
            goes_on_ = s->step();
        return s;
    }

    void destroy(stage& s, std::initializer_list<part> order, char const* what) {
        for (part const p : order)
            s.destroy(p);
        BOOST_TEST_REQUIRE(s.left() == 0, what << " after step " << steps_);
    }

    void destroy_in_every_order() {
        using enum stage::part;
        std::array order{ctx, elsewhere, limiters, permits};
        std::ranges::sort(order);
        do {
            if (std::ranges::find(order, elsewhere) < std::ranges::find(order, ctx))
                continue;
            auto const s = play();
            destroy(*s, {order[0], order[1], order[2], order[3]}, "cut");
        } while (std::ranges::next_permutation(order).found);
    }

    void go_on_without_a_part() {
        using enum stage::part;
        for (part const missing : dispensable_) {
            auto const s = play();
            s->destroy(missing);
            for (int i = 0; i != most_steps && s->step(); ++i) {}
            if (missing == limiters)
                BOOST_TEST_REQUIRE(s->left() == 0, "no limiters after step " << steps_);
            destroy(*s, {limiters, ctx, permits, elsewhere}, "a part destroyed");
        }
    }

    void close_or_cancel() {
        using enum stage::part;
        for (bool const close : {false, true}) {
            auto const s = play();
            auto const end = [&](auto const& limiter) {
                if (limiter)
                    close ? limiter->close() : limiter->cancel();
            };
            end(s->kitchen);
            end(s->printer);
            s->step();
            destroy(*s, {permits, ctx, limiters, elsewhere}, "closed or cancelled");
        }
    }

    Story story_;
    std::vector<part> dispensable_;
    int steps_ = 0;
    bool goes_on_ = true;
};

/// Plays `story(stage&)`, cut after every step, and then destroys everything, in each order; lets it go
/// on without each of the parts that are dispensable; and closes or cancels the limiters. Nothing may
/// be left in the end. The model is BOOST_COBALT_BRUTE_FORCE.
template <class Story>
void cut_after_every_step(Story story,
                          std::vector<stage::part> dispensable = {
                              stage::part::limiters, stage::part::permits, stage::part::ctx}) {
    cut_story(std::move(story), std::move(dispensable)).play_all();
}

}  // namespace support
