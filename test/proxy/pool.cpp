// Pools of objects for reuse.

#include "proxy/pool.hpp"

#include "local_proxy.hpp"
#include "proxy/workspace.hpp"

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <list>

// Files of this folder are compiled together.
namespace pools {
namespace {

using namespace std::chrono_literals;
using support::virtual_time;

struct object {
    static inline int alive = 0;
    object() { ++alive; }
    object(object const&) = delete;
    ~object() { --alive; }
};

struct pool_of_three {
    using pool = proxy::pool<object, 3>;

    void take(int n) {
        for (int i = 0; i != n; ++i)
            taken.push_back(all.take());
    }

    int given_back = 0;
    pool all{[this] { ++given_back; }};
    std::list<pool::handle> taken;
};

/// Workspaces on virtual time.
struct some_workspaces {
    void settle() {
        virtual_time::forget_due();
        context.restart();
        context.poll();
    }
    void pass(net::clock::duration d) {
        support::pass(d, [this] { settle(); });
    }
    /// Whether a timer is pending.
    bool is_tidying() {
        settle();
        return virtual_time::next_due() != net::clock::time_point::max();
    }

    boost::asio::io_context context{1};
    proxy::workspaces all{context};
};

}  // namespace

BOOST_AUTO_TEST_SUITE(a_pool)

BOOST_FIXTURE_TEST_CASE(keeps_three_objects, pool_of_three) {
    BOOST_TEST(all.empty());
    take(5);
    BOOST_TEST(object::alive == 5);
    taken.clear();
    BOOST_TEST(object::alive == 3);
    BOOST_TEST(given_back == 5);
    BOOST_TEST(!all.empty());
    take(3);
    BOOST_TEST(object::alive == 3);
    BOOST_TEST(all.empty());
}

BOOST_FIXTURE_TEST_CASE(is_crowded_if_more_objects_are_in_use_than_it_keeps, pool_of_three) {
    take(3);
    BOOST_TEST(!all.crowded());
    take(1);
    BOOST_TEST(all.crowded());
    taken.pop_back();
    BOOST_TEST(!all.crowded());
}

BOOST_FIXTURE_TEST_CASE(frees_objects_that_were_unused_since_the_last_tidy, pool_of_three) {
    take(3);
    taken.clear();
    all.tidy();
    // From now on, at most two objects are in use at a time.
    for (int i = 0; i != 4; ++i) {
        take(2);
        taken.clear();
        BOOST_TEST(all.tidy() == (i == 0));
        BOOST_TEST(object::alive == 2);
    }
    // From now on, none is in use.
    BOOST_TEST(all.tidy());
    BOOST_TEST(object::alive == 0);
    BOOST_TEST(all.empty());
    BOOST_TEST(!all.tidy());
}

BOOST_FIXTURE_TEST_CASE(reports_that_it_freed_objects_above_its_limit, pool_of_three) {
    take(4);
    all.tidy();
    taken.pop_back();
    taken.pop_back();
    taken.pop_back();
    BOOST_TEST(!all.tidy());
    taken.pop_back();
    BOOST_TEST(object::alive == 3);
    BOOST_TEST(all.tidy());
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(the_workspaces_of_a_thread)

// The end of the timer shows that no unused workspace is left.
BOOST_AUTO_TEST_CASE(are_freed_if_they_were_unused_for_a_second) {
    some_workspaces some;
    BOOST_TEST(!some.is_tidying());
    for (int time = 0; time != 2; ++time) {
        {
            auto const taken = some.all.take();
        }
        BOOST_TEST(some.is_tidying());
        some.pass(1s);
        BOOST_TEST(some.is_tidying());  // it was in use in the first second
        some.pass(1s);
        BOOST_TEST(!some.is_tidying());
    }
}

BOOST_AUTO_TEST_CASE(need_no_timer_while_they_are_in_use) {
    some_workspaces some;
    auto const taken = some.all.take();
    BOOST_TEST(!some.is_tidying());
    { auto const other = some.all.take(); }
    some.pass(2s);
    BOOST_TEST(!some.is_tidying());
}

BOOST_AUTO_TEST_CASE(are_of_a_busy_thread_if_several_are_in_use) {
    some_workspaces some;
    auto const mine = some.all.take();
    BOOST_TEST(!some.all.busy());
    {
        auto const other = some.all.take();
        BOOST_TEST(some.all.busy());
    }
    BOOST_TEST(!some.all.busy());
}

BOOST_AUTO_TEST_CASE(do_not_delay_the_end_of_the_thread) {
    some_workspaces some;
    auto taken = some.all.take();
    { auto const other = some.all.take(); }
    some.all.stop();
    BOOST_TEST(!some.is_tidying());
    taken.reset();
    BOOST_TEST(!some.is_tidying());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace pools
