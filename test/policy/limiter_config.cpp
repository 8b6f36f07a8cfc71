#include <weir/policy/limiter_config.hpp>

#include "support/random.hpp"
#include "support/says.hpp"
#include "support/wall_clock.hpp"

#include <boost/pfr.hpp>
#include <boost/test/unit_test.hpp>

#include <array>
#include <chrono>
#include <cstddef>
#include <optional>
#include <ostream>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

using namespace std::chrono_literals;
using support::random_source;
using support::says;
using weir::amount;
using weir::carry_over;
using weir::duration;
using weir::limiter_config;
using weir::max_amount;
using weir::rate;

namespace weir {

// Compares any options field by field.
static bool operator==(limiter_config const& a, limiter_config const& b) {
    return a.options.index() == b.options.index() &&
           std::visit(
               [&]<class Options>(Options const& o) {
                   auto const& other = std::get<Options>(b.options);
                   if constexpr (std::is_same_v<Options, all_options>)
                       return o.parts == other.parts;
                   else if constexpr (std::is_same_v<Options, adaptive_options>)
                       return o == other;
                   else
                       return boost::pfr::eq_fields(o, other);
               },
               a.options);
}

static std::ostream& operator<<(std::ostream& out, limiter_config const& config) {
    return out << to_string(config);
}

}  // namespace weir

BOOST_AUTO_TEST_SUITE(the_limiter_config)

namespace {

amount some(random_source& random, amount const&) {
    return random.one_in(4) ? random.one_of<amount>({0, 1, 2, max_amount})
                            : random.of_any_size(max_amount);
}
duration some(random_source& random, duration const&) {
    return random.one_in(4) ? random.one_of<duration>({1ns, 1500us, 1s, 1min, 36h, weir::forever})
                            : duration(1 + random.of_any_size(weir::forever.count() - 1));
}
rate some(random_source& random, rate const&) {
    return {some(random, amount()), some(random, duration())};
}
double some(random_source& random, double const&) {
    return random.one_of<double>({1, 3, 1.5, 0.1, 1e6, 1e-300, 1.0 / 3, 2e300, -7}) *
           static_cast<double>(random.between(1, 3));
}
template <class Enum>
    requires std::is_enum_v<Enum>
Enum some(random_source& random, Enum const&) {
    bool const has_three =
        std::is_same_v<Enum, carry_over> || std::is_same_v<Enum, weir::calendar_unit>;
    return static_cast<Enum>(random.between(0, has_three ? 2 : 1));
}
weir::time_zone some(random_source& random, weir::time_zone const&) {
    return random.one_in(2) ? support::europe() : weir::time_zone();
}
weir::wall_clock some(random_source&, weir::wall_clock const& clock) {
    return clock;  // a text has none
}
template <class T>
std::optional<T> some(random_source& random, std::optional<T> const&) {
    return some(random, T());
}

template <std::size_t I = 0>
limiter_config some_config(random_source& random, std::size_t kind) {
    if constexpr (I + 1 < std::variant_size_v<limiter_config::options_type>) {
        if (kind != I)
            return some_config<I + 1>(random, kind);
    }
    std::variant_alternative_t<I, limiter_config::options_type> options;
    if constexpr (I + 1 == std::variant_size_v<limiter_config::options_type>) {
        for (auto parts = random.between(2, 4); parts != 0; --parts)
            options.parts.push_back(
                some_config(random, static_cast<std::size_t>(random.between(0, I - 1))));
    } else {
        auto const change = [&](auto& each) {
            boost::pfr::for_each_field(each, [&](auto& value) {
                if (random.one_in(2))
                    value = some(random, value);
            });
        };
        if constexpr (std::is_same_v<decltype(options), weir::adaptive_options>) {
            switch (random.between(0, 3)) {
                case 0:
                    options = weir::gradient2_options{};
                    break;
                case 1:
                    options = weir::vegas_options{};
                    break;
                case 2:
                    options = weir::aimd_options{};
                    break;
                default:
                    break;
            }
            std::visit(change, options);
        } else {
            change(options);
        }
    }
    return options;
}

auto wrong(std::string const& text, std::string const& what) {
    BOOST_CHECK_EXCEPTION((void)limiter_config::parse(text), std::invalid_argument,
                          says("weir::limiter_config: `" + text + "`, " + what));
}

}  // namespace

