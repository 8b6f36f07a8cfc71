// Adaptive seats in front of a simulated service, in virtual time, with the policy alone. The docstring of
// `policy::adaptive` quotes the numbers; a failure names the seed.

#include <weir/policy/adaptive.hpp>

#include "support/printing.hpp"
#include "support/random.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <queue>
#include <string>
#include <variant>
#include <vector>

using namespace std::chrono_literals;
using support::random_source;
using weir::amount;
using weir::duration;
using weir::outcome;
using weir::ticket;
using weir::time_point;
using weir::policy::adaptive;

BOOST_AUTO_TEST_SUITE(adaptive_seats_before_a_service)

namespace {

// A number of workers behind one queue. Service times have an Erlang distribution: they vary by 1 / sqrt(shape). A
// request that finds the queue full is rejected after a millisecond.
struct service {
    amount workers = 100;
    duration mean = 100ms;
    int shape = 16;
    amount queue = std::numeric_limits<amount>::max();
};

// A source of requests, at random times or always more than the service can handle; seats; and a service.
class simulation {
public:
    simulation(weir::adaptive_options const& options, service const& s, std::uint64_t seed)
        : seats_(options), service_(s), random_(seed) {}

    [[nodiscard]] service& behind() noexcept { return service_; }
    [[nodiscard]] amount seats() const noexcept { return seats_.seats(); }
    [[nodiscard]] std::uint64_t served() const noexcept { return served_; }

    /// From now on `rate` requests per second arrive, or always more than there are seats if it is 0.
    void offer(double rate) {
        rate_ = rate;
        waiting_ = 0;
        next_arrival_ = now_ + pause();
    }

    void run(duration d) {
        for (auto const end = now_ + d;;) {
            serve();
            auto next = returns_.empty() ? end : std::min(end, returns_.top().at);
            bool const arrives = rate_ > 0 && next_arrival_ < next;
            now_ = arrives ? next_arrival_ : next;
            if (now_ == end)
                return;
            if (arrives) {
                ++waiting_;
                next_arrival_ = now_ + pause();
            } else {
                come_back();
            }
        }
    }

private:
    struct event {
        time_point at;
        ticket id;
        bool dropped;
        bool operator<(event const& other) const noexcept { return at > other.at; }
    };

    // Above 0 and up to 1.
    [[nodiscard]] double chance() {
        return static_cast<double>((random_.bits() >> 11) + 1) / 9007199254740992.;
    }
    [[nodiscard]] duration pause() {
        return 1ns + duration(static_cast<duration::rep>(-std::log(chance()) / rate_ * 1e9));
    }
    [[nodiscard]] duration work() {
        double sum = 0;
        for (int i = 0; i != service_.shape; ++i)
            sum -= std::log(chance());
        auto const mean = static_cast<double>(service_.mean.count());
        return 1ns + duration(static_cast<duration::rep>(sum / service_.shape * mean));
    }

    void serve() {
        while ((rate_ == 0 || waiting_ > 0) && seats_.ready_at(1, 0, now_) <= now_) {
            waiting_ -= rate_ > 0;
            auto const t = seats_.take(1, now_);
            if (busy_ >= service_.workers && std::ssize(queue_) >= service_.queue)
                returns_.push({now_ + 1ms, t, true});
            else
                queue_.push_back(t);
            start();
        }
        start();
    }
    void start() {
        while (busy_ < service_.workers && !queue_.empty()) {
            ++busy_;
            returns_.push({now_ + work(), queue_.front(), false});
            queue_.pop_front();
        }
    }
    void come_back() {
        auto const e = returns_.top();
        returns_.pop();
        busy_ -= !e.dropped;
        served_ += !e.dropped;
        seats_.leave(1, e.dropped ? seats_.report(e.id, outcome::dropped) : e.id, now_);
    }

    adaptive seats_;
    service service_;
    random_source random_;
    double rate_ = 0;
    time_point now_{1h};
    time_point next_arrival_{};
    amount waiting_ = 0;
    std::deque<ticket> queue_;
    std::priority_queue<event> returns_;
    amount busy_ = 0;
    std::uint64_t served_ = 0;
};

// The median of the number, and the requests served per second.
struct view {
    amount median;
    double served;
};

view watch(simulation& s, duration d) {
    std::vector<amount> seen;
    auto const before = s.served();
    for (duration passed{}; passed < d; passed += 20ms) {
        s.run(20ms);
        seen.push_back(s.seats());
    }
    std::ranges::nth_element(seen, seen.begin() + std::ssize(seen) / 2);
    return {seen[seen.size() / 2],
            static_cast<double>(s.served() - before) / std::chrono::duration<double>(d).count()};
}

struct contender {
    std::string name;
    weir::adaptive_options options;
    duration converges;  // from 20 seats to 100
    duration follows;    // after the service becomes half as fast
    double served;       // the least share of the throughput at the best number
    service behind = {};
};

std::vector<contender> const contenders{
    {"aimd", weir::aimd_options{}, 5s, 5s, 0.97, {.queue = 5}},
    {"vegas", weir::vegas_options{}, 10s, 60s, 0.93},
    {"gradient2", weir::gradient2_options{.tolerance = 1.1}, 10s, 30s, 0.97},
};

template <class Body>
void for_each_contender(Body body) {
    for (auto const& c : contenders) {
        BOOST_TEST_CONTEXT(c.name) {
            support::for_each_seed(1, 5, [&](random_source& random) { body(c, random.bits()); });
        }
    }
}

void is_within(amount number, amount best, int percent) {
    BOOST_TEST(number * 100 >= best * (100 - percent));
    BOOST_TEST(number * 100 <= best * (100 + percent));
}

}  // namespace

