#pragma once

#include <weir/testing.hpp>

#include "support/sanitizer.hpp"

#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

namespace support {

/// The stage of a story: two contexts, actors that live on the first, and the permits that they have granted. Each
/// part can be destroyed separately. A story does nothing to a destroyed part.
class stage {
public:
    std::unique_ptr<boost::asio::io_context> ctx = std::make_unique<boost::asio::io_context>();
    std::unique_ptr<boost::asio::io_context> elsewhere =
        std::make_unique<boost::asio::io_context>();
    std::deque<boost::asio::cancellation_signal> signals;  // outlive all, as Asio requires

    stage() = default;
    stage(stage const&) = delete;
    stage& operator=(stage const&) = delete;

    /// A mark for each object that must be destroyed at the end: handlers, frames of coroutines.
    using mark = std::shared_ptr<void const>;
    [[nodiscard]] mark mark_it() const { return left_; }
    [[nodiscard]] long left() const { return left_.use_count() - 1; }

    /// Calls one handler, or else moves the clock to the next timer. Returns false if there is neither.
    bool step() {
        for (auto* const context : {ctx.get(), elsewhere.get()}) {
            if (!context)
                continue;
            context->restart();
            if (context->poll_one() != 0)
                return true;
        }
        auto due = weir::testing::clock::time_point::max();
        for (auto* const context : {ctx.get(), elsewhere.get()})
            due = context ? std::min(due, weir::testing::next_expiry(*context)) : due;
        if (due == weir::testing::clock::time_point::max())
            return false;
        weir::testing::clock::advance_to(due);
        for (auto* const context : {ctx.get(), elsewhere.get()}) {
            if (context)
                weir::testing::fire_due(*context);
        }
        return true;
    }

    enum class part : std::uint8_t { ctx, elsewhere, actors, given };
    void destroy(part p) {
        switch (p) {
            case part::ctx:
                return ctx.reset();
            case part::elsewhere:
                return elsewhere.reset();
            case part::actors:
                return destroy_actors();
            case part::given:
                return destroy_given();
        }
    }

    /// The orders to the remaining actors.
    enum class order : std::uint8_t { close, cancel, shut_down };
    virtual void tell(order) = 0;

    /// The conditions after each step; after the actors were closed and all that they granted was released; and after
    /// all was destroyed.
    virtual void check() const {}
    virtual void check_closed() const {}
    virtual void check_destroyed() const {}

protected:
    ~stage() = default;
    virtual void destroy_actors() = 0;
    virtual void destroy_given() = 0;

private:
    mark left_ = std::make_shared<int>();
};

/// Plays a story repeatedly, cut after its first, second, third... step.
template <class Scene, class Story>
class cut_story {
    using part = stage::part;
    using order = stage::order;

public:
    cut_story(Story story, std::vector<part> dispensable)
        : story_(std::move(story)), dispensable_(std::move(dispensable)) {}

    void play_all() {
        for (; goes_on_; ++steps_) {
            BOOST_TEST_REQUIRE(steps_ != most_steps, "the story does not end");
            destroy_in_every_order();
            go_on_without_a_part();
            obey_orders();
        }
        BOOST_TEST_MESSAGE("cut after each of " << steps_ << " steps");
        BOOST_TEST(steps_ > Scene::least_steps);
    }

private:
    static constexpr int most_steps = 10'000;

    [[nodiscard]] std::unique_ptr<Scene> play() {
        auto s = std::make_unique<Scene>();
        story_(*s);
        for (int i = 0; i != steps_; ++i) {
            goes_on_ = s->step();
            s->check();
        }
        return s;
    }
    static void go_on(Scene& s, int steps = most_steps) {
        for (int i = 0; i != steps && s.step(); ++i)
            s.check();
    }

    void destroy(Scene& s, std::array<part, 4> in_turn, char const* what) {
        for (part const p : in_turn)
            s.destroy(p);
        BOOST_TEST_REQUIRE(s.left() == 0, what << " after step " << steps_);
        s.check_destroyed();
    }

    void destroy_in_every_order() {
        using enum part;
        std::array in_turn{ctx, elsewhere, actors, given};
        do {
            // Handlers that wait in the one context are bound to the other.
            if (std::ranges::find(in_turn, elsewhere) > std::ranges::find(in_turn, ctx))
                destroy(*play(), in_turn, "cut");
        } while (std::ranges::next_permutation(in_turn).found);
    }

    void go_on_without_a_part() {
        using enum part;
        for (part const missing : dispensable_) {
            auto const s = play();
            s->destroy(missing);
            go_on(*s);
            if (missing == actors)
                BOOST_TEST_REQUIRE(s->left() == 0, "no actors after step " << steps_);
            destroy(*s, {actors, ctx, given, elsewhere}, "a part destroyed");
        }
    }

    void obey_orders() {
        using enum part;
        for (auto const what : {order::close, order::cancel, order::shut_down}) {
            for (bool const to_the_end : {false, true}) {
                if (sanitizer && to_the_end != (steps_ % 2 == 0))
                    continue;  // alternately
                auto const s = play();
                s->tell(what);
                go_on(*s, to_the_end ? most_steps : 1);
                if (what == order::close && to_the_end) {
                    s->destroy(given);
                    s->check_closed();
                }
                destroy(*s, {given, ctx, actors, elsewhere}, "an order obeyed");
            }
        }
    }

    Story story_;
    std::vector<part> dispensable_;
    int steps_ = 0;
    bool goes_on_ = true;
};

/// Plays `story(Scene&)`, cut after every step, and then destroys everything, in each order. Also continues it
/// without each of the dispensable parts, and gives each of the orders. Nothing may be left at the end. The model is
/// BOOST_COBALT_BRUTE_FORCE.
template <class Scene, class Story>
void cut_after_every_step(Story story,
                          std::vector<stage::part> dispensable = {
                              stage::part::actors, stage::part::given, stage::part::ctx}) {
    cut_story<Scene, Story>(std::move(story), std::move(dispensable)).play_all();
}

}  // namespace support
