#include <weir/shared/limiter.hpp>
#include <weir/shared/memory_store.hpp>
#include <weir/testing.hpp>

#include "support/nightly.hpp"
#include "support/random.hpp"
#include "weir/agent/limit.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

// Random schedules of several processes at one store, in virtual time. Latencies differ, questions and replies are lost
// or late, processes die, and the store loses its data or its clock is set. Some processes ask through agents, whose
// limits are the real ones. In each schedule the permits used stay within the documented bound, in every time interval.
// The explorer tests how threads interact.

namespace {

using namespace std::chrono_literals;
namespace asio = boost::asio;
using support::random_source;
using weir::amount;
using weir::duration;
using weir::testing::clock;
using weir::testing::timer;
__extension__ using wide = __int128;

// The possible faults in a schedule.
struct hazards {
    duration way = 1ms;  // the longest, of most messages
    int one_in = 0;      // one in N messages is late or lost, or cannot be sent; 0: none
    bool loses = false;  // the store loses its data, or its clock is set forward
    bool sets_back = false;
    bool kills = false;  // a process dies, and another one starts in its place
};

// A store, or an agent, whose messages are late or get lost.
class in_trouble : public weir::store, public std::enable_shared_from_this<in_trouble> {
public:
    in_trouble(asio::io_context& ctx, random_source& random, hazards const& what)
        : ctx_(ctx), random_(random), what_(what) {}

    void validate(weir::policy::shared_bucket const&) const override {}

    void async_take(std::string const& name, question const& q, answer_handler handler) override {
        if (goes_wrong() && random_.one_in(3)) {
            asio::post(ctx_, [handler = std::move(handler)]() mutable {
                std::move(handler)(asio::error::connection_refused, answer());
            });
            return;
        }
        after_a_way([me = shared_from_this(), name, q, handler = std::move(handler)]() mutable {
            me->take(name, q, std::move(handler));
        });
    }
    void async_give_back(std::string const& name, give_back const& what) override {
        after_a_way([me = shared_from_this(), name, what] { me->take_back(name, what); });
    }

protected:
    // The effects of a message that arrived.
    virtual void take(std::string const& name, question const& q, answer_handler handler) = 0;
    virtual void take_back(std::string const& name, give_back const& what) = 0;

    void reply(answer_handler handler, weir::error_code ec, answer said) {
        if (goes_wrong() && random_.one_in(3)) {
            ec = asio::error::connection_reset;
            said = {.lost = true};
        }
        after_a_way([ec, said, handler = std::move(handler)]() mutable {
            std::move(handler)(ec, std::move(said));
        });
    }

private:
    [[nodiscard]] bool goes_wrong() { return what_.one_in != 0 && random_.one_in(what_.one_in); }

    // Or never.
    template <class F>
    void after_a_way(F f) {
        auto way = duration(random_.between(0, what_.way.count()));
        if (goes_wrong()) {
            if (random_.one_in(3))
                return;
            way = duration(random_.between(0, duration(120ms).count()));
        }
        auto const t = std::make_shared<timer>(ctx_);
        t->expires_after(way);
        t->async_wait([t, f = std::move(f)](weir::error_code ec) mutable {
            if (!ec)
                f();
        });
    }

    asio::io_context& ctx_;
    random_source& random_;
    hazards what_;
};

class store_in_trouble final : public in_trouble {
public:
    using in_trouble::in_trouble;

    void forget() { ledger_.forget(); }
    void set_clock(std::chrono::microseconds by) { offset_ += by; }

private:
    void take(std::string const& name, question const& q, answer_handler handler) override {
        reply(std::move(handler), {}, ledger_.take(name, q, now()));
    }
    void take_back(std::string const& name, give_back const& what) override {
        ledger_.give_back(name, what, now());
    }
    [[nodiscard]] std::int64_t now() const {
        return std::chrono::floor<std::chrono::microseconds>(clock::now().time_since_epoch())
                   .count() +
               offset_.count();
    }

    weir::detail::bucket_ledger ledger_;
    std::chrono::microseconds offset_ = std::chrono::hours(24 * 365);
};

// An agent with one limit, without its sockets.
class agent_in_trouble final : public in_trouble {
public:
    agent_in_trouble(asio::io_context& ctx, random_source& random, hazards const& what,
                     std::shared_ptr<weir::store> at, duration lease)
        : in_trouble(ctx, random, what),
          ex_(ctx.get_executor()),
          at_(std::move(at)),
          lease_(lease) {}

    // The permits that it holds count as used.
    void die() { limit_.reset(); }

private:
    using limit = weir::agent::detail::basic_limit<timer>;

