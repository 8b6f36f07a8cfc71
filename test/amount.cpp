#include <weir/amount.hpp>
#include <weir/permit.hpp>
#include <weir/seats.hpp>

#include "support/says.hpp"

#include <boost/mp11/list.hpp>
#include <boost/test/unit_test.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>
#include <type_traits>

using support::says;
using weir::amount;
using weir::request;

namespace {

using integers = boost::mp11::mp_list<signed char, unsigned char, short, unsigned short, int,
                                      unsigned, long, unsigned long, long long, unsigned long long>;

enum plain_enum { one };
enum class scoped_enum { one };

template <class T>
constexpr bool asks = std::is_convertible_v<T, request> && std::is_constructible_v<request, T>;
template <class T>
constexpr bool cannot_ask =
    !std::is_convertible_v<T, request> && !std::is_constructible_v<request, T>;

}  // namespace

static_assert(asks<int> && asks<int&> && asks<int const> && asks<std::size_t> && asks<std::int8_t>);
static_assert(cannot_ask<bool> && cannot_ask<bool&> && cannot_ask<bool const>);
static_assert(cannot_ask<char> && cannot_ask<char const&> && cannot_ask<wchar_t>);
static_assert(cannot_ask<char8_t> && cannot_ask<char16_t> && cannot_ask<char32_t>);
static_assert(cannot_ask<double> && cannot_ask<float>);
static_assert(cannot_ask<void*> && cannot_ask<std::nullptr_t> && cannot_ask<char const*>);
static_assert(cannot_ask<plain_enum> && cannot_ask<scoped_enum>);

// {2, 3} could mean a class, a flow, or a maximum.
static_assert(!std::is_constructible_v<request, int, int>);
static_assert(!std::is_constructible_v<request, int, int, int>);
static_assert(request::between(2, 3).max() == 3);

template <class T>
concept is_an_amount = requires(weir::permit p, weir::seats l, T n) {
    p.settle(n);
    p.split(n);
    l.charge(n);
};
static_assert(is_an_amount<int> && is_an_amount<std::uint64_t> && is_an_amount<amount>);
static_assert(!is_an_amount<request> && !is_an_amount<char> && !is_an_amount<double>);

static_assert(request().count() == 1);
static_assert(request(7).count() == 7);
static_assert(std::is_trivially_copyable_v<request>);

BOOST_AUTO_TEST_SUITE(a_request)

BOOST_AUTO_TEST_CASE(is_for_one_permit_by_default) {
    BOOST_TEST(request().count() == 1);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(may_be_made_with_any_integral_type, T, integers) {
    BOOST_TEST(request(T{0}).count() == 0);
    BOOST_TEST(request(T{1}).count() == 1);
    BOOST_TEST(request(T{100}).count() == 100);

    T const constant = 3;
    request const implicit = constant;
    BOOST_TEST(implicit.count() == 3);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(keeps_numbers_within_and_above_the_limit_for_each_type, T, integers) {
    constexpr auto largest = std::numeric_limits<T>::max();
    auto const kept = request(largest).count();
    if constexpr (sizeof(T) < sizeof(amount))
        BOOST_TEST(kept == static_cast<amount>(largest));
    else
        BOOST_TEST(kept > 10 * weir::max_amount);
}

BOOST_AUTO_TEST_CASE(for_too_large_a_number_counts_as_the_maximum) {
    auto const most = request(std::numeric_limits<std::uint64_t>::max()).count();
    BOOST_TEST(request(std::numeric_limits<amount>::max()).count() == most);
    BOOST_TEST(request(most).count() == most);
    BOOST_TEST(request(most - 1).count() == most - 1);
    BOOST_TEST(request(weir::max_amount + 1).count() == weir::max_amount + 1);
    BOOST_TEST(request(most, {.priority = 7}).count() == most);
    BOOST_TEST(request(most, {.priority = 7}).priority() == 7);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(for_a_negative_number_throws_with_its_value, T, integers) {
    if constexpr (std::is_signed_v<T>) {
        BOOST_CHECK_EXCEPTION(
            request(static_cast<T>(-1)), std::invalid_argument,
            says("weir: a request for -1 permits; the number must not be negative"));
        constexpr auto least = std::numeric_limits<T>::min();
        BOOST_CHECK_EXCEPTION(request(T{least}), std::invalid_argument,
                              says("weir: a request for " + std::to_string(least) +
                                   " permits; the number must not be negative"));
    }
}

BOOST_AUTO_TEST_CASE(has_a_priority_a_flow_and_a_weight) {
    request const plain(7);
    BOOST_TEST(plain.priority() == 3);
    BOOST_TEST(plain.flow() == 0U);
    request const one{7, {.priority = 0, .flow = ~std::uint64_t{0}}};
    BOOST_TEST(one.count() == 7);
    BOOST_TEST(one.priority() == 0);
    BOOST_TEST(one.flow() == ~std::uint64_t{0});
    BOOST_TEST(request(1, {.priority = 7}).priority() == weir::last_priority);
    BOOST_CHECK_EXCEPTION(request(1, {.priority = 8}), std::invalid_argument,
                          says("weir: a request of priority 8; the priority must be from 0 to 7"));
    BOOST_CHECK_EXCEPTION(request(1, {.priority = -1}), std::invalid_argument,
                          says("weir: a request of priority -1; the priority must be from 0 to 7"));
    BOOST_CHECK_THROW(request(-1, {.priority = 1}), std::invalid_argument);
    BOOST_TEST(plain.weight() == 1);
    for (int weight = 1; weight <= weir::max_weight; ++weight) {
        for (int priority = 0; priority <= weir::last_priority; ++priority) {
            request const r{weir::max_amount, {.priority = priority, .flow = 5, .weight = weight}};
            BOOST_TEST(r.count() == weir::max_amount);
            BOOST_TEST(r.max() == weir::max_amount);
            BOOST_TEST(r.priority() == priority);
            BOOST_TEST(r.flow() == 5U);
            BOOST_TEST(r.weight() == weight);
        }
    }
    BOOST_CHECK_EXCEPTION(request(1, {.weight = 0}), std::invalid_argument,
                          says("weir: a request of weight 0; the weight must be from 1 to 32"));
    BOOST_CHECK_EXCEPTION(request(1, {.weight = 33}), std::invalid_argument,
                          says("weir: a request of weight 33; the weight must be from 1 to 32"));
    BOOST_TEST(request::between(2, 3, 7).weight() == 1);
}

BOOST_AUTO_TEST_CASE(of_the_largest_size_can_be_added_thousands_of_times) {
    BOOST_TEST(weir::max_amount == 1'000'000'000'000'000);
    BOOST_TEST(std::numeric_limits<amount>::max() / weir::max_amount >= 9'000);
}

BOOST_AUTO_TEST_SUITE_END()
