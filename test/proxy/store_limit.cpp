#include "proxy/store_limit.hpp"

#include <weir/shared/memory_store.hpp>

#include "local_proxy.hpp"
#include "proxy/turn.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/test/unit_test.hpp>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

using namespace std::chrono_literals;

namespace {

namespace asio = boost::asio;
using store = weir::basic_memory_store<
    asio::basic_waitable_timer<net::clock, net::clock_traits, asio::any_io_executor>>;
using turn = proxy::turn<weir::permit>;

config::limit kept_there(std::string const& rule) {
    config::limit c;
    c.name = "rate";
    c.rule = config::rule_of(rule);
    c.queue = config::queue_of("patience 1s", config::limit::default_patience);
    c.store = "memory";
    c.timeout = 50ms;
    return c;
}

// A limit with a store in the memory of this process.
struct shared {
    explicit shared(config::limit const& c) : limit(proxy::make_store_limit(ex, c, keeper)) {}

    // Makes a request with a patience of 1 s, and returns its outcome.
    net::error_code ask() {
        auto const mine = std::make_shared<turn>(ex);
        limit->async_enter({request, client}, {}, 1s, proxy::on_turn<weir::permit>(mine, ex));
        pass(1s + 10ms);
        BOOST_REQUIRE(mine->came);
        return mine->ec;
    }
    // The number of granted requests of ten that arrive at the same time.
    int granted() {
        std::vector<std::shared_ptr<turn>> all;
        for (int i = 0; i != 10; ++i) {
            all.push_back(std::make_shared<turn>(ex));
            limit->async_enter({request, client}, {}, 1s,
                               proxy::on_turn<weir::permit>(all.back(), ex));
        }
        pass(1s + 10ms);
        int n = 0;
        for (auto const& one : all)
            n += one->came && !one->ec;
        return n;
    }
    void pass(net::clock::duration d) {
        auto const end = net::clock::now() + d;
        auto const settle = [&] {
            support::virtual_time::forget_due();
            context.restart();
            while (context.poll() > 0) {
                support::virtual_time::forget_due();
                context.restart();
            }
        };
        for (settle(); support::virtual_time::next_due() <= end; settle())
            support::virtual_time::advance_to(support::virtual_time::next_due());
        support::virtual_time::advance_to(end);
        settle();
    }

    asio::io_context context{1};
    net::executor ex = context.get_executor();
    std::shared_ptr<store> keeper = std::make_shared<store>(context);
    http::request_head request;
    asio::ip::address client;
    std::shared_ptr<proxy::limit> limit;
};

}  // namespace

BOOST_AUTO_TEST_SUITE(a_limit_of_a_store)

BOOST_AUTO_TEST_CASE(keeps_its_rate) {
    shared rate(kept_there("5/60s"));
    BOOST_TEST(rate.granted() == 5);
    BOOST_TEST(
        (rate.ask() == weir::errc::deadline_unreachable || rate.limit->stats().granted == 5u));
}

// After a pause the burst is granted immediately, not the permits of a period.
BOOST_AUTO_TEST_CASE(keeps_its_burst) {
    BOOST_TEST(shared(kept_there("1/60s burst 3")).granted() == 3);
    BOOST_TEST(shared(kept_there("8/60s burst 2")).granted() == 2);
    BOOST_TEST(shared(kept_there("4/60s bucket")).granted() == 4);
}

// Each option has the value of the configuration.
BOOST_AUTO_TEST_CASE(has_the_options_of_the_configuration) {
    auto c = kept_there("7/60s burst 3");
    c.prefetch = 2;
    c.timeout = 70ms;
    c.on_failure = weir::fail_open();
    auto const bucket = config::shared_rule_of(c);
    BOOST_TEST(!bucket.log);
    BOOST_TEST((bucket.options.rate == weir::rate(7, 60s)));
    BOOST_TEST((bucket.options.burst == 3));
    BOOST_TEST((bucket.options.prefetch == 2));
    BOOST_TEST((bucket.options.timeout == 70ms));
    BOOST_TEST(std::holds_alternative<weir::fail_open>(bucket.options.on_failure));
    auto const log = config::shared_rule_of(kept_there("7/60s"));
    BOOST_TEST(log.log);
    BOOST_TEST((log.options.rate == weir::rate(7, 60s)));
    BOOST_CHECK_THROW((void)config::shared_rule_of(kept_there("3 seats")), std::invalid_argument);
    BOOST_CHECK_THROW((void)config::shared_rule_of(kept_there("7/60s leaky")),
                      std::invalid_argument);
}

// The name at the store is the limit's name, unless `shared_as` gives another one.
BOOST_AUTO_TEST_CASE(is_shared_by_name) {
    auto c = kept_there("3/60s");
    shared one(c);
    auto const same = proxy::make_store_limit(one.ex, c, one.keeper);
    c.shared_as = "other";
    auto const other = proxy::make_store_limit(one.ex, c, one.keeper);
    BOOST_TEST(one.granted() == 3);
    one.limit = same;
    BOOST_TEST(one.granted() == 0);
    one.limit = other;
    BOOST_TEST(one.granted() == 3);
}

BOOST_AUTO_TEST_CASE(takes_another_rule) {
    shared rate(kept_there("1/60s burst 3"));
    rate.limit->configure(kept_there("1/60s burst 5"));
    rate.pass(600s);
    BOOST_TEST(rate.granted() == 5);
    rate.limit->change_rule(config::rule_of("1/60s burst 2"));
    rate.pass(600s);
    BOOST_TEST(rate.granted() == 2);
}

BOOST_AUTO_TEST_CASE(decides_locally_while_the_store_is_down) {
    auto const bypassed_permits = [](config::failure_mode mode) {
        auto c = kept_there("4/3600s burst 4");
        c.on_failure = mode;
        shared rate(c);
        rate.keeper->behave({.what = weir::store_conduct::fate::unreachable});
        (void)rate.granted();
        return rate.granted();
    };
    BOOST_TEST(bypassed_permits(weir::fail_closed()) == 0);
    BOOST_TEST(bypassed_permits(weir::fail_open()) == 10);
    BOOST_TEST(bypassed_permits(weir::fail_local(0.5)) <= 2);
}

BOOST_AUTO_TEST_CASE(that_does_not_reply_is_unavailable) {
    shared rate(kept_there("9/60s"));
    BOOST_TEST(!rate.ask());
    rate.keeper->behave({.what = weir::store_conduct::fate::unreachable});
    BOOST_TEST((rate.ask() == weir::errc::unavailable));
    BOOST_TEST((rate.limit->store_stats()->mode == weir::shared_mode::closed));
    rate.keeper->behave({});
    rate.pass(60s);
    BOOST_TEST(!rate.ask());
}

BOOST_AUTO_TEST_SUITE_END()
