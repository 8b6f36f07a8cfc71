#pragma once

#include <weir/policy/adaptive.hpp>

#include "support/random.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <numbers>
#include <queue>
#include <tuple>
#include <vector>

namespace support {

/// How the service times of a simulated service vary. Each has the mean 1.
class variation {
public:
    static variation none() { return variation({1}); }
    /// A logarithmic normal distribution: `sigma` is the standard deviation of the logarithm.
    static variation lognormal(double sigma) {
        random_source random(1);
        std::vector<double> times(65'536);
        for (auto& t : times) {
            auto const chance = [&] {
                return (static_cast<double>(random.bits() >> 11) + 1) / 9007199254740992.;
            };
            auto const radius = std::sqrt(-2 * std::log(chance()));
            t = std::exp(sigma * radius * std::cos(2 * std::numbers::pi * chance()));
        }
        return variation(std::move(times));
    }
    /// A part of the requests takes much longer than the others.
    static variation mixture(double part, double short_time, double long_time) {
        std::vector<double> times(1'000, short_time);
        std::fill_n(times.begin(), static_cast<std::size_t>(part * 1'000), long_time);
        return variation(std::move(times));
    }

    [[nodiscard]] double draw(random_source& random) const noexcept {
        return times_[times_.size() == 1 ? 0 : random.bits() % times_.size()];
    }

private:
    explicit variation(std::vector<double> times) : times_(std::move(times)) {
        double sum = 0;
        for (auto const t : times_)
            sum += t;
        for (auto& t : times_)
            t *= static_cast<double>(times_.size()) / sum;
    }

    std::vector<double> times_;
};

/// A number of workers behind one queue.
struct service {
    weir::amount workers = 100;
    weir::duration own = std::chrono::milliseconds(20);  ///< the mean service time
    /// A request that finds more requests at the service is rejected after a millisecond.
    weir::amount most = std::numeric_limits<weir::amount>::max();
    bool stands_still = false;  ///< starts no request
};

/// The work of a simulated service in a time.
struct service_report {
    double latency = 0;  ///< of all served requests, at the service, in seconds
    double own = 0;      ///< the service times of these requests
    std::uint64_t served = 0;
    std::uint64_t rejected = 0;
    double busy = 0;      ///< seconds of all workers together
    double possible = 0;  ///< the most of it

    [[nodiscard]] double times_own() const noexcept { return own > 0 ? latency / own : 0; }
    [[nodiscard]] double throughput() const noexcept { return possible > 0 ? busy / possible : 0; }
};

/// Sources of requests, each with adaptive seats before it, and one service for all of them, in virtual time.
class service_simulation {
public:
    service_simulation(std::vector<weir::adaptive_options> const& sources, service const& s,
                       variation const& times, std::uint64_t seed)
        : service_(s), times_(times), random_(seed) {
        for (auto const& options : sources)
            sources_.emplace_back(options);
    }
    service_simulation(weir::adaptive_options const& options, service const& s,
                       variation const& times, std::uint64_t seed)
        : service_simulation(std::vector{options}, s, times, seed) {}

    [[nodiscard]] weir::policy::adaptive const& seats(std::size_t from = 0) const noexcept {
        return sources_[from].seats;
    }
    /// Replaces the seats of a source that has no request in progress.
    void use(weir::policy::adaptive const& seats, std::size_t from = 0) {
        sources_[from].seats = seats;
    }
    [[nodiscard]] std::uint64_t served_of(std::size_t from) const noexcept {
        return sources_[from].served;
    }
    [[nodiscard]] weir::time_point now() const noexcept { return now_; }

    /// The service, which may be changed between two calls of `run`.
    [[nodiscard]] service& behind() noexcept { return service_; }

    /// From now on `rate` requests per second arrive at each source; 0: always more than it has seats.
    void offer(double rate) {
        rate_ = rate;
        for (auto& s : sources_) {
            s.waiting = rate > 0 ? 0 : endless;
            s.next_arrival = now_ + pause();
        }
    }

    /// The next request of the source is a stream: it holds its seat, and perhaps a worker, for `d`.
    void add_stream(weir::duration d, bool holds_worker, std::size_t from = 0) {
        sources_[from].streams.push_back({d, holds_worker});
    }
    [[nodiscard]] std::size_t streams_in_progress() const noexcept { return streams_; }

    /// Runs for this time, and reports it.
    service_report run(weir::duration d) {
        report_ = {};
        report_.possible = seconds(d) * static_cast<double>(service_.workers);
        auto const end = now_ + d;
        for (auto& s : sources_)
            serve(s);
        start();
        for (;;) {
            auto next = events_.empty() ? weir::never : events_.top().at;
            source* who = nullptr;
            bool arrives = false;
            for (auto& s : sources_) {
                if (rate_ > 0 && s.next_arrival < next) {
                    next = s.next_arrival;
                    who = &s;
                    arrives = true;
                }
            }
            if (next - now_ > std::chrono::milliseconds(50)) {
                for (auto& s : sources_) {
                    auto const again = s.wants() ? s.seats.ask_again_at(1, now_) : weir::never;
                    if (again < next) {
                        next = again;
                        who = &s;
                        arrives = false;
                    }
                }
            }
            if (next >= end) {
                work_until(end);
                return report_;
            }
            work_until(next);
            if (!who) {
                who = &end_call();
            } else if (arrives) {
                ++who->waiting;
                who->next_arrival = now_ + pause();
            }
            serve(*who);
            start();
        }
    }

private:
    static constexpr auto endless = std::numeric_limits<std::uint64_t>::max();

    struct stream_call {
        weir::duration time;
        bool holds_worker;
    };
    struct source {
        explicit source(weir::adaptive_options const& o) : seats(o) {}
        [[nodiscard]] bool wants() const noexcept { return waiting != 0; }

        weir::policy::adaptive seats;
        std::uint64_t waiting = endless;
        weir::time_point next_arrival{};
        std::deque<stream_call> streams;
        std::uint64_t served = 0;
    };
    struct call {
        weir::ticket id = 0;
        weir::time_point arrived{};
        weir::duration time{};
        std::uint32_t from = 0;
        enum : std::uint8_t { request, rejected, stream, stream_with_worker } kind = request;
    };
    struct event {
        weir::time_point at;
        std::uint64_t number =
            0;  // events at one time happen in the order in which they were added
        call what;
        bool operator<(event const& other) const noexcept {
            return std::tie(at, number) > std::tie(other.at, other.number);
        }
    };

    [[nodiscard]] static double seconds(weir::duration d) noexcept {
        return std::chrono::duration<double>(d).count();
    }
    [[nodiscard]] double chance() {
        return (static_cast<double>(random_.bits() >> 11) + 1) / 9007199254740992.;
    }
    [[nodiscard]] weir::duration pause() {
        return rate_ == 0 ? weir::duration{}
                          : weir::duration(1) + weir::duration(static_cast<weir::duration::rep>(
                                                    -std::log(chance()) / rate_ * 1e9));
    }
    void add_event(weir::duration after, call const& what) {
        events_.push({now_ + after, ++events_so_far_, what});
    }
    void work_until(weir::time_point t) {
        report_.busy += static_cast<double>(std::min(busy_, service_.workers)) * seconds(t - now_);
        now_ = t;
    }

    void serve(source& s) {
        while (s.wants() && s.seats.ready_at(1, 0, now_) <= now_) {
            s.waiting -= rate_ > 0;
            call c{.id = s.seats.take(1, now_),
                   .arrived = now_,
                   .from = static_cast<std::uint32_t>(&s - sources_.data())};
            if (!s.streams.empty()) {
                auto const [time, holds] = s.streams.front();
                s.streams.pop_front();
                ++streams_;
                c.kind = holds ? call::stream_with_worker : call::stream;
                c.time = time;
                if (!holds) {
                    add_event(time, c);
                    continue;
                }
            } else if (at_service_ >= service_.most) {
                c.kind = call::rejected;
                add_event(std::chrono::milliseconds(1), c);
                continue;
            } else {
                auto const own = static_cast<double>(service_.own.count());
                c.time =
                    weir::duration(1) +
                    weir::duration(static_cast<weir::duration::rep>(times_.draw(random_) * own));
            }
            ++at_service_;
            queue_.push_back(c);
        }
    }
    void start() {
        while (busy_ < service_.workers && !queue_.empty() && !service_.stands_still) {
            ++busy_;
            add_event(queue_.front().time, queue_.front());
            queue_.pop_front();
        }
    }
    source& end_call() {
        auto const c = events_.top().what;
        events_.pop();
        auto& s = sources_[c.from];
        if (c.kind == call::request || c.kind == call::stream_with_worker) {
            --busy_;
            --at_service_;
        }
        if (c.kind == call::request) {
            ++report_.served;
            ++s.served;
            report_.latency += seconds(now_ - c.arrived);
            report_.own += seconds(c.time);
        } else if (c.kind == call::rejected) {
            ++report_.rejected;
        } else {
            --streams_;
        }
        auto const how = c.kind == call::rejected ? weir::outcome::dropped : weir::outcome::success;
        s.seats.leave(1, s.seats.report(c.id, how), now_);
        return s;
    }

    std::vector<source> sources_;
    service service_;
    variation times_;
    random_source random_;
    double rate_ = 0;
    weir::time_point now_{std::chrono::hours(1)};
    std::deque<call> queue_;
    std::priority_queue<event> events_;
    std::uint64_t events_so_far_ = 0;
    weir::amount busy_ = 0;
    weir::amount at_service_ = 0;
    std::size_t streams_ = 0;
    service_report report_;
};

}  // namespace support
