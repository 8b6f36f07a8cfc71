#pragma once

#include <weir/amount.hpp>
#include <weir/policy/penalty.hpp>
#include <weir/time.hpp>

#include <algorithm>
#include <cstddef>
#include <vector>

namespace support {

/// The words of `policy::penalty`, over the whole history of offences and penalties.
class penalty_history {
public:
    explicit penalty_history(weir::penalty_options const& options) : options_(options) {}

    void offend(weir::amount n, weir::time_point now) {
        if (end() > now)
            return;
        offences_.push_back({now, n});
        auto const first = first_of_window();
        weir::amount sum = 0;
        for (auto i = first; i != offences_.size(); ++i)
            sum += offences_[i].n;
        if (sum < options_.offences)
            return;
        offences_.clear();
        std::size_t before = 0;  // penalties in a row
        auto start = now;
        for (auto p = penalties_.rbegin(); p != penalties_.rend(); ++p) {
            if (start - p->end >= options_.memory)
                break;
            ++before;
            start = p->begin;
        }
        auto length = static_cast<long double>(options_.first.count());
        for (std::size_t i = 0; i != before; ++i)
            length = std::min(length * 2, static_cast<long double>(options_.longest.count()));
        penalties_.push_back({now, now + weir::duration(static_cast<weir::duration::rep>(length))});
    }
    [[nodiscard]] weir::time_point end() const {
        return penalties_.empty() ? weir::time_point::min() : penalties_.back().end;
    }
    [[nodiscard]] std::size_t penalties() const { return penalties_.size(); }

private:
    struct offence {
        weir::time_point at;
        weir::amount n;
    };
    struct sentence {
        weir::time_point begin;
        weir::time_point end;
    };

    // Windows follow each other: each begins with the first offence after the end of the one before.
    [[nodiscard]] std::size_t first_of_window() const {
        std::size_t first = 0;
        for (std::size_t i = 0; i != offences_.size(); ++i)
            if (offences_[i].at - offences_[first].at >= options_.window)
                first = i;
        return first;
    }

    weir::penalty_options options_;
    std::vector<offence> offences_;  // since the latest penalty
    std::vector<sentence> penalties_;
};

}  // namespace support
