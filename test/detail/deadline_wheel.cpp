#include <weir/detail/deadline_wheel.hpp>

#include "support/printing.hpp"
#include "support/random.hpp"

#include <boost/test/unit_test.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <map>
#include <optional>
#include <type_traits>
#include <vector>

using namespace std::chrono_literals;
using support::random_source;
using weir::duration;
using weir::never;
using weir::time_point;

BOOST_AUTO_TEST_SUITE(a_deadline_wheel)

namespace {

struct element : weir::detail::wheel_hook {
    int name = 0;
    time_point deadline = never;
};

using wheel = weir::detail::deadline_wheel<element>;
using names = std::vector<int>;

constexpr auto no_budget = std::numeric_limits<int>::max();
constexpr time_point start{};

time_point at(duration d) {
    return start + d;
}

bool is_in(element& e) {
    return static_cast<weir::detail::list_hook<weir::detail::in_wheel>&>(e).is_linked();
}

// The maximum lateness of an expiry: a deadline that has just passed cannot be distinguished from one that is met to
// the nanosecond.
duration most_late(duration tolerance) {
    return std::max(tolerance, duration(1));
}

// Some elements with deadlines, in a wheel and outside of it.
class timetable {
public:
    explicit timetable(std::vector<duration> const& deadlines, duration tolerance = 0ns)
        : wheel_(start, tolerance), elements_(deadlines.size()) {
        for (std::size_t i = 0; i != deadlines.size(); ++i) {
            elements_[i].name = static_cast<int>(i);
            elements_[i].deadline = at(deadlines[i]);
            wheel_.insert(elements_[i], elements_[i].deadline);
        }
    }

    names advance(time_point now, int& budget) {
        names taken;
        wheel_.advance(now, budget, [&](element& e) {
            BOOST_TEST(!is_in(e));
            BOOST_TEST(e.deadline < now);
            taken.push_back(e.name);
        });
        return taken;
    }
    names advance(time_point now) {
        int budget = no_budget;
        return advance(now, budget);
    }

    [[nodiscard]] element& operator[](std::size_t i) { return elements_[i]; }
    [[nodiscard]] wheel& operator*() { return wheel_; }
    [[nodiscard]] time_point next() { return wheel_.next(); }

private:
    wheel wheel_;
    std::vector<element> elements_;
};

void expect(bool condition, char const* what) {
    if (!condition) [[unlikely]]
        BOOST_FAIL(what);
}

// Compares a wheel with a multimap, over a random schedule.
class comparison {
public:
    comparison(random_source& random, duration tolerance, time_point from)
        : random_(random),
          late_(most_late(tolerance)),
          tick_(duration(std::int64_t{1} << wheel::shift_for(tolerance))),
          now_(from),
          settled_(from),
          wheel_(from, tolerance),
          elements_(static_cast<std::size_t>(random.between(1, 60))) {}

    void run() {
        auto const steps = random_.between(20, 120);
        for (std::int64_t i = 0; i != steps; ++i) {
            switch (random_.between(0, 5)) {
                case 0:
                case 1:
                case 2:
                    insert();
                    break;
                case 3:
                    erase();
                    break;
                case 4:
                    advance_to(some_time());
                    break;
                default:
                    advance_to(std::clamp(wheel_.next(), now_, never - 1ns));
            }
            check_next();
        }
        drain();
    }

private:
    void insert() {
        auto& e = elements_[random_.index_in(elements_)];
        if (is_in(e))
            return;
        e.deadline = some_deadline();
        wheel_.insert(e, e.deadline);
        expected_.emplace(e.deadline, &e);
        allowed_ += most_touches(e.deadline);
    }

    void erase() {
        auto& e = elements_[random_.index_in(elements_)];
        if (is_in(e))
            forget(e);
        wheel::erase(e);  // has no effect on an element that is not in the wheel
        expect(!is_in(e), "erased");
    }

