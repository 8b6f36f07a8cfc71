#include <weir/detail/chain/operation.hpp>
#include <weir/detail/fair_queue.hpp>
#include <weir/detail/priority_queue.hpp>

#include "support/fair_line.hpp"
#include "support/order_oracle.hpp"
#include "support/printing.hpp"
#include "support/random.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <vector>

// Chains in the orders that obey their standing.

using namespace std::chrono_literals;
using namespace support::fair;
using weir::detail::chain_entry;
using weir::detail::queued_request;

BOOST_AUTO_TEST_SUITE(chains_with_a_standing)

namespace {

// Requests and chains, and their order by the documentation. The numbers of the oracle are their indices.
template <class Queue>
class game {
public:
    explicit game(support::random_source& random) : random_(random) {}
    game(game const&) = delete;
    game& operator=(game const&) = delete;
    ~game() {
        for (auto& one : guests_) {
            if (one->is_here)
                remove(*one);
            if (one->chain)
                queue_.forget_chain(*one->chain);
        }
    }

    void play(int steps, int flows, int last_class) {
        for (int step = 0; step != steps; ++step) {
            now_ += static_cast<int>(random_.between(0, 2));
            switch (random_.between(0, 7)) {
                case 0:
                case 1:
                case 2:
                    arrive(flows, last_class);
                    break;
                case 3:
                    if (auto* const one = any(true))
                        leave(*one);
                    break;
                case 4:
                    if (auto* const one = any(false))
                        come_back(*one);
                    break;
                case 5:
                    if (auto* const one = any(true); one && one->chain)
                        grant(*one);  // it reserves its limiters
                    break;
                default:
                    if (!truth_.empty())
                        grant(*guests_[static_cast<std::size_t>(truth_.next())]);
            }
            check();
        }
    }

private:
    struct member {
        int index;
        weir::request asked;
        weir::time_point since;
        std::unique_ptr<guest> plain;
        std::unique_ptr<chain_entry> chain;
        bool is_here = false;
        bool is_over = false;

        [[nodiscard]] queued_request& request() const {
            return chain ? static_cast<queued_request&>(*chain) : *plain;
        }
    };

    void arrive(int flows, int last_class) {
        weir::standing const how{.priority = static_cast<int>(random_.between(0, last_class)),
                                 .flow = static_cast<std::uint64_t>(random_.between(0, flows - 1)),
                                 .weight = is_fair ? static_cast<int>(random_.between(1, 4)) : 1};
        auto const index = static_cast<int>(guests_.size());
        weir::request const r(random_.between(1, 5), how);
        auto& v =
            *guests_.emplace_back(std::make_unique<member>(member{index, r, at(now_), {}, {}}));
        if (random_.one_in(2)) {
            v.chain = std::make_unique<chain_entry>();
            v.chain->ask_for(r);
            v.chain->number = static_cast<std::uint64_t>(index) + 1;
            v.chain->since = v.since;
            queue_.prepare_chain(*v.chain);
            if (random_.one_in(3))
                return;  // it waits elsewhere
        } else {
            v.plain = std::make_unique<guest>(index, r, v.since);
            queue_.prepare(*v.plain);
        }
        add(v);
    }
    void add(member& v) {
        v.is_here = true;
        v.chain ? queue_.push_chain(*v.chain) : queue_.push(*v.plain);
        truth_.join(v.index, v.asked, v.since, v.chain != nullptr);
    }
    void remove(member& v) {
        v.is_here = false;
        v.chain ? queue_.erase_chain(*v.chain) : queue_.erase(*v.plain);
    }
    void leave(member& v) {
        remove(v);
        truth_.leave(v.index);
        v.is_over = !v.chain;
    }
    void come_back(member& v) {
        auto with = truth_;
        with.join(v.index, v.asked, v.since, true);
        BOOST_REQUIRE(queue_.would_be_next(*v.chain, at(now_)) == (with.next() == v.index));
        add(v);
    }
    void grant(member& v) {
        auto const n = v.request().count;
        v.chain ? queue_.grant_chain(*v.chain, at(now_)) : queue_.grant(*v.plain, n, at(now_));
        remove(v);
        truth_.grant_to(v.index, n);
        v.is_over = true;
    }
    member* any(bool is_here) {
        std::vector<member*> all;
        for (auto& v : guests_) {
            if (!v->is_over && v->is_here == is_here)
                all.push_back(v.get());
        }
        return all.empty() ? nullptr : all[random_.index_in(all)];
    }

    void check() {
        BOOST_REQUIRE(queue_.empty() == truth_.empty());
        auto* const next = queue_.next(at(now_));
        BOOST_REQUIRE((next == nullptr) == truth_.empty());
        if (next)
            BOOST_REQUIRE(next == &guests_[static_cast<std::size_t>(truth_.next())]->request());
        weir::request const newcomer(
            random_.between(1, 5), {.priority = static_cast<int>(random_.between(0, 7))});
        if (next)
            BOOST_REQUIRE(queue_.bars(newcomer, at(now_)) == !truth_.lets_pass(newcomer, at(now_)));
        auto* const goes = queue_.makes_way(newcomer, nullptr);
        BOOST_REQUIRE((goes != nullptr) == truth_.somebody_makes_way(newcomer));
        if constexpr (is_fair) {
            BOOST_REQUIRE(queue_.ahead_of_new(newcomer, at(now_)) == truth_.ahead_of_new(newcomer));
            if (goes)
                BOOST_REQUIRE(truth_.may_make_way(static_cast<guest*>(goes)->index, newcomer));
        }
    }

    static constexpr bool is_fair = std::is_same_v<Queue, weir::detail::fair_queue>;

    support::random_source& random_;
    Queue queue_{weir::queue_options{.ageing = 1s}};
    support::fair_oracle truth_;  // with one flow and weight it is `priority`
    std::vector<std::unique_ptr<member>> guests_;
    int now_ = 0;
};

}  // namespace

// They leave the queue, come back in the position of their arrival, and are granted, some of them out of turn.
BOOST_AUTO_TEST_CASE(are_ordered_by_the_documentation_of_fair) {
    support::for_each_seed(1, 60, [](support::random_source& random) {
        game<weir::detail::fair_queue> all(random);
        all.play(400, static_cast<int>(random.between(1, 40)),
                 static_cast<int>(random.one_of({0, 2, 7})));
    });
}
BOOST_AUTO_TEST_CASE(are_ordered_by_the_documentation_of_priority) {
    support::for_each_seed(1, 60, [](support::random_source& random) {
        game<weir::detail::priority_queue> all(random);
        all.play(400, 1, static_cast<int>(random.one_of({0, 2, 7})));
    });
}

BOOST_AUTO_TEST_SUITE_END()
