#include <weir/keyed.hpp>
#include <weir/leaky_bucket.hpp>
#include <weir/reservation.hpp>
#include <weir/seats.hpp>
#include <weir/smooth_bursty.hpp>
#include <weir/smooth_warming_up.hpp>
#include <weir/testing.hpp>
#include <weir/token_bucket.hpp>

#include "support/printing.hpp"
#include "support/random.hpp"
#include "support/says.hpp"
#include "support/virtual_limiters.hpp"

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_future.hpp>
#include <boost/test/unit_test.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

// Reservations: positions in a queue with a known grant time.

using namespace support;
using weir::errc;
using weir::error_code;
using weir::permit;

namespace {

using per_client = weir::testing::keyed<std::string, weir::leaky_bucket>;

template <class Policy>
constexpr bool is_scheduled = weir::scheduled_policy<Policy>;
static_assert(is_scheduled<weir::policy::leaky_bucket> && is_scheduled<weir::policy::token_bucket>);
static_assert(is_scheduled<weir::policy::smooth_bursty> &&
              is_scheduled<weir::policy::smooth_warming_up>);
static_assert(!is_scheduled<weir::policy::seats>);

// One per second; the first is taken now.
struct one_a_second {
    explicit one_a_second(weir::queue_options const& queueing = {})
        : pace(ctx, {.rate = {1, 1s}}, queueing), taken(pace.try_enter()), start(clock::now()) {}

    // Its grant time, relative to the start.
    std::optional<weir::duration> enter() {
        std::optional<weir::duration> at;
        bool over = false;
        pace.async_enter([&](error_code ec, permit const&) {
            over = true;
            if (!ec)
                at = clock::now() - start;
        });
        run_for(ctx, 1h);
        BOOST_TEST(over);
        return at;
    }

    asio::io_context ctx;
    leaky_bucket pace;
    permit taken;
    clock::time_point start;
};

struct noted {
    error_code error;
    std::optional<clock::time_point> at;

    auto note() {
        return [this](error_code ec, permit const&) {
            error = ec;
            at = clock::now();
        };
    }
};

}  // namespace

BOOST_AUTO_TEST_SUITE(reservation)

BOOST_AUTO_TEST_CASE(returns_its_grant_time_and_is_granted_then) {
    one_a_second w;
    auto first = w.pace.reserve();
    auto second = w.pace.reserve();
    BOOST_TEST((first.at() == w.start + 1s));
    BOOST_TEST((second.at() == w.start + 2s));
    BOOST_TEST(w.pace.stats().waiting == 2U);

    error_code ec;
    run_for(w.ctx, 1s - 1ns);
    BOOST_TEST(!bool(first.try_enter(ec)));
    BOOST_TEST((ec == errc::no_permit));
    run_for(w.ctx, 1ns);
    BOOST_TEST(!bool(second.try_enter()));
    auto const turn = first.try_enter(ec);
    BOOST_TEST((turn && !ec && !first));
    BOOST_TEST(turn.waited() == 1s);
    BOOST_TEST(w.enter().value() == 3s);
    BOOST_TEST(bool(second.try_enter()));
}

BOOST_AUTO_TEST_CASE(needs_no_running_context_if_it_is_awaited_in_time) {
    one_a_second w;
    auto place = w.pace.reserve();
    clock::advance_to(*place.at());
    BOOST_TEST(bool(place.try_enter()));
    settle(w.ctx);
}

BOOST_AUTO_TEST_CASE(is_granted_at_once_if_permits_are_free) {
    asio::io_context ctx;
    token_bucket calls(ctx, {.rate = {10, 1s}, .burst = 5});
    auto const start = clock::now();
    auto now = calls.reserve(5);
    BOOST_TEST((now.at() == start));
    // 3 permits are free again after 300 ms; four more 400 ms later.
    auto soon = calls.reserve(3);
    auto later = calls.reserve(4);
    BOOST_TEST((soon.at() == start + 300ms));
    BOOST_TEST((later.at() == start + 700ms));
    BOOST_TEST(now.try_enter().count() == 5);
    run_for(ctx, 700ms);
    BOOST_TEST(soon.try_enter().count() == 3);
    BOOST_TEST(later.try_enter().count() == 4);
    BOOST_TEST((ctx.poll() == 0 && calls.stats().in_use == 0));
}

