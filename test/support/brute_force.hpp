#pragma once

#include "support/virtual_limiters.hpp"

#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <array>
#include <deque>
#include <memory>
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

/// Plays `story(stage&)` again and again, cut after its first, second, third... step, and then
/// destroys everything, in each order; and once more for each part, lets the story go on without it.
/// Nothing may be left in the end. The model is BOOST_COBALT_BRUTE_FORCE.
template <class Story>
void cut_after_every_step(Story story,
                          std::vector<stage::part> const& dispensable = {
                              stage::part::limiters, stage::part::permits, stage::part::ctx}) {
    using enum stage::part;
    std::array order{ctx, elsewhere, limiters, permits};
    constexpr int most_steps = 10'000;
    bool ended = false;
    int steps = 0;
    for (; !ended; ++steps) {
        BOOST_TEST_REQUIRE(steps != most_steps, "the story does not end");
        auto const play = [&] {
            auto s = std::make_unique<stage>();
            story(*s);
            for (int i = 0; i != steps && !ended; ++i)
                ended = !s->step();
            return s;
        };

        std::ranges::sort(order);
        do {
            if (std::ranges::find(order, elsewhere) < std::ranges::find(order, ctx))
                continue;
            auto const s = play();
            for (auto const part : order)
                s->destroy(part);
            BOOST_TEST_REQUIRE(s->left() == 0, "cut after step " << steps);
        } while (std::ranges::next_permutation(order).found);

        for (auto const missing : dispensable) {
            auto const s = play();
            s->destroy(missing);
            for (int i = 0; i != most_steps && s->step(); ++i) {}
            if (missing == limiters)
                BOOST_TEST_REQUIRE(s->left() == 0, "limiters destroyed after step " << steps);
            for (auto const part : {limiters, ctx, permits, elsewhere})
                s->destroy(part);
            BOOST_TEST_REQUIRE(s->left() == 0, "one part destroyed after step " << steps);
        }

        for (bool const close : {false, true}) {
            auto const s = play();
            auto const end = [&](auto const& limiter) {
                if (limiter)
                    close ? limiter->close() : limiter->cancel();
            };
            end(s->kitchen);
            end(s->printer);
            s->step();
            for (auto const part : {permits, ctx, limiters, elsewhere})
                s->destroy(part);
            BOOST_TEST_REQUIRE(s->left() == 0, "cancelled or closed after step " << steps);
        }
    }
    BOOST_TEST_MESSAGE("cut after each of " << steps << " steps");
    BOOST_TEST(steps > 5);
}

}  // namespace support
