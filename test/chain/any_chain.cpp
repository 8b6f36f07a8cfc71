#include <weir/chain.hpp>
#include <weir/keyed.hpp>
#include <weir/token_bucket.hpp>

#include "support/printing.hpp"
#include "support/virtual_limiters.hpp"

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/system_executor.hpp>
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <ostream>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

// Checks that chains whose limiters are chosen at run time behave exactly like `chain`.
//
// The test compares the two kinds over random schedules, request by request: the same calls, cancellations, hold
// times and changes of options, on two sets of the same limiters. Two permitted differences are excluded:
// - Events at the same instant at different limiters, or keys. Their order depends on the addresses of the limiters,
//   and on the seed of the hash that assigns keys to parts. So instants are any nanoseconds, and no two rates have
//   periods with a small common multiple.
// - The tolerance. Keys in one part share its timer, so that they delay each other.

using namespace support;
using weir::any_chain;
using weir::any_chain_permit;
using weir::any_link;
using weir::chain;
using weir::chain_permit;
using weir::errc;
using weir::error_code;

namespace {

using per_client = weir::testing::keyed<std::string, weir::token_bucket>;
using weir::duration;

constexpr int clients = 4;
std::string name_of(int client) {
    return std::string(1, static_cast<char>('a' + client));
}

weir::token_bucket_options bucket_of(int client, duration more = {}) {
    constexpr std::array<std::int64_t, clients> periods{
        200'000'033, 199'999'949, 200'000'651, 199'998'563};
    return {.rate = {1, duration(periods.at(static_cast<std::size_t>(client))) + more}, .burst = 2};
}

struct limiters {
    explicit limiters(asio::io_context& ctx)
        : kitchen(ctx, {.seats = 3}, exact),
          global(ctx, {.rate = {1, 49'999'991ns}, .burst = 4}, exact),
          per_name(ctx, {}, {}, exact) {
        for (int i = 0; i != clients; ++i)
            per_name.configure(name_of(i), bucket_of(i));
    }

    static constexpr weir::queue_options exact{.tolerance = 1ns};
    seats kitchen;
    token_bucket global;
    per_client per_name;
};

struct call {
    int client = 0;
    int seats = 0;
    duration patience{};
    duration hold{};
};

// The outcome of a request.
struct end_of_request {
    int times = 0;
    int error = 0;
    std::optional<std::size_t> by;
    std::optional<duration> retry_after;
    duration waited{};
    clock::time_point at{};

    friend bool operator==(end_of_request const&, end_of_request const&) = default;
    friend std::ostream& operator<<(std::ostream& out, end_of_request const& e) {
        return out << "ended " << e.times << " times, at " << e.at.time_since_epoch().count()
                   << " with " << e.error << " by "
                   << (e.by ? std::to_string(*e.by) : std::string("none")) << ", to come back in "
                   << e.retry_after.value_or(weir::forever).count() << ", after "
                   << e.waited.count();
    }
};

// Limiters, and requests for all of them by one kind of chain.
template <class Permit>
struct world {
    world(asio::io_context& context, std::size_t requests)
        : ctx(context), all(context), ends(requests), signals(requests) {}

    template <class Door>
    void ask(Door door, call const& c, std::size_t i) {
        auto const end = [this, i, hold = c.hold](error_code ec, Permit p) {
            ends[i] = {ends[i].times + 1, ec.value(), p.rejected_by(),
                       p.retry_after(),   p.waited(), clock::now()};
            if (!p)
                return;
            auto& timer = timers.emplace_back(ctx, hold);
            timer.async_wait([held = std::move(p)](error_code) mutable { held.leave(); });
        };
        door.async_enter(c.patience, asio::bind_cancellation_slot(signals[i].slot(), end));
    }

