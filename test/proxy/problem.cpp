// Responses that the proxy makes itself.

#include "proxy/problem.hpp"

#include "local_proxy.hpp"
#include "proxy/date.hpp"

#include <boost/test/unit_test.hpp>

#include <stdlib.h>
#include <time.h>

#include <array>
#include <ctime>
#include <string>
#include <string_view>
#include <vector>

// Files of this folder are compiled together.
namespace answers_of_its_own {
namespace {

using support::field_of;
using support::local_proxy;
using support::status_of;

config::body body(std::string type, std::vector<unsigned> status) {
    return {.status = std::move(status), .file = "a", .type = type, .text = "of " + type};
}

struct answers {
    std::vector<config::body> bodies;
    proxy::problem what{503, "no seat"};
    std::string memory;

    // The media type of the response for this Accept.
    std::string type(std::string_view accept) {
        return std::string(choose_body(bodies, what, accept, memory).type);
    }
    std::string text(std::string_view accept) {
        return std::string(choose_body(bodies, what, accept, memory).text);
    }
};

}  // namespace

BOOST_AUTO_TEST_SUITE(a_response_of_the_proxy)

BOOST_FIXTURE_TEST_CASE(is_a_line_of_text_unless_the_client_prefers_a_problem_document, answers) {
    for (std::string_view const accept :
         {"", "*/*", "text/plain", "text/html", "image/png", "text/plain, application/json;q=0.5",
          "text/plain;q=0.5, application/json;q=0.5"})
        BOOST_TEST(type(accept) == "text/plain", accept);
    BOOST_TEST(text("") == "no seat\n");
    for (std::string_view const accept :
         {"application/problem+json", "application/json", "application/*",
          "text/plain;q=0.1, application/json;q=0.2", "application/problem+json, */*;q=0.1"})
        BOOST_TEST(type(accept) == "application/problem+json", accept);
}

BOOST_FIXTURE_TEST_CASE(has_the_problem_types_of_the_draft, answers) {
    constexpr std::string_view json = "application/json";
    BOOST_TEST(text(json) == R"({"type":"about:blank","title":"Service Unavailable","status":503,)"
                             R"("detail":"no seat"})"
                             "\n");
    what.violated = "\"seats\"";
    BOOST_TEST(text(json).find("#temporary-reduced-capacity\"") != std::string::npos);
    BOOST_TEST(text(json).find(R"("violated-policies":["seats"]})") != std::string::npos);
    what.status = 429;
    BOOST_TEST(text(json).find("#quota-exceeded\"") != std::string::npos);
    BOOST_TEST(text(json).find("\"status\":429") != std::string::npos);
}

BOOST_FIXTURE_TEST_CASE(has_a_matching_body_of_the_configuration_if_any, answers) {
    bodies = {body("text/html; charset=utf-8", {429, 503}), body("image/png", {503}),
              body("text/css", {404})};
    for (std::string_view const accept : {"", "*/*", "text/html", "text/*", "video/mp4"})
        BOOST_TEST(type(accept) == "text/html; charset=utf-8", accept);
    BOOST_TEST(text("") == "of text/html; charset=utf-8");
    BOOST_TEST(type("image/*") == "image/png");
    BOOST_TEST(type("text/html;q=0.5, image/png") == "image/png");
    BOOST_TEST(type("text/html;q=0.5, image/png;q=0.5") == "text/html; charset=utf-8");
    BOOST_TEST(type("text/plain") == "text/plain");
    BOOST_TEST(type("application/json") == "application/problem+json");
    what.status = 502;
    BOOST_TEST(type("text/html") == "text/plain");
}

BOOST_AUTO_TEST_CASE(has_no_body_for_head) {
    local_proxy proxy(support::forwards + "path = \"/some\"\n");
    auto client = proxy.connect();
    client.send("HEAD / HTTP/1.1\r\nHost: test\r\n\r\n");
    proxy.settle();
    auto const head = client.take();
    BOOST_TEST(status_of(head) == 404u);
    BOOST_TEST(head.ends_with("\r\n\r\n"));
    client.send("GET / HTTP/1.1\r\nHost: test\r\n\r\n");
    proxy.settle();
    auto const whole = client.take();
    BOOST_TEST(field_of(whole, "Content-Length") == field_of(head, "Content-Length"));
    BOOST_TEST(whole.ends_with("no route matches\n"));
}

BOOST_AUTO_TEST_CASE(says_of_which_kind_the_limit_is_that_rejected) {
    struct row {
        std::string limit;
        unsigned status;
        std::string text;
    };
    std::string const by_client = "key = \"client\"\n";
    for (row const& r :
         {row{"rule = \"1 seats\"\n", 503, "all seats are in use"},
          row{"rule = \"1 seats\"\n" + by_client, 429, "too many concurrent requests"},
          row{"rule = \"1/1h\"\n", 429, "too many requests"},
          row{"rule = \"1/1h\"\n" + by_client, 429, "too many requests from this client"}}) {
        local_proxy proxy(support::forwards + "limits = [\"a\"]\n[[limit]]\nname = \"a\"\n" +
                          "queue = \"patience 0s\"\n" + r.limit);
        proxy.upstream.answer = nullptr;
        auto holder = proxy.connect();
        BOOST_TEST(proxy.ask(holder, support::get) == 0u);
        auto client = proxy.connect();
        client.send(support::get);
        proxy.settle();
        auto const answer = client.take();
        BOOST_TEST(status_of(answer) == r.status, r.limit);
        BOOST_TEST(answer.ends_with("\r\n\r\n" + r.text + "\n"), answer);
    }
}

// The time zone of the machine has no effect.
BOOST_AUTO_TEST_CASE(has_a_date_in_utc) {
    ::setenv("TZ", "HERE-5", 1);
    ::tzset();
    auto const text = [](std::time_t t) {
        std::array<char, 64> room;
        std::tm utc{};
        ::gmtime_r(&t, &utc);
        return std::string(room.data(), std::strftime(room.data(), room.size(),
                                                      "%a, %d %b %Y %H:%M:%S GMT", &utc));
    };
    proxy::date date;
    for (int i = 0; i != 2; ++i) {
        auto const before = std::time(nullptr);
        auto const told = std::string(date.now());
        auto const after = std::time(nullptr);
        bool found = false;
        for (auto t = before; t <= after; ++t)
            found = found || told == text(t);
        BOOST_TEST(found, told);
    }
    ::unsetenv("TZ");
    ::tzset();
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace answers_of_its_own
