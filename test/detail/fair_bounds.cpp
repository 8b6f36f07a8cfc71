#include <weir/detail/fair_queue.hpp>

#include "support/fair_line.hpp"
#include "support/printing.hpp"
#include "support/random.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <utility>
#include <vector>

// The guarantees of `queue_order::fair`.

using namespace std::chrono_literals;
using namespace support::fair;

BOOST_AUTO_TEST_SUITE(the_order_fair)

namespace {

// The permits granted to two flows while both wait.
struct rivals {
    // `a` and `b` are the largest requests.
    void note(amount a, amount b) {
        amount const ahead = granted[0] * weight[1] - granted[1] * weight[0];
        if (!both_wait) {
            both_wait = true;
            least = most = ahead;
        }
        least = std::min(least, ahead);
        most = std::max(most, ahead);
        auto const bound = a * weight[1] + b * weight[0];
        BOOST_REQUIRE(most - least <= bound);
        worst = std::max(worst, static_cast<double>(most - least) / static_cast<double>(bound));
    }
    void end() { both_wait = false; }

    std::array<amount, 2> weight{};
    std::array<amount, 2> granted{};
    amount least = 0;
    amount most = 0;
    bool both_wait = false;
    double worst = 0;
};

}  // namespace

// Flows come and go, and requests leave. `largest` is over the requests of a flow since it began to wait.
BOOST_AUTO_TEST_CASE(keeps_the_documented_bound_for_each_pair_of_flows) {
    double worst = 0;
    support::for_each_seed(1, 300, [&](support::random_source& random) {
        auto const flows = static_cast<std::size_t>(random.between(2, 6));
        bool const leaves = random.one_in(2);
        auto const most = random.between(1, 10);
        auto const busy = random.between(1, 6);
        std::vector<amount> weights;
        for (std::size_t k = 0; k != flows; ++k)
            weights.push_back(random.between(1, 32));
        std::vector<rivals> pairs(flows * flows);
        for (std::size_t a = 0; a != flows; ++a) {
            for (std::size_t b = 0; b != flows; ++b)
                pairs[a * flows + b].weight = {weights[a], weights[b]};
        }
        line l;
        std::vector<std::vector<guest*>> waiting(flows);
        std::vector<amount> largest(flows);
        for (int step = 0; step != 2000; ++step) {
            auto const k = random.index_in(waiting);
            if (random.between(0, busy) != 0 && waiting[k].size() < 4) {
                auto const n = random.between(1, most);
                largest[k] = std::max(waiting[k].empty() ? 0 : largest[k], n);
                waiting[k].push_back(
                    &l.come(weir::request(n, {.flow = k, .weight = static_cast<int>(weights[k])})));
            }
            amount granted = 0;
            std::size_t to = 0;
            if (leaves && random.one_in(4) && !waiting[k].empty()) {
                auto const i = random.index_in(waiting[k]);
                l.queue.erase(*waiting[k][i]);
                waiting[k].erase(waiting[k].begin() + static_cast<std::ptrdiff_t>(i));
            } else if (random.one_in(2) && l.next()) {
                to = l.next()->asked.flow();
                granted = l.next()->count;
                l.serve(*l.next());
                waiting[to].erase(waiting[to].begin());
            }
            for (std::size_t a = 0; a != flows; ++a) {
                for (std::size_t b = 0; b != a; ++b) {
                    auto& p = pairs[a * flows + b];
                    p.granted[0] += a == to ? granted : 0;
                    p.granted[1] += b == to ? granted : 0;
                    // A grant belongs to the time in which its request waits.
                    if (p.both_wait || (!waiting[a].empty() && !waiting[b].empty()))
                        p.note(largest[a], largest[b]);
                    if (waiting[a].empty() || waiting[b].empty())
                        p.end();
                    worst = std::max(worst, p.worst);
                }
            }
        }
    });
    BOOST_TEST(worst > 0.95);  // the bound is tight
}

// One flow always waits. Another one comes and goes, with requests of any size: it never has more than if it stayed.
BOOST_AUTO_TEST_CASE(grants_no_more_to_a_flow_that_leaves_and_comes_back) {
    support::for_each_seed(1, 300, [](support::random_source& random) {
        line l;
        auto const most = random.between(1, 5);
        std::array const weights{
            static_cast<int>(random.between(1, 32)), static_cast<int>(random.between(1, 32))};
        auto const stays = [&] { l.come(weir::request(1, {.flow = 0, .weight = weights[0]})); };
        stays();
        stays();
        std::vector<guest*> guests;
        std::array<amount, 2> granted{};
        for (int step = 0; step != 2000; ++step) {
            if (guests.empty() || random.one_in(3))
                guests.push_back(&l.come(
                    weir::request(random.between(1, most), {.flow = 1, .weight = weights[1]})));
            if (random.one_in(3)) {
                auto const i = random.index_in(guests);
                l.queue.erase(*guests[i]);
                guests.erase(guests.begin() + static_cast<std::ptrdiff_t>(i));
                continue;
            }
            auto& next = *l.next();
            granted[next.asked.flow()] += next.count;
            if (next.asked.flow() == 0)
                stays();
            else
                std::erase(guests, &next);
            l.serve(next);
            BOOST_REQUIRE(granted[1] * weights[0] - granted[0] * weights[1] <= weights[1]);
        }
    });
}

// Requests of one size and one weight, none of which leaves. Once a request has been the first of its flow for seven
// times the ageing, it is preceded by none that came later, and by at most one of each other flow of its class.
BOOST_AUTO_TEST_CASE(starves_no_request) {
    support::for_each_seed(1, 200, [](support::random_source& random) {
        auto const ageing = static_cast<int>(random.between(1, 10));
        line l(ageing * 1s);
        struct first {
            guest* one = nullptr;
            int since = 0;
            std::map<std::uint64_t, int>
                before{};  // grants to other flows of its class, when it has aged
        };
        std::map<std::pair<int, std::uint64_t>, std::deque<guest*>> waiting;
        std::map<std::pair<int, std::uint64_t>, first> firsts;
        int now = 0;
        for (int step = 0; step != 1000; ++step) {
            now += static_cast<int>(random.between(0, 3));
            for (auto k = random.between(0, 2); k != 0; --k) {
                // Mostly urgent requests of ever new flows.
                int const c = random.one_in(4) ? 7 : static_cast<int>(random.between(0, 2));
                auto const flow = random.one_in(2) ? random.bits() % 3 : random.bits();
                auto& one =
                    l.come(weir::request(2, {.priority = c, .flow = flow, .weight = 3}), at(now));
                auto& own = waiting[{c, flow}];
                own.push_back(&one);
                if (own.size() == 1)
                    firsts[{c, flow}] = {.one = &one, .since = now};
            }
            auto* const next = l.next();
            if (!next)
                continue;
            std::pair const of(next->asked.priority(), next->asked.flow());
            firsts.erase(of);
            for (auto& [other, f] : firsts) {
                auto const aged = f.since + 7 * ageing;
                if (now < aged)
                    continue;
                BOOST_REQUIRE(next->since <= at(aged));
                if (other.first == of.first)
                    BOOST_REQUIRE(++f.before[of.second] <= 1);
            }
            waiting[of].pop_front();
            l.serve(*next);
            if (waiting[of].empty())
                waiting.erase(of);
            else
                firsts[of] = {.one = waiting[of].front(), .since = now};
        }
    });
}

BOOST_AUTO_TEST_SUITE_END()
