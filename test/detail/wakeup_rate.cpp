#include <weir/detail/arrival_queue.hpp>
#include <weir/detail/room.hpp>
#include <weir/detail/wakeup.hpp>
#include <weir/policy/leaky_bucket.hpp>
#include <weir/policy/sliding_log.hpp>
#include <weir/policy/token_bucket.hpp>

#include "support/idle_issuer.hpp"
#include "support/printing.hpp"
#include "support/stand_in.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

// Checks how often a limiter wakes up for callers that always wait, by the documentation of
// `queue_options::tolerance` and of the policies. A bucket is served at most once in a tolerance and loses nothing by
// that. A window would lose permits, and is served as soon as possible.

using namespace std::chrono_literals;
using weir::amount;
using weir::duration;
using weir::errc;
using weir::later;
using weir::never;
using weir::patience;
using weir::time_point;
using weir::detail::permit_origin;

BOOST_AUTO_TEST_SUITE(wakeup_rate)

namespace {

constexpr time_point start{1h};

// A room whose actor handles messages immediately, and timers late.
template <class Policy>
class actor : private support::idle_issuer {
    using room_type = weir::detail::room<weir::detail::one_slot<Policy, weir::detail::fifo>>;

public:
    struct caller final : support::stand_in {
        bool comes_again = false;
        int grants = 0;
        int rejections = 0;
    };

    actor(typename Policy::options_type const& options, duration tolerance, duration lateness)
        : lateness_(lateness), room_(*this, Policy(options), {.tolerance = tolerance}) {
        room_.policy().begin(now_);
    }

    ~actor() {
        room_.clear_out();
        while (!room_.outbox().empty())
            room_.outbox().pop_front();
    }

    // Requests one permit.
    void comes(caller& c, patience wait = {}) {
        asks(c, wait);
        does_what_is_due();
    }

    void run_until(time_point end) {
        for (;;) {
            auto const next = timer_ == never ? never : timer_ + lateness_;
            if (next > end)
                break;
            now_ = std::max(now_, next);
            alarms.push_back(timer_);
            timer_ = never;
            wakeup_.timer_fired(epoch_);
            does_what_is_due();
        }
        now_ = end;
    }

    [[nodiscard]] time_point ready() const noexcept { return room_.policy().ready_at(1, 0, now_); }
    [[nodiscard]] time_point now() const noexcept { return now_; }
    [[nodiscard]] time_point timer() const noexcept { return timer_; }

    std::vector<time_point> alarms;  // the instants for which the timer was armed

private:
    void asks(caller& c, patience wait) {
        if (room_.decide(c, now_) || room_.cannot_wait(c, {.length = wait}, now_))
            leaves(c);
        else
            room_.join(c, now_);
    }

    void does_what_is_due() {
        for (;;) {
            int budget = std::numeric_limits<int>::max();
            room_.do_due_work(now_, budget);
            if (room_.outbox().empty())
                break;
            auto& c = static_cast<caller&>(room_.outbox().pop_front());
            leaves(c);
            if (c.comes_again)
                asks(c, {});
        }
        auto const wanted = room_.wants(now_, wakeup_.last_alarm());
        if (!wakeup_.update(wanted))
            return;
        wakeup_.step_arrived();
        if (auto const a = wakeup_.arrange(wanted)) {
            if (a->timer) {
                timer_ = *a->timer;
                epoch_ = a->epoch;
            }
            wakeup_.arranged(*a, true, true);
        }
    }

    static void leaves(caller& c) {
        auto const seat = std::move(c.granted);
        ++(seat ? c.grants : c.rejections);
    }

    void leave(amount n, permit_origin from) noexcept override {
        static_cast<void>(room_.leave(n, from, now_));
    }

    duration lateness_;
    time_point now_ = start;
    time_point timer_ = never;
    std::uint64_t epoch_ = 0;
    weir::detail::wakeup wakeup_;
    room_type room_;
};

// Sixteen callers that always wait.
template <class Policy>
class crowd {
public:
    crowd(typename Policy::options_type const& options, duration tolerance, duration lateness)
        : callers_(16), actor_(options, tolerance, lateness) {
        for (auto& c : callers_) {
            c.comes_again = true;
            c.count = 1;
            actor_.comes(c);
        }
    }

