#include <weir/policy/adaptive.hpp>

#include "support/allocations.hpp"
#include "support/printing.hpp"
#include "support/random.hpp"
#include "support/renew.hpp"
#include "support/says.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <stdexcept>
#include <utility>
#include <variant>
#include <vector>

using namespace std::chrono_literals;
using support::allocation_count;
using support::random_source;
using support::renew;
using support::says;
using weir::aimd_options;
using weir::amount;
using weir::duration;
using weir::gradient2_options;
using weir::knee_options;
using weir::max_amount;
using weir::outcome;
using weir::ticket;
using weir::time_point;
using weir::unknown;
using weir::vegas_options;
using weir::policy::adaptive;

static_assert(weir::limiting_policy<adaptive>);
static_assert(!weir::watchful_policy<adaptive>);

BOOST_AUTO_TEST_SUITE(adaptive_seats)

namespace {

constexpr time_point noon{12h};

bool fits(adaptive const& room, amount n) {
    return room.ready_at(n, 0, noon) <= noon;
}

// The number grows by 1 with each successful permit, and falls to nine tenths with each other permit.
constexpr aimd_options each_by_itself{
    .seats = 10, .min = 1, .max = 20, .slow_start = 0, .timeout = 1s, .samples = 1};

// A permit that is released after a nanosecond, too small to change the number: it begins a window.
void begin_window(adaptive& room, time_point now) {
    auto const t = room.take(1, now - 1ns);
    room.leave(1, t, now);
}

// Returns the number after a permit for all seats is released after a nanosecond.
amount after(adaptive& room, outcome how, time_point now = noon) {
    begin_window(room, now - 1s);
    auto t = room.take(room.seats(), now - 1ns);
    t = room.report(t, how);
    room.leave(room.seats(), t, now);
    return room.seats();
}

}  // namespace

BOOST_AUTO_TEST_CASE(are_taken_and_released) {
    adaptive room(each_by_itself);
    BOOST_TEST(room.seats() == 10);
    BOOST_TEST(room.capacity_now() == 10);
    BOOST_TEST(room.capacity() == 20);
    BOOST_TEST(room.timed());
    BOOST_TEST(room.remaining(noon) == 10);
    auto const t = room.take(7, noon);
    BOOST_TEST(room.remaining(noon) == 3);
    BOOST_TEST(fits(room, 3));
    BOOST_TEST(!fits(room, 4));
    BOOST_TEST(room.ready_at(1, 2, noon) == noon);
    BOOST_TEST(room.ready_at(1, 3, noon) == unknown);
    BOOST_TEST(room.refund(2, t, noon));
    BOOST_TEST(room.remaining(noon) == 5);
    BOOST_TEST(room.leave(5, t, noon + 1ms));
    BOOST_TEST(room.remaining(noon) == 11);
}

BOOST_AUTO_TEST_CASE(change_with_released_permits) {
    adaptive room(each_by_itself);
    BOOST_TEST(after(room, outcome::success) == 11);
    BOOST_TEST(after(room, outcome::dropped, noon + 1min) == 9);
    BOOST_TEST(after(room, outcome::ignored, noon + 2min) == 9);
    BOOST_TEST(after(room, outcome::success, noon + 3min) == 10);
}

BOOST_AUTO_TEST_CASE(are_timed_from_the_grant_to_the_release) {
    adaptive room(each_by_itself);
    auto const fast = room.take(10, noon);
    room.leave(10, fast, noon + 1s);
    BOOST_TEST(room.seats() == 11);
    begin_window(room, noon + 1min);
    auto const slow = room.take(10, noon + 1min);
    room.leave(10, slow, noon + 1min + 3s);  // the mean is longer than the timeout
    BOOST_TEST(room.seats() == 9);
}

BOOST_AUTO_TEST_CASE(are_timed_at_any_time) {
    for (auto const t : {time_point::min(), time_point(-1s), time_point(), time_point(1ns), noon,
                         time_point::max() - 1h}) {
        adaptive room(each_by_itself);
        auto const fast = room.take(10, t);
        room.leave(10, fast, t + 1s);
        BOOST_TEST(room.seats() == 11);
        begin_window(room, t + 1min);
        auto const slow = room.take(10, t + 1min);
        room.leave(10, slow, t + 10min);
        BOOST_TEST(room.seats() == 9);
    }
}

