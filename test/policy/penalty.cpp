#include <weir/keyed.hpp>
#include <weir/penalty.hpp>
#include <weir/policy/penalty.hpp>
#include <weir/saved_numbers.hpp>

#include "support/penalty_history.hpp"
#include "support/printing.hpp"
#include "support/random.hpp"
#include "support/says.hpp"
#include "support/virtual_limiters.hpp"
#include "support/visit.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <string>
#include <vector>

using namespace std::chrono_literals;
using support::random_source;
using support::says;
using weir::amount;
using weir::duration;
using weir::outcome;
using weir::penalty_options;
using weir::ticket;
using weir::time_point;
using weir::policy::penalty;

BOOST_AUTO_TEST_SUITE(penalty_rule)

namespace {

constexpr time_point noon{12h};

void offend(penalty& p, amount n, time_point now) {
    p.leave(n, p.report(p.take(n, now), outcome::dropped), now);
}

}  // namespace

BOOST_AUTO_TEST_CASE(does_what_its_words_say) {
    std::size_t penalties = 0;
    support::for_each_seed(1, 2'000, [&penalties](random_source& random) {
        penalty_options options{.offences = random.between(1, 5),
                                .window = std::chrono::seconds(random.between(1, 10)),
                                .first = std::chrono::seconds(random.between(1, 5)),
                                .memory = std::chrono::seconds(random.between(0, 20))};
        options.longest = options.first * random.between(1, 20);
        penalty rule(options);
        penalty unused(options);
        rule.begin(noon);
        unused.begin(noon);
        support::penalty_history words(options);
        auto now = noon;
        for (int i = 0; i != 100; ++i) {
            now += random.one_of<duration>({0s, 500ms, 1s, 1s, 3s, 10s, 40s});
            auto const end = std::max(words.end(), now);
            BOOST_TEST_REQUIRE(
                rule.ready_at(random.between(1, 9), random.between(0, 9), now) == end);
            BOOST_TEST_REQUIRE((rule.remaining(now) == 0) == (end > now));
            if (rule.is_alike(unused, now) && random.one_in(2))
                rule = unused;  // to forget it makes no difference
            auto const n = random.one_in(5) ? random.between(2, 3) : 1;
            if (random.one_in(4)) {
                rule.leave(n, rule.report(rule.take(n, now), outcome::success), now);
            } else {
                offend(rule, n, now);
                words.offend(n, now);
            }
        }
        penalties += words.penalties();
    });
    BOOST_TEST(penalties > 0U);
}

BOOST_AUTO_TEST_CASE(doubles_and_forgets) {
    penalty rule({.offences = 1, .window = 1s, .first = 10s, .longest = 35s, .memory = 60s});
    rule.begin(noon);
    auto now = noon;
    for (duration const length : {10s, 20s, 35s, 35s}) {
        offend(rule, 1, now);
        BOOST_TEST(rule.ready_at(1, 0, now) == now + length);
        now += length;
    }
    BOOST_TEST(rule.ready_at(1, 0, now) == now);
    offend(rule, 1, now + 60s);
    BOOST_TEST(rule.ready_at(1, 0, now + 60s) == now + 70s);
}

BOOST_AUTO_TEST_CASE(counts_each_offender_of_a_merged_permit) {
    penalty rule({.offences = 3});
    rule.begin(noon);
    auto const good = rule.take(1, noon);
    auto const bad = rule.report(rule.take(2, noon), outcome::dropped);
    rule.leave(3, rule.merge(good, bad, 2), noon);
    BOOST_TEST(rule.remaining(noon) == 0);
    BOOST_TEST(rule.report(bad, outcome::success) == good);
}

BOOST_AUTO_TEST_CASE(never_overflows) {
    penalty rule({.offences = 1,
                  .window = weir::forever,
                  .first = 1ns,
                  .longest = weir::forever,
                  .memory = weir::forever});
    rule.begin(noon);
    auto now = noon;
    for (int i = 0; i != 62; ++i) {
        offend(rule, 1, now);
        BOOST_TEST_REQUIRE(rule.ready_at(1, 0, now) == weir::later(now, duration(1) * (1LL << i)));
        now = rule.ready_at(1, 0, now);
    }
    for (int i = 0; i != 100; ++i) {
        offend(rule, weir::max_amount, now);
        now = rule.ready_at(1, 0, now);
    }
    BOOST_TEST(now == weir::never);
}

