#include "support/faulty_executor.hpp"
#include "support/workshop.hpp"

#include <boost/asio/bind_executor.hpp>
#include <boost/asio/strand.hpp>
#include <boost/test/unit_test.hpp>

#include <optional>
#include <utility>
#include <vector>

using namespace support;
using kind = workshop::kind;

namespace {

template <class Executor>
using pool_on = weir::basic_pool<thing, Executor, weir::testing::basic_timer<Executor>>;

}  // namespace

BOOST_AUTO_TEST_SUITE(pool_executors)

BOOST_AUTO_TEST_CASE(a_typed_executor_and_coroutines_on_other_types) {
    using typed = asio::io_context::executor_type;
    asio::io_context ctx;
    workshop shop;
    pool_on<typed> pool(ctx, shop.maker(), {.max = 1});
    int done = 0;
    auto same = [&]() -> asio::awaitable<void, typed> {
        auto const lease = co_await pool.checkout();
        BOOST_TEST(lease->number() == 1);
        ++done;
    };
    auto other = [&]() -> asio::awaitable<void> {
        {
            auto const lease = co_await pool.checkout();
            BOOST_TEST(lease->number() == 1);
        }
        auto const lease = co_await pool.async_checkout();
        ++done;
    };
    co_spawn(ctx, same(), rethrow);
    co_spawn(ctx, other(), rethrow);
    settle(ctx);
    BOOST_TEST(done == 2);
    BOOST_TEST((pool.get_executor() == ctx.get_executor()));
}

BOOST_AUTO_TEST_CASE(handlers_run_on_their_own_executor) {
    asio::io_context ctx;
    asio::io_context elsewhere;
    workshop shop;
    thing_pool pool(ctx, shop.maker());
    order here(pool);
    order there;
    pool.async_checkout(asio::bind_executor(elsewhere, there.callback()));
    settle(ctx);
    BOOST_TEST(here.number() == 1);
    BOOST_TEST(there.waiting());
    settle(elsewhere);
    BOOST_TEST(there.number() == 2);
}

BOOST_AUTO_TEST_CASE(the_factory_gets_the_executor_of_the_pool_and_runs_on_a_strand_of_it) {
    asio::io_context ctx;
    std::vector<bool> same;
    std::shared_ptr<census> all = std::make_shared<census>();
    auto make = [&](asio::any_io_executor const& ex) -> asio::awaitable<thing> {
        same.push_back(ex == ctx.get_executor());
        auto const here = co_await asio::this_coro::executor;
        auto const* const strand = here.target<asio::strand<asio::any_io_executor>>();
        same.push_back(strand && strand->running_in_this_thread());
        same.push_back(strand && strand->get_inner_executor() == ctx.get_executor());
        co_return thing(all);
    };
    thing_pool pool(ctx, make);
    order one(pool);
    settle(ctx);
    BOOST_TEST(one.number() == 1);
    BOOST_TEST(same == std::vector<bool>(3, true), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(the_next_call_recovers_from_a_failure_of_the_executor) {
    using faulty = faulty_executor<asio::io_context::executor_type>;
    // The posts of the limiter's actor, of the supplier and of its first job. The later posts are made by Asio's
    // coroutines and strands, which cannot handle failures.
    for (int after = 0; after != 3; ++after) {
        for (bool const keeping : {false, true}) {
            BOOST_TEST_CONTEXT("after " << after << (keeping ? ", kept" : "")) {
                asio::io_context ctx;
                faults plan;
                workshop shop;
                {
                    pool_on<faulty> pool(
                        faulty(ctx.get_executor(), plan), shop.maker(), shop.checker(),
                        weir::pool_options{.max = 2,
                                           .check_after = 0s,
                                           .check_timeout = weir::forever,
                                           .create_timeout = weir::forever});
                    std::vector<weir::lease<thing>> leases;
                    int calls = 0;
                    auto const keep = [&](weir::error_code ec, weir::lease<thing> lease) {
                        BOOST_TEST(!ec);
                        ++calls;
                        leases.push_back(std::move(lease));
                    };
                    plan.keeping = keeping;
                    plan.fail_next(1, after);
                    int asked = 0;
                    for (int i = 0; i != 6; ++i) {
                        try {
                            pool.async_checkout(keep);
                            ++asked;
                        } catch (fault const&) {}
                        try {
                            run_for(ctx, 1s);
                        } catch (fault const&) {}
                        leases.clear();
                    }
                    plan.mend();
                    pool.async_checkout(keep);
                    ++asked;
                    for (int i = 0; i != 10; ++i) {
                        run_for(ctx, 1s);
                        leases.clear();
                    }
                    BOOST_TEST(calls == asked);
                    BOOST_TEST(pool.stats().in_use == 0);
                    BOOST_TEST(pool.stats().being_created == 0);
                    BOOST_TEST(pool.stats().being_checked == 0);
                }
                settle(ctx);
                BOOST_TEST(shop.all->alive == 0);
                BOOST_TEST(shop.all->max <= 2);
            }
        }
    }
}

BOOST_AUTO_TEST_SUITE_END()
