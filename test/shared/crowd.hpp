#pragma once

#include "shared/workers.hpp"
#include "support/quiet.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

// Several processes that share a limit, and the grants of the store, on its own clock.

namespace support {

/// For how long processes take permits; longer runs are started by hand.
inline std::chrono::milliseconds time_of_crowd() {
    auto const* const seconds = std::getenv("WEIR_SECONDS");
    return std::chrono::milliseconds(seconds ? 1000 * std::atoll(seconds) : 2000);
}

struct crowd {
    std::vector<std::vector<std::int64_t>> of_each;  // when grants could be used, in microseconds
    std::vector<std::int64_t> granted;               // all of them, in the order of time

    /// The grants of each process from the first grant of the last process to start to the last grant of the first to
    /// end.
    struct share {
        std::size_t min = std::size_t(-1);
        std::size_t all = 0;
        std::int64_t longest_without = 0;
        std::int64_t time = 0;
    };
    [[nodiscard]] share shares() const {
        std::int64_t begin = 0;
        std::int64_t end = INT64_MAX;
        for (auto const& one : of_each) {
            if (one.empty())
                return {.min = 0};
            begin = std::max(begin, one.front());
            end = std::min(end, one.back());
        }
        share s{.time = end - begin};
        for (auto const& one : of_each) {
            auto const first = std::ranges::lower_bound(one, begin);
            auto const last = std::ranges::upper_bound(one, end);
            auto const n = static_cast<std::size_t>(std::max<std::ptrdiff_t>(last - first, 0));
            s.min = std::min(s.min, n);
            s.all += n;
            for (auto i = first; i < last - 1; ++i)
                s.longest_without = std::max(s.longest_without, *(i + 1) - *i);
        }
        return s;
    }

    /// Checks the grants of each process, at least half of an equal share, and of all, at least half of `permits` per
    /// second. On a busy machine the processes may hardly run at the same time. Then a share has no meaning;
    /// shared/simulation checks the shares on virtual time.
    void check_shares(std::int64_t permits) const {
        auto const [least, sum, longest, time] = shares();
        if (sum < 20 * of_each.size() && !quiet_machine())
            return;
        BOOST_TEST(sum != 0);  // 0 if a process got nothing
        BOOST_TEST(2 * least * of_each.size() >= sum);
        BOOST_TEST(2 * static_cast<std::int64_t>(sum) >= time * permits / 1'000'000);
    }

    /// Checks that in every time interval there are at most `burst` grants and the refill at `permits` per second, to a
    /// microsecond.
    void check_bucket(std::int64_t permits, std::int64_t burst) const {
        // In millionths of a permit: the grants less the refill.
        std::int64_t least = INT64_MAX;
        for (std::size_t i = 0; i != granted.size(); ++i) {
            auto const level =
                static_cast<std::int64_t>(i) * 1'000'000 - permits * (granted[i] - granted[0]);
            least = std::min(least, level);
            BOOST_TEST_REQUIRE(level - least + 1'000'000 <= burst * 1'000'000 + permits);
        }
    }
    /// Checks that there are at most `limit` grants in every interval of `window` microseconds.
    void check_log(std::size_t limit, std::int64_t window) const {
        for (std::size_t i = limit; i < granted.size(); ++i)
            BOOST_TEST_REQUIRE(granted[i] - granted[i - limit] >= window);
    }
};

/// Runs processes with `test_case` until they end, one for each set of variables.
inline crowd let_loose(std::string const& test_case, std::vector<worker::variables> const& each) {
    std::vector<worker> workers;
    for (auto const& variables : each)
        workers.emplace_back(test_case, variables);
    crowd all;
    for (auto& w : workers) {
        auto& mine = all.of_each.emplace_back(w.numbers());
        std::ranges::sort(mine);
        all.granted.insert(all.granted.end(), mine.begin(), mine.end());
    }
    std::ranges::sort(all.granted);
    return all;
}

}  // namespace support
