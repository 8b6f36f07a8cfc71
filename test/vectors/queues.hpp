#pragma once

#include "bench.hpp"

#include <boost/asio/co_spawn.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <vector>

namespace vectors {

// ---- Waiting callers.

inline std::string outcome(visit const& guest) {
    if (guest.waiting())
        return "queued";
    if (guest.granted())
        return "granted";
    return guest.error() == asio::error::operation_aborted ? "cancelled" : "rejected";
}
inline std::string outcome(json::value const& expected) {
    if (expected.is_bool())
        return expected.as_bool() ? "granted" : "rejected";
    return std::string(expected.as_string());
}

// Waiting callers, released permits, and in `replenish` a period that passes.
inline void run_queue(bench& b, vector const& v, duration period = 1s) {
    for (auto const& each : ops_of(v)) {
        auto const& op = each.as_object();
        auto const kind = text(op, "op");
        auto const n = whole(op, "n", 1);
        if (kind == "acquire" || kind == "try") {
            for (auto times = whole(op, "times", 1); times != 0; --times) {
                auto const ec = b.ask(n);
                if (auto const* const expected = op.if_contains("expect"))
                    BOOST_TEST(!ec == expected->as_bool());
            }
        } else if (kind == "wait" && op.contains("already_cancelled")) {
            // As an awaitable: a cancelled coroutine makes a further request.
            int cancelled = 0;
            asio::cancellation_signal signal;
            auto const late = [&]() -> asio::awaitable<void> {
                co_await asio::this_coro::throw_if_cancelled(false);
                signal.emit(asio::cancellation_type::terminal);
                try {
                    auto const seat = co_await b.limiter.enter(n);
                } catch (weir::rejection const& rejection) {
                    cancelled += rejection.code() == asio::error::operation_aborted;
                }
            };
            co_spawn(b.context, late(), asio::bind_cancellation_slot(signal.slot(), rethrow));
            settle(b.context);
            BOOST_TEST(cancelled == 1);
        } else if (kind == "wait") {
            auto const name = op.contains("as") ? text(op, "as") : std::string("guest");
            auto& guest = b.wait(name, n);
            auto const started = clock::now();
            if (op.contains("expect_wait_ms"))
                run_for(b.context, std::chrono::milliseconds(whole(op, "expect_wait_ms")));
            BOOST_TEST(outcome(guest) == outcome(op.at("expect")));
            if (op.contains("expect_wait_ms"))
                BOOST_TEST(guest.at() ==
                           started + std::chrono::milliseconds(whole(op, "expect_wait_ms")));
        } else if (kind == "release") {
            b.release(n);
        } else if (kind == "cancel") {
            b.cancel(text(op, "ref"));
        } else if (kind == "replenish") {
            run_for(b.context, period * whole(op, "times", 1));
        } else if (kind == "set_limit") {
            b.limiter.configure(limiter_config::parse(fmt::format("{} seats", whole(op, "limit"))));
        } else if (kind == "state") {
            for (auto const& [name, expected] : op.at("expect").as_object()) {
                if (name == "available")
                    BOOST_TEST(b.limiter.stats().remaining == expected.to_number<amount>());
                else
                    BOOST_TEST(outcome(b.guest(name)) == outcome(expected));
            }
        } else {
            BOOST_ERROR("unknown: " << kind);
        }
    }
}

inline void run_seats(vector const& v) {
    auto const& config = v.at("config").as_object();
    auto const seats = whole(config, "permit_limit", whole(config, "permits"));
    bench b(fmt::format("{} seats", seats), whole(config, "queue_limit", 1024));
    run_queue(b, v);
}

// Netflix's queue is newest first, which has no effect on these cases.
class netflix {
public:
    explicit netflix(vector const& v)
        : config_(v.at("config").as_object()),
          patience_(whole(config_, "backlog_timeout_ms")),
          context_(),
          kitchen_(
              context_, limiter_config::parse(fmt::format("{} seats", limit())),
              {.max_waiting = whole(config_, "backlog"), .tolerance = 0ns, .patience = patience_}) {
    }

    [[nodiscard]] amount limit() const { return whole(config_, "limit"); }

    void fill(amount n) {
        for (amount i = 0; i != n; ++i) {
            held_.push_back(kitchen_.try_enter());
            BOOST_TEST(bool(held_.back()));
        }
    }

    void backlog_full() {
        fill(limit());
        std::vector<visit> guests;
        for (int i = 0; i != 10; ++i)
            guests.emplace_back(kitchen_);
        visit last{kitchen_};
        settle(context_);
        for (auto const& guest : guests)
            BOOST_TEST(guest.waiting());
        BOOST_TEST(last.rejected(errc::queue_full));
    }