BOOST_AUTO_TEST_CASE(keeps_the_end_of_a_penalty_when_options_change) {
    penalty rule({.offences = 1, .first = 10s});
    rule.begin(noon);
    offend(rule, 1, noon);
    penalty next({.offences = 1, .first = 1s});
    next.take_over(rule, noon);
    BOOST_TEST(next.ready_at(1, 0, noon) == noon + 10s);
}

BOOST_AUTO_TEST_CASE(is_restored_beside_the_permits_in_use) {
    penalty_options const options{.offences = 2, .first = 10s};
    penalty before(options);
    before.begin(noon);
    offend(before, 1, noon);
    std::string numbers;
    weir::number_writer to(numbers);
    before.save(to, noon + 1s);

    penalty saved(options);
    saved.begin(noon);
    weir::number_reader from(numbers);
    BOOST_TEST(saved.load(from, noon));
    penalty rule(options);
    penalty const unused(options);
    rule.begin(noon);
    auto const held = rule.take(1, noon);
    rule.resume(saved, noon, true);
    auto const late = noon + 24h;
    BOOST_TEST(!rule.is_alike(unused, late));
    rule.leave(1, held, late);
    BOOST_TEST(rule.is_alike(unused, late));
    offend(rule, 1, noon + 58s);
    BOOST_TEST(rule.ready_at(1, 0, noon + 58s) == noon + 68s);
}

BOOST_AUTO_TEST_CASE(refuses_numbers_that_no_penalty_has) {
    auto const is_refused = [](std::vector<int> const& all) {
        std::string numbers;
        weir::number_writer to(numbers);
        for (auto const n : all)
            to.add(static_cast<weir::number_writer::wide>(n));
        penalty rule({.offences = 2});
        rule.begin(noon);
        weir::number_reader from(numbers);
        return !rule.load(from, noon) || !from.is_done();
    };
    BOOST_TEST(!is_refused({0, 0}));
    BOOST_TEST(!is_refused({1, 5, 63, 7, 0}));
    BOOST_TEST(!is_refused({0, 63, 0, 7}));
    BOOST_TEST(is_refused({0}));
    BOOST_TEST(is_refused({0, 0, 0}));
    BOOST_TEST(is_refused({0, 63, 7, 7}));  // it lasts, and is over
    BOOST_TEST(is_refused({0, 64, 0, 7}));
}

BOOST_AUTO_TEST_CASE(rejects_options_that_are_out_of_range) {
    BOOST_CHECK_EXCEPTION(
        penalty({.offences = 0}), std::invalid_argument,
        says("weir::penalty: offences is 0, but must be from 1 to 1000000000000000"));
    BOOST_CHECK_EXCEPTION(penalty({.first = 2s, .longest = 1s}), std::invalid_argument,
                          says("weir::penalty: longest is 1s, but must be at least 2s"));
}

BOOST_AUTO_TEST_CASE(bars_one_key_and_lets_it_wait) {
    using namespace support;
    asio::io_context ctx;
    weir::basic_keyed<std::string, weir::policy::penalty, asio::any_io_executor,
                      weir::testing::timer>
        penalties{ctx, {.offences = 2, .first = 10s}};
    for (int i = 0; i != 2; ++i) {
        auto login = penalties.try_enter("mallory");
        BOOST_TEST(bool(login));
        login.report(outcome::dropped);
    }
    weir::error_code ec;
    auto const barred = penalties.try_enter("mallory", 1, ec);
    BOOST_TEST(!barred);
    BOOST_TEST(*barred.retry_after() == 10s);
    BOOST_TEST(bool(penalties.try_enter("alice")));
    run_for(ctx, 10s);
    BOOST_TEST(bool(penalties.try_enter("mallory")));
    // The offences of a permit count although its key was forgotten meanwhile.
    run_for(ctx, 24h);
    auto late = penalties.try_enter("mallory");
    run_for(ctx, 24h);
    for (int i = 0; i != 100; ++i)
        (void)penalties.try_enter("other " + std::to_string(i));
    late.report(outcome::dropped);
    late.leave();
    auto second = penalties.try_enter("mallory");
    second.report(outcome::dropped);
    second.leave();
    BOOST_TEST(!penalties.try_enter("mallory"));
}

BOOST_AUTO_TEST_SUITE_END()