BOOST_AUTO_TEST_CASE(is_written_as_one_line) {
    std::vector<std::pair<std::string, limiter_config>> const texts{
        {"1 seats", {}},
        {"3 seats", weir::seats_options{.seats = 3}},
        {"3 seats max_hold 30s", weir::seats_options{.seats = 3, .max_hold = 30s}},
        {"3 seats rest 2s", weir::resting_seats_options{.seats = 3, .rest = 2s}},
        {"4 knee", weir::knee_options{}},
        {"4 knee", weir::adaptive_options{}},
        {"9 knee min 2 max 50 headroom 0.1 probing 0.05",
         weir::knee_options{.seats = 9, .min = 2, .max = 50, .headroom = 0.1, .probing = 0.05}},
        {"20 gradient2", weir::gradient2_options{}},
        {"50 gradient2 min 4 max 300 slow_start 0 tolerance 1.1 queue 2 smoothing 0.5 backoff "
         "0.8 "
         "long_window 60 probe 30 no_load_min 1ms no_load_max 1s window 500ms samples 20 "
         "ignore_below 0s",
         weir::gradient2_options{
             .seats = 50,
             .min = 4,
             .max = 300,
             .slow_start = 0,
             .tolerance = 1.1,
             .queue = 2,
             .smoothing = 0.5,
             .backoff = 0.8,
             .long_window = 60,
             .probe = 30,
             .no_load_min = 1ms,
             .no_load_max = 1s,
             .window = 500ms,
             .samples = 20,
             .ignore_below = 0ns}},
        {"5 vegas max 50 slow_start 9 backoff 0.5 smoothing 0.5 probe 40 no_load_min 1ms "
         "no_load_max 2ms window 1s samples 50",
         weir::vegas_options{
             .seats = 5,
             .max = 50,
             .slow_start = 9,
             .backoff = 0.5,
             .smoothing = 0.5,
             .probe = 40,
             .no_load_min = 1ms,
             .no_load_max = 2ms,
             .window = 1s,
             .samples = 50}},
        {"5 aimd min 1 max 9 slow_start 7 backoff 0.5 timeout 1s window 1s samples 50",
         weir::aimd_options{.seats = 5,
                            .min = 1,
                            .max = 9,
                            .slow_start = 7,
                            .backoff = 0.5,
                            .timeout = 1s,
                            .window = 1s,
                            .samples = 50}},
        {"10/1min", weir::sliding_log_options{.limit = 10, .window = 60s}},
        {"10/1min sliding slices 6",
         weir::sliding_window_options{.limit = 10, .window = 60s, .slices = 6}},
        {"1000/day", weir::calendar_window_options{.limit = 1'000}},
        {"5/week", weir::calendar_window_options{.limit = 5, .unit = weir::calendar_unit::week}},
        {"50000/month zone Test/Europe",
         weir::calendar_window_options{
             .limit = 50'000, .unit = weir::calendar_unit::month, .zone = support::europe()}},
        {"10/1min fixed alignment epoch",
         weir::fixed_window_options{
             .limit = 10, .window = 60s, .alignment = weir::window_alignment::epoch}},
        {"100/1s bucket", weir::token_bucket_options{.rate = {100, 1s}}},
        {"100/1s bucket initial 0", weir::token_bucket_options{.rate = {100, 1s}, .initial = 0}},
        {"100/1s burst 20", weir::token_bucket_options{.rate = {100, 1s}, .burst = 20}},
        {"100/1s burst 20 initial 0 refill interval carry_over reset",
         weir::token_bucket_options{.rate = {100, 1s},
                                    .burst = 20,
                                    .initial = 0,
                                    .refill = weir::refill::interval,
                                    .carry_over = carry_over::reset}},
        {"100/1s leaky capacity 7", weir::leaky_bucket_options{.rate = {100, 1s}, .capacity = 7}},
        {"5/1s bursty", weir::smooth_bursty_options{.rate = {5, 1s}}},
        {"5/1s bursty max_burst 2500ms initial forever carry_over as_is",
         weir::smooth_bursty_options{.rate = {5, 1s},
                                     .max_burst = 2500ms,
                                     .initial = weir::forever,
                                     .carry_over = carry_over::as_is}},
        {"1/3s warming warm_up 0s cold_factor 1.5",
         weir::smooth_warming_up_options{.rate = {1, 3s}, .warm_up = 0s, .cold_factor = 1.5}},
        {"5/1min penalty", weir::penalty_options{}},
        {"3/10s penalty first 30s longest 24h memory 0s",
         weir::penalty_options{
             .offences = 3, .window = 10s, .first = 30s, .longest = 24h, .memory = 0s}},
        {"10/1s & 100/1min & 3 seats",
         weir::all_options({weir::sliding_log_options{.limit = 10, .window = 1s},
                            weir::sliding_log_options{.limit = 100, .window = 60s},
                            weir::seats_options{.seats = 3}})},
    };
    for (auto const& [text, config] : texts) {
        BOOST_TEST(to_string(config) == text);
        BOOST_TEST(limiter_config::parse(text) == config);
    }
}

BOOST_AUTO_TEST_CASE(may_be_written_in_other_ways) {
    auto const same = [](std::string const& a, std::string const& b) {
        BOOST_TEST(limiter_config::parse(a) == limiter_config::parse(b));
    };
    same("10/60s exact", "10/1min");
    same("10/60s bucket burst 3 refill interval", "10/1min burst 3 refill interval");
    same("10/60000ms exact", "10/1min exact");
    same("  10/60s \t exact  ", "10/1min exact");
    same("5/1s bursty initial 1s max_burst 2s", "5/1s bursty max_burst 2s initial 1s");
    same("5/1s bursty max_burst 1s initial 0s", "5/1s bursty");
    same("3 seats max_hold forever", "3 seats");
    same("5/60s penalty memory 60min first 60s", "5/1min penalty");
    same("10/1s&3 seats", "10/1s & 3 seats");
}

BOOST_AUTO_TEST_CASE(names_the_column_and_the_expected_text_of_an_error) {
    auto const range = std::string("a number from 0 to 1000000000000000");
    wrong("", "column 1: expected a whole number, found the end of the text");
    wrong("many seats", "column 1: expected a whole number, found `many`");
    wrong("-1 seats", "column 1: expected " + range + ", found `-1`");
    wrong("1000000000000001 seats", "column 1: expected " + range + ", found `1000000000000001`");
    wrong("99999999999999999999/1s",
          "column 1: expected " + range + ", found `99999999999999999999/1s`");
    wrong("100", "column 4: expected a time, as in 100/1s, or seats, found the end of the text");
    wrong("100 per second", "column 5: expected a time, as in 100/1s, found `per`");
    wrong("7 per minute", "column 3: expected a time, as in 7/1min, found `per`");
    wrong("7 per hour exact", "column 3: expected a time, as in 7/1h, found `per`");
    wrong("7 per day", "column 3: expected a slash, as in 7/day, found `per`");
    wrong("7/days", "column 3: expected a time such as 500ms, or day, week or month, found `days`");
    wrong("7/year", "column 3: expected a time such as 500ms, or day, week or month, found `year`");
    wrong("7/Day", "column 3: expected a time such as 500ms, or day, week or month, found `Day`");
    wrong("7/1day", "column 3: expected a time in h, min, s, ms, us or ns, found `1day`");
    wrong("7/day fixed", "column 7: expected zone or the end of the text, found `fixed`");
    wrong("7/day zone",
          "column 11: expected a time zone such as Europe/Berlin, found the end of the text");
    wrong("7/day zone UTC zone UTC", "column 16: expected the end of the text, found `zone`");
    wrong("7/day zone ../x", "column 12: weir::time_zone: zone `../x`: not a name of a time zone, "
                             "such as `Europe/Berlin`");
    wrong("7 per", "column 3: expected a time, as in 7/1s, found `per`");
    wrong("100/s", "column 5: expected a number before the unit, as in 1s, found `s`");
    wrong("100/min burst 3",
          "column 5: expected a number before the unit, as in 1min, found `min`");
    wrong("3 chairs", "column 3: expected a time, as in 3/1s, seats, knee, gradient2, vegas or "
                      "aimd, found `chairs`");
    wrong("10/60s loosely",
          "column 8: expected exact, sliding, fixed, bucket, burst, leaky, bursty, warming, "
          "penalty or the end of the text, found `loosely`");
    wrong("100/1s burst 20 brust 3",
          "column 17: expected initial, refill, carry_over or the end of the text, found `brust`");
    wrong("100/1s initial 3",
          "column 8: expected exact, sliding, fixed, bucket, burst, leaky, bursty, warming, "
          "penalty or the end of the text, found `initial`");
    wrong("3seats", "column 2: expected a space or a slash, found `seats`");
    wrong("3 exact", "column 3: expected a time, as in 3/1s, seats, knee, gradient2, vegas or "
                     "aimd, found `exact`");
    wrong("10/", "column 4: expected a time such as 500ms, or day, week or month, found the end of "
                 "the text");
    wrong("10/ exact", "column 4: expected a time such as 500ms, or day, week or month, found ` `");
    wrong("10/60 exact", "column 4: expected a time in h, min, s, ms, us or ns, found `60`");
    wrong("10/60sec exact", "column 4: expected a time in h, min, s, ms, us or ns, found `60sec`");
    wrong("10/1 s", "column 4: expected a time in h, min, s, ms, us or ns, found `1`");
    wrong("10/0s exact", "column 4: expected a time above 0, found `0s`");
    wrong("10/-1s exact", "column 4: expected a time above 0, found `-1s`");
    wrong("10/3000000h exact", "column 4: expected a time of at most 2562047h, found `3000000h`");
    wrong("1.5/1s", "column 2: expected a space or a slash, found `.5/1s`");
    wrong("3 seats 4", "column 9: expected max_hold, rest or the end of the text, found `4`");
    wrong("3 seats max_hold 1s rest 1s", "column 21: expected the end of the text, found `rest`");
    wrong("3 seats rest 1s max_hold 1s",
          "column 17: expected the end of the text, found `max_hold`");
    wrong("3 seats rest", "column 13: expected a time such as 500ms, found the end of the text");
    wrong("3 seats max_hold",
          "column 17: expected a time such as 500ms, found the end of the text");
    wrong("3 seats max_hold soon", "column 18: expected a time such as 500ms, found `soon`");
    wrong("3 seats max_hold 1s max_hold 1s",
          "column 21: expected the end of the text, found `max_hold`");
    wrong("10/60s exact hold 3s", "column 14: expected the end of the text, found `hold`");
    wrong(
        "5/1s bursty burst 3",
        "column 13: expected max_burst, initial, carry_over or the end of the text, found `burst`");
    wrong("5/1s bursty carry_over some",
          "column 24: expected as_is, proportional or reset, found `some`");
    wrong("5/1s warming cold_factor hot", "column 26: expected a number, found `hot`");
    wrong("5/1min penalty 1min",
          "column 16: expected first, longest, memory or the end of the text, found `1min`");
    wrong("5/1min penalty first",
          "column 21: expected a time such as 500ms, found the end of the text");
    wrong("5/day penalty", "column 7: expected zone or the end of the text, found `penalty`");
    wrong("3 seats &", "column 10: expected a whole number, found the end of the text");
    wrong("& 3 seats", "column 1: expected a whole number, found `&`");
    wrong(
        "3 & 10/1s",
        "column 3: expected a time, as in 3/1s, seats, knee, gradient2, vegas or aimd, found `&`");
    wrong("10/1s & 3 chairs", "column 11: expected a time, as in 3/1s, seats, knee, gradient2, "
                              "vegas or aimd, found `chairs`");
    wrong("5/1s warming cold_factor 3x", "column 27: expected the end of the number, found `x`");
}

BOOST_AUTO_TEST_CASE(can_be_read_again_in_every_form) {
    support::for_each_seed(1'000'000, 20'000, [](random_source& random) {
        constexpr auto kinds = std::variant_size_v<limiter_config::options_type>;
        auto const kind = static_cast<std::size_t>(random.between(0, kinds - 1));
        auto const config = some_config(random, kind);
        auto const again = limiter_config::parse(to_string(config));
        if (!(again == config)) [[unlikely]]
            BOOST_FAIL("`" << config << "` was read as `" << again << '`');
    });
    BOOST_TEST(true);  // no check above failed
}

// A text with random parts removed or inserted is either read or rejected with an explanation.
BOOST_AUTO_TEST_CASE(survives_any_text) {
    support::for_each_seed(2'000'000, 20'000, [](random_source& random) {
        constexpr auto kinds = std::variant_size_v<limiter_config::options_type>;
        auto text =
            to_string(some_config(random, static_cast<std::size_t>(random.between(0, kinds - 1))));
        for (auto changes = random.between(1, 3); changes != 0 && !text.empty(); --changes) {
            auto const at = random.index_in(text);
            switch (random.between(0, 2)) {
                case 0:
                    text.erase(at, static_cast<std::size_t>(random.between(1, 4)));
                    break;
                case 1:
                    text[at] = static_cast<char>(random.between(0, 255));
                    break;
                default:
                    text.insert(at, text.substr(random.index_in(text), 5));
            }
        }
        try {
            auto const config = limiter_config::parse(text);
            if (!(limiter_config::parse(to_string(config)) == config)) [[unlikely]]
                BOOST_FAIL("`" << text << "` was read as `" << config << '`');
        } catch (std::invalid_argument const& e) {
            if (std::string(e.what()).find(", column ") == std::string::npos) [[unlikely]]
                BOOST_FAIL(e.what());
        }
    });
    BOOST_TEST(true);  // no check above failed
}

BOOST_AUTO_TEST_SUITE_END()
