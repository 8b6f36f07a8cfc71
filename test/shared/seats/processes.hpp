#pragma once

#include <weir/shared/engine.hpp>
#include <weir/shared/seat_ledger.hpp>
#include <weir/shared/seats.hpp>

#include "shared/workers.hpp"
#include "support/rethrow.hpp"
#include "support/visit.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/basic_waitable_timer.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/test/unit_test.hpp>

#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

// What processes do with shared seats at a real server; the tests of each engine call it.

namespace support {

/// A server, as tests of seats see it.
struct seats_place {
    struct record {
        std::int64_t now = 0;  ///< of the server
        weir::detail::seat_ledger ledger;
    };

    virtual std::shared_ptr<weir::engine> connect(boost::asio::io_context& ctx) = 0;
    /// What the server has noted of the seats `name`.
    virtual record look(std::string const& name) = 0;
    /// The suite of the workers, and what they are told of the server.
    virtual std::string suite() const = 0;
    virtual std::string address() const = 0;

    [[nodiscard]] weir::amount held(std::string const& name) {
        auto const [now, ledger] = look(name);
        return ledger.held(now);
    }
    [[nodiscard]] worker start(std::string const& what, std::string const& name) const {
        return {suite() + "/" + what, {{"WEIR_ADDRESS", address()}, {"WEIR_NAME", name}}};
    }

protected:
    ~seats_place() = default;
};

inline void run_until_over(boost::asio::io_context& ctx, visit const& v) {
    ctx.restart();
    while (v.waiting() && ctx.run_one() != 0) {}
    BOOST_TEST_REQUIRE(v.over());
}

/// So much that a loaded machine is not taken for a process that stands still.
inline weir::shared_seats_options long_seats(weir::amount n) {
    using namespace std::chrono_literals;
    return {.seats = n, .lease = 60s, .deadline = 10s};
}
inline weir::shared_seats_options short_seats(weir::amount n) {
    using namespace std::chrono_literals;
    return {.seats = n, .lease = 3s, .deadline = 400ms};
}

// ---- In the process of a worker

/// Sits down and stands up for two seconds, and tells when, by the clock that all processes of the machine share.
inline void sit_and_stand(std::shared_ptr<weir::engine> engine, boost::asio::io_context& ctx) {
    using namespace std::chrono_literals;
    using clock = std::chrono::steady_clock;
    weir::shared_seats kitchen(ctx, std::move(engine), worker::told("WEIR_NAME"),
                               {.seats = 3, .lease = 10s, .deadline = 1s, .poll = 5ms});
    auto const until = clock::now() + 2s;
    auto const guest = [&]() -> boost::asio::awaitable<void> {
        while (clock::now() < until) {
            auto const seat = co_await kitchen.async_enter(30s);
            auto const from = clock::now();
            boost::asio::steady_timer meal(ctx, 3ms);
            co_await meal.async_wait(boost::asio::deferred);
            if (seat.lost())
                continue;
            worker::tell(from.time_since_epoch().count());
            worker::tell(clock::now().time_since_epoch().count());
        }
    };
    for (int i = 0; i != 3; ++i)
        co_spawn(ctx, guest(), rethrow);
    ctx.run();
}

/// Sits down, tells the fence, and when the seat is lost, that.
inline void sit_until_lost(std::shared_ptr<weir::engine> engine, boost::asio::io_context& ctx) {
    weir::shared_seats kitchen(ctx, std::move(engine), worker::told("WEIR_NAME"), short_seats(1));
    auto const guest = [&]() -> boost::asio::awaitable<void> {
        auto const seat = co_await kitchen.async_enter();
        worker::tell(static_cast<std::int64_t>(seat.id()));
        co_await kitchen.async_wait_lost(seat);
        worker::tell(seat.lost());
    };
    co_spawn(ctx, guest(), rethrow);
    ctx.run();
}

// ---- Tests

inline void check_that_all_together_keep_to_the_seats(seats_place& place) {
    std::vector<worker> workers;
    for (int i = 0; i != 3; ++i)
        workers.push_back(place.start("sits_and_stands", "all"));
    for (int i = 0; i != 200; ++i)
        BOOST_TEST_REQUIRE(place.held("all") <= 3);
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
    BOOST_TEST(place.held("all") == 0);
}

inline void check_that_seats_of_the_dead_come_back_after_the_lease(seats_place& place) {
    auto dies = place.start("sits_until_lost", "dead");
    auto const fence = dies.first_number();
    dies.send(SIGKILL);
    dies.numbers(true);
    auto const until = place.look("dead").ledger.last_end();
    BOOST_TEST(until >= fence + 3'000'000);

    boost::asio::io_context ctx;
    weir::shared_seats kitchen(ctx, place.connect(ctx), "dead", short_seats(1));
    visit const next(kitchen);
    run_until_over(ctx, next);
    BOOST_TEST(next.granted());
    // The fence is the time of the server at which it began.
    BOOST_TEST(static_cast<std::int64_t>(next.seat().id()) >= until);
}

inline void check_that_one_that_was_stopped_learns_that_it_has_lost(seats_place& place) {
    auto stopped = place.start("sits_until_lost", "stopped");
    auto const fence = stopped.first_number();
    stopped.send(SIGSTOP);
    boost::asio::io_context ctx;
    weir::shared_seats kitchen(ctx, place.connect(ctx), "stopped", short_seats(1));
    visit const next(kitchen);
    run_until_over(ctx, next);
    BOOST_TEST(next.granted());
    BOOST_TEST(static_cast<std::int64_t>(next.seat().id()) > fence);
    stopped.send(SIGCONT);
    auto const told = stopped.numbers();
    BOOST_TEST((told == std::vector<std::int64_t>{fence, 1}));
    BOOST_TEST(place.held("stopped") == 1);
}

/// A clock that is an hour fast.
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

inline void check_that_clocks_of_clients_do_not_matter(seats_place& place) {
    namespace asio = boost::asio;
    using timer = asio::basic_waitable_timer<fast_clock, asio::wait_traits<fast_clock>,
                                             asio::any_io_executor>;
    asio::io_context ctx;
    weir::shared_seats slow(ctx, place.connect(ctx), "clocks", short_seats(2));
    weir::basic_shared_seats<asio::any_io_executor, timer> fast(
        ctx, place.connect(ctx), "clocks", short_seats(2));
    visit const one(slow);
    visit const other(fast);
    run_until_over(ctx, one);
    run_until_over(ctx, other);
    // For as many renewals as make more than a lease.
    while (slow.shared_stats().questions < 5 || fast.shared_stats().questions < 5)
        ctx.run_one();
    BOOST_TEST(!one.seat().lost());
    BOOST_TEST(!other.seat().lost());
    BOOST_TEST(place.held("clocks") == 2);
    one.leave();
    other.leave();
    ctx.restart();
    ctx.run();  // until all is given back
    BOOST_TEST(place.held("clocks") == 0);
}

inline void check_that_seats_are_taken_and_given_back(seats_place& place) {
    using namespace std::chrono_literals;
    boost::asio::io_context ctx;
    weir::shared_seats here(ctx, place.connect(ctx), "both", long_seats(3));
    weir::shared_seats there(ctx, place.connect(ctx), "both", long_seats(3));
    visit const two(here, 2);
    run_until_over(ctx, two);
    BOOST_TEST(two.granted());
    BOOST_TEST(place.held("both") == 2);
    visit const big(there, 2, 100ms);
    run_until_over(ctx, big);
    BOOST_TEST((big.refused(weir::errc::timed_out) || big.refused(weir::errc::unavailable)));
    visit const one(there, 1, 30s);
    run_until_over(ctx, one);
    BOOST_TEST(one.granted());
    BOOST_TEST(one.seat().id() > two.seat().id());
    BOOST_TEST(place.held("both") == 3);
    visit const next(there, 2, 30s);
    two.leave();
    run_until_over(ctx, next);
    BOOST_TEST(next.granted());
    BOOST_TEST(next.seat().id() == one.seat().id());  // one holding
    next.leave();
    one.leave();
    ctx.restart();
    ctx.run();
    BOOST_TEST(place.held("both") == 0);
    BOOST_TEST(here.shared_stats().failed + there.shared_stats().failed == 0u);
}

inline void check_that_many_begin_together(seats_place& place) {
    boost::asio::io_context ctx;
    std::vector<std::unique_ptr<weir::shared_seats>> limiters;
    std::vector<visit> guests;
    for (int i = 0; i != 8; ++i) {
        limiters.push_back(
            std::make_unique<weir::shared_seats>(ctx, place.connect(ctx), "fresh", long_seats(8)));
        guests.emplace_back(*limiters.back());
    }
    for (auto const& g : guests) {
        run_until_over(ctx, g);
        BOOST_TEST(g.granted());
    }
    BOOST_TEST(place.held("fresh") == 8);
    std::vector<std::uint64_t> fences;
    for (auto const& g : guests)
        fences.push_back(g.seat().id());
    std::ranges::sort(fences);
    BOOST_TEST((std::ranges::adjacent_find(fences) == fences.end()));
}

}  // namespace support
