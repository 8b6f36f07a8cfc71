// Shared seats at a server, and the processes that use them, the same for all stores: see shared/place.hpp. There is no
// `#pragma once`, because this is a part of the file that includes it.

#include <weir/shared/seats.hpp>

#include "shared/workers.hpp"
#include "support/printing.hpp"
#include "support/rethrow.hpp"
#include "support/visit.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/basic_waitable_timer.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/test/tree/decorator.hpp>
#include <boost/test/unit_test.hpp>

#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace {

namespace asio = boost::asio;
using namespace std::chrono_literals;
using support::visit;
using support::worker;

// So long that a loaded machine does not look like a suspended process.
weir::shared_seats_options long_seats(weir::amount n) {
    return {.seats = n, .lease = 60s, .timeout = 10s};
}
weir::shared_seats_options short_seats(weir::amount n) {
    return {.seats = n, .lease = 3s, .timeout = 400ms};
}

// A clock that is an hour ahead.
struct fast_clock {
    using base = std::chrono::steady_clock;
    using duration = base::duration;
    using rep = base::rep;
    using period = base::period;
    using time_point = std::chrono::time_point<fast_clock>;
    static constexpr bool is_steady = true;
    static time_point now() noexcept {
        return time_point(base::now().time_since_epoch() + std::chrono::hours(1));
    }
};

}  // namespace

namespace support {

struct seats_place : place {
    using place::place;

    weir::amount held(std::string const& name) { return look(name).held(); }
    worker start(std::string const& what, std::string const& name) const {
        return {"seats_worker/" + what, {{"WEIR_ADDRESS", address()}, {"WEIR_NAME", name}}};
    }
};

}  // namespace support

BOOST_AUTO_TEST_SUITE(seats_worker, *boost::unit_test::disabled())

// Takes and releases a seat for two seconds, and reports the times on the clock that all processes of the machine
// share.
BOOST_AUTO_TEST_CASE(sits_and_stands) {
    asio::io_context ctx;
    using clock = std::chrono::steady_clock;
    weir::shared_seats kitchen(
        ctx, place::at(ctx, worker::told("WEIR_ADDRESS")), worker::told("WEIR_NAME"),
        {.seats = 3, .lease = 10s, .timeout = 1s, .poll = 5ms});
    auto const until = clock::now() + 2s;
    auto const guest = [&]() -> asio::awaitable<void> {
        while (clock::now() < until) {
            auto const seat = co_await kitchen.async_enter(30s);
            auto const from = clock::now();
            asio::steady_timer meal(ctx, 3ms);
            co_await meal.async_wait(asio::deferred);
            if (seat.lost())
                continue;
            worker::tell(from.time_since_epoch().count());
            worker::tell(clock::now().time_since_epoch().count());
        }
    };
    for (int i = 0; i != 3; ++i)
        co_spawn(ctx, guest(), support::rethrow);
    ctx.run();
}

