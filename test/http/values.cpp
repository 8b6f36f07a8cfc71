// Cookies, parameters of a query, and claims of a JSON Web Token, as keys of limits.

#include "http/values.hpp"

#include "support/base64url.hpp"

#include <boost/test/unit_test.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

// Files of this folder are compiled together.
namespace values_of_requests {
namespace {

// A request with these lines, and with Cookie fields in this order. `text` must outlive the result.
http::request_head parsed(std::string& text, std::string_view fields) {
    text = "GET / HTTP/1.1\r\nHost: a\r\n" + std::string(fields) + "\r\n";
    http::request_head head;
    BOOST_REQUIRE(!http::parse(text, head));
    return head;
}

http::named_value cookie(std::string_view fields, std::string_view name = "a") {
    std::string text;
    auto const head = parsed(text, fields);
    return http::cookie_of(head, name);
}

std::string token(std::string_view claims) {
    return "Bearer " + support::base64url(R"({"alg":"none"})") + '.' + support::base64url(claims) +
           ".c2ln";
}

}  // namespace

BOOST_AUTO_TEST_SUITE(a_value)

BOOST_AUTO_TEST_CASE(of_a_cookie_is_found_among_others) {
    for (auto const* const fields :
         {"Cookie: a=b\r\n", "Cookie: b=a; a=b; c=d\r\n", "Cookie: aa=1;a=b\r\n",
          "cookie: A=1; a = b \r\n", "Cookie: x; =y; ;; a=b;\r\n", "Cookie: a=\"b\"\r\n",
          "Cookie: a=%62\r\n", "Cookie: c=d\r\nCookie: a=b\r\n"}) {
        auto const found = cookie(fields);
        BOOST_TEST(found.count == 1u, fields);
        BOOST_TEST(found.value == "b", fields);
    }
    BOOST_TEST(cookie("Cookie: a=b=c==\r\n").value == "b=c==");
    BOOST_TEST(cookie("Cookie: a=b+c\r\n").value == "b+c");
    BOOST_TEST(cookie("Cookie: a=\"\r\n").value == "\"");
    BOOST_TEST(cookie("Cookie: a=%\r\n").value == "%");
}

BOOST_AUTO_TEST_CASE(that_is_no_cookie_of_the_name_is_not_found) {
    for (auto const* const fields : {"", "Cookie: \r\n", "Cookie: A=b\r\n", "Cookie: ab=c\r\n",
                                     "Cookie: a\r\n", "Cookie: b=a=c\r\n", "Cookie2: a=b\r\n",
                                     "X-Cookie: a=b\r\n", "Connection: cookie\r\nCookie: a=b\r\n"})
        BOOST_TEST(cookie(fields).count == 0u, fields);
}

BOOST_AUTO_TEST_CASE(of_a_cookie_is_counted_in_all_lines) {
    BOOST_TEST(cookie("Cookie: a=b; a=c\r\n").count == 2u);
    BOOST_TEST(cookie("Cookie: a=b\r\nCookie: a=b\r\n").count == 2u);
    BOOST_TEST(cookie("Cookie: a=b; a=\r\n").count == 2u);
    BOOST_TEST(cookie("Cookie: a=; a=b\r\n").value == "");
}

BOOST_AUTO_TEST_CASE(of_a_query_is_decoded_as_a_form) {
    struct row {
        std::string_view target, name, value;
        std::size_t count = 1;
    };
    for (auto const& [target, name, value, count] :
         {row{"/?a=b", "a", "b"},
          row{"/x?c=d&a=b&e", "a", "b"},
          row{"/?a=b=c", "a", "b=c"},
          row{"/?%61=%62%20%2B", "a", "b +"},
          row{"/?a+b=c+d", "a b", "c d"},
          row{"/?a%5B%5D=1", "a[]", "1"},
          row{"/?a", "a", ""},
          row{"/?a=", "a", ""},
          row{"/?a=%zz%4", "a", "%zz%4"},
          row{"/?a=b#c", "a", "b"},
          row{"/?b?a=c", "b?a", "c"},
          row{"/?a=1&a=2", "a", "1", 2},
          row{"/?a=1&%61=2", "a", "1", 2},
          row{"/?a=&a=2", "a", "", 2},
          row{"/", "a", "", 0},
          row{"/?", "a", "", 0},
          row{"/a=b", "a", "", 0},
          row{"/?A=b", "a", "", 0},
          row{"/?ab=c&&", "a", "", 0},
          row{"*", "a", "", 0},
          row{"/#?a=b", "a", "", 0}}) {
        auto const found = http::parameter_of(target, name);
        BOOST_TEST(found.count == count, target);
        BOOST_TEST(found.value == value, target);
    }
}

BOOST_AUTO_TEST_CASE(of_a_claim_is_text_or_a_whole_number) {
    for (auto const& [claims, value] : std::vector<std::pair<std::string_view, std::string_view>>{
             {R"({"sub":"anna"})", "anna"},
             {R"({"iss":"x","sub":"a\u00e9\n"})", "a\xc3\xa9\n"},
             {R"({"sub":-12})", "-12"},
             {R"({"sub":18446744073709551615})", "18446744073709551615"},
             {R"( { "sub" : "" } )", ""},
             {R"({"sub":1.5})", ""},
             {R"({"sub":true})", ""},
             {R"({"sub":null})", ""},
             {R"({"sub":["a"]})", ""},
             {R"({"sub":{"sub":"a"}})", ""},
             {R"({"x":{"sub":"a"}})", ""},
             {R"(["sub","a"])", ""},
             {R"("sub")", ""},
             {R"({"sub":"a")", ""},
             {R"({"sub":"a"}})", ""},
             {"{\"sub\":\"\xff\"}", ""},
             {"", ""}})
        BOOST_TEST(http::claim_of(token(claims), "sub") == value, claims);
    BOOST_TEST(http::claim_of(token(R"({"https://e.org/t":"x"})"), "https://e.org/t") == "x");
    // The length decides how the text ends.
    for (std::string text = "a"; text.size() != 9; text += "b")
        BOOST_TEST(http::claim_of(token("{\"sub\":\"" + text + "\"}"), "sub") == text);
}

BOOST_AUTO_TEST_CASE(of_a_malformed_token_is_missing) {
    auto const right = token(R"({"sub":"a"})");
    BOOST_TEST(http::claim_of(right, "sub") == "a");
    BOOST_TEST(http::claim_of("bEARER  " + right.substr(7), "sub") == "a");
    auto const payload = right.find('.') + 1;
    for (auto const& wrong : std::vector<std::string>{
             "", "Bearer", "Bearer ", "Bearer ..", "Basic " + right.substr(7), right.substr(7),
             "Bearer" + right.substr(7), right + ".x", right + ".x.y",
             right.substr(0, right.rfind('.')),
             right.substr(0, payload) + "=" + right.substr(payload),
             right.substr(0, payload) + "+" + right.substr(payload + 1),
             right.substr(0, payload) + "A" + right.substr(payload)})
        BOOST_TEST(http::claim_of(wrong, "sub") == "", wrong);
}

// As deep and as large as a header can be.
BOOST_AUTO_TEST_CASE(of_a_huge_token_takes_bounded_work) {
    for (auto const* const opening : {"[", "{\"a\":", "[[],"}) {
        std::string deep = "{\"sub\":\"a\",\"x\":";
        while (deep.size() < 24'000)
            deep += opening;
        BOOST_TEST(http::claim_of(token(deep), "sub") == "");
    }
    std::string nested = "1";
    for (int i = 0; i != 1000; ++i)
        nested = '[' + nested + ']';
    BOOST_TEST(http::claim_of(token(R"({"sub":"a","x":)" + nested + '}'), "sub") == "");
    std::string many = R"({"sub":"a")";
    for (int i = 0; many.size() < 24'000; ++i)
        many += ",\"x" + std::to_string(i) + "\":[]";
    BOOST_TEST(http::claim_of(token(many + '}'), "sub") == "a");
    std::string const long_text(20'000, 'x');
    BOOST_TEST(http::claim_of(token("{\"sub\":\"" + long_text + "\"}"), "sub") == long_text);
}

BOOST_AUTO_TEST_CASE(of_a_claim_is_read_from_a_forwarded_field) {
    std::string text;
    auto const right = token(R"({"sub":"a"})");
    BOOST_TEST(http::claim_of(parsed(text, "authorization: " + right + "\r\n"), "sub") == "a");
    BOOST_TEST(http::claim_of(parsed(text, "X: " + right + "\r\n"), "sub") == "");
    BOOST_TEST(http::claim_of(
                   parsed(text, "Connection: authorization\r\nAuthorization: " + right + "\r\n"),
                   "sub") == "");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace values_of_requests
