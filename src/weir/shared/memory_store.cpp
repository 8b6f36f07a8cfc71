#include <weir/shared/memory_store.hpp>

#include <algorithm>
#include <limits>

namespace weir::inline v0_2::detail {
namespace {

__extension__ using wide = __int128;

std::int64_t narrow(wide n) {
    constexpr wide most = std::numeric_limits<std::int64_t>::max();
    return static_cast<std::int64_t>(std::clamp(n, -most, most));
}

// Returns a / b, rounded up; a and b are not negative.
wide quotient(wide a, wide b) {
    return (a + b - 1) / b;
}

// Returns `level` less the drops that have drained since.
std::int64_t drained(policy::shared_bucket const& b, std::int64_t level, std::int64_t passed) {
    return narrow(
        std::max<wide>(level - wide{b.drained} * std::max<std::int64_t>(passed, 0), -b.owed()));
}

}  // namespace

store::answer bucket_ledger::take(std::string const& name, store::question const& q,
                                  std::int64_t now) {
    using std::chrono::microseconds;
    auto const& b = q.bucket;
    if (b.window != 0) {
        auto const [log, is_new] = logs_.try_emplace(name);
        auto said = log->second.take(q, now);
        said.is_new = is_new;
        return said;
    }
    auto const [at, is_new] = rows_.try_emplace(name, row{now, -b.owed(), b.permit});
    auto& r = at->second;
    if (r.permit != b.permit) {
        r.level = narrow(quotient(std::max<wide>(r.level, 0) * b.permit, r.permit));
        r.permit = b.permit;
    }
    auto const level = drained(b, r.level, now - r.at);
    auto const room = b.full() - level;
    auto const fits = std::max<std::int64_t>(room, 0) / b.permit;
    auto const granted = std::min(q.max, fits);
    if (granted >= q.min) {
        r.at = now;
        r.level = level + granted * b.permit;
        return {.granted = granted, .since = now, .is_new = is_new};
    }
    auto const wait = narrow(quotient(wide{q.min} * b.permit - room, b.drained));
    if (wait <= q.ahead.count()) {
        r.at = now;
        r.level = level + q.min * b.permit;
        return {.granted = q.min, .wait = microseconds(wait), .since = now + wait};
    }
    if (r.at > now) {  // the clock was set back
        r.at = now;
        r.level = level;
    }
    return {.wait = microseconds(wait)};
}

void bucket_ledger::give_back(std::string const& name, store::give_back const& what,
                              std::int64_t now) {
    if (what.bucket.window != 0) {
        if (auto const log = logs_.find(name); log != logs_.end())
            log->second.give_back(what, now);
        return;
    }
    auto const found = rows_.find(name);
    auto const& b = what.bucket;
    if (found == rows_.end() || found->second.permit != b.permit || found->second.at > now ||
        what.since > now)
        return;
    auto& r = found->second;
    r.level = drained(b, r.level, now - r.at);
    r.at = now;
    if (r.level > b.full())
        return;  // other grants are booked after it
    auto const back = wide{what.count} * b.permit - wide{b.drained} * (now - what.since);
    r.level = narrow(std::max<wide>(r.level - std::max<wide>(back, 0), -b.owed()));
}

store::answer sliding_log_row::take(store::question const& q, std::int64_t now) {
    auto const& b = q.bucket;
    auto const t = at_ = std::max(now + ahead_, at_);
    ahead_ = t - now;
    while (!grants_.empty() && (grants_.front() <= t - b.window || size() > b.burst))
        grants_.pop_front();

    // Returns when `n` more permits can be granted.
    auto const turn_of = [&](amount n) {
        auto const turn = grants_.empty() ? t : std::max(grants_.back(), t);
        auto const before = size() + n - b.burst - 1;  // the last permit that must be a window old
        return before < 0 ? turn
                          : std::max(turn, grants_[static_cast<std::size_t>(before)] + b.window);
    };
    auto const fits = std::min(q.max, b.burst - size());
    auto const granted = fits >= q.min && turn_of(fits) <= t ? fits : q.min;
    auto const turn = turn_of(granted);
    std::chrono::microseconds const wait(turn - t);
    if (turn > t && wait > q.ahead)
        return {.wait = wait};
    grants_.insert(grants_.end(), static_cast<std::size_t>(granted), turn);
    return {.granted = granted, .wait = wait, .since = turn};
}

// Has an effect only if grants of that time are still in the log; otherwise nothing is known about them. A booked grant
// whose time has not come stays, because older grants were dropped when it was booked.
void sliding_log_row::give_back(store::give_back const& what, std::int64_t now) {
    auto const [first, last] = std::equal_range(grants_.begin(), grants_.end(), what.since);
    if (what.since <= now + ahead_ && last - first >= what.count)
        grants_.erase(first, first + what.count);
}

}  // namespace weir::inline v0_2::detail
