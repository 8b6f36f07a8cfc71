#include <weir/redis/engine.hpp>
#include <weir/shared/limiter.hpp>

#include "shared/crowd.hpp"
#include "shared/redis/server.hpp"
#include "shared/relay.hpp"
#include "shared/workers.hpp"
#include "support/printing.hpp"
#include "support/rethrow.hpp"
#include "support/visit.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/test/tree/decorator.hpp>
#include <boost/test/unit_test.hpp>

#include <dlfcn.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <memory>
#include <string>
#include <vector>

namespace {

namespace asio = boost::asio;
namespace ut = boost::unit_test;
using namespace std::chrono_literals;
using support::rethrow;
using support::visit;
using support::worker;
using weir::errc;

// One server for all of them. Each test has names of its own.
support::redis_server& server() {
    static support::redis_server one;
    return one;
}

struct fixture {
    asio::io_context ctx;
    support::redis_session session{server()};
    std::shared_ptr<weir::redis::engine> engine = make(server().url());
    // So much that a loaded machine is not taken for a server that does not answer.
    weir::shared_options patient{.rate = {10, 1s}, .burst = 5, .deadline = 10s};

    std::shared_ptr<weir::redis::engine> make(std::string url) {
        weir::redis::options const where{
            .url = std::move(url), .connect_within = 10s, .silent_for = 10s};
        return std::make_shared<weir::redis::engine>(ctx, where);
    }
    void run() {
        ctx.restart();
        ctx.run();
    }
    // Until it is over.
    void run(visit const& v) {
        ctx.restart();
        while (v.waiting() && ctx.run_one() != 0) {}
        BOOST_TEST_REQUIRE(v.over());
    }
    // What `check` throws; empty if nothing.
    std::string complaint(std::shared_ptr<weir::redis::engine> const& of) {
        std::string what;
        asio::co_spawn(ctx, of->check(), [&](std::exception_ptr failure) {
            try {
                rethrow(failure);
            } catch (std::exception const& e) {
                what = e.what();
            }
        });
        run();
        return what;
    }
    std::int64_t level(std::string const& name) {
        return session.numbers({"GET", "{weir:" + name + "}"}).at(1);
    }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(redis_engine, fixture, *ut::precondition(support::if_redis_is_here))

BOOST_AUTO_TEST_CASE(permits_are_granted_by_the_server_and_its_key_makes_itself) {
    weir::redis::token_bucket calls(ctx, engine, "first", patient);
    visit const guest(calls, 2);
    run(guest);
    BOOST_TEST(guest.granted());
    auto const stored = session.numbers({"GET", "{weir:first}"});
    BOOST_TEST_REQUIRE(stored.size() == 3u);
    BOOST_TEST(stored[0] == static_cast<std::int64_t>(guest.seat().id()));  // the time of the grant
    BOOST_TEST(stored[1] == 200'000);
    BOOST_TEST(stored[2] == 100'000);
    auto const clock = session.numbers({"TIME"});
    BOOST_TEST(stored[0] <= clock[0] * 1'000'000 + clock[1]);
}

BOOST_AUTO_TEST_CASE(two_limiters_share_a_bucket_and_are_told_when_to_come_back) {
    weir::shared_options const slow{.rate = {1, 24h}, .burst = 5, .deadline = 10s};
    weir::redis::token_bucket here(ctx, engine, "both", slow);
    weir::redis::token_bucket there(ctx, make(server().url()), "both", slow);
    visit const three(here, 3);
    run(three);
    visit const two(there, 2);
    run(two);
    visit const one(there, 1, 60s);
    run(one);
    BOOST_TEST(three.granted());
    BOOST_TEST(two.granted());
    BOOST_TEST(one.refused(errc::deadline_unreachable));
    auto const retry = one.seat().retry_after();
    BOOST_TEST_REQUIRE(retry.has_value());
    BOOST_TEST(*retry > 23h);
    BOOST_TEST(*retry <= 24h);

    // What was not used is there for everybody, but for what has drained since.
    three.seat().refund();
    run();
    visit const again(there, 2);
    run(again);
    BOOST_TEST(again.granted());
    BOOST_TEST(there.shared_stats().denied == 1u);
}

BOOST_AUTO_TEST_CASE(log_is_kept_for_all_that_share_it) {
    weir::shared_options const few{.rate = {5, 24h}, .deadline = 10s};
    weir::redis::sliding_log here(ctx, engine, "both", few);
    weir::redis::sliding_log there(ctx, make(server().url()), "both", few);
    visit const three(here, 3);
    run(three);
    visit const two(there, 2);
    run(two);
    visit const one(there, 1, 60s);
    run(one);
    BOOST_TEST(three.granted());
    BOOST_TEST(two.granted());
    BOOST_TEST(one.refused(errc::deadline_unreachable));
    three.seat().refund();
    run();
    visit const again(there, 3);
    run(again);
    BOOST_TEST(again.granted());
    BOOST_TEST(session.say({"EXISTS", "{weir:both}:log"}) == "1");
}

BOOST_AUTO_TEST_CASE(requests_are_served_in_order) {
    weir::redis::token_bucket calls(ctx, engine, "order", patient);
    std::vector<int> served;
    for (int i = 0; i != 9; ++i)
        calls.async_enter(1 + i % 2, [&served, i](weir::error_code ec, weir::permit) {
            if (!ec)
                served.push_back(i);
        });
    run();
    BOOST_TEST((served == std::vector{0, 1, 2, 3, 4, 5, 6, 7, 8}));
}

BOOST_AUTO_TEST_CASE(crowd_shares_a_question) {
    weir::shared_options const wide{.rate = {1000, 1s}, .burst = 200, .deadline = 10s};
    weir::redis::token_bucket calls(ctx, engine, "crowd", wide);
    std::vector<visit> guests;
    for (int i = 0; i != 200; ++i)
        guests.emplace_back(calls, 1);
    run();
    for (auto const& g : guests)
        BOOST_TEST(g.granted());
    BOOST_TEST(calls.shared_stats().questions == 2u);  // the first was alone when it came
}

BOOST_AUTO_TEST_CASE(many_limiters_share_one_connection) {
    auto const clients = [this] {
        auto const all = session.say({"CLIENT", "LIST", "TYPE", "normal"});
        return std::ranges::count(all, '\n');
    };
    auto const before = clients();
    std::vector<std::unique_ptr<weir::redis::token_bucket>> limiters;
    std::vector<visit> guests;
    for (int i = 0; i != 50; ++i) {
        limiters.push_back(std::make_unique<weir::redis::token_bucket>(
            ctx, engine, "many" + std::to_string(i), patient));
        guests.emplace_back(*limiters.back(), 1);
    }
    run();
    for (auto const& g : guests)
        BOOST_TEST(g.granted());
    BOOST_TEST(clients() == before + 1);
}

BOOST_AUTO_TEST_CASE(request_is_cancelled_while_the_server_is_asked) {
    weir::redis::token_bucket calls(ctx, engine, "cancelled", patient);
    asio::cancellation_signal signal;
    visit const guest;
    calls.async_enter(asio::bind_cancellation_slot(signal.slot(), guest.callback()));
    signal.emit(asio::cancellation_type::terminal);
    run();
    BOOST_TEST(guest.refused(asio::error::operation_aborted));
    BOOST_TEST(calls.shared_stats().granted == 1);
    BOOST_TEST(calls.shared_stats().returned == 1);
    BOOST_TEST(level("cancelled") < 100'000);
}

BOOST_AUTO_TEST_CASE(names_are_bytes) {
    std::string const odd("a\0'\xff} {\r\n", 9);
    weir::redis::token_bucket calls(ctx, engine, odd, patient);
    visit const guest(calls, 1);
    run(guest);
    BOOST_TEST(guest.granted());
    BOOST_TEST(session.say({"EXISTS", "{weir:" + odd + "}"}) == "1");
}

BOOST_AUTO_TEST_CASE(idle_limiter_lets_run_return_and_finds_its_connection_closed) {
    weir::redis::token_bucket calls(ctx, engine, "idle", patient);
    visit const first(calls, 1);
    run();  // it returns
    BOOST_TEST(first.granted());
    session.say({"CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"});
    visit const next(calls, 1);
    run();
    BOOST_TEST(next.granted());
    // It was seen before the question was sent.
    BOOST_TEST(calls.shared_stats().unknown + calls.shared_stats().failed == 0u);
}

BOOST_AUTO_TEST_CASE(server_over_tcp_with_a_user_and_a_database) {
    session.say({"ACL", "SETUSER", "somebody", "on", ">se@cret", "~{weir:*", "+@all"});
    auto const port = std::to_string(server().port());
    for (std::string const host : {"127.0.0.1", "localhost"}) {
        auto const remote = make("redis://somebody:se%40cret@" + host + ":" + port + "/3");
        BOOST_TEST(complaint(remote) == "");
        weir::redis::token_bucket calls(ctx, remote, "tcp " + host, patient);
        visit const guest(calls, 1);
        run(guest);
        BOOST_TEST(guest.granted());
        session.say({"SELECT", "3"});
        BOOST_TEST(session.say({"EXISTS", "{weir:tcp " + host + "}"}) == "1");
        session.say({"SELECT", "0"});
    }
}

BOOST_AUTO_TEST_CASE(wrong_password_is_unavailable_and_the_error_says_why) {
    auto const port = std::to_string(server().port());
    auto const wrong = make("redis://:wrong@127.0.0.1:" + port);
    session.say({"ACL", "SETUSER", "default", ">right"});
    weir::redis::token_bucket calls(ctx, wrong, "wrong", patient);
    visit const guest(calls, 1, 5s);
    run(guest);
    auto const why = complaint(wrong);
    auto const none = complaint(make("redis://127.0.0.1:" + port));
    session.say({"ACL", "SETUSER", "default", "nopass"});
    BOOST_TEST(guest.refused(errc::unavailable));
    BOOST_TEST(calls.last_failure() == make_error_code(weir::redis::errc::wrong_password));
    BOOST_TEST(calls.shared_stats().unknown == 0u);
    BOOST_TEST(calls.shared_stats().failed >= 1u);
    BOOST_TEST(why.starts_with("weir::redis: AUTH"), why);
    BOOST_TEST(none.starts_with("weir::redis: NOAUTH"), none);
}

BOOST_AUTO_TEST_CASE(user_who_may_load_no_scripts_sends_them_in_full) {
    session.say({"ACL", "SETUSER", "humble", "on", "nopass", "~{weir:*", "-@all", "+eval", "+time",
                 "+get", "+set"});
    auto const humble = make("redis://humble:any@127.0.0.1:" + std::to_string(server().port()));
    weir::redis::token_bucket calls(ctx, humble, "humble", patient);
    visit const guest(calls, 1);
    run(guest);
    BOOST_TEST(guest.granted());
}

BOOST_AUTO_TEST_CASE(user_needs_no_commands_but_those_of_the_documentation) {
    session.say({"ACL", "SETUSER", "app", "on", ">password", "~{weir:*", "-@all", "+eval",
                 "+evalsha", "+script|load", "+time", "+get", "+set", "+select"});
    auto const app =
        make("redis://app:password@127.0.0.1:" + std::to_string(server().port()) + "/2");
    weir::redis::token_bucket calls(ctx, app, "app", patient);
    visit const guest(calls, 1);
    run(guest);
    BOOST_TEST(guest.granted());
    guest.seat().refund();
    run();
    BOOST_TEST(calls.shared_stats().failed == 0u);
    session.say({"SELECT", "2"});
    BOOST_TEST(level("app") < 100'000);
}

BOOST_AUTO_TEST_CASE(user_who_may_not_use_the_key_is_told_so) {
    session.say({"ACL", "SETUSER", "other", "on", "nopass", "~other:*", "+@all"});
    auto const other = make("redis://other:any@127.0.0.1:" + std::to_string(server().port()));
    weir::redis::token_bucket calls(ctx, other, "forbidden", patient);
    visit const guest(calls, 1);
    run(guest);
    BOOST_TEST(guest.refused(errc::unavailable));
    BOOST_TEST(calls.last_failure() == make_error_code(weir::redis::errc::forbidden));
}

BOOST_AUTO_TEST_CASE(database_that_is_not_there_is_an_error) {
    auto const port = std::to_string(server().port());
    auto const why = complaint(make("redis://127.0.0.1:" + port + "/99"));
    BOOST_TEST(why.find("DB index is out of range") != why.npos, why);
}

BOOST_AUTO_TEST_CASE(server_that_would_grant_nothing_is_found_by_a_check) {
    support::redis_server own;
    support::redis_session at(own);
    BOOST_TEST(complaint(make(own.url())) == "");
    at.say({"CONFIG", "SET", "maxmemory", "1"});
    auto const full = complaint(make(own.url()));
    BOOST_TEST(full.starts_with("weir::redis: OOM"), full);
    at.say({"CONFIG", "SET", "maxmemory", "0"});
    at.say({"REPLICAOF", "127.0.0.1", std::to_string(support::free_port())});
    auto const replica = complaint(make(own.url()));
    BOOST_TEST(replica.starts_with("weir::redis: READONLY"), replica);
}

BOOST_AUTO_TEST_CASE(limiter_that_cannot_be_counted_is_refused_when_it_is_made_or_configured) {
    weir::shared_options const fine{.rate = {999'999'937, 24h}, .burst = 1'000'000};
    auto const is_named = [](std::invalid_argument const& e) {
        return std::string_view(e.what()) ==
               "weir::redis: burst, at this rate, is 1000000, but must be from 1 to 26062";
    };
    BOOST_CHECK_EXCEPTION(weir::redis::token_bucket(ctx, engine, "fine", fine),
                          std::invalid_argument, is_named);
    weir::redis::token_bucket calls(ctx, engine, "fine", patient);
    BOOST_CHECK_EXCEPTION(calls.configure(fine), std::invalid_argument, is_named);
    visit const guest(calls, 1);  // nothing has changed
    run(guest);
    BOOST_TEST(guest.granted());
    BOOST_TEST(calls.options().burst.value() == 5);
}

BOOST_AUTO_TEST_CASE(nonsense_is_refused) {
    BOOST_CHECK_THROW(make("http://localhost"), std::invalid_argument);
    weir::redis::options const hasty{.connect_within = 0ns};
    BOOST_CHECK_THROW(weir::redis::engine(ctx, hasty), std::invalid_argument);
    weir::redis::options const odd{.retry = {.first = 2s, .most = 1s}};
    BOOST_CHECK_THROW(weir::redis::engine(ctx, odd), std::invalid_argument);
}

BOOST_AUTO_TEST_CASE(scripts_that_were_forgotten_are_sent_again) {
    weir::redis::token_bucket calls(ctx, engine, "flushed", patient);
    visit const first(calls, 1);
    run(first);
    session.say({"SCRIPT", "FLUSH"});
    // Several in one pipeline.
    weir::redis::token_bucket others(ctx, engine, "flushed too", patient);
    visit const next(calls, 1);
    visit const other(others, 1);
    run();
    BOOST_TEST(next.granted());
    BOOST_TEST(other.granted());
    BOOST_TEST(calls.shared_stats().questions == 2u);
    BOOST_TEST(level("flushed") > 100'000);
}

BOOST_AUTO_TEST_CASE(key_that_was_deleted_is_a_full_bucket) {
    weir::shared_options const slow{.rate = {1, 24h}, .burst = 2, .deadline = 10s};
    weir::redis::token_bucket calls(ctx, engine, "deleted", slow);
    visit const two(calls, 2);
    run(two);
    session.say({"FLUSHALL"});
    visit const again(calls, 2);
    run(again);
    BOOST_TEST(two.granted());
    BOOST_TEST(again.granted());
}

BOOST_AUTO_TEST_CASE(engine_may_go_before_its_limiter_and_the_context_before_both) {
    auto own = std::make_unique<asio::io_context>();
    weir::redis::options const where{.url = server().url()};
    auto brief = std::make_shared<weir::redis::engine>(*own, where);
    weir::redis::token_bucket calls(*own, brief, "brief", patient);
    brief.reset();
    visit const guest(calls, 1);
    while (guest.waiting() && own->run_one() != 0) {}
    BOOST_TEST(guest.granted());
    visit const dropped(calls, 1);
    own->run_one();
    own.reset();
    BOOST_TEST(dropped.dropped());
    guest.seat().refund();
}

BOOST_AUTO_TEST_CASE(context_ends_at_any_moment_of_a_question) {
    // One step more each time, from before it connects until it is over.
    int steps = 0;
    for (bool over = false; !over; ++steps) {
        auto own = std::make_unique<asio::io_context>();
        weir::redis::options const where{.url = server().url()};
        auto const brief = std::make_shared<weir::redis::engine>(*own, where);
        weir::redis::token_bucket calls(*own, brief, "steps", patient);
        visit const guest(calls, 1);
        for (int i = 0; i != steps && guest.waiting(); ++i)
            own->run_one();
        over = guest.over();
        own.reset();
        BOOST_TEST((guest.dropped() || guest.over()));
    }
    BOOST_TEST(steps > 4);
}

BOOST_AUTO_TEST_CASE(answer_may_destroy_the_engine) {
    auto own = make(server().url());
    weir::engine::question const q{
        .bucket = weir::policy::shared_bucket::of(patient), .deadline = 10s};
    int told = 0;
    for (int i = 0; i != 3; ++i)
        own->async_take("destroyer", q, [&](weir::error_code ec, weir::engine::answer const& a) {
            BOOST_TEST(!ec);
            BOOST_TEST(a.granted == 1);
            ++told;
            own.reset();
        });
    run();
    BOOST_TEST(told == 3);  // what is under way is finished
}

BOOST_AUTO_TEST_CASE(threads_may_ask_at_the_same_time) {
    asio::thread_pool pool(4);
    weir::redis::options const where{
        .url = server().url(), .connect_within = 10s, .silent_for = 10s};
    auto const shared = std::make_shared<weir::redis::engine>(pool, where);
    weir::shared_options const wide{.rate = {1'000'000, 1s}, .burst = 1000, .deadline = 10s};
    std::vector<std::unique_ptr<weir::redis::token_bucket>> limiters;
    for (int i = 0; i != 8; ++i)
        limiters.push_back(std::make_unique<weir::redis::token_bucket>(
            pool, shared, "threads" + std::to_string(i % 4), wide));
    std::atomic<int> granted = 0;
    auto const take = [&](weir::redis::token_bucket& calls) -> asio::awaitable<void> {
        for (int i = 0; i != 200; ++i) {
            auto const call = co_await calls.async_enter(30s);
            ++granted;
        }
    };
    for (auto& one : limiters) {
        asio::co_spawn(pool, take(*one), rethrow);
        asio::co_spawn(pool, take(*one), rethrow);
    }
    pool.join();
    BOOST_TEST(granted == 16 * 200);
}

BOOST_AUTO_TEST_SUITE_END()

// ---- Several processes

namespace {

// By so much the clocks of a process are ahead.
std::chrono::seconds const ahead{
    std::getenv("WEIR_AHEAD") ? std::atoll(std::getenv("WEIR_AHEAD")) : 0};

}  // namespace

extern "C" int clock_gettime(clockid_t which, timespec* time) {
    using function = int(clockid_t, timespec*);
    static auto* const of_system = reinterpret_cast<function*>(::dlsym(RTLD_NEXT, "clock_gettime"));
    int const failed = of_system(which, time);
    time->tv_sec += ahead.count();
    return failed;
}

BOOST_AUTO_TEST_SUITE(redis_worker, *ut::disabled())

namespace {

// Takes permits, one after the other in each of some coroutines, and tells of each when it was granted by the clock of
// the server.
template <class Limiter>
void take_permits() {
    asio::io_context ctx;
    weir::redis::options const where{.url = worker::told("WEIR_URL"), .connect_within = 10s};
    auto const engine = std::make_shared<weir::redis::engine>(ctx, where);
    weir::shared_options const options{.rate = {std::stoll(worker::told("WEIR_PERMITS")), 1s},
                                       .burst = std::stoll(worker::told("WEIR_BURST")),
                                       .deadline = 1s};
    Limiter calls(ctx, engine, worker::told("WEIR_NAME"), options);
    auto const until = std::chrono::steady_clock::now() + support::time_of_crowd();
    auto const take = [&]() -> asio::awaitable<void> {
        while (std::chrono::steady_clock::now() < until) {
            auto const call = co_await calls.async_enter(10s);
            worker::tell(static_cast<std::int64_t>(call.id()));
        }
    };
    for (int i = 0; i != 4; ++i)
        asio::co_spawn(ctx, take(), rethrow);
    ctx.run();
}

}  // namespace

BOOST_AUTO_TEST_CASE(takes_permits) {
    take_permits<weir::redis::token_bucket>();
}

BOOST_AUTO_TEST_CASE(takes_permits_of_a_log) {
    take_permits<weir::redis::sliding_log>();
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_FIXTURE_TEST_SUITE(redis_processes, fixture, *ut::precondition(support::if_redis_is_here))

namespace {

worker::variables at_limit(std::string const& name, int permits, int burst) {
    return {{"WEIR_URL", server().url()},
            {"WEIR_NAME", name},
            {"WEIR_PERMITS", std::to_string(permits)},
            {"WEIR_BURST", std::to_string(burst)}};
}

}  // namespace

BOOST_AUTO_TEST_CASE(bucket_is_kept_by_all_together_and_nobody_starves) {
    for (int const processes : {2, 4, 16}) {
        auto const name = "bucket of " + std::to_string(processes);
        std::vector const all(static_cast<std::size_t>(processes), at_limit(name, 400, 20));
        auto const crowd = support::let_loose("redis_worker/takes_permits", all);
        crowd.check_bucket(400, 20);
        auto const [least, sum, longest, time] = crowd.shares();
        BOOST_TEST(least * static_cast<std::size_t>(processes) >= sum / 2);
        BOOST_TEST(static_cast<std::int64_t>(sum) >= time * 400 / 1'000'000 / 2);
    }
}

BOOST_AUTO_TEST_CASE(interval_is_kept_by_all_together) {
    std::vector const four(4, at_limit("one per 20 ms", 50, 1));
    auto const crowd = support::let_loose("redis_worker/takes_permits", four);
    crowd.check_log(1, 20'000);
    auto const [least, sum, longest, time] = crowd.shares();
    BOOST_TEST(least * 8 >= sum);
    BOOST_TEST(static_cast<std::int64_t>(sum) >= time / 20'000 / 2);
}

BOOST_AUTO_TEST_CASE(log_is_kept_by_all_together) {
    std::vector const four(4, at_limit("200 in any second", 200, 200));
    auto const crowd = support::let_loose("redis_worker/takes_permits_of_a_log", four);
    crowd.check_log(200, 1'000'000);
    BOOST_TEST(crowd.granted.size() >= 300u);
}

BOOST_AUTO_TEST_CASE(clocks_of_processes_do_not_count) {
    auto ahead = at_limit("clocks", 400, 20);
    ahead.emplace_back("WEIR_AHEAD", "3600");
    auto const crowd =
        support::let_loose("redis_worker/takes_permits", {ahead, at_limit("clocks", 400, 20)});
    crowd.check_bucket(400, 20);
    auto const [least, sum, longest, time] = crowd.shares();
    BOOST_TEST(least * 4 >= sum);
    BOOST_TEST(static_cast<std::int64_t>(sum) >= time * 400 / 1'000'000 / 2);
}

BOOST_AUTO_TEST_CASE(processes_that_are_ten_times_as_far_away_have_their_share) {
    support::slow_way const slow(server().socket(), 900us);
    auto const near = at_limit("far", 1000, 1);
    auto far = near;
    far.front().second = "unix:" + slow.socket();
    std::vector<worker::variables> all(8, near);
    all.insert(all.end(), 8, far);
    auto const crowd = support::let_loose("redis_worker/takes_permits", all);
    crowd.check_bucket(1000, 1);
    auto const [least, sum, longest, time] = crowd.shares();
    BOOST_TEST(static_cast<double>(least) * 16 >= 0.9 * static_cast<double>(sum));
    BOOST_TEST(longest <= 100'000);
    BOOST_TEST(static_cast<double>(sum) >= 0.98 * static_cast<double>(time) / 1000);
}

BOOST_AUTO_TEST_SUITE_END()
