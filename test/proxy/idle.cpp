#include <weir/seats.hpp>

#include "config/configuration.hpp"
#include "local_proxy.hpp"
#include "net/connection.hpp"
#include "net/resolve.hpp"
#include "net/watchdog.hpp"
#include "proxy/upstream.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/test/unit_test.hpp>

#include <array>
#include <list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

using namespace std::chrono_literals;
using support::get;
using support::local_proxy;
using support::virtual_time;
using support::wire;

namespace {

std::string const with_time_limits = R"(
[timeouts]
idle = "60s"
upstream_idle = "40s"

[[upstream]]
name = "a"
servers = ["UPSTREAM"]

[[route]]
upstream = "a"
upgrade = { to = ["chat"], idle = "50s" }
)";

// The time until the proxy's next timer.
net::clock::duration sleeps(local_proxy& proxy) {
    proxy.settle();
    auto const due = virtual_time::next_due();
    return due == net::clock::time_point::max() ? net::clock::duration::max()
                                                : due - net::clock::now();
}

struct with_a_kept_connection {
    with_a_kept_connection() {
        auto client = proxy.connect();
        BOOST_TEST(proxy.ask(client, get) == 200u);
        client.close();
        proxy.pass(5s);
        BOOST_TEST(proxy.upstream.open() == 1u);
    }
    [[nodiscard]] wire& kept() { return proxy.upstream.connections.back(); }

    local_proxy proxy{with_time_limits};
};

}  // namespace

BOOST_AUTO_TEST_SUITE(connections_without_traffic)

BOOST_AUTO_TEST_CASE(wake_nothing_until_their_limit) {
    local_proxy proxy(with_time_limits);
    BOOST_TEST((sleeps(proxy) == net::clock::duration::max()));
    std::list<wire> clients;
    for (int i = 0; i != 20; ++i)
        BOOST_TEST(proxy.ask(clients.emplace_back(proxy.connect()), get) == 200u);
    proxy.upstream.connections.clear();  // no connection to the upstream is kept
    // A connection whose limit changed may cause one wake-up at the end of the former limit: here at 40 s.
    proxy.pass(5s);
    BOOST_TEST((sleeps(proxy) >= 34s));
    // A connection with a request wakes no other one.
    BOOST_TEST(proxy.ask(clients.front(), get) == 200u);
    proxy.upstream.connections.clear();
    proxy.pass(5s);
    BOOST_TEST((sleeps(proxy) >= 29s));
    proxy.pass(49s);
    for (auto& c : clients)
        BOOST_TEST(!c.ended());
    proxy.pass(1500ms);
    for (auto& c : clients)
        BOOST_TEST(c.ended() == (&c != &clients.front()));
    proxy.pass(5s);
    BOOST_TEST(clients.front().ended());
    BOOST_TEST((sleeps(proxy) == net::clock::duration::max()));
}

BOOST_FIXTURE_TEST_CASE(that_are_kept_wake_nothing_until_their_limit, with_a_kept_connection) {
    BOOST_TEST((sleeps(proxy) >= 34s));
    proxy.pass(34s);
    BOOST_TEST(proxy.upstream.open() == 1u);
    proxy.pass(1s + 2 * net::watchdog::round);
    BOOST_TEST(proxy.upstream.open() == 0u);
    BOOST_TEST((sleeps(proxy) == net::clock::duration::max()));
}

BOOST_FIXTURE_TEST_CASE(that_are_kept_are_closed_as_soon_as_the_server_ends_them,
                        with_a_kept_connection) {
    kept().end();
    proxy.settle();
    BOOST_TEST(kept().ended());
}

BOOST_FIXTURE_TEST_CASE(that_are_kept_are_closed_when_bytes_arrive_without_a_request,
                        with_a_kept_connection) {
    kept().send("HTTP/1.1 408 Request Timeout\r\n\r\n");
    proxy.settle();
    BOOST_TEST(kept().ended());
}

BOOST_FIXTURE_TEST_CASE(that_are_kept_are_reused_repeatedly, with_a_kept_connection) {
    for (auto const pause : {0ms, 10ms, 60ms, 200ms, 10'000ms, 39'000ms}) {
        BOOST_TEST(proxy.ask() == 200u);
        BOOST_TEST(proxy.upstream.connections.size() == 1u);
        proxy.pass(pause);
    }
    kept().end();
    proxy.settle();
    BOOST_TEST(kept().ended());
}

BOOST_FIXTURE_TEST_CASE(that_are_kept_let_the_thread_end, with_a_kept_connection) {
    proxy.worker().drain();
    proxy.settle();
    BOOST_TEST(kept().ended());
    BOOST_TEST(proxy.worker().context().stopped());
}

