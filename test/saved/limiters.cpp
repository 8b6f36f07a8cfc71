#include <weir/any_limiter.hpp>
#include <weir/calendar_window.hpp>
#include <weir/keyed.hpp>
#include <weir/saved_state.hpp>
#include <weir/seats.hpp>
#include <weir/sliding_log.hpp>
#include <weir/testing.hpp>
#include <weir/token_bucket.hpp>

#include "support/random.hpp"
#include "support/saved_files.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/basic_waitable_timer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/wait_traits.hpp>
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace asio = boost::asio;
using namespace std::chrono_literals;
using support::random_source;
using support::saved::file_of;
using support::saved::pass;
using support::saved::restore;
using support::saved::wall;
using weir::duration;
using weir::limiter_config;
using weir::saved_state;
using weir::state_writer;

BOOST_AUTO_TEST_SUITE(a_restored_limiter)

namespace {

// A clock that advances by a microsecond whenever it is read.
struct ticking_clock {
    using duration = std::chrono::nanoseconds;
    using rep = duration::rep;
    using period = duration::period;
    using time_point = std::chrono::time_point<ticking_clock>;
    [[maybe_unused]] static constexpr bool is_steady = true;

    static time_point now() noexcept { return time_point(duration(ticks += 1'000)); }

    inline static rep ticks = 0;
};

template <class Key, class Policy>
using by_key = weir::basic_keyed<Key, Policy, asio::any_io_executor, weir::testing::timer>;
using any_by_key = by_key<std::uint64_t, weir::policy::any>;
using any_limiter = weir::testing::limiter<weir::any_limiter>;

// Returns the rule with the wall clock of virtual time.
limiter_config rule(std::string_view text) {
    auto c = limiter_config::parse(text);
    if (auto* const window = std::get_if<weir::calendar_window_options>(&c.options))
        window->clock = &wall;
    return c;
}

template <class Stats>
void compare(Stats const& a, Stats const& b) {
    BOOST_REQUIRE_EQUAL(a.remaining, b.remaining);
    BOOST_REQUIRE_EQUAL(a.debt, b.debt);
    BOOST_REQUIRE(a.reset_after == b.reset_after);
}

}  // namespace

// The oracle is the saved limiter itself: it continues, without a question until the other one is restored.
BOOST_AUTO_TEST_CASE(decides_for_each_key_like_one_that_went_on) {
    support::for_each_seed(1, 300, [](random_source& random) {
        auto const text = random.one_of<char const*>(
            {"10/60s", "10/60s sliding", "10/60s fixed", "10/60s burst 20",
             "10/60s leaky capacity 7", "20/60s bucket initial 0", "7/10s bucket refill interval",
             "20/day", "5/60s & 8/600s burst 8", "3 seats & 10/60s", "10/60s bursty"});
        BOOST_TEST_CONTEXT(text) {
            asio::io_context ctx;
            pass(duration(random.between(0, 1'000'000'000)));
            weir::keyed_options const keys{.shards = 4};
            any_by_key went_on(ctx, rule(text), keys);
            auto const most = random.between(1, 400);
            for (auto n = random.between(0, 1'000); n != 0; --n) {
                auto const key = static_cast<std::uint64_t>(random.between(1, most)) *
                                 (random.one_in(9) ? 0x0123456789abcdef : 1);
                if (random.one_in(3))
                    went_on.charge(key, random.between(1, 6)).leave();
                else
                    went_on.try_enter(key, random.between(1, 3)).leave();
                if (random.one_in(20))
                    pass(duration(random.between(0, 2'000'000'000)));
            }
            auto const file = file_of(went_on);
            pass(duration(random.one_in(3) ? 0 : random.of_any_size(200'000'000'000)));

            any_by_key restored(ctx, rule(text), keys);
            auto const result = restore(restored, file);
            BOOST_TEST(result.is_restored);
            BOOST_TEST(result.dropped == 0U);
            BOOST_TEST(result.reason == "");
            for (int i = 0; i != 4; ++i) {
                for (std::int64_t k = 1; k <= most + 3; ++k)
                    compare(went_on.stats(static_cast<std::uint64_t>(k)),
                            restored.stats(static_cast<std::uint64_t>(k)));
                pass(duration(random.of_any_size(100'000'000'000)));
            }
            // Keys that are like new can be forgotten: the next keys take their places.
            pass(48h);
            for (std::uint64_t k = 1'000'000; k != 1'004'000; ++k)
                restored.try_enter(k).leave();
            BOOST_TEST(restored.stats().keys < 4'700U);
            for (std::int64_t k = 1; k <= most; ++k)
                compare(went_on.stats(static_cast<std::uint64_t>(k)),
                        restored.stats(static_cast<std::uint64_t>(k)));
        }
    });
}

BOOST_AUTO_TEST_CASE(without_keys_decides_like_one_that_went_on) {
    asio::io_context ctx;
    for (std::string_view const text :
         {"10/60s", "10/60s burst 20", "20/day", "3 seats & 10/60s & 15/1h"}) {
        any_limiter went_on(ctx, rule(text));
        went_on.charge(7).leave();
        pass(20s);
        went_on.charge(6).leave();
        auto const file = file_of(went_on);
        pass(10s);
        any_limiter restored(ctx, rule(text));
        BOOST_TEST(restore(restored, file).is_restored);
        for (int i = 0; i != 9; ++i) {
            compare(went_on.stats(), restored.stats());
            pass(7s);
        }
    }
}

BOOST_AUTO_TEST_CASE(keeps_a_bucket_that_was_empty_at_first) {
    asio::io_context ctx;
    any_by_key first(ctx, rule("10/1s bucket initial 0"));
    pass(1h);  // a new key has a full bucket, since the limiter is old
    BOOST_TEST(first.stats(5U).remaining == 10);
    any_by_key second(ctx, rule("10/1s bucket initial 0"));
    BOOST_TEST(second.stats(5U).remaining == 0);
    BOOST_TEST(restore(second, file_of(first)).is_restored);
    BOOST_TEST(second.stats(5U).remaining == 10);
}

BOOST_AUTO_TEST_CASE(writes_only_keys_that_are_not_like_new) {
    asio::io_context ctx;
    pass(1h);  // so that the wall time has the same number of bytes
    any_by_key clients(ctx, rule("10/1s"));
    auto const empty = file_of(clients).size();
    for (std::uint64_t k = 0; k != 1'000; ++k)
        clients.try_enter(k).leave();
    BOOST_TEST(file_of(clients).size() > empty + 8'000);
    pass(1s);
    BOOST_TEST(file_of(clients).size() == empty);
}

BOOST_AUTO_TEST_CASE(takes_the_first_keys_if_there_are_too_many) {
    asio::io_context ctx;
    any_by_key many(ctx, rule("10/60s"), {.max_keys = 1'000});
    for (std::uint64_t k = 0; k != 1'000; ++k)
        many.try_enter(k).leave();
    any_by_key few(ctx, rule("10/60s"), {.max_keys = 100});
    auto const result = restore(few, file_of(many));
    BOOST_TEST(result.is_restored);
    BOOST_TEST(result.keys == 100U);
    BOOST_TEST(result.dropped == 900U);
    BOOST_TEST(result.reason == "the limiter has no place for more keys");
}

BOOST_AUTO_TEST_CASE(with_other_options_goes_on_as_after_a_change) {
    asio::io_context ctx;
    for (bool const later : {false, true}) {
        any_by_key saved(ctx, rule("10/60s"));
        any_by_key changed(ctx, rule("10/60s"));
        for (auto* const l : {&saved, &changed})
            l->charge(1U, 7).leave();
        auto const file = file_of(saved);
        if (later)
            pass(61s);
        any_by_key next(ctx, rule("20/120s"));
        BOOST_TEST(restore(next, file).is_restored);
        changed.configure(rule("20/120s"));
        compare(next.stats(1U), changed.stats(1U));
    }
}

BOOST_AUTO_TEST_CASE(of_another_kind_begins_anew) {
    asio::io_context ctx;
    any_by_key log(ctx, rule("10/60s"));
    log.charge(1U, 7).leave();
    any_by_key bucket(ctx, rule("10/60s burst 10"));
    auto const result = restore(bucket, file_of(log));
    BOOST_TEST(!result.is_restored);
    BOOST_TEST(result.dropped == 1U);
    BOOST_TEST(result.reason == "the saved rule `10/1min` cannot become `10/1min burst 10`");
    BOOST_TEST(bucket.stats(1U).remaining == 10);

    any_limiter one(ctx, rule("10/60s"));
    BOOST_TEST(restore(one, file_of(log)).reason == "it was saved with a state for each key");
    BOOST_TEST(restore(log, file_of(one)).reason == "it was saved without a state for each key");
    saved_state const other(file_of(one), &wall);
    BOOST_TEST(weir::restore(one, other, "x").reason == "no limiter was saved as `x`");
}

BOOST_AUTO_TEST_CASE(keeps_the_options_of_a_key) {
    asio::io_context ctx;
    any_by_key saved(ctx, rule("10/60s"));
    saved.configure(7U, rule("100/1h"));
    saved.charge(7U, 60).leave();
    saved.configure(8U, rule("100/1h"));
    saved.charge(8U, 60).leave();
    auto const file = file_of(saved);
    pass(120s);
    any_by_key next(ctx, rule("10/60s"));
    next.configure(7U, rule("100/1h"));
    BOOST_TEST(restore(next, file).keys == 2U);
    compare(saved.stats(7U), next.stats(7U));
    saved.reset(8U);
    compare(saved.stats(8U), next.stats(8U));
}

BOOST_AUTO_TEST_CASE(keeps_the_state_that_keys_share) {
    asio::io_context ctx;
    weir::keyed_options const keys{.max_keys = 64, .no_place = weir::when_no_place::share};
    any_by_key saved(ctx, rule("100/60s"), keys);
    for (std::uint64_t k = 0; k != 94; ++k)
        saved.try_enter(k).leave();
    any_by_key next(ctx, rule("100/60s"), keys);
    BOOST_TEST(restore(next, file_of(saved)).keys == 64U);
    BOOST_TEST(next.try_enter(1'000U).remaining() == 69);
    BOOST_TEST(saved.try_enter(1'000U).remaining() == 69);
}

BOOST_AUTO_TEST_CASE(keeps_permits_in_use) {
    asio::io_context ctx;
    any_by_key saved(ctx, rule("3 seats & 10/60s"));
    saved.charge(1U, 6).leave();
    auto const file = file_of(saved);
    any_by_key next(ctx, rule("3 seats & 10/60s"));
    auto permit = next.try_enter(1U, 2);
    BOOST_TEST(restore(next, file).keys == 1U);
    BOOST_TEST(next.stats(1U).remaining == 1);  // a seat
    permit.leave();
    BOOST_TEST(next.stats(1U).remaining == 3);
    BOOST_TEST(bool(next.try_enter(1U, 3)));
}

BOOST_AUTO_TEST_CASE(credits_at_most_a_year_and_nothing_if_the_clock_was_set_back) {
    static duration step{};
    auto const shifted = []() noexcept { return wall() + step; };
    asio::io_context ctx;
    pass(24h);
    any_limiter saved(ctx, rule("1000/8784h burst 1000"));  // 366 days
    saved.charge(1'000).leave();
    auto const file = file_of(saved);
    auto const remaining_after = [&](duration d) {
        step = d;
        any_limiter next(ctx, rule("1000/8784h burst 1000"));
        saved_state const state(file, +shifted);
        BOOST_TEST(weir::restore(next, state, "it").is_restored);
        return next.stats().remaining;
    };
    BOOST_TEST(remaining_after(-20h) == 0);
    BOOST_TEST(remaining_after(0h) == 0);
    BOOST_TEST(remaining_after(4'392h) == 500);
    BOOST_TEST(remaining_after(8'784h) == 1'000);
    saved.charge(1'000).leave();  // a debt
    auto const with_debt = file_of(saved);
    step = 100'000h;
    any_limiter next(ctx, rule("1000/8784h burst 1000"));
    saved_state const state(with_debt, +shifted);
    BOOST_TEST(weir::restore(next, state, "it").is_restored);
    BOOST_TEST(next.stats().remaining == 0);
}

BOOST_AUTO_TEST_CASE(of_a_day_goes_on_until_midnight) {
    asio::io_context ctx;
    auto const now = wall();
    pass(std::chrono::ceil<std::chrono::days>(now + 1ns) - now + 23h);
    by_key<std::uint64_t, weir::policy::calendar_window> saved(ctx, {.limit = 10, .clock = &wall});
    saved.charge(1U, 10).leave();
    saved.charge(2U, 25).leave();
    auto const file = file_of(saved);
    pass(30min);
    by_key<std::uint64_t, weir::policy::calendar_window> next(ctx, {.limit = 10, .clock = &wall});
    BOOST_TEST(restore(next, file).keys == 2U);
    BOOST_TEST(next.stats(1U).remaining == 0);
    pass(31min);
    BOOST_TEST(next.stats(1U).remaining == 10);
    BOOST_TEST(next.stats(2U).debt == 5);
    by_key<std::uint64_t, weir::policy::calendar_window> later(ctx, {.limit = 10, .clock = &wall});
    BOOST_TEST(restore(later, file).keys == 2U);
    BOOST_TEST(later.stats(1U).remaining == 10);
    BOOST_TEST(later.stats(2U).debt == 5);
}

// A clock that is set back by less than a window repeats no window, with or without a restart.
BOOST_AUTO_TEST_CASE(of_a_day_has_no_second_quota_after_a_clock_was_set_back) {
    static duration step{};
    static auto const shifted = []() noexcept { return wall() + step; };
    asio::io_context ctx;
    step = {};
    auto const now = wall();
    pass(std::chrono::ceil<std::chrono::days>(now + 1ns) - now + 1h);
    using quotas = by_key<std::uint64_t, weir::policy::calendar_window>;
    quotas saved(ctx, {.limit = 10, .clock = +shifted});
    saved.charge(1U, 10).leave();
    std::string file;
    state_writer to([&](std::string_view bytes) { file += bytes; }, +shifted);
    save(saved, to, "it");
    to.finish();
    saved_state const state(file, +shifted);
    step = -50h;  // two days before
    quotas anew(ctx, {.limit = 10, .clock = +shifted});
    BOOST_TEST(weir::restore(anew, state, "it").keys == 1U);
    BOOST_TEST(anew.stats(1U).remaining == 10);
    step = -2h;  // the day before
    quotas next(ctx, {.limit = 10, .clock = +shifted});
    BOOST_TEST(weir::restore(next, state, "it").keys == 1U);
    BOOST_TEST(next.stats(1U).remaining == 0);
    pass(2h);  // midnight comes again
    BOOST_TEST(next.stats(1U).remaining == 0);
    pass(24h);
    BOOST_TEST(next.stats(1U).remaining == 10);
}

// On a clock that never shows one time twice, as a real one. So the shards of a limiter are made at different times.
BOOST_AUTO_TEST_CASE(forgets_keys_of_each_shard_of_before) {
    asio::io_context ctx;
    using buckets = weir::basic_keyed<
        std::uint64_t, weir::policy::token_bucket, asio::any_io_executor,
        asio::basic_waitable_timer<ticking_clock, asio::wait_traits<ticking_clock>>>;
    weir::token_bucket_options const options{.rate = {1, 1ms}, .refill = weir::refill::interval};
    buckets saved(ctx, options);
    for (std::uint64_t k = 0; k != 1'000; ++k)
        saved.charge(k, 1'000).leave();
    std::string file;
    state_writer to([&](std::string_view bytes) { file += bytes; });
    save(saved, to, "it");
    to.finish();
    buckets next(ctx, options);
    saved_state const state(std::move(file));
    BOOST_TEST(weir::restore(next, state, "it").keys == 1'000U);
    ticking_clock::ticks += duration(1'100ms).count();
    for (std::uint64_t k = 1'000'000; k != 1'004'000; ++k)
        next.configure(k, options);  // each new key examines a few old ones
    BOOST_TEST(next.stats().keys < 4'050U);
}

BOOST_AUTO_TEST_CASE(is_saved_while_threads_use_it) {
    asio::io_context ctx;
    weir::keyed<std::uint64_t, weir::policy::token_bucket> clients(
        ctx, {.rate = {1, 1h}, .burst = 10});
    for (std::uint64_t k = 0; k != 5'000; ++k)
        clients.charge(k, 2).leave();
    std::atomic<bool> done = false;
    std::thread other([&] {
        for (std::uint64_t k = 5'000; !done; k = k == 50'000 ? 5'000 : k + 1)
            clients.try_enter(k).leave();
    });
    for (int i = 0; i != 10; ++i) {
        std::string file;
        state_writer to([&](std::string_view bytes) { file += bytes; });
        save(clients, to, "it");
        to.finish();
        weir::keyed<std::uint64_t, weir::policy::token_bucket> next(
            ctx, {.rate = {1, 1h}, .burst = 10});
        saved_state const state(std::move(file));
        BOOST_TEST(weir::restore(next, state, "it").is_restored);
        for (std::uint64_t k = 0; k != 5'000; ++k)
            BOOST_REQUIRE_EQUAL(next.stats(k).remaining, 8);
    }
    done = true;
    other.join();
}

namespace {

template <class Limiter>
concept can_be_saved = requires(Limiter const& from, state_writer& to) { save(from, to, ""); };
struct point {
    int x;
    bool operator==(point const&) const = default;
};

}  // namespace

BOOST_AUTO_TEST_CASE(is_one_whose_rule_has_a_state_to_save) {
    static_assert(can_be_saved<weir::token_bucket>);
    static_assert(can_be_saved<weir::any_limiter>);
    static_assert(!can_be_saved<weir::seats>);
    static_assert(can_be_saved<weir::keyed<int, weir::token_bucket>>);
    static_assert(can_be_saved<weir::keyed<std::string, weir::policy::any>>);
    static_assert(!can_be_saved<weir::keyed<int, weir::seats>>);
    static_assert(!can_be_saved<weir::keyed<double, weir::token_bucket>>);
}

BOOST_AUTO_TEST_SUITE_END()
