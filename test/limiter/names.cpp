#include <weir/chain.hpp>
#include <weir/format.hpp>
#include <weir/keyed.hpp>
#include <weir/pool.hpp>
#include <weir/token_bucket.hpp>

#include "support/rethrow.hpp"
#include "support/virtual_limiters.hpp"
#include "support/visit.hpp"

#include <boost/asio/use_future.hpp>
#include <boost/test/unit_test.hpp>

#include <concepts>
#include <exception>
#include <optional>
#include <string>
#include <string_view>

// The name of a limiter in its errors and statistics.

using namespace support;
using weir::errc;
using weir::error_code;
using weir::permit;

namespace {

using per_client = weir::testing::keyed<int, weir::seats>;

// Returns the message and the printed text of the rejection that the call throws when it is awaited.
struct texts {
    std::string what;
    std::string printed;
    std::string limiter;
};
template <class Rejection = weir::rejection, class Call>
texts rejection_of(asio::io_context& ctx, Call& call) {
    texts result;
    co_spawn(
        ctx,
        [&]() -> asio::awaitable<void> {
            try {
                auto const unexpected = co_await call();
            } catch (Rejection const& rejected) {
                result = {rejected.what(), fmt::format("{}", rejected),
                          std::string(rejected.limiter())};
            }
        },
        rethrow);
    run_for(ctx, 1h);
    return result;
}

constexpr std::string_view too_much =
    "the request exceeds the capacity of the limiter: 3 permits requested, but the capacity is 2";

}  // namespace

BOOST_AUTO_TEST_SUITE(limiter_names)

BOOST_AUTO_TEST_CASE(stand_in_the_message_of_a_rejection_with_the_numbers) {
    asio::io_context ctx;
    seats workers{ctx, {.seats = 2}, {.name = "workers"}};
    auto const large = [&] { return workers.enter(3); };
    auto const seen = rejection_of(ctx, large);
    BOOST_TEST(seen.what == "weir: workers: " + std::string(too_much) + " [weir:6]");
    BOOST_TEST(seen.printed == "workers: " + std::string(too_much));
    BOOST_TEST(seen.limiter == "workers");

    auto const both = workers.try_enter(2);
    auto const late = [&] { return workers.enter(1, 1s); };
    BOOST_TEST(rejection_of(ctx, late).what ==
               "weir: workers: no permit became available within the patience [weir:2]");
    auto const hasty = [&] { return workers.async_enter(1, 0s); };
    BOOST_TEST(rejection_of(ctx, hasty).what ==
               "weir: workers: no permit became available within the patience [weir:2]");
    workers.close();
    BOOST_TEST(rejection_of(ctx, late).what == "weir: workers: the limiter is closed [weir:7]");
}

BOOST_AUTO_TEST_CASE(are_absent_from_the_messages_of_a_limiter_without_a_name) {
    asio::io_context ctx;
    seats workers{ctx, {.seats = 2}};
    auto const large = [&] { return workers.enter(3); };
    auto const seen = rejection_of(ctx, large);
    BOOST_TEST(seen.what == "weir: " + std::string(too_much) + " [weir:6]");
    BOOST_TEST(seen.printed == too_much);
    BOOST_TEST(seen.limiter == "");
    BOOST_TEST(workers.try_enter(3).limiter().empty());
    BOOST_TEST(fmt::format("{}", workers.stats()).starts_with("0 granted"));
}

