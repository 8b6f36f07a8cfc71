#include <weir/policy/server_quota.hpp>

#include "support/printing.hpp"
#include "support/random.hpp"
#include "support/says.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <stdexcept>
#include <vector>

using namespace std::chrono_literals;
using support::random_source;
using support::says;
using weir::amount;
using weir::duration;
using weir::server_quota_options;
using weir::ticket;
using weir::time_point;
using weir::policy::server_quota;
using statement = server_quota_options::statement;

BOOST_AUTO_TEST_SUITE(server_quota_rule)

namespace {

constexpr time_point noon{12h};

void hear(server_quota& quota, statement const& s, time_point now) {
    auto options = quota.options();
    options.stated = s;
    server_quota next(options);
    next.take_over(quota, now);
    quota = next;
}

// The words of the class, from the whole history: all grants, and all statements that counted.
class history {
public:
    explicit history(amount probes) : probes_(probes) {}

    void take(amount n, time_point now) { grants_.push_back({n, n, period(now)}); }
    void leave(std::size_t i, amount n) { grants_[i].in_use -= n; }
    // It was never sent: a statement since then counted it as in use, and no window counts it.
    void refund(std::size_t i, amount n, time_point now) {
        leave(i, n);
        grants_[i].taken -= n;
        if (is_known(now))
            for (auto& h : windows_.back().heard)
                h.left += i < h.grants ? n : 0;
    }
    void hear(statement const& s, time_point now) {
        auto const reset = now + s.reset;
        heard_number const number{s.remaining + s.counted - in_use(), grants_.size()};
        if (is_known(now)) {
            auto& w = windows_.back();
            if (s.reset == 0s)
                w.reset = now;
            if (reset < w.reset - 1500ms || s.reset == 0s)
                return;
            if (reset > w.reset + 1500ms && now >= w.reset - 1500ms) {
                windows_.push_back({reset, {number}});
                return;
            }
            w.heard.push_back(number);
            if (reset <= w.reset + 1500ms)
                w.reset = std::max(w.reset, reset);
        } else if (s.reset != 0s) {
            windows_.push_back({reset, {number}});
        }
    }

    [[nodiscard]] amount free(time_point now) const {
        return std::max<amount>(is_known(now) ? left() : probes_ - probing(now), 0);
    }
    [[nodiscard]] bool fits(amount n, time_point now) const {
        return n <= free(now) || (!is_known(now) && probing(now) == 0);
    }
    [[nodiscard]] bool is_known(time_point now) const {
        return !windows_.empty() && now < windows_.back().reset;
    }
    [[nodiscard]] amount in_use() const {
        amount sum = 0;
        for (auto const& g : grants_)
            sum += g.in_use;
        return sum;
    }
    [[nodiscard]] time_point reset() const { return windows_.back().reset; }

private:
    struct grant {
        amount taken;
        amount in_use;
        std::size_t period;
    };
    struct heard_number {
        amount left;         // when it was heard
        std::size_t grants;  // before it was heard
    };
    struct window {
        time_point reset;
        std::vector<heard_number> heard;
    };

    // Windows have odd numbers, and the times between them even ones.
    [[nodiscard]] std::size_t period(time_point now) const {
        return 2 * windows_.size() - (is_known(now) ? 1 : 0);
    }
    [[nodiscard]] amount probing(time_point now) const {
        amount sum = 0;
        for (auto const& g : grants_)
            if (g.period == period(now))
                sum += g.in_use;
        return sum;
    }
    // The least of what each statement about the window leaves after the grants that followed it.
    [[nodiscard]] amount left() const {
        auto least = weir::max_amount;
        for (auto const& h : windows_.back().heard) {
            auto left = h.left;
            for (auto i = h.grants; i != grants_.size(); ++i)
                left -= grants_[i].taken;
            least = std::min(least, left);
        }
        return least;
    }
    amount probes_;
    std::vector<grant> grants_;
    std::vector<window> windows_;
};

}  // namespace

