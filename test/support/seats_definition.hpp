#pragma once

#include <weir/amount.hpp>
#include <weir/policy/fed_seats.hpp>

#include "support/random.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <vector>

// Compares the replies of a store for seats with their definition, on random questions.

namespace support {

/// The taken seats, one by one.
class seats_definition {
public:
    using question = weir::policy::fed_seats::question;
    using answer = weir::policy::fed_seats::answer;

    answer hold(question const& q, std::int64_t now) {
        auto const lease = q.lease.count();
        std::erase_if(taken_, [&](seat const& s) { return s.until <= now; });
        for (auto& s : taken_)
            s.until = std::min<std::int64_t>(s.until, now + lease);

        auto own = of(q.holder);
        if (own != 0 && q.number <= numbers_[q.holder])
            return {.held = own, .fence = fence_of(q.holder)};
        if (own != 0 && fence_of(q.holder) != q.fence) {
            std::erase_if(taken_, [&](seat const& s) { return s.holder == q.holder; });
            own = 0;
        }
        if (own == 0 && q.fence != 0)
            return {};
        numbers_[q.holder] = q.number;

        auto wanted = q.max;
        while (wanted > own && count() + wanted - own > q.seats)
            --wanted;
        bool const is_denied = wanted < q.min;
        if (is_denied)
            wanted = std::min(own, q.keep);
        auto const fence = own != 0      ? fence_of(q.holder)
                           : wanted != 0 ? last_fence_ = std::max(last_fence_ + 1, now)
                                         : 0;
        answer said{.held = wanted, .fence = wanted != 0 ? fence : 0};
        std::erase_if(taken_, [&](seat const& s) { return s.holder == q.holder; });
        auto first = std::numeric_limits<std::int64_t>::max();
        for (auto const& s : taken_)
            first = std::min(first, s.until);
        if (is_denied && !taken_.empty())
            said.wait = std::chrono::microseconds(first - now);
        for (weir::amount i = 0; i != wanted; ++i)
            taken_.push_back({q.holder, fence, now + lease});
        return said;
    }

private:
    using holder_id = weir::policy::fed_seats::holder_id;
    struct seat {
        holder_id holder;
        std::int64_t fence;
        std::int64_t until;
    };

    [[nodiscard]] weir::amount count() const { return static_cast<weir::amount>(taken_.size()); }
    [[nodiscard]] weir::amount of(holder_id who) const {
        return std::ranges::count(taken_, who, &seat::holder);
    }
    [[nodiscard]] std::int64_t fence_of(holder_id who) const {
        return std::ranges::find(taken_, who, &seat::holder)->fence;
    }

    std::vector<seat> taken_;
    std::map<holder_id, std::uint64_t> numbers_;  // of the last question of a holding
    std::int64_t last_fence_ = 0;
};

/// A store that gets the time as an argument, in microseconds.
using told_seats = std::function<weir::policy::fed_seats::answer(
    weir::policy::fed_seats::question const&, std::int64_t now)>;

/// Asks `questions` questions, and compares each reply with the definition. The clock is at `now`; it is sometimes
/// set back.
inline void compare_with_seats(told_seats const& store, int questions, random_source& random,
                               std::int64_t now) {
    struct client {
        std::uint64_t number = 0;
        std::int64_t fence = 0;
        weir::amount held = 0;
    };
    std::array<client, 4> clients;
    seats_definition definition;
    auto const seats = random.between(1, 6);
    std::chrono::microseconds const lease(random.one_of<std::int64_t>({100'000, 10'000'000}));
    for (int i = 0; i != questions; ++i) {
        now += random.one_in(3) ? random.between(0, lease.count() / 2) : random.between(0, 1000);
        if (random.one_in(50))
            now -= random.between(0, 3 * lease.count());
        auto const who = random.index_in(clients);
        auto& c = clients[who];
        bool const repeats = random.one_in(8) && c.number > 3;
        auto const least = random.between(0, seats);
        weir::policy::fed_seats::question const q{
            .seats = seats,
            .lease = lease,
            .holder = {who + 1, 0xfedc'ba98'7654'3210},
            .number =
                repeats ? c.number - static_cast<std::uint64_t>(random.between(0, 3)) : ++c.number,
            .fence = random.one_in(6) ? random.one_of<std::int64_t>({0, c.fence - 1, 1}) : c.fence,
            .keep = random.between(0, c.held + 1),
            .min = least,
            .max = random.between(least, seats)};
        auto const said = store(q, now);
        auto const expected = definition.hold(q, now);
        BOOST_TEST_REQUIRE(
            (said.held == expected.held && said.fence == expected.fence &&
             said.wait == expected.wait),
            "question " << i << " of " << who << ", number " << q.number << ", fence " << q.fence
                        << ", at " << now << ", for " << q.min << " to " << q.max << " or "
                        << q.keep << ": said " << said.held << " with " << said.fence << " in "
                        << said.wait.count() << ", not " << expected.held << " with "
                        << expected.fence << " in " << expected.wait.count());
        c.held = said.held;
        c.fence = said.fence;
    }
}

}  // namespace support