    asio::io_context& ctx;
    limiters all;
    std::vector<end_of_request> ends;
    std::deque<asio::cancellation_signal> signals;
    std::deque<weir::testing::timer> timers;
};

// The actions in both worlds, and their times.
struct schedule {
    enum class act : std::uint8_t { ask, cancel, seats, global, client };
    struct event {
        duration at;
        act what;
        int which;  // request, number or client
    };

    std::vector<call> calls;
    std::vector<event> events;

    explicit schedule(unsigned seed) {
        std::mt19937 random(seed);
        auto const below = [&](int n) { return std::uniform_int_distribution(0, n - 1)(random); };
        auto const up_to = [&](duration most) {
            return duration(std::uniform_int_distribution(duration::rep(0), most.count())(random));
        };
        duration now{};
        for (int i = 0; i != 300; ++i) {
            now += up_to(60ms);
            calls.push_back({.client = below(clients),
                             .seats = 1 + below(2),
                             .patience = up_to(400ms),
                             .hold = up_to(200ms)});
            events.push_back({now, act::ask, i});
            if (below(5) == 0)
                events.push_back({now + up_to(100ms), act::cancel, i});
            auto const change = below(60);
            if (change == 0)
                events.push_back({now + up_to(60ms), act::seats, 2 + below(3)});
            else if (change == 1)
                events.push_back({now + up_to(60ms), act::global, 1 + below(6)});
            else if (change == 2)
                events.push_back({now + up_to(60ms), act::client, below(clients)});
        }
        std::ranges::sort(events, {}, &event::at);
    }
};

void compare(unsigned seed) {
    schedule const plan(seed);
    asio::io_context ctx;
    world<chain_permit<3>> known(ctx, plan.calls.size());
    world<any_chain_permit> any(ctx, plan.calls.size());
    auto const in_both = [&](auto f) {
        f(known);
        f(any);
    };
    auto const start = clock::now();
    for (auto const& [at, what, which] : plan.events) {
        weir::testing::run_until(ctx, start + at);
        auto const i = static_cast<std::size_t>(which);
        switch (what) {
            case schedule::act::ask: {
                auto const& c = plan.calls[i];
                auto const ask = [&](auto& w, auto kind) {
                    w.ask(kind(w.all.per_name.with(name_of(c.client)), w.all.kitchen.with(c.seats),
                               w.all.global),
                          c, i);
                };
                ask(known, [](auto const&... links) { return chain{links...}; });
                ask(any, [](auto const&... links) { return any_chain{links...}; });
                break;
            }
            case schedule::act::cancel:
                in_both([&](auto& w) { w.signals[i].emit(asio::cancellation_type::terminal); });
                break;
            case schedule::act::seats:
                in_both([&](auto& w) { w.all.kitchen.configure({.seats = which}); });
                break;
            case schedule::act::global:
                in_both([&](auto& w) {
                    w.all.global.configure({.rate = {1, 49'999'991ns}, .burst = which});
                });
                break;
            case schedule::act::client:
                in_both([&](auto& w) {
                    w.all.per_name.configure(name_of(which), bucket_of(which, 20'000'003ns));
                });
        }
    }
    weir::testing::run_for(ctx, 2s);  // longer than any patience and any hold

    int granted = 0;
    int late = 0;
    for (std::size_t i = 0; i != plan.calls.size(); ++i) {
        BOOST_TEST_REQUIRE(known.ends[i] == any.ends[i],
                           "seed " << seed << ", request " << i << ": " << known.ends[i] << "; but "
                                   << any.ends[i]);
        BOOST_TEST_REQUIRE(known.ends[i].times == 1, "seed " << seed << ", request " << i);
        granted += known.ends[i].error == 0;
        late += known.ends[i].waited != 0ns;
    }
    BOOST_TEST((granted > 20 && late > 10), "seed " << seed);
    in_both([&](auto& w) {
        BOOST_TEST((w.all.kitchen.stats().in_use == 0 && w.all.kitchen.stats().waiting == 0U));
        for (auto const n : {w.all.kitchen.stats().granted, w.all.global.stats().granted,
                             w.all.per_name.stats().total.granted})
            BOOST_TEST(n == static_cast<std::uint64_t>(granted));
    });
}

}  // namespace

