#pragma once

#include <weir/queue_options.hpp>

#include "bench.hpp"

#include <fmt/format.h>

#include <cmath>
#include <string_view>
#include <utility>
#include <vector>

namespace vectors {

// ---- Netflix: partitions of a limit.

inline weir::queue_options sharing(json::object const& config) {
    weir::queue_options result{.order = weir::queue_order::shares};
    for (auto const& [name, share] : config.at("partitions").as_object())
        result.partitions.add(
            {name, static_cast<int>(std::lround(100 * share.to_number<double>()))});
    return result;
}

inline weir::share_stats share_of(any_limiter const& limiter, std::string_view name) {
    for (auto const& one : limiter.shares()) {
        if (one.partition.name() == name)
            return one;
    }
    return {};
}

// There, the limit is exceeded for a partition below its share. Here the partition waits, before all other requests,
// for the lent permits: `later` is the number of grants that come later than there.
inline void run_partitions(vector const& v, amount later = 0) {
    auto const& config = v.at("config").as_object();
    bench b(fmt::format("{} seats", whole(config, "limit")), sharing(config));
    std::vector<permit> held;
    std::vector<visit> waiting;
    for (auto const& each : ops_of(v)) {
        auto const& op = each.as_object();
        auto const kind = text(op, "op");
        if (kind == "acquire") {
            auto const asked = weir::request(1, {.flow = weir::partition_flow(text(op, "key"))});
            for (auto times = whole(op, "times", 1); times != 0; --times) {
                bool const expected = op.at("expect").as_bool();
                auto seat = b.limiter.try_enter(asked);
                if (!seat && expected && later != 0) {
                    --later;
                    waiting.emplace_back(b.limiter, asked);
                    settle(b.context);
                    continue;
                }
                BOOST_TEST(bool(seat) == expected);
                if (seat)
                    held.push_back(std::move(seat));
            }
        } else if (kind == "set_limit") {
            b.limiter.configure(limiter_config::parse(fmt::format("{} seats", whole(op, "limit"))));
        } else if (kind == "state") {
            for (auto const& [name, expected] : op.at("expect").as_object()) {
                auto const dot = name.find('.');
                auto const one = share_of(b.limiter, name.substr(0, dot));
                auto const value = name == "inflight"             ? b.limiter.stats().in_use
                                   : name.substr(dot) == ".limit" ? one.share
                                                                  : one.in_use;
                BOOST_TEST(value == expected.to_number<amount>());
            }
        } else {
            BOOST_ERROR("unknown: " << kind);
        }
    }
    BOOST_TEST(later == 0);
    for (auto& guest : waiting) {
        BOOST_TEST(guest.waiting());
        held.front().leave();
        held.erase(held.begin());
        settle(b.context);
        BOOST_TEST(guest.granted());
    }
}

}  // namespace vectors
