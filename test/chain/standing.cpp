#include <weir/chain.hpp>

#include "support/printing.hpp"
#include "support/random.hpp"
#include "support/virtual_limiters.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

// A chain is a request of its class, flow and weight where the order is `priority` or `fair`. Everything here is computed
// from the documentation of `chain` and `queue_order`.

using namespace support;
using weir::amount;
using weir::chain;
using weir::errc;
using weir::error_code;
using weir::queue_order;
using weir::standing;

namespace {

// Records the names of granted requests, and keeps no permit.
struct log_of_grants {
    std::vector<std::string> seen;

    auto operator()(std::string who) {
        return [this, who](error_code ec, auto const&) {
            if (!ec)
                seen.push_back(who);
        };
    }
};

// One seat at `a`, in use. `b` is free.
struct busy {
    explicit busy(queue_order order, clock::duration ageing = 1s)
        : a(ctx, {.seats = 1}, {.order = order, .ageing = ageing}) {}

    void request(standing const& how, std::string who) {
        a.async_enter({1, how}, log(std::move(who)));
        settle(ctx);
    }
    void chain_of(standing const& how, std::string who) {
        chain{a.with({1, how}), b}.async_enter(log(std::move(who)));
        settle(ctx);
    }
    std::vector<std::string> release() {
        held.leave();
        settle(ctx);
        return log.seen;
    }

    asio::io_context ctx;
    seats a;
    seats b{ctx, {.seats = 100}};
    weir::permit held = a.try_enter();
    log_of_grants log;
};
using names = std::vector<std::string>;

}  // namespace

BOOST_AUTO_TEST_SUITE(a_chain_with_a_standing)

BOOST_AUTO_TEST_CASE(goes_before_waiting_requests_of_higher_classes) {
    busy s(queue_order::priority);
    s.request({.priority = 7}, "request 7");
    s.chain_of({.priority = 7}, "chain 7");
    s.chain_of({.priority = 0}, "chain 0");
    s.request({.priority = 0}, "request 0");
    BOOST_TEST((s.release() == names{"chain 0", "request 0", "request 7", "chain 7"}));
}

BOOST_AUTO_TEST_CASE(goes_behind_later_requests_of_lower_classes) {
    busy s(queue_order::priority);
    s.chain_of({.priority = 7}, "chain 7");
    s.request({.priority = 6}, "request 6");
    s.chain_of({.priority = 5}, "chain 5");
    s.request({.priority = 0}, "request 0");
    BOOST_TEST((s.release() == names{"request 0", "chain 5", "request 6", "chain 7"}));
}

// Each second of waiting counts as one class.
BOOST_AUTO_TEST_CASE(ages_like_a_request) {
    busy s(queue_order::priority);
    s.chain_of({.priority = 7}, "chain 7");
    run_for(s.ctx, 6s);
    s.request({.priority = 0}, "request at 6 s");
    run_for(s.ctx, 1s);
    s.request({.priority = 0}, "request at 7 s");
    BOOST_TEST((s.release() == names{"request at 6 s", "chain 7", "request at 7 s"}));
}

BOOST_AUTO_TEST_CASE(without_one_has_the_standing_of_a_request_without_one) {
    for (auto const order : {queue_order::priority, queue_order::fair}) {
        busy s(order);
        s.request({}, "before");
        chain{s.a, s.b}.async_enter(s.log("chain"));
        s.request({}, "after");
        BOOST_TEST((s.release() == names{"before", "chain", "after"}));
    }
    busy s(queue_order::priority);
    chain{s.a, s.b}.async_enter(s.log("chain"));
    s.request({.priority = 2}, "request 2");
    BOOST_TEST((s.release() == names{"request 2", "chain"}));
}

