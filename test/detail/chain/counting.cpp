#include <weir/chain.hpp>
#include <weir/detail/chain/link.hpp>
#include <weir/detail/core.hpp>
#include <weir/detail/room.hpp>
#include <weir/policy/seats.hpp>

#include "support/noted_host.hpp"
#include "support/printing.hpp"

#include <boost/test/unit_test.hpp>

#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

// Chains that take and put back by counting: the state that other threads could see after each change of a lock.

using support::noted_host;
using weir::amount;
using weir::chain_permit;
using weir::error_code;
using weir::detail::chain_link;
using weir::detail::core;
using weir::detail::counting;
using weir::detail::counting_word;
using weir::detail::limiter_handle;
using weir::detail::one_slot;
using weir::detail::room;

BOOST_AUTO_TEST_SUITE(detail_chain_counting)

namespace {

// A lock that counts, and reports each change of its word.
class watched_lock {
public:
    using word = counting_word;

    static inline std::vector<watched_lock const*> all;
    static inline std::function<void()> changed = [] {};

    watched_lock() { all.push_back(this); }
    watched_lock(watched_lock const&) = delete;
    watched_lock& operator=(watched_lock const&) = delete;
    ~watched_lock() { std::erase(all, this); }

    // The permits that another thread could take by counting: unknown while it would have to wait for the lock, or to
    // ask the room.
    [[nodiscard]] std::optional<amount> visible() const {
        return word_.is_free() && word_.counts() ? std::optional(word_.left()) : std::nullopt;
    }

    word lock() {
        BOOST_TEST_REQUIRE(word_.is_free());
        return become(word(word::locked));
    }
    void unlock(word next) { become(next); }
    bool try_take() { return count(counting::take); }
    bool try_put_back() { return count(counting::put_back); }
    word try_lock_to(counting what) {
        return word_.can(what) ? become(word(word::locked)) : word();
    }

private:
    bool count(counting what) {
        bool const can = word_.can(what);
        if (can)
            become(word_.after(what));
        return can;
    }
    word become(word next) {
        auto const before = std::exchange(word_, next);
        changed();
        return before;
    }

    word word_;
};

class watched_host : public noted_host {
public:
    using counting_mutex_type = watched_lock;
    using clock_type = std::chrono::steady_clock;
};

using seats_core = core<room<one_slot<weir::policy::seats>>, watched_host>;
using seats_link = chain_link<seats_core, int>;

struct two_limiters {
    explicit two_limiters(amount of_a, amount of_b)
        : a(seats_core::create({.seats = of_a}, {})), b(seats_core::create({.seats = of_b}, {})) {
        error_code ec;
        for (auto const& each : {a, b})
            each->try_enter(1, ec).leave();  // the lock counts from then on
    }
    two_limiters(two_limiters const&) = delete;
    two_limiters& operator=(two_limiters const&) = delete;
    ~two_limiters() {
        watched_lock::changed = [] {};
        a->abandon();
        b->abandon();
        noted_host::run();
    }

    [[nodiscard]] chain_permit<2> take() {
        seats_link at_a(limiter_handle<seats_core, int>{a, 0}, 1);
        seats_link at_b(limiter_handle<seats_core, int>{b, 0}, 1);
        weir::detail::chain_member* const members[] = {&at_a, &at_b};
        return chain_permit<2>(members);
    }

    std::shared_ptr<seats_core> a;
    std::shared_ptr<seats_core> b;
};

}  // namespace

BOOST_AUTO_TEST_CASE(nobody_sees_a_part_of_a_chain) {
    two_limiters of(2, 2);
    int changes = 0;
    watched_lock::changed = [&] {
        ++changes;
        auto const a = watched_lock::all[0]->visible();
        auto const b = watched_lock::all[1]->visible();
        BOOST_TEST((!a || !b || *a == *b));
    };
    auto permits = of.take();
    BOOST_TEST_REQUIRE(static_cast<bool>(permits));
    BOOST_TEST(changes == 4);  // each lock is taken and released once
    auto const others = of.take();
    BOOST_TEST_REQUIRE(static_cast<bool>(others));
    permits.leave();
    BOOST_TEST(changes == 12);
    BOOST_TEST(watched_lock::all[0]->visible().value() == 1);
    BOOST_TEST(of.a->stats().granted == 3U);
    BOOST_TEST(of.b->stats().granted == 3U);
    BOOST_TEST(of.a->stats().in_use == 1);
}

BOOST_AUTO_TEST_CASE(a_chain_that_fails_takes_nothing_meanwhile) {
    two_limiters of(1, 1);
    int changes = 0;  // outlives the permit, which changes a lock when it returns
    error_code ec;
    auto const last = of.b->try_enter(1, ec);
    BOOST_TEST_REQUIRE(static_cast<bool>(last));
    watched_lock::changed = [&] {
        ++changes;
        BOOST_TEST(watched_lock::all[0]->visible().value_or(1) == 1);
    };
    BOOST_TEST(!of.take());
    BOOST_TEST(changes == 2);
    BOOST_TEST(watched_lock::all[0]->visible().value() == 1);
}

BOOST_AUTO_TEST_CASE(permits_return_together_or_the_rooms_take_them_back) {
    two_limiters of(3, 1);
    auto permits = of.take();
    BOOST_TEST_REQUIRE(static_cast<bool>(permits));
    permits[0].settle(2);  // of the first limiter it holds two permits from now on
    error_code ec;
    of.a->try_enter(1, ec).leave();  // the lock counts again
    BOOST_TEST(watched_lock::all[0]->visible().value() == 1);
    permits.leave();
    BOOST_TEST(of.a->stats().in_use == 0);
    BOOST_TEST(of.b->stats().in_use == 0);
}

BOOST_AUTO_TEST_CASE(the_same_limiter_twice_is_left_to_the_room) {
    two_limiters of(2, 1);
    seats_link at_a(limiter_handle<seats_core, int>{of.a, 0}, 1);
    weir::detail::chain_member* const members[] = {&at_a, &at_a};
    BOOST_TEST(!chain_permit<2>(members));
    BOOST_TEST(watched_lock::all[0]->visible().value() == 2);
}

BOOST_AUTO_TEST_SUITE_END()
