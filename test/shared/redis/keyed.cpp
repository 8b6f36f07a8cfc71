#include <weir/redis/store.hpp>
#include <weir/shared/keyed.hpp>

#include "shared/redis/place.hpp"
#include "shared/redis/server.hpp"
#include "support/printing.hpp"
#include "support/random_source.hpp"

#include <boost/asio/error.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/test/tree/decorator.hpp>
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <variant>
#include <vector>

// A limit for each key, which several processes share through a real server.

namespace {

namespace asio = boost::asio;
namespace ut = boost::unit_test;
using namespace std::chrono_literals;
using namespace std::string_literals;
using weir::errc;
using keyed = weir::shared_keyed<std::string>;
using real_clock = std::chrono::steady_clock;

struct fixture {
    support::redis_server server;
    asio::io_context ctx;
    std::shared_ptr<weir::redis::store> store = connect(ctx);
    support::redis_session session{server};

    std::shared_ptr<weir::redis::store> connect(asio::io_context& to) const {
        return std::make_shared<weir::redis::store>(to, weir::redis::options{.url = server.url()});
    }
    void run() {
        ctx.restart();
        ctx.run();
    }
    weir::error_code enter(keyed& at, std::string const& key, weir::patience patience = 5s) {
        weir::error_code result = asio::error::would_block;
        at.async_enter(key, patience,
                       [&](weir::error_code ec, weir::permit const&) { result = ec; });
        run();
        return result;
    }
    // Makes requests until `wanted(stats)`, for up to 20 s.
    bool enter_until(keyed& at, std::function<bool(weir::shared_stats const&)> const& wanted) {
        auto const end = real_clock::now() + 20s;
        while (!wanted(at.shared_stats()) && real_clock::now() < end) {
            static_cast<void>(enter(at, "a", 20ms));
            asio::steady_timer pause(ctx, 1ms);
            pause.async_wait([](weir::error_code) {});
            run();
        }
        return wanted(at.shared_stats());
    }
};

// The times of the uses of each key, in nanoseconds.
using uses_by_key = std::array<std::vector<std::int64_t>, 3>;

// A process that makes random requests for 3 keys: a context, a connection and a limiter of its own.
uses_by_key work(std::string const& url, std::uint64_t number) {
    uses_by_key uses;
    asio::io_context ctx;
    auto const at = std::make_shared<weir::redis::store>(ctx, weir::redis::options{.url = url});
    keyed limiter(ctx, at, "storm", {.rate = {50, 1s}, .burst = 5, .timeout = 100ms});
    support::random_source random(number);
    auto const end = real_clock::now() + 3s;
    asio::steady_timer next(ctx);
    std::function<void()> step = [&] {
        if (real_clock::now() >= end)
            return;
        auto const key = static_cast<std::size_t>(random.between(0, 2));
        limiter.async_enter(
            std::to_string(key), std::chrono::milliseconds(random.between(0, 200)),
            [&uses, key](weir::error_code ec, weir::permit const&) {
                if (!ec)
                    uses.at(key).push_back(real_clock::now().time_since_epoch().count());
            });
        next.expires_after(std::chrono::microseconds(random.between(100, 4'000)));
        next.async_wait([&](weir::error_code) { step(); });
    };
    step();
    ctx.run();
    return uses;
}

}  // namespace

BOOST_FIXTURE_TEST_SUITE(redis_keyed, fixture, *ut::precondition(support::if_redis_is_here))

// In any interval each key has at most its burst, and its rate with the time limit of a reply added. The uses are
// noted a moment after the grant, for which 20 ms are added.
BOOST_AUTO_TEST_CASE(limiters_together_do_not_exceed_the_rate_of_any_key) {
    std::vector<std::future<uses_by_key>> workers;
    for (std::uint64_t i = 1; i <= 3; ++i)
        workers.push_back(std::async(std::launch::async, work, server.url(), i));
    uses_by_key uses;
    for (auto& one : workers) {
        auto const its = one.get();
        for (std::size_t key = 0; key != its.size(); ++key)
            uses.at(key).insert(uses.at(key).end(), its.at(key).begin(), its.at(key).end());
    }
    for (auto& all : uses) {
        std::ranges::sort(all);
        BOOST_TEST(all.size() >= 75u);  // half of the possible ones, on a busy machine
        for (std::size_t i = 0; i != all.size(); ++i) {
            for (std::size_t j = i; j != all.size(); ++j) {
                auto const d = static_cast<double>(all[j] - all[i]) / 1e9 + 0.1 + 0.02;
                BOOST_TEST_REQUIRE(static_cast<double>(j - i + 1) <= 5 + 50 * d);
            }
        }
    }
}

BOOST_AUTO_TEST_CASE(names_and_expiry_at_the_server) {
    keyed limiter(ctx, store, "api", {.rate = {10, 1s}, .burst = 2});
    BOOST_TEST(!enter(limiter, "ann"));
    BOOST_TEST(!enter(limiter, "a key\n"));
    BOOST_TEST(session.say({"EXISTS", "{weir:api:ann}"}) == "1");
    BOOST_TEST(session.say({"DBSIZE"}) == "2");
    BOOST_TEST(std::stoll(session.say({"PTTL", "{weir:api:ann}"})) > 0);
}

BOOST_AUTO_TEST_CASE(questions_of_many_keys_are_sent_together) {
    keyed limiter(ctx, store, "api", {.rate = {10, 1s}, .timeout = 10s});
    BOOST_TEST(!enter(limiter, "first"));  // the connection is open
    auto const before = std::stoll(session.say({"DBSIZE"}));
    int granted = 0;
    for (int i = 0; i != 10'000; ++i)
        limiter.async_enter(std::to_string(i), 10s, [&](weir::error_code ec, weir::permit const&) {
            granted += !ec;
        });
    run();
    BOOST_TEST(granted == 10'000);
    BOOST_TEST(limiter.shared_stats().questions == 10'001u);
    BOOST_TEST(std::stoll(session.say({"DBSIZE"})) - before <= 10'000);
}

BOOST_AUTO_TEST_CASE(flood_of_one_key_asks_about_once_per_grant) {
    keyed limiter(ctx, store, "api", {.rate = {10, 1s}, .burst = 10, .timeout = 10s});
    BOOST_TEST(!enter(limiter, "first"));
    int granted = 0;
    int over = 0;
    std::function<void()> more = [&] {
        for (int i = 0; i != 1'000; ++i) {
            limiter.async_enter("mallory"s, 30ms, [&](weir::error_code ec, weir::permit const&) {
                granted += !ec;
                ++over;
            });
        }
        if (over < 200'000)
            asio::post(ctx, more);
    };
    more();
    run();
    auto const questions = limiter.shared_stats().questions;
    BOOST_TEST_MESSAGE(
        over << " requests, " << granted << " granted, " << questions << " questions");
    BOOST_TEST(granted >= 10);
    BOOST_TEST(questions <= 3u * static_cast<unsigned>(granted) + 10);
}

BOOST_AUTO_TEST_CASE(lost_scripts_are_sent_again) {
    keyed limiter(ctx, store, "api", {.rate = {10, 1s}});
    BOOST_TEST(!enter(limiter, "ann"));
    session.say({"SCRIPT", "FLUSH"});
    BOOST_TEST(!enter(limiter, "bob"));
}

// A key that the server lost is a full bucket, for this key only.
BOOST_AUTO_TEST_CASE(lost_key_is_full_again) {
    keyed limiter(ctx, store, "api", {.rate = {1, 1h}, .burst = 1});
    for (auto const& user : {"ann"s, "bob"s}) {
        BOOST_TEST(!enter(limiter, user));
        BOOST_TEST(enter(limiter, user) == errc::deadline_unreachable);
    }
    session.say({"DEL", "{weir:api:ann}"});
    keyed other(ctx, store, "api", {.rate = {1, 1h}, .burst = 1});
    BOOST_TEST(!enter(other, "ann"));
    BOOST_TEST(enter(other, "bob") == errc::deadline_unreachable);
}

BOOST_AUTO_TEST_CASE(outage_of_the_server_in_each_mode) {
    for (int stop = 0; stop != 2; ++stop) {
        for (auto const& mode : std::vector<decltype(weir::shared_options::on_failure)>{
                 weir::fail_closed(), weir::fail_open(), weir::fail_local{0.5}}) {
            keyed limiter(ctx, store, "api",
                          {.rate = {1'000, 1s}, .timeout = 100ms, .on_failure = mode});
            BOOST_TEST(!enter(limiter, "a"));
            server.send(stop ? SIGSTOP : SIGKILL);
            if (!stop)
                server.wait_for_end();
            BOOST_TEST(enter_until(limiter, [](auto const& s) { return s.unavailable; }));
            bool const is_closed = std::holds_alternative<weir::fail_closed>(mode);
            auto const decided = enter(limiter, "b", 20ms);
            if (is_closed)
                BOOST_TEST((decided == errc::unavailable || decided == errc::timed_out));
            else
                BOOST_TEST(!decided);
            stop ? server.send(SIGCONT) : server.start();
            BOOST_TEST(enter_until(limiter, [](auto const& s) { return !s.unavailable; }));
            BOOST_TEST(!enter(limiter, "c"));
        }
    }
}

BOOST_AUTO_TEST_CASE(memory_of_many_keys) {
    keyed limiter(ctx, store, "api", {.rate = {1, 1h}, .burst = 1, .timeout = 10s},
                  {.max_keys = 200'000});
    auto const memory_of_server = [&] {
        auto const text = session.say({"INFO", "memory"});
        return std::stoll(text.substr(text.find("used_memory:") + 12));
    };
    BOOST_TEST(!enter(limiter, "first"));
    auto const before = memory_of_server();
    int over = 0;
    for (int round = 0; round != 2; ++round) {
        for (int i = 0; i != 100'000; ++i) {
            limiter.async_enter("user-" + std::to_string(1'000'000 + i), 10s,
                                [&](weir::error_code, weir::permit const&) { ++over; });
            if (i % 1'000 == 0)
                run();
        }
        run();
        // After the first round nothing is kept here; after the second, the rejections.
        auto const s = limiter.stats();
        BOOST_TEST_MESSAGE("round "
                           << round << ": " << s.keys << " keys, " << s.bytes
                           << " bytes in this process; " << (memory_of_server() - before) / 100'000
                           << " bytes per key at the server");
        BOOST_TEST(s.bytes <= 30'000'000u);
        if (round == 0)
            BOOST_TEST(s.keys <= 20'000u);
    }
    BOOST_TEST(over == 200'000);
    BOOST_TEST((memory_of_server() - before) / 100'000 <= 250);
}

BOOST_AUTO_TEST_SUITE_END()
