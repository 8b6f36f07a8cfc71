#include <weir/policy/all.hpp>
#include <weir/policy/any.hpp>

#include "support/printing.hpp"
#include "support/random.hpp"
#include "support/renew.hpp"
#include "support/says.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <vector>

using namespace std::chrono_literals;
using support::begun;
using support::random_source;
using support::renew;
using support::says;
using weir::amount;
using weir::limiter_config;
using weir::ticket;
using weir::time_point;
using weir::policy::all;
using weir::policy::any;
namespace policy = weir::policy;

BOOST_AUTO_TEST_SUITE(all_of_several)

namespace {

constexpr time_point noon{12h};

using two_logs = all<policy::sliding_log, policy::sliding_log>;
using room_and_log = all<policy::seats, policy::sliding_log>;

static_assert(weir::limiting_policy<two_logs> && !weir::watchful_policy<two_logs>);
static_assert(weir::limiting_policy<room_and_log> && weir::watchful_policy<room_and_log>);

any parsed(std::string const& text) {
    return begun<any>(limiter_config::parse(text), noon);
}

}  // namespace

BOOST_AUTO_TEST_CASE(grant_what_each_of_them_grants) {
    auto calls = begun<two_logs>({{.limit = 2, .window = 1s}, {.limit = 3, .window = 60s}}, noon);
    BOOST_TEST(calls.capacity() == 2);
    BOOST_TEST(calls.timed());
    BOOST_TEST(!calls.catches_up());
    BOOST_TEST(calls.remaining(noon) == 2);
    calls.take(2, noon);
    BOOST_TEST(calls.remaining(noon) == 0);
    BOOST_TEST(calls.ready_at(1, 0, noon) == noon + 1s);
    BOOST_TEST(calls.ready_at(2, 0, noon) == noon + 60s);
    BOOST_TEST(calls.remaining(noon + 1s) == 1);
    auto const t = calls.take(1, noon + 1s);
    BOOST_TEST(calls.ready_at(1, 0, noon + 2s) == noon + 60s);
    BOOST_TEST(calls.refund(1, t, noon + 2s));
    BOOST_TEST(calls.ready_at(1, 0, noon + 2s) <= noon + 2s);
}

BOOST_AUTO_TEST_CASE(have_no_grant_time_if_one_of_them_has_none) {
    auto kitchen = begun<room_and_log>({{.seats = 1}, {.limit = 1, .window = 1s}}, noon);
    auto const t = kitchen.take(1, noon);
    BOOST_TEST(kitchen.ready_at(1, 0, noon) == weir::unknown);
    BOOST_TEST(kitchen.leave(1, t, noon));
    BOOST_TEST(kitchen.ready_at(1, 0, noon) == noon + 1s);
}

BOOST_AUTO_TEST_CASE(catch_up_if_each_of_them_does) {
    BOOST_TEST(parsed("10/1s burst 3 & 100/1min leaky").catches_up());
    BOOST_TEST(!parsed("10/1s burst 3 & 100/1min").catches_up());
}

BOOST_AUTO_TEST_CASE(watch_how_long_permits_are_held_if_one_of_them_does) {
    auto kitchen =
        begun<room_and_log>({{.seats = 3, .max_hold = 10s}, {.limit = 9, .window = 1s}}, noon);
    auto const first = kitchen.take(1, noon);
    auto const second = kitchen.take(2, noon + 1s);
    BOOST_TEST(first != second);
    BOOST_TEST(kitchen.next_overdue() == noon + 10s);
    kitchen.leave(1, first, noon + 1s);
    auto const found = kitchen.pop_overdue(noon + 11s);
    BOOST_TEST_REQUIRE(found.has_value());
    BOOST_TEST(found->id == second);
    BOOST_TEST(found->count == 2);
    BOOST_TEST(!kitchen.pop_overdue(noon + 1h));

    auto chosen = parsed("3 seats max_hold 10s & 9/1s & 1/1s burst 9");
    auto const t = chosen.take(3, noon);
    BOOST_TEST(chosen.next_overdue() == noon + 10s);
    BOOST_TEST(chosen.pop_overdue(noon + 10s)->id == t);
}

BOOST_AUTO_TEST_CASE(merge_permits_in_each_of_them) {
    auto kitchen =
        begun<room_and_log>({{.seats = 5, .max_hold = 10s}, {.limit = 9, .window = 1min}}, noon);
    auto const a = kitchen.take(1, noon);
    auto const b = kitchen.take(2, noon + 1s);
    auto const both = kitchen.merge(a, b, 2);
    BOOST_TEST(kitchen.pop_overdue(noon + 10s)->count == 3);
    BOOST_TEST(kitchen.refund(3, both, noon + 10s));
    BOOST_TEST(kitchen.remaining(noon + 10s) == 5);
    BOOST_TEST(kitchen.next_overdue() == weir::never);
}

BOOST_AUTO_TEST_CASE(keep_permits_in_use_when_options_change) {
    auto kitchen =
        begun<room_and_log>({{.seats = 3, .max_hold = 10s}, {.limit = 3, .window = 1min}}, noon);
    auto const t = kitchen.take(3, noon);
    renew(kitchen, {{.seats = 4, .max_hold = 10s}, {.limit = 9, .window = 1min}}, noon + 1s);
    BOOST_TEST(kitchen.remaining(noon + 1s) == 1);
    BOOST_TEST(kitchen.refund(3, t, noon + 2s));
    BOOST_TEST(kitchen.remaining(noon + 2s) == 4);
    BOOST_TEST(std::get<0>(kitchen.options()).seats == 4);
}

