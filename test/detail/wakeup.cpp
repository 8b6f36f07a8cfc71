#include <weir/detail/wakeup.hpp>

#include "support/printing.hpp"

#include <boost/test/unit_test.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string_view>
#include <vector>

// These words of test/model/protocol.pml name the same states: `posted` is a posted step message, `busy` a step that
// uses the host, `armed` and `held` the state of the host as assumed by the core, `debt` a failed post, `stale` the
// callback of an earlier timer.

using weir::never;
using weir::time_point;
using weir::detail::needs;
using weir::detail::wakeup;
using namespace std::chrono_literals;

BOOST_AUTO_TEST_SUITE(detail_wakeup)

namespace {

constexpr time_point at(int seconds) {
    return time_point(std::chrono::seconds(seconds));
}

// The needs of the room.
constexpr needs nothing{};
constexpr needs waits{.waiting = true};  // for an action of another thread
constexpr needs waits_until(int t) {
    return {.next = at(t), .waiting = true};
}
constexpr needs only_until(int t) {
    return {.next = at(t)};
}
constexpr needs is_due{.next = at(0), .due = true, .waiting = true};
constexpr needs only_due{.due = true};

// One event, or an inspection of the object, with the expected answer.
class event {
public:
    event(std::string_view text,
          std::function<bool(wakeup&, std::optional<wakeup::arrangement>&)> f)
        : text_(text), does_(std::move(f)) {}