    void take(std::string const& name, question const& q, answer_handler handler) override {
        namespace agent = weir::agent::detail;
        if (!agent::is_worth(q.bucket, lease_))
            return at_->async_take(name, q,
                                   [this, me = shared_from_this(), handler = std::move(handler)](
                                       weir::error_code ec, answer a) mutable {
                                       reply(std::move(handler), ec, std::move(a));
                                   });
        if (!limit_)
            limit_ = std::make_shared<limit>(ex_, at_, name, q.bucket, lease_);
        agent::take const asked{
            .id = 0,
            .name = name,
            .bucket = q.bucket,
            .min = q.min,
            .max = q.max,
            .ahead = q.ahead,
            .timeout = std::chrono::ceil<std::chrono::microseconds>(q.timeout)};
        auto grant = [this, me = shared_from_this(), asked, of = std::weak_ptr(limit_),
                      handler = std::move(handler)](weir::error_code ec, weir::permit p) mutable {
            auto const by = of.lock();
            if (!by)
                return;  // it died
            if (ec == weir::errc::unavailable)
                return reply(std::move(handler), ec, {});
            if (ec) {
                auto const after = p.retry_after().value_or(0ms);
                return reply(std::move(handler), {},
                             {.wait = std::chrono::ceil<std::chrono::microseconds>(after)});
            }
            auto const a = by->grant(asked, std::move(p));
            reply(std::move(handler), {}, {.granted = a.granted, .since = a.since});
        };
        if (auto granted = limit_->take_now(asked))
            return grant({}, std::move(granted));
        auto const patience = std::max<duration>(q.ahead, q.timeout / 2);
        limit_->wait(asked, patience, std::move(grant));
    }
    void take_back(std::string const& name, give_back const& what) override {
        if (!weir::agent::detail::is_worth(what.bucket, lease_))
            at_->async_give_back(name, what);
        else if (limit_)
            limit_->take_back(what.count, what.since);
    }

    asio::any_io_executor ex_;
    std::shared_ptr<weir::store> at_;
    duration lease_;
    std::shared_ptr<limit> limit_;
};

struct use {
    clock::time_point at;
    amount count;
};
using uses = std::vector<std::shared_ptr<use>>;

// The number of additional permits, in intervals that ended less than this long before.
struct excuse {
    clock::time_point at;
    amount count;
};

template <class Policy>
class world {
    using limiter = weir::basic_shared_limiter<Policy, asio::any_io_executor, timer>;

public:
    // With a lease, the processes ask through agents.
    world(random_source& random, weir::shared_options const& options, hazards const& what,
          std::optional<duration> lease = {})
        : random_(random),
          options_(options),
          what_(what),
          lease_(lease.value_or(0ms)),
          store_(std::make_shared<store_in_trouble>(ctx_, random, what)),
          processes_(static_cast<std::size_t>(random.between(2, 10))) {
        for (auto n = lease ? random.between(1, 3) : 0; n != 0; --n)
            agents_.push_back(
                std::make_shared<agent_in_trouble>(ctx_, random, what, store_, *lease));
        for (auto& p : processes_)
            begin(p);
    }

    void run(int steps) {
        for (; steps != 0; --steps) {
            happen();
            weir::testing::run_for(ctx_, duration(random_.of_any_size(longest_step().count())));
            if (lease_ != 0ms && random_.one_in(15))
                rush_again();
        }
        held_.clear();
        weir::testing::run_for(ctx_, 5s);
        BOOST_TEST_REQUIRE(waiting_ == 0);
        std::erase_if(used_, [](auto const& u) { return u->count == 0; });
        std::ranges::sort(used_, {}, &use::at);
    }

    [[nodiscard]] uses const& used() const { return used_; }
    [[nodiscard]] amount count() const {
        amount sum = 0;
        for (auto const& u : used_)
            sum += u->count;
        return sum;
    }
    [[nodiscard]] std::size_t processes() const { return processes_.size() + died_; }
    // Intervals in which the store lost its state, or was set forward.
    [[nodiscard]] amount losses(clock::time_point from, clock::time_point to) const {
        return std::ranges::count_if(losses_, [&](auto at) { return from <= at && at <= to; });
    }

private:
    struct holding {
        weir::permit what;
        std::shared_ptr<use> as;
    };

    void begin(std::unique_ptr<limiter>& p) {
        std::shared_ptr<weir::store> asked = store_;
        if (!agents_.empty())
            asked = agents_[random_.index_in(agents_)];
        p = std::make_unique<limiter>(ctx_, asked, "limit", options_);
    }
    [[nodiscard]] duration longest_step() const {
        return options_.rate.period() / options_.rate.permits() / 2;
    }

