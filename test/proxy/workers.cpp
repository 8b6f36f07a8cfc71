// The worker threads, without clients.

#include "config/read.hpp"
#include "proxy/threads.hpp"

#include <boost/asio/executor_work_guard.hpp>
#include <boost/test/unit_test.hpp>

#include <memory>
#include <string>
#include <vector>

// Files of this folder are compiled together.
namespace threads_that_serve {
namespace {

struct three_threads {
    three_threads() { all.add(3, plan, nullptr); }

    // The workers, in the order in which they get connections.
    std::vector<proxy::worker*> workers() {
        std::vector<proxy::worker*> found;
        for (int i = 0; i != 3; ++i, all.advance())
            found.push_back(&all.next());
        return found;
    }
    // Marks with `x` the workers that have new failures or rejections to report.
    std::string troubled() {
        std::string found;
        auto const each = workers();
        std::vector<proxy::worker*> told;
        all.on_each_with_trouble([&](proxy::worker& w) { told.push_back(&w); });
        for (std::size_t i = 0; i != each.size(); ++i) {
            each[i]->context().restart();
            each[i]->context().poll();
            found += !told.empty() && told.back() == each[i] ? 'x' : '.';
        }
        return found;
    }
    static void end(proxy::worker& w, proxy::ending how) {
        proxy::record r;
        r.how = how;
        w.accounting().ends(r);
    }

    boost::asio::io_context context;
    std::shared_ptr<proxy::plan const> plan =
        proxy::plan_maker(
            context.get_executor(),
            config::read("[[upstream]]\nname = \"a\"\nservers = \"unix:/a\"\n", "test"),
            {.clients = 10, .admin = 0, .upstream = 10}, nullptr)
            .make();
    proxy::threads all{context};
};

}  // namespace

BOOST_AUTO_TEST_SUITE(the_threads)

BOOST_FIXTURE_TEST_CASE(get_connections_in_turn, three_threads) {
    auto const first = workers();
    BOOST_TEST((first[0] != first[1] && first[1] != first[2] && first[0] != first[2]));
    BOOST_TEST((workers() == first));
    BOOST_TEST((&all.next() == first[0]));
    BOOST_TEST((&all.next() == first[0]));
}

BOOST_FIXTURE_TEST_CASE(do_not_accept_connections_if_there_are_several, three_threads) {
    BOOST_TEST((&all.accepting() == &context));
    proxy::threads one{context};
    one.add(1, plan, nullptr);
    BOOST_TEST((&one.accepting() == &one.next().context()));
}

BOOST_FIXTURE_TEST_CASE(count_together, three_threads) {
    auto const each = workers();
    for (auto const how : {proxy::ending::answered, proxy::ending::routed, proxy::ending::answered})
        end(*each[0], how);
    end(*each[2], proxy::ending::answered);
    BOOST_TEST(all.sum(proxy::ending::answered) == 3u);
    BOOST_TEST(all.sum(proxy::ending::routed) == 1u);
    BOOST_TEST(all.sum(proxy::ending::failed) == 0u);
    auto const open = each[1]->accounting().opens();
    BOOST_TEST(all.sum(&proxy::counters::open) == 1u);
}

BOOST_FIXTURE_TEST_CASE(report_trouble_once, three_threads) {
    auto const each = workers();
    auto const fail = [&](std::size_t i) {
        each[i]->accounting().fails({nullptr, nullptr, "unreachable"});
    };
    BOOST_TEST(troubled() == "...");
    end(*each[0], proxy::ending::answered);
    fail(1);
    BOOST_TEST(troubled() == ".x.");
    BOOST_TEST(troubled() == "...");
    fail(0);
    fail(1);
    BOOST_TEST(troubled() == "xx.");
    BOOST_TEST(troubled() == "...");
}

BOOST_FIXTURE_TEST_CASE(have_ended_when_the_last_one_has, three_threads) {
    int ended = 0;
    all.run([&] { ++ended; });
    all.drain();
    auto const keeps_running = boost::asio::make_work_guard(context);
    while (ended == 0)
        context.run_one();
    all.join();
    context.poll();
    BOOST_TEST(ended == 1);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace threads_that_serve
