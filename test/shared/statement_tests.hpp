// The statements of a store on a database, on a real server, in virtual time. There is no `#pragma once`, because this
// is a part of the file that includes it, and that first defines its `statements`:
//
// - `statements()`: with the tables of the store
// - `take(question, time)`, `store`, `now`, `names`: see `support::told_store`; the name of a bucket is `names`
// - `longest_log()`: the number of grants in the longest log
// - `if_here`: the precondition

#include <weir/shared/limiter.hpp>

#include "support/shared_bucket_oracle.hpp"

#include <boost/test/tree/decorator.hpp>
#include <boost/test/unit_test.hpp>

#include <chrono>
#include <cstdint>

BOOST_FIXTURE_TEST_SUITE(any_statements, statements,
                         *boost::unit_test::precondition(statements::if_here))

namespace {

using namespace std::chrono_literals;
using weir::policy::shared_bucket;
using question = weir::policy::fed::question;

// Ten per second, five at once: a permit is 100,000 us.
question ask(weir::amount least, weir::amount most, std::chrono::microseconds ahead = 0us) {
    return {shared_bucket::of({.rate = {10, 1s}, .burst = 5}), least, most, ahead};
}

}  // namespace

BOOST_AUTO_TEST_CASE(replies_follow_the_definition) {
    support::for_each_seed(1, 8, [&](auto& random) {
        support::compare_with_definition(store, 500, random, now);
    });
}

BOOST_AUTO_TEST_CASE(used_permits_keep_the_rate) {
    support::for_each_seed(1, 4, [&](auto& random) {
        support::check_lawfulness(store, 500, random, now);
    });
}

BOOST_AUTO_TEST_CASE(replies_of_a_log_follow_the_definition) {
    support::for_each_seed(1, 8, [&](auto& random) {
        support::compare_with_log(store, 500, random, now);
    });
}

BOOST_AUTO_TEST_CASE(no_window_contains_more_than_the_limit_of_a_log) {
    support::for_each_seed(1, 4, [&](auto& random) {
        support::check_lawfulness_of_log(store, 500, random, now);
    });
}

BOOST_AUTO_TEST_CASE(log_is_pruned) {
    auto const log = shared_bucket::log_of({.rate = {3, 1s}});
    for (int i = 0; i != 20; ++i) {
        take({log, 1, 3, 10s}, now + i * 1000);
        BOOST_TEST(longest_log() <= 3);
    }
}

BOOST_AUTO_TEST_CASE(log_takes_back_all_unused_permits) {
    support::check_refunds_of_log(store, now);
}

BOOST_AUTO_TEST_CASE(grants_of_a_log_are_in_order) {
    support::check_order_of_log(store, now);
}

BOOST_AUTO_TEST_CASE(log_whose_clock_is_set_back_grants_nothing_early_and_freezes_nothing) {
    support::check_log_set_back(store, now);
}

BOOST_AUTO_TEST_CASE(longest_log_is_supported) {
    support::check_longest_log(store, now);
}

BOOST_AUTO_TEST_CASE(clock_set_back_grants_nothing_early_and_freezes_nothing) {
    take(ask(5, 5), now);
    now -= 3'600'000'000;
    BOOST_TEST(take(ask(1, 1), now).wait.count() == 100'000);
    BOOST_TEST(take(ask(1, 1), now + 99'999).granted == 0);
    BOOST_TEST(take(ask(1, 1), now + 100'000).granted == 1);
}

BOOST_AUTO_TEST_CASE(another_rate_continues_from_the_same_level) {
    take(ask(4, 4), now);
    question const three{shared_bucket::of({.rate = {3, 1s}, .burst = 5}), 1, 9};
    BOOST_TEST(take(three, now).granted == 1);
    BOOST_TEST(take(three, now).wait.count() == 333'334);
    // The first rate again; a rejection converts, too.
    BOOST_TEST(take(ask(1, 1), now).wait.count() == 100'000);
    BOOST_TEST(take(three, now).wait.count() == 333'334);
}

BOOST_AUTO_TEST_CASE(long_pauses_and_large_numbers_overflow_nothing) {
    for (auto const& options : {weir::shared_options{.rate = {1, 24h * 365}, .burst = 7},
                                weir::shared_options{.rate = {999'999'937, 24h}, .burst = 26},
                                weir::shared_options{.rate = {38'000'000'000, 1us}, .burst = 9}}) {
        ++names;
        auto const bucket = shared_bucket::of(options);
        question const all{bucket, bucket.burst, bucket.burst};
        BOOST_TEST(take(all, now).granted == bucket.burst);
        question const debt{bucket, bucket.burst, bucket.burst, 24h * 365};
        for (int i = 0; i != 9; ++i)
            take(debt, now);
        BOOST_TEST(take(all, now + 1'100'000'000'000'000).granted == bucket.burst);
    }
}

BOOST_AUTO_TEST_SUITE_END()
