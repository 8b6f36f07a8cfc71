#include <weir/redis/store.hpp>

#include "shared/certificate.hpp"
#include "shared/redis/server.hpp"
#include "support/allocations.hpp"
#include "support/printing.hpp"
#include "support/reserved_port.hpp"

#include <boost/asio/error.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/test/tree/decorator.hpp>
#include <boost/test/unit_test.hpp>

#include <chrono>
#include <memory>
#include <new>
#include <string>

// Each allocation of the client fails once: the questions concerned get an error, and the client continues.

namespace {

namespace asio = boost::asio;
namespace ut = boost::unit_test;
using namespace std::chrono_literals;
using weir::store;

struct fixture {
    support::certificate own{"IP:127.0.0.1"};
    support::reserved_port tls_port;
    support::redis_server server{support::tls_options(own, tls_port.number())};
    asio::io_context ctx;
    std::string url = server.url();
    int told = 0;
    weir::error_code error;

    std::shared_ptr<weir::redis::store> make() {
        weir::redis::options const where{
            .url = url,
            .connect_timeout = 10s,
            .silent_for = 10s,
            .retry = {.initial = 1ns, .max = 1ns}};
        return std::make_shared<weir::redis::store>(ctx, where);
    }
    // Whether the question could be sent.
    bool ask(weir::redis::store& of) {
        store::question const q{
            .bucket = weir::policy::shared_bucket::of({.rate = {1'000'000, 1s}}), .timeout = 10s};
        try {
            of.async_take("calls", q, [this](weir::error_code ec, store::answer const& a) {
                ++told;
                error = ec;
                BOOST_TEST((ec || a.granted == 1));
            });
        } catch (std::bad_alloc const&) {
            return false;
        }
        return true;
    }
    void run() {
        ctx.restart();
        ctx.run();
    }
    // After that the client continues.
    void check(weir::redis::store& of, int put, int k) {
        BOOST_TEST_REQUIRE(told == put, "allocation " << k);
        BOOST_TEST((!error || error == asio::error::no_memory), error.message());
        told = 0;
        BOOST_TEST_REQUIRE(ask(of));
        run();
        BOOST_TEST_REQUIRE(told == 1, "allocation " << k);
        BOOST_TEST(!error, error.message());
        told = 0;
    }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(redis_no_memory, fixture, *ut::precondition(support::if_redis_has_tls))

BOOST_AUTO_TEST_CASE(question_that_connects_fails_and_the_next_one_connects_again) {
    for (auto const& address : {server.url(), "redis://127.0.0.1:" + std::to_string(server.port()),
                                "rediss://127.0.0.1:" + std::to_string(tls_port.number()) +
                                    "?authorities=" + own.file()}) {
        url = address;
        bool failed = true;
        for (int k = 0; failed; ++k) {
            auto const of = make();
            int put = 0;
            failed = support::with_failing_allocation(k, [&] {
                put = ask(*of);
                run();
            });
            check(*of, put, k);
        }
    }
}

BOOST_AUTO_TEST_CASE(questions_of_a_connection_fail) {
    bool failed = true;
    for (int k = 0; failed; ++k) {
        auto const of = make();
        BOOST_TEST_REQUIRE(ask(*of));
        run();
        told = 0;
        int put = 0;
        failed = support::with_failing_allocation(k, [&] {
            for (int i = 0; i != 3; ++i)
                put += ask(*of);
            run();
        });
        check(*of, put, k);
    }
}

BOOST_AUTO_TEST_SUITE_END()