BOOST_AUTO_TEST_CASE(takes_the_turns_of_its_flow) {
    busy s(queue_order::fair);
    s.request({.flow = 'a'}, "a1");
    s.chain_of({.flow = 'a'}, "a2");
    s.chain_of({.flow = 'a'}, "a3");
    s.request({.flow = 'b'}, "b1");
    s.chain_of({.flow = 'b'}, "b2");
    s.chain_of({.flow = 'c'}, "c1");
    BOOST_TEST((s.release() == names{"a1", "b1", "c1", "a2", "b2", "a3"}));
}

// The tags are 1, 2, 3 for a, and 1/2, 1, 3/2, 2 for b. At 1 and 2 flow a was served longest ago, or began first.
BOOST_AUTO_TEST_CASE(has_a_weight) {
    busy s(queue_order::fair);
    for (int i = 1; i != 4; ++i)
        s.chain_of({.flow = 'a'}, "a");
    for (int i = 1; i != 5; ++i)
        s.chain_of({.flow = 'b', .weight = 2}, "b");
    BOOST_TEST((s.release() == names{"b", "a", "b", "b", "a", "b", "a"}));
}

// `try_enter` fails only behind a request that goes first.
BOOST_AUTO_TEST_CASE(lets_a_request_of_a_lower_class_overtake_it_at_once) {
    for (auto const order : {queue_order::priority, queue_order::fair}) {
        asio::io_context ctx;
        seats a{ctx, {.seats = 2}, {.order = order}};
        seats b{ctx, {.seats = 1}};
        auto const one = a.try_enter();
        log_of_grants log;
        chain{a.with({2, {.priority = 5}}), b}.async_enter(log("chain"));
        settle(ctx);
        BOOST_TEST(a.stats().waiting == 1U);
        BOOST_TEST(!a.try_enter({1, {.priority = 5}}));
        BOOST_TEST(static_cast<bool>(a.try_enter({1, {.priority = 4}})));
        BOOST_TEST(!chain(a.with({1, {.priority = 5}})).try_enter());
        BOOST_TEST(static_cast<bool>(chain(a.with({1, {.priority = 4}})).try_enter()));
        BOOST_TEST(log.seen.empty());
    }
}

// The forecast counts the requests that go before a chain of this standing.
BOOST_AUTO_TEST_CASE(is_rejected_by_the_forecast_of_its_standing) {
    asio::io_context ctx;
    token_bucket a{ctx,
                   {.rate = {1, 1s}, .burst = 1, .initial = 0},
                   {.max_expected_wait = 3s, .order = queue_order::priority, .ageing = 1h}};
    seats b{ctx, {.seats = 1}};
    for (int i = 0; i != 3; ++i)
        a.async_enter({1, {.priority = 4}}, [](error_code, auto const&) {});
    settle(ctx);
    auto const behind = chain{a.with({1, {.priority = 5}}), b}.try_enter();
    BOOST_TEST((behind.retry_after() == 4s));
    std::optional<error_code> ends;
    auto const note = [&](error_code ec, auto const&) { ends = ec; };
    chain{a.with({1, {.priority = 4}}), b}.async_enter(note);
    settle(ctx);
    BOOST_TEST((ends == error_code(errc::queue_full)));
    ends.reset();
    chain{a.with({1, {.priority = 3}}), b}.async_enter(note);
    run_for(ctx, 1s);
    BOOST_TEST((ends == error_code()));
}

// It has a place in the line of its flow by its arrival, wherever it waited first.
BOOST_AUTO_TEST_CASE(comes_back_in_the_position_of_its_arrival) {
    for (auto const order : {queue_order::priority, queue_order::fair}) {
        busy s(order);
        seats c{s.ctx, {.seats = 1}};
        auto at_c = c.try_enter();
        s.request({}, "before");
        chain{c, s.a}.async_enter(s.log("chain"));  // it waits at c, the first that it names
        settle(s.ctx);
        BOOST_TEST(c.stats().waiting == 1U);
        s.request({}, "after");
        at_c.leave();
        settle(s.ctx);
        BOOST_TEST((c.stats().waiting == 0U && s.a.stats().waiting == 3U));
        BOOST_TEST((s.release() == names{"before", "chain", "after"}));
    }
}