// Takes a seat, reports the fencing token, and reports the loss of the seat.
BOOST_AUTO_TEST_CASE(sits_until_lost) {
    asio::io_context ctx;
    weir::shared_seats kitchen(ctx, place::at(ctx, worker::told("WEIR_ADDRESS")),
                               worker::told("WEIR_NAME"), short_seats(1));
    auto const guest = [&]() -> asio::awaitable<void> {
        auto const seat = co_await kitchen.async_enter();
        worker::tell(static_cast<std::int64_t>(seat.id()));
        co_await kitchen.async_wait_lost(seat);
        worker::tell(seat.lost());
    };
    co_spawn(ctx, guest(), support::rethrow);
    ctx.run();
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_FIXTURE_TEST_SUITE(any_seats, support::seats_place,
                         *boost::unit_test::precondition(place::if_here))

BOOST_AUTO_TEST_CASE(all_processes_keep_the_number_of_seats_together) {
    std::vector<worker> workers;
    for (int i = 0; i != 3; ++i)
        workers.push_back(start("sits_and_stands", "all"));
    for (int i = 0; i != 200; ++i)
        BOOST_TEST_REQUIRE(held("all") <= 3);
    struct change {
        std::int64_t at;
        int by;
    };
    std::vector<change> changes;
    std::size_t least = std::size_t(-1);
    for (auto& w : workers) {
        auto const times = w.numbers();
        least = std::min(least, times.size() / 2);
        for (std::size_t i = 0; i + 1 < times.size(); i += 2) {
            changes.push_back({times[i], 1});
            changes.push_back({times[i + 1], -1});
        }
    }
    std::ranges::sort(changes, [](auto const& a, auto const& b) {
        return a.at != b.at ? a.at < b.at : a.by < b.by;
    });
    int out = 0;
    for (auto const& c : changes)
        BOOST_TEST_REQUIRE((out += c.by) <= 3);
    BOOST_TEST(least >= 5u);
    BOOST_TEST(held("all") == 0);
}

BOOST_AUTO_TEST_CASE(seats_of_dead_processes_are_free_after_the_lease) {
    auto dies = start("sits_until_lost", "dead");
    auto const fence = dies.first_number();
    dies.send(SIGKILL);
    dies.numbers(true);
    auto const until = look("dead").ledger.last_end();
    BOOST_TEST(until >= fence + 3'000'000);

    weir::shared_seats kitchen(ctx, connect(ctx), "dead", short_seats(1));
    visit const next(kitchen);
    run(next);
    BOOST_TEST(next.granted());
    // The fencing token is the server's time at the start of the holding.
    BOOST_TEST(static_cast<std::int64_t>(next.seat().id()) >= until);
}

BOOST_AUTO_TEST_CASE(suspended_process_detects_its_loss) {
    auto stopped = start("sits_until_lost", "stopped");
    auto const fence = stopped.first_number();
    stopped.send(SIGSTOP);
    weir::shared_seats kitchen(ctx, connect(ctx), "stopped", short_seats(1));
    visit const next(kitchen);
    run(next);
    BOOST_TEST(next.granted());
    BOOST_TEST(static_cast<std::int64_t>(next.seat().id()) > fence);
    stopped.send(SIGCONT);
    auto const told = stopped.numbers();
    BOOST_TEST((told == std::vector<std::int64_t>{fence, 1}));
    BOOST_TEST(held("stopped") == 1);
}

BOOST_AUTO_TEST_CASE(clocks_of_clients_do_not_matter) {
    using timer = asio::basic_waitable_timer<fast_clock, asio::wait_traits<fast_clock>,
                                             asio::any_io_executor>;
    weir::shared_seats slow(ctx, connect(ctx), "clocks", short_seats(2));
    weir::basic_shared_seats<asio::any_io_executor, timer> fast(
        ctx, connect(ctx), "clocks", short_seats(2));
    visit const one(slow);
    visit const other(fast);
    run(one);
    run(other);
    // For enough renewals to exceed a lease.
    while (slow.shared_stats().questions < 5 || fast.shared_stats().questions < 5)
        ctx.run_one();
    BOOST_TEST(!one.seat().lost());
    BOOST_TEST(!other.seat().lost());
    BOOST_TEST(held("clocks") == 2);
    one.leave();
    other.leave();
    run();  // until all seats are given back
    BOOST_TEST(held("clocks") == 0);
}

BOOST_AUTO_TEST_CASE(seats_are_granted_and_given_back) {
    weir::shared_seats here(ctx, connect(ctx), "both", long_seats(3));
    weir::shared_seats there(ctx, connect(ctx), "both", long_seats(3));
    visit const two(here, 2);
    run(two);
    BOOST_TEST(two.granted());
    BOOST_TEST(held("both") == 2);
    visit const big(there, 2, 100ms);
    run(big);
    BOOST_TEST((big.rejected(weir::errc::timed_out) || big.rejected(weir::errc::unavailable)));
    visit const one(there, 1, 30s);
    run(one);
    BOOST_TEST(one.granted());
    BOOST_TEST(one.seat().id() > two.seat().id());
    BOOST_TEST(held("both") == 3);
    visit const next(there, 2, 30s);
    two.leave();
    run(next);
    BOOST_TEST(next.granted());
    BOOST_TEST(next.seat().id() == one.seat().id());  // one holding
    next.leave();
    one.leave();
    run();
    BOOST_TEST(held("both") == 0);
    BOOST_TEST(here.shared_stats().failed + there.shared_stats().failed == 0u);
}

BOOST_AUTO_TEST_CASE(many_processes_start_together) {
    std::vector<std::unique_ptr<weir::shared_seats>> limiters;
    std::vector<visit> guests;
    for (int i = 0; i != 8; ++i) {
        limiters.push_back(
            std::make_unique<weir::shared_seats>(ctx, connect(ctx), "fresh", long_seats(8)));
        guests.emplace_back(*limiters.back());
    }
    for (auto const& g : guests) {
        run(g);
        BOOST_TEST(g.granted());
    }
    BOOST_TEST(held("fresh") == 8);
    std::vector<std::uint64_t> fences;
    for (auto const& g : guests)
        fences.push_back(g.seat().id());
    std::ranges::sort(fences);
    BOOST_TEST((std::ranges::adjacent_find(fences) == fences.end()));
}

BOOST_AUTO_TEST_CASE(process_that_dies_in_the_line_delays_the_next_one_by_a_second) {
    weir::shared_seats kitchen(ctx, connect(ctx), "line", long_seats(1));
    visit const first(kitchen);
    run(first);
    auto own = std::make_unique<asio::io_context>();
    auto dies = std::make_unique<weir::shared_seats>(*own, connect(*own), "line", long_seats(1));
    visit const dead(*dies);
    while (look("line").waiting() != 1)
        own->run_one_for(10ms);
    own.reset();
    weir::shared_seats there(ctx, connect(ctx), "line", long_seats(1));
    visit const next(there);
    while (look("line").waiting() != 2)
        ctx.run_one_for(10ms);
    first.leave();
    auto const begin = std::chrono::steady_clock::now();
    run(next);
    auto const time = std::chrono::steady_clock::now() - begin;
    BOOST_TEST(next.granted());
    BOOST_TEST((time >= 900ms));
    BOOST_TEST((time <= 2500ms));
    next.leave();
    run();
    BOOST_TEST(held("line") == 0);
}

BOOST_AUTO_TEST_CASE(patience_in_the_line_ends_and_the_place_with_it) {
    weir::shared_seats here(ctx, connect(ctx), "left", long_seats(1));
    weir::shared_seats there(ctx, connect(ctx), "left", long_seats(1));
    visit const first(here);
    run(first);
    visit const next(there, 1, 300ms);
    run(next);
    BOOST_TEST(next.rejected(weir::errc::timed_out));
    while (there.shared_stats().questions < 2 || look("left").waiting() != 0)
        ctx.run_one_for(10ms);
    first.leave();
    run();
    BOOST_TEST(held("left") == 0);
}

BOOST_AUTO_TEST_CASE(killed_server_keeps_its_saved_data) {
    place::server_type mortal(place::saves());
    place there(mortal);
    weir::shared_seats kitchen(there.ctx, there.store, "kitchen", long_seats(2));
    visit const before(kitchen);
    there.run(before);
    mortal.send(SIGKILL);
    mortal.restart();
    visit const after(kitchen, 1, 30s);  // its question continues the holding
    there.run(after);
    BOOST_TEST(after.granted());
    BOOST_TEST(!before.seat().lost());
    BOOST_TEST(after.seat().id() == before.seat().id());
    before.leave();
    after.leave();
    there.run();
}

BOOST_AUTO_TEST_SUITE_END()