BOOST_AUTO_TEST_CASE(grants_one_at_a_time_until_a_response_states_the_quota) {
    server_quota quota({});
    quota.begin(noon);
    BOOST_TEST(quota.remaining(noon) == 1);
    auto const t = quota.take(1, noon);
    BOOST_TEST(quota.remaining(noon) == 0);
    BOOST_TEST(quota.ready_at(1, 0, noon) == weir::unknown);
    BOOST_TEST(quota.leave(1, t, noon));
    hear(quota, {3, 10s}, noon);
    BOOST_TEST(quota.remaining(noon) == 3);
    BOOST_TEST(quota.ready_at(3, 0, noon) == noon);
    BOOST_TEST(quota.ready_at(3, 1, noon) == noon + 10s);
    quota.take(3, noon);
    BOOST_TEST(quota.ready_at(1, 0, noon) == noon + 10s);
    BOOST_TEST(quota.ready_at(1, 0, noon + 10s - 1ns) == noon + 10s);
    BOOST_TEST(quota.ready_at(1, 0, noon + 10s) == noon + 10s);
    quota.take(1, noon + 10s);
    BOOST_TEST(quota.ready_at(1, 0, noon + 10s) == weir::unknown);
}

BOOST_AUTO_TEST_CASE(counts_requests_without_a_response_against_the_statement) {
    server_quota quota({.probes = 4});
    quota.begin(noon);
    for (int i = 0; i != 4; ++i)
        quota.take(1, noon);
    quota.leave(1, 0, noon);
    hear(quota, {10, 10s}, noon);
    BOOST_TEST(quota.remaining(noon) == 7);
}

// Responses arrive in any order, and the server rounds its resets.
BOOST_AUTO_TEST_CASE(never_raises_the_number_within_a_window) {
    server_quota quota({});
    quota.begin(noon);
    hear(quota, {5, 10s}, noon);
    hear(quota, {9, 9s}, noon + 1s);
    BOOST_TEST(quota.remaining(noon + 1s) == 5);
    hear(quota, {9, 11500ms}, noon);
    BOOST_TEST(quota.remaining(noon) == 5);
    BOOST_TEST(quota.ready_at(6, 0, noon) == noon + 11500ms);
    hear(quota, {2, 11500ms - 1500ms}, noon);
    BOOST_TEST(quota.remaining(noon) == 2);
    hear(quota, {0, 10s - 1ns}, noon);  // about the window before
    BOOST_TEST(quota.remaining(noon) == 2);
    hear(quota, {1, 13s + 1ns}, noon);  // a late response
    BOOST_TEST(quota.remaining(noon) == 1);
    BOOST_TEST(quota.ready_at(6, 0, noon) == noon + 11500ms);
    hear(quota, {9, 20s}, noon + 10s - 1ns);
    BOOST_TEST(quota.remaining(noon + 10s) == 1);
    hear(quota, {9, 20s}, noon + 10s);  // the next window
    BOOST_TEST(quota.remaining(noon + 10s) == 9);
    BOOST_TEST(quota.ready_at(10, 0, noon + 10s) == noon + 30s);
}

BOOST_AUTO_TEST_CASE(forgets_a_quota_by_a_reset_of_zero) {
    server_quota quota({});
    quota.begin(noon);
    hear(quota, {0, 366 * 24h}, noon);
    hear(quota, {50, 30s}, noon);
    BOOST_TEST(quota.remaining(noon) == 0);
    hear(quota, {0, 0s}, noon);
    BOOST_TEST(quota.remaining(noon) == 1);
    quota.take(1, noon);
    hear(quota, {0, 0s}, noon);  // the probe is still in use
    BOOST_TEST(quota.remaining(noon) == 0);
    hear(quota, {50, 30s, 1}, noon);
    BOOST_TEST(quota.remaining(noon) == 50);
}

// A change of other options is not a response.
BOOST_AUTO_TEST_CASE(hears_a_statement_once) {
    server_quota quota({.stated = statement{5, 10s}});
    quota.begin(noon);
    BOOST_TEST(!quota.options().stated);
    server_quota next(quota.options());
    next.take_over(quota, noon + 1s);
    BOOST_TEST(next.ready_at(6, 0, noon + 1s) == noon + 10s);
}

// As for an estimate of tokens: the quota is unknown, and no request for 500 would ever be among at most one.
BOOST_AUTO_TEST_CASE(grants_a_large_request_alone) {
    server_quota quota({.probes = 2});
    quota.begin(noon);
    auto const t = quota.take(1, noon);
    BOOST_TEST(quota.ready_at(1, 0, noon) == noon);
    BOOST_TEST(quota.ready_at(2, 0, noon) == weir::unknown);
    quota.leave(1, t, noon);
    BOOST_TEST(quota.ready_at(500, 0, noon) == noon);
    BOOST_TEST(quota.ready_at(500, 1, noon) == weir::unknown);
    quota.take(500, noon);
    BOOST_TEST(quota.debt(noon) == 498);
}