BOOST_AUTO_TEST_CASE(use_the_last_report) {
    adaptive room(each_by_itself);
    auto t = room.take(10, noon);
    t = room.report(t, outcome::dropped);
    t = room.report(t, outcome::ignored);
    t = room.report(t, outcome::success);
    room.leave(10, t, noon + 1s);
    BOOST_TEST(room.seats() == 11);
}

BOOST_AUTO_TEST_CASE(learn_nothing_from_a_refund) {
    adaptive room(each_by_itself);
    auto t = room.take(10, noon);
    t = room.report(t, outcome::dropped);
    BOOST_TEST(room.refund(10, t, noon + 1h));
    BOOST_TEST(room.seats() == 10);
    BOOST_TEST(room.remaining(noon) == 10);
}

BOOST_AUTO_TEST_CASE(count_each_part_of_a_permit) {
    adaptive room(each_by_itself);
    auto const t = room.take(10, noon);
    room.leave(1, t, noon + 1s);
    BOOST_TEST(room.seats() == 11);
    begin_window(room, noon + 1min);
    room.leave(1, room.report(t, outcome::ignored), noon + 2min);
    BOOST_TEST(room.seats() == 11);
    room.leave(8, room.report(t, outcome::dropped), noon + 2min);
    BOOST_TEST(room.seats() == 9);
    BOOST_TEST(room.remaining(noon) == 9);
}

BOOST_AUTO_TEST_CASE(merged_count_from_the_first_grant_and_as_dropped_if_either_was) {
    adaptive room(each_by_itself);
    auto const a = room.take(5, noon);
    auto const b = room.take(5, noon + 900ms);
    BOOST_TEST(room.merge(b, a, 5) == b);
    auto const c = room.merge(a, b, 5);
    BOOST_TEST(c == a);
    room.leave(10, c, noon + 1001ms);
    BOOST_TEST(room.seats() == 9);

    begin_window(room, noon + 1min);
    auto d = room.take(5, noon + 2min);
    auto const e = room.report(room.take(4, noon + 2min), outcome::dropped);
    d = room.merge(d, e, 4);
    room.leave(9, d, noon + 2min + 1ms);
    BOOST_TEST(room.seats() == 8);
}

BOOST_AUTO_TEST_CASE(without_a_record_leave_no_sample) {
    adaptive room(each_by_itself);
    auto const t = room.take(10, noon);
    auto const lost = room.merge(0, t, 10);  // as in a table without memory
    BOOST_TEST(lost == 0U);
    BOOST_TEST(room.report(lost, outcome::dropped) == 0U);
    room.leave(10, lost, noon + 1h);
    BOOST_TEST(room.seats() == 10);
    BOOST_TEST(room.remaining(noon) == 10);
}

BOOST_AUTO_TEST_CASE(have_own_tickets) {
    adaptive room(each_by_itself);
    BOOST_TEST((weir::tickets_of(room) == weir::tickets::own));
    BOOST_TEST(room.take(1, time_point()) != 0U);
}

BOOST_AUTO_TEST_CASE(are_all_granted_to_a_request_for_more) {
    adaptive room(each_by_itself);
    BOOST_TEST(fits(room, 20));
    BOOST_TEST(room.remaining(noon) == 10);
    BOOST_TEST(room.ready_at(20, 1, noon) == unknown);
    auto const one = room.take(1, noon);
    BOOST_TEST(!fits(room, 20));
    room.leave(1, one, noon + 1s);
    auto const all = room.take(20, noon + 1s);
    BOOST_TEST(!fits(room, 1));
    BOOST_TEST(room.debt(noon) == 10);
    room.leave(20, all, noon + 1s);
    BOOST_TEST(room.debt(noon) == 0);
}

BOOST_AUTO_TEST_CASE(grant_nothing_below_a_lowered_number_until_it_fits) {
    adaptive room(each_by_itself);
    auto const t = room.take(9, noon);
    auto const last = room.report(room.take(1, noon), outcome::dropped);
    room.leave(1, last, noon + 1s);
    BOOST_TEST(room.seats() == 9);
    BOOST_TEST(!fits(room, 1));
    room.refund(1, t, noon);
    BOOST_TEST(fits(room, 1));
    BOOST_TEST(!fits(room, 2));
}

