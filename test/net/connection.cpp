#include "net/connection.hpp"

#include "support/reserved_port.hpp"
#include "two_ends.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <tuple>
#include <utility>

namespace {

namespace asio = net::asio;
using net::direction;
using net::presence;
using namespace std::chrono_literals;

struct connected : two_ends {
    connected() { connection.no_delay(); }

    void wait_until_here_is(presence what) {
        run_until(context, [&] { return connection.other_side() == what; });
    }
    void wait_for_input() {
        run_until(context, [&] { return connection.has_input(); });
    }
    // The bytes and the result of one receive.
    std::pair<net::error_code, std::string> receive() {
        std::array<char, 100> room;
        std::pair<net::error_code, std::string> result;
        bool done = false;
        start_to_receive(room, [&](net::error_code ec, std::size_t n) {
            result = {ec, std::string(room.data(), n)};
            done = true;
        });
        run_until(context, [&] { return done; });
        return result;
    }
    void end_output() {
        bool done = false;
        asio::co_spawn(
            context,
            [](net::connection& c, bool& ended) -> net::task<> {
                BOOST_TEST(!co_await c.end_output());
                ended = true;
            }(connection, done),
            asio::detached);
        run_until(context, [&] { return done; });
    }
    template <class F>
    void start_to_receive(std::span<char> room, F f) {
        asio::co_spawn(
            context,
            [](net::connection& c, std::span<char> into, F then) -> net::task<> {
                auto const [ec, n] = co_await c.receive(into);
                then(ec, n);
            }(connection, room, std::move(f)),
            asio::detached);
    }

    net::watchdog dog{context};
    net::connection connection{std::move(mine), dog};
};

// A server on its own port, a port without a listener, or a port with a full backlog, where connections wait forever.
enum class kind : std::uint8_t { open, closed, silent };

struct one_port {
    one_port(asio::io_context& context, kind what) : acceptor(context) {
        acceptor.open(net::tcp::v4());
        acceptor.set_option(net::tcp_acceptor::reuse_address(true));
        acceptor.bind({asio::ip::address_v4::loopback(), port.number()});
        at = acceptor.local_endpoint();
        if (what == kind::open)
            acceptor.listen();
        if (what != kind::silent)
            return;
        acceptor.listen(0);
        for (int i = 0; i != 3; ++i) {  // its backlog is full
            crowd.emplace_back(context).async_connect(at, [](net::error_code) {});
        }
    }

    // Whether a connection arrived; closes it.
    bool took_one() {
        net::error_code ec;
        acceptor.non_blocking(true);
        static_cast<void>(acceptor.accept(ec));
        return !ec;
    }

    support::reserved_port port;  // closed ports, too, belong to this test
    net::tcp_acceptor acceptor;
    std::vector<net::stream_socket> crowd;
    net::endpoint at;
};

// An encryption whose handshake ends at once with `ec`, or never (`would_block`).
struct only_a_handshake final : net::channel {
    explicit only_a_handshake(net::error_code how) : ec(how) {}
    result shake_hands() override { return {.ec = ec}; }
    agreement agreed() const override { return {}; }
    result read(std::span<char>) override { return {.ec = asio::error::eof}; }
    result write(http::gather const&) override { return {.ec = asio::error::eof}; }
    bool has_input() const override { return false; }
    result end_output() override { return {}; }

    net::error_code const ec;
};

struct several_ports {
    net::error_code connect(net::server_endpoints& to, net::clock::duration limit = 10s) {
        net::error_code outcome;
        bool done = false;
        auto const attempt = [&]() -> net::task<> {
            auto const one = co_await to.connect(context, dog, limit, how, outcome);
            BOOST_TEST((one == nullptr) == bool(outcome));
            done = true;
        };
        asio::co_spawn(context, attempt(), asio::detached);
        run_until(context, [&] { return done; });
        return outcome;
    }

    asio::io_context context;
    net::watchdog dog{context};
    net::opening how;
    one_port closed{context, kind::closed};
    one_port good{context, kind::open};
};

}  // namespace

BOOST_AUTO_TEST_SUITE(connections)

BOOST_FIXTURE_TEST_CASE(use_the_first_endpoint_that_accepts, several_ports) {
    one_port other{context, kind::open};
    net::server_endpoints both({good.at, other.at});
    BOOST_TEST(!connect(both));
    BOOST_TEST(good.took_one());

    net::server_endpoints second({closed.at, good.at, other.at});
    BOOST_TEST(!connect(second));
    BOOST_TEST(good.took_one());
    closed.acceptor.listen();  // no effect: the next attempt starts with the endpoint found before
    BOOST_TEST(!connect(second));
    BOOST_TEST(good.took_one());
    good.acceptor.close();  // the first endpoint follows the last
    BOOST_TEST(!connect(second));
    BOOST_TEST(other.took_one());
    other.acceptor.close();
    BOOST_TEST(!connect(second));
    BOOST_TEST(closed.took_one());
}

