// The latency and the throughput that `knee` reaches before many services, in virtual time, with the policy alone. The
// tables of the page about adaptive seats must agree with the first tests here.

#include <weir/policy/knee.hpp>

#include "support/nightly.hpp"
#include "support/service_simulation.hpp"

#include <boost/test/unit_test.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <regex>
#include <string>
#include <utility>
#include <vector>

using namespace std::chrono_literals;
using support::random_source;
using support::service_report;
using support::service_simulation;
using support::variation;
using weir::amount;
using weir::duration;

BOOST_AUTO_TEST_SUITE(knee_simulation)

namespace {

variation const constant = variation::none();
variation const quarter = variation::lognormal(0.25);
variation const half = variation::lognormal(0.5);
variation const wide = variation::lognormal(1);
variation const two_kinds = variation::mixture(0.1, 0.5, 5.5);

duration seconds(double s) {
    return duration(static_cast<duration::rep>(s * 1e9));
}

// The worst values of some phases. A time is in seconds or in requests of the service, whichever is later.
struct result {
    double first =
        0;  // mean latency of 5 s or 500 requests, from 15 s or 1,500 requests to 60 s or 6,000
    double later = 0;       // mean latency from then on, for as long
    double throughput = 1;  // then

    void add(result const& r) {
        first = std::max(first, r.first);
        later = std::max(later, r.later);
        throughput = std::min(throughput, r.throughput);
    }
};

result phase(service_simulation& s) {
    auto const rate = static_cast<double>(s.behind().workers) /
                      std::chrono::duration<double>(s.behind().own).count();
    auto const time = [&](double least, double requests) {
        return std::max(least, requests / rate);
    };
    result r;
    s.run(seconds(time(15, 1'500)));
    for (auto t = time(15, 1'500); t < time(60, 6'000) - 1e-6; t += time(5, 500))
        r.first = std::max(r.first, s.run(seconds(time(5, 500))).times_own());
    auto const rest = s.run(seconds(time(60, 6'000)));
    r.later = rest.times_own();
    r.throughput = rest.throughput();
    return r;
}

// Calls `see(service, result)` after each phase: steady, halved, quartered, four times as slow, and back each time.
template <class See>
void phases(weir::adaptive_options const& options, amount workers, duration own,
            variation const& times, std::uint64_t seed, See see) {
    service_simulation s(options, {.workers = workers, .own = own}, times, seed);
    for (auto const& [part, slower] :
         {std::pair{1, 1}, {2, 1}, {1, 1}, {4, 1}, {1, 1}, {1, 4}, {1, 1}}) {
        s.behind().workers = std::max<amount>(1, workers / part);
        s.behind().own = own * slower;
        see(s.behind(), phase(s));
    }
}

result worst_of(weir::adaptive_options const& options, amount workers, variation const& times) {
    result worst;
    auto const seeds = workers >= 400 ? 1U : workers >= 100 ? 3U : 5U;
    for (auto seed = 1U; seed <= seeds; ++seed) {
        for (duration const own : {20ms, 100ms}) {
            phases(options, workers, own, times, seed,
                   [&](support::service const&, result const& r) { worst.add(r); });
        }
    }
    return worst;
}

// The rows of a table of the page, from the line that begins with `head` on: numbers by the first cell of the row.
std::vector<double> stated(std::string const& head, std::string const& row) {
    std::ifstream file(WEIR_PAGE);
    std::string line;
    while (std::getline(file, line) && !line.starts_with(head))
        continue;
    while (std::getline(file, line) && line.starts_with("|")) {
        if (!line.starts_with("| " + row + " |"))
            continue;
        static std::regex const number("[0-9]+(\\.[0-9]+)?");
        auto const from = line.begin() + static_cast<std::ptrdiff_t>(row.size()) + 3;
        std::vector<double> values;
        for (std::sregex_iterator it(from, line.end(), number), end; it != end; ++it)
            values.push_back(std::stod(it->str()));
        return values;
    }
    BOOST_ERROR(WEIR_PAGE " has no row `" << row << "` below `" << head << '`');
    return {};
}

// Compares a row of the page with the measured values: with a tenth of a latency, and with two per cent of a throughput.
void compare(std::string const& head, std::string const& row, std::vector<result> const& measured) {
    std::string text = "| " + row + " |";
    for (auto const& r : measured)
        text += fmt::format(" {:.1f}, {:.1f}, {:.0f} % |", r.first, r.later, 100 * r.throughput);
    BOOST_TEST_MESSAGE(text);
    BOOST_TEST_CONTEXT("measured: " << text) {
        auto const values = stated(head, row);
        BOOST_TEST(values.size() == 3 * measured.size());
        if (values.size() != 3 * measured.size())
            return;
        for (std::size_t i = 0; i != measured.size(); ++i) {
            auto const& r = measured[i];
            auto const slack = [](double x) { return std::max(0.11, 0.1 * x); };
            BOOST_TEST(std::abs(values[3 * i] - r.first) <= slack(r.first));
            BOOST_TEST(std::abs(values[3 * i + 1] - r.later) <= slack(r.later));
            BOOST_TEST(std::abs(values[3 * i + 2] - 100 * r.throughput) <= 2.5);
        }
    }
}

}  // namespace

BOOST_AUTO_TEST_CASE(agrees_with_the_table_of_the_page) {
    for (amount const workers : {1, 2, 4, 16, 100, 400, 1'000}) {
        if (workers > 100 && !support::is_nightly())
            break;
        std::vector<result> measured;
        for (auto const* const times : {&constant, &quarter, &half, &wide, &two_kinds})
            measured.push_back(worst_of(weir::knee_options{}, workers, *times));
        compare("| workers |", std::to_string(workers), measured);
    }
}

BOOST_AUTO_TEST_CASE(agrees_with_the_comparison_of_the_page) {
    struct contender {
        char const* name;
        weir::adaptive_options options;
    };
    for (auto const& [name, options] :
         {contender{"`knee`", weir::knee_options{}}, contender{"`vegas`", weir::vegas_options{}},
          contender{"`gradient2`, `min` 1", weir::gradient2_options{.min = 1, .max = 1'000}}}) {
        std::vector<result> measured;
        for (amount const workers : {4, 16, 100})
            measured.push_back(worst_of(options, workers, quarter));
        compare("| algorithm |", name, measured);
    }
}

// Two workers and more; if times vary by sigma 1, more than 200 requests per second.
BOOST_AUTO_TEST_CASE(reaches_its_aims_with_any_seed) {
    support::for_each_seed(100, support::is_nightly() ? 5 : 2, [](random_source& random) {
        for (amount const workers : {2, 4, 16, 100}) {
            for (duration const own : {20ms, 100ms}) {
                for (int i = 0; i != 4; ++i) {
                    auto const* const times =
                        std::array{&constant, &quarter, &half, &wide}[static_cast<std::size_t>(i)];
                    phases(weir::knee_options{}, workers, own, *times, random.bits(),
                           [&](support::service const& s, result const& r) {
                               bool const is_wide = times == &wide;
                               bool const is_fast = s.workers * 1s > 200 * s.own;
                               if (s.workers < 2 || (is_wide && !is_fast))
                                   return;
                               BOOST_TEST_CONTEXT(s.workers
                                                  << " of " << workers << " workers of "
                                                  << s.own.count() << " ns, variation " << i) {
                                   BOOST_TEST(r.first <= 2.0);
                                   BOOST_TEST(r.later <= (s.workers < 16 || is_wide ? 1.6 : 1.4));
                                   BOOST_TEST(r.throughput >= 0.95);
                               }
                           });
                }
            }
        }
    });
}

// A short window often has none of the long requests, and must not be taken for a faster service.
BOOST_AUTO_TEST_CASE(keeps_its_throughput_if_requests_are_of_two_kinds) {
    for (auto seed = 1U; seed != 21; ++seed) {
        phases(weir::knee_options{}, 16, 100ms, two_kinds, seed,
               [&](support::service const&, result const& r) {
                   BOOST_TEST_CONTEXT("seed " << seed) {
                       BOOST_TEST(r.throughput >= 0.75);
                   }
               });
    }
}

// At each of 24 places, of which a probe covers most; and two changes a second apart.
BOOST_AUTO_TEST_CASE(follows_a_change_during_a_probe) {
    struct change {
        amount workers;
        duration own;
    };
    for (int place = 0; place != 24; ++place) {
        for (auto const& [workers, own] : {change{8, 20ms}, change{4, 20ms}, change{32, 20ms},
                                           change{16, 80ms}, change{16, 5ms}}) {
            for (bool const twice : {false, true}) {
                service_simulation s(weir::adaptive_options(), {.workers = 16}, quarter, 7);
                s.run(30s);
                for (auto before = s.seats().seats(); s.seats().seats() > before / 2;) {
                    before = s.seats().seats();
                    s.run(1ms);
                }
                s.run(place * 20ms);
                s.behind().workers = workers;
                s.behind().own = own;
                if (twice) {
                    s.run(1s);
                    s.behind() = {.workers = 16};
                }
                BOOST_TEST_CONTEXT("place " << place << ", " << workers << " workers of "
                                            << own.count() << " ns") {
                    auto const r = phase(s);
                    BOOST_TEST(r.first <= 2.0);
                    BOOST_TEST(r.later <= 1.6);
                    BOOST_TEST(r.throughput >= 0.95);
                }
            }
        }
    }
}

BOOST_AUTO_TEST_CASE(follows_a_change_at_the_start) {
    for (int place = 0; place != 20; ++place) {
        service_simulation s(weir::adaptive_options(), {.workers = 16}, quarter, 3);
        s.run(place * 100ms);
        s.behind().workers = 4;
        auto const r = phase(s);
        BOOST_TEST(r.first <= 2.0);
        BOOST_TEST(r.later <= 1.6);
        BOOST_TEST(r.throughput >= 0.95);
    }
}

// While the call lasts and afterwards, the others have 97 % of the throughput without it.
BOOST_AUTO_TEST_CASE(loses_at_most_3_percent_by_a_long_call) {
    for (amount const workers : {4, 16, 100}) {
        for (duration const held : {duration(1s), duration(10s), duration(1min), duration(10min),
                                    duration(1h), duration(24h)}) {
            if (workers == 100 && held == duration(24h))
                continue;
            service_simulation s(weir::adaptive_options(), {.workers = workers}, quarter, 1);
            s.run(2min);
            auto const before = s.run(2min);
            s.add_stream(held, false);
            auto const during = s.run(std::max<duration>(held + 1s, 1min));
            auto const after = s.run(2min);
            BOOST_TEST_CONTEXT(workers
                               << " workers, held for " << held.count() / 1'000'000'000 << " s") {
                BOOST_TEST(s.streams_in_progress() == 0U);
                BOOST_TEST(during.throughput() >= 0.97 * before.throughput());
                BOOST_TEST(after.throughput() >= 0.97 * before.throughput());
                BOOST_TEST(during.times_own() <= 2.0);
                BOOST_TEST(after.times_own() <= 1.6);
            }
        }
    }
}

// At night no request comes, or almost none, and perhaps a stream is open for the whole night or a part of it.
BOOST_AUTO_TEST_CASE(continues_with_its_number_after_a_pause_of_the_load) {
    for (auto const* const times : {&constant, &quarter, &half, &wide}) {
        for (duration const own : {20ms, 100ms}) {
            for (auto const& [rate, stream] :
                 {std::pair{1e-9, 0s}, {0.01, 0s}, {1., 0s}, {1e-9, 7'300s}, {1e-9, 3'000s}}) {
                service_simulation s(weir::adaptive_options(), {.workers = 100, .own = own}, *times,
                                     11);
                s.run(2min);
                s.offer(1);
                if (stream != 0s)
                    s.add_stream(stream, false);
                s.run(2s);
                s.offer(rate);
                s.run(2h);
                s.offer(0);
                auto const first = s.run(5s);
                auto const later = s.run(30s);
                BOOST_TEST_CONTEXT(own.count() << " ns, rate " << rate << ", stream of "
                                               << stream.count() << " s") {
                    BOOST_TEST(first.throughput() >= 0.9);
                    BOOST_TEST(first.times_own() <= 1.6);
                    BOOST_TEST(later.throughput() >= 0.95);
                    BOOST_TEST(later.times_own() <= 1.6);
                }
            }
        }
    }
}

BOOST_AUTO_TEST_CASE(leaves_all_workers_to_others_beside_streams) {
    for (int streams = 1; streams <= 15; streams += 2) {
        for (bool const hold_workers : {false, true}) {
            service_simulation s(weir::adaptive_options(), {.workers = 16}, quarter, 5);
            s.run(1min);
            for (int i = 0; i != streams; ++i)
                s.add_stream(1h, hold_workers);
            s.run(1min);
            auto const seen = s.run(5min);
            BOOST_TEST_CONTEXT(streams << " streams" << (hold_workers ? " in workers" : "")) {
                BOOST_TEST(seen.times_own() <= 1.6);
                BOOST_TEST(seen.throughput() >= 0.95);
            }
        }
    }
}

BOOST_AUTO_TEST_CASE(agrees_with_the_numbers_of_limiters_of_the_page) {
    for (auto const& [name, times] :
         {std::pair{"by a quarter", &quarter}, std::pair{"by sigma 1", &wide}}) {
        std::string text = fmt::format("| {} |", name);
        std::vector<double> measured;
        for (std::size_t const limiters : {1U, 2U, 3U, 5U, 10U}) {
            double worst = 0;
            for (std::uint64_t seed = 1; seed != 4; ++seed) {
                service_simulation s(std::vector<weir::adaptive_options>(limiters), {.workers = 60},
                                     *times, seed);
                s.run(5min);
                worst = std::max(worst, s.run(5min).times_own());
            }
            measured.push_back(worst);
            text += fmt::format(" {:.1f} |", worst);
        }
        BOOST_TEST_MESSAGE(text);
        BOOST_TEST_CONTEXT("measured: " << text) {
            auto const values = stated("| times vary |", name);
            BOOST_TEST(values.size() == measured.size());
            if (values.size() != measured.size())
                continue;
            for (std::size_t i = 0; i != values.size(); ++i)
                BOOST_TEST(std::abs(values[i] - measured[i]) <= std::max(0.11, 0.2 * measured[i]));
        }
    }
}

BOOST_AUTO_TEST_SUITE_END()
