#pragma once

#include "bench.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <optional>

namespace vectors {

inline void run_governor(vector const& v) {
    auto const& config = v.at("config").as_object();
    bench b(fmt::format("1/{}ns burst {}", whole(config, "replenish_1_per_ns"),
                        whole(config, "max_burst")));
    for (auto const& each : ops_of(v)) {
        auto const& op = each.as_object();
        if (says(op, "op", "advance")) {
            run_for(b.context, duration(whole(op, "ns")));
            continue;
        }
        weir::error_code ec;
        auto const answer = b.limiter.try_enter(whole(op, "n", 1), ec);
        if (says(op, "expect", "ok"))
            BOOST_TEST(!ec);
        else if (says(op, "expect", "not_until"))
            BOOST_TEST(answer.retry_after() == duration(whole(op, "model_wait_ns")));
        else
            BOOST_TEST(ec == errc::exceeds_capacity);
        if (op.contains("expect_remaining"))
            BOOST_TEST(answer.remaining() == whole(op, "expect_remaining"));
        if (op.contains("expect_capacity"))
            BOOST_TEST(!b.limiter.try_enter(whole(op, "expect_capacity") + 1, ec));
    }
}

inline void run_governor_wait_time(vector const& v) {
    auto const& config = v.at("config").as_object();
    bench b(fmt::format("1/{}ns burst {}", whole(config, "replenish_1_per_ns"),
                        whole(config, "max_burst")));
    int conforming = 0;
    for (int i = 0; i != 20; ++i) {
        run_for(b.context, 1ms);
        auto const rejected = b.limiter.try_enter();
        if (!rejected)
            run_for(b.context, *rejected.retry_after());
        conforming += rejected || b.limiter.try_enter();
    }
    BOOST_TEST(conforming == whole(ops_of(v)[0].as_object(), "expect_conforming"));
}

inline void run_redis_cell(vector const& v) {
    auto const& config = v.at("config").as_object();
    auto const limit = whole(config, "limit");
    bench b(fmt::format("1/{}ms burst {}", whole(config, "emission_interval_ms"), limit));
    auto const start = clock::now();
    for (auto const& each : ops_of(v)) {
        auto const& op = each.as_object();
        run_until(b.context, start + std::chrono::milliseconds(whole(op, "t_ms")));
        auto const answer = b.limiter.try_enter(whole(op, "n"));
        BOOST_TEST(!answer == op.at("expect_limited").as_bool());
        BOOST_TEST(b.limiter.stats().remaining == whole(op, "expect_remaining"));
        if (op.at("expect_retry_after_ms").is_null())
            BOOST_TEST(!answer.retry_after().has_value());
        else
            BOOST_TEST(answer.retry_after() ==
                       std::chrono::milliseconds(whole(op, "expect_retry_after_ms")));
        // The instant at which all permits would be available again.
        if (auto const reset = std::chrono::milliseconds(whole(op, "expect_reset_after_ms"));
            reset != 0ms)
            BOOST_TEST(b.limiter.try_enter(limit).retry_after() == reset);
    }
}

inline std::string go_config(double rate, std::int64_t burst) {
    // The slowest rate that can be written is one in 292 years.
    if (rate > 0 && rate < 1e-9)
        return fmt::format("1/forever burst {}", burst);
    return fmt::format("{}/1s burst {}", rate, burst);
}

// The expectation for weir, if it differs, by the number of the operation: when a reservation is served, or whether a
// request is granted.
using corrections = std::map<std::size_t, std::optional<double>>;

// A reservation is a waiting request. A cancellation removes it from the queue, so the requests behind it move up
// immediately; and its price is the price at the time of the grant.
inline void run_go(vector const& v, corrections const& ours = {}) {
    auto const& config = v.at("config").as_object();
    auto const unit = std::chrono::milliseconds(whole(config, "time_unit_ms", 100));
    auto rate = real(config, "rate_per_s");
    auto burst = whole(config, "burst");
    bench b(go_config(rate, burst));
    auto const start = clock::now();
    std::map<std::size_t, std::optional<double>> acts;
    std::map<std::string, std::string> names;

    for (std::size_t i = 0; i != ops_of(v).size(); ++i) {
        auto const& op = ops_of(v)[i].as_object();
        auto const kind = text(op, "op");
        auto const n = whole(op, "n", 1);
        auto const corrected = ours.find(i);
        if (op.contains("t"))  // which never goes back here
            run_until(b.context, at(start, real(op, "t"), unit));
        if (kind == "allow") {
            // A waiting request has not taken anything yet.
            if (op.contains("expect_tokens_before") && ours.empty() &&
                b.limiter.stats().waiting == 0)
                BOOST_TEST(b.limiter.stats().remaining ==
                           std::max<amount>(whole(op, "expect_tokens_before"), 0));
            bool const expected =
                corrected != ours.end() ? corrected->second.has_value() : op.at("expect").as_bool();
            BOOST_TEST(!b.ask(n) == expected);
        } else if (kind == "reserve") {
            auto const name = std::to_string(i);
            if (op.contains("as"))
                names[text(op, "as")] = name;
            auto const patience =
                op.contains("max_wait") ? weir::patience(whole(op, "max_wait") * unit)
                                        : weir::patience();
            b.wait(name, n, patience);
            if (corrected != ours.end())
                acts[i] = corrected->second;
            else if (op.at("expect_ok").as_bool())
                acts[i] = real(op, "expect_act");
            else
                acts[i] = {};
        } else if (kind == "cancel") {
            b.cancel(names.at(text(op, "ref")));
        } else if (kind == "set_limit" || kind == "set_burst") {
            rate = real(op, "limit", rate);
            burst = whole(op, "burst", burst);
            b.limiter.configure(limiter_config::parse(go_config(rate, burst)));
        } else if (kind == "wait") {
            auto const began = clock::now();
            auto const& guest = b.wait("waiter", n);
            if (op.contains("cancel_after")) {
                run_for(b.context, whole(op, "cancel_after") * unit);
                b.cancel("waiter");
            }
            run_for(b.context, whole(op, "expect_delay") * unit);
            BOOST_TEST(!guest.granted() == op.at("expect_error").as_bool());
            BOOST_TEST(guest.at() == began + whole(op, "expect_delay") * unit);
        } else {
            BOOST_ERROR("unknown: " << kind);
        }
    }
    run_for(b.context, 1h);
    for (auto const& [i, act] : acts) {
        auto const& guest = b.guest(std::to_string(i));
        BOOST_TEST(guest.granted() == act.has_value());
        if (act)
            BOOST_TEST(guest.at() == at(start, *act, unit), "operation " << i);
    }
}

inline void run_go_for_long(vector const& v) {
    auto const& config = v.at("config").as_object();
    auto const& op = ops_of(v)[0].as_object();
    bench b(go_config(real(config, "rate_per_s"), whole(config, "burst")));
    auto const start = clock::now();
    int count = 0;
    while (clock::now() < start + std::chrono::seconds(whole(op, "until_s"))) {
        count += !b.ask(1);
        run_for(b.context, std::chrono::milliseconds(whole(op, "step_ms")));
    }
    BOOST_TEST(count <= whole(op, "expect_count_le"));
    BOOST_TEST(count >= whole(op, "expect_count_ge"));
}

inline void run_userver(vector const& v) {
    auto const& config = v.at("config").as_object();
    bench b(fmt::format("{}/{}s burst {} refill interval", whole(config, "refill_amount"),
                        whole(config, "refill_interval_s"), whole(config, "max")));
    for (auto const& each : ops_of(v)) {
        auto const& op = each.as_object();
        if (says(op, "op", "obtain"))
            BOOST_TEST(!b.ask(whole(op, "n")) == op.at("expect").as_bool());
        else if (says(op, "op", "tokens"))
            BOOST_TEST(b.limiter.stats().remaining == whole(op, "expect"));
        else
            run_for(b.context, std::chrono::seconds(whole(op, "s")));
    }
}

inline void run_folly(vector const& v) {
    auto const& config = v.at("config").as_object();
    auto const rate = whole(config, "rate");
    bench b(fmt::format("{}/1s burst {}", rate, whole(config, "burst")));
    for (auto const& each : ops_of(v)) {
        auto const& op = each.as_object();
        auto const kind = text(op, "op");
        auto const left = b.limiter.stats().remaining;
        if (kind == "borrow") {
            (void)b.limiter.charge(whole(op, "n"));
            BOOST_TEST(b.limiter.stats().remaining == whole(op, "expect_available"));
            // A debt shows in the time that it takes to pay it.
            auto const balance = whole(op, "expect_balance");
            if (balance <= 0)
                BOOST_TEST(b.limiter.try_enter().retry_after() ==
                           duration(1s) * (1 - balance) / rate);
        } else if (kind == "consume") {
            BOOST_TEST(!b.ask(whole(op, "n")) == op.at("expect").as_bool());
        } else if (kind == "available") {
            BOOST_TEST(left == real(op, "expect"));
        } else {
            auto const n = std::min(whole(op, "n"), left);
            BOOST_TEST(!b.ask(n));
            BOOST_TEST(n == real(op, "expect"));
        }
    }
}

}  // namespace vectors