BOOST_AUTO_TEST_CASE(waits_for_permits_granted_ahead_of_their_time) {
    asio::io_context ctx;
    smooth_bursty calls(ctx, {.rate = {1, 1s}, .max_burst = 1s});
    auto const start = clock::now();
    auto const many = calls.try_enter(10);  // is granted; the next request waits for it
    auto one = calls.reserve();
    auto other = calls.reserve();
    BOOST_TEST((one.at() == start + 10s));
    BOOST_TEST((other.at() == start + 11s));
}

BOOST_AUTO_TEST_CASE(moves_forward_when_one_before_it_is_released) {
    one_a_second w;
    auto first = w.pace.reserve();
    auto second = w.pace.reserve();
    auto third = w.pace.reserve();
    noted waiter;
    w.pace.async_enter(waiter.note());
    run_for(w.ctx, 500ms);
    first.give_back();
    BOOST_TEST(!first);
    first.give_back();
    BOOST_TEST(w.pace.stats().waiting == 3U);
    run_for(w.ctx, 500ms);
    BOOST_TEST(bool(second.try_enter()));
    { auto const gone = std::move(third); }
    run_for(w.ctx, 1s);
    BOOST_TEST((waiter.at == w.start + 2s));
    BOOST_TEST(w.pace.stats().cancelled == 2U);
    BOOST_TEST(w.enter().value() == 3s);
}

BOOST_AUTO_TEST_CASE(leaves_no_trace_when_all_are_released_in_any_order) {
    for_each_seed(1, 200, [](random_source& random) {
        one_a_second w;
        std::vector<leaky_bucket::reservation> places;
        for (int i = 0; i != 20; ++i)
            places.push_back(w.pace.reserve());
        while (!places.empty())
            places.erase(places.begin() + static_cast<std::ptrdiff_t>(random.index_in(places)));
        BOOST_TEST((w.pace.stats().waiting == 0U && w.pace.stats().in_use == 1));
        BOOST_TEST(w.enter().value() == 1s);
    });
}

BOOST_AUTO_TEST_CASE(is_refunded_when_released_after_its_grant_time) {
    asio::io_context ctx;
    token_bucket calls(ctx, {.rate = {1, 1s}, .burst = 2});
    auto const start = clock::now();
    auto const all = calls.try_enter(2);
    auto place = calls.reserve(2);
    run_for(ctx, 2s);
    noted waiter;
    calls.async_enter(2, waiter.note());
    run_for(ctx, 500ms);
    BOOST_TEST(!waiter.at);
    place.give_back();
    settle(ctx);
    BOOST_TEST((waiter.at == start + 2500ms));
}

BOOST_AUTO_TEST_CASE(is_rejected_beyond_its_bounds) {
    one_a_second w({.max_waiting = 2});
    error_code ec;
    auto const late = w.pace.reserve(1, 1s - 1ns, ec);
    BOOST_TEST((!late && ec == errc::deadline_unreachable));
    BOOST_TEST((late.retry_after() == 1s));
    BOOST_TEST(!late.at());
    auto const big = w.pace.reserve(2, {}, ec);
    BOOST_TEST((!big && ec == errc::exceeds_capacity));
    auto const just = w.pace.reserve(1, 1s, ec);
    BOOST_TEST((just && !ec && !just.retry_after()));
    auto const last = w.pace.reserve();
    auto const full = w.pace.reserve(1, {}, ec);
    BOOST_TEST((!full && ec == errc::queue_full));
    BOOST_CHECK_EXCEPTION(
        (void)w.pace.reserve(1, 500ms), weir::rejection, [](weir::rejection const& r) {
            return r.code() == errc::deadline_unreachable && r.retry_after() == 3s;
        });
    w.pace.shutdown();
    auto const shut = w.pace.reserve(1, {}, ec);
    BOOST_TEST((!shut && ec == errc::closed));
}

BOOST_AUTO_TEST_CASE(is_checked_again_when_the_rate_changes) {
    one_a_second w;
    auto patient = w.pace.reserve();
    auto hasty = w.pace.reserve(1, 3s);
    w.pace.configure({.rate = {1, 2s}});  // the granted permits still leak out, at half the rate
    settle(w.ctx);
    error_code ec;
    BOOST_TEST(!bool(hasty.try_enter(ec)));
    BOOST_TEST((ec == errc::deadline_unreachable && !hasty));
    run_for(w.ctx, 2s);
    BOOST_TEST(bool(patient.try_enter()));
}