BOOST_AUTO_TEST_CASE(remain_of_the_same_kinds) {
    auto door = parsed("3 seats & 10/1s");
    auto const t = door.take(3, noon);
    for (auto const* const other : {"3 seats", "10/1s & 3 seats", "3 seats & 10/1s & 1/1s"})
        BOOST_CHECK_EXCEPTION(
            renew(door, limiter_config::parse(other), noon), std::invalid_argument,
            says("weir::any_limiter: cannot change `3 seats & 10/1s` to `" + std::string(other) +
                 "`: the kind of limiter is fixed"));
    renew(door, limiter_config::parse("5 seats & 10/1s"), noon);
    BOOST_TEST(door.remaining(noon) == 2);
    door.leave(3, t, noon);
    BOOST_TEST(door.remaining(noon) == 5);
    BOOST_CHECK_EXCEPTION(static_cast<void>(any(weir::all_options())), std::invalid_argument,
                          says("weir::any_limiter: the list of limits is empty"));
    BOOST_CHECK_THROW(any(limiter_config::parse("3 seats & 0/1s")), std::invalid_argument);
}

namespace {

// Compared with each part alone, which gets all grants of the whole: the whole grants when each part would, and each
// released permit is released in each part under its own ticket.
void compare(std::vector<std::string> const& texts, random_source& random) {
    std::string joined;
    std::vector<any> parts;
    for (auto const& text : texts) {
        joined += (joined.empty() ? "" : " & ") + text;
        parts.push_back(parsed(text));
    }
    auto together = parsed(joined);
    BOOST_TEST_REQUIRE(to_string(together.options()) == joined);
    struct permit {
        ticket t;
        std::vector<ticket> own;
        amount n;
    };
    std::vector<permit> out;
    auto now = noon;
    for (int step = 0; step != 80; ++step) {
        now += std::chrono::nanoseconds(random.of_any_size(1'000'000'000));
        auto const n = random.between(1, 3);
        auto const ahead = random.between(0, 3);
        auto last = time_point::min();
        auto least = weir::max_amount;
        for (auto const& p : parts) {
            last = std::max(last, p.ready_at(n, ahead, now));
            least = std::min(least, p.remaining(now));
        }
        BOOST_TEST_REQUIRE(together.ready_at(n, ahead, now) == last);
        BOOST_TEST_REQUIRE(together.remaining(now) == least);

        auto const what = random.between(0, 5);
        if (what < 3 && (random.one_in(8) || together.ready_at(n, 0, now) <= now)) {
            permit p{.t = together.take(n, now), .own = {}, .n = n};
            for (auto& part : parts)
                p.own.push_back(part.take(n, now));
            out.push_back(p);
        } else if (what == 3 && out.size() >= 2) {
            auto const from = out.back();
            out.pop_back();
            auto& into = out[random.index_in(out)];
            into.t = together.merge(into.t, from.t, from.n);
            for (std::size_t i = 0; i != parts.size(); ++i)
                into.own[i] = parts[i].merge(into.own[i], from.own[i], from.n);
            into.n += from.n;
        } else if (!out.empty()) {
            auto const i = random.index_in(out);
            auto& p = out[i];
            auto const m = random.between(1, p.n);
            bool const unused = random.one_in(2);
            bool room = false;
            for (std::size_t k = 0; k != parts.size(); ++k)
                room = (unused ? parts[k].refund(m, p.own[k], now)
                               : parts[k].leave(m, p.own[k], now)) ||
                       room;
            BOOST_TEST_REQUIRE(
                (unused ? together.refund(m, p.t, now) : together.leave(m, p.t, now)) == room);
            p.n -= m;
            if (p.n == 0)
                out.erase(out.begin() + static_cast<std::ptrdiff_t>(i));
        }
    }
}

}  // namespace

BOOST_AUTO_TEST_CASE(decide_like_each_alone) {
    support::for_each_seed(1'000'000, 300, [](random_source& random) {
        compare({"3/1s", "10/1min"}, random);
        compare({"4 seats", "9/3s"}, random);
        compare({"4 seats max_hold 1s", "9/3s", "5/1s burst 4"}, random);
        compare({"4 seats max_hold 1s", "5/1s burst 4"}, random);
        compare({"5/1s bursty", "5/2s fixed"}, random);
        compare({"5/1s warming", "5/1s leaky capacity 4", "5/2s sliding slices 3"}, random);
        compare({"5/1s bursty", "7/1s burst 4"}, random);
        compare({"7/1s burst 4", "9/2s leaky capacity 6"}, random);
    });
}

namespace {

// Returns the number that one permit changes: up by 1, or down to nine tenths if it was dropped.
constexpr weir::aimd_options each_by_itself{
    .seats = 10, .min = 1, .max = 20, .slow_start = 0, .timeout = 1s, .samples = 1};

}  // namespace

BOOST_AUTO_TEST_CASE(report_releases_and_outcomes_to_adaptive_parts) {
    using weir::policy::adaptive;
    using weir::policy::seats;
    using weir::policy::sliding_log;
    // In the first, one ticket is enough for both parts, but not in the second.
    weir::policy::all<adaptive, seats> simple({each_by_itself, {.seats = 20}});
    weir::policy::all<seats, sliding_log, adaptive> tabled(
        {{.seats = 20, .max_hold = 1h}, {.limit = 20, .window = 1s}, each_by_itself});
    auto const check = [](auto& both) {
        both.begin(noon);
        BOOST_TEST(weir::times_leave(both));
        auto t = both.take(10, noon);
        BOOST_TEST(both.remaining(noon) == 0);
        t = both.report(t, weir::outcome::dropped);
        both.leave(10, t, noon + 10s);
        BOOST_TEST(both.remaining(noon + 10s) == 9);
    };
    check(simple);
    check(tabled);
}

BOOST_AUTO_TEST_SUITE_END()