// Each of them may need memory for its flow, when no memory may be allocated.
BOOST_AUTO_TEST_CASE(comes_back_with_many_others) {
    busy s(queue_order::fair);
    seats c{s.ctx, {.seats = 100}};
    auto at_c = c.try_enter(100);
    for (unsigned k = 0; k != 100; ++k)
        chain{c, s.a.with({1, {.flow = k}})}.async_enter(s.log("chain"));
    settle(s.ctx);
    at_c.leave();
    settle(s.ctx);
    BOOST_TEST(s.a.stats().waiting == 100U);
    BOOST_TEST(s.release().size() == 100U);
}

// Chains are not dropped for a newcomer, and a flow of chains alone has nothing to drop.
BOOST_AUTO_TEST_CASE(makes_no_way) {
    for (auto const order : {queue_order::priority, queue_order::fair}) {
        asio::io_context ctx;
        seats a{ctx,
                {.seats = 1},
                {.max_waiting = 2, .full = weir::when_full::evict_oldest, .order = order}};
        seats b{ctx, {.seats = 9}};
        auto held = a.try_enter();
        std::vector<std::string> ends;
        auto const note = [&](std::string who) {
            return [&ends, who](error_code ec, auto const&) {
                ends.push_back(who + (ec == errc::shed         ? " is dropped"
                                      : ec == errc::queue_full ? " is rejected"
                                                               : ""));
            };
        };
        chain{a.with({1, {.priority = 7}}), b}.async_enter(note("chain 7"));
        a.async_enter({1, {.priority = 5}}, note("request 5"));
        settle(ctx);
        chain{a.with({1, {.priority = 5}}), b}.async_enter(note("chain 5"));
        settle(ctx);
        a.async_enter({1, {.priority = 0}}, note("request 0"));
        settle(ctx);
        BOOST_TEST((ends == names{"request 5 is dropped", "request 0 is rejected"}));
        held.leave();
        settle(ctx);
        BOOST_TEST(
            (ends == names{"request 5 is dropped", "request 0 is rejected", "chain 5", "chain 7"}));
    }
}

// While it reserves its limiters, nothing that arrived later goes before it, whatever its class is.
BOOST_AUTO_TEST_CASE(precedes_all_later_requests_while_it_reserves) {
    asio::io_context ctx;
    seats a{ctx, {.seats = 1}, {.order = queue_order::priority, .ageing = 1h}};
    seats b{ctx, {.seats = 1}};
    log_of_grants log;
    weir::chain_options const options{.passes = 1, .reserve_for = 10s};
    chain both{options, a.with({1, {.priority = 7}}), b};
    auto at_a = a.try_enter();
    both.async_enter(log("chain"));
    auto at_b = b.try_enter();
    settle(ctx);
    at_a.leave();  // the lost turn
    settle(ctx);
    BOOST_TEST((a.stats().waiting == 1U && b.stats().waiting == 1U));
    BOOST_TEST(!a.try_enter({1, {.priority = 0}}));
    seats c{ctx, {.seats = 1}};
    auto at_c = c.try_enter();
    chain{c, a.with({1, {.priority = 0}})}.async_enter(log("elsewhere"));
    settle(ctx);
    a.async_enter({1, {.priority = 0}}, log("later"));
    BOOST_TEST(c.stats().waiting == 1U);
    at_c.leave();
    run_for(ctx, 9s);
    BOOST_TEST(log.seen.empty());
    at_b.leave();
    settle(ctx);
    BOOST_TEST((log.seen == names{"chain", "elsewhere", "later"}));
}