BOOST_AUTO_TEST_CASE(keeps_a_merged_probe_in_use) {
    server_quota quota({.probes = 2});
    quota.begin(noon);
    auto const old = quota.take(1, noon);
    hear(quota, {5, 1s}, noon);
    auto const later = noon + 2s;
    auto const probe = quota.take(1, later);
    auto const both = quota.merge(old, probe, 1);
    BOOST_TEST(quota.remaining(later) == 1);
    quota.leave(2, both, later);
    BOOST_TEST(quota.remaining(later) == 2);

    auto const older = quota.take(1, later);
    hear(quota, {5, 1s}, later);
    auto const last = later + 2s;
    auto const newer = quota.take(1, last);
    auto const merged = quota.merge(newer, older, 1);
    BOOST_TEST(quota.remaining(last) == 0);
    quota.leave(2, merged, last);
    BOOST_TEST(quota.remaining(last) == 2);
}

// A statement has counted it as in use; it was never sent.
BOOST_AUTO_TEST_CASE(returns_a_refunded_permit_of_an_earlier_period) {
    server_quota quota({});
    quota.begin(noon);
    auto const probe = quota.take(1, noon);
    hear(quota, {1, 1h}, noon);
    BOOST_TEST(quota.remaining(noon) == 0);
    BOOST_TEST(quota.refund(1, probe, noon));
    BOOST_TEST(quota.remaining(noon) == 1);
}

BOOST_AUTO_TEST_CASE(rejects_options_that_are_out_of_range) {
    BOOST_CHECK_EXCEPTION(
        server_quota({.probes = 0}), std::invalid_argument,
        says("weir::server_quota: probes is 0, but must be from 1 to 1000000000000000"));
    BOOST_CHECK_EXCEPTION(
        server_quota({.stated = statement{-1, 1s}}), std::invalid_argument,
        says("weir::server_quota: stated.remaining is -1, but must be from 0 to 1000000000000000"));
    BOOST_CHECK_EXCEPTION(
        server_quota({.stated = statement{1, -1ns}}), std::invalid_argument,
        says("weir::server_quota: stated.reset is -1ns, but must be at least 0s"));
}

BOOST_AUTO_TEST_CASE(does_not_overflow) {
    server_quota quota({.stated = statement{0, weir::forever}});
    quota.begin(weir::never - 1s);
    BOOST_TEST(quota.ready_at(1, 0, weir::never - 1s) == weir::never);
    hear(quota, {0, weir::forever}, weir::never - 1s);
    for (int i = 0; i != 10'000; ++i)
        quota.leave(weir::max_amount, quota.take(weir::max_amount, noon), noon);
    BOOST_TEST(quota.debt(noon) > weir::max_amount);
}

BOOST_AUTO_TEST_CASE(does_what_its_words_say) {
    support::for_each_seed(1, 5'000, [](random_source& random) {
        auto const probes = random.between(1, 3);
        server_quota quota({.probes = probes});
        history words(probes);
        auto now = noon;
        quota.begin(now);
        struct held {
            std::size_t grant;
            ticket t;
            amount n;
        };
        std::vector<held> all;
        std::size_t grants = 0;
        for (int step = 0; step != 60; ++step) {
            now += random.one_of<duration>({0ns, 1ns, 300ms, 700ms, 1500ms, 4s});
            BOOST_TEST_REQUIRE(quota.remaining(now) == words.free(now));
            auto const n = random.between(1, 4);
            auto const at = quota.ready_at(n, 0, now);
            BOOST_TEST_REQUIRE((at <= now) == words.fits(n, now));
            if (at > now)
                BOOST_TEST_REQUIRE(at == (words.is_known(now) ? words.reset() : weir::unknown));
            if (at <= now || random.one_in(8)) {  // or by `charge`
                all.push_back({grants++, quota.take(n, now), n});
                words.take(n, now);
            }
            while (!all.empty() && random.one_in(2)) {
                auto& h = all[random.index_in(all)];
                auto const some = random.between(1, h.n);
                if (random.one_in(4)) {
                    quota.refund(some, h.t, now);
                    words.refund(h.grant, some, now);
                } else {
                    quota.leave(some, h.t, now);
                    words.leave(h.grant, some);
                }
                h.n -= some;
                if (h.n == 0) {
                    std::swap(h, all.back());
                    all.pop_back();
                }
            }
            if (random.one_in(3)) {
                statement const s{random.between(0, 12),
                                  random.one_of<duration>({0s, 1s, 1500ms, 2s, 3s, 4s, 10s}),
                                  random.between(0, 2)};
                hear(quota, s, now);
                words.hear(s, now);
            }
        }
    });
}

BOOST_AUTO_TEST_SUITE_END()
