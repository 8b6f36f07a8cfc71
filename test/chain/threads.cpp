#include <weir/chain.hpp>
#include <weir/keyed.hpp>
#include <weir/seats.hpp>

#include "support/printing.hpp"
#include "support/storm.hpp"

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/test/unit_test.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <random>
#include <thread>
#include <utility>
#include <vector>

// Stress tests on real threads, in real time. The interleavings depend on the machine; the assertions do not.

namespace asio = boost::asio;
using namespace std::chrono_literals;
using support::scale;
using weir::chain;
using weir::error_code;

namespace {

auto const rethrow = [](std::exception_ptr failure) {
    if (failure)
        std::rethrow_exception(failure);
};

// The number of holders of a single seat.
struct single {
    std::atomic<int> holders = 0;
    std::atomic<bool> exceeded = false;
    void enter() {
        if (holders.fetch_add(1) != 0)
            exceeded = true;
    }
    void leave() { --holders; }
};

struct three_seats {
    asio::thread_pool one{2};
    asio::thread_pool other{1};
    weir::seats a{one, {.seats = 1}};
    weir::seats b{other, {.seats = 1}};
    weir::seats c{one, {.seats = 1}};
    single at_a;
    single at_b;
    single at_c;
    std::atomic<int> done = 0;

    ~three_seats() {
        one.join();
        other.join();
    }
};

// Enters two of three limiters repeatedly, and sometimes cancels.
asio::awaitable<void> pairs(three_seats& s, int turn, int times) {
    auto const work = [&](auto door, single& first, single& second) -> asio::awaitable<void> {
        try {
            auto const both = co_await door.enter(turn % 5 == 0 ? 200us : 1h);
            first.enter();
            second.enter();
            co_await asio::post(asio::use_awaitable);
            second.leave();
            first.leave();
        } catch (weir::rejection const&) {}
    };
    for (int i = 0; i != times; ++i) {
        weir::chain_options const options{.passes = 1 + i % 3, .reserve_for = 1ms};
        switch ((turn + i) % 3) {
            case 0:
                co_await work(chain{options, s.a, s.b}, s.at_a, s.at_b);
                break;
            case 1:
                co_await work(chain{options, s.b, s.c}, s.at_b, s.at_c);
                break;
            default:
                co_await work(chain{options, s.c, s.a}, s.at_c, s.at_a);
        }
    }
    ++s.done;
}

asio::awaitable<void> alone(three_seats& s, int times) {
    for (int i = 0; i != times; ++i) {
        auto const seat = co_await s.a.enter();
        s.at_a.enter();
        co_await asio::post(asio::use_awaitable);
        s.at_a.leave();
    }
    ++s.done;
}

// Calls `each()` on some threads while `f` runs.
template <class Each, class F>
void beside(int threads, Each each, F f) {
    std::atomic<bool> done = false;
    std::vector<std::thread> all;
    for (int i = 0; i != threads; ++i)
        all.emplace_back([&] {
            while (!done)
                each();
        });
    f();
    done = true;
    for (auto& one : all)
        one.join();
}

struct two_seats {
    asio::io_context context;
    weir::seats a{context, {.seats = 1}};
    weir::seats b{context, {.seats = 1}};
};

}  // namespace

BOOST_AUTO_TEST_SUITE(chain_threads)

