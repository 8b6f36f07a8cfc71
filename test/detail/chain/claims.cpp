#include <weir/chain.hpp>
#include <weir/detail/chain/link.hpp>
#include <weir/detail/core.hpp>
#include <weir/detail/room.hpp>
#include <weir/policy/seats.hpp>

#include "support/printing.hpp"

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <tuple>
#include <utility>
#include <vector>

// Counts how often chains take locks and read the clock.

using weir::errc;
using weir::error_code;
using weir::permit;
using weir::time_point;
using weir::detail::chain_link;
using weir::detail::core;
using weir::detail::fifo;
using weir::detail::limiter_handle;
using weir::detail::linked_chain;
using weir::detail::one_slot;
using weir::detail::room;
using namespace std::chrono_literals;

BOOST_AUTO_TEST_SUITE(detail_chain_claims)

namespace {

// Counts each lock operation.
class counted_host {
public:
    using clock_type = std::chrono::steady_clock;

    class mutex_type {
    public:
        void lock() {
            BOOST_TEST_REQUIRE(!std::exchange(taken_, true));
            ++locks;
        }
        void unlock() { taken_ = false; }

    private:
        bool taken_ = false;
    };
    struct event_type {
        static void set() {}
        static void wait() { BOOST_FAIL("no other thread exists"); }
    };

    static inline std::uint64_t locks = 0;
    static inline std::uint64_t readings = 0;  // of the clock
    static inline std::deque<std::function<void()>> messages;

    [[nodiscard]] static time_point now() noexcept {
        ++readings;
        return time_point(1h);
    }
    static void attach(std::weak_ptr<weir::detail::context_user> const&) {}
    template <class Core>
    static void post(std::shared_ptr<Core> core) {
        messages.emplace_back([core = std::move(core)] { core->step(); });
    }
    template <class Core>
    static void arm(std::weak_ptr<Core> const&, time_point, std::uint64_t) {}
    static void disarm() {}
    static void hold(bool) {}

    static void run() {
        while (!messages.empty()) {
            auto const next = std::move(messages.front());
            messages.pop_front();
            next();
        }
    }
};

using seats_core = core<room<one_slot<weir::policy::seats, fifo>>, counted_host>;
using seat_link = chain_link<seats_core, int>;

std::shared_ptr<seats_core> single_seat() {
    return seats_core::create({.seats = 1}, {});
}

using two_seats = weir::detail::link_tuple<seat_link, seat_link>;
using three_seats = weir::detail::link_tuple<seat_link, seat_link, seat_link>;

seat_link link_to(std::shared_ptr<seats_core> const& limiter) {
    return seat_link(limiter_handle<seats_core, int>{limiter, 0}, 1);
}

template <class Links>
class waiter_of final : public linked_chain<Links> {
public:
    std::vector<permit> given;
    bool over = false;

    bool post() override {
        over = true;
        for (auto& e : this->entries)
            given.push_back(std::move(e.granted));
        return true;
    }
    void run() override {}
    void destroy() noexcept override { over = true; }
};
using waiter = waiter_of<two_seats>;

// The maximum for chains of the same limiters. Up to `most_claimed_together` are claimed in one section, under the
// locks of all limiters; then each limiter with resulting work is visited.
constexpr std::uint64_t limiters = 2;
constexpr std::uint64_t section = limiters + limiters;
// A visit or a step with work outside the lock takes the lock once more after that work.
constexpr std::uint64_t again = 1;

permit take(seats_core& from) {
    error_code ec;
    return from.try_enter(1, ec);
}

template <class F>
std::uint64_t readings_of(F f) {
    auto const before = counted_host::readings;
    f();
    return counted_host::readings - before;
}

template <class F>
std::uint64_t locks_of(F f) {
    auto const before = counted_host::locks;
    f();
    return counted_host::locks - before;
}

}  // namespace