// A change of the order waits for chains that wait elsewhere and may join.
BOOST_AUTO_TEST_CASE(keeps_the_order_in_which_it_arrived) {
    busy s(queue_order::fifo);
    seats c{s.ctx, {.seats = 1}};
    auto at_c = c.try_enter();
    chain{c, s.a.with({1, {.flow = 1}})}.async_enter(s.log("chain"));
    settle(s.ctx);
    s.a.configure_queue([](auto& o) { o.order = queue_order::fair; });
    s.request({.flow = 2}, "later");
    at_c.leave();
    settle(s.ctx);
    BOOST_TEST(s.a.stats().waiting == 2U);
    BOOST_TEST((s.release() == names{"chain", "later"}));
    s.held = s.a.try_enter();
    s.log.seen.clear();
    s.request({.flow = 1}, "1");
    s.chain_of({.flow = 1}, "1");
    s.chain_of({.flow = 2}, "2");
    BOOST_TEST((s.release() == names{"1", "2", "1"}));
}

namespace {

// Chains over limiters that rank them differently: in the queue of one a chain is first, in another it is not.
class crossing_chains {
public:
    crossing_chains(support::random_source& random, queue_order order)
        : random_(random), order_(order) {
        for (int i = number(2, 3); i != 0; --i) {
            weir::queue_options const queueing{.order = order, .ageing = number(0, 2) * 1min + 1ms};
            limiters_.push_back(
                std::make_unique<seats>(ctx_, weir::seats_options{.seats = 2}, queueing));
            held_.push_back(limiters_.back()->try_enter(2));
        }
        for (int i = number(4, 9); i != 0; --i) {
            auto& one = any();
            auto& other = any();
            weir::chain_options const options{.passes = 1, .reserve_for = 1h};
            if (&one == &other)
                one.async_enter(some(), keep{held_});
            else
                chain{options, one.with(some()), other.with(some())}.async_enter(keep{held_});
        }
    }
    ~crossing_chains() {
        for (auto const& each : limiters_)
            each->close();
        ctx_.poll();
    }

    // Releases all permits, one after the other, in any order.
    void play() {
        do {
            std::swap(held_[random_.index_in(held_)], held_.back());
            held_.pop_back();
            if (number(0, 1) == 0 || held_.empty())
                settles();
        } while (!held_.empty());
        for (auto const& each : limiters_)
            BOOST_TEST(each->stats().waiting == 0U);
    }

private:
    struct keep {
        std::vector<weir::permit>& held;

        void operator()(error_code ec, weir::permit one) {
            if (!ec)
                held.push_back(std::move(one));
        }
        void operator()(error_code ec, weir::chain_permit<2> both) {
            (*this)(ec, std::move(both[0]));
            (*this)(ec, std::move(both[1]));
        }
    };

    int number(int least, int most) { return static_cast<int>(random_.between(least, most)); }
    seats& any() { return *limiters_[random_.index_in(limiters_)]; }
    weir::request some() {
        auto const n = number(1, 2);
        if (order_ == queue_order::priority)
            return {n, {.priority = number(0, 3)}};
        return {n, {.flow = random_.bits() % 4, .weight = number(1, 3)}};
    }
    void settles() {
        ctx_.restart();
        for (int handlers = 0; ctx_.poll_one() != 0; ++handlers)
            BOOST_REQUIRE(handlers != 1000);
    }

    support::random_source& random_;
    queue_order order_;
    asio::io_context ctx_;
    std::vector<weir::permit> held_;
    std::vector<std::unique_ptr<seats>> limiters_;
};

}  // namespace

// While no time passes and nothing is released, chains move between the queues only a limited number of times.
BOOST_AUTO_TEST_CASE(settles_between_queues_that_rank_it_differently) {
    for (auto const order : {queue_order::priority, queue_order::fair}) {
        support::for_each_seed(1, 10'000, [&](support::random_source& random) {
            crossing_chains(random, order).play();
        });
    }
}

