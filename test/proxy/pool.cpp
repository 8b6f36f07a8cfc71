// Objects that are used again and again.

#include "proxy/pool.hpp"

#include <boost/test/unit_test.hpp>

#include <list>

// Files of this folder are compiled together.
namespace pools {
namespace {

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

}  // namespace

BOOST_AUTO_TEST_SUITE(a_pool)

BOOST_FIXTURE_TEST_CASE(keeps_a_few_objects, pool_of_three) {
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

BOOST_FIXTURE_TEST_CASE(is_crowded_by_more_than_it_keeps, pool_of_three) {
    take(3);
    BOOST_TEST(!all.crowded());
    take(1);
    BOOST_TEST(all.crowded());
    BOOST_TEST(!all.crowded(1));
    taken.pop_back();
    BOOST_TEST(!all.crowded());
}

BOOST_FIXTURE_TEST_CASE(frees_what_was_not_needed_since_it_was_tidied, pool_of_three) {
    take(3);
    taken.clear();
    all.tidy();
    // Two at a time are needed, again and again.
    for (int i = 0; i != 4; ++i) {
        take(2);
        taken.clear();
        BOOST_TEST(all.tidy() == (i == 0));
        BOOST_TEST(object::alive == 2);
    }
    // And then none.
    BOOST_TEST(all.tidy());
    BOOST_TEST(object::alive == 0);
    BOOST_TEST(all.empty());
    BOOST_TEST(!all.tidy());
}

BOOST_FIXTURE_TEST_CASE(says_that_objects_above_those_it_keeps_were_freed, pool_of_three) {
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

}  // namespace pools