    // Returns the permits granted within the time, and records the instants for which the timer was armed.
    amount served_within(duration d) {
        actor_.run_until(actor_.now() + d);
        amount sum = 0;
        for (auto& c : callers_)
            sum += std::exchange(c.grants, 0);
        return sum;
    }
    [[nodiscard]] std::vector<time_point> const& alarms() const noexcept { return actor_.alarms; }

private:
    std::vector<typename actor<Policy>::caller> callers_;
    actor<Policy> actor_;
};

using weir::policy::leaky_bucket;
using weir::policy::sliding_log;
using weir::policy::token_bucket;

}  // namespace

// 10 per millisecond, and a bucket of 10 ms.
BOOST_AUTO_TEST_CASE(of_a_bucket_is_once_in_a_tolerance_and_all_of_the_rate_is_granted) {
    for (duration const lateness : {0us, 60us, 900us}) {
        crowd<token_bucket> many({.rate = {10'000, 1s}, .burst = 100, .initial = 0}, 1ms, lateness);
        auto const granted = many.served_within(1s);
        BOOST_TEST(granted >= 10'000 - 20);
        BOOST_TEST(granted <= 10'000);
        BOOST_TEST(many.alarms().size() >= 998U);
        BOOST_TEST(many.alarms().size() <= 1'001U);

        // Measured between the instants for which the timer was armed, so that lateness does not add up.
        auto const& at = many.alarms();
        for (std::size_t i = 1; i < at.size(); ++i)
            BOOST_REQUIRE(at[i] - at[i - 1] == 1ms);
    }
}

BOOST_AUTO_TEST_CASE(of_a_bucket_is_the_rate_of_its_grants_if_they_are_further_apart) {
    crowd<leaky_bucket> few({.rate = {100, 1s}, .capacity = 5}, 1ms, 30us);
    BOOST_TEST(few.served_within(1s) == 5 + 99);
    for (std::size_t i = 1; i < few.alarms().size(); ++i)
        BOOST_REQUIRE(few.alarms()[i] - few.alarms()[i - 1] == 10ms);
}

BOOST_AUTO_TEST_CASE(without_a_tolerance_is_the_rate_of_the_grants) {
    crowd<token_bucket> many({.rate = {10'000, 1s}, .burst = 100, .initial = 0}, 0ns, 0ns);
    BOOST_TEST(many.served_within(1s) == 10'000);
    BOOST_TEST(many.alarms().size() == 10'000U);
}

// Half of the time until the bucket is full stays in reserve for a late timer.
BOOST_AUTO_TEST_CASE(of_a_small_bucket_is_higher_so_that_nothing_is_lost) {
    crowd<token_bucket> many({.rate = {10'000, 1s}, .burst = 5, .initial = 0}, 1ms, 150us);
    BOOST_TEST(many.served_within(1s) >= 9'990);
    for (std::size_t i = 1; i < many.alarms().size(); ++i)
        BOOST_REQUIRE(many.alarms()[i] - many.alarms()[i - 1] <= 500us);
}

// Each grant would make the permits expire later.
BOOST_AUTO_TEST_CASE(of_a_window_is_the_rate_of_its_grants) {
    std::vector<actor<sliding_log>::caller> callers(4);
    actor<sliding_log> limiter({.limit = 2, .window = 400us}, 1ms, 0ns);
    for (auto& c : callers)
        c.count = 1;
    limiter.comes(callers[0]);
    limiter.run_until(start + 200us);
    limiter.comes(callers[1]);
    for (std::size_t i = 2; i != callers.size(); ++i) {
        callers[i].comes_again = true;
        limiter.comes(callers[i]);
    }
    limiter.run_until(start + 1s);
    amount granted = 0;
    for (auto const& c : callers)
        granted += c.grants;
    BOOST_TEST(granted == 5'001);
    for (std::size_t i = 1; i < limiter.alarms.size(); ++i)
        BOOST_REQUIRE(limiter.alarms[i] - limiter.alarms[i - 1] == 200us);
}

BOOST_AUTO_TEST_CASE(does_not_let_a_head_expire_that_could_be_served) {
    using line = actor<token_bucket>;
    line::caller first;
    line::caller second;
    line limiter({.rate = {10'000, 1s}, .burst = 100, .initial = 0}, 1ms, 0ns);
    first.count = second.count = 1;
    limiter.comes(first);
    limiter.comes(second, 350us);  // ready after 200, and not worth a wake-up before 1,100
    limiter.run_until(start + 10ms);
    BOOST_TEST(first.grants == 1);
    BOOST_TEST(second.grants == 1);
    BOOST_TEST(second.rejections == 0);
    BOOST_TEST((limiter.alarms.front() == start + 100us));
    BOOST_TEST((limiter.alarms[1] <= start + 350us));
}

BOOST_AUTO_TEST_SUITE_END()
