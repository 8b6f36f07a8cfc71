// Processes that take turns at the seats of a server, the same for all stores: see shared/place.hpp. There is no
// `#pragma once`, because this is a part of the file that includes it, which defines `bounds`.
//
// Each test prints what it measured. WEIR_SECONDS sets for how long the processes run.

#include <weir/shared/seats.hpp>

#include "shared/crowd.hpp"
#include "shared/workers.hpp"
#include "support/quiet.hpp"
#include "support/rethrow.hpp"

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/test/unit_test.hpp>

#include <fmt/format.h>

#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace {

namespace asio = boost::asio;
using namespace std::chrono_literals;
using support::worker;

struct plan {
    int processes = 8;
    int callers = 2;  // of each
    weir::amount seats = 1;
    std::chrono::milliseconds use = 50ms;
};

struct use {
    std::int64_t from = 0;
    std::int64_t to = 0;
    std::size_t who = 0;
};

// The uses of seats, from the first grant of the last one to start to the last grant of the first one to end.
struct record {
    std::vector<use> uses;  // in the order of time
    std::int64_t begin = 0;
    std::int64_t end = INT64_MAX;
    double questions_per_grant = 0;
    double jain = 0;
    double possible = 0;  // of the time, the seats were in use
    std::chrono::milliseconds longest_without{};
};

record evaluate(std::vector<std::vector<std::int64_t>> const& told, plan const& p) {
    record made;
    double questions = 0;
    double grants = 0;
    for (std::size_t who = 0; who != told.size(); ++who) {
        auto const& numbers = told[who];
        BOOST_TEST_REQUIRE(numbers.size() >= 3u);
        questions += static_cast<double>(numbers.back());
        grants += static_cast<double>(numbers.size() / 2);
        for (std::size_t i = 0; i + 1 < numbers.size(); i += 2)
            made.uses.push_back({numbers[i], numbers[i + 1], who});
        made.begin = std::max(made.begin, numbers[0]);
        made.end = std::min(made.end, numbers[numbers.size() - 2]);
    }
    std::ranges::sort(made.uses, {}, &use::from);
    std::vector<double> time(told.size());
    std::vector<std::int64_t> last(told.size(), made.begin);
    std::int64_t longest = 0;
    for (auto const& u : made.uses) {
        auto const from = std::clamp(u.from, made.begin, made.end);
        auto const to = std::clamp(u.to, made.begin, made.end);
        time[u.who] += static_cast<double>(to - from);
        longest = std::max(longest, from - last[u.who]);
        last[u.who] = to;
    }
    double sum = 0;
    double squares = 0;
    for (auto const t : time) {
        sum += t;
        squares += t * t;
    }
    made.questions_per_grant = questions / grants;
    made.jain = sum * sum / (static_cast<double>(told.size()) * squares);
    made.possible = sum / static_cast<double>(made.end - made.begin) / static_cast<double>(p.seats);
    made.longest_without = std::chrono::milliseconds(longest / 1'000'000);
    return made;
}

