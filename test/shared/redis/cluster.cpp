#include "weir/redis/cluster.hpp"

#include <weir/redis/store.hpp>
#include <weir/shared/limiter.hpp>
#include <weir/shared/seats.hpp>

#include "shared/place.hpp"
#include "shared/redis/false_server.hpp"
#include "shared/redis/server.hpp"
#include "support/rethrow.hpp"
#include "support/visit.hpp"
#include "weir/redis/address.hpp"
#include "weir/redis/servers.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/test/tree/decorator.hpp>
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace support {

// One cluster of three primaries for all tests that only use it.
inline redis_cluster& three() {
    static redis_cluster one(3);
    return one;
}

inline std::string key_of(std::string const& name) {
    return "{weir:" + name + "}";
}

inline std::string url_of(redis_server const& one) {
    return "redis://127.0.0.1:" + std::to_string(one.port());
}

// A store that knows one node of the cluster.
struct cluster_place : any_place {
    static constexpr auto& if_here = if_redis_is_here;

    redis_cluster& home;
    std::shared_ptr<weir::redis::store> store = at(url_of(home.node(0)));

    explicit cluster_place(redis_cluster& c = three()) : home(c) {}

    std::shared_ptr<weir::redis::store> at(std::string url) {
        using namespace std::chrono_literals;
        return make(ctx, std::move(url));
    }
    static std::shared_ptr<weir::redis::store> make(boost::asio::io_context& where,
                                                    std::string url) {
        using namespace std::chrono_literals;
        weir::redis::options const options{
            .url = std::move(url), .connect_timeout = 10s, .silent_for = 10s};
        return std::make_shared<weir::redis::store>(where, options);
    }
    std::shared_ptr<weir::store> connect(boost::asio::io_context& where) {
        return make(where, url_of(home.node(0)));
    }
    [[nodiscard]] bool has(std::string const& name) {
        auto const key = key_of(name);
        return redis_session(home.node(home.owner_of(key))).say({"EXISTS", key}) == "1";
    }
    // Returns how many errors of a kind the nodes have sent, such as MOVED.
    [[nodiscard]] std::int64_t errors(std::string const& kind) {
        std::int64_t sum = 0;
        for (std::size_t i = 0; i != home.size(); ++i) {
            auto const said = redis_session(home.node(i)).say({"INFO", "errorstats"});
            auto const word = "errorstat_" + kind + ":count=";
            if (auto const found = said.find(word); found != said.npos)
                sum += std::stoll(said.substr(found + word.size()));
        }
        return sum;
    }
    // Returns the first name with this start whose key belongs to a node.
    std::string name_at(std::size_t node, std::string const& start) {
        for (int i = 0;; ++i)
            if (auto name = start + std::to_string(i); home.owner_of(key_of(name)) == node)
                return name;
    }
    // Returns the error of `check`; empty if it succeeds.
    std::string complaint(std::shared_ptr<weir::redis::store> const& of, std::string const& name) {
        std::optional<std::string> what;
        boost::asio::co_spawn(ctx, of->check(name), [&](std::exception_ptr failure) {
            try {
                rethrow(failure);
                what = "";
            } catch (std::exception const& e) {
                what = e.what();
            }
        });
        ctx.restart();
        while (!what && ctx.run_one() != 0) {}
        return what.value();
    }
};

}  // namespace support

namespace {

using place = support::cluster_place;

}  // namespace

#include "shared/store_tests.hpp"

