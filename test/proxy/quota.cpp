#include "proxy/quota.hpp"

#include <boost/test/unit_test.hpp>

#include <string>
#include <vector>

using proxy::policy_text;
using proxy::quotas_of;

namespace {

weir::limiter_config rule(std::string const& text) {
    return weir::limiter_config::parse(text);
}

// The items of RateLimit-Policy.
std::string told(std::string const& text) {
    std::string all;
    for (auto const& item : policy_text("a", quotas_of(rule(text))).items)
        all += (all.empty() ? "" : ", ") + item;
    return all;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(quotas)

BOOST_AUTO_TEST_CASE(of_each_kind) {
    BOOST_TEST(told("3 seats") == R"("a";q=3;qu="concurrent-requests")");
    BOOST_TEST(told("20 vegas most 40") == R"("a";q=40;qu="concurrent-requests")");
    BOOST_TEST(told("10/60s") == R"("a";q=10;w=60)");
    BOOST_TEST(told("10/60s sliding") == R"("a";q=10;w=60)");
    BOOST_TEST(told("10/60s fixed") == R"("a";q=10;w=60)");
    BOOST_TEST(told("10/60s bucket") == R"("a";q=10;w=60)");
    BOOST_TEST(told("10/1s leaky capacity 20") == R"("a";q=20;w=2)");
    BOOST_TEST(told("10/1s bursty max_burst 3s") == R"("a";q=30;w=3)");
    BOOST_TEST(told("10/1s warming") == R"("a";q=10;w=1)");
    BOOST_TEST(told("10/1s & 100/1min") == R"("a";q=10;w=1, "a";q=100;w=60)");
}

BOOST_AUTO_TEST_CASE(have_whole_seconds_rounded_up) {
    BOOST_TEST(told("1/1ms") == R"("a";q=1;w=1)");
    BOOST_TEST(told("10/1500ms") == R"("a";q=10;w=2)");
}

// A client that asks for so much in such a time must not be refused.
BOOST_AUTO_TEST_CASE(of_a_burst_last_until_it_is_back) {
    BOOST_TEST(told("10/1s burst 10") == R"("a";q=10;w=1)");
    BOOST_TEST(told("10/1s burst 25") == R"("a";q=25;w=3)");
    BOOST_TEST(told("10/1s burst 5") == R"("a";q=10;w=1)");
    BOOST_TEST(told("0/1s burst 5") == R"("a";q=5)");
}

BOOST_AUTO_TEST_CASE(of_several_parts_have_a_least_one_and_some_window) {
    policy_text const text("a", quotas_of(rule("100/1min & 7 seats")));
    BOOST_TEST(text.most == 7);
    BOOST_TEST(text.has_window);
    BOOST_TEST(!policy_text("a", quotas_of(rule("7 seats"))).has_window);
}

BOOST_AUTO_TEST_CASE(have_at_most_15_digits) {
    BOOST_TEST(quotas_of(rule("1000000000000000/1s")).front().most == 999'999'999'999'999);
    BOOST_TEST(quotas_of(rule("1000000000000000 seats")).front().most == 999'999'999'999'999);
}

BOOST_AUTO_TEST_CASE(names_are_strings_of_structured_fields) {
    BOOST_TEST(proxy::quoted("per client") == "\"per client\"");
    BOOST_TEST(proxy::quoted(R"(a"b\c)") == R"("a\"b\\c")");
    BOOST_TEST(proxy::quoted("caf\xc3\xa9 5%\n\x7f") == "\"caf%c3%a9 5%25%0a%7f\"");
}

BOOST_AUTO_TEST_CASE(change_while_they_are_read) {
    proxy::told_rule told("a", rule("10/1s"));
    auto const& before = told.text();
    told.change(rule("20/1s"));
    BOOST_TEST(before.items.front() == R"("a";q=10;w=1)");
    BOOST_TEST(told.text().items.front() == R"("a";q=20;w=1)");
}

BOOST_AUTO_TEST_SUITE_END()
