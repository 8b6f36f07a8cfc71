#include "tool/json.hpp"

#include "tool/text.hpp"

#include <boost/test/unit_test.hpp>

#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <string_view>
#include <utility>

using namespace std::string_view_literals;
using tool::json;

namespace {

std::string text_of(json::layout how) {
    json out(how);
    out.begin().member("a", 1).name("b").begin('[');
    out.value(true).null().value("x").begin().end().begin('[').end(']').raw("0.50");
    out.end(']').name("c").begin().member("d", 1.5).end().member("e", false).end();
    return std::move(out).text();
}

}  // namespace

BOOST_AUTO_TEST_SUITE(json_is_written)

BOOST_AUTO_TEST_CASE(in_two_layouts) {
    BOOST_TEST(text_of(json::layout::compact) ==
               R"({"a":1,"b":[true,null,"x",{},[],0.50],"c":{"d":1.5},"e":false})");
    BOOST_TEST(text_of(json::layout::spaced) ==
               R"({"a": 1, "b": [true, null, "x", {}, [], 0.50], "c": {"d": 1.5}, "e": false})");
}

BOOST_AUTO_TEST_CASE(with_any_number) {
    json out;
    out.begin('[').value(std::numeric_limits<std::int64_t>::min());
    out.value(std::numeric_limits<std::uint64_t>::max()).value(0U).value(-1).value(0.0).value(1e-7);
    out.value(1.0).value(0.1).end(']');
    BOOST_TEST(std::move(out).text() ==
               "[-9223372036854775808,18446744073709551615,0,-1,0,1e-07,1,0.1]");
}

BOOST_AUTO_TEST_CASE(with_a_text_that_ends_in_a_bracket) {
    json out;
    out.begin('[').raw("{").value("[").value("a:").value("{").end(']');
    BOOST_TEST(std::move(out).text() == R"([{,"[","a:","{"])");
}

BOOST_AUTO_TEST_CASE(with_quoted_texts) {
    struct row {
        std::string_view text, quoted;
    };
    for (auto const& [text, quoted] :
         {row{"", R"("")"}, row{"plain text", R"("plain text")"},
          row{R"(a "b" \c)", R"("a \"b\" \\c")"}, row{"/", R"("/")"},
          row{"\n\t\r"sv, R"("\u000a\u0009\u000d")"},
          row{"a\0b\x1f\x7f"sv, R"("a\u0000b\u001f\u007f")"}, row{"caf\xc3\xa9", "\"caf\xc3\xa9\""},
          row{"\xf0\x9f\x98\x80", "\"\xf0\x9f\x98\x80\""},
          // A text that is not UTF-8 is read as Latin-1.
          row{"caf\xe9", R"("caf\u00e9")"}, row{"\xc3\xa9\xff", R"("\u00c3\u00a9\u00ff")"},
          row{"\xed\xa0\x80", R"("\u00ed\u00a0\u0080")"}, row{"\xc3", R"("\u00c3")"}}) {
        BOOST_TEST(tool::quoted(text) == quoted);
        json value, name;
        value.value(text);
        BOOST_TEST(std::move(value).text() == quoted);
        name.begin().member(text, 1).end();
        BOOST_TEST(std::move(name).text() == "{" + std::string(quoted) + ":1}");
    }
}

// Any bytes become one line of UTF-8, without quotation marks inside.
BOOST_AUTO_TEST_CASE(with_any_bytes) {
    std::mt19937 random(1);
    for (int i = 0; i != 20'000; ++i) {
        std::string text(random() % 8, '\0');
        for (auto& c : text)
            c = random() % 4 == 0 ? static_cast<char>(random()) : "\"\\a\xc3\xa9\n"[random() % 6];
        auto const quoted = tool::quoted(text);
        BOOST_TEST_REQUIRE(tool::is_utf8(quoted));
        std::size_t quotes = 0;
        for (std::size_t at = 0; at != quoted.size(); ++at) {
            BOOST_TEST_REQUIRE(static_cast<unsigned char>(quoted[at]) >= 0x20);
            quotes += quoted[at] == '"' ? 1 : 0;
            if (quoted[at] == '\\')
                ++at;
        }
        BOOST_TEST_REQUIRE(quotes == 2U);
    }
}

BOOST_AUTO_TEST_CASE(with_a_custom_escape) {
    std::string out = "<";
    tool::append_escaped(out, "a\"b\\c\n\xc3", [&](char c) { out += c == '\n' ? "N" : "?"; });
    BOOST_TEST(out == "<a?b?cN?");
}

BOOST_AUTO_TEST_SUITE_END()
