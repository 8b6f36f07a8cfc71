#include "net/watchdog.hpp"

#include "two_ends.hpp"

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <functional>
#include <utility>

namespace {

using namespace std::chrono_literals;
using time_point = net::clock::time_point;

struct subject final : net::watched {
    explicit subject(std::function<void(subject&, time_point)> f = [](auto&, auto) {})
        : does(std::move(f)) {}

    void look(time_point now) override {
        ++looks;
        does(*this, now);
    }
    void stop_if_idle() override { ++stops; }
    void abort() override {}

    std::function<void(subject&, time_point)> does;
    int looks = 0;
    int stops = 0;
};

struct watching {
    net::asio::io_context context;
    net::watchdog dog{context};
};

}  // namespace

BOOST_AUTO_TEST_SUITE(watchdogs)

BOOST_FIXTURE_TEST_CASE(looks_at_all_on_every_round, watching) {
    subject a, b;
    dog.add(a);
    dog.add(b);
    BOOST_TEST(a.looks == 0);
    run_until(context, [&] { return a.looks == 3; });
    BOOST_TEST(b.looks == 3);
}

BOOST_FIXTURE_TEST_CASE(a_time_limit_is_never_early, watching) {
    // Nor is one that begins just before the next round.
    subject a([&](subject& self, time_point now) {
        BOOST_TEST((dog.after(1h) >= now + net::watchdog::round + 1h));
        self.unlink();
    });
    dog.add(a);
    context.run();
    BOOST_TEST(a.looks == 1);
}

BOOST_FIXTURE_TEST_CASE(lets_the_thread_end_when_there_is_nobody_to_look_after, watching) {
    {
        subject a;
        dog.add(a);
        run_until(context, [&] { return a.looks == 1; });
    }
    context.restart();
    context.run();
    // And begins again.
    subject b([](subject& self, time_point) { self.unlink(); });
    dog.add(b);
    context.restart();
    context.run();
    BOOST_TEST(b.looks == 1);
}

BOOST_FIXTURE_TEST_CASE(whoever_leaves_while_it_is_looked_at_hides_nobody, watching) {
    subject a;
    subject leaves([](subject& self, time_point) { self.unlink(); });
    subject b;
    for (auto* const one : {&a, &leaves, &b})
        dog.add(*one);
    run_until(context, [&] { return a.looks == 2; });
    BOOST_TEST(leaves.looks == 1);
    BOOST_TEST(b.looks == 2);
    dog.each([](net::watched& one) { one.stop_if_idle(); });
    BOOST_TEST((a.stops == 1 && leaves.stops == 0 && b.stops == 1));
}

BOOST_FIXTURE_TEST_CASE(whoever_comes_while_others_are_looked_at_is_looked_at_soon, watching) {
    subject late;
    subject a([&](subject&, time_point) {
        if (!late.is_linked())
            dog.add(late);
    });
    dog.add(a);
    run_until(context, [&] { return late.looks == 2; });
}

BOOST_AUTO_TEST_SUITE_END()
