#include "net/watchdog.hpp"

#include "two_ends.hpp"

#include <boost/asio/executor_work_guard.hpp>
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <chrono>
#include <functional>
#include <list>
#include <memory>
#include <thread>
#include <utility>

namespace {

using namespace std::chrono_literals;
using time_point = net::clock::time_point;
constexpr auto never = time_point::max();

struct subject final : net::watched {
    explicit subject(std::function<time_point(subject&, time_point)> f =
                         [](auto&, auto now) {
                             return now;  // on every round
                         })
        : does(std::move(f)) {}

    time_point look(time_point now) override {
        ++looks;
        last = now;
        return does(*this, now);
    }
    void stop_if_idle() override { ++stops; }
    void abort() override { ++aborts; }

    std::function<time_point(subject&, time_point)> does;
    time_point last;
    int looks = 0;
    int stops = 0;
    int aborts = 0;
};

// A watched object with a limit, like a connection.
struct limited final : net::watched {
    void set(net::clock::duration limit) {
        begun = net::clock::now();
        due = after(limit);
    }
    time_point look(time_point now) override {
        ++looks;
        if (now >= due) {
            noticed = std::max(noticed, net::clock::now());
            due = never;
        }
        return due;
    }
    void stop_if_idle() override {}
    void abort() override {}

    time_point begun;
    time_point due = never;
    time_point noticed{};
    int looks = 0;
};

struct watching {
    // Runs until all objects without a near limit are asleep.
    void fall_asleep() {
        {
            subject last;
            dog.add(last);
            run_until(context, [&] { return last.looks == 2; });
        }
        context.restart();
        context.run_one();  // the last round
    }
    // The number of times that the thread woke up.
    std::size_t wake_ups(net::clock::duration in) {
        context.restart();
        return context.run_for(in);
    }

    net::asio::io_context context;
    net::asio::executor_work_guard<net::executor> work{context.get_executor()};
    net::watchdog dog{context};
};

}  // namespace

BOOST_AUTO_TEST_SUITE(watchdogs)

BOOST_FIXTURE_TEST_CASE(calls_look_for_all_on_every_round, watching) {
    subject a, b;
    dog.add(a);
    dog.add(b);
    BOOST_TEST(a.looks == 0);
    run_until(context, [&] { return a.looks == 3; });
    BOOST_TEST(b.looks == 3);
}

BOOST_FIXTURE_TEST_CASE(a_time_limit_is_never_early, watching) {
    limited a;
    dog.add(a);
    run_until(context, [&] { return a.looks == 1; });
    // Other work of the thread has delayed the next round.
    std::this_thread::sleep_for(4 * net::watchdog::round);
    a.set(2 * net::watchdog::round);
    run_until(context, [&] { return a.due == never; });
    BOOST_TEST((a.noticed >= a.begun + 2 * net::watchdog::round));
}

BOOST_FIXTURE_TEST_CASE(a_time_limit_after_a_pause_is_never_early, watching) {
    limited a;
    dog.add(a);
    fall_asleep();
    wake_ups(200ms);
    a.set(1ms);
    run_until(context, [&] { return a.due == never; });
    BOOST_TEST((a.noticed >= a.begun + 1ms));
}

BOOST_FIXTURE_TEST_CASE(lets_the_thread_end_without_watched_objects, watching) {
    work.reset();
    {
        subject a;
        dog.add(a);
        run_until(context, [&] { return a.looks == 1; });
    }
    context.restart();
    context.run();
    // A new object starts the rounds again.
    subject b([](subject& self, time_point) {
        self.leave();
        return never;
    });
    dog.add(b);
    context.restart();
    context.run();
    BOOST_TEST(b.looks == 1);
}

BOOST_FIXTURE_TEST_CASE(lets_the_thread_end_after_the_last_sleeping_object_left, watching) {
    work.reset();
    auto a = std::make_unique<limited>();
    auto b = std::make_unique<limited>();
    for (auto* const one : {a.get(), b.get()}) {
        dog.add(*one);
        one->set(1h);
    }
    fall_asleep();
    a.reset();
    BOOST_TEST(wake_ups(1ms) == 0);
    BOOST_TEST(!context.stopped());
    b.reset();
    context.restart();
    context.run();
    // A new object starts the rounds again.
    limited c;
    dog.add(c);
    c.set(0s);
    run_until(context, [&] { return c.due == never; });
}