BOOST_AUTO_TEST_CASE(many_chains_are_claimed_in_a_few_sections) {
    constexpr int crowd = 100;
    auto const client = single_seat();
    auto const kitchen = single_seat();
    auto token = take(*client);
    auto seat = take(*kitchen);
    {
        two_seats const links{link_to(client), link_to(kitchen)};
        std::deque<waiter> waiters;
        for (int i = 0; i != crowd; ++i) {
            auto& w = waiters.emplace_back();
            w.begin(links, {});
            BOOST_TEST_REQUIRE(enter_chain(w, {}));
        }
        counted_host::run();
        BOOST_TEST(client->stats().waiting == 100U);

        // One token for all of them, and no seat: each moves to the queue of the seats by one claim. The thread that
        // releases the token makes at most as many claims as allowed in a turn, and then each step of the limiter as
        // many more.
        using weir::detail::most_claims_in_a_turn;
        static_assert(most_claims_in_a_turn <= weir::detail::most_claimed_together);
        constexpr std::uint64_t turn = 1 + section + again;
        constexpr std::uint64_t turns = (crowd + most_claims_in_a_turn - 1) / most_claims_in_a_turn;
        BOOST_TEST(locks_of([&] { token.leave(); }) <= turn);
        BOOST_TEST(client->stats().waiting == std::uint64_t(crowd - most_claims_in_a_turn));
        BOOST_TEST(locks_of([] { counted_host::run(); }) <= (turns - 1) * turn);
        BOOST_TEST(client->stats().waiting == 0U);
        BOOST_TEST(kitchen->stats().waiting == 100U);

        // Each of them gets both, one after the other.
        seat.leave();
        for (auto& w : waiters) {
            counted_host::run();
            BOOST_TEST_REQUIRE(w.over);
            BOOST_TEST_REQUIRE(w.given.size() == 2U);
            BOOST_TEST_REQUIRE((client->stats().in_use == 1 && kitchen->stats().in_use == 1));
            // One section for the released permits, and one for the claim of the next chain, which is granted. The
            // visit that makes the claim and the visit of its home, which completes it, both have work outside their
            // locks.
            BOOST_TEST_REQUIRE(locks_of([&] { weir::detail::leave_together(w.given, true); }) <=
                               section + section + 2 * again);
        }
    }
    counted_host::run();
    client->abandon();
    kitchen->abandon();
    counted_host::run();
}

BOOST_AUTO_TEST_CASE(a_section_of_a_chain_reads_the_clock_once) {
    auto const client = single_seat();
    auto const kitchen = single_seat();
    auto token = take(*client);
    auto seat = take(*kitchen);
    {
        two_seats const links{link_to(client), link_to(kitchen)};
        waiter w;
        w.begin(links, {});
        BOOST_TEST(readings_of([&] { BOOST_TEST_REQUIRE(enter_chain(w, {})); }) == 1U);
        counted_host::run();
        // The visit that releases the seat, and the claim that it makes.
        BOOST_TEST(readings_of([&] { token.leave(); }) == 2U);
        BOOST_TEST(readings_of([&] { seat.leave(); }) == 2U);
        counted_host::run();
        BOOST_TEST(w.over);
        BOOST_TEST(readings_of([&] { weir::detail::leave_together(w.given, true); }) == 0U);
    }
    client->abandon();
    kitchen->abandon();
    counted_host::run();
}

BOOST_AUTO_TEST_CASE(an_immediate_grant_of_a_chain_takes_each_lock_once) {
    auto const one = single_seat();
    auto const other = single_seat();
    two_seats links{link_to(one), link_to(other)};
    weir::detail::chain_entries asked(links);
    BOOST_TEST(locks_of([&] { BOOST_TEST(weir::detail::try_chain(asked.used()).granted); }) ==
               limiters);
    std::vector<permit> given;
    for (auto& e : asked.used())
        given.push_back(std::move(e.granted));
    BOOST_TEST(locks_of([&] { weir::detail::leave_together(given, true); }) == limiters);
    one->abandon();
    other->abandon();
    counted_host::run();
}

BOOST_AUTO_TEST_CASE(a_wait_of_a_chain_of_three_limiters_takes_25_locks) {
    constexpr std::uint64_t all = 3;
    auto const client = single_seat();
    auto const host = single_seat();
    auto const kitchen = single_seat();
    auto seat = take(*kitchen);
    {
        three_seats const links{link_to(client), link_to(host), link_to(kitchen)};
        waiter_of<three_seats> w;
        w.begin(links, {});
        auto const check = [](auto f, std::uint64_t locks, std::uint64_t readings) {
            BOOST_TEST(readings_of([&] { BOOST_TEST(locks_of(f) == locks); }) == readings);
        };
        auto const locks = counted_host::locks;
        auto const readings = counted_host::readings;
        // The decision, which registers the chain with all limiters.
        check([&] { BOOST_TEST_REQUIRE(enter_chain(w, {})); }, all, 1);
        // A step of each limiter, which keeps its context running.
        check([] { counted_host::run(); }, all * (1 + again), all);
        // The visit that releases the seat, and the claim that it makes; then the visit of the chain's home, which
        // completes the chain. Both visits have work outside their locks.
        check([&] { seat.leave(); }, 1 + all + 1 + 2 * again, 2);
        // A step of each limiter, which lets its context end.
        check([] { counted_host::run(); }, all * (1 + again), all);
        BOOST_TEST_REQUIRE(w.over);
        // One section for the released permits.
        check([&] { weir::detail::leave_together(w.given, true); }, all, 0);
        BOOST_TEST(counted_host::locks - locks == 25U);
        BOOST_TEST(counted_host::readings - readings == 9U);
    }
    client->abandon();
    host->abandon();
    kitchen->abandon();
    counted_host::run();
}

BOOST_AUTO_TEST_SUITE_END()
