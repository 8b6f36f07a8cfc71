#include "local_proxy.hpp"
#include "net/proxy_protocol.hpp"

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <list>
#include <string>

using namespace std::chrono_literals;
using support::local_proxy;
using support::temporary_folder;
using support::wire;

// Files of this folder are compiled together.
namespace connections_of_any_protocol {
namespace {

constexpr auto rounds = 2 * net::watchdog::round;

std::string const servers = R"(
[[upstream]]
name = "database"
servers = ["UPSTREAM"]
)";
std::string const two_servers = R"(
[[upstream]]
name = "database"
servers = ["UPSTREAM", "OTHER"]
)";

std::string limit(std::string const& rule, std::string const& more = {}) {
    return "[[limit]]\nname = \"connections\"\n" + rule + "\n" + more;
}
std::string listens(std::string const& more = "limits = [\"connections\"]\n") {
    return "[[listen]]\naddress = \"127.0.0.1:1\"\n[listen.tcp]\nupstream = \"database\"\n" + more;
}
std::string seats(int n, std::string const& queue, std::string const& more = {}) {
    return limit("rule = \"" + std::to_string(n) + " seats\"\nqueue = \"" + queue + "\"", more);
}
std::string const plain = servers + listens("");

// The bytes do not mean anything to the upstream.
struct tcp_proxy : local_proxy {
    explicit tcp_proxy(std::string const& configuration, tool::log_file* log = nullptr)
        : local_proxy(configuration, log) {
        upstream.answer = other.answer = nullptr;
    }

    // A client's connection; its bytes reach the upstream if the limits grant it.
    wire& client(std::string const& address = "10.0.0.1", std::string const& first = {}) {
        auto& made = clients.emplace_back(connect(address));
        if (!first.empty())
            made.send(first);
        settle();
        return made;
    }
    [[nodiscard]] std::size_t served() { return upstream.connections.size(); }
    // The end of the connection `n` at the upstream.
    [[nodiscard]] wire& at_server(std::size_t n = 0) {
        BOOST_REQUIRE(n < served());
        return *std::next(upstream.connections.begin(), static_cast<std::ptrdiff_t>(n));
    }
    [[nodiscard]] auto in_use() const { return plan().limits.front()->stats().in_use; }
    [[nodiscard]] auto waiting() const { return plan().limits.front()->stats().waiting; }
    [[nodiscard]] auto counts() const {
        return plan().services.front().state_of(plan().services.front().rest());
    }

    std::list<wire> clients;
};

using counts = decltype(admin::tcp_state::ended);

}  // namespace

BOOST_AUTO_TEST_SUITE(a_connection)

BOOST_AUTO_TEST_CASE(carries_the_bytes_of_both_sides) {
    tcp_proxy proxy(plain);
    auto& client = proxy.client();
    proxy.at_server().send("hello");  // the server speaks first
    proxy.settle();
    BOOST_TEST(client.take() == "hello");
    client.send(std::string("\0GET\r\n\xff", 7));
    proxy.settle();
    BOOST_TEST(proxy.at_server().take() == std::string("\0GET\r\n\xff", 7));
    BOOST_TEST(proxy.counts().active == 1u);
    BOOST_TEST(proxy.counts().bytes_up == 7u);
    BOOST_TEST(proxy.counts().bytes_down == 5u);
    client.close();
    proxy.at_server().close();
    proxy.settle();
    BOOST_TEST(proxy.counts().active == 0u);
    BOOST_TEST((proxy.counts().ended == counts{1, 0, 0, 0}));
}

BOOST_AUTO_TEST_CASE(may_end_one_direction_first) {
    tcp_proxy proxy(plain);
    auto& client = proxy.client("10.0.0.1", "question");
    client.end();
    proxy.settle();
    BOOST_TEST(proxy.at_server().take() == "question");
    BOOST_TEST(proxy.at_server().ended());
    BOOST_TEST(!client.ended());
    proxy.at_server().send("answer");
    proxy.settle();
    BOOST_TEST(client.take() == "answer");
    proxy.at_server().close();
    proxy.settle();
    BOOST_TEST(client.ended());

    auto& other = proxy.client();
    proxy.at_server(1).send("bye");
    proxy.at_server(1).end();
    proxy.settle();
    BOOST_TEST(other.take() == "bye");
    BOOST_TEST(other.ended());
    other.send("last words");
    proxy.settle();
    BOOST_TEST(proxy.at_server(1).take() == "last words");
}