void check_that_seats_suffice(record const& r, weir::amount seats) {
    struct change {
        std::int64_t at;
        int by;
    };
    std::vector<change> changes;
    for (auto const& u : r.uses) {
        changes.push_back({u.from, 1});
        changes.push_back({u.to, -1});
    }
    std::ranges::sort(changes, [](auto const& a, auto const& b) {
        return a.at != b.at ? a.at < b.at : a.by < b.by;
    });
    weir::amount out = 0;
    for (auto const& c : changes)
        BOOST_TEST_REQUIRE((out += c.by) <= seats);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(turns_worker, *boost::unit_test::disabled())

// Uses seats one after the other, and reports the times on the clock that all processes of the machine share, and at
// the end the number of its questions.
BOOST_AUTO_TEST_CASE(uses_seats) {
    asio::io_context ctx;
    using clock = std::chrono::steady_clock;
    weir::shared_seats kitchen(
        ctx, place::at(ctx, worker::told("WEIR_ADDRESS")), worker::told("WEIR_NAME"),
        {.seats = std::stoi(worker::told("WEIR_SEATS")), .lease = 10s, .timeout = 300ms});
    std::chrono::milliseconds const meal(std::stoi(worker::told("WEIR_USE")));
    auto const until = clock::now() + support::time_of_crowd();
    std::vector<std::int64_t> times;
    auto const guest = [&]() -> asio::awaitable<void> {
        while (clock::now() < until) {
            auto const seat = co_await kitchen.async_enter(30s);
            auto const from = clock::now();
            asio::steady_timer timer(ctx, meal);
            co_await timer.async_wait(asio::deferred);
            if (seat.lost())
                continue;
            times.push_back(from.time_since_epoch().count());
            times.push_back(clock::now().time_since_epoch().count());
        }
    };
    for (int i = 0; i != std::stoi(worker::told("WEIR_CALLERS")); ++i)
        co_spawn(ctx, guest(), support::rethrow);
    ctx.run();
    for (auto const t : times)
        worker::tell(t);
    worker::tell(static_cast<std::int64_t>(kitchen.shared_stats().questions));
}

BOOST_AUTO_TEST_SUITE_END()

namespace support {

struct turns_place : place {
    using place::place;

    worker start(std::string const& name, plan const& p) const {
        return {"turns_worker/uses_seats",
                {{"WEIR_ADDRESS", address()},
                 {"WEIR_NAME", name},
                 {"WEIR_SEATS", std::to_string(p.seats)},
                 {"WEIR_USE", std::to_string(p.use.count())},
                 {"WEIR_CALLERS", std::to_string(p.callers)}}};
    }
    record compete(std::string const& name, plan const& p) {
        std::vector<worker> workers;
        for (int i = 0; i != p.processes; ++i)
            workers.push_back(start(name, p));
        std::vector<std::vector<std::int64_t>> told;
        for (auto& w : workers)
            told.push_back(w.numbers());
        auto const r = evaluate(told, p);
        fmt::print("{} processes with {} callers, {} seats for {} ms: Jain {:.4f}, longest time "
                   "without a seat {} ms, {:.2f} "
                   "questions per grant, {:.1f} % of the possible use\n",
                   p.processes, p.callers, p.seats, p.use.count(), r.jain,
                   r.longest_without.count(), r.questions_per_grant, 100 * r.possible);
        std::fflush(stdout);
        check_that_seats_suffice(r, p.seats);
        return r;
    }
    static void check_turns(record const& r) {
        check_shares(r);
        BOOST_TEST(r.questions_per_grant <= (quiet_machine() ? 1 : 2) * bounds::questions);
        BOOST_TEST((!quiet_machine() || r.longest_without <= 2 * 8 * 60ms));
    }
    static void check_use(record const& r) {
        check_shares(r);
        BOOST_TEST((!quiet_machine() || r.possible >= bounds::possible));
    }
    // Processes that do not take turns have shares of 0.75 to 0.8.
    static void check_shares(record const& r) {
        BOOST_TEST(r.jain >= (quiet_machine() ? bounds::jain : 0.85));
    }
};

}  // namespace support

BOOST_FIXTURE_TEST_SUITE(turns, support::turns_place,
                         *boost::unit_test::precondition(place::if_here))

BOOST_AUTO_TEST_CASE(eight_processes_share_a_seat_equally) {
    auto const r = compete("slow", {.use = 50ms});
    check_turns(r);
}

BOOST_AUTO_TEST_CASE(a_turn_has_many_short_uses) {
    auto const r = compete("fast", {.use = 5ms});
    check_turns(r);
}

BOOST_AUTO_TEST_CASE(two_processes_leave_no_seat_unused) {
    auto const r = compete("two", {.processes = 2, .callers = 1, .use = 5ms});
    check_use(r);
}

BOOST_AUTO_TEST_CASE(several_seats_are_shared_equally) {
    auto const r = compete("four", {.seats = 4, .use = 5ms});
    check_use(r);
}

BOOST_AUTO_TEST_SUITE_END()
