#include <weir/adaptive_rate.hpp>
#include <weir/policy/adaptive_rate.hpp>

#include "support/printing.hpp"
#include "support/random.hpp"
#include "support/says.hpp"
#include "support/virtual_limiters.hpp"
#include "support/visit.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <vector>

using namespace std::chrono_literals;
using support::random_source;
using support::says;
using weir::adaptive_rate_options;
using weir::amount;
using weir::duration;
using weir::outcome;
using weir::ticket;
using weir::time_point;
using weir::policy::adaptive_rate;

namespace {

constexpr time_point noon{12h};

void end_call(adaptive_rate& rate, outcome o, time_point now) {
    rate.leave(1, rate.report(rate.take(1, now), o), now);
}

// The rate by the words of the class, from the list of all releases.
class history {
public:
    explicit history(adaptive_rate_options const& options) : options_(options) {}

    void end_call(outcome o, time_point now) {
        if (o == outcome::ignored)
            return;
        releases_.push_back(now);
        auto const sent = measured(now);
        if (o == outcome::dropped) {
            before_fall_ = has_rate_ ? std::min(sent, rate_) : sent;
            has_rate_ = true;
            fell_ = now;
            rate_ = clamped(options_.decrease * before_fall_);
        } else if (has_rate_) {
            auto const t = std::chrono::duration<double>(now - fell_).count();
            auto const k = std::cbrt((1 - options_.decrease) * before_fall_ / options_.growth);
            auto const d = t - k;
            rate_ = clamped(std::min(options_.growth * d * d * d + before_fall_, 2 * sent));
        }
    }
    [[nodiscard]] bool has_rate() const { return has_rate_; }
    [[nodiscard]] double rate() const { return rate_; }

private:
    [[nodiscard]] double clamped(double rate) const {
        return std::clamp(rate, options_.least, options_.most);
    }
    // Slots of half a second; a slot ends with the first release after it, which is still counted in it.
    [[nodiscard]] double measured(time_point now) const {
        double mean = 0;
        double count = 0;
        auto begin = noon;
        for (auto const at : releases_) {
            ++count;
            auto const slot = noon + (at - noon) / 500ms * 500ms;
            if (at > now || slot == begin)
                continue;
            mean = 0.2 * mean + 0.8 * count / std::chrono::duration<double>(slot - begin).count();
            begin = slot;
            count = 0;
        }
        return mean;
    }

    adaptive_rate_options options_;
    std::vector<time_point> releases_;
    bool has_rate_ = false;
    double rate_ = 0;
    double before_fall_ = 0;
    time_point fell_{};
};

// 20 clients make `offered` calls per second to a service that accepts 100 per second. Returns the calls per second that
// reach the service, and the calls per second that it accepts, in the last two of three minutes. A call that must wait for longer than a
// second is not made.
std::pair<double, double> calls_per_second(int offered) {
    random_source random(3);
    std::vector<std::unique_ptr<adaptive_rate>> clients(20);
    for (auto& c : clients) {
        c = std::make_unique<adaptive_rate>(adaptive_rate_options{});
        c->begin(noon);
    }
    constexpr int seconds = 180;
    std::vector<std::int64_t> calls(static_cast<std::size_t>(offered * seconds));
    for (auto& at : calls)
        at = random.between(0, seconds * 1'000'000);
    std::ranges::sort(calls);
    double room = 100;
    std::int64_t before = 0;
    int reached = 0;
    int accepted = 0;
    for (auto const at : calls) {
        auto const now = noon + std::chrono::microseconds(at);
        auto& client = *clients[random.index_in(clients)];
        if (client.ready_at(1, 0, now) > now + 1s)
            continue;
        room = std::min(room + static_cast<double>(at - before) * 1e-4, 10.0);
        before = at;
        bool const is_accepted = room >= 1;
        room -= is_accepted ? 1 : 0;
        end_call(client, is_accepted ? outcome::success : outcome::dropped, now);
        if (at >= 60'000'000) {
            ++reached;
            accepted += is_accepted ? 1 : 0;
        }
    }
    return {reached / 120.0, accepted / 120.0};
}

}  // namespace

BOOST_AUTO_TEST_SUITE(adaptive_rates)