BOOST_AUTO_TEST_CASE(completes_with_closed_when_the_limiter_is_closed_or_destroyed) {
    one_a_second w;
    error_code ec;
    auto closed = w.pace.reserve();
    w.pace.close();
    BOOST_TEST(!bool(closed.try_enter(ec)));
    BOOST_TEST((ec == errc::closed));

    auto cancelled = [&] {
        leaky_bucket gone(w.ctx, {.rate = {1, 1s}});
        auto const taken = gone.try_enter();
        auto place = gone.reserve();
        gone.cancel();
        settle(w.ctx);
        BOOST_TEST(!bool(place.try_enter(ec)));
        BOOST_TEST((ec == asio::error::operation_aborted));
        return gone.reserve();
    }();
    noted waiter;
    cancelled.async_enter(waiter.note());
    settle(w.ctx);
    BOOST_TEST((waiter.error == errc::closed));
}

BOOST_AUTO_TEST_CASE(outlives_limiter_and_context) {
    leaky_bucket::reservation waiting;
    leaky_bucket::reservation granted;
    {
        asio::io_context ctx;
        leaky_bucket pace(ctx, {.rate = {1, 1s}});
        granted = pace.reserve();
        waiting = pace.reserve();
    }
    error_code ec;
    BOOST_TEST(!bool(waiting.try_enter(ec)));
    BOOST_TEST((ec == errc::closed));
    BOOST_TEST(bool(granted.try_enter()));
}

BOOST_AUTO_TEST_CASE(is_dropped_with_its_context) {
    auto ctx = std::make_unique<asio::io_context>();
    leaky_bucket pace(*ctx, {.rate = {1, 1s}});
    auto granted = pace.reserve();
    auto waiting = pace.reserve();
    auto given_back = pace.reserve();
    ctx.reset();
    error_code ec;
    BOOST_TEST(!bool(waiting.try_enter(ec)));
    BOOST_TEST((ec == errc::closed));
    given_back.give_back();
    granted.give_back();
    BOOST_TEST(pace.stats().in_use == 0);
}

BOOST_AUTO_TEST_CASE(keeps_its_position_when_it_is_awaited) {
    one_a_second w;
    auto first = w.pace.reserve();
    auto second = w.pace.reserve(1, 2s);
    noted third;
    w.pace.async_enter(third.note());
    noted waiter;
    second.async_enter(waiter.note());
    BOOST_TEST(!second);
    BOOST_TEST(w.pace.stats().waiting == 3U);
    run_for(w.ctx, 2s);
    BOOST_TEST((waiter.at == w.start + 2s && !waiter.error));  // it keeps its patience
    run_for(w.ctx, 1s);
    BOOST_TEST((third.at == w.start + 3s));

    // A reservation past its grant time is granted as soon as it is awaited.
    noted late;
    first.async_enter(late.note());
    BOOST_TEST(!late.at);
    settle(w.ctx);
    BOOST_TEST((late.at == w.start + 3s && !late.error));
}

BOOST_AUTO_TEST_CASE(can_be_moved) {
    one_a_second w;
    auto first = w.pace.reserve();
    auto second = w.pace.reserve();
    auto moved = std::move(first);
    BOOST_TEST((!first && !first.at() && moved.at() == w.start + 1s));
    first.give_back();
    second = std::move(moved);  // releases the former reservation of `second`
    BOOST_TEST((second.at() == w.start + 1s && w.pace.stats().waiting == 1U));
    BOOST_TEST(w.enter().value() == 2s);
}

BOOST_AUTO_TEST_CASE(that_is_empty_is_rejected) {
    one_a_second x;
    auto const check_is_rejected = [](leaky_bucket::reservation& reserved) {
        error_code ec;
        BOOST_TEST(!reserved.try_enter(ec));
        BOOST_TEST(ec == errc::closed);
        BOOST_TEST(!reserved.try_enter());
        auto const is_said = says("weir: this reservation is empty");
        BOOST_CHECK_EXCEPTION((void)reserved.enter(), std::logic_error, is_said);
        BOOST_CHECK_EXCEPTION(reserved.async_enter([](error_code, permit const&) {}),
                              std::logic_error, is_said);
    };
    leaky_bucket::reservation nothing;
    check_is_rejected(nothing);

    auto moved = x.pace.reserve();
    auto const target = std::move(moved);
    check_is_rejected(moved);
    BOOST_TEST(static_cast<bool>(target));

    error_code ec;
    auto rejected = x.pace.reserve(1, 0s, ec);
    BOOST_TEST(ec == errc::deadline_unreachable);
    check_is_rejected(rejected);
}

