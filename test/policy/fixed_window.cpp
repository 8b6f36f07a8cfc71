#include <weir/policy/fixed_window.hpp>

#include "support/compare_policy.hpp"
#include "support/printing.hpp"
#include "support/random.hpp"
#include "support/renew.hpp"
#include "support/says.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <stdexcept>
#include <vector>

using namespace std::chrono_literals;
using support::expect;
using support::fits;
using support::random_source;
using support::renew;
using support::says;
using support::tick;
using weir::amount;
using weir::duration;
using weir::fixed_window_options;
using weir::ticket;
using weir::time_point;
using weir::window_alignment;
using weir::policy::fixed_window;

BOOST_AUTO_TEST_SUITE(the_fixed_window)

namespace {

constexpr time_point noon{12h};

// The definition: consecutive windows, each with room for `limit` permits. Permits beyond that are debt, and each
// following window pays from its limit before it grants anything. All other grants end with their window.
class windows {
public:
    using policy_type = fixed_window;
    static bool exact_behind_any() { return false; }
    static bool stands_still() { return false; }

    explicit windows(fixed_window_options const& options) : options_(options) {}

    static fixed_window_options some_options(random_source& random) {
        return {
            .limit = random.one_in(8) ? 1 + random.of_any_size(weir::max_amount - 1)
                                      : random.between(1, 8),
            .window = random.one_in(3) ? duration(1 + random.of_any_size(weir::forever.count() - 1))
                                       : random.one_of<duration>({1ns, 2ns, 7ns, 10ns, 1us, 1s,
                                                                  24h * 365, weir::forever}),
            .alignment = random.one_in(2) ? window_alignment::first_use : window_alignment::epoch};
    }
    static fixed_window_options some_options(random_source& random,
                                             fixed_window_options const& before) {
        auto options = some_options(random);
        if (before.limit > 8 || options.limit > 8)  // otherwise debt would last too long
            options.limit = before.limit / random.between(1, 4) + 1;
        if (random.one_in(2))
            options.window = before.window;
        if (random.one_in(2))
            options.alignment = before.alignment;
        return options;
    }
    static duration scale(fixed_window_options const& options) { return options.window; }

    void begin(time_point) {}

    [[nodiscard]] amount used_up_at(time_point t) const {
        auto future = *this;
        future.move_on(t);
        return future.used_ + future.owed_;
    }

    void take(amount n, time_point now) {
        move_on(now);
        if (used_ == 0)
            open(now);
        auto const granted = std::min(n, room());
        used_ += granted;
        owed_ += n - granted;
        grants_.push_back({now, n, here_});
    }

    void refund(std::size_t i, amount n, time_point now) {
        move_on(now);
        auto const& g = grants_[i];
        if (used_ == 0 || g.at < since_)
            return;
        auto undone = n;
        if (g.at < began_) {
            // Without it each of the windows since then would have begun with that much less, if it had that much.
            for (auto const& [window, debt] : carried_)
                undone = std::min(undone, debt);
            for (auto& [window, debt] : carried_)
                debt -= undone;
        }
        auto const forgiven = std::min(undone, owed_);  // the debt first
        owed_ -= forgiven;
        used_ -= undone - forgiven;
    }

    void configure(fixed_window_options const& options, time_point now) {
        move_on(now);
        options_ = options;
        auto const began = began_;
        if (used_ == 0)
            return;
        open_at(now);
        if (options.alignment == window_alignment::first_use && now - began < options.window)
            began_ = began;
        if (began_ > began)
            carried_[++here_] = used_ + owed_;
        else if (began_ < began)  // earlier grants now count like grants of this window
            since_ = std::max(since_, began);
        pay();
    }

    // At most `limit` from the start of each window to the next, and windows do not overlap.
    [[nodiscard]] bool is_lawful() const {
        std::map<std::size_t, amount> sums;
        std::map<std::size_t, time_point> firsts;
        for (auto const& g : grants_) {
            sums[g.window] += g.units;
            auto const first = firsts.try_emplace(g.window, g.at).first->second;
            if (g.at - first >= options_.window || sums[g.window] > options_.limit)
                return false;
        }
        return true;
    }

private:
    struct grant {
        time_point at;
        amount units;
        std::size_t window;
    };

