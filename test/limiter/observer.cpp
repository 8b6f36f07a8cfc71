#include <weir/chain.hpp>
#include <weir/keyed.hpp>
#include <weir/leaky_bucket.hpp>
#include <weir/observer.hpp>
#include <weir/pool.hpp>
#include <weir/shared/limiter.hpp>
#include <weir/shared/memory_store.hpp>
#include <weir/token_bucket.hpp>

#include "support/faulty_executor.hpp"
#include "support/printing.hpp"
#include "support/random.hpp"
#include "support/virtual_limiters.hpp"
#include "support/visit.hpp"

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/bind_immediate_executor.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

// The observer of a limiter: the events that it receives, when, on which thread, and how long it lives.

using namespace support;
using weir::errc;
using weir::error_code;
using weir::permit;
using weir::request;
using weir::request_event;

namespace {

using clients =
    weir::basic_keyed<int, weir::policy::seats, asio::any_io_executor, weir::testing::timer>;
using events = std::vector<request_event>;

// An observer that keeps the events in `to`.
auto keeps(events& to) {
    return [&to](request_event const& e) { to.push_back(e); };
}

// The events as counters, to be compared with the counters of the limiter.
class tally {
public:
    void add(request_event const& e) {
        ++ends_[e.error];
        if (e.error && e.waited) {
            rejected_waited_ += *e.waited;
        } else if (!e.error) {
            waited_ += e.waited.value();
            granted_ += e.granted;
        }
    }

    void check(weir::limiter_stats const& s) {
        BOOST_TEST(ends_[{}] == s.granted - s.granted_immediately);
        BOOST_TEST(ends_[errc::no_permit] == s.no_permit);
        BOOST_TEST(ends_[errc::timed_out] == s.timed_out);
        BOOST_TEST(ends_[errc::deadline_unreachable] == s.deadline_unreachable);
        BOOST_TEST(ends_[errc::queue_full] == s.queue_full);
        BOOST_TEST(ends_[errc::shed] == s.shed);
        BOOST_TEST(ends_[errc::exceeds_capacity] == s.exceeds_capacity);
        BOOST_TEST(ends_[errc::closed] == s.closed);
        BOOST_TEST(ends_[errc::too_many_keys] == s.too_many_keys);
        BOOST_TEST(ends_[asio::error::operation_aborted] == s.cancelled);
        BOOST_TEST((waited_ == s.waited_total));
        BOOST_TEST((rejected_waited_ == s.rejected_waited_total));
        BOOST_TEST(granted_ <= s.permits_granted);
    }

private:
    struct by_value {
        bool operator()(error_code a, error_code b) const { return a.value() < b.value(); }
    };
    std::map<error_code, std::uint64_t, by_value> ends_;
    weir::duration waited_{};
    weir::duration rejected_waited_{};
    weir::amount granted_ = 0;
};

// Random calls of a limiter, of a keyed limiter, and of chains of both. Returns after all requests have ended.
class random_calls {
public:
    explicit random_calls(random_source& random) : random_(random) {
        kitchen_.observe([this](request_event const& e) { of_kitchen_.add(e); });
        clients_.observe([this](request_event const& e) { of_clients_.add(e); });
    }