BOOST_AUTO_TEST_CASE(is_released_by_a_cancellation_of_its_wait) {
    one_a_second w;
    auto place = w.pace.reserve();
    asio::cancellation_signal signal;
    noted waiter;
    place.async_enter(asio::bind_cancellation_slot(signal.slot(), waiter.note()));
    settle(w.ctx);
    signal.emit(asio::cancellation_type::terminal);
    settle(w.ctx);
    BOOST_TEST((waiter.error == asio::error::operation_aborted));
    BOOST_TEST(w.enter().value() == 1s);
}

BOOST_AUTO_TEST_CASE(loses_its_position_when_a_debt_delays_it_beyond_its_patience) {
    one_a_second w;
    auto const first = w.pace.reserve();
    auto place = w.pace.reserve(1, 2s);
    noted waiter;
    place.async_enter(waiter.note());
    auto debt = w.pace.charge(1);
    settle(w.ctx);
    BOOST_TEST((waiter.error == errc::deadline_unreachable));
}

BOOST_AUTO_TEST_CASE(can_be_awaited) {
    one_a_second w;
    asio::thread_pool elsewhere(1);
    std::vector<weir::duration> granted;
    std::vector<error_code> rejected;
    auto guest = [&](leaky_bucket::reservation place) -> asio::awaitable<void> {
        try {
            auto const turn = co_await place.enter();
            granted.push_back(clock::now() - w.start);
        } catch (weir::rejection const& r) {
            rejected.push_back(r.code());
        }
    };
    co_spawn(w.ctx, guest(w.pace.reserve()), asio::detached);
    co_spawn(w.ctx, guest(w.pace.reserve()), asio::detached);
    run_for(w.ctx, 1s);
    BOOST_TEST(granted.size() == 1U);
    w.pace.close();
    settle(w.ctx);
    BOOST_TEST(rejected.size() == 1U);
    BOOST_TEST((rejected.at(0) == errc::closed));

    // An operation that never starts releases its reservation.
    leaky_bucket other(w.ctx, {.rate = {1, 1s}});
    auto place = other.reserve();
    { auto const unused = place.enter(); }
    BOOST_TEST(bool(other.try_enter()));
}

BOOST_AUTO_TEST_CASE(has_a_position_in_every_order) {
    using enum weir::queue_order;
    for (auto const order : {fifo, lifo, adaptive_lifo, codel, priority, fair}) {
        one_a_second w({.order = order, .target = 1h});
        auto const key = [order](std::uint64_t k) {
            return order == priority ? weir::request(1, {.priority = static_cast<int>(k)})
                                     : weir::request(1, {.flow = k});
        };
        auto first = w.pace.reserve(key(1));
        auto second = w.pace.reserve(key(2));
        auto third = w.pace.reserve(key(2));
        bool const foresees = order == fifo || order == codel;
        BOOST_TEST(static_cast<bool>(first.at()) == foresees, "order " << static_cast<int>(order));
        noted waiter;
        second.async_enter(waiter.note());
        third.give_back();
        BOOST_TEST(w.pace.stats().waiting == 2U);
        run_for(w.ctx, 2s);
        auto const turn = first.try_enter();
        BOOST_TEST((turn && waiter.at));
        auto const at = order == lifo || order == adaptive_lifo ? 1s : 2s;
        BOOST_TEST((waiter.at == w.start + at), "order " << static_cast<int>(order));
    }
}

BOOST_AUTO_TEST_CASE(can_be_for_one_key) {
    asio::io_context ctx;
    per_client clients(ctx, {.rate = {1, 1s}});
    auto const start = clock::now();
    auto const taken = clients.try_enter("a");
    auto first = clients.reserve("a");
    auto second = clients.reserve("a");
    auto other = clients.reserve("b");
    BOOST_TEST((first.at() == start + 1s && second.at() == start + 2s && other.at() == start));
    noted waiter;
    second.async_enter(waiter.note());
    first.give_back();
    run_for(ctx, 1s);
    BOOST_TEST((waiter.at == start + 1s));
    BOOST_TEST(bool(other.try_enter()));
    error_code ec;
    auto const late = clients.reserve("a", 1, 500ms, ec);
    BOOST_TEST((!late && ec == errc::deadline_unreachable));
    BOOST_CHECK_THROW((void)clients.reserve("a", 2), weir::rejection);
}

