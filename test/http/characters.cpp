#include "http/characters.hpp"

#include <boost/test/unit_test.hpp>

#include <string>
#include <string_view>

// Files of this folder are compiled together.
namespace sets_of_characters {
namespace {

char lower(char c) {
    constexpr std::string_view capitals = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
    constexpr std::string_view small = "abcdefghijklmnopqrstuvwxyz";
    auto const at = capitals.find(c);
    return at == capitals.npos ? c : small[at];
}

}  // namespace

BOOST_AUTO_TEST_SUITE(characters)

BOOST_AUTO_TEST_CASE(are_equal_in_capitals_and_small_letters) {
    for (int a = 0; a != 256; ++a)
        for (int b = 0; b != 256; ++b) {
            auto const x = static_cast<char>(a), y = static_cast<char>(b);
            BOOST_TEST_REQUIRE(http::iequals(std::string_view(&x, 1), std::string_view(&y, 1)) ==
                               (lower(x) == lower(y)));
        }
    for (std::size_t size = 1; size != 20; ++size)
        for (std::size_t at = 0; at != size; ++at)
            for (int c = 0; c != 256; ++c)
                for (int d : {c, c ^ 0x20, c ^ 0x01, c ^ 0x80, c | 0x20}) {
                    std::string a(size, 'x'), b(size, 'X');
                    a[at] = static_cast<char>(c);
                    b[at] = static_cast<char>(d);
                    BOOST_TEST_REQUIRE(http::iequals(a, b) == (lower(a[at]) == lower(b[at])));
                }
    BOOST_TEST(http::iequals("Content-Length", "cONTENT-lENGTH"));
    BOOST_TEST(!http::iequals("a", "ab"));
    BOOST_TEST(!http::iequals("X-Forwarded-For", "X-Forwarded-Uri"));
    BOOST_TEST(!http::iequals("Content-Length", "Context-Length"));
    BOOST_TEST(http::iequals("", ""));
}

BOOST_AUTO_TEST_CASE(of_a_set_are_all_or_some_of_a_text) {
    using http::is_digit;
    BOOST_TEST(http::all("", is_digit));
    BOOST_TEST(!http::some("", is_digit));
    for (auto const* text : {"0", "9", "0123456789"}) {
        BOOST_TEST(http::all(text, is_digit));
        BOOST_TEST(http::some(text, is_digit));
    }
    for (auto const* text : {"/", ":", "1 2", "12x"}) {
        BOOST_TEST(!http::all(text, is_digit));
        BOOST_TEST(!http::some(text, is_digit));
    }
}

// RFC 9110, 5.5: a value has no control characters except tab.
BOOST_AUTO_TEST_CASE(that_are_no_text_are_found_at_each_position) {
    auto const belongs = [](int c) { return c == '\t' || (c >= 0x20 && c != 0x7f); };
    for (std::size_t size = 1; size != 20; ++size)
        for (std::size_t at = 0; at != size; ++at)
            for (int c = 0; c != 256; ++c) {
                std::string text(size, 'a');
                text[at] = static_cast<char>(c);
                auto const first = belongs(c) ? text.npos : at;
                BOOST_TEST_REQUIRE(http::find_not_text(text) == first);
                BOOST_TEST_REQUIRE(http::find_not_text(text, at) == first);
                BOOST_TEST_REQUIRE(http::find_not_text(text, at + 1) == text.npos);
                text[0] = '\t';
                BOOST_TEST_REQUIRE(http::find_not_text(text) == (at == 0 ? text.npos : first));
            }
    BOOST_TEST(http::find_not_text("") == std::string_view::npos);
    BOOST_TEST(http::find_not_text(std::string(64, '\n'), std::string_view::npos) ==
               std::string_view::npos);
    BOOST_TEST(http::find_not_text("\t\t\t\t\t\t\t\t\x80\xff\x01\x7f") == 10u);
}

BOOST_AUTO_TEST_CASE(are_removed_at_both_ends_if_they_are_blank) {
    BOOST_TEST(http::trimmed(" \t a b\t ") == "a b");
    BOOST_TEST(http::trimmed("a b") == "a b");
    BOOST_TEST(http::trimmed("\r\na") == "\r\na");
    BOOST_TEST(http::trimmed(" \t ") == "");
    BOOST_TEST(http::trimmed("") == "");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace sets_of_characters
