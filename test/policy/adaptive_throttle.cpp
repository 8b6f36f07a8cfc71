#include <weir/adaptive_throttle.hpp>
#include <weir/policy/adaptive_throttle.hpp>
#include <weir/testing.hpp>

#include "support/random.hpp"
#include "support/says.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <vector>

using namespace std::chrono_literals;
using support::random_source;
using support::says;
using weir::adaptive_throttle_options;
using weir::duration;
using weir::outcome;
using weir::time_point;
using weir::policy::adaptive_throttle_rule;

BOOST_AUTO_TEST_SUITE(adaptive_throttles)

namespace {

// The formula of the book, over the whole history: max(0, (requests - K * accepts) / (requests + 1)) within the window,
// which moves in 24 steps.
class history {
public:
    explicit history(adaptive_throttle_options const& options)
        : ratio_(options.ratio), step_(options.window / 24) {}

    void add_request(time_point now) { requests_.push_back(step(now)); }
    void add_accepted(time_point now) { accepted_.push_back(step(now)); }
    [[nodiscard]] double probability(time_point now) const {
        auto const in_window = [&](std::int64_t at) { return at > step(now) - 24; };
        auto const requests = static_cast<double>(std::ranges::count_if(requests_, in_window));
        auto const accepted = static_cast<double>(std::ranges::count_if(accepted_, in_window));
        return std::max(0.0, (requests - ratio_ * accepted) / (requests + 1));
    }

private:
    [[nodiscard]] std::int64_t step(time_point t) const { return t.time_since_epoch() / step_; }

    double ratio_;
    duration step_;
    std::vector<std::int64_t> requests_;
    std::vector<std::int64_t> accepted_;
};

// Returns the share of the requests that a service gets if it can serve the share `capacity`. The throttle has run for
// longer than its window.
double sent_to(double capacity, double ratio) {
    adaptive_throttle_rule rule({.ratio = ratio});
    random_source random(7);
    double room = 0;
    int sent = 0;
    time_point now{1h};
    for (int i = 0; i != 400'000; ++i) {
        now += 1ms;
        room = std::min(room + capacity, 100.0);
        if (!rule.grant(static_cast<double>(random.bits() >> 11) * 0x1p-53, now))
            continue;
        sent += i >= 200'000 ? 1 : 0;
        bool const is_accepted = room >= 1;
        room -= is_accepted ? 1 : 0;
        rule.report(is_accepted ? outcome::success : outcome::dropped, now);
    }
    return sent / 200'000.0;
}

}  // namespace

BOOST_AUTO_TEST_CASE(follows_its_formula) {
    support::for_each_seed(1, 1'000, [](random_source& random) {
        adaptive_throttle_options const options{
            .ratio = static_cast<double>(random.between(2, 8)) / 2,
            .window = random.one_of<duration>({1s, 24s, 2min, 24h})};
        adaptive_throttle_rule rule(options);
        history words(options);
        time_point now(duration(random.between(-1'000'000'000'000, 1'000'000'000'000)));
        int in_progress = 0;
        for (int i = 0; i != 200; ++i) {
            if (random.one_in(8))
                now += duration(random.between(0, options.window.count() * 2));
            else
                now += duration(random.between(0, options.window.count() / 100));
            BOOST_TEST_REQUIRE(rule.stats(now).probability == words.probability(now));
            auto const drawn = static_cast<double>(random.between(0, 99)) / 100;
            bool const is_granted = rule.grant(drawn, now);
            BOOST_TEST_REQUIRE(is_granted == (drawn >= words.probability(now)));
            in_progress += is_granted ? 1 : 0;
            if (!is_granted)
                words.add_request(now);
            while (in_progress > 0 && random.one_in(2)) {
                --in_progress;
                auto const o =
                    random.one_of({outcome::success, outcome::dropped, outcome::ignored});
                rule.report(o, now);
                if (o != outcome::ignored)
                    words.add_request(now);
                if (o == outcome::success)
                    words.add_accepted(now);
            }
        }
    });
}

// A service gets about `ratio` times what it can serve, and everything while it can serve all.
BOOST_AUTO_TEST_CASE(sends_a_multiple_of_what_the_service_accepts) {
    BOOST_TEST(std::abs(sent_to(0.25, 2) - 0.5) < 0.02);
    BOOST_TEST(std::abs(sent_to(0.25, 1.1) - 0.275) < 0.02);
    BOOST_TEST(sent_to(1, 2) == 1);
    BOOST_TEST(sent_to(0.6, 2) > 0.99);  // it would accept a half of twice as many
    BOOST_TEST(sent_to(0, 2) > 0);       // so the throttle finds out when the service has recovered
}

// Requests without an outcome do not count, however long they take.
BOOST_AUTO_TEST_CASE(rejects_nothing_while_the_service_accepts_all) {
    adaptive_throttle_rule rule({});
    time_point now{1h};
    for (int i = 0; i != 60'000; ++i) {
        now += 1ms;
        BOOST_TEST_REQUIRE(rule.grant(0, now));
        if (i >= 10'000)  // after 10 s
            rule.report(i % 3 == 0 ? outcome::ignored : outcome::success, now);
    }
}

BOOST_AUTO_TEST_CASE(forgets_an_outage_after_the_window) {
    weir::basic_adaptive_throttle<weir::testing::clock> throttle({.window = 24s});
    int granted = 0;
    for (int i = 0; i != 1'000; ++i) {
        if (!throttle.try_enter())
            continue;
        throttle.report(outcome::dropped);
        ++granted;
    }
    BOOST_TEST(granted > 0);
    BOOST_TEST(granted < 100);
    auto const then = throttle.stats();
    BOOST_TEST(then.granted == static_cast<std::uint64_t>(granted));
    BOOST_TEST(then.rejected == 1'000U - then.granted);
    BOOST_TEST(then.probability > 0.99);
    weir::testing::clock::advance_to(weir::testing::clock::now() + 24s);
    BOOST_TEST(throttle.stats().probability == 0);
    BOOST_TEST(throttle.try_enter());
}

BOOST_AUTO_TEST_CASE(rejects_options_out_of_range) {
    BOOST_CHECK_EXCEPTION(
        adaptive_throttle_rule({.ratio = 0.5}), std::invalid_argument,
        says("weir::adaptive_throttle: ratio is 0.5, but must be from 1 to 1000"));
    BOOST_CHECK_EXCEPTION(
        adaptive_throttle_rule({.window = 999ms}), std::invalid_argument,
        says("weir::adaptive_throttle: window is 999ms, but must be from 1s to 24h"));
}

BOOST_AUTO_TEST_SUITE_END()
