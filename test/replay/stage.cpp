// The timers on the time of a log.

#include "replay/stage.hpp"

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <string>

BOOST_AUTO_TEST_SUITE(replay_stage)

namespace {

using namespace std::chrono_literals;
using replay::timer;
using time_point = replay::clock::time_point;

constexpr time_point begin{1h};

struct timers {
    timers() { replay::clock::set(begin); }
    void start(timer& t, std::chrono::nanoseconds after, char name) {
        t.expires_at(begin + after);
        t.async_wait([this, name](boost::system::error_code) { fired += name; });
    }
    // Advances the time to that instant.
    void pass_to(std::chrono::nanoseconds after) {
        replay::clock::set(begin + after);
        all.fire_due();
    }

    replay::stage all;
    timer a{all.get_executor()};
    timer b{all.get_executor()};
    std::string fired;
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(a_timer, timers)

BOOST_AUTO_TEST_CASE(fires_at_its_expiry_and_once) {
    start(a, 5ns, 'a');
    pass_to(4ns);
    BOOST_TEST(fired == "");
    pass_to(5ns);
    BOOST_TEST(fired == "a");
    pass_to(6ns);
    BOOST_TEST(fired == "a");
    start(a, 7ns, 'b');
    pass_to(8ns);
    BOOST_TEST(fired == "ab");
}

BOOST_AUTO_TEST_CASE(that_expires_first_is_next) {
    BOOST_TEST((all.next_expiry() == time_point::max()));
    start(a, 5ns, 'a');
    start(b, 9ns, 'b');
    BOOST_TEST((all.next_expiry() == begin + 5ns));
    start(b, 3ns, 'b');
    BOOST_TEST((all.next_expiry() == begin + 3ns));
    pass_to(3ns);
    BOOST_TEST(fired == "b");
    BOOST_TEST((all.next_expiry() == begin + 5ns));
}

BOOST_AUTO_TEST_CASE(that_is_cancelled_or_destroyed_is_not_next) {
    start(a, 5ns, 'a');
    a.cancel();
    BOOST_TEST((all.next_expiry() == time_point::max()));
    start(b, 9ns, 'b');
    {
        timer c(all.get_executor());
        start(c, 7ns, 'c');
        BOOST_TEST((all.next_expiry() == begin + 7ns));
    }
    BOOST_TEST((all.next_expiry() == begin + 9ns));
    pass_to(9ns);
    BOOST_TEST(fired == "b");
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE_END()
