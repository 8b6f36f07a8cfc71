#include "local_proxy.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <list>
#include <map>
#include <string>
#include <utility>
#include <vector>

using namespace std::chrono_literals;
using support::field_of;
using support::get;
using support::local_proxy;
using support::ok;
using support::status_of;

namespace {

std::string limited(std::string const& limits, std::string const& names) {
    return support::forwards + "limits = [" + names + "]\n" + limits;
}
std::string limit(std::string const& name, std::string const& rule, std::string const& queue,
                  std::string const& more = "") {
    return "[[limit]]\nname = \"" + name + "\"\nrule = \"" + rule + "\"\nqueue = \"" + queue +
           "\"\n" + more + "\n";
}

using times = std::vector<net::clock::time_point>;

// Whether each time span of `window` has at most `most` requests.
bool keeps_to(times const& came, std::size_t most, net::clock::duration window) {
    for (std::size_t i = most; i < came.size(); ++i)
        if (came[i] - came[i - most] < window)
            return false;
    return true;
}

// Clients that send the next request immediately after a response, or some time after a rejection.
struct crowd {
    struct one {
        support::wire connection;
        std::string name;
        net::clock::time_point asks_at;
        bool asks = false;
    };

    crowd(local_proxy& p, int clients, int names) : proxy(p) {
        for (int i = 0; i != clients; ++i) {
            auto const name = "10.0.0." + std::to_string(1 + i % names);
            all.push_back({proxy.connect(name), name, net::clock::now()});
        }
        proxy.upstream.answer = [this](std::string const& request) {
            came[field_of(request, "X-Forwarded-For")].push_back(net::clock::now());
            return ok();
        };
    }
    void ask_for(net::clock::duration d) {
        for (auto const end = net::clock::now() + d; net::clock::now() < end; proxy.pass(1ms)) {
            for (auto& client : all) {
                if (client.asks) {
                    auto const status = status_of(client.connection.take());
                    ++answers[status];
                    client.asks = status == 0;
                    if (status == 429)
                        client.asks_at = net::clock::now() + 20ms;
                }
                if (!client.asks && net::clock::now() >= client.asks_at) {
                    client.connection.send(get);
                    client.asks = true;
                }
            }
        }
    }

