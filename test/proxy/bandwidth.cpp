#include "admin/stats.hpp"
#include "local_proxy.hpp"
#include "proxy/observe.hpp"

#include <boost/test/unit_test.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <list>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>

// Files of this folder are compiled together.
namespace limits_of_bytes {
namespace {

using namespace std::chrono_literals;
using support::local_proxy;
using support::ok;
using support::status_of;
using support::wire;

constexpr auto too_late = 2 * net::watchdog::round;  // see `timeouts.cpp`

std::string limit(std::string_view name, std::string_view rates, std::string_view more = "") {
    return fmt::format("[[limit]]\nname = \"{}\"\nbandwidth = {{ {} }}\n{}\n", name, rates, more);
}
std::string route(std::string_view limits, std::string_view more = "") {
    return fmt::format(
        "[[upstream]]\nname = \"a\"\nservers = [\"UPSTREAM\"]\n[[route]]\nupstream = "
        "\"a\"\nlimits = [{}]\n{}\n",
        limits, more);
}
// All requests share this bandwidth.
std::string shared(std::string_view rates, std::string_view more = "") {
    return std::string(more) + route("\"bytes\"") + limit("bytes", rates);
}

std::string get(std::string_view fields = "") {
    return fmt::format("GET / HTTP/1.1\r\nHost: test\r\n{}\r\n", fields);
}
std::string post(std::size_t bytes) {
    return fmt::format("POST / HTTP/1.1\r\nHost: test\r\nContent-Length: {}\r\n\r\n{}", bytes,
                       std::string(bytes, 'u'));
}

// The bytes behind the head of a message that has arrived so far.
std::size_t body_of(wire& w) {
    auto const& text = w.look();
    auto const end = text.find("\r\n\r\n");
    return end == text.npos ? 0 : text.size() - end - 4;
}

struct a_proxy : local_proxy {
    explicit a_proxy(std::string const& configuration, std::size_t bytes = 100'000)
        : local_proxy(configuration) {
        upstream.answer = [bytes](auto const&) { return ok(std::string(bytes, 'd')); };
    }
    wire ask_for(std::string_view text, std::string const& from = "10.0.0.1") {
        auto client = connect(from);
        client.send(text);
        settle();
        return client;
    }
    [[nodiscard]] proxy::byte_limit& down() const { return *plan().bandwidths.front().down; }
    [[nodiscard]] proxy::byte_limit& up() const { return *plan().bandwidths.front().up; }
};

// Any time `t` after the start, what arrived is at most burst + rate * t, and at most a portion of 20 ms less.
void check_pace(a_proxy& p, wire& w, double rate, double burst, std::size_t all) {
    for (int i = 0; i != 30; ++i) {
        auto const most = std::min(burst + rate * 0.1 * i, static_cast<double>(all));
        auto const came = static_cast<double>(body_of(w));
        BOOST_TEST(came <= most);
        BOOST_TEST(came >= most - std::max(rate / 50, 1460.0));
        p.pass(100ms);
    }
}

constexpr std::string_view switches =
    "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n";
constexpr std::string_view upgrade =
    "GET / HTTP/1.1\r\nHost: test\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n";

// A client and a server that switched protocols.
struct a_tunnel : a_proxy {
    explicit a_tunnel(std::string_view rates, std::string_view how = "")
        : a_proxy(route("\"bytes\"", fmt::format("[route.upgrade]\nto = \"echo\"\n{}\n", how)) +
                  limit("bytes", rates)) {
        upstream.answer = [](auto const&) { return support::reply{std::string(switches)}; };
        client.emplace(ask_for(upgrade));
        BOOST_REQUIRE(status_of(client->take()) == 101u);
        upstream.answer = nullptr;
    }
    [[nodiscard]] wire& server() { return upstream.connections.front(); }