// The buffers of a connection that ended before its bytes were sent serve the next one.
BOOST_AUTO_TEST_CASE(gets_no_byte_of_an_earlier_connection) {
    tcp_proxy proxy(servers + "[[limit]]\nname = \"bytes\"\nkey = \"client\"\n" +
                    "bandwidth = { up = \"1B/s burst 1B\", down = \"1B/s burst 1B\" }\n" +
                    listens("limits = [\"bytes\"]\n"));
    auto& first = proxy.client("10.0.0.1", "secret");
    proxy.at_server().send("password");
    proxy.settle();
    first.close();
    proxy.at_server().close();
    proxy.pass(1s + rounds);  // the next byte finds the end; the pool still keeps the buffers
    BOOST_TEST(proxy.counts().active == 0u);
    auto& second = proxy.client("10.0.0.2");
    proxy.pass(20s);
    BOOST_TEST(second.take() == "");
    BOOST_TEST(proxy.at_server(1).take() == "");
}

BOOST_AUTO_TEST_CASE(ends_after_its_idle_limit) {
    tcp_proxy proxy(servers + listens("idle = \"10min\"\n"));
    auto& client = proxy.client();
    proxy.pass(9min);
    client.send("x");
    proxy.pass(9min);
    proxy.at_server().send("y");
    proxy.pass(10min - 1s);
    BOOST_TEST(client.take() == "y");
    BOOST_TEST(!client.ended());
    proxy.pass(1s + rounds);
    BOOST_TEST(client.ended());
    BOOST_TEST(proxy.at_server().ended());
}

BOOST_AUTO_TEST_CASE(ends_at_a_shutdown_after_the_time_to_drain) {
    tcp_proxy proxy(plain);
    auto& client = proxy.client();
    proxy.worker().drain();
    proxy.pass(1h - 1min);
    client.send("x");
    proxy.settle();
    BOOST_TEST(proxy.at_server().take() == "x");
    proxy.worker().abort();
    proxy.settle();
    BOOST_TEST(client.ended());
    BOOST_TEST(proxy.at_server().ended());
}

// The server may still be written to after the client's end, with bytes that wait for permits.
BOOST_AUTO_TEST_CASE(ends_behind_bytes_that_wait_for_bandwidth) {
    auto const bandwidth =
        std::string("[[limit]]\nname = \"bytes\"\nbandwidth = { up = \"1kB/s burst 7B\", "
                    "down = \"1kB/s burst 7B\" }\n");
    std::string data;
    for (int i = 0; i != 40; ++i)
        data += static_cast<char>('0' + i);
    for (bool const is_up : {true, false}) {
        tcp_proxy proxy(servers + bandwidth + listens("limits = [\"bytes\"]\n"));
        for (std::size_t first = 0; first <= data.size(); ++first) {
            auto& client = proxy.client();
            auto& server = proxy.at_server(first);
            auto& from = is_up ? client : server;
            auto& to = is_up ? server : client;
            if (first != 0)
                from.send(data.substr(0, first));
            proxy.pass(3ms);
            from.send(data.substr(first));
            from.end();
            proxy.settle();
            BOOST_TEST(!to.ended());
            proxy.pass(100ms);
            BOOST_TEST(to.take() == data);
            BOOST_TEST(to.ended());
            to.end();
            proxy.settle();
            BOOST_TEST(from.ended());
        }
    }
}

