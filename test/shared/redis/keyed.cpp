#include <weir/redis/store.hpp>
#include <weir/shared/keyed.hpp>

#include "shared/redis/place.hpp"
#include "shared/redis/server.hpp"
#include "support/printing.hpp"
#include "support/random_source.hpp"

#include <boost/asio/error.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/test/tree/decorator.hpp>
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <array>
#include <chrono>
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
        // So long that a loaded machine does not look like a silent server.
        weir::redis::options const patient{
            .url = server.url(), .connect_timeout = 10s, .silent_for = 60s};
        return std::make_shared<weir::redis::store>(to, patient);
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
};

// The times of the uses of each key, in nanoseconds.
using uses_by_key = std::array<std::vector<std::int64_t>, 3>;

// A process that makes random requests for 3 keys: its own context, connection and limiter.
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
        BOOST_TEST(all.size() >= 75u);  // of 155
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

BOOST_AUTO_TEST_CASE(thousands_of_keys_are_asked_at_once) {
    keyed limiter(ctx, store, "api", {.rate = {1, 1h}, .burst = 1, .timeout = 60s});
    int granted = 0;
    for (int i = 0; i != 10'000; ++i)
        limiter.async_enter(std::to_string(i), 60s, [&](weir::error_code ec, weir::permit const&) {
            granted += !ec;
        });
    run();
    BOOST_TEST(granted == 10'000);
    BOOST_TEST(session.say({"DBSIZE"}) == "10000");
}

// The store is asked about once a grant.
BOOST_AUTO_TEST_CASE(flood_of_one_key_rarely_asks_the_server) {
    keyed limiter(ctx, store, "api", {.rate = {10, 1s}, .burst = 1});
    int granted = 0;
    int rejected = 0;
    auto const end = real_clock::now() + 1s;
    while (real_clock::now() < end) {
        for (int i = 0; i != 100; ++i)
            limiter.async_enter("ann", 20ms, [&](weir::error_code ec, weir::permit const&) {
                ++(ec ? rejected : granted);
            });
        run();
    }
    BOOST_TEST(granted >= 5);
    BOOST_TEST(granted <= 12);
    BOOST_TEST(rejected > 1000);
    BOOST_TEST(limiter.shared_stats().questions <= 40u);
}

BOOST_AUTO_TEST_CASE(an_outage_is_one_of_all_keys) {
    using mode_type = decltype(weir::shared_options::on_failure);
    for (auto const& mode : {mode_type(weir::fail_closed()), mode_type(weir::fail_open()),
                             mode_type(weir::fail_local{.share = 0.5})}) {
        keyed limiter(ctx, store, "api", {.rate = {100, 1s}, .burst = 10, .on_failure = mode});
        BOOST_TEST(!enter(limiter, "ann"));
        server.send(SIGKILL);
        server.wait_for_end();
        bool const is_closed = std::holds_alternative<weir::fail_closed>(mode);
        auto const end = real_clock::now() + 10s;
        while (!limiter.shared_stats().unavailable && real_clock::now() < end)
            enter(limiter, "ann", 50ms);
        BOOST_TEST(limiter.shared_stats().unavailable);
        // Another key, about which the server was never asked, has the outage, too.
        auto const ec = enter(limiter, "bob", 50ms);
        BOOST_TEST(ec == (is_closed ? weir::error_code(errc::unavailable) : weir::error_code()));
        BOOST_TEST(limiter.shared_stats().outages == 1u);
        server.start();
        while (limiter.shared_stats().unavailable && real_clock::now() < end)
            enter(limiter, "carl", 50ms);
        BOOST_TEST(!limiter.shared_stats().unavailable);
        BOOST_TEST(!enter(limiter, "bob"));
    }
}

BOOST_AUTO_TEST_SUITE_END()
