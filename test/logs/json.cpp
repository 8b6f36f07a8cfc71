#include "logs/format.hpp"

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

using namespace std::chrono_literals;
using namespace std::string_literals;
using namespace std::string_view_literals;
using logs::key_source;
using kind = logs::key_source::kind;

namespace {

// The client of a line; empty if the line is unreadable.
std::optional<std::string> client_of(std::string_view line,
                                     std::string_view format = "json time=t client=c") {
    auto const reader = logs::format::parse(format).make_reader({key_source{}});
    logs::entry e;
    if (!reader->read(line, e))
        return {};
    return std::string(e.keys[0]);
}
// The client of a line with a time and this member.
std::optional<std::string> with(std::string_view member) {
    return client_of(R"({"t":807256800,)"s.append(member).append("}"));
}
std::optional<std::string> text(std::string_view inside) {
    return with("\"c\":\""s.append(inside).append("\""));
}

// A line of `levels` nested objects.
std::string nested(std::size_t levels) {
    std::string line = R"({"t":807256800,"c":"a")";
    for (std::size_t i = 1; i < levels; ++i)
        line += R"(,"x":{"y":1)";
    return line.append(levels, '}');
}

}  // namespace

BOOST_AUTO_TEST_SUITE(json_lines)

BOOST_AUTO_TEST_CASE(may_have_escapes_in_texts) {
    BOOST_TEST((text("1.2.3.4") == "1.2.3.4"));
    BOOST_TEST((text(R"(\u0031.2.3.4)") == "1.2.3.4"));
    BOOST_TEST((text(R"(\"\\\/\b\f\n\r\t)") == "\"\\/\b\f\n\r\t"));
    BOOST_TEST((text(R"(a\/b\/c)") == "a/b/c"));
    BOOST_TEST((text(R"(\u00e9\u20AC\ud83d\ude00)") == "\u00e9\u20ac\U0001f600"));
    BOOST_TEST((text("\u00e9\U0001f600") == "\u00e9\U0001f600"));
    BOOST_TEST((text(R"(a\u0000b)") == "a\0b"s));
    BOOST_TEST((text("") == ""));
    // The parser delivers a long text in parts.
    std::string written, meant;
    for (int i = 0; i != 10'000; ++i) {
        written += R"(\u0041\/x)";
        meant += "A/x";
    }
    BOOST_TEST((text(written) == meant));
}

BOOST_AUTO_TEST_CASE(may_have_escapes_in_names) {
    BOOST_TEST((with(R"("\u0063":"a")") == "a"));
    BOOST_TEST((with(R"("c\u0000":"a")") == ""));
    auto const format = "json time=t client=a.b/c";
    BOOST_TEST((client_of(R"({"t":807256800,"a":{"b\/c":"x"}})", format) == "x"));
    BOOST_TEST((client_of(R"({"t":807256800,"\u0061":{"b\u002fc":"x"}})", format) == "x"));
    BOOST_TEST((client_of(R"({"t":807256800,"a":{"b":"x"}})", format) == ""));
}

BOOST_AUTO_TEST_CASE(give_the_same_entry_with_any_escapes) {
    auto const reader = logs::format::parse("json").make_reader(
        {{}, {kind::target}, {kind::method}, {kind::host}, {kind::field, "header User-Agent"}});
    for (
        auto const line :
        {R"({"time":"1995-08-01T06:00:00Z","remote_addr":"1.2.3.4","request":"GET /a/b HTTP/1.1","http_host":"x.org","http_user_agent":"a/1","status":"200"})"sv,
         R"({"time":"1995-08-01T06:00:00\u005A","remote_addr":"\u0031.2.3.4","request":"GET \/a\/b HTTP\/1.1","http_host":"x\u002eorg","http_user_agent":"a\/1","status":"\u00320\u0030"})"sv,
         R"({"\u0074ime":"1995-08-01T06:00:00Z","remote\u005faddr":"1.2.3.4","reque\u0073t":"\u0047ET\u0020/a/b HTTP/1.1","http\u005fhost":"x.org","http_user_agent":"a\u002F1","status":200})"sv}) {
        logs::entry e;
        BOOST_TEST_REQUIRE(reader->read(line, e), line);
        BOOST_TEST((e.at == 807'256'800s));
        BOOST_TEST(e.status == 200u);
        BOOST_TEST(e.keys[0] == "1.2.3.4");
        BOOST_TEST(e.keys[1] == "/a/b");
        BOOST_TEST(e.keys[2] == "GET");
        BOOST_TEST(e.keys[3] == "x.org");
        BOOST_TEST(e.keys[4] == "a/1");
    }
}

BOOST_AUTO_TEST_CASE(are_rejected_with_invalid_texts) {
    for (auto const wrong :
         {R"(\ud83d)"sv, R"(\ude00)"sv, R"(\ud83dx)"sv, R"(\ud83d\n)"sv, R"(\ud83d\u0041)"sv,
          R"(\ud83d\ud83d)"sv, R"(\x41)"sv, R"(\')"sv, R"(\u)"sv, R"(\u12)"sv, R"(\u12g4)"sv,
          R"(\U0041)"sv, R"(\)"sv, "a\nb"sv, "a\tb"sv, "a\0b"sv, "\x1f"sv, "\""sv}) {
        BOOST_TEST(!text(wrong), wrong);
        BOOST_TEST(!with("\"other\":\""s.append(wrong).append("\"")), wrong);
        BOOST_TEST(!with("\""s.append(wrong).append("\":1")), wrong);
    }
}

