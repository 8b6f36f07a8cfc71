#pragma once

#include <weir/policy/seat_algorithms.hpp>

#include "bench.hpp"

namespace vectors {

// ---- Algorithms that adapt a number of seats.

// As in those libraries: without slow start.
template <class Algorithm>
void run_samples(vector const& v, Algorithm algorithm) {
    for (auto const& each : ops_of(v)) {
        auto const& op = each.as_object();
        algorithm.update({.latency = std::chrono::milliseconds(whole(op, "rtt_ms")),
                          .in_flight = whole(op, "inflight"),
                          .dropped = op.at("drop").as_bool()});
        BOOST_TEST(algorithm.seats() == whole(op, "expect_limit"));
    }
}

inline void run_aimd(vector const& v) {
    auto const& config = v.at("config").as_object();
    run_samples(v, weir::policy::aimd({.seats = whole(config, "initial"),
                                       .min = whole(config, "min"),
                                       .max = whole(config, "max"),
                                       .slow_start = 0,
                                       .backoff = real(config, "backoff")}));
}

inline void run_vegas(vector const& v) {
    auto const& config = v.at("config").as_object();
    run_samples(v, weir::policy::vegas({.seats = whole(config, "initial"),
                                        .max = whole(config, "max"),
                                        .slow_start = 0,
                                        .backoff = says(config, "decrease", "half") ? 0.5 : 1}));
}

inline void run_mean(vector const& v) {
    auto const& config = v.at("config").as_object();
    weir::policy::exponential_mean mean(whole(config, "window"), whole(config, "warmup"));
    for (auto const& each : ops_of(v)) {
        auto const& op = each.as_object();
        auto const value = mean.add(real(op, "x"));
        auto const expected = op.contains("model") ? real(op, "model") : real(op, "expect");
        BOOST_TEST(value == expected, boost::test_tools::tolerance(1e-12));
    }
}

}  // namespace vectors