// The delays that `ReserveN` of Go's golang.org/x/time/rate states for a limiter of 10/s with a burst of 5, by its rules:
// the tokens grow by 10/s up to 5; a reservation takes its tokens at once, and waits until they are not negative.
BOOST_AUTO_TEST_CASE(has_the_delays_of_the_limiter_of_go) {
    struct row {
        weir::duration at;     // since the start
        weir::amount n;        // tokens before: 5, then as in the comments
        weir::duration delay;  // negative tokens / 10 per second
    };
    std::vector<row> const rows{
        {0ms, 5, 0ms},       // 5 - 5 = 0
        {0ms, 3, 300ms},     // 0 - 3 = -3
        {0ms, 4, 700ms},     // -3 - 4 = -7
        {100ms, 1, 700ms},   // -7 + 1 - 1 = -7
        {1000ms, 2, 0ms},    // -7 + 9 - 2 = 0
        {1050ms, 1, 50ms},   // 0 + 0.5 - 1 = -0.5
        {1050ms, 5, 550ms},  // -0.5 - 5 = -5.5
        {9000ms, 5, 0ms},    // -5.5 + 79.5, at most 5, - 5 = 0
    };
    asio::io_context ctx;
    token_bucket calls(ctx, {.rate = {10, 1s}, .burst = 5});
    auto const start = clock::now();
    std::vector<token_bucket::reservation> places;
    for (auto const& [at, n, delay] : rows) {
        run_for(ctx, start + at - clock::now());
        places.push_back(calls.reserve(n));
        BOOST_TEST((places.back().at() == clock::now() + delay), "at " << at.count());
    }
    // Go: `ReserveN` of more than the burst is not OK, and `Cancel` of the last reservation gives all tokens back.
    error_code ec;
    auto const more = calls.reserve(6, {}, ec);
    BOOST_TEST((ec == errc::exceeds_capacity));
    auto last = calls.reserve(2);
    BOOST_TEST((last.at() == clock::now() + 200ms));
    last.give_back();
    auto const again = calls.reserve(2);
    BOOST_TEST((again.at() == clock::now() + 200ms));
}

// For each policy with a schedule: reservations are granted exactly at the grant times that they returned.
template <class Limiter, class Options>
void keeps_its_schedule(Options const& options, int most) {
    for_each_seed(1, 100, [&](random_source& random) {
        asio::io_context ctx;
        Limiter limiter(ctx, options, {.tolerance = 0ns});
        std::vector<clock::time_point> told;
        std::vector<clock::time_point> granted;
        run_for(ctx, weir::duration(random.between(0, 1'000'000'000)));
        for (int i = 0; i != 30; ++i) {
            auto place = limiter.reserve(random.between(1, most));
            told.push_back(place.at().value());
            place.async_enter([&](error_code, permit const&) { granted.push_back(clock::now()); });
            if (random.one_in(3))
                run_for(ctx, weir::duration(random.between(0, 500'000'000)));
        }
        run_for(ctx, 1h);
        BOOST_TEST((told == granted));
    });
}

BOOST_AUTO_TEST_CASE(returns_the_exact_grant_time) {
    keeps_its_schedule<leaky_bucket>(weir::leaky_bucket_options{.rate = {7, 1s}}, 1);
    keeps_its_schedule<leaky_bucket>(weir::leaky_bucket_options{.rate = {7, 1s}, .capacity = 5}, 5);
    keeps_its_schedule<token_bucket>(weir::token_bucket_options{.rate = {7, 1s}, .burst = 5}, 5);
    keeps_its_schedule<token_bucket>(
        weir::token_bucket_options{
            .rate = {2, 300ms}, .burst = 5, .refill = weir::refill::interval},
        4);
    keeps_its_schedule<smooth_bursty>(weir::smooth_bursty_options{.rate = {7, 1s}}, 5);
    keeps_its_schedule<smooth_warming_up>(
        weir::smooth_warming_up_options{.rate = {7, 1s}, .warm_up = 2s}, 5);
}

BOOST_AUTO_TEST_SUITE_END()
