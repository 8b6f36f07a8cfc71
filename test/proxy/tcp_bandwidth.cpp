#include "local_proxy.hpp"

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <cstddef>
#include <iterator>
#include <list>
#include <string>

using namespace std::chrono_literals;
using support::local_proxy;
using support::wire;

// Files of this folder are compiled together.
namespace bandwidth_of_each_connection {
namespace {

constexpr auto rounds = 2 * net::watchdog::round;

std::string with(std::string const& bandwidth, std::string const& more = {}) {
    return R"(
[[upstream]]
name = "a"
servers = ["UPSTREAM"]
[[limit]]
name = "all"
bandwidth = { down = "150kB/s burst 2kB" }
[[listen]]
address = "127.0.0.1:1"
[listen.tcp]
upstream = "a"
bandwidth = )" +
           bandwidth + "\n" + more;
}

struct tcp_proxy : local_proxy {
    explicit tcp_proxy(std::string const& configuration) : local_proxy(configuration) {
        upstream.answer = nullptr;
    }
    wire& client() {
        auto& made = clients.emplace_back(connect());
        settle();
        return made;
    }
    [[nodiscard]] wire& at_server(std::size_t n = 0) {
        return *std::next(upstream.connections.begin(), static_cast<std::ptrdiff_t>(n));
    }

    std::list<wire> clients;
};

bool is_about(std::size_t n, std::size_t expected) {
    return n >= expected * 9 / 10 && n <= expected * 13 / 10;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(a_connection_with_its_own_bandwidth)

BOOST_AUTO_TEST_CASE(has_the_rate_alone) {
    tcp_proxy proxy(with("{ down = \"10kB/s burst 2kB\", up = \"5kB/s burst 1kB\" }"));
    auto& first = proxy.client();
    auto& second = proxy.client();
    for (std::size_t i = 0; i != 2; ++i)
        proxy.at_server(i).send(std::string(30'000, 'x'));
    first.send(std::string(20'000, 'y'));
    proxy.pass(1s);
    BOOST_TEST(is_about(first.take().size(), 10'000));
    BOOST_TEST(is_about(second.take().size(), 10'000));
    BOOST_TEST(is_about(proxy.at_server().take().size(), 5'000));
    proxy.pass(1s);
    BOOST_TEST(is_about(first.take().size(), 10'000));
    BOOST_TEST(is_about(proxy.at_server().take().size(), 5'000));
}

BOOST_AUTO_TEST_CASE(may_have_one_direction) {
    tcp_proxy proxy(with("{ down = \"1kB/s burst 1kB\" }"));
    auto& client = proxy.client();
    client.send(std::string(20'000, 'y'));
    proxy.at_server().send(std::string(20'000, 'x'));
    proxy.settle();
    BOOST_TEST(proxy.at_server().take().size() == 20'000u);
    BOOST_TEST(client.take().size() <= 1'000u);
}

BOOST_AUTO_TEST_CASE(also_shares_the_bandwidth_of_all) {
    tcp_proxy proxy(with("{ down = \"100kB/s burst 2kB\" }", "limits = \"all\"\n"));
    for (std::size_t i = 0; i != 3; ++i)
        static_cast<void>(proxy.client());
    proxy.at_server(0).send(std::string(100'000, 'x'));
    proxy.pass(500ms);
    BOOST_TEST(is_about(proxy.clients.front().take().size(), 50'000));
    for (std::size_t i = 1; i != 3; ++i)
        proxy.at_server(i).send(std::string(60'000, 'x'));
    proxy.pass(500ms);
    for (auto& client : proxy.clients)
        BOOST_TEST(is_about(client.take().size(), 25'000));
}

BOOST_AUTO_TEST_CASE(ends_behind_its_bytes_and_is_not_idle_before) {
    tcp_proxy proxy(with("{ up = \"1kB/s burst 1kB\" }", "idle = \"500ms\"\n"));
    auto& client = proxy.client();
    client.send(std::string(4'000, 'y'));
    client.end();
    proxy.pass(2s);
    BOOST_TEST(!proxy.at_server().ended());
    proxy.pass(2s);
    BOOST_TEST(proxy.at_server().take().size() == 4'000u);
    BOOST_TEST(proxy.at_server().ended());
    proxy.pass(500ms + rounds);
    BOOST_TEST(client.ended());
}

BOOST_AUTO_TEST_CASE(may_end_while_its_bytes_wait) {
    tcp_proxy proxy(with("{ up = \"1B/s burst 1B\", down = \"1B/s burst 1B\" }"));
    for (std::size_t i = 0; i != 3; ++i) {
        auto& client = proxy.client();
        client.send("123456");
        proxy.at_server(i).send("123456");
        proxy.settle();
        if (i == 0)
            client.close();
        if (i == 1)
            proxy.at_server(i).close();
    }
    proxy.pass(3s);
    proxy.worker().drain();
    proxy.worker().abort();  // the third one
    proxy.settle();
    BOOST_TEST(proxy.clients.back().ended());
}

// The program ends with it.
BOOST_AUTO_TEST_CASE(may_wait_when_the_thread_ends) {
    tcp_proxy proxy(with("{ up = \"1B/s burst 1B\", down = \"1B/s burst 1B\" }"));
    proxy.client().send("123456");
    proxy.at_server().send("123456");
    proxy.settle();
    BOOST_TEST(proxy.plan().services.front().rest().counts->active == 1u);
}

BOOST_AUTO_TEST_CASE(keeps_its_rate_in_a_reload) {
    tcp_proxy proxy(with("{ down = \"10kB/s burst 1kB\" }"));
    auto& client = proxy.client();
    proxy.reload(with("{ down = \"1kB/s burst 1kB\" }"));
    proxy.at_server().send(std::string(30'000, 'x'));
    auto& newer = proxy.client();
    proxy.at_server(1).send(std::string(30'000, 'x'));
    proxy.pass(1s);
    BOOST_TEST(is_about(client.take().size(), 10'000));
    BOOST_TEST(newer.take().size() <= 2'100u);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace bandwidth_of_each_connection