BOOST_AUTO_TEST_CASE(come_with_the_permit_of_a_rejection_and_with_its_retry_time) {
    asio::io_context ctx;
    token_bucket calls{ctx, {.rate = {1, 1s}, .burst = 2, .initial = 0}, {.name = "calls"}};
    error_code ec;
    auto const refused = calls.try_enter(1, ec);
    BOOST_TEST(ec == errc::no_permit);
    BOOST_TEST(refused.limiter().view() == "calls");
    BOOST_TEST(refused.retry_after() == 1s);
    BOOST_TEST(refused.count() == 0);
    BOOST_TEST(refused.id() == 0U);
    BOOST_TEST(fmt::format("{}", refused) == "calls: no permit; retry in 1s");

    auto const large = calls.try_enter(3, ec);
    BOOST_TEST(ec == errc::exceeds_capacity);
    BOOST_TEST(large.limiter().view() == "calls");
    BOOST_TEST(!large.retry_after());
    BOOST_TEST(large.count() == 0);

    visit waits{calls, weir::request(2), weir::patience(1h)};
    settle(ctx);
    calls.configure([](auto& o) { o.burst = 1; });
    settle(ctx);
    BOOST_TEST(waits.rejected(errc::exceeds_capacity));
    BOOST_TEST(waits.seat().limiter().view() == "calls");
    run_for(ctx, 2s);
    auto granted = calls.try_enter();
    BOOST_TEST_REQUIRE(static_cast<bool>(granted));
    BOOST_TEST(granted.limiter().empty());
    granted.leave();
    BOOST_TEST(granted.limiter().empty());
}

BOOST_AUTO_TEST_CASE(are_the_same_for_all_keys) {
    asio::io_context ctx;
    per_client clients{ctx, {.seats = 2}, {}, {.name = "clients"}};
    auto const large = [&] { return clients.enter(7, 3); };
    BOOST_TEST(rejection_of(ctx, large).what ==
               "weir: clients: " + std::string(too_much) + " [weir:6]");
    error_code ec;
    BOOST_TEST(clients.try_enter(7, 3, ec).limiter().view() == "clients");
    auto const both = clients.try_enter(7, 2);
    BOOST_TEST(clients.try_enter(7).limiter().view() == "clients");
    auto const late = [&] { return clients.enter(7, 1, 1s); };
    BOOST_TEST(rejection_of(ctx, late).limiter == "clients");
    BOOST_TEST(fmt::format("{}", clients.stats()).starts_with("clients: 1 granted"));
    clients.close();
    BOOST_TEST(clients.charge(7, 1).limiter().view() == "clients");
}

BOOST_AUTO_TEST_CASE(tell_which_limiter_of_a_chain_has_rejected) {
    asio::io_context ctx;
    seats workers{ctx, {.seats = 2}, {.name = "workers"}};
    per_client clients{ctx, {.seats = 2}, {}, {.name = "clients"}};
    weir::chain large(workers, clients.with(7, 3));
    auto const entered = [&] { return large.enter(); };
    auto const seen = rejection_of<weir::chain_rejection>(ctx, entered);
    BOOST_TEST(seen.what == "weir: clients: " + std::string(too_much) + " [weir:6]");
    BOOST_TEST(seen.printed == "clients: " + std::string(too_much) + ", rejected by limiter 1");
    BOOST_TEST(seen.limiter == "clients");

    auto const both = workers.try_enter(2);
    weir::chain small(clients.with(7), workers);
    auto const rejected = small.try_enter();
    BOOST_TEST(rejected.limiter().view() == "workers");
    BOOST_TEST(rejected.rejected_by() == 1U);
    BOOST_TEST(fmt::format("{}", rejected) == "workers: no permits, rejected by limiter 1");
    auto const late = [&] { return small.enter(1s); };
    BOOST_TEST(rejection_of<weir::chain_rejection>(ctx, late).limiter == "workers");
}

BOOST_AUTO_TEST_CASE(begin_the_statistics_and_may_be_changed) {
    asio::io_context ctx;
    seats workers{ctx, {.seats = 2}, {.name = "workers"}};
    BOOST_TEST(workers.stats().name.view() == "workers");
    BOOST_TEST(fmt::format("{}", workers.stats()).starts_with("workers: 0 granted"));
    workers.configure_queue([](auto& o) { o.name = "jobs"; });
    BOOST_TEST(fmt::format("{}", workers.stats()).starts_with("jobs: 0 granted"));
}

BOOST_AUTO_TEST_SUITE_END()