BOOST_AUTO_TEST_CASE(a_refused_chain_takes_nothing_meanwhile) {
    two_seats s;
    auto const taken = s.b.try_enter();
    BOOST_TEST_REQUIRE(static_cast<bool>(taken));
    std::atomic<int> granted = 0;
    int refused = 0;
    beside(
        2, [&] { granted += static_cast<bool>(chain{s.a, s.b}.try_enter()); },
        [&] {
            for (int i = 0; i != 20'000 * scale; ++i)
                refused += !s.a.try_enter();
        });
    BOOST_TEST(granted == 0);
    BOOST_TEST(refused == 0);
}

BOOST_AUTO_TEST_CASE(a_chain_takes_and_releases_all_at_the_same_time) {
    two_seats s;
    std::atomic<std::uint64_t> chains = 0;
    std::uint64_t first = 0;
    std::uint64_t both = 0;
    chain forth{s.a, s.b};
    chain back{s.b, s.a};
    beside(
        2,
        [&] {
            chains += static_cast<bool>(forth.try_enter());
            chains += static_cast<bool>(back.try_enter());
        },
        [&] {
            // On a busy machine the chains may not run until later.
            for (int i = 0; i < 20'000 * scale || chains == 0U; ++i) {
                auto const a = s.a.try_enter();
                first += static_cast<bool>(a);
                both += a && s.b.try_enter();
            }
        });
    BOOST_TEST(first == both);  // no chain holds b alone
    BOOST_TEST(chains > 0U);
    BOOST_TEST(s.a.stats().granted == chains + first);
    BOOST_TEST(s.b.stats().granted == chains + both);
    BOOST_TEST(s.a.stats().in_use == 0);
    BOOST_TEST(s.b.stats().in_use == 0);
}

BOOST_AUTO_TEST_CASE(a_ring_of_chains_on_three_threads) {
    constexpr int coroutines = 9;
    int const times = 200 * scale;
    three_seats s;
    for (int i = 0; i != coroutines; ++i)
        co_spawn(i % 2 == 0 ? s.one : s.other, pairs(s, i, times), rethrow);
    co_spawn(s.other, alone(s, times), rethrow);
    s.one.join();
    s.other.join();
    BOOST_TEST(s.done == coroutines + 1);
    BOOST_TEST((!s.at_a.exceeded && !s.at_b.exceeded && !s.at_c.exceeded));
    for (auto const* const limiter : {&s.a, &s.b, &s.c}) {
        auto const stats = limiter->stats();
        BOOST_TEST((stats.live == 0U && stats.waiting == 0U && stats.in_use == 0));
    }
}

BOOST_AUTO_TEST_CASE(cancellations_and_closing_from_other_threads) {
    for (int round = 0; round != 40 * scale; ++round) {
        std::atomic<int> completed = 0;
        constexpr int chains = 12;
        {
            asio::thread_pool pool{3};
            weir::seats a{pool, {.seats = 1}};
            weir::keyed<int, weir::policy::seats> clients{pool, {.seats = 1}, {.shards = 2}};
            struct one {
                explicit one(asio::any_io_executor const& ex) : strand(asio::make_strand(ex)) {}
                asio::strand<asio::any_io_executor> strand;
                asio::cancellation_signal signal;
            };
            std::vector<std::unique_ptr<one>> ones;
            for (int i = 0; i != chains; ++i) {
                auto& me = *ones.emplace_back(std::make_unique<one>(pool.get_executor()));
                asio::post(me.strand, [&, i] {
                    auto done = [&completed](error_code, auto const&) { ++completed; };
                    auto handler = asio::bind_cancellation_slot(
                        me.signal.slot(), asio::bind_executor(me.strand, done));
                    if (i % 2 == 0)
                        chain{a, clients.with(i % 3)}.async_enter(std::move(handler));
                    else
                        chain{clients.with(i % 3), clients.with(5), a}.async_enter(
                            std::move(handler));
                });
                if (i % 3 == 0)
                    asio::post(me.strand,
                               [&] { me.signal.emit(asio::cancellation_type::terminal); });
            }
            if (round % 2 == 0)
                clients.close();
            pool.join();
        }
        BOOST_TEST_REQUIRE(completed == chains);
    }
}

BOOST_AUTO_TEST_CASE(contexts_that_end_while_chains_wait) {
    for (int round = 0; round != 60 * scale; ++round) {
        auto one = std::make_unique<asio::thread_pool>(1);
        auto other = std::make_unique<asio::thread_pool>(1);
        std::optional<weir::seats> a{std::in_place, *one, weir::seats_options{.seats = 1}};
        std::optional<weir::seats> b{std::in_place, *other, weir::seats_options{.seats = 1}};
        auto at_a = a->try_enter();
        auto at_b = b->try_enter();
        auto const alive = std::make_shared<int>();
        for (int i = 0; i != 4; ++i) {
            auto handler = [alive](error_code, auto const&) {};
            chain{*a, *b}.async_enter(handler);
            chain{*b, *a}.async_enter(handler);
        }
        std::thread leaver([&] {
            at_a.leave();
            at_b.leave();
        });
        std::thread ender([&] {
            one->stop();
            one.reset();
        });
        if (round % 2 == 0)
            b.reset();
        leaver.join();
        ender.join();
        a.reset();
        b.reset();
        other->join();
        other.reset();
        BOOST_TEST_REQUIRE(alive.use_count() == 1);
    }
}

BOOST_AUTO_TEST_SUITE_END()
