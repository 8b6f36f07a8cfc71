#include <weir/shared/seat_ledger.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <iterator>
#include <limits>
#include <utility>

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

seat_ledger::places::iterator seat_ledger::find(policy::fed_seats::holder_id const& who) noexcept {
    return std::ranges::find(line_, who, &place::holder);
}

seat_ledger::answer seat_ledger::hold(question const& q, std::int64_t now,
                                      std::vector<notice>& notices) {
    auto const lease = q.lease.count();
    auto const confirm = policy::fed_seats::confirm_of(q.lease).count();
    tidy(lease, now);
    auto const before = find(q.holder);
    bool const is_old = before != line_.end() && q.number <= before->number;
    auto const was = before != line_.end() ? *before : place{};
    bool const may_grow = !is_old && apply(q, now);

    answer said{.time = now, .listens = q.channel != 0};
    auto free = q.seats;
    for (auto const& p : line_)
        free -= p.held;
    amount waits = 0;
    auto const first_notice = notices.size();
    for (auto& p : line_) {
        bool const is_mine = p.holder == q.holder;
        if (p.wants == 0)
            continue;
        if (waits != 0 || p.wants - p.held > free) {
            if (is_mine)
                said.ahead = waits;
            ++waits;
            continue;
        }
        free -= p.wants - p.held;
        if (!is_mine && p.held == 0)
            p.until = std::min<std::int64_t>(p.until, now + confirm);
        p.held = std::exchange(p.wants, 0);
        renew_fence(p, now);
        if (!is_mine && p.channel != 0)
            notices.push_back({p.holder, p.channel, p.number, p.held, p.fence, now});
    }
    for (auto i = first_notice; i != notices.size(); ++i)
        notices[i].waits = waits;

    if (auto const mine = find(q.holder); mine != line_.end()) {
        if (may_grow && waits == 0 && mine->held >= q.min && mine->held < q.max) {
            mine->held =
                std::max(mine->held, std::min(q.max, mine->held + std::max<amount>(free, 0)));
            if (mine->held != 0)
                renew_fence(*mine, now);
        }
        // A question that only repeats how long the holder waits changes nothing, until half of the time is over.
        bool const repeats =
            was.wants != 0 && was.wants == mine->wants && was.held == 0 && mine->held == 0 &&
            was.channel == mine->channel && was.until > now + lease / 2;
        if (repeats)
            mine->number = was.number;
        else if (!is_old)
            mine->until = now + lease;
        said.held = mine->held;
        said.fence = mine->held != 0 ? mine->fence : 0;
    }
    said.waits = waits - (said.ahead >= 0 ? 1 : 0);
    auto first = std::numeric_limits<std::int64_t>::max();
    for (auto& p : line_) {
        if (p.held == 0)
            p.fence = 0;
        if (p.held == 0 || p.holder == q.holder)
            continue;
        first = std::min(first, p.until);
        auto const is_told = [&](notice const& n) { return n.holder == p.holder; };
        auto const told = notices.begin() + static_cast<std::ptrdiff_t>(first_notice);
        if (said.ahead >= 0 && p.channel != 0 && std::none_of(told, notices.end(), is_told))
            notices.push_back(
                {.holder = p.holder, .channel = p.channel, .time = now, .waits = waits});
    }
    if (said.ahead == 0 && first != std::numeric_limits<std::int64_t>::max())
        said.wait = std::chrono::microseconds(first - now);
    std::erase_if(line_, [](place const& p) { return p.held == 0 && p.wants == 0; });
    return said;
}

// Applies what the holder gives up and what it wants. Its grant is decided with the whole line. Returns false if it
// relies on a holding that was lost: then it gets nothing until its next question.
bool seat_ledger::apply(question const& q, std::int64_t now) {
    auto mine = find(q.holder);
    bool const is_known =
        mine != line_.end() && (q.fence == mine->fence || (q.fence == 0 && mine->fence > q.known));
    if (mine != line_.end() && !is_known)
        mine->held = mine->fence = 0;
    bool const was_lost = q.fence != 0 && !is_known;
    if (mine == line_.end())
        mine = line_.insert(mine, {.holder = q.holder, .until = now + q.lease.count()});
    mine->number = q.number;
    mine->channel = q.channel;
    fence_ = std::max(fence_, q.known);
    if (was_lost) {
        mine->wants = 0;
        return false;
    }
    bool const gives_up = q.yields || q.min == 0 || q.min > mine->held;
    mine->held = std::min(mine->held, gives_up ? q.keep : q.max);
    bool const lacks = q.min > mine->held;
    if (lacks && mine->wants == 0) {
        std::rotate(mine, mine + 1, line_.end());
        mine = line_.end() - 1;
    }
    mine->wants = lacks ? q.min : 0;
    return true;
}

void seat_ledger::renew_fence(place& p, std::int64_t now) noexcept {
    if (p.fence == 0)
        p.fence = fence_ = std::max(fence_ + 1, now);
}

amount seat_ledger::held(std::int64_t now) const noexcept {
    amount sum = 0;
    for (auto const& p : line_)
        sum += now < p.until ? p.held : 0;
    return sum;
}

amount seat_ledger::waiting(std::int64_t now) const noexcept {
    return std::ranges::count_if(line_, [&](place const& p) {
        return now < p.until && p.wants != 0;
    });
}

std::int64_t seat_ledger::last_end() const noexcept {
    std::int64_t last = 0;
    for (auto const& p : line_) {
        if (p.held != 0)
            last = std::max(last, p.until);
    }
    return last;
}

// After the clock was set back, no holder keeps a seat longer than a lease.
void seat_ledger::tidy(std::int64_t lease, std::int64_t now) {
    std::erase_if(line_, [&](place const& p) { return p.until <= now; });
    for (auto& p : line_)
        p.until = std::min(p.until, now + lease);
}

std::string seat_ledger::text() const {
    auto text = fmt::format("{}\n", fence_);
    for (auto const& p : line_)
        fmt::format_to(std::back_inserter(text), "{} {} {} {} {} {} {}\n", name_of(p.holder),
                       p.held, p.fence, p.until, p.number, p.wants, name_of_channel(p.channel));
    return text;
}

std::string seat_ledger::name_of(policy::fed_seats::holder_id const& who) {
    return fmt::format("{:016x} {:016x}", who[0], who[1]);
}

std::string seat_ledger::name_of_channel(std::uint64_t channel) {
    return fmt::format("{:016x}", channel);
}

std::optional<seat_ledger> seat_ledger::parse(std::string_view text) {
    seat_ledger made;
    if (!take_off(text, made.fence_, '\n'))
        return std::nullopt;
    while (!text.empty()) {
        place p;
        bool const is_whole =
            take_off(text, p.holder[0], ' ', 16) && take_off(text, p.holder[1], ' ', 16) &&
            take_off(text, p.held, ' ') && take_off(text, p.fence, ' ') &&
            take_off(text, p.until, ' ') && take_off(text, p.number, ' ') &&
            take_off(text, p.wants, ' ') && take_off(text, p.channel, '\n', 16);
        if (!is_whole)
            return std::nullopt;
        made.line_.push_back(p);
    }
    return made;
}

}  // namespace weir::inline v0_2::detail