    void happen() {
        if (random_.one_in(8))
            return give_back_one();
        if (random_.one_in(40) && what_.kills) {
            if (!agents_.empty() && random_.one_in(3))
                return agents_[random_.index_in(agents_)]->die();
            ++died_;
            return begin(processes_[random_.index_in(processes_)]);
        }
        if (random_.one_in(60) && what_.sets_back)
            return store_->set_clock(std::chrono::microseconds(-random_.of_any_size(5'000'000)));
        if (random_.one_in(100) && what_.loses) {
            losses_.push_back(clock::now());
            if (random_.one_in(2))
                return store_->forget();
            return store_->set_clock(std::chrono::microseconds(random_.of_any_size(5'000'000)));
        }
        for (auto crowd = random_.one_in(4) ? random_.between(1, 6) : 1; crowd != 0; --crowd)
            enter();
    }

    // Agents learn in a rush to fetch ahead. In the pause their permits grow old, and the store refills.
    void rush_again() {
        rush();
        weir::testing::run_for(ctx_, duration(random_.between(0, 2 * lease_.count())));
        rush();
    }
    void rush() {
        for (auto n = random_.between(1, 40); n != 0; --n) {
            enter();
            weir::testing::run_for(ctx_, duration(random_.of_any_size(duration(5ms).count())));
        }
    }
    void enter() {
        auto const n = random_.one_in(2) ? 1 : random_.between(1, std::min<amount>(capacity(), 4));
        auto const patience = duration(random_.of_any_size(duration(3s).count()));
        bool const is_kept = random_.one_in(3);
        ++waiting_;
        processes_[random_.index_in(processes_)]->async_enter(
            n, patience, [this, n, is_kept](weir::error_code ec, weir::permit p) {
                --waiting_;
                if (ec)
                    return;
                used_.push_back(std::make_shared<use>(clock::now(), n));
                if (is_kept)
                    held_.push_back({std::move(p), used_.back()});
            });
    }
    [[nodiscard]] amount capacity() const {
        return options_.burst.value_or(options_.rate.permits());
    }

    // It was not used then.
    void give_back_one() {
        if (held_.empty())
            return;
        auto const one = held_.begin() + static_cast<std::ptrdiff_t>(random_.index_in(held_));
        one->what.refund();
        one->as->count = 0;
        held_.erase(one);
    }