BOOST_FIXTURE_TEST_CASE(objects_without_a_near_limit_cause_no_wakeups, watching) {
    std::list<limited> all(100);
    for (auto& one : all) {
        dog.add(one);
        if (&one != &all.front())
            one.set(1h);
    }
    fall_asleep();
    BOOST_TEST(wake_ups(200ms) == 0);
    for (auto& one : all)
        BOOST_TEST(one.looks <= 3);
}

BOOST_FIXTURE_TEST_CASE(calls_look_for_sleeping_objects_in_time, watching) {
    // Each object is in another group and is the first one due in its group; then also with an earlier one in its
    // group.
    std::list<limited> all(12);
    for (auto& one : all)
        dog.add(one);
    fall_asleep();
    auto limit = 30ms;
    for (auto& one : all) {
        one.set(limit);
        limit += limit < 300ms ? limit : 10ms;
    }
    run_until(context, [&] {
        return std::ranges::all_of(all, [](auto const& one) { return one.due == never; });
    });
    auto before = time_point::min();
    for (auto const& one : all) {
        BOOST_TEST((one.noticed >= before));  // in the order of their limits
        before = one.noticed;
    }
    limit = 30ms;
    for (auto const& one : all) {
        BOOST_TEST((one.noticed >= one.begun + limit));
        limit += limit < 300ms ? limit : 10ms;
    }
}

BOOST_FIXTURE_TEST_CASE(a_sleeping_object_can_get_a_nearer_limit, watching) {
    limited a;
    dog.add(a);
    a.set(1h);
    fall_asleep();
    a.set(1ms);
    run_until(context, [&] { return a.due == never; });
    BOOST_TEST((a.noticed >= a.begun + 1ms));
    // A second nearer limit.
    fall_asleep();
    a.set(1ms);
    run_until(context, [&] { return a.due == never; });
}

BOOST_FIXTURE_TEST_CASE(a_sleeping_object_can_request_a_call_soon, watching) {
    subject a([](auto&, auto) { return never; });
    limited b;
    dog.add(a);
    dog.add(b);
    fall_asleep();
    auto const looks = a.looks;
    a.look_soon();
    run_until(context, [&] { return a.looks == looks + 1; });
    fall_asleep();
    auto const others = b.looks;
    dog.look_at_all();
    run_until(context, [&] { return a.looks == looks + 2 && b.looks == others + 1; });
    fall_asleep();
    BOOST_TEST(a.looks == looks + 2);
}

BOOST_FIXTURE_TEST_CASE(sleeping_objects_are_stopped_too, watching) {
    subject asleep([](auto&, auto) { return never; });
    dog.add(asleep);
    fall_asleep();
    subject awake;
    dog.add(awake);
    dog.stop_if_idle();
    BOOST_TEST((asleep.stops == 1 && awake.stops == 1));
    BOOST_TEST((asleep.aborts == 0 && awake.aborts == 0));
    dog.abort();
    BOOST_TEST((asleep.aborts == 1 && awake.aborts == 1));
}

BOOST_FIXTURE_TEST_CASE(an_object_that_leaves_during_look_hides_no_other, watching) {
    subject a;
    subject leaves([](subject& self, time_point now) {
        self.leave();
        return now;
    });
    subject b;
    for (auto* const one : {&a, &leaves, &b})
        dog.add(*one);
    run_until(context, [&] { return a.looks == 2; });
    BOOST_TEST(leaves.looks == 1);
    BOOST_TEST(b.looks == 2);
    dog.stop_if_idle();
    BOOST_TEST((a.stops == 1 && leaves.stops == 0 && b.stops == 1));
}

BOOST_FIXTURE_TEST_CASE(an_object_added_during_look_is_called_soon, watching) {
    subject late;
    subject a([&](subject&, time_point now) {
        if (!late.is_watched())
            dog.add(late);
        return now;
    });
    dog.add(a);
    run_until(context, [&] { return late.looks == 2; });
}

BOOST_FIXTURE_TEST_CASE(may_be_destroyed_before_its_watched_objects, watching) {
    limited awake;
    limited asleep;
    {
        net::watchdog other{context};
        other.add(asleep);
        asleep.set(1h);
        subject last;
        other.add(last);
        run_until(context, [&] { return last.looks == 2; });
        other.add(awake);
    }
    BOOST_TEST((!awake.is_watched() && !asleep.is_watched()));
    wake_ups(1ms);
}

BOOST_AUTO_TEST_SUITE_END()
