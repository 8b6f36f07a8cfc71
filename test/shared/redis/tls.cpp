#include <weir/redis/store.hpp>

#include "shared/certificate.hpp"
#include "shared/redis/server.hpp"
#include "support/reserved_port.hpp"
#include "support/rethrow.hpp"
#include "support/visit.hpp"

#include <boost/asio/awaitable.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <boost/test/tree/decorator.hpp>
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace {

namespace asio = boost::asio;
namespace ut = boost::unit_test;
using asio::ip::tcp;
using namespace std::chrono_literals;
using support::certificate;
using support::visit;
using why = weir::redis::errc;

bool has(std::string const& text, std::string const& part) {
    return text.find(part) != text.npos;
}

// A server with TLS at one port, and without at another.
struct tls_server {
    certificate own;
    support::reserved_port port;
    support::redis_server server;

    explicit tls_server(certificate c = certificate("DNS:localhost,IP:127.0.0.1"),
                        std::vector<std::string> const& more = {})
        : own(std::move(c)), server(with(more, support::tls_options(own, port.number()))) {}

    [[nodiscard]] std::string place(std::string const& host = "localhost") const {
        return host + ":" + std::to_string(port.number());
    }
    [[nodiscard]] std::string url(std::string const& host = "localhost") const {
        return "rediss://" + place(host) + "?authorities=" + own.file();
    }
    // The number of connections that it has accepted at all, but for that of this question.
    [[nodiscard]] int accepted() const {
        auto const said = support::redis_session(server).say({"INFO", "stats"});
        std::string const key = "total_connections_received:";
        return std::stoi(said.substr(said.find(key) + key.size())) - 1;
    }

    static std::vector<std::string> with(std::vector<std::string> const& more,
                                         std::vector<std::string> all) {
        all.insert(all.end(), more.begin(), more.end());
        return all;
    }
};

struct fixture {
    asio::io_context ctx;

    std::shared_ptr<weir::redis::store> connect(
        std::string url,
        weir::redis::options options = {.connect_timeout = 10s, .silent_for = 10s}) {
        options.url = std::move(url);
        return std::make_shared<weir::redis::store>(ctx, options);
    }
    // Runs the context until it has nothing to do: an idle store must not prevent that.
    void run() {
        ctx.restart();
        ctx.run();
    }
    template <class Condition>
    void run_until(Condition met) {
        ctx.restart();
        while (!met() && ctx.run_one() != 0) {}
        BOOST_TEST_REQUIRE(met());
    }
    // Returns the error of `check`; empty if it succeeds.
    std::string complaint(std::string const& url, weir::redis::options const& options = {
                                                      .connect_timeout = 10s, .silent_for = 10s}) {
        std::optional<std::string> what;
        auto const store = connect(url, options);
        asio::co_spawn(ctx, store->check(), [&](std::exception_ptr failure) {
            try {
                support::rethrow(failure);
                what = "";
            } catch (std::exception const& e) {
                what = e.what();
            }
        });
        run_until([&] { return what.has_value(); });
        return *what;
    }
    // Returns the last failure of a limiter whose store cannot be used.
    weir::store_failure failure_of(std::string const& url) {
        weir::redis::token_bucket calls(
            ctx, connect(url), "calls", {.rate = {1000, 1s}, .burst = 5, .timeout = 10s});
        visit const guest(calls, 1, 60s);
        run_until([&] { return guest.over(); });
        BOOST_TEST(guest.rejected(weir::errc::misconfigured));
        BOOST_TEST(calls.shared_stats().outages == 0U);
        BOOST_TEST(calls.shared_stats().unknown == 0U);
        return calls.last_failure();
    }
    // An invalid certificate is reported, with its reason and the server.
    void rejects_certificate(std::string const& url, std::string const& place,
                             std::vector<std::string> const& reasons) {
        auto const failure = failure_of(url);
        BOOST_TEST(failure.error == make_error_code(why::certificate));
        BOOST_TEST(has(failure.text, place), failure.text);
        BOOST_TEST(
            std::ranges::any_of(reasons, [&](auto const& one) { return has(failure.text, one); }),
            failure.text);
        auto const what = complaint(url);
        BOOST_TEST(has(what, failure.text), what);
    }
};

// Meanwhile OpenSSL finds the authorities of the system in another file.
class system_authorities {
public:
    explicit system_authorities(std::string const& file) {
        ::setenv("SSL_CERT_FILE", file.c_str(), 1);
    }
    system_authorities(system_authorities const&) = delete;
    system_authorities& operator=(system_authorities const&) = delete;
    ~system_authorities() { ::unsetenv("SSL_CERT_FILE"); }
};

// Serves a port as a function says: it returns the reply to what a client has sent so far.
class false_server {
public:
    false_server(asio::io_context& ctx, std::function<std::string(std::string const&)> reply)
        : acceptor_(ctx, tcp::endpoint(asio::ip::address_v4::loopback(), 0)),
          reply_(std::move(reply)) {
        accept();
    }
    [[nodiscard]] std::string place(std::string const& host = "127.0.0.1") const {
        return host + ":" + std::to_string(acceptor_.local_endpoint().port());
    }
    void end() { acceptor_.close(); }

    std::string said;

private:
    void accept() {
        acceptor_.async_accept([this](weir::error_code ec, tcp::socket s) {
            if (ec)
                return;
            said.clear();
            read(std::make_shared<tcp::socket>(std::move(s)));
            accept();
        });
    }
    void read(std::shared_ptr<tcp::socket> const& s) {
        s->async_read_some(asio::buffer(part_), [this, s](weir::error_code ec, std::size_t n) {
            if (ec)
                return;
            said.append(part_.data(), n);
            asio::write(*s, asio::buffer(reply_(said)), ec);
            read(s);
        });
    }

    tcp::acceptor acceptor_;
    std::function<std::string(std::string const&)> reply_;
    std::array<char, 4096> part_{};
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(redis_tls, fixture, *ut::precondition(support::if_redis_has_tls))

BOOST_AUTO_TEST_CASE(idle_connection_is_used_again) {
    tls_server const there;
    for (auto const* const host : {"localhost", "127.0.0.1"}) {
        auto const store = connect(there.url(host));
        weir::redis::token_bucket calls(
            ctx, store, "calls", {.rate = {1000, 1s}, .burst = 5, .timeout = 10s});
        auto const before = there.accepted();
        for (int i = 0; i != 4; ++i) {
            visit const guest(calls, 1, 60s);
            run();
            BOOST_TEST(guest.granted());
        }
        BOOST_TEST(there.accepted() - before == 2);  // and one to ask for `before`
        BOOST_TEST(calls.shared_stats().failed == 0U);
    }
}

BOOST_AUTO_TEST_CASE(certificate_must_be_from_a_known_authority) {
    tls_server const there;
    certificate const other("DNS:localhost");
    std::vector<std::string> const reasons{"self-signed certificate", "unable to get local issuer"};
    auto const plain = "rediss://" + there.place();
    rejects_certificate(plain, there.place(), reasons);
    rejects_certificate(plain + "?authorities=" + other.file(), there.place(), reasons);
    {
        system_authorities const known(there.own.file());
        BOOST_TEST(complaint(plain) == "");
        rejects_certificate(plain + "?authorities=" + other.file(), there.place(), reasons);
    }
    BOOST_TEST(complaint(plain + "?insecure") == "");
}

BOOST_AUTO_TEST_CASE(certificate_must_be_for_the_host) {
    tls_server const name(certificate("DNS:localhost"));
    rejects_certificate(name.url("127.0.0.1"), name.place("127.0.0.1"), {"IP address mismatch"});
    BOOST_TEST(complaint(name.url()) == "");

    tls_server const number(certificate("IP:127.0.0.1,DNS:*.localhost,DNS:local*"));
    rejects_certificate(number.url(), number.place(), {"hostname mismatch"});
    BOOST_TEST(complaint(number.url("127.0.0.1")) == "");
    BOOST_TEST(complaint("rediss://" + number.place() + "?insecure") == "");
}

BOOST_AUTO_TEST_CASE(expired_certificate_is_rejected) {
    tls_server const there(certificate("DNS:localhost", -1));
    rejects_certificate(there.url(), there.place(), {"certificate has expired"});
}

BOOST_AUTO_TEST_CASE(server_may_require_a_certificate_of_the_client) {
    tls_server const there(certificate("DNS:localhost"), {"--tls-auth-clients", "yes"});
    auto const without = failure_of(there.url());
    BOOST_TEST(without.error == make_error_code(why::tls));
    BOOST_TEST(has(without.text, "certificate required"), without.text);
    BOOST_TEST(has(without.text, there.place()), without.text);
    auto const with = "&certificate=" + there.own.file() + "&key=";
    BOOST_TEST(complaint(there.url() + with + there.own.key()) == "");
}

BOOST_AUTO_TEST_CASE(files_are_checked_when_the_store_is_made) {
    certificate const one("DNS:localhost");
    certificate const other("DNS:localhost");
    auto const wrong = [&](std::string const& parameters, std::string const& reason) {
        BOOST_CHECK_EXCEPTION(connect("rediss://user:secret@localhost?" + parameters),
                              std::invalid_argument, [&](auto const& e) {
                                  std::string const what = e.what();
                                  BOOST_TEST(has(what, reason), what);
                                  return what.starts_with("weir::redis: ") && !has(what, "secret");
                              });
    };
    wrong("authorities=/nowhere/ca.pem", "authorities /nowhere/ca.pem: No such file");
    wrong("authorities=" + one.key(), one.key());
    wrong("certificate=/nowhere/c.pem&key=" + one.key(),
          "certificate /nowhere/c.pem: No such file");
    wrong("certificate=" + one.file() + "&key=/nowhere/k.pem", "key /nowhere/k.pem: No such file");
    wrong("certificate=" + one.file() + "&key=" + other.key(), "mismatch");
}

BOOST_AUTO_TEST_CASE(server_without_tls_is_named) {
    false_server plain(ctx, [](std::string const&) { return "-ERR unknown command\r\n"; });
    auto const url = "rediss://" + plain.place() + "?insecure";
    auto const failure = failure_of(url);
    BOOST_TEST(failure.error == make_error_code(why::tls));
    BOOST_TEST(has(failure.text, "does not seem to use TLS"), failure.text);
    BOOST_TEST(has(failure.text, plain.place()), failure.text);
}

BOOST_AUTO_TEST_CASE(handshake_that_does_not_end_takes_no_longer_than_connecting) {
    false_server silent(ctx, [](std::string const&) { return ""; });
    weir::redis::token_bucket calls(
        ctx,
        connect("rediss://" + silent.place() + "?insecure",
                {.connect_timeout = 100ms, .silent_for = 10s}),
        "calls", {.rate = {1000, 1s}, .burst = 5, .timeout = 10s});
    visit const guest(calls, 1, 60s);
    run_until([&] { return guest.over(); });
    BOOST_TEST(guest.rejected(weir::errc::unavailable));
    auto const failure = calls.last_failure();
    BOOST_TEST(failure.error == asio::error::timed_out);
    BOOST_TEST(has(failure.text, "TLS handshake"), failure.text);
    BOOST_TEST(has(failure.text, silent.place()), failure.text);
}

BOOST_AUTO_TEST_CASE(check_of_a_busy_process_reports_the_reason_too) {
    false_server silent(ctx, [](std::string const&) { return ""; });
    auto const store = connect(
        "rediss://" + silent.place() + "?insecure", {.connect_timeout = 100ms, .silent_for = 10s});
    std::optional<std::string> said;
    asio::co_spawn(ctx, store->check(), [&](std::exception_ptr thrown) {
        BOOST_CHECK_EXCEPTION(support::rethrow(thrown), std::exception, [&](auto const& e) {
            said = e.what();
            return true;
        });
    });
    ctx.run_one();  // the check begins, and the store connects 50 ms later
    std::this_thread::sleep_for(50ms);
    run_until([&] { return said.has_value(); });
    BOOST_TEST(has(*said, "TLS handshake"), *said);
    BOOST_TEST(has(*said, silent.place()), *said);
}

BOOST_AUTO_TEST_CASE(servers_of_both_kinds_at_the_wrong_port_grant_nothing) {
    tls_server const there;
    weir::redis::options const quick{.connect_timeout = 1s, .silent_for = 1s};
    auto const plain_port = "localhost:" + std::to_string(there.server.port());
    auto const plain = complaint("rediss://" + plain_port + "?insecure", quick);
    BOOST_TEST(has(plain, "TLS"), plain);  // whether the server replies depends on random bytes
    BOOST_TEST(has(plain, plain_port), plain);
    auto const encrypted = complaint("redis://" + there.place(), quick);
    BOOST_TEST(has(encrypted, there.place()), encrypted);
}

BOOST_AUTO_TEST_CASE(server_learns_the_name_that_the_client_wants) {
    false_server there(ctx, [](std::string const&) { return "nonsense"; });
    BOOST_TEST(complaint("rediss://" + there.place("localhost") + "?insecure") != "");
    BOOST_TEST(has(there.said, "localhost"));
    BOOST_TEST(complaint("rediss://" + there.place("127.0.0.1") + "?insecure") != "");
    BOOST_TEST(!has(there.said, "127.0.0.1"));  // an address is not a name
}

BOOST_AUTO_TEST_CASE(killed_connection_is_replaced_by_an_encrypted_one) {
    tls_server const there;
    weir::redis::token_bucket calls(
        ctx, connect(there.url()), "calls", {.rate = {1000, 1s}, .burst = 5, .timeout = 10s});
    for (int i = 0; i != 5; ++i) {
        visit const guest(calls, 1, 60s);
        run();
        BOOST_TEST(guest.granted());
        support::redis_session(there.server).say({"CLIENT", "KILL", "TYPE", "normal"});
    }
    BOOST_TEST(calls.shared_stats().failed == 0U);
}

BOOST_AUTO_TEST_CASE(simultaneous_questions_have_their_own_replies) {
    tls_server const there;
    auto const store = connect(there.url());
    constexpr int many = 3000;  // megabytes, more than a socket takes at once
    int over = 0;
    for (int i = 0; i != many; ++i) {
        weir::store::question const q{
            .bucket = weir::policy::shared_bucket::of({.rate = {1, 1h}, .burst = 1 + i % 7}),
            .min = 1,
            .max = 7,
            .timeout = 60s};
        store->async_take("calls" + std::to_string(i) + std::string(1000, 'x'), q,
                          [&, i](weir::error_code ec, weir::store::answer const& a) {
                              ++over;
                              BOOST_TEST(!ec);
                              BOOST_TEST(a.granted == 1 + i % 7);
                          });
    }
    run();
    BOOST_TEST(over == many);
    BOOST_TEST(there.accepted() == 1);
}

BOOST_AUTO_TEST_CASE(messages_for_waiting_seats_are_encrypted_too) {
    tls_server const there;
    weir::shared_seats_options const one_seat{.seats = 1, .lease = 60s, .poll = 30s};
    weir::redis::seats a(ctx, connect(there.url()), "seat", one_seat);
    weir::redis::seats b(ctx, connect(there.url()), "seat", one_seat);
    std::array const both{&a, &b};
    auto take_turns = [&]() -> asio::awaitable<void> {
        asio::steady_timer timer(ctx);
        weir::permit held = co_await a.enter(60s);
        auto since = std::chrono::steady_clock::now();
        for (std::size_t turn = 1; turn != 7; ++turn) {
            if (turn == 4)  // after the first turns both listen
                since = std::chrono::steady_clock::now();
            bool entered = false;
            weir::permit next;
            auto enter = [&](weir::redis::seats& one) -> asio::awaitable<void> {
                next = co_await one.enter(60s);
                entered = true;
            };
            asio::co_spawn(ctx, enter(*both[turn % 2]), support::rethrow);
            timer.expires_after(50ms);
            co_await timer.async_wait(asio::deferred);
            held.leave();
            while (!entered) {
                timer.expires_after(5ms);
                co_await timer.async_wait(asio::deferred);
            }
            held = std::move(next);
        }
        // Without messages each of them takes a tenth of `poll`.
        BOOST_TEST((std::chrono::steady_clock::now() - since < 6s));
        auto const clients =
            support::redis_session(there.server).say({"CLIENT", "LIST", "TYPE", "pubsub"});
        BOOST_TEST(std::ranges::count(clients, '\n') == 2);
        BOOST_TEST(!has(clients, ":" + std::to_string(there.server.port()) + " "), clients);
        ctx.stop();  // which would keep the seat for `poll`
    };
    asio::co_spawn(ctx, take_turns(), support::rethrow);
    ctx.run();
}

BOOST_AUTO_TEST_SUITE_END()