namespace {

// Flows that wait for `a`, as requests and as chains that also take a seat of `b`.
class rivals {
public:
    rivals(support::random_source& random, std::size_t flows, int share_of_chains, bool blocks)
        : random_(random), chains_(share_of_chains), blocks_(blocks), flows_(flows) {
        for (auto& one : flows_) {
            one.weight = random.between(1, 32);
            one.most = random.between(1, 8);
        }
        held_.push_back(a_.try_enter(8));
    }
    ~rivals() {
        a_.close();
        b_.close();
        settle(ctx_);
    }

    void play(int steps) {
        for (int step = 0; step != steps; ++step) {
            for (std::size_t k = 0; k != flows_.size(); ++k) {
                while (flows_[k].plain <
                       9)  // so that each flow always waits: 8 seats are released at most
                    ask(k, false);
                if (flows_[k].waiting < 20 && random_.one_in(2))
                    ask(k, random_.between(0, 99) < chains_);
            }
            settle(ctx_);
            if (blocks_ && at_b_)
                at_b_.leave();
            else if (blocks_ && random_.one_in(2))
                at_b_ = b_.try_enter(100);
            if (!held_.empty())
                held_.pop_front();
            settle(ctx_);
            check();
        }
    }

private:
    struct flow {
        amount weight = 1;
        amount most = 1;
        int waiting = 0;
        int plain = 0;
        amount granted = 0;
    };

    void ask(std::size_t k, bool as_chain) {
        auto& own = flows_[k];
        auto const n = random_.between(1, own.most);
        weir::request const r(n, {.flow = k, .weight = static_cast<int>(own.weight)});
        ++own.waiting;
        own.plain += as_chain ? 0 : 1;
        auto const ends = [this, k, n, as_chain](error_code ec, auto permit) {
            if (ec)
                return;
            --flows_[k].waiting;
            flows_[k].plain -= as_chain ? 0 : 1;
            flows_[k].granted += n;
            check();
            if constexpr (requires { permit[0]; })
                held_.push_back(std::move(permit[0]));
            else
                held_.push_back(std::move(permit));
        };
        if (as_chain)
            chain{never_, a_.with(r), b_}.async_enter(ends);
        else
            a_.async_enter(r, ends);
    }

    // The bound, for each pair.
    void check() {
        auto const size = flows_.size();
        least_.resize(size * size);
        most_.resize(size * size);
        for (std::size_t i = 0; i != size; ++i) {
            for (std::size_t j = 0; j != size; ++j) {
                auto const& one = flows_[i];
                auto const& other = flows_[j];
                auto const ahead = one.granted * other.weight - other.granted * one.weight;
                auto& least = least_[i * size + j];
                auto& most = most_[i * size + j];
                least = std::min(least, ahead);
                most = std::max(most, ahead);
                BOOST_REQUIRE(most - least <= one.most * other.weight + other.most * one.weight);
            }
        }
    }

    static constexpr weir::chain_options never_{.passes = 1'000'000};

    support::random_source& random_;
    int chains_;
    bool blocks_;
    asio::io_context ctx_;
    seats a_{ctx_, {.seats = 8}, {.order = queue_order::fair}};
    seats b_{ctx_, {.seats = 100}};
    std::vector<flow> flows_;
    std::deque<weir::permit> held_;
    weir::permit at_b_;
    std::vector<amount> least_;
    std::vector<amount> most_;
};

}  // namespace

// Over any time in which two flows wait, |granted_A / w_A - granted_B / w_B| <= m_A / w_A + m_B / w_B: for flows of
// requests, mixed ones, and such that mostly consist of chains. In the second half the other limiter of the chains often
// blocks them: then they leave the queue and come back.
BOOST_AUTO_TEST_CASE(keeps_the_bound_of_the_order_fair) {
    support::for_each_seed(1, 40, [&](support::random_source& random) {
        for (int const chains : {0, 50, 95}) {
            for (bool const blocks : {false, true}) {
                rivals all(random, static_cast<std::size_t>(random.between(2, 5)), chains, blocks);
                all.play(300);
            }
        }
    });
}

BOOST_AUTO_TEST_SUITE_END()