BOOST_AUTO_TEST_SUITE(chain_of_any_limiters)

BOOST_AUTO_TEST_CASE(decides_like_a_chain_of_limiters_known_at_compile_time) {
    auto const first = std::random_device()();
    for (unsigned i = 0; i != 60; ++i)
        compare(first + i);
}

BOOST_AUTO_TEST_CASE(has_the_limiters_that_were_added) {
    asio::io_context ctx;
    std::vector<seats> all;
    std::vector<any_link> links;
    for (int i = 0; i != 16; ++i)
        links.emplace_back(all.emplace_back(ctx, weir::seats_options{.seats = 1}));
    for (std::size_t n = 1; n <= links.size(); ++n) {
        any_chain door;
        for (std::size_t i = 0; i != n; ++i)
            door.add(links[i]);
        BOOST_TEST(door.size() == n);
        auto turn = door.try_enter();
        BOOST_TEST_REQUIRE(turn.size() == n);
        for (std::size_t i = 0; i != all.size(); ++i)
            BOOST_TEST(all[i].stats().in_use == (i < n ? 1 : 0));
        auto const rejected = any_chain{links[n - 1]}.try_enter();
        BOOST_TEST((!rejected && rejected.rejected_by() == 0U && rejected.size() == 0U));

        // A waiting request also has space for each of them.
        any_chain_permit late;
        door.async_enter([&](error_code, any_chain_permit p) { late = std::move(p); });
        settle(ctx);
        turn.leave();
        settle(ctx);
        BOOST_TEST((late && late.size() == n));
        late[n - 1].leave();
        BOOST_TEST(all[n - 1].stats().in_use == 0);
    }
    for (auto const& one : all)
        BOOST_TEST(one.stats().in_use == 0);
}

BOOST_AUTO_TEST_CASE(requests_the_sum_from_a_limiter_that_is_named_twice) {
    asio::io_context ctx;
    seats kitchen{ctx, {.seats = 3}};
    auto turn = any_chain{kitchen.with(2), kitchen}.try_enter();
    BOOST_TEST((turn.size() == 2U && turn[0].count() == 3 && !turn[1]));
    turn.refund();
    BOOST_TEST(kitchen.stats().in_use == 0);
}

BOOST_AUTO_TEST_CASE(is_awaited_and_cancelled) {
    asio::io_context ctx;
    seats a{ctx, {.seats = 1}};
    seats b{ctx, {.seats = 1}};
    any_chain door{a, b};
    auto seat = b.try_enter();
    std::optional<std::size_t> by;
    bool entered = false;
    co_spawn(
        ctx,
        [&]() -> asio::awaitable<void> {
            try {
                auto const turn = co_await door.enter(1s);
            } catch (weir::chain_rejection const& rejected) {
                by = rejected.rejected_by();
            }
            auto const turn = co_await door.async_enter(10s);
            entered = true;
        },
        asio::detached);
    asio::cancellation_signal signal;
    error_code cancelled;
    door.async_enter(asio::bind_cancellation_slot(
        signal.slot(), [&](error_code ec, any_chain_permit const&) { cancelled = ec; }));
    run_for(ctx, 2s);
    BOOST_TEST((by == 1U));
    signal.emit(asio::cancellation_type::terminal);
    settle(ctx);
    BOOST_TEST((cancelled == asio::error::operation_aborted));
    BOOST_TEST(!entered);
    seat.leave();
    settle(ctx);
    BOOST_TEST(entered);
    BOOST_TEST((a.stats().in_use == 0 && b.stats().in_use == 0));
}

