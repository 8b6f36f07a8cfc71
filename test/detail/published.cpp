#include <weir/detail/published.hpp>

#include <boost/test/unit_test.hpp>

#include <stdexcept>
#include <vector>

BOOST_AUTO_TEST_CASE(counts_the_versions) {
    weir::detail::published<int> it(1);
    BOOST_TEST(it.value() == 1);
    auto const next = it.replace([](int n) { return n + 1; });
    BOOST_TEST(next.value == 2);
    BOOST_TEST(next.number == 1U);
    BOOST_TEST(it.replace([](int n) { return n; }).number == 2U);
    BOOST_TEST(it.value() == 2);
}

BOOST_AUTO_TEST_CASE(replaces_the_newest_value) {
    weir::detail::published<int> it(1);
    std::vector<int> seen;
    auto const last = it.replace([&](int n) {
        seen.push_back(n);
        if (seen.size() <= 2)
            static_cast<void>(it.replace([](int other) { return other + 1; }));
        BOOST_TEST(it.value() == n + (seen.size() <= 2));
        return n * 10;
    });
    BOOST_TEST(seen == std::vector({1, 2, 3}), boost::test_tools::per_element());
    BOOST_TEST(last.value == 30);
    BOOST_TEST(last.number == 3U);
}

BOOST_AUTO_TEST_CASE(a_change_that_fails_leaves_the_value) {
    weir::detail::published<int> it(1);
    auto const fail = [](int) -> int { throw std::invalid_argument("no"); };
    BOOST_CHECK_THROW(static_cast<void>(it.replace(fail)), std::invalid_argument);
    BOOST_TEST(it.value() == 1);
    BOOST_TEST(it.replace([](int n) { return n; }).number == 1U);
}
