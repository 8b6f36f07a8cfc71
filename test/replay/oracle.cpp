// Compares the decision on each line of a log with oracles, which implement the documented rules without the library.
#include "replay/simulation.hpp"

#include <boost/test/unit_test.hpp>

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <queue>
#include <random>
#include <string>
#include <utility>
#include <vector>

BOOST_AUTO_TEST_SUITE(line_by_line)

namespace {

using namespace std::chrono_literals;
using std::chrono::nanoseconds;
using weir::errc;

struct request {
    nanoseconds at{};
    nanoseconds held{};
    int client = 0;
};

struct answer {
    std::optional<errc> rejected;
    nanoseconds waited{};  // if it was granted
};

// ---- Decisions of the library

struct replayed {
    std::vector<answer> answers;
    replay::outcome outcome;
};

replayed by_library(std::vector<request> const& log, replay::plan const& p) {
    replayed r;
    r.answers.resize(log.size());
    std::size_t decisions = 0;
    replay::settings s;
    s.watcher = [&](replay::decision const& d) {
        ++decisions;
        r.answers[d.number] = {d.rejected, d.waited};
    };
    replay::simulation sim(s, {p});
    for (auto const& q : log) {
        auto const name = fmt::format("10.0.0.{}", q.client);
        logs::entry entry;
        entry.at = q.at;
        entry.held = q.held;
        entry.keys[0] = name;
        BOOST_REQUIRE(sim.add(entry));
    }
    sim.finish();
    BOOST_TEST(decisions == log.size());
    r.outcome = sim.results().front();
    return r;
}

// ---- Oracles of rates, for one request at a time

class rate_oracle {
public:
    virtual ~rate_oracle() = default;
    // Returns the first time from `t` on at which one more request can be granted.
    virtual nanoseconds earliest(nanoseconds t) = 0;
    virtual void take(nanoseconds t) = 0;
};

// At most `limit` in any half-open window.
class exact final : public rate_oracle {
public:
    exact(std::size_t limit, nanoseconds window) : limit_(limit), window_(window) {}
    nanoseconds earliest(nanoseconds t) override {
        return grants_.size() < limit_ ? t
                                       : std::max(t, grants_[grants_.size() - limit_] + window_);
    }
    void take(nanoseconds t) override { grants_.push_back(t); }

private:
    std::size_t limit_;
    nanoseconds window_;
    std::vector<nanoseconds> grants_;
};

// A slice begins with its first grant, and counts until one window after its last grant.
class by_slices final : public rate_oracle {
public:
    by_slices(int limit, nanoseconds window, int slices)
        : limit_(limit), window_(window), length_(window / slices) {}
    nanoseconds earliest(nanoseconds t) override {
        for (;;) {
            int used = 0;
            auto first = nanoseconds::max();
            for (auto const& s : slices_)
                if (s.last + window_ > t) {
                    used += s.grants;
                    first = std::min(first, s.last + window_);
                }
            if (used < limit_)
                return t;
            t = first;
        }
    }
    void take(nanoseconds t) override {
        if (slices_.empty() || t >= slices_.back().begin + length_)
            slices_.push_back({t, t, 0});
        slices_.back().last = t;
        ++slices_.back().grants;
    }

private:
    struct slice {
        nanoseconds begin, last;
        int grants;
    };
    int limit_;
    nanoseconds window_, length_;
    std::vector<slice> slices_;
};

// A window begins with the first grant after the previous window, or at whole multiples of its length.
class by_windows final : public rate_oracle {
public:
    by_windows(int limit, nanoseconds window, bool by_epoch)
        : limit_(limit), window_(window), by_epoch_(by_epoch) {}
    nanoseconds earliest(nanoseconds t) override {
        return t >= begin_ + window_ || used_ < limit_ ? t : begin_ + window_;
    }
    void take(nanoseconds t) override {
        if (t >= begin_ + window_) {
            begin_ = by_epoch_ ? t - t % window_ : t;
            used_ = 0;
        }
        ++used_;
    }

private:
    int limit_;
    nanoseconds window_;
    bool by_epoch_;
    nanoseconds begin_ = -24h;
    int used_ = 0;
};

// The bucket gains one token per `each`, holds at most `burst` tokens, and is full at first.
class bucket final : public rate_oracle {
public:
    bucket(nanoseconds each, int burst) : each_(each), burst_(burst) {}
    nanoseconds earliest(nanoseconds t) override {
        return std::max(t, full_at_ - each_ * (burst_ - 1));
    }
    void take(nanoseconds t) override { full_at_ = std::max(full_at_, t) + each_; }

private:
    nanoseconds each_;
    int burst_;
    nanoseconds full_at_{};
};

// The bucket gains `by_period` tokens at the end of each period. The first period starts when the limiter is made.
class interval_bucket final : public rate_oracle {
public:
    interval_bucket(nanoseconds begin, int by_period, nanoseconds period, int burst)
        : next_(begin + period),
          by_period_(by_period),
          period_(period),
          burst_(burst),
          in_(burst) {}
    nanoseconds earliest(nanoseconds t) override {
        refill(t);
        return in_ > 0 ? t : next_;
    }
    void take(nanoseconds t) override {
        refill(t);
        --in_;
    }

private:
    void refill(nanoseconds t) {
        for (; next_ <= t; next_ += period_)
            in_ = std::min(burst_, in_ + by_period_);
    }
    nanoseconds next_;
    int by_period_;
    nanoseconds period_;
    int burst_, in_;
};

// Guava's SmoothBursty: grants a request as soon as there is no debt, and saves up to `most` of idle time.
class bursty final : public rate_oracle {
public:
    bursty(nanoseconds begin, nanoseconds each, nanoseconds most)
        : free_(begin), each_(each), most_(most) {}
    nanoseconds earliest(nanoseconds t) override { return std::max(t, free_); }
    void take(nanoseconds t) override {
        saved_ = std::min(most_, saved_ + (t - free_));
        auto const used = std::min(each_, saved_);
        saved_ -= used;
        free_ = t + each_ - used;
    }

private:
    nanoseconds free_, each_, most_;
    nanoseconds saved_{};
};

// Guava's SmoothWarmingUp, with the trapezoid that the comment of SmoothRateLimiter describes.
class warming final : public rate_oracle {
public:
    warming(nanoseconds begin, double each, double warm_up, double cold_factor)
        : begin_(begin),
          each_(each),
          cold_(each * cold_factor),
          threshold_(0.5 * warm_up / each),
          most_(threshold_ + 2 * warm_up / (each + cold_)),
          saved_(most_),
          cool_down_(warm_up / most_) {}
    nanoseconds earliest(nanoseconds t) override {
        return std::max(
            t, begin_ + nanoseconds(static_cast<std::int64_t>(std::ceil(free_ * 1e9 - 0.01))));
    }
    void take(nanoseconds at) override {
        auto const t = static_cast<double>((at - begin_).count()) / 1e9;
        if (t > free_) {
            saved_ = std::min(most_, saved_ + (t - free_) / cool_down_);
            free_ = t;
        }
        auto const used = std::min(1.0, saved_);
        free_ += cost(saved_) - cost(saved_ - used) + (1 - used) * each_;
        saved_ -= used;
    }

private:
    [[nodiscard]] double cost(double saved) const {
        if (saved <= threshold_)
            return saved * each_;
        auto const above = saved - threshold_;
        auto const slope = (cold_ - each_) / (most_ - threshold_);
        return threshold_ * each_ + above * each_ + above * above * slope / 2;
    }
    nanoseconds begin_;
    double each_, cold_, threshold_, most_, saved_, cool_down_;
    double free_ = 0;  // seconds since `begin_`
};

class all_of final : public rate_oracle {
public:
    explicit all_of(std::vector<std::unique_ptr<rate_oracle>> parts) : parts_(std::move(parts)) {}
    nanoseconds earliest(nanoseconds t) override {
        for (auto before = nanoseconds::min(); before != t;) {
            before = t;
            for (auto const& p : parts_)
                t = p->earliest(t);
        }
        return t;
    }
    void take(nanoseconds t) override {
        for (auto const& p : parts_)
            p->take(t);
    }

private:
    std::vector<std::unique_ptr<rate_oracle>> parts_;
};

// ---- Decisions on requests in a queue, first come, first served

struct line_options {
    nanoseconds patience = 1s;
    std::size_t places = 1024;
};

using make_oracle = std::function<std::unique_ptr<rate_oracle>(nanoseconds begin)>;

// The grant time is known on arrival: a request either waits until then or is rejected immediately.
std::vector<answer> of_rate(std::vector<request> const& log, make_oracle const& make,
                            line_options const& o, bool each_client) {
    struct line {
        std::unique_ptr<rate_oracle> rate;
        nanoseconds last{};
        std::deque<nanoseconds> turns;  // grant times of the waiting requests
    };
    std::map<int, line> lines;
    std::vector<answer> answers;
    for (auto const& q : log) {
        auto& l = lines[each_client ? q.client : 0];
        if (!l.rate)
            l.rate = make(log.front().at);
        while (!l.turns.empty() && l.turns.front() <= q.at)
            l.turns.pop_front();
        auto const turn = l.rate->earliest(std::max(q.at, l.last));
        if (turn > q.at && o.patience == 0ns)
            answers.push_back({errc::no_permit});
        else if (turn > q.at + o.patience)
            answers.push_back({errc::deadline_unreachable});
        else if (turn > q.at && l.turns.size() == o.places)
            answers.push_back({errc::queue_full});
        else {
            l.rate->take(turn);
            l.last = turn;
            if (turn > q.at)
                l.turns.push_back(turn);
            answers.push_back({std::nullopt, turn - q.at});
        }
    }
    return answers;
}

// The grant time is not known in advance. At one instant, seats become free before requests arrive; a patience that
// ends at this instant still suffices for a grant.
std::vector<answer> of_seats(std::vector<request> const& log, std::size_t seats,
                             line_options const& o, bool each_client) {
    struct kitchen {
        std::priority_queue<nanoseconds, std::vector<nanoseconds>, std::greater<>> ends;
        std::deque<std::size_t> waiting;
    };
    std::map<int, kitchen> kitchens;
    std::vector<answer> answers(log.size());
    auto const run = [&](kitchen& k, nanoseconds until) {
        // Each free seat is granted to the first waiting request whose patience has not ended.
        while (!k.ends.empty() && k.ends.top() <= until) {
            auto const now = k.ends.top();
            k.ends.pop();
            while (!k.waiting.empty() && log[k.waiting.front()].at + o.patience < now) {
                answers[k.waiting.front()] = {errc::timed_out};
                k.waiting.pop_front();
            }
            if (k.waiting.empty())
                continue;
            auto const i = k.waiting.front();
            k.waiting.pop_front();
            answers[i] = {std::nullopt, now - log[i].at};
            k.ends.push(now + log[i].held);
        }
        while (!k.waiting.empty() && log[k.waiting.front()].at + o.patience < until) {
            answers[k.waiting.front()] = {errc::timed_out};
            k.waiting.pop_front();
        }
    };
    for (std::size_t i = 0; i != log.size(); ++i) {
        auto const& q = log[i];
        auto& k = kitchens[each_client ? q.client : 0];
        run(k, q.at);
        if (k.ends.size() < seats) {
            answers[i] = {};
            k.ends.push(q.at + q.held);
        } else if (o.patience == 0ns) {
            answers[i] = {errc::no_permit};
        } else if (k.waiting.size() == o.places) {
            answers[i] = {errc::queue_full};
        } else {
            k.waiting.push_back(i);
        }
    }
    for (auto& [client, k] : kitchens)
        run(k, nanoseconds::max());
    return answers;
}

// ---- Logs

std::vector<request> random_log(std::uint64_t seed, std::size_t count, nanoseconds mean) {
    std::mt19937_64 random(seed);
    std::exponential_distribution<double> gap(1.0 / static_cast<double>(mean.count()));
    std::uniform_int_distribution<int> client(1, 5);
    std::uniform_int_distribution<int> chance(0, 99);
    std::vector<request> log;
    nanoseconds at = 807'249'600s;
    for (std::size_t i = 0; i != count; ++i) {
        // Some requests arrive together, some after a long pause, and half of them at whole milliseconds.
        if (chance(random) < 80)
            at += nanoseconds(static_cast<std::int64_t>(gap(random)));
        if (chance(random) < 2)
            at += 3s;
        if (chance(random) < 50)
            at = std::chrono::ceil<std::chrono::milliseconds>(at);
        log.push_back({at, std::chrono::milliseconds(10 * chance(random)), client(random)});
    }
    return log;
}

std::string text_of(answer const& a) {
    return a.rejected ? fmt::format("rejected: {}", replay::text_of(*a.rejected))
                      : fmt::format("granted after {}", a.waited);
}

replay::plan plan_of(std::string const& rule, line_options const& o) {
    replay::plan p;
    p.rules = {replay::rule::parse(rule)};
    p.queue = weir::queue_options::parse("tolerance 0s");
    p.queue.patience = o.patience;
    p.queue.max_waiting = static_cast<std::int64_t>(o.places);
    return p;
}

void compare(std::vector<request> const& log, std::vector<answer> const& expected,
             std::vector<answer> const& got, nanoseconds tolerance = 0ns) {
    BOOST_REQUIRE(expected.size() == got.size());
    std::size_t wrong = 0;
    for (std::size_t i = 0; i != log.size() && wrong < 5; ++i) {
        auto const& e = expected[i];
        auto const& g = got[i];
        bool const same = e.rejected == g.rejected &&
                          (e.rejected || std::chrono::abs(e.waited - g.waited) <= tolerance);
        wrong += same ? 0 : 1;
        BOOST_TEST(same, fmt::format("request {} at {} of client {}: {}, expected {}", i,
                                     log[i].at - log[0].at, log[i].client, text_of(g), text_of(e)));
    }
}

// The totals match the decisions on each request.
void compare(replay::outcome const& o, std::vector<answer> const& all) {
    std::uint64_t at_once = 0, waited = 0;
    replay::reasons rejected{};
    nanoseconds longest{};
    for (auto const& a : all) {
        if (a.rejected)
            ++rejected[static_cast<std::size_t>(*a.rejected)];
        else
            ++(a.waited > 0ns ? waited : at_once);
        longest = std::max(longest, a.waited);
    }
    BOOST_TEST(o.at_once == at_once);
    BOOST_TEST(o.waited == waited);
    BOOST_TEST((o.rules.front().rejected == rejected));
    BOOST_TEST(o.asked() == all.size());
    BOOST_TEST((o.longest_wait == longest));
    BOOST_TEST(o.waits.count() == waited);
    std::uint64_t keys = 0;
    for (auto const& k : o.top_rejected)
        keys += k.rejected;
    BOOST_TEST(keys == o.rejected);
}

std::vector<line_options> const lines{{0ns, 1024}, {1s, 1024}, {700ms, 3}, {5s, 10}, {1s, 0}};

// For rules whose expected grant time behind other requests is only an estimate: the patience is either 0 or too long
// for a rejection by that estimate.
std::vector<line_options> const patient_lines{{0ns, 1024}, {1h, 3}, {1h, 10}};

template <class Expected>
void try_all(std::string const& rule, Expected expected, nanoseconds tolerance = 0ns,
             std::vector<line_options> const& all = lines) {
    std::size_t granted = 0, rejected = 0;
    for (bool const each_client : {false, true})
        for (auto const& o : all)
            for (std::uint64_t seed = 1; seed != 4; ++seed) {
                auto const log = random_log(seed, 2'000, each_client ? 50ms : 200ms);
                auto const text = rule + (each_client ? " per client" : "");
                BOOST_TEST_INFO_SCOPE(fmt::format(
                    "{}, patience {}, {} places, seed {}", text, o.patience, o.places, seed));
                auto const got = by_library(log, plan_of(text, o));
                auto const answers = expected(log, o, each_client);
                compare(log, answers, got.answers, tolerance);
                if (tolerance == 0ns)
                    compare(got.outcome, answers);
                for (auto const& a : answers)
                    ++(a.rejected ? rejected : granted);
            }
    BOOST_TEST(granted > 1'000);
    BOOST_TEST(rejected > 1'000);
}

template <class Oracle, class... Arguments>
auto rate(Arguments... arguments) {
    return [=](std::vector<request> const& log, line_options const& o, bool each_client) {
        return of_rate(
            log,
            [=](nanoseconds begin) {
                static_cast<void>(begin);
                if constexpr (std::is_constructible_v<Oracle, nanoseconds, Arguments...>)
                    return std::make_unique<Oracle>(begin, arguments...);
                else
                    return std::make_unique<Oracle>(arguments...);
            },
            o, each_client);
    };
}

}  // namespace

BOOST_AUTO_TEST_CASE(seats) {
    for (std::size_t const n : {1u, 3u})
        try_all(fmt::format("{} seats", n), [&](auto const& log, auto const& o, bool each_client) {
            return of_seats(log, n, o, each_client);
        });
}

BOOST_AUTO_TEST_CASE(adaptive_seats_with_equal_bounds) {
    try_all("2 gradient2 min 2 max 2", [](auto const& log, auto const& o, bool each_client) {
        return of_seats(log, 2, o, each_client);
    });
}

BOOST_AUTO_TEST_CASE(an_exact_rate) {
    try_all("4/1s", rate<exact>(4u, nanoseconds(1s)));
    try_all("10/3s", rate<exact>(10u, nanoseconds(3s)));
}

BOOST_AUTO_TEST_CASE(a_window_of_slices) {
    try_all("4/1s sliding slices 5", rate<by_slices>(4, nanoseconds(1s), 5), 0ns, patient_lines);
}

BOOST_AUTO_TEST_CASE(fixed_windows) {
    try_all("4/1s fixed", rate<by_windows>(4, nanoseconds(1s), false));
    try_all("4/1s fixed alignment epoch", rate<by_windows>(4, nanoseconds(1s), true));
}

BOOST_AUTO_TEST_CASE(a_token_bucket) {
    try_all("4/1s burst 3", rate<bucket>(nanoseconds(250ms), 3));
    try_all("4/1s burst 1", rate<bucket>(nanoseconds(250ms), 1));
    try_all("4/1s burst 5 refill interval", rate<interval_bucket>(4, nanoseconds(1s), 5));
}

BOOST_AUTO_TEST_CASE(a_leaky_bucket) {
    try_all("4/1s leaky", rate<bucket>(nanoseconds(250ms), 1));
    try_all("4/1s leaky capacity 3", rate<bucket>(nanoseconds(250ms), 3));
}

BOOST_AUTO_TEST_CASE(a_smooth_rate_with_bursts) {
    try_all("4/1s bursty", rate<bursty>(nanoseconds(250ms), nanoseconds(1s)));
}

BOOST_AUTO_TEST_CASE(a_smooth_rate_that_warms_up) {
    try_all("4/1s warming warm_up 2s", rate<warming>(0.25, 2.0, 3.0), 1us);
}

BOOST_AUTO_TEST_CASE(several_rates_at_once) {
    auto const both = [](auto const& log, auto const& o, bool each_client) {
        return of_rate(
            log,
            [](nanoseconds) {
                std::vector<std::unique_ptr<rate_oracle>> parts;
                parts.push_back(std::make_unique<exact>(3u, nanoseconds(1s)));
                parts.push_back(std::make_unique<exact>(10u, nanoseconds(5s)));
                return std::make_unique<all_of>(std::move(parts));
            },
            o, each_client);
    };
    try_all("3/1s & 10/5s", both, 0ns, patient_lines);
}

// Without patience, a request gets permits from all rules or from none. If several rules have no permit, the rule with
// the latest known grant time counts the rejection. The grant time of seats is unknown.
BOOST_AUTO_TEST_CASE(a_request_gets_permits_from_all_rules_or_none) {
    for (std::uint64_t seed = 1; seed != 6; ++seed) {
        BOOST_TEST_INFO_SCOPE(seed);
        auto const log = random_log(seed, 3'000, 60ms);
        replay::plan p;
        p.queue.patience = 0ns;
        p.rules = {replay::rule::parse("6/1s"), replay::rule::parse("3 seats"),
                   replay::rule::parse("3/1s per client"),
                   replay::rule::parse("1 seats per client")};
        p.sort();

        std::map<int, std::deque<nanoseconds>> of_client;  // grants
        std::deque<nanoseconds> of_all;
        std::map<int, std::vector<nanoseconds>> seats_of_client;  // ends
        std::vector<answer> expected;
        std::vector<std::size_t> rejected_by(4);
        for (auto const& q : log) {
            // The next grant time; nothing if a permit is free.
            auto const room_at = [&](auto& grants, std::size_t most) {
                while (!grants.empty() && grants.front() + 1s <= q.at)
                    grants.pop_front();
                return grants.size() < most ? std::nullopt : std::optional(grants.front() + 1s);
            };
            std::size_t in_use = 0;
            for (auto& [client, ends] : seats_of_client) {
                std::erase_if(ends, [&](nanoseconds end) { return end <= q.at; });
                in_use += ends.size();
            }
            auto const by_client = room_at(of_client[q.client], 3);
            auto const by_all = room_at(of_all, 6);
            std::optional<std::size_t> rejects;
            if (by_client && (!by_all || *by_client >= *by_all))
                rejects = 1;
            else if (by_all)
                rejects = 3;
            else if (!seats_of_client[q.client].empty())
                rejects = 0;
            else if (in_use == 3)
                rejects = 2;
            if (rejects) {
                ++rejected_by[*rejects];
                expected.push_back({errc::no_permit});
                continue;
            }
            seats_of_client[q.client].push_back(q.at + q.held);
            of_client[q.client].push_back(q.at);
            of_all.push_back(q.at);
            expected.push_back({});
        }
        auto const got = by_library(log, p);
        compare(log, expected, got.answers);
        BOOST_REQUIRE(got.outcome.rules.size() == 4);
        for (std::size_t i = 0; i != 4; ++i) {
            BOOST_TEST(got.outcome.rules[i].rejected[static_cast<std::size_t>(errc::no_permit)] ==
                       rejected_by[i]);
            BOOST_TEST(rejected_by[i] > 0);
        }
        BOOST_TEST(got.outcome.peak_in_use <= 3);
    }
}

// One of two limits has no permit. While requests wait for it, and when it rejects them, the other limit keeps its
// token.
BOOST_AUTO_TEST_CASE(a_limit_that_does_not_reject_keeps_its_token) {
    constexpr nanoseconds begin = 807'249'600s;
    std::vector<request> const log{
        {begin, 3s, 1},           // holds the seat until 3 s
        {begin + 1s, 0s, 2},      // times out waiting for the seat
        {begin + 1500ms, 0s, 2},  // times out, too; the token of client 2 is still free
        {begin + 3500ms, 0s, 2},  // gets that token
        {begin + 3600ms, 0s, 2}};
    replay::plan p;
    p.queue.patience = 1s;
    p.rules = {replay::rule::parse("1/10s per client"), replay::rule::parse("1 seats")};
    auto const got = by_library(log, p);
    compare(log, {{}, {errc::timed_out}, {errc::timed_out}, {}, {errc::deadline_unreachable}},
            got.answers);
    auto const rejected = [&](std::size_t rule, errc why) {
        return got.outcome.rules.at(rule).rejected[static_cast<std::size_t>(why)];
    };
    BOOST_TEST(rejected(0, errc::deadline_unreachable) == 1);
    BOOST_TEST(rejected(1, errc::timed_out) == 2);
}

BOOST_AUTO_TEST_SUITE_END()