    void forget(element& e) {
        auto const [first, last] = expected_.equal_range(e.deadline);
        auto const found = std::find_if(first, last, [&](auto const& x) { return x.second == &e; });
        expect(found != last, "an element is in the wheel iff it was put there");
        expected_.erase(found);
    }

    void advance_to(time_point t) {
        now_ = t;
        bool const in_portions = random_.one_in(2);
        for (;;) {
            int budget = in_portions ? static_cast<int>(random_.between(1, 3)) : no_budget;
            auto const before = budget;
            int taken = 0;
            wheel_.advance(now_, budget, [&](element& e) {
                expect(e.deadline < now_, "never early");
                expect(!is_in(e), "taken out");
                forget(e);
                ++taken;
            });
            expect(budget >= 0 && taken <= before - budget, "the budget is kept");
            touched_ += before - budget;
            check_next();
            if (budget > 0)
                break;

            // Between two portions any event may happen.
            if (random_.one_in(4))
                insert();
            if (random_.one_in(4))
                erase();
            if (random_.one_in(4))
                now_ = some_time();
        }
        settled_ = now_;
        expect(expected_.empty() || now_ - expected_.begin()->first < late_,
               "not later than the tolerance");
        expect(wheel_.next() > now_, "no more work is due now");
    }

    void check_next() {
        auto const next = wheel_.next();
        if (expected_.empty())
            expect(next == never, "nothing to wait for");
        else
            expect(next <= std::max(weir::later(expected_.begin()->first, late_), now_),
                   "not after the first is due");
    }

    // Advances like the limiter: at the times that `next` returns, until the wheel is empty.
    void drain() {
        while (wheel_.next() != never) {
            now_ = std::max(wheel_.next(), now_);
            int budget = no_budget;
            wheel_.advance(now_, budget, [&](element& e) {
                expect(e.deadline < now_, "never early");
                forget(e);
            });
            touched_ += no_budget - budget;
            expect(wheel_.next() > now_, "each wake-up is useful");
            expect(expected_.empty() || now_ - expected_.begin()->first < late_,
                   "not later than the tolerance");
        }
        for (auto const& [deadline, e] : expected_)
            expect(never - deadline <= late_, "all but deadlines at the end of all time");
        expect(touched_ <= allowed_, "each is touched a few times only");
        for (auto& e : elements_)
            wheel::erase(e);
    }

    // A deadline moves once for each digit, to the base of 4, of the ticks until it expires. It may move once before, when
    // a higher digit of the time changes, and is touched when it is taken.
    [[nodiscard]] std::int64_t most_touches(time_point deadline) const {
        auto const ticks = std::max<std::int64_t>(
            deadline.time_since_epoch() / tick_ + 1 - settled_.time_since_epoch() / tick_, 0);
        return (std::bit_width(static_cast<std::uint64_t>(ticks)) + 1) / 2 + 2;
    }

    [[nodiscard]] time_point some_deadline() {
        if (!expected_.empty() && random_.one_in(4)) {
            auto const near = expected_.begin()->first;
            return time_point(duration(std::max<std::int64_t>(
                near.time_since_epoch().count() + random_.between(-1, near == never ? 0 : 1), 0)));
        }
        if (random_.one_in(10))  // in the past
            return now_ - std::min(duration(random_.of_any_size(years)), now_.time_since_epoch());
        return weir::later(now_, duration(random_.of_any_size(random_.one_of(scales))));
    }

    [[nodiscard]] time_point some_time() {
        return std::min(weir::later(now_, duration(random_.of_any_size(random_.one_of(scales)))),
                        never - 1ns);
    }

    static constexpr std::int64_t years = 300'000'000'000'000'000;
    static constexpr std::initializer_list<std::int64_t> scales{
        64, 5'000, 5'000'000, 60'000'000'000, years,
    };