BOOST_AUTO_TEST_CASE(passes_at_the_rate_of_its_bandwidth) {
    auto const bandwidth = std::string("[[limit]]\nname = \"bytes\"\nkey = \"client\"\n"
                                       "bandwidth = { down = \"10kB/s burst 2kB\" }\n");
    tcp_proxy proxy(servers + bandwidth + listens("limits = [\"bytes\"]\n"));
    auto& first = proxy.client("10.0.0.1");
    auto& second = proxy.client("10.0.0.1");
    auto& other = proxy.client("10.0.0.2");
    for (std::size_t i = 0; i != 3; ++i)
        proxy.at_server(i).send(std::string(20'000, 'x'));
    proxy.pass(1s);
    auto const n = first.take().size() + second.take().size();
    BOOST_TEST(n >= 10'000u);
    BOOST_TEST(n <= 12'000u);
    auto const m = other.take().size();
    BOOST_TEST(m >= 10'000u);
    BOOST_TEST(m <= 12'000u);
}

BOOST_AUTO_TEST_CASE(does_not_count_as_idle_while_its_bytes_wait) {
    tcp_proxy proxy(
        servers + "[[limit]]\nname = \"bytes\"\nbandwidth = { up = \"1B/s burst 1B\" }\n" +
        listens("limits = [\"bytes\"]\nidle = \"500ms\"\n"));
    auto& client = proxy.client("10.0.0.1", "1234");
    proxy.pass(3s);
    BOOST_TEST(proxy.at_server().take() == "1234");
    proxy.pass(500ms + rounds);
    BOOST_TEST(client.ended());
}

BOOST_AUTO_TEST_CASE(has_a_line_in_the_access_log) {
    temporary_folder const folder("weir-tcp-");
    auto const path = folder / "log";
    {
        tool::log_file log(path);
        tcp_proxy proxy(servers + seats(1, "patience 0s") + listens(), &log);
        auto& client = proxy.client("10.0.0.7");
        static_cast<void>(proxy.client("10.0.0.8"));
        proxy.at_server().send("12345");
        proxy.settle();
        proxy.at_server().close();
        client.close();
        proxy.settle();
        log.end();
    }
    std::ifstream in(path);
    std::string rejected;
    std::string served;
    std::getline(in, rejected);
    std::getline(in, served);
    BOOST_TEST(rejected.find(" 10.0.0.8 \"tcp 127.0.0.1:1\" 503 0 ") != rejected.npos);
    BOOST_TEST(rejected.ends_with(" - \"connections\" -"));
    BOOST_TEST(served.find(" 10.0.0.7 \"tcp 127.0.0.1:1\" 200 5 ") != served.npos);
    BOOST_TEST(served.ends_with("upstream \"-\" -"));
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(a_connection_above_a_limit)

BOOST_AUTO_TEST_CASE(waits_in_line_and_keeps_its_bytes) {
    tcp_proxy proxy(servers + seats(1, "patience 10s") + listens());
    auto& first = proxy.client("10.0.0.1", "1");
    static_cast<void>(proxy.client("10.0.0.2", "2"));
    static_cast<void>(proxy.client("10.0.0.3", "3"));
    BOOST_TEST(proxy.served() == 1u);
    BOOST_TEST(proxy.counts().waiting == 2u);
    first.close();
    proxy.at_server(0).close();
    proxy.settle();
    BOOST_TEST(proxy.served() == 2u);
    BOOST_TEST(proxy.at_server(1).take() == "2");
    proxy.at_server(1).close();
    proxy.clients.erase(std::next(proxy.clients.begin()));
    proxy.settle();
    BOOST_TEST(proxy.at_server(2).take() == "3");
    BOOST_TEST(proxy.counts().waiting == 0u);
    BOOST_TEST(proxy.in_use() == 1);
}

BOOST_AUTO_TEST_CASE(is_reset_when_its_patience_ends) {
    tcp_proxy proxy(servers + seats(1, "patience 3s") + listens());
    static_cast<void>(proxy.client());
    auto& second = proxy.client("10.0.0.2", "hello");
    proxy.pass(3s - 1ms);
    BOOST_TEST(!second.ended());
    proxy.pass(1ms + rounds);
    BOOST_TEST(second.ended());
    BOOST_TEST(second.take() == "");
    BOOST_TEST(proxy.served() == 1u);
    BOOST_TEST((proxy.counts().ended == counts{0, 1, 0, 0}));
}

BOOST_AUTO_TEST_CASE(gets_the_text_of_the_refusal) {
    tcp_proxy proxy(servers + seats(1, "patience 0s") +
                    listens("limits = [\"connections\"]\nrefusal = \"-ERR too many\\r\\n\"\n"));
    static_cast<void>(proxy.client());
    auto& second = proxy.client("10.0.0.2", "PING\r\n");
    BOOST_TEST(second.take() == "-ERR too many\r\n");
    BOOST_TEST(second.ended());
    // A client that does not close its side is closed.
    proxy.pass(1s + 2 * rounds);
    BOOST_CHECK_THROW(second.send("x"), std::system_error);
}

BOOST_AUTO_TEST_CASE(is_limited_by_client) {
    tcp_proxy proxy(servers + seats(1, "patience 0s", "key = \"client\"\n") + listens());
    static_cast<void>(proxy.client("10.0.0.1"));
    BOOST_TEST(proxy.client("10.0.0.1").ended());
    BOOST_TEST(!proxy.client("10.0.0.2").ended());
    BOOST_TEST(proxy.served() == 2u);
}

// A balancer names the client.
BOOST_AUTO_TEST_CASE(is_limited_by_the_client_of_its_balancer) {
    tcp_proxy proxy("[clients]\ntrusted = [\"10.0.0.1\"]\n" + servers +
                    seats(1, "patience 0s", "key = \"client\"\n") + listens());
    proxy.is_introduced = true;
    auto const line = [](std::string const& client) {
        return "PROXY TCP4 " + client + " 192.0.2.1 4000 80\r\n";
    };
    static_cast<void>(proxy.client("10.0.0.1", line("198.51.100.1") + "hello"));
    BOOST_TEST(proxy.at_server().take() == "hello");
    BOOST_TEST(proxy.client("10.0.0.1", line("198.51.100.1")).ended());
    BOOST_TEST(!proxy.client("10.0.0.1", line("198.51.100.2")).ended());
    BOOST_TEST(proxy.client("10.0.0.2").ended());  // not a balancer
    BOOST_TEST(proxy.client("10.0.0.1", "GET / HTTP/1.1\r\n").ended());
    // A header without end:
    auto& endless = proxy.client("10.0.0.1", "PROXY TCP4 ");
    proxy.pass(10s + rounds);
    BOOST_TEST(endless.ended());
    BOOST_TEST(proxy.served() == 2u);
    auto const& counts = proxy.worker().accounting().counts();
    for (auto const why :
         {proxy::introduction_failure::untrusted, proxy::introduction_failure::invalid,
          proxy::introduction_failure::timeout})
        BOOST_TEST(counts[why].value() == 1u);
}

BOOST_AUTO_TEST_CASE(is_limited_by_the_rate_of_new_connections) {
    tcp_proxy proxy(
        servers + limit("rule = \"2/1s burst 2\"\nqueue = \"patience 0s\"") + listens());
    for (int i = 0; i != 2; ++i) {
        auto& client = proxy.client();
        BOOST_TEST(!client.ended());
        client.close();
        proxy.at_server(static_cast<std::size_t>(i)).close();
        proxy.settle();
    }
    BOOST_TEST(proxy.client().ended());
    proxy.pass(500ms);
    BOOST_TEST(!proxy.client().ended());
}

BOOST_AUTO_TEST_CASE(leaves_the_line_when_its_client_leaves) {
    for (std::string const sent : {"", "hello"}) {
        for (bool const half : {false, true}) {
            tcp_proxy proxy(servers + seats(1, "max_waiting 1 patience 1min") + listens());
            static_cast<void>(proxy.client());
            auto& second = proxy.client("10.0.0.2", sent);
            BOOST_TEST(proxy.client("10.0.0.3").ended());  // the line is full
            proxy.pass(30s);
            if (half)
                second.end();
            else
                second.close();
            proxy.pass(sent.empty() ? 0ms : 500ms);
            BOOST_TEST(proxy.waiting() == 0u);
            BOOST_TEST((proxy.counts().ended == counts{0, 1, 1, 0}));
            auto& third = proxy.client("10.0.0.4", "third");
            BOOST_TEST(!third.ended());
            proxy.clients.front().close();
            proxy.at_server().close();
            proxy.settle();
            BOOST_TEST(proxy.at_server(1).take() == "third");
        }
    }
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(the_servers_of_connections)

BOOST_AUTO_TEST_CASE(share_them) {
    tcp_proxy proxy(two_servers + listens(""));
    for (int i = 0; i != 4; ++i)
        static_cast<void>(proxy.client());
    BOOST_TEST(proxy.upstream.connections.size() == 2u);
    BOOST_TEST(proxy.other.connections.size() == 2u);
}

BOOST_AUTO_TEST_CASE(replace_a_server_that_refuses) {
    tcp_proxy proxy(two_servers + listens(""));
    proxy.upstream.stop();
    for (int i = 0; i != 2; ++i)
        BOOST_TEST(!proxy.client().ended());
    BOOST_TEST(proxy.other.connections.size() == 2u);
}

BOOST_AUTO_TEST_CASE(may_all_refuse_and_no_permit_is_used) {
    tcp_proxy proxy(servers + limit("rule = \"1/1h\"\nqueue = \"patience 0s\"") + listens());
    proxy.upstream.stop();
    for (int i = 0; i != 3; ++i)
        BOOST_TEST(proxy.client().ended());
    BOOST_TEST((proxy.counts().ended == counts{0, 0, 0, 3}));
}

// Each server has a seat.
BOOST_AUTO_TEST_CASE(have_seats) {
    std::string const with_seats = R"(
[[upstream]]
name = "database"
[[upstream.server]]
address = "UPSTREAM"
seats = 1
[[upstream.server]]
address = "OTHER"
seats = 1
)";
    tcp_proxy proxy(with_seats + listens(""));
    for (int i = 0; i != 3; ++i)
        static_cast<void>(proxy.client());
    BOOST_TEST(proxy.upstream.connections.size() == 1u);
    BOOST_TEST(proxy.other.connections.size() == 1u);
    BOOST_TEST(proxy.counts().waiting == 1u);
    proxy.other.connections.front().close();
    for (auto& client : proxy.clients)
        client.end();
    proxy.pass(rounds);
    BOOST_TEST(proxy.counts().waiting == 0u);
}

BOOST_AUTO_TEST_CASE(get_the_client_by_the_proxy_protocol) {
    for (int const version : {1, 2}) {
        tcp_proxy proxy("[clients]\ntrusted = [\"10.0.0.1\"]\n" + servers +
                        "proxy_protocol = " + std::to_string(version) + "\n" + listens(""));
        auto const header = [version](char const* client, std::uint16_t from, std::uint16_t to) {
            return net::make_introduction(
                version, net::connection_ends{{boost::asio::ip::make_address(client), from},
                                              {boost::asio::ip::make_address("10.0.0.5"), to}});
        };
        static_cast<void>(proxy.client("10.0.0.5", "hello"));
        BOOST_TEST(proxy.at_server().take() == header("10.0.0.5", 4711, 80) + "hello");
        proxy.is_introduced = true;
        static_cast<void>(proxy.client("10.0.0.1", "PROXY TCP4 192.0.2.1 10.0.0.5 1 2\r\nhello"));
        BOOST_TEST(proxy.at_server(1).take() == header("192.0.2.1", 1, 2) + "hello");
    }
}

BOOST_AUTO_TEST_CASE(get_checks_by_the_proxy_protocol) {
    for (int const version : {1, 2}) {
        tcp_proxy proxy(servers + "proxy_protocol = " + std::to_string(version) +
                        "\n[upstream.health]\nevery = \"1s\"\n" + listens(""));
        proxy.check_health();
        proxy.settle();
        BOOST_TEST(proxy.at_server().take() == net::make_own_introduction(version));
        BOOST_TEST(proxy.at_server().ended());
    }
}

BOOST_AUTO_TEST_CASE(may_leave_the_configuration) {
    auto const drain = std::string("drain = \"5s\"\n");
    tcp_proxy proxy(drain + servers + listens(""));
    auto& client = proxy.client();
    proxy.reload(
        drain + "[[upstream]]\nname = \"database\"\nservers = [\"OTHER\"]\n" + listens(""));
    static_cast<void>(proxy.client());
    BOOST_TEST(proxy.other.connections.size() == 1u);
    proxy.pass(5s - 1ms);
    client.send("x");
    proxy.settle();
    BOOST_TEST(proxy.at_server().take() == "x");
    proxy.pass(2 * rounds);
    BOOST_TEST(client.ended());
    BOOST_TEST(proxy.at_server().ended());
    BOOST_TEST((proxy.counts().ended == counts{1, 0, 0, 0}));  // of both configurations
}

BOOST_AUTO_TEST_CASE(may_leave_the_configuration_and_return) {
    auto const drain = std::string("drain = \"5s\"\n");
    tcp_proxy proxy(drain + servers + listens(""));
    auto& client = proxy.client();
    for (int i = 0; i != 2; ++i) {
        proxy.reload(
            drain + "[[upstream]]\nname = \"database\"\nservers = [\"OTHER\"]\n" + listens(""));
        proxy.pass(3s);
        proxy.reload(drain + servers + listens(""));
        proxy.pass(3s);
    }
    proxy.pass(1min);
    client.send("x");
    proxy.settle();
    BOOST_TEST(proxy.at_server().take() == "x");
    BOOST_TEST(!client.ended());
}

BOOST_AUTO_TEST_CASE(keep_their_connections_in_a_reload) {
    tcp_proxy proxy(servers + seats(1, "patience 0s") + listens());
    auto& client = proxy.client();
    BOOST_TEST(proxy.client().ended());
    proxy.reload(
        servers + seats(2, "patience 0s") + listens("limits = [\"connections\"]\nidle = \"1s\"\n"));
    auto& second = proxy.client();
    BOOST_TEST(!second.ended());
    BOOST_TEST(proxy.client().ended());
    BOOST_TEST(proxy.in_use() == 2);
    proxy.pass(1s + rounds);
    BOOST_TEST(second.ended());
    BOOST_TEST(!client.ended());  // it keeps the settings with which it began
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace connections_of_any_protocol