namespace {

namespace asio = boost::asio;
namespace ut = boost::unit_test;
using namespace std::chrono_literals;
using support::key_of;
using support::url_of;
using support::visit;
using weir::errc;
using why = weir::redis::errc;

// So slow that nothing is refilled.
weir::shared_options few(weir::amount burst) {
    return {.rate = {1, 24h}, .burst = burst, .timeout = 10s};
}

bool contains(std::string const& text, std::string const& part) {
    return text.find(part) != text.npos;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(redis_cluster, *ut::precondition(place::if_here))

BOOST_FIXTURE_TEST_CASE(slots_are_those_of_the_server, place) {
    support::redis_session session(home.node(0));
    using namespace std::string_literals;
    for (auto const& key : {"{weir:a}"s, "{weir:}"s, "{weir:}}"s, "{weir:a}:log"s, "{weir:{b}}"s,
                            "{}a"s, "a{"s, "a"s, "{weir:\xff\r\n}"s}) {
        auto const expected = session.numbers({"CLUSTER", "KEYSLOT", key}).at(0);
        BOOST_TEST(static_cast<std::int64_t>(weir::redis::detail::slot_of(key)) == expected, key);
    }
}

BOOST_FIXTURE_TEST_CASE(keys_are_spread_and_each_slot_is_learned_once, place) {
    auto const other = at(url_of(home.node(2)));
    auto const moved = errors("MOVED");
    std::vector<std::size_t> at_node(3);
    std::int64_t after_first = 0;
    for (int round = 0; round != 3; ++round) {
        for (int i = 0; i != 100; ++i) {
            auto const name = "spread " + std::to_string(i);
            weir::shared_token_bucket here(ctx, store, name, few(3));
            weir::shared_token_bucket there(ctx, other, name, few(3));
            auto& one = round == 1 ? there : here;
            visit const guest(one, 1);
            run(guest);
            BOOST_TEST(guest.granted());
            BOOST_TEST(one.shared_stats().questions == 1U);
            if (round == 0)
                ++at_node[home.owner_of(key_of(name))];
        }
        if (round == 1)
            after_first = errors("MOVED");
    }
    for (int i = 0; i != 100; ++i) {
        weir::shared_token_bucket again(ctx, other, "spread " + std::to_string(i), few(3));
        visit const late(again, 1, 60s);
        run(late);
        BOOST_TEST(late.rejected(errc::deadline_unreachable));
    }
    for (auto const n : at_node)
        BOOST_TEST(n >= 10U);
    BOOST_TEST(after_first - moved <= 200);
    BOOST_TEST(after_first - moved >= 100);
    BOOST_TEST(errors("MOVED") == after_first);
}

BOOST_FIXTURE_TEST_CASE(slot_that_moves_under_load_loses_and_repeats_nothing, place) {
    auto const name = name_at(1, "moves ");
    auto const slot = std::to_string(weir::redis::detail::slot_of(key_of(name)));
    support::redis_session from(home.node(1));
    support::redis_session to(home.node(0));
    auto const asked = errors("ASK");

    int granted = 0;
    int rejected = 0;
    bool over = false;
    std::vector<std::unique_ptr<weir::shared_token_bucket>> limiters;
    auto const take = [&](weir::shared_token_bucket& calls) -> asio::awaitable<void> {
        while (!over) {
            auto [ec, call] = co_await calls.async_enter(30s, asio::as_tuple(asio::deferred));
            ++(ec ? rejected : granted);
        }
    };
    for (int i = 0; i != 4; ++i) {
        auto const own = i % 2 == 0 ? connect(ctx) : at(url_of(home.node(2)));
        limiters.push_back(
            std::make_unique<weir::shared_token_bucket>(ctx, own, name, few(20'000)));
        asio::co_spawn(ctx, take(*limiters.back()), support::rethrow);
    }
    auto const pass = [&](int grants) {
        auto const until = granted + grants;
        while (granted < until)
            ctx.run_one();
    };
    pass(200);
    to.say({"CLUSTER", "SETSLOT", slot, "IMPORTING", home.id(1)});
    from.say({"CLUSTER", "SETSLOT", slot, "MIGRATING", home.id(0)});
    pass(200);
    from.say(
        {"MIGRATE", "127.0.0.1", std::to_string(home.node(0).port()), key_of(name), "0", "10000"});
    pass(200);
    BOOST_TEST(complaint(store, name) == "");
    BOOST_TEST(errors("ASK") - asked >= 40);
    for (auto* const at : {&to, &from})
        at->say({"CLUSTER", "SETSLOT", slot, "NODE", home.id(0)});
    auto const settled = errors("ASK");
    pass(200);
    BOOST_TEST(errors("ASK") <= settled + 4);
    over = true;
    run();

    BOOST_TEST(rejected == 0);
    auto const stored = to.numbers({"GET", key_of(name)});
    BOOST_TEST((stored.at(1) + stored.at(2) - 1) / stored.at(2) == granted);
    for (auto const& one : limiters)
        BOOST_TEST(one->shared_stats().unknown == 0U);

    // The other tests know where the slots are.
    for (auto* const at : {&to, &from})
        at->say({"CLUSTER", "SETSLOT", slot, "NODE", home.id(0)});
    to.say({"DEL", key_of(name)});
    for (auto* const at : {&from, &to})
        at->say({"CLUSTER", "SETSLOT", slot, "NODE", home.id(1)});
}

BOOST_AUTO_TEST_CASE(node_that_has_left_the_cluster_is_left) {
    support::redis_cluster smaller(4);
    place at(smaller);
    weir::shared_token_bucket calls(at.ctx, at.store, at.name_at(3, "calls "), few(9));
    auto const enter = [&] {
        visit const guest(calls, 1, 30s);
        at.run(guest);
        return guest.granted();
    };
    BOOST_TEST(enter());
    smaller.remove(3);
    BOOST_TEST(enter());  // it was there, and lost its state with the node
    // A store that asks that node first.
    auto const url =
        url_of(smaller.node(3)) + ",127.0.0.1:" + std::to_string(smaller.node(1).port());
    BOOST_TEST(at.complaint(at.at(url), "checked") == "");
}

BOOST_AUTO_TEST_CASE(messages_for_seats_come_from_a_node_of_the_cluster) {
    support::redis_cluster smaller(4);
    place at(smaller);
    weir::shared_seats_options const one{.seats = 1, .lease = 60s, .timeout = 10s};
    auto const connect = [&] {
        return std::make_shared<weir::redis::store>(
            at.ctx, weir::redis::options{.url = url_of(smaller.node(0)), .silent_for = 500ms});
    };
    auto const here = connect();
    auto const there = connect();
    // Waits until both stores are subscribed at one of the first `nodes`, while one has the seat and one waits.
    auto const pass_a_seat = [&](std::string const& name, std::size_t nodes) {
        weir::shared_seats first(at.ctx, here, name, one);
        weir::shared_seats second(at.ctx, there, name, one);
        visit const holder(first);
        at.run(holder);
        visit const waiter(second, 1, 120s);
        auto const end = std::chrono::steady_clock::now() + 60s;
        for (std::ptrdiff_t n = 0; n != 2;) {
            BOOST_TEST_REQUIRE((std::chrono::steady_clock::now() < end));
            at.ctx.restart();
            at.ctx.run_for(10ms);
            n = 0;
            for (std::size_t i = 0; i != nodes; ++i) {
                auto const list = support::redis_session(smaller.node(i))
                                      .say({"CLIENT", "LIST", "TYPE", "pubsub"});
                n += std::ranges::count(list, '\n');
            }
        }
        BOOST_TEST(waiter.waiting());
        holder.leave();
        at.run(waiter);
        BOOST_TEST(waiter.granted());
        waiter.leave();
    };
    auto const kept = at.name_at(1, "kept ");
    pass_a_seat(at.name_at(3, "lost "), 4);  // so they are subscribed at the node that leaves
    smaller.remove(3);
    pass_a_seat(kept, 3);
}

BOOST_FIXTURE_TEST_CASE(check_finds_the_node_of_a_name, place) {
    for (std::size_t i = 0; i != 3; ++i)
        BOOST_TEST(complaint(store, name_at(i, "checked ")) == "");
    auto const numbered = complaint(at(url_of(home.node(0)) + "/1"), "checked");
    BOOST_TEST(contains(numbered, "SELECT is not allowed in cluster mode"), numbered);
}

BOOST_AUTO_TEST_CASE(encryption_is_for_all_nodes, *ut::precondition(support::if_redis_has_tls)) {
    support::certificate const own("DNS:localhost,IP:127.0.0.1");
    support::redis_cluster hidden(3, 0, own);
    place there(hidden);
    auto const url = "rediss://127.0.0.1:" + std::to_string(hidden.tls_port(0));
    auto const store = there.at(url + "?authorities=" + own.file());
    for (std::size_t i = 0; i != 3; ++i)
        BOOST_TEST(there.complaint(store, there.name_at(i, "hidden ")) == "");
    // Without a valid certificate, no node is trusted.
    auto const wrong = there.complaint(there.at(url), "hidden");
    BOOST_TEST(contains(wrong, "certificate"), wrong);
}

BOOST_AUTO_TEST_CASE(login_is_for_all_nodes) {
    support::redis_cluster secret(3);
    for (std::size_t i = 0; i != secret.size(); ++i)
        support::redis_session(secret.node(i))
            .say({"ACL", "SETUSER", "app", "on", ">secret", "~{weir:*", "&weir:*", "-@all", "+eval",
                  "+evalsha", "+script|load", "+time", "+get", "+set", "+publish", "+subscribe"});
    place there(secret);
    auto const port = std::to_string(secret.node(0).port());
    auto const store = there.at("redis://app:secret@127.0.0.1:" + port);
    for (std::size_t i = 0; i != 3; ++i)
        BOOST_TEST(there.complaint(store, there.name_at(i, "secret ")) == "");
    auto const wrong = there.complaint(there.at("redis://app:wrong@127.0.0.1:" + port), "secret");
    BOOST_TEST(contains(wrong, "AUTH failed"), wrong);
}

namespace {

// A primary, which is the only node of the URL, fails by a signal.
void replace_after(int signal) {
    support::redis_cluster mortal(3, 1);
    place there(mortal);
    auto const lost = there.name_at(0, "lost ");
    auto const kept = there.name_at(1, "kept ");
    weir::shared_options const many{.rate = {1, 1h}, .burst = 1000, .timeout = 1s};
    auto const store = std::make_shared<weir::redis::store>(
        there.ctx, weir::redis::options{.url = url_of(mortal.node(0))});
    weir::shared_token_bucket at_lost(there.ctx, store, lost, many);
    weir::shared_token_bucket at_kept(there.ctx, store, kept, many);
    auto const enter = [&](weir::shared_token_bucket& at) {
        visit const guest(at, 1, 30s);
        there.run(guest);
        return guest.granted();
    };
    BOOST_TEST(enter(at_lost));
    BOOST_TEST(enter(at_kept));

    mortal.node(0).send(signal);
    auto const begin = std::chrono::steady_clock::now();
    BOOST_TEST(enter(at_kept));
    while (!enter(at_lost))
        BOOST_TEST_REQUIRE((std::chrono::steady_clock::now() - begin < 60s));
    BOOST_TEST_MESSAGE("replaced after "
                       << (std::chrono::steady_clock::now() - begin) / 1ms << " ms");
    BOOST_TEST(support::redis_session(mortal.node(3)).say({"EXISTS", key_of(lost)}) == "1");
    BOOST_TEST(enter(at_kept));

    // The former primary returns as a replica, and redirects.
    if (signal == SIGSTOP)
        mortal.node(0).send(SIGCONT);
    else
        mortal.node(0).restart();
    auto const again = there.at(url_of(mortal.node(0)));
    while (there.complaint(again, lost) != "")
        BOOST_TEST_REQUIRE((std::chrono::steady_clock::now() - begin < 60s));
    BOOST_TEST(enter(at_lost));
}

}  // namespace

BOOST_AUTO_TEST_CASE(replica_replaces_a_node_that_was_killed_and_the_others_go_on) {
    replace_after(SIGKILL);
}

BOOST_AUTO_TEST_CASE(replica_replaces_a_node_that_was_stopped_and_the_others_go_on) {
    replace_after(SIGSTOP);
}

// ---- Redirections that lead nowhere

namespace {

struct false_nodes : support::any_place {
    using support::any_place::run;

    support::false_server first{ctx, support::false_server::place_kind::port};
    support::false_server second{ctx, support::false_server::place_kind::port};
    std::shared_ptr<weir::redis::store> store =
        std::make_shared<weir::redis::store>(ctx, first.where());

    static std::string moved(support::false_server const& to) {
        return "-MOVED 1 127.0.0.1" + to.port() + "\r\n";
    }
    // Returns the error of a question, which was not carried out.
    weir::error_code ask(weir::duration timeout = 10s) {
        std::optional<weir::error_code> result;
        weir::store::question const q{
            .bucket = weir::policy::shared_bucket::of(patient), .timeout = timeout};
        store->async_take("calls", q, [&](weir::error_code ec, weir::store::answer const& a) {
            BOOST_TEST(!a.lost);
            BOOST_TEST(!result.has_value());
            result = ec;
        });
        ctx.restart();
        while (!result && ctx.run_one() != 0) {}
        return result.value();
    }
};

}  // namespace

BOOST_FIXTURE_TEST_CASE(question_is_redirected_at_most_five_times, false_nodes) {
    first.say = [&](int) { return moved(second); };
    second.say = [&](int) { return moved(first); };
    BOOST_TEST(ask() == make_error_code(why::moved));
    BOOST_TEST(first.questions + second.questions == 6);
    first.say = [&](int) { return moved(first); };
    BOOST_TEST(ask() == make_error_code(why::moved));
    first.say = [](int) { return support::false_server::granted(); };
    BOOST_TEST(!ask());
}

BOOST_FIXTURE_TEST_CASE(redirection_to_an_invalid_place_is_an_error, false_nodes) {
    for (auto const* const place :
         {"", "1", "1 ", "1 nowhere", "1 127.0.0.1:", "1 127.0.0.1:0", "1 127.0.0.1:65536",
          "1 127.0.0.1:-1", "1 127.0.0.1:1x", "1 ?:7001"}) {
        for (auto const* const word : {"-MOVED ", "-ASK "}) {
            first.say = [&](int) { return std::string(word) + place + "\r\n"; };
            BOOST_TEST(ask() == make_error_code(why::moved), place);
        }
    }
    BOOST_TEST(second.questions == 0);
}

BOOST_FIXTURE_TEST_CASE(redirection_without_a_host_means_the_host_of_the_server, false_nodes) {
    first.say = [&](int) { return "-MOVED 1 " + second.port() + "\r\n"; };
    BOOST_TEST(!ask());
    BOOST_TEST(second.questions == 1);
}

BOOST_FIXTURE_TEST_CASE(node_that_cannot_be_reached_is_asked_about_again, false_nodes) {
    int asked = 0;
    first.say = [&](int) {
        return ++asked == 1 ? std::string("-MOVED 1 127.0.0.1:1\r\n")
                            : support::false_server::granted();
    };
    BOOST_TEST(!ask());
    BOOST_TEST(asked == 2);
    first.say = [&](int) {
        return ++asked == 3 ? std::string("-ASK 1 127.0.0.1:1\r\n")
                            : support::false_server::granted();
    };
    BOOST_TEST(!ask());
    BOOST_TEST(asked == 4);
    BOOST_TEST(first.asking == 0);
}

BOOST_FIXTURE_TEST_CASE(question_that_a_node_may_have_answered_is_not_repeated, false_nodes) {
    first.say = [&](int) { return moved(second); };
    second.say = [&](int) {
        second.hang_up();
        return "";
    };
    std::optional<bool> is_lost;
    weir::store::question const q{
        .bucket = weir::policy::shared_bucket::of(patient), .timeout = 10s};
    store->async_take("calls", q, [&](weir::error_code ec, weir::store::answer const& a) {
        BOOST_TEST(!!ec);
        is_lost = a.lost;
    });
    while (!is_lost && ctx.run_one() != 0) {}
    BOOST_TEST(is_lost.value());
    BOOST_TEST(second.questions == 1);
    BOOST_TEST(first.questions == 1);
    // The next one asks whether another node has the slot now.
    first.say = [](int) { return support::false_server::granted(); };
    BOOST_TEST(!ask());
    BOOST_TEST(first.questions == 2);
    BOOST_TEST(second.questions == 1);
}

BOOST_FIXTURE_TEST_CASE(ask_holds_for_one_question, false_nodes) {
    first.say = [&](int number) {
        return number == 0 ? "-ASK 1 127.0.0.1" + second.port() + "\r\n"
                           : support::false_server::granted();
    };
    BOOST_TEST(!ask());
    BOOST_TEST(second.asking == 1);
    BOOST_TEST(second.questions == 1);
    BOOST_TEST(!ask());
    BOOST_TEST(first.questions == 2);
    BOOST_TEST(second.questions == 1);
}

BOOST_FIXTURE_TEST_CASE(node_is_learned_from_a_late_reply, false_nodes) {
    first.say = [](int) { return ""; };
    asio::steady_timer late(ctx, 80ms);
    late.async_wait([&](auto) { first.send(moved(second)); });
    BOOST_TEST(ask(50ms) == asio::error::timed_out);
    BOOST_TEST(!ask());
    BOOST_TEST(first.questions == 1);
    BOOST_TEST(second.questions == 1);
}

BOOST_FIXTURE_TEST_CASE(node_that_is_down_is_the_error, false_nodes) {
    first.say = [](int) { return std::string("-MOVED 1 127.0.0.1:1\r\n"); };
    for (int i = 1; i != 4; ++i) {
        BOOST_TEST(ask() == asio::error::connection_refused);
        BOOST_TEST(first.questions == 2 * i);
    }
}

BOOST_FIXTURE_TEST_CASE(node_that_was_disconnected_meanwhile_is_asked_about_again, false_nodes) {
    first.say = [&](int) { return moved(second); };
    BOOST_TEST(!ask());
    second.hang_up();
    BOOST_TEST(!ask());
    first.say = [](int) { return support::false_server::granted(); };
    BOOST_TEST(!ask());
    BOOST_TEST(first.questions == 2);
    BOOST_TEST(second.questions == 2);
}

BOOST_FIXTURE_TEST_CASE(user_without_permission_for_asking_is_told, false_nodes) {
    first.say = [&](int) { return "-ASK 1 127.0.0.1" + second.port() + "\r\n"; };
    second.say_to_asking = "-NOPERM this user has no permissions to run the 'asking' command\r\n";
    second.say = [&](int) { return moved(first); };
    BOOST_TEST(ask() == make_error_code(why::forbidden));
    // It executed the question anyway.
    second.say = [](int) { return support::false_server::granted(); };
    BOOST_TEST(!ask());
}

BOOST_FIXTURE_TEST_CASE(check_tries_each_server, false_nodes) {
    first.deaf = true;
    auto options = first.where();
    options.url += ",127.0.0.1" + second.port();
    options.connect_timeout = 100ms;
    std::optional<bool> failed;
    auto const either = std::make_shared<weir::redis::store>(ctx, options);
    asio::co_spawn(ctx, either->check(), [&](std::exception_ptr e) { failed = e != nullptr; });
    while (!failed && ctx.run_one() != 0) {}
    BOOST_TEST(!failed.value());
}

BOOST_AUTO_TEST_CASE(latest_nodes_are_kept) {
    using namespace weir::redis::detail;
    servers known(destination::parse("redis://a,b"));
    known.move_on();
    address node;
    for (int i = 0; i != 40; ++i) {
        node.host = "10.0.0." + std::to_string(i);
        known.learn(node);
        known.learn(node);
        BOOST_TEST(known.current()->host == "b");
    }
    BOOST_TEST(known.size() == 2U + 16U);
    for (int i = 39; i != 39 - 16; --i) {
        known.move_on();
        BOOST_TEST(known.current()->host == "10.0.0." + std::to_string(i));
    }
    known.move_on();
    BOOST_TEST(known.current()->host == "a");
}

BOOST_FIXTURE_TEST_CASE(redirections_end_with_the_time_of_the_question, false_nodes) {
    first.say = [&](int) { return moved(second); };
    second.deaf = true;
    auto const begin = std::chrono::steady_clock::now();
    BOOST_TEST(ask(300ms) == asio::error::timed_out);
    BOOST_TEST((std::chrono::steady_clock::now() - begin < 5s));
}

BOOST_FIXTURE_TEST_CASE(context_ends_at_any_step_of_a_redirected_question, place) {
    auto const name = name_at(1, "ends ");
    int steps = 0;
    for (bool over = false; !over; ++steps) {
        auto own = std::make_unique<asio::io_context>();
        auto const brief = connect(*own);
        weir::shared_token_bucket calls(*own, brief, name, patient);
        visit const guest(calls, 1);
        for (int i = 0; i != steps && guest.waiting(); ++i)
            own->run_one();
        over = guest.over();
        own.reset();
        BOOST_TEST((guest.dropped() || guest.over()));
    }
    BOOST_TEST(steps > 4);
}

BOOST_AUTO_TEST_SUITE_END()
