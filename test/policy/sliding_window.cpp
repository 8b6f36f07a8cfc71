#include <weir/policy/sliding_window.hpp>

#include "support/allocations.hpp"
#include "support/compare_policy.hpp"
#include "support/printing.hpp"
#include "support/random.hpp"
#include "support/renew.hpp"
#include "support/says.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
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
using weir::sliding_window_options;
using weir::ticket;
using weir::time_point;
using weir::policy::sliding_window;

BOOST_AUTO_TEST_SUITE(the_sliding_window)

namespace {

constexpr time_point noon{12h};

duration slice_of(sliding_window_options const& o) {
    return duration(o.window.count() / o.slices + (o.window.count() % o.slices == 0 ? 0 : 1));
}

// The definition: grants of a slice count until a window after the last grant in it.
class slices {
public:
    using policy_type = sliding_window;
    static bool exact_behind_any() { return false; }
    static bool stands_still() { return false; }
    static constexpr bool memory_grows = true;

    explicit slices(sliding_window_options const& options) : options_(options) {}

    static sliding_window_options some_options(random_source& random) {
        return {.limit = random.one_in(8) ? 1 + random.of_any_size(weir::max_amount - 1)
                                          : random.between(1, 8),
                .window = random.one_in(3)
                              ? duration(1 + random.of_any_size(weir::forever.count() - 1))
                              : random.one_of<duration>(
                                    {1ns, 2ns, 7ns, 10ns, 1us, 1s, 24h * 365, weir::forever}),
                .slices = random.one_in(3) ? random.between(1, 100) : random.between(1, 4)};
    }
    static sliding_window_options some_options(random_source& random,
                                               sliding_window_options const& before) {
        auto options = some_options(random);
        if (random.one_in(2))
            options.window = before.window;
        if (random.one_in(2))
            options.slices = before.slices;
        return options;
    }
    static duration scale(sliding_window_options const& options) {
        return options.slices % 2 == 0 ? options.window : slice_of(options);
    }

    void begin(time_point) {}

    [[nodiscard]] amount used_up_at(time_point t) const {
        amount sum = 0;
        for (auto const& s : slices_)
            sum += counts(s, t) ? s.units : 0;
        return sum;
    }

    void take(amount n, time_point now) {
        if (slices_.empty() || slices_.back().units == 0 || slices_.back().settled ||
            (now - slices_.back().began >= slice_of(options_) && slices_.back().last != now))
            slices_.push_back({now, now, 0});
        slices_.back().last = now;
        slices_.back().units += n;
        grants_.push_back({now, n, slices_.size() - 1});
    }

    void refund(std::size_t i, amount n, time_point) { slices_[grants_[i].slice].units -= n; }

    void configure(sliding_window_options const& options, time_point now) {
        for (auto& s : slices_)
            s.settled = !counts(s, now);
        options_ = options;
    }

    // At most `limit` in any half-open window; the windows that begin with a grant contain most.
    [[nodiscard]] bool is_lawful() const {
        for (auto first = grants_.begin(); first != grants_.end(); ++first) {
            amount sum = 0;
            for (auto g = first; g != grants_.end() && g->at - first->at < options_.window; ++g)
                sum += g->units;
            if (sum > options_.limit)
                return false;
        }
        return true;
    }

private:
    struct slice {
        time_point began;
        time_point last;
        amount units;
        bool settled = false;  // had expired when the options were changed
    };
    struct grant {
        time_point at;
        amount units;
        std::size_t slice;
    };

    [[nodiscard]] bool counts(slice const& s, time_point t) const {
        return !s.settled && t - s.last < options_.window;
    }

    sliding_window_options options_;
    std::vector<slice> slices_;
    std::vector<grant> grants_;
};

}  // namespace

BOOST_AUTO_TEST_CASE(grants_the_limit_at_once_and_not_one_more_until_a_window_has_passed) {
    // The cases of the original.
    sliding_window window({.limit = 100, .window = 1s, .slices = 30});
    for (int i = 0; i != 100; ++i) {
        BOOST_TEST_REQUIRE(fits(window, 1, noon));
        window.take(1, noon);
    }
    BOOST_TEST(!fits(window, 1, noon));
    BOOST_TEST(!fits(window, 1, noon + 1s - tick));
    BOOST_TEST(window.remaining(noon + 1s) == 100);
    BOOST_TEST(fits(window, 100, noon + 1s));
}

BOOST_AUTO_TEST_CASE(does_not_continue_a_refunded_slice) {
    sliding_window window({.limit = 5, .window = 10s, .slices = 2});
    window.take(1, noon);
    renew(window, {.limit = 5, .window = 10s, .slices = 10}, noon + 4s);
    auto const unused = window.take(1, noon + 4s);
    window.refund(1, unused, noon + 4s);
    renew(window, {.limit = 5, .window = 10s, .slices = 2}, noon + 4s);
    window.take(1, noon + 5s);
    BOOST_TEST(window.remaining(noon + 10s) == 4);
}