BOOST_AUTO_TEST_CASE(come_within_15_percent_of_the_best_number) {
    for_each_contender([](contender const& c, std::uint64_t seed) {
        simulation s(c.options, c.behind, seed);
        s.run(c.converges);
        auto const seen = watch(s, 1min);
        is_within(seen.median, 100, 15);
        BOOST_TEST(seen.served >= 1'000 * c.served);
    });
}

// The queue of gradient2, a tenth and four more, is more than 15 % of a small number.
BOOST_AUTO_TEST_CASE(come_as_near_with_smaller_larger_faster_and_slower_services) {
    struct kind {
        int workers;
        duration mean;
    };
    for (auto const& [workers, mean] :
         {kind{50, 100ms}, kind{150, 100ms}, kind{150, 20ms}, kind{50, 500ms}}) {
        for_each_contender([&](contender const& c, std::uint64_t seed) {
            auto behind = c.behind;
            behind.workers = workers;
            behind.mean = mean;
            simulation s(c.options, behind, seed);
            s.run(c.converges);
            bool const queues = c.name == "gradient2";
            is_within(watch(s, 1min).median, workers,
                      queues ? std::max(15, 10 + 4 * 100 / workers) : 15);
        });
    }
}

BOOST_AUTO_TEST_CASE(follow_when_the_service_becomes_half_as_fast) {
    for_each_contender([](contender const& c, std::uint64_t seed) {
        simulation s(c.options, c.behind, seed);
        s.run(1min);
        s.behind().mean *= 2;
        s.run(c.follows);
        auto const seen = watch(s, 1min);
        is_within(seen.median, 100, 15);
        BOOST_TEST(seen.served >= 500 * c.served);
    });
}

// The minimum queue is a larger part of a small number.
BOOST_AUTO_TEST_CASE(follow_when_half_of_the_workers_stop) {
    for_each_contender([](contender const& c, std::uint64_t seed) {
        simulation s(c.options, c.behind, seed);
        s.run(1min);
        s.behind().workers /= 2;
        s.run(1min);
        auto const seen = watch(s, 1min);
        is_within(seen.median, 50, 20);
        BOOST_TEST(seen.served >= 450);
    });
}

BOOST_AUTO_TEST_CASE(do_not_creep_under_lasting_overload) {
    for_each_contender([](contender const& c, std::uint64_t seed) {
        simulation s(c.options, c.behind, seed);
        s.run(1min);
        auto const first = watch(s, 5min);
        s.run(50min);
        auto const last = watch(s, 5min);
        is_within(last.median, first.median, 5);
        is_within(last.median, 100, 15);
    });
}

BOOST_AUTO_TEST_CASE(come_from_above_as_well) {
    auto const start_high = [](weir::adaptive_options o) {
        std::visit([](auto& each) { each.seats = 200; }, o);
        return o;
    };
    for_each_contender([&](contender const& c, std::uint64_t seed) {
        simulation s(start_high(c.options), c.behind, seed);
        s.run(1min);
        is_within(watch(s, 1min).median, 100, 15);
    });
}

BOOST_AUTO_TEST_CASE(keep_their_number_while_they_are_not_needed) {
    for_each_contender([](contender const& c, std::uint64_t seed) {
        simulation s(c.options, c.behind, seed);
        s.offer(20);  // 2 concurrent requests
        s.run(10min);
        BOOST_TEST(s.seats() <= 40);
        auto const seen = watch(s, 1min);
        BOOST_TEST(seen.served >= 15);

        s.offer(700);  // 70 concurrent requests
        s.run(1min);
        BOOST_TEST(watch(s, 1min).served >= 650);

        s.offer(2'000);
        s.run(c.follows);
        is_within(watch(s, 1min).median, 100, 15);
    });
}

// Without rejections the algorithm depends on the latency alone.
BOOST_AUTO_TEST_CASE(of_aimd_use_the_timeout_if_nothing_is_dropped) {
    support::for_each_seed(1, 5, [](random_source& random) {
        simulation s(weir::aimd_options{.timeout = 112ms}, {}, random.bits());
        s.run(10s);
        is_within(watch(s, 1min).median, 100, 15);
    });
}

// With 1.1 times the no-load latency as with 1.5 times.
BOOST_AUTO_TEST_CASE(of_gradient2_settle_at_the_tolerance) {
    support::for_each_seed(1, 5, [](random_source& random) {
        simulation s(weir::gradient2_options{}, {}, random.bits());
        s.run(2min);
        is_within(watch(s, 1min).median, 150, 10);
    });
}

BOOST_AUTO_TEST_SUITE_END()
