#include <weir/adaptive_seats.hpp>
#include <weir/any_limiter.hpp>
#include <weir/keyed.hpp>
#include <weir/policy/adaptive.hpp>
#include <weir/policy/all.hpp>
#include <weir/policy/any.hpp>
#include <weir/policy/seats.hpp>
#include <weir/policy/sliding_log.hpp>
#include <weir/policy/token_bucket.hpp>
#include <weir/saved_numbers.hpp>
#include <weir/saved_state.hpp>
#include <weir/testing.hpp>

#include "support/random.hpp"
#include "support/saved_files.hpp"
#include "support/saved_format.hpp"
#include "support/service_simulation.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/test/unit_test.hpp>

#include <chrono>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace asio = boost::asio;
using namespace std::chrono_literals;
using support::random_source;
using support::service_simulation;
using support::variation;
using support::saved::file_of;
using support::saved::restore;
using support::saved::wall;
using weir::adaptive_options;
using weir::amount;
using weir::duration;
using weir::limiter_config;
using weir::time_point;
using weir::policy::adaptive;

static_assert(weir::savable_policy<adaptive>);

BOOST_AUTO_TEST_SUITE(restored_adaptive_seats)

namespace {

using any_limiter = weir::testing::limiter<weir::any_limiter>;
using keyed_limiter = weir::basic_keyed<std::uint64_t, weir::policy::any, asio::any_io_executor,
                                        weir::testing::timer>;

std::string saved_numbers(adaptive const& from) {
    std::string numbers;
    weir::number_writer to(numbers);
    from.save(to, time_point(1h));
    return numbers;
}
std::string numbers(std::initializer_list<std::uint64_t> values) {
    std::string text;
    weir::number_writer to(text);
    for (auto const n : values)
        to.add(n);
    return text;
}
// Returns a limiter with `options` that was restored from the numbers of one with `before`; none if they are refused.
std::optional<adaptive> restored(std::string_view text, adaptive_options const& before,
                                 adaptive_options const& options) {
    adaptive loaded(before);
    loaded.begin(time_point(1h));
    weir::number_reader from(text);
    if (!loaded.load(from, time_point(1h)) || !from.is_done())
        return std::nullopt;
    std::optional<adaptive> result(options);
    result->begin(time_point(2h));
    result->resume(loaded, time_point(2h), before == options);
    return result;
}
std::optional<adaptive> restored(std::string_view text, adaptive_options const& options) {
    return restored(text, options, options);
}
// Returns the number with these numbers, 0 if they are refused.
amount seats_of(std::initializer_list<std::uint64_t> values, adaptive_options const& options) {
    auto const seats = restored(numbers(values), options);
    return seats ? seats->seats() : 0;
}

// A file with a limiter that has these numbers, by the description of the format. Earlier versions wrote such files.
std::string file_with(std::string_view rule, std::string_view numbers) {
    auto const now =
        static_cast<std::uint64_t>(std::chrono::nanoseconds(wall().time_since_epoch()).count());
    std::string limiter("\x02");
    weir::number_writer to(limiter);
    to.add(now);
    to.add(0);
    to.add_bytes("it");
    to.add_bytes(rule);
    limiter += numbers;
    std::string records;
    weir::number_writer(records).add_bytes(limiter);
    weir::number_writer(records).add_bytes(std::string_view("\0\1", 2));
    return support::saved::file_with(records, now);
}

std::vector<adaptive_options> const all_algorithms{
    weir::knee_options{}, weir::vegas_options{},
    weir::gradient2_options{.min = 1, .max = 1'000, .tolerance = 1.1},
    weir::aimd_options{.min = 1, .max = 1'000, .timeout = 200ms}};

// The number grows by 1 with each second permit that takes all seats.
constexpr weir::aimd_options each_by_itself{
    .seats = 10, .min = 1, .max = 20, .slow_start = 0, .timeout = 1s, .samples = 1};
template <class Enter>
void grow(int times, Enter enter) {
    for (int i = 0; i != 2 * times; ++i) {
        auto permit = enter();
        support::saved::pass(1ms);
        permit.leave();
        support::saved::pass(10ms);
    }
}

}  // namespace

// The oracle is a limiter that was never stopped: it continues in front of the same service, with the same load.
BOOST_AUTO_TEST_CASE(serve_as_much_as_one_that_was_never_stopped) {
    for (auto const& options : all_algorithms) {
        for (amount const workers : {16, 100}) {
            for (auto const& times : {variation::none(), variation::lognormal(0.5)}) {
                support::service const service{.workers = workers, .own = 100ms};
                service_simulation never_stopped(options, service, times, 1);
                never_stopped.run(5min);
                auto const seats = restored(saved_numbers(never_stopped.seats()), options);
                BOOST_REQUIRE(seats);
                service_simulation after(options, service, times, 2);
                after.use(*seats);
                auto const first = after.run(1s);
                auto const then = after.run(4s);
                auto const other = never_stopped.run(5s);
                BOOST_TEST_CONTEXT("algorithm " << options.index() << ", " << workers
                                                << " workers, " << seats->seats() << " seats") {
                    BOOST_TEST(first.throughput() >= 0.75);  // of new `knee` seats: 0.06
                    BOOST_TEST(then.throughput() >= 0.88 * other.throughput());
                    BOOST_TEST(then.times_own() <= 1.25 * other.times_own());
                }
            }
        }
    }
}

BOOST_AUTO_TEST_CASE(have_the_number_of_the_saved_ones) {
    support::for_each_seed(1, 300, [](random_source& random) {
        auto const options = all_algorithms[random.index_in(all_algorithms)];
        service_simulation s(options, {.workers = random.between(1, 100), .own = 20ms},
                             variation::lognormal(0.25), random.bits());
        s.run(duration(random.between(0, 20'000'000'000)));
        auto const text = saved_numbers(s.seats());
        auto const seats = restored(text, options);
        BOOST_REQUIRE(seats);
        // A probe lowers the number for a moment; the saved number is the one outside of it.
        BOOST_TEST(seats->seats() >= s.seats().seats());
        BOOST_TEST(seats->seats() <= std::visit([](auto const& o) { return o.max; }, options));
        BOOST_TEST(saved_numbers(*seats) == text);
        BOOST_TEST(seats->remaining(time_point(2h)) == seats->seats());
    });
}

BOOST_AUTO_TEST_CASE(save_the_number_outside_of_a_probe) {
    service_simulation s(weir::knee_options{}, {.workers = 16}, variation::none(), 1);
    s.run(1min);
    auto before = s.seats().seats();
    for (int i = 0; i != 400'000 && s.seats().seats() > before / 2; ++i) {
        before = s.seats().seats();
        s.run(1ms);
    }
    BOOST_REQUIRE(s.seats().seats() <= before / 2);
    BOOST_TEST(restored(saved_numbers(s.seats()), weir::knee_options{}).value().seats() == before);
}

BOOST_AUTO_TEST_CASE(continue_the_start_if_it_is_not_over) {
    for (auto const& options : all_algorithms) {
        auto const few = seats_of({33, 0, 0}, options);
        BOOST_TEST(few == 33);
        for (bool const is_over : {false, true}) {
            auto const latency = options.index() == 3 || !is_over ? 0U : 20'000'000U;
            service_simulation s(options, {.workers = 1'000, .own = 20ms}, variation::none(), 1);
            s.use(restored(numbers({33, is_over, latency}), options).value());
            amount most = 0;
            for (int i = 0; i != 70 && most <= 33; ++i) {
                s.run(20ms);
                most = s.seats().seats();
            }
            BOOST_TEST_CONTEXT("algorithm " << options.index() << ", over: " << is_over) {
                if (is_over)
                    BOOST_TEST(most < 66);
                else
                    BOOST_TEST(most == 66);
            }
        }
    }
}

BOOST_AUTO_TEST_CASE(have_nothing_to_save_before_they_have_learned_anything) {
    for (auto const& options : all_algorithms) {
        BOOST_TEST(saved_numbers(adaptive(options)).empty());
        auto others = options;
        std::visit([](auto& o) { o.seats = 50; }, others);
        BOOST_TEST(restored({}, options, others).value().seats() == 50);
        BOOST_TEST(bool(restored({}, options) == adaptive(options)));
        // A limiter with another initial number has learned it.
        BOOST_TEST(restored(numbers({60, 1, 0}), options, others).value().seats() == 60);
    }
}

BOOST_AUTO_TEST_CASE(have_a_number_within_their_options) {
    for (auto const& options : all_algorithms) {
        auto others = options;
        std::visit([](auto& o) { o.min = 30, o.seats = 35, o.max = 40; }, others);
        for (auto const is_over : {0U, 1U}) {
            auto const from = [&](std::uint64_t n) {
                return restored(numbers({n, is_over, 0}), options, others).value().seats();
            };
            BOOST_TEST(from(29) == 30);
            BOOST_TEST(from(30) == 30);
            BOOST_TEST(from(33) == 33);
            BOOST_TEST(from(40) == 40);
            BOOST_TEST(from(1'000) == 40);
        }
        for (auto const& algorithm : all_algorithms)
            BOOST_TEST(restored(numbers({77, 1, 0}), options, algorithm).value().seats() == 77);
    }
}

BOOST_AUTO_TEST_CASE(refuse_numbers_that_their_rule_cannot_have) {
    for (auto options : all_algorithms) {
        std::visit([](auto& o) { o.min = 10, o.seats = 20, o.max = 100; }, options);
        BOOST_TEST(seats_of({10, 1, 0}, options) == 10);
        BOOST_TEST(seats_of({100, 1, 0}, options) == 100);
        BOOST_TEST(seats_of({9, 1, 0}, options) == 0);
        BOOST_TEST(seats_of({101, 1, 0}, options) == 0);
        BOOST_TEST(seats_of({0, 1, 0}, options) == 0);
        BOOST_TEST(seats_of({UINT64_MAX, 1, 0}, options) == 0);
        BOOST_TEST(seats_of({50, 2, 0}, options) == 0);
        BOOST_TEST(seats_of({50}, options) == 0);
        BOOST_TEST(seats_of({50, 1}, options) == 0);
        BOOST_TEST(seats_of({50, 1, 0, 0}, options) == 0);
        auto const longest = std::uint64_t{1} << 62;
        bool const has_latency = options.index() != 3;
        BOOST_TEST(seats_of({50, 1, 1}, options) == (has_latency ? 50 : 0));
        BOOST_TEST(seats_of({50, 1, longest}, options) == (has_latency ? 50 : 0));
        BOOST_TEST(seats_of({50, 1, longest + 1}, options) == 0);
        BOOST_TEST(seats_of({50, 1, UINT64_MAX}, options) == 0);
    }
    BOOST_TEST(seats_of({50, 0, 20}, weir::knee_options{}) == 0);  // it is unknown at the start
    weir::vegas_options slow{.slow_start = 40, .no_load_min = 5ms, .no_load_max = 9ms};
    BOOST_TEST(seats_of({39, 0, 5'000'000}, slow) == 39);
    BOOST_TEST(seats_of({40, 0, 5'000'000}, slow) == 0);
    BOOST_TEST(seats_of({39, 1, 4'999'999}, slow) == 0);
    BOOST_TEST(seats_of({39, 1, 9'000'001}, slow) == 0);
}

BOOST_AUTO_TEST_CASE(work_for_years_after_any_accepted_numbers) {
    support::for_each_seed(1, 2'000, [](random_source& random) {
        auto const options = all_algorithms[random.index_in(all_algorithms)];
        std::string text;
        weir::number_writer to(text);
        to.add(static_cast<std::uint64_t>(random.of_any_size(1'100)));
        to.add(static_cast<std::uint64_t>(random.between(0, 1)));
        to.add(static_cast<std::uint64_t>(random.one_in(3) ? 0 : random.of_any_size(INT64_MAX)));
        auto seats = restored(text, options);
        if (!seats)
            return;
        time_point now(2h);
        for (int i = 0; i != 300; ++i) {
            auto const n = random.between(1, seats->seats());
            auto const t = seats->take(n, now);
            now = weir::later(now, duration(random.of_any_size(INT64_MAX / 1'000)));
            auto const how = random.one_of({weir::outcome::success, weir::outcome::dropped});
            seats->leave(n, seats->report(t, how), now);
            BOOST_REQUIRE_GE(seats->seats(), 1);
            BOOST_REQUIRE_LE(seats->seats(), seats->capacity());
        }
        BOOST_TEST(restored(saved_numbers(*seats), options).has_value());
    });
}

BOOST_AUTO_TEST_CASE(keep_the_permits_in_use) {
    asio::io_context ctx;
    weir::testing::limiter<weir::adaptive_seats> saved(ctx, each_by_itself);
    grow(5, [&] { return saved.try_enter(saved.stats().capacity); });
    BOOST_TEST(saved.stats().capacity == 15);
    auto const file = file_of(saved);
    weir::testing::limiter<weir::adaptive_seats> next(ctx, each_by_itself);
    auto permit = next.try_enter(10);
    bool is_granted = false;
    next.async_enter(4, 1min, [&](weir::error_code ec, weir::permit) { is_granted = !ec; });
    ctx.poll();
    BOOST_TEST(!is_granted);
    BOOST_TEST(restore(next, file).is_restored);
    ctx.restart();
    ctx.poll();
    BOOST_TEST(is_granted);
    BOOST_TEST(next.stats().remaining == 5);  // the other request has released its permits
    permit.leave();
    BOOST_TEST(next.stats().remaining == next.stats().capacity);
}

BOOST_AUTO_TEST_CASE(continue_for_each_key) {
    asio::io_context ctx;
    keyed_limiter saved(ctx, limiter_config(each_by_itself));
    grow(3, [&] { return saved.try_enter(1U, saved.stats(1U).remaining); });
    saved.try_enter(2U).leave();  // has learned nothing
    auto others = each_by_itself;
    others.seats = 12;
    keyed_limiter next(ctx, limiter_config(others));
    auto const result = restore(next, file_of(saved));
    BOOST_TEST(result.is_restored);
    BOOST_TEST(result.keys == 2U);
    BOOST_TEST(next.stats(1U).remaining == 13);
    BOOST_TEST(next.stats(2U).remaining == 12);
    BOOST_TEST(next.stats(3U).remaining == 12);
}

// Earlier versions wrote no number of adaptive seats. In rules that are joined at compile time they had no text.
BOOST_AUTO_TEST_CASE(can_be_missing_in_files_of_earlier_versions) {
    asio::io_context ctx;
    any_limiter alone(ctx, limiter_config::parse("4 knee"));
    BOOST_TEST(restore(alone, file_with("4 knee", "")).is_restored);
    BOOST_TEST(alone.stats().capacity == 4);

    // 7 of 10 permits are missing, at a rate of one per day.
    weir::token_bucket_options const bucket{.rate = {1, 24h}, .burst = 10};
    auto const missing = [&] {
        weir::policy::token_bucket p(bucket);
        p.begin(time_point(1h));
        static_cast<void>(p.take(7, time_point(1h)));
        std::string text;
        weir::number_writer to(text);
        p.save(to, time_point(1h));
        return text;
    }();
    std::string with_empty_texts;
    std::string without;
    weir::number_writer to(with_empty_texts);
    to.add_bytes("");
    to.add_bytes(missing);
    weir::number_writer(without).add_bytes(missing);

    auto const text = "4 knee & 1/24h bucket burst 10";
    any_limiter chosen(ctx, limiter_config::parse(text));
    BOOST_TEST(restore(chosen, file_with(text, with_empty_texts)).is_restored);
    BOOST_TEST(chosen.stats().remaining == 3);
    any_limiter refuses(ctx, limiter_config::parse(text));
    BOOST_TEST(!restore(refuses, file_with(text, without)).is_restored);

    using joined = weir::basic_limiter<
        weir::policy::all<adaptive, weir::policy::token_bucket, weir::policy::seats>,
        asio::any_io_executor, weir::testing::timer>;
    auto const rule = "4 knee & 1/24h bucket burst 10 & 9 seats";
    std::tuple const options{
        adaptive_options(weir::knee_options{}), bucket, weir::seats_options{.seats = 9}};
    joined old(ctx, options);
    BOOST_TEST(restore(old, file_with(rule, without)).is_restored);
    BOOST_TEST(old.stats().remaining == 3);

    // The next file has all texts, and so has the next limiter.
    std::string number;
    weir::number_writer(number).add_bytes(numbers({6, 1, 20'000'000}));
    joined next(ctx, options);
    BOOST_TEST(restore(next, file_with(rule, number + without)).is_restored);
    BOOST_TEST(next.stats().capacity == 6);
    BOOST_TEST(next.stats().remaining == 3);
    joined last(ctx, options);
    BOOST_TEST(restore(last, file_of(next)).is_restored);
    BOOST_TEST(last.stats().capacity == 6);
    BOOST_TEST(last.stats().remaining == 3);
    for (auto const& wrong : {std::string(), number, without + without, number + without + without,
                              number + without + number}) {
        joined other(ctx, options);
        BOOST_TEST(!restore(other, file_with(rule, wrong)).is_restored);
        BOOST_TEST(other.stats().remaining == 4);
    }
}

BOOST_AUTO_TEST_SUITE_END()