BOOST_AUTO_TEST_CASE(of_another_protocol_wake_nothing_until_their_limit) {
    local_proxy proxy(with_time_limits);
    proxy.upstream.answer = [](std::string const&) {
        return support::reply{
            "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: chat\r\n\r\n"};
    };
    auto client = proxy.connect();
    BOOST_TEST(proxy.ask(client, "GET / HTTP/1.1\r\nHost: test\r\nConnection: upgrade\r\n"
                                 "Upgrade: chat\r\n\r\n") == 101u);
    auto& server = proxy.upstream.connections.back();
    proxy.upstream.answer = [](std::string const&) { return std::nullopt; };
    for (int i = 0; i != 3; ++i) {
        proxy.pass(5s);
        BOOST_TEST((sleeps(proxy) >= 44s - i * 5s));  // to the limit of the first round
        server.send("hello");
        proxy.settle();
        BOOST_TEST(client.take() == "hello");
    }
    proxy.pass(49s);
    BOOST_TEST(!client.ended());
    proxy.pass(1s + 3 * net::watchdog::round);
    BOOST_TEST(client.ended());
}

BOOST_AUTO_TEST_SUITE_END()

// Two threads' parts of the proxy. In this test they run alternately.
BOOST_AUTO_TEST_SUITE(a_connection_that_another_thread_kept)

namespace {

struct two_threads {
    struct thread {
        explicit thread(proxy::upstream_pool::all& all) : pool(context, dog, all) {}
        boost::asio::io_context context{1};
        net::watchdog dog{context};
        proxy::upstream_pool pool;
    };

    two_threads() { server->configure({}, 1); }

    void settle() {
        for (bool any = true; any;) {
            any = false;
            virtual_time::forget_due();
            for (auto* const one : {&a, &b}) {
                one->context.restart();
                any = one->context.poll() > 0 || any;
            }
            any = upstream.serve() || any;
        }
    }
    void pass(net::clock::duration d) {
        auto const end = net::clock::now() + d;
        for (settle(); virtual_time::next_due() <= end; settle())
            virtual_time::advance_to(virtual_time::next_due());
        virtual_time::advance_to(end);
        settle();
    }
    proxy::upstream_connection open() {
        proxy::upstream_connection made;
        auto const task = [&]() -> net::task<> {
            net::error_code ec;
            proxy::connection_use const use;
            made = co_await a.pool.open(*server, use, 1s, ec);
        };
        boost::asio::co_spawn(a.context, task(), boost::asio::detached);
        settle();
        return made;
    }
    // Whether a request on it gets a response.
    bool answers(net::connection& c, thread& on) {
        std::array<char, 1000> room;
        std::string got;
        auto const task = [&]() -> net::task<> {
            http::gather const text{get};
            static_cast<void>(co_await c.send(text));
            auto const [ec, n] = co_await c.receive(room);
            got.assign(room.data(), n);
        };
        boost::asio::co_spawn(on.context, task(), boost::asio::detached);
        settle();
        return support::status_of(got) == 200u;
    }

    support::temporary_folder folder{"weir-two-threads-"};
    support::local_upstream upstream{folder / "upstream"};
    std::shared_ptr<proxy::upstream_server> server = std::make_shared<proxy::upstream_server>(
        config::server(), std::vector<net::endpoint>{*net::unix_endpoint(folder / "upstream")});
    proxy::upstream_pool::all all;
    thread a{all};
    thread b{all};
};

}  // namespace

BOOST_FIXTURE_TEST_CASE(continues_there, two_threads) {
    for (auto const pause : {0s, 5s}) {  // before and after its first thread awaits its end
        auto made = open();
        BOOST_TEST_REQUIRE(bool(made));
        auto const* const object = &*made;
        BOOST_TEST(answers(*made, a));
        a.pool.keep(std::move(made), 40s);
        pass(pause);
        auto moved = b.pool.reuse(*server);
        BOOST_TEST_REQUIRE(bool(moved));
        BOOST_TEST(&*moved == object);
        BOOST_TEST(answers(*moved, b));
        BOOST_TEST(moved->is_watched());
        {
            net::time_limit const limit(*moved, net::direction::reading, 1s);
            std::array<char, 10> room;
            net::error_code ended;
            auto const task = [&]() -> net::task<> {
                auto const [ec, n] = co_await moved->receive(room);
                ended = ec;
            };
            boost::asio::co_spawn(b.context, task(), boost::asio::detached);
            pass(2s);
            BOOST_TEST((ended == boost::asio::error::operation_aborted));
        }
        b.pool.keep(std::move(moved), 40s);
        pass(5s);
        BOOST_TEST(upstream.open() == 1u);
        upstream.connections.back().end();
        settle();
        BOOST_TEST(upstream.open() == 0u);
    }
}

BOOST_AUTO_TEST_SUITE_END()