BOOST_AUTO_TEST_CASE(follow_their_words) {
    support::for_each_seed(1, 500, [](random_source& random) {
        adaptive_rate_options const options{
            .least = static_cast<double>(random.between(1, 5)),
            .most = static_cast<double>(random.between(5, 200)),
            .decrease = static_cast<double>(random.between(1, 9)) / 10,
            .growth = static_cast<double>(random.between(1, 10)) / 10};
        adaptive_rate rate(options);
        history words(options);
        auto now = noon;
        rate.begin(now);
        for (int i = 0; i != 200; ++i) {
            now += random.one_of<duration>({0s, 10ms, 20ms, 100ms, 499ms, 500ms, 2s});
            auto const o = random.one_in(10)  ? outcome::dropped
                           : random.one_in(9) ? outcome::ignored
                                              : outcome::success;
            end_call(rate, o, now);
            words.end_call(o, now);
            BOOST_TEST_REQUIRE(rate.has_rate() == words.has_rate());
            if (words.has_rate())
                BOOST_TEST_REQUIRE(
                    std::abs(rate.per_second() - words.rate()) <= 1e-9 * words.rate());
        }
    });
}

BOOST_AUTO_TEST_CASE(have_no_limit_before_a_rejection) {
    adaptive_rate rate({});
    rate.begin(noon);
    BOOST_TEST(rate.remaining(noon) == weir::max_amount);
    BOOST_TEST(rate.ready_at(weir::max_amount, 0, noon) == noon);
    for (int i = 0; i != 1'000; ++i)
        end_call(rate, outcome::success, noon + i * 10ms);
    BOOST_TEST(!rate.has_rate());
    auto const now = noon + 10s;
    end_call(rate, outcome::dropped, now);
    BOOST_TEST(std::abs(rate.per_second() - 70) < 1);
    BOOST_TEST(rate.remaining(now) == 0);
    BOOST_TEST((rate.ready_at(7, 0, now) > now + 90ms));
    BOOST_TEST((rate.ready_at(7, 0, now) < now + 110ms));
    // A second's permits, and never more at once; a larger request waits for all of them.
    BOOST_TEST(rate.remaining(now + 1h) == 70);
    BOOST_TEST(rate.ready_at(500, 0, now + 1h) == now + 1h);
    rate.take(500, now + 1h);
    BOOST_TEST(rate.debt(now + 1h) == 430);
}

BOOST_AUTO_TEST_CASE(keep_the_rate_when_options_change) {
    adaptive_rate rate({});
    rate.begin(noon);
    for (int i = 0; i != 1'000; ++i)
        end_call(rate, outcome::success, noon + i * 10ms);
    end_call(rate, outcome::dropped, noon + 10s);
    adaptive_rate next({.most = 50});
    next.take_over(rate, noon + 10s);
    BOOST_TEST(next.per_second() == 50);
}

BOOST_AUTO_TEST_CASE(merge_outcomes) {
    adaptive_rate rate({});
    auto const t = rate.take(1, noon);
    auto const dropped = rate.report(t, outcome::dropped);
    auto const ignored = rate.report(t, outcome::ignored);
    BOOST_TEST(rate.merge(t, dropped, 1) == dropped);
    BOOST_TEST(rate.merge(dropped, ignored, 1) == dropped);
    BOOST_TEST(rate.merge(ignored, t, 1) == t);
    BOOST_TEST(rate.merge(ignored, ignored, 1) == ignored);
}

// The figures are in src/docs/how-to/retries.md.
BOOST_AUTO_TEST_CASE(find_the_rate_of_a_service) {
    for (int const offered : {200, 800}) {
        auto const [reached, accepted] = calls_per_second(offered);
        BOOST_TEST_MESSAGE(offered << " calls per second: " << reached << " reach the service, "
                                   << accepted << " are accepted");
        BOOST_TEST(reached < 125);
        BOOST_TEST(accepted > 80);
    }
}

BOOST_AUTO_TEST_CASE(let_requests_wait) {
    using namespace support;
    asio::io_context ctx;
    weir::testing::limiter<weir::adaptive_rate> calls{ctx};
    for (int i = 0; i != 100; ++i) {
        auto call = calls.try_enter();
        run_for(ctx, 100ms);
        if (i == 99)
            call.report(outcome::dropped);
    }
    visit one{calls};
    settle(ctx);
    BOOST_TEST(one.waiting());
    run_for(ctx, 150ms);  // 7 per second
    BOOST_TEST(one.granted());
}

BOOST_AUTO_TEST_CASE(reject_options_that_are_out_of_range) {
    BOOST_CHECK_EXCEPTION(
        adaptive_rate({.most = 0.1}), std::invalid_argument,
        says("weir::adaptive_rate: most is 0.1, but must be from 0.5 to 1000000"));
    BOOST_CHECK_EXCEPTION(
        adaptive_rate({.decrease = 1}), std::invalid_argument,
        says("weir::adaptive_rate: decrease is 1, but must be from 0.01 to 0.99"));
}

BOOST_AUTO_TEST_SUITE_END()