    void happen(wakeup& w, std::optional<wakeup::arrangement>& arranging) const {
        BOOST_TEST(does_(w, arranging), text_);
    }

private:
    std::string_view text_;
    std::function<bool(wakeup&, std::optional<wakeup::arrangement>&)> does_;
};

using arrangement = std::optional<wakeup::arrangement>;

event posts(needs n) {
    return {"posts a step", [n](wakeup& w, arrangement&) { return w.update(n); }};
}
event posts_none(needs n) {
    return {"posts no step", [n](wakeup& w, arrangement&) { return !w.update(n); }};
}
event the_post_fails() {
    return {"fails", [](wakeup& w, arrangement&) { return w.post_failed(), true; }};
}
event the_step_arrives() {
    return {"arrives", [](wakeup& w, arrangement&) { return w.step_arrived(), true; }};
}
event timer_fires(std::uint64_t epoch) {
    return {"fires", [epoch](wakeup& w, arrangement&) { return w.timer_fired(epoch), true; }};
}
event arranges_nothing(needs n) {
    return {"arranges nothing", [n](wakeup& w, arrangement& a) {
                return !w.is_arranging() && !(a = w.arrange(n)) && !w.is_arranging();
            }};
}
event arranges(needs n, std::optional<bool> hold, std::optional<time_point> timer,
               std::uint64_t epoch = 0) {
    return {"arranges just this", [=](wakeup& w, arrangement& a) {
                return !w.is_arranging() && (a = w.arrange(n)) && w.is_arranging() &&
                       a->hold == hold && a->timer == timer && (!timer || a->epoch == epoch);
            }};
}
event is_arranging() {
    return {"is arranging", [](wakeup& w, arrangement&) { return w.is_arranging(); }};
}
event is_done(bool held = true, bool armed = true) {
    return {"is done", [=](wakeup& w, arrangement& a) {
                w.arranged(*a, held, armed);
                return !w.is_arranging();
            }};
}
event hold_fails() {
    return is_done(false, true);
}
event timer_fails() {
    return is_done(true, false);
}
event the_host_goes() {
    return {"stops", [](wakeup& w, arrangement&) { return w.stop(), true; }};
}
event rests() {
    return {"is at rest", [](wakeup& w, arrangement&) { return w.is_at_rest(); }};
}
event does_not_rest() {
    return {"is not at rest", [](wakeup& w, arrangement&) { return !w.is_at_rest(); }};
}
event misses_a_step() {
    return {"misses a step",
            [](wakeup& w, arrangement&) { return w.is_step_missing() && !w.is_at_rest(); }};
}
event misses_none() {
    return {"misses no step", [](wakeup& w, arrangement&) { return !w.is_step_missing(); }};
}
event last_alarm_was(time_point t) {
    return {"remembers the last alarm",
            [t](wakeup& w, arrangement&) { return w.last_alarm() == t; }};
}

struct row {
    std::string_view name;
    std::vector<event> events;
};

// A first step that has held the context and armed the timer for `t`: with epoch 1.
std::vector<event> awake_until(int t, std::initializer_list<event> then) {
    std::vector<event> all{posts(waits_until(t)), the_step_arrives(),
                           arranges(waits_until(t), true, at(t), 1), is_done()};
    all.insert(all.end(), then);
    return all;
}
// A first step that has held the context; no timer.
std::vector<event> awake(std::initializer_list<event> then) {
    std::vector<event> all{posts(waits), the_step_arrives(), arranges(waits, true, {}), is_done()};
    all.insert(all.end(), then);
    return all;
}

std::vector<row> const table{
    // When a step is posted.
    {"rests at first, and needs no step without needs", {rests(), posts_none(nothing), rests()}},
    {"posts a step for the first waiting request", {posts(waits), misses_none()}},
    {"posts a step for due work without a waiting request", {posts(only_due)}},
    {"posts a step for an instant", {posts(waits_until(5))}},
    {"posts once for any number of events",
     {posts(waits), posts_none(waits), posts_none(is_due), posts_none(waits_until(1)),
      posts_none(nothing)}},
    {"posts again after the step has arrived",
     {posts(is_due), the_step_arrives(), posts(is_due), the_step_arrives(), posts(is_due)}},
    {"posts nothing for existing arrangements",
     awake_until(5, {posts_none(waits_until(5)), does_not_rest()})},
    {"posts for an earlier instant", awake_until(5, {posts(waits_until(4))})},
    {"keeps a timer that fires too early: that costs less than a change",
     awake_until(
         5, {posts_none(waits_until(6)), the_step_arrives(), arranges_nothing(waits_until(6))})},
    {"posts for an instant without a running timer", awake({posts(waits_until(9))})},
    {"posts to release the context after the last request", awake({posts(nothing)})},
    {"posts to disarm if only the instant is gone", awake_until(5, {posts(waits)})},
    {"posts for due work while all is arranged", awake_until(5, {posts(is_due)})},

    // The arrangements of a step.
    {"arranges nothing without needs", {arranges_nothing(nothing), rests()}},
    {"holds the context for the first waiting request",
     {arranges(waits, true, {}), is_done(), does_not_rest()}},
    {"holds and arms in one arrangement", {arranges(waits_until(5), true, at(5), 1), is_done()}},
    {"releases and disarms in one arrangement",
     awake_until(5, {arranges(nothing, false, never, 2), is_done(), rests()})},
    {"only disarms while a request still waits for an action of another thread",
     awake_until(5, {arranges(waits, {}, never, 2), is_done(), does_not_rest()})},
    {"does not hold twice", awake({arranges(waits_until(3), {}, at(3), 1)})},
    {"gives each timer a new epoch",
     awake_until(5, {arranges(waits_until(4), {}, at(4), 2), is_done(),
                     arranges(waits_until(3), {}, at(3), 3), is_done()})},
    {"compares with the arrangement in progress, not with the previous state",
     {arranges(waits_until(5), true, at(5), 1), does_not_rest(), posts_none(waits_until(5)),
      is_done()}},
    {"rests after the timer has fired, not before",
     {arranges(only_until(5), {}, at(5), 1), is_done(), does_not_rest(), timer_fires(1), rests()}},

    // Events while a step uses the host. Another step that arrives meanwhile finds it arranging and does nothing.
    {"posts for a change while a step uses the host",
     {posts(waits), the_step_arrives(), arranges(waits, true, {}), posts(waits_until(3)), is_done(),
      posts_none(waits_until(3)), the_step_arrives(), arranges(waits_until(3), {}, at(3), 1),
      is_done()}},
    {"posts for work that becomes due meanwhile",
     {arranges(waits, true, {}), posts(is_due), is_done()}},
    {"posts once for it",
     {arranges(waits, true, {}), posts(is_due), posts_none(is_due), is_done()}},
    {"posts again for work that a step left because it was arranging",
     {arranges(waits, true, {}), posts(is_due), the_step_arrives(), is_arranging(), is_done(),
      posts(is_due)}},
    {"posts if the last request leaves meanwhile",
     {arranges(waits, true, {}), posts(nothing), the_step_arrives(), is_arranging(), is_done(),
      posts(nothing), the_step_arrives(), arranges(nothing, false, {}), is_done(), rests()}},
    {"posts nothing for needs that ended before the step returned",
     {arranges(waits, true, {}), posts(is_due), the_step_arrives(), is_done(), posts_none(waits)}},
    {"posts nothing for an arrangement in progress",
     {arranges(waits_until(5), true, at(5), 1), posts_none(waits_until(7)), is_done(),
      posts_none(waits_until(7))}},
    {"waits for a step that was posted before, though another one uses the host",
     {posts(is_due), arranges(waits, true, {}), posts_none(is_due), is_done(), posts_none(is_due),
      the_step_arrives(), posts(is_due)}},

    // The timer.
    {"treats a timer that has fired as disarmed",
     awake_until(5, {timer_fires(1), last_alarm_was(at(5)), posts(waits_until(7)),
                     the_step_arrives(), arranges(waits_until(7), {}, at(7), 2)})},
    {"does not move a timer that has fired",
     awake_until(5, {timer_fires(1), arranges_nothing(waits), posts_none(waits)})},
    {"ignores an earlier timer that fires late",
     awake_until(5, {arranges(waits_until(3), {}, at(3), 2), is_done(), timer_fires(1),
                     last_alarm_was(time_point::min()), posts_none(waits_until(3)), timer_fires(2),
                     last_alarm_was(at(3)), posts(waits_until(5))})},
    {"ignores a timer that was disarmed",
     awake_until(5, {arranges(waits, {}, never, 2), is_done(), timer_fires(1),
                     last_alarm_was(time_point::min()), posts_none(waits)})},
    {"accepts a timer that fires before the step returns",
     {arranges(waits_until(5), true, at(5), 1), timer_fires(1), is_arranging(), is_done(),
      posts(waits_until(7)), the_step_arrives(), arranges(waits_until(7), {}, at(7), 2),
      is_done()}},
    {"posts for the next instant if the timer fires before the step returns",
     {arranges(waits_until(5), true, at(5), 1), timer_fires(1), posts(waits_until(7)), is_done()}},
    {"stores the instant of the last alarm, not the instant at which it fired",
     awake_until(5, {timer_fires(1), arranges(waits_until(9), {}, at(9), 2), is_done(),
                     last_alarm_was(at(5)), timer_fires(2), last_alarm_was(at(9))})},
    {"had no alarm before the first", {last_alarm_was(time_point::min())}},

    // Failures.
    {"records a step that could not be posted, and posts again with the next event",
     {posts(waits), the_post_fails(), misses_a_step(), posts(waits), misses_none(), rests()}},
    {"records it as missing until a post succeeds",
     {posts(waits), the_post_fails(), posts(is_due), the_post_fails(), misses_a_step(),
      posts(is_due), misses_none(), posts_none(is_due)}},
    {"records it no longer when it is not needed",
     {posts(waits), the_post_fails(), posts_none(nothing), misses_none(), rests()}},
    {"records a failed post while a step uses the host, until that step returns",
     {arranges(waits, true, {}), posts(is_due), the_post_fails(), misses_a_step(), is_done(),
      misses_a_step(), posts(is_due), misses_none()}},
    {"counts a failed hold as not done",
     {arranges(waits, true, {}), hold_fails(), rests(), posts(waits), the_step_arrives(),
      arranges(waits, true, {}), is_done(), posts_none(waits)}},
    {"counts a failed release as not done",
     awake({arranges(nothing, false, {}), hold_fails(), does_not_rest(), posts(nothing),
            the_step_arrives(), arranges(nothing, false, {}), is_done(), rests()})},
    {"counts a timer that could not be armed as disarmed",
     {arranges(waits_until(5), true, at(5), 1), timer_fails(), posts(waits_until(5)),
      the_step_arrives(), arranges(waits_until(5), {}, at(5), 2), is_done(),
      posts_none(waits_until(5))}},
    {"keeps the hold if only the timer fails, and the timer if only the hold fails",
     {arranges(waits_until(5), true, at(5), 1), hold_fails(), arranges(waits_until(5), true, {}),
      timer_fails(), posts_none(waits_until(5))}},
    {"posts again after each failure",
     {arranges(waits, true, {}), hold_fails(), posts(waits), the_step_arrives(),
      arranges(waits, true, {}), hold_fails(), posts(waits)}},

    // The end.
    {"posts nothing after the end of the host",
     awake_until(5, {the_host_goes(), rests(), posts_none(is_due), posts_none(waits_until(1)),
                     posts_none(only_due), misses_none()})},
    {"misses no step after the end of the host",
     {posts(waits), the_post_fails(), misses_a_step(), the_host_goes(), misses_none(), rests()}},
    {"ignores a timer that fires after the end of the host",
     awake_until(5, {the_host_goes(), timer_fires(1), last_alarm_was(time_point::min()), rests()})},
};

}  // namespace

