#include <weir/policy/all.hpp>
#include <weir/policy/any.hpp>
#include <weir/policy/calendar_window.hpp>
#include <weir/policy/fixed_window.hpp>
#include <weir/policy/leaky_bucket.hpp>
#include <weir/policy/penalty.hpp>
#include <weir/policy/sliding_log.hpp>
#include <weir/policy/sliding_window.hpp>
#include <weir/policy/smooth_bursty.hpp>
#include <weir/policy/smooth_warming_up.hpp>
#include <weir/policy/token_bucket.hpp>
#include <weir/saved_numbers.hpp>

#include "support/random.hpp"
#include "support/wall_clock.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

using namespace std::chrono_literals;
using support::random_source;
using support::wall;
using weir::amount;
using weir::duration;
using weir::time_point;
namespace policy = weir::policy;

// A restored rule decides like a rule that continued, on another clock. The second rule is the oracle: it gets no call
// between the saving and the restoring.

BOOST_AUTO_TEST_SUITE(saved_rules)

namespace {

constexpr std::uint64_t runs = 3'000;
constexpr std::chrono::sys_seconds start = support::at(2024, 3, 30, 20h);

// Divisors of an hour, so that clocks that differ by hours have the same aligned windows.
duration some_period(random_source& random) {
    return duration(random.one_of<std::int64_t>({3, 10, 1'000, 900'000'000, 3'600'000'000'000}));
}
weir::rate some_rate(random_source& random) {
    return {random.between(random.one_in(10) ? 0 : 1, 20), some_period(random)};
}
weir::carry_over some_carry(random_source& random) {
    return random.one_of({weir::carry_over::as_is, weir::carry_over::proportional});
}

template <class Options>
Options some(random_source& random);
template <>
weir::token_bucket_options some(random_source& random) {
    auto const burst = random.between(1, 30);
    return {.rate = some_rate(random),
            .burst = burst,
            .initial = random.between(0, burst),
            .refill = random.one_of({weir::refill::continuous, weir::refill::interval}),
            .carry_over = some_carry(random)};
}
template <>
weir::leaky_bucket_options some(random_source& random) {
    return {.rate = some_rate(random),
            .capacity = random.between(1, 30),
            .carry_over = some_carry(random)};
}
template <>
weir::sliding_log_options some(random_source& random) {
    return {.limit = random.between(1, 30), .window = some_period(random)};
}
template <>
weir::sliding_window_options some(random_source& random) {
    return {.limit = random.between(1, 30),
            .window = some_period(random),
            .slices = random.between(1, 12)};
}
template <>
weir::fixed_window_options some(random_source& random) {
    return {.limit = random.between(1, 30),
            .window = some_period(random),
            .alignment =
                random.one_of({weir::window_alignment::first_use, weir::window_alignment::epoch})};
}
template <>
weir::calendar_window_options some(random_source& random) {
    return {.limit = random.between(1, 30),
            .unit = random.one_of({weir::calendar_unit::day, weir::calendar_unit::week}),
            .zone = random.one_in(2) ? support::europe() : weir::time_zone(),
            .clock = wall::read};
}
template <>
weir::smooth_bursty_options some(random_source& random) {
    return {.rate = {random.between(1, 20), some_period(random)},
            .max_burst = some_period(random),
            .carry_over = some_carry(random)};
}
template <>
weir::smooth_warming_up_options some(random_source& random) {
    return {.rate = {random.between(1, 20), some_period(random)},
            .warm_up = some_period(random),
            .carry_over = some_carry(random)};
}
template <>
weir::penalty_options some(random_source& random) {
    auto const first = some_period(random);
    return {.offences = random.between(1, 20),
            .window = some_period(random),
            .first = first,
            .longest = first * random.between(1, 20),
            .memory = some_period(random) * random.between(0, 3)};
}
template <>
std::tuple<weir::token_bucket_options, weir::sliding_log_options, weir::fixed_window_options> some(
    random_source& random) {
    return {some<weir::token_bucket_options>(random), some<weir::sliding_log_options>(random),
            some<weir::fixed_window_options>(random)};
}
template <>
weir::limiter_config some(random_source& random) {
    switch (random.between(0, 6)) {
        case 0:
            return some<weir::token_bucket_options>(random);
        case 1:
            return some<weir::fixed_window_options>(random);
        case 2:
            return some<weir::calendar_window_options>(random);
        case 3:
            return weir::seats_options{.seats = random.between(1, 5)};
        case 4:
            return some<weir::penalty_options>(random);
        default:
            break;
    }
    std::vector<weir::limiter_config> parts;
    for (auto n = random.between(1, 3); n != 0; --n)
        parts.push_back(some<weir::limiter_config>(random));
    return weir::all_options(std::move(parts));
}

template <class Options>
duration scale_of(Options const& options) {
    if constexpr (requires { options.window; })
        return options.window;
    else if constexpr (requires { options.unit; })
        return 24h;
    else if constexpr (requires { options.rate; })
        return options.rate.period();
    else
        return 1s;
}

// Two policies with the same options: one continued, and the other one was restored, on a clock with another epoch.
template <class Policy>
class pair_of {
public:
    using options_type = typename Policy::options_type;
    static constexpr bool may_be_aligned =
        !requires(options_type o) { o.rate; } && !std::is_same_v<Policy, policy::calendar_window>;

    explicit pair_of(random_source& random)
        : random_(random), options_(some<options_type>(random)), one_(options_), other_(options_) {
        wall::set(start);
        one_.begin(now());
        other_.begin(there());
    }

    void run() {
        for (auto parts = random_.between(1, 3); parts != 0; --parts) {
            for (auto steps = random_.between(0, 25); steps != 0; --steps) {
                pass(some_time());
                act();
                compare();
            }
            restart();
        }
    }

private:
    struct grant {
        amount n;
        weir::ticket here;
        weir::ticket there;
    };

    [[nodiscard]] time_point now() const { return time_point(now_); }
    [[nodiscard]] time_point there() const { return time_point(now_ + shift_); }
    [[nodiscard]] duration some_time() {
        auto const s = scale_of(options_).count();
        return duration(random_.one_in(3) ? random_.between(0, 3) : random_.between(0, s) / 3);
    }
    void pass(duration d) {
        now_ += d;
        wall::is += d;
    }

    void act() {
        auto const n = random_.between(1, 8);
        if (!grants_.empty() && random_.one_in(4)) {
            auto& g = grants_[random_.index_in(grants_)];
            auto const back = random_.between(1, g.n);
            one_.refund(back, g.here, now());
            other_.refund(back, g.there, there());
            g.n -= back;
            if (g.n == 0)
                forget(g);
            return;
        }
        if constexpr (weir::uses_reports<Policy>) {
            if (!grants_.empty() && random_.one_in(2)) {
                auto& g = grants_[random_.index_in(grants_)];
                auto const how = random_.one_of({weir::outcome::success, weir::outcome::dropped});
                BOOST_REQUIRE_EQUAL(weir::leave(one_, g.n, one_.report(g.here, how), now()),
                                    weir::leave(other_, g.n, other_.report(g.there, how), there()));
                forget(g);
                return;
            }
        }
        bool const is_charge = random_.one_in(6);
        if (!is_charge && (n > one_.capacity() || one_.ready_at(n, 0, now()) > now()))
            return;
        grants_.push_back({n, one_.take(n, now()), other_.take(n, there())});
    }

    void forget(grant& g) {
        g = grants_.back();
        grants_.pop_back();
    }

    void compare() {
        auto const t = now();
        auto const u = there();
        BOOST_REQUIRE_EQUAL(one_.remaining(t), other_.remaining(u));
        BOOST_REQUIRE_EQUAL(weir::debt_of(one_, t), weir::debt_of(other_, u));
        for (amount const n : {amount{1}, one_.capacity() / 2 + 1, one_.capacity()}) {
            if (n > 1'000)
                continue;
            auto const ready = one_.ready_at(n, 0, t);
            auto const other_ready = other_.ready_at(n, 0, u);
            bool const is_known = ready != weir::unknown && ready != weir::never;
            BOOST_REQUIRE_EQUAL(is_known,
                                other_ready != weir::unknown && other_ready != weir::never);
            if (is_known)
                BOOST_REQUIRE_EQUAL((std::max(ready, t) - t).count(),
                                    (std::max(other_ready, u) - u).count());
        }
    }

    void restart() {
        // The permits end with their process: a rule of seats has them back.
        for (auto const& g : grants_)
            if (g.n != 0)
                static_cast<void>(weir::leave(one_, g.n, g.here, now()));
        grants_.clear();
        std::string numbers;
        weir::number_writer writer(numbers);
        other_.save(writer, there());

        auto const s = scale_of(options_).count();
        auto const away = duration(random_.one_in(4) ? 0 : random_.between(0, 3 * s));
        pass(away);
        shift_ += random_.between(-9, 9) * 1h;
        if constexpr (!may_be_aligned)
            shift_ += duration(random_.between(-1'000'000, 1'000'000));
        Policy before(options_);
        auto const then = there() - away;
        before.begin(then);
        weir::number_reader reader(numbers);
        BOOST_REQUIRE(before.load(reader, then));
        BOOST_REQUIRE(reader.is_done());
        other_ = Policy(options_);
        other_.begin(there());
        other_.resume(before, there(), true);
        compare();
    }

    random_source& random_;
    options_type options_;
    Policy one_;
    Policy other_;
    duration now_ = 100h;
    duration shift_{};
    std::vector<grant> grants_;
};

template <class Policy>
void compare_with_one_that_went_on(std::uint64_t first) {
    support::for_each_seed(first, runs, [](random_source& random) {
        pair_of<Policy>(random).run();
    });
}

}  // namespace

BOOST_AUTO_TEST_SUITE(a_restored_rule)

BOOST_AUTO_TEST_CASE(of_a_token_bucket) {
    compare_with_one_that_went_on<policy::token_bucket>(1'000'000);
}
BOOST_AUTO_TEST_CASE(of_a_leaky_bucket) {
    compare_with_one_that_went_on<policy::leaky_bucket>(2'000'000);
}
BOOST_AUTO_TEST_CASE(of_a_sliding_log) {
    compare_with_one_that_went_on<policy::sliding_log>(3'000'000);
}
BOOST_AUTO_TEST_CASE(of_a_sliding_window) {
    compare_with_one_that_went_on<policy::sliding_window>(4'000'000);
}
BOOST_AUTO_TEST_CASE(of_a_fixed_window) {
    compare_with_one_that_went_on<policy::fixed_window>(5'000'000);
}
BOOST_AUTO_TEST_CASE(of_a_calendar_window) {
    compare_with_one_that_went_on<policy::calendar_window>(6'000'000);
}
BOOST_AUTO_TEST_CASE(of_a_smooth_rate_with_bursts) {
    compare_with_one_that_went_on<policy::smooth_bursty>(7'000'000);
}
BOOST_AUTO_TEST_CASE(of_a_smooth_rate_that_warms_up) {
    compare_with_one_that_went_on<policy::smooth_warming_up>(8'000'000);
}
BOOST_AUTO_TEST_CASE(of_a_penalty) {
    compare_with_one_that_went_on<policy::penalty>(11'000'000);
}
BOOST_AUTO_TEST_CASE(of_several_rules) {
    compare_with_one_that_went_on<
        policy::all<policy::token_bucket, policy::sliding_log, policy::fixed_window>>(9'000'000);
}
BOOST_AUTO_TEST_CASE(of_any_rule) {
    compare_with_one_that_went_on<policy::any>(10'000'000);
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(restored_numbers)

namespace {

// Loads any bytes, as a wrong file may have them.
template <class Policy>
void load_anything(std::uint64_t first) {
    support::for_each_seed(first, runs, [](random_source& random) {
        wall::set(start);
        auto const options = some<typename Policy::options_type>(random);
        std::string numbers;
        weir::number_writer writer(numbers);
        for (auto n = random.between(0, 9); n != 0; --n)
            writer.add(static_cast<weir::number_writer::wide>(random.of_any_size(INT64_MAX))
                       << (random.one_in(4) ? random.between(0, 64) : 0));
        if (!numbers.empty() && random.one_in(4))
            numbers.back() = static_cast<char>(random.between(-128, 127));
        time_point const then(duration(random.between(-1, 1) * random.of_any_size(INT64_MAX / 4)));
        Policy before(options);
        before.begin(then);
        weir::number_reader reader(numbers);
        bool const is_valid = before.load(reader, then) && reader.is_done();
        if (!is_valid)
            return;
        Policy p(options);
        auto now = then;
        p.begin(now);
        p.resume(before, now, random.one_in(2));
        for (int i = 0; i != 5; ++i) {
            now = weir::later(now, duration(random.of_any_size(INT64_MAX / 8)));
            BOOST_REQUIRE_GE(p.remaining(now), 0);
            BOOST_REQUIRE_GE(weir::debt_of(p, now), 0);
            if (p.ready_at(1, 0, now) <= now)
                p.take(1, now);
        }
        std::string again;
        weir::number_writer rewriter(again);
        p.save(rewriter, now);
    });
}

}  // namespace

BOOST_AUTO_TEST_CASE(of_a_wrong_file_are_refused_or_harmless) {
    load_anything<policy::token_bucket>(1);
    load_anything<policy::leaky_bucket>(2);
    load_anything<policy::sliding_log>(3);
    load_anything<policy::sliding_window>(4);
    load_anything<policy::fixed_window>(5);
    load_anything<policy::calendar_window>(6);
    load_anything<policy::smooth_bursty>(7);
    load_anything<policy::smooth_warming_up>(8);
    load_anything<policy::penalty>(10);
    load_anything<policy::any>(9);
}

BOOST_AUTO_TEST_CASE(have_one_form) {
    std::string out;
    weir::number_writer w(out);
    w.add(0);
    w.add(127);
    w.add(128);
    w.add(~weir::number_writer::wide{});
    BOOST_TEST(out.size() == 1U + 1U + 2U + 19U);
    weir::number_reader r(out);
    BOOST_TEST(r.next_as<int>() == 0);
    BOOST_TEST(r.next_as<int>() == 127);
    BOOST_TEST(r.next_as<int>() == 128);
    BOOST_TEST(bool(r.next(~weir::number_writer::wide{}) == ~weir::number_writer::wide{}));
    BOOST_TEST(r.is_done());

    auto const is_refused = [](std::string_view bytes) {
        weir::number_reader reader(bytes);
        bool const is_zero = reader.next(~weir::number_writer::wide{}) == 0;
        return is_zero && reader.failed();
    };
    BOOST_TEST(is_refused({}));
    BOOST_TEST(is_refused("\x80"));
    BOOST_TEST(is_refused({"\x80\x00", 2}));  // not the shortest form
    std::string const ones(18, '\xff');
    BOOST_TEST(is_refused(ones + '\x04'));  // 129 bits
    BOOST_TEST(is_refused(ones + "\xff\x01"));
    weir::number_reader small("\x05");
    BOOST_TEST(small.next_as<int>(4) == 0);
    BOOST_TEST(small.failed());
}

BOOST_AUTO_TEST_CASE(of_a_clock_near_its_beginning_stay_in_its_range) {
    std::string out;
    weir::number_writer w(out);
    w.add_age(time_point(5s), time_point(10s));
    w.add_age(time_point(10s), time_point(5s));
    w.add_age(time_point::min(), time_point(1s));
    weir::number_reader r(out);
    BOOST_TEST(bool(r.next_instant(time_point(1s)) == time_point(-4s)));
    BOOST_TEST(bool(r.next_instant(time_point(1s)) == time_point(1s)));
    BOOST_TEST(bool(r.next_instant(time_point(-1h)) == time_point::min()));
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE_END()