    void open_at(time_point now) {
        auto const since = now.time_since_epoch();
        began_ = options_.alignment == window_alignment::first_use
                     ? now
                     : time_point(since / options_.window * options_.window);
    }
    void open(time_point now) {
        ++here_;
        since_ = now;
        carried_.clear();
        open_at(now);
    }
    [[nodiscard]] amount room() const { return std::max<amount>(options_.limit - used_, 0); }
    void pay() {
        auto const paid = std::min(owed_, room());
        used_ += paid;
        owed_ -= paid;
    }
    void move_on(time_point now) {
        while (used_ != 0 && now - began_ >= options_.window) {
            began_ += options_.window;
            carried_[++here_] = owed_;
            used_ = 0;
            pay();
        }
    }

    fixed_window_options options_;
    time_point began_{};
    amount used_ = 0;
    amount owed_ = 0;
    std::size_t here_ = 0;                   // the number of the window
    time_point since_{};                     // since when every window carried something over
    std::map<std::size_t, amount> carried_;  // the debt at the start of each window since then
    std::vector<grant> grants_;
};

}  // namespace

BOOST_AUTO_TEST_CASE(grants_the_limit_in_each_window_which_begins_with_its_first_use) {
    fixed_window window({.limit = 3, .window = 10s});
    window.take(1, noon + 3s);
    window.take(2, noon + 12s);
    BOOST_TEST(!fits(window, 1, noon + 12s));
    BOOST_TEST(window.ready_at(1, 0, noon + 12s) == noon + 13s);
    BOOST_TEST(window.remaining(noon + 13s - tick) == 0);
    BOOST_TEST(window.remaining(noon + 13s) == 3);
    window.take(3, noon + 17s);
    BOOST_TEST(window.ready_at(1, 0, noon + 17s) == noon + 27s);
}

BOOST_AUTO_TEST_CASE(can_be_aligned_to_the_clock) {
    fixed_window window({.limit = 3, .window = 10s, .alignment = window_alignment::epoch});
    window.take(3, noon + 9s);
    BOOST_TEST(window.ready_at(1, 0, noon + 9s) == noon + 10s);
    window.take(3, noon + 10s);
    BOOST_TEST(window.ready_at(1, 0, noon + 10s) == noon + 20s);
    BOOST_TEST(window.ready_at(3, 4, noon + 10s) == noon + 40s);
}

BOOST_AUTO_TEST_CASE(grants_up_to_twice_the_limit_at_a_boundary_as_documented) {
    fixed_window window({.limit = 3, .window = 10s});
    window.take(1, noon);
    window.take(2, noon + 10s - tick);
    BOOST_TEST(fits(window, 3, noon + 10s));
}

BOOST_AUTO_TEST_CASE(pays_debt_from_later_windows) {
    fixed_window window({.limit = 3, .window = 10s});
    window.take(8, noon);
    BOOST_TEST(window.ready_at(1, 0, noon) == noon + 20s);
    BOOST_TEST(window.ready_at(2, 0, noon) == noon + 30s);
    BOOST_TEST(window.remaining(noon + 20s) == 1);
    BOOST_TEST(window.remaining(noon + 30s) == 3);
    window.take(3, noon + 34s);
    BOOST_TEST(window.ready_at(1, 0, noon + 34s) == noon + 44s);
}

BOOST_AUTO_TEST_CASE(undoes_only_grants_that_still_count) {
    fixed_window window({.limit = 3, .window = 10s});
    auto const early = window.take(3, noon);
    BOOST_TEST(window.refund(1, early, noon + 9s));
    BOOST_TEST(window.remaining(noon + 9s) == 1);
    auto const late = window.take(3, noon + 10s);
    BOOST_TEST(!window.refund(2, early, noon + 10s));
    BOOST_TEST(window.remaining(noon + 10s) == 0);
    BOOST_TEST(window.refund(3, late, noon + 10s));
    BOOST_TEST(window.remaining(noon + 10s) == 3);
}

BOOST_AUTO_TEST_CASE(undoes_debt_that_was_carried_over) {
    fixed_window window({.limit = 3, .window = 10s});
    auto const estimate = window.take(30, noon);
    BOOST_TEST(!fits(window, 1, noon + 20s));
    BOOST_TEST(window.refund(28, estimate, noon + 20s));
    BOOST_TEST(window.remaining(noon + 20s) == 3);
}

