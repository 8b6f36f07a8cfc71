#include "weir/mysql/statements.hpp"

#include "shared/mysql/server.hpp"
#include "shared/mysql/sql.hpp"
#include "support/shared_bucket_oracle.hpp"

#include <boost/test/tree/decorator.hpp>
#include <boost/test/unit_test.hpp>

#include <fmt/format.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

// The statements of weir::mysql on a real server, in virtual time: the server runs with --sysdate-is-now, so that
// `set timestamp` moves its clock. (The store rejects such a server.)

namespace {

namespace ut = boost::unit_test;
using namespace std::chrono_literals;
namespace text = weir::mysql::detail;
using text::answer_of;
using text::statement_text;
using parameter = statement_text::parameter;
using weir::policy::fed;
using question = fed::question;
using weir::policy::shared_bucket;

constexpr std::int64_t noon = 1'000'000'000'000'000;

struct fixture {
    support::mariadb_server server{{"--sysdate-is-now"}};
    support::sql_session session{server.socket()};
    std::int64_t now = noon;
    int names = 0;

    support::told_store const store{
        [this](question const& q, std::int64_t at) { return take(q, at); },
        [this](fed::give_back const& what, std::int64_t at) {
            set_clock(at);
            auto const& said =
                what.bucket.window != 0 ? text::give_back_to_log() : text::give_back();
            session.insert(said.text(), values(said, what));
        },
        [this] { ++names; }};

    fixture() {
        session.query("set time_zone = '+00:00'");
        session.query(text::create_table());
        session.query(text::create_log_table());
    }

    void set_clock(std::int64_t at) {
        session.query(fmt::format("set timestamp = {}.{:06}", at / 1'000'000, at % 1'000'000));
    }
    fed::answer take(question const& q, std::int64_t at) {
        set_clock(at);
        auto const& said = q.bucket.window != 0 ? text::take_of_log() : text::take();
        return answer_of(session.insert(said.text(), values(said, q)), q, at + 1'000'000);
    }

    template <class Order>
    std::vector<support::sql_session::value> values(statement_text const& said,
                                                    Order const& order) const {
        std::vector<support::sql_session::value> all;
        for (auto const p : said.parameters()) {
            if (p == parameter::key)
                all.emplace_back(std::to_string(names));
            else
                all.emplace_back(value_of(p, order));
        }
        return all;
    }

    // Ten per second, five at once: a permit is 100,000 us.
    static question ask(weir::amount least, weir::amount most,
                        std::chrono::microseconds ahead = 0us) {
        return {shared_bucket::of({.rate = {10, 1s}, .burst = 5}), least, most, ahead};
    }
};

}  // namespace

BOOST_AUTO_TEST_SUITE(mysql_text)

BOOST_AUTO_TEST_CASE(names_become_question_marks) {
    statement_text const said("update x set a := :least + :most, b = :least where k = :key");
    BOOST_TEST(said.text() == "update x set a := ? + ?, b = ? where k = ?");
    BOOST_TEST((said.parameters() ==
                std::vector{parameter::least, parameter::most, parameter::least, parameter::key}));
}

BOOST_AUTO_TEST_CASE(reply_has_the_time_of_the_server_within_half_an_hour) {
    question const q{.bucket = {}, .min = 3, .max = 9};
    auto const id = [](std::int64_t value, std::int64_t time, std::uint64_t kind) {
        auto const low = static_cast<std::uint64_t>(time) % (std::uint64_t{1} << 32);
        return 4 * (static_cast<std::uint64_t>(value) + (low << 29)) + kind;
    };
    for (std::int64_t const off : {-1'800'000'000, -1, 0, 1, 1'800'000'000}) {
        auto const granted = answer_of(id(7, noon, 1), q, noon + off);
        BOOST_TEST(granted.granted == 7);
        BOOST_TEST(granted.wait.count() == 0);
        BOOST_TEST(granted.since == noon);
        auto const booked = answer_of(id(12'345, noon, 2), q, noon + off);
        BOOST_TEST(booked.granted == 3);
        BOOST_TEST(booked.wait.count() == 12'345);
        BOOST_TEST(booked.since == noon + 12'345);
    }
    auto const denied = answer_of(4 * std::uint64_t{1} << 60, q, noon);
    BOOST_TEST(denied.granted == 0);
    BOOST_TEST(denied.wait.count() == std::int64_t{1} << 60);
    BOOST_TEST(!text::time_of(400, noon));
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_FIXTURE_TEST_SUITE(mysql_statements, fixture, *ut::precondition(support::if_mariadb_is_here))

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
        BOOST_TEST(session.number("select max(length(grants)) from weir_log") <= 3 * 8);
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