BOOST_FIXTURE_TEST_CASE(fail_when_no_endpoint_accepts, several_ports) {
    net::server_endpoints none({closed.at, closed.at});
    BOOST_TEST((connect(none) == asio::error::connection_refused));
}

BOOST_FIXTURE_TEST_CASE(leave_time_for_the_other_endpoints, several_ports) {
    one_port silent{context, kind::silent};
    net::error_code failed = asio::error::timed_out;
    for (auto limit = 400ms; failed && limit < 20s; limit *= 2) {  // a busy machine needs longer
        net::server_endpoints second({silent.at, good.at});
        failed = connect(second, limit);
    }
    BOOST_TEST(!failed);
    BOOST_TEST(good.took_one());
    net::server_endpoints none({silent.at, silent.at});
    BOOST_TEST((connect(none, 400ms) == asio::error::timed_out));
}

BOOST_FIXTURE_TEST_CASE(that_are_not_needed_any_more_are_given_up, several_ports) {
    one_port silent{context, kind::silent};
    net::server_endpoints two({silent.at, good.at});
    int asked = 0;
    how.is_over = [&] { return ++asked > 2; };
    BOOST_TEST((connect(two, 1h) == asio::error::operation_aborted));
    BOOST_TEST(!good.took_one());
}

BOOST_FIXTURE_TEST_CASE(an_endpoint_accepts_if_its_handshake_succeeds, several_ports) {
    one_port other{context, kind::open};
    std::vector<net::error_code> outcomes;  // of the next handshakes, the last one first
    how.encrypt = [&](int) {
        auto const ec = outcomes.back();
        outcomes.pop_back();
        return std::make_unique<only_a_handshake>(ec);
    };
    net::server_endpoints both({good.at, other.at});
    outcomes = {{}, asio::error::eof};
    BOOST_TEST(!connect(both));
    BOOST_TEST(good.took_one());
    BOOST_TEST(other.took_one());
    outcomes = {{}};  // the next attempt starts with the endpoint found before
    BOOST_TEST(!connect(both));
    BOOST_TEST(other.took_one());
    outcomes = {asio::error::eof, asio::error::eof};
    BOOST_TEST((connect(both) == asio::error::eof));
    outcomes = {asio::error::would_block, asio::error::would_block};
    BOOST_TEST((connect(both, 200ms) == asio::error::timed_out));
    BOOST_TEST(outcomes.empty());
}

// A name often has an address at which the server does not listen, such as `::1` of `localhost`.
BOOST_FIXTURE_TEST_CASE(a_failed_handshake_tells_more_than_an_endpoint_without_a_server,
                        several_ports) {
    one_port silent{context, kind::silent};
    std::vector<net::error_code> outcomes;
    how.encrypt = [&](int) {
        auto const ec = outcomes.back();
        outcomes.pop_back();
        return std::make_unique<only_a_handshake>(ec);
    };
    for (auto const& list : {net::server_endpoints::list{good.at, closed.at},
                             {closed.at, good.at},
                             {closed.at, good.at, closed.at}}) {
        net::server_endpoints all(list);
        outcomes = {asio::error::no_recovery};
        BOOST_TEST((connect(all) == asio::error::no_recovery));
    }
    net::server_endpoints none({closed.at, silent.at, closed.at});
    BOOST_TEST((connect(none, 600ms) == asio::error::connection_refused));
    one_port other{context, kind::open};
    net::server_endpoints two({good.at, other.at});
    outcomes = {asio::error::no_recovery, asio::error::eof};
    BOOST_TEST((connect(two) == asio::error::no_recovery));
}

BOOST_FIXTURE_TEST_CASE(an_introduction_comes_before_the_handshake, several_ports) {
    how.introduction = "PROXY";
    bool shakes_hands = false;
    how.encrypt = [&](int) {
        shakes_hands = true;
        return std::make_unique<only_a_handshake>(net::error_code());
    };
    net::server_endpoints one({good.at});
    BOOST_TEST(!connect(one));
    BOOST_TEST(shakes_hands);
    auto there = good.acceptor.accept();
    std::string got;
    net::error_code end;
    net::asio::read(there, net::asio::dynamic_buffer(got), end);
    BOOST_TEST(got == "PROXY");
}

BOOST_FIXTURE_TEST_CASE(the_other_side_is_here, connected) {
    BOOST_TEST((connection.other_side() == presence::here));
    BOOST_TEST(!connection.has_input());
    they_send("x");
    wait_for_input();
    BOOST_TEST((connection.other_side() == presence::here));
}