BOOST_AUTO_TEST_CASE(keeps_used_permits_when_options_change) {
    fixed_window window({.limit = 3, .window = 10s});
    window.take(2, noon);
    renew(window, {.limit = 5, .window = 20s}, noon + 5s);
    BOOST_TEST(window.remaining(noon + 5s) == 3);
    BOOST_TEST(window.ready_at(5, 0, noon + 5s) == noon + 20s);
    renew(window, {.limit = 5, .window = 1s}, noon + 5s);
    BOOST_TEST(window.remaining(noon + 5s) == 3);
    BOOST_TEST(window.ready_at(5, 0, noon + 5s) == noon + 6s);
    renew(window, {.limit = 1, .window = 60s, .alignment = window_alignment::epoch}, noon + 5s);
    BOOST_TEST(window.remaining(noon + 5s) == 0);
    BOOST_TEST(window.ready_at(1, 0, noon + 5s) == noon + 60s);
}

BOOST_AUTO_TEST_CASE(owes_nothing_for_grants_below_a_higher_limit) {
    fixed_window window({.limit = 1'000, .window = 1h});
    window.take(1'000, noon);
    renew(window, {.limit = 10, .window = 1h}, noon + 1min);
    BOOST_TEST(window.remaining(noon + 1min) == 0);
    BOOST_TEST(window.ready_at(1, 0, noon + 1min) == noon + 1h);
    BOOST_TEST(window.ready_at(1, 10, noon + 1min) == noon + 2h);

    // It is still known if the limit is restored in the same window.
    renew(window, {.limit = 1'000, .window = 1h}, noon + 2min);
    BOOST_TEST(window.remaining(noon + 2min) == 0);
    renew(window, {.limit = 1'001, .window = 1h}, noon + 2min);
    BOOST_TEST(window.remaining(noon + 2min) == 1);
    renew(window, {.limit = 10, .window = 1h}, noon + 2min);
    renew(window, {.limit = 1'000, .window = 1h}, noon + 2h);
    BOOST_TEST(window.remaining(noon + 2h) == 1'000);
}

BOOST_AUTO_TEST_CASE(owes_only_unpaid_debt_when_the_limit_is_lowered) {
    fixed_window window({.limit = 10, .window = 10s});
    window.take(10, noon);
    window.take(15, noon);  // the next window pays 10 of these, and the one after it 5
    renew(window, {.limit = 2, .window = 10s}, noon + 12s);
    BOOST_TEST(window.ready_at(1, 0, noon + 12s) == noon + 40s);  // 5 in windows of 2
    renew(window, {.limit = 3, .window = 10s}, noon + 22s);
    BOOST_TEST(window.ready_at(1, 0, noon + 22s) == noon + 30s);
    BOOST_TEST(window.remaining(noon + 30s) == 1);
}

BOOST_AUTO_TEST_CASE(pays_at_once_when_the_limit_is_raised) {
    fixed_window window({.limit = 5, .window = 10s});
    window.take(8, noon);
    renew(window, {.limit = 20, .window = 10s}, noon + 1s);
    BOOST_TEST(window.remaining(noon + 1s) == 12);
    BOOST_TEST(window.remaining(noon + 10s) == 20);
}

// For windows aligned to the clock, the grants alone determine the free permits of each window: no refund allows one
// too many, whatever the debt.
BOOST_AUTO_TEST_CASE(never_grants_one_too_many) {
    support::for_each_seed(20'000'000, 20'000, [](random_source& random) {
        auto const limit = random.between(1, 5);
        constexpr auto length = 4ns;
        fixed_window window(
            {.limit = limit, .window = length, .alignment = window_alignment::epoch});
        struct permit {
            ticket t;
            std::vector<std::int64_t> used_in;  // the number of the window of each permit
        };
        std::vector<permit> permits;
        std::vector<amount> used(200);
        auto now = time_point{};
        auto const owed = [&] {
            amount debt = 0;
            auto const here = static_cast<std::size_t>(now.time_since_epoch() / length);
            for (std::size_t i = 0; i != here; ++i)
                debt = std::max<amount>(debt + used[i] - limit, 0);
            return debt + used[here];
        };
        for (auto steps = random.between(5, 60); steps != 0; --steps) {
            now += duration(random.one_in(3) ? random.between(0, 6) : random.between(0, 1));
            std::int64_t const here = now.time_since_epoch() / length;
            if (random.one_in(3) && !permits.empty()) {
                auto& p = permits[random.index_in(permits)];
                auto n = random.between(0, static_cast<std::int64_t>(p.used_in.size()));
                if (n != 0)
                    window.refund(n, p.t, now);
                for (; n != 0; --n) {  // the oldest first
                    --used[static_cast<std::size_t>(p.used_in.front())];
                    p.used_in.erase(p.used_in.begin());
                }
            } else if (random.one_in(6) && permits.size() >= 2) {
                auto const from = permits.back();
                permits.pop_back();
                auto& into = permits[random.index_in(permits)];
                into.t = window.merge(into.t, from.t, 1);
                into.used_in.insert(into.used_in.end(), from.used_in.begin(), from.used_in.end());
                std::ranges::sort(into.used_in);
            } else {
                auto const n = random.between(1, 2 * limit);
                if (n <= limit && fits(window, n, now))
                    expect(owed() + n <= limit, "one too many");
                else if (!random.one_in(5))
                    continue;
                permits.push_back(
                    {window.take(n, now), std::vector(static_cast<std::size_t>(n), here)});
                used[static_cast<std::size_t>(here)] += n;
            }
            expect(window.remaining(now) <= std::max<amount>(limit - owed(), 0),
                   "more than remains");
        }
    });
    BOOST_TEST(true);  // no check above failed
}

BOOST_AUTO_TEST_CASE(rejects_invalid_options_by_name) {
    using nonsense = std::invalid_argument;
    BOOST_CHECK_EXCEPTION(
        fixed_window({.limit = 0}), nonsense,
        says("weir::fixed_window: limit is 0, but must be from 1 to 1000000000000000"));
    BOOST_CHECK_EXCEPTION(fixed_window({.window = -1ns}), nonsense,
                          says("weir::fixed_window: window is -1ns, but must be at least 1ns"));
    BOOST_CHECK_EXCEPTION(fixed_window({.alignment = static_cast<window_alignment>(7)}), nonsense,
                          says("weir::fixed_window: alignment is 7, but must be from 0 to 1"));
}

BOOST_AUTO_TEST_CASE(returns_never_for_times_after_the_end_of_time) {
    fixed_window window({.limit = 1, .window = weir::forever});
    window.take(1, noon);
    BOOST_TEST(window.ready_at(1, 0, noon) == weir::never);
    BOOST_TEST(window.ready_at(1, 1'000'000, noon) == weir::never);
}

BOOST_AUTO_TEST_CASE(implements_the_definition) {
    support::compare_in_every_way<windows>(10'000'000, 4'000);
}

BOOST_AUTO_TEST_CASE(keeps_no_trace_of_a_rejected_request) {
    support::compare_asked_with_left_alone<windows>(19'000'000, 1'000);
}

// As documented: a refund in a later window undoes at most the smallest debt at the beginning of any window.
BOOST_AUTO_TEST_CASE(a_late_refund_undoes_at_most_the_smallest_debt_of_any_window) {
    fixed_window window({.limit = 10, .window = 1s});
    window.begin(noon);
    auto const first = window.take(25, noon);
    auto const second = window.take(20, noon + 1s);
    BOOST_TEST(window.remaining(noon + 2s) == 0);
    BOOST_TEST(weir::debt_of(window, noon + 2s) == 15);
    // All 20 are still owed, or were paid from this window. But the debt at 1 s was 15.
    BOOST_TEST(window.refund(20, second, noon + 2s));
    BOOST_TEST(weir::debt_of(window, noon + 2s) == 0);
    BOOST_TEST(window.remaining(noon + 2s) == 0);
    BOOST_TEST(!window.refund(25, first, noon + 2s));  // an earlier refund undid all that counts
    BOOST_TEST(window.remaining(noon + 3s) == 10);

    // In its own window a refund undoes all, debt first.
    auto const third = window.take(25, noon + 3s);
    BOOST_TEST(window.refund(25, third, noon + 3s));
    BOOST_TEST(window.remaining(noon + 3s) == 10);
}

BOOST_AUTO_TEST_SUITE_END()
