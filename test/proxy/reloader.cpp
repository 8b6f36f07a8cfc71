// Reloads of the configuration.

#include "config/read.hpp"
#include "proxy/file_shares.hpp"
#include "proxy/reload.hpp"

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/test/unit_test.hpp>

#include <functional>
#include <latch>
#include <memory>
#include <vector>

// Files of this folder are compiled together.
namespace reloads {
namespace {

config::configuration configuration(std::int64_t threads) {
    auto c = config::read("[[upstream]]\nname = \"a\"\nservers = \"unix:/a\"\n", "test");
    c.threads = threads;
    return c;
}

struct reloads_here {
    // Waits until no reload is in progress.
    void wait() {
        while (reloader.is_reading())
            context.run_one();
    }

    boost::asio::io_context context;
    boost::asio::executor_work_guard<net::executor> keeps_running{context.get_executor()};
    std::shared_ptr<proxy::plan const> plan =
        proxy::plan_maker(context.get_executor(), configuration(3),
                          proxy::share_out_files(configuration(3)), nullptr)
            .make();
    int read = 0;
    std::vector<std::int64_t> applied;  // the number of threads of each
    std::function<config::configuration()> again = [] { return configuration(7); };
    proxy::reloader reloader{
        context,
        [this] {
            ++read;
            return again();
        },
        plan,
        [this](proxy::plan_maker& m) {
            applied.push_back(m.configuration().threads);
            plan = m.make();
        }};
};

}  // namespace

BOOST_AUTO_TEST_SUITE(a_reload)

// A new number of threads takes effect at the next start.
BOOST_FIXTURE_TEST_CASE(applies_the_configuration_that_it_read, reloads_here) {
    BOOST_TEST(!reloader.is_reading());
    reloader.start();
    BOOST_TEST(reloader.is_reading());
    wait();
    BOOST_TEST(applied == std::vector<std::int64_t>{3}, boost::test_tools::per_element());
    reloader.start();
    wait();
    BOOST_TEST(applied.size() == 2u);
    BOOST_TEST(plan->configuration.threads == 3);
}

// One further reload reads all changes since the file was read.
BOOST_FIXTURE_TEST_CASE(is_followed_by_one_more_if_requested_meanwhile, reloads_here) {
    std::latch goes_on(1);
    again = [&] {
        goes_on.wait();
        return configuration(7);
    };
    reloader.start();
    reloader.start();
    reloader.start();
    goes_on.count_down();
    wait();
    BOOST_TEST(read == 2);
    BOOST_TEST(applied.size() == 2u);
}

BOOST_FIXTURE_TEST_CASE(changes_nothing_if_the_file_is_invalid, reloads_here) {
    auto const before = plan;
    again = []() -> config::configuration {
        throw config::bad_configuration({"wrong here", "and there"});
    };
    reloader.start();
    wait();
    again = []() -> config::configuration { throw std::runtime_error("cannot be read"); };
    reloader.start();
    wait();
    BOOST_TEST(applied.empty());
    BOOST_TEST((plan == before));
    again = [] { return configuration(7); };
    reloader.start();
    wait();
    BOOST_TEST(applied.size() == 1u);
}

BOOST_FIXTURE_TEST_CASE(is_discarded_during_shutdown, reloads_here) {
    std::latch goes_on(1);
    again = [&] {
        goes_on.wait();
        return configuration(7);
    };
    reloader.start();
    reloader.stop();
    goes_on.count_down();
    wait();
    BOOST_TEST(applied.empty());
    reloader.start();
    BOOST_TEST(!reloader.is_reading());
    BOOST_TEST(read == 1);
}

BOOST_AUTO_TEST_CASE(needs_a_file) {
    boost::asio::io_context context;
    std::shared_ptr<proxy::plan const> const plan;
    proxy::reloader none(context, nullptr, plan, [](proxy::plan_maker&) {});
    none.start();
    BOOST_TEST(!none.is_reading());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace reloads
