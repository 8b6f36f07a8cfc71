#include <weir/shared/memory_store.hpp>

#include "shared/place.hpp"
#include "support/shared_bucket_oracle.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/test/tree/test_unit.hpp>
#include <boost/test/unit_test.hpp>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

namespace {

using namespace std::chrono_literals;
using weir::detail::bucket_ledger;
using question = weir::store::question;
using weir::policy::shared_bucket;

struct fixture {
    bucket_ledger ledger;
    std::int64_t now = 1'000'000'000;
    int names = 0;

    support::told_store const store{
        [this](question const& q, std::int64_t at) { return ledger.take(name(), q, at); },
        [this](weir::store::give_back const& what, std::int64_t at) {
            ledger.give_back(name(), what, at);
        },
        [this] { ++names; }};

    std::string name() const { return std::to_string(names); }

    // Ten per second, five at once: a permit is 100,000 us.
    question ask(weir::amount least, weir::amount most, std::chrono::microseconds ahead = 0us) {
        return {shared_bucket::of({.rate = {10, 1s}, .burst = 5}), least, most, ahead};
    }
};

BOOST_FIXTURE_TEST_SUITE(shared_memory_store, fixture)

BOOST_AUTO_TEST_CASE(replies_follow_the_definition) {
    support::for_each_seed(1, 20, [&](auto& random) {
        support::compare_with_definition(store, 500, random, now);
    });
}

BOOST_AUTO_TEST_CASE(used_permits_keep_the_rate) {
    support::for_each_seed(1, 20, [&](auto& random) {
        support::check_lawfulness(store, 500, random, now);
    });
}

BOOST_AUTO_TEST_CASE(clock_set_back_grants_nothing_early_and_freezes_nothing) {
    ledger.take("k", ask(5, 5), now);
    now -= 3'600'000'000;
    auto const denied = ledger.take("k", ask(1, 1), now);
    BOOST_TEST(denied.granted == 0);
    BOOST_TEST(denied.wait.count() == 100'000);
    BOOST_TEST(ledger.take("k", ask(1, 1), now + 99'999).granted == 0);
    BOOST_TEST(ledger.take("k", ask(1, 1), now + 100'000).granted == 1);
}

BOOST_AUTO_TEST_CASE(clock_set_forward_grants_one_burst_more) {
    ledger.take("k", ask(5, 5), now);
    now += 3'600'000'000;
    BOOST_TEST(ledger.take("k", ask(1, 9), now).granted == 5);
    BOOST_TEST(ledger.take("k", ask(1, 9), now).granted == 0);
}

BOOST_AUTO_TEST_CASE(returned_permits_count_less_the_refill) {
    ledger.take("k", ask(5, 5), now);
    ledger.give_back("k", {ask(1, 1).bucket, 5, now}, now);
    BOOST_TEST(ledger.take("k", ask(1, 9), now).granted == 5);

    // Two and a half permits have drained since, and are there already.
    ledger.give_back("k", {ask(1, 1).bucket, 5, now}, now + 250'000);
    BOOST_TEST(ledger.take("k", ask(1, 9), now + 250'000).granted == 5);

    // Has no effect if other grants are booked after it, or if the clock was set back meanwhile.
    auto const later = now + 250'000;
    BOOST_TEST(ledger.take("k", ask(2, 2, 1s), later).wait.count() == 200'000);
    ledger.give_back("k", {ask(1, 1).bucket, 5, later}, later);
    BOOST_TEST(ledger.take("k", ask(1, 1), later).wait.count() == 300'000);
    ledger.give_back("other", {ask(1, 1).bucket, 5, later}, later);
}

BOOST_AUTO_TEST_CASE(another_rate_continues_from_the_same_level) {
    ledger.take("k", ask(4, 4), now);
    question const q{shared_bucket::of({.rate = {3, 1s}, .burst = 5}), 1, 9};
    BOOST_TEST(q.bucket.permit != ask(1, 1).bucket.permit);
    BOOST_TEST(ledger.take("k", q, now).granted == 1);
    BOOST_TEST(ledger.take("k", q, now).wait.count() == 333'334);
}

BOOST_AUTO_TEST_CASE(replies_of_a_log_follow_the_definition) {
    support::for_each_seed(1, 20, [&](auto& random) {
        support::compare_with_log(store, 500, random, now);
    });
}

BOOST_AUTO_TEST_CASE(no_window_contains_more_than_the_limit_of_a_log) {
    support::for_each_seed(1, 20, [&](auto& random) {
        support::check_lawfulness_of_log(store, 500, random, now);
    });
}

BOOST_AUTO_TEST_CASE(log_takes_back_all_unused_permits) {
    support::check_refunds_of_log(store, now);
}

BOOST_AUTO_TEST_CASE(grants_of_a_log_are_in_order) {
    support::check_order_of_log(store, now);
}

BOOST_AUTO_TEST_CASE(log_whose_clock_is_set_back_grants_nothing_early_and_freezes_nothing) {
    support::check_log_set_back(store, 4 * now);
}

BOOST_AUTO_TEST_CASE(longest_log_is_supported) {
    support::check_longest_log(store, now);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace

namespace support {

struct memory_place : any_place {
    std::shared_ptr<weir::memory_store> store = std::make_shared<weir::memory_store>(ctx);

    // The store is in this process; another context has its own.
    std::shared_ptr<weir::store> connect(boost::asio::io_context& where) {
        return &where == &ctx ? store : std::make_shared<weir::memory_store>(where);
    }
    static bool has(std::string const&) { return true; }
    static boost::test_tools::assertion_result if_here(boost::unit_test::test_unit_id) {
        return true;
    }
};

}  // namespace support

namespace {
using place = support::memory_place;
}

#include "shared/store_tests.hpp"
