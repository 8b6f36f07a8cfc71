#include <weir/detail/list.hpp>

#include "support/random.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <list>
#include <type_traits>
#include <utility>
#include <vector>

BOOST_AUTO_TEST_SUITE(detail_list)

namespace {

struct in_first;
struct in_second;
using first_hook = weir::detail::list_hook<in_first>;
using second_hook = weir::detail::list_hook<in_second>;

struct element : first_hook, second_hook {
    explicit element(int v) : value(v) {}
    int value;
};

using first_list = weir::detail::list<element, in_first>;
using second_list = weir::detail::list<element, in_second>;

std::vector<int> values(auto const& list) {
    std::vector<int> all;
    if (!list.empty()) {
        for (element* e = &list.front(); e; e = list.after(*e))
            all.push_back(e->value);
    }
    return all;
}

bool is_linked(element& e) {
    return static_cast<first_hook&>(e).is_linked();
}

void unlink(element& e) {
    static_cast<first_hook&>(e).unlink();
}

struct some_elements {
    element one{1}, two{2}, three{3}, four{4};
    first_list list;
};

using numbers = std::vector<int>;

}  // namespace

// An element cannot be copied out of its list, and a list cannot be copied at all.
static_assert(!std::is_copy_constructible_v<element> && !std::is_move_constructible_v<element>);
static_assert(!std::is_copy_constructible_v<first_list>);
static_assert(std::is_nothrow_move_constructible_v<first_list>);

BOOST_FIXTURE_TEST_SUITE(a_list, some_elements)

BOOST_AUTO_TEST_CASE(is_empty_at_first) {
    BOOST_TEST(list.empty());
    BOOST_TEST(!is_linked(one));
}

BOOST_AUTO_TEST_CASE(keeps_the_order_in_which_elements_were_pushed) {
    list.push_back(two);
    list.push_back(three);
    list.push_front(one);
    list.push_back(four);
    BOOST_TEST(!list.empty());
    BOOST_TEST(values(list) == (numbers{1, 2, 3, 4}));
    BOOST_TEST(&list.front() == &one);
    BOOST_TEST(list.after(one) == &two);
    BOOST_TEST(list.after(four) == nullptr);
}

BOOST_AUTO_TEST_CASE(removes_the_first) {
    list.push_back(one);
    list.push_back(two);
    BOOST_TEST(is_linked(one));
    BOOST_TEST(&list.pop_front() == &one);
    BOOST_TEST(!is_linked(one));
    BOOST_TEST(values(list) == numbers{2});
    BOOST_TEST(&list.pop_front() == &two);
    BOOST_TEST(list.empty());
}

BOOST_AUTO_TEST_CASE(removes_an_element_from_any_position) {
    for (element* e : {&one, &two, &three, &four})
        list.push_back(*e);
    unlink(two);
    BOOST_TEST(!is_linked(two));
    BOOST_TEST(values(list) == (numbers{1, 3, 4}));
    unlink(one);
    BOOST_TEST(values(list) == (numbers{3, 4}));
    unlink(four);
    BOOST_TEST(values(list) == numbers{3});
    unlink(three);
    BOOST_TEST(list.empty());
}

BOOST_AUTO_TEST_CASE(accepts_a_removed_element_again) {
    list.push_back(one);
    list.push_back(two);
    unlink(one);
    list.push_back(one);
    BOOST_TEST(values(list) == (numbers{2, 1}));
}

BOOST_AUTO_TEST_CASE(appends_all_elements_of_another) {
    list.push_back(one);
    list.push_back(two);
    first_list other;
    other.push_back(three);
    other.push_back(four);
    list.append(other);
    BOOST_TEST(values(list) == (numbers{1, 2, 3, 4}));
    BOOST_TEST(other.empty());

    // The links of both lists are valid in both directions.
    unlink(three);
    unlink(two);
    BOOST_TEST(values(list) == (numbers{1, 4}));
    other.push_back(two);
    BOOST_TEST(values(other) == numbers{2});
}

BOOST_AUTO_TEST_CASE(appends_to_an_empty_list_and_appends_an_empty_list) {
    first_list other;
    list.append(other);
    BOOST_TEST(list.empty());

    other.push_back(one);
    list.append(other);
    BOOST_TEST(values(list) == numbers{1});
    BOOST_TEST(other.empty());

    list.append(other);
    BOOST_TEST(values(list) == numbers{1});
}

BOOST_AUTO_TEST_CASE(moves_with_its_elements) {
    list.push_back(one);
    list.push_back(two);
    first_list moved(std::move(list));
    BOOST_TEST(values(moved) == (numbers{1, 2}));
    BOOST_TEST(list.empty());

    unlink(one);
    unlink(two);
    BOOST_TEST(moved.empty());

    first_list nothing(std::move(moved));
    BOOST_TEST(nothing.empty());
}

BOOST_AUTO_TEST_CASE(forgets_its_elements_without_touching_them) {
    {
        element short_lived(5);
        list.push_back(short_lived);
    }
    list.clear();
    BOOST_TEST(list.empty());
    list.push_back(one);
    BOOST_TEST(values(list) == numbers{1});
}

BOOST_AUTO_TEST_CASE(shares_its_elements_with_a_list_of_another_kind) {
    second_list other;
    list.push_back(one);
    list.push_back(two);
    other.push_back(two);
    other.push_back(one);
    BOOST_TEST(values(list) == (numbers{1, 2}));
    BOOST_TEST(values(other) == (numbers{2, 1}));

    unlink(one);
    BOOST_TEST(values(list) == numbers{2});
    BOOST_TEST(values(other) == (numbers{2, 1}));
    BOOST_TEST(static_cast<second_hook&>(one).is_linked());
}

BOOST_AUTO_TEST_CASE(behaves_like_a_standard_list) {
    support::for_each_seed(1, 200, [](support::random_source& random) {
        std::array<first_list, 2> lists;
        std::array<std::list<int>, 2> expected;
        std::list<element> elements;
        for (int i = 0; i != 20; ++i)
            elements.emplace_back(i);

        for (int step = 0; step != 100; ++step) {
            auto const which = static_cast<std::size_t>(random.between(0, 1));
            auto& e = *std::next(elements.begin(), random.between(0, 19));
            if (random.one_in(20)) {
                lists[which].append(lists[1 - which]);
                expected[which].splice(expected[which].end(), expected[1 - which]);
            } else if (auto& by = *std::next(elements.begin(), random.between(0, 19));
                       is_linked(e) && !is_linked(by)) {
                static_cast<first_hook&>(e).replace(by);
                for (auto& values : expected)
                    std::ranges::replace(values, e.value, by.value);
            } else if (is_linked(e)) {
                unlink(e);
                expected[0].remove(e.value);
                expected[1].remove(e.value);
            } else if (random.one_in(2)) {
                lists[which].push_back(e);
                expected[which].push_back(e.value);
            } else {
                lists[which].push_front(e);
                expected[which].push_front(e.value);
            }
            for (std::size_t i : {0U, 1U}) {
                BOOST_TEST_REQUIRE(lists[i].empty() == expected[i].empty());
                BOOST_REQUIRE(std::ranges::equal(values(lists[i]), expected[i]));
            }
        }
    });
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE_END()
