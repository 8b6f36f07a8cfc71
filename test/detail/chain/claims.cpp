#include <weir/detail/chain/link.hpp>
#include <weir/detail/chain/start.hpp>
#include <weir/detail/core.hpp>
#include <weir/policy/seats.hpp>

#include "support/printing.hpp"

#include <boost/test/unit_test.hpp>

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <tuple>
#include <utility>
#include <vector>

// How often locks are taken for chains.

using weir::errc;
using weir::error_code;
using weir::permit;
using weir::time_point;
using weir::detail::chain_link;
using weir::detail::core;
using weir::detail::fifo;
using weir::detail::limiter_handle;
using weir::detail::linked_chain;
using weir::detail::waiting_room;
using namespace std::chrono_literals;

namespace {

// Counts how often locks are taken, each by itself.
class counted_host {
public:
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
        static void wait() { BOOST_FAIL("there is nobody else to wait for"); }
    };

    static inline std::uint64_t locks = 0;
    static inline std::deque<std::function<void()>> messages;

    [[nodiscard]] static time_point now() noexcept { return time_point(1h); }
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

using seats_core = core<waiting_room<weir::policy::seats, fifo>, counted_host>;
using seat_link = chain_link<seats_core, int>;

std::shared_ptr<seats_core> single_seat() {
    return seats_core::create({.seats = 1}, {});
}

class waiter final : public linked_chain<seat_link, seat_link> {
public:
    std::vector<permit> given;
    bool over = false;

    bool post() override {
        over = true;
        for (auto& e : entries)
            given.push_back(std::move(e.granted));
        return true;
    }
    void run() override {}
    void destroy() noexcept override { over = true; }
};

permit take(seats_core& from) {
    error_code ec;
    return from.try_enter(1, ec);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(detail_chain_claims)

BOOST_AUTO_TEST_CASE(a_crowd_of_chains_is_claimed_in_a_few_sections) {
    constexpr int crowd = 100;
    auto const client = single_seat();
    auto const kitchen = single_seat();
    auto token = take(*client);
    auto seat = take(*kitchen);
    {
        std::tuple const links{seat_link(limiter_handle<seats_core, int>{client, 0}, 1),
                               seat_link(limiter_handle<seats_core, int>{kitchen, 0}, 1)};
        std::deque<waiter> waiters;
        for (int i = 0; i != crowd; ++i) {
            auto& w = waiters.emplace_back();
            w.begin(links, {});
            BOOST_TEST_REQUIRE(enter_chain(w, {}));
        }
        counted_host::run();
        BOOST_TEST(client->stats().waiting == 100U);

        // One token for all of them, and no seat: all go to wait for that.
        counted_host::locks = 0;
        token.leave();
        BOOST_TEST(client->stats().waiting == 0U);
        BOOST_TEST(kitchen->stats().waiting == 100U);
        BOOST_TEST(counted_host::locks < 30U);
        counted_host::run();

        // Each of them has both, one after the other.
        seat.leave();
        for (auto& w : waiters) {
            counted_host::run();
            BOOST_TEST_REQUIRE(w.over);
            BOOST_TEST_REQUIRE(w.given.size() == 2U);
            BOOST_TEST_REQUIRE((client->stats().in_use == 1 && kitchen->stats().in_use == 1));
            counted_host::locks = 0;
            weir::detail::leave_together(w.given, true);
            BOOST_TEST_REQUIRE(counted_host::locks < 30U);
        }
    }
    counted_host::run();
    client->abandon();
    kitchen->abandon();
    counted_host::run();
}

BOOST_AUTO_TEST_CASE(a_chain_that_is_granted_at_once_takes_each_lock_once) {
    auto const one = single_seat();
    auto const other = single_seat();
    std::tuple<seat_link, seat_link> links{seat_link(limiter_handle<seats_core, int>{one, 0}, 1),
                                           seat_link(limiter_handle<seats_core, int>{other, 0}, 1)};
    counted_host::locks = 0;
    weir::detail::chain_entries asked(links);
    BOOST_TEST(weir::detail::try_chain(asked.used()).granted);
    BOOST_TEST(counted_host::locks == 2U);
    std::vector<permit> given;
    for (auto& e : asked.used())
        given.push_back(std::move(e.granted));
    weir::detail::leave_together(given, true);
    BOOST_TEST(counted_host::locks == 4U);
    one->abandon();
    other->abandon();
    counted_host::run();
}

BOOST_AUTO_TEST_SUITE_END()
