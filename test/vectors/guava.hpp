#pragma once

#include "bench.hpp"

#include <fmt/format.h>

#include <cmath>
#include <stdexcept>

namespace vectors {

inline std::string guava_config(vector const& config) {
    if (says(config, "rate", "inf"))
        return "1000000000000000/1ns bursty";
    auto const rate = fmt::format("{}/1s", real(config, "rate"));
    if (!config.contains("warmup_us"))
        return rate + " bursty";
    return fmt::format("{} warming warm_up {}us cold_factor {}", rate, whole(config, "warmup_us"),
                       real(config, "cold_factor", 3));
}

// `acquire` waits, and returns how long; the time is the caller's.
inline void run_guava(vector const& v) {
    auto const& config = v.at("config").as_object();
    bench b(guava_config(config));
    for (auto const& each : ops_of(v)) {
        auto const& op = each.as_object();
        auto const kind = text(op, "op");
        auto const n = whole(op, "n", 1);
        if (kind == "sleep") {
            run_for(b.context, std::chrono::microseconds(whole(op, "us")));
        } else if (kind == "set_rate") {
            // A limiter whose rate was infinite is full afterwards.
            auto const* const then =
                says(config, "rate", "inf") ? " bursty initial forever carry_over reset"
                                            : " bursty";
            b.limiter.configure(
                limiter_config::parse(fmt::format("{}/1s{}", real(op, "rate"), then)));
        } else if (kind == "acquire") {
            auto const& caller = b.wait("caller", n);
            while (caller.waiting())
                weir::testing::run_until(b.context, weir::testing::next_expiry(b.context));
            // Guava counts whole microseconds.
            auto const off =
                caller.seat().waited() - std::chrono::microseconds(whole(op, "model_wait_us"));
            BOOST_TEST(std::chrono::abs(off) <= 1us);
            auto const seconds = std::chrono::duration<double>(caller.seat().waited()).count();
            BOOST_TEST(std::fabs(seconds - real(op, "expect_wait_s")) <= 0.0051);
        } else if (kind == "try_acquire") {
            auto const patience = std::chrono::microseconds(whole(op, "timeout_us"));
            auto const& caller = b.wait("caller", n, patience);
            while (caller.waiting())
                weir::testing::run_until(b.context, weir::testing::next_expiry(b.context));
            BOOST_TEST(caller.granted() == op.at("expect").as_bool());
        } else {
            BOOST_ERROR("unknown: " << kind);
        }
    }
}

// The arguments that Guava rejects are rejected here, too, except a request for 0 permits, which is granted.
inline void run_guava_nonsense(vector const& v) {
    bench b(guava_config(v.at("config").as_object()));
    for (auto const& each : ops_of(v)) {
        auto const& op = each.as_object();
        BOOST_TEST(says(op, "expect", "invalid_argument"));
        auto const kind = text(op, "op");
        if (op.contains("n") && whole(op, "n") == 0) {
            BOOST_TEST(!b.ask(0));
        } else if (op.contains("n")) {
            BOOST_CHECK_THROW((void)b.limiter.try_enter(whole(op, "n")), std::invalid_argument);
        } else if (op.contains("rate")) {
            auto const config = fmt::format("{}/1s bursty", real(op, "rate"));
            if (kind == "create")
                BOOST_CHECK_THROW(bench b2(config), std::invalid_argument);
            else
                BOOST_CHECK_THROW(b.limiter.configure(limiter_config::parse(config)),
                                  std::invalid_argument);
        } else {
            BOOST_CHECK_THROW(
                bench b2(fmt::format("1/1s warming warm_up {}ns", whole(op, "warmup_ns"))),
                std::invalid_argument);
        }
    }
}

}  // namespace vectors
