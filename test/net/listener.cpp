#include "net/listener.hpp"

#include "net/resolve.hpp"
#include "support/temporary_folder.hpp"
#include "two_ends.hpp"

#include <boost/asio/executor_work_guard.hpp>
#include <boost/test/unit_test.hpp>

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <list>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace {

namespace asio = net::asio;

// Accepts connections and stores them.
struct listening {
    void open(std::int64_t most) {
        listener.emplace(context, most);
        first = &listener->open(
            net::tcp::endpoint(asio::ip::address_v4::loopback(), 0), "first", {}, 1);
        listener->start({.accepts = context,
                         .next_context = [this]() -> asio::io_context& { return context; },
                         .accepted =
                             [this](net::arrival a) {
                                 sockets.push_back(std::move(a.socket));
                                 came_by.push_back(a.by);
                                 came_from.push_back(a.from);
                                 admissions.push_back(std::move(a.admitted));
                             },
                         .trouble = [this](std::string what) { said.push_back(std::move(what)); }});
    }
    net::listener::acceptor& open_second() {
        auto& second = listener->open(
            net::tcp::endpoint(asio::ip::address_v4::loopback(), 0), "second", {}, 2);
        listener->start(second);
        return second;
    }
    net::endpoint connect() { return connect(first->listens_at()); }
    net::endpoint connect(net::endpoint const& to) {
        auto& client = clients.emplace_back(context);
        client.connect(to);
        return client.local_endpoint();
    }
    // Runs until no operation is pending.
    void run() {
        context.restart();
        context.run();
    }

    // For each handler that accepted connections, their number.
    std::vector<std::size_t> rounds() {
        std::vector<std::size_t> all;
        context.restart();
        for (auto before = sockets.size(); context.poll_one() != 0; before = sockets.size())
            if (sockets.size() != before)
                all.push_back(sockets.size() - before);
        return all;
    }

    asio::io_context context;
    std::optional<net::listener> listener;
    net::listener::acceptor* first = nullptr;
    std::list<net::stream_socket> clients;
    std::list<net::stream_socket> sockets;
    std::vector<net::endpoint> came_from;
    std::vector<std::size_t> came_by;  // the numbers of the sockets
    std::list<net::listener::admission> admissions;
    std::vector<std::string> said;
};

}  // namespace

BOOST_AUTO_TEST_SUITE(listeners)

BOOST_FIXTURE_TEST_CASE(no_more_than_the_maximum_are_accepted, listening) {
    open(2);
    std::vector<net::endpoint> from;
    for (int i = 0; i < 4; ++i)
        from.push_back(connect());
    run();  // ends, because the listener no longer waits for connections
    BOOST_TEST_REQUIRE(admissions.size() == 2);
    BOOST_TEST_REQUIRE(said.size() == 1);
    BOOST_TEST(said[0] == "all 2 connections are in use; new clients wait");

    // Each closed connection lets the listener accept one waiting connection, in order of arrival.
    admissions.pop_front();
    run();
    BOOST_TEST(admissions.size() == 2);
    admissions.clear();
    run_until(context, [&] { return came_from.size() == 4; });
    BOOST_TEST((came_from == from));
    BOOST_TEST(said.size() == 1);  // once a minute
}

BOOST_FIXTURE_TEST_CASE(an_admission_may_end_on_another_thread, listening) {
    open(1);
    connect();
    run();
    connect();
    run();
    BOOST_TEST(came_from.size() == 1);
    std::thread([this] { admissions.clear(); }).join();
    run();
    BOOST_TEST(came_from.size() == 2);
}

BOOST_FIXTURE_TEST_CASE(an_admission_that_was_moved_counts_once, listening) {
    open(1);
    connect();
    run();
    {
        auto moved = std::move(admissions.front());
        admissions.clear();
        connect();
        run();
        BOOST_TEST(came_from.size() == 1);
    }
    run();
    BOOST_TEST(came_from.size() == 2);
}

BOOST_FIXTURE_TEST_CASE(a_closed_listener_accepts_nothing, listening) {
    open(1);
    connect();
    run();
    connect();
    listener->close();
    admissions.clear();
    run();
    BOOST_TEST(came_from.size() == 1);
}

BOOST_FIXTURE_TEST_CASE(closing_ends_pending_operations, listening) {
    open(1);
    context.poll();
    listener->close();
    run();
    BOOST_TEST(came_from.empty());
    BOOST_TEST(said.empty());
}

BOOST_FIXTURE_TEST_CASE(all_sockets_together_accept_no_more_than_the_maximum, listening) {
    open(2);
    auto& second = open_second();
    connect(second.listens_at());
    connect();
    run();
    connect();
    connect(second.listens_at());
    run();
    BOOST_TEST(came_by.size() == 2U);
    admissions.clear();
    run_until(context, [&] { return came_by.size() == 4U; });
    BOOST_TEST(std::ranges::count(came_by, 2U) == 2);
}

BOOST_FIXTURE_TEST_CASE(one_socket_can_be_closed_alone, listening) {
    open(100);
    auto& second = open_second();
    auto const there = second.listens_at();
    context.poll();
    listener->close(second);
    BOOST_TEST(listener->acceptors().size() == 1U);
    BOOST_CHECK_THROW(connect(there), boost::system::system_error);
    connect();
    run_until(context, [&] { return came_by.size() == 1U; });
    BOOST_TEST(came_by[0] == 1U);
    listener->close();
    run();
}

