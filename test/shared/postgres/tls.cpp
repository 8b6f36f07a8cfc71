#include <weir/postgres/store.hpp>

#include "shared/certificate.hpp"
#include "shared/postgres/server.hpp"
#include "support/rethrow.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/test/tree/decorator.hpp>
#include <boost/test/unit_test.hpp>

#include <exception>
#include <memory>
#include <string>

namespace {

namespace asio = boost::asio;
namespace ut = boost::unit_test;
using support::certificate;

boost::test_tools::assertion_result if_all_is_here(ut::test_unit_id id) {
    if (auto found = support::if_postgres_is_here(id); !found)
        return found;
    return certificate::if_possible(id);
}

// A server with a certificate for `localhost`.
struct tls_server {
    certificate own{"DNS:localhost"};
    support::postgres_server server{support::postgres_tls_options(own)};
    asio::io_context ctx;

    // The error of a store with these parameters that cannot log in; empty if it can.
    std::string complaint(std::string const& host, std::string const& more) {
        auto const url =
            "postgresql://postgres@" + host + ":" + std::to_string(server.port()) + "/weir?" + more;
        auto const store =
            std::make_shared<weir::postgres::store>(ctx, weir::postgres::options{.url = url});
        std::string text;
        asio::co_spawn(ctx, store->install(), [&](std::exception_ptr failure) {
            try {
                support::rethrow(failure);
            } catch (std::exception const& e) {
                text = e.what();
            }
        });
        ctx.restart();
        ctx.run();
        return text;
    }
};

bool has(std::string const& text, std::string const& part) {
    return text.find(part) != text.npos;
}

}  // namespace

BOOST_FIXTURE_TEST_SUITE(postgres_tls, tls_server, *ut::precondition(if_all_is_here))

BOOST_AUTO_TEST_CASE(certificate_must_be_from_the_authority_and_for_the_host) {
    auto const trusted = "sslrootcert=" + own.file();
    BOOST_TEST(complaint("localhost", "sslmode=verify-full&" + trusted) == "");
    auto const wrong_host = complaint("127.0.0.1", "sslmode=verify-full&" + trusted);
    BOOST_TEST(has(wrong_host, "does not match host name"), wrong_host);
    certificate const other("DNS:localhost");
    auto const unknown = complaint("localhost", "sslmode=verify-full&sslrootcert=" + other.file());
    BOOST_TEST(has(unknown, "certificate verify failed"), unknown);
    BOOST_TEST(has(complaint("localhost", "sslmode=verify-full&sslrootcert=/nowhere/ca.pem"),
                   "/nowhere/ca.pem"));
    // Without an authority in the URL, the authorities of the system are trusted, and they do not know this
    // certificate.
    auto const by_system = complaint("localhost", "sslmode=verify-full");
    BOOST_TEST(has(by_system, "certificate"), by_system);
}

BOOST_AUTO_TEST_CASE(invalid_certificate_is_a_misconfiguration) {
    auto const url = "postgresql://postgres@127.0.0.1:" + std::to_string(server.port()) +
                     "/weir?sslmode=verify-full&sslrootcert=" + own.file();
    auto const store =
        std::make_shared<weir::postgres::store>(ctx, weir::postgres::options{.url = url});
    weir::store::question const q{
        .bucket = weir::policy::shared_bucket::of({.rate = {1, std::chrono::seconds(1)}}),
        .timeout = std::chrono::seconds(10)};
    weir::failure_kind kind{};
    store->async_take("x", q, [&](weir::error_code ec, weir::store::answer const& a) {
        BOOST_TEST(ec.failed());
        BOOST_TEST(weir::postgres::sqlstate_of(ec) == "08004");
        kind = a.kind;
    });
    ctx.restart();
    ctx.run();
    BOOST_TEST((kind == weir::failure_kind::misconfigured));
}

BOOST_AUTO_TEST_CASE(traffic_is_encrypted_if_the_server_offers_it) {
    BOOST_TEST(complaint("127.0.0.1", "") == "");
    BOOST_TEST(complaint("127.0.0.1", "sslmode=require") == "");
    support::postgres_session session(server);
    BOOST_TEST(session.number("select count(*) from pg_stat_ssl where ssl") == 0);
    auto const store = std::make_shared<weir::postgres::store>(
        ctx, weir::postgres::options{.url = server.url_over_tcp("postgres")});
    weir::postgres::token_bucket calls(
        ctx, store, "x",
        {.rate = {1, std::chrono::seconds(1)}, .timeout = std::chrono::seconds(10)});
    bool is_granted = false;
    calls.async_enter([&](weir::error_code ec, weir::permit const&) { is_granted = !ec; });
    ctx.restart();
    ctx.run();
    BOOST_TEST(is_granted);
    BOOST_TEST(session.number("select count(*) from pg_stat_ssl where ssl") == 1);
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_CASE(nothing_is_sent_unencrypted_if_tls_is_required,
                     *ut::precondition(support::if_postgres_is_here)) {
    support::postgres_server plain;
    asio::io_context ctx;
    auto const store = std::make_shared<weir::postgres::store>(
        ctx, weir::postgres::options{.url = plain.url_over_tcp("postgres", "?sslmode=require")});
    std::string text;
    asio::co_spawn(ctx, store->install(), [&](std::exception_ptr failure) {
        try {
            support::rethrow(failure);
        } catch (std::exception const& e) {
            text = e.what();
        }
    });
    ctx.run();
    BOOST_TEST(has(text, "server does not support SSL, but SSL was required"), text);
}