BOOST_AUTO_TEST_CASE(outlives_its_limiters) {
    asio::io_context ctx;
    any_chain door;
    error_code ended;
    weir::permit held;
    {
        seats a{ctx, {.seats = 1}};
        seats b{ctx, {.seats = 1}};
        door.add(a);
        door.add(b);
        held = a.try_enter();
        door.async_enter([&](error_code ec, any_chain_permit const&) { ended = ec; });
        settle(ctx);
    }
    settle(ctx);
    BOOST_TEST((ended == errc::closed));
    error_code ec;
    BOOST_TEST((!door.try_enter(ec) && ec == errc::closed));
}

BOOST_AUTO_TEST_CASE(without_limiters_grants_each_request) {
    asio::io_context ctx;
    any_chain door;
    error_code ec = errc::closed;
    auto turn = door.try_enter(ec);
    BOOST_TEST((turn && !ec && turn.size() == 0U && turn.waited() == 0s));
    any_chain_permit moved = std::move(turn);
    BOOST_TEST((moved && !turn));
    moved.report(weir::outcome::success);
    turn = std::move(moved);
    BOOST_TEST((turn && !moved));
    turn.leave();
    BOOST_TEST(!turn);
    turn = door.try_enter();
    turn.refund();
    BOOST_TEST(!turn);
    BOOST_TEST((door.get_executor() == asio::any_io_executor(asio::system_executor())));

    asio::cancellation_signal signal;
    int calls = 0;
    auto callback = [&](error_code failed, any_chain_permit const& permit) {
        calls += !failed && permit ? 1 : 0;
    };
    door.async_enter(asio::bind_executor(ctx, callback));
    door.async_enter(
        0s, asio::bind_cancellation_slot(signal.slot(), asio::bind_executor(ctx, callback)));
    any_chain(ctx.get_executor()).async_enter(callback);
    signal.emit(asio::cancellation_type::terminal);
    BOOST_TEST(calls == 0);
    settle(ctx);
    BOOST_TEST(calls == 3);

    // With limiters it is a chain like any other.
    seats a{ctx, {.seats = 1}};
    door.add(a);
    BOOST_TEST((door.get_executor() == a.get_executor()));
    auto const one = door.try_enter();
    BOOST_TEST((one && !door.try_enter()));
}

BOOST_AUTO_TEST_CASE(with_an_executor_of_its_own_type_needs_a_limiter_or_an_executor) {
    using executor = asio::io_context::executor_type;
    asio::io_context ctx;
    weir::basic_any_chain<executor> door;
    BOOST_TEST(bool(door.try_enter()));
    BOOST_CHECK_THROW(static_cast<void>(door.enter()), std::logic_error);
    weir::basic_any_chain<executor> const placed(ctx.get_executor());
    BOOST_TEST((placed.get_executor() == ctx.get_executor()));
}

// The limiters are on virtual time, which has another epoch than the steady clock.
BOOST_AUTO_TEST_CASE(deadlines_are_instants_of_the_steady_clock) {
    asio::io_context ctx;
    seats a{ctx, {.seats = 1}};
    auto const seat = a.try_enter();
    any_chain door{a};
    auto const start = clock::now();
    std::vector<duration> ended;
    auto callback = [&](error_code ec, any_chain_permit const&) {
        BOOST_TEST(ec == errc::timed_out);
        ended.push_back(clock::now() - start);
    };
    auto const now = std::chrono::steady_clock::now();
    door.async_enter_until(now + 24h, callback);
    door.async_enter_until(now - 1h, callback);
    run_for(ctx, 0s);
    BOOST_TEST_REQUIRE(ended.size() == 1U);
    run_for(ctx, 25h);
    BOOST_TEST_REQUIRE(ended.size() == 2U);
    BOOST_TEST((ended[1] > 23h && ended[1] < 24h + 1s));  // the steady clock runs during this test
}

BOOST_AUTO_TEST_CASE(rejects_invalid_options) {
    BOOST_CHECK_THROW(any_chain(weir::chain_options{.passes = 0}), std::invalid_argument);
}

BOOST_AUTO_TEST_SUITE_END()
