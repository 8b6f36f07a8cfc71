#include "support/virtual_limiters.hpp"
#include "support/visit.hpp"

#include <boost/asio/bind_executor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/strand.hpp>
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

// Each handler is posted separately. So stop(), run_one() and poll_one() work as everywhere in Asio, and other handlers
// can run in between.

using namespace support;
using weir::errc;
using weir::error_code;
using weir::permit;

namespace {

// Many requests that complete at one instant, in one of the possible ways.
enum class way { granted, refunded, closed, destroyed, cancelled, timed_out, repriced };
constexpr way all_ways[] = {way::granted,   way::refunded,  way::closed,  way::destroyed,
                            way::cancelled, way::timed_out, way::repriced};

class crowd {
public:
    static constexpr int size = 600;

    asio::io_context ctx;
    int called = 0;

    std::function<void()> on_call;

    crowd() {
        for (int i = 0; i != size; ++i) {
            kitchen_->async_enter(10, 10s, [this](error_code, permit seat) {
                seats_.push_back(std::move(seat));
                ++called;
                if (on_call)
                    on_call();
            });
        }
        ctx.poll();
        ctx.restart();
    }

    void end(way how) {
        switch (how) {
            case way::granted:
                all_.leave();
                break;
            case way::refunded:
                all_.refund();
                break;
            case way::closed:
                kitchen_->close();
                break;
            case way::destroyed:
                kitchen_.reset();
                break;
            case way::cancelled:
                kitchen_->cancel();
                break;
            case way::timed_out:
                clock::advance_to(clock::now() + 11s);
                weir::testing::fire_due(ctx);
                break;
            case way::repriced:
                kitchen_->configure({.seats = 9});
                break;
        }
    }

private:
    std::vector<permit> seats_;
    std::optional<seats> kitchen_{std::in_place, ctx, seats::options_type{.seats = size * 10},
                                  weir::queue_options{.max_waiting = size}};
    permit all_ = kitchen_->try_enter(size * 10);
};

}  // namespace

BOOST_AUTO_TEST_SUITE(limiter_turns)

BOOST_AUTO_TEST_CASE(after_stop_in_a_handler_no_further_handler_runs) {
    for (auto const how : all_ways) {
        crowd c;
        c.on_call = [&] { c.ctx.stop(); };
        c.end(how);
        for (int turns = 1; turns <= 50; ++turns) {
            c.ctx.run();
            BOOST_TEST_REQUIRE(c.called == turns, "way " << static_cast<int>(how));
            c.ctx.restart();
        }
    }
}

BOOST_AUTO_TEST_CASE(poll_one_calls_one_handler) {
    for (auto const how : all_ways) {
        crowd c;
        c.end(how);
        int turns = 0;
        for (; c.ctx.poll_one() != 0; ++turns) {
            auto const before = c.called;
            c.ctx.restart();
            BOOST_TEST_REQUIRE(c.called - before <= 1);
            BOOST_TEST_REQUIRE(turns < 2 * crowd::size);
        }
        BOOST_TEST(c.called == crowd::size);
    }
}

BOOST_AUTO_TEST_CASE(run_one_returns_after_each_handler) {
    for (auto const how : all_ways) {
        crowd c;
        c.end(how);
        int most = 0;
        for (int before = 0; c.called != crowd::size; before = c.called) {
            BOOST_TEST_REQUIRE(c.ctx.run_one() == 1U);
            most = std::max(most, c.called - before);
        }
        BOOST_TEST(most == 1);
    }
}

BOOST_AUTO_TEST_CASE(other_handlers_run_between_a_great_many_completions) {
    for (auto const how : all_ways) {
        crowd c;
        int most_between = 0;
        int turns = 0;
        std::function<void()> again = [&, before = 0]() mutable {
            most_between = std::max(most_between, c.called - before);
            before = c.called;
            ++turns;
            if (c.called != crowd::size)
                asio::post(c.ctx, [&] { again(); });
        };
        asio::post(c.ctx, [&] { again(); });
        c.end(how);
        c.ctx.poll();
        BOOST_TEST(c.called == crowd::size);
        // The number that a caller and a step post at a time.
        BOOST_TEST(most_between <= 16 + 256);
        BOOST_TEST(turns >= 3);
    }
}

BOOST_AUTO_TEST_CASE(each_report_of_an_overdue_permit_is_posted_separately) {
    asio::io_context ctx;
    seats kitchen{ctx, {.seats = 100, .max_hold = 1s}};
    std::vector<permit> held;
    int told = 0;
    for (int i = 0; i != 100; ++i) {
        held.push_back(kitchen.try_enter());
        kitchen.async_wait_overdue([&](error_code, weir::overdue const&) {
            ++told;
            ctx.stop();
        });
    }
    ctx.poll();
    ctx.restart();
    clock::advance_to(clock::now() + 2s);
    weir::testing::fire_due(ctx);
    for (int turns = 1; turns <= 100; ++turns) {
        ctx.run();
        BOOST_TEST_REQUIRE(told == turns);
        ctx.restart();
    }
}

BOOST_AUTO_TEST_CASE(a_handler_that_blocks_its_strand_delays_no_other) {
    asio::io_context ctx;
    seats kitchen{ctx, {.seats = 3}};
    auto all = kitchen.try_enter(3);
    std::vector<int> order;
    for (int i = 0; i != 3; ++i) {
        kitchen.async_enter(asio::bind_executor(
            asio::make_strand(ctx), [&, i](error_code, permit const&) { order.push_back(i); }));
    }
    settle(ctx);
    all.leave();
    for (int i = 0; i != 3; ++i) {
        auto const before = order.size();
        while (order.size() == before)
            BOOST_TEST_REQUIRE(ctx.poll_one() == 1U);
        BOOST_TEST(order.size() == before + 1);
    }
    BOOST_TEST(order == (std::vector{0, 1, 2}));
}

BOOST_AUTO_TEST_SUITE_END()
