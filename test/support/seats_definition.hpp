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
#include <list>
#include <map>
#include <optional>
#include <vector>

// Compares the replies and the messages of a store for seats with their definition, on random questions.

namespace support {

using seats_question = weir::policy::fed_seats::question;
using seats_answer = weir::policy::fed_seats::answer;
using seats_notice = weir::policy::fed_seats::notice;

/// The taken seats, one by one, and the queue of the holders that wait, each a separate list.
class seats_definition {
public:
    seats_answer hold(seats_question const& q, std::int64_t now,
                      std::vector<seats_notice>& messages) {
        forget_the_past(q.lease.count(), now);
        std::vector<holder_id> granted;
        auto const known = people_.find(q.holder);
        bool const is_overtaken = known != people_.end() && q.number <= known->second.number;
        std::optional<person> const before =
            known != people_.end() ? std::optional(known->second) : std::nullopt;
        bool const waited = waits(q.holder);
        auto const wanted = waited ? want_of(q.holder) : 0;
        auto const had = count_of(q.holder);
        bool const is_valid = !is_overtaken && accept(q);

        // Only the first in the queue is served as long as all that it lacks is free.
        while (!queue_.empty()) {
            auto const [who, want] = queue_.front();
            auto const own = count_of(who);
            if (count() + want - own > q.seats)
                break;
            auto& p = people_.at(who);
            if (own == 0 && who != q.holder)
                p.until =
                    std::min(p.until, now + std::min<std::int64_t>(q.lease.count(), 1'000'000));
            give(p, who, want - own, now);
            queue_.pop_front();
            if (who != q.holder)
                granted.push_back(who);
        }
        auto const own = count_of(q.holder);
        if (is_valid && queue_.empty() && own >= q.min)
            for (auto n = own; n < q.max && count() < q.seats; ++n)
                give(people_.at(q.holder), q.holder, 1, now);

        auto& me = people_[q.holder];
        bool const only_repeats =
            waited && waits(q.holder) && want_of(q.holder) == wanted && had == 0 &&
            count_of(q.holder) == 0 && before->channel == me.channel &&
            before->until > now + q.lease.count() / 2;
        if (only_repeats)
            me.number = before->number;
        else if (!is_overtaken)
            me.until = now + q.lease.count();

        seats_answer said{.held = count_of(q.holder),
                          .fence = count_of(q.holder) != 0 ? me.fence : 0,
                          .time = now,
                          .listens = q.channel != 0};
        auto const in_queue = static_cast<weir::amount>(queue_.size());
        said.waits = in_queue - waits(q.holder);
        if (waits(q.holder))
            said.ahead =
                std::distance(queue_.begin(), std::ranges::find(queue_, q.holder, &place::who));
        for (auto const& who : granted) {
            auto const& p = people_.at(who);
            if (p.channel != 0)
                messages.push_back(
                    {who, p.channel, p.number, count_of(who), p.fence, now, in_queue});
        }
        std::optional<std::int64_t> first;
        for (auto const& [who, p] : people_) {
            if (who == q.holder || count_of(who) == 0)
                continue;
            first = std::min(first.value_or(p.until), p.until);
            if (said.ahead >= 0 && p.channel != 0 && std::ranges::count(granted, who) == 0)
                messages.push_back(
                    {.holder = who, .channel = p.channel, .time = now, .waits = in_queue});
        }
        if (said.ahead == 0 && first)
            said.wait = std::chrono::microseconds(*first - now);
        std::erase_if(people_, [&](auto const& one) { return is_gone(one.first); });
        for (auto& [who, p] : people_) {
            if (count_of(who) == 0)
                p.fence = 0;
        }
        return said;
    }

private:
    using holder_id = weir::policy::fed_seats::holder_id;
    struct person {
        std::int64_t fence = 0;
        std::int64_t until = 0;
        std::uint64_t number = 0;
        std::uint64_t channel = 0;
    };
    struct place {
        holder_id who;
        weir::amount want;
    };

    void forget_the_past(std::int64_t lease, std::int64_t now) {
        for (auto& [who, p] : people_) {
            if (p.until <= now) {
                std::erase(taken_, who);
                leave_queue(who);
            }
            p.until = std::min(p.until, now + lease);
        }
        std::erase_if(people_, [&](auto const& one) { return is_gone(one.first); });
    }