    std::optional<wire> client;
};

}  // namespace

BOOST_AUTO_TEST_SUITE(bandwidth)

BOOST_AUTO_TEST_CASE(of_responses_is_the_rate_and_the_burst) {
    a_proxy p(shared("down = '100kB/s'"));
    auto client = p.ask_for(get());
    BOOST_TEST(status_of(client.look()) == 200u);
    check_pace(p, client, 100'000, 16'384, 100'000);
    BOOST_TEST(p.down().passed() == 100'000u);
    BOOST_TEST(client.take().ends_with("ddd"));
    BOOST_TEST(p.ask(client, support::get) == 200u);  // the connection continues
}

BOOST_AUTO_TEST_CASE(of_requests_is_the_rate_and_the_burst) {
    a_proxy p(shared("up = '50kB/s burst 2kB'"));
    p.upstream.answer = nullptr;
    auto client = p.ask_for(post(100'000));
    BOOST_REQUIRE(p.upstream.connections.size() == 1u);
    auto& server = p.upstream.connections.front();
    check_pace(p, server, 50'000, 2'000, 100'000);
    BOOST_TEST(p.up().passed() == 100'000u);
    BOOST_TEST(server.take().ends_with("uuu"));
    server.send(ok("done", "").text);
    p.settle();
    BOOST_TEST(client.take().ends_with("done"));
    p.upstream.answer = [](auto const&) { return ok(); };
    BOOST_TEST(p.ask(client, support::get) == 200u);
    BOOST_TEST(p.upstream.connections.size() == 1u);  // it was kept
}

BOOST_AUTO_TEST_CASE(limits_one_direction_only) {
    a_proxy p(shared("up = '1kB/s burst 2kB'"));
    auto client = p.ask_for(get());
    BOOST_TEST(body_of(client) == 100'000u);
    p.reload(shared("down = '1kB/s burst 2kB'"));
    BOOST_TEST(p.ask(client, post(100'000)) == 200u);
}

BOOST_AUTO_TEST_CASE(is_shared_evenly) {
    a_proxy p(shared("down = '200kB/s burst 4kB'"));
    auto one = p.ask_for(get());
    auto two = p.ask_for(get());
    auto three = p.ask_for(get());
    auto const came = [&] { return std::array{body_of(one), body_of(two), body_of(three)}; };
    auto const sum = [](auto const& all) {
        return std::accumulate(all.begin(), all.end(), std::size_t(0));
    };
    p.pass(100ms);  // the first one was alone at the beginning
    auto const before = came();
    for (std::size_t i = 2; i != 13; ++i) {
        p.pass(100ms);
        auto now = came();
        BOOST_TEST(sum(now) <= 4'000 + 20'000 * i);
        BOOST_TEST(sum(now) + 3 * 1'460 >= 4'000 + 20'000 * i);
        for (std::size_t j = 0; j != 3; ++j)
            now[j] -= before[j];
        auto const [least, most] = std::ranges::minmax(now);
        BOOST_TEST(most - least <= 2 * 1'460u);  // a portion, and the rest of a buffer
    }
}

BOOST_AUTO_TEST_CASE(by_a_key_is_of_each_key) {
    a_proxy p(route("\"bytes\"") + limit("bytes", "down = '50kB/s'", "key = 'header User'"));
    auto one = p.ask_for(get("User: one\r\n"));
    auto also_one = p.ask_for(get("User: one\r\n"));
    auto two = p.ask_for(get("User: two\r\n"));
    p.pass(1s);
    BOOST_TEST(body_of(two) <= 66'384u);
    BOOST_TEST(body_of(two) >= 64'000u);
    BOOST_TEST(body_of(one) + body_of(also_one) <= 66'384u);
    BOOST_TEST(body_of(one) + body_of(also_one) >= 63'000u);
    BOOST_TEST(p.down().limiter()->keys()->count == 2u);
}

BOOST_AUTO_TEST_CASE(by_a_key_has_at_most_so_many_keys) {
    a_proxy p(route("\"bytes\"") +
              limit("bytes", "down = '50kB/s'", "key = 'header User'\nmax_keys = 16"));
    std::list<wire> clients;
    for (int i = 0; i != 100; ++i)
        clients.push_back(p.ask_for(get(fmt::format("User: {}\r\n", i))));
    p.pass(100ms);
    BOOST_TEST(p.down().limiter()->keys()->count <= 16u);
    for (auto& one : clients)
        BOOST_TEST(status_of(one.look()) == 200u);
}

BOOST_AUTO_TEST_CASE(of_several_limits_is_the_lowest) {
    for (std::string_view const order : {"\"slow\", \"fast\"", "\"fast\", \"slow\""}) {
        a_proxy p(route(order) + limit("slow", "down = '50kB/s burst 2kB'") +
                  limit("fast", "down = '500kB/s'", "key = 'client'"));
        auto client = p.ask_for(get());
        p.pass(1s);
        BOOST_TEST(body_of(client) <= 52'000u);
        BOOST_TEST(body_of(client) >= 50'000u);
        // The fast limit gets back the permits of the bytes that wait for the slow one.
        BOOST_TEST(p.plan().bandwidths.back().down->passed() == body_of(client));
    }
}

BOOST_AUTO_TEST_CASE(is_that_of_the_route) {
    a_proxy p(limit("bytes", "down = '1kB/s'") + route(""));
    auto client = p.ask_for(get());
    BOOST_TEST(body_of(client) == 100'000u);
}

// ---- Bodies

BOOST_AUTO_TEST_CASE(delays_no_response_without_a_body) {
    a_proxy p(shared("down = '1kB/s burst 1kB'"));
    auto client = p.connect();
    p.upstream.answer = [](std::string const& request) {
        if (request.starts_with("HEAD"))
            return support::reply{"HTTP/1.1 200 OK\r\nContent-Length: 50000\r\n\r\n"};
        return support::reply{"HTTP/1.1 204 No Content\r\n\r\n"};
    };
    for (int i = 0; i != 20; ++i) {
        BOOST_TEST(p.ask(client, "HEAD / HTTP/1.1\r\nHost: test\r\n\r\n") == 200u);
        BOOST_TEST(p.ask(client, get()) == 204u);
    }
    BOOST_TEST(p.down().passed() == 0u);
}

BOOST_AUTO_TEST_CASE(keeps_a_chunked_body_whole) {
    a_proxy p(shared("down = '10kB/s burst 2kB', up = '10kB/s burst 2kB'"));
    std::string body;
    for (std::size_t i = 0; i != 300; ++i)
        body += fmt::format("{:x}\r\n{}\r\n", i % 70 + 1, std::string(i % 70 + 1, 'c'));
    body += "0\r\n\r\n";
    std::string received;
    p.upstream.answer = [&](std::string const& request) {
        received = request;
        return support::reply{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + body};
    };
    auto client =
        p.ask_for("POST / HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n" + body);
    p.pass(5s);
    auto const answer = client.take();
    auto const count = [](std::string const& in, char c) { return std::ranges::count(in, c); };
    // 4 * (1 + ... + 70) + (1 + ... + 20)
    BOOST_TEST(count(received.substr(received.find("\r\n\r\n") + 4), 'c') >= 10'150);
    BOOST_TEST(p.up().passed() == 10'150u);
    BOOST_TEST(p.down().passed() == 10'150u);
    BOOST_TEST(answer.ends_with("\r\n0\r\n\r\n"));
    BOOST_TEST(p.ask(client, support::get) == 200u);
}

BOOST_AUTO_TEST_CASE(counts_no_framing) {
    a_proxy p(shared("down = '10kB/s burst 1kB'"));
    p.upstream.answer = [](auto const&) {
        std::string text = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        for (int i = 0; i != 3'000; ++i)
            text += "1\r\nc\r\n";
        return support::reply{text + "0\r\n\r\n"};
    };
    auto client = p.ask_for(get());
    p.pass(150ms);
    BOOST_TEST(p.down().passed() <= 2'500u);
    p.pass(200ms);  // 3,000 bytes, and at most a portion in which the bytes of the framing wait
    BOOST_TEST(p.down().passed() == 3'000u);
}

BOOST_AUTO_TEST_CASE(that_ends_with_the_connection_loses_nothing) {
    a_proxy p(shared("down = '10kB/s burst 2kB'"));
    p.upstream.answer = [](auto const&) {
        return support::reply{"HTTP/1.1 200 OK\r\n\r\n" + std::string(50'000, 'd'), true};
    };
    auto client = p.ask_for(get("Connection: close\r\n"));
    p.pass(1s);
    BOOST_TEST(!client.ended());
    p.pass(5s);
    BOOST_TEST(body_of(client) >= 50'000u);
    BOOST_TEST(client.ended());
}

BOOST_AUTO_TEST_CASE(of_a_server_that_ends_too_soon_passes_on_what_came) {
    a_proxy p(shared("down = '10kB/s burst 2kB'"));
    p.upstream.answer = [](auto const&) {
        return support::reply{
            "HTTP/1.1 200 OK\r\nContent-Length: 50000\r\n\r\n" + std::string(20'000, 'd'), true};
    };
    auto client = p.ask_for(get());
    p.pass(1s);
    BOOST_TEST(!client.ended());
    p.pass(2s);
    BOOST_TEST(body_of(client) == 20'000u);
    BOOST_TEST(client.ended());
}

// The response arrives while the proxy still holds a part of the request, which must not become the next request.
BOOST_AUTO_TEST_CASE(of_a_request_that_is_answered_early_ends_with_it) {
    a_proxy p(shared("up = '1kB/s burst 1kB'"));
    p.upstream.answer = nullptr;
    std::string const hidden = "GET /hidden HTTP/1.1\r\nHost: test\r\n\r\n";
    std::string body;
    while (body.size() < 10'000)
        body += hidden;
    auto client = p.ask_for(fmt::format(
        "POST / HTTP/1.1\r\nHost: test\r\nContent-Length: {}\r\n\r\n{}", body.size(), body));
    p.pass(2s);
    auto& server = p.upstream.connections.front();
    server.send(ok("early").text);
    p.settle();
    BOOST_TEST(client.take().ends_with("early"));
    p.upstream.answer = [](auto const&) { return ok("later"); };
    auto const before = p.upstream.connections.size();
    client.send("GET /next HTTP/1.1\r\nHost: test\r\n\r\n");
    p.settle();
    BOOST_TEST((!client.look().empty() || client.ended()));  // it waits for nothing
    if (!client.look().empty()) {
        BOOST_TEST(client.take().ends_with("later"));
        BOOST_REQUIRE(p.upstream.connections.size() == before + 1);  // the other one is spoilt
    }
    for (auto const& one : p.upstream.requests)
        BOOST_TEST(one.starts_with("GET /next "));
}

// ---- Time limits

BOOST_AUTO_TEST_CASE(is_slow_without_a_timeout) {
    constexpr std::string_view short_times =
        "[timeouts]\nbody = '300ms'\nupstream = '300ms'\nwhole_body = '1s'\n";
    a_proxy p(shared("down = '1kB/s burst 1460B', up = '1kB/s burst 1460B'", short_times), 20'000);
    std::string request = post(10'000);
    auto client = p.ask_for(request);
    BOOST_TEST(p.upstream.requests.empty());
    p.pass(9s);
    BOOST_TEST(p.upstream.requests.size() == 1u);
    BOOST_TEST(status_of(client.look()) == 200u);
    p.pass(20s);
    BOOST_TEST(body_of(client) == 20'000u);
}

// The time of the server begins when the request is complete.
BOOST_AUTO_TEST_CASE(gives_a_silent_server_no_more_time) {
    a_proxy p(shared("up = '1kB/s burst 1460B'", "[timeouts]\nupstream = '1s'\n"));
    p.upstream.answer = nullptr;
    auto client = p.ask_for(post(5'460));
    p.pass(4s);
    BOOST_TEST(client.look().empty());
    p.pass(1s + too_late);
    BOOST_TEST(status_of(client.take()) == 504u);
}

BOOST_AUTO_TEST_CASE(of_a_client_that_does_not_read_is_left_to_others) {
    a_proxy p(shared("down = '1MB/s burst 20kB'"), 150'000);
    std::list<wire> deaf;
    for (int i = 0; i != 3; ++i) {
        deaf.push_back(p.ask_for(get()));
        for (int n = 0; n != 9; ++n)  // more than its socket takes
            deaf.back().send(get());
    }
    p.pass(10s);
    auto const before = p.down().passed();
    p.pass(1s);
    BOOST_TEST(p.down().passed() == before);
    auto client = p.ask_for(get());
    BOOST_TEST(body_of(client) >= 19'000u);
    p.pass(150ms);
    BOOST_TEST(body_of(client) == 150'000u);
    p.pass(30s);
    for (auto& one : deaf) {
        static_cast<void>(one.take());
        p.settle();
        BOOST_TEST(one.ended());
    }
}

// ---- The end

BOOST_AUTO_TEST_CASE(of_a_client_that_leaves_is_left_at_once) {
    a_proxy p(shared("down = '10B/s burst 10B', up = '10B/s burst 10B'"));
    auto client = p.ask_for(get());
    auto other = p.ask_for(post(50'000));
    p.pass(1s);
    BOOST_TEST(p.upstream.open() == 2u);
    client.close();
    other.close();
    p.pass(too_late);
    BOOST_TEST(p.upstream.open() == 0u);
    BOOST_TEST(p.down().limiter()->stats().waiting == 0u);
    BOOST_TEST(p.up().limiter()->stats().waiting == 0u);
    // The requests that were given up do not count as requests that want bytes.
    BOOST_TEST(p.down().portion(0, {1'000'000, 50'000}) == 20'000);
    BOOST_TEST(p.down().portion(0, {1'000, 1'000}) == 1'000);  // at most the burst
}

BOOST_AUTO_TEST_CASE(of_several_limits_is_left_at_once) {
    a_proxy p(route("'one', 'two'") + limit("one", "down = '10B/s burst 10B'", "key = 'client'") +
              limit("two", "down = '10B/s burst 10B'"));
    auto client = p.ask_for(get());
    p.pass(500ms);
    client.close();
    p.pass(too_late);
    BOOST_TEST(p.upstream.open() == 0u);
    for (auto const& b : p.plan().bandwidths)
        BOOST_TEST(b.down->limiter()->stats().waiting == 0u);
}

BOOST_AUTO_TEST_CASE(lasts_through_a_drain) {
    a_proxy p(shared("down = '10kB/s'"));
    auto client = p.ask_for(get());
    p.worker().drain();
    p.pass(9s);
    BOOST_TEST(body_of(client) == 100'000u);
    BOOST_TEST(client.ended());
}

BOOST_AUTO_TEST_CASE(ends_with_the_proxy) {
    a_proxy p(shared("down = '10B/s burst 10B', up = '10B/s burst 10B'"));
    auto client = p.ask_for(get());
    auto other = p.ask_for(post(50'000));
    p.worker().drain();
    p.pass(1s);
    BOOST_TEST(!client.ended());
    p.worker().abort();
    p.settle();
    BOOST_TEST(client.ended());
    BOOST_TEST(other.ended());
    BOOST_TEST(p.upstream.open() == 0u);
}

BOOST_AUTO_TEST_CASE(changes_by_a_reload) {
    a_proxy p(shared("down = '1kB/s'"));
    auto client = p.ask_for(get());
    p.pass(1s);
    BOOST_TEST(body_of(client) <= 17'384u);
    p.reload(shared("down = '20kB/s burst 1kB'"));
    auto const before = body_of(client);
    p.pass(1s);
    BOOST_TEST(body_of(client) - before <= 21'000u);
    BOOST_TEST(body_of(client) - before >= 18'000u);
}

BOOST_AUTO_TEST_CASE(that_vanishes_by_a_reload_frees_its_transfers) {
    a_proxy p(shared("down = '1kB/s', up = '1kB/s'"));
    auto client = p.ask_for(get());
    auto other = p.ask_for(post(100'000));
    p.pass(1s);
    p.reload(shared("up = '1kB/s'"));
    p.settle();
    BOOST_TEST(body_of(client) == 100'000u);
    BOOST_TEST(other.look().empty());
    p.reload(route(""));
    p.settle();
    BOOST_TEST(body_of(other) == 100'000u);
}

BOOST_AUTO_TEST_CASE(is_told) {
    a_proxy p(route("'bytes'") +
              limit("bytes", "down = '10kB/s burst 2kB', up = '1MB/s'", "key = 'client'"));
    auto client = p.ask_for(get());
    p.pass(1s);
    auto const s = proxy::state_of(p.plan());
    BOOST_TEST(s.limits.empty());
    BOOST_REQUIRE(s.bandwidths.size() == 2u);
    BOOST_TEST(s.bandwidths[0].direction == "up");
    BOOST_TEST(s.bandwidths[0].bytes == 0u);
    BOOST_TEST(s.bandwidths[0].waiting == 0u);
    auto const& down = s.bandwidths[1];
    BOOST_TEST(down.name == "bytes");
    BOOST_TEST(down.direction == "down");
    BOOST_TEST(down.rate == "10kB/s burst 2kB");
    BOOST_TEST(down.key == "client");
    BOOST_TEST(down.bytes == body_of(client));
    BOOST_TEST(down.waiting == 1u);
    BOOST_TEST((down.waited > 700ms && down.waited <= 1s));
    BOOST_TEST(down.keys.value_or(0) == 1u);
    auto const text = to_metrics(s);
    for (auto const& line :
         {fmt::format("weir_bandwidth_bytes_total{{limit=\"bytes\",direction=\"down\"}} {}\n",
                      down.bytes),
          std::string("weir_bandwidth_waiting{limit=\"bytes\",direction=\"down\"} 1\n"),
          std::string("weir_bandwidth_keys{limit=\"bytes\",direction=\"down\"} 1\n"),
          std::string("weir_bandwidth_info{limit=\"bytes\",direction=\"up\",rate=\"1MB/"
                      "s\",key=\"client\",dry_run=\"false\"} 1\n")})
        BOOST_TEST(text.find(line) != text.npos, line);
    BOOST_TEST(to_json(s).find("\"direction\":\"down\",\"rate\":\"10kB/s burst 2kB\"") !=
               std::string::npos);
}

// ---- Upgraded connections

BOOST_AUTO_TEST_CASE(of_a_tunnel_is_the_rate_of_each_direction) {
    a_tunnel t("up = '10kB/s burst 2kB', down = '50kB/s burst 4kB'");
    t.client->send(std::string(50'000, 'u'));
    t.server().send(std::string(100'000, 'd'));
    t.settle();
    for (std::size_t i = 0; i != 10; ++i) {
        auto const up = t.server().look().size();
        auto const down = t.client->look().size();
        BOOST_TEST(up <= 2'000 + 1'000 * i);
        BOOST_TEST(up + 1'460 >= 2'000 + 1'000 * i);
        BOOST_TEST(down <= 4'000 + 5'000 * i);
        BOOST_TEST(down + 1'460 >= 4'000 + 5'000 * i);
        t.pass(100ms);
    }
    BOOST_TEST(t.up().passed() == t.server().look().size());
    BOOST_TEST(t.down().passed() == t.client->look().size());
}

BOOST_AUTO_TEST_CASE(of_a_tunnel_keeps_the_end_behind_the_data) {
    a_tunnel t("up = '10kB/s burst 2kB', down = '10kB/s burst 2kB'");
    t.client->send(std::string(30'000, 'u'));
    t.client->end();
    t.server().send(std::string(30'000, 'd'));
    t.server().end();
    t.pass(2s);
    BOOST_TEST(!t.client->ended());
    BOOST_TEST(!t.server().ended());
    t.pass(1s);
    BOOST_TEST(t.client->take().size() == 30'000u);
    BOOST_TEST(t.server().take().size() == 30'000u);
    BOOST_TEST(t.client->ended());
}

BOOST_AUTO_TEST_CASE(of_a_tunnel_is_not_idleness) {
    a_tunnel t("up = '1kB/s burst 1460B'", "idle = '500ms'");
    t.client->send(std::string(10'000, 'u'));
    t.pass(8540ms);
    BOOST_TEST(t.server().look().size() == 10'000u);
    BOOST_TEST(!t.server().ended());
    t.pass(500ms + too_late);
    BOOST_TEST(t.server().ended());
}

BOOST_AUTO_TEST_CASE(of_an_idle_tunnel_is_left_to_others) {
    a_tunnel t("up = '10kB/s burst 5kB'");
    t.pass(1s);
    auto other = t.ask_for(upgrade);
    t.upstream.connections.back().send(switches);
    t.settle();
    other.send(std::string(10'000, 'u'));
    t.settle();
    BOOST_TEST(t.up().passed() >= 5'000u - 1'460u);
}

BOOST_AUTO_TEST_CASE(of_a_tunnel_whose_side_leaves_is_left_at_once) {
    for (bool const client_leaves : {true, false}) {
        a_tunnel t("up = '10B/s burst 10B', down = '10B/s burst 10B'");
        t.client->send(std::string(50'000, 'u'));
        t.server().send(std::string(50'000, 'd'));
        t.pass(1s);
        BOOST_TEST(t.up().limiter()->stats().waiting == 1u);
        if (client_leaves)
            t.client->close();
        else
            t.server().close();
        t.pass(too_late);
        BOOST_TEST(t.up().limiter()->stats().waiting == 0u);
        BOOST_TEST(t.down().limiter()->stats().waiting == 0u);
    }
}

BOOST_AUTO_TEST_CASE(of_a_tunnel_ends_with_the_proxy) {
    a_tunnel t("up = '10B/s burst 10B'");
    t.client->send(std::string(50'000, 'u'));
    t.pass(1s);
    t.worker().abort();
    t.settle();
    BOOST_TEST(t.client->ended());
    BOOST_TEST(t.up().limiter()->stats().waiting == 0u);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace limits_of_bytes