BOOST_FIXTURE_TEST_CASE(a_socket_opened_later_accepts_when_it_is_started, listening) {
    open(100);
    auto& later =
        listener->open(net::tcp::endpoint(asio::ip::address_v4::loopback(), 0), "later", {}, 2);
    connect(later.listens_at());
    connect();
    run_until(context, [&] { return came_by.size() == 1U; });
    context.restart();
    context.poll();
    BOOST_TEST(came_by == std::vector<std::size_t>{1});
    listener->start(later);
    run_until(context, [&] { return came_by.size() == 2U; });
    BOOST_TEST(came_by[1] == 2U);
    listener->close();
    run();
}

BOOST_FIXTURE_TEST_CASE(one_call_accepts_one_connection_unless_many_wait, listening) {
    open(100);
    support::temporary_folder const folder("weir-listener-");
    auto const there = *net::unix_endpoint((folder / "socket").string());
    listener->start(listener->open(there, "local"));
    auto const connect_times = [&](int n) {
        for (int i = 0; i != n; ++i)
            connect(there);
    };
    connect_times(2);
    BOOST_TEST((rounds() == std::vector<std::size_t>{1, 1}));
    connect_times(60);
    BOOST_TEST((rounds() == std::vector<std::size_t>{1, 1, 1, 1, 1, 1, 2, 4, 8, 16, 24}));
    // The last round found the end of the backlog.
    connect_times(2);
    BOOST_TEST((rounds() == std::vector<std::size_t>{1, 1}));
    listener->close();
    run();
}

BOOST_FIXTURE_TEST_CASE(accepted_sockets_send_without_delay, listening) {
    open(100);
    connect();
    run_until(context, [&] { return sockets.size() == 1U; });
    net::tcp::no_delay is{false};
    sockets.front().get_option(is);
    BOOST_TEST(is.value());
    listener->close();
    run();
}

// One thread opens and closes the sockets. Another one accepts until the end.
BOOST_AUTO_TEST_CASE(another_thread_may_accept) {
    asio::io_context context;
    asio::io_context accepting{1};
    auto keeps_running = asio::make_work_guard(accepting);
    net::listener listener(context, 3);
    std::atomic<int> came = 0;
    auto const local = net::tcp::endpoint(asio::ip::address_v4::loopback(), 0);
    auto& first = listener.open(local, "first");
    listener.start({.accepts = accepting,
                    .next_context = [&]() -> asio::io_context& { return accepting; },
                    .accepted = [&](net::arrival) { ++came; },
                    .trouble = [](std::string const&) {}});
    std::thread accepts([&] { accepting.run(); });
    int connected = 0;
    auto const connect = [&](net::endpoint const& to) {
        net::stream_socket client(context);
        client.connect(to);
        ++connected;
    };
    for (int i = 0; i != 20; ++i) {
        auto& second = listener.open(local, "second");
        auto const there = second.listens_at();
        connect(there);
        listener.start(second);
        connect(there);
        connect(first.listens_at());
        auto const end = net::clock::now() + std::chrono::seconds(20);
        while (came != connected && net::clock::now() < end)
            std::this_thread::yield();
        BOOST_TEST_REQUIRE(came == connected);
        listener.close(second);
    }
    listener.close();
    keeps_running.reset();
    accepts.join();
}

BOOST_FIXTURE_TEST_CASE(a_unix_socket_can_be_opened, listening) {
    open(100);
    support::temporary_folder const folder("weir-listener-");
    auto const path = (folder / "socket").string();
    auto const at = *net::unix_endpoint(path);
    {
        // The file that a crashed program left.
        net::stream_acceptor left(context, at);
    }
    BOOST_TEST(::access(path.c_str(), F_OK) == 0);
    auto& local = listener->open(at, "local", {}, 2);
    listener->start(local);
    BOOST_CHECK_THROW(listener->open(at, "again"), boost::system::system_error);
    connect(local.listens_at());
    run_until(context, [&] { return !came_by.empty(); });
    BOOST_TEST(came_by[0] == 2U);
    BOOST_TEST(!net::tcp_endpoint(came_from[0]).has_value());
    listener->close(local);
    BOOST_TEST(::access(path.c_str(), F_OK) != 0);
    listener->close();
    run();
}

BOOST_FIXTURE_TEST_CASE(a_socket_opened_elsewhere_can_be_adopted, listening) {
    open(100);
    net::tcp_acceptor elsewhere(context, {asio::ip::address_v4::loopback(), 0});
    auto const there = elsewhere.local_endpoint();
    auto& acceptor = listener->adopt(elsewhere.release(), "inherited", 2);
    listener->start(acceptor);
    BOOST_TEST((acceptor.listens_at() == net::endpoint(there)));
    connect(there);
    run_until(context, [&] { return came_by.size() == 1U; });
    BOOST_TEST(came_by[0] == 2U);
    listener->close();
    run();
}

BOOST_AUTO_TEST_SUITE_END()