// Clients may send such bytes, and their requests count.
BOOST_AUTO_TEST_CASE(keep_bytes_that_are_not_utf_8) {
    for (auto const bytes : {"\xff"sv, "a\xe9z"sv, "\xc3"sv, "\xed\xa0\x80"sv, "\x7f"sv})
        BOOST_TEST((text(bytes) == bytes));
}

BOOST_AUTO_TEST_CASE(use_the_first_member_of_a_name) {
    BOOST_TEST((with(R"("c":"a","c":"b")") == "a"));
    BOOST_TEST((with(R"("c":null,"c":"b")") == "b"));
    BOOST_TEST((with(R"("c":"","c":"b")") == ""));
    BOOST_TEST((with(R"("c":"a","\u0063":"b")") == "a"));
    BOOST_TEST((with(R"("x":{"c":"b"},"c":"a","y":["c"])") == "a"));
    // If a line has several of the names, the first name in the list counts, in any order of the members.
    auto const first = [](std::string_view line) { return client_of(line, "json"); };
    BOOST_TEST((first(R"({"ts":807256800,"ip":"b","remote_addr":"a"})") == "a"));
    BOOST_TEST((first(R"({"ts":807256800,"remote_addr":"a","ip":"b"})") == "a"));
}

BOOST_AUTO_TEST_CASE(do_not_keep_values_of_the_previous_line) {
    auto const reader = logs::format::parse("json time=t client=c").make_reader({key_source{}});
    logs::entry e;
    BOOST_TEST(reader->read(R"({"t":807256800,"c":"\u0061"})", e));
    BOOST_TEST(!reader->read(R"({"t":807256801,"c":"b\u00)", e));
    BOOST_TEST(reader->read(R"({"t":807256802})", e));
    BOOST_TEST(e.keys[0] == "");
    BOOST_TEST(!reader->read(R"({"c":"a"})", e));
    BOOST_TEST(!reader->read(R"({"t":807256800,"x":{"y":[{"z\u0041)", e));
    BOOST_TEST(reader->read(R"({"t":807256800,"c":"d"})", e));
    BOOST_TEST(e.keys[0] == "d");
}

BOOST_AUTO_TEST_CASE(of_weir_proxy_have_a_service_time_unless_it_rejected_the_request) {
    auto const held = [](std::string status, std::string_view waited) {
        auto const reader = logs::format::parse("json time=t").make_reader({});
        logs::entry e;
        BOOST_TEST(reader->read(
            R"({"t":807256800,"request_time":0.25,"status":)"s.append(status).append(waited).append(
                "}"),
            e));
        return e.held;
    };
    constexpr auto waited = R"(,"waited":0.05)"sv;
    for (auto const status : {"200", "404", "500", "502"})
        BOOST_TEST((held(status, waited) == 200ms), status);
    for (auto const status : {"429", "503"}) {
        BOOST_TEST(!held(status, waited), status);
        BOOST_TEST((held(status, "") == 250ms), status);  // another program sent the response
    }
}

BOOST_AUTO_TEST_CASE(may_be_32_levels_deep) {
    BOOST_TEST((client_of(nested(32)) == "a"));
    BOOST_TEST(!client_of(nested(33)));
    BOOST_TEST(with("\"x\":" + std::string(31, '[') + std::string(31, ']')).has_value());
    BOOST_TEST(!with("\"x\":" + std::string(32, '[') + std::string(32, ']')));
    BOOST_TEST(!client_of(std::string(60'000, '[')));
}

BOOST_AUTO_TEST_CASE(keep_the_text_of_numbers) {
    for (auto const number : {"0"sv, "-0"sv, "12"sv, "1.50"sv, "1e5"sv, "1E+05"sv,
                              "18446744073709551616"sv, "-9223372036854775809"sv, "1e999"sv,
                              "123456789012345678901234567890.123456789012345678901234567890"sv})
        BOOST_TEST((with("\"c\":"s.append(number)) == number), number);
    BOOST_TEST((with("\"c\":" + std::string(60'000, '9')) == std::string(60'000, '9')));
    for (auto const wrong :
         {"01"sv, "+1"sv, ".5"sv, "5."sv, "-"sv, "1e"sv, "0x10"sv, "NaN"sv, "Infinity"sv, "1,"sv})
        BOOST_TEST(!with("\"c\":"s.append(wrong)), wrong);
    BOOST_TEST((with(R"("c":true)") == "true"));
    BOOST_TEST((with(R"("c":false)") == "false"));
    BOOST_TEST((with(R"("c":null)") == ""));
}

BOOST_AUTO_TEST_CASE(are_exactly_one_json_text) {
    BOOST_TEST((client_of(" \t{ \"t\" : 807256800 , \"c\" : \"a\" } \t") == "a"));
    for (auto const wrong :
         {R"({"t":807256800,"c":"a"}x)"sv, R"({"t":807256800,"c":"a"}{})"sv,
          R"({"t":807256800,"c":"a",})"sv, R"({"t":807256800 "c":"a"})"sv, R"({t:807256800})"sv,
          R"({'t':807256800})"sv, R"({"t":807256800,"c":a})"sv, R"({"t":807256800/**/})"sv,
          R"([{"t":807256800}])"sv, R"("t")"sv, "807256800"sv, "null"sv, "{}"sv, ""sv,
          "{\"t\":807256800}\0"sv, "\xef\xbb\xbf{\"t\":807256800}"sv,
          R"({"t":807256800,"c":nul})"sv, R"({"t":807256800,"c":[1 2]})"sv})
        BOOST_TEST(!client_of(wrong), wrong);
}

BOOST_AUTO_TEST_SUITE_END()
