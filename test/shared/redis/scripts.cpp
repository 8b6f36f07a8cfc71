#include "weir/redis/scripts.hpp"

#include <weir/shared/seat_ledger.hpp>

#include "shared/redis/server.hpp"
#include "support/random.hpp"
#include "support/seats_definition.hpp"
#include "support/shared_bucket_oracle.hpp"

#include <boost/test/tree/decorator.hpp>
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <string>
#include <vector>

// The scripts of weir::redis on a real server, in virtual time. Another head takes the time as an argument; keys expire
// in that time.

namespace {

namespace ut = boost::unit_test;
using namespace std::chrono_literals;
using weir::policy::fed;
using weir::policy::shared_bucket;
using weir::redis::detail::script;
namespace detail = weir::redis::detail;
using numbers = std::vector<std::int64_t>;
using words = std::vector<std::string>;

constexpr auto virtual_head = R"(
local now = tonumber(table.remove(ARGV))
for _, key in ipairs(KEYS) do
    local dies = redis.call('GET', key .. ':dies')
    if dies and tonumber(dies) <= now then redis.call('DEL', key, key .. ':dies') end
end
local function put(key, value, us)
    redis.call('SET', key, value)
    redis.call('SET', key .. ':dies', string.format('%.0f', now + math.floor(us / 1000) * 1000 + 2000))
end
)";

// Messages go to lists, which the test reads.
std::string with_lists(std::string text) {
    constexpr std::string_view publish = "redis.pcall('PUBLISH'";
    for (auto at = text.find(publish); at != text.npos; at = text.find(publish))
        text.replace(at, publish.size(), "redis.call('RPUSH'");
    return text;
}

constexpr std::int64_t noon = 1'700'000'000'000'000;

struct fixture {
    support::redis_server server;
    support::redis_session session{server};
    std::array<std::string, detail::script_count> loaded;
    std::int64_t now = noon;
    int names = 0;

    support::told_store const store{
        [this](fed::question const& q, std::int64_t at) {
            auto const which = q.bucket.window != 0 ? script::log_take : script::take;
            detail::reply said{.numbers = run(which, detail::arguments_of(q), at)};
            auto const a = detail::answer_of(said, q);
            BOOST_TEST_REQUIRE(!said.error);
            return a;
        },
        [this](fed::give_back const& what, std::int64_t at) {
            run(what.bucket.window != 0 ? script::log_give_back : script::give_back,
                detail::arguments_of(what), at);
        },
        [this] { ++names; }};

    fixture() {
        for (std::size_t i = 0; i != loaded.size(); ++i)
            loaded[i] =
                session.say({"SCRIPT", "LOAD",
                             virtual_head + with_lists(detail::body_of(static_cast<script>(i)))});
    }

    numbers run(script which, words const& arguments, std::int64_t at) {
        words all{"EVALSHA", loaded[static_cast<std::size_t>(which)], "1",
                  detail::key_of(which, std::to_string(names))};
        all.insert(all.end(), arguments.begin(), arguments.end());
        all.push_back(std::to_string(at));
        return session.numbers(all);
    }

    weir::policy::fed_seats::answer hold(weir::policy::fed_seats::question const& q,
                                         std::int64_t at) {
        detail::reply said{.numbers = run(script::seats_hold, detail::arguments_of(q), at)};
        BOOST_TEST_REQUIRE(said.numbers.size() == 6u);
        BOOST_TEST_REQUIRE(said.numbers[5] == at);
        auto const a = detail::answer_of(said, q);
        BOOST_TEST_REQUIRE(!said.error);
        return a;
    }

    // Takes out the messages that the script has sent to these channels.
    std::vector<support::seats_notice> messages(std::initializer_list<std::uint64_t> channels) {
        std::vector<support::seats_notice> found;
        for (auto const c : channels) {
            for (;;) {
                auto const text = session.say({"LPOP", detail::channel_name(c)});
                if (text == "(nil)")
                    break;
                auto one = detail::notice_of(text);
                BOOST_TEST_REQUIRE(one.has_value());
                one->channel = c;
                found.push_back(*one);
            }
        }
        return found;
    }