BOOST_AUTO_TEST_CASE(stay_within_their_bounds) {
    adaptive room(each_by_itself);
    for (int i = 0; i != 100; ++i)
        after(room, outcome::success, noon + i * 1min);
    BOOST_TEST(room.seats() == 20);
    for (int i = 0; i != 100; ++i)
        after(room, outcome::dropped, noon + 2h + i * 1min);
    BOOST_TEST(room.seats() == 1);
    BOOST_TEST(fits(room, 1));
    BOOST_TEST(after(room, outcome::success, noon + 4h) == 2);
}

BOOST_AUTO_TEST_CASE(keep_their_state_when_options_change) {
    adaptive room(each_by_itself);
    BOOST_TEST(after(room, outcome::success) == 11);
    auto const t = room.take(4, noon + 1s);
    auto wider = each_by_itself;
    wider.seats = 20;
    wider.max = 50;
    renew(room, wider, noon + 1s);
    BOOST_TEST(room.seats() == 11);
    BOOST_TEST(room.capacity() == 50);
    BOOST_TEST(room.remaining(noon) == 7);

    renew(room, aimd_options{.seats = 5, .min = 1, .max = 6}, noon + 1s);
    BOOST_TEST(room.seats() == 6);
    BOOST_TEST(room.remaining(noon) == 2);
    room.leave(4, t, noon + 1s);
    BOOST_TEST(room.remaining(noon) == 6);
}

BOOST_AUTO_TEST_CASE(keep_their_number_when_the_algorithm_changes) {
    adaptive room(each_by_itself);
    BOOST_TEST(after(room, outcome::success) == 11);
    renew(room, vegas_options{.seats = 500}, noon);
    BOOST_TEST(room.seats() == 11);
    BOOST_TEST(std::holds_alternative<vegas_options>(room.options()));
    renew(room, gradient2_options{}, noon);
    BOOST_TEST(room.seats() == 20);
    BOOST_TEST(std::holds_alternative<gradient2_options>(room.options()));
    renew(room, each_by_itself, noon);
    BOOST_TEST(room.seats() == 20);
    BOOST_TEST(std::get<aimd_options>(room.options()).max == 20);
}

BOOST_AUTO_TEST_CASE(are_unchanged_by_invalid_options) {
    adaptive room(each_by_itself);
    BOOST_CHECK_EXCEPTION(renew(room, gradient2_options{.min = 0}, noon), std::invalid_argument,
                          says("weir::gradient2: min is 0, but must be from 1 to "
                               "1000000000000000"));
    BOOST_TEST(room.seats() == 10);
}

