#include "tool/text.hpp"

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <locale>
#include <string>
#include <string_view>

using namespace std::chrono_literals;

BOOST_AUTO_TEST_SUITE(texts)

BOOST_AUTO_TEST_CASE(of_numbers) {
    BOOST_TEST((tool::number_of("0") == 0));
    BOOST_TEST((tool::number_of("007") == 7));
    BOOST_TEST((tool::number_of("9223372036854775807") == INT64_MAX));
    for (std::string_view const text :
         {"", "-1", "+1", " 1", "1 ", "1x", "0x1", "1.0", "9223372036854775808"})
        BOOST_TEST(!tool::number_of(text), text);
}

BOOST_AUTO_TEST_CASE(of_decimals) {
    BOOST_TEST((tool::decimal_of("0") == 0.0));
    BOOST_TEST((tool::decimal_of("0.25") == 0.25));
    BOOST_TEST((tool::decimal_of("007") == 7.0));
    BOOST_TEST((tool::decimal_of("-1.5") == -1.5));
    BOOST_TEST((tool::decimal_of(".5") == 0.5));
    BOOST_TEST((tool::decimal_of("1e-3") == 1e-3));
    BOOST_TEST((tool::decimal_of("1E+3") == 1e3));
    BOOST_TEST((tool::decimal_of("0.1000000000000000055511151231257827") == 0.1));
    for (std::string_view const text :
         {"",   "-",     ".",    "e5",    "1e",  "+1",   "--1",      " 1",  "1 ",    "1,5",
          "1x", "1.5.5", "0x10", "0x1p4", "inf", "-inf", "infinity", "nan", "1e999", "1 2"})
        BOOST_TEST(!tool::decimal_of(text), text);
}

// A library may set the locale of the whole process.
BOOST_AUTO_TEST_CASE(of_decimals_do_not_depend_on_the_locale) {
    struct comma : std::numpunct<char> {
        char do_decimal_point() const override { return ','; }
        char do_thousands_sep() const override { return '.'; }
        std::string do_grouping() const override { return "\3"; }
    };
    auto const before = std::locale::global(std::locale(std::locale(), new comma));
    auto const found = tool::decimal_of("1.234");
    auto const none = tool::decimal_of("1,234");
    std::locale::global(before);
    BOOST_TEST((found == 1.234));
    BOOST_TEST(!none);
}

BOOST_AUTO_TEST_CASE(of_times) {
    BOOST_TEST((tool::time_of("0s") == 0ns));
    BOOST_TEST((tool::time_of("5ns") == 5ns));
    BOOST_TEST((tool::time_of("5us") == 5us));
    BOOST_TEST((tool::time_of("500ms") == 500ms));
    BOOST_TEST((tool::time_of("10s") == 10s));
    BOOST_TEST((tool::time_of("2min") == 2min));
    BOOST_TEST((tool::time_of("2562047h") == 2562047h));
    for (std::string_view const text :
         {"", "1", "s", "-1s", "1 s", "1.5s", "1m", "1d", "1S", "2562048h", "9223372036854775807s"})
        BOOST_TEST(!tool::time_of(text), text);
}

BOOST_AUTO_TEST_CASE(of_times_are_formatted_as_parsed) {
    BOOST_TEST(tool::to_text(0ns) == "0s");
    BOOST_TEST(tool::to_text(1500ms) == "1500ms");
    BOOST_TEST(tool::to_text(90s) == "90s");
    BOOST_TEST(tool::to_text(120s) == "2min");
    BOOST_TEST(tool::to_text(24h) == "24h");
    using namespace std::chrono;
    BOOST_TEST(tool::to_text(sys_days(2024y / February / 29d) + 7h + 8min + 9s + 45'999us) ==
               "2024-02-29T07:08:09.045Z");
    BOOST_TEST(tool::to_text(sys_days(1970y / January / 1d) - 1ms) == "1969-12-31T23:59:59.999Z");
    for (auto const t :
         {1ns, 1001ns, 1000ns, std::chrono::nanoseconds(25h), std::chrono::nanoseconds::max()})
        BOOST_TEST((tool::time_of(tool::to_text(t)) == t));
}

BOOST_AUTO_TEST_CASE(of_addresses) {
    struct row {
        std::string_view text, host, port;
    };
    for (auto const& [text, host, port] :
         {row{"127.0.0.1:80", "127.0.0.1", "80"},
          {"name:0", "name", "0"},
          {"[::1]:65535", "::1", "65535"}}) {
        auto const found = tool::address_of(text);
        BOOST_REQUIRE_MESSAGE(found, text);
        BOOST_TEST(found->host == host);
        BOOST_TEST(found->port == port);
    }
    for (std::string_view const text :
         {"", ":", "name", "name:", ":80", "[]:80", "::1:80", "name:65536", "name:-1", "name:http"})
        BOOST_TEST(!tool::address_of(text), text);
}

BOOST_AUTO_TEST_CASE(of_urls_are_decoded) {
    struct row {
        std::string_view text, plain;
    };
    for (auto const& [text, plain] :
         {row{"", ""},
          {"a b+c", "a b+c"},
          {"%40", "@"},
          {"a%2Fb%2fc", "a/b/c"},
          {"%2540", "%40"},
          {"%C3%a9", "\xc3\xa9"},
          {"%25", "%"}})
        BOOST_TEST((tool::unescaped(text) == plain), text);
    BOOST_TEST((tool::unescaped("%00") == std::string(1, '\0')));
    for (std::string_view const text : {"%", "%4", "a%", "%%", "%4x", "%x4", "%-1", "%+1", "% 1"})
        BOOST_TEST(!tool::unescaped(text), text);
}

BOOST_AUTO_TEST_CASE(of_utf_8) {
    for (std::string_view const text :
         {"", "plain", "\xc3\xa9", "\xc2\x80", "\xe0\xa0\x80", "\xed\x9f\xbf", "\xee\x80\x80",
          "\xf0\x90\x80\x80", "\xf4\x8f\xbf\xbf"})
        BOOST_TEST(tool::is_utf8(text), text);
    for (std::string_view const text :
         {"\x80", "\xc3", "a\xe9z", "\xc3\xa9\xa9", "\xe2\x98", "\xc1\xbf", "\xe0\x9f\xbf",
          "\xed\xa0\x80", "\xed\xbf\xbf", "\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80",
          "\xf8\x88\x80\x80\x80", "\xff"})
        BOOST_TEST(!tool::is_utf8(text), text);
}

BOOST_AUTO_TEST_SUITE_END()
