#include "logs/format.hpp"
#include "logs/stamp.hpp"

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <list>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

using namespace std::chrono_literals;
using logs::key_source;
using kind = logs::key_source::kind;
using std::chrono::nanoseconds;

namespace {

constexpr nanoseconds morning = 807'256'800s;  // 01/Aug/1995:02:00:00 -0400

constexpr std::string_view common =
    R"(pppa006.compuserve.com - - [01/Aug/1995:02:00:00 -0400] "GET /images/launch-logo.gif HTTP/1.0" 200 1713)";
constexpr std::string_view combined =
    R"(10.1.2.3 - ann b [01/Aug/1995:02:00:00 -0400] "GET /a/b?c=d HTTP/1.1" 404 - "http://x/" "curl/8 \"q\"")";
constexpr std::string_view weir_proxy =
    R"(1995-08-01T06:00:00.250Z 127.0.0.1 "GET /dish HTTP/1.1" 200 1024 0.305 0.104 10.0.0.7:9000 "-" 5f3a)";
constexpr std::string_view weir_proxy_json =
    R"({"time":"1995-08-01T06:00:00.250Z","remote_addr":"127.0.0.1","request":"GET /dish HTTP/1.1","status":200,"body_bytes_sent":1024,"request_time":0.305,"waited":0.104,"upstream":"10.0.0.7:9000","limit":null,"request_id":"5f3a"})";
constexpr std::string_view haproxy =
    R"(Feb  6 12:14:14 localhost haproxy[14389]: 10.0.1.2:33317 [01/Aug/1995:06:00:00.655] http-in static/srv1 10/20/30/69/209 200 2750 - - ---- 1/1/1/1/0 0/0 {1wt.eu} {} "GET /index.html HTTP/1.1")";
constexpr std::string_view caddy =
    R"({"level":"info","ts":807256800.5241024,"request":{"remote_ip":"127.0.0.1","method":"PUT","host":"example.org","uri":"/a/b?c","headers":{"User-Agent":["curl/7.82.0"]}},"duration":0.25,"size":10900,"status":200})";

std::optional<logs::entry> read(std::string_view format, std::string_view line,
                                std::vector<key_source> const& keys = {{}}) {
    logs::entry e;
    auto reader = logs::format::parse(format).make_reader(keys);
    static std::list<decltype(reader)> all;  // the texts of an entry point into its reader
    return all.emplace_back(std::move(reader))->read(line, e) ? std::optional(e) : std::nullopt;
}

std::string wrong(std::string_view format, std::vector<key_source> const& keys = {}) {
    try {
        (void)logs::format::parse(format).make_reader(keys);
        return "nothing";
    } catch (std::invalid_argument const& e) {
        return e.what();
    }
}

std::string found(std::vector<std::string> const& lines) {
    try {
        return logs::format::of_lines(lines).text();
    } catch (std::invalid_argument const& e) {
        return e.what();
    }
}

bool has(std::string const& text, std::string_view part) {
    return text.find(part) != text.npos;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(formats)

BOOST_AUTO_TEST_CASE(of_times) {
    auto const whole = logs::stamp{morning, true};
    for (auto const* text :
         {"01/Aug/1995:02:00:00 -0400", "01/Aug/1995:06:00:00 +0000", "01/Aug/1995:06:00:00",
          "1995-08-01T06:00:00Z", "1995-08-01T08:00:00+02:00", "1995-08-01 06:00:00", "807256800",
          "01/Aug/1995:05:59:60 +0000"})  // a leap second
        BOOST_TEST((logs::stamp_of(text) == whole), text);
    auto const part = logs::stamp{morning + 123ms, false};
    for (auto const* text :
         {"01/Aug/1995:06:00:00.123", "1995-08-01T06:00:00.123Z", "1995-08-01T06:00:00,123+00:00",
          "807256800.123", "807256800123", "807256800123000", "807256800123000000"})
        BOOST_TEST((logs::stamp_of(text) == part), text);
    BOOST_TEST((logs::stamp_of("1700000000123456789")->at == 1'700'000'000'123'456'789ns));
    BOOST_TEST(!logs::stamp_of("9223372036854775808"));
    BOOST_TEST((logs::stamp_of("29/Feb/1996:23:59:59 +0530")->at == 825'618'599s));
    for (auto const* text :
         {"", "-", "x", "Feb  6 12:14:14", "32/Aug/1995:02:00:00 -0400",
          "01/Agu/1995:02:00:00 -0400", "29/Feb/1995:02:00:00 -0400", "01/Aug/1995:24:00:00 -0400",
          "01/Aug/1995:02:00 -0400", "01/Aug/1995:02:00:00 -04", "1995-08-01",
          "1995-13-01T06:00:00Z", "1995-08-01T06:00:00.Z", "1995-08-01T06:00:00Zx", "807256800.",
          "807256800x", "807256800.1x", "99999999999999999999", "-807256800"})
        BOOST_TEST(!logs::stamp_of(text), text);
}

BOOST_AUTO_TEST_CASE(common_and_combined) {
    auto const first = read("common", common);
    BOOST_REQUIRE(first);
    BOOST_TEST((first->at == morning));
    BOOST_TEST(first->whole_second);
    BOOST_TEST(first->status == 200u);
    BOOST_TEST(!first->held);
    BOOST_TEST(first->keys[0] == "pppa006.compuserve.com");
    auto const second =
        read("combined", combined,
             {{}, {kind::target}, {kind::method}, {kind::field, "header User-Agent"}});
    BOOST_REQUIRE(second);
    BOOST_TEST(second->status == 404u);
    BOOST_TEST(second->keys[0] == "10.1.2.3");
    BOOST_TEST(second->keys[1] == "/a/b?c=d");
    BOOST_TEST(second->keys[2] == "GET");
    BOOST_TEST(second->keys[3] == R"(curl/8 \"q\")");
    // `common` ignores further fields. Some servers did not escape a quote in a request.
    BOOST_TEST(read("common", combined).has_value());
    auto const odd =
        read("common", R"(h - - [01/Aug/1995:02:00:00 -0400] "GET /a" b" 200 5" x" 404 -)",
             {{kind::field, "request"}});
    BOOST_REQUIRE(odd);
    BOOST_TEST(odd->keys[0] == R"(GET /a" b)");
}

BOOST_AUTO_TEST_CASE(lines_that_are_truncated_or_damaged) {
    for (auto const whole : {common, combined})
        for (std::size_t n = 0; n != 60; ++n)
            BOOST_TEST(!read("common", whole.substr(0, n)), whole.substr(0, n));
    for (auto const* line :
         {R"(h - - [01/Aug/1995:02:00:00 -0400] "GET /a HTTP/1.0" 2000 1713)",
          R"(h - - [01/Aug/1995:02:00:00 -0400] "GET /a HTTP/1.0" - 1713)",
          R"( - - [01/Aug/1995:02:00:00 -0400] "GET /a HTTP/1.0" 200 1713)",
          R"(h - - [01/Aug/1995:02:61:00 -0400] "GET /a HTTP/1.0" 200 1713)",
          R"(h - - [01/Aug/1995:02:00:00 -0400] "GET /a HTTP/1.0 200 1713)"})
        BOOST_TEST(!read("common", line), line);
}

BOOST_AUTO_TEST_CASE(with_sizes) {
    static constexpr std::uint64_t none = 99;  // no line below has this size
    auto const sizes = [](std::string_view format, std::string_view line) {
        auto const e = read(format, line);
        BOOST_REQUIRE(e);
        return std::pair(e->sent.value_or(none), e->received.value_or(none));
    };
    BOOST_TEST((sizes("common", common) == std::pair(std::uint64_t(1713), none)));
    BOOST_TEST((sizes("combined", combined) == std::pair(std::uint64_t(0), none)));  // `-`
    BOOST_TEST((sizes("haproxy", haproxy) == std::pair(std::uint64_t(2750), none)));
    BOOST_TEST((sizes("weir-proxy", weir_proxy) == std::pair(std::uint64_t(1024), none)));
    BOOST_TEST((sizes("json", weir_proxy_json) == std::pair(std::uint64_t(1024), none)));
    BOOST_TEST((sizes("json", caddy) == std::pair(std::uint64_t(10900), none)));
    // The size of the body comes before that with the head, in any order.
    constexpr std::pair<std::uint64_t, std::uint64_t> both(10, 7);
    BOOST_TEST((sizes("$msec $bytes_sent $body_bytes_sent $request_length $http_content_length",
                      "807256800 300 10 400 7") == both));
    BOOST_TEST((sizes("$msec $body_bytes_sent $bytes_sent $http_content_length $request_length",
                      "807256800 10 300 7 400") == both));
    BOOST_TEST((sizes("$msec $bytes_sent $request_length", "807256800 10 7") == both));
    BOOST_TEST((sizes("$msec $bytes_sent", "807256800 ten") == std::pair(none, none)));
    BOOST_TEST(
        (sizes("json sent=to received=from", R"({"ts":807256800,"to":10,"from":"7"})") == both));
    BOOST_TEST((sizes("json", R"({"ts":807256800,"bytes_sent":null})") == std::pair(none, none)));
}

BOOST_AUTO_TEST_CASE(of_connections_of_other_protocols) {
    constexpr std::string_view text =
        R"(1995-08-01T06:00:00.250Z 127.0.0.1 "tcp 0.0.0.0:3306" 200 1024 0.305 0.104 10.0.0.7:9000 "-" -)";
    constexpr std::string_view json =
        R"({"time":"1995-08-01T06:00:00.250Z","remote_addr":"127.0.0.1","request":"tcp 0.0.0.0:5432 db.example.org","status":200,"body_bytes_sent":1024,"request_time":0.305,"waited":0.104,"upstream":"10.0.0.7:9000"})";
    BOOST_TEST(read("weir-proxy", text)->is_connection);
    BOOST_TEST(read("json", json)->is_connection);
    BOOST_TEST(!read("weir-proxy", weir_proxy)->is_connection);
    BOOST_TEST(!read("json", weir_proxy_json)->is_connection);
    // Only weir-proxy writes such lines, and a method may have that name.
    BOOST_TEST(
        !read("common", R"(h - - [01/Aug/1995:02:00:00 -0400] "tcp x" 200 17)")->is_connection);
    BOOST_TEST(!read("json", R"({"ts":807256800,"request":"tcp x"})")->is_connection);
    std::string method(text);
    method.replace(method.find("tcp 0.0.0.0:3306"), 16, "tcp /a HTTP/1.1");
    BOOST_TEST(!read("weir-proxy", method)->is_connection);
}

BOOST_AUTO_TEST_CASE(of_nginx) {
    constexpr std::string_view format =
        R"($remote_addr [$time_local] "$request" $status rt=$request_time xff="$http_x_forwarded_for")";
    constexpr std::string_view line =
        R"(10.1.2.3 [01/Aug/1995:06:00:00 +0000] "POST /a HTTP/1.1" 200 rt=1.500 xff="1.2.3.4")";
    auto const e = read(format, line, {{}, {kind::field, "header X-Forwarded-For"}});
    BOOST_REQUIRE(e);
    BOOST_TEST((e->held == 1500ms));
    BOOST_TEST((e->before == 1500ms));  // the line is written at the end
    BOOST_TEST(e->keys[1] == "1.2.3.4");
    auto const directive =
        "log_format main escape=json '$remote_addr [$time_local] '\n  '\"$request\" $status';";
    BOOST_TEST(read(directive, R"(10.1.2.3 [01/Aug/1995:06:00:00 +0000] "GET / HTTP/1.1" 200)")
                   .has_value());
    BOOST_TEST(has(wrong("$remote_addr $status"), "no time"));
    BOOST_TEST(
        has(wrong("$remote_addr$status $msec"), "no separator between $remote_addr and $status"));
    BOOST_TEST(has(wrong("$msec $"), "`$` without a variable name"));
    BOOST_TEST(has(wrong("made up"), "unknown format `made up`: use common"));
    BOOST_TEST(has(wrong("common", {{kind::field, "header Host"}}), "no field `http_host`"));
    auto const separate = read(
        "$msec $server_name $request_method $uri", "807256800 example.org GET /a",
        {{kind::host}, {kind::method}, {kind::target}, {kind::field, "header X-Api-Key", true}});
    BOOST_REQUIRE(separate);
    BOOST_TEST(separate->keys[0] == "example.org");
    BOOST_TEST(separate->keys[1] == "GET");
    BOOST_TEST(separate->keys[2] == "/a");
    BOOST_TEST(separate->keys[3] == "");
    BOOST_TEST(has(wrong("$msec $status", {{kind::target}}), "no path"));
}

BOOST_AUTO_TEST_CASE(of_weir_proxy) {
    auto const e = read("weir-proxy", weir_proxy);
    BOOST_REQUIRE(e);
    BOOST_TEST((e->at == morning + 250ms));
    BOOST_TEST(!e->whole_second);
    BOOST_TEST((e->before == 305ms));
    BOOST_TEST((e->held == 201ms));
    for (auto const* const line :
         {R"(1995-08-01T06:00:00.250Z ::1 "GET / HTTP/1.1" 429 24 0.500 0.000 - "a rate" 5f3b)",
          R"(1995-08-01T06:00:00.250Z ::1 "GET / HTTP/1.1" 503 24 0.500 0.500 - "seats" 5f3c)"}) {
        auto const rejected = read("weir-proxy", line);
        BOOST_REQUIRE(rejected);
        BOOST_TEST((rejected->before == 500ms));
        BOOST_TEST(!rejected->held);  // a rejected request has no service time
    }
}

BOOST_AUTO_TEST_CASE(of_weir_proxy_as_json) {
    auto const e = read("json", weir_proxy_json);
    BOOST_REQUIRE(e);
    BOOST_TEST((e->at == morning + 250ms));
    BOOST_TEST((e->before == 305ms));
    BOOST_TEST((e->held == 201ms));
    auto const rejected = read(
        "json",
        R"({"time":"1995-08-01T06:00:00.250Z","status":503,"request_time":0.5,"waited":0.5,"limit":"seats"})");
    BOOST_REQUIRE(rejected);
    BOOST_TEST((rejected->before == 500ms));
    BOOST_TEST(!rejected->held);
}

BOOST_AUTO_TEST_CASE(of_haproxy) {
    for (bool const has_prefix : {true, false}) {
        auto const line = has_prefix ? haproxy : haproxy.substr(haproxy.find("10.0.1.2"));
        auto const e = read("haproxy", line, {{}, {kind::target}});
        BOOST_REQUIRE(e);
        BOOST_TEST((e->at == morning + 655ms));
        BOOST_TEST(
            (e->before == -10ms));  // the request was complete 10 ms after the time in the line
        BOOST_TEST((e->held == 179ms));
        BOOST_TEST(e->keys[0] == "10.0.1.2");
        BOOST_TEST(e->keys[1] == "/index.html");
    }
    auto const broken = read(
        "haproxy",
        R"(::1:3331 [01/Aug/1995:06:00:00.655] a b/<NOSRV> -1/-1/-1/-1/5 400 187 - - PR-- 1/1/0/0/0 0/0 "<BADREQ>")");
    BOOST_REQUIRE(broken);
    BOOST_TEST((broken->held == 5ms));
    BOOST_TEST(broken->keys[0] == "::1");
}

BOOST_AUTO_TEST_CASE(may_have_service_times) {
    for (auto const* const text : {"haproxy", "weir-proxy", "json", "$time $request_time"})
        BOOST_TEST(logs::format::parse(text).says_held(), text);
    for (auto const* const text : {"common", "combined", "$time $remote_addr"})
        BOOST_TEST(!logs::format::parse(text).says_held(), text);
}

BOOST_AUTO_TEST_CASE(have_at_most_8_keys) {
    for (auto const* const text : {"common", "json"}) {
        BOOST_TEST(wrong(text, std::vector<key_source>(8)) == "nothing");
        BOOST_TEST(wrong(text, std::vector<key_source>(9)) == "more than 8 keys");
    }
}

BOOST_AUTO_TEST_CASE(of_json) {
    auto const e = read(
        "json", caddy,
        {{}, {kind::target}, {kind::field, "header User-Agent"}, {kind::method}, {kind::host}});
    BOOST_REQUIRE(e);
    BOOST_TEST((e->at == morning + 524'102'400ns));
    BOOST_TEST((e->held == 250ms));
    BOOST_TEST((e->before == 250ms));
    BOOST_TEST(e->keys[0] == "127.0.0.1");
    BOOST_TEST(e->keys[1] == "/a/b?c");
    BOOST_TEST(e->keys[2] == "curl/7.82.0");
    BOOST_TEST(e->keys[3] == "PUT");
    BOOST_TEST(e->keys[4] == "example.org");
    auto const named = read(
        "json time=at.when client=who took=ms:ms",
        R"({ "at" : {"when": "1995-08-01T06:00:00Z"}, "who":"a\"b", "ms": 12, "x": [1, {"y": null}] })");
    BOOST_REQUIRE(named);
    BOOST_TEST((named->held == 12ms));
    BOOST_TEST(named->keys[0] == R"(a"b)");
    for (auto const* line :
         {"", "{", "{}", "[]", "null", R"({"ts":})", R"({"ts":807256800)", R"({"ts":807256800}})",
          R"({"ts":"yesterday"})", R"({"ts":807256800,"status":"x"})", R"({"ts":807256800 "a":1})",
          R"({"ts":807256800,"a":"\)"})
        BOOST_TEST(!read("json", line), line);
    BOOST_TEST(!read("json", std::string(100, '[')));
    BOOST_TEST(has(wrong("json when=ts"), "unknown field `when=ts`: use time="));
}

// Reads or rejects any line without a crash. A text that needs no decoding points into the line.
BOOST_AUTO_TEST_CASE(of_damaged_lines) {
    std::mt19937_64 random(1);
    auto const any = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
    std::string const marks = "\"\\[]{}:,/ $-.0\x01\xff";
    std::size_t readable = 0;
    for (auto const& [format, whole] :
         {std::pair{"common", common},
          {"combined", combined},
          {"weir-proxy", weir_proxy},
          {"haproxy", haproxy},
          {"json", caddy}}) {
        auto const reader =
            logs::format::parse(format).make_reader({{}, {kind::target}, {kind::method}});
        for (int i = 0; i != 20'000; ++i) {
            std::string line(whole);
            for (auto changes = any(4) + 1; changes != 0 && !line.empty(); --changes) {
                auto const at = any(line.size());
                switch (any(4)) {
                    case 0:
                        line[at] = marks[any(marks.size())];
                        break;
                    case 1:
                        line.erase(at, any(8));
                        break;
                    case 2:
                        line.insert(at, line, any(line.size()), any(20));
                        break;
                    default:
                        line.resize(at);
                }
            }
            line.shrink_to_fit();
            logs::entry e;
            if (!reader->read(line, e))
                continue;
            ++readable;
            for (auto const key : e.keys)
                BOOST_TEST_REQUIRE((key.empty() || whole == caddy ||
                                    (key.data() >= line.data() &&
                                     key.data() + key.size() <= line.data() + line.size())));
        }
    }
    BOOST_TEST(readable > 5'000);
}

BOOST_AUTO_TEST_CASE(are_recognised) {
    BOOST_TEST(found({std::string(common)}) == "common");
    BOOST_TEST(found({std::string(combined), "dirt", std::string(combined)}) == "combined");
    BOOST_TEST(found({std::string(weir_proxy)}) == "weir-proxy");
    BOOST_TEST(found({std::string(weir_proxy_json)}) == "json");
    BOOST_TEST(found({std::string(haproxy)}) == "haproxy");
    BOOST_TEST(found({std::string(caddy)}) == "json");
    BOOST_TEST(
        has(found({"dirt", "more dirt", std::string(common)}), "cannot detect the log format"));
    BOOST_TEST(has(found({"Feb  6 12:14:14 host nginx: 1.2.3.4 GET /"}), "have no year"));
    BOOST_TEST(has(found({}), "cannot detect the log format"));
}

BOOST_AUTO_TEST_SUITE_END()
