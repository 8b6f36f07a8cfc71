#pragma once

#include "bench.hpp"
#include "queues.hpp"

#include <boost/asio/co_spawn.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstddef>

namespace vectors {

// ---- Resilience4j: cycles that begin at whole multiples of their length.

inline void run_resilience4j(vector const& v) {
    auto const& config = v.at("config").as_object();
    auto const patience = duration(whole(config, "timeout_ns"));
    bench b(fmt::format("{}/{}ns fixed alignment epoch", whole(config, "permits_per_cycle"),
                        whole(config, "cycle_ns")));
    auto const start = std::chrono::ceil<std::chrono::seconds>(clock::now());
    int guests = 0;
    for (auto const& each : ops_of(v)) {
        auto const& op = each.as_object();
        run_until(b.context, start + duration(whole(op, "t_ns")));
        auto const now = clock::now();
        if (says(op, "op", "state")) {
            // A waiting request has not taken anything yet.
            BOOST_TEST(b.limiter.stats().remaining ==
                       std::max<amount>(whole(op, "expect_available"), 0));
            if (auto const wait = whole(op, "expect_nanos_to_wait"); wait != 0)
                BOOST_TEST(b.limiter.try_enter().retry_after() == duration(wait));
            continue;
        }
        auto const& guest = b.wait(std::to_string(guests++), whole(op, "n"), patience);
        if (says(op, "expect", "rejected"))
            BOOST_TEST(outcome(guest) == "rejected");
        else if (whole(op, "expect") == 0)
            BOOST_TEST(guest.granted());
        else
            BOOST_TEST(guest.waiting());
        BOOST_TEST(clock::now() == now);
    }
}

// ---- Leaky buckets.

inline void leaky_try_acquire(vector const& v) {
    auto const& config = v.at("config").as_object();
    bench b(fmt::format("{}/{}ms burst 10 initial {} refill interval", whole(config, "refill"),
                        whole(config, "interval_ms"), whole(config, "initial")));
    for (auto const& each : ops_of(v)) {
        auto const& op = each.as_object();
        if (says(op, "op", "sleep"))
            run_for(b.context, std::chrono::milliseconds(whole(op, "ms")));
        else
            BOOST_TEST(!b.ask(whole(op, "n")) == op.at("expect").as_bool());
    }
}

// The periods continue while no request arrives.
inline void leaky_idle(vector const& v) {
    auto const& config = v.at("config").as_object();
    bench b(
        fmt::format("{}/{}ms burst {} initial {} refill interval", whole(config, "refill"),
                    whole(config, "interval_ms"), whole(config, "max"), whole(config, "initial")));
    clock::time_point mark;
    for (auto const& each : ops_of(v)) {
        auto const& op = each.as_object();
        if (says(op, "op", "sleep")) {
            run_for(b.context, std::chrono::milliseconds(whole(op, "ms")));
        } else if (says(op, "op", "mark")) {
            mark = clock::now();
        } else if (says(op, "op", "acquire")) {
            for (auto times = whole(op, "times", 1); times != 0; --times) {
                auto const& guest = b.wait("caller", whole(op, "n"));
                while (guest.waiting())
                    run_until(b.context, weir::testing::next_expiry(b.context));
            }
        } else {
            BOOST_TEST(clock::now() - mark == std::chrono::milliseconds(whole(op, "expect_ms")));
        }
    }
}

// There, a request above the capacity of the bucket would block the requests behind it until it is cancelled. Here it
// is rejected immediately, and blocks no request.
inline void leaky_big_head(vector const& v) {
    auto const& config = v.at("config").as_object();
    bench b(
        fmt::format("{}/{}ms burst {} initial {} refill interval", whole(config, "refill"),
                    whole(config, "interval_ms"), whole(config, "max"), whole(config, "initial")));
    BOOST_TEST(b.wait("big", 10'000).rejected(errc::exceeds_capacity));
    for (int i = 0; i != 10; ++i)
        b.wait(std::to_string(i), 10);
    run_for(b.context, 500ms);
    for (int i = 0; i != 10; ++i)
        BOOST_TEST(b.guest(std::to_string(i)).granted());
}

// Workers that take permits repeatedly, and are counted.
class uber {
public:
    uber(std::string const& fast, std::string const& slow = "1/1s")
        : fast_(context_, limiter_config::parse(fast)),
          slow_(context_, limiter_config::parse(slow)) {}

    void start(std::int64_t workers, bool chained = false) {
        for (; workers != 0; --workers)
            co_spawn(context_, work(chained), rethrow);
    }

    /// Runs until just before that time.
    [[nodiscard]] int count_before(double seconds) {
        run_until(context_, at(start_, seconds, 1s) - 1ns);
        return count_;
    }
    [[nodiscard]] int count_at(double seconds) {
        run_until(context_, at(start_, seconds, 1s));
        return count_;
    }

private:
    asio::awaitable<void> work(bool chained) {
        for (;;) {
            if (chained)
                auto const token = co_await slow_.enter();
            auto const token = co_await fast_.enter();
            ++count_;
        }
    }

    asio::io_context context_;
    any_limiter fast_;
    any_limiter slow_;
    clock::time_point start_ = clock::now();
    int count_ = 0;
};

inline void run_uber(vector const& v) {
    auto const& config = v.at("config").as_object();
    bench b(fmt::format("{}/1s leaky", whole(config, "rate")));
    auto const start = clock::now();
    int guests = 0;
    for (auto const& each : ops_of(v)) {
        auto const& op = each.as_object();
        run_until(b.context, start + duration(whole(op, "at_ns")));
        b.wait(std::to_string(guests++), 1);
    }
    run_for(b.context, 1s);
    for (int i = 0; i != guests; ++i)
        BOOST_TEST(b.guest(std::to_string(i)).at() ==
                   start + duration(whole(ops_of(v)[static_cast<std::size_t>(i)].as_object(),
                                          "expect_return_ns")));
}

// A grant at the end of a period may count or not: with uber's interval, which is truncated, it is before the end;
// here it is exactly at the end.
inline void run_uber_count(vector const& v) {
    auto const& config = v.at("config").as_object();
    bool const truncated = config.contains("per_s");
    uber u(fmt::format("{}/{}s leaky", whole(config, "rate"), whole(config, "per_s", 1)));
    for (auto const& each : ops_of(v)) {
        auto const& op = each.as_object();
        if (says(op, "op", "loop"))
            u.start(whole(op, "workers"));
        else if (truncated)
            BOOST_TEST(u.count_at(real(op, "t_s")) == whole(op, "expect"));
        else
            BOOST_TEST(u.count_before(real(op, "t_s")) == whole(op, "expect"));
    }
}

// Slack is a burst: this number of permits that were not taken in time may be taken later.
inline void run_uber_chained(vector const& v) {
    auto const& config = v.at("config").as_object();
    auto const per =
        std::chrono::round<duration>(std::chrono::duration<double>(real(config, "fast_per_s", 1)));
    auto const rate = fmt::format("{}/{}ns", whole(config, "fast"), per.count());
    auto const slack = whole(config, "fast_slack");
    uber u(slack == 0 ? rate + " leaky" : fmt::format("{} burst {}", rate, slack + 1),
           fmt::format("{}/1s leaky", whole(config, "slow")));
    u.start(1, true);
    // The steps are not in order of time.
    auto const& ops = ops_of(v);
    auto const& joined = ops[1].as_object();
    auto const workers = text(joined, "do") == "start 4 workers taking fast only" ? 4 : 2;
    bool started = false;
    for (std::size_t i = 2; i != ops.size(); ++i) {
        auto const& op = ops[i].as_object();
        if (!started && real(op, "t_s") > real(joined, "t_s")) {
            (void)u.count_at(real(joined, "t_s"));
            u.start(workers);
            started = true;
        }
        BOOST_TEST(u.count_before(real(op, "t_s")) == whole(op, "expect"));
    }
}

}  // namespace vectors