    // Ten per second, five at once: a permit is 100,000 us.
    fed::answer take(weir::amount least, weir::amount most, std::int64_t at,
                     weir::shared_options const& o = {.rate = {10, 1s}, .burst = 5}) {
        return store.take({shared_bucket::of(o), least, most}, at);
    }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(redis_bucket, fixture, *ut::precondition(support::if_redis_is_here))

BOOST_AUTO_TEST_CASE(replies_follow_the_definition) {
    support::for_each_seed(1, 8, [&](auto& random) {
        support::compare_with_definition(store, 1000, random, now);
    });
}

BOOST_AUTO_TEST_CASE(used_permits_keep_the_rate) {
    support::for_each_seed(1, 4, [&](auto& random) {
        support::check_lawfulness(store, 1000, random, now);
    });
}

BOOST_AUTO_TEST_CASE(clock_set_back_grants_nothing_early_and_freezes_nothing) {
    take(5, 5, now);
    now -= 3'600'000'000;
    BOOST_TEST(take(1, 1, now).wait.count() == 100'000);
    BOOST_TEST(take(1, 1, now + 99'999).granted == 0);
    BOOST_TEST(take(1, 1, now + 100'000).granted == 1);
}

BOOST_AUTO_TEST_CASE(another_rate_continues_from_the_same_level) {
    weir::shared_options const three{.rate = {3, 1s}, .burst = 5};
    take(4, 4, now);
    BOOST_TEST(take(1, 9, now, three).granted == 1);
    BOOST_TEST(take(1, 9, now, three).wait.count() == 333'334);
    // The first rate again; a rejection converts, too.
    BOOST_TEST(take(1, 1, now).wait.count() == 100'000);
    BOOST_TEST(take(1, 9, now, three).wait.count() == 333'334);
}

// Permits of 86,400,000,000 drops into permits of 1,000,003 drops, and back: the product has 70 bits.
BOOST_AUTO_TEST_CASE(rate_with_large_numbers_is_converted_exactly) {
    weir::shared_options const fine{.rate = {999'999'937, 24h}, .burst = 1000};
    weir::shared_options const other{.rate = {1000, 1'000'003us}, .burst = 1000};
    take(1000, 1000, now, fine);
    session.say({"GET", "{weir:0}"});
    BOOST_TEST(take(1, 1, now, other).granted == 0);
    // The level is 1000 permits less the debt, rounded up: ceil((1000 * P - (P - 1)) * Q / P) of Q drops each.
    auto const of_fine = shared_bucket::of(fine);
    auto const of_other = shared_bucket::of(other);
    using support::bucket_history;
    auto const level = bucket_history::number(of_fine.full()) - of_fine.owed();
    auto const converted =
        (level * of_other.permit + of_fine.permit - 1) / bucket_history::number(of_fine.permit);
    BOOST_TEST(session.numbers({"GET", "{weir:0}"})[1] == static_cast<std::int64_t>(converted));
}

BOOST_AUTO_TEST_CASE(long_pauses_and_large_numbers_overflow_nothing) {
    for (auto const& options : {weir::shared_options{.rate = {1, 24h * 365}, .burst = 7},
                                weir::shared_options{.rate = {999'999'937, 24h}, .burst = 26},
                                weir::shared_options{.rate = {38'000'000'000, 1us}, .burst = 9}}) {
        ++names;
        auto const bucket = shared_bucket::of(options);
        BOOST_CHECK_NO_THROW(detail::validate(bucket));
        fed::question const all{bucket, bucket.burst, bucket.burst};
        BOOST_TEST(store.take(all, now).granted == bucket.burst);
        fed::question const debt{bucket, bucket.burst, bucket.burst, 24h * 365};
        for (int i = 0; i != 9; ++i)
            store.take(debt, now);
        BOOST_TEST(store.take(all, now + 1'100'000'000'000'000).granted == bucket.burst);
    }
}

BOOST_AUTO_TEST_CASE(bucket_that_cannot_be_counted_exactly_is_rejected) {
    auto const bucket = [](weir::rate const& rate, weir::amount burst) {
        return shared_bucket::of({.rate = rate, .burst = burst});
    };
    // 86,400,000,000 us in lowest terms: 2^51 contains 26,062 of them.
    BOOST_CHECK_NO_THROW(detail::validate(bucket({999'999'937, 24h}, 26'062)));
    BOOST_CHECK_THROW(detail::validate(bucket({999'999'937, 24h}, 26'063)), std::invalid_argument);
    BOOST_CHECK_THROW(detail::validate(bucket({1, 24h * 1000 + 1ns}, 1)), std::invalid_argument);
}

// Seen in another library: onsigntv/redis-rate-limiter#4.
BOOST_AUTO_TEST_CASE(key_exists_until_the_bucket_is_empty) {
    auto const take_now = [this](weir::shared_options const& o, weir::amount n) {
        auto arguments = detail::arguments_of(fed::question{shared_bucket::of(o), n, n});
        arguments.insert(arguments.begin(), {"EVAL", detail::text_of(script::take), "1",
                                             detail::key_of(script::take, "real")});
        return session.numbers(arguments);
    };
    auto const said = take_now({.rate = {1, 24h}, .burst = 5}, 2);
    BOOST_TEST(said[0] == 2);
    auto const lives = std::stoll(session.say({"PTTL", "{weir:real}"}));
    constexpr std::int64_t two_days = 2 * 86'400'000;
    BOOST_TEST(lives <= two_days + 2);
    BOOST_TEST(lives > two_days - 60'000);
    auto const clock = session.numbers({"TIME"});
    auto const server_time = clock[0] * 1'000'000 + clock[1];
    BOOST_TEST(said[2] <= server_time);
    BOOST_TEST(said[2] > server_time - 60'000'000);
}

BOOST_AUTO_TEST_CASE(value_of_another_type_is_an_error) {
    session.say({"SET", "{weir:0}", "something"});
    BOOST_CHECK_EXCEPTION(take(1, 1, now), support::redis_error, [](auto const& e) {
        return std::string_view(e.what()).starts_with("WRONGTYPE");
    });
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_FIXTURE_TEST_SUITE(redis_log, fixture, *ut::precondition(support::if_redis_is_here))

BOOST_AUTO_TEST_CASE(replies_follow_the_definition) {
    support::for_each_seed(1, 8, [&](auto& random) {
        support::compare_with_log(store, 1000, random, now);
    });
}

BOOST_AUTO_TEST_CASE(no_window_contains_more_than_the_limit) {
    support::for_each_seed(1, 4, [&](auto& random) {
        support::check_lawfulness_of_log(store, 1000, random, now);
    });
}

BOOST_AUTO_TEST_CASE(grants_are_in_order) {
    support::check_order_of_log(store, now);
}

BOOST_AUTO_TEST_CASE(unused_permits_are_given_back) {
    support::check_refunds_of_log(store, now);
}

BOOST_AUTO_TEST_CASE(clock_set_back_grants_nothing_early_and_freezes_nothing) {
    support::check_log_set_back(store, now);
}

BOOST_AUTO_TEST_CASE(longest_log_is_supported) {
    support::check_longest_log(store, now);
}

BOOST_AUTO_TEST_CASE(all_available_permits_are_granted) {
    auto const log = shared_bucket::log_of({.rate = {5, 1s}});
    BOOST_TEST(store.take({log, 1, 2}, now).granted == 2);
    BOOST_TEST(store.take({log, 1, 5}, now + 1).granted == 3);
}

BOOST_AUTO_TEST_CASE(log_is_pruned) {
    auto const log = shared_bucket::log_of({.rate = {3, 1s}});
    for (int i = 0; i != 20; ++i) {
        store.take({log, 1, 3, 10s}, now + i * 1000);
        auto const size = std::stoll(session.say({"STRLEN", "{weir:0}:log"}));
        BOOST_TEST(size <= 3 * 8 + 40);
    }
}

BOOST_AUTO_TEST_CASE(key_exists_until_the_last_grant_has_expired) {
    auto const log = shared_bucket::log_of({.rate = {1, 60s}});
    for (auto const most : {60'002, 120'002}) {
        auto words = detail::arguments_of(fed::question{log, 1, 1, 60s});
        words.insert(words.begin(), {"EVAL", detail::text_of(script::log_take), "1", "real"});
        session.numbers(words);
        auto const lives = std::stoll(session.say({"PTTL", "real"}));
        BOOST_TEST(lives <= most);
        BOOST_TEST(lives > most - 30'000);
    }
}

BOOST_AUTO_TEST_CASE(value_of_another_type_is_an_error) {
    auto const log = shared_bucket::log_of({.rate = {1, 60s}});
    session.say({"SET", "{weir:0}:log", "1 2 three"});
    BOOST_CHECK_EXCEPTION(store.take({log, 1, 1}, now), support::redis_error, [](auto const& e) {
        return std::string_view(e.what()).starts_with("WRONGTYPE");
    });
}

BOOST_AUTO_TEST_SUITE_END()

// ---- Seats

BOOST_FIXTURE_TEST_SUITE(redis_seats, fixture, *ut::precondition(support::if_redis_is_here))

namespace {

using seats_question = weir::policy::fed_seats::question;

seats_question one_of(std::uint64_t who, std::uint64_t number) {
    return {.seats = 1, .lease = 3s, .holder = {who, 0}, .number = number, .min = 1, .max = 1};
}

}  // namespace

BOOST_AUTO_TEST_CASE(replies_follow_the_definition) {
    support::for_each_seed(1, 40, [&](auto& random) {
        ++names;
        support::compare_with_seats(
            [this](auto const& q, std::int64_t at, auto& told) {
                auto const said = hold(q, at);
                told = messages({100, 101, 102, 103, 104});
                return said;
            },
            150, random, now);
        now += 100'000'000;
    });
}

BOOST_AUTO_TEST_CASE(text_is_the_text_of_a_ledger) {
    weir::detail::seat_ledger same;
    for (std::uint64_t who = 1; who != 9; ++who) {
        seats_question const q{
            .seats = 9, .lease = 3s, .holder = {who, ~who}, .number = who, .min = 1, .max = 2};
        hold(q, ++now);
        same.hold(q, now);
        auto const text = session.say({"GET", detail::key_of(script::seats_hold, "0")});
        BOOST_TEST(text == same.text());
    }
}

BOOST_AUTO_TEST_CASE(message_is_read_whole_or_not_at_all) {
    auto const m = detail::notice_of(
        "000000000000000a ffffffffffffffff 3 2 1700000000000000 1700000000000001 5");
    BOOST_TEST_REQUIRE(m.has_value());
    BOOST_TEST((*m == support::seats_notice{.holder = {10, ~std::uint64_t{0}},
                                            .number = 3,
                                            .held = 2,
                                            .fence = 1'700'000'000'000'000,
                                            .time = 1'700'000'000'000'001,
                                            .waits = 5}));
    for (auto const* const nonsense :
         {"", "a b 3 2 1 1", "a b 3 2 1 1 5 6", "a b 3 -2 1 1 5", "a b 3 2 -1 1 5",
          "a b 3 2 1 -1 5", "a b 3 2 1 1 -5", "a b 3 2 1 1 x", "g b 3 2 1 1 5",
          "a b 3 9000000000000000000 1 1 5", "a b 99999999999999999999 2 1 1 5"})
        BOOST_TEST(!detail::notice_of(nonsense), nonsense);
}

BOOST_AUTO_TEST_CASE(fence_grows_after_a_loss_of_data) {
    auto const before = hold(one_of(1, 1), now).fence;
    session.say({"FLUSHALL", "SYNC"});
    BOOST_TEST(hold(one_of(2, 1), now + 1).fence > before);
}

BOOST_AUTO_TEST_CASE(key_exists_for_a_day_and_a_lease) {
    auto arguments = detail::arguments_of(one_of(1, 1));
    auto const key = detail::key_of(script::seats_hold, "real");
    arguments.insert(arguments.begin(), {"EVAL", detail::text_of(script::seats_hold), "1", key});
    auto const said = session.numbers(arguments);
    BOOST_TEST(said[0] == 1);
    BOOST_TEST(said[1] == said[5]);  // it begins now
    auto const lives = std::stoll(session.say({"PTTL", key}));
    BOOST_TEST(lives <= 86'403'002);
    BOOST_TEST(lives > 86'400'000 - 60'000);
}

BOOST_AUTO_TEST_CASE(value_of_another_type_is_an_error) {
    session.say({"SET", detail::key_of(script::seats_hold, "0"), "something"});
    BOOST_CHECK_EXCEPTION(hold(one_of(1, 1), now), support::redis_error, [](auto const& e) {
        return std::string_view(e.what()).starts_with("WRONGTYPE");
    });
}

BOOST_AUTO_TEST_SUITE_END()
