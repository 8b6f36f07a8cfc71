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
#include <cstddef>
#include <functional>
#include <memory>
#include <queue>
#include <stdexcept>
#include <utility>
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

BOOST_AUTO_TEST_SUITE(adaptive_rates)

namespace {

constexpr time_point noon{12h};

void end_call(adaptive_rate& rate, outcome o, time_point now) {
    rate.leave(1, rate.report(rate.take(1, now), o), now);
}

// The rate by the words of the class, from the list of all releases.
class history {
public:
    explicit history(adaptive_rate_options const& options) : options_(options) {}

    void end_call(outcome o, time_point granted, time_point now) {
        if (o == outcome::ignored)
            return;
        releases_.push_back(now);
        auto const sent = measured(now);
        if (o == outcome::dropped) {
            if (has_rate_ && granted < fell_)  // it was in progress at the latest fall
                return;
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

// `clients` clients make `offered` calls per second to a service that accepts 100 per second, in bursts of up to 10. A call
// takes `latency`, and is not made if it must wait for longer than a second. Returns the calls per second that reach the
// service, and the accepted calls per second, in the last two of three minutes.
struct traffic {
    double reached = 0;
    double accepted = 0;
};
traffic calls_per_second(std::size_t number_of_clients, int offered, duration latency) {
    struct event {
        time_point at;
        std::size_t client;
        time_point deadline;  // of a call that waits
        ticket granted = 0;   // of a call that was made
        bool is_made = false;
        bool is_accepted = false;
        bool operator>(event const& other) const { return at > other.at; }
    };
    random_source random(3);
    std::vector<std::unique_ptr<adaptive_rate>> clients(number_of_clients);
    for (auto& c : clients) {
        c = std::make_unique<adaptive_rate>(adaptive_rate_options{});
        c->begin(noon);
    }
    std::priority_queue<event, std::vector<event>, std::greater<>> next;
    constexpr int seconds = 180;
    for (int i = 0; i != offered * seconds; ++i) {
        auto const at = noon + std::chrono::microseconds(random.between(0, seconds * 1'000'000));
        next.push({at, random.index_in(clients), at + 1s});
    }
    traffic found;
    double room = 10;
    auto before = noon;
    while (!next.empty()) {
        auto e = next.top();
        next.pop();
        auto& client = *clients[e.client];
        if (e.is_made) {
            client.leave(
                1, client.report(e.granted, e.is_accepted ? outcome::success : outcome::dropped),
                e.at);
            continue;
        }
        auto const ready = client.ready_at(1, 0, e.at);
        if (ready > e.deadline)
            continue;
        if (ready > e.at) {
            e.at = ready;
            next.push(e);
            continue;
        }
        e.granted = client.take(1, e.at);
        e.is_made = true;
        room = std::min(room + std::chrono::duration<double>(e.at - before).count() * 100, 10.0);
        before = e.at;
        e.is_accepted = room >= 1;
        room -= e.is_accepted ? 1 : 0;
        if (e.at >= noon + 60s) {
            found.reached += 1.0 / 120;
            found.accepted += e.is_accepted ? 1.0 / 120 : 0;
        }
        e.at += latency;
        next.push(e);
    }
    return found;
}

}  // namespace

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
        std::vector<std::pair<ticket, time_point>> calls;
        for (int i = 0; i != 200; ++i) {
            now += random.one_of<duration>({0s, 10ms, 20ms, 100ms, 499ms, 500ms, 2s});
            auto const o = random.one_in(10)  ? outcome::dropped
                           : random.one_in(9) ? outcome::ignored
                                              : outcome::success;
            calls.emplace_back(rate.take(1, now), now);
            if (random.one_in(3))
                continue;
            auto const ends = calls.begin() + static_cast<std::ptrdiff_t>(random.index_in(calls));
            rate.leave(1, rate.report(ends->first, o), now);
            words.end_call(o, ends->second, now);
            calls.erase(ends);
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
    auto const success = rate.report(t, outcome::success);
    auto const dropped = rate.report(t, outcome::dropped);
    auto const ignored = rate.report(t, outcome::ignored);
    BOOST_TEST(rate.merge(success, dropped, 1) == dropped);
    BOOST_TEST(rate.merge(dropped, ignored, 1) == dropped);
    BOOST_TEST(rate.merge(ignored, success, 1) == success);
    BOOST_TEST(rate.merge(ignored, ignored, 1) == ignored);
    BOOST_TEST(rate.merge(ignored, rate.take(1, noon + 1s), 1) == ignored);  // as `settle` does
}

// The figures are in src/docs/how-to/retries.md.
BOOST_AUTO_TEST_CASE(find_the_rate_of_a_service) {
    for (auto const clients : {std::size_t{1}, std::size_t{20}}) {
        for (duration const latency : {1ms, 100ms, 500ms}) {
            for (int const offered : {200, 800}) {
                auto const [reached, accepted] = calls_per_second(clients, offered, latency);
                BOOST_TEST_MESSAGE(clients
                                   << " clients, " << latency / 1ms << " ms, " << offered
                                   << " calls per second: " << reached << " reach the service, "
                                   << accepted << " are accepted");
                BOOST_TEST(reached < 115);
                BOOST_TEST(accepted > 95);
            }
        }
    }
}

BOOST_AUTO_TEST_CASE(fall_once_for_the_requests_in_progress) {
    adaptive_rate rate({});
    rate.begin(noon);
    std::vector<ticket> calls;
    for (int i = 0; i != 1'000; ++i) {
        if (i % 100 == 0)
            calls.push_back(rate.take(1, noon + i * 10ms));
        end_call(rate, outcome::success, noon + i * 10ms);
    }
    auto const now = noon + 10s;
    for (auto const t : calls)
        rate.leave(1, rate.report(t, outcome::dropped), now + 1ms);
    BOOST_TEST(rate.per_second() > 60);
}

BOOST_AUTO_TEST_CASE(refund_only_what_was_taken) {
    adaptive_rate rate({});
    rate.begin(noon);
    auto const free = rate.take(1'000, noon);
    end_call(rate, outcome::dropped, noon + 1s);
    rate.refund(1'000, free, noon + 1s);
    BOOST_TEST(rate.remaining(noon + 1s) == 0);
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