    asio::io_context ctx_;
    random_source& random_;
    weir::shared_options options_;
    hazards what_;
    duration lease_;  // of the agents; 0 without them
    std::shared_ptr<store_in_trouble> store_;
    std::vector<std::shared_ptr<agent_in_trouble>> agents_;
    std::vector<std::unique_ptr<limiter>> processes_;
    std::vector<holding> held_;
    uses used_;
    std::vector<clock::time_point> losses_;
    std::size_t died_ = 0;
    int waiting_ = 0;
};

hazards some_hazards(random_source& random) {
    return {.way = random.one_of<duration>({0ms, 1ms, 10ms, 24ms}),
            .one_in = random.one_of({0, 0, 5, 30}),
            .loses = random.one_in(4),
            .sets_back = random.one_in(4),
            .kills = random.one_in(4)};
}

weir::shared_options some_options(random_source& random) {
    weir::shared_options o{
        .rate = {random.one_of<amount>({1, 3, 10}), random.one_of<duration>({10ms, 100ms, 1s})},
        .burst = random.one_of<amount>({1, 2, 5, 20}),
        .reach = random.one_of<duration>({0ms, 20ms, 1s}),
        .timeout = random.one_of<std::optional<duration>>({2ms, 50ms, std::nullopt})};
    if (random.one_in(2)) {
        o.prefetch = random.between(1, 20);
        o.prefetch_time = random.one_of<duration>({1ms, 20ms, 100ms});
    }
    return o;
}

duration lateness_of(weir::shared_options const& o) {
    return o.timeout.value_or(o.most_timeout) + (o.prefetch != 0 ? o.prefetch_time.value() : 0ms);
}

// A store counts in microseconds: the times of its questions and grants are known to a microsecond.
constexpr duration granularity = 2us;

// The additional lateness of permits that come through an agent with default options, and the longest time for which it
// books permits.
duration lateness_of_agents(std::optional<duration> lease) {
    return lease ? *lease + weir::shared_options::most_timeout : 0ms;
}
duration reach_of(weir::shared_options const& o, std::optional<duration> lease) {
    return lease ? std::max(o.reach, weir::shared_options().reach) : o.reach;
}

// With a lease, the processes ask through agents.
void check_a_bucket(random_source& random, std::optional<duration> lease) {
    auto options = some_options(random);
    double share = 0;
    if (random.one_in(3)) {
        share = random.one_of({0.1, 0.5});
        options.on_failure = weir::fail_local{share};
    }
    world<weir::policy::fed> w(random, options, some_hazards(random), lease);
    w.run(100);

    auto const burst = *options.burst;
    auto const period = options.rate.period().count();
    auto const permits = options.rate.permits();
    auto const n = static_cast<amount>(w.processes());
    auto const own =
        share == 0 ? 0
                   : std::max<amount>(1, static_cast<amount>(static_cast<double>(burst) * share));
    // Permits that are booked when its state is lost are granted in addition.
    auto const reach = reach_of(options, lease);
    auto const of_loss = burst + (reach.count() * permits + period - 1) / period;
    auto const drains = duration(burst * period / permits) + reach;
    auto const late = lateness_of(options) + lateness_of_agents(lease) + granularity;
    for (auto first = w.used().begin(); first != w.used().end(); ++first) {
        amount sum = 0;
        for (auto last = first; last != w.used().end(); ++last) {
            sum += (*last)->count;
            auto const d = (*last)->at - (*first)->at;
            auto most = burst + n * own;
            if (sum <= most)
                continue;
            most += of_loss * w.losses((*first)->at - late - drains, (*last)->at);
            auto const by_rate =
                wide{permits} * (d + late).count() +
                (share == 0
                     ? 0
                     : static_cast<wide>(static_cast<double>(n * permits * d.count()) * share));
            BOOST_TEST_REQUIRE(
                (wide{sum - most} * period <= by_rate),
                sum << " within " << d.count() << " ns: burst " << burst << ", rate "
                    << to_string(options.rate) << ", prefetch " << options.prefetch << ", share "
                    << share << ", lease " << lease.value_or(0ms).count());
        }
    }
}

void check_a_log(random_source& random, weir::rate r, std::optional<duration> lease) {
    auto options = some_options(random);
    options.rate = r;
    options.burst.reset();
    world<weir::policy::fed_log> w(random, options, some_hazards(random), lease);
    w.run(60);

    auto const limit = options.rate.permits();
    auto const window =
        options.rate.period() - lateness_of(options) - lateness_of_agents(lease) - granularity;
    auto const reach = reach_of(options, lease);
    auto const of_loss = limit * (1 + (reach / options.rate.period()) + 1);
    for (auto first = w.used().begin(); first != w.used().end(); ++first) {
        amount sum = 0;
        for (auto last = first; last != w.used().end() && (*last)->at - (*first)->at < window;
             ++last) {
            sum += (*last)->count;
            BOOST_TEST_REQUIRE(
                sum <= limit + of_loss * w.losses((*first)->at - 2 * options.rate.period() - reach,
                                                  (*last)->at));
        }
    }
}

}  // namespace

BOOST_AUTO_TEST_SUITE(shared_simulation)

BOOST_AUTO_TEST_CASE(permits_used_of_a_bucket_stay_within_the_bound) {
    support::for_each_seed(1, support::is_nightly() ? 10'000 : 2'500, [](random_source& random) {
        check_a_bucket(random, {});
    });
}

BOOST_AUTO_TEST_CASE(permits_used_of_a_log_stay_within_the_limit_in_every_window) {
    support::for_each_seed(1, support::is_nightly() ? 10'000 : 2'500, [](random_source& random) {
        auto const n = random.between(1, 6);
        check_a_log(random, {n, random.one_of<duration>({200ms, 1s})}, {});
    });
}

// The lease of the agents, their time limit and the time limit of the processes add up.
BOOST_AUTO_TEST_CASE(permits_of_a_bucket_through_agents_stay_within_the_bound) {
    support::for_each_seed(1, support::is_nightly() ? 4'000 : 1'000, [](random_source& random) {
        check_a_bucket(random, random.one_of<duration>({100ms, 1s, 10s}));
    });
}

BOOST_AUTO_TEST_CASE(permits_of_a_log_through_agents_stay_within_the_limit_in_every_window) {
    support::for_each_seed(1, support::is_nightly() ? 10'000 : 2'500, [](random_source& random) {
        auto const n = random.between(20, 60);
        check_a_log(random, {n, 5s}, random.one_of<duration>({500ms, 1s}));
    });
}

BOOST_AUTO_TEST_CASE(without_faults_most_of_the_rate_is_used) {
    support::for_each_seed(1, 200, [](random_source& random) {
        auto options = some_options(random);
        options.reach = 1s;
        options.timeout = 50ms;
        world<weir::policy::fed> w(random, options, {.way = 1ms});
        auto const begin = clock::now();
        w.run(400);
        auto const least =
            std::min<wide>(100, wide{options.rate.permits()} * (clock::now() - begin - 8s).count() /
                                    options.rate.period().count() / 2);
        BOOST_TEST((w.count() >= least));
    });
}

BOOST_AUTO_TEST_SUITE_END()