BOOST_AUTO_TEST_CASE(can_be_a_quadrillion) {
    adaptive room(vegas_options{.seats = max_amount, .max = max_amount});
    BOOST_TEST(fits(room, max_amount));
    for (int i = 0; i != 9'000; ++i)
        room.take(max_amount, noon);
    BOOST_TEST(!fits(room, 1));
    BOOST_TEST(room.ready_at(max_amount, max_amount, noon) == unknown);
    BOOST_TEST(room.debt(noon) == 8'999 * max_amount);
}

// ---- Long calls.

namespace {

// Keeps all other seats in use by calls of this time, and returns when the number has last changed.
class busy_seats {
public:
    busy_seats(adaptive& room, duration call) : room_(room), call_(call) {}

    [[nodiscard]] time_point now() const noexcept { return now_; }
    void run(duration d) {
        for (auto const end = now_ + d; now_ < end; now_ += call_) {
            std::vector<ticket> calls;
            while (fits_at(now_))
                calls.push_back(room_.take(1, now_));
            for (auto const t : calls)
                room_.leave(1, t, now_ + call_);
        }
    }
    // Returns how long it takes until the number changes twice, at most a day.
    [[nodiscard]] duration until_it_changed_twice() {
        auto const begin = now_;
        for (int changes = 0; changes != 2 && now_ < begin + 24h;) {
            auto const before = room_.seats();
            run(call_);
            changes += room_.seats() != before;
        }
        return now_ - begin;
    }

private:
    [[nodiscard]] bool fits_at(time_point t) const { return room_.ready_at(1, 0, t) <= t; }

    adaptive& room_;
    duration call_;
    time_point now_ = noon;
};

}  // namespace

// Envoy and others have the same mistake: the latency of one long call in the mean of a window.
BOOST_AUTO_TEST_CASE(continue_to_adapt_after_a_long_call) {
    for (duration const held :
         {duration(1s), duration(10s), duration(10min), duration(1h), duration(24h)}) {
        BOOST_TEST_CONTEXT(
            "held for " << std::chrono::duration_cast<std::chrono::seconds>(held).count() << " s") {
            adaptive by_gradient(gradient2_options{.seats = 4, .min = 2, .max = 20});
            auto stuck = by_gradient.take(1, noon);
            busy_seats rest(by_gradient, 500ms);
            rest.run(held);
            by_gradient.leave(1, stuck, rest.now());
            BOOST_TEST(rest.until_it_changed_twice() <= 70s);

            adaptive by_vegas(vegas_options{.seats = 4, .min = 2, .max = 20});
            stuck = by_vegas.take(1, noon);
            busy_seats others(by_vegas, 500ms);
            others.run(held);
            by_vegas.leave(1, stuck, others.now());
            BOOST_TEST(others.until_it_changed_twice() <= 70s);
        }
    }
}

// A call that takes longer than the timeout would reduce the number, but it is a stream.
BOOST_AUTO_TEST_CASE(take_no_sample_from_a_long_call) {
    adaptive room(each_by_itself);
    auto const stream = room.take(1, noon);
    auto const late = room.take(1, noon);
    busy_seats rest(room, 10ms);
    rest.run(100ms);
    room.leave(1, late, noon + 2s);
    auto const reduced = room.seats();
    busy_seats(room, 10ms).run(1min);
    BOOST_TEST(room.seats() == 20);
    BOOST_TEST(reduced < 20);
    room.leave(1, stream, noon + 1h);
    BOOST_TEST(room.seats() == 20);
}

BOOST_AUTO_TEST_CASE(get_seats_for_long_calls) {
    adaptive room(knee_options{.seats = 4, .min = 4, .max = 20});
    auto const stream = room.take(2, noon);
    busy_seats rest(room, 10ms);
    rest.run(10s);
    BOOST_TEST(room.seats() >= 6);
    auto const with_streams = room.seats();
    room.refund(1, stream, rest.now());
    BOOST_TEST(room.seats() == with_streams - 1);
    auto const young = room.take(1, rest.now());
    BOOST_TEST(room.merge(stream, young, 1) == stream);
    room.leave(1, stream, rest.now());
    BOOST_TEST(room.seats() == with_streams - 1);
    room.leave(1, stream, rest.now());
    BOOST_TEST(room.seats() == with_streams - 2);

    adaptive few(knee_options{.seats = 2, .min = 2, .max = 2});
    few.take(1, noon);
    busy_seats(few, 10ms).run(10s);
    BOOST_TEST(few.seats() == 2);
}

// Nothing is known about the permits, and the number cannot change.
BOOST_AUTO_TEST_CASE(grant_a_request_on_trial_when_no_permit_is_released_for_15_seconds) {
    adaptive room(knee_options{.seats = 3, .max = 20});
    auto const streams = room.take(2, noon);
    room.take(1, noon + 1s);
    auto const again = noon + 16s;
    BOOST_TEST(room.ready_at(1, 0, again - 1ns) == unknown);
    BOOST_TEST(room.ask_again_at(1, noon + 1s) == again);
    BOOST_TEST(room.ask_again_at(18, noon + 1s) == weir::never);
    BOOST_TEST(room.ready_at(18, 0, again) == unknown);
    BOOST_TEST(room.ready_at(1, 1, again) == unknown);
    BOOST_TEST(room.ready_at(1, 0, again) == again);
    BOOST_TEST(room.ready_at(17, 0, again) == again);
    auto const trial = room.take(1, again);
    BOOST_TEST(room.seats() == 3);
    // The next one after twice the time.
    BOOST_TEST(room.ready_at(1, 0, again + 30s - 1ns) == unknown);
    BOOST_TEST(room.ask_again_at(1, again) == again + 30s);
    auto const second = room.take(1, again + 30s);
    BOOST_TEST(room.ask_again_at(1, again + 30s) == again + 90s);
    // It ends before the others, which are long.
    room.leave(1, second, again + 31s);
    BOOST_TEST(room.seats() == 6);
    BOOST_TEST(room.remaining(again) == 2);
    room.leave(1, trial, again + 31s);
    room.leave(1, streams, again + 1h);
    BOOST_TEST(room.seats() == 5);
}

// The service stood still, and continues in order.
BOOST_AUTO_TEST_CASE(make_no_call_long_if_the_trial_is_not_the_first_to_end) {
    adaptive room(knee_options{.seats = 3, .max = 20});
    auto const stuck = room.take(3, noon);
    auto const trial = room.take(1, noon + 15s);
    room.leave(1, stuck, noon + 16s);
    room.leave(1, trial, noon + 17s);
    BOOST_TEST(room.seats() == 3);

    adaptive other(knee_options{.seats = 3, .max = 20});
    other.take(3, noon);
    auto const rejected = other.take(1, noon + 15s);
    other.leave(1, other.report(rejected, outcome::dropped), noon + 16s);
    BOOST_TEST(other.seats() == 3);
    BOOST_TEST(other.ask_again_at(1, noon + 16s) == noon + 31s);
}

BOOST_AUTO_TEST_CASE(try_nothing_with_the_other_algorithms) {
    adaptive room(each_by_itself);
    room.take(10, noon);
    BOOST_TEST(room.ask_again_at(1, noon) == weir::never);
    BOOST_TEST(room.ready_at(1, 0, noon + 24h) == unknown);
}

// Random permits, times and outcomes: the number stays within its bounds, and permits in use are counted.
BOOST_AUTO_TEST_CASE(keep_their_guarantee_in_any_order) {
    support::for_each_seed(1, 3'000, [](random_source& random) {
        auto const least = random.between(1, 30);
        auto const most = least + random.of_any_size(1'000);
        auto const seats = random.between(least, most);
        weir::adaptive_options options;
        bool is_knee = false;
        switch (random.between(0, 3)) {
            case 0:
                options = knee_options{.seats = seats, .min = least, .max = most};
                is_knee = true;
                break;
            case 1:
                options = aimd_options{.seats = seats, .min = least, .max = most, .samples = 3};
                break;
            case 2:
                options = vegas_options{
                    .seats = seats, .min = least, .max = most, .probe = 2, .samples = 3};
                break;
            default:
                options = gradient2_options{
                    .seats = seats,
                    .min = least,
                    .max = most,
                    .probe = 3,
                    .window = 1ms,
                    .samples = 3};
        }
        adaptive room(options);
        struct held {
            ticket t;
            amount n;
        };
        std::vector<held> out;
        amount in_use = 0;
        auto now = noon;
        auto changed = now;  // the last grant or release
        bool good = true;
        allocation_count const allocations;
        out.reserve(200);
        for (int step = 0; step != 200; ++step) {
            now += duration(random.of_any_size(random.one_in(50) ? 100'000'000'000 : 10'000'000));
            auto const n = random.between(1, std::min<amount>(4, most));
            bool fit = in_use == 0 || in_use + n <= room.seats();
            bool const relieved = is_knee && now >= changed + 100ms && in_use + n <= most;
            bool const is_ready = room.ready_at(n, 0, now) <= now;
            good = good && (is_ready == fit || (is_ready && relieved));
            fit = is_ready;
            good = good && room.remaining(now) == std::max<amount>(room.seats() - in_use, 0);
            if (fit && !random.one_in(3)) {
                out.push_back({room.take(n, now), n});
                in_use += n;
                changed = now;
            } else if (!out.empty()) {
                auto& p = out[random.index_in(out)];
                p.t = room.report(p.t, random.one_of({outcome::success, outcome::success,
                                                      outcome::dropped, outcome::ignored}));
                good = good &&
                       (random.one_in(4) ? room.refund(p.n, p.t, now) : room.leave(p.n, p.t, now));
                in_use -= p.n;
                changed = now;
                p = out.back();
                out.pop_back();
            }
            good = good && room.seats() >= least && room.seats() <= most;
        }
        auto const allocated = allocations();
        BOOST_TEST_REQUIRE(good);
        BOOST_TEST_REQUIRE(allocated <= 1U);  // by the vector here
    });
}

BOOST_AUTO_TEST_SUITE_END()