    void times_out() {
        auto const start = clock::now();
        visit guest{kitchen_};
        run_for(context_, 2 * patience_);
        BOOST_TEST(guest.rejected(errc::timed_out));
        // A grant at the very end would have been in time.
        BOOST_TEST(guest.at() == start + patience_ + 1ns);
    }

    void timeout() {
        fill(limit());
        times_out();
    }

    void limit_decrease() {
        fill(limit());
        kitchen_.configure(limiter_config::parse(fmt::format("{} seats", limit() - 1)));
        held_.pop_back();
        times_out();
    }

    // The permit is released at the same time as the waiters' patience ends.
    void grant_race() {
        fill(limit() - 1);
        for (int round = 0; round != 10; ++round) {
            auto last = kitchen_.try_enter();
            BOOST_TEST(bool(last));
            std::vector<visit> guests;
            for (int i = 0; i != 10; ++i)
                guests.emplace_back(kitchen_);
            weir::testing::timer race{context_, patience_};
            race.async_wait([&](weir::error_code) { last.leave(); });
            run_for(context_, patience_);
            int granted = 0;
            for (auto& guest : guests)
                granted += guest.granted();
            BOOST_TEST(granted == 1);
            run_for(context_, 1s);
            guests.clear();
            BOOST_TEST(kitchen_.stats().live == 3U);
        }
    }

private:
    vector const& config_;
    std::chrono::milliseconds patience_;
    asio::io_context context_;
    any_limiter kitchen_;
    std::vector<permit> held_;
};

inline void too_big_does_not_block_others(vector const& v) {
    bench b(fmt::format("{} seats", whole(v.at("config").as_object(), "permits")));
    BOOST_TEST(b.wait("big", 3).rejected(errc::exceeds_capacity));
    for (int i = 0; i != 6; ++i) {
        BOOST_TEST(b.wait("small", 1).granted());
        run_for(b.context, 1ms);
        b.release(1);
    }
}

// ---- .NET: a queue, and the permits that return each period.

// The bound of its queue is a number of permits.
inline weir::queue_options dotnet_queue(json::object const& config) {
    auto const room = whole(config, "queue_limit");
    bool const newest = says(config, "order", "newest");
    return {.max_waiting = room == 0 ? 0 : 1024,
            .full = newest ? weir::when_full::evict_oldest : weir::when_full::reject_newest,
            .max_waiting_permits = std::max<std::int64_t>(room, 1),
            .order = newest ? weir::queue_order::lifo : weir::queue_order::fifo};
}

inline void run_dotnet(vector const& v) {
    auto const& config = v.at("config").as_object();
    auto const limit = whole(config, "permit_limit");
    auto rule =
        fmt::format("{}/1s burst {} refill interval", whole(config, "tokens_per_period"), limit);
    if (auto const segments = whole(config, "segments"))
        rule = fmt::format("{}/{}s sliding slices {}", limit, segments, segments);
    else if (says(v, "algorithm", "concurrency.dotnet"))
        rule = fmt::format("{} seats", limit);
    bench b(rule, dotnet_queue(config));
    run_queue(b, v);
}

inline void run_dotnet_retry_after(vector const& v) {
    auto const& config = v.at("config").as_object();
    bench b(fmt::format("{}/{}s burst {} refill interval", whole(config, "tokens_per_period"),
                        whole(config, "period_s"), whole(config, "permit_limit")),
            dotnet_queue(config));
    for (auto const& each : ops_of(v)) {
        auto const& op = each.as_object();
        auto const n = whole(op, "n");
        if (says(op, "op", "acquire")) {
            BOOST_TEST(!b.ask(n));
            continue;
        }
        auto const& guest = b.wait(text(op, "as"), n);
        BOOST_TEST(outcome(guest) == outcome(op.at("expect")));
        if (op.contains("expect_retry_after_s"))
            BOOST_TEST(guest.seat().retry_after() ==
                       std::chrono::seconds(whole(op, "expect_retry_after_s")));
    }
}

// A request above the capacity is rejected without an exception; a negative number causes an exception.
inline void dotnet_over_limit(vector const&) {
    bench b("1/1s burst 1 refill interval");
    BOOST_TEST(b.ask(2) == errc::exceeds_capacity);
    BOOST_TEST(b.wait("w", 2).rejected(errc::exceeds_capacity));
    BOOST_CHECK_THROW((void)b.limiter.try_enter(-1), std::invalid_argument);
}

// A request for 0 permits is granted immediately in any state; in .NET it waits until a permit is available.
inline void nothing_never_waits(std::string const& config) {
    bench b(config);
    BOOST_TEST(!b.ask(0));
    BOOST_TEST(!b.ask(1));
    BOOST_TEST(!b.ask(0));
    BOOST_TEST(b.wait("z", 0).granted());
    BOOST_TEST(b.limiter.stats().remaining == 0);
}

}  // namespace vectors
