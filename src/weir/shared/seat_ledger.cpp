#include <weir/shared/seat_ledger.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <iterator>
#include <limits>

namespace weir::inline v0_2::detail {
namespace {

// Parses a number at the start of `text`, and removes it with the character that ends it.
template <class Number>
bool take_off(std::string_view& text, Number& n, char end, int base = 10) {
    auto const [after, ec] = std::from_chars(text.data(), text.data() + text.size(), n, base);
    auto const length = static_cast<std::size_t>(after - text.data());
    if (ec != std::errc() || length == text.size() || *after != end)
        return false;
    text.remove_prefix(length + 1);
    return true;
}

}  // namespace

seat_ledger::answer seat_ledger::hold(question const& q, std::int64_t now) {
    auto const lease = q.lease.count();
    tidy(lease, now);
    auto mine = std::ranges::find(holdings_, q.holder, &holding::holder);
    if (mine != holdings_.end() && q.number <= mine->number)
        return {.held = mine->count, .fence = mine->fence};
    if (mine != holdings_.end() && q.fence != mine->fence) {
        holdings_.erase(mine);
        mine = holdings_.end();
    }
    if (mine == holdings_.end() && q.fence != 0)
        return {};
    if (mine == holdings_.end())
        mine = holdings_.insert(mine, {.holder = q.holder});

    auto const free = std::max<amount>(q.seats - held(now), 0);
    auto const could = std::min(q.max, mine->count + free);
    bool const is_denied = could < q.min;
    mine->count = is_denied ? std::min(mine->count, q.keep) : could;
    mine->until = now + lease;
    mine->number = q.number;
    if (mine->count != 0 && mine->fence == 0)
        mine->fence = fence_ = std::max(fence_ + 1, now);

    answer said{.held = mine->count, .fence = mine->count != 0 ? mine->fence : 0};
    if (is_denied) {
        auto first = std::numeric_limits<std::int64_t>::max();
        for (auto const& h : holdings_) {
            if (h.holder != q.holder)
                first = std::min(first, h.until);
        }
        if (holdings_.size() > 1)
            said.wait = std::chrono::microseconds(first - now);
    }
    if (mine->count == 0)
        holdings_.erase(mine);
    return said;
}

amount seat_ledger::held(std::int64_t now) const noexcept {
    amount sum = 0;
    for (auto const& h : holdings_)
        sum += now < h.until ? h.count : 0;
    return sum;
}

std::int64_t seat_ledger::last_end() const noexcept {
    std::int64_t last = 0;
    for (auto const& h : holdings_)
        last = std::max(last, h.until);
    return last;
}

// After the clock was set back, no holder keeps a seat longer than a lease.
void seat_ledger::tidy(std::int64_t lease, std::int64_t now) {
    std::erase_if(holdings_, [&](holding const& h) { return h.until <= now; });
    for (auto& h : holdings_)
        h.until = std::min(h.until, now + lease);
}

std::string seat_ledger::text() const {
    auto text = fmt::format("{}\n", fence_);
    for (auto const& h : holdings_)
        fmt::format_to(std::back_inserter(text), "{} {} {} {} {}\n", name_of(h.holder), h.count,
                       h.fence, h.until, h.number);
    return text;
}

std::string seat_ledger::name_of(policy::fed_seats::holder_id const& who) {
    return fmt::format("{:016x} {:016x}", who[0], who[1]);
}

std::optional<seat_ledger> seat_ledger::parse(std::string_view text) {
    seat_ledger made;
    if (!take_off(text, made.fence_, '\n'))
        return std::nullopt;
    while (!text.empty()) {
        holding h;
        bool const is_whole =
            take_off(text, h.holder[0], ' ', 16) && take_off(text, h.holder[1], ' ', 16) &&
            take_off(text, h.count, ' ') && take_off(text, h.fence, ' ') &&
            take_off(text, h.until, ' ') && take_off(text, h.number, '\n');
        if (!is_whole)
            return std::nullopt;
        made.holdings_.push_back(h);
    }
    return made;
}

}  // namespace weir::inline v0_2::detail