BOOST_AUTO_TEST_CASE(matches_the_table) {
    BOOST_TEST(table.size() >= 40U);
    for (auto const& [name, events] : table) {
        wakeup w;
        std::optional<wakeup::arrangement> arranging;
        std::size_t number = 0;
        for (auto const& e : events) {
            BOOST_TEST_CONTEXT("it " << name << ": event " << ++number)
            e.happen(w, arranging);
        }
    }
}

namespace {

void expect(bool condition, std::string_view what) {
    if (!condition) [[unlikely]]
        BOOST_FAIL(what);
}

// A world around the class, small enough for all orders of events: the needs of the room, the posted messages, and
// the state of the host.
struct world {
    wakeup protocol;
    needs wanted;
    int steps = 0;  // posted
    std::optional<wakeup::arrangement> busy;
    bool held = false;
    time_point timer = never;
    std::uint64_t epoch = 0;
    std::vector<std::uint64_t> fired{};  // posted callbacks
    bool owed = false;                   // a post has failed

    // The caller posts under its lock.
    void changed(bool post_fails) {
        if (!protocol.update(wanted)) {
            owed = owed && protocol.is_step_missing();
        } else if (post_fails) {
            protocol.post_failed();
            owed = true;
        } else {
            ++steps;
            owed = false;
        }
        expect(steps <= 1, "one step message at a time");
        expect(owed == protocol.is_step_missing(), "a failed post is known");
    }