BOOST_FIXTURE_TEST_CASE(an_end_is_detected_behind_unread_bytes, connected) {
    they_send("unread");
    they_end_their_half();
    wait_until_here_is(presence::ended);
    BOOST_TEST(connection.has_input());
    BOOST_TEST(receive().second == "unread");
    BOOST_TEST(!connection.has_input());
    BOOST_TEST((receive().first == asio::error::eof));
    BOOST_TEST((connection.other_side() == presence::ended));
}

BOOST_FIXTURE_TEST_CASE(a_reset_is_detected_behind_unread_bytes, connected) {
    they_send("unread");
    wait_for_input();
    they_reset();
    wait_until_here_is(presence::gone);
}

BOOST_FIXTURE_TEST_CASE(the_other_side_still_reads_after_its_end_of_output, connected) {
    they_end_their_half();
    wait_until_here_is(presence::ended);
    http::gather text{"ans", "wer"};
    net::error_code ec;
    BOOST_TEST(connection.send_now(text, ec));
    BOOST_TEST(!ec);
    connection.close();
    BOOST_TEST(they_read(ec) == "answer");
    BOOST_TEST((ec == asio::error::eof));
}

BOOST_FIXTURE_TEST_CASE(a_connection_is_gone_when_both_sides_ended, connected) {
    they_end_their_half();
    wait_until_here_is(presence::ended);
    end_output();
    wait_until_here_is(presence::gone);
}

BOOST_FIXTURE_TEST_CASE(the_end_of_its_output_leaves_its_input_open, connected) {
    end_output();
    net::error_code ec;
    BOOST_TEST(they_read(ec).empty());
    BOOST_TEST((ec == asio::error::eof));
    they_send("late");
    BOOST_TEST(receive().second == "late");
}

BOOST_FIXTURE_TEST_CASE(a_closed_connection_is_gone, connected) {
    connection.close();
    BOOST_TEST((connection.other_side() == presence::gone));
}

BOOST_FIXTURE_TEST_CASE(a_reset_is_an_error_and_not_an_end, connected) {
    connection.reset();
    net::error_code ec;
    they_read(ec);
    BOOST_TEST((ec == asio::error::connection_reset));
}

BOOST_FIXTURE_TEST_CASE(send_now_leaves_bytes_that_the_socket_does_not_accept, connected) {
    // More bytes than any buffer holds, in distinct pieces.
    std::vector<std::string> pieces;
    for (char c = 'a'; c <= 'd'; ++c)
        pieces.emplace_back(8'000'000, c);
    http::gather rest(pieces.begin(), pieces.end());
    net::error_code ec;
    BOOST_REQUIRE(!connection.send_now(rest, ec));
    BOOST_TEST(!ec);
    BOOST_REQUIRE(!rest.empty());
    std::size_t left = 0;
    for (auto const& piece : rest)
        left += piece.size();
    BOOST_TEST(left < 32'000'000);
    BOOST_TEST(rest.back().size() == 8'000'000);

    // No byte is lost or sent twice.
    std::string read;
    std::thread reader([&] {
        net::error_code end;
        read = they_read(end);
    });
    bool sent = false;
    asio::co_spawn(
        context,
        [](net::connection& c, http::gather what, bool& done) -> net::task<> {
            BOOST_TEST(!co_await c.send(what));
            done = true;
        }(connection, rest, sent),
        asio::detached);
    run_until(context, [&] { return sent; });
    connection.close();
    reader.join();
    BOOST_TEST((read == pieces[0] + pieces[1] + pieces[2] + pieces[3]));
}

// Also for a socket from another context: its thread serves other connections meanwhile.
BOOST_FIXTURE_TEST_CASE(a_full_socket_does_not_block_the_thread, two_ends) {
    asio::io_context another;
    net::watchdog dog(another);
    mine.non_blocking(true);
    net::connection connection(net::move_to(another, std::move(mine)), dog);
    std::string const text(1'000'000, 'x');
    net::error_code ec;
    std::size_t left = 0;
    do {
        http::gather what{text};
        BOOST_REQUIRE(!(connection.send_now(what, ec) && ec));
        left = what.empty() ? 0 : what.front().size();
    } while (left < text.size());
    BOOST_TEST(!ec);
}

BOOST_FIXTURE_TEST_CASE(a_send_to_a_closed_connection_ends_with_an_error, connected) {
    they_reset();
    wait_until_here_is(presence::gone);
    http::gather text{"x"};
    net::error_code ec;
    BOOST_TEST(connection.send_now(text, ec));
    BOOST_TEST(bool(ec));
}

BOOST_FIXTURE_TEST_CASE(a_silent_connection_has_no_bytes_and_no_end, connected) {
    BOOST_TEST(connection.is_silent());
    they_send("x");
    run_until(context, [&] { return !connection.is_silent(); });
    BOOST_TEST(receive().second == "x");
    BOOST_TEST(connection.is_silent());
    they_end_their_half();
    run_until(context, [&] { return !connection.is_silent(); });
}

