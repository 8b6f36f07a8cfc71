#include "ledger.hpp"

#include <algorithm>
#include <numeric>

namespace explorer {

amount ledger::remaining(time_point now) const {
    auto used = in_use_;
    if (policy_ == policy::sliding_log)
        used = std::ranges::count_if(grants_, [&](time_point t) { return !cool(t, now); });
    return std::max<amount>(rule_.limit - used, 0);
}

time_point ledger::earliest(amount n, std::vector<amount> const& ahead, time_point now) const {
    if (policy_ == policy::seats)
        return fits(std::accumulate(ahead.begin(), ahead.end(), n), now) ? now : weir::unknown;
    auto grants = grants_;
    auto at = now;
    auto const grant = [&](amount wanted) {
        if (wanted > rule_.limit)
            return false;
        auto const must_be_cool = static_cast<amount>(grants.size()) + wanted - rule_.limit;
        if (must_be_cool > 0)
            at = std::max(
                at, weir::later(grants[static_cast<std::size_t>(must_be_cool - 1)], rule_.time));
        grants.insert(grants.end(), static_cast<std::size_t>(wanted), at);
        return true;
    };
    return std::ranges::all_of(ahead, grant) && grant(n) ? at : weir::unknown;
}

void ledger::took(amount n, time_point now) {
    if (policy_ == policy::seats)
        in_use_ += n;
    else
        grants_.insert(grants_.end(), static_cast<std::size_t>(n), now);
}

void ledger::came_home(amount n) {
    if (policy_ == policy::seats)
        in_use_ -= n;
}

void ledger::refunded(amount n, time_point granted, time_point now) {
    if (policy_ == policy::seats) {
        in_use_ -= n;
        return;
    }
    if (granted <= cool_until_ || cool(granted, now))
        return;
    auto const first = std::ranges::lower_bound(grants_, granted);
    auto const there = static_cast<amount>(grants_.end() - first);
    grants_.erase(first, first + std::min(n, there));
}

void ledger::unused(std::vector<time_point> const& grants) {
    if (policy_ == policy::seats)
        in_use_ -= static_cast<amount>(grants.size());
    for (auto const at : grants) {
        auto const it = std::ranges::lower_bound(grants_, at);
        if (it != grants_.end() && *it == at)
            grants_.erase(it);
    }
}

void ledger::configured(rule next, time_point now) {
    std::erase_if(grants_, [&](time_point t) {
        if (cool(t, now))
            cool_until_ = std::max(cool_until_, t);
        return cool(t, now);
    });
    rule_ = next;
}

}  // namespace explorer