    random_source& random_;
    duration late_;
    duration tick_;
    time_point now_;
    time_point settled_;  // all that was due then has expired
    wheel wheel_;
    std::multimap<time_point, element*> expected_;
    std::vector<element> elements_;
    std::int64_t allowed_ = 0;
    std::int64_t touched_ = 0;
};

void compare(std::uint64_t first_seed, duration tolerance) {
    support::for_each_seed(first_seed, 5'000, [&](random_source& random) {
        auto const end = never.time_since_epoch().count() - 1;
        auto const from = random.one_in(3)   ? 0
                          : random.one_in(4) ? end - random.of_any_size(end)
                                             : random.of_any_size(end / 2);
        comparison(random, tolerance, time_point(duration(from))).run();
    });
}

}  // namespace

// The elements point into it.
static_assert(!std::is_copy_constructible_v<wheel> && !std::is_move_constructible_v<wheel>);

// A limiter allocates one when the first request waits.
static_assert(sizeof(wheel) <= 1600);

BOOST_AUTO_TEST_CASE(has_nothing_to_wait_for_while_it_is_empty) {
    wheel empty(start, 1ms);
    BOOST_TEST(empty.next() == never);
    int budget = 5;
    empty.advance(at(24h), budget, [](element&) { BOOST_ERROR("there is nothing to take"); });
    BOOST_TEST(budget == 5);
    BOOST_TEST(empty.next() == never);
}

BOOST_AUTO_TEST_CASE(expires_a_deadline_after_it_has_passed_and_not_at_that_instant) {
    timetable table({1s});
    BOOST_TEST(table.advance(at(1s - 1ns)) == names());
    BOOST_TEST(table.advance(at(1s)) == names());
    BOOST_TEST(is_in(table[0]));
    BOOST_TEST(table.next() == at(1s + 1ns));
    BOOST_TEST(table.advance(at(1s + 1ns)) == names{0});
    BOOST_TEST(!is_in(table[0]));
    BOOST_TEST(table.next() == never);
}

BOOST_AUTO_TEST_CASE(expires_a_deadline_that_had_passed_before_its_insertion) {
    timetable table({1s});
    BOOST_TEST(table.advance(at(5s)) == names{0});
    (*table).insert(table[0], at(1s));
    BOOST_TEST(table.next() <= at(5s));
    BOOST_TEST(table.advance(at(5s)) == names{0});
}

BOOST_AUTO_TEST_CASE(ignores_erased_elements) {
    timetable table({1s, 2s, 3s});
    wheel::erase(table[0]);
    wheel::erase(table[2]);
    BOOST_TEST(!is_in(table[0]));
    BOOST_TEST(table.advance(at(1h)) == names{1});
    BOOST_TEST(table.next() == never);

    // Erasing an element that is not in the wheel has no effect.
    wheel::erase(table[0]);
    wheel::erase(table[1]);
}

BOOST_AUTO_TEST_CASE(allows_other_elements_to_be_erased_while_one_expires) {
    timetable table({1s, 1s, 1s, 2s, 3h});
    names taken;
    int budget = no_budget;
    (*table).advance(at(1min), budget, [&](element& e) {
        taken.push_back(e.name);
        wheel::erase(table[2]);
        wheel::erase(table[3]);
    });
    BOOST_TEST(taken == (names{0, 1}));
    BOOST_TEST(table.advance(at(24h)) == names{4});
}

BOOST_AUTO_TEST_CASE(expires_in_order_of_deadlines_unless_they_share_a_tick) {
    timetable table({3s, 1h, 1s, 2s, 1ms, 24h, 5ns, 2s});
    auto const taken = table.advance(at(100h));
    BOOST_TEST(taken == (names{6, 4, 2, 3, 7, 0, 1, 5}));
}

BOOST_AUTO_TEST_CASE(is_late_by_the_tolerance_at_most) {
    for (auto const tolerance : {1us, 1'000us, 10'000us}) {
        timetable table({1s}, tolerance);
        auto const next = table.next();
        BOOST_TEST(next <= at(1s + tolerance));
        BOOST_TEST(table.advance(at(1s)) == names());
        BOOST_TEST(table.advance(at(1s + tolerance)) == names{0});
    }
}