    // Takes back the seats that the holder gives up, and queues it if it waits. Returns whether it does not rely on a
    // lost holding.
    bool accept(seats_question const& q) {
        auto& me = people_[q.holder];
        me.number = q.number;
        me.channel = q.channel;
        last_fence_ = std::max(last_fence_, q.known);
        bool const is_hers = q.fence == me.fence || (q.fence == 0 && me.fence > q.known);
        if (!is_hers) {
            std::erase(taken_, q.holder);
            me.fence = 0;
        }
        if (!is_hers && q.fence != 0) {
            leave_queue(q.holder);
            return false;
        }
        auto const own = count_of(q.holder);
        auto const stays = q.min != 0 && q.min <= own && !q.yields ? q.max : q.keep;
        for (auto n = own; n > stays; --n)
            taken_.erase(std::ranges::find(taken_, q.holder));
        if (q.min <= count_of(q.holder))
            leave_queue(q.holder);
        else if (waits(q.holder))
            std::ranges::find(queue_, q.holder, &place::who)->want = q.min;
        else
            queue_.push_back({q.holder, q.min});
        return true;
    }

    void give(person& p, holder_id const& who, weir::amount n, std::int64_t now) {
        if (p.fence == 0)
            p.fence = last_fence_ = std::max(last_fence_ + 1, now);
        taken_.insert(taken_.end(), static_cast<std::size_t>(n), who);
    }
    void leave_queue(holder_id const& who) {
        queue_.remove_if([&](place const& p) { return p.who == who; });
    }
    [[nodiscard]] bool is_gone(holder_id const& who) const {
        return count_of(who) == 0 && !waits(who);
    }
    [[nodiscard]] bool waits(holder_id const& who) const {
        return std::ranges::find(queue_, who, &place::who) != queue_.end();
    }
    [[nodiscard]] weir::amount want_of(holder_id const& who) const {
        return std::ranges::find(queue_, who, &place::who)->want;
    }
    [[nodiscard]] weir::amount count() const { return static_cast<weir::amount>(taken_.size()); }
    [[nodiscard]] weir::amount count_of(holder_id const& who) const {
        return std::ranges::count(taken_, who);
    }

    std::vector<holder_id> taken_;
    std::list<place> queue_;
    std::map<holder_id, person> people_;
    std::int64_t last_fence_ = 0;
};

/// A store that gets the time as an argument, in microseconds, and appends its messages.
using told_seats = std::function<seats_answer(
    seats_question const&, std::int64_t now, std::vector<seats_notice>&)>;

/// Asks `questions` questions, and compares each reply, and the messages, with the definition. The clock is at `now`;
/// it is sometimes set back.
inline void compare_with_seats(told_seats const& store, int questions, random_source& random,
                               std::int64_t now) {
    struct client {
        std::uint64_t number = 0;
        std::int64_t fence = 0;
        std::int64_t known = 0;
        weir::amount held = 0;
    };
    std::array<client, 5> clients;
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
        auto const least = random.one_in(3) ? 0 : random.between(1, seats);
        seats_question const q{
            .seats = seats,
            .lease = lease,
            .holder = {who + 1, 0xfedc'ba98'7654'3210},
            .number =
                repeats ? c.number - static_cast<std::uint64_t>(random.between(0, 3)) : ++c.number,
            .fence = random.one_in(6) ? random.one_of<std::int64_t>({0, c.fence - 1, 1}) : c.fence,
            .known = c.known,
            .keep = random.between(0, c.held + 1),
            .min = least,
            .max = random.between(least, seats),
            .yields = random.one_in(4),
            .channel = random.one_in(4) ? 0 : who + 100};
        std::vector<seats_notice> messages;
        auto const said = store(q, now, messages);
        std::vector<seats_notice> expected_messages;
        auto const expected = definition.hold(q, now, expected_messages);
        std::ranges::sort(messages, {}, &seats_notice::holder);
        std::ranges::sort(expected_messages, {}, &seats_notice::holder);
        BOOST_TEST_REQUIRE(
            (said.held == expected.held && said.fence == expected.fence &&
             said.wait == expected.wait && said.waits == expected.waits &&
             said.ahead == expected.ahead && said.time == expected.time &&
             said.listens == expected.listens),
            "question " << i << " of " << who << ", number " << q.number << ", fence " << q.fence
                        << ", at " << now << ", for " << q.min << " to " << q.max << " or "
                        << q.keep << ": said " << said.held << " with " << said.fence << " in "
                        << said.wait.count() << ", " << said.waits << " wait, " << said.ahead
                        << " before, not " << expected.held << " with " << expected.fence << " in "
                        << expected.wait.count() << ", " << expected.waits << " wait, "
                        << expected.ahead << " before");
        BOOST_TEST_REQUIRE((messages == expected_messages),
                           "question " << i << ": " << messages.size() << " messages, not "
                                       << expected_messages.size() << ", or other ones");
        // A holder hears of most grants.
        for (auto& m : messages) {
            if (m.held != 0 && !random.one_in(3)) {
                auto& other = clients[m.holder[0] - 1];
                other.held = m.held;
                other.fence = m.fence;
                other.known = std::max(other.known, m.fence);
            }
        }
        c.held = said.held;
        c.fence = said.fence;
        c.known = std::max(c.known, said.fence);
    }
}

}  // namespace support