    void step() {
        if (protocol.is_arranging())
            return expect(busy.has_value(), "it knows whether a step is at the host");
        expect(!busy, "one step at a time is at the host");
        wanted.due = false;
        if (wanted.next == at(1))  // has arrived
            wanted.next = never;
        busy = protocol.arrange(wanted);
        expect(busy.has_value() == protocol.is_arranging(), "it is arranging what it has answered");
        changed(false);
    }

    void host_does(bool hold_fails, bool timer_fails) {
        if (busy->hold && !hold_fails)
            held = *busy->hold;
        if (busy->timer) {
            timer = timer_fails ? never : *busy->timer;  // an earlier one is forgotten first
            epoch = busy->epoch;
        }
    }

    void back(bool hold_fails, bool timer_fails, bool post_fails) {
        auto const a = *busy;
        busy.reset();
        protocol.arranged(a, !hold_fails, !timer_fails);
        changed(post_fails);
    }

    void check() const {
        expect(!protocol.is_at_rest() || busy || (!held && timer == never && !owed),
               "at rest, nothing is held, armed or owed");
        if (steps != 0 || busy || owed || !fired.empty())
            return;
        expect(held == wanted.waiting, "the context is kept running iff a request waits");
        expect(timer <= wanted.next, "the timer is in time");
        expect(wanted.next != never || timer == never, "an unneeded timer is disarmed");
        expect(!wanted.due, "due work is not forgotten");
    }
};

// All possible next states.
std::vector<world> successors(world const& now) {
    std::vector<world> all;
    auto const add = [&](auto happen) {
        world next = now;
        happen(next);
        next.check();
        all.push_back(std::move(next));
    };

    for (bool const fails : {false, true}) {
        for (auto const& n : {nothing, waits, waits_until(1), waits_until(3), is_due}) {
            add([&](world& w) {
                w.wanted = n;
                w.changed(fails);
            });
        }
    }
    if (now.steps != 0) {
        add([](world& w) {
            --w.steps;
            w.protocol.step_arrived();
            w.step();
        });
    }
    if (now.busy) {
        for (int const failures : {0, 1, 2, 3, 4, 5, 6, 7}) {
            bool const hold_fails = (failures & 1) != 0;
            bool const timer_fails = (failures & 2) != 0;
            bool const post_fails = (failures & 4) != 0;
            if ((hold_fails && !now.busy->hold) ||
                (timer_fails && now.busy->timer.value_or(never) == never))
                continue;
            add([&](world& w) {
                w.host_does(hold_fails, timer_fails);
                w.back(hold_fails, timer_fails, post_fails);
            });
            if (!timer_fails && now.busy->timer.value_or(never) != never) {
                add([&](world& w) {  // the timer fires before the step returns
                    w.host_does(hold_fails, timer_fails);
                    w.timer = never;
                    w.protocol.timer_fired(w.epoch);
                    w.step();
                    w.back(hold_fails, timer_fails, post_fails);
                });
            }
        }
    }
    if (now.timer != never && !now.busy) {
        add([](world& w) {  // its callback is posted, and may be overtaken
            w.timer = never;
            w.fired.push_back(w.epoch);
        });
    }
    if (!now.fired.empty()) {
        add([](world& w) {
            auto const e = w.fired.front();
            w.fired.erase(w.fired.begin());
            w.protocol.timer_fired(e);
            w.step();
        });
    }
    return all;
}

std::size_t explore(world const& now, int depth) {
    if (depth == 0)
        return 1;
    std::size_t ends = 0;
    for (auto const& next : successors(now))
        ends += explore(next, depth - 1);
    return ends;
}

}  // namespace

BOOST_AUTO_TEST_CASE(overlooks_no_event_in_any_order) {
    BOOST_TEST(explore({}, 6) > 1'000'000U);
}

BOOST_AUTO_TEST_SUITE_END()