BOOST_AUTO_TEST_CASE(distinguishes_grants_before_and_after_a_change_of_options) {
    sliding_window window({.limit = 5, .window = 10s, .slices = 2});
    window.take(1, noon);
    window.take(1, noon + 1s);
    renew(window, {.limit = 5, .window = 10s, .slices = 100}, noon + 1s);
    auto const unused = window.take(1, noon + 1s);
    window.refund(1, unused, noon + 1s);
    window.take(1, noon + 2s);
    BOOST_TEST(window.remaining(noon + 11s) == 4);
}

BOOST_AUTO_TEST_CASE(is_no_shorter_for_being_divided_unevenly) {
    // 1000 ms / 30 rounded down is 33 ms, and 30 of these are 990 ms.
    for (amount const n : {1, 3, 7, 30, 999}) {
        sliding_window window({.limit = 1, .window = 1s, .slices = n});
        window.take(1, noon);
        BOOST_TEST(window.ready_at(1, 0, noon) == noon + 1s);
    }
}

BOOST_AUTO_TEST_CASE(grants_in_no_window_twice_the_limit) {
    // Half at the end of a slice, and the rest as soon as possible, in windows that are aligned to nothing: counters by
    // slices of the clock allow 2 * limit here.
    constexpr amount limit = 10;
    for (amount const n : {1, 2, 3, 10}) {
        sliding_window window({.limit = limit, .window = 1s, .slices = n});
        std::vector<time_point> grants;
        for (auto now = noon + 990ms; now < noon + 10s; now += 10ms) {
            while (fits(window, 1, now)) {
                window.take(1, now);
                grants.push_back(now);
            }
        }
        for (std::size_t i = limit; i < grants.size(); ++i)
            BOOST_TEST(grants[i] - grants[i - limit] >= 1s);
        BOOST_TEST(grants.size() == 10U * limit);
    }
}

BOOST_AUTO_TEST_CASE(frees_a_slice_a_window_after_its_last_grant) {
    sliding_window window({.limit = 3, .window = 10s, .slices = 5});
    window.take(1, noon);
    window.take(1, noon + 2s - tick);  // the same slice
    window.take(1, noon + 2s);         // the next
    BOOST_TEST(window.ready_at(1, 0, noon + 3s) == noon + 12s - tick);
    BOOST_TEST(window.ready_at(2, 0, noon + 3s) == noon + 12s - tick);
    BOOST_TEST(window.ready_at(3, 0, noon + 3s) == noon + 12s);
    BOOST_TEST(window.remaining(noon + 12s - tick) == 2);
    BOOST_TEST(window.remaining(noon + 12s) == 3);
}

