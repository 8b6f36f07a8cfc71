#include "http/accept.hpp"

#include <boost/test/unit_test.hpp>

#include <string>
#include <string_view>

// The media types that a client prefers, from the text of RFC 9110, 12.5.1.

namespace {

constexpr std::string_view plain = "text/plain";
constexpr std::string_view problem = "application/problem+json";

}  // namespace

BOOST_AUTO_TEST_CASE(without_accept_all_types_are_acceptable) {
    BOOST_TEST(http::quality_of("", plain) == 1000U);
}

BOOST_AUTO_TEST_CASE(ranges_and_their_weights) {
    BOOST_TEST(http::quality_of("text/plain", plain) == 1000U);
    BOOST_TEST(http::quality_of("Text/PLAIN ; Q=0.25", plain) == 250U);
    BOOST_TEST(http::quality_of("text/*;q=0.5", plain) == 500U);
    BOOST_TEST(http::quality_of("*/*;q=0.125", plain) == 125U);
    BOOST_TEST(http::quality_of("text/plain;q=1.000", plain) == 1000U);
    BOOST_TEST(http::quality_of("text/plain;q=0", plain) == 0U);
    BOOST_TEST(http::quality_of("text/plain;q=0.", plain) == 0U);
    BOOST_TEST(http::quality_of("text/plain;charset=utf-8;q=0.5", plain) == 500U);
    BOOST_TEST(http::quality_of("text/html, application/json", plain) == 0U);
    BOOST_TEST(http::quality_of("texts/plain, text/plains, text/plai, t*/plain, */plain", plain) ==
               0U);
}

// RFC 9110, 12.5.1: the example of the precedence of media ranges.
BOOST_AUTO_TEST_CASE(the_most_specific_range_decides) {
    constexpr std::string_view accept = "*/*;q=1, text/*;q=0.3, text/plain;q=0.7";
    BOOST_TEST(http::quality_of(accept, plain) == 700U);
    BOOST_TEST(http::quality_of(accept, "text/html") == 300U);
    BOOST_TEST(http::quality_of(accept, problem) == 1000U);
    BOOST_TEST(http::quality_of("text/plain;q=0, */*", plain) == 0U);
    BOOST_TEST(http::quality_of("*/*, text/plain;q=0", plain) == 0U);
}

BOOST_AUTO_TEST_CASE(invalid_ranges_are_ignored) {
    for (std::string_view const wrong :
         {"text", "text/", "/plain", "text/plain;q=2", "text/plain;q=1.001", "text/plain;q=x",
          "text/plain;q=", "text/plain;q=.5", "text/plain;q=0.1234", "text /plain", ",,;,"})
        BOOST_TEST(http::quality_of(std::string(wrong) + ", */*;q=0.5", plain) == 500U, wrong);
    BOOST_TEST(http::quality_of(R"(a/b;c="x, text/plain, y\", text/plain", */*;q=0.5)", plain) ==
               500U);
    BOOST_TEST(http::quality_of(R"(a/b;c="\)", plain) == 0U);
}

BOOST_AUTO_TEST_CASE(a_named_type_is_found) {
    BOOST_TEST(http::names_type("a/b, Application/Problem+JSON;q=0", problem));
    BOOST_TEST(!http::names_type("application/*, */*", problem));
    BOOST_TEST(!http::names_type("", problem));
}

BOOST_AUTO_TEST_CASE(several_lines_are_one_list) {
    http::request_head r;
    BOOST_REQUIRE(!http::parse(
        "GET / HTTP/1.1\r\nHost: a\r\nAccept: a/b\r\nX: y\r\naccept: c/d;q=0.5\r\n\r\n", r));
    std::string accept = "previous content";
    http::read_accept(accept, r);
    BOOST_TEST(accept == "a/b,c/d;q=0.5");
}