BOOST_FIXTURE_TEST_CASE(receives_without_a_wait, connected) {
    std::array<char, 10> room{};
    net::error_code ec;
    BOOST_TEST(connection.receive_now(room, ec) == 0u);
    BOOST_TEST((ec == asio::error::would_block));
    they_send("hello");
    wait_for_input();
    BOOST_TEST(connection.receive_now(room, ec) == 5u);
    BOOST_TEST(!ec);
    they_end_their_half();
    wait_until_here_is(presence::ended);
    BOOST_TEST(connection.receive_now(room, ec) == 0u);
    BOOST_TEST((ec == asio::error::eof));
}

BOOST_FIXTURE_TEST_CASE(can_move_to_another_context, connected) {
    asio::io_context another;
    net::watchdog its_dog{another};
    net::error_code before;
    connection.wait(net::stream_socket::wait_read, [&](net::error_code ec) { before = ec; });
    connection.rest();
    connection.move_to(another);
    its_dog.add(connection);
    run_until(context, [&] { return bool(before); });
    BOOST_TEST((before == asio::error::operation_aborted));

    net::time_limit const limit(connection, direction::reading, 0s);
    run_until(another, [&] { return connection.expired(direction::reading); });
    connection.forgive(direction::reading);
    they_send("hello");
    bool there = false;
    connection.wait(net::stream_socket::wait_read, [&](net::error_code) { there = true; });
    run_until(another, [&] { return there; });
    connection.leave();
    connection.move_to(context);  // which outlives the connection
}

BOOST_FIXTURE_TEST_CASE(a_resting_connection_is_not_watched, connected) {
    {
        net::time_limit const limit(connection, direction::reading, 0s);
        run_until(context, [&] { return connection.expired(direction::reading); });
    }
    connection.rest();
    BOOST_TEST(!connection.expired(direction::reading));
    BOOST_TEST(!connection.is_watched());
}

BOOST_FIXTURE_TEST_CASE(an_operation_that_exceeds_its_limit_is_cancelled, connected) {
    net::error_code outcome;
    std::array<char, 10> room;
    {
        net::time_limit const limit(connection, direction::reading, 0s);
        start_to_receive(room, [&](net::error_code ec, std::size_t) { outcome = ec; });
        run_until(context, [&] { return bool(outcome); });
    }
    BOOST_TEST((outcome == asio::error::operation_aborted));
    BOOST_TEST(connection.expired(direction::reading));
    BOOST_TEST(!connection.expired(direction::writing));
    connection.forgive(direction::reading);
    BOOST_TEST(!connection.expired(direction::reading));
    they_send("still open");
    BOOST_TEST(receive().second == "still open");
}

BOOST_FIXTURE_TEST_CASE(an_exceeded_limit_cancels_later_operations, connected) {
    net::time_limit const limit(connection, direction::reading, 0s);
    run_until(context, [&] { return connection.expired(direction::reading); });
    BOOST_TEST((receive().first == asio::error::operation_aborted));
}

// The exceeded limit of a second connection proves that the watchdog called `look` for all.
struct with_another : connected {
    two_ends more;
    net::connection another{net::move_to(context, std::move(more.mine)), dog};

    void rounds_pass() {
        net::time_limit const limit(another, direction::reading, 0s);
        run_until(context, [&] { return another.expired(direction::reading); });
        another.forgive(direction::reading);
    }
};

BOOST_FIXTURE_TEST_CASE(a_limit_ends_with_its_scope, with_another) {
    { net::time_limit const limit(connection, direction::writing, 0s); }
    rounds_pass();
    BOOST_TEST(!connection.expired(direction::writing));
}

BOOST_FIXTURE_TEST_CASE(a_restarted_limit_has_another_length, with_another) {
    net::time_limit const limit(connection, direction::reading, 0s);
    connection.restart(direction::reading, 1h);
    connection.restart(direction::writing, 0s);  // no limit runs in this direction
    rounds_pass();
    BOOST_TEST(!connection.expired(direction::reading));
    BOOST_TEST(!connection.expired(direction::writing));
    connection.restart(direction::reading, 0s);
    run_until(context, [&] { return connection.expired(direction::reading); });
}

BOOST_FIXTURE_TEST_CASE(stop_if_idle_stops_only_an_idle_connection, connected) {
    net::error_code outcome;
    std::array<char, 10> room;
    start_to_receive(room, [&](net::error_code ec, std::size_t) { outcome = ec; });
    context.poll();
    connection.stop_if_idle();
    context.poll();
    BOOST_TEST(!outcome);
    connection.set_idle(true);
    connection.stop_if_idle();
    run_until(context, [&] { return bool(outcome); });
    BOOST_TEST((outcome == asio::error::operation_aborted));
}

BOOST_AUTO_TEST_SUITE_END()
