#include "net/listener.hpp"

#include "two_ends.hpp"

#include <boost/test/unit_test.hpp>

#include <list>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace {

namespace asio = net::asio;

// Lets clients in, and keeps what it gets.
struct listening {
    void open(std::int64_t most) {
        listener.emplace(context, net::tcp::endpoint(asio::ip::address_v4::loopback(), 0), most);
        listener->start({.next_context = [this]() -> asio::io_context& { return context; },
                         .accepted =
                             [this](net::tcp_socket socket, net::tcp::endpoint from,
                                    net::listener::admission a) {
                                 sockets.push_back(std::move(socket));
                                 came_from.push_back(from);
                                 admissions.push_back(std::move(a));
                             },
                         .trouble = [this](std::string what) { said.push_back(std::move(what)); }});
    }
    net::tcp::endpoint connect() {
        auto& client = clients.emplace_back(context);
        client.connect(listener->listens_at());
        return client.local_endpoint();
    }
    // Until there is nothing to wait for.
    void run() {
        context.restart();
        context.run();
    }

    asio::io_context context;
    std::optional<net::listener> listener;
    std::list<net::tcp_socket> clients;
    std::list<net::tcp_socket> sockets;
    std::vector<net::tcp::endpoint> came_from;
    std::list<net::listener::admission> admissions;
    std::vector<std::string> said;
};

}  // namespace

BOOST_AUTO_TEST_SUITE(listeners)

BOOST_FIXTURE_TEST_CASE(no_more_than_the_most_are_let_in, listening) {
    open(2);
    std::vector<net::tcp::endpoint> from;
    for (int i = 0; i < 4; ++i)
        from.push_back(connect());
    run();  // ends, since none is accepted any more
    BOOST_TEST_REQUIRE(admissions.size() == 2);
    BOOST_TEST_REQUIRE(said.size() == 1);
    BOOST_TEST(said[0].starts_with("2 connections are open, which is the most that is allowed"));

    // Those who wait come in when others leave, one for one, and in their order.
    admissions.pop_front();
    run();
    BOOST_TEST(admissions.size() == 2);
    admissions.clear();
    run_until(context, [&] { return came_from.size() == 4; });
    BOOST_TEST((came_from == from));
    BOOST_TEST(said.size() == 1);  // once in a minute
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

BOOST_FIXTURE_TEST_CASE(nobody_comes_in_once_it_is_closed, listening) {
    open(1);
    connect();
    run();
    connect();
    listener->close();
    admissions.clear();
    run();
    BOOST_TEST(came_from.size() == 1);
}

BOOST_FIXTURE_TEST_CASE(closing_ends_what_it_waits_for, listening) {
    open(1);
    context.poll();
    listener->close();
    run();
    BOOST_TEST(came_from.empty());
    BOOST_TEST(said.empty());
}

BOOST_AUTO_TEST_SUITE_END()