BOOST_AUTO_TEST_CASE(expires_many_deadlines_together_if_the_tolerance_allows_it) {
    std::vector<duration> deadlines;
    for (int i = 0; i != 1'000; ++i)
        deadlines.push_back(1s + i * 10us);
    timetable table(deadlines, 1ms);

    std::size_t wake_ups = 0;
    std::size_t taken = 0;
    for (auto next = table.next(); next != never; next = table.next()) {
        taken += table.advance(next).size();
        ++wake_ups;
    }
    BOOST_TEST(taken == 1'000U);
    BOOST_TEST(wake_ups <= 40U);  // 10 ms in ticks of half a millisecond, and the steps to them
}

BOOST_AUTO_TEST_CASE(uses_the_longest_tick_within_the_tolerance) {
    BOOST_TEST(wheel::shift_for(0ns) == 0);
    BOOST_TEST(wheel::shift_for(1ns) == 0);
    BOOST_TEST(wheel::shift_for(2ns) == 1);
    BOOST_TEST(wheel::shift_for(3ns) == 1);
    BOOST_TEST(wheel::shift_for(4ns) == 2);
    BOOST_TEST(wheel::shift_for(1'023ns) == 9);
    BOOST_TEST(wheel::shift_for(1'024ns) == 10);
    BOOST_TEST(wheel::shift_for(1ms) == 19);
    BOOST_TEST(wheel::shift_for(duration::max()) == 62);
}

// Deadlines of so few nanoseconds are in slots of the lowest level, which are not dealt out.
BOOST_AUTO_TEST_CASE(touches_no_more_than_its_budget_and_continues_later) {
    timetable table({0ns, 1ns, 1ns, 2ns, 2ns});
    int budget = 2;
    BOOST_TEST(table.advance(at(1us), budget) == (names{0, 1}));
    BOOST_TEST(budget == 0);
    BOOST_TEST(table.next() <= at(1us));
    BOOST_TEST(table.advance(at(1us), budget) == names());  // not a single one
    budget = 10;
    BOOST_TEST(table.advance(at(1us), budget) == (names{2, 3, 4}));
    BOOST_TEST(budget == 7);
    BOOST_TEST(table.next() == never);
}

// All three share a slot of a higher level, of the ticks 80 to 95. If the budget ends while that slot is dealt out,
// its remaining elements may be due before the elements that were dealt out already.
BOOST_AUTO_TEST_CASE(does_not_forget_a_slot_that_was_dealt_out_in_part) {
    timetable table({93ns, 90ns, 82ns});
    int budget = 1;
    BOOST_TEST(table.advance(at(80ns), budget) == names());
    BOOST_TEST(budget == 0);
    BOOST_TEST(table.next() <= at(83ns));
    BOOST_TEST(table.advance(at(83ns)) == names{2});
    BOOST_TEST(table.next() <= at(91ns));
    BOOST_TEST(table.advance(at(91ns)) == names{1});
    BOOST_TEST(table.advance(at(94ns)) == names{0});
}

BOOST_AUTO_TEST_CASE(does_not_forget_it_if_its_remaining_elements_are_erased) {
    timetable table({93ns, 90ns, 5us, 82ns});
    int budget = 1;
    BOOST_TEST(table.advance(at(80ns), budget) == names());
    BOOST_TEST(budget == 0);
    wheel::erase(table[1]);
    wheel::erase(table[3]);
    BOOST_TEST(table.next() <= at(94ns));
    BOOST_TEST(table.advance(at(94ns)) == names{0});
    BOOST_TEST(table.advance(at(6us)) == names{2});
}

BOOST_AUTO_TEST_CASE(needs_one_wake_up_for_a_single_deadline) {
    for (auto const wait : {1ms, 1'000ms, 3'600'000ms}) {
        timetable table({wait}, 1ms);
        auto const next = table.next();
        BOOST_TEST(next > at(wait));
        BOOST_TEST(next <= at(wait + 1ms));
        BOOST_TEST(table.advance(next) == names{0});
    }
}

BOOST_AUTO_TEST_CASE(wakes_up_for_the_first_deadline_while_a_slot_is_dealt_out) {
    timetable table({17ns, 30ns});
    int budget = 1;
    BOOST_TEST(table.advance(at(16ns), budget) == names());
    BOOST_TEST(table.next() <= at(18ns));
    BOOST_TEST(table.advance(at(18ns)) == names{0});
    BOOST_TEST(table.next() == at(31ns));
}

BOOST_AUTO_TEST_CASE(accepts_deadlines_up_to_the_end_of_time) {
    auto const end = never.time_since_epoch();
    timetable table({end - 2ns, end - 1ns, end});
    BOOST_TEST(table.advance(at(24h * 365)) == names());
    BOOST_TEST(table.advance(never - 2ns) == names());
    BOOST_TEST(table.next() == never - 1ns);
    BOOST_TEST(table.advance(never - 1ns) == names{0});
    BOOST_TEST(table.next() == never);  // the instant at which the second one is due
    BOOST_TEST(table.advance(never) == names{1});
    BOOST_TEST(table.next() == never);  // the last one is never due
}

BOOST_AUTO_TEST_CASE(may_begin_at_any_time) {
    wheel late(never - 5ns, 0ns);
    element e;
    late.insert(e, never - 3ns);
    int budget = no_budget;
    bool taken = false;
    late.advance(late.next(), budget, [&](element&) { taken = true; });
    BOOST_TEST(taken);

    wheel early(time_point(-5s), 0ns);  // practically zero
    early.insert(e, time_point(-3s));
    BOOST_TEST(early.next() <= at(1ns));
    wheel::erase(e);
}

BOOST_AUTO_TEST_CASE(accepts_a_time_that_has_passed) {
    timetable table({1s, 3s});
    BOOST_TEST(table.advance(at(2s)) == names{0});
    BOOST_TEST(table.advance(at(1s)) == names());
    BOOST_TEST(table.advance(at(4s)) == names{1});
}

BOOST_AUTO_TEST_CASE(without_tolerance_behaves_like_a_multimap) {
    compare(1'000'000, 0ns);
}

BOOST_AUTO_TEST_CASE(with_a_microsecond_behaves_like_a_multimap) {
    compare(2'000'000, 1us);
}

BOOST_AUTO_TEST_CASE(with_a_millisecond_behaves_like_a_multimap) {
    compare(3'000'000, 1ms);
}

BOOST_AUTO_TEST_CASE(with_an_hour_behaves_like_a_multimap) {
    compare(4'000'000, 1h);
}

BOOST_AUTO_TEST_CASE(holds_a_million) {
    constexpr std::size_t count = 1'000'000;
    random_source random(1);
    std::vector<element> elements(count);
    for (auto& e : elements)
        e.deadline = at(duration(random.between(0, 60'000'000'000)));

    auto const now = [] { return std::chrono::steady_clock::now(); };
    auto const began = now();
    wheel all(start, 1ms);
    for (auto& e : elements)
        all.insert(e, e.deadline);
    auto const inserted = now();
    for (std::size_t i = 0; i != count / 2; ++i)
        wheel::erase(elements[i]);
    auto const erased = now();
    std::size_t taken = 0;
    std::size_t wake_ups = 0;
    for (auto next = all.next(); next != never; next = all.next()) {
        int budget = no_budget;
        all.advance(next, budget, [&](element&) { ++taken; });
        ++wake_ups;
    }
    auto const drained = now();
    BOOST_TEST(taken == count / 2);

    auto const each = [](auto length, std::size_t n) {
        return std::chrono::duration<double, std::nano>(length).count() / static_cast<double>(n);
    };
    fmt::print("deadline_wheel, a million within a minute, tolerance 1 ms: insert {:.0f} ns, "
               "erase {:.0f} ns, expire {:.0f} ns in {} wake-ups\n",
               each(inserted - began, count), each(erased - inserted, count / 2),
               each(drained - erased, count / 2), wake_ups);
    std::fflush(stdout);
}

BOOST_AUTO_TEST_SUITE_END()