BOOST_AUTO_TEST_CASE(is_late_by_less_than_a_slice) {
    support::for_each_seed(1, 2'000, [](random_source& random) {
        sliding_window_options const options{.limit = random.between(1, 20),
                                             .window = duration(random.between(1, 1'000)),
                                             .slices = random.between(1, 12)};
        sliding_window window(options);
        std::vector<time_point> grants;
        auto now = noon;
        for (int i = 0; i != 100; ++i) {
            now += duration(random.of_any_size(300));
            if (fits(window, 1, now)) {
                window.take(1, now);
                grants.push_back(now);
                continue;
            }
            auto const exact =
                grants[grants.size() - static_cast<std::size_t>(options.limit)] + options.window;
            auto const ready = window.ready_at(1, 0, now);
            expect(ready >= exact, "no earlier than the window allows");
            expect(ready < exact + slice_of(options), "and later by less than a slice");
        }
    });
    BOOST_TEST(true);  // no check above failed
}

BOOST_AUTO_TEST_CASE(removes_a_refund_from_its_slice_while_that_counts) {
    sliding_window window({.limit = 4, .window = 10s, .slices = 5});
    auto const first = window.take(2, noon);
    auto const second = window.take(2, noon + 3s);
    BOOST_TEST(window.refund(1, first, noon + 5s));
    BOOST_TEST(window.remaining(noon + 5s) == 1);
    BOOST_TEST(window.ready_at(2, 0, noon + 5s) == noon + 10s);
    BOOST_TEST(window.refund(2, second, noon + 10s));
    BOOST_TEST(window.remaining(noon + 10s) == 4);
    BOOST_TEST(!window.refund(1, first, noon + 10s));
}

BOOST_AUTO_TEST_CASE(keeps_used_permits_when_options_change) {
    sliding_window window({.limit = 4, .window = 10s, .slices = 5});
    window.take(2, noon);
    window.take(2, noon + 9s);
    renew(window, {.limit = 3, .window = 20s, .slices = 2}, noon + 12s);
    BOOST_TEST(window.capacity() == 3);
    BOOST_TEST(window.remaining(noon + 12s) == 1);  // the first had cooled
    BOOST_TEST(window.ready_at(3, 0, noon + 12s) == noon + 29s);
    renew(window, {.limit = 1, .window = 20s}, noon + 12s);
    BOOST_TEST(window.ready_at(1, 0, noon + 12s) == noon + 29s);
}

BOOST_AUTO_TEST_CASE(takes_no_more_memory_than_for_its_slices) {
    auto const before = support::bytes_in_use.load();
    sliding_window window({.limit = weir::max_amount, .window = 1s, .slices = 10});
    for (auto now = noon; now != noon + 10s; now += 1ms)
        window.take(1'000'000, now);
    BOOST_TEST(support::bytes_in_use - before <= 16 * 16 + support::added_by_malloc);
    // From the end back: a part of the current slice, nine whole slices, and one that still counts.
    auto const now = noon + 10s - 1ms;
    BOOST_TEST(window.remaining(now) == weir::max_amount - 1'000 * amount{1'000'000});
}

BOOST_AUTO_TEST_CASE(has_room_for_old_slices_beside_new_ones) {
    sliding_window window({.limit = 1'000, .window = 100s, .slices = 100});
    auto now = noon;
    for (int i = 0; i != 100; ++i, now += 1s)
        window.take(1, now);
    renew(window, {.limit = 1'000, .window = 1'000s, .slices = 100}, now);
    for (int i = 0; i != 90; ++i, now += 10s)
        window.take(1, now);
    BOOST_TEST(window.remaining(now) == 1'000 - 189);  // the first had expired at the change
    BOOST_TEST(window.remaining(noon + 1'050s) == 1'000 - 49 - 90);
}

BOOST_AUTO_TEST_CASE(can_count_forever) {
    sliding_window window({.limit = weir::max_amount, .window = 1ns, .slices = 1});
    auto now = noon;
    for (int i = 0; i != 100'000; ++i) {  // ten times as often as a number can count
        expect(fits(window, weir::max_amount, now), "all is free");
        window.take(weir::max_amount, now);
        expect(!fits(window, 1, now), "all is used");
        now += tick;
    }
    BOOST_TEST(window.remaining(now) == weir::max_amount);
}

BOOST_AUTO_TEST_CASE(rejects_invalid_options_by_name) {
    using nonsense = std::invalid_argument;
    BOOST_CHECK_EXCEPTION(
        sliding_window({.limit = 0}), nonsense,
        says("weir::sliding_window: limit is 0, but must be from 1 to 1000000000000000"));
    BOOST_CHECK_EXCEPTION(sliding_window({.window = 0s}), nonsense,
                          says("weir::sliding_window: window is 0s, but must be at least 1ns"));
    BOOST_CHECK_EXCEPTION(sliding_window({.slices = 0}), nonsense,
                          says("weir::sliding_window: slices is 0, but must be from 1 to 1048576"));
}

BOOST_AUTO_TEST_CASE(returns_never_for_times_after_the_end_of_time) {
    sliding_window window({.limit = 1, .window = weir::forever});
    window.take(1, noon);
    BOOST_TEST(window.ready_at(1, 0, noon) == weir::never);
    BOOST_TEST(window.ready_at(1, 1'000'000, noon) == weir::never);
}

BOOST_AUTO_TEST_CASE(implements_the_definition) {
    support::compare_in_every_way<slices>(1'000'000, 4'000);
}

BOOST_AUTO_TEST_CASE(keeps_no_trace_of_a_rejected_request) {
    support::compare_asked_with_left_alone<slices>(9'000'000, 1'000);
}

// As documented: after a change to longer slices a permit may expire earlier than if all slices were as long.
BOOST_AUTO_TEST_CASE(keeps_shorter_slices_after_a_change_to_longer_ones) {
    sliding_window window({.limit = 4, .window = 10s, .slices = 10});
    window.begin(noon);
    window.take(1, noon);
    window.take(1, noon + 2s);
    window.take(1, noon + 4s);
    renew(window, {.limit = 4, .window = 10s, .slices = 1}, noon + 4s);
    window.take(1, noon + 5s);  // the slice of 4 s continues
    BOOST_TEST(window.remaining(noon + 10s - tick) == 0);
    BOOST_TEST(window.remaining(noon + 10s) == 1);
    BOOST_TEST(window.remaining(noon + 12s) == 2);
    BOOST_TEST(window.remaining(noon + 15s - tick) == 2);
    BOOST_TEST(window.remaining(noon + 15s) == 4);
}

BOOST_AUTO_TEST_SUITE_END()