    local_proxy& proxy;
    std::list<one> all;
    std::map<std::string, times> came;
    std::map<unsigned, int> answers;
};

times together(std::map<std::string, times> const& came) {
    times all;
    for (auto const& [name, some] : came)
        all.insert(all.end(), some.begin(), some.end());
    std::ranges::sort(all);
    return all;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(the_upstream)

// Nor does it get less than the rate.
BOOST_AUTO_TEST_CASE(gets_no_more_than_the_rate_in_any_window) {
    local_proxy proxy(limited(limit("rate", "20/400ms", "patience 200ms"), "\"rate\""));
    crowd clients(proxy, 12, 1);
    clients.ask_for(4s);
    auto const came = together(clients.came);
    BOOST_TEST(keeps_to(came, 20, 400ms));
    BOOST_TEST(came.size() >= 200u - 12u);
    BOOST_TEST(clients.answers[429] > 0);
    BOOST_TEST(clients.answers[200] >= 180);
}

BOOST_AUTO_TEST_CASE(gets_no_more_than_the_rate_of_each_client) {
    local_proxy proxy(
        limited(limit("rate", "10/400ms", "patience 20s", "key = \"client\"\n"), "\"rate\""));
    crowd clients(proxy, 9, 3);
    clients.ask_for(4s);
    BOOST_TEST(clients.came.size() == 3u);
    for (auto const& [name, came] : clients.came) {
        BOOST_TEST(keeps_to(came, 10, 400ms));
        BOOST_TEST(came.size() >= 100u - 3u);
    }
}

// At first the seats are the bottleneck: unused tokens must not accumulate meanwhile.
BOOST_AUTO_TEST_CASE(gets_no_more_than_two_limits_together_grant) {
    local_proxy proxy(limited(
        limit("seats", "2 seats", "patience 20s") + limit("rate", "10/500ms", "patience 20s"),
        "\"seats\", \"rate\""));
    proxy.upstream.answer = nullptr;
    std::list<support::wire> clients;
    for (int i = 0; i != 40; ++i) {
        clients.push_back(proxy.connect());
        BOOST_TEST(proxy.ask(clients.back(), get) == 0u);
    }
    BOOST_TEST(proxy.upstream.connections.size() == 2u);
    proxy.pass(800ms);
    BOOST_TEST(proxy.upstream.connections.size() == 2u);
    for (auto& one : proxy.upstream.connections) {
        BOOST_TEST(one.take() != "");
        one.send(ok().text);
    }
    times came;
    proxy.upstream.answer = [&](std::string const&) {
        came.push_back(net::clock::now());
        return ok();
    };
    proxy.pass(5s);
    BOOST_TEST(came.size() == 38u);
    BOOST_TEST(keeps_to(came, 10, 500ms));
    BOOST_TEST((came.back() - came.front() == 1500ms));
    BOOST_TEST(proxy.upstream.connections.size() == 2u);
}

BOOST_AUTO_TEST_CASE(that_was_not_reached_costs_no_token) {
    local_proxy proxy(
        limited(limit("rate", "1/60s", "patience 0s") + limit("seats", "5 seats", "patience 0s"),
                "\"rate\", \"seats\""));
    proxy.upstream.stop();
    for (int i = 0; i != 3; ++i)
        BOOST_TEST(proxy.ask() == 502u);
    for (auto const& l : proxy.plan().limits)
        BOOST_TEST(l->stats().in_use == 0);
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(a_client)

BOOST_AUTO_TEST_CASE(waits_until_its_patience_ends) {
    local_proxy proxy(
        limited(limit("seats", "1 seats", "max_waiting 1 patience 300ms"), "\"seats\""));
    proxy.upstream.answer = nullptr;
    auto holder = proxy.connect();
    auto waiter = proxy.connect();
    auto third = proxy.connect();
    BOOST_TEST(proxy.ask(holder, get) == 0u);
    BOOST_TEST(proxy.ask(waiter, get) == 0u);
    third.send(get);
    proxy.settle();
    auto const full = third.take();
    BOOST_TEST(status_of(full) == 503u);
    BOOST_TEST(field_of(full, "Retry-After") == "1");
    BOOST_TEST(full.find("queue") != full.npos);
    proxy.pass(299ms);
    BOOST_TEST(waiter.look() == "");
    proxy.pass(2ms);  // a limiter is at most a millisecond late
    auto const late = waiter.take();
    BOOST_TEST(status_of(late) == 503u);
    BOOST_TEST(late.find("in time") != late.npos);
    // Each of these connections can carry another request.
    proxy.upstream.answer = [](std::string const&) { return ok(); };
    proxy.settle();
    BOOST_TEST(status_of(holder.take()) == 200u);
    for (auto* const one : {&holder, &waiter, &third})
        BOOST_TEST(proxy.ask(*one, get) == 200u);
}

BOOST_AUTO_TEST_CASE(that_is_rejected_gets_the_time_to_retry) {
    local_proxy proxy(limited(limit("rate", "1/30s", "patience 0s"), "\"rate\""));
    auto client = proxy.connect();
    BOOST_TEST(proxy.ask(client, get) == 200u);
    proxy.pass(700ms);
    client.send(get);
    proxy.settle();
    auto const rejected = client.take();
    BOOST_TEST(status_of(rejected) == 429u);
    BOOST_TEST(field_of(rejected, "Retry-After") == "30");
    proxy.pass(29299ms);
    BOOST_TEST(proxy.ask(client, get) == 429u);
    proxy.pass(1ms);
    BOOST_TEST(proxy.ask(client, get) == 200u);
}

// It leaves immediately, not at its grant time, even if it has sent its next request.
BOOST_AUTO_TEST_CASE(that_disconnects_leaves_the_queue) {
    for (bool const has_sent_more : {false, true}) {
        BOOST_TEST_CONTEXT("has sent more: " << has_sent_more) {
            local_proxy proxy(limited(limit("seats", "1 seats", "patience 60s"), "\"seats\""));
            proxy.upstream.answer = nullptr;
            auto holder = proxy.connect();
            BOOST_TEST(proxy.ask(holder, get) == 0u);
            std::list<support::wire> waiters;
            for (int i = 0; i != 5; ++i) {
                waiters.push_back(proxy.connect());
                BOOST_TEST(proxy.ask(waiters.back(), "GET /never HTTP/1.1\r\nHost: test\r\n\r\n") ==
                           0u);
            }
            auto const& seats = *proxy.plan().limits.front();
            BOOST_TEST(seats.stats().waiting == 5u);
            for (auto& one : waiters) {
                if (has_sent_more)
                    one.send(get);
                one.close();
            }
            proxy.pass(has_sent_more ? net::watchdog::round : 0ms);
            BOOST_TEST(seats.stats().waiting == 0u);
            BOOST_TEST(seats.stats().in_use == 1);
            proxy.upstream.answer = [](std::string const&) { return ok(); };
            proxy.settle();
            BOOST_TEST(status_of(holder.take()) == 200u);
            BOOST_TEST(proxy.upstream.requests.size() == 1u);
        }
    }
}

// A client that closed only its sending side gets a response.
BOOST_AUTO_TEST_CASE(that_closes_its_sending_side_is_rejected_while_it_waits) {
    local_proxy proxy(limited(limit("seats", "1 seats", "patience 60s"), "\"seats\""));
    proxy.upstream.answer = nullptr;
    auto holder = proxy.connect();
    BOOST_TEST(proxy.ask(holder, get) == 0u);
    auto waiter = proxy.connect();
    waiter.send(get);
    waiter.end();
    proxy.settle();
    BOOST_TEST(status_of(waiter.take()) == 503u);
    BOOST_TEST(proxy.plan().limits.front()->stats().waiting == 0u);
}

BOOST_AUTO_TEST_CASE(uses_no_permit_of_all_clients_if_its_own_limit_rejects_it) {
    local_proxy proxy(limited(limit("own", "1/60s", "patience 0s", "key = \"client\"\n") +
                                  limit("all", "3/60s", "patience 0s"),
                              "\"own\", \"all\""));
    for (int i = 0; i != 5; ++i)
        BOOST_TEST(proxy.ask("10.0.0.1") == (i == 0 ? 200u : 429u));
    BOOST_TEST(proxy.ask("10.0.0.2") == 200u);
    BOOST_TEST(proxy.ask("10.0.0.3") == 200u);
    BOOST_TEST(proxy.ask("10.0.0.4") == 429u);
    proxy.pass(60s);
    BOOST_TEST(proxy.ask("10.0.0.4") == 200u);  // the rejection used no permit of the client
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(a_reload)

namespace {

// Whether a limit whose only token was used keeps that state across a reload.
bool remembers(std::string const& before, std::string const& after) {
    auto const of = [](std::string const& more) {
        return limited("[[limit]]\nname = \"rate\"\n" + more, "\"rate\"");
    };
    local_proxy proxy(of(before));
    BOOST_TEST(proxy.ask() == 200u);
    BOOST_TEST(proxy.ask() == 429u);
    proxy.reload(of(after));
    return proxy.ask() == 429u;
}

std::string const base = "rule = \"1/60s\"\nqueue = \"patience 0s\"\n";

}  // namespace

BOOST_AUTO_TEST_CASE(keeps_the_state_of_a_limit) {
    BOOST_TEST(remembers(base, base));
    BOOST_TEST(remembers(base, "rule = \"1/50s\"\nqueue = \"patience 0s max_waiting 5\"\n"));
    auto const keyed = base + "key = \"client\"\n";
    BOOST_TEST(remembers(keyed, keyed));
}

BOOST_AUTO_TEST_CASE(starts_a_limit_of_another_kind_afresh) {
    auto const keyed = base + "key = \"client\"\n";
    BOOST_TEST(!remembers(base, keyed));
    BOOST_TEST(!remembers(keyed, keyed + "max_keys = 5\n"));
    BOOST_TEST(!remembers(keyed, keyed + "v4_prefix = 24\n"));
    BOOST_TEST(!remembers(base, "rule = \"1/60s bucket\"\nqueue = \"patience 0s\"\n"));
    BOOST_TEST(!remembers(base, "rule = \"1/60s\"\nqueue = \"patience 0s order lifo\"\n"));
}

BOOST_AUTO_TEST_CASE(holds_for_the_next_request) {
    local_proxy proxy(limited(limit("rate", "1/60s", "patience 0s"), "\"rate\""));
    auto client = proxy.connect();
    BOOST_TEST(proxy.ask(client, get) == 200u);
    proxy.reload(limited(limit("rate", "2/60s", "patience 0s"), "\"rate\""));
    BOOST_TEST(proxy.ask(client, get) == 200u);
    BOOST_TEST(proxy.ask(client, get) == 429u);
    proxy.reload(limited(limit("rate", "2/60s", "patience 0s", "dry_run = true\n"), "\"rate\""));
    BOOST_TEST(proxy.ask(client, get) == 200u);
}

// Neither twenty reloads nor a change of another limit of the chain grants an extra request, or loses one.
BOOST_AUTO_TEST_CASE(exceeds_no_limit) {
    auto const with = [](int seats) {
        return limited(
            limit("seats", std::to_string(seats) + " seats", "max_waiting 100 patience 20s") +
                limit("rate", "40/400ms", "max_waiting 100 patience 20s") +
                limit("client", std::to_string(seats + 90) + "/1s burst 100",
                      "max_waiting 100 patience 20s", "key = \"client\"\n"),
            "\"seats\", \"rate\", \"client\"");
    };
    local_proxy proxy(with(8));
    crowd clients(proxy, 16, 2);
    for (int i = 0; i != 20; ++i) {
        clients.ask_for(100ms);
        proxy.reload(with(i % 2 == 0 ? 12 : 8));
    }
    auto const came = together(clients.came);
    BOOST_TEST(keeps_to(came, 40, 400ms));
    BOOST_TEST(came.size() >= 200u - 16u);
    proxy.pass(20s);
    clients.answers.erase(0);  // no response yet
    BOOST_TEST(clients.answers.size() == 1u);
    BOOST_TEST(clients.answers[200] >= 200 - 16 - 16);
    for (auto const& l : proxy.plan().limits)
        BOOST_TEST(l->stats().waiting == 0);
}

BOOST_AUTO_TEST_SUITE_END()