    void run() {
        for (int i = 0; i != 150; ++i) {
            act();
            run_for(ctx_, random_.one_in(3) ? random_.between(0, 900) * 1ms : 0ms);
        }
        held_.clear();
        chained_.clear();
        run_for(ctx_, 1min);
        of_kitchen_.check(kitchen_.stats());
        of_clients_.check(clients_.stats().total);
    }

private:
    void act() {
        auto const key = static_cast<int>(random_.between(0, 3));
        auto const n = random_.between(0, 4);
        auto const wait = random_.between(0, 3'000) * 1ms;
        auto const keeps = [this](error_code, permit p) { keep(held_, std::move(p)); };
        switch (random_.between(0, 9)) {
            case 0:
                return keep(held_, kitchen_.try_enter(n));
            case 1:
                return keep(held_, clients_.try_enter(key, n));
            case 2:
                return cancellable([&](auto slot) {
                    kitchen_.async_enter(n, wait, asio::bind_cancellation_slot(slot, keeps));
                });
            case 3:
                return cancellable([&](auto slot) {
                    clients_.async_enter(key, n, wait, asio::bind_cancellation_slot(slot, keeps));
                });
            case 4:
                return keep(chained_, chain_of(key, n).try_enter());
            case 5:
                return cancellable([&](auto slot) {
                    chain_of(key, n).async_enter(
                        wait, asio::bind_cancellation_slot(slot, [this](error_code, auto p) {
                            keep(chained_, std::move(p));
                        }));
                });
            case 6:
                if (!signals_.empty())
                    signals_[random_.index_in(signals_)]->emit(asio::cancellation_type::all);
                return;
            case 7:
                if (random_.one_in(30))
                    return random_.one_in(2) ? kitchen_.close() : clients_.close();
                if (random_.one_in(5))
                    return random_.one_in(2) ? kitchen_.cancel() : clients_.cancel();
                return kitchen_.configure([&](auto& o) { o.seats = random_.between(1, 4); });
            default:
                if (!held_.empty())
                    held_.erase(
                        held_.begin() + static_cast<std::ptrdiff_t>(random_.index_in(held_)));
                else if (!chained_.empty())
                    chained_.pop_back();
        }
    }
    weir::any_chain chain_of(int key, weir::amount n) {
        return weir::any_chain{kitchen_.with(n), clients_.with(key, n)};
    }
    template <class Start>
    void cancellable(Start start) {
        signals_.push_back(std::make_unique<asio::cancellation_signal>());
        start(signals_.back()->slot());
    }
    template <class Permits, class Permit>
    static void keep(Permits& all, Permit p) {
        if (p)
            all.push_back(std::move(p));
    }

    random_source& random_;
    tally of_kitchen_;
    tally of_clients_;
    asio::io_context ctx_;
    weir::queue_options queue_{
        .max_waiting = 6,
        .full = random_.one_in(2) ? weir::when_full::reject_newest : weir::when_full::evict_oldest,
        .order = random_.one_of(
            {weir::queue_order::fifo, weir::queue_order::lifo, weir::queue_order::codel})};
    seats kitchen_{ctx_, {.seats = 3}, queue_};
    clients clients_{ctx_, {.seats = 2}, {.max_keys = 3}, queue_};
    std::vector<std::unique_ptr<asio::cancellation_signal>> signals_;
    std::vector<permit> held_;
    std::vector<weir::any_chain_permit> chained_;
};

}  // namespace

BOOST_AUTO_TEST_SUITE(limiter_observer)

BOOST_AUTO_TEST_CASE(is_told_of_each_rejection_without_a_wait) {
    events told;
    asio::io_context ctx;
    token_bucket calls{ctx, {.rate = {1, 1s}, .burst = 2}, {.name = "calls", .max_waiting = 0}};
    calls.observe(keeps(told));
    permit const all = calls.try_enter(2);
    BOOST_TEST(told.empty());

    static_cast<void>(calls.try_enter({2, {.priority = 1, .flow = 7}}));
    BOOST_TEST_REQUIRE(told.size() == 1U);
    BOOST_TEST(told[0].error == errc::no_permit);
    BOOST_TEST(told[0].asked.count() == 2);
    BOOST_TEST(told[0].asked.priority() == 1);
    BOOST_TEST(told[0].asked.flow() == 7U);
    BOOST_TEST(told[0].granted == 0);
    BOOST_TEST(!told[0].waited);
    BOOST_TEST((told[0].retry_after.value() == 2s));
    BOOST_TEST(told[0].limiter.view() == "calls");

    static_cast<void>(calls.try_enter(3));
    visit const hopeless{calls, 100ms};
    visit const one_too_many{calls};
    visit const range{calls, request::between(1, 2), 100ms};
    asio::cancellation_signal signal;
    calls.close();
    visit const late{calls};
    settle(ctx);
    BOOST_TEST_REQUIRE(told.size() == 6U);
    BOOST_TEST(told[1].error == errc::exceeds_capacity);
    BOOST_TEST(!told[1].retry_after);
    BOOST_TEST(told[2].error == errc::deadline_unreachable);
    BOOST_TEST((told[2].retry_after.value() == 1s));
    BOOST_TEST(told[3].error == errc::queue_full);
    BOOST_TEST(told[4].asked.count() == 1);
    BOOST_TEST(told[4].asked.max() == 2);
    BOOST_TEST(told[5].error == errc::closed);
    for (auto const& e : told)
        BOOST_TEST(!e.waited);
}

BOOST_AUTO_TEST_CASE(is_told_of_each_wait) {
    events told;
    asio::io_context ctx;
    seats kitchen{ctx, {.seats = 1}, {.name = "kitchen"}};
    kitchen.observe(keeps(told));
    auto seat = kitchen.try_enter();
    visit const patient{kitchen, request{1, {.priority = 3, .flow = 9}}};
    visit const impatient{kitchen, 2s};
    asio::cancellation_signal signal;
    visit cancelled;
    kitchen.async_enter(asio::bind_cancellation_slot(signal.slot(), cancelled.callback()));
    run_for(ctx, 1s);
    BOOST_TEST(told.empty());
    signal.emit(asio::cancellation_type::all);
    run_for(ctx, 2s);
    seat.leave();
    settle(ctx);
    visit const closed{kitchen};
    run_for(ctx, 4s);
    kitchen.close();

    BOOST_TEST_REQUIRE(told.size() == 4U);
    BOOST_TEST(told[0].error == asio::error::operation_aborted);
    BOOST_TEST((told[0].waited.value() == 1s));
    BOOST_TEST(told[1].error == errc::timed_out);
    BOOST_TEST((told[1].waited.value() >= 2s));
    BOOST_TEST(!told[2].error);
    BOOST_TEST((told[2].waited.value() == 3s));
    BOOST_TEST(told[2].granted == 1);
    BOOST_TEST(told[2].asked.priority() == 3);
    BOOST_TEST(told[2].asked.flow() == 9U);
    BOOST_TEST(told[2].limiter.view() == "kitchen");
    BOOST_TEST(told[3].error == errc::closed);
    BOOST_TEST((told[3].waited.value() == 4s));
    settle(ctx);
    BOOST_TEST(told.size() == 4U);
}

BOOST_AUTO_TEST_CASE(a_range_is_told_with_its_maximum_and_the_permits_it_got) {
    events told;
    asio::io_context ctx;
    token_bucket bytes{ctx, {.rate = {1, 1s}, .burst = 10, .initial = 0}};
    bytes.observe(keeps(told));
    visit const some{bytes, request::between(3, 8)};
    run_for(ctx, 3s);
    BOOST_TEST(some.granted());
    BOOST_TEST_REQUIRE(told.size() == 1U);
    BOOST_TEST(told[0].asked.count() == 3);
    BOOST_TEST(told[0].asked.max() == 8);
    BOOST_TEST(told[0].granted == 3);
}

BOOST_AUTO_TEST_CASE(other_operations_and_immediate_grants_have_no_event) {
    events told;
    asio::io_context ctx;
    seats kitchen{ctx, {.seats = 1, .max_hold = 1s}};
    kitchen.observe(keeps(told));
    auto seat = kitchen.try_enter();
    int ended = 0;
    kitchen.async_drain([&](error_code) { ++ended; });
    kitchen.async_wait_overdue([&](error_code, weir::overdue) { ++ended; });
    run_for(ctx, 2s);
    seat.leave();
    settle(ctx);
    visit const granted{kitchen};
    settle(ctx);
    BOOST_TEST(granted.granted());
    BOOST_TEST(ended == 2);
    BOOST_TEST(told.empty());
}

BOOST_AUTO_TEST_CASE(is_told_before_the_handler_is_posted_and_before_a_call_returns) {
    std::vector<int> order;
    asio::io_context ctx;
    seats kitchen{ctx, {.seats = 1}};
    kitchen.observe([&](request_event const&) { order.push_back(1); });
    auto seat = kitchen.try_enter();
    kitchen.async_enter([&](error_code, permit const&) { order.push_back(2); });
    settle(ctx);
    seat.leave();
    BOOST_TEST(order == std::vector{1});
    settle(ctx);
    BOOST_TEST(order == (std::vector{1, 2}));
    seat = kitchen.try_enter();
    static_cast<void>(kitchen.try_enter());
    order.push_back(3);
    BOOST_TEST(order == (std::vector{1, 2, 1, 3}));
    auto const handler = [&](error_code, permit const&) { order.push_back(4); };
    kitchen.async_enter(0s, asio::bind_immediate_executor(asio::system_executor(), handler));
    BOOST_TEST(order == (std::vector{1, 2, 1, 3, 1, 4}));
}

BOOST_AUTO_TEST_CASE(a_coroutine_is_told_of_before_it_goes_on) {
    events told;
    asio::io_context ctx;
    seats kitchen{ctx, {.seats = 1}};
    kitchen.observe(keeps(told));
    auto seat = kitchen.try_enter();
    bool done = false;
    auto const guest = [&]() -> asio::awaitable<void> {
        BOOST_CHECK_THROW(static_cast<void>(co_await kitchen.enter(0s)), weir::rejection);
        BOOST_TEST(told.size() == 1U);
        BOOST_CHECK_THROW(static_cast<void>(co_await kitchen.enter(2)), weir::rejection);
        BOOST_TEST(told.size() == 2U);
        auto const granted = co_await kitchen.enter();
        BOOST_TEST(told.size() == 3U);
        done = true;
    };
    asio::co_spawn(ctx, guest, rethrow);
    run_for(ctx, 1s);
    seat.leave();
    settle(ctx);
    BOOST_TEST(done);
    BOOST_TEST(told.at(0).error == errc::timed_out);
    BOOST_TEST(told.at(1).error == errc::exceeds_capacity);
    BOOST_TEST((told.at(2).waited.value() == 1s));
}

BOOST_AUTO_TEST_CASE(is_told_of_shed_requests_and_of_those_that_a_change_rejects) {
    events told;
    asio::io_context ctx;
    seats kitchen{ctx, {.seats = 2}, {.max_waiting = 1, .full = weir::when_full::evict_oldest}};
    kitchen.observe(keeps(told));
    auto const seat = kitchen.try_enter(2);
    visit const shed{kitchen};
    run_for(ctx, 1s);
    visit const too_large{kitchen, 2};
    kitchen.configure({.seats = 1});
    settle(ctx);
    BOOST_TEST(shed.rejected(errc::shed));
    BOOST_TEST(too_large.rejected(errc::exceeds_capacity));
    BOOST_TEST_REQUIRE(told.size() == 2U);
    BOOST_TEST(told[0].error == errc::shed);
    BOOST_TEST((told[0].waited.value() == 1s));
    BOOST_TEST(told[1].error == errc::exceeds_capacity);
    BOOST_TEST(told[1].granted == 0);
    BOOST_TEST(!told[1].retry_after);
}

BOOST_AUTO_TEST_CASE(the_destruction_of_the_limiter_is_told_and_ends_the_observer) {
    asio::io_context ctx;
    auto const kept = std::make_shared<events>();
    permit seat;
    {
        seats kitchen{ctx, {.seats = 1}};
        kitchen.observe([kept](request_event const& e) { kept->push_back(e); });
        seat = kitchen.try_enter();
        for (int i = 0; i != 40; ++i)  // more than one section ends
            kitchen.async_enter([](error_code, permit const&) {});
    }
    settle(ctx);
    BOOST_TEST(kept->size() == 40U);
    BOOST_TEST(kept->back().error == errc::closed);
    BOOST_TEST(kept.use_count() == 1);  // the permit does not keep it
}

BOOST_AUTO_TEST_CASE(the_end_of_the_context_ends_the_observer_and_is_not_told) {
    auto const kept = std::make_shared<events>();
    auto ctx = std::make_unique<asio::io_context>();
    seats kitchen{*ctx, {.seats = 1}};
    kitchen.observe([kept](request_event const& e) { kept->push_back(e); });
    auto const seat = kitchen.try_enter();
    visit const dropped{kitchen};
    settle(*ctx);
    ctx.reset();
    BOOST_TEST(dropped.dropped());
    BOOST_TEST(kept->empty());
    BOOST_TEST(kept.use_count() == 1);
    static_cast<void>(kitchen.try_enter());
    BOOST_TEST(kept->empty());
}

BOOST_AUTO_TEST_CASE(another_observer_replaces_the_first_and_an_empty_one_ends_it) {
    asio::io_context ctx;
    seats kitchen{ctx, {.seats = 1}};
    auto const first = std::make_shared<int>();
    auto const second = std::make_shared<int>();
    auto const seat = kitchen.try_enter();
    kitchen.observe([first](request_event const&) { ++*first; });
    static_cast<void>(kitchen.try_enter());
    kitchen.observe([second](request_event const&) { ++*second; });
    BOOST_TEST(first.use_count() == 1);
    static_cast<void>(kitchen.try_enter());
    kitchen.observe({});
    BOOST_TEST(second.use_count() == 1);
    static_cast<void>(kitchen.try_enter());
    BOOST_TEST(*first == 1);
    BOOST_TEST(*second == 1);
}

BOOST_AUTO_TEST_CASE(its_exceptions_change_nothing) {
    int calls = 0;
    asio::io_context ctx;
    seats kitchen{ctx, {.seats = 1}};
    kitchen.observe([&](request_event const&) {
        ++calls;
        throw std::runtime_error("the disk is full");
    });
    auto seat = kitchen.try_enter();
    error_code ec;
    static_cast<void>(kitchen.try_enter(1, ec));
    BOOST_TEST(ec == errc::no_permit);
    visit const next{kitchen};
    visit const last{kitchen, 1s};
    run_for(ctx, 2s);
    seat.leave();
    settle(ctx);
    BOOST_TEST(next.granted());
    BOOST_TEST(last.rejected(errc::timed_out));
    BOOST_TEST(calls == 3);
}

BOOST_AUTO_TEST_CASE(may_use_the_limiter_and_replace_itself, *boost::unit_test::label("whole")) {
    asio::io_context ctx;
    seats kitchen{ctx, {.seats = 2}};
    auto seat = kitchen.try_enter();
    auto other = kitchen.try_enter();
    std::optional<visit> from_inside;
    int calls = 0;
    auto const kept = std::make_shared<int>();
    kitchen.observe([&, kept](request_event const& e) {
        ++calls;
        BOOST_TEST(kitchen.stats().in_use > 0);
        if (e.error == errc::no_permit) {
            other.leave();  // grants nothing to the request that was rejected
            from_inside.emplace(kitchen, 2);
        } else {
            kitchen.observe({});
            static_cast<void>(kitchen.try_enter(3));
            ++*kept;  // this object still exists
        }
    });
    static_cast<void>(kitchen.try_enter());
    BOOST_TEST(calls == 1);
    seat.leave();
    BOOST_TEST(calls == 2);
    settle(ctx);
    BOOST_TEST(from_inside.value().granted());
    BOOST_TEST(*kept == 1);
    BOOST_TEST(kept.use_count() == 1);
}

// Another thread uses the limiter while the observer waits for it.
BOOST_AUTO_TEST_CASE(runs_under_no_lock, *boost::unit_test::label("whole")) {
    asio::io_context ctx;
    seats kitchen{ctx, {.seats = 1}};
    clients per_client{ctx, {.seats = 1}};
    weir::any_chain both{kitchen, per_client.with(1)};
    std::atomic<int> calls = 0;
    auto const uses_all = [&](request_event const&) {
        std::jthread([&] {
            static_cast<void>(kitchen.stats());
            static_cast<void>(per_client.stats());
            ++calls;
        }).join();
    };
    kitchen.observe(uses_all);
    per_client.observe(uses_all);
    auto seat = kitchen.try_enter();
    static_cast<void>(kitchen.try_enter());
    auto of_client = per_client.try_enter(1);
    static_cast<void>(per_client.try_enter(1));
    static_cast<void>(both.try_enter());
    BOOST_TEST(calls == 3);
    int granted = 0;
    both.async_enter([&](error_code ec, auto const&) { granted += !ec; });
    per_client.async_enter(1, [&](error_code ec, permit const&) { granted += !ec; });
    run_for(ctx, 1s);
    seat.leave();
    run_for(ctx, 1s);
    of_client.leave();
    settle(ctx);
    BOOST_TEST(granted == 2);
    BOOST_TEST(calls == 6);
    seat = kitchen.try_enter();
    visit const closed{kitchen};
    kitchen.close();
    BOOST_TEST(calls == 7);
    settle(ctx);
}

BOOST_AUTO_TEST_CASE(a_limiter_with_keys_tells_one_observer_of_all_keys) {
    events told;
    asio::io_context ctx;
    clients per_client{ctx, {.seats = 1}, {.max_keys = 4}, {.name = "clients"}};
    per_client.observe(keeps(told));
    std::vector<permit> held;
    for (int key = 0; key != 4; ++key)
        held.push_back(per_client.try_enter(key));
    static_cast<void>(per_client.try_enter(4));
    static_cast<void>(per_client.try_enter(2));
    visit const waits{per_client, 3};
    run_for(ctx, 5s);
    held.clear();
    settle(ctx);
    BOOST_TEST(waits.granted());
    BOOST_TEST_REQUIRE(told.size() == 3U);
    BOOST_TEST(told[0].error == errc::too_many_keys);
    BOOST_TEST(told[1].error == errc::no_permit);
    BOOST_TEST(told[1].limiter.view() == "clients");
    BOOST_TEST(!told[2].error);
    BOOST_TEST((told[2].waited.value() == 5s));
}

BOOST_AUTO_TEST_CASE(each_limiter_of_a_chain_tells_its_own) {
    events of_kitchen;
    events of_calls;
    asio::io_context ctx;
    seats kitchen{ctx, {.seats = 1}, {.name = "kitchen"}};
    token_bucket calls{ctx, {.rate = {1, 10s}, .burst = 1}, {.name = "calls"}};
    kitchen.observe(keeps(of_kitchen));
    calls.observe(keeps(of_calls));
    weir::chain both{kitchen, calls};
    auto first = both.try_enter();
    BOOST_TEST(of_kitchen.empty());
    BOOST_TEST(of_calls.empty());
    static_cast<void>(both.try_enter());
    BOOST_TEST(of_kitchen.empty());
    BOOST_TEST_REQUIRE(of_calls.size() == 1U);
    BOOST_TEST(of_calls[0].error == errc::no_permit);
    BOOST_TEST((of_calls[0].retry_after.value() == 10s));

    bool granted = false;
    both.async_enter([&](error_code ec, auto const&) { granted = !ec; });
    settle(ctx);
    first.leave();
    run_for(ctx, 10s);
    BOOST_TEST(granted);
    BOOST_TEST(of_kitchen.empty());  // it delayed the chain for no time
    BOOST_TEST_REQUIRE(of_calls.size() == 2U);
    BOOST_TEST((of_calls[1].waited.value() == 10s));
    BOOST_TEST(of_calls[1].granted == 1);
    BOOST_TEST(of_calls[1].limiter.view() == "calls");

    error_code why;
    both.async_enter(15s, [&](error_code ec, auto const&) { why = ec; });
    run_for(ctx, 1s);
    calls.configure({.rate = {1, 1h}, .burst = 1});
    settle(ctx);
    BOOST_TEST(why == errc::deadline_unreachable);
    BOOST_TEST(of_kitchen.empty());
    BOOST_TEST_REQUIRE(of_calls.size() == 3U);
    BOOST_TEST(of_calls[2].error == errc::deadline_unreachable);
    BOOST_TEST((of_calls[2].waited.value() == 1s));
}

BOOST_AUTO_TEST_CASE(a_pool_tells_of_requests_for_objects) {
    events told;
    asio::io_context ctx;
    weir::basic_pool<int, asio::any_io_executor, weir::testing::timer> objects{
        ctx, []() -> asio::awaitable<int> { co_return 7; }, {.max = 1}, {.name = "objects"}};
    objects.observe(keeps(told));
    std::optional<weir::lease<int>> held;
    objects.async_checkout([&](error_code, auto lease) { held.emplace(std::move(lease)); });
    settle(ctx);
    BOOST_TEST_REQUIRE(held.has_value());
    BOOST_TEST_REQUIRE(told.size() == 1U);  // it waited for the first object
    BOOST_TEST(!told[0].error);
    static_cast<void>(objects.try_checkout());
    objects.async_checkout(1s, [](error_code, auto const&) {});
    run_for(ctx, 2s);
    BOOST_TEST_REQUIRE(told.size() == 3U);
    BOOST_TEST(told[1].error == errc::no_permit);
    BOOST_TEST(told[2].error == errc::timed_out);
    BOOST_TEST(told[2].limiter.view() == "objects");
}

BOOST_AUTO_TEST_CASE(a_shared_limiter_tells_of_the_waits_for_its_store) {
    events told;
    asio::io_context ctx;
    auto const store = std::make_shared<weir::basic_memory_store<weir::testing::timer>>(ctx);
    weir::basic_shared_token_bucket<asio::any_io_executor, weir::testing::timer> calls{
        ctx, store, "calls", {.rate = {1, 1s}, .burst = 1}};
    calls.observe(keeps(told));
    visit const first{calls};
    visit const second{calls};
    run_for(ctx, 2s);
    BOOST_TEST(second.granted());
    BOOST_TEST_REQUIRE(told.size() == 2U);
    BOOST_TEST((told[1].waited.value() >= 1s));
    calls.close();
    static_cast<void>(calls.try_enter());
    BOOST_TEST_REQUIRE(told.size() == 3U);
    BOOST_TEST(told[2].error == errc::closed);
}

BOOST_AUTO_TEST_CASE(reservations_are_told_like_other_waits) {
    events told;
    asio::io_context ctx;
    leaky_bucket calls{ctx, {.rate = {1, 1s}}, {.max_waiting = 2}};
    calls.observe(keeps(told));
    auto now = calls.reserve();
    auto used = calls.reserve();
    auto given_up = calls.reserve();
    error_code ec;
    static_cast<void>(calls.reserve(1, {}, ec));
    BOOST_TEST_REQUIRE(told.size() == 1U);
    BOOST_TEST(told[0].error == errc::queue_full);
    given_up = {};
    BOOST_TEST_REQUIRE(told.size() == 2U);
    BOOST_TEST(told[1].error == asio::error::operation_aborted);
    bool granted = false;
    used.async_enter([&](error_code e, permit const&) { granted = !e; });
    run_for(ctx, 1s);
    BOOST_TEST(granted);
    BOOST_TEST_REQUIRE(told.size() == 3U);
    BOOST_TEST((told[2].waited.value() == 1s));
}

BOOST_AUTO_TEST_CASE(a_handler_that_cannot_be_posted_is_told_of_once) {
    asio::io_context ctx;
    faults plan;
    faulty_executor<asio::io_context::executor_type> const shaky(ctx.get_executor(), plan);
    int calls = 0;
    seats kitchen{asio::any_io_executor(shaky), {.seats = 1}};
    kitchen.observe([&](request_event const&) { ++calls; });
    auto seat = kitchen.try_enter();
    visit const guest{kitchen};
    settle(ctx);
    plan.fail_next();
    seat.leave();
    BOOST_TEST(calls == 1);
    settle(ctx);
    static_cast<void>(kitchen.stats());
    settle(ctx);
    BOOST_TEST(guest.granted());
    BOOST_TEST(calls == 1);
}

BOOST_AUTO_TEST_CASE(its_events_are_those_that_the_counters_count) {
    for_each_seed(1, 300, [](random_source& random) { random_calls(random).run(); });
}

BOOST_AUTO_TEST_CASE(is_called_on_the_threads_that_decide) {
    weir::seats kitchen{asio::system_executor(), {.seats = 1}, {.max_waiting = 2}};
    std::mutex mutex;
    std::map<std::thread::id, int> by_thread;
    kitchen.observe([&](request_event const&) {
        std::lock_guard const lock(mutex);
        ++by_thread[std::this_thread::get_id()];
    });
    auto const seat = kitchen.try_enter();
    constexpr int each = 2'000;
    auto const knocks = [&] {
        for (int i = 0; i != each; ++i)
            static_cast<void>(kitchen.try_enter());
    };
    std::jthread one(knocks);
    std::jthread two(knocks);
    auto const first = one.get_id();
    auto const second = two.get_id();
    one.join();
    two.join();
    BOOST_TEST(by_thread.size() == 2U);
    BOOST_TEST(by_thread[first] == each);
    BOOST_TEST(by_thread[second] == each);
    BOOST_TEST(kitchen.stats().no_permit == std::uint64_t{2 * each});
}

BOOST_AUTO_TEST_CASE(another_thread_may_replace_it_meanwhile) {
    weir::seats kitchen{asio::system_executor(), {.seats = 1}};
    std::atomic<int> calls = 0;
    auto const seat = kitchen.try_enter();
    std::jthread const knocks([&](std::stop_token const& stop) {
        while (!stop.stop_requested())
            static_cast<void>(kitchen.try_enter());
    });
    for (int i = 0; i != 500; ++i) {
        auto const own = std::make_shared<int>(i);
        kitchen.observe([own, &calls](request_event const&) { calls += *own >= 0; });
        kitchen.observe({});
    }
    kitchen.observe([&](request_event const&) { ++calls; });
    static_cast<void>(kitchen.try_enter());
    BOOST_TEST(calls >= 1);
}

BOOST_AUTO_TEST_SUITE_END()
